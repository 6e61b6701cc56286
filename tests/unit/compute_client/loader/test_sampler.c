#include "compute_client/loader/order/sampler.h"

#include "support/test.h"

static struct sluice_sampler_item *fill(const struct sluice_sampler *sampler, uint32_t epoch,
                                        size_t *count)
{
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_sampler_count(sampler, epoch, count, &err));
    struct sluice_sampler_item *items = calloc(*count, sizeof(*items));
    CU_ASSERT_PTR_NOT_NULL_FATAL(items);
    REQUIRE_OK(sluice_sampler_fill(sampler, epoch, items, NULL));
    return items;
}

TEST(every_sample_comes_exactly_repeat_times)
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

TEST(no_two_epochs_share_a_draw_epoch)
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

TEST(the_order_depends_on_seed_and_epoch_alone)
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
TEST(the_shuffle_is_uniform)
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

TEST(without_shuffle_the_order_is_sequential)
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

TEST(refuses_what_does_not_fit_32_bits)
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

/* --- ranges with weights --- */

#define MAX_IN_RANGE 60

/* By epoch and position, over some epochs, what the header promises of one range. */
static void check_range(const struct sluice_sampler_range *range, uint32_t repeat, bool is_shuffled)
{
    const struct sluice_sampler_range ranges[] = {
        {.num_samples = 7, .weight = 1}, *range, {.num_samples = 5, .weight = 0, .stream = 3}};
    const struct sluice_sampler sampler = {
        .seed = sluice_test_seed(),
        .num_samples = 12 + range->num_samples,
        .repeat = repeat,
        .is_shuffled = is_shuffled,
        .ranges = ranges,
        .num_ranges = 3,
    };
    const uint32_t n = range->num_samples;
    const uint32_t k = (uint32_t)(range->weight * repeat * n + 0.5);
    static uint8_t is_drawn[MAX_IN_RANGE][1000]; /* by position and draw epoch */
    uint64_t total[MAX_IN_RANGE] = {0};
    memset(is_drawn, 0, sizeof(is_drawn));
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        size_t count = 0, others = 0, mine = 0;
        struct sluice_sampler_item *items = fill(&sampler, epoch, &count);
        uint32_t in_epoch[MAX_IN_RANGE] = {0};
        CU_ASSERT_EQUAL_FATAL(count, 7 * repeat + k);
        for (size_t i = 0; i < count; i++) {
            const uint32_t position = items[i].position - 7, draws = items[i].draw_epoch;
            if (items[i].position < 7) {
                CU_ASSERT_EQUAL(draws / repeat, epoch);
                others++;
                continue;
            }
            CU_ASSERT_FATAL(position < n && draws < 1000);
            mine++;
            in_epoch[position]++;
            total[position]++;
            CU_ASSERT(!is_drawn[position][draws]); /* never the same crop again */
            is_drawn[position][draws] = 1;
            /* A walk: what comes in this epoch is of its passes. */
            CU_ASSERT(draws >= (uint64_t)epoch * k / n &&
                      draws <= ((uint64_t)epoch * k + k - 1) / n);
        }
        CU_ASSERT_EQUAL(others, 7 * repeat);
        CU_ASSERT_EQUAL(mine, k);
        uint64_t least = UINT64_MAX, most = 0;
        for (uint32_t i = 0; i < n; i++) {
            CU_ASSERT(in_epoch[i] >= k / n && in_epoch[i] <= (k + n - 1) / n);
            least = total[i] < least ? total[i] : least;
            most = total[i] > most ? total[i] : most;
        }
        CU_ASSERT(most - least <= 1); /* all come before any comes again */
        free(items);
    }
}

