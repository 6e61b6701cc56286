#ifndef SLUICE_GPU_BATCH_H
#define SLUICE_GPU_BATCH_H

#include "base/error.h"
#include "gpu/sample.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A batch for the decoder on the device, in memory that is uploaded as it is (layout.h): samples
 * (sample.h), each with its place in the device's memory.
 *
 * Samples may be written into the batch's memory before there is a batch, by any number of threads
 * side by side; the batch then only gives them their places.
 *
 * Threads: one at a time for each batch. */

/* SLUICE_E_INVALID: a limit is 0, or so large that the device could not count it. */
SLUICE_MUST_USE sluice_status sluice_gpu_limits_check(const struct sluice_gpu_limits *limits,
                                                      struct sluice_gpu_sizes *capacity,
                                                      struct sluice_err *err);

/* Where each array of the device (struct sluice_gpu_memory) is in one piece of its memory, in bytes
 * and at multiples of 256. */
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
    struct sluice_gpu_sizes used; /* upload_bytes: behind that, nothing is written */
    uint8_t *upload;              /* borrowed; see layout.h */
    uint64_t written;             /* bytes of it that are the index and samples written before */
    uint64_t from, end;           /* in `upload`, the batch's samples and what lies between them */
    uint32_t num_samples;
    uint32_t max_huffman;               /* tables of a sample, at most */
    bool has_calls;                     /* of kernels, for one of its samples at least */
    struct sluice_jpeg_stretch stretch; /* memory that add() uses again */
};

/* Begins an empty batch in capacity.upload_bytes bytes at `upload`, which is aligned to 16 and
 * stays the caller's.  The limits have passed sluice_gpu_limits_check(). */
void sluice_gpu_batch_init(struct sluice_gpu_batch *batch, const struct sluice_gpu_limits *limits,
                           const struct sluice_gpu_sizes *capacity, void *upload);

/* Begins an empty batch in other memory of that size, of which `written` bytes are taken: samples
 * from sluice_gpu_index_bytes() on. */
void sluice_gpu_batch_use(struct sluice_gpu_batch *batch, void *upload, uint64_t written);

/* Empties it; what was written before stays written. */
void sluice_gpu_batch_clear(struct sluice_gpu_batch *batch);

/* Frees what it owns; idempotent. */
void sluice_gpu_batch_destroy(struct sluice_gpu_batch *batch);

/* The request for all of a box resized to the batch's size. */
struct sluice_gpu_request sluice_gpu_request_whole(const struct sluice_gpu_batch *batch,
                                                   const struct sluice_box *box, bool is_flipped,
                                                   uint32_t row);

/* Adds a sample that is written at `at`, and takes `bytes` there, or once it is in the batch a copy
 * of it.  SLUICE_E_AGAIN: no room in this
 * batch; SLUICE_E_UNSUPPORTED: no batch has room for it; SLUICE_E_INVALID: there is no such row.
 * On failure the batch is as it was. */
SLUICE_MUST_USE sluice_status sluice_gpu_batch_place(struct sluice_gpu_batch *batch, uint64_t at,
                                                     uint64_t bytes, uint32_t row,
                                                     struct sluice_err *err);

/* Adds a copy of a sample that is written elsewhere.  Fails as the above. */
SLUICE_MUST_USE sluice_status sluice_gpu_batch_append(struct sluice_gpu_batch *batch,
                                                      const void *sample, uint64_t bytes,
                                                      uint32_t row, struct sluice_err *err);

/* Plans, writes and places a sample.  Fails as these do. */
SLUICE_MUST_USE sluice_status sluice_gpu_batch_add(struct sluice_gpu_batch *batch,
                                                   const uint8_t *bytes, size_t len,
                                                   const struct sluice_jpeg_index *index,
                                                   const struct sluice_gpu_request *request,
                                                   struct sluice_err *err);

#endif
