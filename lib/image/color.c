#include "image/color.h"

#include <math.h>
#include <string.h>

void sluice_map_rgb(const uint8_t *in, size_t num_pixels, const uint8_t table[3][256], uint8_t *out)
{
    for (size_t i = 0; i < num_pixels * 3; i += 3) {
        out[i] = table[0][in[i]];
        out[i + 1] = table[1][in[i + 1]];
        out[i + 2] = table[2][in[i + 2]];
    }
}

void sluice_histogram_rgb(const uint8_t *pixels, size_t num_pixels, uint32_t histogram[3][256])
{
    memset(histogram, 0, 3 * sizeof(histogram[0]));
    for (size_t i = 0; i < num_pixels * 3; i += 3) {
        histogram[0][pixels[i]]++;
        histogram[1][pixels[i + 1]]++;
        histogram[2][pixels[i + 2]]++;
    }
}

uint64_t sluice_luma_sum(const uint8_t *pixels, size_t num_pixels, const uint8_t before[3][256])
{
    uint64_t sum = 0;
    for (size_t i = 0; i < num_pixels * 3; i += 3) {
        const uint8_t rgb[3] = {before[0][pixels[i]], before[1][pixels[i + 1]],
                                before[2][pixels[i + 2]]};
        sum += sluice_luma(rgb);
    }
    return sum;
}

void sluice_gray_rgb(const uint8_t *in, size_t num_pixels, uint8_t *out)
{
    for (size_t i = 0; i < num_pixels * 3; i += 3)
        out[i] = out[i + 1] = out[i + 2] = sluice_luma(in + i);
}

void sluice_saturate_rgb(const uint8_t *in, size_t num_pixels, float factor, uint8_t *out)
{
    for (size_t i = 0; i < num_pixels * 3; i += 3) {
        const float luma = sluice_luma(in + i);
        out[i] = sluice_blend(luma, in[i], factor);
        out[i + 1] = sluice_blend(luma, in[i + 1], factor);
        out[i + 2] = sluice_blend(luma, in[i + 2], factor);
    }
}

/* --- hue --- */

struct hsv {
    uint8_t h, s, v;
};

/* Pillow's rgb2hsv_row(), with its rounding of each step. */
static struct hsv to_hsv(const uint8_t rgb[3])
{
    const int r = rgb[0], g = rgb[1], b = rgb[2];
    const int most = r > g ? (r > b ? r : b) : (g > b ? g : b);
    const int least = r < g ? (r < b ? r : b) : (g < b ? g : b);
    if (most == least)
        return (struct hsv){.v = (uint8_t)most};
    const float range = (float)(most - least);
    const float s = range / (float)most;
    const float rc = (float)(most - r) / range, gc = (float)(most - g) / range,
                bc = (float)(most - b) / range;
    float h;
    if (r == most)
        h = bc - gc;
    else if (g == most)
        h = (float)(2.0 + (double)rc - (double)bc);
    else
        h = (float)(4.0 + (double)gc - (double)rc);
    const double turn = (double)h / 6.0 + 1.0; /* in [5/6, 2) */
    h = (float)(turn >= 1.0 ? turn - 1.0 : turn);
    return (struct hsv){(uint8_t)((double)h * 255.0), (uint8_t)((double)s * 255.0), (uint8_t)most};
}

static uint8_t clip(double value)
{
    return (uint8_t)(value <= 0 ? 0 : value >= 255 ? 255 : value);
}

/* Pillow's hsv2rgb_row(). */
static void to_rgb(struct hsv hsv, uint8_t rgb[3])
{
    if (hsv.s == 0) {
        rgb[0] = rgb[1] = rgb[2] = hsv.v;
        return;
    }
    const double six = (double)(float)hsv.h * 6.0 / 255.0;
    const int i = (int)six;
    const float f = (float)(six - (double)(float)i);
    const float fs = (float)((double)(float)hsv.s / 255.0);
    const double v = (float)hsv.v;
    const uint8_t p = clip(round(v * (1.0 - (double)fs)));
    const uint8_t q = clip(round(v * (1.0 - (double)(fs * f))));
    const uint8_t t = clip(round(v * (1.0 - (double)fs * (1.0 - (double)f))));
    const uint8_t turns[6][3] = {{hsv.v, t, p}, {q, hsv.v, p}, {p, hsv.v, t},
                                 {p, q, hsv.v}, {t, p, hsv.v}, {hsv.v, p, q}};
    memcpy(rgb, turns[i % 6], 3);
}

