#include "sluice/sluice.h"

#include "base/buf.h"
#include "base/error.h"
#include "image/codecs/codec.h"
#include "image/orientation.h"
#include "op/geometry.h"

#include <math.h>
#include <stdint.h>

/* Boxes, keypoints and masks, moved by the matrix of a row's geometry.  In double, rounded at the
 * end. */

/* False: the matrix shows the point nowhere. */
static bool move_point(const double m[9], double x, double y, double *u, double *v)
{
    const double w = m[6] * x + m[7] * y + m[8];
    *u = (m[0] * x + m[1] * y + m[2]) / w;
    *v = (m[3] * x + m[4] * y + m[5]) / w;
    return w > 0 && isfinite(*u) && isfinite(*v);
}

static float clamp(double value, double most)
{
    return (float)(value < 0 ? 0 : value > most ? most : value);
}

/* The box around the box's moved corners, clipped to the row.  False: it is shown nowhere. */
static bool move_box(const double matrix[9], double height, double width, const float box[4],
                     float moved[4])
{
    double left = INFINITY, top = INFINITY, right = -INFINITY, bottom = -INFINITY;
    if (!(box[0] <= box[2] && box[1] <= box[3]))
        return false;
    for (int corner = 0; corner < 4; corner++) {
        double u, v;
        if (!move_point(matrix, box[corner % 2 ? 2 : 0], box[corner / 2 ? 3 : 1], &u, &v))
            return false;
        left = fmin(left, u);
        right = fmax(right, u);
        top = fmin(top, v);
        bottom = fmax(bottom, v);
    }
    moved[0] = clamp(left, width);
    moved[1] = clamp(top, height);
    moved[2] = clamp(right, width);
    moved[3] = clamp(bottom, height);
    return true;
}

size_t sluice_move_boxes(const double matrix[9], uint32_t height, uint32_t width,
                         const float *boxes, size_t num_boxes, double min_size, double min_area,
                         float *moved, uint32_t *kept)
{
    size_t num_kept = 0;
    for (size_t i = 0; i < num_boxes; i++) {
        float box[4];
        if (!move_box(matrix, height, width, boxes + 4 * i, box))
            continue;
        const double across = (double)box[2] - box[0], down = (double)box[3] - box[1];
        if (!(across >= min_size && down >= min_size && across * down >= min_area))
            continue;
        for (int k = 0; k < 4; k++)
            moved[4 * num_kept + (size_t)k] = box[k];
        kept[num_kept++] = (uint32_t)i;
    }
    return num_kept;
}

void sluice_move_keypoints(const double matrix[9], uint32_t height, uint32_t width,
                           const float *points, size_t num_points, unsigned dim, float *moved)
{
    for (size_t i = 0; i < num_points; i++, points += dim, moved += dim) {
        const bool is_labelled = dim < 3 || points[2] > 0;
        const float visibility = dim < 3 ? 0 : points[2];
        double u = NAN, v = NAN;
        bool is_there = is_labelled && move_point(matrix, points[0], points[1], &u, &v);
        if (dim == 3)
            is_there = is_there && u >= 0 && v >= 0 && u < width && v < height;
        moved[0] = is_there ? (float)u : dim < 3 ? NAN : 0;
        moved[1] = is_there ? (float)v : dim < 3 ? NAN : 0;
        if (dim == 3)
            moved[2] = is_there ? visibility : 0;
    }
}

/* The least part of a pixel that counts.  A point on the edge of two pixels, as where a resize
 * halves an image, belongs to the second, however the inverse is rounded. */
#define EDGE 1e-7

static void sample_nearest(const double m[9], const uint8_t *in, uint32_t in_width,
                           uint32_t in_height, uint32_t height, uint32_t width, uint8_t fill,
                           uint8_t *out)
{
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            const double u = x + 0.5, v = y + 0.5, w = m[6] * u + m[7] * v + m[8];
            const double from_x = (m[0] * u + m[1] * v + m[2]) / w + EDGE;
            const double from_y = (m[3] * u + m[4] * v + m[5]) / w + EDGE;
            const bool is_in =
                from_x >= 0 && from_y >= 0 && from_x < in_width && from_y < in_height;
            *out++ = is_in ? in[(size_t)from_y * in_width + (size_t)from_x] : fill;
        }
    }
}

sluice_status sluice_move_mask(const struct sluice_geometry *geometry, const void *mask,
                               size_t mask_bytes, uint32_t height, uint32_t width, uint8_t fill,
                               uint8_t *out, struct sluice_err *err)
{
    const bool is_turned = sluice_orientation_swaps(geometry->orientation);
    const uint32_t file_width = is_turned ? geometry->height : geometry->width;
    const uint32_t file_height = is_turned ? geometry->width : geometry->height;
    struct sluice_image_info info;
    sluice_status status = sluice_image_probe(mask, mask_bytes, &info, err);
    if (status != SLUICE_OK)
        return status;
    if (info.width != file_width || info.height != file_height)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "a mask of %u x %u pixels for an image of %u x %u", info.width,
                           info.height, file_width, file_height);
    struct sluice_buf *values = NULL;
    status = sluice_png_decode_mask(mask, mask_bytes, &values, err);
    if (status != SLUICE_OK)
        return status;
    double inverse[9];
    sluice_matrix_invert(geometry->matrix, inverse);
    sample_nearest(inverse, values->data, file_width, file_height, height, width, fill, out);
    sluice_buf_unref(values);
    return SLUICE_OK;
}
