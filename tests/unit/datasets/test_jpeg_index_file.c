#include "datasets/jpeg_index/jpeg_index_file.h"

#include "base/buf.h"
#include "support/capture.h"
#include "support/test.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define NUM_PATHS 200

static void name_of(unsigned i, char name[32])
{
    snprintf(name, 32, "class/%u.jpg", i);
}

/* What stands for path i: some bytes, none for the first. */
static struct sluice_buf *entry_of(unsigned i)
{
    struct sluice_buf *entry;
    REQUIRE_OK(sluice_buf_create(NULL, i, &entry, NULL));
    for (unsigned k = 0; k < i; k++)
        entry->data[k] = (uint8_t)(i * 7 + k);
    entry->len = i;
    return entry;
}

struct share {
    struct sluice_jpeg_index_writer *writer;
    unsigned first, step;
    unsigned num_failed;
};

static void *add_share(void *arg)
{
    struct share *share = arg;
    for (unsigned i = share->first; i < NUM_PATHS; i += share->step) {
        char name[32];
        name_of(i, name);
        struct sluice_buf *entry = entry_of(i);
        share->num_failed +=
            sluice_jpeg_index_writer_add(share->writer, name, entry, NULL) != SLUICE_OK;
        sluice_buf_unref(entry);
    }
    return NULL;
}

static void make_file(const char *path)
{
    struct sluice_jpeg_index_writer *writer = NULL;
    REQUIRE_OK(sluice_jpeg_index_writer_create(path, 8, NUM_PATHS, &writer, NULL));
    struct share shares[2] = {{writer, 0, 2, 0}, {writer, 1, 2, 0}};
    pthread_t thread;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, add_share, &shares[0]), 0);
    add_share(&shares[1]);
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(shares[0].num_failed + shares[1].num_failed, 0);
    uint64_t bytes = 0;
    REQUIRE_OK(sluice_jpeg_index_writer_commit(writer, &bytes, NULL));
    sluice_jpeg_index_writer_destroy(writer);
    size_t len;
    free(sluice_test_read_file(path, &len));
    CU_ASSERT_EQUAL(len, bytes);
}

TEST(what_was_added_by_many_is_found_by_path)
{
    const char *path = sluice_test_path("index.bin");
    make_file(path);
    struct sluice_jpeg_index_file *file = NULL;
    REQUIRE_OK(sluice_jpeg_index_file_open(path, &file, NULL));
    CU_ASSERT_EQUAL(sluice_jpeg_index_file_step(file), 8);
    for (unsigned i = 0; i < NUM_PATHS; i++) {
        char name[32];
        name_of(i, name);
        struct sluice_buf *want = entry_of(i), *got = NULL;
        REQUIRE_OK(sluice_jpeg_index_file_find(file, name, NULL, &got, NULL));
        CU_ASSERT(got->len == want->len && memcmp(got->data, want->data, want->len) == 0);
        sluice_buf_unref(got);
        sluice_buf_unref(want);
    }
    struct sluice_buf *none = NULL;
    CU_ASSERT_EQUAL(sluice_jpeg_index_file_find(file, "class/x.jpg", NULL, &none, NULL),
                    SLUICE_E_NOT_FOUND);
    CU_ASSERT_PTR_NULL(none);
    sluice_jpeg_index_file_close(file);
    sluice_jpeg_index_file_close(NULL);
}

