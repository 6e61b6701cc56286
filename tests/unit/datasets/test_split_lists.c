#include "datasets/list/split_lists.h"

#include "support/test.h"

static struct sluice_manifest_builder builder;
static struct sluice_split_lists *lists;

static void begin(void)
{
    static const char *const paths[] = {"a/1 2.jpg", "a/1.jpg", "a/2.jpg", "b/1.png",
                                        "x.tar/3.jpg"};
    sluice_manifest_destroy(builder.manifest);
    sluice_split_lists_destroy(lists);
    REQUIRE_OK(sluice_split_lists_create(&lists, NULL));
    REQUIRE_OK(sluice_manifest_builder_init(&builder, NULL));
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(paths); i++) {
        const struct sluice_manifest_entry row = {.label = 77};
        REQUIRE_OK(sluice_manifest_add_entry(&builder, &row, paths[i], strlen(paths[i]), NULL));
    }
}

static sluice_status parse(const char *text, enum sluice_subset subset, struct sluice_err *err)
{
    return sluice_split_lists_parse(lists, subset ? "val.txt" : "train.txt", text, strlen(text),
                                    subset, err);
}

static sluice_status select_and_assign(struct sluice_err *err)
{
    const sluice_status status = sluice_split_lists_select(lists, builder.manifest, "root", err);
    if (status == SLUICE_OK)
        sluice_split_lists_assign(lists, builder.manifest);
    return status;
}

static void expect(size_t i, const char *path, enum sluice_subset subset, uint32_t label)
{
    CU_ASSERT_FATAL(i < builder.manifest->num_entries);
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(builder.manifest, i).path, path);
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, i).subset, subset);
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, i).label, label);
}

TEST(listed_images_alone_stay_in_their_subsets)
{
    begin();
    CHECK_OK(parse("./x.tar/3.jpg\r\n\n  \na/2.jpg", SLUICE_SUBSET_TRAIN, NULL));
    CHECK_OK(parse("\xEF\xBB\xBF"
                   "a/1 2.jpg\n",
                   SLUICE_SUBSET_VAL, NULL));
    REQUIRE_OK(select_and_assign(NULL));
    CU_ASSERT_FALSE(sluice_split_lists_have_labels(lists));
    CU_ASSERT_EQUAL(builder.manifest->num_entries, 3);
    expect(0, "a/1 2.jpg", SLUICE_SUBSET_VAL, 77);
    expect(1, "a/2.jpg", SLUICE_SUBSET_TRAIN, 77);
    expect(2, "x.tar/3.jpg", SLUICE_SUBSET_TRAIN, 77);
}

TEST(labels_stand_behind_paths)
{
    begin();
    CHECK_OK(parse("a/1 2.jpg 3\na/1.jpg\t0\nb/1.png  12  \n", SLUICE_SUBSET_TRAIN, NULL));
    REQUIRE_OK(select_and_assign(NULL));
    CU_ASSERT_TRUE(sluice_split_lists_have_labels(lists));
    expect(0, "a/1 2.jpg", SLUICE_SUBSET_TRAIN, 3);
    expect(1, "a/1.jpg", SLUICE_SUBSET_TRAIN, 0);
    expect(2, "b/1.png", SLUICE_SUBSET_TRAIN, 12);
}

TEST(what_is_wrong_is_named_by_file_and_line)
{
    static const struct {
        const char *train, *val, *says;
    } wrong[] = {
        {"a/1.jpg\na/3.jpg\na/4.jpg", NULL,
         "train.txt:2: 'a/3.jpg' is no sample of root, nor are others"},
        {"a/1.jpg", "a/2.jpg\n\na/1.jpg", "val.txt:3: 'a/1.jpg' is in train.txt:1, too"},
        {"a/1.jpg\n./a/1.jpg", NULL, "train.txt:2: 'a/1.jpg' is in train.txt:1, too"},
        {"a/1.jpg 1\na/2.jpg", NULL,
         "train.txt:2: 'a/2.jpg' has no label, unlike the lines before"},
        {"a/1.jpg", "a/2.jpg 1", "val.txt:1: 'a/2.jpg' has a label, unlike the lines before"},
        {"a/1.jpg 10000000", NULL,
         "train.txt:1: 'a/1.jpg' does not end with a label from 0 to 9999999"},
        {"a/1.jpg 1234567890", NULL,
         "train.txt:1: 'a/1.jpg 1234567890' does not end with a label from 0 to 9999999"},
        {"a/1.jpg cat", NULL, "train.txt:1: 'a/1.jpg cat' does not end as an image that is read"},
        {"a/1.jpg -1", NULL, "train.txt:1: 'a/1.jpg -1' does not end as an image"},
        {"12", NULL, "train.txt:1: '12' does not end as an image"},
        {"\xff.jpg", NULL, "train.txt:1: '\\xff.jpg' is not UTF-8"},
        {"", NULL, "train.txt: no line names an image"},
        {"a/1.jpg", "\n\n", "val.txt: no line names an image"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        struct sluice_err err = {0};
        begin();
        sluice_status status = parse(wrong[i].train, SLUICE_SUBSET_TRAIN, &err);
        if (status == SLUICE_OK && wrong[i].val)
            status = parse(wrong[i].val, SLUICE_SUBSET_VAL, &err);
        if (status == SLUICE_OK)
            status = select_and_assign(&err);
        CU_ASSERT_EQUAL(status, SLUICE_E_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, wrong[i].says));
    }
    begin();
    CU_ASSERT_EQUAL(sluice_split_lists_parse(lists, "x", "a.jpg\0b", 7, SLUICE_SUBSET_VAL, NULL),
                    SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_split_lists_read(lists, "/nowhere", SLUICE_SUBSET_VAL, NULL),
                    SLUICE_E_NOT_FOUND);
}

int main(void)
{
    const int code = sluice_test_main();
    sluice_manifest_destroy(builder.manifest);
    sluice_split_lists_destroy(lists);
    return code;
}
