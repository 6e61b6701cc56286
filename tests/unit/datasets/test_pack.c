#include "datasets/tools/pack.h"

#include "base/buf.h"
#include "base/file.h"
#include "datasets/shards/shard.h"
#include "datasets/tools/pack_fields.h"
#include "support/test.h"

#include <sys/stat.h>
#include <unistd.h>

static void put(const char *name, const char *content)
{
    char folder[1024];
    snprintf(folder, sizeof(folder), "%s", sluice_test_path(name));
    *strrchr(folder, '/') = '\0';
    REQUIRE_OK(sluice_mkdirs(folder, NULL));
    sluice_test_write_file(sluice_test_path(name), content, strlen(content));
}

static struct sluice_manifest *list(const char *name)
{
    const struct sluice_manifest_options options = {.with_shards = true};
    struct sluice_manifest *manifest = NULL;
    struct sluice_err err = {0};
    const sluice_status status =
        sluice_manifest_list(sluice_test_path(name), &options, &manifest, NULL, &err);
    if (status != SLUICE_OK)
        printf("%s\n", err.text);
    REQUIRE_OK(status);
    return manifest;
}

/* The same samples in the same order: content, label, subset, names of the classes. */
static void expect_same(const char *a_root, const char *b_root)
{
    struct sluice_manifest *a = list(a_root), *b = list(b_root);
    CU_ASSERT_EQUAL_FATAL(a->num_entries, b->num_entries);
    CU_ASSERT_EQUAL_FATAL(a->num_classes, b->num_classes);
    for (size_t i = 0; i < a->num_classes; i++)
        CU_ASSERT_STRING_EQUAL(a->classes[i], b->classes[i]);
    for (size_t i = 0; i < a->num_entries; i++) {
        const struct sluice_manifest_entry x = sluice_manifest_at(a, i),
                                           y = sluice_manifest_at(b, i);
        struct sluice_buf *x_file, *y_file;
        CU_ASSERT_EQUAL(x.label, y.label);
        CU_ASSERT_EQUAL(x.subset, y.subset);
        REQUIRE_OK(sluice_shard_read(sluice_test_path(a_root), x.path, x.offset, x.bytes, 1000,
                                     NULL, &x_file, NULL, NULL));
        REQUIRE_OK(sluice_shard_read(sluice_test_path(b_root), y.path, y.offset, y.bytes, 1000,
                                     NULL, &y_file, NULL, NULL));
        CU_ASSERT(x_file->len == y_file->len &&
                  memcmp(x_file->data, y_file->data, x_file->len) == 0);
        sluice_buf_unref(x_file);
        sluice_buf_unref(y_file);
    }
    sluice_manifest_destroy(a);
    sluice_manifest_destroy(b);
}

static sluice_status pack(const char *from, const char *to, uint64_t shard_bytes,
                          struct sluice_pack_summary *summary, struct sluice_err *err)
{
    struct sluice_manifest *manifest = list(from);
    const sluice_status status = sluice_pack(sluice_test_path(from), manifest, sluice_test_path(to),
                                             shard_bytes, summary, err);
    sluice_manifest_destroy(manifest);
    return status;
}

static sluice_status unpack(const char *from, const char *to, struct sluice_err *err)
{
    struct sluice_manifest *manifest = list(from);
    struct sluice_pack_summary summary;
    const sluice_status status =
        sluice_unpack(sluice_test_path(from), manifest, sluice_test_path(to), &summary, err);
    if (status == SLUICE_OK)
        CU_ASSERT_EQUAL(summary.num_samples, manifest->num_entries);
    sluice_manifest_destroy(manifest);
    return status;
}

static bool has_file(const char *name)
{
    return access(sluice_test_path(name), F_OK) == 0;
}

/* Two subsets, a key of two images, names that only extended headers hold, a class without images.
 */
static void make_set(void)
{
    char name[400];
    for (int i = 0; i < 7; i++) {
        char content[32];
        snprintf(content, sizeof(content), "train dog %d", i);
        snprintf(name, sizeof(name), "set/train/dog/%d.jpg", i);
        put(name, content);
        snprintf(name, sizeof(name), "set/valid/cat/%d.png", i);
        put(name, content + 6);
    }
    put("set/train/dog/3.b.webp", "a second one of the key");
    snprintf(name, sizeof(name), "set/train/cat/%0150d.jpg", 1);
    put(name, "of a long name");
    put("set/train/empty/note.txt", "no image");
}

