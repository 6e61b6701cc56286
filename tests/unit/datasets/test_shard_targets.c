#include "datasets/shards/shard_targets.h"

#include "datasets/shards/tar.h"
#include "support/test.h"

/* A tar of members, all with the given content. */
struct member {
    const char *name, *content;
};

static void write_tar(const char *name, const struct member *members, size_t num, size_t cut)
{
    static uint8_t bytes[1 << 16];
    char path[1024];
    size_t len = 0;
    memset(bytes, 0, sizeof(bytes));
    for (size_t i = 0; i < num; i++) {
        const size_t size = strlen(members[i].content);
        len += sluice_tar_header(members[i].name, size, bytes + len);
        memcpy(bytes + len, members[i].content, size);
        len += size + sluice_tar_padding(size);
    }
    snprintf(path, sizeof(path), "%s/%s", sluice_test_dir(), name);
    sluice_test_write_file(path, bytes, cut ? cut : len + 1024);
}

static struct sluice_manifest_builder rows(const char *const *paths, size_t num)
{
    struct sluice_manifest_builder builder;
    const struct sluice_manifest_entry row = {.offset = 512};
    REQUIRE_OK(sluice_manifest_builder_init(&builder, NULL));
    for (size_t i = 0; i < num; i++)
        REQUIRE_OK(sluice_manifest_add_entry(&builder, &row, paths[i], strlen(paths[i]), NULL));
    return builder;
}

static const struct member members[] = {
    {"./a/1.txt", "first"},
    {"./a/1.jpg", ""},
    {"a/1.txt", "one\n"},
    {"a/1.big.jpg", ""},
    {"10.jpg", ""},
    {"10.TXT", ""},
    {"2.jpg", ""},
    {"2.txt", "two \xff"},
    {"other.txt", "no image"},
    {"2.json", "{}"},
    {"a/1.caption.txt", "long"},
};
static const char *const paths[] = {"x.tar/10.jpg", "x.tar/2.jpg", "x.tar/a/1.big.jpg",
                                    "x.tar/a/1.jpg"};

TEST(images_of_a_key_have_its_member_the_later_one)
{
    struct sluice_manifest_builder builder = rows(paths, 4);
    const struct sluice_manifest *manifest = builder.manifest;
    const char *const want[] = {"", "two \xff", "one\n", "one\n"};
    write_tar("x.tar", members, SLUICE_ARRAY_LEN(members), 0);
    REQUIRE_OK(sluice_shard_targets_read(sluice_test_dir(),
                                         (struct sluice_target_column){".txt", 0}, &builder, NULL));
    CU_ASSERT_EQUAL(manifest->target_type.kind, SLUICE_TARGETS_BYTES);
    for (size_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL_FATAL(manifest->rows[i].target_bytes, strlen(want[i]));
        CU_ASSERT(memcmp(manifest->rows[i].target, want[i], strlen(want[i])) == 0);
    }
    sluice_manifest_destroy(builder.manifest);
}

static void expect_error(const char *const *of, size_t num, struct sluice_target_column column,
                         const char *says)
{
    struct sluice_manifest_builder builder = rows(of, num);
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_shard_targets_read(sluice_test_dir(), column, &builder, &err),
                    SLUICE_E_INVALID);
    if (!strstr(err.text, says))
        printf("%s\n", err.text);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, says));
    sluice_manifest_destroy(builder.manifest);
}

TEST(an_image_without_one_is_named)
{
    write_tar("x.tar", members, SLUICE_ARRAY_LEN(members), 0);
    expect_error(paths, 4, (struct sluice_target_column){".json", 0},
                 "3 of 4 images have no .json of their key in their tar (x.tar/10.jpg, ...)");
    const char *const file[] = {"a/1.jpg"};
    struct sluice_manifest_builder builder = rows(file, 1);
    builder.manifest->rows[0].offset = 0;
    CU_ASSERT_EQUAL(sluice_shard_targets_read(sluice_test_dir(),
                                              (struct sluice_target_column){".txt", 0}, &builder,
                                              NULL),
                    SLUICE_E_INVALID);
    sluice_manifest_destroy(builder.manifest);
    /* What is behind damage is not there. */
    write_tar("x.tar", members, SLUICE_ARRAY_LEN(members), 512 * 9);
    expect_error(paths, 4, (struct sluice_target_column){".txt", 0}, "(x.tar/2.jpg)");
}

TEST(vectors_are_read_where_they_are_asked_for)
{
    static const struct member numbers[] = {
        {"1.jpg", ""}, {"1.txt", "0.5 -1\n"}, {"2.jpg", ""}, {"2.txt", "[1, 2]"}};
    const char *const of[] = {"v.tar/1.jpg", "v.tar/2.jpg"};
    struct sluice_manifest_builder builder = rows(of, 2);
    write_tar("v.tar", numbers, 4, 0);
    const struct sluice_target_column column = {".txt", SLUICE_TARGETS_VECTOR};
    REQUIRE_OK(sluice_shard_targets_read(sluice_test_dir(), column, &builder, NULL));
    CU_ASSERT_EQUAL(builder.manifest->target_type.dim, 2);
    CU_ASSERT(
        sluice_target_is_same(builder.manifest->rows[0].target, 8, (const float[]){0.5f, -1}, 8));
    sluice_manifest_destroy(builder.manifest);
    write_tar("x.tar", members, SLUICE_ARRAY_LEN(members), 0);
    expect_error(paths, 4, column, "x.tar/a/1.txt is no number");
}
