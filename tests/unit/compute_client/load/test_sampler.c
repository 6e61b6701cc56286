#include "compute_client/load/sampler.h"

#include "support/test.h"

#include <stdlib.h>
#include <string.h>

static struct sluice_sampler_item *fill(const struct sluice_sampler *sampler, uint32_t epoch,
                                        size_t *count)
{
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL_FATAL(sluice_sampler_count(sampler, epoch, count, &err), SLUICE_OK);
    struct sluice_sampler_item *items = calloc(*count, sizeof(*items));
    CU_ASSERT_PTR_NOT_NULL_FATAL(items);
    sluice_sampler_fill(sampler, epoch, items);
    return items;
}

static void every_sample_comes_exactly_repeat_times(void)
{
    const uint32_t sizes[] = {1, 2, 7, 1000};
    for (size_t s = 0; s < 4; s++) {
        for (uint32_t repeat = 1; repeat <= 3; repeat++) {
            const struct sluice_sampler sampler = {
                .seed = sluice_test_seed(),
                .num_samples = sizes[s],
                .repeat = repeat,
                .is_shuffled = true,
            };
            const uint32_t epoch = 5;
            size_t count;
            struct sluice_sampler_item *items = fill(&sampler, epoch, &count);
            CU_ASSERT_EQUAL(count, sizes[s] * repeat);
            /* Each (position, draw epoch) once. */
            uint8_t *seen = calloc(count, 1);
            for (size_t i = 0; i < count; i++) {
                CU_ASSERT_FATAL(items[i].position < sizes[s]);
                const uint32_t r = items[i].draw_epoch - epoch * repeat;
                CU_ASSERT_FATAL(r < repeat);
                seen[items[i].position * repeat + r]++;
            }
            for (size_t i = 0; i < count; i++)
                CU_ASSERT_EQUAL(seen[i], 1);
            free(seen);
            free(items);
        }
    }
}

static void no_two_epochs_share_a_draw_epoch(void)
{
    const struct sluice_sampler sampler = {.num_samples = 3, .repeat = 4, .is_shuffled = true};
    uint8_t seen[3][20] = {{0}};
    for (uint32_t epoch = 0; epoch < 5; epoch++) {
        size_t count;
        struct sluice_sampler_item *items = fill(&sampler, epoch, &count);
        for (size_t i = 0; i < count; i++) {
            CU_ASSERT_FATAL(items[i].draw_epoch < 20);
            seen[items[i].position][items[i].draw_epoch]++;
        }
        free(items);
    }
    for (int p = 0; p < 3; p++) {
        for (int e = 0; e < 20; e++)
            CU_ASSERT_EQUAL(seen[p][e], 1);
    }
}

static void the_order_depends_on_seed_and_epoch_alone(void)
{
    struct sluice_sampler a = {.seed = 1, .num_samples = 500, .repeat = 1, .is_shuffled = true};
    struct sluice_sampler b = a;
    b.seed = 2;
    size_t count;
    struct sluice_sampler_item *first = fill(&a, 0, &count), *again = fill(&a, 0, &count),
                               *epoch1 = fill(&a, 1, &count), *seed2 = fill(&b, 0, &count);
    size_t same_epoch = 0, same_seed = 0, sorted = 0;
    for (size_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(first[i].position, again[i].position);
        same_epoch += first[i].position == epoch1[i].position;
        same_seed += first[i].position == seed2[i].position;
        sorted += first[i].position == i;
    }
    /* One fixed point is expected of a random permutation. */
    CU_ASSERT(same_epoch < 10 && same_seed < 10 && sorted < 10);
    free(first);
    free(again);
    free(epoch1);
    free(seed2);
}

/* The first position is uniform, also past the steps that share one stream of draws. */
static void the_shuffle_is_uniform(void)
{
    unsigned counts[5] = {0};
    for (uint32_t epoch = 0; epoch < 5000; epoch++) {
        const struct sluice_sampler sampler = {
            .seed = sluice_test_seed(), .num_samples = 5, .repeat = 1, .is_shuffled = true};
        size_t count;
        struct sluice_sampler_item *items = fill(&sampler, epoch, &count);
        counts[items[0].position]++;
        free(items);
    }
    for (int i = 0; i < 5; i++)
        CU_ASSERT(counts[i] > 850 && counts[i] < 1150);

    const struct sluice_sampler big = {
        .seed = sluice_test_seed(), .num_samples = 20000, .repeat = 1, .is_shuffled = true};
    size_t count;
    struct sluice_sampler_item *items = fill(&big, 0, &count);
    double sum = 0;
    for (size_t i = 0; i < 4096; i++)
        sum += items[i].position;
    CU_ASSERT_DOUBLE_EQUAL(sum / 4096, 10000, 500);
    free(items);
}

static void without_shuffle_the_order_is_sequential(void)
{
    const struct sluice_sampler sampler = {.seed = 9, .num_samples = 100, .repeat = 1};
    size_t count;
    struct sluice_sampler_item *items = fill(&sampler, 3, &count);
    for (size_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(items[i].position, i);
        CU_ASSERT_EQUAL(items[i].draw_epoch, 3);
    }
    free(items);
}

static void refuses_what_does_not_fit_32_bits(void)
{
    struct sluice_sampler sampler = {.num_samples = 1u << 20, .repeat = 1u << 12};
    struct sluice_err err = {0};
    size_t count = 7;
    CU_ASSERT_EQUAL(sluice_sampler_count(&sampler, 0, &count, &err), SLUICE_E_INVALID);
    sampler.repeat = 1000;
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(sluice_sampler_count(&sampler, 4294967, &count, &err), SLUICE_E_INVALID);
    sampler.num_samples = 0;
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(sluice_sampler_count(&sampler, 0, &count, &err), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(count, 7);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(every_sample_comes_exactly_repeat_times),
        SLUICE_TEST(no_two_epochs_share_a_draw_epoch),
        SLUICE_TEST(the_order_depends_on_seed_and_epoch_alone),
        SLUICE_TEST(the_shuffle_is_uniform),
        SLUICE_TEST(without_shuffle_the_order_is_sequential),
        SLUICE_TEST(refuses_what_does_not_fit_32_bits),
    };
    return sluice_test_run("sampler", tests, SLUICE_TEST_COUNT(tests));
}
