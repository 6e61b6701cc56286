#include "wire/list_block.h"

#include "support/test.h"
#include "wire_random.h"

#define MANY 40000

static char paths[MANY][48];
static struct sluice_list_row rows[MANY];

static void make_rows(void)
{
    for (size_t i = 0; i < MANY; i++) {
        snprintf(paths[i], sizeof(paths[i]), "train/n%05zu/%07zu.jpg", i / 100, i);
        rows[i] = (struct sluice_list_row){
            .path = paths[i],
            .bytes = random_u64(),
            .label = random_u32(),
            .width = random_u32(),
            .height = random_u32(),
            .coding = (uint8_t)random_u32(),
            .is_val = random_bool(),
        };
    }
}

struct taken {
    size_t from, count, fail_at;
};

static sluice_status take(void *ctx, const struct sluice_list_row *row, struct sluice_err *err)
{
    struct taken *taken = ctx;
    const struct sluice_list_row *want = &rows[taken->from + taken->count];
    CU_ASSERT_STRING_EQUAL(row->path, want->path);
    CU_ASSERT(row->bytes == want->bytes && row->label == want->label && row->width == want->width);
    CU_ASSERT(row->height == want->height && row->coding == want->coding);
    CU_ASSERT_EQUAL(row->is_val, want->is_val);
    if (++taken->count == taken->fail_at)
        return sluice_fail(err, SLUICE_E_AGAIN, "enough");
    return SLUICE_OK;
}

TEST(rows_come_back_block_by_block)
{
    size_t done = 0;
    while (done < MANY) {
        struct sluice_list_block block = {0};
        REQUIRE_OK(sluice_list_block_pack(&rows[done], MANY - done, &block, NULL));
        CU_ASSERT(block.num_rows > 0 && block.num_rows <= SLUICE_LIST_BLOCK_ROWS);
        CU_ASSERT(block.raw_bytes <=
                  SLUICE_LIST_BLOCK_BYTES + SLUICE_LIST_ROW_BYTES + SLUICE_LIST_PATH_BYTES);
        struct taken taken = {.from = done};
        CHECK_OK(sluice_list_block_unpack(&block, take, &taken, NULL));
        CU_ASSERT_EQUAL(taken.count, block.num_rows);
        done += block.num_rows;
        sluice_list_block_clear(&block);
        sluice_list_block_clear(&block);
    }
    CU_ASSERT_EQUAL(done, MANY);
}

TEST(long_paths_make_short_blocks)
{
    static char path[SLUICE_LIST_PATH_BYTES + 1];
    static struct sluice_list_row longs[3000];
    static char texts[3000][SLUICE_LIST_PATH_BYTES];
    for (size_t i = 0; i < 3000; i++) {
        snprintf(texts[i], 8, "%05zu/", i);
        memset(texts[i] + 6, 'x', SLUICE_LIST_PATH_BYTES - 7);
        longs[i].path = texts[i];
    }
    struct sluice_list_block block = {0};
    REQUIRE_OK(sluice_list_block_pack(longs, 3000, &block, NULL));
    CU_ASSERT(block.num_rows < 300 && block.num_rows > 200);
    sluice_list_block_clear(&block);
    memset(path, 'x', SLUICE_LIST_PATH_BYTES);
    const struct sluice_list_row row = {.path = path};
    CU_ASSERT_EQUAL(sluice_list_block_pack(&row, 1, &block, NULL), SLUICE_E_INVALID);
}

TEST(what_take_returns_ends_it)
{
    struct sluice_list_block block = {0};
    struct sluice_err err = {0};
    struct taken taken = {.fail_at = 7};
    REQUIRE_OK(sluice_list_block_pack(rows, 100, &block, NULL));
    CU_ASSERT_EQUAL(sluice_list_block_unpack(&block, take, &taken, &err), SLUICE_E_AGAIN);
    CU_ASSERT_EQUAL(taken.count, 7);
    CU_ASSERT_STRING_EQUAL(err.text, "enough");
    sluice_list_block_clear(&block);
}

static sluice_status ignore(void *ctx, const struct sluice_list_row *row, struct sluice_err *err)
{
    (void)ctx;
    (void)row;
    (void)err;
    return SLUICE_OK;
}