TEST(a_range_is_walked_through_by_its_weight)
{
    static const double weights[] = {0.5, 0.75, 1.0 / 3, 1, 1.5, 2, 2.75, 0.02, 0.999};
    static const uint32_t sizes[] = {1, 2, 3, 4, 10, 17, MAX_IN_RANGE};
    for (size_t w = 0; w < SLUICE_ARRAY_LEN(weights); w++) {
        for (size_t s = 0; s < SLUICE_ARRAY_LEN(sizes); s++) {
            const struct sluice_sampler_range range = {
                .num_samples = sizes[s], .weight = weights[w], .stream = 77};
            for (uint32_t repeat = 1; repeat <= 3; repeat++)
                check_range(&range, repeat, (w + s) % 2);
        }
    }
}

TEST(weights_of_1_are_the_order_without)
{
    const struct sluice_sampler_range ranges[] = {{.num_samples = 40, .weight = 1},
                                                  {.num_samples = 0, .weight = 5},
                                                  {.num_samples = 60, .weight = 1, .stream = 2}};
    const struct sluice_sampler plain = {
        .seed = 5, .num_samples = 100, .repeat = 1, .is_shuffled = true};
    struct sluice_sampler weighted = plain;
    weighted.ranges = ranges;
    weighted.num_ranges = 3;
    size_t count, other;
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        struct sluice_sampler_item *a = fill(&plain, epoch, &count),
                                   *b = fill(&weighted, epoch, &other);
        CU_ASSERT_EQUAL_FATAL(count, other);
        CU_ASSERT_EQUAL(memcmp(a, b, count * sizeof(*a)), 0);
        free(a);
        free(b);
    }
}

/* What one range gives does not hang on the others; its order differs by seed and stream. */
TEST(a_range_depends_on_seed_epoch_and_stream_alone)
{
    struct sluice_sampler_range ranges[2] = {{.num_samples = 50, .weight = 0.5, .stream = 9},
                                             {.num_samples = 10, .weight = 1}};
    struct sluice_sampler sampler = {
        .seed = 3, .num_samples = 60, .repeat = 1, .ranges = ranges, .num_ranges = 2};
    size_t count;
    struct sluice_sampler_item *first = fill(&sampler, 4, &count);
    ranges[1].weight = 3;
    struct sluice_sampler_item *again = fill(&sampler, 4, &count);
    CU_ASSERT_EQUAL(memcmp(first, again, 25 * sizeof(*first)), 0);
    free(again);
    ranges[0].stream = 10;
    again = fill(&sampler, 4, &count);
    CU_ASSERT_NOT_EQUAL(memcmp(first, again, 25 * sizeof(*first)), 0);
    free(again);
    ranges[0].stream = 9;
    sampler.seed = 4;
    again = fill(&sampler, 4, &count);
    CU_ASSERT_NOT_EQUAL(memcmp(first, again, 25 * sizeof(*first)), 0);
    free(again);
    free(first);
}

TEST(refuses_weights_that_do_not_fit)
{
    struct sluice_sampler_range range = {.num_samples = 1000, .weight = 1e6};
    struct sluice_sampler sampler = {
        .num_samples = 1000, .repeat = 1, .ranges = &range, .num_ranges = 1};
    size_t count = 7;
    CHECK_OK(sluice_sampler_count(&sampler, 0, &count, NULL));
    CU_ASSERT_EQUAL(count, 1000000000);
    CHECK_OK(sluice_sampler_count(&sampler, 4293, &count, NULL));
    CU_ASSERT_EQUAL(sluice_sampler_count(&sampler, 4294, &count, sluice_test_err()),
                    SLUICE_E_INVALID);
    sampler.repeat = 5; /* too many items */
    CU_ASSERT_EQUAL(sluice_sampler_count(&sampler, 0, &count, NULL), SLUICE_E_INVALID);
    sampler.repeat = 1;
    range.weight = 0.0004; /* none of 1000 */
    CHECK_FAILS(SLUICE_E_INVALID, "the weights leave none of 1000",
                sluice_sampler_count(&sampler, 0, &count, sluice_test_err()));
    CU_ASSERT_EQUAL(count, 1000000000);
}

