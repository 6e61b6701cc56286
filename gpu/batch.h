#ifndef SLUICE_GPU_BATCH_H
#define SLUICE_GPU_BATCH_H

#include "base/error.h"
#include "gpu/sample.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A batch for the decoder on the device, laid out as it is uploaded (layout.h): samples (sample.h),
 * each with its position in the device's memory.
 *
 * Any number of threads may write samples to the memory in parallel before the batch begins; the
 * batch then only assigns their positions.
 *
 * Threads: one at a time for each batch. */

/* SLUICE_E_INVALID: a limit is 0 or exceeds the device's counters. */
SLUICE_MUST_USE sluice_status sluice_gpu_limits_check(const struct sluice_gpu_limits *limits,
                                                      struct sluice_gpu_sizes *capacity,
                                                      struct sluice_err *err);

/* The offset in bytes, a multiple of 256, of each array (struct sluice_gpu_memory) in the device's
 * memory. */
struct sluice_gpu_parts {
    uint64_t upload, coefficients, samples, weights, pixels, faults, end;
};
struct sluice_gpu_parts sluice_gpu_parts_of(const struct sluice_gpu_limits *limits,
                                            const struct sluice_gpu_sizes *capacity);

/* Bytes at the start of a batch's memory that hold its index; samples come behind. */
uint64_t sluice_gpu_index_bytes(const struct sluice_gpu_limits *limits);

struct sluice_gpu_batch {
    struct sluice_gpu_limits limits;
    struct sluice_gpu_sizes capacity;
    struct sluice_gpu_sizes used; /* upload_bytes: the end of the written bytes */
    uint8_t *upload;              /* borrowed; see layout.h */
    uint64_t written;             /* bytes of the index and of samples written before the batch */
    uint64_t from, end;           /* the range in `upload` that contains the batch's samples */
    uint32_t num_samples;
    uint32_t max_huffman;               /* the most tables of a sample */
    bool has_calls;                     /* a sample has kernel calls */
    struct sluice_jpeg_stretch stretch; /* memory that add() uses again */
};

/* Begins an empty batch in capacity.upload_bytes bytes at `upload`, which is aligned to 16 and
 * stays the caller's.  The limits have passed sluice_gpu_limits_check(). */
void sluice_gpu_batch_init(struct sluice_gpu_batch *batch, const struct sluice_gpu_limits *limits,
                           const struct sluice_gpu_sizes *capacity, void *upload);

/* Begins an empty batch in other memory of that size.  Its first `written` bytes are in use: the
 * index, then samples from sluice_gpu_index_bytes() on. */
void sluice_gpu_batch_use(struct sluice_gpu_batch *batch, void *upload, uint64_t written);

/* Empties the batch; samples written before it stay. */
void sluice_gpu_batch_clear(struct sluice_gpu_batch *batch);

/* Frees what it owns; idempotent. */
void sluice_gpu_batch_destroy(struct sluice_gpu_batch *batch);

/* The request to resize a whole box to the size of the batch's first view. */
struct sluice_gpu_request sluice_gpu_request_whole(const struct sluice_gpu_batch *batch,
                                                   const struct sluice_box *box, bool is_flipped,
                                                   uint32_t row);

/* Adds the sample of `bytes` bytes that is written at `at`; if it is in the batch already, adds a
 * copy.  SLUICE_E_AGAIN: this batch is full; SLUICE_E_UNSUPPORTED: the sample does not fit any
 * batch; SLUICE_E_INVALID: the row is out of range.  On failure the batch is unchanged. */
SLUICE_MUST_USE sluice_status sluice_gpu_batch_place(struct sluice_gpu_batch *batch, uint64_t at,
                                                     uint64_t bytes, uint32_t row,
                                                     struct sluice_err *err);

/* Adds a copy of a sample that is written elsewhere.  Fails as sluice_gpu_batch_place(). */
SLUICE_MUST_USE sluice_status sluice_gpu_batch_append(struct sluice_gpu_batch *batch,
                                                      const void *sample, uint64_t bytes,
                                                      uint32_t row, struct sluice_err *err);

/* Plans, writes and places a sample for an array of requests, one for each view.  Fails as those
 * three do. */
SLUICE_MUST_USE sluice_status sluice_gpu_batch_add(struct sluice_gpu_batch *batch,
                                                   const uint8_t *bytes, size_t len,
                                                   const struct sluice_jpeg_index *index,
                                                   const struct sluice_gpu_request *requests,
                                                   struct sluice_err *err);

#endif
