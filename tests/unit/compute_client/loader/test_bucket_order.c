#include "compute_client/loader/order/bucket_order.h"

#include "base/rng.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#define MOST_ITEMS 400
#define MOST_BUCKETS 9

/* An epoch of random length and buckets. */
struct case_of {
    struct sluice_sampler_item items[MOST_ITEMS];
    uint8_t bucket_of[MOST_ITEMS];
    size_t count;
    struct sluice_bucket_options options;
};

static struct case_of make_case(struct sluice_rng *rng)
{
    struct case_of made = {.count = sluice_rng_below(rng, MOST_ITEMS)};
    made.options = (struct sluice_bucket_options){
        .order = {.world_size = 1, .tail = SLUICE_TAIL_PAD},
        .seed = sluice_rng_below(rng, 1000),
        .is_shuffled = sluice_rng_below(rng, 2),
        .num_buckets = 1 + sluice_rng_below(rng, MOST_BUCKETS),
    };
    for (size_t i = 0; i < made.count; i++) {
        /* Rare buckets, too. */
        const uint32_t below = 1 + sluice_rng_below(rng, made.options.num_buckets);
        made.bucket_of[i] = (uint8_t)sluice_rng_below(rng, below);
        made.items[i] = (struct sluice_sampler_item){(uint32_t)i, sluice_rng_below(rng, 5)};
    }
    for (size_t i = made.count; i-- > 1;) {
        const size_t k = sluice_rng_below(rng, (uint32_t)i + 1);
        const struct sluice_sampler_item item = made.items[i];
        made.items[i] = made.items[k];
        made.items[k] = item;
    }
    return made;
}

static struct sluice_bucket_order make(const struct case_of *of, uint32_t world_size, uint32_t rank,
                                       uint32_t batch_size, uint64_t cursor)
{
    struct sluice_bucket_options options = of->options;
    struct sluice_bucket_order order = {0};
    options.bucket_of = of->bucket_of;
    options.order.world_size = world_size;
    options.order.rank = rank;
    options.order.batch_size = batch_size;
    REQUIRE_OK(sluice_bucket_order_make(&options, 3, of->items, of->count, cursor, &order, NULL));
    return order;
}

static bool is_same(struct sluice_sampler_item a, struct sluice_sampler_item b)
{
    return a.position == b.position && a.draw_epoch == b.draw_epoch;
}

/* What all ranks get, without padding: batch after batch, rank after rank. */
struct delivered {
    struct sluice_sampler_item items[MOST_ITEMS];
    size_t count;
    uint64_t ends[MOST_ITEMS + 1]; /* of batches */
    uint8_t buckets[MOST_ITEMS];
    size_t num_batches, num_padded;
};

static void take_batch(const struct case_of *of, const struct sluice_bucket_order *rank, size_t b,
                       struct delivered *all)
{
    const struct sluice_order_batch *batch = &rank->batches[b];
    const uint32_t rows = batch[1].start - batch->start;
    CU_ASSERT_FATAL(batch->num_padded <= rows);
    for (uint32_t row = 0; row < rows; row++) {
        const struct sluice_sampler_item item = rank->items[batch->start + row];
        CU_ASSERT_EQUAL(of->bucket_of[item.position], batch->bucket);
        if (row < rows - batch->num_padded)
            all->items[all->count++] = item;
        else
            all->num_padded++;
    }
}

