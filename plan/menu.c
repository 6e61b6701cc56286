#include "plan/menu.h"

#include <assert.h>

#define MOST_SHARES 65535

static double shared_cpu_s(const double cost[SLUICE_NUM_RESOURCES])
{
    return cost[SLUICE_STORAGE_CPU] + cost[SLUICE_RECEIVE] + cost[SLUICE_COMPUTE_CPU];
}

void sluice_menu_set(struct sluice_menu *menu, unsigned num_choices,
                     const double cost[][SLUICE_NUM_RESOURCES])
{
    assert(num_choices >= 1 && num_choices <= SLUICE_MENU_CHOICES);
    for (int load = 0; load < SLUICE_NUM_LOADS; load++) {
        double of[SLUICE_MENU_CHOICES], most = 0;
        for (unsigned c = 0; c < num_choices; c++) {
            of[c] = load == SLUICE_SHARED_CPU ? shared_cpu_s(cost[c]) : cost[c][load];
            assert(of[c] >= 0 && of[c] <= 3e30);
            most = of[c] > most ? of[c] : most;
        }
        menu->unit[load] = (float)(most / MOST_SHARES);
        /* A cost too small for a float counts as 0. */
        const double shares_per_cost = menu->unit[load] > 0 ? MOST_SHARES / most : 0;
        const unsigned end = sluice_menu_num_groups(num_choices) * SLUICE_MENU_GROUP;
        for (unsigned c = 0; c < end; c++)
            menu->share[c / SLUICE_MENU_GROUP][load][c % SLUICE_MENU_GROUP] =
                (uint16_t)(of[c < num_choices ? c : 0] * shares_per_cost + 0.5);
    }
    menu->num_choices = num_choices;
}

struct sluice_menu_source sluice_menu_array(const struct sluice_menu *menus, size_t num_samples)
{
    return (struct sluice_menu_source){
        .num_samples = num_samples,
        .num_choices = num_samples > 0 ? menus[0].num_choices : 1,
        .stride = sizeof(*menus),
        .array = menus,
    };
}
