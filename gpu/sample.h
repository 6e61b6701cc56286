#ifndef SLUICE_GPU_SAMPLE_H
#define SLUICE_GPU_SAMPLE_H

#include "base/error.h"
#include "gpu/layout.h"
#include "image/image.h"
#include "image/jpeg/entropy.h"
#include "image/jpeg/stretch.h"
#include "image/kernel_call.h"
#include "image/resize.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A JPEG file as a sample of a batch for the decoder on the device (layout.h).
 *
 *     sluice_gpu_plan_make(&plan, ...)      reads the headers: what the sample will need
 *     sluice_gpu_plan_write(&plan, ...)     writes it, where there is room for plan.sizes
 *     sluice_gpu_batch_place()              gives it its place in a batch (batch.h)
 *
 * Reads markers, finds restart segments, removes stuffing and checks every size, on the CPU and in
 * time linear in the file's bytes; what is left for the device is arithmetic.  With an index of the
 * file the parts between its points take the place of restart segments, and only rows that are
 * needed are read.
 *
 * Covers what image/jpeg/entropy.h covers, of one component or of luma 1x1, 2x1, 1x2, 2x2 or 4x1
 * with chroma 1x1.  A refusal does not mean that the file is bad: the CPU's decoder
 * (image/codecs/codec.h) then says what it is.  What is accepted here and by the device is accepted
 * there, and is the same pixels.
 *
 * Threads: pure functions; a plan belongs to one thread. */

/* Sums over the samples of a batch, but for the first three and the last. */
struct sluice_gpu_limits {
    uint32_t max_samples;
    uint32_t out_width, out_height; /* of every sample */
    uint64_t max_file_bytes;
    uint64_t max_pixels; /* of the boxes, rounded up to MCUs */
    /* The bytes of one segment, which one thread decodes; 0: any. */
    uint64_t max_segment_bytes;
};

/* The sizes that the device's memory depends on. */
struct sluice_gpu_sizes {
    uint64_t upload_bytes;
    uint64_t blocks;  /* of 64 coefficients, and of 64 samples */
    uint64_t weights; /* words */
    uint64_t pixels;  /* words, between the passes of the resize */
};

/* The result for a file: as sluice_codec_decode_region() of `box`, then
 * sluice_resize_rgb_part(), with a filter that is bilinear or bicubic, then the calls. */
struct sluice_gpu_request {
    struct sluice_box box; /* as large as sluice_resize_part_input(&part) */
    struct sluice_resize_part part;
    bool is_flipped;
    const struct sluice_kernel_calls *calls; /* borrowed until the sample is written; or NULL */
    uint32_t row;                            /* where the sample goes in the batch that is made */
};

/* The alignment of samples in memory. */
#define SLUICE_GPU_SAMPLE_ALIGNMENT 16

/* The memory that a sample will need, before anything is written.  Points into itself. */
struct sluice_gpu_plan {
    struct sluice_gpu_sizes sizes; /* upload_bytes: at most */
    uint64_t max_segment_bytes;

    /* sample.c's */
    const uint8_t *bytes; /* borrowed, as the index */
    struct sluice_jpeg jpeg;
    const struct sluice_kernel_calls *calls;
    const struct sluice_jpeg_index *index; /* NULL: segments are those of restart markers */
    uint64_t num_mcus, interval;           /* a file without restarts has one interval */
    /* MCUs that hold a block of any plane */
    uint32_t first_row, end_row, first_column, end_column;
    uint64_t first_segment, end_segment; /* some between them may not be needed */
    uint64_t segment_bytes;              /* at most, without what aligns them */
    struct sluice_gpu_sample sample;
    const struct sluice_jpeg_huffman *huffman[SLUICE_GPU_MAX_HUFFMAN];
};

/* Whether this is the file's index (NULL: no), the file has no restart markers of its own, and the
 * points are close enough for a thread each. */
bool sluice_gpu_index_serves(const struct sluice_jpeg_index *index, const uint8_t *bytes,
                             size_t len);

/* The index may be NULL, and that of another file has no effect; if it says is_partial, its parts
 * for request->box are what was read.  SLUICE_E_UNSUPPORTED, SLUICE_E_CORRUPT: the device does not
 * decode this file; SLUICE_E_INVALID: the request is wrong.  request->row is not looked at. */
SLUICE_MUST_USE sluice_status sluice_gpu_plan_make(struct sluice_gpu_plan *plan,
                                                   const struct sluice_gpu_limits *limits,
                                                   const uint8_t *bytes, size_t len,
                                                   const struct sluice_jpeg_index *index,
                                                   const struct sluice_gpu_request *request,
                                                   struct sluice_err *err);

/* Writes the sample to plan->sizes.upload_bytes bytes at `to`, which is aligned.  *bytes: what it
 * takes of them, aligned.  The stretch, {0} at first, is memory that is used again.
 * SLUICE_E_UNSUPPORTED, SLUICE_E_CORRUPT: as above, or its rows are not those that were indexed. */
SLUICE_MUST_USE sluice_status sluice_gpu_plan_write(const struct sluice_gpu_plan *plan,
                                                    struct sluice_jpeg_stretch *stretch,
                                                    uint8_t *to, uint64_t *bytes,
                                                    struct sluice_err *err);

/* The device memory of a written sample, without its upload. */
struct sluice_gpu_sizes sluice_gpu_sample_sizes(const struct sluice_gpu_sample *sample);

#endif
