#include "plan/sizing.h"

#include "base/rng.h"
#include "plan/choice_cost.h"
#include "support/choices.h"
#include "support/test.h"

#include <math.h>

enum { N = 1500 };

/* Photographs of many sizes at the usual costs; a disk that would be the limit if it counted. */
struct photos {
    struct sluice_cost_table table;
    struct sluice_sample_facts *facts;
    struct sluice_choice_model model;
    struct sluice_transport_cost transport;
    struct sluice_form_menu menu;
};

static void make_photos(struct photos *photos)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    *photos = (struct photos){
        .table = {calloc(N, sizeof(*photos->table.rows)), N, SLUICE_TEST_SPLITS},
        .facts = calloc(N, sizeof(*photos->facts)),
        .model = sluice_test_model(),
        .transport = sluice_transport_cost_default(),
    };
    photos->model.disk_s_per_sample = 1;
    for (size_t i = 0; i < N; i++) {
        struct sluice_sample_cost *row = &photos->table.rows[i];
        row->bytes[0] = 20000 + sluice_rng_below(&rng, 300000);
        row->width = 200 + (uint32_t)sluice_rng_below(&rng, 600);
        row->height = 200 + (uint32_t)sluice_rng_below(&rng, 600);
        for (int k = 1; k < SLUICE_TEST_SPLITS; k++)
            row->bytes[k] = k == 1 ? 3ull * row->width * row->height : k < 4 ? 150528 : 602112;
        const struct sluice_draw_key key = {.sample_id = i};
        photos->facts[i] = sluice_sample_facts_make(sluice_test_pipeline(), row->bytes[0],
                                                    row->width, row->height, 0, &key);
    }
    photos->menu = sluice_form_menu_init(&photos->table, sluice_test_choices());
    photos->menu.facts = photos->facts;
    photos->menu.model = &photos->model;
    photos->menu.transport = &photos->transport;
    memset(photos->menu.has_choice, true, SLUICE_TEST_CHOICES);
}

static void clear_photos(struct photos *photos)
{
    free(photos->facts);
    sluice_cost_table_clear(&photos->table);
}

static struct sluice_sizing size(const struct photos *photos, const struct sluice_sizing_ask *ask)
{
    struct sluice_sizing sizing;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_size_storage(&photos->menu, ask, &sizing, &err));
    return sizing;
}

/* What the planner makes of these machines, by itself: images/s of all loaders by its forecast, and
 * what its bound allows. */
static void ask_planner(const struct photos *photos, const struct sluice_sizing_ask *ask,
                        double storage_cores, double *forecast_per_s, double *bound_per_s)
{
    const double part = ask->num_loaders;
    const struct sluice_rates rates = {.link_bytes_per_s = ask->link_bytes_per_s / part,
                                       .storage_cores = storage_cores / part,
                                       .compute_cores = ask->compute_cores / part,
                                       .gpu_samples_per_s = INFINITY,
                                       .disk_bytes_per_s = INFINITY};
    uint8_t choice[N];
    double bound_s;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_form_menu_plan(&photos->menu, &rates, choice, &bound_s, &err));
    *forecast_per_s = N * part / sluice_form_menu_forecast(&photos->menu, &rates, choice).primal_s;
    *bound_per_s = N * part / bound_s;
}

static const struct sluice_sizing_ask asks[] = {
    {24000, 8, 10e9 / 8, INFINITY}, {24000, 8, 10e9 / 8, 9},  {24000, 8, 25e9 / 8, 8},
    {2000, 1, 1e9 / 8, 3},          {2000, 1, 1e9 / 8, 0.9},  {500, 2, 300e6 / 8, INFINITY},
    {500, 2, 300e6 / 8, 0.2},       {24000, 8, INFINITY, 10}, {100, 1, INFINITY, INFINITY},
};

TEST(planner_meets_the_rate_with_these_cores_and_not_with_fewer)
{
    struct photos photos;
    make_photos(&photos);
    size_t num_met = 0, num_tight = 0;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(asks); i++) {
        const struct sluice_sizing_ask *ask = &asks[i];
        const struct sluice_sizing sizing = size(&photos, ask);
        double forecast_per_s, bound_per_s;
        if (!sizing.is_met) {
            /* Not with any number of cores. */
            ask_planner(&photos, ask, 1e9, &forecast_per_s, &bound_per_s);
            CU_ASSERT(forecast_per_s < ask->samples_per_s);
            CU_ASSERT_DOUBLE_EQUAL(sizing.samples_per_s / forecast_per_s, 1, 2e-3);
            CU_ASSERT_NOT_EQUAL(sizing.binds, 0);
            continue;
        }
        num_met++;
        ask_planner(&photos, ask, sizing.storage_cores, &forecast_per_s, &bound_per_s);
        CU_ASSERT(forecast_per_s >= ask->samples_per_s * (1 - 1e-6));
        CU_ASSERT_DOUBLE_EQUAL(sizing.samples_per_s, forecast_per_s, 1e-6 * forecast_per_s);
        ask_planner(&photos, ask, sizing.storage_cores * 0.99, &forecast_per_s, &bound_per_s);
        CU_ASSERT(bound_per_s < ask->samples_per_s);
        CU_ASSERT(sizing.link_bytes_per_s <= ask->link_bytes_per_s * (1 + 1e-6));
        CU_ASSERT(sizing.compute_cores <= ask->compute_cores * (1 + 1e-6));
        num_tight += sizing.binds != 0;
    }
    CU_ASSERT(num_met >= 6);
    CU_ASSERT(num_tight >= 4);
    clear_photos(&photos);
}

