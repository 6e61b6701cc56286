#ifndef SLUICE_TESTS_MANIFEST_ROWS_H
#define SLUICE_TESTS_MANIFEST_ROWS_H

#include "datasets/manifest/binary.h"
#include "datasets/manifest/builder.h"
#include "image/codecs/coding.h"
#include "support/test.h"

/* Rows for the tests of binary manifests, each with another set of fields. */

#define TEST_ROWS 3

static const char *const test_classes[] = {"z", "a\tb", "c\\d\ne"};

static const struct sluice_manifest_entry test_rows[TEST_ROWS] = {
    {.path = "a\tb/x y.jpg",
     .bytes = 1ull << 40,
     .mtime_ns = 1700000000123456789,
     .label = 1,
     .width = 640,
     .height = 480,
     .coding = SLUICE_CODING_JPEG_420 | SLUICE_CODING_PROGRESSIVE},
    {.path = "c\\d\ne/\xc3\xa4.png",
     .mtime_ns = -5,
     .label = 2,
     .subset = SLUICE_SUBSET_VAL,
     .has_hash = true,
     .hash = {.high = 0x0123456789abcdef, .low = 0xfedcba9876543210}},
    {.path = "x.tar/a.jpg", .offset = 512, .bytes = 9},
};

static inline const char *test_path(const char *name)
{
    static char paths[4][1024];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", sluice_test_dir(), name);
    return path;
}

static inline struct sluice_manifest *test_manifest(void)
{
    struct sluice_manifest *manifest = NULL;
    REQUIRE_OK(sluice_manifest_create(test_rows, TEST_ROWS, test_classes, 3, &manifest, NULL));
    return manifest;
}

static inline void test_same_row(const struct sluice_manifest_entry *got,
                                 const struct sluice_manifest_entry *want)
{
    CU_ASSERT_STRING_EQUAL(got->path, want->path);
    CU_ASSERT_EQUAL(got->offset, want->offset);
    CU_ASSERT_EQUAL(got->bytes, want->bytes);
    CU_ASSERT_EQUAL(got->mtime_ns, want->mtime_ns);
    CU_ASSERT_EQUAL(got->label, want->label);
    CU_ASSERT_EQUAL(got->subset, want->subset);
    CU_ASSERT_EQUAL(got->has_hash, want->has_hash);
    CU_ASSERT_EQUAL(got->hash.high, want->hash.high);
    CU_ASSERT_EQUAL(got->hash.low, want->hash.low);
    CU_ASSERT_EQUAL(got->width, want->width);
    CU_ASSERT_EQUAL(got->height, want->height);
    CU_ASSERT_EQUAL(got->coding, want->coding);
    CU_ASSERT_EQUAL_FATAL(got->values_bytes, want->values_bytes);
    CU_ASSERT(
        sluice_field_is_same(got->values, got->values_bytes, want->values, want->values_bytes));
}

/* The same rows with targets. */
static inline struct sluice_manifest *test_manifest_with(struct sluice_field_type type,
                                                         const void *const targets[TEST_ROWS],
                                                         const size_t bytes[TEST_ROWS])
{
    struct sluice_manifest_builder builder = {.manifest = test_manifest()};
    builder.manifest->fields =
        (struct sluice_fields){.num = 1, .of = {{type, SLUICE_TARGET_FIELD}}};
    for (size_t i = 0; i < TEST_ROWS; i++)
        REQUIRE_OK(sluice_manifest_set_field(&builder, i, 0, targets[i], bytes[i], NULL));
    return builder.manifest;
}

static inline struct sluice_manifest *test_manifest_of_vectors(void)
{
    static const float numbers[TEST_ROWS][2] = {{0.1f, -0.0f}, {1e-45f, 3e38f}, {1, 2}};
    return test_manifest_with((struct sluice_field_type){SLUICE_FIELD_VECTOR, 2},
                              (const void *const[]){numbers[0], numbers[1], numbers[2]},
                              (const size_t[]){8, 8, 8});
}

static inline struct sluice_manifest *test_manifest_of_bytes(bool are_empty)
{
    static char most[SLUICE_MAX_FIELD_BYTES];
    memset(most, 0xe4, sizeof(most));
    return test_manifest_with((struct sluice_field_type){SLUICE_FIELD_BYTES, 0},
                              (const void *const[]){"a\tcat\0\\", "", most},
                              are_empty ? (const size_t[]){0, 0, 0}
                                        : (const size_t[]){7, 0, SLUICE_MAX_FIELD_BYTES});
}

/* The same rows with several fields. */
static inline struct sluice_manifest *test_manifest_of_fields(void)
{
    static const char *const captions[TEST_ROWS] = {"a\tcat", "", "\xe2\x82\xac"};
    static const float boxes[TEST_ROWS][5] = {{1, 2, 3, 4, 0}, {0}, {5, 6, 7, 8.5f, 0}};
    static const float numbers[TEST_ROWS][2] = {{0.1f, -0.0f}, {1e-45f, 3e38f}, {1, 2}};
    struct sluice_manifest_builder builder = {.manifest = test_manifest()};
    builder.manifest->fields = (struct sluice_fields){.num = 3,
                                                      .of = {{{SLUICE_FIELD_TEXT, 0}, "caption"},
                                                             {{SLUICE_FIELD_BOXES, 0}, "boxes"},
                                                             {{SLUICE_FIELD_VECTOR, 2}, "a b"}}};
    for (size_t i = 0; i < TEST_ROWS; i++) {
        REQUIRE_OK(sluice_manifest_set_field(&builder, i, 2, numbers[i], 8, NULL));
        REQUIRE_OK(
            sluice_manifest_set_field(&builder, i, 0, captions[i], strlen(captions[i]), NULL));
        REQUIRE_OK(sluice_manifest_set_field(&builder, i, 1, boxes[i], i == 1 ? 0 : 20, NULL));
    }
    REQUIRE_OK(sluice_manifest_finish_fields(&builder, NULL));
    return builder.manifest;
}

#endif
