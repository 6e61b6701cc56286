#include "compute_client/loader/order/order.h"

#include "support/test.h"

/* The brute force below covers every (total, batch size, world size, tail) up to these. */
#define MAX_TOTAL 40
#define MAX_BATCH 5
#define MAX_WORLD 5
#define MAX_ROWS (MAX_TOTAL + MAX_BATCH)

/* What each rank gets from a cursor on. */
struct share {
    struct sluice_sampler_item items[MAX_ROWS];
    uint64_t num_items, num_batches;
    uint32_t num_padded;
};

static struct sluice_sampler_item global[MAX_TOTAL];

static bool same(struct sluice_sampler_item a, struct sluice_sampler_item b)
{
    return a.position == b.position && a.draw_epoch == b.draw_epoch;
}

static void fill_global(uint32_t total)
{
    const struct sluice_sampler sampler = {
        .seed = sluice_test_seed(), .num_samples = total, .repeat = 1, .is_shuffled = true};
    if (total)
        REQUIRE_OK(sluice_sampler_fill(&sampler, 3, global, NULL));
}

static struct sluice_order_options options_of(uint32_t batch_size, uint32_t rank,
                                              uint32_t world_size, enum sluice_tail tail)
{
    const struct sluice_order_options options = {batch_size, rank, world_size, tail};
    REQUIRE_OK(sluice_order_check(&options, NULL));
    return options;
}

static void take(const struct sluice_order_options *options, uint32_t total, uint64_t cursor,
                 struct share *share)
{
    REQUIRE_OK(sluice_order_check_cursor(options, total, cursor, NULL));
    memset(share, 0xee, sizeof(*share));
    share->num_items = sluice_order_num_items(options, total, cursor);
    share->num_batches = sluice_order_num_batches(options, total, cursor);
    share->num_padded = sluice_order_num_padded(options, total, cursor);
    CU_ASSERT_FATAL(share->num_items < MAX_ROWS);
    sluice_order_fill(options, global, total, cursor, share->items);
    /* Nothing is written after them. */
    const struct sluice_sampler_item untouched = {0xeeeeeeee, 0xeeeeeeee};
    CU_ASSERT_TRUE(same(share->items[share->num_items], untouched));
}

typedef void check_fn(uint32_t total, uint32_t batch_size, uint32_t world_size,
                      enum sluice_tail tail);

static void for_all(check_fn *check)
{
    for (uint32_t total = 0; total <= MAX_TOTAL; total++) {
        fill_global(total);
        for (uint32_t batch_size = 1; batch_size <= MAX_BATCH; batch_size++) {
            for (uint32_t world_size = 1; world_size <= MAX_WORLD; world_size++) {
                check(total, batch_size, world_size, SLUICE_TAIL_PAD);
                check(total, batch_size, world_size, SLUICE_TAIL_DROP);
            }
        }
    }
}

/* The ranks' batches side by side, global batch by global batch: the definition in the header,
 * spelled out one item at a time. */
static void check_union(uint32_t total, uint32_t batch_size, uint32_t world_size,
                        enum sluice_tail tail)
{
    static struct share shares[MAX_WORLD];
    for (uint32_t rank = 0; rank < world_size; rank++) {
        const struct sluice_order_options options = options_of(batch_size, rank, world_size, tail);
        take(&options, total, 0, &shares[rank]);
        CU_ASSERT_EQUAL(shares[rank].num_items, shares[0].num_items);
        CU_ASSERT_EQUAL(shares[rank].num_batches, shares[0].num_batches);
    }
    uint64_t next = 0; /* in the global order */
    uint64_t row = 0;  /* of every rank */
    for (uint64_t batch = 0; batch < shares[0].num_batches; batch++) {
        const uint64_t left = shares[0].num_items - row;
        const bool is_last = batch + 1 == shares[0].num_batches;
        const uint64_t rows = is_last ? left : batch_size;
        CU_ASSERT_FATAL(total >= 1 && rows >= 1 && rows <= batch_size);
        for (uint32_t rank = 0; rank < world_size; rank++) {
            uint32_t repeats = 0;
            for (uint64_t i = 0; i < rows; i++, next++) {
                CU_ASSERT_TRUE(same(shares[rank].items[row + i], global[next % total]));
                repeats += next >= total;
            }
            CU_ASSERT_EQUAL(repeats, is_last ? shares[rank].num_padded : 0);
        }
        row += rows;
    }
    if (tail == SLUICE_TAIL_PAD) {
        /* Everything comes, and fewer than world_size repeats. */
        CU_ASSERT_TRUE(next >= total && next - total < world_size);
    } else {
        CU_ASSERT_EQUAL(next, total - total % (batch_size * world_size));
    }
}

