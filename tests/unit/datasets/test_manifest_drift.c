#include "datasets/manifest/drift.h"

#include "base/hash.h"
#include "support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NUM_CLASSES 3
#define PER_CLASS 4

/* Linked with --wrap: a disk that fails at the Nth entry of folders from now on; 0: it does not. */
struct dirent *__real_readdir(DIR *folder);
struct dirent *__wrap_readdir(DIR *folder);

static unsigned fails_at;

struct dirent *__wrap_readdir(DIR *folder)
{
    if (fails_at == 0 || --fails_at > 0)
        return __real_readdir(folder);
    errno = EIO;
    return NULL;
}

/* The root of this test. */
static char root[512];

static const char *in_root(const char *name)
{
    static char paths[4][1024];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

static void write_file(const char *name, const char *text)
{
    sluice_test_write_file(in_root(name), text, strlen(text));
}

/* Times in s since 1970. */
static void set_time(const char *name, time_t seconds)
{
    const struct timespec times[2] = {{seconds, 123456789}, {seconds, 123456789}};
    CU_ASSERT_EQUAL_FATAL(utimensat(AT_FDCWD, in_root(name), times, 0), 0);
}

/* class0 to class2 beneath `prefix`, and a folder in the first. */
static void make_root(const char *prefix)
{
    static unsigned number;
    snprintf(root, sizeof(root), "%s/%u", sluice_test_dir(), number++);
    CU_ASSERT_EQUAL_FATAL(mkdir(root, 0700), 0);
    if (prefix[0])
        CU_ASSERT_EQUAL_FATAL(mkdir(in_root(prefix), 0700), 0);
    for (unsigned c = 0; c < NUM_CLASSES; c++) {
        char name[128];
        snprintf(name, sizeof(name), "%sclass%u", prefix, c);
        CU_ASSERT_EQUAL_FATAL(mkdir(in_root(name), 0700), 0);
        for (unsigned i = 0; i < PER_CLASS; i++) {
            snprintf(name, sizeof(name), "%sclass%u/%u.jpg", prefix, c, i);
            write_file(name, "the content of a picture");
            set_time(name, 1700000000 + i);
        }
    }
    char name[128];
    snprintf(name, sizeof(name), "%sclass0/deep", prefix);
    CU_ASSERT_EQUAL_FATAL(mkdir(in_root(name), 0700), 0);
    strcat(name, "/0.PNG");
    write_file(name, "the content of a picture");
}

/* Scans, adds hashes and writes; the manifest as it is read back. */
static struct sluice_manifest *index_root(void)
{
    struct sluice_manifest *manifest = NULL, *read = NULL;
    REQUIRE_OK(sluice_manifest_scan(root, NULL, &manifest, NULL));
    for (size_t i = 0; i < manifest->num_entries; i++) {
        size_t len;
        uint8_t *bytes = sluice_test_read_file(in_root(sluice_manifest_at(manifest, i).path), &len);
        manifest->rows[i].hash = sluice_hash128(bytes, len);
        manifest->rows[i].has_hash = true;
        free(bytes);
    }
    REQUIRE_OK(sluice_manifest_write(manifest, in_root(SLUICE_MANIFEST_FILE), NULL));
    REQUIRE_OK(sluice_manifest_read(in_root(SLUICE_MANIFEST_FILE), &read, NULL));
    sluice_manifest_destroy(manifest);
    return read;
}

static struct sluice_manifest_drift drift;

static void find(const struct sluice_manifest *manifest)
{
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_manifest_find_drift(manifest, root, in_root(SLUICE_MANIFEST_FILE), NULL,
                                          &drift, &err));
}

static void expect(const struct sluice_manifest *manifest, unsigned added, unsigned gone,
                   unsigned changed)
{
    find(manifest);
    CU_ASSERT_EQUAL(drift.num_added, added);
    CU_ASSERT_EQUAL(drift.num_gone, gone);
    CU_ASSERT_EQUAL(drift.num_changed, changed);
}

