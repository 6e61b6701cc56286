#include "datasets/shards/shard_list.h"

#include "datasets/shards/tar.h"
#include "support/test.h"

/* What test_shard_list.c does not say of tars: labels in .json, and members that are counted. */

static uint8_t bytes[1 << 16];
static size_t len;
static struct sluice_manifest_builder builder;
static struct sluice_passed_over passed;

static void add(const char *name, const char *content)
{
    const size_t size = strlen(content);
    len += sluice_tar_header(name, size, bytes + len);
    memcpy(bytes + len, content, size);
    len += size + sluice_tar_padding(size);
}

static sluice_status list(const char *label_key, struct sluice_err *err)
{
    struct sluice_shard_summary summary;
    const char *path = sluice_test_path("x.tar");
    sluice_test_write_file(path, bytes, len + 1024);
    const struct sluice_shard_file file = {.path = (char[]){"x.tar"}, .bytes = len + 1024};
    const struct sluice_shard_options options = {
        .root = sluice_test_dir(), .num_threads = 1, .label_key = label_key, .passed = &passed};
    passed = (struct sluice_passed_over){0};
    sluice_manifest_destroy(builder.manifest);
    REQUIRE_OK(sluice_manifest_builder_init(&builder, NULL));
    return sluice_shards_list(&options, &file, 1, &builder, &summary, err);
}

static void begin(const char *json)
{
    memset(bytes, 0, sizeof(bytes));
    len = 0;
    add("a/1.jpg", "image");
    add("a/1.cls", "3");
    add("a/1.json", json);
    add("a/1.txt", "a caption");
    add("a/2.avif", "not read");
    add("a/.3.txt", "hidden");
}

TEST(a_label_key_takes_labels_from_json_in_place_of_cls)
{
    begin("{\"id\": \"x\", \"kind\": 12}");
    REQUIRE_OK(list(NULL, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 1);
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, 0).label, 3);
    REQUIRE_OK(list("kind", NULL));
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, 0).label, 12);
}

TEST(a_json_without_such_a_label_is_named)
{
    static const char *const wrong[] = {
        "",
        "{",
        "[12]",
        "{\"id\": 1}",
        "{\"kind\": \"\"}",
        "{\"kind\": NaN}",
        "{\"kind\": \"\\ud83d\"}",
        "{\"kind\": 1.5}",
        "{\"kind\": -1}",
        "{\"kind\": 10000000}",
        "{\"kind\": true}",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        begin(wrong[i]);
        CHECK_OK(list(NULL, NULL));
        CHECK_FAILS(SLUICE_E_INVALID, "a/1.json: ", list("kind", sluice_test_err()));
    }
}

static void begin_empty(void)
{
    memset(bytes, 0, sizeof(bytes));
    len = 0;
}

/* The key of a sample is its name up to the first dot. */
TEST(a_cls_without_an_image_is_an_error)
{
    static const struct {
        const char *other, *cls;
    } wrong[] = {
        {"IMG.2020.01.jpg", "IMG.2020.01.cls"},
        {"b/1.jpg", "b/2.cls"},
        {"b/1.jpg", "1.cls"},
        {"b/1-2.jpg", "b/1.cls"},
        {"b/1.txt", "b/1.cls"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        begin_empty();
        add("a.jpg", "image");
        add("a.cls", "1");
        add(wrong[i].other, "image");
        add(wrong[i].cls, "1");
        CHECK_FAILS(SLUICE_E_INVALID, wrong[i].cls, list(NULL, sluice_test_err()));
        CHECK_SAYS("belongs to no image");
        CHECK_OK(list("kind", NULL)); /* labels are not those of .cls */
    }
}

TEST(a_cls_of_an_image_that_is_not_read_is_none)
{
    begin_empty();
    add("1.avif", "not read");
    add("1.cls", "7");
    add("a/../2.jpg", "passed over");
    add("a/../2.cls", "8");
    add("3.cls", "3");
    add("3.jpg", "image");
    REQUIRE_OK(list(NULL, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 1);
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, 0).label, 3);
}

TEST(a_label_of_a_json_may_be_the_name_of_a_class)
{
    begin("{\"id\": NaN, \"kind\": \"zebra\"}");
    add("a/4.jpg", "image");
    add("a/4.json", "{\"kind\": \"ant\"}");
    REQUIRE_OK(list("kind", NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 2);
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_classes, 2);
    CU_ASSERT_STRING_EQUAL(builder.manifest->classes[0], "ant");
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, 0).label, 1);
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, 1).label, 0);
    add("a/5.json", "{\"kind\": 5}");
    CHECK_FAILS(SLUICE_E_INVALID, "integers, but before names of classes",
                list("kind", sluice_test_err()));
}

TEST(other_members_are_counted_by_suffix)
{
    char text[200];
    begin("{\"kind\": 1}");
    CHECK_OK(list(NULL, NULL));
    (void)sluice_passed_over_text(&passed, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "1 .avif, 1 .json, 1 .txt");
    CHECK_OK(list("kind", NULL));
    (void)sluice_passed_over_text(&passed, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "1 .avif, 1 .cls, 1 .txt");
}

int main(void)
{
    const int code = sluice_test_main();
    sluice_manifest_destroy(builder.manifest);
    return code;
}
