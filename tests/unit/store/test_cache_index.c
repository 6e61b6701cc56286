#include "store/cache_index.h"

#include "support/test.h"

#define NUM_IDS 400
#define SLOTS 40 /* of an object, of 10 bytes each */

/* What the index should have, by brute force. */
static bool model[NUM_IDS][SLOTS];

/* Some ids meet in a bucket. */
static struct sluice_cache_piece piece_of(unsigned id, unsigned slot)
{
    return (struct sluice_cache_piece){(uint64_t)id * 512, slot * 10, 10};
}

static unsigned count(unsigned id)
{
    unsigned num = 0;
    for (unsigned slot = 0; slot < SLOTS; slot++)
        num += model[id][slot];
    return num;
}

static void check_object(struct sluice_cache_index *index, unsigned id)
{
    struct sluice_cache_piece found[SLUICE_CACHE_MAX_PIECES];
    const size_t num = sluice_cache_index_find(index, piece_of(id, 0).id, found);
    bool is_good = num == count(id);
    size_t at = 0;
    for (unsigned slot = 0; slot < SLOTS && is_good; slot++) {
        const struct sluice_cache_piece piece = piece_of(id, slot);
        if (model[id][slot])
            is_good = memcmp(&found[at++], &piece, sizeof(piece)) == 0;
    }
    CU_ASSERT(is_good);
}

TEST(finds_what_was_added_and_not_removed)
{
    struct sluice_cache_index *index = NULL;
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    REQUIRE_OK(sluice_cache_index_create(&index, NULL));
    size_t total = 0;
    bool is_good = true;
    for (unsigned i = 0; i < 60000; i++) {
        const unsigned id = sluice_rng_below(&rng, NUM_IDS), slot = sluice_rng_below(&rng, SLOTS);
        const struct sluice_cache_piece piece = piece_of(id, slot);
        const bool adds = sluice_rng_below(&rng, 5) < 3;
        const bool expected =
            adds ? !model[id][slot] && count(id) < SLUICE_CACHE_MAX_PIECES : model[id][slot];
        const bool is_done =
            adds ? sluice_cache_index_add(index, &piece) : sluice_cache_index_remove(index, &piece);
        is_good &= is_done == expected;
        if (is_done) {
            model[id][slot] = adds;
            total += adds ? 1 : (size_t)-1;
        }
    }
    CU_ASSERT(is_good);
    CU_ASSERT(total > 2000); /* it has grown */
    CU_ASSERT_EQUAL(sluice_cache_index_count(index), total);
    for (unsigned id = 0; id < NUM_IDS; id++)
        check_object(index, id);
    sluice_cache_index_destroy(index);
    sluice_cache_index_destroy(NULL);
}

TEST(pieces_of_an_object_do_not_overlap)
{
    struct sluice_cache_index *index = NULL;
    static const struct sluice_cache_piece first = {7, 100, 50};
    static const struct sluice_cache_piece over[] = {
        {7, 100, 50}, {7, 90, 11}, {7, 149, 1}, {7, 0, 1000}, {7, 120, 5}};
    static const struct sluice_cache_piece beside[] = {{7, 90, 10}, {7, 150, 1}, {8, 100, 50}};
    REQUIRE_OK(sluice_cache_index_create(&index, NULL));
    CU_ASSERT(sluice_cache_index_add(index, &first));
    for (size_t i = 0; i < sizeof(over) / sizeof(over[0]); i++)
        CU_ASSERT(!sluice_cache_index_add(index, &over[i]));
    for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++)
        CU_ASSERT(sluice_cache_index_add(index, &beside[i]));
    sluice_cache_index_destroy(index);
}

TEST(what_was_looked_for_stays_the_longest)
{
    struct sluice_cache_index *index = NULL;
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    struct sluice_cache_piece piece, found[SLUICE_CACHE_MAX_PIECES];
    REQUIRE_OK(sluice_cache_index_create(&index, NULL));
    CU_ASSERT(!sluice_cache_index_victim(index, &rng, &piece));
    for (uint64_t id = 0; id < 1000; id++)
        CU_ASSERT(sluice_cache_index_add(index, &(struct sluice_cache_piece){id, 0, 1}));
    for (uint64_t id = 0; id < 500; id++)
        CU_ASSERT_EQUAL(sluice_cache_index_find(index, id, found), 1);
    unsigned num_used = 0;
    for (unsigned i = 0; i < 250; i++) {
        CU_ASSERT_FATAL(sluice_cache_index_victim(index, &rng, &piece));
        CU_ASSERT(sluice_cache_index_remove(index, &piece));
        num_used += piece.id < 500;
    }
    /* Eight draws of such are one in 256 at first, and one in 26 at the end. */
    CU_ASSERT(num_used < 25);
    sluice_cache_index_destroy(index);
}
