#ifndef SLUICE_IMAGE_CODECS_DECODE_BUDGET_H
#define SLUICE_IMAGE_CODECS_DECODE_BUDGET_H

#include "base/error.h"
#include "image/tuning.h"

#include <stdbool.h>
#include <stdint.h>

/* The CPU time that one image may cost: decoders count pixels row by row and stop when the time is
 * spent.  So a file made to be slow costs no more than an ordinary one of its size.
 *
 * Threads: a budget belongs to one thread, whose clock it reads. */

struct sluice_decode_budget {
    uint64_t allowed_ns;
    uint64_t end_ns;   /* on the thread's CPU clock; 0: the clock was not read */
    uint64_t unlooked; /* pixels decoded since the last read of the clock */
    bool is_spent;
};

/* Starts the budget for an image of num_pixels.  The time counts from the first read of the clock,
 * after SLUICE_DECODE_PIXELS_PER_LOOK pixels. */
void sluice_decode_budget_start(struct sluice_decode_budget *budget, uint64_t num_pixels);

bool sluice_decode_budget_look(struct sluice_decode_budget *budget);

/* Adds `num_pixels` decoded pixels.  Returns whether the budget is spent. */
static inline bool sluice_decode_budget_spend(struct sluice_decode_budget *budget,
                                              uint64_t num_pixels)
{
    budget->unlooked += num_pixels;
    return budget->unlooked >= SLUICE_DECODE_PIXELS_PER_LOOK && sluice_decode_budget_look(budget);
}

/* Returns SLUICE_E_UNSUPPORTED; the message has the time. */
sluice_status sluice_decode_budget_fail(const struct sluice_decode_budget *budget,
                                        struct sluice_err *err);

/* SLUICE_E_UNSUPPORTED, naming both numbers: a JPEG of this size may not have this number of scans.
 */
SLUICE_MUST_USE sluice_status sluice_decode_check_scans(uint64_t num_pixels, uint64_t num_scans,
                                                        struct sluice_err *err);

#endif
