#include "datasets/shards/shard_list.h"

#include "datasets/list/class_list.h"
#include "datasets/shards/records.h"
#include "support/record_shard.h"
#include "support/test.h"

static const uint8_t jpeg[16] = {0xFF, 0xD8, 0xFF, 0xE0}, png[16] = "\x89PNG\r\n\x1a\n";

static struct sluice_manifest_builder builder;
static struct sluice_shard_summary summary;

static sluice_status list(const struct sluice_test_shard *shard, const char *label_key,
                          const struct sluice_columns *columns, struct sluice_err *err)
{
    sluice_test_write_file(sluice_test_path("x.mds"), shard->bytes, shard->len);
    struct sluice_shard_file file = {
        .path = "x.mds", .bytes = shard->len, .mtime_ns = 77, .columns = columns};
    const struct sluice_shard_options options = {
        .root = sluice_test_dir(), .num_threads = 1, .label_key = label_key};
    sluice_manifest_destroy(builder.manifest);
    REQUIRE_OK(sluice_manifest_builder_init(&builder, NULL));
    return sluice_shards_list(&options, &file, 1, &builder, &summary, err);
}

static void expect(size_t i, const char *path, size_t bytes, uint32_t label)
{
    CU_ASSERT_FATAL(i < builder.manifest->num_entries);
    const struct sluice_manifest_entry *entry = &builder.manifest->rows[i];
    CU_ASSERT_STRING_EQUAL(entry->path, path);
    CU_ASSERT_EQUAL(entry->bytes, bytes);
    CU_ASSERT_EQUAL(entry->label, label);
    CU_ASSERT_EQUAL(entry->mtime_ns, 77);
}

/* A shard of `num` records of an image and an int32. */
static void make(struct sluice_test_shard *shard, uint32_t num, const char *encoding)
{
    char config[300];
    snprintf(config, sizeof(config),
             "{\"column_names\": [\"image\", \"n\"], \"column_encodings\": [\"%s\", \"int32\"], "
             "\"column_sizes\": [null, 4]}",
             encoding);
    sluice_test_shard_begin(shard, num, config);
    for (uint32_t i = 0; i < num; i++) {
        const uint8_t label[4] = {(uint8_t)i};
        sluice_test_shard_u32(shard, 16);
        sluice_test_shard_add(shard, i % 2 ? png : jpeg, 16);
        sluice_test_shard_add(shard, label, 4);
        sluice_test_shard_end_record(shard, i);
    }
}

