#ifndef SLUICE_TESTS_GPU_SUPPORT_H
#define SLUICE_TESTS_GPU_SUPPORT_H

#include "base/rng.h"
#include "gpu/batch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Files and boxes for the decoder on the device, and what the CPU makes of them. */

struct gpu_test_sample {
    struct sluice_buf *file;
    struct sluice_buf *given; /* to the batch: the file, or the parts of it that are needed */
    struct sluice_jpeg_index *index; /* or NULL */
    uint32_t width, height;
    /* One for each view; the first one's row is the sample's number. */
    struct sluice_gpu_request requests[SLUICE_GPU_MAX_VIEWS];
};

/* A file of a kind that the device decodes, of any size up to 160 x 160 (often thin ones), with
 * restart markers or without. */
struct sluice_buf *gpu_test_file(struct sluice_rng *rng, uint32_t *width, uint32_t *height);

/* The file's index with points far apart or close, or NULL. */
struct sluice_jpeg_index *gpu_test_index(struct sluice_rng *rng, const struct sluice_buf *file);

/* Changes, removes or repeats some bytes, mostly of the scan, which is most of a file. */
void gpu_test_damage(struct sluice_rng *rng, struct sluice_buf *file);

/* For each view a box anywhere in the image, often at an edge, and a resize to the view's size or a
 * part of one. */
void gpu_test_requests(struct sluice_rng *rng, const struct sluice_gpu_limits *limits,
                       uint32_t width, uint32_t height, uint32_t row,
                       struct sluice_gpu_request *requests);

/* The row by image/codecs/codec.h and image/resize.h; its status. */
sluice_status gpu_test_reference(const struct sluice_gpu_limits *limits, const uint8_t *bytes,
                                 size_t len, const struct sluice_gpu_request *requests,
                                 uint8_t *row);

/* Copies a row's bytes from its views' places in a batch's memory, or there with is_back. */
void gpu_test_copy_row(const struct sluice_gpu_row_views *views, uint8_t *batch, uint32_t row,
                       uint8_t *bytes, bool is_back);

/* Decodes a batch: sluice_gpu_decode_host(), or the device. */
typedef void gpu_test_decode_fn(struct sluice_gpu_batch *batch, uint8_t *rows,
                                sluice_status *statuses);

/* Batches of random samples, with and without an index, each compared with the CPU's row.  `batch`
 * is empty. */
void gpu_test_random_batches(struct sluice_gpu_batch *batch, gpu_test_decode_fn *decode,
                             unsigned num_batches, uint64_t seed);

/* Batches of files with random tables (support/random_jpeg.h), with and without an index, each
 * compared with what libjpeg-turbo and image/resize.h make of it, and with the CPU's row.  Enough
 * of them must have every sampling, codes of 16 bits, quantisers of 16, and the rest of what the
 * header names. */
void gpu_test_random_tables(struct sluice_gpu_batch *batch, gpu_test_decode_fn *decode,
                            unsigned num_batches, uint64_t seed);

/* Batches of such files and of those that usual encoders write, three of four of them damaged:
 * where the device gives a row, it is the CPU's; what it declines is left to the CPU, whose status
 * counts; and no other sample changes.  Returns how many damaged samples the device declined. */
unsigned gpu_test_damaged_batches(struct sluice_gpu_batch *batch, gpu_test_decode_fn *decode,
                                  unsigned num_batches, uint64_t seed);

/* Damaged samples in a batch of these; and how many batches a test takes: 540 damaged samples, or
 * in the long form 10,000. */
#define GPU_TEST_NUM_DAMAGED 9
unsigned gpu_test_num_damaged_batches(void);

#endif
