#include "datasets/manifest/of_store.h"

#include "datasets/manifest/manifest.h"
#include "datasets/shards/shard_list.h"
#include "datasets/shards/tar.h"
#include "store/store.h"
#include "support/record_shard.h"
#include "support/test.h"

/* A store that lists what a test says, "KEY" of as many bytes as its key has. */
static const char *const *keys;
static size_t num_keys;
static sluice_status list_status;

static sluice_status list(struct sluice_store *store, const char *prefix, sluice_object_fn *fn,
                          void *ctx, struct sluice_err *err)
{
    (void)store;
    CU_ASSERT_STRING_EQUAL(prefix, "");
    for (size_t i = 0; i < num_keys; i++) {
        const struct sluice_object object = {keys[i], strlen(keys[i]), -(int64_t)i - 1};
        const sluice_status status = fn(ctx, &object, err);
        if (status != SLUICE_OK)
            return status;
    }
    return list_status == SLUICE_OK ? SLUICE_OK : sluice_fail(err, list_status, "no more");
}

static struct sluice_store store = {.list = list};

static struct sluice_manifest *list_keys(const char *const *listed, size_t num)
{
    struct sluice_manifest *manifest = NULL;
    struct sluice_err err = {0};
    keys = listed;
    num_keys = num;
    const sluice_status status = sluice_manifest_of_store(&store, "s3://b", &manifest, &err);
    if (status != SLUICE_OK)
        printf("%s\n", err.text);
    REQUIRE_OK(status);
    return manifest;
}

TEST(is_the_manifest_of_a_folder_with_these_files)
{
    /* The last two come as from a bucket without an order. */
    static const char *const listed[] = {
        ".git/x.jpg",          "lost+found/a.jpg",      "readme.txt",
        "sluice-manifest.tsv", "sluice-jpeg-index.bin", "train/.hidden/a.jpg",
        "train/b/.hidden.jpg", "train/b/.deep/a.jpg",   "train/b/deep/1.jpg",
        "train/b/1.JPEG",      "train/empty/x.txt",     "train/c/half.jpg.part",
        "test/d/5.jpg",        "val/a/3.png",           "valid/.hid/6.jpg",
        "valid/b/4.webp",      "train/a/2.jpg"};
    struct sluice_manifest *scanned = NULL;
    const char *root = sluice_test_path("root");
    for (size_t i = 0; i < sizeof(listed) / sizeof(listed[0]); i++) {
        if (strncmp(listed[i], "sluice-", 7) != 0)
            sluice_test_put_text(root, listed[i], listed[i]); /* as long as its path */
    }
    struct sluice_manifest *manifest = list_keys(listed, sizeof(listed) / sizeof(listed[0]));
    REQUIRE_OK(sluice_manifest_scan(root, NULL, &scanned, NULL));
    const struct sluice_hash128 ours = sluice_manifest_id(manifest);
    const struct sluice_hash128 theirs = sluice_manifest_id(scanned);
    CU_ASSERT(ours.high == theirs.high && ours.low == theirs.low);
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, 7);
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, scanned->num_entries);
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 6).subset, SLUICE_SUBSET_VAL);
    CU_ASSERT_EQUAL_FATAL(manifest->num_classes, scanned->num_classes);
    for (size_t i = 0; i < manifest->num_entries; i++) {
        CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, i).path,
                               sluice_manifest_at(scanned, i).path);
        CU_ASSERT_EQUAL(sluice_manifest_at(manifest, i).label,
                        sluice_manifest_at(scanned, i).label);
        CU_ASSERT_EQUAL(sluice_manifest_at(manifest, i).subset,
                        sluice_manifest_at(scanned, i).subset);
        CU_ASSERT_EQUAL(sluice_manifest_at(manifest, i).coding,
                        sluice_manifest_at(scanned, i).coding);
    }
    for (size_t i = 0; i < manifest->num_classes; i++)
        CU_ASSERT_STRING_EQUAL(manifest->classes[i], scanned->classes[i]);
    CU_ASSERT_PTR_NOT_NULL(manifest->passed_over);
    sluice_manifest_destroy(manifest);
    sluice_manifest_destroy(scanned);
}