TEST(a_packed_folder_has_the_same_samples_in_the_same_order)
{
    static const struct {
        uint64_t shard_bytes;
        size_t num_shards;
    } cases[] = {{1, 15}, {5000, 6}, {1 << 20, 2}};
    make_set();
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char out[40], again[40];
        struct sluice_pack_summary summary;
        snprintf(out, sizeof(out), "tars%zu", i);
        snprintf(again, sizeof(again), "again%zu", i);
        REQUIRE_OK(pack("set", out, cases[i].shard_bytes, &summary, NULL));
        CU_ASSERT_EQUAL(summary.num_samples, 16);
        if (summary.num_shards != cases[i].num_shards)
            printf("%zu tars of %llu\n", summary.num_shards,
                   (unsigned long long)cases[i].shard_bytes);
        CU_ASSERT_EQUAL(summary.num_shards, cases[i].num_shards);
        expect_same("set", out);

        /* The same bytes, whenever it is packed. */
        REQUIRE_OK(pack("set", again, cases[i].shard_bytes, &summary, NULL));
        char command[3000];
        snprintf(command, sizeof(command), "diff -r '%s' '%s'", sluice_test_path(out),
                 sluice_test_path(again));
        CU_ASSERT_EQUAL(system(command), 0);

        /* And back. */
        snprintf(again, sizeof(again), "back%zu", i);
        REQUIRE_OK(unpack(out, again, NULL));
        expect_same("set", again);
        snprintf(command, sizeof(command),
                 "diff -r -x labels.csv -x sluice-classes.txt -x empty '%s' '%s'",
                 sluice_test_path("set"), sluice_test_path(again));
        CU_ASSERT_EQUAL(system(command), 0);
    }
    CU_ASSERT(has_file("tars0/train/shard-000007.tar") && has_file("tars0/valid/shard-000006.tar"));
}

TEST(labels_of_a_table_are_kept)
{
    put("table/1.jpg", "one");
    put("table/a, \"b\"/2.jpg", "two");
    put("table/labels.csv", "path,label\n1.jpg,5\n\"a, \"\"b\"\"/2.jpg\",0\n");
    struct sluice_pack_summary summary;
    REQUIRE_OK(pack("table", "table-tars", 1, &summary, NULL));
    expect_same("table", "table-tars");
    REQUIRE_OK(unpack("table-tars", "table-back", NULL));
    expect_same("table", "table-back");
    /* One class without a name is one, too. */
    put("flat/1.jpg", "one");
    REQUIRE_OK(pack("flat", "flat-tars", 1, &summary, NULL));
    expect_same("flat", "flat-tars");
}

static struct sluice_manifest *list_with(const char *name, const char *target,
                                         enum sluice_field_kind kind)
{
    struct sluice_manifest_options options = {.with_shards = true, .fields = {1, {{.kind = kind}}}};
    snprintf(options.fields.of[0].from, sizeof(options.fields.of[0].from), "%s", target);
    struct sluice_manifest *manifest = NULL;
    REQUIRE_OK(sluice_manifest_list(sluice_test_path(name), &options, &manifest, NULL, NULL));
    return manifest;
}

/* Packs and unpacks `name` with targets: those that come back are the same. */
static void expect_same_targets(const char *name, enum sluice_field_kind kind)
{
    char tars[64], back[64];
    struct sluice_pack_summary summary;
    struct sluice_manifest *all[3];
    snprintf(tars, sizeof(tars), "%s-tars", name);
    snprintf(back, sizeof(back), "%s-back", name);
    all[0] = list_with(name, "y", kind);
    REQUIRE_OK(
        sluice_pack(sluice_test_path(name), all[0], sluice_test_path(tars), 1, &summary, NULL));
    all[1] = list_with(tars, ".txt", kind);
    REQUIRE_OK(
        sluice_unpack(sluice_test_path(tars), all[1], sluice_test_path(back), &summary, NULL));
    all[2] = list_with(back, "target", kind);
    for (int k = 1; k < 3; k++) {
        CU_ASSERT_EQUAL(all[k]->fields.of[0].type.kind, kind);
        CU_ASSERT_EQUAL_FATAL(all[k]->num_entries, all[0]->num_entries);
        for (size_t i = 0; i < all[0]->num_entries; i++) {
            const struct sluice_manifest_entry x = sluice_manifest_at(all[0], i),
                                               y = sluice_manifest_at(all[k], i);
            CU_ASSERT_EQUAL(x.label, y.label);
            CU_ASSERT(sluice_field_is_same(x.values, x.values_bytes, y.values, y.values_bytes));
        }
    }
    for (int k = 0; k < 3; k++)
        sluice_manifest_destroy(all[k]);
}

