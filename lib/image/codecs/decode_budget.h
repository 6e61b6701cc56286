#ifndef SLUICE_IMAGE_CODECS_DECODE_BUDGET_H
#define SLUICE_IMAGE_CODECS_DECODE_BUDGET_H

#include "base/error.h"
#include "image/tuning.h"

#include <stdbool.h>
#include <stdint.h>

/* The CPU time that one image may cost: decoders count what they do, row by row, and stop when it
 * is spent.  So a file made to be slow costs no more than an honest one of its size.
 *
 * Threads: a budget belongs to one thread, whose clock it reads. */

struct sluice_decode_budget {
    uint64_t allowed_ns;
    uint64_t end_ns;   /* on the thread's CPU clock; 0: the clock has not been looked at */
    uint64_t unlooked; /* pixels handled since the last look */
    bool is_spent;
};

/* For an image of this many pixels.  The time counts from the first look at the clock, which
 * comes after SLUICE_DECODE_PIXELS_PER_LOOK pixels. */
void sluice_decode_budget_start(struct sluice_decode_budget *budget, uint64_t num_pixels);

bool sluice_decode_budget_look(struct sluice_decode_budget *budget);

/* Whether the budget is spent, now that `num_pixels` more have been handled. */
static inline bool sluice_decode_budget_spend(struct sluice_decode_budget *budget,
                                              uint64_t num_pixels)
{
    budget->unlooked += num_pixels;
    return budget->unlooked >= SLUICE_DECODE_PIXELS_PER_LOOK && sluice_decode_budget_look(budget);
}

/* SLUICE_E_UNSUPPORTED, naming the time. */
sluice_status sluice_decode_budget_fail(const struct sluice_decode_budget *budget,
                                        struct sluice_err *err);

/* SLUICE_E_UNSUPPORTED, naming both numbers, if a JPEG of this size may not have so many scans. */
SLUICE_MUST_USE sluice_status sluice_decode_check_scans(uint64_t num_pixels, uint64_t num_scans,
                                                        struct sluice_err *err);

#endif
