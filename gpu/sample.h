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
 * time linear in the file's bytes; the device only has to do arithmetic.  With an index of the
 * file, the parts between its points replace restart segments, and only the rows needed are read.
 *
 * Covers what image/jpeg/entropy.h covers, of one component or of luma 1x1, 2x1, 1x2, 2x2 or 4x1
 * with chroma 1x1.  A rejected file need not be bad: the CPU's decoder (image/codecs/codec.h)
 * decides.  A file accepted here and by the device is accepted there, with the same pixels.
 *
 * Threads: pure functions; a plan belongs to one thread. */

/* The limits of a batch: sums over its samples, except for max_segment_bytes. */
struct sluice_gpu_limits {
    uint32_t max_samples;
    uint32_t num_views;
    struct sluice_gpu_view_size {
        uint32_t width, height;
    } views[SLUICE_GPU_MAX_VIEWS]; /* of every sample */
    /* Above 0: the one view has another size in each batch, at most this many bytes, and its sides
     * are at most those of views[0]. */
    uint64_t most_row_bytes;
    uint64_t max_file_bytes;
    uint64_t max_pixels; /* of the boxes, rounded up to MCUs */
    /* The bytes of one segment, which one thread decodes; 0: unlimited. */
    uint64_t max_segment_bytes;
};

/* The sizes that the device's memory depends on. */
struct sluice_gpu_sizes {
    uint64_t upload_bytes;
    uint64_t blocks;  /* of 64 coefficients, and of 64 samples */
    uint64_t weights; /* words */
    uint64_t pixels;  /* words, between the passes of the resize */
};

/* Bytes of a row, the pixels of its views; of rows of any size the most. */
uint64_t sluice_gpu_row_bytes(const struct sluice_gpu_limits *limits);
/* How max_samples rows of at most UINT32_MAX bytes stand in memory. */
struct sluice_gpu_row_views sluice_gpu_row_views_of(const struct sluice_gpu_limits *limits);

/* A request to decode a file to one view.  The result equals sluice_codec_decode_region() of `box`,
 * then sluice_resize_rgb_part() with a bilinear or bicubic filter, then the kernel calls.  A sample
 * has an array of limits.num_views requests, and is decoded once for all of them. */
struct sluice_gpu_request {
    struct sluice_box box; /* as large as sluice_resize_part_input(&part) */
    struct sluice_resize_part part;
    bool is_flipped;
    const struct sluice_kernel_calls *calls; /* borrowed until the sample is written; or NULL */
    uint32_t row; /* of the first: where the sample goes in the batch that is made */
};

/* The alignment of samples in memory. */
#define SLUICE_GPU_SAMPLE_ALIGNMENT 16

/* The memory that a sample needs, known before it is written.  Points into itself: do not copy. */
struct sluice_gpu_plan {
    struct sluice_gpu_sizes sizes; /* upload_bytes: at most */
    uint64_t max_segment_bytes;

    /* sample.c's */
    const uint8_t *bytes; /* borrowed, as the index */
    struct sluice_jpeg jpeg;
    const struct sluice_kernel_calls *calls[SLUICE_GPU_MAX_VIEWS];
    const struct sluice_jpeg_index *index; /* NULL: restart markers separate segments */
    uint64_t num_mcus, interval;           /* a file without restarts has one interval */
    /* MCUs that hold a block of any plane */
    uint32_t first_row, end_row, first_column, end_column;
    uint64_t first_segment, end_segment; /* some between them may not be needed */
    uint64_t segment_bytes;              /* at most, without alignment */
    struct sluice_gpu_sample sample;
    struct sluice_gpu_view views[SLUICE_GPU_MAX_VIEWS];
    const struct sluice_jpeg_huffman *huffman[SLUICE_GPU_MAX_HUFFMAN];
};

/* Whether the index (NULL: no) is the file's, the file has no restart markers, and the points are
 * close enough for one thread each. */
bool sluice_gpu_index_serves(const struct sluice_jpeg_index *index, const uint8_t *bytes,
                             size_t len);

/* Plans a sample for an array of requests, one for each view.  The index may be NULL; the index of
 * another file has no effect.  With is_partial, only the parts for the requests' boxes were read.
 * SLUICE_E_UNSUPPORTED, SLUICE_E_CORRUPT: the device cannot decode this file; SLUICE_E_INVALID: the
 * request is wrong. */
SLUICE_MUST_USE sluice_status sluice_gpu_plan_make(struct sluice_gpu_plan *plan,
                                                   const struct sluice_gpu_limits *limits,
                                                   const uint8_t *bytes, size_t len,
                                                   const struct sluice_jpeg_index *index,
                                                   const struct sluice_gpu_request *requests,
                                                   struct sluice_err *err);

/* Writes the sample to plan->sizes.upload_bytes bytes at `to`, which is aligned.  *bytes is the
 * number used, aligned.  The stretch is reusable memory, {0} at first.  SLUICE_E_UNSUPPORTED,
 * SLUICE_E_CORRUPT: as sluice_gpu_plan_make(), or the rows do not match the index. */
SLUICE_MUST_USE sluice_status sluice_gpu_plan_write(const struct sluice_gpu_plan *plan,
                                                    struct sluice_jpeg_stretch *stretch,
                                                    uint8_t *to, uint64_t *bytes,
                                                    struct sluice_err *err);

/* Words of the device's memory between the passes of a view's resize. */
static inline uint64_t sluice_gpu_view_pixels(const struct sluice_gpu_view *view)
{
    const uint64_t between = (uint64_t)view->across.count * view->down.in_count;
    return between > view->scratch_words ? between : view->scratch_words;
}

/* The views of a written sample. */
static inline struct sluice_gpu_view *sluice_gpu_views_of(struct sluice_gpu_sample *sample)
{
    return (struct sluice_gpu_view *)(sample + 1);
}

/* The device's memory for a written sample, without its upload. */
struct sluice_gpu_sizes sluice_gpu_sample_sizes(const struct sluice_gpu_sample *sample);

/* --- sample_views.c, for sample.c --- */

/* SLUICE_E_INVALID: a request is not for the size of its view. */
SLUICE_MUST_USE sluice_status sluice_gpu_requests_check(const struct sluice_gpu_limits *limits,
                                                        const struct sluice_gpu_request *requests,
                                                        struct sluice_err *err);

/* Fills in plan->views and plan->calls for plan->sample.num_views checked requests.
 * SLUICE_E_UNSUPPORTED: the device cannot make one of them; SLUICE_E_INVALID: a box does not have
 * the size of its part. */
SLUICE_MUST_USE sluice_status sluice_gpu_plan_views(struct sluice_gpu_plan *plan,
                                                    const struct sluice_gpu_request *requests,
                                                    struct sluice_err *err);

#endif
