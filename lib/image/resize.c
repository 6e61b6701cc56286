#include "image/resize.h"

#include "base/checked.h"
#include "image/kernels/kernels.h"
#include "image/resample.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SIDE 65535u

/* Input rows that go through the horizontal pass together. */
#define ROWS_AT_ONCE 8

/* Memory that grows and is kept, 64-byte aligned. */
struct growing {
    void *data;
    size_t capacity;
};

static bool grow(struct growing *memory, size_t bytes)
{
    if (memory->capacity >= bytes)
        return true;
    size_t rounded;
    if (!sluice_add_size(bytes, 63, &rounded))
        return false;
    rounded &= ~(size_t)63;
    void *data = aligned_alloc(64, rounded);
    if (!data)
        return false;
    free(memory->data);
    memory->data = data;
    memory->capacity = rounded;
    return true;
}

struct pass {
    struct sluice_taps taps;
    uint32_t max_count; /* the most taps any output has */
    struct growing spans, coeffs, plan;
};

struct sluice_resizer {
    const struct sluice_kernels *kernels, *signed_kernels; /* of bilinear, of other filters */
    struct pass across, down;
    struct growing ring;    /* rows after the first pass that the second still needs */
    struct growing rows;    /* pointers to the rows that one output row weighs */
    struct growing between; /* the image between the passes where the down pass is first */
};

sluice_status sluice_resizer_create(struct sluice_resizer **out, struct sluice_err *err)
{
    return sluice_resizer_create_at(sluice_cpu_level(), out, err);
}

sluice_status sluice_resizer_create_at(enum sluice_cpu_level level, struct sluice_resizer **out,
                                       struct sluice_err *err)
{
    struct sluice_resizer *resizer = calloc(1, sizeof(*resizer));
    if (!resizer)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a resizer");
    resizer->kernels = sluice_kernels_for(level);
#ifdef SLUICE_HAVE_X86_KERNELS
    /* Those of AVX-512 are for weights that are not negative. */
    if (level == SLUICE_CPU_AVX2 || level == SLUICE_CPU_AVX512)
        resizer->signed_kernels = &sluice_kernels_avx2;
#endif
    *out = resizer;
    return SLUICE_OK;
}

static void pass_clear(struct pass *pass)
{
    free(pass->spans.data);
    free(pass->coeffs.data);
    free(pass->plan.data);
}

void sluice_resizer_destroy(struct sluice_resizer *resizer)
{
    if (!resizer)
        return;
    pass_clear(&resizer->across);
    pass_clear(&resizer->down);
    free(resizer->ring.data);
    free(resizer->rows.data);
    free(resizer->between.data);
    free(resizer);
}

static uint32_t taps_in_fours(uint32_t count)
{
    return (count + 3) & ~(uint32_t)3;
}

/* A part of one axis: outputs [from, from + count) of `out`, which depend on the `in_count` inputs
 * from `in_from` on, of `in`. */
struct axis {
    uint32_t in, in_from, in_count;
    uint32_t out, from, count;
};

/* Whether the size does not change: then each pixel has weight one. */
static bool is_identity(const struct axis *axis)
{
    return axis->in == axis->out;
}

static const struct sluice_kernels *kernels_of(const struct sluice_resizer *resizer,
                                               enum sluice_resize_filter filter)
{
    return filter == SLUICE_RESIZE_BILINEAR ? resizer->kernels : resizer->signed_kernels;
}

static struct sluice_tap_span span_of(enum sluice_resize_filter filter, uint32_t in, uint32_t out,
                                      uint32_t o)
{
    return filter == SLUICE_RESIZE_BILINEAR ? sluice_tap_span(in, out, o)
                                            : sluice_resample_span(filter, in, out, o);
}

static struct axis find_axis(enum sluice_resize_filter filter, uint32_t in, uint32_t out,
                             uint32_t from, uint32_t count)
{
    struct axis axis = {.in = in, .out = out, .from = from, .count = count};
    if (in == out) {
        axis.in_from = from;
        axis.in_count = count;
        return axis;
    }
    /* Both ends of a span are monotonic in the output, so the first and the last one suffice. */
    const struct sluice_tap_span last = span_of(filter, in, out, from + count - 1);
    axis.in_from = span_of(filter, in, out, from).first;
    axis.in_count = last.first + last.count - axis.in_from;
    return axis;
}

