#include "store/cache_plan.h"

#include "support/test.h"

#define LEN 1000

/* One letter for each byte: what is wanted, cached, taken from the cache, fetched. */
static bool wanted[LEN], cached[LEN], taken[LEN], fetched[LEN];

struct setup {
    struct sluice_file_part parts[SLUICE_STORE_MAX_PARTS];
    unsigned num_parts;
    struct sluice_cache_piece pieces[SLUICE_CACHE_MAX_PIECES];
    size_t num_pieces;
    uint64_t merge_gap;
};

static struct setup draw(struct sluice_rng *rng)
{
    struct setup setup = {.merge_gap = sluice_rng_below(rng, 3) ? sluice_rng_below(rng, 60) : 0};
    size_t at = 0;
    setup.num_parts = 1 + sluice_rng_below(rng, SLUICE_STORE_MAX_PARTS);
    for (unsigned i = 0; i < setup.num_parts; i++) {
        at += sluice_rng_below(rng, 100);
        setup.parts[i].from = at;
        setup.parts[i].to = at += sluice_rng_below(rng, 230);
    }
    uint32_t from = 0;
    const uint32_t step = 4 + sluice_rng_below(rng, 100);
    while (setup.num_pieces < SLUICE_CACHE_MAX_PIECES) {
        from += sluice_rng_below(rng, step);
        const uint32_t bytes = 1 + sluice_rng_below(rng, step);
        if (from + bytes > LEN)
            break;
        setup.pieces[setup.num_pieces++] = (struct sluice_cache_piece){1, from, bytes};
        from += bytes;
    }
    return setup;
}

static void mark(bool *bytes, size_t from, size_t to)
{
    memset(bytes + from, true, to - from);
}

static void mark_all(const struct setup *setup, const struct sluice_cache_plan *plan)
{
    memset(wanted, 0, LEN), memset(cached, 0, LEN), memset(taken, 0, LEN), memset(fetched, 0, LEN);
    for (unsigned i = 0; i < setup->num_parts; i++)
        mark(wanted, setup->parts[i].from, setup->parts[i].to);
    for (size_t i = 0; i < setup->num_pieces; i++)
        mark(cached, setup->pieces[i].from, (size_t)setup->pieces[i].from + setup->pieces[i].bytes);
    for (unsigned i = 0; i < plan->num_fetched; i++)
        mark(fetched, plan->fetched[i].from, plan->fetched[i].to);
    for (size_t i = 0; i < plan->num_stretches; i++) {
        if (!plan->stretches[i].is_fetched)
            mark(taken, plan->stretches[i].from, plan->stretches[i].to);
    }
}

TEST(every_wanted_byte_comes_from_one_place_and_no_other)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    static struct sluice_cache_plan plan;
    unsigned num_bad = 0, num_merged = 0;
    for (unsigned round = 0; round < 3000; round++) {
        const struct setup setup = draw(&rng);
        sluice_cache_plan_make(&plan, setup.parts, setup.num_parts, setup.pieces, setup.num_pieces,
                               setup.merge_gap);
        mark_all(&setup, &plan);
        bool is_good = plan.num_fetched <= SLUICE_STORE_MAX_PARTS;
        for (size_t i = 0; i < LEN; i++) {
            is_good &= wanted[i] == (taken[i] || fetched[i]) && !(taken[i] && fetched[i]);
            is_good &= !(wanted[i] && !cached[i] && !fetched[i]);
            num_merged += fetched[i] && cached[i];
        }
        for (size_t i = 0; i < plan.num_stretches; i++) {
            const struct sluice_cache_stretch *s = &plan.stretches[i];
            is_good &= s->is_cached == cached[s->from] && s->is_cached == cached[s->to - 1];
            is_good &= s->is_cached || s->is_fetched;
        }
        num_bad += !is_good;
    }
    CU_ASSERT_EQUAL(num_bad, 0);
    CU_ASSERT(num_merged > 0);
}

TEST(short_gaps_are_fetched_and_long_ones_are_not)
{
    static struct sluice_cache_plan plan;
    static const struct sluice_file_part whole = {0, 1000};
    static const struct sluice_cache_piece middle = {1, 400, 200};
    sluice_cache_plan_make(&plan, &whole, 1, &middle, 1, 199);
    CU_ASSERT_EQUAL(plan.num_fetched, 2);
    CU_ASSERT(plan.fetched[0].to == 400 && plan.fetched[1].from == 600);
    sluice_cache_plan_make(&plan, &whole, 1, &middle, 1, 200);
    CU_ASSERT_EQUAL(plan.num_fetched, 1);
    CU_ASSERT(plan.fetched[0].from == 0 && plan.fetched[0].to == 1000);
    /* But what lies between two parts is not wanted. */
    static const struct sluice_file_part two[] = {{0, 100}, {110, 200}};
    sluice_cache_plan_make(&plan, two, 2, NULL, 0, 1000);
    CU_ASSERT_EQUAL(plan.num_fetched, 2);
    CU_ASSERT_EQUAL(plan.num_stretches, 2);
    sluice_cache_plan_make(&plan, &whole, 1, &(struct sluice_cache_piece){1, 0, 1000}, 1, 0);
    CU_ASSERT(plan.num_fetched == 0 && plan.num_stretches == 1);
}
