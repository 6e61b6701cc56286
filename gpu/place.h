#ifndef SLUICE_GPU_PLACE_H
#define SLUICE_GPU_PLACE_H

#include "base/error.h"
#include "base/hash.h"
#include "gpu/batch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The GPU as a place where samples are finished: the rows of a batch in the device's memory,
 * decoded there from JPEG files or uploaded from rows that the CPU made.
 *
 *     a place   one device and its memory: a fixed number of blocks, each for the rows of a batch
 *     a staging buffer: page-locked memory of the host in which the files of a batch gather, as
 *               workers write side by side what the device needs of each
 *     a lane    makes one batch at a time, with a stream and a decoder of its own; several lanes
 *               work side by side, so that one uploads while another decodes
 *
 *     workers, for each file:
 *                   sluice_gpu_prepare(place, staging, &file, &request, ..., &sample, &err)
 *
 *     sluice_gpu_lane_begin(lane, block, staging);
 *     for each row: sluice_gpu_lane_decode(lane, &sample, row, &err)
 *                or sluice_gpu_lane_upload(lane, row, pixels, &err);
 *     sluice_gpu_lane_finish(lane, labels, statuses, hashes, &times, &err);    waits for the rows
 *     what has a fault: sluice_gpu_lane_upload() of the CPU's row, and finish again
 *
 * All of the device's memory is allocated by create, and so is the host's, but for
 * sluice_gpu_host_alloc(): for each lane and staging buffer 1.375 times the bytes of files that a
 * lane has room for (0.14 MB for each row, tuning.h), and a kilobyte for each row.
 *
 * Threads: a lane belongs to one thread at a time; all else may be called from any thread.  The
 * device that is current in the calling thread stays so. */

struct sluice_buf;
struct sluice_buf_pool;
struct sluice_gpu_place;
struct sluice_gpu_staging;
struct sluice_gpu_lane;
struct sluice_gpu_block;

struct sluice_gpu_place_options {
    /* The kernels' source on the CPU, and "device" memory of the host: for tests.  Any build. */
    bool is_host;
    int device;                     /* of CUDA's count in this process, from 0 */
    uint32_t max_rows;              /* of a batch */
    uint32_t height, width;         /* of what lanes decode */
    size_t most_row_bytes;          /* of rows that are uploaded; 0: height * width * 3 */
    unsigned num_blocks, num_lanes; /* >= 1 */
    /* Beside those that lanes have; may be 0.  Where there is no memory for all there are fewer. */
    unsigned num_stagings;
    /* That all of it may take of the device's memory; 0: as much as serves `max_rows` usual files,
     * and at most a quarter of what is free. */
    uint64_t memory_bytes;
};

/* SLUICE_E_UNSUPPORTED: this build has no CUDA, or there is no such device; SLUICE_E_NO_MEMORY,
 * with what is needed and what there is; SLUICE_E_INVALID: sizes that are 0 or too large, or rows
 * of at most 232 bytes, which XXH3 hashes in another way. */
SLUICE_MUST_USE sluice_status
sluice_gpu_place_create(const struct sluice_gpu_place_options *options,
                        struct sluice_gpu_place **place, struct sluice_err *err);
/* Once its lanes are idle and its blocks are given back.  NULL is allowed. */
void sluice_gpu_place_destroy(struct sluice_gpu_place *place);

/* The size of a row in the batches to come: at most most_row_bytes; only rows of height * width * 3
 * can be decoded.  While lanes are idle.  At first height * width * 3. */
void sluice_gpu_place_set_row_bytes(struct sluice_gpu_place *place, size_t row_bytes);

int sluice_gpu_place_device(const struct sluice_gpu_place *place);     /* -1: is_host */
uint64_t sluice_gpu_place_bytes(const struct sluice_gpu_place *place); /* of the device's memory */
/* Bytes of the host's memory that are page-locked now. */
uint64_t sluice_gpu_place_locked_bytes(struct sluice_gpu_place *place);
unsigned sluice_gpu_place_num_lanes(const struct sluice_gpu_place *place);
struct sluice_gpu_lane *sluice_gpu_place_lane(struct sluice_gpu_place *place, unsigned lane);

/* The rate of uploads from memory of sluice_gpu_host_alloc(), for a plan: a few of 16 MB at most,
 * which take some 10 ms.  Once all blocks are free and all lanes are idle; what the blocks hold is
 * lost.  INFINITY where the CPU stands in for the device (is_host), which uploads nothing. */
SLUICE_MUST_USE sluice_status sluice_gpu_place_measure_upload(struct sluice_gpu_place *place,
                                                              double *bytes_per_s,
                                                              struct sluice_err *err);

/* Memory of the host from which uploads are fastest (page-locked); 64-byte aligned.  A failure says
 * how much was asked for, and how much there was before. */
