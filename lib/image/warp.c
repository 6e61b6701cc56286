#include "image/warp.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Pillow's libImaging/Geometry.c, by its own paths: nearest has three, which round differently. */

struct image {
    const uint8_t *pixels;
    int width, height;
};

static void fill_rgb(uint8_t *out, size_t num_pixels, const uint8_t fill[3])
{
    for (size_t i = 0; i < num_pixels; i++)
        memcpy(out + 3 * i, fill, 3);
}

/* COORD(): -1 is outside. */
static int whole(double v)
{
    return v < 0 ? -1 : (int)v;
}

static int floor_of(double v)
{
    return v < 0 ? (int)floor(v) : (int)v;
}

/* --- nearest --- */

/* ImagingScaleAffine(): no rotation and no shear, such as a translation. */
static void scale_nearest(const struct image *in, const double m[6], uint8_t *out)
{
    double yo = m[5] + m[4] * 0.5;
    for (int y = 0; y < in->height; y++, yo += m[4]) {
        const int from_y = whole(yo);
        if (from_y < 0 || from_y >= in->height)
            continue;
        double xo = m[2] + m[0] * 0.5;
        for (int x = 0; x < in->width; x++, xo += m[0]) {
            const int from_x = whole(xo);
            if (from_x >= 0 && from_x < in->width)
                memcpy(out + 3 * ((size_t)y * (size_t)in->width + (size_t)x),
                       in->pixels + 3 * ((size_t)from_y * (size_t)in->width + (size_t)from_x), 3);
        }
    }
}

/* check_fixed(): the corner's source is representable. */
static bool is_fixed(const double m[6], int x, int y)
{
    return fabs(x * m[0] + y * m[1] + m[2]) < 32768.0 && fabs(x * m[3] + y * m[4] + m[5]) < 32768.0;
}

static int32_t fix(double v)
{
    return (int32_t)floor_of(v * 65536.0 + 0.5);
}

