#ifndef SLUICE_TESTS_GPU_PLACE_SUPPORT_H
#define SLUICE_TESTS_GPU_PLACE_SUPPORT_H

#include "gpu/place.h"
#include "gpu_support.h"
#include "support/test.h"

/* Batches of a place and what the CPU makes of them: for test_place.c, which runs on either kind
 * of place, and test_place_cuda.c. */

#define PLACE_TEST_ROWS 24

/* Of the kind of place that is tested: test_place_host.c or test_place_cuda.c has them. */
extern const bool place_test_is_host;
const char *place_test_skip(void); /* why it cannot be tested here, or NULL */
/* A copy of a block's rows, which are made. */
void place_test_read(const struct sluice_gpu_block *block, size_t bytes, uint8_t *rows);

/* Two blocks, one lane and one staging buffer with 256 MB. */
struct sluice_gpu_place_options place_test_options(uint32_t width, uint32_t height);
struct sluice_gpu_place *place_test_open(const struct sluice_gpu_place_options *options);

struct place_test_batch {
    struct sluice_gpu_place_options options;
    struct sluice_gpu_place *place;
    size_t row_bytes;
    struct sluice_gpu_row_views views;
    uint8_t *want, *rows; /* the CPU's, row by row; the block's */
    uint8_t *pixels;      /* of the rows to upload */
    struct sluice_buf *files[PLACE_TEST_ROWS];
    struct sluice_jpeg_index *indexes[PLACE_TEST_ROWS]; /* or NULL */
    struct sluice_gpu_limits limits;                    /* as far as requests depend on them */
    struct sluice_gpu_request requests[PLACE_TEST_ROWS][SLUICE_GPU_MAX_VIEWS];
    struct sluice_jpeg_stretch stretch;
    struct sluice_gpu_prepared prepared[PLACE_TEST_ROWS];
    bool is_prepared[PLACE_TEST_ROWS]; /* or refused: */
    sluice_status refusals[PLACE_TEST_ROWS];
    bool is_decoded[PLACE_TEST_ROWS]; /* on the device; else uploaded */
    uint32_t labels[PLACE_TEST_ROWS];
    sluice_status statuses[PLACE_TEST_ROWS];
    struct sluice_hash128 hashes[PLACE_TEST_ROWS];
    struct sluice_gpu_work work;
};

/* A status that finish gives no row. */
#define PLACE_TEST_UNTOUCHED SLUICE_E_CLOSED

struct place_test_batch *place_test_batch_create(struct sluice_gpu_place *place,
                                                 const struct sluice_gpu_place_options *options);
void place_test_batch_destroy(struct place_test_batch *batch);

/* Random files for all rows, with and without an index, until drop. */
void place_test_make_files(struct place_test_batch *batch, struct sluice_rng *rng);
void place_test_drop_files(struct place_test_batch *batch);
/* All rows from copies of one file. */
void place_test_use_file(struct place_test_batch *batch, const struct sluice_buf *file,
                         uint32_t width, uint32_t height);
struct sluice_gpu_request place_test_whole(const struct sluice_gpu_place_options *options,
                                           uint32_t width, uint32_t height, uint32_t row);

/* Prepares the row's file, in the staging buffer or apart. */
void place_test_prepare(struct place_test_batch *batch, struct sluice_gpu_staging *staging,
                        uint32_t row);
void place_test_upload(struct place_test_batch *batch, struct sluice_gpu_lane *lane, uint32_t row);
/* Decodes the row's file, which is prepared apart unless it is prepared, or uploads what the CPU
 * makes of it. */
void place_test_add(struct place_test_batch *batch, struct sluice_gpu_lane *lane, uint32_t row,
                    bool is_uploaded);
void place_test_finish(struct place_test_batch *batch, struct sluice_gpu_lane *lane);
/* All rows of the block are the CPU's; statuses and hashes are those of the rows that were
 * decoded. */
void place_test_check(struct place_test_batch *batch, const struct sluice_gpu_block *block);

/* Batches of random files, of which so many in 8 are uploaded, with a staging buffer or without. */
void place_test_run(struct sluice_gpu_place *place, const struct sluice_gpu_place_options *options,
                    unsigned lane, unsigned num_batches, uint32_t num_uploaded, uint64_t seed);

#endif