TEST(what_was_just_indexed_agrees)
{
    for (int i = 0; i < 2; i++) {
        make_root(i ? "train/" : "");
        struct sluice_manifest *manifest = index_root();
        expect(manifest, 0, 0, 0); /* of the same second */
        CU_ASSERT_EQUAL(drift.num_files, NUM_CLASSES * PER_CLASS + 1);
        CU_ASSERT_EQUAL(drift.num_folders, NUM_CLASSES + 2 + (i ? 1 : 0));
        sluice_manifest_destroy(manifest);
    }
}

TEST(files_added_and_gone_are_counted_and_named)
{
    make_root("");
    struct sluice_manifest *manifest = index_root();
    write_file("class1/new.JPEG", "x");
    write_file("class0/deep/new.png", "x");
    CU_ASSERT_EQUAL(mkdir(in_root("class9"), 0700), 0);
    CU_ASSERT_EQUAL(mkdir(in_root("class9/below"), 0700), 0);
    write_file("class9/below/1.jpg", "x");
    CU_ASSERT_EQUAL(unlink(in_root("class2/3.jpg")), 0);
    expect(manifest, 3, 1, 0);
    CU_ASSERT_STRING_EQUAL(drift.gone, "class2/3.jpg");
    CU_ASSERT_PTR_NOT_NULL(strstr(drift.added, "class"));
    for (unsigned i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof(name), "class2/%u.jpg", i);
        CU_ASSERT_EQUAL(unlink(in_root(name)), 0);
    }
    CU_ASSERT_EQUAL(rmdir(in_root("class2")), 0);
    expect(manifest, 3, 4, 0);
    sluice_manifest_destroy(manifest);
}

TEST(what_is_no_sample_is_not_counted)
{
    make_root("");
    struct sluice_manifest *manifest = index_root();
    write_file("class0/readme.txt", "x");
    write_file("class0/.hidden.jpg", "x");
    write_file("class0/photo.jxl", "x");
    write_file("class0/bad\xff.jpg", "x");
    write_file("beside.jpg", "x"); /* beside the class folders */
    write_file("sluice-jpeg-index.bin", "x");
    CU_ASSERT_EQUAL(mkdir(in_root("class0/folder.jpg"), 0700), 0);
    CU_ASSERT_EQUAL(mkdir(in_root(".cache"), 0700), 0);
    write_file(".cache/1.jpg", "x");
    CU_ASSERT_EQUAL(mkdir(in_root("lost+found"), 0700), 0);
    write_file("lost+found/1.jpg", "x");
    CU_ASSERT_EQUAL(symlink("/etc/passwd", in_root("class0/out.jpg")), 0);
    CU_ASSERT_EQUAL(symlink("nowhere", in_root("class0/dangling.jpg")), 0);
    expect(manifest, 0, 0, 0);
    sluice_manifest_destroy(manifest);
}

TEST(masks_next_to_their_images_are_not_counted)
{
    make_root("");
    struct sluice_manifest *manifest = index_root();
    write_file("class0/1.png", "x");
    write_file("class0/1.mask.png", "x");
    expect(manifest, 2, 0, 0);
    manifest->fields =
        (struct sluice_fields){1, {{{SLUICE_FIELD_MASK, 0}, "mask"}}}; /* values do not matter */
    expect(manifest, 0, 0, 0);
    write_file("class0/none.mask.png", "x"); /* of no image */
    write_file("class0/1", "x");
    expect(manifest, 1, 0, 0);
    CU_ASSERT_STRING_EQUAL(drift.added, "class0/none.mask.png");
    sluice_manifest_destroy(manifest);
}

