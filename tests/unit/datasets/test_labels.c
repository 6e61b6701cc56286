#include "datasets/list/labels.h"

#include "datasets/list/split_name.h"
#include "support/test.h"

#include <sys/stat.h>
#include <unistd.h>

/* The root of this test. */
static char root[600];
static struct sluice_field_sources sources; /* fields that are asked for */

static const char *in_root(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    return path;
}

static void make_root(void)
{
    static unsigned number;
    snprintf(root, sizeof(root), "%s/%u", sluice_test_dir(), number++);
    CU_ASSERT_EQUAL_FATAL(mkdir(root, 0700), 0);
    CU_ASSERT_EQUAL_FATAL(mkdir(in_root("train"), 0700), 0);
    CU_ASSERT_EQUAL_FATAL(mkdir(in_root("val"), 0700), 0);
}

static void put(const char *name, const char *text)
{
    sluice_test_write_file(in_root(name), text, strlen(text));
}

static struct sluice_manifest_builder images(const char *const *paths, size_t num)
{
    struct sluice_manifest_builder builder;
    REQUIRE_OK(sluice_manifest_builder_init(&builder, NULL));
    REQUIRE_OK(sluice_field_sources_name(&sources, &builder.manifest->fields, NULL));
    for (size_t i = 0; i < num; i++) {
        const struct sluice_manifest_entry row = {.label = 99};
        REQUIRE_OK(sluice_manifest_add_entry(&builder, &row, paths[i], strlen(paths[i]), NULL));
    }
    return builder;
}

static struct sluice_labels *read_labels(const char *file)
{
    struct sluice_labels *labels = NULL;
    struct sluice_err err = {0};
    if (sluice_labels_read(root, file, NULL, &sources, &labels, &err) != SLUICE_OK)
        printf("%s\n", err.text);
    return labels;
}

TEST(integers_stay_and_names_get_numbers_as_python_sorts_them)
{
    static const char *const paths[] = {"1.jpg", "a/2.jpg", "a/3.jpg"};
    make_root();
    put("labels.csv", "path,label\na/2.jpg,7\na/3.jpg,0\n1.jpg,12\n");
    struct sluice_labels *labels = read_labels(NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(labels);
    CU_ASSERT(sluice_labels_has_file(labels, "labels.csv"));
    CU_ASSERT_FALSE(sluice_labels_has_file(labels, "metadata.csv"));
    struct sluice_manifest_builder builder = images(paths, 3);
    bool are_names = true;
    REQUIRE_OK(sluice_labels_assign(labels, &builder, &are_names, NULL));
    CU_ASSERT_FALSE(are_names);
    static const uint32_t numbers[] = {12, 7, 0};
    for (size_t i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, i).label, numbers[i]);
    CU_ASSERT_EQUAL(builder.manifest->num_classes, 0);
    sluice_manifest_destroy(builder.manifest);
    sluice_labels_destroy(labels);

    /* U+FFFD comes before U+1F600, other than in UTF-16. */
    put("labels.csv", "path,label\na/2.jpg,\xf0\x9f\x98\x80\na/3.jpg,\xef\xbf\xbd\n1.jpg,b\n");
    labels = read_labels(NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(labels);
    builder = images(paths, 3);
    REQUIRE_OK(sluice_labels_assign(labels, &builder, &are_names, NULL));
    CU_ASSERT(are_names);
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_classes, 3);
    CU_ASSERT_STRING_EQUAL(builder.manifest->classes[0], "b");
    static const uint32_t sorted[] = {0, 2, 1};
    for (size_t i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, i).label, sorted[i]);
    sluice_manifest_destroy(builder.manifest);
    sluice_labels_destroy(labels);
}

TEST(each_subset_may_have_its_own_table)
{
    static const char *const paths[] = {"train/1.jpg", "train/a/2.jpg", "val/1.jpg"};
    make_root();
    put("train/metadata.jsonl", "{\"file_name\": \"1.jpg\", \"label\": 1}\n"
                                "{\"file_name\": \"a/2.jpg\", \"label\": 2}\n");
    put("val/metadata.csv", "file_name,label\n1.jpg,3\n");
    struct sluice_labels *labels = read_labels(NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(labels);
    CU_ASSERT(sluice_labels_has_file(labels, "train/metadata.jsonl"));
    CU_ASSERT(sluice_labels_has_file(labels, "val/metadata.csv"));
    struct sluice_manifest_builder builder = images(paths, 3);
    bool are_names;
    REQUIRE_OK(sluice_labels_assign(labels, &builder, &are_names, NULL));
    for (uint32_t i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, i).label, i + 1);
    sluice_manifest_destroy(builder.manifest);
    sluice_labels_destroy(labels);

    put("val/metadata.csv", "file_name,label\n1.jpg,cat\n");
    labels = NULL;
    CHECK_FAILS(SLUICE_E_INVALID, "one has names of classes, the other integers",
                sluice_labels_read(root, NULL, NULL, &sources, &labels, sluice_test_err()));
    CU_ASSERT_PTR_NULL(labels);
}

