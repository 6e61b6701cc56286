#include "image/warp.h"

#include "image/kernels/color_kernels.h"

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

void sluice_warp_rgb(const uint8_t *in, uint32_t width, uint32_t height, const double m[6],
                     enum sluice_warp_filter filter, const uint8_t fill[3], uint8_t *out)
{
    const struct image image = {in, (int)width, (int)height};
    fill_rgb(out, (size_t)width * height, fill);
    if (filter == SLUICE_WARP_NEAREST)
        warp_nearest(&image, m, out);
    else
        sluice_color_kernels_for(sluice_cpu_level())
            ->warp(in, (int)width, (int)height, m, filter == SLUICE_WARP_BICUBIC, out);
}
