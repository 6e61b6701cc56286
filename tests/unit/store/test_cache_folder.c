#include "store/cache_folder.h"

#include "base/file.h"
#include "base/text.h"
#include "support/test.h"

#include <sys/stat.h>
#include <unistd.h>

static const char data[] = "0123456789abcdef";
#define LEN 16

static struct sluice_hash128 identity;
static struct sluice_cache_piece piece;
static char file[SLUICE_MAX_PATH_BYTES]; /* the piece's */

/* A new folder with the piece in it. */
static struct sluice_cache_folder *make(char path[SLUICE_MAX_PATH_BYTES])
{
    static unsigned count;
    char name[32], of_piece[SLUICE_CACHE_NAME_BYTES];
    struct sluice_cache_folder *folder = NULL;
    snprintf(name, sizeof(name), "a/cache-%u", count++);
    REQUIRE_OK(sluice_path_in(sluice_test_dir(), name, path, NULL));
    REQUIRE_OK(sluice_cache_folder_prepare(path, NULL));
    REQUIRE_OK(sluice_cache_folder_open(path, &folder, NULL));
    identity = sluice_cache_identify("a/b.jpg", -1, 0, 100);
    piece = (struct sluice_cache_piece){identity.high, 3, LEN};
    CHECK_OK(sluice_cache_folder_write(folder, identity, &piece, data, 1, NULL));
    CHECK_OK(sluice_cache_folder_commit(folder, &piece, 1, NULL));
    sluice_cache_name(&piece, of_piece);
    REQUIRE_OK(sluice_path_in(path, of_piece, file, NULL));
    return folder;
}

static sluice_status read_piece(struct sluice_cache_folder *folder, struct sluice_err *err)
{
    char bytes[LEN];
    const sluice_status status = sluice_cache_folder_read(folder, identity, &piece, bytes, err);
    if (status == SLUICE_OK)
        CU_ASSERT_EQUAL(memcmp(bytes, data, LEN), 0);
    return status;
}

TEST(reads_what_was_written_until_it_is_removed)
{
    char path[SLUICE_MAX_PATH_BYTES];
    struct sluice_cache_folder *folder = make(path);
    struct stat st;
    CHECK_OK(read_piece(folder, NULL));
    CU_ASSERT_EQUAL_FATAL(stat(file, &st), 0);
    CU_ASSERT_EQUAL(st.st_size, SLUICE_CACHE_HEADER_BYTES + LEN);
    CU_ASSERT_EQUAL(st.st_mode & 0777, 0600);
    CU_ASSERT_EQUAL(sluice_cache_folder_footprint(&piece), 4096);
    const struct sluice_cache_piece more = {1, 0, 4096 - SLUICE_CACHE_HEADER_BYTES + 1};
    CU_ASSERT_EQUAL(sluice_cache_folder_footprint(&more), 8192);
    sluice_cache_folder_remove(folder, &piece);
    CU_ASSERT_EQUAL(read_piece(folder, NULL), SLUICE_E_NOT_FOUND);
    sluice_cache_folder_close(folder);
    sluice_cache_folder_close(NULL);
}

/* Every byte of the file, and every length. */
TEST(damage_of_any_byte_is_seen)
{
    char path[SLUICE_MAX_PATH_BYTES];
    struct sluice_cache_folder *folder = make(path);
    struct sluice_buf *whole = NULL;
    REQUIRE_OK(sluice_file_read(file, 4096, NULL, &whole, NULL));
    for (size_t i = 0; i < whole->len; i++) {
        whole->data[i] ^= 0x20;
        sluice_test_write_file(file, whole->data, whole->len);
        whole->data[i] ^= 0x20;
        CHECK_FAILS(SLUICE_E_CORRUPT, file, read_piece(folder, sluice_test_err()));
        sluice_test_write_file(file, whole->data, i);
        CU_ASSERT_EQUAL(read_piece(folder, NULL), SLUICE_E_CORRUPT);
    }
    sluice_test_write_file(file, whole->data, whole->len);
    CHECK_OK(read_piece(folder, NULL));
    sluice_buf_unref(whole);
    sluice_cache_folder_close(folder);
}

TEST(one_at_a_time_has_a_folder)
{
    char path[SLUICE_MAX_PATH_BYTES];
    struct sluice_cache_folder *folder = make(path), *second = NULL;
    CHECK_FAILS(SLUICE_E_IO, "another server uses this cache",
                sluice_cache_folder_open(path, &second, sluice_test_err()));
    CU_ASSERT_PTR_NULL(second);
    sluice_cache_folder_close(folder);
    REQUIRE_OK(sluice_cache_folder_open(path, &second, NULL));
    sluice_cache_folder_close(second);
}

TEST(folders_of_other_things_are_refused)
{
    char path[SLUICE_MAX_PATH_BYTES], other[SLUICE_MAX_PATH_BYTES];
    REQUIRE_OK(sluice_path_in(sluice_test_dir(), "b", path, NULL));
    REQUIRE_OK(sluice_mkdirs(path, NULL));
    REQUIRE_OK(sluice_path_in(path, "letter.txt", other, NULL));
    sluice_test_write_file(other, "dear", 4);
    CHECK_FAILS(SLUICE_E_INVALID, "is no cache",
                sluice_cache_folder_prepare(path, sluice_test_err()));
    CU_ASSERT_EQUAL(access(other, F_OK), 0);
    unlink(other);
    CHECK_OK(sluice_cache_folder_prepare(path, NULL));
    CHECK_OK(sluice_cache_folder_prepare(path, NULL));
}

