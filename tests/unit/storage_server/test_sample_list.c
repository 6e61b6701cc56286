#include "storage_server/data/sample_list.h"

#include "base/file.h"
#include "datasets/manifest/manifest.h"
#include "store/store_roots.h"
#include "support/test.h"

#include <sys/stat.h>

static const char *const classes[] = {"cat"};

static struct sluice_manifest *make_manifest(uint64_t bytes, int64_t mtime_ns)
{
    const struct sluice_manifest_entry entry = {
        .path = "cat/a.jpg", .bytes = bytes, .mtime_ns = mtime_ns};
    struct sluice_manifest *manifest = NULL;
    REQUIRE_OK(sluice_manifest_create(&entry, 1, classes, 1, &manifest, NULL));
    return manifest;
}

static struct sluice_sample_list *make_list(uint64_t bytes, int64_t mtime_ns)
{
    struct sluice_sample_list *list = NULL;
    REQUIRE_OK(sluice_sample_list_create(make_manifest(bytes, mtime_ns), NULL, false, &list, NULL));
    return list;
}

static uint64_t gone_bytes;

static void on_gone(void *ctx, uint64_t bytes)
{
    *(unsigned *)ctx += 1;
    gone_bytes = bytes;
}

TEST(the_newest_list_is_one_of_the_same_dataset)
{
    struct sluice_sample_list *first = make_list(7, 1), *again = make_list(7, 2),
                              *other = make_list(8, 1);
    CU_ASSERT_STRING_EQUAL(first->dataset_id, again->dataset_id);
    CU_ASSERT_STRING_NOT_EQUAL(first->dataset_id, other->dataset_id);
    CU_ASSERT(first->bytes > sizeof(struct sluice_manifest_entry));
    struct sluice_sample_lists *lists = NULL;
    REQUIRE_OK(sluice_sample_lists_create(first, &lists, NULL));
    struct sluice_sample_list *held = sluice_sample_lists_now(lists);
    CU_ASSERT_PTR_EQUAL(held, first);

    unsigned num_gone = 0;
    sluice_sample_lists_replace(lists, again, on_gone, &num_gone);
    struct sluice_sample_list *newest = sluice_sample_lists_newest(lists, held);
    CU_ASSERT_PTR_EQUAL(newest, again);
    CU_ASSERT_EQUAL(sluice_manifest_at(newest->manifest, 0).mtime_ns, 2);
    sluice_sample_list_unref(newest);

    sluice_sample_lists_replace(lists, other, on_gone, &num_gone);
    CU_ASSERT_EQUAL(num_gone, 1); /* nobody held `again` */
    newest = sluice_sample_lists_newest(lists, held);
    CU_ASSERT_PTR_EQUAL(newest, first);
    sluice_sample_list_unref(newest);
    newest = sluice_sample_lists_now(lists);
    CU_ASSERT_PTR_EQUAL(newest, other);
    sluice_sample_list_unref(newest);

    const uint64_t bytes = held->bytes;
    CU_ASSERT_EQUAL(num_gone, 1);
    sluice_sample_list_unref(held);
    CU_ASSERT_EQUAL(num_gone, 2);
    CU_ASSERT_EQUAL(gone_bytes, bytes);
    sluice_sample_lists_destroy(lists);
    sluice_sample_lists_destroy(NULL);
    sluice_sample_list_unref(NULL);
    CU_ASSERT_EQUAL(num_gone, 2); /* the one of now was replaced by none */
}

static void write_text(const char *path, const char *text)
{
    REQUIRE_OK(sluice_file_write_atomic(path, text, strlen(text), NULL));
}

TEST(a_list_is_scanned_or_read_from_the_roots_manifest_or_from_a_file)
{
    const char *root = sluice_test_path("root"), *folder = sluice_test_path("root/cat");
    CU_ASSERT_FATAL(mkdir(root, 0700) == 0 && mkdir(folder, 0700) == 0);
    write_text(sluice_test_path("root/cat/a.jpg"), "some bytes");
    const struct sluice_roots roots = sluice_roots_one(root);
    struct sluice_sample_list_source source = {.roots = &roots, .jpeg_index = "auto"};
    struct sluice_sample_list *list = NULL;
    REQUIRE_OK(sluice_sample_list_read(&source, &list, NULL));
    CU_ASSERT_PTR_NOT_NULL(list->manifest->passed_over);
    CU_ASSERT_EQUAL(sluice_manifest_at(list->manifest, 0).bytes, 10);
    sluice_sample_list_unref(list);

    struct sluice_manifest *manifest = make_manifest(11, 1);
    char in_root[512];
    snprintf(in_root, sizeof(in_root), "%s/" SLUICE_MANIFEST_FILE, root);
    REQUIRE_OK(sluice_manifest_write(manifest, in_root, NULL));
    sluice_manifest_destroy(manifest);
    REQUIRE_OK(sluice_sample_list_read(&source, &list, NULL));
    CU_ASSERT_PTR_NULL(list->manifest->passed_over);
    CU_ASSERT_EQUAL(sluice_manifest_at(list->manifest, 0).bytes, 11);
    sluice_sample_list_unref(list);

    manifest = make_manifest(12, 1);
    source.manifest = sluice_test_path("elsewhere.tsv");
    REQUIRE_OK(sluice_manifest_write(manifest, source.manifest, NULL));
    sluice_manifest_destroy(manifest);
    REQUIRE_OK(sluice_sample_list_read(&source, &list, NULL));
    CU_ASSERT_EQUAL(sluice_manifest_at(list->manifest, 0).bytes, 12);
    sluice_sample_list_unref(list);
}