static int32_t add(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

/* affine_fixed(): 16 bits of fraction. */
static void fixed_nearest(const struct image *in, const double m[6], uint8_t *out)
{
    const int32_t a0 = fix(m[0]), a1 = fix(m[1]), a3 = fix(m[3]), a4 = fix(m[4]);
    int32_t a2 = fix(m[2] + m[0] * 0.5 + m[1] * 0.5), a5 = fix(m[5] + m[3] * 0.5 + m[4] * 0.5);
    for (int y = 0; y < in->height; y++) {
        int32_t xx = a2, yy = a5;
        for (int x = 0; x < in->width; x++, out += 3) {
            const int from_x = xx >> 16, from_y = yy >> 16;
            if (from_x >= 0 && from_x < in->width && from_y >= 0 && from_y < in->height)
                memcpy(out, in->pixels + 3 * ((size_t)from_y * (size_t)in->width + (size_t)from_x),
                       3);
            xx = add(xx, a0);
            yy = add(yy, a3);
        }
        a2 = add(a2, a1);
        a5 = add(a5, a4);
    }
}

/* ImagingTransformAffine(): in double, for what is too large for that. */
static void double_nearest(const struct image *in, const double m[6], uint8_t *out)
{
    double xo = m[2] + m[1] * 0.5 + m[0] * 0.5, yo = m[5] + m[4] * 0.5 + m[3] * 0.5;
    for (int y = 0; y < in->height; y++, xo += m[1], yo += m[4]) {
        double xx = xo, yy = yo;
        for (int x = 0; x < in->width; x++, out += 3, xx += m[0], yy += m[3]) {
            const int from_x = whole(xx), from_y = whole(yy);
            if (from_x >= 0 && from_x < in->width && from_y >= 0 && from_y < in->height)
                memcpy(out, in->pixels + 3 * ((size_t)from_y * (size_t)in->width + (size_t)from_x),
                       3);
        }
    }
}

static void warp_nearest(const struct image *in, const double m[6], uint8_t *out)
{
    const int w = in->width, h = in->height;
    if (m[1] == 0 && m[3] == 0)
        scale_nearest(in, m, out);
    else if (is_fixed(m, 0, 0) && is_fixed(m, w, h) && is_fixed(m, 0, h) && is_fixed(m, w, 0))
        fixed_nearest(in, m, out);
    else
        double_nearest(in, m, out);
}

/* --- bilinear and bicubic --- */

static int clamp(int v, int size)
{
    return v < 0 ? 0 : v < size ? v : size - 1;
}

static const uint8_t *row_of(const struct image *in, int y)
{
    return in->pixels + (size_t)y * (size_t)in->width * 3;
}

static double mix(double a, double b, double part)
{
    return a + (b - a) * part;
}

static void take_bilinear(const struct image *in, double xin, double yin, uint8_t out[3])
{
    xin -= 0.5;
    yin -= 0.5;
    const int x = floor_of(xin), y = floor_of(yin);
    const double dx = xin - x, dy = yin - y;
    const int x0 = clamp(x, in->width) * 3, x1 = clamp(x + 1, in->width) * 3;
    const uint8_t *upper = row_of(in, clamp(y, in->height));
    const uint8_t *lower = y + 1 >= 0 && y + 1 < in->height ? row_of(in, y + 1) : upper;
    for (int c = 0; c < 3; c++) {
        const double v1 = mix(upper[x0 + c], upper[x1 + c], dx);
        const double v2 = mix(lower[x0 + c], lower[x1 + c], dx);
        out[c] = (uint8_t)mix(v1, v2, dy);
    }
}

/* Keys' cubic with a = -1. */
static double cubic(double v1, double v2, double v3, double v4, double d)
{
    const double p1 = v2;
    const double p2 = -v1 + v3;
    const double p3 = 2 * (v1 - v2) + v3 - v4;
    const double p4 = -v1 + v2 - v3 + v4;
    return p1 + d * (p2 + d * (p3 + d * p4));
}

static void take_bicubic(const struct image *in, double xin, double yin, uint8_t out[3])
{
    xin -= 0.5;
    yin -= 0.5;
    const int x = floor_of(xin), y = floor_of(yin);
    const double dx = xin - x, dy = yin - y;
    int at[4];
    for (int i = 0; i < 4; i++)
        at[i] = clamp(x - 1 + i, in->width) * 3;
    for (int c = 0; c < 3; c++) {
        double v[4];
        for (int i = 0; i < 4; i++) {
            const int line = y - 1 + i;
            /* Beneath the image the row before it stands in; the first one is clamped. */
            if (i > 0 && (line < 0 || line >= in->height)) {
                v[i] = v[i - 1];
                continue;
            }
            const uint8_t *row = row_of(in, clamp(line, in->height)) + c;
            v[i] = cubic(row[at[0]], row[at[1]], row[at[2]], row[at[3]], dx);
        }
        const double sum = cubic(v[0], v[1], v[2], v[3], dy);
        out[c] = (uint8_t)(sum <= 0 ? 0 : sum >= 255 ? 255 : sum);
    }
}

static void warp_filtered(const struct image *in, const double m[6], bool is_bicubic, uint8_t *out)
{
    for (int y = 0; y < in->height; y++) {
        for (int x = 0; x < in->width; x++, out += 3) {
            const double xc = x + 0.5, yc = y + 0.5;
            const double xin = m[0] * xc + m[1] * yc + m[2], yin = m[3] * xc + m[4] * yc + m[5];
            if (xin < 0 || xin >= in->width || yin < 0 || yin >= in->height)
                continue;
            if (is_bicubic)
                take_bicubic(in, xin, yin, out);
            else
                take_bilinear(in, xin, yin, out);
        }
    }
}

void sluice_warp_rgb(const uint8_t *in, uint32_t width, uint32_t height, const double m[6],
                     enum sluice_warp_filter filter, const uint8_t fill[3], uint8_t *out)
{
    const struct image image = {in, (int)width, (int)height};
    fill_rgb(out, (size_t)width * height, fill);
    if (filter == SLUICE_WARP_NEAREST)
        warp_nearest(&image, m, out);
    else
        warp_filtered(&image, m, filter == SLUICE_WARP_BICUBIC, out);
}