static struct delivered deliver(const struct case_of *of, uint32_t world_size, uint32_t batch_size,
                                uint64_t cursor)
{
    struct sluice_bucket_order ranks[8];
    struct delivered all = {.count = 0};
    for (uint32_t r = 0; r < world_size; r++) {
        ranks[r] = make(of, world_size, r, batch_size, cursor);
        CU_ASSERT_EQUAL_FATAL(ranks[r].num_batches, ranks[0].num_batches);
        CU_ASSERT_EQUAL_FATAL(ranks[r].num_items, ranks[0].num_items);
        CU_ASSERT_EQUAL(ranks[r].num_padded, ranks[0].num_padded);
    }
    CU_ASSERT_EQUAL(ranks[0].cursors[0], cursor);
    for (size_t b = 0; b < ranks[0].num_batches; b++) {
        const uint32_t rows = ranks[0].batches[b + 1].start - ranks[0].batches[b].start;
        CU_ASSERT(rows >= 1 && rows <= batch_size);
        for (uint32_t r = 0; r < world_size; r++) {
            CU_ASSERT_EQUAL(ranks[r].batches[b + 1].start - ranks[r].batches[b].start, rows);
            CU_ASSERT_EQUAL(ranks[r].batches[b].bucket, ranks[0].batches[b].bucket);
            take_batch(of, &ranks[r], b, &all);
        }
        all.buckets[b] = ranks[0].batches[b].bucket;
        all.ends[b] = cursor + all.count;
        CU_ASSERT_EQUAL(ranks[0].cursors[b + 1], all.ends[b]);
    }
    all.num_batches = ranks[0].num_batches;
    if (cursor == 0)
        CU_ASSERT_EQUAL(all.num_padded, ranks[0].num_padded);
    for (uint32_t r = 0; r < world_size; r++)
        sluice_bucket_order_clear(&ranks[r]);
    return all;
}

/* Each bucket's first items in the sampler's order come once.  Counts those that are left out. */
static size_t check_once(const struct case_of *of, const struct delivered *all)
{
    uint8_t num_seen[MOST_ITEMS] = {0};
    uint32_t draw_epochs[MOST_ITEMS] = {0};
    size_t num_of_bucket[MOST_BUCKETS] = {0}, num_left = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct sluice_sampler_item item = all->items[i];
        num_seen[item.position]++;
        draw_epochs[item.position] = item.draw_epoch;
        num_of_bucket[of->bucket_of[item.position]]++;
    }
    for (size_t i = 0; i < of->count; i++) {
        const struct sluice_sampler_item item = of->items[i];
        size_t *num = &num_of_bucket[of->bucket_of[item.position]];
        CU_ASSERT_EQUAL(num_seen[item.position], *num > 0 ? 1 : 0);
        CU_ASSERT(*num == 0 || draw_epochs[item.position] == item.draw_epoch);
        num_left += *num == 0;
        *num -= *num > 0;
    }
    return num_left;
}

TEST(every_item_comes_once_over_all_ranks)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int i = 0; i < 60; i++) {
        struct case_of of = make_case(&rng);
        const uint32_t batch_size = 1 + sluice_rng_below(&rng, 9);
        for (uint32_t ranks = 1; ranks <= 8; ranks++) {
            of.options.order.tail = SLUICE_TAIL_PAD;
            struct delivered all = deliver(&of, ranks, batch_size, 0);
            CU_ASSERT_EQUAL(all.count, of.count);
            CU_ASSERT_EQUAL(check_once(&of, &all), 0);
            CU_ASSERT(all.num_padded < of.options.num_buckets * ranks);

            of.options.order.tail = SLUICE_TAIL_DROP;
            all = deliver(&of, ranks, batch_size, 0);
            const size_t size = (size_t)batch_size * ranks;
            CU_ASSERT_EQUAL(all.num_padded, 0);
            CU_ASSERT_EQUAL(all.count, all.num_batches * size);
            CU_ASSERT(check_once(&of, &all) <= of.options.num_buckets * (size - 1));
        }
    }
}

static const uint32_t worlds[] = {1, 2, 3, 4, 6, 8}; /* which divide 24 */

