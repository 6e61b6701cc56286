#ifndef SLUICE_GPU_PLACE_H
#define SLUICE_GPU_PLACE_H

#include "base/error.h"
#include "base/hash.h"
#include "gpu/batch.h"
#include "gpu/gate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The GPU as a place where samples are finished: the rows of a batch in the device's memory,
 * decoded there from JPEG files or uploaded from rows that the CPU made.
 *
 *     a place   one device and its memory: a fixed number of blocks, each for the rows of a batch
 *     a staging buffer: page-locked memory of the host, to which workers write in parallel what the
 *               device needs of a batch's files
 *     a lane    makes one batch at a time, with a stream and a decoder of its own; several lanes
 *               work side by side, so that one uploads while another decodes
 *
 *     workers, for each file:
 *                   sluice_gpu_prepare(place, staging, &file, &request, ..., &sample, &err)
 *
 *     sluice_gpu_lane_begin(lane, block, staging);
 *     for each row: sluice_gpu_lane_decode(lane, &sample, row, &err)
 *                or sluice_gpu_lane_upload(lane, at, pixels, bytes, &err);
 *     sluice_gpu_lane_finish(lane, labels, statuses, hashes, &times, &err);    waits for the rows
 *     for each row with a fault: sluice_gpu_lane_upload() of the CPU's row, then finish again
 *
 * create allocates all memory of the device, and of the host all but that of
 * sluice_gpu_host_alloc(): for each lane and staging buffer 1.375 times the bytes of files that a
 * lane has room for (0.14 MB for each row, tuning.h), and a kilobyte for each row.
 *
 * Threads: a lane belongs to one thread at a time; all else may be called from any thread.  No call
 * changes the calling thread's current device. */

struct sluice_buf;
struct sluice_buf_pool;
struct sluice_gpu_place;
struct sluice_gpu_staging;
struct sluice_gpu_lane;
struct sluice_gpu_block;

struct sluice_gpu_place_options {
    /* The kernels' source on the CPU, and "device" memory of the host: for tests.  Any build. */
    bool is_host;
    int device;        /* of CUDA's count in this process, from 0 */
    uint32_t max_rows; /* of a batch */
    /* The views of what lanes decode, one after the other in a row. */
    uint32_t num_views;
    struct sluice_gpu_view_size views[SLUICE_GPU_MAX_VIEWS];
    /* The most bytes of a row that is uploaded, and with has_any_size of one that is decoded; 0: those
     * of the views. */
    size_t most_row_bytes;
    /* Batches have one view, with a size of their own each: sluice_gpu_lane_set_size().  Its sides
     * are at most those of views[0]. */
    bool has_any_size;
    unsigned num_blocks, num_lanes; /* >= 1 */
    /* In addition to one for each lane; may be 0.  Fewer are created if memory is short. */
    unsigned num_stagings;
    /* Limit of the device's memory for the place; 0: enough for `max_rows` usual files, at most a
     * quarter of the free memory. */
    uint64_t memory_bytes;
    /* Lanes have a point before their decoding and one before their hashes; uploads do not wait.
     * `data` is borrowed for the place's life. */
    struct sluice_gpu_gate gate;
};

/* SLUICE_E_UNSUPPORTED: this build lacks CUDA, or the device does not exist; SLUICE_E_NO_MEMORY:
 * the message has the needed and the free bytes; SLUICE_E_INVALID: sizes that are 0 or too large,
 * or rows of at most 232 bytes, for which XXH3 has another algorithm. */
SLUICE_MUST_USE sluice_status
sluice_gpu_place_create(const struct sluice_gpu_place_options *options,
                        struct sluice_gpu_place **place, struct sluice_err *err);
/* Call it once all lanes are idle and all blocks are given back.  NULL is allowed. */
void sluice_gpu_place_destroy(struct sluice_gpu_place *place);

int sluice_gpu_place_device(const struct sluice_gpu_place *place); /* -1: is_host */
bool sluice_gpu_place_has_any_size(const struct sluice_gpu_place *place);
uint64_t sluice_gpu_place_bytes(const struct sluice_gpu_place *place); /* of the device's memory */
/* Bytes of the host's memory that are page-locked now. */
uint64_t sluice_gpu_place_locked_bytes(struct sluice_gpu_place *place);
unsigned sluice_gpu_place_num_lanes(const struct sluice_gpu_place *place);
struct sluice_gpu_lane *sluice_gpu_place_lane(struct sluice_gpu_place *place, unsigned lane);

/* Measures the rate of uploads from memory of sluice_gpu_host_alloc(), for a plan, by a few uploads
 * of at most 16 MB, about 10 ms in all.  Call it while all blocks are free and all lanes are idle;
 * overwrites the blocks.  INFINITY with is_host, where nothing is uploaded. */
SLUICE_MUST_USE sluice_status sluice_gpu_place_measure_upload(struct sluice_gpu_place *place,
                                                              double *bytes_per_s,
                                                              struct sluice_err *err);

/* Memory of the host from which uploads are fastest (page-locked); 64-byte aligned.  On failure the
 * message has the bytes requested and those allocated before. */
SLUICE_MUST_USE sluice_status sluice_gpu_host_alloc(struct sluice_gpu_place *place, size_t bytes,
                                                    void **memory, struct sluice_err *err);
void sluice_gpu_host_free(struct sluice_gpu_place *place, void *memory, size_t bytes);

/* --- blocks --- */

