#include "plan/cheapest.h"

#include "base/compiler.h"

#include <string.h>

#define NUM_LOADS SLUICE_NUM_LOADS

/* Four lanes, in whatever registers the machine has; the same operations on all. */
typedef uint16_t shares_x4 __attribute__((vector_size(8)));
typedef int32_t ints_x4 __attribute__((vector_size(16)));
typedef float floats_x4 __attribute__((vector_size(16)));

_Static_assert(SLUICE_MENU_GROUP == 4 && SLUICE_MENU_CHOICES <= 64, "four lanes, six bits");

static inline floats_x4 four_shares(const uint16_t *share)
{
    shares_x4 shares;
    memcpy(&shares, share, sizeof(shares));
    return __builtin_convertvector(__builtin_convertvector(shares, ints_x4), floats_x4);
}

static inline ints_x4 less_of(ints_x4 a, ints_x4 b)
{
    const ints_x4 is_less = a < b;
    return (a & is_less) | (b & ~is_less);
}

/* Floats that are not negative order like their bits.  The last bits of each sum give way to the
 * choice, so one minimum finds both; of sums that are equal in the others, the first wins. */
static inline unsigned cheapest(const struct sluice_menu *menu, const float weight[NUM_LOADS],
                                const unsigned char *active, unsigned num_active)
{
    const int32_t choice_bits =
        menu->num_choices <= SLUICE_FEW_CHOICES ? SLUICE_FEW_CHOICES - 1 : 63;
    const unsigned num_groups = sluice_menu_num_groups(menu->num_choices);
    float per_share[NUM_LOADS];
    for (unsigned a = 0; a < num_active; a++)
        per_share[a] = weight[active[a]] * menu->unit[active[a]];
    ints_x4 choices = {0, 1, 2, 3}, least = {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX};
    for (unsigned g = 0; g < num_groups; g++) {
        floats_x4 sum = {0};
        for (unsigned a = 0; a < num_active; a++)
            sum += per_share[a] * four_shares(menu->share[g][active[a]]);
        least = less_of(least, ((ints_x4)sum & ~choice_bits) | choices);
        choices += SLUICE_MENU_GROUP;
    }
    const int32_t even = least[0] < least[2] ? least[0] : least[2];
    const int32_t odd = least[1] < least[3] ? least[1] : least[3];
    const unsigned found = (unsigned)((even < odd ? even : odd) & choice_bits);
    return found < menu->num_choices ? found : 0; /* what fills the last group is the first */
}

static unsigned find_active(const float weight[NUM_LOADS], unsigned char active[NUM_LOADS])
{
    unsigned num_active = 0;
    for (int r = 0; r < NUM_LOADS; r++) {
        if (weight[r] > 0)
            active[num_active++] = (unsigned char)r;
    }
    return num_active;
}

/* Apart from its callers because of gcc 12.2, which made wrong code of this file once: with this
 * merged into add_loads() of planner_lp.c callers went on with the sums from before the call, unless -fivopts or
 * -fipa-modref was off.  No report of it in gcc's bugzilla is known to us.  With keep_given() in
 * add_loads() it no longer shows (-O1 to -O3, -Os, ASan, TSan; clang 14 never had it), nor do the
 * dumps of modref and pure-const call add_loads() pure.  The attribute guards against its return.
 */
SLUICE_NO_IPA void sluice_choose_cheapest(const struct sluice_menu *menus, size_t stride,
                                          size_t num_menus, const float weight[NUM_LOADS],
                                          uint8_t *choice)
{
    unsigned char active[NUM_LOADS];
    const unsigned num_active = find_active(weight, active);
    const char *at = (const char *)menus;
    for (size_t i = 0; i < num_menus; i++, at += stride)
        choice[i] = (uint8_t)cheapest((const struct sluice_menu *)(const void *)at, weight, active,
                                      num_active);
}
