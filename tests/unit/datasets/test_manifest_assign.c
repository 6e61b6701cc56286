#include "datasets/manifest/assign.h"

#include "datasets/shards/shard_list.h"
#include "support/test.h"

static struct sluice_manifest_builder builder;
static struct sluice_layout_folders folders;
static struct sluice_passed_over passed;
static struct sluice_manifest_options options;

struct image {
    const char *path;
    uint64_t offset;
    uint32_t label;
};

static sluice_status assign(const struct image *images, size_t num, size_t num_labelled,
                            struct sluice_err *err)
{
    sluice_manifest_destroy(builder.manifest);
    sluice_layout_folders_clear(&folders);
    REQUIRE_OK(sluice_manifest_builder_init(&builder, NULL));
    REQUIRE_OK(sluice_field_sources_name(&options.fields, &builder.manifest->fields, NULL));
    for (size_t i = 0; i < num; i++) {
        const struct sluice_manifest_entry row = {.offset = images[i].offset,
                                                  .label = images[i].label};
        REQUIRE_OK(sluice_manifest_add_entry(&builder, &row, images[i].path, strlen(images[i].path),
                                             NULL));
    }
    const struct sluice_manifest_parts parts = {
        .builder = &builder,
        .root = "root",
        .options = &options,
        .folders = &folders,
        .passed = &passed,
        .num_labelled = num_labelled,
    };
    return sluice_manifest_assign(&parts, NULL, err);
}

static void expect(size_t i, const char *path, uint32_t label, enum sluice_subset subset)
{
    CU_ASSERT_FATAL(i < builder.manifest->num_entries);
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(builder.manifest, i).path, path);
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, i).label, label);
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, i).subset, subset);
}

TEST(folders_in_shards_are_classes_and_entries_are_in_order)
{
    static const struct image images[] = {
        {"val/y.tar/bee/1.jpg", 512, SLUICE_NO_LABEL},
        {"train/x.tar/bee/2.jpg", 512, SLUICE_NO_LABEL},
        {"train/x.tar/ape/1.jpg", 1024, SLUICE_NO_LABEL},
    };
    options = (struct sluice_manifest_options){0};
    REQUIRE_OK(assign(images, 3, 0, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_classes, 2);
    CU_ASSERT_STRING_EQUAL(builder.manifest->classes[0], "ape");
    expect(0, "train/x.tar/ape/1.jpg", 0, SLUICE_SUBSET_TRAIN);
    expect(1, "train/x.tar/bee/2.jpg", 1, SLUICE_SUBSET_TRAIN);
    expect(2, "val/y.tar/bee/1.jpg", 1, SLUICE_SUBSET_VAL);
}

TEST(labels_of_shards_are_of_all_or_an_error)
{
    static const struct image images[] = {{"x.tar/2.jpg", 512, 3}, {"x.tar/1.jpg", 1024, 0}};
    static const struct image mixed[] = {{"x.tar/2.jpg", 512, 3}, {"1.jpg", 0, SLUICE_NO_LABEL}};
    options = (struct sluice_manifest_options){0};
    REQUIRE_OK(assign(images, 2, 2, NULL));
    CU_ASSERT_EQUAL(builder.manifest->num_classes, 4);
    expect(1, "x.tar/2.jpg", 3, SLUICE_SUBSET_TRAIN);
    CHECK_FAILS(SLUICE_E_INVALID, "1 of 2 images have no label, as others have",
                assign(mixed, 2, 1, sluice_test_err()));
}

TEST(lists_come_before_folders_and_shards)
{
    static const struct image images[] = {{"train/a/1.jpg", 0, SLUICE_NO_LABEL},
                                          {"val/a/2.jpg", 0, SLUICE_NO_LABEL},
                                          {"val/a/3.jpg", 0, 0}};
    sluice_test_put_text(sluice_test_dir(), "list.txt", "val/a/2.jpg 5\ntrain/a/1.jpg 4\n");
    const char *path = sluice_test_path("list.txt");
    options = (struct sluice_manifest_options){.train_list = path};
    REQUIRE_OK(assign(images, 3, 1, NULL));
    CU_ASSERT_EQUAL(builder.manifest->num_entries, 2);
    expect(0, "train/a/1.jpg", 4, SLUICE_SUBSET_TRAIN);
    expect(1, "val/a/2.jpg", 5, SLUICE_SUBSET_TRAIN);
    options = (struct sluice_manifest_options){.val_list = "/nowhere"};
    CU_ASSERT_EQUAL(assign(images, 3, 1, NULL), SLUICE_E_NOT_FOUND);
}

TEST(a_list_of_classes_is_one_that_is_named_where_there_is_no_folder)
{
    static const struct image images[] = {{"x.tar/1.jpg", 512, 1}};
    sluice_test_put_text(sluice_test_dir(), "classes.txt", "ape\nbee\ncat\n");
    const char *path = sluice_test_path("classes.txt");
    options = (struct sluice_manifest_options){.classes = path};
    REQUIRE_OK(assign(images, 1, 1, NULL));
    CU_ASSERT_EQUAL(builder.manifest->num_classes, 3);
    options = (struct sluice_manifest_options){0};
    REQUIRE_OK(assign(images, 1, 1, NULL));
    CU_ASSERT_EQUAL(builder.manifest->num_classes, 2);
}

TEST(fields_need_values_in_a_shard_or_a_table)
{
    static const struct image images[] = {{"x.tar/1.jpg", 512, 1}};
    options = (struct sluice_manifest_options){.fields = {1, {{.from = ".txt"}}}};
    CHECK_FAILS(SLUICE_E_INVALID, "root: 1 of 1 images have no .txt of their key in their tar",
                assign(images, 1, 1, sluice_test_err()));
    options = (struct sluice_manifest_options){.fields = {1, {{.from = "text"}}}};
    CHECK_FAILS(SLUICE_E_INVALID, "--target text: no table of root has this column",
                assign(images, 1, 1, sluice_test_err()));
}

int main(void)
{
    const int code = sluice_test_main();
    sluice_manifest_destroy(builder.manifest);
    sluice_layout_folders_clear(&folders);
    return code;
}
