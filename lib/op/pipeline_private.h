#ifndef SLUICE_OP_PIPELINE_PRIVATE_H
#define SLUICE_OP_PIPELINE_PRIVATE_H

#include "image/codecs/codec.h"
#include "image/lookup.h"
#include "image/pack/pack.h"
#include "op/pipeline.h"
#include "op/tensor.h"

/* Shared by pipeline.c (making and asking), run.c and run_region.c (running). */

#define SLUICE_SPEC_ROOM 4096 /* of the canonical text */

struct sluice_pipeline {
    struct sluice_op ops[SLUICE_PIPELINE_MAX_OPS];
    unsigned num_ops, u8_split;
    unsigned first_owned; /* of a view: the ops before it are its pipeline's */
    unsigned most_drawn;  /* ops that may run on a sample, or for one view of it */
    /* The end of the fused stage that begins at an op.  stage_end[0] is the split after the ops
     * that need only a box of the file's image, or 0. */
    unsigned stage_end[SLUICE_PIPELINE_MAX_OPS];
    bool has_kernels; /* a GPU can run all u8 ops after stage_end[0], or those of each view */
    enum sluice_numerics numerics;
    unsigned num_views;
    struct sluice_size view_sizes[SLUICE_MAX_VIEWS];
    /* Behind views(): the pipeline of each view, of the ops before views() and its own.  NULL: the
     * sample is the only view. */
    struct sluice_pipeline *views[SLUICE_MAX_VIEWS];
    unsigned num_copies[SLUICE_MAX_VIEWS]; /* in the text, of the first of each; of others 0 */
    uint64_t fingerprint;
    const struct sluice_scale *scale;   /* of the op of kind SLUICE_OP_SCALE; NULL: none */
    sluice_pipeline_table tensor_table; /* to_tensor alone */
    sluice_pipeline_table tail_table;
    struct sluice_lookup tensor_lookup, tail_lookup; /* the same, for the kernels */
    struct sluice_lookup batch_lookup;               /* the tail to a batch */
    char spec[SLUICE_SPEC_ROOM];
};

struct sluice_scratch {
    struct sluice_codec *codec;
    struct sluice_resizer *resizer;
    struct sluice_packer *packer;
    struct sluice_buf_pool *pool;
    uint64_t max_pixels;
    bool measure_ops;
    uint64_t op_ns[SLUICE_PIPELINE_MAX_OPS];
    const struct sluice_jpeg_index *jpeg_index; /* borrowed, or NULL */
};

/* The index of the last op that may change sizes; 0: none does. */
unsigned sluice_pipeline_size_op(const struct sluice_pipeline *pipeline);

/* The index of the first op after decode and exif_transpose. */
static inline unsigned sluice_first_op(const struct sluice_pipeline *pipeline)
{
    return sluice_pipeline_is_upright(pipeline) ? 2 : 1;
}

/* The sample's index, or else the scratch's. */
static inline const struct sluice_jpeg_index *
sluice_scratch_index(const struct sluice_scratch *scratch, const struct sluice_sample *sample)
{
    return sample->jpeg_index ? sample->jpeg_index : scratch->jpeg_index;
}

#endif
