#include "op/geometry.h"

#include "base/buf.h"
#include "image/jpeg/crop.h"
#include "image/orientation.h"
#include "op/form.h"
#include "op/pixels.h"
#include "op/run_region.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- the image in a file --- */

sluice_status sluice_file_image_read(const struct sluice_pipeline *pipeline,
                                     const struct sluice_sample *sample,
                                     struct sluice_file_image *image, struct sluice_err *err)
{
    const struct sluice_buf *file = sample->data;
    assert(sample->ops_done == 0);
    if (sluice_sample_is_window(sample)) { /* files that have to be turned are not cut */
        struct sluice_jpeg_crop_box window;
        const sluice_status status = sluice_jpeg_crop_window(file->data, file->len, &window, err);
        if (status == SLUICE_OK)
            *image = (struct sluice_file_image){window.full_width, window.full_height, 1};
        return status;
    }
    struct sluice_image_info info;
    const sluice_status status = sluice_image_probe(file->data, file->len, &info, err);
    if (status == SLUICE_OK)
        *image = (struct sluice_file_image){
            info.width, info.height, sluice_file_orientation(pipeline, file->data, file->len)};
    return status;
}

bool sluice_file_image_is_possible(const struct sluice_file_image *image)
{
    return image->width >= 1 && image->width <= SLUICE_MAX_IMAGE_SIDE && image->height >= 1 &&
           image->height <= SLUICE_MAX_IMAGE_SIDE && image->orientation >= 1 &&
           image->orientation <= 8;
}

/* --- matrices: 3 x 3, row by row --- */

void sluice_matrix_invert(const double m[9], double inverse[9])
{
    const double a = m[4] * m[8] - m[5] * m[7], b = m[5] * m[6] - m[3] * m[8],
                 c = m[3] * m[7] - m[4] * m[6];
    const double det = m[0] * a + m[1] * b + m[2] * c;
    const double adjugate[9] = {
        a, m[2] * m[7] - m[1] * m[8], m[1] * m[5] - m[2] * m[4],
        b, m[0] * m[8] - m[2] * m[6], m[2] * m[3] - m[0] * m[5],
        c, m[1] * m[6] - m[0] * m[7], m[0] * m[4] - m[1] * m[3],
    };
    for (int i = 0; i < 9; i++)
        inverse[i] = isfinite(det) && det != 0 ? adjugate[i] / det : 0;
}

/* *all = then * *all. */
static void append(double all[9], const double then[9])
{
    double product[9];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++)
            product[3 * i + j] =
                then[3 * i] * all[j] + then[3 * i + 1] * all[3 + j] + then[3 * i + 2] * all[6 + j];
    }
    memcpy(all, product, sizeof(product));
}

static void append_scale(double all[9], double sx, double tx, double sy, double ty)
{
    const double then[9] = {sx, 0, tx, 0, sy, ty, 0, 0, 1};
    append(all, then);
}

/* Turns an image of this size upright. */
static void append_turn(double all[9], uint32_t orientation, struct sluice_size stored)
{
    const double w = stored.width, h = stored.height;
    const double turns[8][6] = {
        {1, 0, 0, 0, 1, 0}, {-1, 0, w, 0, 1, 0}, {-1, 0, w, 0, -1, h}, {1, 0, 0, 0, -1, h},
        {0, 1, 0, 1, 0, 0}, {0, -1, h, 1, 0, 0}, {0, -1, h, -1, 0, w}, {0, 1, 0, -1, 0, w},
    };
    const double *t = turns[orientation - 1];
    const double then[9] = {t[0], t[1], t[2], t[3], t[4], t[5], 0, 0, 1};
    append(all, then);
}

/* --- ops --- */

static bool moves_pixels(const struct sluice_op *op)
{
    bool moves = op->type->map != NULL;
    for (unsigned i = 0; !moves && i < op->num_children; i++)
        moves = moves_pixels(&op->children[i]);
    return moves;
}

/* The first blend, among the op and its children, whose branches move pixels. */
static const struct sluice_op *find_blend(const struct sluice_op *op)
{
    if (op->type->kind == SLUICE_OP_BLEND)
        return moves_pixels(op) ? op : NULL;
    const struct sluice_op *found = NULL;
    for (unsigned i = 0; !found && i < op->num_children; i++)
        found = find_blend(&op->children[i]);
    return found;
}

sluice_status sluice_pipeline_check_geometry(const struct sluice_pipeline *pipeline,
                                             struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (unsigned v = 0; pipeline->views[0] && status == SLUICE_OK && v < pipeline->num_views; v++)
        status = sluice_pipeline_check_geometry(pipeline->views[v], err);
    for (unsigned op = 0; status == SLUICE_OK && op < pipeline->num_ops; op++) {
        const struct sluice_op *blend = find_blend(&pipeline->ops[op]);
        if (blend)
            status =
                sluice_fail(err, SLUICE_E_INVALID,
                            "op %u (%s) mixes images whose pixels were moved apart, so that no "
                            "geometry describes its result",
                            blend->index + 1, blend->type->name);
    }
    return status;
}

static void append_resample(double all[9], const struct sluice_resample *r)
{
    const double sx = (double)r->to.width / r->from.width;
    const double sy = (double)r->to.height / r->from.height;
    append_scale(all, 1, -(double)r->from.left, 1, -(double)r->from.top);
    append_scale(all, sx, (double)r->left - r->keep.left, sy, (double)r->top - r->keep.top);
}

