#ifndef SLUICE_GPU_BATCH_H
#define SLUICE_GPU_BATCH_H

#include "base/error.h"
#include "gpu/layout.h"
#include "image/image.h"
#include "image/jpeg_index.h"
#include "image/resize.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A batch for the decoder on the device: JPEG files, and what is to be made of each.
 *
 * Reads markers, finds restart segments, removes stuffing and checks every size, on the CPU and in
 * time linear in the file's bytes; what is left for the device is arithmetic.  With an index of the
 * file the parts between its points take the place of restart segments, and only rows that are
 * needed are read.
 *
 * Covers what image/jpeg_entropy.h covers, of one component or of luma 1x1, 2x1, 1x2, 2x2 or 4x1
 * with chroma 1x1.  A refusal does not mean that the file is bad: the CPU's decoder
 * (image/codec.h) then says what it is.  What is accepted here and by the device is accepted there,
 * and is the same pixels.
 *
 * Threads: one at a time for each batch. */

/* Sums over the samples of a batch, but for the first three. */
struct sluice_gpu_limits {
    uint32_t max_samples;
    uint32_t out_width, out_height; /* of every sample */
    uint64_t max_file_bytes;
    uint64_t max_pixels; /* of the boxes, rounded up to MCUs */
    /* Of one segment, which one thread decodes; 0: any. */
    uint64_t max_segment_bytes;
};

/* What the device needs memory for. */
struct sluice_gpu_sizes {
    uint64_t upload_bytes;
    uint64_t blocks;  /* of 64 coefficients, and of 64 samples */
    uint64_t weights; /* words */
    uint64_t pixels;  /* words, between the passes of the resize */
};

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

struct sluice_gpu_batch {
    struct sluice_gpu_limits limits;
    struct sluice_gpu_sizes capacity, used;
    uint8_t *upload; /* borrowed; see layout.h */
    uint32_t num_samples;
    uint32_t max_huffman;               /* tables of a sample, at most */
    struct sluice_jpeg_stretch stretch; /* memory that add() uses again */
};

/* Begins an empty batch in capacity.upload_bytes bytes at `upload`, which is aligned to 16 and
 * stays the caller's.  The limits have passed sluice_gpu_limits_check(). */
void sluice_gpu_batch_init(struct sluice_gpu_batch *batch, const struct sluice_gpu_limits *limits,
                           const struct sluice_gpu_sizes *capacity, void *upload);

/* Empties it. */
void sluice_gpu_batch_clear(struct sluice_gpu_batch *batch);

/* Frees what it owns; idempotent. */
void sluice_gpu_batch_destroy(struct sluice_gpu_batch *batch);

/* What is made of a file: as sluice_codec_decode_region() of `box`, then
 * sluice_resize_rgb_part(). */
struct sluice_gpu_request {
    struct sluice_box box; /* as large as sluice_resize_part_input(&part) */
    struct sluice_resize_part part;
    bool is_flipped;
    uint32_t row; /* where the sample goes in the batch that is made */
};

/* The request for all of a box resized to the batch's size. */
struct sluice_gpu_request sluice_gpu_request_whole(const struct sluice_gpu_batch *batch,
                                                   const struct sluice_box *box, bool is_flipped,
                                                   uint32_t row);

/* Whether this is the file's index (NULL: no), the file has no restart markers of its own, and the
 * points are close enough for a thread each. */
bool sluice_gpu_index_serves(const struct sluice_jpeg_index *index, const uint8_t *bytes,
                             size_t len);

/* Adds a sample; the bytes are copied.  The index may be NULL, and that of another file has no
 * effect; if it says is_partial, its parts for request->box are what was read.  SLUICE_E_AGAIN: no
 * room in this batch; SLUICE_E_UNSUPPORTED, SLUICE_E_CORRUPT: the device does not decode this file,
 * its rows are not those that were indexed, or no batch has room for it; SLUICE_E_INVALID: the
 * request is wrong.  On failure the batch is as it was. */
SLUICE_MUST_USE sluice_status sluice_gpu_batch_add(struct sluice_gpu_batch *batch,
                                                   const uint8_t *bytes, size_t len,
                                                   const struct sluice_jpeg_index *index,
                                                   const struct sluice_gpu_request *request,
                                                   struct sluice_err *err);

#endif