SLUICE_MUST_USE sluice_status sluice_gpu_host_alloc(struct sluice_gpu_place *place, size_t bytes,
                                                    void **memory, struct sluice_err *err);
void sluice_gpu_host_free(struct sluice_gpu_place *place, void *memory, size_t bytes);

/* --- blocks --- */

/* NULL: all are in use. */
struct sluice_gpu_block *sluice_gpu_place_take(struct sluice_gpu_place *place);
/* max_rows x height x width x 3 bytes of the device, u8, 256-byte aligned. */
uint8_t *sluice_gpu_block_rows(const struct sluice_gpu_block *block);
/* Nobody reads or writes it any more. */
void sluice_gpu_block_give(struct sluice_gpu_block *block);
/* Work that was put on `stream` (a cudaStream_t; NULL: the legacy default stream) until now may
 * still read or write it: the next batch in it waits for that, on the device.  The stream is
 * one of the device, and not being captured. */
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
    struct sluice_buf *data; /* owned; NULL: it is in the staging buffer, */
    uint32_t at, bytes;      /* there */
};

/* Writes what the device needs of the file to the staging buffer, or where that is NULL or full to
 * a buffer of the pool, which the lane copies; nothing of the file is borrowed.  The stretch, {0}
 * at first, is memory that is used again.  SLUICE_E_UNSUPPORTED, SLUICE_E_CORRUPT: the CPU's
 * decoder must take the file (sample.h), as no batch has room for it, for example;
 * SLUICE_E_NO_MEMORY: of the pool; SLUICE_E_INVALID: the request is wrong (sample.h). */
SLUICE_MUST_USE sluice_status
sluice_gpu_prepare(struct sluice_gpu_place *place, struct sluice_gpu_staging *staging,
                   const struct sluice_gpu_file *file, const struct sluice_gpu_request *request,
                   struct sluice_jpeg_stretch *stretch, struct sluice_buf_pool *pool,
                   struct sluice_gpu_prepared *prepared, struct sluice_err *err);
void sluice_gpu_prepared_clear(struct sluice_gpu_prepared *prepared); /* idempotent; fine on {0} */

/* --- lanes --- */

/* Begins a batch in the block, which is the caller's.  Takes the staging buffer, in which samples
 * of the batch may be, and gives the lane's own for it; NULL: no sample is in one.  What was added
 * to the lane's last batch and not finished is dropped. */
void sluice_gpu_lane_begin(struct sluice_gpu_lane *lane, struct sluice_gpu_block *block,
                           struct sluice_gpu_staging *staging);
/* Begins the same batch once more. */
void sluice_gpu_lane_begin_again(struct sluice_gpu_lane *lane);

/* Adds a sample that was prepared, in the batch's staging buffer or apart.  May start what was
 * added before it.  SLUICE_E_INVALID: there is no such row, or there are more files than rows; the
 * lane goes on. Other failures are the device's: the batch is lost. */
SLUICE_MUST_USE sluice_status sluice_gpu_lane_decode(struct sluice_gpu_lane *lane,
                                                     const struct sluice_gpu_prepared *sample,
                                                     uint32_t row, struct sluice_err *err);

/* Adds a row that is made; `pixels` (height x width x 3) is borrowed until finish, also a
 * failing one, or drop.  Rows that follow each other, from pixels that do, are copied at once. */
SLUICE_MUST_USE sluice_status sluice_gpu_lane_upload(struct sluice_gpu_lane *lane, uint32_t row,
                                                     const uint8_t *pixels, struct sluice_err *err);

struct sluice_gpu_work {
    uint32_t decoded;      /* samples, without a fault */
    uint64_t upload_bytes; /* of files and rows */
    double device_s;       /* of the kernels, by the device's clock; is_host: of the thread's CPU */
};

/* Waits until all rows that were added since begin, or since the last finish, are in the block.
 * For each row that was decoded: statuses[row] is SLUICE_OK or SLUICE_E_CORRUPT (the CPU's decoder
 * must say what it is); hashes[row], unless `hashes` is NULL, is XXH3-128 of its pixels followed by
 * labels[row] as 8 bytes, little endian (load/digest.h).  Other rows' entries stay as they are.
 * After a failure, which is the device's, the batch is lost. */
SLUICE_MUST_USE sluice_status sluice_gpu_lane_finish(
    struct sluice_gpu_lane *lane, const uint32_t *labels, sluice_status *statuses,
    struct sluice_hash128 *hashes, struct sluice_gpu_work *work, struct sluice_err *err);

/* Gives the batch up: waits for what was started, which may have written to the block. */
void sluice_gpu_lane_drop(struct sluice_gpu_lane *lane);

#endif
