#ifndef SLUICE_BENCH_BENCH_PIPELINE_H
#define SLUICE_BENCH_BENCH_PIPELINE_H

#include "base/hash.h"
#include "pipeline/pipeline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bench_pipeline's two halves: the routes that a sample can take, each timed for every sample,
 * and the program that lets them take turns and adds up. */

#define BENCH_TRAIN "decode,random_resized_crop=224,hflip,to_tensor,normalize=imagenet"
#define BENCH_VAL "decode,resize=256,center_crop=224,to_tensor,normalize=imagenet"

/* What a route's time is compared with; the order of reference.py's answers. */
enum bench_reference {
    REFERENCE_DECODE,
    REFERENCE_RESIZE,
    REFERENCE_FLIP,
    REFERENCE_TENSOR, /* to_tensor and normalize */
    REFERENCE_WHOLE,
    REFERENCE_VAL,
    NUM_REFERENCES,
    REFERENCE_NONE = NUM_REFERENCES,
};

struct bench_image {
    char *path;
    struct sluice_buf *file;
    uint32_t width, height;
};

struct bench_task { /* one sample: an image in an epoch */
    const struct bench_image *image;
    struct sluice_draw_key key;
};

struct bench_outcome {
    double us;
    uint64_t bytes;
};

struct routes; /* scratch memory and pipelines of one process */

struct bench_route {
    const char *name;
    enum bench_reference reference;
    bool makes_f32; /* by the training pipeline: to be compared bit by bit */
    /* Runs one sample and says how long what the name says took, in CPU time of this thread,
     * and how many bytes it hands on. */
    struct bench_outcome (*run)(struct routes *routes, const struct bench_task *task);
};

extern const struct bench_route bench_routes[];
extern const size_t bench_num_routes;

struct routes *bench_routes_create(void);
/* Hash of the tensor that the last route with makes_f32 left. */
struct sluice_hash128 bench_routes_hash(const struct routes *routes);
const struct sluice_pipeline *bench_routes_train(const struct routes *routes);

#endif