TEST(the_ranks_together_have_the_global_order)
{
    for_all(check_union);
}

/* Whatever W is, as long as W * B is the same. */
TEST(global_batches_do_not_depend_on_the_world_size)
{
    enum { G = 12, TOTAL = 40 };
    static struct share shares[G];
    fill_global(TOTAL);
    for (uint32_t world_size = 1; world_size <= G; world_size++) {
        if (G % world_size)
            continue;
        const uint32_t batch_size = G / world_size;
        for (uint32_t rank = 0; rank < world_size; rank++) {
            const struct sluice_order_options options =
                options_of(batch_size, rank, world_size, SLUICE_TAIL_DROP);
            take(&options, TOTAL, 0, &shares[rank]);
            CU_ASSERT_EQUAL(shares[rank].num_batches, TOTAL / G);
        }
        for (uint32_t i = 0; i < TOTAL / G * G; i++) {
            const uint32_t rank = i % G / batch_size;
            const uint32_t row = i / G * batch_size + i % batch_size;
            CU_ASSERT_TRUE(same(shares[rank].items[row], global[i]));
        }
    }
}

/* The example of torch's DistributedSampler: padding = order[:missing], repeated where short. */
TEST(pads_from_the_beginning_of_the_epoch_as_often_as_needed)
{
    enum { WORLD = 5 };
    fill_global(2);
    const uint32_t expected[WORLD] = {0, 1, 0, 1, 0};
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        struct share share;
        const struct sluice_order_options options = options_of(4, rank, WORLD, SLUICE_TAIL_PAD);
        take(&options, 2, 0, &share);
        CU_ASSERT_EQUAL(share.num_items, 1);
        CU_ASSERT_EQUAL(share.num_batches, 1);
        CU_ASSERT_EQUAL(share.num_padded, rank >= 2);
        CU_ASSERT_TRUE(same(share.items[0], global[expected[rank]]));
    }
}

TEST(one_rank_has_a_short_last_batch_and_no_repeats)
{
    struct share share;
    fill_global(10);
    const struct sluice_order_options options = options_of(4, 0, 1, SLUICE_TAIL_PAD);
    take(&options, 10, 0, &share);
    CU_ASSERT_EQUAL(share.num_batches, 3);
    CU_ASSERT_EQUAL(share.num_items, 10);
    CU_ASSERT_EQUAL(share.num_padded, 0);
    CU_ASSERT_EQUAL(memcmp(share.items, global, 10 * sizeof(*global)), 0);
}

TEST(drop_leaves_the_partial_batch_out)
{
    struct share share;
    fill_global(10);
    const struct sluice_order_options options = options_of(2, 1, 2, SLUICE_TAIL_DROP);
    take(&options, 10, 0, &share);
    CU_ASSERT_EQUAL(share.num_batches, 2);
    CU_ASSERT_EQUAL(share.num_items, 4);
    CU_ASSERT_EQUAL(share.num_padded, 0);
    CU_ASSERT_EQUAL(sluice_order_cursor(&options, 10, 0, 2), 8);
    CU_ASSERT_EQUAL(sluice_order_num_batches(&options, 10, 8), 0);
    /* An epoch shorter than a global batch has none. */
    CU_ASSERT_EQUAL(sluice_order_num_batches(&options, 3, 0), 0);
    CU_ASSERT_EQUAL(sluice_order_num_items(&options, 3, 0), 0);
}