void sluice_shift_hue_rgb(const uint8_t *in, size_t num_pixels, uint8_t shift, uint8_t *out)
{
    for (size_t i = 0; i < num_pixels * 3; i += 3) {
        struct hsv hsv = to_hsv(in + i);
        hsv.h = (uint8_t)(hsv.h + shift);
        to_rgb(hsv, out + i);
    }
}

/* --- sharpness --- */

void sluice_sharpen_rgb(const uint8_t *in, uint32_t width, uint32_t height, float factor,
                        uint8_t *out)
{
    const size_t row = (size_t)width * 3;
    for (uint32_t y = 0; y < height; y++) {
        const uint8_t *at = in + y * row;
        uint8_t *to = out + y * row;
        if (y == 0 || y + 1 == height || width < 3) {
            memcpy(to, at, row);
            continue;
        }
        memcpy(to, at, 3);
        for (size_t x = 3; x < row - 3; x++) {
            const uint8_t *up = at + x - row, *here = at + x, *down = at + x + row;
            const int sum = up[-3] + up[0] + up[3] + here[-3] + 5 * here[0] + here[3] + down[-3] +
                            down[0] + down[3];
            const int smooth = (2 * sum + 13) / 26; /* sum / 13, rounded */
            to[x] = sluice_blend((float)smooth, here[0], factor);
        }
        memcpy(to + row - 3, at + row - 3, 3);
    }
}

/* --- blur --- */

/* A box of radius + fraction pixels to either side, as weights of 24 bits. */
struct box {
    uint32_t radius, inner, edge;
};

static struct box box_of(float sigma)
{
    const float passes = 3;
    const float sigma2 = sigma * sigma / passes;
    const float length = (float)sqrt(12.0 * (double)sigma2 + 1.0);
    const float whole = (float)floor(((double)length - 1.0) / 2.0);
    float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * sigma2);
    part /= 6 * (sigma2 - (whole + 1) * (whole + 1));
    const float radius = whole + part;
    struct box box = {.radius = (uint32_t)radius};
    box.inner = (uint32_t)((float)(1u << 24) / (radius * 2 + 1));
    box.edge = ((1u << 24) - (box.radius * 2 + 1) * box.inner) / 2;
    return box;
}

/* Blurs along one line of `len` pixels `step` bytes apart. */
static void blur_line(const struct box *box, const uint8_t *in, size_t len, size_t step,
                      uint8_t *out, size_t out_step)
{
    const size_t last = len - 1, radius = box->radius;
    for (int c = 0; c < 3; c++) {
        const uint8_t *from = in + c;
        uint8_t *to = out + c;
        uint32_t sum = from[0] * (uint32_t)(radius + 1);
        for (size_t x = 0; x < radius; x++)
            sum += from[(x < last ? x : last) * step];
        for (size_t x = 0; x < len; x++) {
            const size_t behind = x > radius ? x - radius - 1 : 0;
            const size_t enters = x + radius < last ? x + radius : last;
            const size_t ahead = x + radius + 1 < last ? x + radius + 1 : last;
            sum += from[enters * step];
            sum -= from[behind * step];
            to[x * out_step] =
                (uint8_t)((sum * box->inner +
                           ((uint32_t)from[behind * step] + from[ahead * step]) * box->edge +
                           (1u << 23)) >>
                          24);
        }
    }
}

size_t sluice_blur_memory(uint32_t width, uint32_t height)
{
    return (size_t)width * height * 3 + 2 * 3 * (size_t)(width > height ? width : height);
}

/* Three passes over each line of `in`; the results stand `step` bytes apart. */
static void blur_lines(const struct box *box, const uint8_t *in, size_t num_lines, size_t in_next,
                       size_t len, size_t step, uint8_t *out, uint8_t *lines)
{
    uint8_t *first = lines, *second = lines + len * 3;
    for (size_t y = 0; y < num_lines; y++) {
        blur_line(box, in + y * in_next, len, step, first, 3);
        blur_line(box, first, len, 3, second, 3);
        blur_line(box, second, len, 3, out + y * in_next, step);
    }
}

void sluice_blur_rgb(const uint8_t *in, uint32_t width, uint32_t height, float sigma, uint8_t *out,
                     uint8_t *memory)
{
    const struct box box = box_of(sigma);
    const size_t row = (size_t)width * 3;
    uint8_t *between = memory, *lines = memory + row * height;
    blur_lines(&box, in, height, row, width, 3, between, lines);
    blur_lines(&box, between, width, 3, height, row, out, lines);
}