/* The values of the second field: text. */
static void expect_text(const struct sluice_manifest *manifest, size_t i, const char *want)
{
    const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
    const struct sluice_field_value value =
        sluice_fields_value(&manifest->fields, 1, entry.values, entry.values_bytes);
    CU_ASSERT(sluice_field_is_same(value.at, value.bytes, want, strlen(want)));
}

TEST(several_fields_are_kept)
{
    struct sluice_manifest_options options = {.with_shards = true,
                                              .fields = {3,
                                                         {{"objects", SLUICE_FIELD_BOXES, "boxes"},
                                                          {"say", SLUICE_FIELD_TEXT, "caption"},
                                                          {"y", SLUICE_FIELD_VECTOR, ""}}}};
    struct sluice_manifest *all[3];
    struct sluice_pack_summary summary;
    put("fields/1.jpg", "one");
    put("fields/2.jpg", "two");
    put("fields/metadata.jsonl",
        "{\"file_name\": \"1.jpg\", \"label\": 3, \"objects\": [[0.1, 2, 3, 4, 5]], \"say\": "
        "\"a \\\"cat\\\",\", \"y\": [1, 2]}\n"
        "{\"file_name\": \"2.jpg\", \"label\": 4, \"objects\": [], \"say\": \"\", \"y\": [3, "
        "4]}\n");
    REQUIRE_OK(sluice_manifest_list(sluice_test_path("fields"), &options, &all[0], NULL, NULL));
    REQUIRE_OK(sluice_pack(sluice_test_path("fields"), all[0], sluice_test_path("fields-tars"), 1,
                           &summary, NULL));
    options.fields = (struct sluice_field_sources){3,
                                                   {{".boxes", SLUICE_FIELD_BOXES, ""},
                                                    {".caption", SLUICE_FIELD_TEXT, ""},
                                                    {".y", SLUICE_FIELD_VECTOR, ""}}};
    REQUIRE_OK(
        sluice_manifest_list(sluice_test_path("fields-tars"), &options, &all[1], NULL, NULL));
    REQUIRE_OK(sluice_unpack(sluice_test_path("fields-tars"), all[1],
                             sluice_test_path("fields-back"), &summary, NULL));
    options.fields = (struct sluice_field_sources){3,
                                                   {{"boxes", SLUICE_FIELD_BOXES, ""},
                                                    {"caption", SLUICE_FIELD_TEXT, ""},
                                                    {"y", SLUICE_FIELD_VECTOR, ""}}};
    REQUIRE_OK(
        sluice_manifest_list(sluice_test_path("fields-back"), &options, &all[2], NULL, NULL));
    for (int k = 0; k < 3; k++) {
        CU_ASSERT(sluice_fields_are_same(&all[0]->fields, &all[k]->fields));
        for (size_t i = 0; i < 2; i++) {
            const struct sluice_manifest_entry x = sluice_manifest_at(all[0], i),
                                               y = sluice_manifest_at(all[k], i);
            CU_ASSERT_EQUAL(x.label, y.label);
            CU_ASSERT(sluice_field_is_same(x.values, x.values_bytes, y.values, y.values_bytes));
        }
        expect_text(all[k], 0, "a \"cat\",");
        expect_text(all[k], 1, "");
    }
    char text[SLUICE_PACKED_OPTIONS];
    sluice_packed_options(&all[0]->fields, true, text);
    CU_ASSERT_STRING_EQUAL(
        text, " --target '.boxes:boxes' --target '.caption:text' --target '.y:vector'");
    strcpy(all[0]->fields.of[1].name, "cls");
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "field 'cls' cannot be the suffix",
                sluice_pack(sluice_test_path("fields"), all[0], sluice_test_path("fields-cls"), 1,
                            &summary, sluice_test_err()));
    strcpy(all[0]->fields.of[1].name, "label");
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "field 'label' cannot be a column",
                sluice_unpack(sluice_test_path("fields"), all[0], sluice_test_path("fields-label"),
                              &summary, sluice_test_err()));
    for (int k = 0; k < 3; k++)
        sluice_manifest_destroy(all[k]);
}