/* Weights of one pass.  `is_mirrored` stores the outputs from the last to the first. */
static bool pass_prepare(struct sluice_resizer *resizer, enum sluice_resize_filter filter,
                         enum sluice_pass direction, const struct axis *axis, bool is_mirrored)
{
    struct pass *pass = direction == SLUICE_PASS_ACROSS ? &resizer->across : &resizer->down;
    const struct sluice_kernels *kernels = kernels_of(resizer, filter);
    /* Where the size does not change, each filter takes the pixel, and the triangle no more. */
    const bool is_triangle = filter == SLUICE_RESIZE_BILINEAR || is_identity(axis);
    const size_t stride =
        taps_in_fours(is_triangle ? sluice_max_taps(axis->in, axis->out)
                                  : sluice_resample_max_taps(filter, axis->in, axis->out));
    size_t num_coeffs;
    if (!sluice_mul_size(stride, axis->out, &num_coeffs) || num_coeffs > SIZE_MAX / 8 ||
        !grow(&pass->spans, axis->out * sizeof(struct sluice_tap_span)) ||
        !grow(&pass->coeffs, num_coeffs * sizeof(int32_t)) ||
        !grow(&pass->plan, kernels->plan_len(direction, axis->count, (uint32_t)stride)))
        return false;
    pass->taps = (struct sluice_taps){
        .num_in = axis->in,
        .num_out = axis->out,
        .stride = (uint32_t)stride,
        .spans = pass->spans.data,
        .coeffs = pass->coeffs.data,
        .plan = pass->plan.data,
    };
    pass->max_count = is_triangle ? kernels->weigh(&pass->taps, is_mirrored)
                                  : sluice_resample_weigh(filter, &pass->taps, is_mirrored);
    if (pass->max_count == 0)
        return false;
    /* Narrow the taps from the whole axis to the part. */
    const uint32_t first = is_mirrored ? axis->out - axis->from - axis->count : axis->from;
    pass->taps.num_in = axis->in_count;
    pass->taps.num_out = axis->count;
    pass->taps.spans += first;
    pass->taps.coeffs += first * stride;
    for (uint32_t o = 0; axis->in_count < axis->in && o < axis->count; o++) {
        struct sluice_tap_span *span = &pass->taps.spans[o];
        span->first -= axis->in_from;
        /* Where the size does not change, a span may end with a tap of weight 0 past the input. */
        if (span->first + span->count > axis->in_count)
            span->count = axis->in_count - span->first;
    }
    kernels->make_plan(direction, &pass->taps);
    return true;
}

static uint32_t ring_rows(const struct pass *down)
{
    return (down->max_count + 2 * ROWS_AT_ONCE - 2) / ROWS_AT_ONCE * ROWS_AT_ONCE;
}

/* Rows begin at cache lines: those of several rows are read together. */
static size_t ring_slot_bytes(uint32_t out_width)
{
    return ((size_t)out_width * 3 + 63) & ~(size_t)63;
}

/* Both passes, a few rows at a time.  An input row goes through the horizontal pass when the first
 * output row needs it.  The result stays in a ring until no output row needs it; the ring has room
 * for the rows of one output row and for those made ahead. */
static void run_both(struct sluice_resizer *resizer, const struct sluice_kernels *kernels,
                     const struct sluice_image_view *view, uint32_t out_width,
                     bool is_across_identity, uint8_t *out)
{
    const struct sluice_taps *down = &resizer->down.taps;
    const size_t row_bytes = (size_t)out_width * 3;
    const uint8_t **rows = resizer->rows.data;
    uint8_t *ring = resizer->ring.data;
    const uint32_t num_slots = ring_rows(&resizer->down);
    const size_t slot_bytes = ring_slot_bytes(out_width);
    uint32_t next = 0; /* the first input row not in the ring yet */
    for (uint32_t o = 0; o < down->num_out; o++) {
        const struct sluice_tap_span span = down->spans[o];
        if (next < span.first)
            next = span.first;
        while (!is_across_identity && next < span.first + span.count) {
            const uint32_t slot = next % num_slots;
            const uint32_t to_wrap = num_slots - slot, left = view->height - next;
            uint32_t num = ROWS_AT_ONCE;
            num = to_wrap < num ? to_wrap : num;
            num = left < num ? left : num;
            kernels->resize_rows(&resizer->across.taps, view->pixels + next * view->stride,
                                 view->stride, num, ring + slot * slot_bytes, slot_bytes);
            next += num;
        }
        for (uint32_t k = 0; k < taps_in_fours(span.count); k++) {
            const size_t y = span.first + (k < span.count ? k : span.count - 1);
            rows[k] = is_across_identity ? view->pixels + y * view->stride
                                         : ring + y % num_slots * slot_bytes;
        }
        kernels->blend_rows(down, o, rows, out + o * row_bytes, row_bytes);
    }
}

static bool is_size(uint32_t width, uint32_t height)
{
    return width >= 1 && height >= 1 && width <= MAX_SIDE && height <= MAX_SIDE;
}

