#include "datasets/manifest/layout.h"

#include "datasets/list/split_name.h"
#include "support/test.h"

static struct sluice_passed_over *passed;

/* A manifest of these paths, in order. */
static struct sluice_manifest_builder entries(const char *const *paths, size_t num_paths)
{
    struct sluice_manifest_builder builder;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_manifest_builder_init(&builder, &err));
    for (size_t i = 0; i < num_paths; i++) {
        const struct sluice_manifest_entry row = {.bytes = i};
        REQUIRE_OK(sluice_manifest_add_entry(&builder, &row, paths[i], strlen(paths[i]), &err));
    }
    free(passed);
    passed = calloc(1, sizeof(*passed));
    CU_ASSERT_PTR_NOT_NULL_FATAL(passed);
    return builder;
}

/* With its labels. */
static struct sluice_manifest *assign(const char *const *paths, size_t num_paths,
                                      const struct sluice_layout_folder *folders,
                                      size_t num_folders)
{
    struct sluice_manifest_builder builder = entries(paths, num_paths);
    struct sluice_err err = {0};
    const struct sluice_layout_source source = {
        .root = "root", .folders = folders, .num_folders = num_folders};
    REQUIRE_OK(sluice_layout_assign(&builder, &source, passed, &err));
    return builder.manifest;
}

TEST(classes_are_the_folders_in_the_root_as_python_sorts_them)
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

TEST(entries_beside_the_class_folders_are_taken_out_and_counted)
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

TEST(without_an_image_in_any_folder_there_is_one_class_without_a_name)
{
    static const char *const paths[] = {"a.jpg", "c.jpg"};
    static const struct sluice_layout_folder folders[] = {{"notes", false}};
    struct sluice_manifest *manifest = assign(paths, 2, folders, 1);
    CU_ASSERT_EQUAL_FATAL(manifest->num_classes, 1);
    CU_ASSERT_STRING_EQUAL(manifest->classes[0], "");
    CU_ASSERT_EQUAL(manifest->num_entries, 2);
    sluice_manifest_destroy(manifest);
}

static void expect(const struct sluice_manifest *manifest, size_t i, int split, const char *class)
{
    const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
    CU_ASSERT_EQUAL((int)entry.subset, split);
    if (class)
        CU_ASSERT_STRING_EQUAL(manifest->classes[entry.label], class);
}

TEST(folders_called_as_splits_are_splits_with_the_classes_of_train_and_val)
{
    static const char *const paths[] = {"Test/c/9.jpg",  "dev/b/1.jpg",   "stray.jpg",
                                        "testing/7.jpg", "train/b/1.jpg", "train/s.jpg",
                                        "val/a/2.jpg",   "valid/b/3.jpg"};
    static const struct sluice_layout_folder folders[] = {
        {"Test", true},    {"Test/c", true},  {"dev", true},    {"dev/b", true}, {"testing", true},
        {"train", true},   {"train/b", true}, {"val", true},    {"val/a", true}, {"valid", true},
        {"valid/b", true}, {".x", true},      {"notes", false},
    };
    struct sluice_manifest *manifest = assign(paths, 8, folders, 13);
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, 6);
    CU_ASSERT_EQUAL_FATAL(manifest->num_classes, 2);
    CU_ASSERT_EQUAL(passed->num_images, 2);
    expect(manifest, 0, SLUICE_SPLIT_TEST, NULL);
    expect(manifest, 1, SLUICE_SUBSET_VAL, "b");
    expect(manifest, 2, SLUICE_SPLIT_TEST, NULL);
    expect(manifest, 3, SLUICE_SUBSET_TRAIN, "b");
    expect(manifest, 4, SLUICE_SUBSET_VAL, "a");
    expect(manifest, 5, SLUICE_SUBSET_VAL, "b");
    CHECK_OK(sluice_layout_leave_out_test(manifest, "root", sluice_test_err()));
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, 4);
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, 0).path, "dev/b/1.jpg");
    CU_ASSERT(sluice_layout_is_of_splits(manifest));
    sluice_manifest_destroy(manifest);

    manifest = assign(paths, 1, folders, 2);
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "root: all 1 images are of split test",
                sluice_layout_leave_out_test(manifest, "root", sluice_test_err()));
    sluice_manifest_destroy(manifest);
}