/* --- shards --- */

static const uint32_t shard_ends[] = {7, 8, 40, 41, 90, 100};

static size_t shard_at(uint32_t position)
{
    size_t shard = 0;
    while (position >= shard_ends[shard])
        shard++;
    return shard;
}

/* Of each window of num_mixed shards no other shard comes, and all of them do; within it they are
 * mixed; windows and orders differ by epoch and seed. */
TEST(shards_are_read_a_few_at_a_time)
{
    size_t num_first_of_0[6] = {0}, num_neighbours = 0;
    for (uint32_t num_mixed = 1; num_mixed <= 7; num_mixed++) {
        for (uint32_t epoch = 0; epoch < 40; epoch++) {
            const struct sluice_sampler sampler = {
                .seed = 3,
                .num_samples = 100,
                .repeat = 1,
                .is_shuffled = true,
                .shard_ends = shard_ends,
                .num_shards = SLUICE_ARRAY_LEN(shard_ends),
                .num_mixed = num_mixed,
            };
            size_t count;
            struct sluice_sampler_item *items = fill(&sampler, epoch, &count);
            struct sluice_sampler_item *again = fill(&sampler, epoch, &count);
            CU_ASSERT_EQUAL_FATAL(count, 100);
            CU_ASSERT_EQUAL(memcmp(items, again, count * sizeof(*items)), 0);
            uint8_t seen[100] = {0};
            uint32_t left[6];
            for (size_t k = 0; k < 6; k++)
                left[k] = shard_ends[k] - (k ? shard_ends[k - 1] : 0);
            bool is_open[6] = {false};
            uint32_t num_open = 0, num_begun = 0;
            for (size_t i = 0; i < count; i++) {
                const size_t shard = shard_at(items[i].position);
                CU_ASSERT_EQUAL(items[i].draw_epoch, epoch);
                seen[items[i].position]++;
                if (!is_open[shard]) {
                    is_open[shard] = true;
                    num_open++;
                    num_begun++;
                    /* A window begins when all before it is over. */
                    CU_ASSERT(num_open <= num_mixed);
                    if (num_begun % num_mixed == 1 && num_begun > 1)
                        CU_ASSERT_EQUAL(num_open, 1);
                }
                num_open -= --left[shard] == 0;
                num_neighbours += i > 0 && items[i].position == items[i - 1].position + 1;
            }
            for (size_t i = 0; i < 100; i++)
                CU_ASSERT_EQUAL(seen[i], 1);
            if (num_mixed == 1)
                num_first_of_0[shard_at(items[0].position)]++;
            free(items);
            free(again);
        }
    }
    for (size_t k = 0; k < 6; k++) /* 6.7 of 40 */
        CU_ASSERT(num_first_of_0[k] > 0 && num_first_of_0[k] < 20);
    CU_ASSERT(num_neighbours < 7 * 40 * 10); /* 1 or 2 of 100 by chance */
}

/* Each time that a shard comes it is a run of its own, with the draws of its repetition. */
TEST(shards_come_repeat_times)
{
    const struct sluice_sampler sampler = {
        .seed = 3,
        .num_samples = 100,
        .repeat = 3,
        .is_shuffled = true,
        .shard_ends = shard_ends,
        .num_shards = SLUICE_ARRAY_LEN(shard_ends),
        .num_mixed = 1,
    };
    size_t count;
    struct sluice_sampler_item *items = fill(&sampler, 2, &count);
    CU_ASSERT_EQUAL_FATAL(count, 300);
    uint8_t seen[300] = {0};
    size_t num_runs = 1;
    for (size_t i = 0; i < count; i++) {
        CU_ASSERT_FATAL(items[i].draw_epoch >= 6 && items[i].draw_epoch < 9);
        seen[items[i].position * 3 + items[i].draw_epoch - 6]++;
        num_runs += i > 0 && (shard_at(items[i].position) != shard_at(items[i - 1].position) ||
                              items[i].draw_epoch != items[i - 1].draw_epoch);
    }
    for (size_t i = 0; i < count; i++)
        CU_ASSERT_EQUAL(seen[i], 1);
    CU_ASSERT_EQUAL(num_runs, 18);
    free(items);
}

