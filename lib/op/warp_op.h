#ifndef SLUICE_OP_WARP_OP_H
#define SLUICE_OP_WARP_OP_H

#include "image/warp.h"
#include "op/op.h"

/* Ops that move pixels by a matrix share their last two parameters, and how they run.
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
/* ":filter=bilinear:fill=128", for ops that write others' texts. */
void sluice_warp_print(const struct sluice_warp_params *warp, char *text, size_t room);
/* The apply() of an op whose record has two coefficients more, values[8] and [9]: those of
 * image/warp.h's perspective are values[0 .. 6) and these. */
void sluice_perspective_apply(const union sluice_drawn *drawn, struct sluice_size size,
                              const uint8_t *in, uint8_t *out, void *memory);
/* The ns_of() of such an op. */
double sluice_warp_ns(const struct sluice_warp_params *warp);
/* The call() and the apply() of such an op. */
void sluice_warp_call(const union sluice_drawn *drawn, struct sluice_kernel_call *call);
void sluice_warp_apply(const union sluice_drawn *drawn, struct sluice_size size, const uint8_t *in,
                       uint8_t *out, void *memory);

#endif