TEST(indexes_of_several_roots_are_found_by_their_names)
{
    const char *path = sluice_test_path("joined.bin");
    make_file(path);
    struct sluice_jpeg_index_file *files[3] = {NULL}, *joined = NULL;
    static const char *const names[] = {"a", "a-b", "c"};
    for (size_t i = 0; i < 2; i++)
        REQUIRE_OK(sluice_jpeg_index_file_open(path, &files[i], NULL));
    REQUIRE_OK(sluice_jpeg_index_file_join(names, files, 3, &joined, NULL));
    static const struct {
        const char *root;
        sluice_status status;
    } cases[] = {{"a/", SLUICE_OK},
                 {"a-b/", SLUICE_OK},
                 {"c/", SLUICE_E_NOT_FOUND},
                 {"", SLUICE_E_NOT_FOUND}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char name[32], of_root[64];
        name_of(7, name);
        snprintf(of_root, sizeof(of_root), "%s%s", cases[i].root, name);
        struct sluice_buf *want = entry_of(7), *got = NULL;
        CU_ASSERT_EQUAL(sluice_jpeg_index_file_find(joined, of_root, NULL, &got, NULL),
                        cases[i].status);
        CU_ASSERT_EQUAL(got != NULL, cases[i].status == SLUICE_OK);
        if (got)
            CU_ASSERT(got->len == want->len && memcmp(got->data, want->data, want->len) == 0);
        sluice_buf_unref(got);
        sluice_buf_unref(want);
    }
    sluice_jpeg_index_file_close(joined);
    /* The same of folders: one has an index. */
    char index[700];
    const char *left = sluice_test_path("left");
    const char *right = sluice_test_path("right");
    CU_ASSERT_FATAL(mkdir(left, 0700) == 0 && mkdir(right, 0700) == 0);
    snprintf(index, sizeof(index), "%s/" SLUICE_JPEG_INDEX_FILE, right);
    make_file(index);
    const struct sluice_roots roots = {.num = 2, .at = {{"l", left}, {"r", right}}};
    const struct sluice_roots alone = sluice_roots_one(right);
    const struct {
        const struct sluice_roots *roots;
        const char *begin;
    } folders[] = {{&roots, "r/"}, {&alone, ""}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(folders); i++) {
        char name[32], of_root[64];
        struct sluice_buf *got = NULL;
        name_of(7, name);
        snprintf(of_root, sizeof(of_root), "%s%s", folders[i].begin, name);
        REQUIRE_OK(sluice_jpeg_index_file_choose_for("auto", folders[i].roots, &joined, NULL));
        REQUIRE_OK(sluice_jpeg_index_file_find(joined, of_root, NULL, &got, NULL));
        sluice_buf_unref(got);
        sluice_jpeg_index_file_close(joined);
    }
    CU_ASSERT_EQUAL_FATAL(remove(index), 0);
    CU_ASSERT_FATAL(rmdir(left) == 0 && rmdir(right) == 0);
    struct sluice_jpeg_index_file *none[2] = {NULL};
    REQUIRE_OK(sluice_jpeg_index_file_join(names, none, 2, &joined, NULL));
    CU_ASSERT_PTR_NULL(joined);
}

TEST(a_file_without_entries_is_one)
{
    const char *path = sluice_test_path("empty.bin");
    struct sluice_jpeg_index_writer *writer = NULL;
    struct sluice_jpeg_index_file *file = NULL;
    struct sluice_buf *none = NULL;
    uint64_t bytes;
    REQUIRE_OK(sluice_jpeg_index_writer_create(path, 0, 0, &writer, NULL));
    struct sluice_buf *entry = entry_of(3);
    CU_ASSERT_EQUAL(sluice_jpeg_index_writer_add(writer, "x", entry, NULL), SLUICE_E_NO_MEMORY);
    sluice_buf_unref(entry);
    REQUIRE_OK(sluice_jpeg_index_writer_commit(writer, &bytes, NULL));
    sluice_jpeg_index_writer_destroy(writer);
    REQUIRE_OK(sluice_jpeg_index_file_open(path, &file, NULL));
    CU_ASSERT_EQUAL(sluice_jpeg_index_file_find(file, "x", NULL, &none, NULL), SLUICE_E_NOT_FOUND);
    sluice_jpeg_index_file_close(file);
}

static unsigned count_files(void)
{
    unsigned count = 0;
    DIR *folder = opendir(sluice_test_dir());
    CU_ASSERT_PTR_NOT_NULL_FATAL(folder);
    for (const struct dirent *file; (file = readdir(folder));)
        count += file->d_name[0] != '.';
    closedir(folder);
    return count;
}

TEST(what_is_not_committed_leaves_the_old_file_and_nothing_beside)
{
    const char *path = sluice_test_path("kept.bin");
    make_file(path);
    size_t len, len_after;
    uint8_t *before = sluice_test_read_file(path, &len);
    const unsigned num_files = count_files();
    struct sluice_jpeg_index_writer *writer = NULL;
    REQUIRE_OK(sluice_jpeg_index_writer_create(path, 8, 10, &writer, NULL));
    CU_ASSERT_EQUAL(count_files(), num_files + 1);
    struct sluice_buf *entry = entry_of(9);
    CHECK_OK(sluice_jpeg_index_writer_add(writer, "x", entry, NULL));
    sluice_buf_unref(entry);
    sluice_jpeg_index_writer_destroy(writer);
    sluice_jpeg_index_writer_destroy(NULL);
    CU_ASSERT_EQUAL(count_files(), num_files);
    uint8_t *after = sluice_test_read_file(path, &len_after);
    CU_ASSERT(len == len_after && memcmp(before, after, len) == 0);
    free(before);
    free(after);
    CHECK_FAILS(
        SLUICE_E_IO, "/no/such/folder/x",
        sluice_jpeg_index_writer_create("/no/such/folder/x", 8, 1, &writer, sluice_test_err()));
}

