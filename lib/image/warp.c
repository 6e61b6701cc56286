#include "image/warp.h"

#include "image/kernels/color_kernels.h"
#include "image/kernels/warp_pixel.inc"

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
    memcpy(out, fill, 3);
    for (size_t done = 1; done < num_pixels;) {
        const size_t more = done < num_pixels - done ? done : num_pixels - done;
        memcpy(out + 3 * done, out, 3 * more);
        done += more;
    }
}

/* COORD(): -1 is outside. */
static int whole(double v)
{
    return v < 0 ? -1 : (int)v;
}

/* --- nearest --- */

/* The columns [begin, end) that have a source, which begins at `from`; is_run: each has the one
 * after its neighbour's. */
struct columns {
    int begin, end, from;
    bool is_run;
};

static struct columns find_columns(const struct image *in, double step, double xo)
{
    struct columns found = {.is_run = true};
    for (int x = 0; x < in->width; x++, xo += step) {
        const int from_x = whole(xo);
        if (from_x < 0 || from_x >= in->width)
            continue;
        if (found.end == 0) {
            found.begin = x;
            found.from = from_x;
        }
        found.is_run = found.is_run && from_x - found.from == x - found.begin;
        found.end = x + 1;
    }
    return found;
}

/* ImagingScaleAffine(): no rotation and no shear, such as a translation. */
static void scale_nearest(const struct image *in, const double m[6], uint8_t *out)
{
    const size_t width = (size_t)in->width;
    const double first = m[2] + m[0] * 0.5;
    const struct columns columns = find_columns(in, m[0], first);
    double yo = m[5] + m[4] * 0.5;
    for (int y = 0; y < in->height; y++, yo += m[4]) {
        const int from_y = whole(yo);
        if (from_y < 0 || from_y >= in->height)
            continue;
        const uint8_t *row = in->pixels + 3 * (size_t)from_y * width;
        uint8_t *to = out + 3 * (size_t)y * width;
        if (columns.is_run) {
            memcpy(to + 3 * columns.begin, row + 3 * columns.from,
                   3 * (size_t)(columns.end - columns.begin));
            continue;
        }
        double xo = first;
        for (int x = 0; x < columns.end; x++, xo += m[0]) {
            if (x >= columns.begin)
                memcpy(to + 3 * x, row + 3 * whole(xo), 3);
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

static int32_t at(int32_t from, int32_t step, int count)
{
    return (int32_t)((uint32_t)from + (uint32_t)step * (uint32_t)count);
}

static bool is_inside(const struct image *in, int32_t x, int32_t y)
{
    return x >> 16 >= 0 && x >> 16 < in->width && y >> 16 >= 0 && y >> 16 < in->height;
}

/* affine_fixed(): 16 bits of fraction. */
static void fixed_nearest(const struct image *in, const double m[6], uint8_t *out)
{
    const int32_t a0 = fix(m[0]), a1 = fix(m[1]), a3 = fix(m[3]), a4 = fix(m[4]);
    int32_t a2 = fix(m[2] + m[0] * 0.5 + m[1] * 0.5), a5 = fix(m[5] + m[3] * 0.5 + m[4] * 0.5);
    /* Rows only move, as shear_x makes them. */
    const bool is_run = a0 == 1 << 16 && a3 == 0;
    const struct sluice_color_kernels *kernels = sluice_color_kernels_for(sluice_cpu_level());
    for (int y = 0; y < in->height; y++, out += (size_t)in->width * 3) {
        /* A line crosses the image once: what is inside lies between the first and the last. */
        int x = 0, end = in->width;
        while (x < end && !is_inside(in, at(a2, a0, x), at(a5, a3, x)))
            x++;
        while (end > x && !is_inside(in, at(a2, a0, end - 1), at(a5, a3, end - 1)))
            end--;
        const struct sluice_walk walk = {at(a2, a0, x), at(a5, a3, x), a0, a3};
        const size_t width = (size_t)in->width, count = (size_t)(end - x);
        uint8_t *to = out + (size_t)x * 3;
        if (is_run && count > 0) {
            const size_t pixel = (size_t)(walk.y >> 16) * width + (size_t)(walk.x >> 16);
            memcpy(to, in->pixels + 3 * pixel, 3 * count);
        } else if (count > 0) {
            kernels->walk(in->pixels, width, (size_t)in->height, &walk, count, to);
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

void sluice_perspective_rgb(const uint8_t *in, uint32_t width, uint32_t height, const double a[8],
                            enum sluice_warp_filter filter, const uint8_t fill[3], uint8_t *out)
{
    const int w = (int)width, h = (int)height;
    fill_rgb(out, (size_t)width * height, fill);
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++, out += 3) {
            const double u = x + 0.5, v = y + 0.5, by = a[6] * u + a[7] * v + 1;
            const double from_x = (a[0] * u + a[1] * v + a[2]) / by;
            const double from_y = (a[3] * u + a[4] * v + a[5]) / by;
            if (!(from_x >= 0 && from_x < w && from_y >= 0 && from_y < h))
                continue;
            if (filter == SLUICE_WARP_NEAREST)
                memcpy(out, in + 3 * ((size_t)from_y * width + (size_t)from_x), 3);
            else if (filter == SLUICE_WARP_BILINEAR)
                take_bilinear(in, w, h, from_x, from_y, out);
            else
                take_bicubic(in, w, h, from_x, from_y, out);
        }
    }
}
