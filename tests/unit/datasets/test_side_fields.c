#include "datasets/manifest/side_fields.h"

#include "support/test.h"

#include <sys/stat.h>
#include <unistd.h>

static struct sluice_manifest_builder builder;
static struct sluice_field_sources sources;

static void begin(const char *from, enum sluice_field_kind kind, const char *const *paths,
                  size_t num)
{
    sluice_manifest_destroy(builder.manifest);
    sources = (struct sluice_field_sources){.num = 1, .of = {{.kind = kind}}};
    snprintf(sources.of[0].from, sizeof(sources.of[0].from), "%s", from);
    REQUIRE_OK(sluice_manifest_builder_init(&builder, NULL));
    REQUIRE_OK(sluice_field_sources_name(&sources, &builder.manifest->fields, NULL));
    for (size_t i = 0; i < num; i++) {
        const struct sluice_manifest_entry row = {.offset = strstr(paths[i], ".tar") ? 512 : 0};
        REQUIRE_OK(sluice_manifest_add_entry(&builder, &row, paths[i], strlen(paths[i]), NULL));
    }
}

static void expect(size_t i, const char *want)
{
    const struct sluice_field_value got = sluice_manifest_field_at(builder.manifest, i, 0);
    CU_ASSERT_EQUAL_FATAL(!got.at, !want);
    if (want) {
        CU_ASSERT_EQUAL_FATAL(got.bytes, strlen(want));
        CU_ASSERT(memcmp(got.at, want, got.bytes) == 0);
    }
}

static void put(const char *name, const char *text)
{
    sluice_test_put_text(sluice_test_dir(), name, text);
}

static sluice_status read_all(struct sluice_err *err)
{
    return sluice_side_fields_read(sluice_test_dir(), &sources, &builder, err);
}

TEST(the_file_with_the_same_stem_has_the_value)
{
    static const char *const paths[] = {"a.b.jpg", "a.jpg", "a.png", "c.jpg", "x.tar/a.jpg"};
    put("a.txt", "one\n");
    put("a.b.txt", "two");
    put("c.json", "{}");
    begin(".txt", SLUICE_FIELD_TEXT, paths, 5);
    REQUIRE_OK(read_all(NULL));
    expect(0, "two");
    expect(1, "one\n");
    expect(2, "one\n");
    expect(3, NULL);
    expect(4, NULL);
    CU_ASSERT_EQUAL(builder.manifest->fields.of[0].type.kind, SLUICE_FIELD_TEXT);
    begin(".txt", SLUICE_FIELD_NONE, paths, 2);
    REQUIRE_OK(read_all(NULL));
    CU_ASSERT_EQUAL(builder.manifest->fields.of[0].type.kind, SLUICE_FIELD_BYTES);
}

TEST(a_wrong_file_is_named)
{
    static const char *const paths[] = {"w.jpg"};
    put("w.txt", "a cat");
    begin(".txt", SLUICE_FIELD_VECTOR, paths, 1);
    CHECK_FAILS(SLUICE_E_INVALID, "/w.txt is no number", read_all(sluice_test_err()));
    begin(".txt", SLUICE_FIELD_JSON, paths, 1);
    CHECK_FAILS(SLUICE_E_INVALID, "/w.txt is not JSON", read_all(sluice_test_err()));
    begin(".dir", SLUICE_FIELD_JSON, paths, 1);
    CU_ASSERT_EQUAL_FATAL(mkdir(sluice_test_path("w.dir"), 0700), 0);
    CHECK_FAILS(SLUICE_E_INVALID, "/w.dir is no regular file", read_all(sluice_test_err()));
    static char much[SLUICE_MAX_FIELD_BYTES + 1];
    sluice_test_write_file(sluice_test_path("w.big"), (const uint8_t *)much, sizeof(much));
    begin(".big", SLUICE_FIELD_BYTES, paths, 1);
    CHECK_FAILS(SLUICE_E_INVALID, "/w.big has more than 1 MiB", read_all(sluice_test_err()));
    begin(".big", SLUICE_FIELD_MASK, paths, 1);
    REQUIRE_OK(read_all(NULL));
    CU_ASSERT_EQUAL(sluice_manifest_field_at(builder.manifest, 0, 0).bytes, sizeof(much));
    CU_ASSERT_EQUAL_FATAL(truncate(sluice_test_path("w.big"), (off_t)SLUICE_MAX_VALUES_BYTES + 1),
                          0);
    begin(".big", SLUICE_FIELD_MASK, paths, 1);
    CHECK_FAILS(SLUICE_E_INVALID, "/w.big has more than 16 MiB", read_all(sluice_test_err()));
}

TEST(a_link_out_of_the_root_is_not_read)
{
    static const char *const paths[] = {"l.jpg"};
    CU_ASSERT_EQUAL_FATAL(symlink("/etc/passwd", sluice_test_path("l.txt")), 0);
    begin(".txt", SLUICE_FIELD_TEXT, paths, 1);
    CU_ASSERT_EQUAL(read_all(NULL), SLUICE_E_IO);
}

TEST(side_files_are_known_by_their_suffix)
{
    begin(".mask.PNG", SLUICE_FIELD_MASK, NULL, 0);
    CU_ASSERT(sluice_is_side_file(&sources, "a.mask.png"));
    CU_ASSERT(!sluice_is_side_file(&sources, "a.png"));
    CU_ASSERT(!sluice_is_side_file(&sources, ".mask.png"));
    sources.num = 0;
    CU_ASSERT(!sluice_is_side_file(&sources, "a.mask.png"));
}

int main(void)
{
    const int code = sluice_test_main();
    sluice_manifest_destroy(builder.manifest);
    return code;
}
