#include "datasets/manifest/binary.h"

#include "manifest_rows.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sluice_manifest_writer *begin(const char *path, size_t num_entries)
{
    const struct sluice_manifest_writer_options options = {
        .path = path, .num_entries = num_entries, .num_classes = 3};
    struct sluice_manifest_writer *writer = NULL;
    REQUIRE_OK(sluice_manifest_writer_create(&options, &writer, NULL));
    return writer;
}

TEST(keeps_columns_that_were_asked_for_alone)
{
    struct sluice_manifest_writer *writer = begin(NULL, TEST_ROWS);
    struct sluice_manifest *manifest = NULL, *whole = test_manifest();
    for (size_t i = 0; i < TEST_ROWS; i++)
        CHECK_OK(sluice_manifest_writer_add(writer, &test_rows[i], NULL));
    const struct sluice_manifest_ending ending = {.classes = test_classes};
    REQUIRE_OK(sluice_manifest_writer_commit(writer, &ending, &manifest, NULL));
    CU_ASSERT_EQUAL(sluice_manifest_writer_count(writer), TEST_ROWS);
    const struct sluice_hash128 id = sluice_manifest_writer_id(writer),
                                want = sluice_manifest_id(whole);
    CU_ASSERT(id.high == want.high && id.low == want.low);
    sluice_manifest_writer_destroy(writer);
    for (size_t i = 0; i < TEST_ROWS; i++) {
        struct sluice_manifest_entry row = test_rows[i];
        row.offset = 0;
        row.mtime_ns = 0;
        row.has_hash = false;
        row.hash = (struct sluice_hash128){0, 0};
        const struct sluice_manifest_entry got = sluice_manifest_at(manifest, i);
        test_same_row(&got, &row);
    }
    CU_ASSERT(!sluice_manifest_has_members(manifest));
    CU_ASSERT_PTR_NULL(manifest->passed_text);
    sluice_manifest_destroy(manifest);
    sluice_manifest_destroy(whole);
}

static uint64_t list_hash_with(size_t row, const struct sluice_manifest_entry *other,
                               const char *const *classes)
{
    struct sluice_manifest_entry rows[TEST_ROWS];
    struct sluice_manifest *manifest = NULL;
    memcpy(rows, test_rows, sizeof(rows));
    if (other)
        rows[row] = *other;
    REQUIRE_OK(sluice_manifest_create(rows, TEST_ROWS, classes, 3, &manifest, NULL));
    const uint64_t hash = sluice_manifest_list_hash(manifest);
    sluice_manifest_destroy(manifest);
    return hash;
}

TEST(the_list_hash_covers_what_the_id_does_not)
{
    const char *const others[] = {"z", "a\tb", "other"};
    const uint64_t hash = list_hash_with(0, NULL, test_classes);
    struct sluice_manifest_entry row = test_rows[1];
    CU_ASSERT_NOT_EQUAL(hash, 0);
    CU_ASSERT_NOT_EQUAL(list_hash_with(0, NULL, others), hash);
    row.subset = SLUICE_SUBSET_TRAIN;
    CU_ASSERT_NOT_EQUAL(list_hash_with(1, &row, test_classes), hash);
    row = test_rows[1];
    row.height = 3;
    CU_ASSERT_NOT_EQUAL(list_hash_with(1, &row, test_classes), hash);
    row = test_rows[1];
    row.mtime_ns = 8; /* what no list says */
    row.has_hash = false;
    CU_ASSERT_EQUAL(list_hash_with(1, &row, test_classes), hash);
    struct sluice_manifest_writer *writer = begin(NULL, TEST_ROWS);
    for (size_t i = 0; i < TEST_ROWS; i++)
        CHECK_OK(sluice_manifest_writer_add(writer, &test_rows[i], NULL));
    CU_ASSERT_EQUAL(sluice_manifest_writer_list_hash(writer, test_classes), hash);
    sluice_manifest_writer_destroy(writer);
}

static void expect_refused(struct sluice_manifest_entry row, const char *text)
{
    struct sluice_manifest_writer *writer = begin(NULL, 2);
    CHECK_OK(sluice_manifest_writer_add(writer, &test_rows[0], NULL));
    CHECK_FAILS(SLUICE_E_INVALID, text,
                sluice_manifest_writer_add(writer, &row, sluice_test_err()));
    sluice_manifest_writer_destroy(writer);
}

