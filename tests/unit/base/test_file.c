#include "base/file.h"

#include "support/capture.h"
#include "support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Linked with --wrap: a disk that is full, a read that comes in pieces, and a folder that fails. */
ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
ssize_t __real_read(int fd, void *data, size_t len);
ssize_t __wrap_read(int fd, void *data, size_t len);
ssize_t __real_pread(int fd, void *data, size_t len, off_t offset);
ssize_t __wrap_pread(int fd, void *data, size_t len, off_t offset);
struct dirent *__real_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir);
int __real_fsync(int fd);
int __wrap_fsync(int fd);

static size_t write_room = SIZE_MAX, max_read = SIZE_MAX;
static int num_interrupts;
static bool has_bad_folder;
static atomic_int num_fsyncs;

ssize_t __wrap_write(int fd, const void *data, size_t len)
{
    if (num_interrupts > 0) {
        num_interrupts--;
        errno = EINTR;
        return -1;
    }
    if (write_room == 0) {
        errno = ENOSPC;
        return -1;
    }
    if (len > write_room)
        len = write_room;
    if (write_room != SIZE_MAX)
        write_room -= len;
    return __real_write(fd, data, len);
}

ssize_t __wrap_read(int fd, void *data, size_t len)
{
    if (num_interrupts > 0) {
        num_interrupts--;
        errno = EINTR;
        return -1;
    }
    return __real_read(fd, data, len < max_read ? len : max_read);
}

ssize_t __wrap_pread(int fd, void *data, size_t len, off_t offset)
{
    if (num_interrupts > 0) {
        num_interrupts--;
        errno = EINTR;
        return -1;
    }
    return __real_pread(fd, data, len < max_read ? len : max_read, offset);
}

struct dirent *__wrap_readdir(DIR *dir)
{
    if (!has_bad_folder)
        return __real_readdir(dir);
    errno = EIO;
    return NULL;
}

int __wrap_fsync(int fd)
{
    atomic_fetch_add(&num_fsyncs, 1);
    return __real_fsync(fd);
}

static int count_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int count = 0;
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count - 2;
}

static void expect_content(const char *path, const char *text)
{
    struct sluice_buf *buf = NULL;
    REQUIRE_OK(sluice_file_read(path, 1 << 20, NULL, &buf, NULL));
    CU_ASSERT_EQUAL(buf->len, strlen(text));
    CU_ASSERT_EQUAL(memcmp(buf->data, text, buf->len), 0);
    sluice_buf_unref(buf);
}

TEST(reads_a_whole_file_of_any_size_up_to_the_limit)
{
    enum { MAX = 70000 };
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, MAX};
    struct sluice_buf_pool *pool = NULL;
    uint8_t *data = malloc(MAX + 1);
    if (!data)
        abort();
    REQUIRE_OK(sluice_buf_pool_create(1 << 20, &pool, NULL));
    for (size_t i = 0; i <= MAX; i++)
        data[i] = (uint8_t)(i * 31);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
        const char *path = sluice_test_path("sized");
        sluice_test_write_file(path, data, sizes[i]);
        for (int pieces = 0; pieces < 2; pieces++) {
            struct sluice_buf *buf = NULL;
            max_read = pieces ? 1000 : SIZE_MAX;
            num_interrupts = pieces;
            CHECK_OK(sluice_file_read(path, MAX, pieces ? pool : NULL, &buf, NULL));
            max_read = SIZE_MAX;
            CU_ASSERT_PTR_NOT_NULL_FATAL(buf);
            CU_ASSERT_EQUAL(buf->len, sizes[i]);
            CU_ASSERT_EQUAL(memcmp(buf->data, data, sizes[i]), 0);
            CU_ASSERT_PTR_EQUAL(buf->pool, pieces ? pool : NULL);
            sluice_buf_unref(buf);
        }
    }
    struct sluice_buf *none = NULL;
    struct sluice_err err = {0};
    sluice_test_write_file(sluice_test_path("sized"), data, MAX + 1);
    CU_ASSERT_EQUAL(sluice_file_read(sluice_test_path("sized"), MAX, NULL, &none, &err),
                    SLUICE_E_UNSUPPORTED);
    CU_ASSERT_PTR_NULL(none);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, sluice_test_path("sized")));
    sluice_buf_pool_destroy(pool);
    free(data);
}

