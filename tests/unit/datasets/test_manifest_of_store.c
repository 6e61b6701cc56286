#include "datasets/manifest_of_store.h"

#include "datasets/manifest.h"
#include "store/store.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

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
    CU_ASSERT_EQUAL_FATAL(status, SLUICE_OK);
    return manifest;
}

static void is_the_manifest_of_a_folder_with_these_files(void)
{
    /* The last two come as from a bucket without an order. */
    static const char *const listed[] = {
        ".git/x.jpg",          "lost+found/a.jpg",      "readme.txt",
        "sluice-manifest.tsv", "sluice-jpeg-index.bin", "train/.hidden/a.jpg",
        "train/b/.hidden.jpg", "train/b/.deep/a.jpg",   "train/b/deep/1.jpg",
        "train/b/1.JPEG",      "train/empty/x.txt",     "train/c/half.jpg.part",
        "val/a/3.png",         "val/b/4.webp",          "train/a/2.jpg"};
    char root[1024];
    struct sluice_manifest *scanned = NULL;
    snprintf(root, sizeof(root), "%s/root", sluice_test_dir());
    for (size_t i = 0; i < sizeof(listed) / sizeof(listed[0]); i++) {
        if (strncmp(listed[i], "sluice-", 7) != 0)
            sluice_test_put_text(root, listed[i], listed[i]); /* as long as its path */
    }
    struct sluice_manifest *manifest = list_keys(listed, sizeof(listed) / sizeof(listed[0]));
    CU_ASSERT_EQUAL_FATAL(sluice_manifest_scan(root, NULL, &scanned, NULL), SLUICE_OK);
    const struct sluice_hash128 ours = sluice_manifest_id(manifest);
    const struct sluice_hash128 theirs = sluice_manifest_id(scanned);
    CU_ASSERT(ours.high == theirs.high && ours.low == theirs.low);
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, scanned->num_entries);
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

static void entries_have_the_versions_of_their_objects(void)
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

static void a_list_is_whole_or_there_is_none(void)
{
    static const char *const none[] = {"a.txt"}, *const twice[] = {"a.jpg", "b.jpg", "a.jpg"};
    struct sluice_manifest *manifest = NULL;
    struct sluice_err err = {0};
    keys = none;
    num_keys = 1;
    CU_ASSERT_EQUAL(sluice_manifest_of_store(&store, "s3://b", &manifest, &err),
                    SLUICE_E_NOT_FOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "s3://b: no image"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "1 .txt"));
    keys = twice;
    num_keys = 3;
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(sluice_manifest_of_store(&store, "s3://b", &manifest, &err), SLUICE_E_CORRUPT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "a.jpg is listed twice"));
    num_keys = 2;
    list_status = SLUICE_E_IO;
    CU_ASSERT_EQUAL(sluice_manifest_of_store(&store, "s3://b", &manifest, NULL), SLUICE_E_IO);
    list_status = SLUICE_OK;
    CU_ASSERT_PTR_NULL(manifest);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(is_the_manifest_of_a_folder_with_these_files),
        SLUICE_TEST(entries_have_the_versions_of_their_objects),
        SLUICE_TEST(a_list_is_whole_or_there_is_none),
    };
    return sluice_test_run("manifest_of_store", tests, SLUICE_TEST_COUNT(tests));
}