static void check_cursors(uint32_t total, uint32_t batch_size, uint32_t world_size,
                          enum sluice_tail tail)
{
    for (uint32_t rank = 0; rank < world_size; rank++) {
        static struct share whole, rest;
        const struct sluice_order_options options = options_of(batch_size, rank, world_size, tail);
        take(&options, total, 0, &whole);
        for (uint64_t taken = 0; taken <= whole.num_batches; taken++) {
            const uint64_t cursor = sluice_order_cursor(&options, total, 0, taken);
            const uint64_t rows = taken == whole.num_batches ? whole.num_items : taken * batch_size;
            take(&options, total, cursor, &rest);
            CU_ASSERT_EQUAL(rest.num_batches, whole.num_batches - taken);
            CU_ASSERT_EQUAL_FATAL(rest.num_items, whole.num_items - rows);
            CU_ASSERT_EQUAL(
                memcmp(rest.items, whole.items + rows, rest.num_items * sizeof(*rest.items)), 0);
            CU_ASSERT_EQUAL(rest.num_padded, rest.num_batches ? whole.num_padded : 0);
            /* On from there it is the same cursor as from the beginning. */
            for (uint64_t more = 0; more <= rest.num_batches; more++)
                CU_ASSERT_EQUAL(sluice_order_cursor(&options, total, cursor, more),
                                sluice_order_cursor(&options, total, 0, taken + more));
        }
    }
}

TEST(a_cursor_continues_where_its_batches_ended)
{
    for_all(check_cursors);
}

/* Two ranks stop after two batches, and three or six go on. */
TEST(another_world_size_with_the_same_global_batch_gets_the_rest)
{
    enum { G = 6, TOTAL = 35 };
    fill_global(TOTAL);
    const struct sluice_order_options before = options_of(3, 1, 2, SLUICE_TAIL_PAD);
    const uint64_t cursor = sluice_order_cursor(&before, TOTAL, 0, 2);
    CU_ASSERT_EQUAL_FATAL(cursor, 2 * G);
    const uint32_t world_sizes[] = {1, 3, 6};
    for (size_t w = 0; w < 3; w++) {
        const uint32_t world_size = world_sizes[w], batch_size = G / world_size;
        uint8_t seen[TOTAL] = {0};
        uint64_t rows = 0, padded = 0;
        for (uint32_t rank = 0; rank < world_size; rank++) {
            struct share share;
            const struct sluice_order_options options =
                options_of(batch_size, rank, world_size, SLUICE_TAIL_PAD);
            take(&options, TOTAL, cursor, &share);
            CU_ASSERT_EQUAL(share.num_batches, (TOTAL - 2 * G + G - 1) / G);
            for (uint64_t i = 0; i < share.num_items - share.num_padded; i++)
                seen[share.items[i].position]++;
            rows += share.num_items;
            padded += share.num_padded;
        }
        CU_ASSERT_EQUAL(rows, TOTAL - 2 * G + padded);
        for (uint32_t i = 0; i < TOTAL; i++)
            CU_ASSERT_EQUAL(seen[global[i].position], i >= 2 * G);
    }
}

/* Without items, so without memory for them. */
TEST(numbers_near_32_bits_do_not_overflow)
{
    const uint64_t total = UINT32_MAX;
    struct sluice_order_options options =
        options_of(65535, 65536, 65537, SLUICE_TAIL_PAD); /* G = 2^32 - 1 */
    CU_ASSERT_EQUAL(sluice_order_num_batches(&options, total, 0), 1);
    CU_ASSERT_EQUAL(sluice_order_num_items(&options, total, 0), 65535);
    CU_ASSERT_EQUAL(sluice_order_num_padded(&options, total, 0), 0);
    CU_ASSERT_EQUAL(sluice_order_cursor(&options, total, 0, 1), total);
    CU_ASSERT_EQUAL(sluice_order_num_items(&options, total - 1, 0), 65535);
    CU_ASSERT_EQUAL(sluice_order_num_padded(&options, total - 1, 0), 1);
    options = options_of(1, UINT32_MAX - 1, UINT32_MAX, SLUICE_TAIL_PAD);
    CU_ASSERT_EQUAL(sluice_order_num_padded(&options, 1, 0), 1);
    options = options_of(2, 0, 1, SLUICE_TAIL_PAD);
    CU_ASSERT_EQUAL(sluice_order_num_batches(&options, total, 0), 1u << 31);
}