TEST(each_folder_that_is_called_as_train_or_val_may_have_its_own_table)
{
    static const char *const paths[] = {"Train/1.jpg", "test/1.jpg", "val/1.jpg",
                                        "validation/1.jpg"};
    make_root();
    sluice_test_put_text(root, "Train/labels.csv", "file_name,label\n1.jpg,1\n");
    sluice_test_put_text(root, "val/labels.csv", "file_name,label\n1.jpg,2\n");
    sluice_test_put_text(root, "validation/labels.csv", "file_name,label\n1.jpg,3\n");
    sluice_test_put_text(root, "test/labels.csv", "file_name,label\n1.jpg,9\n");
    struct sluice_labels *labels = read_labels(NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(labels);
    CU_ASSERT(sluice_labels_has_file(labels, "Train/labels.csv"));
    CU_ASSERT(!sluice_labels_has_file(labels, "test/labels.csv"));
    CU_ASSERT(!sluice_labels_have_splits(labels));
    struct sluice_manifest_builder builder = images(paths, 4);
    builder.manifest->rows[1].subset = SLUICE_SPLIT_TEST;
    bool are_names;
    REQUIRE_OK(sluice_labels_assign(labels, &builder, &are_names, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 3);
    for (uint32_t i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, i).label, i + 1);
    sluice_manifest_destroy(builder.manifest);
    sluice_labels_destroy(labels);
}

TEST(the_column_split_sets_the_subset)
{
    static const char *const paths[] = {"1.jpg", "2.jpg"};
    make_root();
    put("metadata.csv", "file_name,label,split\n1.jpg,0,val\n2.jpg,0,train\n");
    struct sluice_labels *labels = read_labels(NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(labels);
    CU_ASSERT(sluice_labels_have_splits(labels));
    struct sluice_manifest_builder builder = images(paths, 2);
    bool are_names;
    REQUIRE_OK(sluice_labels_assign(labels, &builder, &are_names, NULL));
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, 0).subset, SLUICE_SUBSET_VAL);
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, 1).subset, SLUICE_SUBSET_TRAIN);
    sluice_manifest_destroy(builder.manifest);
    sluice_labels_destroy(labels);
}

TEST(images_of_split_test_are_no_samples_and_their_classes_stay)
{
    static const char *const paths[] = {"1.jpg", "2.jpg", "3.jpg", "4.jpg"};
    make_root();
    put("metadata.csv", "file_name,label,split\n1.jpg,ape,test\n2.jpg,bee,train\n3.jpg,cat,test\n"
                        "4.jpg,dog,dev\n");
    struct sluice_labels *labels = read_labels(NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(labels);
    struct sluice_manifest_builder builder = images(paths, 4);
    bool are_names;
    REQUIRE_OK(sluice_labels_assign(labels, &builder, &are_names, NULL));
    CU_ASSERT_EQUAL(builder.manifest->num_classes, 4);
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 2);
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(builder.manifest, 0).path, "2.jpg");
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, 0).label, 1);
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, 1).label, 3);
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, 1).subset, SLUICE_SUBSET_VAL);
    sluice_manifest_destroy(builder.manifest);
    sluice_labels_destroy(labels);
}

static void expect_target(const struct sluice_manifest *manifest, size_t i, const char *want)
{
    const struct sluice_manifest_entry row = sluice_manifest_at(manifest, i);
    CU_ASSERT_EQUAL_FATAL(row.values_bytes, strlen(want));
    CU_ASSERT(memcmp(row.values, want, row.values_bytes) == 0);
}

TEST(targets_stay_with_the_images_that_split_test_leaves)
{
    static const char *const paths[] = {"1.jpg", "2.jpg", "3.jpg", "4.jpg"};
    make_root();
    sources = (struct sluice_field_sources){1, {{.from = "text"}}};
    put("metadata.csv", "file_name,text,split\n1.jpg,one,test\n2.jpg,two,train\n"
                        "3.jpg,three,test\n4.jpg,four,dev\n");
    struct sluice_labels *labels = read_labels(NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(labels);
    struct sluice_manifest_builder builder = images(paths, 4);
    bool are_names;
    REQUIRE_OK(sluice_labels_assign(labels, &builder, &are_names, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 2);
    expect_target(builder.manifest, 0, "two");
    expect_target(builder.manifest, 1, "four");
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, 0).label, 99);
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, 1).subset, SLUICE_SUBSET_VAL);
    sluice_manifest_destroy(builder.manifest);

    builder = images(paths, 4); /* targets alone: whatever else the table says */
    REQUIRE_OK(sluice_labels_assign_fields(labels, &builder, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 4);
    expect_target(builder.manifest, 2, "three");
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, 3).subset, SLUICE_SUBSET_TRAIN);
    sluice_manifest_destroy(builder.manifest);

    static const char *const others[] = {"1.jpg", "5.jpg"};
    builder = images(others, 2);
    CHECK_FAILS(SLUICE_E_INVALID, "1 of 2 images have no row in it (5.jpg)",
                sluice_labels_assign_fields(labels, &builder, sluice_test_err()));
    sluice_manifest_destroy(builder.manifest);
    sluice_labels_destroy(labels);
    sources.num = 0;
}