TEST(refuses_rows_that_a_reader_would_refuse)
{
    static char long_path[SLUICE_MAX_PATH_BYTES + 1];
    memset(long_path, 'x', SLUICE_MAX_PATH_BYTES);
    expect_refused((struct sluice_manifest_entry){.path = ""}, "empty");
    expect_refused((struct sluice_manifest_entry){.path = long_path}, "too long");
    expect_refused((struct sluice_manifest_entry){.path = "b\xff"}, "UTF-8");
    expect_refused((struct sluice_manifest_entry){.path = "b", .label = 3}, "label 3 of 3");
    expect_refused((struct sluice_manifest_entry){.path = test_rows[0].path}, "out of order");
    expect_refused((struct sluice_manifest_entry){.path = "b", .bytes = UINT64_MAX}, "bytes");
    struct sluice_manifest_writer *writer = begin(NULL, 1);
    CHECK_OK(sluice_manifest_writer_add(writer, &test_rows[0], NULL));
    CU_ASSERT_EQUAL(sluice_manifest_writer_add(writer, &test_rows[1], NULL), SLUICE_E_INVALID);
    sluice_manifest_writer_destroy(writer);
}

TEST(targets_must_be_as_was_said)
{
    const float numbers[] = {1, 2};
    const struct sluice_manifest_writer_options options = {
        .num_entries = 2,
        .num_classes = 3,
        .fields = {1, {{{SLUICE_FIELD_VECTOR, 2}, SLUICE_TARGET_FIELD}}},
        .values_bytes = 12,
    };
    struct sluice_manifest_writer *writer = NULL;
    struct sluice_manifest_entry row = test_rows[0];
    REQUIRE_OK(sluice_manifest_writer_create(&options, &writer, NULL));
    CU_ASSERT_EQUAL(sluice_manifest_writer_add(writer, &row, NULL), SLUICE_E_INVALID);
    row.values = numbers;
    row.values_bytes = 4;
    CU_ASSERT_EQUAL(sluice_manifest_writer_add(writer, &row, NULL), SLUICE_E_INVALID);
    row.values_bytes = 8;
    CHECK_OK(sluice_manifest_writer_add(writer, &row, NULL));
    row.path = test_rows[1].path;
    CHECK_FAILS(SLUICE_E_INVALID, "more bytes of targets",
                sluice_manifest_writer_add(writer, &row, sluice_test_err()));
    sluice_manifest_writer_destroy(writer);
}

TEST(leaves_nothing_without_a_commit_and_needs_all_rows)
{
    struct sluice_manifest_writer *writer = begin(test_path("w.bin"), 2);
    const struct sluice_manifest_ending ending = {.classes = test_classes};
    CHECK_OK(sluice_manifest_writer_add(writer, &test_rows[0], NULL));
    CU_ASSERT_EQUAL(sluice_manifest_writer_commit(writer, &ending, NULL, NULL), SLUICE_E_INVALID);
    sluice_manifest_writer_destroy(writer);
    CU_ASSERT_EQUAL(rmdir(sluice_test_dir()), 0); /* it is empty */
    CU_ASSERT_EQUAL(access(sluice_test_dir(), F_OK), -1);
}

/* More than fits any buffer, and paths whose ends lie on all sides of a piece's. */
TEST(many_rows_come_back)
{
    const size_t n = 50000;
    struct sluice_manifest_writer *writer = begin(NULL, n);
    struct sluice_manifest *manifest = NULL;
    char path[300];
    for (size_t i = 0; i < n; i++) {
        snprintf(
            path, sizeof(path), "%06zu/%.*s", i, (int)(i % 97),
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
            "xxxxxxxxxxxxxxx");
        const struct sluice_manifest_entry row = {
            .path = path, .bytes = i * 3, .label = (uint32_t)(i % 3)};
        REQUIRE_OK(sluice_manifest_writer_add(writer, &row, NULL));
    }
    const struct sluice_manifest_ending ending = {.classes = test_classes};
    REQUIRE_OK(sluice_manifest_writer_commit(writer, &ending, &manifest, NULL));
    sluice_manifest_writer_destroy(writer);
    for (size_t i = 0; i < n; i++) {
        const struct sluice_manifest_entry row = sluice_manifest_at(manifest, i);
        CU_ASSERT_FATAL((size_t)atoi(row.path) == i && strlen(row.path) == 7 + i % 97);
        CU_ASSERT_FATAL(row.bytes == i * 3 && row.label == i % 3);
    }
    sluice_manifest_destroy(manifest);
}

TEST(names_the_file_beside_the_text)
{
    char path[SLUICE_MAX_PATH_BYTES];
    CHECK_OK(sluice_manifest_binary_path("a/x.tsv", path, NULL));
    CU_ASSERT_STRING_EQUAL(path, "a/x.bin");
    CHECK_OK(sluice_manifest_binary_path("a/list", path, NULL));
    CU_ASSERT_STRING_EQUAL(path, "a/list.bin");
}