TEST(targets_are_kept)
{
    put("words/1.jpg", "one");
    put("words/2.jpg", "two");
    put("words/labels.csv", "path,label,y\n1.jpg,5,\"a \"\"cat\"\",\r\n\t\"\n2.jpg,0,\n");
    expect_same_targets("words", SLUICE_FIELD_BYTES);
    put("numbers/1.jpg", "one");
    put("numbers/2.jpg", "two");
    put("numbers/labels.csv", "path,label,y\n1.jpg,5,\"0.1,-2\"\n2.jpg,0,1e-30 3\n");
    expect_same_targets("numbers", SLUICE_FIELD_VECTOR);

    struct sluice_pack_summary summary;
    struct sluice_err err = {0};
    put("one-key/1.a.jpg", "one");
    put("one-key/1.b.jpg", "two");
    put("one-key/labels.csv", "path,y\n1.a.jpg,0\n1.b.jpg,1\n");
    struct sluice_manifest *manifest = list_with("one-key", "y", SLUICE_FIELD_BYTES);
    CU_ASSERT_EQUAL(sluice_pack(sluice_test_path("one-key"), manifest, sluice_test_path("one-tars"),
                                1, &summary, &err),
                    SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, "1.a.jpg and 1.b.jpg: one key, and two targets");
    ((char *)(uintptr_t)manifest->rows[0].values)[0] = '\0';
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(sluice_unpack(sluice_test_path("one-key"), manifest,
                                  sluice_test_path("one-back"), &summary, &err),
                    SLUICE_E_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "NUL byte"));
    sluice_manifest_destroy(manifest);
}

TEST(what_tars_cannot_keep_is_refused)
{
    struct sluice_pack_summary summary;
    struct sluice_err err = {0};
    put("keys/1.a.jpg", "one");
    put("keys/1.b.jpg", "two");
    put("keys/labels.csv", "path,label\n1.a.jpg,0\n1.b.jpg,1\n");
    CU_ASSERT_EQUAL(pack("keys", "keys-tars", 1000, &summary, &err), SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, "1.a.jpg and 1.b.jpg: one key, and labels 0 and 1");

    err = (struct sluice_err){0};
    put("keys/labels.csv", "path,label,split\n1.a.jpg,0,train\n1.b.jpg,0,val\n");
    CU_ASSERT_EQUAL(pack("keys", "split-tars", 1000, &summary, &err), SLUICE_E_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "1.a.jpg: of split train by a table"));

    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(pack("tars0", "tars-of-tars", 1000, &summary, &err), SLUICE_E_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "a member of a tar already"));

    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(pack("set", "tars0", 1000, &summary, &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "is not empty"));
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(unpack("tars0", "set", &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "is not empty"));
}

TEST(a_file_that_is_not_as_listed_ends_it_and_leaves_no_half_tar)
{
    struct sluice_pack_summary summary;
    put("changed/1.jpg", "one");
    put("changed/2.jpg", "two");
    struct sluice_manifest *manifest = list("changed");
    put("changed/2.jpg", "three");
    CHECK_FAILS(SLUICE_E_STALE, "changed/2.jpg: not what the manifest says",
                sluice_pack(sluice_test_path("changed"), manifest, sluice_test_path("changed-tars"),
                            1 << 20, &summary, sluice_test_err()));
    CU_ASSERT_FALSE(has_file("changed-tars/shard-000000.tar"));
    CU_ASSERT_FALSE(has_file("changed-tars/shard-000000.tar.part"));
    sluice_manifest_destroy(manifest);
}

TEST(samples_that_would_be_one_file_are_named_before_anything_is_written)
{
    struct sluice_pack_summary summary;
    struct sluice_err err = {0};
    put("one/a/1.jpg", "one");
    REQUIRE_OK(pack("one", "both", 1 << 20, &summary, NULL));
    CU_ASSERT_EQUAL_FATAL(
        rename(sluice_test_path("both/shard-000000.tar"), sluice_test_path("both/other.tar")), 0);
    CU_ASSERT_EQUAL_FATAL(
        link(sluice_test_path("both/other.tar"), sluice_test_path("both/same.tar")), 0);
    CU_ASSERT_EQUAL(unpack("both", "both-back", &err), SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, "other.tar/a/1.jpg and same.tar/a/1.jpg would be one file");
    CU_ASSERT_FALSE(has_file("both-back"));
}
