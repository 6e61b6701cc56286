#include "datasets/manifest_binary.h"

#include "datasets/manifest_binary_format.h"
#include "manifest_rows.h"
#include "support/capture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_both(const char *name)
{
    struct sluice_manifest *manifest = test_manifest();
    CU_ASSERT_EQUAL_FATAL(sluice_manifest_write(manifest, test_path(name), NULL), SLUICE_OK);
    CU_ASSERT_EQUAL_FATAL(sluice_manifest_write_binary(manifest, test_path(name), NULL), SLUICE_OK);
    sluice_manifest_destroy(manifest);
}

static void maps_what_was_written(void)
{
    write_both("m.tsv");
    struct sluice_manifest *manifest = test_manifest(), *read = NULL;
    CU_ASSERT_EQUAL_FATAL(sluice_manifest_read(test_path("m.tsv"), &read, NULL), SLUICE_OK);
    CU_ASSERT_PTR_NOT_NULL(read->map);
    CU_ASSERT_EQUAL_FATAL(read->num_entries, TEST_ROWS);
    CU_ASSERT_EQUAL_FATAL(read->num_classes, 3);
    for (size_t i = 0; i < 3; i++)
        CU_ASSERT_STRING_EQUAL(read->classes[i], test_classes[i]);
    for (size_t i = 0; i < TEST_ROWS; i++) {
        const struct sluice_manifest_entry got = sluice_manifest_at(read, i);
        test_same_row(&got, &test_rows[i]);
    }
    const struct sluice_hash128 a = sluice_manifest_id(manifest), b = sluice_manifest_id(read);
    CU_ASSERT(a.high == b.high && a.low == b.low);
    CU_ASSERT(sluice_manifest_has_members(read));
    CU_ASSERT(sluice_manifest_memory(read) < sluice_manifest_memory(manifest));
    sluice_manifest_destroy(manifest);
    sluice_manifest_destroy(read);
}

/* What a read of the text beside it made of it: the log. */
static void expect_text(const char *name, const char *warning)
{
    struct sluice_manifest *read = NULL;
    struct sluice_test_output output;
    sluice_test_capture_begin();
    const sluice_status status = sluice_manifest_read(test_path(name), &read, NULL);
    sluice_test_capture_end(&output);
    CU_ASSERT_EQUAL_FATAL(status, SLUICE_OK);
    CU_ASSERT_PTR_NULL(read->map);
    CU_ASSERT_EQUAL(read->num_entries, TEST_ROWS);
    if (warning)
        CU_ASSERT_PTR_NOT_NULL(strstr(output.err, warning));
    if (!warning)
        CU_ASSERT_STRING_EQUAL(output.err, "");
    sluice_manifest_destroy(read);
}

static void every_damaged_byte_is_found_and_the_text_is_read(void)
{
    write_both("d.tsv");
    size_t len;
    uint8_t *bytes = sluice_test_read_file(test_path("d.bin"), &len);
    CU_ASSERT_FATAL(len > sizeof(struct sluice_binary_header));
    const struct sluice_manifest_expected any = {0};
    size_t num_taken = 0;
    for (size_t i = 0; i < len; i++) {
        struct sluice_manifest *read = NULL;
        bytes[i] ^= 0x10;
        sluice_test_write_file(test_path("d.bin"), bytes, len);
        bytes[i] ^= 0x10;
        if (sluice_manifest_map(test_path("d.bin"), &any, &read, NULL) == SLUICE_OK)
            num_taken++; /* padding between sections, which nobody reads */
        sluice_manifest_destroy(read);
    }
    CU_ASSERT(num_taken < 7 * SLUICE_BINARY_SECTIONS);
    bytes[sizeof(struct sluice_binary_header)] ^= 1;
    sluice_test_write_file(test_path("d.bin"), bytes, len);
    expect_text("d.tsv", "damaged");
    free(bytes);
}

static void a_cut_file_is_corrupt(void)
{
    write_both("c.tsv");
    size_t len;
    uint8_t *bytes = sluice_test_read_file(test_path("c.bin"), &len);
    const struct sluice_manifest_expected any = {0};
    for (size_t cut = 0; cut < len; cut++) {
        struct sluice_manifest *read = NULL;
        sluice_test_write_file(test_path("c.bin"), bytes, cut);
        CU_ASSERT_EQUAL_FATAL(sluice_manifest_map(test_path("c.bin"), &any, &read, NULL),
                              SLUICE_E_CORRUPT);
    }
    free(bytes);
    expect_text("c.tsv", "damaged");
}

static void belongs_to_the_text_beside_it_alone(void)
{
    write_both("t.tsv");
    struct sluice_manifest *manifest = test_manifest();
    manifest->rows[0].bytes = 7;
    CU_ASSERT_EQUAL_FATAL(sluice_manifest_write(manifest, test_path("t.tsv"), NULL), SLUICE_OK);
    sluice_manifest_destroy(manifest);
    expect_text("t.tsv", "made of another list");
    CU_ASSERT_EQUAL(unlink(test_path("t.bin")), 0);
    expect_text("t.tsv", NULL);
}

static void another_dataset_or_version_is_told_from_damage(void)
{
    write_both("v.tsv");
    struct sluice_manifest *read = NULL;
    const struct sluice_hash128 other = {1, 2};
    const struct sluice_manifest_expected expected = {.id = &other}, any = {0};
    CU_ASSERT_EQUAL(sluice_manifest_map(test_path("v.bin"), &expected, &read, NULL),
                    SLUICE_E_STALE);
    CU_ASSERT_EQUAL(sluice_manifest_map(test_path("nothing.bin"), &any, &read, NULL),
                    SLUICE_E_NOT_FOUND);
    size_t len;
    uint8_t *bytes = sluice_test_read_file(test_path("v.bin"), &len);
    bytes[8]++;
    sluice_test_write_file(test_path("v.bin"), bytes, len);
    CU_ASSERT_EQUAL(sluice_manifest_map(test_path("v.bin"), &any, &read, NULL),
                    SLUICE_E_UNSUPPORTED);
    free(bytes);
    CU_ASSERT_PTR_NULL(read);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        {"maps_what_was_written", maps_what_was_written},
        {"every_damaged_byte_is_found_and_the_text_is_read",
         every_damaged_byte_is_found_and_the_text_is_read},
        {"a_cut_file_is_corrupt", a_cut_file_is_corrupt},
        {"belongs_to_the_text_beside_it_alone", belongs_to_the_text_beside_it_alone},
        {"another_dataset_or_version_is_told_from_damage",
         another_dataset_or_version_is_told_from_damage},
    };
    return sluice_test_run("manifest_map", tests, SLUICE_TEST_COUNT(tests));
}