TEST(pread_goes_on_until_all_is_read_or_the_file_ends)
{
    sluice_test_write_file(sluice_test_path("pieces"), "0123456789", 10);
    const int fd = open(sluice_test_path("pieces"), O_RDONLY | O_CLOEXEC);
    char text[16] = "";
    max_read = 3;
    num_interrupts = 1;
    CU_ASSERT_EQUAL(sluice_pread_fully(fd, text, 8, 1), 8);
    CU_ASSERT_STRING_EQUAL(text, "12345678");
    CU_ASSERT_EQUAL(sluice_pread_fully(fd, text, sizeof(text), 4), 6);
    CU_ASSERT_EQUAL(sluice_pread_fully(fd, text, sizeof(text), 11), 0);
    max_read = SIZE_MAX;
    close(fd);
    CU_ASSERT_EQUAL(sluice_pread_fully(-1, text, sizeof(text), 0), -1);
    CU_ASSERT_EQUAL(errno, EBADF);
}

TEST(read_names_what_is_absent_or_no_file)
{
    CU_ASSERT_EQUAL_FATAL(mkfifo(sluice_test_path("fifo"), 0600), 0);
    CU_ASSERT_EQUAL_FATAL(mkdir(sluice_test_path("folder"), 0700), 0);
    sluice_test_write_file(sluice_test_path("plain"), "x", 1);
    static const struct {
        const char *name;
        sluice_status status;
    } cases[] = {
        {"absent", SLUICE_E_NOT_FOUND},
        {"plain/below", SLUICE_E_NOT_FOUND},
        {"folder", SLUICE_E_INVALID},
        {"fifo", SLUICE_E_INVALID}, /* and does not wait for a writer */
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_buf *buf = NULL;
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_file_read(sluice_test_path(cases[i].name), 100, NULL, &buf, &err),
                        cases[i].status);
        CU_ASSERT_PTR_NULL(buf);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, sluice_test_path(cases[i].name)));
    }
    unlink(sluice_test_path("fifo"));
}

TEST(read_refuses_a_file_that_is_not_as_long_as_it_says)
{
    /* Files of proc are regular, say that they are empty, and are not. */
    struct sluice_buf *buf = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_file_read("/proc/self/status", 1 << 20, NULL, &buf, &err), SLUICE_E_IO);
    CU_ASSERT_PTR_NULL(buf);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "changed"));
}

TEST(write_creates_and_replaces_and_leaves_nothing_beside)
{
    char folder[1024], path[1100];
    snprintf(folder, sizeof(folder), "%s", sluice_test_path("replace"));
    snprintf(path, sizeof(path), "%s/file", folder);
    CU_ASSERT_EQUAL_FATAL(mkdir(folder, 0700), 0);
    const mode_t mask = umask(0027);
    CHECK_OK(sluice_file_write_atomic(path, "first", 5, NULL));
    umask(mask);
    struct stat st;
    CU_ASSERT_EQUAL(stat(path, &st), 0);
    CU_ASSERT_EQUAL(st.st_mode & 0777, 0640);
    expect_content(path, "first");
    num_interrupts = 1;
    const int before = num_fsyncs;
    CHECK_OK(sluice_file_write_atomic(path, "second one", 10, NULL));
    CU_ASSERT_EQUAL(num_fsyncs, before + 2); /* the file and its folder */
    expect_content(path, "second one");
    CHECK_OK(sluice_file_write_atomic(path, NULL, 0, NULL));
    expect_content(path, "");
    CU_ASSERT_EQUAL(count_entries(folder), 1);
}

