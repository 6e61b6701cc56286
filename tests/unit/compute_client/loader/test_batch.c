#include "compute_client/loader/batch/batch.h"

#include "base/hash.h"
#include "support/test.h"

enum { CAPACITY = 8, NUM_VIEWS = 2, ROW = 9 };

/* A row has two views, of 3 and 6 bytes. */
static const struct sluice_row_layout layout = {
    .num_views = NUM_VIEWS, .bytes = ROW, .views = {{1, 1, 0, 3}, {1, 2, 3, 6}}};

/* Whether the row holds `value` everywhere. */
static bool row_is(const uint8_t *memory, unsigned row, char value)
{
    for (unsigned view = 0; view < NUM_VIEWS; view++) {
        const uint8_t *at = memory + sluice_row_place(&layout, CAPACITY, row, view);
        for (size_t k = 0; k < layout.views[view].bytes; k++) {
            if (at[k] != (uint8_t)value)
                return false;
        }
    }
    return true;
}

/* A batch whose row i holds rows[i] everywhere; '-' in `rows` is a bad one. */
static void make(struct sluice_rows *batch, uint8_t *memory, const char *rows)
{
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_rows_init(batch, CAPACITY, &layout, memory, &err));
    REQUIRE_OK(sluice_rows_add_geometry(batch, 2, &err));
    batch->n = (unsigned)strlen(rows);
    for (unsigned i = 0; i < batch->n; i++) {
        for (unsigned v = 0; v < layout.num_views; v++)
            memset(memory + sluice_row_place(&layout, CAPACITY, i, v), rows[i],
                   layout.views[v].bytes);
        batch->labels[i] = (uint32_t)rows[i];
        batch->ids[i] = 1000 + (uint32_t)rows[i];
        batch->draw_epochs[i] = 2000 + (uint32_t)rows[i];
        batch->hashes[i].low = (uint64_t)rows[i];
        for (unsigned v = 0; v < 2; v++)
            batch->geometry[v * 8 + i].matrix[0] = v * 1000 + rows[i];
        batch->status[i] = rows[i] == '-' ? SLUICE_E_CORRUPT : SLUICE_OK;
    }
}

static void check(enum sluice_on_error on_error, const char *rows, const char *want)
{
    uint8_t memory[CAPACITY * ROW];
    struct sluice_rows batch = {0};
    make(&batch, memory, rows);
    sluice_rows_settle(&batch, on_error);
    CU_ASSERT_EQUAL_FATAL(batch.n, strlen(want));
    for (unsigned i = 0; i < batch.n; i++) {
        CU_ASSERT(row_is(memory, i, want[i]));
        CU_ASSERT_EQUAL(batch.labels[i], (uint32_t)want[i]);
        CU_ASSERT_EQUAL(batch.ids[i], 1000 + (uint32_t)want[i]);
        CU_ASSERT_EQUAL(batch.draw_epochs[i], 2000 + (uint32_t)want[i]);
        CU_ASSERT_EQUAL(batch.hashes[i].low, (uint64_t)want[i]);
        for (unsigned v = 0; v < 2; v++)
            CU_ASSERT_EQUAL(batch.geometry[v * 8 + i].matrix[0], v * 1000 + want[i]);
        CHECK_OK(batch.status[i]);
    }
    sluice_rows_clear(&batch);
    sluice_rows_clear(&batch);
}

TEST(skip_leaves_bad_rows_out_and_keeps_the_order)
{
    check(SLUICE_ON_ERROR_SKIP, "abcd", "abcd");
    check(SLUICE_ON_ERROR_SKIP, "-bcd", "bcd");
    check(SLUICE_ON_ERROR_SKIP, "a--d", "ad");
    check(SLUICE_ON_ERROR_SKIP, "a-c-e--h", "aceh");
    check(SLUICE_ON_ERROR_SKIP, "abc-", "abc");
}

