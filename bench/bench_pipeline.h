#ifndef SLUICE_BENCH_BENCH_PIPELINE_H
#define SLUICE_BENCH_BENCH_PIPELINE_H

#include "base/hash.h"
#include "bench/bench_images.h"
#include "image/codecs/codec.h"
#include "image/lookup.h"
#include "op/pipeline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bench_pipeline's parts: the routes that a sample can take, each timed for every sample; those
 * whose tensors are only compared; and the program that lets them take turns and adds up. */

#define BENCH_VAL "decode,resize=256,center_crop=224,to_tensor,normalize=imagenet"

/* What a route's time is compared with; the order of reference.py's answers. */
enum bench_reference {
    REFERENCE_DECODE,
    REFERENCE_RESIZE,
    REFERENCE_FLIP,
    REFERENCE_TENSOR, /* to_tensor and normalize */
    REFERENCE_U8,     /* the training pipeline up to the flip */
    REFERENCE_WHOLE,  /* all of it */
    REFERENCE_VAL,
    NUM_REFERENCES,
    REFERENCE_NONE = NUM_REFERENCES,
};

struct bench_task { /* one sample: an image in an epoch */
    const struct bench_image *image;
    struct sluice_draw_key key;
};

struct bench_outcome {
    double us;
    uint64_t bytes;
    bool is_declined; /* this file was for another way, which was taken in its place */
};

/* What a route leaves, to be compared bit by bit; pixels as the tensor that the table makes of
 * them. */
enum bench_tensor { TENSOR_NONE, TENSOR_TRAIN, TENSOR_VAL };

struct routes { /* scratch memory and pipelines of one process */
    struct sluice_pipeline *train, *val;
    struct sluice_scratch *scratch, *measuring; /* the latter keeps op times */
    struct sluice_buf_pool *pool;
    struct sluice_codec *codec;
    struct sluice_resizer *resizer;
    struct sluice_lookup lookup;
    uint8_t *batch;
    size_t row_bytes, next_row;
    uint8_t *last;
};

struct bench_route {
    const char *name;
    enum bench_reference reference;
    enum bench_tensor tensor;
    /* Runs one sample and says how long what the name says took, in CPU time of this thread,
     * and how many bytes it hands on. */
    struct bench_outcome (*run)(struct routes *routes, const struct bench_task *task);
};

extern const struct bench_route bench_routes[];
extern const size_t bench_num_routes;

struct routes *bench_routes_create(void);
/* Hash of the tensor that the last route with one left. */
struct sluice_hash128 bench_routes_hash(const struct routes *routes);

/* The pieces of a route. */
uint8_t *bench_next_row(struct routes *r);
void bench_must(sluice_status status, const struct bench_task *task, const struct sluice_err *err);
struct sluice_sample bench_sample_of(const struct bench_task *task);
typedef bool (*bench_decode_fn)(struct routes *r, const struct bench_task *task,
                                const struct sluice_box *box, struct sluice_rgb *rgb);
bool bench_decode_region(struct routes *r, const struct bench_task *task,
                         const struct sluice_box *box, struct sluice_rgb *rgb);
/* The training pipeline step by step, its box by `decode`.  Where that is NULL or declines the
 * file, libjpeg-turbo decodes the whole image and the box is a view of it. */
struct bench_outcome bench_with_decoder(struct routes *r, const struct bench_task *task,
                                        bench_decode_fn decode);

/* Compared and not timed: every form, split and way of decoding, each with and without an
 * index.  Scalar kernels after libjpeg-turbo's whole decode are the first of them. */
extern const size_t bench_num_checks;
const char *bench_check_name(size_t check);
enum bench_tensor bench_check_tensor(size_t check);
/* False: the file is not for this way. */
bool bench_check_run(size_t check, struct routes *routes, const struct bench_task *task);

#endif