TEST(write_works_without_a_folder_in_the_path)
{
    char old[1024];
    CU_ASSERT_PTR_NOT_NULL_FATAL(getcwd(old, sizeof(old)));
    CU_ASSERT_EQUAL_FATAL(chdir(sluice_test_dir()), 0);
    CHECK_OK(sluice_file_write_atomic("bare", "b", 1, NULL));
    expect_content("bare", "b");
    CU_ASSERT_EQUAL_FATAL(chdir(old), 0);
}

TEST(a_failed_write_leaves_the_old_file_and_nothing_beside)
{
    char folder[1024], path[1100];
    snprintf(folder, sizeof(folder), "%s", sluice_test_path("full"));
    snprintf(path, sizeof(path), "%s/file", folder);
    CU_ASSERT_EQUAL_FATAL(mkdir(folder, 0700), 0);
    CHECK_OK(sluice_file_write_atomic(path, "old", 3, NULL));
    for (size_t room = 0; room < 3; room++) {
        struct sluice_err err = {0};
        write_room = room;
        const sluice_status status = sluice_file_write_atomic(path, "new", 3, &err);
        write_room = SIZE_MAX;
        CU_ASSERT_EQUAL(status, SLUICE_E_IO);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, strerror(ENOSPC)));
        expect_content(path, "old");
        CU_ASSERT_EQUAL(count_entries(folder), 1);
    }

    /* A folder cannot be replaced by a file: the rename fails. */
    char sub[1100];
    snprintf(sub, sizeof(sub), "%s/sub", folder);
    CU_ASSERT_EQUAL_FATAL(mkdir(sub, 0700), 0);
    CU_ASSERT_EQUAL(sluice_file_write_atomic(sub, "x", 1, NULL), SLUICE_E_IO);
    CU_ASSERT_EQUAL(count_entries(folder), 2);

    CU_ASSERT_EQUAL(sluice_file_write_atomic(sluice_test_path("none/file"), "x", 1, NULL),
                    SLUICE_E_NOT_FOUND);
    char *long_path = malloc(10000);
    if (!long_path)
        abort();
    memset(long_path, 'x', 9999);
    long_path[9999] = 0;
    CU_ASSERT_EQUAL(sluice_file_write_atomic(long_path, "x", 1, NULL), SLUICE_E_INVALID);
    free(long_path);
}

TEST(write_replaces_a_link_and_not_what_it_points_to)
{
    char link_path[1024];
    snprintf(link_path, sizeof(link_path), "%s", sluice_test_path("link"));
    sluice_test_write_file(sluice_test_path("target"), "target", 6);
    CU_ASSERT_EQUAL_FATAL(symlink("target", link_path), 0);
    CHECK_OK(sluice_file_write_atomic(link_path, "new", 3, NULL));
    expect_content(link_path, "new");
    expect_content(sluice_test_path("target"), "target");
}

enum { NUM_WRITES = 30, BLOCK = 20000 };
static char race_path[1024];
static atomic_int num_writers;

static void *write_often(void *arg)
{
    uint8_t *data = malloc(BLOCK);
    if (!data)
        abort();
    memset(data, *(const char *)arg, BLOCK);
    for (int i = 0; i < NUM_WRITES; i++) {
        if (sluice_file_write_atomic(race_path, data, BLOCK, NULL) != SLUICE_OK)
            abort();
    }
    free(data);
    atomic_fetch_sub(&num_writers, 1);
    return NULL;
}

