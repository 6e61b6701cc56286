#ifndef SLUICE_OP_PIXELS_H
#define SLUICE_OP_PIXELS_H

#include "op/pipeline_private.h"

/* Runs ops that keep an image's size: tables, pixel ops, and choices of these.
 *
 *     ops of a stage --resolve--> a flat list of drawn ops --passes--> pixels
 *
 * A choice is resolved before a sample's pixels are touched, so nobody else sees one.  Tables that
 * follow each other are composed and run as one pass.
 *
 * Threads: as a scratch's. */

/* The ops of a blend's branches follow it in a list; those that follow these take its result. */
struct sluice_drawn_op {
    const struct sluice_op *op;
    union sluice_drawn drawn;
};

/* How many ops of a list belong to the branches of its first, a blend. */
unsigned sluice_pixels_in_branches(const struct sluice_blend *blend);

/* Draws the ops that run on this sample, in order; returns the length of list[]. */
unsigned sluice_pixels_resolve(const struct sluice_op *ops, unsigned num_ops,
                               const struct sluice_draw_key *key, struct sluice_size size,
                               struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS]);

/* Whether the op, or one in its parentheses, runs in some epochs alone. */
bool sluice_pixels_have_schedule(const struct sluice_op *op);

/* Whether a kernel does what the op does, and each op in its parentheses. */
bool sluice_pixels_have_kernel(const struct sluice_op *op);
/* Appends the calls that do what the list does; the op of each has a kernel.  Tables that follow
 * each other are one.  False: the calls are full. */
SLUICE_MUST_USE bool sluice_pixels_add_calls(const struct sluice_drawn_op *list, unsigned num,
                                             struct sluice_kernel_calls *calls);

/* Nanoseconds for each pixel of what the op runs in this epoch of the training, in the mean over
 * its draws, but for ops that choices take without replacement: these are taken to be as likely as
 * the others. */
double sluice_pixels_mean_ns(const struct sluice_op *op, uint32_t schedule);

/* Runs the list, of at least one op, from `in` to `out`, both width x height x 3 without gaps. */
SLUICE_MUST_USE sluice_status sluice_pixels_run(const struct sluice_drawn_op *list, unsigned num,
                                                struct sluice_scratch *scratch,
                                                struct sluice_size size, const uint8_t *in,
                                                uint8_t *out, struct sluice_err *err);

#endif
