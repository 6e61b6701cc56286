/* The definition of the kernels: plain C, one sum after the other. */

#include "image/kernels/kernels.h"
#include "image/lookup.h"

#include <assert.h>
#include <math.h>

static uint8_t round_and_clip(int32_t sum)
{
    const int32_t value = (sum + (1 << (SLUICE_RESIZE_BITS - 1))) >> SLUICE_RESIZE_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* The triangle filter, as wide as the scale when it shrinks: what makes the
 * bilinear resize antialiased. */
static double triangle(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

struct sluice_tap_span sluice_tap_span(uint32_t num_in, uint32_t num_out, uint32_t o)
{
    const double scale = (double)num_in / num_out;
    const double support = scale < 1.0 ? 1.0 : scale;
    const double center = (o + 0.5) * scale;
    int first = (int)(center - support + 0.5);
    first = first < 0 ? 0 : first;
    int end = (int)(center + support + 0.5);
    end = end > (int)num_in ? (int)num_in : end;
    return (struct sluice_tap_span){(uint32_t)first, (uint32_t)(end - first)};
}

/* Weights in fixed point.  The order of the floating-point operations
 * is Pillow's, because the last bit of a weight depends on it. */
uint32_t sluice_weigh_c(const struct sluice_taps *taps, bool is_mirrored)
{
    const double scale = (double)taps->num_in / taps->num_out;
    const double support = scale < 1.0 ? 1.0 : scale;
    const double inverse = 1.0 / support;
    uint32_t max_count = 1;
    for (uint32_t i = 0; i < taps->num_out; i++) {
        const double center = (i + 0.5) * scale;
        const struct sluice_tap_span span = sluice_tap_span(taps->num_in, taps->num_out, i);
        const int first = (int)span.first;
        const uint32_t count = span.count;
        assert(count >= 1 && count <= taps->stride);

        double sum = 0;
        for (uint32_t k = 0; k < count; k++)
            sum += triangle(((int)k + first - center + 0.5) * inverse);
        const uint32_t o = is_mirrored ? taps->num_out - 1 - i : i;
        int32_t *coeffs = taps->coeffs + (size_t)o * taps->stride;
        for (uint32_t k = 0; k < taps->stride; k++) {
            int32_t coeff = 0;
            if (k < count) {
                const double weight = triangle(((int)k + first - center + 0.5) * inverse);
                const double normalized = sum != 0.0 ? weight / sum : weight;
                coeff = (int32_t)(0.5 + normalized * (1 << SLUICE_RESIZE_BITS));
            }
            coeffs[k] = coeff;
        }
        taps->spans[o] = span;
        max_count = count > max_count ? count : max_count;
    }
    return max_count;
}

static size_t plan_len(enum sluice_pass pass, uint32_t num_out, uint32_t stride)
{
    (void)pass, (void)num_out, (void)stride;
    return 0;
}

static void make_plan(enum sluice_pass pass, const struct sluice_taps *taps)
{
    (void)pass, (void)taps;
}

static void resize_row(const struct sluice_taps *taps, const uint8_t *in, uint8_t *out)
{
    for (uint32_t o = 0; o < taps->num_out; o++) {
        const int32_t *coeffs = taps->coeffs + (size_t)o * taps->stride;
        const uint8_t *p = in + (size_t)taps->spans[o].first * 3;
        int32_t red = 0, green = 0, blue = 0;
        for (uint32_t k = 0; k < taps->spans[o].count; k++, p += 3) {
            red += p[0] * coeffs[k];
            green += p[1] * coeffs[k];
            blue += p[2] * coeffs[k];
        }
        out[0] = round_and_clip(red);
        out[1] = round_and_clip(green);
        out[2] = round_and_clip(blue);
        out += 3;
    }
}

static void resize_rows(const struct sluice_taps *taps, const uint8_t *in, size_t in_stride,
                        uint32_t num_rows, uint8_t *out, size_t out_stride)
{
    for (; num_rows > 0; num_rows--, in += in_stride, out += out_stride)
        resize_row(taps, in, out);
}

static void blend_rows(const struct sluice_taps *taps, uint32_t o, const uint8_t *const *rows,
                       uint8_t *out, size_t num_bytes)
{
    const int32_t *coeffs = taps->coeffs + (size_t)o * taps->stride;
    const uint32_t count = taps->spans[o].count;
    for (size_t i = 0; i < num_bytes; i++) {
        int32_t sum = 0;
        for (uint32_t k = 0; k < count; k++)
            sum += rows[k][i] * coeffs[k];
        out[i] = round_and_clip(sum);
    }
}

static void flip_row(const uint8_t *in, size_t width, uint8_t *out)
{
    for (size_t x = 0; x < width; x++) {
        const uint8_t *pixel = in + (width - 1 - x) * 3;
        out[3 * x] = pixel[0];
        out[3 * x + 1] = pixel[1];
        out[3 * x + 2] = pixel[2];
    }
}

void sluice_look_up_c(const struct sluice_lookup *lookup, const uint8_t *pixels, size_t num_pixels,
                      void *out, size_t plane)
{
    const bool is_planar = lookup->layout == SLUICE_LOOKUP_CHW;
    const size_t step = is_planar ? 1 : 3, to_green = is_planar ? plane : 1;
    const uint32_t *red = lookup->words[0], *green = lookup->words[1], *blue = lookup->words[2];
    if (lookup->type == SLUICE_LOOKUP_F32) {
        uint32_t *to = out;
        for (size_t i = 0; i < num_pixels; i++, pixels += 3, to += step) {
            to[0] = red[pixels[0]];
            to[to_green] = green[pixels[1]];
            to[2 * to_green] = blue[pixels[2]];
        }
    } else {
        uint16_t *to = out;
        for (size_t i = 0; i < num_pixels; i++, pixels += 3, to += step) {
            to[0] = (uint16_t)red[pixels[0]];
            to[to_green] = (uint16_t)green[pixels[1]];
            to[2 * to_green] = (uint16_t)blue[pixels[2]];
        }
    }
}

const struct sluice_kernels sluice_kernels_c = {
    .weigh = sluice_weigh_c,
    .plan_len = plan_len,
    .make_plan = make_plan,
    .resize_rows = resize_rows,
    .blend_rows = blend_rows,
    .flip_row = flip_row,
    .look_up = sluice_look_up_c,
};