TEST(a_reader_sees_one_whole_version_or_another)
{
    static const char letters[2] = {'a', 'b'};
    pthread_t threads[2];
    snprintf(race_path, sizeof(race_path), "%s", sluice_test_path("raced"));
    uint8_t first[BLOCK];
    memset(first, 'a', BLOCK);
    REQUIRE_OK(sluice_file_write_atomic(race_path, first, BLOCK, NULL));
    atomic_store(&num_writers, 2);
    for (int i = 0; i < 2; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, write_often, (void *)&letters[i]),
                              0);
    do {
        struct sluice_buf *buf = NULL;
        REQUIRE_OK(sluice_file_read(race_path, BLOCK, NULL, &buf, NULL));
        CU_ASSERT_EQUAL(buf->len, BLOCK);
        for (size_t i = 1; i < buf->len; i++)
            CU_ASSERT_EQUAL_FATAL(buf->data[i], buf->data[0]);
        sluice_buf_unref(buf);
    } while (atomic_load(&num_writers) > 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

TEST(mkdirs_makes_what_is_missing)
{
    static const char *const names[] = {"m/a/b/c", "m/a/b/c", "m/d/", "m//e//f", "m"};
    struct stat st;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(names); i++) {
        CHECK_OK(sluice_mkdirs(sluice_test_path(names[i]), NULL));
        CU_ASSERT(stat(sluice_test_path(names[i]), &st) == 0 && S_ISDIR(st.st_mode));
    }
    CHECK_OK(sluice_mkdirs("/", NULL));
    CHECK_OK(sluice_mkdirs(".", NULL));
}

TEST(mkdirs_names_what_is_in_the_way)
{
    sluice_test_write_file(sluice_test_path("in-the-way"), "x", 1);
    CHECK_FAILS(SLUICE_E_IO, "in-the-way",
                sluice_mkdirs(sluice_test_path("in-the-way"), sluice_test_err()));
    CU_ASSERT_EQUAL(sluice_mkdirs(sluice_test_path("in-the-way/below"), NULL), SLUICE_E_IO);
    CU_ASSERT_EQUAL(sluice_mkdirs("", NULL), SLUICE_E_INVALID);
}

static void print_number(FILE *out, const void *ctx)
{
    fprintf(out, "number %d\n", *(const int *)ctx);
}

TEST(print_atomic_writes_what_was_printed)
{
    const char *path = sluice_test_path("printed.txt");
    const int number = 42;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_file_print_atomic(path, print_number, &number, &err));
    size_t len;
    uint8_t *bytes = sluice_test_read_file(path, &len);
    CU_ASSERT_EQUAL_FATAL(len, 10);
    CU_ASSERT_EQUAL(memcmp(bytes, "number 42\n", 10), 0);
    free(bytes);
    CU_ASSERT_EQUAL(sluice_file_print_atomic("/nonexistent/x", print_number, &number, &err),
                    SLUICE_E_NOT_FOUND);
}

TEST(reads_parts_to_their_places)
{
    const char *path = sluice_test_path("parts.bin");
    sluice_test_write_file(path, "0123456789", 10);
    const int fd = open(path, O_RDONLY);
    CU_ASSERT_FATAL(fd >= 0);
    struct sluice_buf *buf = NULL;
    const struct sluice_file_part parts[] = {{0, 2}, {4, 4}, {7, 10}};
    REQUIRE_OK(sluice_file_read_parts(fd, 0, 10, parts, 3, NULL, NULL, &buf, NULL));
    CU_ASSERT_EQUAL(buf->len, 10);
    CU_ASSERT(memcmp(buf->data, "01", 2) == 0 && memcmp(buf->data + 7, "789", 3) == 0);
    sluice_buf_unref(buf);
    const struct sluice_file_part inner[] = {{0, 1}, {3, 4}};
    REQUIRE_OK(sluice_file_read_parts(fd, 5, 4, inner, 2, NULL, NULL, &buf, NULL));
    CU_ASSERT_EQUAL(buf->len, 4);
    CU_ASSERT(buf->data[0] == '5' && buf->data[3] == '8');
    sluice_buf_unref(buf);
    /* Outside, backwards, and behind the end of a file that is shorter than was said. */
    const struct sluice_file_part wrong[] = {{0, 11}, {5, 4}, {0, 12}};
    for (int i = 0; i < 3; i++) {
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(
            sluice_file_read_parts(fd, 0, i < 2 ? 10 : 12, &wrong[i], 1, NULL, NULL, &buf, &err),
            i < 2 ? SLUICE_E_INVALID : SLUICE_E_IO);
        CU_ASSERT(err.text[0] != '\0');
    }
    close(fd);
}