TEST(substitute_takes_the_good_row_before_or_the_first_after)
{
    check(SLUICE_ON_ERROR_SUBSTITUTE, "abcd", "abcd");
    check(SLUICE_ON_ERROR_SUBSTITUTE, "a--d-", "aaadd");
    check(SLUICE_ON_ERROR_SUBSTITUTE, "--cd-f", "cccddf");
    check(SLUICE_ON_ERROR_SUBSTITUTE, "---d", "dddd");
}

static unsigned padded_after(enum sluice_on_error on_error, const char *rows, unsigned num_padded)
{
    uint8_t memory[CAPACITY * ROW];
    struct sluice_rows batch = {0};
    make(&batch, memory, rows);
    batch.num_padded = num_padded;
    sluice_rows_settle(&batch, on_error);
    const unsigned after = batch.num_padded;
    sluice_rows_clear(&batch);
    return after;
}

TEST(padded_rows_that_are_left_out_do_not_count)
{
    CU_ASSERT_EQUAL(padded_after(SLUICE_ON_ERROR_SKIP, "abcd", 2), 2);
    CU_ASSERT_EQUAL(padded_after(SLUICE_ON_ERROR_SKIP, "abc-", 2), 1);
    CU_ASSERT_EQUAL(padded_after(SLUICE_ON_ERROR_SKIP, "ab--", 2), 0);
    CU_ASSERT_EQUAL(padded_after(SLUICE_ON_ERROR_SKIP, "-bcd", 2), 2);
    CU_ASSERT_EQUAL(padded_after(SLUICE_ON_ERROR_SKIP, "--cd", 2), 2);
    CU_ASSERT_EQUAL(padded_after(SLUICE_ON_ERROR_SKIP, "a-c-", 4), 2);
    CU_ASSERT_EQUAL(padded_after(SLUICE_ON_ERROR_SKIP, "----", 1), 0);
    CU_ASSERT_EQUAL(padded_after(SLUICE_ON_ERROR_SUBSTITUTE, "abc-", 2), 2);
    CU_ASSERT_EQUAL(padded_after(SLUICE_ON_ERROR_SUBSTITUTE, "-b--", 3), 3);
    CU_ASSERT_EQUAL(padded_after(SLUICE_ON_ERROR_SUBSTITUTE, "----", 3), 0);
}

TEST(a_batch_without_a_good_row_is_empty)
{
    check(SLUICE_ON_ERROR_SKIP, "--", "");
    check(SLUICE_ON_ERROR_SUBSTITUTE, "---", "");
}

/* Their pixels stay, and rows point to them. */
TEST(images_of_their_own_sizes_are_settled_without_a_copy)
{
    static const enum sluice_on_error policies[] = {SLUICE_ON_ERROR_SKIP,
                                                    SLUICE_ON_ERROR_SUBSTITUTE};
    static const char rows[] = "a-c-d", *const want[] = {"acd", "aaccd"};
    for (size_t p = 0; p < SLUICE_ARRAY_LEN(policies); p++) {
        uint8_t memory[CAPACITY * ROW], before[CAPACITY * ROW];
        struct sluice_rows batch = {0};
        make(&batch, memory, rows);
        memcpy(before, memory, sizeof(before));
        batch.has_images = true;
        for (unsigned i = 0; i < batch.n; i++)
            batch.images[i] = (struct sluice_row_image){.at = 100 + i, .height = i, .width = 1};
        sluice_rows_settle(&batch, policies[p]);
        CU_ASSERT_EQUAL_FATAL(batch.n, strlen(want[p]));
        for (unsigned i = 0; i < batch.n; i++) {
            CU_ASSERT_EQUAL(batch.labels[i], (uint32_t)want[p][i]);
            const unsigned from = (unsigned)(strchr(rows, want[p][i]) - rows);
            CU_ASSERT_EQUAL(batch.images[i].at, 100 + from);
            CU_ASSERT_EQUAL(batch.images[i].height, from);
        }
        CU_ASSERT_EQUAL(memcmp(before, memory, sizeof(before)), 0);
        sluice_rows_clear(&batch);
    }
}