/* NULL: all are in use. */
struct sluice_gpu_block *sluice_gpu_place_take(struct sluice_gpu_place *place);
/* max_rows x most_row_bytes on the device, u8, 256-byte aligned; decoded rows follow each other
 * without gaps. */
uint8_t *sluice_gpu_block_rows(const struct sluice_gpu_block *block);
/* Gives a block back.  Nothing reads or writes it any more. */
void sluice_gpu_block_give(struct sluice_gpu_block *block);
/* Gives a block back that work queued on `stream` (a cudaStream_t; NULL: the legacy default stream)
 * may still read or write.  The next batch in the block waits for that work on the device.  The
 * stream must belong to the device and must not be captured. */
void sluice_gpu_block_give_after(struct sluice_gpu_block *block, void *stream);

/* --- staging buffers: any threads, several at once for one buffer --- */

/* NULL: all are in use. */
struct sluice_gpu_staging *sluice_gpu_place_take_staging(struct sluice_gpu_place *place);
/* Its content may be overwritten. */
void sluice_gpu_staging_give(struct sluice_gpu_staging *staging);

struct sluice_gpu_file {
    const uint8_t *bytes;
    size_t len;
    const struct sluice_jpeg_index *index; /* or NULL */
};

/* The part of a file that the device needs. */
struct sluice_gpu_prepared {
    struct sluice_buf *data; /* owned; NULL: it is in the staging buffer */
    uint32_t at, bytes;      /* in the staging buffer */
};

/* Writes the part of the file that the device needs to the staging buffer or, if that is NULL or
 * full, to a buffer from the pool, which the lane copies.  Borrows nothing.  The stretch is
 * reusable memory, {0} at first.  SLUICE_E_UNSUPPORTED, SLUICE_E_CORRUPT: the CPU must decode the
 * file (sample.h), for example because it does not fit any batch; SLUICE_E_NO_MEMORY: of the pool;
 * SLUICE_E_INVALID: the request is wrong (sample.h). */
SLUICE_MUST_USE sluice_status
sluice_gpu_prepare(struct sluice_gpu_place *place, struct sluice_gpu_staging *staging,
                   const struct sluice_gpu_file *file, const struct sluice_gpu_request *requests,
                   struct sluice_jpeg_stretch *stretch, struct sluice_buf_pool *pool,
                   struct sluice_gpu_prepared *prepared, struct sluice_err *err);
void sluice_gpu_prepared_clear(struct sluice_gpu_prepared *prepared); /* idempotent; fine on {0} */

/* --- lanes --- */

/* Begins a batch in the block, which stays the caller's.  Takes the staging buffer with samples of
 * the batch and returns the lane's own to the place instead; NULL: no sample is in a staging
 * buffer.  Drops unfinished samples and rows of the lane's last batch. */
void sluice_gpu_lane_begin(struct sluice_gpu_lane *lane, struct sluice_gpu_block *block,
                           struct sluice_gpu_staging *staging);
/* Sets the size of the batch's rows, after begin, in a place with has_any_size: at least 233 bytes of
 * pixels, and no more than the options say.  is_hashed: hashes are over pixels, height and width (4
 * bytes each, little endian) and label. */
void sluice_gpu_lane_set_size(struct sluice_gpu_lane *lane, const struct sluice_gpu_view_size *size,
                              bool is_hashed);
/* Begins the same batch again. */
void sluice_gpu_lane_begin_again(struct sluice_gpu_lane *lane);

/* Adds a prepared sample, from the batch's staging buffer or its own buffer.  May start decoding
 * the samples added before.  SLUICE_E_INVALID: the row is out of range, or there are more files
 * than rows; the batch can go on.  Other failures are the device's: the batch is lost. */
SLUICE_MUST_USE sluice_status sluice_gpu_lane_decode(struct sluice_gpu_lane *lane,
                                                     const struct sluice_gpu_prepared *sample,
                                                     uint32_t row, struct sluice_err *err);

/* Adds finished pixels, a row or a part of one, at byte `at` of the block.  Borrows them until
 * finish, even if that fails, or drop.  Neighbours that follow each other are copied at once.
 * SLUICE_E_INVALID: the block ends before; the batch can go on. */
SLUICE_MUST_USE sluice_status sluice_gpu_lane_upload(struct sluice_gpu_lane *lane, uint64_t at,
                                                     const uint8_t *pixels, size_t bytes,
                                                     struct sluice_err *err);

struct sluice_gpu_work {
    uint32_t decoded;      /* samples, without a fault */
    uint64_t upload_bytes; /* of files and rows */
    double device_s;       /* of the kernels, by the device's clock; is_host: of the thread's CPU */
};

/* Waits until all rows added since begin or the last finish are in the block.  For each decoded
 * row: statuses[row] is SLUICE_OK or SLUICE_E_CORRUPT (the CPU's decoder must decide); hashes[row],
 * unless `hashes` is NULL, is XXH3-128 of its pixels followed by labels[row] as 8 bytes, little
 * endian (load/digest.h).  Entries of other rows are untouched.  A failure is the device's: the
 * batch is lost. */
SLUICE_MUST_USE sluice_status sluice_gpu_lane_finish(
    struct sluice_gpu_lane *lane, const uint32_t *labels, sluice_status *statuses,
    struct sluice_hash128 *hashes, struct sluice_gpu_work *work, struct sluice_err *err);

/* Abandons the batch.  Waits for work in progress, which may have written to the block. */
void sluice_gpu_lane_drop(struct sluice_gpu_lane *lane);

#endif
