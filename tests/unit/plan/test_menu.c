#include "plan/menu.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>

TEST(keeps_costs_to_a_share_of_the_highest)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int round = 0; round < 2000; round++) {
        double cost[SLUICE_MENU_CHOICES][SLUICE_NUM_RESOURCES] = {{0}};
        const unsigned num_choices = 1 + sluice_rng_below(&rng, SLUICE_MENU_CHOICES);
        double highest[SLUICE_NUM_RESOURCES] = {0};
        const double size = exp2((int)sluice_rng_below(&rng, 120) - 60);
        for (unsigned c = 0; c < num_choices; c++) {
            for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
                cost[c][r] = round % 3 ? size * sluice_rng_double(&rng) : sluice_rng_below(&rng, 3);
                highest[r] = fmax(highest[r], cost[c][r]);
            }
        }
        struct sluice_menu menu;
        sluice_menu_set(&menu, num_choices, (const double(*)[SLUICE_NUM_RESOURCES])cost);
        const unsigned num_kept = sluice_menu_num_groups(num_choices) * SLUICE_MENU_GROUP;
        CU_ASSERT_EQUAL(menu.num_choices, num_choices);
        for (unsigned c = 0; c < num_kept; c++) {
            for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
                const double kept = sluice_menu_cost(&menu, (enum sluice_resource)r, c);
                /* Past the last: the first again.  2^-24: the unit is a float. */
                CU_ASSERT(fabs(kept - cost[c < num_choices ? c : 0][r]) <=
                          highest[r] * (1 / 131070.0 + 0x1p-23));
            }
        }
    }
}

TEST(keeps_equal_costs_as_they_are)
{
    double cost[3][SLUICE_NUM_RESOURCES];
    for (int c = 0; c < 3; c++) {
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
            cost[c][r] = 1e-7 * (r + 1);
    }
    struct sluice_menu menu;
    sluice_menu_set(&menu, 3, (const double(*)[SLUICE_NUM_RESOURCES])cost);
    for (int c = 0; c < 3; c++) {
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
            CU_ASSERT_DOUBLE_EQUAL(sluice_menu_cost(&menu, (enum sluice_resource)r, (unsigned)c) /
                                       cost[c][r],
                                   1, 0x1p-23);
    }
}

TEST(twelve_choices_take_228_bytes)
{
    CU_ASSERT_EQUAL(sluice_menu_size(12), 228);
    CU_ASSERT_EQUAL(sluice_menu_size(9), 228);
    CU_ASSERT_EQUAL(sluice_menu_size(SLUICE_MENU_CHOICES), sizeof(struct sluice_menu));
}

TEST(an_array_is_a_source)
{
    struct sluice_menu menus[3] = {{.unit = {1}}, {.unit = {2}}, {.unit = {3}}}, scratch[1];
    const struct sluice_menu_source source = sluice_menu_array(menus, 3);
    CU_ASSERT_EQUAL(source.num_samples, 3);
    CU_ASSERT(sluice_menus_get(&source, 2, 1, scratch) == &menus[2]);
}
