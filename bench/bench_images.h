#ifndef SLUICE_BENCH_BENCH_IMAGES_H
#define SLUICE_BENCH_BENCH_IMAGES_H

#include "base/buf.h"
#include "image/image.h"

#include <stddef.h>

/* Image files in memory, and what is done with them. */

#define BENCH_TRAIN "decode,random_resized_crop=224,hflip,to_tensor,normalize=imagenet"

/* Outputs go round in this many rows, as in a batch: none is in cache when it is written. */
#define BENCH_BATCH_ROWS 64

struct bench_image {
    char *path;
    struct sluice_buf *file;
    struct sluice_image_info info;
};

/* Up to max_images (0: all) of a folder, spread evenly over it, without those that are no images:
 * of them stderr tells.  The bench ends where none is left. */
struct bench_image *bench_images_load(const char *root, size_t max_images, size_t *num_images);
void bench_images_free(struct bench_image *images, size_t num_images);

#endif
