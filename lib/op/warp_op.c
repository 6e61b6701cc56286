#include "op/warp_op.h"

#include "op/geometry.h"

#include <stdio.h>
#include <string.h>

const char *const sluice_warp_filters[] = {"nearest", "bilinear", "bicubic", "random", NULL};

void sluice_warp_draw(const struct sluice_warp_params *warp, struct sluice_rng *rng,
                      const double matrix[6], union sluice_drawn *drawn)
{
    const bool is_random = !sluice_warp_filters[warp->filter + 1];
    memcpy(drawn->values, matrix, 6 * sizeof(*matrix));
    drawn->values[6] = is_random ? SLUICE_WARP_BILINEAR + sluice_rng_below(rng, 2) : warp->filter;
    drawn->values[7] = warp->fill[0] + 256 * warp->fill[1] + 65536 * warp->fill[2];
}

void sluice_warp_print(const struct sluice_warp_params *warp, char *text, size_t room)
{
    snprintf(text, room, ":filter=%s:fill=%u/%u/%u", sluice_warp_filters[warp->filter],
             warp->fill[0], warp->fill[1], warp->fill[2]);
}

double sluice_warp_ns(const struct sluice_warp_params *warp)
{
    static const double ns[] = {1.2, 4, 12, 8}; /* by sluice_warp_filters */
    return ns[warp->filter];
}

void sluice_warp_call(const union sluice_drawn *drawn, struct sluice_kernel_call *call)
{
    call->kernel = SLUICE_KERNEL_WARP;
    memcpy(call->with.warp.matrix, drawn->values, sizeof(call->with.warp.matrix));
    call->with.warp.filter = (uint32_t)drawn->values[6];
    call->with.warp.fill = (uint32_t)drawn->values[7];
}

static void get_fill(const union sluice_drawn *drawn, uint8_t fill[3])
{
    const uint32_t packed = (uint32_t)drawn->values[7];
    for (int c = 0; c < 3; c++)
        fill[c] = (uint8_t)(packed >> 8 * c);
}

void sluice_warp_apply(const union sluice_drawn *drawn, struct sluice_size size, const uint8_t *in,
                       uint8_t *out, void *memory)
{
    (void)memory;
    uint8_t fill[3];
    get_fill(drawn, fill);
    sluice_warp_rgb(in, size.width, size.height, drawn->values,
                    (enum sluice_warp_filter)drawn->values[6], fill, out);
}

void sluice_perspective_apply(const union sluice_drawn *drawn, struct sluice_size size,
                              const uint8_t *in, uint8_t *out, void *memory)
{
    (void)memory;
    uint8_t fill[3];
    double a[8];
    get_fill(drawn, fill);
    memcpy(a, drawn->values, 6 * sizeof(*a));
    memcpy(a + 6, drawn->values + 8, 2 * sizeof(*a));
    sluice_perspective_rgb(in, size.width, size.height, a,
                           (enum sluice_warp_filter)drawn->values[6], fill, out);
}

/* The drawn matrix takes a point of the result to the input. */
void sluice_warp_map(const union sluice_drawn *drawn, struct sluice_size size, double matrix[9])
{
    (void)size;
    const double *m = drawn->values;
    sluice_matrix_invert((const double[9]){m[0], m[1], m[2], m[3], m[4], m[5], 0, 0, 1}, matrix);
}

void sluice_perspective_map(const union sluice_drawn *drawn, struct sluice_size size,
                            double matrix[9])
{
    (void)size;
    const double *m = drawn->values;
    sluice_matrix_invert((const double[9]){m[0], m[1], m[2], m[3], m[4], m[5], m[8], m[9], 1},
                         matrix);
}
