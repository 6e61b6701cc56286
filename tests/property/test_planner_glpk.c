/* The bound of the plan over all resources against a linear-programming solver. */
#include "property/planner_cases.h"
#include "support/test.h"

#ifndef SLUICE_HAVE_GLPK

int main(void)
{
    sluice_test_skip("built without GLPK (libglpk-dev)");
}

#else

#include <glpk.h>

#include <math.h>

/* min T + sum q a x, sum_c x[i][c] = 1, sum a x / b - T <= 0, x >= 0. */
static double solve_by_glpk(const struct sluice_menu *menus, size_t n,
                            const struct sluice_capacities *capacities)
{
    enum { LOADS = SLUICE_NUM_LOADS };
    const unsigned num_choices = menus[0].num_choices;
    glp_prob *lp = glp_create_prob();
    glp_add_rows(lp, (int)n + LOADS);
    glp_add_cols(lp, (int)(n * num_choices) + 1);
    const int time = (int)(n * num_choices) + 1;
    glp_set_obj_coef(lp, time, 1);
    glp_set_col_bnds(lp, time, GLP_LO, 0, 0);
    for (size_t i = 0; i < n; i++) {
        glp_set_row_bnds(lp, (int)i + 1, GLP_FX, 1, 1);
        for (unsigned c = 0; c < num_choices; c++) {
            const int col = (int)(i * num_choices + c) + 1;
            int row[LOADS + 2] = {0, (int)i + 1};
            double value[LOADS + 2] = {0, 1}, external_s = 0;
            for (int r = 0; r < LOADS; r++) {
                const double cost = sluice_menu_cost(&menus[i], r, c);
                row[r + 2] = (int)n + 1 + r;
                value[r + 2] = cost / planner_capacity_of(capacities, r);
                external_s += r == SLUICE_SHARED_CPU ? 0 : cost * capacities->external_cost_s[r];
            }
            glp_set_obj_coef(lp, col, external_s);
            glp_set_mat_col(lp, col, LOADS + 1, row, value);
            glp_set_col_bnds(lp, col, GLP_LO, 0, 0);
        }
    }
    int row[LOADS + 1];
    double value[LOADS + 1];
    for (int r = 0; r < LOADS; r++) {
        glp_set_row_bnds(lp, (int)n + 1 + r, GLP_UP, 0, 0);
        row[r + 1] = (int)n + 1 + r;
        value[r + 1] = -1;
    }
    glp_set_mat_col(lp, time, LOADS, row, value);
    glp_smcp options;
    glp_init_smcp(&options);
    options.msg_lev = GLP_MSG_OFF;
    glp_term_out(GLP_OFF);
    glp_scale_prob(lp, GLP_SF_AUTO);
    CU_ASSERT_EQUAL_FATAL(glp_simplex(lp, &options), 0);
    CU_ASSERT_EQUAL_FATAL(glp_get_status(lp), GLP_OPT);
    const double optimum = glp_get_obj_val(lp);
    glp_delete_prob(lp);
    return optimum;
}

TEST(dual_equals_the_linear_program)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    enum { MOST = 120 };
    struct sluice_menu menus[MOST];
    uint8_t choice[MOST];
    for (int round = 0; round < 8 * PLANNER_NUM_KINDS; round++) {
        const size_t n = 1 + sluice_rng_below(&rng, MOST);
        struct sluice_capacities capacities;
        const unsigned num = round % 4 == 3 ? SLUICE_MENU_CHOICES : PLANNER_CHOICES;
        planner_make_case(&rng, round % PLANNER_NUM_KINDS, n, num, menus, &capacities);
        if (round / PLANNER_NUM_KINDS % 2)
            planner_make_prices(&rng, &capacities);
        if (round / PLANNER_NUM_KINDS % 3 == 2)
            planner_make_shared(&rng, &capacities);
        const double optimum = solve_by_glpk(menus, n, &capacities);
        const struct sluice_menu_source source = sluice_menu_array(menus, n);
        struct sluice_lp_result result = {0};
        struct sluice_err err = {0};
        REQUIRE_OK(sluice_plan_lp(&source, &capacities, choice, &result, &err));
        /* 1e-6: GLPK's own tolerance; 1e-12: where the optimum is 0. */
        CU_ASSERT(result.dual_s <= optimum * (1 + 1e-6) + 1e-12);
        CU_ASSERT(result.dual_s >= optimum * (1 - 5e-5) - 1e-12);
        CU_ASSERT(result.primal_s >= optimum * (1 - 1e-6) - 1e-12);
    }
    glp_free_env();
}

/* A limit that no choice changes leaves the rest at the optimum of a linear program that does not
 * know it. */
TEST(the_rest_is_minimal_beside_what_is_given)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 1);
    enum { N = 120 };
    struct sluice_menu menus[N];
    uint8_t choice[N];
    for (int round = 0; round < 8; round++) {
        struct sluice_capacities capacities;
        planner_make_case(&rng, PLANNER_KIND_GIVEN, N, PLANNER_CHOICES, menus, &capacities);
        capacities.per_s[PLANNER_GIVEN] = 1;
        const struct sluice_menu_source source = sluice_menu_array(menus, N);
        struct sluice_lp_result result = {0};
        REQUIRE_OK(sluice_plan_lp(&source, &capacities, choice, &result, NULL));
        CU_ASSERT_EQUAL(result.slowest, PLANNER_GIVEN);
        capacities.per_s[PLANNER_GIVEN] = capacities.per_s[SLUICE_DISK] = INFINITY;
        const double optimum = solve_by_glpk(menus, N, &capacities);
        double rest_s = 0;
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
            rest_s = fmax(rest_s, r == PLANNER_GIVEN || r == SLUICE_DISK ? 0 : result.busy_s[r]);
        CU_ASSERT(rest_s >= optimum * (1 - 1e-6));
        CU_ASSERT(rest_s <= optimum * 1.1); /* so few samples cannot be divided */
    }
    glp_free_env();
}

#endif
