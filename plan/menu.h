#ifndef SLUICE_PLAN_MENU_H
#define SLUICE_PLAN_MENU_H

#include "plan/resource.h"

#include <stddef.h>
#include <stdint.h>

/* The choices of one sample, and the cost of each.
 *
 * A menu has a number of choices, each with a cost on every resource; the caller knows the split,
 * form and place of each.  A cost is stored as a 16-bit share of the sample's highest cost on that
 * resource, so it is off by at most 1/131,070 of that highest cost.  Choices stand in groups of
 * four, with the shares of all loads of a group side by side, so that a menu of few choices is
 * short: twelve take 228 bytes, and a million such menus fit in memory.
 *
 * Threads: values; pure functions. */

#define SLUICE_MENU_GROUP 4
#define SLUICE_MENU_GROUPS 12
#define SLUICE_MENU_CHOICES (SLUICE_MENU_GROUPS * SLUICE_MENU_GROUP)

struct sluice_menu {
    float unit[SLUICE_NUM_LOADS]; /* 1/65535 of the highest cost */
    uint32_t num_choices;
    /* A last group that is not full is filled up with the first choice; later groups are not
     * set. */
    uint16_t share[SLUICE_MENU_GROUPS][SLUICE_NUM_LOADS][SLUICE_MENU_GROUP];
};

static inline unsigned sluice_menu_num_groups(unsigned num_choices)
{
    return (num_choices + SLUICE_MENU_GROUP - 1) / SLUICE_MENU_GROUP;
}

/* Bytes of a menu up to its last group, a multiple of 4. */
static inline size_t sluice_menu_size(unsigned num_choices)
{
    return offsetof(struct sluice_menu, share) +
           sluice_menu_num_groups(num_choices) * sizeof(((struct sluice_menu *)NULL)->share[0]);
}

/* 1 <= num_choices <= SLUICE_MENU_CHOICES; costs are finite, at least 0 and at most 1e30.  Writes
 * sluice_menu_size(num_choices) bytes. */
void sluice_menu_set(struct sluice_menu *menu, unsigned num_choices,
                     const double cost[][SLUICE_NUM_RESOURCES]);

/* The cost as it is stored; load: an enum sluice_resource or SLUICE_SHARED_CPU. */
static inline double sluice_menu_cost(const struct sluice_menu *menu, int load, unsigned choice)
{
    const unsigned group = choice / SLUICE_MENU_GROUP;
    return (double)menu->unit[load] * menu->share[group][load][choice % SLUICE_MENU_GROUP];
}

/* A source of the menus of all samples: an array, or a function that makes them on request.  All
 * menus have num_choices choices, and each is `stride` bytes after the one before it. */
#define SLUICE_MENU_BLOCK 256

struct sluice_menu_source {
    uint64_t num_samples;
    unsigned num_choices;
    size_t stride;     /* at least sluice_menu_size(num_choices); a multiple of 4 */
    const void *array; /* borrowed; NULL: get() makes them */
    /* Writes menus [first, first + count), count <= SLUICE_MENU_BLOCK, to `scratch`; the same ones
     * every time. */
    void (*get)(void *context, uint64_t first, size_t count, struct sluice_menu *scratch);
    void *context;
};

/* Menus [first, first + count), count <= SLUICE_MENU_BLOCK: the array's own, or in `scratch`. */
static inline const struct sluice_menu *sluice_menus_get(const struct sluice_menu_source *source,
                                                         uint64_t first, size_t count,
                                                         struct sluice_menu *scratch)
{
    if (source->array)
        return (const struct sluice_menu *)(const void *)((const char *)source->array +
                                                          first * source->stride);
    source->get(source->context, first, count, scratch);
    return scratch;
}

static inline const struct sluice_menu *sluice_menu_at(const struct sluice_menu_source *source,
                                                       const struct sluice_menu *menus, size_t i)
{
    return (const struct sluice_menu *)(const void *)((const char *)menus + i * source->stride);
}

/* A source over menus[0 .. num_samples), borrowed; all have the same number of choices. */
struct sluice_menu_source sluice_menu_array(const struct sluice_menu *menus, size_t num_samples);

#endif