TEST(a_folder_of_images_beside_splits_of_class_folders_is_refused)
{
    static const char *const paths[] = {"notes/2.jpg", "train/b/1.jpg"};
    static const struct sluice_layout_folder folders[] = {
        {"train", true}, {"train/b", true}, {"notes", true}};
    struct sluice_layout_source source = {.root = "root", .folders = folders, .num_folders = 3};
    for (int has_labels = 0; has_labels < 2; has_labels++) {
        struct sluice_manifest_builder builder = entries(paths, 2);
        CHECK_FAILS(SLUICE_E_INVALID,
                    "root: train/ is a split (train, val, test), and "
                    "notes/ beside it",
                    has_labels
                        ? sluice_layout_assign_subsets(&builder, &source, sluice_test_err())
                        : sluice_layout_assign(&builder, &source, passed, sluice_test_err()));
        CHECK_SAYS("--classes-are-folders");
        sluice_manifest_destroy(builder.manifest);
    }
    source.classes_are_folders = true;
    struct sluice_manifest_builder builder = entries(paths, 2);
    CHECK_OK(sluice_layout_assign(&builder, &source, passed, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 2);
    expect(builder.manifest, 0, SLUICE_SUBSET_TRAIN, "notes");
    expect(builder.manifest, 1, SLUICE_SUBSET_TRAIN, "train");
    CU_ASSERT(!sluice_layout_is_of_splits(builder.manifest));
    sluice_manifest_destroy(builder.manifest);
}

TEST(a_class_may_be_called_as_a_split_is)
{
    static const char *const paths[] = {"cat/1.jpg", "test/2.jpg", "train/3.jpg"};
    static const struct sluice_layout_folder folders[] = {
        {"train", true}, {"test", true}, {"cat", true}};
    struct sluice_manifest *manifest = assign(paths, 3, folders, 3);
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, 3);
    expect(manifest, 0, SLUICE_SUBSET_TRAIN, "cat");
    expect(manifest, 1, SLUICE_SUBSET_TRAIN, "test");
    expect(manifest, 2, SLUICE_SUBSET_TRAIN, "train");
    sluice_manifest_destroy(manifest);

    /* Where labels come from elsewhere folders are no classes: two splits are some. */
    struct sluice_layout_source source = {.root = "root", .folders = folders, .num_folders = 3};
    struct sluice_manifest_builder builder = entries(paths, 3);
    CU_ASSERT_EQUAL(sluice_layout_assign_subsets(&builder, &source, NULL), SLUICE_E_INVALID);
    source.num_folders = 2; /* without cat/ */
    CHECK_OK(sluice_layout_assign_subsets(&builder, &source, NULL));
    expect(builder.manifest, 0, SLUICE_SUBSET_TRAIN, NULL);
    expect(builder.manifest, 1, SLUICE_SPLIT_TEST, NULL);
    expect(builder.manifest, 2, SLUICE_SUBSET_TRAIN, NULL);
    sluice_manifest_destroy(builder.manifest);
}

TEST(with_lists_the_folders_of_split_test_hold_samples_where_one_is_listed)
{
    static const char *const paths[] = {"test/c/1.jpg", "train/a/2.jpg"};
    static const struct sluice_layout_folder folders[] = {
        {"train", true}, {"train/a", true}, {"test", true}, {"test/c", true}, {"test/b", true}};
    const struct sluice_layout_source source = {
        .root = "root", .folders = folders, .num_folders = 5, .has_lists = true};
    for (size_t first = 0; first < 2; first++) {
        struct sluice_manifest_builder builder = entries(paths + first, 2 - first);
        CHECK_OK(sluice_layout_assign(&builder, &source, passed, NULL));
        CU_ASSERT_EQUAL(builder.manifest->num_classes, first ? 1 : 3);
        CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, 0).label, first ? 0 : 2);
        sluice_manifest_destroy(builder.manifest);
    }
}

TEST(knows_the_suffixes_that_image_folder_takes)
{
    CU_ASSERT(sluice_layout_is_image("a.WebP"));
    CU_ASSERT(sluice_layout_is_image(".jpg"));
    CU_ASSERT_FALSE(sluice_layout_is_image("a.heic"));
    CU_ASSERT_FALSE(sluice_layout_is_image("jpg"));
    CU_ASSERT(sluice_layout_is_hidden(".git"));
    CU_ASSERT_FALSE(sluice_layout_is_hidden("git"));
}

TEST(a_list_of_folders_grows_and_clears)
{
    struct sluice_layout_folders folders = {0};
    for (int i = 0; i < 200; i++)
        CHECK_OK(sluice_layout_folders_add(&folders, "train/cat/1.jpg", 9, NULL));
    CU_ASSERT_EQUAL_FATAL(folders.num, 200);
    CU_ASSERT_STRING_EQUAL(folders.all[199].path, "train/cat");
    CU_ASSERT_FALSE(folders.all[199].holds_image);
    sluice_layout_folders_clear(&folders);
    CU_ASSERT_EQUAL(folders.num, 0);
    sluice_layout_folders_clear(&folders);
}

int main(void)
{
    const int code = sluice_test_main();
    free(passed);
    return code;
}