static int compare_items(const void *a, const void *b)
{
    const struct sluice_sampler_item *x = a, *y = b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return (x->draw_epoch > y->draw_epoch) - (x->draw_epoch < y->draw_epoch);
}

/* The items of epochs [from, from + num), one epoch after the other. */
static struct sluice_sampler_item *fill_epochs(const struct sluice_sampler *sampler, uint32_t from,
                                               uint32_t num, size_t *count)
{
    struct sluice_sampler_item *all = NULL;
    *count = 0;
    for (uint32_t epoch = from; epoch < from + num; epoch++) {
        size_t more;
        struct sluice_sampler_item *items = fill(sampler, epoch, &more);
        all = realloc(all, (*count + more) * sizeof(*all));
        CU_ASSERT_PTR_NOT_NULL_FATAL(all);
        memcpy(all + *count, items, more * sizeof(*items));
        *count += more;
        free(items);
    }
    return all;
}

TEST(copies_follow_each_other_and_are_the_items_of_their_epochs)
{
    static const uint32_t shard_ends[] = {10, 35, 101};
    for (uint32_t copies = 2; copies <= 4; copies++) {
        for (uint32_t repeat = 1; repeat <= 2; repeat++) {
            struct sluice_sampler sampler = {.seed = 9,
                                             .num_samples = 101,
                                             .repeat = repeat,
                                             .is_shuffled = true,
                                             .shard_ends = shard_ends,
                                             .num_shards = 3,
                                             .num_mixed = repeat - 1};
            size_t count, order_count;
            struct sluice_sampler_item *order = fill(&sampler, 5, &order_count);
            sampler.copies = copies;
            struct sluice_sampler_item *items = fill_epochs(&sampler, 5 * copies, copies, &count);
            CU_ASSERT_EQUAL_FATAL(count, order_count * copies);
            for (size_t i = 0; i < count; i++) {
                CU_ASSERT_EQUAL(items[i].position, order[i / copies].position);
                CU_ASSERT_EQUAL(items[i].draw_epoch,
                                order[i / copies].draw_epoch * copies + i % copies);
            }
            free(order);
            /* The same as without copies, in another order. */
            size_t plain_count;
            sampler.copies = 1;
            struct sluice_sampler_item *plain =
                fill_epochs(&sampler, 5 * copies, copies, &plain_count);
            CU_ASSERT_EQUAL_FATAL(plain_count, count);
            qsort(items, count, sizeof(*items), compare_items);
            qsort(plain, count, sizeof(*plain), compare_items);
            CU_ASSERT_EQUAL(memcmp(items, plain, count * sizeof(*items)), 0);
            free(plain);
            free(items);
        }
    }
}

TEST(copies_of_ranges_have_draws_of_their_own)
{
    static const struct sluice_sampler_range ranges[] = {{30, 0.5, 1}, {20, 2, 2}};
    const struct sluice_sampler sampler = {.seed = 3,
                                           .num_samples = 50,
                                           .repeat = 1,
                                           .copies = 3,
                                           .is_shuffled = true,
                                           .ranges = ranges,
                                           .num_ranges = 2};
    size_t count;
    struct sluice_sampler_item *items = fill_epochs(&sampler, 0, 12, &count);
    CU_ASSERT_EQUAL(count, 12 * (15 + 40));
    qsort(items, count, sizeof(*items), compare_items);
    for (size_t i = 1; i < count; i++)
        CU_ASSERT_NOT_EQUAL(compare_items(&items[i - 1], &items[i]), 0);
    free(items);
}