/* Targets of rows i: of i % 40 bytes that differ. */
static void give_targets(struct sluice_list_row *with, size_t num)
{
    static char bytes[64];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 37);
    for (size_t i = 0; i < num; i++) {
        with[i] = rows[i];
        with[i].target = bytes + i % 17;
        with[i].target_bytes = (uint32_t)(i % 40);
    }
}

static sluice_status take_target(void *ctx, const struct sluice_list_row *row,
                                 struct sluice_err *err)
{
    const struct sluice_list_row **want = ctx;
    (void)err;
    CU_ASSERT_STRING_EQUAL(row->path, (*want)->path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(row->target);
    CU_ASSERT_EQUAL_FATAL(row->target_bytes, (*want)->target_bytes);
    CU_ASSERT(memcmp(row->target, (*want)->target, row->target_bytes) == 0);
    ++*want;
    return SLUICE_OK;
}

TEST(targets_come_back)
{
    static struct sluice_list_row with[500];
    struct sluice_list_block block = {0};
    give_targets(with, 500);
    const struct sluice_list_row *want = with;
    REQUIRE_OK(sluice_list_block_pack(with, 500, &block, NULL));
    CU_ASSERT(block.has_targets && block.num_rows == 500);
    CHECK_OK(sluice_list_block_unpack(&block, take_target, &want, NULL));
    CU_ASSERT_EQUAL(want - with, 500);
    block.has_targets = false;
    CU_ASSERT_EQUAL(sluice_list_block_unpack(&block, ignore, NULL, NULL), SLUICE_E_CORRUPT);
    sluice_list_block_clear(&block);
    REQUIRE_OK(sluice_list_block_pack(rows, 500, &block, NULL));
    CU_ASSERT(!block.has_targets);
    block.has_targets = true;
    CU_ASSERT_EQUAL(sluice_list_block_unpack(&block, ignore, NULL, NULL), SLUICE_E_CORRUPT);
    sluice_list_block_clear(&block);
}

TEST(large_targets_make_short_blocks)
{
    static char most[SLUICE_LIST_TARGET_BYTES];
    static struct sluice_list_row with[100];
    struct sluice_list_block block = {0};
    give_targets(with, 100);
    for (size_t i = 0; i < sizeof(most); i++)
        most[i] = (char)random_u32();
    with[3].target = most;
    with[3].target_bytes = sizeof(most);
    const struct sluice_list_row *want = with;
    REQUIRE_OK(sluice_list_block_pack(with, 100, &block, NULL));
    CU_ASSERT_EQUAL(block.num_rows, 4);
    CHECK_OK(sluice_list_block_unpack(&block, take_target, &want, NULL));
    sluice_list_block_clear(&block);
    with[3].target_bytes++;
    CU_ASSERT_EQUAL(sluice_list_block_pack(with, 100, &block, NULL), SLUICE_E_INVALID);
}

TEST(counts_beyond_the_bounds_are_corrupt)
{
    struct sluice_list_block block = {0};
    REQUIRE_OK(sluice_list_block_pack(rows, 100, &block, NULL));
    const struct sluice_list_block good = block;
    const uint32_t counts[] = {0, 99, 101, SLUICE_LIST_BLOCK_ROWS + 1, UINT32_MAX};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(counts); i++) {
        block.num_rows = counts[i];
        CU_ASSERT_EQUAL(sluice_list_block_unpack(&block, ignore, NULL, NULL), SLUICE_E_CORRUPT);
    }
    block = good;
    const uint32_t sizes[] = {0, good.raw_bytes - 1, good.raw_bytes + 1, UINT32_MAX};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
        block.raw_bytes = sizes[i];
        CU_ASSERT_EQUAL(sluice_list_block_unpack(&block, ignore, NULL, NULL), SLUICE_E_CORRUPT);
    }
    block = good;
    block.len--;
    CU_ASSERT_EQUAL(sluice_list_block_unpack(&block, ignore, NULL, NULL), SLUICE_E_CORRUPT);
    block = good;
    sluice_list_block_clear(&block);
}

int main(void)
{
    make_rows();
    return sluice_test_main();
}