/* Every byte of the header and the table counts, and every one that is missing or too many. */
TEST(cut_and_damaged_files_are_refused_by_name)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s", sluice_test_path("damaged.bin"));
    make_file(path);
    size_t len;
    uint8_t *bytes = sluice_test_read_file(path, &len);
    const size_t table = len - NUM_PATHS * 16;
    struct sluice_jpeg_index_file *file = NULL;
    for (size_t i = 0; i < len; i = i == 55 ? table : i + 1) {
        bytes[i] ^= 64;
        sluice_test_write_file(path, bytes, len);
        CHECK_FAILS(SLUICE_E_CORRUPT, path,
                    sluice_jpeg_index_file_open(path, &file, sluice_test_err()));
        bytes[i] ^= 64;
    }
    for (size_t cut = 1; cut < len; cut = cut * 3 + 1) {
        sluice_test_write_file(path, bytes, len - cut);
        CU_ASSERT_EQUAL(sluice_jpeg_index_file_open(path, &file, NULL), SLUICE_E_CORRUPT);
    }
    sluice_test_write_file(path, "", 0);
    CU_ASSERT_EQUAL(sluice_jpeg_index_file_open(path, &file, NULL), SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(sluice_jpeg_index_file_open(sluice_test_dir(), &file, NULL), SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(sluice_jpeg_index_file_open("/no/such/file", &file, NULL), SLUICE_E_NOT_FOUND);
    CU_ASSERT_PTR_NULL(file);
    /* One that is cut once it is open. */
    sluice_test_write_file(path, bytes, len);
    REQUIRE_OK(sluice_jpeg_index_file_open(path, &file, NULL));
    CU_ASSERT_EQUAL_FATAL(truncate(path, 60), 0);
    struct sluice_buf *entry = NULL;
    CU_ASSERT_EQUAL(sluice_jpeg_index_file_find(file, "class/9.jpg", NULL, &entry, NULL),
                    SLUICE_E_IO);
    sluice_jpeg_index_file_close(file);
    free(bytes);
}

TEST(a_program_takes_what_it_can_use_and_warns_of_the_rest)
{
    struct sluice_jpeg_index_file *file = NULL;
    struct sluice_err err = {0};
    char path[1024];
    snprintf(path, sizeof(path), "%s", sluice_test_path(SLUICE_JPEG_INDEX_FILE));
    const char *root = sluice_test_dir();
    CHECK_OK(sluice_jpeg_index_file_choose("auto", root, &file, NULL));
    CU_ASSERT_PTR_NULL(file);
    CU_ASSERT_EQUAL(sluice_jpeg_index_file_choose(path, root, &file, &err), SLUICE_E_NOT_FOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, path));
    make_file(path);
    CHECK_OK(sluice_jpeg_index_file_choose("off", root, &file, NULL));
    CU_ASSERT_PTR_NULL(file);
    for (int is_named = 0; is_named < 2; is_named++) {
        CHECK_OK(sluice_jpeg_index_file_choose(is_named ? path : "auto", root, &file, NULL));
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        sluice_jpeg_index_file_close(file);
        file = NULL;
    }
    CU_ASSERT_EQUAL_FATAL(truncate(path, 1000), 0);
    for (int is_named = 0; is_named < 2; is_named++) {
        static struct sluice_test_output output;
        sluice_test_capture_begin();
        const sluice_status status =
            sluice_jpeg_index_file_choose(is_named ? path : "auto", root, &file, NULL);
        sluice_test_capture_end(&output);
        CHECK_OK(status);
        CU_ASSERT_PTR_NULL(file);
        CU_ASSERT_PTR_NOT_NULL(strstr(output.err, path));
        CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "without this index"));
    }
}
