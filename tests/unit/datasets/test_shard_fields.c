#include "datasets/shards/shard_list.h"

#include "datasets/list/field_source.h"
#include "datasets/shards/tar.h"
#include "support/record_shard.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

static struct sluice_manifest_builder builder;

/* A tar of members, all with the given content. */
struct member {
    const char *name, *content;
};

static struct sluice_shard_file write_tar(char *name, const struct member *members, size_t num,
                                          size_t cut)
{
    static uint8_t bytes[1 << 16];
    size_t len = 0;
    memset(bytes, 0, sizeof(bytes));
    for (size_t i = 0; i < num; i++) {
        const size_t size = strlen(members[i].content);
        len += sluice_tar_header(members[i].name, size, bytes + len);
        memcpy(bytes + len, members[i].content, size);
        len += size + sluice_tar_padding(size);
    }
    len = cut ? cut : len + 1024;
    sluice_test_write_file(sluice_test_path(name), bytes, len);
    return (struct sluice_shard_file){.path = name, .bytes = len, .mtime_ns = 7};
}

static int compare_rows(const void *a, const void *b)
{
    const struct sluice_manifest_entry *x = a, *y = b;
    return strcmp(x->path, y->path);
}

/* Lists into `builder`, in the order of the paths. */
static sluice_status list(const struct sluice_shard_file *shards, size_t num,
                          const struct sluice_field_sources *sources, struct sluice_err *err)
{
    struct sluice_shard_summary summary;
    const struct sluice_shard_options options = {
        .root = sluice_test_dir(), .num_threads = 2, .label_key = "", .fields = sources};
    sluice_manifest_destroy(builder.manifest);
    REQUIRE_OK(sluice_manifest_builder_init(&builder, NULL));
    REQUIRE_OK(sluice_field_sources_name(sources, &builder.manifest->fields, NULL));
    const sluice_status status = sluice_shards_list(&options, shards, num, &builder, &summary, err);
    if (builder.manifest->num_entries > 1)
        qsort(builder.manifest->rows, builder.manifest->num_entries,
              sizeof(*builder.manifest->rows), compare_rows);
    return status;
}

