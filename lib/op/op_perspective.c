#include "op/warp_op.h"

#include <math.h>

/* perspective: torchvision's RandomPerspective on a PIL image: each corner moves towards the centre
 * by up to a part of half a side.  torchvision solves for the coefficients by float32 least
 * squares, which no other library repeats; ours are the solution in double. */

struct params {
    double distortion;
    struct sluice_warp_params warp;
};

static const struct sluice_op_param param_list[] = {
    {.name = "distortion",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, distortion),
     .form = "PART",
     .example = "0.5",
     .max = 1},
    SLUICE_WARP_PARAMS(struct params),
    {0},
};

#define NUM 8 /* coefficients, and equations: two of each corner */

/* Gaussian elimination with partial pivoting.  False: singular, as where an image is one pixel wide
 * and its corners meet. */
static bool solve(double rows[NUM][NUM + 1], double solution[NUM])
{
    for (int k = 0; k < NUM; k++) {
        int pivot = k;
        for (int i = k + 1; i < NUM; i++)
            pivot = fabs(rows[i][k]) > fabs(rows[pivot][k]) ? i : pivot;
        if (fabs(rows[pivot][k]) < 1e-12)
            return false;
        for (int j = 0; j <= NUM; j++) {
            const double swapped = rows[k][j];
            rows[k][j] = rows[pivot][j];
            rows[pivot][j] = swapped;
        }
        for (int i = k + 1; i < NUM; i++) {
            const double factor = rows[i][k] / rows[k][k];
            for (int j = k; j <= NUM; j++)
                rows[i][j] -= factor * rows[k][j];
        }
    }
    for (int k = NUM - 1; k >= 0; k--) {
        double sum = rows[k][NUM];
        for (int j = k + 1; j < NUM; j++)
            sum -= rows[k][j] * solution[j];
        solution[k] = sum / rows[k][k];
    }
    return true;
}

/* Where a corner goes on one axis: within `most` pixels of its own end. */
static double draw_end(struct sluice_rng *rng, bool is_last, uint32_t size, uint32_t most)
{
    const double by = sluice_rng_below(rng, most + 1);
    return is_last ? size - 1 - by : by;
}

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    const struct params *p = params;
    /* Clockwise from the upper left one. */
    static const bool is_right[4] = {false, true, true, false};
    static const bool is_lower[4] = {false, false, true, true};
    const uint32_t half_width = in.width / 2, half_height = in.height / 2;
    const uint32_t most_x = (uint32_t)(p->distortion * half_width);
    const uint32_t most_y = (uint32_t)(p->distortion * half_height);
    double rows[NUM][NUM + 1], a[NUM] = {1, 0, 0, 0, 1, 0, 0, 0};
    for (int i = 0; i < 4; i++) {
        const double x = draw_end(rng, is_right[i], in.width, most_x);
        const double y = draw_end(rng, is_lower[i], in.height, most_y);
        const double from_x = is_right[i] ? in.width - 1 : 0;
        const double from_y = is_lower[i] ? in.height - 1 : 0;
        const double across[NUM + 1] = {x, y, 1, 0, 0, 0, -from_x * x, -from_x * y, from_x};
        const double down[NUM + 1] = {0, 0, 0, x, y, 1, -from_y * x, -from_y * y, from_y};
        for (int j = 0; j <= NUM; j++) {
            rows[2 * i][j] = across[j];
            rows[2 * i + 1][j] = down[j];
        }
    }
    double solution[NUM];
    if (solve(rows, solution)) {
        for (int i = 0; i < NUM; i++)
            a[i] = solution[i];
    }
    sluice_warp_draw(&p->warp, rng, a, drawn);
    drawn->values[8] = a[6];
    drawn->values[9] = a[7];
}

static double ns_of(const void *params)
{
    return sluice_warp_ns(&((const struct params *)params)->warp);
}

const struct sluice_op_type sluice_op_perspective = {
    .name = "perspective",
    .help = "moves each corner towards the centre by up to this part of half a side",
    .column = "RandomPerspective",
    .kind = SLUICE_OP_PIXELS,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .ns_of = ns_of,
    .apply = sluice_perspective_apply,
    .map = sluice_perspective_map,
};