TEST(images_of_split_test_are_not_counted)
{
    make_root("train/");
    CU_ASSERT_EQUAL(mkdir(in_root("test"), 0700), 0);
    CU_ASSERT_EQUAL(mkdir(in_root("test/class0"), 0700), 0);
    write_file("test/class0/1.jpg", "x");
    struct sluice_manifest *manifest = index_root();
    expect(manifest, 0, 0, 0);
    write_file("test/class0/2.jpg", "x");
    write_file("test/3.jpg", "x");
    expect(manifest, 0, 0, 0);
    CU_ASSERT_EQUAL(mkdir(in_root("valid"), 0700), 0);
    CU_ASSERT_EQUAL(mkdir(in_root("valid/class0"), 0700), 0);
    write_file("valid/class0/2.jpg", "x");
    expect(manifest, 1, 0, 0);
    CU_ASSERT_STRING_EQUAL(drift.added, "valid/class0/2.jpg");
    sluice_manifest_destroy(manifest);
}

TEST(another_length_is_a_change_and_another_time_only_with_other_content)
{
    make_root("");
    struct sluice_manifest *manifest = index_root();
    set_time("class0/1.jpg", 1800000000); /* touched, or copied without its time */
    set_time("class0/2.jpg", 1700000002);
    expect(manifest, 0, 0, 0);
    write_file("class0/1.jpg", "the CONTENT of a picture");
    expect(manifest, 0, 0, 1);
    CU_ASSERT_STRING_EQUAL(drift.changed, "class0/1.jpg");
    write_file("class1/2.jpg", "longer than it was before it was written");
    expect(manifest, 0, 0, 2);
    sluice_manifest_destroy(manifest);
}

TEST(a_copy_that_keeps_the_times_or_rounds_them_agrees)
{
    make_root("");
    struct sluice_manifest *manifest = index_root();
    for (size_t i = 0; i < manifest->num_entries; i++) { /* tar: whole seconds */
        const time_t seconds = (time_t)(sluice_manifest_at(manifest, i).mtime_ns / 1000000000);
        const struct timespec times[2] = {{seconds, 0}, {seconds, 0}};
        CU_ASSERT_EQUAL(
            utimensat(AT_FDCWD, in_root(sluice_manifest_at(manifest, i).path), times, 0), 0);
    }
    set_time("class0", 1600000000);
    set_time(SLUICE_MANIFEST_FILE, 1600000000);
    expect(manifest, 0, 0, 0);
    sluice_manifest_destroy(manifest);
}

TEST(an_old_time_does_not_hide_a_file_that_was_added)
{
    make_root("");
    struct sluice_manifest *manifest = index_root();
    write_file("class1/new.jpg", "x");
    set_time("class1", 1600000000); /* as rsync --times sets it, to the source's */
    expect(manifest, 1, 0, 0);
    set_time(SLUICE_MANIFEST_FILE, 2000000000); /* a copy of the manifest hides when it was made */
    expect(manifest, 1, 0, 0);
    sluice_manifest_destroy(manifest);
}

TEST(an_empty_root_has_lost_everything_and_one_that_is_gone_is_an_error)
{
    make_root("val/");
    struct sluice_manifest *manifest = index_root();
    CU_ASSERT_EQUAL(rename(in_root("val"), in_root(".val")), 0);
    expect(manifest, 0, NUM_CLASSES * PER_CLASS + 1, 0);
    CHECK_FAILS(SLUICE_E_IO, "/no/such/root",
                sluice_manifest_find_drift(manifest, "/no/such/root", in_root(SLUICE_MANIFEST_FILE),
                                           NULL, &drift, sluice_test_err()));
    sluice_manifest_destroy(manifest);
}