/* The same global batches whatever the number of ranks; and from each of them on. */
TEST(world_sizes_and_resumes_give_the_same_batches)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 1, 0, 0);
    for (int i = 0; i < 12; i++) {
        struct case_of of = make_case(&rng);
        of.options.order.tail = sluice_rng_below(&rng, 2) ? SLUICE_TAIL_PAD : SLUICE_TAIL_DROP;
        const uint32_t size = 24 * (1 + sluice_rng_below(&rng, 2));
        const struct delivered whole = deliver(&of, 1, size, 0);
        for (size_t at = 0; at <= whole.num_batches; at++) {
            const uint64_t cursor = at > 0 ? whole.ends[at - 1] : 0;
            for (size_t w = 0; w < SLUICE_ARRAY_LEN(worlds); w++) {
                const struct delivered rest = deliver(&of, worlds[w], size / worlds[w], cursor);
                CU_ASSERT_EQUAL_FATAL(rest.num_batches, whole.num_batches - at);
                CU_ASSERT_EQUAL_FATAL(cursor + rest.count, whole.count);
                for (size_t k = 0; k < rest.count; k++)
                    CU_ASSERT(is_same(rest.items[k], whole.items[cursor + k]));
                for (size_t b = 0; b < rest.num_batches; b++)
                    CU_ASSERT(rest.buckets[b] == whole.buckets[at + b] &&
                              rest.ends[b] == whole.ends[at + b]);
            }
        }
    }
}

TEST(what_is_before_the_cursor_is_counted)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 2, 0, 0);
    const struct case_of of = make_case(&rng);
    struct sluice_bucket_order whole = make(&of, 4, 3, 5, 0);
    for (size_t at = 0; at <= whole.num_batches; at++) {
        struct sluice_bucket_order rest = make(&of, 4, 3, 5, whole.cursors[at]);
        CU_ASSERT_EQUAL(rest.batches_before, at);
        CU_ASSERT_EQUAL(rest.rows_before, whole.batches[at].start);
        sluice_bucket_order_clear(&rest);
    }
    sluice_bucket_order_clear(&whole);
}

TEST(a_cursor_within_a_batch_is_refused)
{
    struct case_of of = {.count = 10, .options = {.order = {4, 0, 1, SLUICE_TAIL_PAD}}};
    of.options.num_buckets = 2;
    of.options.bucket_of = of.bucket_of;
    for (uint32_t i = 0; i < 10; i++) {
        of.items[i].position = i;
        of.bucket_of[i] = i % 2;
    }
    /* 4 of bucket 0, 4 of bucket 1, 1 and 1. */
    for (uint64_t cursor = 0; cursor < 12; cursor++) {
        struct sluice_bucket_order order = {0};
        const bool is_good = cursor == 0 || cursor == 4 || (cursor >= 8 && cursor <= 10);
        CU_ASSERT_EQUAL(
            sluice_bucket_order_make(&of.options, 0, of.items, of.count, cursor, &order, NULL),
            is_good ? SLUICE_OK : SLUICE_E_INVALID);
        sluice_bucket_order_clear(&order);
    }
}

/* Full batches come as they fill; with a shuffle partial ones stand anywhere among them. */
TEST(partial_batches_are_placed_by_the_seed)
{
    struct case_of of = {.count = 90};
    of.options =
        (struct sluice_bucket_options){.order = {.tail = SLUICE_TAIL_PAD}, .num_buckets = 1};
    for (uint32_t i = 0; i < 90; i++)
        of.items[i].position = i;
    bool was_at[10] = {false};
    for (uint64_t seed = 0; seed < 200; seed++) {
        of.options.seed = seed;
        of.options.is_shuffled = false;
        struct sluice_bucket_order order = make(&of, 1, 0, 20, 0);
        CU_ASSERT_EQUAL_FATAL(order.num_batches, 5);
        CU_ASSERT_EQUAL(order.batches[4].start, 80);
        sluice_bucket_order_clear(&order);
        of.options.is_shuffled = true;
        order = make(&of, 1, 0, 20, 0);
        CU_ASSERT_EQUAL_FATAL(order.num_batches, 5);
        for (size_t b = 0; b < 5; b++) {
            if (order.batches[b + 1].start - order.batches[b].start == 10)
                was_at[b] = true;
        }
        sluice_bucket_order_clear(&order);
    }
    for (size_t b = 0; b < 5; b++)
        CU_ASSERT(was_at[b]);
}
