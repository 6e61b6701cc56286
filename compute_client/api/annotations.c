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

size_t sluice_move_boxes(const double matrix[9], uint32_t height, uint32_t width,
                         const float *boxes, size_t num_boxes, double min_size, double min_area,
                         float *moved, uint32_t *kept)
{
    size_t num_kept = 0;
    for (size_t i = 0; i < num_boxes; i++) {
        float box[4];
        if (!sluice_matrix_move_box(matrix, height, width, boxes + 4 * i, box))
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

bool sluice_shows_center(const double matrix[9], uint32_t height, uint32_t width,
                         const float box[4])
{
    double u, v;
    return sluice_matrix_move_point(matrix, ((double)box[0] + box[2]) / 2,
                                    ((double)box[1] + box[3]) / 2, &u, &v) &&
           u > 0 && v > 0 && u < width && v < height;
}

void sluice_move_keypoints(const double matrix[9], uint32_t height, uint32_t width,
                           const float *points, size_t num_points, unsigned dim, float *moved)
{
    for (size_t i = 0; i < num_points; i++, points += dim, moved += dim) {
        const bool is_labelled = dim < 3 || points[2] > 0;
        const float visibility = dim < 3 ? 0 : points[2];
        double u = NAN, v = NAN;
        bool is_there =
            is_labelled && sluice_matrix_move_point(matrix, points[0], points[1], &u, &v);
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
