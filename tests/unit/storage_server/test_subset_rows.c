#include "storage_server/data/subset_rows.h"

#include "base/rng.h"
#include "support/test.h"

#define MAX 1000 /* as ListSamples asks for */

/* Whatever row is asked for, the answer is what a walk over all entries gives, and it costs no such
 * walk. */
static void check_rows(const struct sluice_manifest *manifest, enum sluice_rows_of subset,
                       struct sluice_rng *rng)
{
    struct sluice_subset_rows *rows = NULL;
    size_t *expected = calloc(manifest->num_entries + 1, sizeof(*expected));
    REQUIRE_OK(sluice_subset_rows_create(manifest, &rows, NULL));
    size_t count = 0;
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const bool is_val = sluice_manifest_at(manifest, i).subset == SLUICE_SUBSET_VAL;
        if (subset == SLUICE_ROWS_ALL || (subset == SLUICE_ROWS_VAL) == is_val)
            expected[count++] = i;
    }
    CU_ASSERT_EQUAL(sluice_subset_rows_count(rows, subset), count);
    const size_t firsts[] = {0,         1,     count / 2, sluice_rng_below(rng, count + 1),
                             count - 1, count, count + 1, SIZE_MAX};
    size_t got[MAX];
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(firsts); k++) {
        const size_t first = firsts[k], left = first < count ? count - first : 0;
        size_t visited = 0;
        const size_t n = sluice_subset_rows_get(rows, subset, first, MAX, got, &visited);
        CU_ASSERT_EQUAL_FATAL(n, left < MAX ? left : MAX);
        CU_ASSERT(visited <= 2 * MAX + 64);
        for (size_t i = 0; i < n; i++)
            CU_ASSERT_EQUAL(got[i], expected[first + i]);
    }
    sluice_subset_rows_destroy(rows);
    free(expected);
}

TEST(finds_rows_without_a_walk_over_the_others)
{
    enum { ENTRIES = 300000 };
    struct sluice_manifest manifest = {.num_entries = ENTRIES};
    manifest.rows = calloc(ENTRIES, sizeof(*manifest.rows));
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    /* One entry in so many belongs to val; 0: only the last 500; 1: all. */
    static const unsigned every[] = {0, 1, 2, 7, 5000, ENTRIES};
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(every); k++) {
        for (size_t i = 0; i < ENTRIES; i++)
            manifest.rows[i].subset =
                (every[k] ? sluice_rng_below(&rng, every[k]) == 0 : i >= ENTRIES - 500)
                    ? SLUICE_SUBSET_VAL
                    : SLUICE_SUBSET_TRAIN;
        for (int subset = SLUICE_ROWS_ALL; subset <= SLUICE_ROWS_VAL; subset++)
            check_rows(&manifest, (enum sluice_rows_of)subset, &rng);
    }
    free(manifest.rows);
}

TEST(an_empty_subset_has_no_rows)
{
    struct sluice_manifest_entry entry = {.path = "a.jpg"};
    const struct sluice_manifest manifest = {.rows = &entry, .num_entries = 1};
    struct sluice_subset_rows *rows = NULL;
    size_t got;
    REQUIRE_OK(sluice_subset_rows_create(&manifest, &rows, NULL));
    CU_ASSERT_EQUAL(sluice_subset_rows_count(rows, SLUICE_ROWS_VAL), 0);
    CU_ASSERT_EQUAL(sluice_subset_rows_get(rows, SLUICE_ROWS_VAL, 0, 1, &got, NULL), 0);
    CU_ASSERT_EQUAL(sluice_subset_rows_count(rows, SLUICE_ROWS_TRAIN), 1);
    sluice_subset_rows_destroy(rows);
    sluice_subset_rows_destroy(NULL);
}