TEST(a_named_file_must_be_there_and_whole)
{
    const struct sluice_roots roots = sluice_roots_one(sluice_test_path("root"));
    struct sluice_sample_list_source source = {
        .roots = &roots, .manifest = sluice_test_path("none.tsv"), .jpeg_index = "off"};
    struct sluice_sample_list *list = NULL;
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "none.tsv",
                sluice_sample_list_read(&source, &list, sluice_test_err()));
    write_text(source.manifest, "no manifest\n");
    CU_ASSERT_EQUAL(sluice_sample_list_read(&source, &list, NULL), SLUICE_E_CORRUPT);
    CU_ASSERT_PTR_NULL(list);
}

TEST(a_damaged_manifest_of_the_root_is_an_error_where_the_list_must_be_whole)
{
    write_text(sluice_test_path("root/" SLUICE_MANIFEST_FILE), "no manifest\n");
    const struct sluice_roots roots = sluice_roots_one(sluice_test_path("root"));
    struct sluice_sample_list_source source = {.roots = &roots, .jpeg_index = "off"};
    struct sluice_sample_list *list = NULL;
    REQUIRE_OK(sluice_sample_list_read(&source, &list, NULL)); /* scanned */
    CU_ASSERT_EQUAL(sluice_manifest_at(list->manifest, 0).bytes, 10);
    sluice_sample_list_unref(list);
    list = NULL;
    source.needs_whole = true;
    CU_ASSERT_EQUAL(sluice_sample_list_read(&source, &list, NULL), SLUICE_E_CORRUPT);
    CU_ASSERT_PTR_NULL(list);
    CU_ASSERT_EQUAL(remove(sluice_test_path("root/" SLUICE_MANIFEST_FILE)), 0);
    REQUIRE_OK(sluice_sample_list_read(&source, &list, NULL));
    sluice_sample_list_unref(list);
}

/* Each has its own list: one is walked over, the other has a manifest. */
TEST(roots_with_names_are_one_list)
{
    CU_ASSERT_FATAL(mkdir(sluice_test_path("left"), 0700) == 0 &&
                    mkdir(sluice_test_path("left/cat"), 0700) == 0);
    CU_ASSERT_FATAL(mkdir(sluice_test_path("right"), 0700) == 0);
    write_text(sluice_test_path("left/cat/a.jpg"), "some bytes");
    struct sluice_manifest *manifest = make_manifest(11, 1);
    REQUIRE_OK(
        sluice_manifest_write(manifest, sluice_test_path("right/" SLUICE_MANIFEST_FILE), NULL));
    char left[512], right[512], second[512];
    snprintf(left, sizeof(left), "l=%s", sluice_test_path("left"));
    snprintf(right, sizeof(right), "r=%s", sluice_test_path("right"));
    snprintf(second, sizeof(second), "r/%s", sluice_manifest_at(manifest, 0).path);
    sluice_manifest_destroy(manifest);
    struct sluice_roots roots;
    REQUIRE_OK(sluice_roots_parse((const char *const[]){right, left}, 2, &roots, NULL));
    struct sluice_sample_list_source source = {.roots = &roots, .jpeg_index = "auto"};
    struct sluice_sample_list *list = NULL;
    REQUIRE_OK(sluice_sample_list_read(&source, &list, NULL));
    CU_ASSERT_EQUAL_FATAL(list->manifest->num_entries, 2);
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(list->manifest, 0).path, "l/cat/a.jpg");
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(list->manifest, 1).path, second);
    CU_ASSERT_EQUAL(sluice_manifest_at(list->manifest, 1).bytes, 11);
    CU_ASSERT_EQUAL(list->dataset_bytes, 21);
    CU_ASSERT(list->is_walked[0] && !list->is_walked[1]);
    sluice_sample_list_unref(list);
    /* One that cannot be read is an error that names it. */
    struct sluice_err err = {0};
    list = NULL;
    write_text(sluice_test_path("right/" SLUICE_MANIFEST_FILE), "no manifest\n");
    source.needs_whole = true;
    CU_ASSERT_EQUAL(sluice_sample_list_read(&source, &list, &err), SLUICE_E_CORRUPT);
    CU_ASSERT(!list && strstr(err.text, "/right/"));
}

static bool is_remote;

static void tell_limits(struct sluice_store *store, struct sluice_store_limits *limits)
{
    (void)store;
    *limits = (struct sluice_store_limits){.is_remote = is_remote};
}

static void destroy_nothing(struct sluice_store *store)
{
    (void)store;
}

TEST(remote_roots_are_read_through_their_stores)
{
    struct sluice_roots roots = sluice_roots_one("s3://bucket");
    struct sluice_sample_list_source source = {.roots = &roots};
    struct sluice_store one = {.limits = tell_limits, .destroy = destroy_nothing};
    is_remote = true;
    sluice_sample_list_source_find(&source, &one);
    CU_ASSERT_PTR_EQUAL(source.stores[0], &one);
    is_remote = false;
    sluice_sample_list_source_find(&source, &one);
    CU_ASSERT_PTR_NULL(source.stores[0]);
    roots = (struct sluice_roots){.num = 1, .at = {{"a", "s3://bucket"}}};
    struct sluice_store *store = NULL;
    REQUIRE_OK(sluice_store_roots_create((const char *const[]){"a"},
                                         (struct sluice_store *const[]){&one}, 1, &store, NULL));
    is_remote = true;
    sluice_sample_list_source_find(&source, store);
    CU_ASSERT_PTR_EQUAL(source.stores[0], &one); /* not that over all roots */
    store->destroy(store);
}
