#include "datasets/manifest_layout.h"

#include "support/test.h"

#include <stdlib.h>
#include <string.h>

static struct sluice_passed_over *passed;

/* A manifest of these paths, in order, with its labels. */
static struct sluice_manifest *assign(const char *const *paths, size_t num_paths,
                                      const struct sluice_layout_folder *folders,
                                      size_t num_folders)
{
    struct sluice_manifest_builder builder;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL_FATAL(sluice_manifest_builder_init(&builder, &err), SLUICE_OK);
    for (size_t i = 0; i < num_paths; i++) {
        const struct sluice_manifest_entry row = {.bytes = i};
        CU_ASSERT_EQUAL_FATAL(
            sluice_manifest_add_entry(&builder, &row, paths[i], strlen(paths[i]), &err), SLUICE_OK);
    }
    free(passed);
    passed = calloc(1, sizeof(*passed));
    CU_ASSERT_PTR_NOT_NULL_FATAL(passed);
    CU_ASSERT_EQUAL_FATAL(
        sluice_layout_assign(&builder, "root", folders, num_folders, passed, &err), SLUICE_OK);
    return builder.manifest;
}

static void classes_are_the_folders_in_the_root_as_python_sorts_them(void)
{
    static const char *const paths[] = {"b/1.jpg", "\xc3\xa9/2.jpg", "\xef\xbf\xbd/3.jpg"};
    static const struct sluice_layout_folder folders[] = {
        {"\xef\xbf\xbd", true}, {"\x80", true}, {"b", true}, {"\xc3\xa9", true}, {"a", false},
    };
    struct sluice_manifest *manifest = assign(paths, 3, folders, 5);
    CU_ASSERT_EQUAL_FATAL(manifest->num_classes, 5);
    static const char *const expected[] = {"a", "b", "\xc3\xa9", "\\x80", "\xef\xbf\xbd"};
    for (size_t i = 0; i < 5; i++)
        CU_ASSERT_STRING_EQUAL(manifest->classes[i], expected[i]);
    static const uint32_t labels[] = {1, 2, 4};
    for (size_t i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(sluice_manifest_at(manifest, i).label, labels[i]);
    sluice_manifest_destroy(manifest);
}

static void entries_beside_the_class_folders_are_taken_out_and_counted(void)
{
    static const char *const paths[] = {"a.jpg", "b/1.jpg", "c.jpg"};
    static const struct sluice_layout_folder folders[] = {{"b", true}};
    struct sluice_manifest *manifest = assign(paths, 3, folders, 1);
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, 1);
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, 0).path, "b/1.jpg");
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 0).label, 0);
    CU_ASSERT_EQUAL(passed->num_images, 2);
    CU_ASSERT_STRING_EQUAL(passed->images[1], "c.jpg");
    sluice_manifest_destroy(manifest);
}

static void without_an_image_in_any_folder_there_is_one_class_without_a_name(void)
{
    static const char *const paths[] = {"a.jpg", "c.jpg"};
    static const struct sluice_layout_folder folders[] = {{"notes", false}};
    struct sluice_manifest *manifest = assign(paths, 2, folders, 1);
    CU_ASSERT_EQUAL_FATAL(manifest->num_classes, 1);
    CU_ASSERT_STRING_EQUAL(manifest->classes[0], "");
    CU_ASSERT_EQUAL(manifest->num_entries, 2);
    sluice_manifest_destroy(manifest);
}

static void train_and_val_are_subsets_unless_a_folder_with_an_image_stands_beside_them(void)
{
    static const char *const paths[] = {"stray.jpg", "train/b/1.jpg", "val/a/2.jpg", "val/b/3.jpg"};
    static const struct sluice_layout_folder folders[] = {
        {"train", true}, {"train/b", true}, {"val", true},    {"val/a", true},
        {"val/b", true}, {".x", true},      {"notes", false},
    };
    struct sluice_manifest *manifest = assign(paths, 4, folders, 7);
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, 3);
    CU_ASSERT_EQUAL_FATAL(manifest->num_classes, 2);
    static const uint32_t labels[] = {1, 0, 1};
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(sluice_manifest_at(manifest, i).label, labels[i]);
        CU_ASSERT_EQUAL(sluice_manifest_at(manifest, i).subset,
                        i ? SLUICE_SUBSET_VAL : SLUICE_SUBSET_TRAIN);
    }
    sluice_manifest_destroy(manifest);

    struct sluice_layout_folder more[7];
    memcpy(more, folders, sizeof(more));
    more[6].holds_image = true;
    manifest = assign(paths, 4, more, 7);
    CU_ASSERT_EQUAL_FATAL(manifest->num_classes, 4);
    CU_ASSERT_STRING_EQUAL(manifest->classes[0], ".x");
    CU_ASSERT_STRING_EQUAL(manifest->classes[3], "val");
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 2).label, 3);
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 2).subset, SLUICE_SUBSET_TRAIN);
    sluice_manifest_destroy(manifest);
}

static void knows_the_suffixes_that_image_folder_takes(void)
{
    CU_ASSERT(sluice_layout_is_image("a.WebP"));
    CU_ASSERT(sluice_layout_is_image(".jpg"));
    CU_ASSERT_FALSE(sluice_layout_is_image("a.heic"));
    CU_ASSERT_FALSE(sluice_layout_is_image("jpg"));
    CU_ASSERT(sluice_layout_is_hidden(".git"));
    CU_ASSERT_FALSE(sluice_layout_is_hidden("git"));
}

static void a_list_of_folders_grows_and_clears(void)
{
    struct sluice_layout_folders folders = {0};
    for (int i = 0; i < 200; i++)
        CU_ASSERT_EQUAL(sluice_layout_folders_add(&folders, "train/cat/1.jpg", 9, NULL), SLUICE_OK);
    CU_ASSERT_EQUAL_FATAL(folders.num, 200);
    CU_ASSERT_STRING_EQUAL(folders.all[199].path, "train/cat");
    CU_ASSERT_FALSE(folders.all[199].holds_image);
    sluice_layout_folders_clear(&folders);
    CU_ASSERT_EQUAL(folders.num, 0);
    sluice_layout_folders_clear(&folders);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(classes_are_the_folders_in_the_root_as_python_sorts_them),
        SLUICE_TEST(entries_beside_the_class_folders_are_taken_out_and_counted),
        SLUICE_TEST(without_an_image_in_any_folder_there_is_one_class_without_a_name),
        SLUICE_TEST(train_and_val_are_subsets_unless_a_folder_with_an_image_stands_beside_them),
        SLUICE_TEST(knows_the_suffixes_that_image_folder_takes),
        SLUICE_TEST(a_list_of_folders_grows_and_clears),
    };
    const int code = sluice_test_run("manifest_layout", tests, SLUICE_TEST_COUNT(tests));
    free(passed);
    return code;
}
