#ifndef SLUICE_PLAN_MENU_H
#define SLUICE_PLAN_MENU_H

#include "plan/resource.h"

#include <stddef.h>
#include <stdint.h>

/* What one sample may be asked for, and what each way costs.
 *
 * A menu is up to twelve choices (a split, a form and a place each; which is which is the
 * caller's business), each with a cost on every resource.  A cost is kept as a
 * 16-bit share of the sample's highest cost on that resource, so that a menu
 * takes 224 bytes and a million of them fit in memory: each is off by at most
 * 1/131,070 of that highest cost, and by nothing to speak of if all are equal.
 *
 * Threads: values; pure functions. */

#define SLUICE_MENU_CHOICES 12

struct sluice_menu {
    float unit[SLUICE_NUM_LOADS]; /* 1/65535 of the highest cost */
    uint16_t share[SLUICE_NUM_LOADS][SLUICE_MENU_CHOICES];
};

/* 1 <= num_choices <= SLUICE_MENU_CHOICES; costs are finite, at least 0 and at most 1e30. */
void sluice_menu_set(struct sluice_menu *menu, unsigned num_choices,
                     const double cost[][SLUICE_NUM_RESOURCES]);

/* The cost as it is kept; load: an enum sluice_resource or SLUICE_SHARED_CPU.  Choices past the
 * last one given are copies of the first. */
static inline double sluice_menu_cost(const struct sluice_menu *menu, int load, unsigned choice)
{
    return (double)menu->unit[load] * menu->share[load][choice];
}

/* Where the menus of all samples come from: an array, or made when asked for.
 * get() returns menus [first, first + count), count <= SLUICE_MENU_BLOCK, either
 * its own or written to `scratch`; the same ones every time it is asked. */
#define SLUICE_MENU_BLOCK 256

struct sluice_menu_source {
    uint64_t num_samples;
    const struct sluice_menu *(*get)(void *context, uint64_t first, size_t count,
                                     struct sluice_menu *scratch);
    void *context;
};

/* A source over menus[0 .. num_samples), borrowed. */
struct sluice_menu_source sluice_menu_array(const struct sluice_menu *menus, size_t num_samples);

#endif
