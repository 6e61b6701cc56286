#include "compute_client/replan/auto_state.h"

#include "support/choices.h"
#include "support/test.h"

#include <math.h>
#include <string.h>

/* 1 s of storage CPU and 100 MB for an item, on one core and 100 MB/s: both are the limit; the
 * others have time to spare, the disk hardly any. */
static const struct sluice_capacities capacities = {
    .per_s = {100e6, 1, 100e6, 1, 8, INFINITY, 1000}};
static const struct sluice_auto_burden burden = {
    .load = {85e6, 1, 100e6, 0.1, 0.8, 150528, 1},
    .price = {[SLUICE_STORAGE_CPU] = 0.5, [SLUICE_NETWORK] = 0.5}};

static struct sluice_auto_costs costs;

static struct sluice_auto_state state_of(double disk, double link, double storage, double trainer,
                                         double price)
{
    const struct sluice_rates rates = {
        .disk_bytes_per_s = disk,
        .link_bytes_per_s = link,
        .storage_cores = storage,
        .compute_cores = 8,
        .gpu_samples_per_s = trainer,
    };
    const struct sluice_rates most = {INFINITY, INFINITY, INFINITY, INFINITY, 0, 0};
    const struct sluice_rate_watch watch = sluice_rate_watch_init(&rates, &most);
    return sluice_auto_state_of(&watch, &costs, price);
}

static void the_slowest_is_named(void)
{
    enum sluice_resource slowest = SLUICE_GPU;
    CU_ASSERT_EQUAL(sluice_auto_slowest_s(burden.load, &capacities, &slowest), 1);
    CU_ASSERT_EQUAL(slowest, SLUICE_STORAGE_CPU);
    CU_ASSERT_EQUAL(sluice_auto_slowest_s((double[SLUICE_NUM_RESOURCES]){0}, &capacities, NULL), 0);
}

static void what_moves_a_limit_or_nearly_one_counts(void)
{
    const struct sluice_auto_state before = state_of(100e6, 100e6, 1, 1000, 0);
    const struct {
        struct sluice_auto_state now;
        bool has_moved;
    } cases[] = {
        {before, false},
        {state_of(100e6, 104e6, 1, 1000, 0), false}, /* hardly */
        {state_of(100e6, 106e6, 1, 1000, 0), true},
        {state_of(100e6, 94e6, 1, 1000, 0), true},
        {state_of(100e6, 100e6, 1.1, 1000, 0), true},
        {state_of(200e6, 100e6, 1, 1000, 0), false}, /* was no limit */
        {state_of(100e6, 100e6, 1, 500, 0), false},
        {state_of(100e6, 100e6, 1, 1000, 0.05), true},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++)
        CU_ASSERT_EQUAL(sluice_auto_state_has_moved(&before, &cases[i].now, &burden, &capacities),
                        cases[i].has_moved);
    /* As things are now the disk is nearly one. */
    struct sluice_capacities slow = capacities;
    slow.per_s[SLUICE_DISK] = 90e6;
    const struct sluice_auto_state now = state_of(90e6, 100e6, 1, 1000, 0);
    CU_ASSERT(sluice_auto_state_has_moved(&before, &now, &burden, &slow));
    /* A factor may make a load the limit that is none yet. */
    struct sluice_auto_state dear = before;
    const size_t compute = SLUICE_NUM_RESOURCES + SLUICE_COMPUTE_CPU;
    dear.of[compute] *= 8;
    CU_ASSERT_FALSE(sluice_auto_state_has_moved(&before, &dear, &burden, &capacities));
    dear.of[compute] *= 1.2;
    CU_ASSERT(sluice_auto_state_has_moved(&before, &dear, &burden, &capacities));
}

static void the_reason_names_what_moved_most_first_and_all_that_moved_much(void)
{
    const struct sluice_auto_state before = state_of(100e6, 100e6, 1, 1000, 0);
    struct sluice_auto_state now = state_of(80e6, 50e6, 1.2, 10, 0);
    struct sluice_auto_burden slow_disk = burden;
    slow_disk.price[SLUICE_DISK] = 0.1;
    char text[256];
    CU_ASSERT_EQUAL(
        sluice_auto_state_moved_most(&before, &now, &burden, &slow_disk, &capacities, &costs),
        SLUICE_NETWORK);
    sluice_auto_state_reason(&before, &now, &burden, &slow_disk, &capacities, &costs, text,
                             sizeof(text));
    CU_ASSERT_STRING_EQUAL(
        text, "network 800 -> 400 Mbit/s, disk 100 -> 80 MB/s, storage_cpu 1 -> 1.2 cores");
    /* Where it counts under neither plan, it is no reason. */
    sluice_auto_state_reason(&before, &now, &burden, &burden, &capacities, &costs, text,
                             sizeof(text));
    CU_ASSERT_PTR_NULL(strstr(text, "disk"));

    now = state_of(100e6, 100e6, 1, 1000, 0.5);
    CU_ASSERT_EQUAL(
        sluice_auto_state_moved_most(&before, &now, &burden, &burden, &capacities, &costs),
        SLUICE_AUTO_STATE_PRICE);
    sluice_auto_state_reason(&before, &now, &burden, &burden, &capacities, &costs, text,
                             sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "price of storage CPU 0 -> 0.5");

    /* A factor that no row has shown is none either. */
    now = before;
    const size_t storage = SLUICE_NUM_RESOURCES + SLUICE_NUM_RESOURCES + SLUICE_STORAGE_CPU;
    now.of[storage] = 2;
    now.of[SLUICE_NETWORK] *= 0.9;
    sluice_auto_state_reason(&before, &now, &burden, &burden, &capacities, &costs, text,
                             sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "network 800 -> 720 Mbit/s");
    struct sluice_auto_costs seen = costs;
    seen.corrections[1][SLUICE_STORAGE_CPU].rows = 10;
    sluice_auto_state_reason(&before, &now, &burden, &burden, &capacities, &seen, text,
                             sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "storage_cpu of u8@1 x1.00 -> x2.00, network 800 -> 720 Mbit/s");
    /* More of each file has to be read. */
    now = before;
    now.of[SLUICE_AUTO_STATE_READ] = 1.5;
    CU_ASSERT(sluice_auto_state_has_moved(&before, &now, &burden, &capacities));
    sluice_auto_state_reason(&before, &now, &burden, &burden, &capacities, &costs, text,
                             sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "read of files x1.00 -> x1.50");
    now.of[storage] = 2;
    now.of[SLUICE_AUTO_STATE_READ] = 1;
    /* No more than there is room for. */
    char little[12];
    sluice_auto_state_reason(&before, &now, &burden, &burden, &capacities, &seen, little,
                             sizeof(little));
    CU_ASSERT_STRING_EQUAL(little, "storage_cpu");
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(the_slowest_is_named),
        SLUICE_TEST(what_moves_a_limit_or_nearly_one_counts),
        SLUICE_TEST(the_reason_names_what_moved_most_first_and_all_that_moved_much),
    };
    const struct sluice_choice_model model = sluice_test_model();
    const struct sluice_transport_cost transport = sluice_transport_cost_default();
    costs = sluice_auto_costs_init(&model, &transport);
    return sluice_test_run("auto_state", tests, SLUICE_TEST_COUNT(tests));
}