/* NULL: no value. */
static void expect(size_t i, const char *path, unsigned field, const void *want, size_t bytes)
{
    CU_ASSERT_FATAL(i < builder.manifest->num_entries);
    CU_ASSERT_STRING_EQUAL(builder.manifest->rows[i].path, path);
    const struct sluice_field_value got = sluice_manifest_field_at(builder.manifest, i, field);
    CU_ASSERT(sluice_field_is_same(got.at, got.bytes, want, bytes));
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

TEST(images_of_a_key_have_its_member_the_later_one)
{
    const struct sluice_field_sources sources = {1, {{.from = ".txt"}}};
    char name[] = "x.tar";
    const struct sluice_shard_file file = write_tar(name, members, SLUICE_ARRAY_LEN(members), 0);
    REQUIRE_OK(list(&file, 1, &sources, NULL));
    CU_ASSERT_EQUAL(builder.manifest->fields.of[0].type.kind, SLUICE_FIELD_BYTES);
    CU_ASSERT_EQUAL(builder.manifest->num_entries, 4);
    expect(0, "x.tar/10.jpg", 0, "", 0);
    expect(1, "x.tar/2.jpg", 0, "two \xff", 5);
    expect(2, "x.tar/a/1.big.jpg", 0, "one\n", 4);
    expect(3, "x.tar/a/1.jpg", 0, "one\n", 4);
}

TEST(an_image_without_a_member_has_no_value)
{
    const struct sluice_field_sources sources = {1, {{.from = ".json"}}};
    char name[] = "x.tar";
    const struct sluice_shard_file file = write_tar(name, members, SLUICE_ARRAY_LEN(members), 0);
    REQUIRE_OK(list(&file, 1, &sources, NULL));
    expect(0, "x.tar/10.jpg", 0, NULL, 0);
    expect(1, "x.tar/2.jpg", 0, "{}", 2);
}

TEST(one_walk_reads_several_fields_of_several_tars)
{
    static const struct member first[] = {{"1.jpg", ""},
                                          {"1.txt", "\xe2\x82\xac"},
                                          {"1.json", "{\"a\": 1}"},
                                          {"1.boxes.json", "[[1, 2, 3, 4, 5]]"}},
                               second[] = {
                                   {"2.boxes.json", "[]"},   {"2.json", "[]"},
                                   {"2.txt", "b"},           {"2.png", ""},
                                   {"2.seg.png", "\x89PNG"}, {"3.seg.png", "no image of its key"}};
    const struct sluice_field_sources sources = {4,
                                                 {{".txt", SLUICE_FIELD_TEXT, ""},
                                                  {".json", SLUICE_FIELD_JSON, ""},
                                                  {".boxes.json", SLUICE_FIELD_BOXES, ""},
                                                  {".seg.png", SLUICE_FIELD_MASK, ""}}};
    char one[] = "m1.tar", two[] = "m2.tar";
    const struct sluice_shard_file files[] = {write_tar(one, first, 4, 0),
                                              write_tar(two, second, 6, 0)};
    REQUIRE_OK(list(files, 2, &sources, NULL));
    CU_ASSERT_EQUAL(builder.manifest->num_entries, 2); /* a mask is no sample */
    const float corners[] = {1, 2, 3, 4};
    const uint32_t label = 5;
    char box[SLUICE_BOX_BYTES];
    memcpy(box, corners, sizeof(corners));
    memcpy(box + sizeof(corners), &label, sizeof(label));
    expect(0, "m1.tar/1.jpg", 0, "\xe2\x82\xac", 3);
    expect(0, "m1.tar/1.jpg", 1, "{\"a\": 1}", 8);
    expect(0, "m1.tar/1.jpg", 2, box, sizeof(box));
    expect(0, "m1.tar/1.jpg", 3, NULL, 0);
    expect(1, "m2.tar/2.png", 0, "b", 1);
    expect(1, "m2.tar/2.png", 2, "", 0);
    expect(1, "m2.tar/2.png", 3, "\x89PNG", 4);
}

static void expect_error(const struct member *of, size_t num, enum sluice_field_kind kind,
                         const char *says)
{
    const struct sluice_field_sources sources = {1, {{".txt", kind, ""}}};
    char name[] = "w.tar";
    const struct sluice_shard_file file = write_tar(name, of, num, 0);
    CHECK_FAILS(SLUICE_E_INVALID, says, list(&file, 1, &sources, sluice_test_err()));
}

TEST(vectors_are_read_where_they_are_asked_for)
{
    static const struct member numbers[] = {
        {"1.jpg", ""}, {"1.txt", "0.5 -1\n"}, {"2.jpg", ""}, {"2.txt", "[1, 2]"}};
    const struct sluice_field_sources sources = {1, {{".txt", SLUICE_FIELD_VECTOR, ""}}};
    char name[] = "v.tar";
    const struct sluice_shard_file file = write_tar(name, numbers, 4, 0);
    REQUIRE_OK(list(&file, 1, &sources, NULL));
    CU_ASSERT_EQUAL(builder.manifest->fields.of[0].type.dim, 2);
    expect(0, "v.tar/1.jpg", 0, (const float[]){0.5f, -1}, 8);
    expect_error(members, SLUICE_ARRAY_LEN(members), SLUICE_FIELD_VECTOR, "1.txt is no number");
}

TEST(a_wrong_member_is_named)
{
    static const struct member wrong[] = {{"1.jpg", ""}, {"1.txt", "\xff"}};
    expect_error(wrong, 2, SLUICE_FIELD_TEXT, "/w.tar/1.txt is a text that is not UTF-8");
    expect_error(wrong, 2, SLUICE_FIELD_JSON, "/w.tar/1.txt is not JSON");
    expect_error(wrong, 2, SLUICE_FIELD_BOXES, "/w.tar/1.txt is not JSON");
}

TEST(shards_have_values_of_one_type)
{
    static const struct member one[] = {{"1.jpg", ""}, {"1.txt", "1 2"}},
                               two[] = {{"2.jpg", ""}, {"2.txt", "1"}};
    const struct sluice_field_sources sources = {1, {{".txt", SLUICE_FIELD_VECTOR, ""}}};
    char a[] = "d1.tar", b[] = "d2.tar";
    const struct sluice_shard_file files[] = {write_tar(a, one, 2, 0), write_tar(b, two, 2, 0)};
    CHECK_FAILS(SLUICE_E_INVALID, "field 'txt' has vectors of",
                list(files, 2, &sources, sluice_test_err()));
}

TEST(what_is_behind_damage_has_no_value)
{
    const struct sluice_field_sources sources = {1, {{.from = ".txt"}}};
    char name[] = "x.tar";
    const struct sluice_shard_file file =
        write_tar(name, members, SLUICE_ARRAY_LEN(members), 512 * 9);
    REQUIRE_OK(list(&file, 1, &sources, NULL));
    for (size_t i = 0; i < builder.manifest->num_entries; i++) {
        if (strcmp(builder.manifest->rows[i].path, "x.tar/2.jpg") == 0)
            CU_ASSERT_PTR_NULL(sluice_manifest_field_at(builder.manifest, i, 0).at);
    }
}

/* Two records: an image, a text, an integer, a double and JSON. */
static struct sluice_shard_file write_records(char *name)
{
    static struct sluice_test_shard shard;
    static const uint8_t jpeg[16] = {0xFF, 0xD8, 0xFF, 0xE0};
    static const char *const texts[] = {"a cat", ""}, *const jsons[] = {"{\"k\": [1]}", "null"};
    sluice_test_shard_begin(&shard, 2,
                            "{\"column_names\": [\"image\", \"caption\", \"n\", \"x\", \"meta\"], "
                            "\"column_encodings\": [\"jpeg\", \"str\", \"uint8\", \"float64\", "
                            "\"json\"], \"column_sizes\": [null, null, 1, 8, null]}");
    for (uint32_t i = 0; i < 2; i++) {
        const uint8_t number = (uint8_t)(40 + i);
        const double real = i + 0.5;
        sluice_test_shard_u32(&shard, 16);
        sluice_test_shard_u32(&shard, (uint32_t)strlen(texts[i]));
        sluice_test_shard_u32(&shard, (uint32_t)strlen(jsons[i]));
        sluice_test_shard_add(&shard, jpeg, 16);
        sluice_test_shard_add(&shard, texts[i], strlen(texts[i]));
        sluice_test_shard_add(&shard, &number, 1);
        sluice_test_shard_add(&shard, &real, 8);
        sluice_test_shard_add(&shard, jsons[i], strlen(jsons[i]));
        sluice_test_shard_end_record(&shard, i);
    }
    sluice_test_write_file(sluice_test_path(name), shard.bytes, shard.len);
    return (struct sluice_shard_file){.path = name, .bytes = shard.len, .mtime_ns = 7};
}

TEST(columns_of_records_are_fields)
{
    const struct sluice_field_sources sources = {5,
                                                 {{"caption", SLUICE_FIELD_TEXT, ""},
                                                  {"n", SLUICE_FIELD_NONE, ""},
                                                  {"x", SLUICE_FIELD_VECTOR, ""},
                                                  {"meta", SLUICE_FIELD_JSON, ""},
                                                  {"n", SLUICE_FIELD_JSON, "number"}}};
    char name[] = "r.mds";
    const struct sluice_shard_file file = write_records(name);
    REQUIRE_OK(list(&file, 1, &sources, NULL));
    expect(0, "r.mds/0.jpg", 0, "a cat", 5);
    expect(1, "r.mds/1.jpg", 0, "", 0);
    expect(0, "r.mds/0.jpg", 1, &(float){40}, 4);
    expect(1, "r.mds/1.jpg", 1, &(float){41}, 4);
    expect(1, "r.mds/1.jpg", 2, &(float){1.5f}, 4);
    expect(0, "r.mds/0.jpg", 3, "{\"k\": [1]}", 10);
    expect(1, "r.mds/1.jpg", 3, "null", 4);
    expect(1, "r.mds/1.jpg", 4, "41", 2);
}

TEST(a_wrong_value_of_a_record_is_named)
{
    const struct sluice_field_sources sources = {1, {{"caption", SLUICE_FIELD_JSON, ""}}};
    char name[] = "r.mds";
    const struct sluice_shard_file file = write_records(name);
    CHECK_FAILS(SLUICE_E_INVALID, "column 'caption' is not JSON",
                list(&file, 1, &sources, sluice_test_err()));
}

int main(void)
{
    const int code = sluice_test_main();
    sluice_manifest_destroy(builder.manifest);
    return code;
}