TEST(entries_have_the_versions_of_their_objects)
{
    static const char *const listed[] = {"b.jpg", "a.jpg"};
    struct sluice_manifest *manifest = list_keys(listed, 2);
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, 2);
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, 0).path, "a.jpg");
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 0).mtime_ns, -2);
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 0).bytes, 5);
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 1).mtime_ns, -1);
    CU_ASSERT_EQUAL(manifest->num_classes, 1);
    sluice_manifest_destroy(manifest);
}

TEST(a_list_is_whole_or_there_is_none)
{
    static const char *const none[] = {"a.txt"}, *const twice[] = {"a.jpg", "b.jpg", "a.jpg"};
    struct sluice_manifest *manifest = NULL;
    keys = none;
    num_keys = 1;
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "s3://b: no image",
                sluice_manifest_of_store(&store, "s3://b", &manifest, sluice_test_err()));
    CHECK_SAYS("1 .txt");
    keys = twice;
    num_keys = 3;
    CHECK_FAILS(SLUICE_E_CORRUPT, "a.jpg is listed twice",
                sluice_manifest_of_store(&store, "s3://b", &manifest, sluice_test_err()));
    num_keys = 2;
    list_status = SLUICE_E_IO;
    CU_ASSERT_EQUAL(sluice_manifest_of_store(&store, "s3://b", &manifest, NULL), SLUICE_E_IO);
    list_status = SLUICE_OK;
    CU_ASSERT_PTR_NULL(manifest);
}

/* A tar of one image and its label. */
static void put_tar(const char *path, const char *name, const char *label)
{
    static uint8_t bytes[2 * SLUICE_TAR_MAX_HEADER + 8 * SLUICE_TAR_BLOCK];
    char cls[100];
    memset(bytes, 0, sizeof(bytes));
    size_t len = sluice_tar_header(name, 5, bytes);
    memcpy(bytes + len, "image", 5);
    len += SLUICE_TAR_BLOCK;
    snprintf(cls, sizeof(cls), "%.*s.cls", (int)sluice_shard_key_len(name), name);
    len += sluice_tar_header(cls, strlen(label), bytes + len);
    memcpy(bytes + len, label, strlen(label));
    sluice_test_put_text(sluice_test_dir(), path, "");
    char full[1024];
    snprintf(full, sizeof(full), "%s/%s", sluice_test_dir(), path);
    sluice_test_write_file(full, bytes, len + 3 * SLUICE_TAR_BLOCK);
}

