#ifndef SLUICE_OP_WARP_OP_H
#define SLUICE_OP_WARP_OP_H

#include "image/warp.h"
#include "op/op.h"

/* Shared by ops that move pixels by a matrix: their last two parameters, draw, apply and call.
 *
 * Threads: pure functions. */

struct sluice_warp_params {
    uint32_t filter; /* enum sluice_warp_filter; the last: bilinear or bicubic, drawn */
    uint8_t fill[3];
};

extern const char *const sluice_warp_filters[];

/* The entries of the two parameters in an op's list; `warp` is their member of its params. */
#define SLUICE_WARP_PARAMS(params)                                                                 \
    {.name = "filter",                                                                             \
     .kind = SLUICE_PARAM_WORD,                                                                    \
     .offset = offsetof(params, warp.filter),                                                      \
     .form = "nearest, bilinear, bicubic or random",                                               \
     .has_preset = true,                                                                           \
     .words = sluice_warp_filters},                                                                \
    {                                                                                              \
        .name = "fill", .kind = SLUICE_PARAM_COLOR, .offset = offsetof(params, warp.fill),         \
        .form = "V or R/G/B", .has_preset = true                                                   \
    }

/* Fills in the record: the matrix of image/warp.h, the filter and the fill. */
void sluice_warp_draw(const struct sluice_warp_params *warp, struct sluice_rng *rng,
                      const double matrix[6], union sluice_drawn *drawn);
/* Writes ":filter=bilinear:fill=128", for ops that write the text of their children. */
void sluice_warp_print(const struct sluice_warp_params *warp, char *text, size_t room);
/* apply() of a perspective op.  The coefficients of image/warp.h are values[0 .. 6), [8] and [9].
 */
void sluice_perspective_apply(const union sluice_drawn *drawn, struct sluice_size size,
                              const uint8_t *in, uint8_t *out, void *memory);
/* map() of an op that moves pixels by an affine matrix, and of a perspective op. */
void sluice_warp_map(const union sluice_drawn *drawn, struct sluice_size size, double matrix[9]);
void sluice_perspective_map(const union sluice_drawn *drawn, struct sluice_size size,
                            double matrix[9]);
/* ns_of() of an op that moves pixels. */
double sluice_warp_ns(const struct sluice_warp_params *warp);
/* call() and apply() of an op that moves pixels by an affine matrix. */
void sluice_warp_call(const union sluice_drawn *drawn, struct sluice_kernel_call *call);
void sluice_warp_apply(const union sluice_drawn *drawn, struct sluice_size size, const uint8_t *in,
                       uint8_t *out, void *memory);

#endif
