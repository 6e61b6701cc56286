#include "plan/cheapest.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>

static double cost_of(const struct sluice_menu *menu, const float weight[SLUICE_NUM_LOADS],
                      unsigned choice)
{
    double sum = 0;
    for (int r = 0; r < SLUICE_NUM_LOADS; r++)
        sum += (double)weight[r] * sluice_menu_cost(menu, r, choice);
    return sum;
}

TEST(no_choice_is_cheaper_by_more_than_the_slack)
{
    enum { NUM_MENUS = 40 };
    static struct sluice_menu menus[NUM_MENUS];
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int round = 0; round < 200; round++) {
        const unsigned num_choices = 1 + sluice_rng_below(&rng, SLUICE_MENU_CHOICES);
        const double slack =
            num_choices <= SLUICE_FEW_CHOICES ? SLUICE_SLACK_OF_FEW : SLUICE_SLACK_OF_MANY;
        float weight[SLUICE_NUM_LOADS];
        for (int r = 0; r < SLUICE_NUM_LOADS; r++)
            weight[r] = sluice_rng_below(&rng, 3) ? (float)sluice_rng_double(&rng) : 0;
        for (size_t i = 0; i < NUM_MENUS; i++) {
            double cost[SLUICE_MENU_CHOICES][SLUICE_NUM_RESOURCES];
            for (unsigned c = 0; c < num_choices; c++) {
                for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
                    cost[c][r] = sluice_rng_double(&rng);
            }
            sluice_menu_set(&menus[i], num_choices, (const double(*)[SLUICE_NUM_RESOURCES])cost);
        }
        uint8_t choice[NUM_MENUS];
        sluice_choose_cheapest(menus, sizeof(menus[0]), NUM_MENUS, weight, choice);
        for (size_t i = 0; i < NUM_MENUS; i++) {
            CU_ASSERT_FATAL(choice[i] < num_choices);
            const double found = cost_of(&menus[i], weight, choice[i]);
            for (unsigned c = 0; c < num_choices; c++)
                CU_ASSERT(found <= cost_of(&menus[i], weight, c) * (1 + slack));
        }
    }
}

TEST(the_first_of_equal_choices_wins)
{
    double cost[7][SLUICE_NUM_RESOURCES];
    for (int c = 0; c < 7; c++) {
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
            cost[c][r] = c < 2 ? 2 : 1;
    }
    struct sluice_menu menu;
    sluice_menu_set(&menu, 7, (const double(*)[SLUICE_NUM_RESOURCES])cost);
    float weight[SLUICE_NUM_LOADS];
    for (int r = 0; r < SLUICE_NUM_LOADS; r++)
        weight[r] = 1;
    uint8_t choice;
    sluice_choose_cheapest(&menu, 0, 1, weight, &choice);
    CU_ASSERT_EQUAL(choice, 2);
}

int main(void)
{
    return sluice_test_main();
}