TEST(an_image_without_a_row_is_an_error_and_a_row_without_an_image_is_not)
{
    static const char *const paths[] = {"1.jpg", "2.jpg", "3.jpg"};
    make_root();
    put("labels.csv", "path,label\n1.jpg,7\n4.jpg,0\n");
    struct sluice_labels *labels = read_labels(NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(labels);
    struct sluice_manifest_builder builder = images(paths, 3);
    struct sluice_err err = {0};
    bool are_names;
    CU_ASSERT_EQUAL(sluice_labels_assign(labels, &builder, &are_names, &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(err.text, "labels.csv: 2 of 3 images have no row in it (2.jpg, ...)"));
    builder.manifest->num_entries = 1;
    CHECK_OK(sluice_labels_assign(labels, &builder, &are_names, NULL));
    sluice_manifest_destroy(builder.manifest);
    sluice_labels_destroy(labels);
}

TEST(what_is_ambiguous_is_refused_and_other_tables_are_left_alone)
{
    struct sluice_labels *labels = NULL;
    struct sluice_err err = {0};
    make_root();
    put("labels.csv", "n01440764,tench\n");
    put("metadata.csv", "file_name,text\n1.jpg,a cat\n");
    CHECK_OK(sluice_labels_read(root, NULL, NULL, &sources, &labels, &err));
    CU_ASSERT_PTR_NULL(labels);
    CU_ASSERT_EQUAL(sluice_labels_read(root, in_root("labels.csv"), NULL, &sources, &labels, &err),
                    SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no table of labels"));
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(sluice_labels_read(root, in_root("none.csv"), NULL, &sources, &labels, &err),
                    SLUICE_E_NOT_FOUND);

    put("labels.csv", "path,label\n1.jpg,1\n");
    put("metadata.jsonl", "{\"path\": \"1.jpg\", \"label\": 1}\n");
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(sluice_labels_read(root, NULL, NULL, &sources, &labels, &err),
                    SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "metadata.jsonl is a table of labels, too"));
    labels = read_labels(in_root("labels.csv")); /* which one is meant is said */
    CU_ASSERT_PTR_NOT_NULL_FATAL(labels);
    CU_ASSERT(sluice_labels_has_file(labels, "labels.csv"));
    sluice_labels_destroy(labels);

    static const char twice[] = "path,label\n1.jpg,1\n2.jpg,1\n./1.jpg,1\n";
    err = (struct sluice_err){0};
    labels = NULL;
    CU_ASSERT_EQUAL(sluice_labels_parse("t.csv", twice, sizeof(twice) - 1, &sources, &labels, &err),
                    SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, "t.csv:4: field 'file_name': '1.jpg' is in line 2, too");
    CU_ASSERT_PTR_NULL(labels);
    sluice_labels_destroy(NULL);
}

TEST(targets_go_to_their_images_with_labels_or_without)
{
    static const char *const paths[] = {"train/a.jpg", "val/b.jpg"};
    static const float numbers[] = {1, 2, 3, 4};
    make_root();
    sources = (struct sluice_field_sources){1, {{"y", SLUICE_FIELD_NONE, ""}}};
    put("train/metadata.csv", "path,y\na.jpg,1 2\n");
    put("val/metadata.csv", "path,y\nb.jpg,3 4\n");
    struct sluice_labels *labels = read_labels(NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(labels);
    CU_ASSERT(!sluice_labels_have_labels(labels));
    struct sluice_manifest_builder builder = images(paths, 2);
    bool are_names = true;
    REQUIRE_OK(sluice_labels_assign(labels, &builder, &are_names, NULL));
    CU_ASSERT_EQUAL(builder.manifest->fields.of[0].type.dim, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(builder.manifest, i);
        CU_ASSERT_EQUAL(entry.label, 99);
        CU_ASSERT_EQUAL_FATAL(entry.values_bytes, 8);
        CU_ASSERT(sluice_field_is_same(entry.values, 8, numbers + 2 * i, 8));
    }
    sluice_manifest_destroy(builder.manifest);
    sluice_labels_destroy(labels);
    labels = NULL;
    put("val/metadata.csv", "path,y\nb.jpg,3\n");
    CHECK_FAILS(SLUICE_E_INVALID, "has vectors of 2 float32, and ",
                sluice_labels_read(root, NULL, NULL, &sources, &labels, sluice_test_err()));
    put("val/metadata.csv", "path,y,label\nb.jpg,3 4,1\n");
    CHECK_FAILS(SLUICE_E_INVALID, "one has labels, the other has none",
                sluice_labels_read(root, NULL, NULL, &sources, &labels, sluice_test_err()));
    CU_ASSERT_PTR_NULL(labels);
    sources.num = 0;
}