TEST(refuses_options_and_names_the_flag)
{
    const struct {
        struct sluice_order_options options;
        const char *words;
    } cases[] = {
        {{1, 0, 0, SLUICE_TAIL_PAD}, "--world-size 0"},
        {{1, 3, 3, SLUICE_TAIL_PAD}, "--rank 3: ranks of --world-size 3 are 0 to 2"},
        {{0, 0, 1, SLUICE_TAIL_PAD}, "--batch-size 0"},
        {{65536, 0, 65536, SLUICE_TAIL_PAD}, "--world-size 65536 x --batch-size 65536"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        CHECK_FAILS(SLUICE_E_INVALID, cases[i].words,
                    sluice_order_check(&cases[i].options, sluice_test_err()));
    }
}

TEST(refuses_a_cursor_within_a_global_batch_or_beyond_the_end)
{
    const struct sluice_order_options options = options_of(2, 0, 3, SLUICE_TAIL_PAD);
    CHECK_FAILS(SLUICE_E_INVALID, "no multiple of 6, the global batch of 3 x 2",
                sluice_order_check_cursor(&options, 20, 7, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "it has 20",
                sluice_order_check_cursor(&options, 20, 24, sluice_test_err()));
    CHECK_OK(sluice_order_check_cursor(&options, 20, 18, NULL));
    CHECK_OK(sluice_order_check_cursor(&options, 20, 20, NULL));
}

/* An environment of names and values in turn. */
static const char *const *environment;

static char *get(const char *name)
{
    for (size_t i = 0; environment[i]; i += 2) {
        if (strcmp(environment[i], name) == 0)
            return (char *)environment[i + 1];
    }
    return NULL;
}

TEST(a_launcher_tells_rank_and_world_size)
{
    const struct {
        const char *environment[9];
        struct sluice_rank expected;
    } cases[] = {
        {{NULL}, {0, 1}},
        {{"HOME", "/", NULL}, {0, 1}},
        {{"RANK", "3", "WORLD_SIZE", "8", NULL}, {3, 8}},
        {{"SLURM_PROCID", "0", "SLURM_NTASKS", "2", NULL}, {0, 2}},
        {{"OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "4", NULL}, {1, 4}},
        /* The first pair counts, also before others that would be refused. */
        {{"SLURM_PROCID", "0", "SLURM_NTASKS", "2", "RANK", "5", "WORLD_SIZE", "6", NULL}, {5, 6}},
        {{"OMPI_COMM_WORLD_RANK", "9", "SLURM_PROCID", "1", "SLURM_NTASKS", "2", NULL}, {1, 2}},
        {{"RANK", "", "WORLD_SIZE", "", "SLURM_PROCID", "1", "SLURM_NTASKS", "2", NULL}, {1, 2}},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_rank rank = {77, 77};
        environment = cases[i].environment;
        CHECK_OK(sluice_rank_from_env(get, &rank, NULL));
        CU_ASSERT_EQUAL(rank.rank, cases[i].expected.rank);
        CU_ASSERT_EQUAL(rank.world_size, cases[i].expected.world_size);
    }
}

TEST(half_a_pair_or_no_number_is_refused_with_its_variables)
{
    const struct {
        const char *environment[5];
        const char *words;
    } cases[] = {
        {{"RANK", "3", NULL}, "RANK is set in the environment, and WORLD_SIZE is not"},
        {{"WORLD_SIZE", "3", "RANK", "", NULL}, "WORLD_SIZE is set in the environment, and RANK"},
        {{"SLURM_PROCID", "3", NULL}, "SLURM_PROCID is set in the environment, and SLURM_NTASKS"},
        {{"OMPI_COMM_WORLD_SIZE", "3", NULL}, "and OMPI_COMM_WORLD_RANK is not"},
        {{"RANK", "2", "WORLD_SIZE", "2", NULL}, "RANK=2 and WORLD_SIZE=2"},
        {{"RANK", "0", "WORLD_SIZE", "0", NULL}, "RANK=0 and WORLD_SIZE=0"},
        {{"RANK", "0", "WORLD_SIZE", "4294967296", NULL}, "WORLD_SIZE=4294967296"},
        {{"RANK", "-1", "WORLD_SIZE", "2", NULL}, "RANK of the environment: '-1'"},
        {{"RANK", "0", "WORLD_SIZE", "two", NULL}, "WORLD_SIZE of the environment: 'two'"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_rank rank = {77, 77};
        environment = cases[i].environment;
        CHECK_FAILS(SLUICE_E_INVALID, cases[i].words,
                    sluice_rank_from_env(get, &rank, sluice_test_err()));
        CU_ASSERT_EQUAL(rank.rank, 77);
    }
}
