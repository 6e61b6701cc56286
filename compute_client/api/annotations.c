#include "sluice/sluice.h"

#include <math.h>
#include <stdint.h>

/* Boxes and keypoints, moved by the matrix of a row's geometry.  In double, rounded at the end. */

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
