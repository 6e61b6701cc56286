#include "train/grouping.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>

#define MB (1000.0 * 1000.0)

static struct sluice_grouping_costs costs_of(double gb_per_s, double overhead_us,
                                             uint64_t min_bytes)
{
    return (struct sluice_grouping_costs){
        .bytes_per_s = gb_per_s * 1e9, .overhead_s = overhead_us * 1e-6, .min_bytes = min_bytes};
}

/* When execution ends at best, of all 2^(n-1) groupings whose ends lie at `may_end`. */
static double brute_force(const struct sluice_grouping_stage *stages, unsigned n, unsigned may_end,
                          const struct sluice_grouping_costs *costs)
{
    double best = INFINITY;
    for (unsigned ends = 0; ends < 1u << (n - 1); ends++) {
        if (ends & ~may_end)
            continue;
        unsigned last_stages[16];
        size_t num_groups = 0;
        for (unsigned s = 0; s < n; s++) {
            if (s + 1 == n || ends >> s & 1)
                last_stages[num_groups++] = s;
        }
        best = fmin(best, sluice_grouping_seconds(stages, last_stages, num_groups, costs));
    }
    return best;
}

/* Stages after which `min_bytes` have come since the last such stage. */
static unsigned cuts_of(const struct sluice_grouping_stage *stages, unsigned n, uint64_t min_bytes)
{
    unsigned cuts = 0;
    uint64_t bytes = 0;
    for (unsigned s = 0; s < n; s++) {
        bytes += stages[s].bytes;
        if (bytes >= min_bytes) {
            cuts |= 1u << s;
            bytes = 0;
        }
    }
    return cuts;
}

static void check_is_partition(const struct sluice_grouping *grouping,
                               const struct sluice_grouping_stage *stages, size_t num_stages,
                               const struct sluice_grouping_costs *costs)
{
    size_t stage = 0;
    for (size_t g = 0; g < grouping->num_groups; g++) {
        uint64_t bytes = 0;
        CU_ASSERT_FATAL(grouping->last_stages[g] >= stage && grouping->last_stages[g] < num_stages);
        for (; stage <= grouping->last_stages[g]; stage++)
            bytes += stages[stage].bytes;
        CU_ASSERT(bytes >= costs->min_bytes || g + 1 == grouping->num_groups);
    }
    CU_ASSERT_EQUAL(stage, num_stages);
    const double seconds =
        sluice_grouping_seconds(stages, grouping->last_stages, grouping->num_groups, costs);
    CU_ASSERT_DOUBLE_EQUAL(grouping->seconds, seconds, 1e-12 * seconds);
}

TEST(equals_brute_force_on_random_models)
{
    const uint64_t seed = sluice_test_seed();
    static struct sluice_grouping grouping;
    for (unsigned model = 0; model < 600; model++) {
        struct sluice_rng rng = sluice_rng_init(seed, 0, model, 0);
        struct sluice_grouping_stage stages[11];
        const unsigned n = 1 + sluice_rng_below(&rng, 11);
        for (unsigned s = 0; s < n; s++) {
            const bool has_weights = sluice_rng_below(&rng, 4) > 0;
            stages[s].bytes = has_weights ? 1 + sluice_rng_below(&rng, 4000000) : 0;
            stages[s].seconds = 100e-6 * sluice_rng_double(&rng);
        }
        const uint64_t min_bytes = model % 2 ? 0 : 1 + sluice_rng_below(&rng, 3000000);
        const struct sluice_grouping_costs costs =
            costs_of(1 + 60 * sluice_rng_double(&rng), 40 * sluice_rng_double(&rng), min_bytes);
        REQUIRE_OK(sluice_grouping_find(stages, n, &costs, &grouping, NULL));
        check_is_partition(&grouping, stages, n, &costs);
        const double best =
            brute_force(stages, n, cuts_of(stages, n, costs.min_bytes) & ~(1u << (n - 1)), &costs);
        CU_ASSERT_DOUBLE_EQUAL(grouping.seconds, best, 1e-12 * best);
    }
}

TEST(groups_hide_copies_until_a_copy_costs_more_than_it_hides)
{
    struct sluice_grouping_stage stages[20];
    static struct sluice_grouping grouping;
    for (unsigned s = 0; s < 20; s++)
        stages[s] = (struct sluice_grouping_stage){.bytes = 1000000, .seconds = 10e-6};
    struct sluice_grouping_costs costs = costs_of(50, 0, 0);
    REQUIRE_OK(sluice_grouping_find(stages, 20, &costs, &grouping, NULL));
    CU_ASSERT_DOUBLE_EQUAL(grouping.seconds, 20 * 20e-6 + 10e-6,
                           1e-12); /* all but the last hidden */
    costs.overhead_s = 1;
    REQUIRE_OK(sluice_grouping_find(stages, 20, &costs, &grouping, NULL));
    CU_ASSERT_EQUAL(grouping.num_groups, 1);
}

/* Of resnet152's size: 360 stages, 121 MB, 3.2 ms, 55 GB/s. */
static void resnet152_like(struct sluice_grouping_stage stages[360], uint64_t seed)
{
    struct sluice_rng rng = sluice_rng_init(seed, 0, 0, 0);
    for (unsigned s = 0; s < 360; s++) {
        stages[s].bytes =
            s % 2 ? 4096 : (uint64_t)(121 * MB / 180 * (0.2 + 1.6 * sluice_rng_double(&rng)));
        stages[s].seconds = 3.2e-3 / 360 * (0.5 + sluice_rng_double(&rng));
    }
}