static sluice_status resize(struct sluice_resizer *resizer, enum sluice_resize_filter filter,
                            const struct axis *across, const struct axis *down,
                            const struct sluice_image_view *view, bool flip, uint8_t *out,
                            struct sluice_err *err)
{
    const struct sluice_kernels *kernels = kernels_of(resizer, filter);
    /* A pass that does not change the size is left out. */
    const bool is_across_identity = is_identity(across) && !flip;
    const bool is_down_identity = is_identity(down);
    const size_t row_bytes = (size_t)across->count * 3;
    bool has_memory = true;
    if (!is_across_identity)
        has_memory = pass_prepare(resizer, filter, SLUICE_PASS_ACROSS, across, flip);
    if (has_memory && !is_down_identity) {
        has_memory = pass_prepare(resizer, filter, SLUICE_PASS_DOWN, down, false);
        has_memory =
            has_memory &&
            grow(&resizer->rows,
                 taps_in_fours(resizer->down.max_count) * sizeof(const uint8_t *)) &&
            (is_across_identity ||
             grow(&resizer->ring, ring_rows(&resizer->down) * ring_slot_bytes(across->count)));
    }
    if (!has_memory)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to resize %u x %u pixels to %u x %u",
                           across->in, down->in, across->out, down->out);

    if (!is_down_identity) {
        run_both(resizer, kernels, view, across->count, is_across_identity, out);
        return SLUICE_OK;
    }
    if (!is_across_identity) {
        kernels->resize_rows(&resizer->across.taps, view->pixels, view->stride, down->count, out,
                             row_bytes);
        return SLUICE_OK;
    }
    for (uint32_t y = 0; y < down->count; y++)
        memcpy(out + y * row_bytes, view->pixels + y * view->stride, row_bytes);
    return SLUICE_OK;
}

sluice_status sluice_resize_rgb(struct sluice_resizer *resizer,
                                const struct sluice_image_view *view, uint32_t out_width,
                                uint32_t out_height, bool flip, uint8_t *out,
                                struct sluice_err *err)
{
    if (!is_size(view->width, view->height) || !is_size(out_width, out_height))
        return sluice_fail(err, SLUICE_E_INVALID, "cannot resize %u x %u pixels to %u x %u",
                           view->width, view->height, out_width, out_height);
    const struct axis across = {
        view->width, 0, view->width, out_width, 0, out_width,
    };
    const struct axis down = {
        view->height, 0, view->height, out_height, 0, out_height,
    };
    return resize(resizer, SLUICE_RESIZE_BILINEAR, &across, &down, view, flip, out, err);
}

struct sluice_box sluice_resize_part_input(const struct sluice_resize_part *part)
{
    const struct axis across =
        find_axis(part->filter, part->in_width, part->out_width, part->out.left, part->out.width);
    const struct axis down =
        find_axis(part->filter, part->in_height, part->out_height, part->out.top, part->out.height);
    return (struct sluice_box){across.in_from, down.in_from, across.in_count, down.in_count};
}

static sluice_status resize_part(struct sluice_resizer *resizer,
                                 const struct sluice_resize_part *part,
                                 const struct sluice_image_view *view, bool flip, uint8_t *out,
                                 struct sluice_err *err)
{
    const struct axis across =
        find_axis(part->filter, part->in_width, part->out_width, part->out.left, part->out.width);
    const struct axis down =
        find_axis(part->filter, part->in_height, part->out_height, part->out.top, part->out.height);
    if (view->width != across.in_count || view->height != down.in_count)
        return sluice_fail(err, SLUICE_E_INVALID, "%u x %u pixels for a part of %u x %u",
                           view->width, view->height, across.in_count, down.in_count);
    const bool is_copied = part->filter == SLUICE_RESIZE_NEAREST;
    if (is_copied || !kernels_of(resizer, part->filter)) {
        const struct sluice_box in = {across.in_from, down.in_from, across.in_count, down.in_count};
        return sluice_resample_rgb_part(part, &in, view, flip, out, err);
    }
    return resize(resizer, part->filter, &across, &down, view, flip, out, err);
}

/* ImagingResampleInner() of Pillow 13.0: where the down pass takes off more than twice as many
 * pixels of its side as the across pass. */
static bool is_down_first(const struct sluice_resize_part *part)
{
    const int64_t narrower = (int64_t)part->in_width - part->out_width;
    const int64_t lower = (int64_t)part->in_height - part->out_height;
    return part->is_pillow13 && lower > 0 && lower > 2 * narrower;
}

sluice_status sluice_resize_rgb_part(struct sluice_resizer *resizer,
                                     const struct sluice_resize_part *part,
                                     const struct sluice_image_view *view, bool flip, uint8_t *out,
                                     struct sluice_err *err)
{
    if (!is_down_first(part))
        return resize_part(resizer, part, view, flip, out, err);
    const struct sluice_box in = sluice_resize_part_input(part);
    struct sluice_resize_part down = *part, across = *part;
    down.out_width = part->in_width;
    down.out.left = in.left;
    down.out.width = in.width;
    across.in_height = part->out_height;
    if (!grow(&resizer->between, (size_t)in.width * part->out.height * 3))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to resize %u x %u pixels to %u x %u",
                           part->in_width, part->in_height, part->out_width, part->out_height);
    uint8_t *between = resizer->between.data;
    const sluice_status status = resize_part(resizer, &down, view, false, between, err);
    const struct sluice_image_view lower = {between, (size_t)in.width * 3, in.width,
                                            part->out.height};
    return status ? status : resize_part(resizer, &across, &lower, flip, out, err);
}