TEST(read_range_reads_its_bytes_alone)
{
    const char *path = sluice_test_path("range.bin");
    sluice_test_write_file(path, "0123456789", 10);
    struct sluice_buf *buf = NULL;
    struct stat st = {0};
    REQUIRE_OK(sluice_file_read_range(path, 6, 4, 4, NULL, &buf, &st, NULL));
    CU_ASSERT(buf->len == 4 && memcmp(buf->data, "6789", 4) == 0);
    CU_ASSERT_EQUAL(st.st_size, 10);
    sluice_buf_unref(buf);
    buf = NULL;
    static const struct {
        uint64_t offset, len;
        sluice_status status;
    } wrong[] = {
        {7, 4, SLUICE_E_STALE},
        {11, 0, SLUICE_E_STALE},
        {UINT64_MAX, 2, SLUICE_E_STALE},
        {0, 5, SLUICE_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(
            sluice_file_read_range(path, wrong[i].offset, wrong[i].len, 4, NULL, &buf, NULL, &err),
            wrong[i].status);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "range.bin"));
        CU_ASSERT_PTR_NULL(buf);
    }
    CU_ASSERT_EQUAL(sluice_file_read_range(sluice_test_dir(), 0, 1, 4, NULL, &buf, NULL, NULL),
                    SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_file_read_range("/no/such", 0, 1, 4, NULL, &buf, NULL, NULL),
                    SLUICE_E_NOT_FOUND);
}

struct turns {
    unsigned num_takes, num_gives;
};

static size_t take(void *ctx)
{
    struct turns *turns = ctx;
    CU_ASSERT_EQUAL(turns->num_takes++, turns->num_gives);
    return 3;
}

static void give(void *ctx)
{
    struct turns *turns = ctx;
    CU_ASSERT_EQUAL(++turns->num_gives, turns->num_takes);
}

TEST(every_read_of_a_part_is_a_turn)
{
    const char *path = sluice_test_path("turns.bin");
    sluice_test_write_file(path, "0123456789", 10);
    const int fd = open(path, O_RDONLY);
    CU_ASSERT_FATAL(fd >= 0);
    struct sluice_buf *buf = NULL;
    struct turns seen = {0};
    const struct sluice_file_turns turns = {take, give, &seen};
    const struct sluice_file_part parts[] = {{0, 2}, {4, 4}, {5, 10}};
    REQUIRE_OK(sluice_file_read_parts(fd, 0, 10, parts, 3, &turns, NULL, &buf, NULL));
    CU_ASSERT_EQUAL(seen.num_takes, 3); /* of 2, 3 and 2 bytes */
    CU_ASSERT(memcmp(buf->data, "01", 2) == 0 && memcmp(buf->data + 5, "56789", 5) == 0);
    sluice_buf_unref(buf);
    /* One that fails gives its turn back too. */
    const struct sluice_file_part behind = {10, 12};
    CU_ASSERT_EQUAL(sluice_file_read_parts(fd, 0, 12, &behind, 1, &turns, NULL, &buf, NULL),
                    SLUICE_E_IO);
    CU_ASSERT_EQUAL(seen.num_gives, 4);
    close(fd);
}

TEST(path_in_joins_and_refuses_what_is_too_long)
{
    char path[SLUICE_MAX_PATH_BYTES], name[SLUICE_MAX_PATH_BYTES];
    REQUIRE_OK(sluice_path_in("a/b", "c", path, NULL));
    CU_ASSERT_STRING_EQUAL(path, "a/b/c");
    memset(name, 'n', sizeof(name));
    name[SLUICE_MAX_PATH_BYTES - 3] = '\0';
    CHECK_OK(sluice_path_in("f", name, path, NULL));
    CU_ASSERT_EQUAL(strlen(path), SLUICE_MAX_PATH_BYTES - 1);
    CHECK_FAILS(SLUICE_E_INVALID, "ff/nnn", sluice_path_in("ff", name, path, sluice_test_err()));
}