TEST(visits_few_nodes_for_a_large_model)
{
    static struct sluice_grouping_stage stages[360];
    static struct sluice_grouping grouping;
    resnet152_like(stages, sluice_test_seed());
    struct sluice_grouping_costs costs = costs_of(55, 8, 2000000);
    REQUIRE_OK(sluice_grouping_find(stages, 360, &costs, &grouping, NULL));
    check_is_partition(&grouping, stages, 360, &costs);
    printf("  2 MB: %zu groups, %.3f ms, %zu nodes\n", grouping.num_groups, grouping.seconds * 1e3,
           grouping.num_nodes);
    CU_ASSERT(grouping.num_nodes <= 60 * 61 / 2);
    const double with_2_mb = grouping.seconds;
    costs.min_bytes = 0;
    REQUIRE_OK(sluice_grouping_find(stages, 360, &costs, &grouping, NULL));
    printf("  no minimum: %zu groups, %.3f ms, %zu nodes\n", grouping.num_groups,
           grouping.seconds * 1e3, grouping.num_nodes);
    CU_ASSERT(grouping.num_nodes <= 360 * 361 / 2);
    CU_ASSERT(grouping.seconds <= with_2_mb * (1 + 1e-12));
    const unsigned one = 359;
    CU_ASSERT(with_2_mb < sluice_grouping_seconds(stages, &one, 1, &costs));
}

/* Where copies are the bottleneck the bound cannot close early; where each stage is copied long before
 * it is executed, packing leaves one choice. */
TEST(visits_no_more_nodes_than_the_header_says_at_the_extremes)
{
    static struct sluice_grouping_stage stages[360];
    static struct sluice_grouping grouping;
    resnet152_like(stages, 1);
    for (int rate = -3; rate <= 6; rate++) {
        const struct sluice_grouping_costs costs = costs_of(pow(10, rate), 0, 0);
        REQUIRE_OK(sluice_grouping_find(stages, 360, &costs, &grouping, NULL));
        check_is_partition(&grouping, stages, 360, &costs);
        CU_ASSERT(grouping.num_nodes <= 360 * 361 / 2);
    }
    CU_ASSERT(grouping.num_nodes <= 360);
}

TEST(rejects_what_is_no_model)
{
    static struct sluice_grouping grouping;
    struct sluice_grouping_stage stage = {.bytes = 1, .seconds = 1};
    struct sluice_grouping_costs costs = costs_of(1, 1, 0);
    CHECK_FAILS(SLUICE_E_INVALID, "0 stages",
                sluice_grouping_find(&stage, 0, &costs, &grouping, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "4097 stages",
                sluice_grouping_find(&stage, 4097, &costs, &grouping, sluice_test_err()));
    costs.bytes_per_s = 0;
    CHECK_FAILS(SLUICE_E_INVALID, "rate",
                sluice_grouping_find(&stage, 1, &costs, &grouping, sluice_test_err()));
    costs = costs_of(1, NAN, 0);
    CHECK_FAILS(SLUICE_E_INVALID, "overhead",
                sluice_grouping_find(&stage, 1, &costs, &grouping, sluice_test_err()));
    costs.overhead_s = 0;
    stage.seconds = -1;
    CHECK_FAILS(SLUICE_E_INVALID, "stage 0",
                sluice_grouping_find(&stage, 1, &costs, &grouping, sluice_test_err()));
}

TEST(takes_bytes_near_the_largest_number)
{
    static struct sluice_grouping grouping;
    const struct sluice_grouping_stage stages[3] = {{UINT64_MAX - 1, 1}, {UINT64_MAX, 1}, {5, 1}};
    const struct sluice_grouping_costs costs = costs_of(1, 1, UINT64_MAX);
    REQUIRE_OK(sluice_grouping_find(stages, 3, &costs, &grouping, NULL));
    check_is_partition(&grouping, stages + 0, 3,
                       &(struct sluice_grouping_costs){costs.bytes_per_s, costs.overhead_s, 0});
}

/* Device none says its costs in infer.h. */
TEST(measures_a_model)
{
    const struct sluice_infer_options options = {.device = "none",
                                                 .model = "resnet18",
                                                 .num_classes = 10,
                                                 .height = 32,
                                                 .width = 32,
                                                 .batch_size = 1};
    struct sluice_infer *infer = NULL;
    static struct sluice_grouping grouping;
    struct sluice_grouping_costs costs;
    REQUIRE_OK(sluice_infer_create(&options, &infer, sluice_test_err()));
    REQUIRE_OK(sluice_infer_place(&infer, 1, sluice_test_err()));
    void *image = calloc(1, sluice_infer_weight_bytes(infer));
    CU_ASSERT_PTR_NOT_NULL_FATAL(image);
    REQUIRE_OK(
        sluice_grouping_measure(infer, image, 1000000, &costs, &grouping, sluice_test_err()));
    CU_ASSERT_EQUAL(costs.bytes_per_s, 10e9);
    CU_ASSERT_EQUAL(costs.overhead_s, 5e-6);
    CU_ASSERT_EQUAL(costs.min_bytes, 1000000);
    const unsigned num_stages = sluice_infer_num_stages(infer);
    struct sluice_grouping_stage stages[256];
    CU_ASSERT_FATAL(num_stages <= SLUICE_ARRAY_LEN(stages));
    for (unsigned s = 0; s < num_stages; s++)
        stages[s] = (struct sluice_grouping_stage){sluice_infer_stage_bytes(infer, s), 10e-6};
    check_is_partition(&grouping, stages, num_stages, &costs);
    free(image);
    sluice_infer_destroy(infer);
}