static unsigned num_kept;

static bool keep_first(void *ctx, const struct sluice_cache_piece *found)
{
    CU_ASSERT_EQUAL(memcmp(found, ctx, sizeof(*found)), 0);
    return num_kept++ == 0;
}

TEST(a_scan_removes_what_is_torn_foreign_or_not_kept)
{
    char path[SLUICE_MAX_PATH_BYTES], torn[SLUICE_MAX_PATH_BYTES], new[SLUICE_MAX_PATH_BYTES],
        foreign[SLUICE_MAX_PATH_BYTES];
    struct sluice_cache_folder *folder = make(path);
    REQUIRE_OK(sluice_path_in(path, "00/0000000000000001-0-10", torn, NULL));
    REQUIRE_OK(sluice_path_in(path, "ff/new-7", new, NULL));
    REQUIRE_OK(sluice_path_in(path, "80/letter.txt", foreign, NULL));
    const char *const bad[] = {torn, new, foreign};
    for (size_t i = 0; i < 3; i++)
        sluice_test_write_file(bad[i], data, LEN);
    num_kept = 0;
    CHECK_OK(sluice_cache_folder_scan(folder, keep_first, &piece, NULL));
    CU_ASSERT_EQUAL(num_kept, 1);
    for (size_t i = 0; i < 3; i++)
        CU_ASSERT_NOT_EQUAL(access(bad[i], F_OK), 0);
    CHECK_OK(read_piece(folder, NULL));
    CHECK_OK(sluice_cache_folder_scan(folder, keep_first, &piece, NULL));
    CU_ASSERT_EQUAL(read_piece(folder, NULL), SLUICE_E_NOT_FOUND);
    sluice_cache_folder_close(folder);
}

TEST(a_folder_that_others_may_write_is_refused)
{
    char path[SLUICE_MAX_PATH_BYTES], sub[SLUICE_MAX_PATH_BYTES];
    static const mode_t modes[] = {0770, 0707, 01777};
    struct sluice_cache_folder *folder = make(path);
    struct stat st;
    CU_ASSERT_EQUAL_FATAL(stat(path, &st), 0);
    CU_ASSERT_EQUAL(st.st_mode & 0777, 0700);
    sluice_cache_folder_close(folder);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(modes); i++) {
        struct sluice_err prepared = {0}, opened = {0};
        CU_ASSERT_EQUAL_FATAL(chmod(path, modes[i]), 0);
        CU_ASSERT_EQUAL(sluice_cache_folder_prepare(path, &prepared), SLUICE_E_INVALID);
        CU_ASSERT_EQUAL(sluice_cache_folder_open(path, &folder, &opened), SLUICE_E_INVALID);
        CU_ASSERT(strstr(prepared.text, path) && strstr(prepared.text, "chmod go-w"));
        CU_ASSERT(strstr(opened.text, path) && strstr(opened.text, "chmod go-w"));
    }
    CU_ASSERT_EQUAL_FATAL(chmod(path, 0755), 0);
    CHECK_OK(sluice_cache_folder_prepare(path, NULL));
    REQUIRE_OK(sluice_cache_folder_open(path, &folder, NULL));
    REQUIRE_OK(sluice_path_in(path, "80", sub, NULL));
    CU_ASSERT_EQUAL_FATAL(chmod(sub, 0777), 0);
    CHECK_FAILS(SLUICE_E_INVALID, sub,
                sluice_cache_folder_scan(folder, keep_first, &piece, sluice_test_err()));
    sluice_cache_folder_close(folder);
}

/* Nobody writes into the FIFO: a reader that waited for that would never end. */
TEST(what_is_no_file_is_no_piece)
{
    char path[SLUICE_MAX_PATH_BYTES];
    struct sluice_cache_folder *folder = make(path);
    CU_ASSERT_EQUAL_FATAL(unlink(file), 0);
    CU_ASSERT_EQUAL_FATAL(mkfifo(file, 0600), 0);
    CHECK_FAILS(SLUICE_E_CORRUPT, "not a regular file", read_piece(folder, sluice_test_err()));
    sluice_cache_folder_close(folder);
}

TEST(what_is_abandoned_is_gone)
{
    char path[SLUICE_MAX_PATH_BYTES], new[SLUICE_MAX_PATH_BYTES];
    struct sluice_cache_folder *folder = make(path);
    CHECK_OK(sluice_cache_folder_write(folder, identity, &piece, data, 26, NULL));
    CU_ASSERT(sluice_print(new, sizeof(new), "%s/%02x/new-1a", path, (unsigned)(piece.id >> 56)));
    CU_ASSERT_EQUAL(access(new, F_OK), 0);
    CU_ASSERT_EQUAL(sluice_cache_folder_write(folder, identity, &piece, data, 26, NULL),
                    SLUICE_E_IO);
    sluice_cache_folder_abandon(folder, &piece, 26);
    CU_ASSERT_NOT_EQUAL(access(new, F_OK), 0);
    CHECK_OK(read_piece(folder, NULL));
    sluice_cache_folder_close(folder);
}