TEST(records_are_samples_by_number_and_suffix)
{
    static struct sluice_test_shard shard;
    make(&shard, 11, "bytes");
    REQUIRE_OK(list(&shard, "n", NULL, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 11);
    expect(0, "x.mds/00.jpg", 16, 0);
    expect(1, "x.mds/01.png", 16, 1);
    expect(10, "x.mds/10.jpg", 16, 10);
    CU_ASSERT_EQUAL(memcmp(shard.bytes + sluice_manifest_at(builder.manifest, 9).offset, png, 16),
                    0);
    CU_ASSERT_EQUAL(summary.num_labelled, 11);
    CU_ASSERT_EQUAL(list(&shard, "image", NULL, NULL), SLUICE_E_INVALID);
}

TEST(bytes_that_begin_as_no_image_are_passed_over_and_damaged_images_stay)
{
    static struct sluice_test_shard shard;
    make(&shard, 4, "bytes");
    memset(shard.bytes + shard.len - 20, 0, 16);
    REQUIRE_OK(list(&shard, "n", NULL, NULL));
    CU_ASSERT_EQUAL(builder.manifest->num_entries, 3);
    make(&shard, 4, "jpeg");
    memset(shard.bytes + shard.len - 20, 0, 16);
    REQUIRE_OK(list(&shard, "n", NULL, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 4);
    expect(3, "x.mds/3.jpg", 16, 3);
}

/* A shard of two records: an image, and a text and an integer in columns of these names. */
static void make_named(struct sluice_test_shard *shard, const char *text, const char *integer)
{
    static const char *const names[] = {"zebra", "ant"};
    char config[300];
    snprintf(config, sizeof(config),
             "{\"column_names\": [\"image\", \"%s\", \"%s\"], \"column_encodings\": [\"jpeg\", "
             "\"str\", \"uint8\"], \"column_sizes\": [null, null, 1]}",
             text, integer);
    sluice_test_shard_begin(shard, 2, config);
    for (uint32_t i = 0; i < 2; i++) {
        const uint8_t number = (uint8_t)(40 + i);
        sluice_test_shard_u32(shard, 16);
        sluice_test_shard_u32(shard, (uint32_t)strlen(names[i]));
        sluice_test_shard_add(shard, jpeg, 16);
        sluice_test_shard_add(shard, names[i], strlen(names[i]));
        sluice_test_shard_add(shard, &number, 1);
        sluice_test_shard_end_record(shard, i);
    }
}

TEST(a_label_is_never_guessed)
{
    static struct sluice_test_shard shard;
    static const struct {
        const char *text, *integer, *key;
        bool is_refused, are_names;
        uint32_t labels[2];
    } cases[] = {
        {"label", "id", NULL, false, true, {1, 0}},
        {"class", "width", NULL, false, true, {1, 0}},
        {"caption", "label", NULL, false, false, {40, 41}},
        {"caption", "target", NULL, false, false, {40, 41}},
        {"class", "label", NULL, false, false, {40, 41}}, /* label comes first */
        {"label", "id", "id", false, false, {40, 41}},
        {"caption", "width", NULL, true, false, {0}},
        {"caption", "width", "height", true, false, {0}},
        {"caption", "width", "", false, false, {SLUICE_NO_LABEL, SLUICE_NO_LABEL}},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_err err = {0};
        make_named(&shard, cases[i].text, cases[i].integer);
        const sluice_status status = list(&shard, cases[i].key, NULL, &err);
        CU_ASSERT_EQUAL(status, cases[i].is_refused ? SLUICE_E_INVALID : SLUICE_OK);
        if (cases[i].is_refused && !cases[i].key)
            CU_ASSERT_PTR_NOT_NULL(
                strstr(err.text, "--label-key NAME says which of caption, width has the labels"));
        if (status != SLUICE_OK)
            continue;
        CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 2);
        CU_ASSERT_EQUAL(builder.manifest->rows[0].label, cases[i].labels[0]);
        CU_ASSERT_EQUAL(builder.manifest->rows[1].label, cases[i].labels[1]);
        CU_ASSERT_EQUAL(summary.are_names, cases[i].are_names);
        CU_ASSERT_EQUAL_FATAL(builder.manifest->num_classes, cases[i].are_names ? 2 : 0);
        if (cases[i].are_names)
            CU_ASSERT_STRING_EQUAL(builder.manifest->classes[1], "zebra");
    }
    /* Images alone have no labels. */
    sluice_test_shard_begin(&shard, 1,
                            "{\"column_names\": [\"image\"], \"column_encodings\": [\"jpeg\"], "
                            "\"column_sizes\": [null]}");
    sluice_test_shard_u32(&shard, 16);
    sluice_test_shard_add(&shard, jpeg, 16);
    sluice_test_shard_end_record(&shard, 0);
    REQUIRE_OK(list(&shard, NULL, NULL, NULL));
    CU_ASSERT_EQUAL(summary.num_labelled, 0);
}

TEST(a_name_of_a_class_that_is_none_is_named)
{
    static struct sluice_test_shard shard;
    static const char *const wrong[] = {"\xff....", "z\0bra"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        make_named(&shard, "label", "id");
        for (size_t at = 0; at + 5 <= shard.len; at++) {
            if (memcmp(shard.bytes + at, "zebra", 5) == 0)
                memcpy(shard.bytes + at, wrong[i], 5);
        }
        CHECK_FAILS(SLUICE_E_INVALID, "label: a text that is no UTF-8, or has a NUL",
                    list(&shard, NULL, NULL, sluice_test_err()));
    }
}

TEST(a_shard_without_a_column_of_images_is_named)
{
    static struct sluice_test_shard shard;
    static const char *const encodings[] = {"jpegarray", "pil", "str", "jpeg_array:int"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(encodings); i++) {
        make(&shard, 2, encodings[i]);
        CHECK_FAILS(SLUICE_E_UNSUPPORTED, "x.mds: no column is an image",
                    list(&shard, "n", NULL, sluice_test_err()));
    }
}

TEST(a_label_that_is_none_is_named)
{
    static struct sluice_test_shard shard;
    make(&shard, 2, "jpeg");
    memset(shard.bytes + shard.len - 4, 0xFF, 4);
    CHECK_FAILS(SLUICE_E_INVALID, ": n: -1 is not a label from 0 to",
                list(&shard, "n", NULL, sluice_test_err()));
}

TEST(a_damaged_shard_is_listed_as_far_as_it_is_sound)
{
    static struct sluice_test_shard shard;
    make(&shard, 5, "jpeg");
    shard.len--;
    REQUIRE_OK(list(&shard, "n", NULL, NULL));
    CU_ASSERT_EQUAL(builder.manifest->num_entries, 4);
    CU_ASSERT_EQUAL(summary.num_damaged, 1);
    shard.len = 3;
    REQUIRE_OK(list(&shard, "n", NULL, NULL));
    CU_ASSERT_EQUAL(builder.manifest->num_entries, 0);
    CU_ASSERT_EQUAL(summary.num_damaged, 1);
}

TEST(chunks_have_the_columns_that_their_index_says)
{
    static struct sluice_test_shard shard;
    struct sluice_columns columns = {.num = 0};
    CU_ASSERT_TRUE(sluice_columns_add(&columns, "0", "jpeg", 0));
    CU_ASSERT_TRUE(sluice_columns_add(&columns, "1", "int", 0));
    sluice_test_shard_begin(&shard, 1, "");
    sluice_test_shard_u32(&shard, 16);
    sluice_test_shard_u32(&shard, 8);
    sluice_test_shard_add(&shard, jpeg, 16);
    sluice_test_shard_add(&shard, "\5\0\0\0\0\0\0\0", 8);
    sluice_test_shard_end_record(&shard, 0);
    REQUIRE_OK(list(&shard, "1", &columns, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 1);
    expect(0, "x.mds/0.jpg", 16, 5);
}

int main(void)
{
    const int code = sluice_test_main();
    sluice_manifest_destroy(builder.manifest);
    return code;
}