/* An op that keeps the image's size. */
static void append_op(struct sluice_geometry *geometry, const struct sluice_drawn_op *drawn,
                      struct sluice_size size)
{
    const struct sluice_op_type *type = drawn->op->type;
    if (type->kind == SLUICE_OP_MIRROR && drawn->drawn.is_mirrored) {
        append_scale(geometry->matrix, -1, size.width, 1, 0);
        geometry->is_flipped = !geometry->is_flipped;
    } else if (type->map) {
        double map[9];
        type->map(&drawn->drawn, size, map);
        append(geometry->matrix, map);
    }
}

/* From homogeneous coordinates of any scale to those with a 1 at the end. */
static void normalize(double matrix[9])
{
    const double last = matrix[8];
    for (int i = 0; last != 0 && last != 1 && i < 9; i++)
        matrix[i] /= last;
}

/* The geometry of what the ops before `end` make, and the size of that. */
static struct sluice_geometry geometry_until(const struct sluice_pipeline *own, unsigned end,
                                             const struct sluice_draw_key *key,
                                             const struct sluice_file_image *image,
                                             struct sluice_size *end_size)
{
    assert(sluice_file_image_is_possible(image));
    struct sluice_size size = {image->width, image->height};
    struct sluice_geometry made = {.matrix = {1, 0, 0, 0, 1, 0, 0, 0, 1}};
    append_turn(made.matrix, image->orientation, size);
    if (sluice_orientation_swaps(image->orientation))
        size = (struct sluice_size){image->height, image->width};
    made.orientation = image->orientation;
    made.width = made.crop_width = size.width;
    made.height = made.crop_height = size.height;
    bool has_crop = false;
    for (unsigned op = sluice_first_op(own); op < end; op++) {
        const struct sluice_op_type *type = own->ops[op].type;
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        const unsigned num = sluice_pixels_resolve(&own->ops[op], 1, key, size, list);
        if (type->kind == SLUICE_OP_RESAMPLE) {
            const struct sluice_resample *r = &list[0].drawn.resample;
            append_resample(made.matrix, r);
            if (!has_crop && !type->takes_whole) {
                const struct sluice_box *kept = type->bucket_of ? &r->keep : &r->from;
                made.crop_left = kept->left;
                made.crop_top = kept->top;
                made.crop_width = kept->width;
                made.crop_height = kept->height;
                has_crop = true;
            }
            size = r->out;
            continue;
        }
        for (unsigned i = 0; i < num; i++)
            append_op(&made, &list[i], size);
    }
    normalize(made.matrix);
    *end_size = size;
    return made;
}

void sluice_pipeline_geometry(const struct sluice_pipeline *pipeline,
                              const struct sluice_draw_key *key,
                              const struct sluice_file_image *image, unsigned view,
                              struct sluice_geometry *geometry)
{
    struct sluice_size size;
    assert(view < sluice_pipeline_num_views(pipeline));
    const struct sluice_pipeline *own = sluice_pipeline_view(pipeline, view);
    *geometry = geometry_until(own, own->u8_split, key, image, &size);
}

/* --- what depends on boxes --- */

bool sluice_matrix_move_point(const double m[9], double x, double y, double *u, double *v)
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

bool sluice_matrix_move_box(const double matrix[9], double height, double width, const float box[4],
                            float moved[4])
{
    double left = INFINITY, top = INFINITY, right = -INFINITY, bottom = -INFINITY;
    if (!(box[0] <= box[2] && box[1] <= box[3]))
        return false;
    for (int corner = 0; corner < 4; corner++) {
        double u, v;
        if (!sluice_matrix_move_point(matrix, box[corner % 2 ? 2 : 0], box[corner / 2 ? 3 : 1], &u,
                                      &v))
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

/* The op whose draw depends on boxes; u8_split: none. */
static unsigned boxed_op(const struct sluice_pipeline *pipeline)
{
    unsigned op = 0;
    while (op < pipeline->u8_split && !pipeline->ops[op].type->draw_by_boxes)
        op++;
    return op;
}

bool sluice_pipeline_draws_by_boxes(const struct sluice_pipeline *pipeline)
{
    return boxed_op(pipeline) < pipeline->u8_split;
}

sluice_status sluice_pipeline_draw_crop(const struct sluice_pipeline *pipeline,
                                        const struct sluice_draw_key *key,
                                        const struct sluice_file_image *image, const float *boxes,
                                        size_t num_boxes, struct sluice_box *crop,
                                        struct sluice_err *err)
{
    const unsigned at = boxed_op(pipeline);
    const struct sluice_op *op = &pipeline->ops[at];
    assert(at < pipeline->u8_split);
    *crop = (struct sluice_box){0};
    if (num_boxes == 0 || !sluice_op_runs_in(op, key->schedule))
        return SLUICE_OK;
    struct sluice_size size;
    const struct sluice_geometry before = geometry_until(pipeline, at, key, image, &size);
    float *moved = malloc(num_boxes * 4 * sizeof(*moved));
    if (!moved)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu boxes", num_boxes);
    size_t num = 0;
    for (size_t i = 0; i < num_boxes; i++)
        num += sluice_matrix_move_box(before.matrix, size.height, size.width, boxes + 4 * i,
                                      moved + 4 * num);
    struct sluice_rng rng = sluice_op_rng(op, key, 0);
    *crop = op->type->draw_by_boxes(op->params, size, moved, num, &rng);
    free(moved);
    return SLUICE_OK;
}
