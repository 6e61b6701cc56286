#ifndef SLUICE_OP_PIXELS_H
#define SLUICE_OP_PIXELS_H

#include "op/pipeline_private.h"

/* Runs ops that keep an image's size: tables, pixel ops, and choices of these.
 *
 *     ops of a stage --resolve--> a flat list of drawn ops --passes--> pixels
 *
 * Choices are resolved before the pixels are touched, so no other code handles them.  Adjacent
 * tables are composed into one pass.
 *
 * Threads: one at a time for each scratch. */

/* A drawn op.  In a list the ops of a blend's branches follow the blend; the ops after them take
 * its result. */
struct sluice_drawn_op {
    const struct sluice_op *op;
    union sluice_drawn drawn;
};

/* The number of ops in the branches of a blend. */
unsigned sluice_pixels_in_branches(const struct sluice_blend *blend);

/* Draws the ops that run on this sample, in order; returns the length of list[]. */
unsigned sluice_pixels_resolve(const struct sluice_op *ops, unsigned num_ops,
                               const struct sluice_draw_key *key, struct sluice_size size,
                               struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS]);

/* Whether the op, or one in its parentheses, runs only in some epochs. */
bool sluice_pixels_have_schedule(const struct sluice_op *op);
/* Appends the kernel calls of a list whose ops all have kernels.  Adjacent tables become one call.
 * False: the calls are full. */
SLUICE_MUST_USE bool sluice_pixels_add_calls(const struct sluice_drawn_op *list, unsigned num,
                                             struct sluice_kernel_calls *calls);

/* The op's mean cost over its draws in this epoch of the training, in nanoseconds per pixel.
 * Children that a choice draws without replacement count as equally likely. */
double sluice_pixels_mean_ns(const struct sluice_op *op, uint32_t schedule);

/* Runs the list, of at least one op, from `in` to `out`, both width x height x 3 without gaps. */
SLUICE_MUST_USE sluice_status sluice_pixels_run(const struct sluice_drawn_op *list, unsigned num,
                                                struct sluice_scratch *scratch,
                                                struct sluice_size size, const uint8_t *in,
                                                uint8_t *out, struct sluice_err *err);

#endif