TEST(shards_are_those_of_a_folder_with_these_files)
{
    static struct sluice_test_shard shard;
    char path[1100];
    put_tar("shards/train/a.tar", "1.jpg", "3");
    put_tar("shards/val/b.tar", "x/2.png", "1");
    sluice_test_shard_begin(&shard, 1,
                            "{\"column_names\": [\"image\", \"label\"], \"column_encodings\": "
                            "[\"jpeg\", \"uint8\"], \"column_sizes\": [null, 1]}");
    sluice_test_shard_u32(&shard, 4);
    sluice_test_shard_add(&shard, "\xFF\xD8\xFF\xE0\2", 5);
    sluice_test_shard_end_record(&shard, 0);
    sluice_test_put_text(sluice_test_dir(), "shards/train/index.json",
                         "{\"shards\": [{\"format\": \"mds\", \"raw_data\": {\"basename\": "
                         "\"c.mds\"}}]}");
    const char *root = sluice_test_path("shards");
    snprintf(path, sizeof(path), "%s/train/c.mds", root);
    sluice_test_write_file(path, shard.bytes, shard.len);
    snprintf(path, sizeof(path), "%s/train/unnamed.mds", root);
    sluice_test_write_file(path, shard.bytes, shard.len);

    struct sluice_store *files = NULL;
    const struct sluice_store_file_options where = {.root = root, .max_file_bytes = 1 << 20};
    REQUIRE_OK(sluice_store_file_open(&where, &files, NULL));
    static const char *const patterns[] = {NULL, "train/{a.tar,c.mds}"};
    for (size_t k = 0; k < 2; k++) {
        const struct sluice_manifest_options options = {.with_shards = true, .shards = patterns[k]};
        struct sluice_manifest_summary summary = {0};
        struct sluice_manifest *ours = NULL, *theirs = NULL;
        REQUIRE_OK(sluice_manifest_list_store(files, root, &options, &ours, &summary, NULL));
        REQUIRE_OK(sluice_manifest_list(root, &options, &theirs, NULL, NULL));
        CU_ASSERT_EQUAL(summary.num_shards, k ? 2 : 3);
        CU_ASSERT_EQUAL_FATAL(ours->num_entries, k ? 2 : 3);
        CU_ASSERT_EQUAL_FATAL(theirs->num_entries, ours->num_entries);
        CU_ASSERT_EQUAL(theirs->num_classes, ours->num_classes);
        for (size_t i = 0; i < ours->num_entries; i++) {
            CU_ASSERT_STRING_EQUAL(sluice_manifest_at(ours, i).path,
                                   sluice_manifest_at(theirs, i).path);
            CU_ASSERT_EQUAL(sluice_manifest_at(ours, i).offset,
                            sluice_manifest_at(theirs, i).offset);
            CU_ASSERT_EQUAL(sluice_manifest_at(ours, i).bytes, sluice_manifest_at(theirs, i).bytes);
            CU_ASSERT_EQUAL(sluice_manifest_at(ours, i).label, sluice_manifest_at(theirs, i).label);
            CU_ASSERT_EQUAL(sluice_manifest_at(ours, i).subset,
                            sluice_manifest_at(theirs, i).subset);
        }
        sluice_manifest_destroy(ours);
        sluice_manifest_destroy(theirs);
    }
    const struct sluice_manifest_options missing = {.with_shards = true, .shards = "train/d.tar"};
    struct sluice_manifest *none = NULL;
    CHECK_FAILS(
        SLUICE_E_NOT_FOUND, "s3://b/train/d.tar, which the list names",
        sluice_manifest_list_store(files, "s3://b", &missing, &none, NULL, sluice_test_err()));
    files->destroy(files);
}

TEST(members_of_tars_are_fields_as_in_a_folder)
{
    put_tar("fields/train/a.tar", "1.jpg", "3");
    put_tar("fields/val/b.tar", "x/2.png", "1");
    const char *root = sluice_test_path("fields");
    struct sluice_store *files = NULL;
    const struct sluice_store_file_options where = {.root = root, .max_file_bytes = 1 << 20};
    REQUIRE_OK(sluice_store_file_open(&where, &files, NULL));
    struct sluice_manifest_options options = {
        .with_shards = true,
        .fields = {2, {{".cls", SLUICE_FIELD_TEXT, "text"}, {".CLS", SLUICE_FIELD_JSON, "json"}}}};
    struct sluice_manifest *ours = NULL, *theirs = NULL;
    REQUIRE_OK(sluice_manifest_list_store(files, root, &options, &ours, NULL, NULL));
    REQUIRE_OK(sluice_manifest_list(root, &options, &theirs, NULL, NULL));
    CU_ASSERT_EQUAL_FATAL(ours->num_entries, 2);
    CU_ASSERT_EQUAL(ours->fields.num, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct sluice_manifest_entry a = sluice_manifest_at(ours, i),
                                           b = sluice_manifest_at(theirs, i);
        const struct sluice_field_value json =
            sluice_fields_value(&ours->fields, 1, a.values, a.values_bytes);
        CU_ASSERT(sluice_field_is_same(a.values, a.values_bytes, b.values, b.values_bytes));
        CU_ASSERT(sluice_field_is_same(json.at, json.bytes, i ? "1" : "3", 1));
        CU_ASSERT_EQUAL(a.label, i ? 1 : 3); /* they stay labels */
    }
    sluice_manifest_destroy(ours);
    sluice_manifest_destroy(theirs);
    options.fields = (struct sluice_field_sources){1, {{".txt", SLUICE_FIELD_TEXT, ""}}};
    CHECK_FAILS(SLUICE_E_INVALID, "2 of 2 images have no .txt of their key in their tar",
                sluice_manifest_list_store(files, root, &options, &ours, NULL, sluice_test_err()));
    files->destroy(files);
}