TEST(try_tells_what_a_write_would_meet)
{
    char beside[320];
    const char *path = sluice_test_path("tried");
    CHECK_OK(sluice_file_try_atomic(path, NULL));
    CU_ASSERT_EQUAL(access(path, F_OK), -1); /* it is a trial alone */

    /* A process that lives no more, and this one. */
    const pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    CU_ASSERT_EQUAL(waitpid(gone, NULL, 0), gone);
    const pid_t owners[] = {gone, getpid()};
    for (int i = 0; i < 2; i++) {
        snprintf(beside, sizeof(beside), "%s.tmp-%ld-3", path, (long)owners[i]);
        CHECK_OK(sluice_file_write_atomic(beside, "half", 4, NULL));
    }
    CHECK_OK(sluice_file_try_atomic(path, NULL));
    for (int i = 0; i < 2; i++) {
        snprintf(beside, sizeof(beside), "%s.tmp-%ld-3", path, (long)owners[i]);
        CU_ASSERT_EQUAL(access(beside, F_OK), i == 0 ? -1 : 0);
    }

    CHECK_FAILS(SLUICE_E_INVALID, "/dev/null: not a regular file",
                sluice_file_try_atomic("/dev/null", sluice_test_err()));
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "/nonexist/x",
                sluice_file_try_atomic("/nonexist/x", sluice_test_err()));
}

TEST(what_is_no_file_stays_and_is_written_to)
{
    char path[1024], got[8] = "";
    snprintf(path, sizeof(path), "%s/pipe", sluice_test_dir());
    CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
    const int fd = open(path, O_RDONLY | O_NONBLOCK);
    CU_ASSERT_FATAL(fd >= 0);
    CHECK_OK(sluice_file_write_atomic(path, "text", 4, NULL));
    CU_ASSERT_EQUAL(read(fd, got, sizeof(got)), 4);
    CU_ASSERT_STRING_EQUAL(got, "text");
    struct stat st;
    CU_ASSERT(stat(path, &st) == 0 && S_ISFIFO(st.st_mode));
    close(fd);
}

TEST(a_folder_has_files_unless_all_are_hidden)
{
    char path[1000];
    const char *folder = sluice_test_path("new");
    CU_ASSERT_FALSE(sluice_folder_has_files(folder));
    REQUIRE_OK(sluice_mkdirs(folder, NULL));
    CU_ASSERT_FALSE(sluice_folder_has_files(folder));
    snprintf(path, sizeof(path), "%s/.hidden", folder);
    sluice_test_write_file(path, "a", 1);
    CU_ASSERT_FALSE(sluice_folder_has_files(folder));
    snprintf(path, sizeof(path), "%s/seen", folder);
    sluice_test_write_file(path, "a", 1);
    CU_ASSERT_TRUE(sluice_folder_has_files(folder));
    CU_ASSERT_EQUAL(unlink(path), 0);
    has_bad_folder = true;
    CU_ASSERT_TRUE(sluice_folder_has_files(folder));
    has_bad_folder = false;
}

/* 0: descriptors 0 to 2 are /dev/null where they were closed, and the next file gets another. */
static int begin_with_closed_descriptors(void *ctx)
{
    const unsigned closed = *(const unsigned *)ctx; /* a bit for each */
    struct stat null, st;
    if (stat("/dev/null", &null) != 0)
        return 1;
    for (int fd = 0; fd < 3; fd++) {
        if (closed >> fd & 1)
            close(fd);
        else if (fcntl(fd, F_GETFD) < 0)
            return 2;
    }
    sluice_open_standard_descriptors();
    for (int fd = 0; fd < 3; fd++) {
        if (fstat(fd, &st) != 0)
            return 3;
        if ((closed >> fd & 1) && (st.st_rdev != null.st_rdev || !S_ISCHR(st.st_mode)))
            return 4;
    }
    return open("/dev/null", O_RDONLY) > 2 ? 0 : 5;
}

TEST(closed_standard_descriptors_are_opened)
{
    for (unsigned closed = 0; closed < 8; closed++) {
        struct sluice_test_output output;
        const int status = sluice_test_child(begin_with_closed_descriptors, &closed, &output);
        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}