TEST(what_is_short_is_named)
{
    struct photos photos;
    make_photos(&photos);
    struct sluice_sizing sizing =
        size(&photos, &(struct sluice_sizing_ask){24000, 8, 1e9 / 8, INFINITY});
    CU_ASSERT(!sizing.is_met);
    CU_ASSERT_EQUAL(sizing.binds, 1u << SLUICE_NETWORK);
    sizing = size(&photos, &(struct sluice_sizing_ask){24000, 8, INFINITY, 0.5});
    CU_ASSERT(!sizing.is_met);
    CU_ASSERT_EQUAL(sizing.binds, 1u << SLUICE_COMPUTE_CPU);
    /* One receiving thread for it all. */
    sizing = size(&photos, &(struct sluice_sizing_ask){1e6, 1, INFINITY, INFINITY});
    CU_ASSERT(!sizing.is_met);
    CU_ASSERT_EQUAL(sizing.binds, 1u << SLUICE_RECEIVE);
    sizing = size(&photos, &(struct sluice_sizing_ask){1e6, 1000, INFINITY, INFINITY});
    CU_ASSERT(sizing.is_met);
    CU_ASSERT_EQUAL(sizing.binds, 0);
    clear_photos(&photos);
}

TEST(more_link_or_more_compute_cores_never_need_more)
{
    struct photos photos;
    make_photos(&photos);
    static const double links[] = {8e9 / 8, 9e9 / 8, 10e9 / 8, 14e9 / 8, 30e9 / 8};
    static const double cores[] = {8, 9, 10, 20, INFINITY};
    double before = INFINITY;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(links); i++) {
        const struct sluice_sizing sizing =
            size(&photos, &(struct sluice_sizing_ask){24000, 8, links[i], cores[i]});
        if (!sizing.is_met)
            continue;
        CU_ASSERT(sizing.storage_cores <= before * 1.01);
        before = sizing.storage_cores;
    }
    CU_ASSERT(before < INFINITY);
    clear_photos(&photos);
}

TEST(rate_is_what_the_planner_forecasts)
{
    struct photos photos;
    make_photos(&photos);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(asks); i++) {
        struct sluice_sizing sizing;
        struct sluice_err err = {0};
        double forecast_per_s, bound_per_s;
        REQUIRE_OK(sluice_size_rate(&photos.menu, &asks[i], 2, &sizing, &err));
        ask_planner(&photos, &asks[i], 2, &forecast_per_s, &bound_per_s);
        CU_ASSERT_DOUBLE_EQUAL(sizing.samples_per_s, forecast_per_s, 1e-6 * forecast_per_s);
        CU_ASSERT_EQUAL(sizing.is_met, forecast_per_s >= asks[i].samples_per_s);
        CU_ASSERT_NOT_EQUAL(sizing.binds, 0);
    }
    clear_photos(&photos);
}

/* By adding up, and against what one loader's plan of that choice is forecast. */
TEST(a_fixed_choice_takes_its_sum)
{
    struct photos photos;
    make_photos(&photos);
    const struct sluice_rates units = {.link_bytes_per_s = 1,
                                       .storage_cores = 1,
                                       .compute_cores = 1,
                                       .gpu_samples_per_s = INFINITY,
                                       .disk_bytes_per_s = INFINITY};
    const struct sluice_sizing_ask ask = {24000, 8, INFINITY, INFINITY};
    for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++) {
        uint8_t choice[N];
        memset(choice, (int)c, sizeof(choice));
        const struct sluice_choice_forecast sum =
            sluice_form_menu_forecast(&photos.menu, &units, choice);
        struct sluice_sizing sizing;
        struct sluice_err err = {0};
        REQUIRE_OK(sluice_size_choice(&photos.menu, &ask, c, &sizing, &err));
        CU_ASSERT(sizing.is_met);
        CU_ASSERT_DOUBLE_EQUAL(sizing.storage_cores, sum.busy_s[SLUICE_STORAGE_CPU] * 24000 / N,
                               1e-6);
        CU_ASSERT_DOUBLE_EQUAL(sizing.compute_cores, sum.busy_s[SLUICE_COMPUTE_CPU] * 24000 / N,
                               1e-6);
        CU_ASSERT_DOUBLE_EQUAL(sizing.link_bytes_per_s / ((double)sum.wire_bytes * 24000 / N), 1,
                               1e-6);
    }
    struct sluice_sizing sizing;
    struct sluice_err err = {0};
    const struct sluice_sizing_ask narrow = {24000, 8, 1e9 / 8, INFINITY};
    REQUIRE_OK(sluice_size_choice(&photos.menu, &narrow, 0, &sizing, &err));
    CU_ASSERT(!sizing.is_met);
    CU_ASSERT_EQUAL(sizing.binds, 1u << SLUICE_NETWORK);
    CU_ASSERT_DOUBLE_EQUAL(sizing.link_bytes_per_s, 1e9 / 8, 1);
    clear_photos(&photos);
}

TEST(refuses_what_cannot_be_asked)
{
    struct photos photos;
    make_photos(&photos);
    const struct sluice_sizing_ask bad[] = {
        {0, 1, 1e9, 1},  {-1, 1, 1e9, 1}, {INFINITY, 1, 1e9, 1}, {NAN, 1, 1e9, 1},
        {10, 0, 1e9, 1}, {10, 1, 0, 1},   {10, 1, 1e9, -1},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(bad); i++) {
        struct sluice_sizing sizing;
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_size_storage(&photos.menu, &bad[i], &sizing, &err),
                        SLUICE_E_INVALID);
        CU_ASSERT_NOT_EQUAL(err.text[0], '\0');
    }
    const struct sluice_cost_table none = {.num_stages = SLUICE_TEST_SPLITS};
    photos.menu.table = &none;
    struct sluice_sizing sizing;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_size_storage(&photos.menu, &asks[0], &sizing, &err), SLUICE_E_INVALID);
    clear_photos(&photos);
}