TEST(a_folder_that_cannot_be_read_to_its_end_is_an_error_and_not_files_gone)
{
    make_root("");
    struct sluice_manifest *manifest = index_root();
    CU_ASSERT_EQUAL(mkdir(in_root("new"), 0700), 0); /* one that the manifest does not know */
    write_file("new/1.jpg", "x");
    sluice_status status = SLUICE_E_IO;
    unsigned num_failed = 0;
    for (unsigned at = 1; status != SLUICE_OK; at++) {
        struct sluice_err err = {0};
        fails_at = at;
        status = sluice_manifest_find_drift(manifest, root, in_root(SLUICE_MANIFEST_FILE), NULL,
                                            &drift, &err);
        CU_ASSERT_EQUAL(drift.num_gone, 0);
        if (status != SLUICE_OK) {
            num_failed++;
            CU_ASSERT_EQUAL(status, SLUICE_E_IO);
            CU_ASSERT_PTR_NOT_NULL(strstr(err.text, root));
            CU_ASSERT_PTR_NOT_NULL(strstr(err.text, strerror(EIO)));
        }
    }
    /* Each call for an entry failed once.  Six folders: ., .. and the end of each; in the root four
     * folders and the manifest, in class0 one; the images. */
    CU_ASSERT_EQUAL(num_failed, 6 * 3 + 5 + 1 + NUM_CLASSES * PER_CLASS + 2);
    CU_ASSERT_EQUAL(drift.num_added, 1);
    fails_at = 0;
    sluice_manifest_destroy(manifest);
}

TEST(a_search_that_is_cancelled_ends)
{
    make_root("");
    struct sluice_manifest *manifest = index_root();
    const atomic_bool is_cancelled = true;
    CHECK_OK(sluice_manifest_find_drift(manifest, root, in_root(SLUICE_MANIFEST_FILE),
                                        &is_cancelled, &drift, NULL));
    CU_ASSERT_EQUAL(drift.num_folders + drift.num_files, 0);
    sluice_manifest_destroy(manifest);
}

/* make_root() and two rows for members of a tar. */
static struct sluice_manifest *index_sharded(void)
{
    make_root("");
    write_file("x.tar",
               "................the content of a picture................the content of a picture");
    struct sluice_manifest *folder = index_root(), *manifest = NULL;
    const size_t n = folder->num_entries;
    struct sluice_manifest_entry *entries = calloc(n + 2, sizeof(*entries));
    CU_ASSERT_PTR_NOT_NULL_FATAL(entries);
    memcpy(entries, folder->rows, n * sizeof(*entries));
    for (size_t i = 0; i < 2; i++) {
        entries[n + i] = entries[0];
        entries[n + i].path = i ? "x.tar/class0/b.jpg" : "x.tar/class0/a.jpg";
        entries[n + i].offset = 16 + 40 * i;
        entries[n + i].mtime_ns = 1;
    }
    REQUIRE_OK(sluice_manifest_create(entries, n + 2, (const char *const *)folder->classes,
                                      folder->num_classes, &manifest, NULL));
    REQUIRE_OK(sluice_manifest_write(manifest, in_root(SLUICE_MANIFEST_FILE), NULL));
    free(entries);
    sluice_manifest_destroy(folder);
    return manifest;
}

TEST(shards_that_come_go_shrink_or_change_are_seen)
{
    struct sluice_manifest *manifest = index_sharded();
    expect(manifest, 0, 0, 0); /* of another time, but the content is as listed */
    write_file("y.tar", "a tar");
    expect(manifest, 1, 0, 0);
    CU_ASSERT_STRING_EQUAL(drift.added, "y.tar");
    CU_ASSERT_EQUAL(unlink(in_root("y.tar")), 0);
    write_file("x.tar",
               "................the content of a picture................the content of A picture");
    expect(manifest, 0, 0, 1);
    CU_ASSERT_STRING_EQUAL(drift.changed, "x.tar/class0/b.jpg");
    write_file("x.tar", "................the content of a picture..............");
    expect(manifest, 0, 0, 1);
    CU_ASSERT_EQUAL(unlink(in_root("x.tar")), 0);
    expect(manifest, 0, 2, 0);
    CU_ASSERT_STRING_EQUAL(drift.gone, "x.tar/class0/a.jpg");
    sluice_manifest_destroy(manifest);

    /* A folder without rows in shards may have tars of its own. */
    make_root("");
    manifest = index_root();
    write_file("y.tar", "a tar");
    expect(manifest, 0, 0, 0);
    sluice_manifest_destroy(manifest);
}
