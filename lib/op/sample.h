#ifndef SLUICE_OP_SAMPLE_H
#define SLUICE_OP_SAMPLE_H

#include "image/resize.h"

#include <stdbool.h>
#include <stdint.h>

/* Samples, and the kinds of their data and of the ops that change it.  op/pipeline.h explains
 * splits and draws.
 *
 * Threads: a sample belongs to one thread at a time. */

struct sluice_buf;        /* base/buf.h: a pooled, reference-counted byte buffer */
struct sluice_form_type;  /* op/form.h */
struct sluice_jpeg_index; /* image/jpeg/index.h */
struct sluice_pipeline;
struct sluice_scratch; /* decompressor state and row memory for one thread */

enum sluice_kind {
    SLUICE_KIND_FILE, /* bytes as stored (image/image.h has the formats) */
    SLUICE_KIND_U8,   /* height x width x channels */
    SLUICE_KIND_F32,  /* channels x height x width, little endian on the wire */
};

/* The kind of change that an op makes to a sample.  Callers use the kind, never the name. */
enum sluice_op_kind {
    SLUICE_OP_DECODE,   /* a file to pixels */
    SLUICE_OP_UPRIGHT,  /* turns the image upright; takes effect within decode */
    SLUICE_OP_RESAMPLE, /* a box of the image, resized or as it is */
    SLUICE_OP_MIRROR,   /* mirrors left to right in some samples */
    SLUICE_OP_TABLE,    /* maps each u8 value, by channel */
    SLUICE_OP_PIXELS,   /* changes pixels and keeps the image's size */
    SLUICE_OP_CHOICE,   /* draws which of the ops in its parentheses run */
    SLUICE_OP_BLEND,    /* mixes the results of several chains of ops, all of the same image */
    SLUICE_OP_VIEWS,    /* makes several images, each by ops of its own */
    SLUICE_OP_TENSOR,   /* u8 pixels to float32 */
    SLUICE_OP_SCALE,    /* subtracts a mean and divides by a deviation, by channel */
};

/* Names the random draws of one sample in one epoch.  Both nodes derive the same crop and flip from
 * it, so no draw is sent, but for those that depend on what the compute node alone has. */
struct sluice_draw_key {
    uint64_t seed;
    uint32_t
        epoch; /* the training's epoch; where samples repeat, a new number for each repetition */
    uint64_t sample_id;
    /* The epoch of the training, for pipelines that have a schedule; it does not select the draws.
     */
    uint32_t schedule;
    /* The box that iou_crop keeps of its input (sluice_pipeline_draw_crop()); 0 x 0: all of it. */
    struct sluice_box crop;
    /* The size of the sample's batch, a number of multi_scale's (sluice_pipeline_draw_bucket()); of
     * a number that it has not it is the base. */
    uint32_t bucket;
};

/* The most ops of a pipeline.  (SLUICE_MAX_OPS in sluice.h is the size of arrays in structs that
 * callers allocate.) */
#define SLUICE_PIPELINE_MAX_OPS 32

/* The image in a file. */
struct sluice_file_image {
    uint32_t width, height; /* as stored, before any turn; 0: unknown */
    uint32_t orientation;   /* 1 .. 8 (image/orientation.h); 1 unless the pipeline turns images */
};

/* A sample between two splits.  Owns one reference to `data`. */
struct sluice_sample {
    struct sluice_draw_key key;
    unsigned ops_done; /* the split it stands at */
    enum sluice_kind kind;
    uint32_t width, height, channels; /* 0 while kind is SLUICE_KIND_FILE */
    struct sluice_buf *data;
    const struct sluice_form_type *coding; /* the form of `data`; NULL: the plain one of its kind */
    /* The file's index, or NULL; owned (sluice_jpeg_index_destroy()).  It makes decoding and
     * cutting faster and changes no result; the index of another file has no effect.  If it says
     * is_partial, only sluice_pipeline_file_box() was read, and an op that needs more fails. */
    struct sluice_jpeg_index *jpeg_index;
    /* The file's, if it was asked for (op/geometry.h); ops leave it as it is. */
    struct sluice_file_image image;
};

struct sluice_size {
    uint32_t width, height;
};

/* The result of a pipeline's tail for each u8 value, by channel. */
typedef float sluice_pipeline_table[3][256];

/* The size of an image as far as it is known without the image: either both sides, or how it
 * follows from the decoded image's size. */
struct sluice_known_size {
    uint32_t width, height; /* or 0 */
    /* Resized to this shorter or longer side.  With both: to the shorter side, unless the longer
     * side would exceed `longer`.  0 and 0: the image keeps its size. */
    uint32_t shorter, longer;
    struct {
        uint32_t width, height;
    } padding; /* added to that size */
    /* The size follows from that one by a rule of another kind: sides are rounded to multiples, or
     * the image is fitted to one of several sizes.  With max_pixels > 0 it has about as many pixels
     * as the decoded image, within these limits. */
    bool is_rounded;
    uint64_t min_pixels, max_pixels;
    uint64_t more_pixels; /* of views: those after the first, whose size this is */
};

#endif
