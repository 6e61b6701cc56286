#include "image/resample.h"

#include "base/checked.h"
#include "image/exact_math.h"
#include "image/kernels/color_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pillow's bicubic_filter(): Keys' cubic with a = -0.5. */
static double bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0)
        return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

#define PI 3.14159265358979323846

/* sin(pi x) / (pi x) */
static double sinc(double x)
{
    return x == 0 ? 1 : sluice_exact_sin(x * PI) / (x * PI);
}

static double lanczos(double x)
{
    return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

static double box(double x)
{
    return x > -0.5 && x <= 0.5 ? 1 : 0;
}

static double hamming(double x)
{
    x = fabs(x);
    if (x == 0 || x >= 1)
        return x == 0 ? 1 : 0;
    x *= PI;
    return sluice_exact_sin(x) / x * (0.54 + 0.46 * sluice_exact_cos(x));
}

static const struct {
    double support;
    double (*weight)(double x);
} filters[] = {
    [SLUICE_RESIZE_BICUBIC] = {2.0, bicubic},
    [SLUICE_RESIZE_LANCZOS] = {3.0, lanczos},
    [SLUICE_RESIZE_BOX] = {0.5, box},
    [SLUICE_RESIZE_HAMMING] = {1.0, hamming},
};

/* Nearest takes one input, at a position that Pillow adds up step by step, and so does this: fills
 * sources[i - from] with that of output i, for [from, from + count). */
static void find_sources(uint32_t num_in, uint32_t num_out, uint32_t from, uint32_t count,
                         uint32_t *sources)
{
    const double scale = (double)num_in / num_out;
    double at = scale * 0.5;
    for (uint32_t o = 0; o < from; o++)
        at += scale;
    for (uint32_t i = 0; i < count; i++, at += scale) {
        const uint32_t source = (uint32_t)at;
        sources[i] = source < num_in ? source : num_in - 1;
    }
}

struct sluice_tap_span sluice_resample_span(enum sluice_resize_filter filter, uint32_t num_in,
                                            uint32_t num_out, uint32_t o)
{
    if (filter == SLUICE_RESIZE_NEAREST) {
        struct sluice_tap_span span = {.count = 1};
        find_sources(num_in, num_out, o, 1, &span.first);
        return span;
    }
    const double scale = (double)num_in / num_out;
    const double support = filters[filter].support * (scale < 1.0 ? 1.0 : scale);
    const double center = (o + 0.5) * scale;
    int first = (int)(center - support + 0.5);
    first = first < 0 ? 0 : first;
    int end = (int)(center + support + 0.5);
    end = end > (int)num_in ? (int)num_in : end;
    return (struct sluice_tap_span){(uint32_t)first, (uint32_t)(end - first)};
}

uint32_t sluice_resample_max_taps(enum sluice_resize_filter filter, uint32_t num_in,
                                  uint32_t num_out)
{
    const double scale = (double)num_in / num_out;
    return (uint32_t)ceil(filters[filter].support * (scale < 1.0 ? 1.0 : scale)) * 2 + 1;
}

/* The weights of a range of outputs. */
struct weights {
    struct sluice_tap_span *spans;
    int32_t *coeffs; /* `stride` of each output */
    size_t stride;
};

/* precompute_coeffs() and normalize_coeffs_8bpc(), in their order of operations. */
static void weigh_one(enum sluice_resize_filter filter, uint32_t num_in, uint32_t num_out,
                      uint32_t o, double *weights, struct sluice_tap_span *span, int32_t *coeffs)
{
    const double scale = (double)num_in / num_out;
    const double inverse = 1.0 / (scale < 1.0 ? 1.0 : scale), center = (o + 0.5) * scale;
    double sum = 0;
    *span = sluice_resample_span(filter, num_in, num_out, o);
    for (uint32_t k = 0; k < span->count; k++) {
        weights[k] = filters[filter].weight(((int)k + (int)span->first - center + 0.5) * inverse);
        sum += weights[k];
    }
    for (uint32_t k = 0; k < span->count; k++) {
        const double weight = sum != 0.0 ? weights[k] / sum : weights[k];
        const double scaled = weight * (1 << SLUICE_RESIZE_BITS);
        coeffs[k] = (int32_t)(weight < 0 ? -0.5 + scaled : 0.5 + scaled);
    }
}

uint32_t sluice_resample_weigh(enum sluice_resize_filter filter, const struct sluice_taps *taps,
                               bool is_mirrored)
{
    double *row = malloc(taps->stride * sizeof(*row));
    uint32_t max_count = 0;
    for (uint32_t i = 0; row && i < taps->num_out; i++) {
        const uint32_t o = is_mirrored ? taps->num_out - 1 - i : i;
        struct sluice_tap_span *span = &taps->spans[o];
        int32_t *coeffs = taps->coeffs + (size_t)o * taps->stride;
        memset(coeffs, 0, taps->stride * sizeof(*coeffs));
        weigh_one(filter, taps->num_in, taps->num_out, i, row, span, coeffs);
        max_count = span->count > max_count ? span->count : max_count;
    }
    free(row);
    return max_count;
}

static void weights_clear(struct weights *weights)
{
    free(weights->spans);
    free(weights->coeffs);
}

/* Makes those of outputs [from, from + count), with spans within the inputs from in_from on. */
static bool weights_make(struct weights *weights, enum sluice_resize_filter filter, uint32_t num_in,
                         uint32_t num_out, uint32_t in_from, uint32_t from, uint32_t count)
{
    weights->stride = sluice_resample_max_taps(filter, num_in, num_out);
    size_t num;
    double *row = malloc(weights->stride * sizeof(*row));
    weights->spans = malloc(count * sizeof(*weights->spans));
    weights->coeffs = sluice_mul_size(weights->stride, count, &num) && num < SIZE_MAX / 4
                          ? malloc(num * sizeof(*weights->coeffs))
                          : NULL;
    const bool is_made = row && weights->spans && weights->coeffs;
    for (uint32_t o = 0; is_made && o < count; o++) {
        weigh_one(filter, num_in, num_out, from + o, row, &weights->spans[o],
                  weights->coeffs + o * weights->stride);
        weights->spans[o].first -= in_from;
    }
    free(row);
    return is_made;
}

/* The passes that change a size, across first; between them lie rows of the result's width. */
static void run(const struct sluice_image_view *view, const struct weights *across,
                const struct weights *down, uint32_t width, uint32_t height, uint8_t *between,
                uint8_t *out)
{
    const struct sluice_color_kernels *kernels = sluice_color_kernels_for(sluice_cpu_level());
    const size_t row = (size_t)width * 3;
    uint8_t *rows = down ? between : out;
    for (uint32_t y = 0; y < view->height; y++) {
        const uint8_t *from = view->pixels + y * view->stride;
        if (!across) {
            memcpy(rows + y * row, from, row);
            continue;
        }
        for (uint32_t x = 0; x < width; x++)
            kernels->weigh_pixels(from + 3 * (size_t)across->spans[x].first,
                                  across->coeffs + x * across->stride, across->spans[x].count,
                                  rows + y * row + 3 * (size_t)x);
    }
    for (uint32_t y = 0; down && y < height; y++)
        kernels->weigh_rows(between + down->spans[y].first * row, row,
                            down->coeffs + y * down->stride, down->spans[y].count, out + y * row);
}

static void mirror(uint8_t *pixels, uint32_t width, uint32_t height)
{
    for (uint32_t y = 0; y < height; y++) {
        uint8_t *row = pixels + (size_t)y * width * 3;
        for (uint32_t left = 0, right = width - 1; left < right; left++, right--) {
            uint8_t pixel[3];
            memcpy(pixel, row + 3 * (size_t)left, 3);
            memcpy(row + 3 * (size_t)left, row + 3 * (size_t)right, 3);
            memcpy(row + 3 * (size_t)right, pixel, 3);
        }
    }
}

static bool run_nearest(const struct sluice_resize_part *part, const struct sluice_box *in,
                        const struct sluice_image_view *view, uint8_t *out)
{
    const struct sluice_box *keep = &part->out;
    uint32_t *columns = malloc(((size_t)keep->width + keep->height) * sizeof(*columns));
    if (!columns)
        return false;
    uint32_t *rows = columns + keep->width;
    find_sources(part->in_width, part->out_width, keep->left, keep->width, columns);
    find_sources(part->in_height, part->out_height, keep->top, keep->height, rows);
    for (uint32_t y = 0; y < keep->height; y++) {
        const uint8_t *from = view->pixels + (rows[y] - in->top) * view->stride;
        for (uint32_t x = 0; x < keep->width; x++, out += 3)
            memcpy(out, from + 3 * (size_t)(columns[x] - in->left), 3);
    }
    free(columns);
    return true;
}

static bool run_weighted(const struct sluice_resize_part *part, const struct sluice_box *in,
                         const struct sluice_image_view *view, uint8_t *out)
{
    struct weights across = {0}, down = {0};
    const bool is_across = part->in_width != part->out_width;
    const bool is_down = part->in_height != part->out_height;
    const struct sluice_box *keep = &part->out;
    uint8_t *between = is_down ? malloc((size_t)view->height * keep->width * 3) : NULL;
    bool is_made = between || !is_down;
    if (is_made && is_across)
        is_made = weights_make(&across, part->filter, part->in_width, part->out_width, in->left,
                               keep->left, keep->width);
    if (is_made && is_down)
        is_made = weights_make(&down, part->filter, part->in_height, part->out_height, in->top,
                               keep->top, keep->height);
    if (is_made)
        run(view, is_across ? &across : NULL, is_down ? &down : NULL, keep->width, keep->height,
            between, out);
    weights_clear(&across);
    weights_clear(&down);
    free(between);
    return is_made;
}

sluice_status sluice_resample_rgb_part(const struct sluice_resize_part *part,
                                       const struct sluice_box *in,
                                       const struct sluice_image_view *view, bool flip,
                                       uint8_t *out, struct sluice_err *err)
{
    const bool is_nearest = part->filter == SLUICE_RESIZE_NEAREST;
    if (!(is_nearest ? run_nearest : run_weighted)(part, in, view, out))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to resize %u x %u pixels to %u x %u",
                           part->in_width, part->in_height, part->out_width, part->out_height);
    if (flip)
        mirror(out, part->out.width, part->out.height);
    return SLUICE_OK;
}
