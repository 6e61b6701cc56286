#include "store/store.h"

#include "base/buf.h"
#include "conformance.h"
#include "support/test.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* A gate that counts. */
static unsigned num_takes, num_gives;

static size_t take_turn(void *ctx)
{
    (void)ctx;
    CU_ASSERT_EQUAL(num_takes++, num_gives);
    return 5;
}

static void give_turn(void *ctx)
{
    (void)ctx;
    CU_ASSERT_EQUAL(++num_gives, num_takes);
}

static bool is_never_cached(int fd, uint64_t from, uint64_t to)
{
    CU_ASSERT(fd >= 0 && from <= to);
    return false;
}

/* Every test runs twice: with openat2, and with the walk of systems that lack it. */
static bool avoid_openat2;

static void make_tree(void)
{
    sluice_test_write_file(sluice_test_path("secret.jpg"), "secret", 6);
    mkdir(sluice_test_path("outside"), 0700);
    sluice_test_write_file(sluice_test_path("outside/secret.jpg"), "secret", 6);
    mkdir(sluice_test_path("root"), 0700);
    mkdir(sluice_test_path("root/a"), 0700);
    mkdir(sluice_test_path("root/a/b"), 0700);
    mkdir(sluice_test_path("root/a/folder.jpg"), 0700);
    sluice_test_write_file(sluice_test_path("root/top.jpg"), "top", 3);
    sluice_test_write_file(sluice_test_path("root/a/one.jpg"), "one", 3);
    sluice_test_write_file(sluice_test_path("root/a/b/two.jpg"), "two!", 4);
    sluice_test_write_file(sluice_test_path("root/empty.jpg"), "", 0);
    sluice_test_write_file(sluice_test_path("root/big.jpg"), "0123456789ABCDEFG", 17);
    mkfifo(sluice_test_path("root/fifo.jpg"), 0600);

    static const char *const links[][2] = {
        {"a/one.jpg", "root/link.jpg"},
        {"../top.jpg", "root/a/up.jpg"},
        {"a/b", "root/folder_link"},
        {"../../a/./b/../one.jpg", "root/a/b/around.jpg"},
        {"../secret.jpg", "root/out.jpg"},
        {"..", "root/out_folder"},
        {"a/../../root/top.jpg", "root/out_and_in.jpg"},
        {"/etc/passwd", "root/absolute.jpg"},
        {"circle_b.jpg", "root/circle_a.jpg"},
        {"circle_a.jpg", "root/circle_b.jpg"},
        {"nothing.jpg", "root/dangling.jpg"},
        {"/proc/self/root/etc/passwd", "root/magic.jpg"},
    };
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        if (symlink(links[i][0], sluice_test_path(links[i][1])) != 0) {
            perror(links[i][1]);
            exit(1);
        }
    }
}

static struct sluice_store *open_store(void)
{
    const struct sluice_store_file_options options = {
        .root = sluice_test_path("root/"),
        .max_file_bytes = 16,
        .avoid_openat2 = avoid_openat2,
    };
    struct sluice_store *store = NULL;
    REQUIRE_OK(sluice_store_file_open(&options, &store, NULL));
    return store;
}

static sluice_status read_key(struct sluice_store *store, const char *key, struct sluice_buf **file,
                              struct sluice_err *err)
{
    return store->read(store, &(struct sluice_store_read){.key = key}, file, err);
}

static void expect_bytes(struct sluice_store *store, const char *path, const char *bytes)
{
    struct sluice_buf *file = NULL;
    struct sluice_err err = {0};
    const sluice_status status = read_key(store, path, &file, &err);
    if (status != SLUICE_OK)
        printf("%s: %s\n", path, err.text);
    REQUIRE_OK(status);
    CU_ASSERT_EQUAL(file->len, strlen(bytes));
    CU_ASSERT(memcmp(file->data, bytes, file->len) == 0);
    sluice_buf_unref(file);
}

static void expect_failure(struct sluice_store *store, const char *path, sluice_status expected)
{
    struct sluice_buf *file = NULL;
    struct sluice_err err = {0};
    const sluice_status status = read_key(store, path, &file, &err);
    if (status != expected)
        printf("%s: %s (%s)\n", path, sluice_status_name(status), err.text);
    CU_ASSERT_EQUAL(status, expected);
    CU_ASSERT_PTR_NULL(file);
    CU_ASSERT(err.text[0] != '\0');
}

TEST(reads_files_and_links_that_stay_beneath)
{
    struct sluice_store *store = open_store();
    expect_bytes(store, "top.jpg", "top");
    expect_bytes(store, "a/one.jpg", "one");
    expect_bytes(store, "a//b/./two.jpg", "two!");
    expect_bytes(store, "a/b/../one.jpg", "one");
    expect_bytes(store, "link.jpg", "one");
    expect_bytes(store, "a/up.jpg", "top");
    expect_bytes(store, "folder_link/two.jpg", "two!");
    expect_bytes(store, "folder_link/../one.jpg", "one");
    expect_bytes(store, "folder_link/around.jpg", "one");
    CU_ASSERT_EQUAL(store->refused(store), 0);
    store->destroy(store);
}

TEST(refuses_and_counts_what_leads_out_of_the_root)
{
    static const char *const paths[] = {
        "../secret.jpg",
        "..",
        "a/../../secret.jpg",
        "a/b/../../../outside/secret.jpg",
        "folder_link/../../../secret.jpg",
        "/etc/passwd",
        "out.jpg",
        "out_folder/secret.jpg",
        "out_folder/root/top.jpg",
        "out_and_in.jpg",
        "absolute.jpg",
        "magic.jpg",
        "circle_a.jpg",
    };
    struct sluice_store *store = open_store();
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        expect_failure(store, paths[i], SLUICE_E_INVALID);
        CU_ASSERT_EQUAL(store->refused(store), i + 1);
    }
    store->destroy(store);
}

TEST(reads_regular_files_only)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", sluice_test_path("root/socket.jpg"));
    unlink(address.sun_path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CU_ASSERT_EQUAL(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);

    struct sluice_store *store = open_store();
    expect_failure(store, "fifo.jpg", SLUICE_E_UNSUPPORTED); /* and does not wait for a writer */
    expect_failure(store, "socket.jpg", SLUICE_E_UNSUPPORTED);
    expect_failure(store, "a/folder.jpg", SLUICE_E_UNSUPPORTED);
    expect_failure(store, "a/b/", SLUICE_E_UNSUPPORTED);
    expect_failure(store, ".", SLUICE_E_UNSUPPORTED);
    expect_failure(store, "a/..", SLUICE_E_UNSUPPORTED);
    CU_ASSERT_EQUAL(store->refused(store), 0);
    store->destroy(store);
    close(fd);
}

TEST(names_missing_empty_and_large_files)
{
    struct sluice_store *store = open_store();
    expect_failure(store, "nothing.jpg", SLUICE_E_NOT_FOUND);
    expect_failure(store, "dangling.jpg", SLUICE_E_NOT_FOUND);
    expect_failure(store, "top.jpg/x", SLUICE_E_NOT_FOUND);
    expect_failure(store, "nothing/x.jpg", SLUICE_E_NOT_FOUND);
    expect_failure(store, "", SLUICE_E_NOT_FOUND);
    char *long_path = malloc(9001);
    memset(long_path, 'x', 9000);
    long_path[9000] = '\0';
    expect_failure(store, long_path, SLUICE_E_NOT_FOUND);
    free(long_path);
    expect_failure(store, "empty.jpg", SLUICE_E_CORRUPT);
    expect_failure(store, "big.jpg", SLUICE_E_UNSUPPORTED);
    store->destroy(store);
}

TEST(relative_strips_the_root_and_refuses_other_absolute_paths)
{
    struct sluice_store *store = open_store();
    CU_ASSERT_STRING_EQUAL(store->relative(store, "a/one.jpg"), "a/one.jpg");
    CU_ASSERT_STRING_EQUAL(store->relative(store, ".//./a/one.jpg"), "a/one.jpg");
    CU_ASSERT_STRING_EQUAL(store->relative(store, sluice_test_path("root/a/one.jpg")), "a/one.jpg");
    CU_ASSERT_STRING_EQUAL(store->relative(store, sluice_test_path("root//top.jpg")), "top.jpg");
    CU_ASSERT_EQUAL(store->refused(store), 0);
    CU_ASSERT_PTR_NULL(store->relative(store, "/etc/passwd"));
    CU_ASSERT_PTR_NULL(store->relative(store, sluice_test_path("secret.jpg")));
    CU_ASSERT_PTR_NULL(store->relative(store, sluice_test_path("root_of_others/top.jpg")));
    CU_ASSERT_EQUAL(store->refused(store), 3);
    CU_ASSERT_PTR_NULL(store->relative(store, sluice_test_path("root/../secret.jpg")));
    CU_ASSERT_PTR_NULL(store->relative(store, "../secret.jpg"));
    CU_ASSERT_PTR_NULL(store->relative(store, "a/.."));
    CU_ASSERT_EQUAL(store->refused(store), 6);
    CU_ASSERT_STRING_EQUAL(store->relative(store, "..a/b..jpg"), "..a/b..jpg");
    /* Text alone: reading is what confines. */
    expect_failure(store, "../secret.jpg", SLUICE_E_INVALID);
    store->destroy(store);
}

struct choice {
    unsigned num_calls, num_parts;
    struct sluice_file_part parts[SLUICE_STORE_MAX_PARTS];
    uint64_t len;
    int64_t mtime_ns;
    sluice_status status;
};

static sluice_status choose(void *ctx, uint64_t len, int64_t mtime_ns,
                            struct sluice_file_part *parts, unsigned *num_parts,
                            struct sluice_err *err)
{
    struct choice *choice = ctx;
    choice->num_calls++;
    if (choice->status != SLUICE_OK)
        return sluice_fail(err, choice->status, "not that one");
    choice->len = len;
    choice->mtime_ns = mtime_ns;
    memcpy(parts, choice->parts, sizeof(choice->parts));
    *num_parts = choice->num_parts;
    return SLUICE_OK;
}

static sluice_status read_chosen(struct sluice_store *store, const char *key, struct choice *choice,
                                 struct sluice_buf **file, struct sluice_err *err)
{
    const struct sluice_store_read read = {.key = key, .choose = choose, .ctx = choice};
    return store->read(store, &read, file, err);
}

TEST(reads_the_parts_that_are_chosen_by_length_and_time)
{
    struct sluice_store *store = open_store();
    struct choice choice = {.num_parts = 2, .parts = {{0, 1}, {2, 4}}};
    struct sluice_buf *file = NULL;
    struct stat st;
    REQUIRE_OK(read_chosen(store, "a/b/two.jpg", &choice, &file, NULL));
    CU_ASSERT_EQUAL_FATAL(stat(sluice_test_path("root/a/b/two.jpg"), &st), 0);
    CU_ASSERT_EQUAL(choice.num_calls, 1);
    CU_ASSERT_EQUAL(choice.len, 4);
    CU_ASSERT_EQUAL(choice.mtime_ns, (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
    CU_ASSERT_EQUAL(file->len, 4);
    CU_ASSERT(file->data[0] == 't' && file->data[2] == 'o' && file->data[3] == '!');
    sluice_buf_unref(file);
    /* Refused before anybody is asked, and a part that is none. */
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(read_chosen(store, "out.jpg", &choice, &file, &err), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(choice.num_calls, 1);
    CU_ASSERT_EQUAL(read_chosen(store, "empty.jpg", &choice, &file, &err), SLUICE_E_CORRUPT);
    choice.parts[1].to = 5;
    CU_ASSERT_EQUAL(read_chosen(store, "a/b/two.jpg", &choice, &file, &err), SLUICE_E_INVALID);
    /* Whoever chooses may refuse, also a file that is empty. */
    choice.status = SLUICE_E_STALE;
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(read_chosen(store, "empty.jpg", &choice, &file, &err), SLUICE_E_STALE);
    CU_ASSERT_STRING_EQUAL(err.text, "not that one");
    store->destroy(store);
}

TEST(reads_a_range_as_if_it_were_the_file)
{
    struct sluice_store *store = open_store();
    sluice_test_write_file(sluice_test_path("root/shard.tar"), "0123456789abcdefghijklmnopqrst",
                           30);
    struct choice choice = {.num_parts = 2, .parts = {{0, 1}, {9, 10}}};
    struct sluice_store_read read = {.key = "shard.tar", .offset = 20, .bytes = 10};
    struct sluice_buf *file = NULL;
    /* The limit of 16 bytes is the range's, not the shard's. */
    REQUIRE_OK(store->read(store, &read, &file, NULL));
    CU_ASSERT(file->len == 10 && memcmp(file->data, "klmnopqrst", 10) == 0);
    sluice_buf_unref(file);
    read.choose = choose;
    read.ctx = &choice;
    REQUIRE_OK(store->read(store, &read, &file, NULL));
    CU_ASSERT_EQUAL(choice.len, 10);
    CU_ASSERT(file->len == 10 && file->data[0] == 'k' && file->data[9] == 't');
    sluice_buf_unref(file);

    file = NULL;
    read.choose = NULL;
    static const struct {
        uint64_t offset, bytes;
        sluice_status status;
    } wrong[] = {
        {20, 11, SLUICE_E_STALE},      {31, 0, SLUICE_E_STALE},  {UINT64_MAX, 2, SLUICE_E_STALE},
        {2, 17, SLUICE_E_UNSUPPORTED}, {2, 0, SLUICE_E_CORRUPT},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct sluice_err err = {0};
        read.offset = wrong[i].offset;
        read.bytes = wrong[i].bytes;
        CU_ASSERT_EQUAL(store->read(store, &read, &file, &err), wrong[i].status);
        CU_ASSERT(err.text[0] != '\0');
        CU_ASSERT_PTR_NULL(file);
    }
    store->destroy(store);
}

TEST(files_that_are_not_cached_are_read_in_turns)
{
    sluice_test_write_file(sluice_test_path("root/hole.jpg"), "", 0);
    CU_ASSERT_EQUAL_FATAL(truncate(sluice_test_path("root/hole.jpg"), 13), 0); /* never read */
    const struct sluice_store_file_options options = {
        .root = sluice_test_path("root"),
        .max_file_bytes = 16,
        .turns = {take_turn, give_turn, NULL},
        .is_cached = is_never_cached,
        .avoid_openat2 = avoid_openat2,
    };
    struct sluice_store *store = NULL;
    REQUIRE_OK(sluice_store_file_open(&options, &store, NULL));
    num_takes = num_gives = 0;
    struct sluice_buf *file = NULL;
    REQUIRE_OK(read_key(store, "hole.jpg", &file, NULL));
    CU_ASSERT_EQUAL(file->len, 13);
    CU_ASSERT_EQUAL(memcmp(file->data, (const char[13]){0}, 13), 0);
    sluice_buf_unref(file);
    /* Three reads; the name, where the system cannot say that it is in memory. */
    CU_ASSERT(num_takes == 3 || num_takes == 4);
    CU_ASSERT_EQUAL(num_gives, num_takes);
    num_takes = num_gives = 0;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(read_key(store, "out.jpg", &file, &err), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(store->refused(store), 1);
    CU_ASSERT_EQUAL(num_gives, num_takes);
    store->destroy(store);
}

TEST(a_missing_root_is_named)
{
    struct sluice_store *store = NULL;
    const struct sluice_store_file_options options = {.root = "/no/such/root"};
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_store_file_open(&options, &store, &err), SLUICE_E_NOT_FOUND);
    CU_ASSERT_PTR_NULL(store);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/no/such/root"));
}

/* --- a root that goes --- */

static const struct sluice_store_known known = {.path = "a/one.jpg", .bytes = 3};

static sluice_status look(struct sluice_store *store)
{
    struct sluice_err err = {0};
    const sluice_status status = store->look(store, &known, &err);
    CU_ASSERT_EQUAL(status == SLUICE_OK, err.text[0] == '\0');
    CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_IO);
    return status;
}

static void copy_root(const char *name, const char *content)
{
    char path[600];
    mkdir(sluice_test_path(name), 0700);
    snprintf(path, sizeof(path), "%s/a", name);
    mkdir(sluice_test_path(path), 0700);
    snprintf(path, sizeof(path), "%s/a/one.jpg", name);
    sluice_test_write_file(sluice_test_path(path), content, strlen(content));
}

TEST(a_root_that_was_moved_is_read_and_looked_for)
{
    struct sluice_store *store = open_store();
    CHECK_OK(look(store));
    CU_ASSERT_EQUAL_FATAL(rename(sluice_test_path("root"), sluice_test_path("moved")), 0);
    CU_ASSERT_EQUAL(look(store), SLUICE_E_IO);
    expect_bytes(store, "a/one.jpg", "one");
    /* What is missing there says nothing about the data. */
    expect_failure(store, "a/none.jpg", SLUICE_E_IO);
    /* Another folder in its place, be it as good, is another dataset while the first one lives. */
    copy_root("root", "two");
    CU_ASSERT_EQUAL(look(store), SLUICE_E_IO);
    expect_bytes(store, "a/one.jpg", "one");
    CU_ASSERT_EQUAL_FATAL(rename(sluice_test_path("root"), sluice_test_path("copy")), 0);
    CU_ASSERT_EQUAL_FATAL(rename(sluice_test_path("moved"), sluice_test_path("root")), 0);
    CHECK_OK(look(store));
    expect_failure(store, "a/none.jpg", SLUICE_E_NOT_FOUND);
    store->destroy(store);
}

TEST(a_folder_with_the_known_sample_takes_the_place_of_one_that_is_gone)
{
    copy_root("first", "one");
    copy_root("second", "short"); /* of another length */
    copy_root("third", "new");
    const struct sluice_store_file_options options = {
        .root = sluice_test_path("first"), .max_file_bytes = 16, .avoid_openat2 = avoid_openat2};
    struct sluice_store *store = NULL;
    REQUIRE_OK(sluice_store_file_open(&options, &store, NULL));
    unlink(sluice_test_path("first/a/one.jpg"));
    rmdir(sluice_test_path("first/a"));
    CU_ASSERT_EQUAL_FATAL(rmdir(sluice_test_path("first")), 0);
    CU_ASSERT_EQUAL(look(store), SLUICE_E_IO);
    expect_failure(store, "a/one.jpg", SLUICE_E_IO);
    CU_ASSERT_EQUAL_FATAL(rename(sluice_test_path("second"), sluice_test_path("first")), 0);
    CU_ASSERT_EQUAL(look(store), SLUICE_E_IO);
    expect_failure(store, "a/one.jpg", SLUICE_E_IO);
    CU_ASSERT_EQUAL_FATAL(rename(sluice_test_path("first"), sluice_test_path("second")), 0);
    CU_ASSERT_EQUAL_FATAL(rename(sluice_test_path("third"), sluice_test_path("first")), 0);
    CHECK_OK(look(store));
    expect_bytes(store, "a/one.jpg", "new");
    store->destroy(store);
}

TEST(a_known_member_of_a_shard_must_fit_in_it)
{
    struct sluice_store *store = open_store();
    sluice_test_write_file(sluice_test_path("root/known.tar"), "0123456789", 10);
    CU_ASSERT_EQUAL_FATAL(rename(sluice_test_path("root"), sluice_test_path("held")), 0);
    mkdir(sluice_test_path("root"), 0700);
    sluice_test_write_file(sluice_test_path("root/known.tar"), "0123456789", 10);
    const struct sluice_store_known fits = {.path = "known.tar", .offset = 4, .bytes = 6};
    const struct sluice_store_known sticks_out = {.path = "known.tar", .offset = 5, .bytes = 6};
    /* The held folder has it: the other one is another dataset.  Once it has not, the other is. */
    CU_ASSERT_EQUAL(store->look(store, &fits, NULL), SLUICE_E_IO);
    CU_ASSERT_EQUAL_FATAL(unlink(sluice_test_path("held/known.tar")), 0);
    CU_ASSERT_EQUAL(store->look(store, &sticks_out, NULL), SLUICE_E_IO);
    CHECK_OK(store->look(store, &fits, NULL));
    expect_bytes(store, "known.tar", "0123456789");
    store->destroy(store);
    CU_ASSERT_EQUAL_FATAL(unlink(sluice_test_path("root/known.tar")), 0);
    CU_ASSERT_EQUAL_FATAL(rmdir(sluice_test_path("root")), 0);
    CU_ASSERT_EQUAL_FATAL(rename(sluice_test_path("held"), sluice_test_path("root")), 0);
}

/* --- what every store promises --- */

static unsigned world_number;
static bool is_slow;

static const char *in_world(const char *key)
{
    static char path[1024];
    snprintf(path, sizeof(path), "%s/world%u/%s", sluice_test_dir(), world_number, key);
    return path;
}

static size_t take_one(void *ctx)
{
    (void)ctx;
    return is_slow ? 1 : SIZE_MAX;
}

static void give_one(void *ctx)
{
    (void)ctx;
}

static struct sluice_store *open_world(void)
{
    world_number++;
    is_slow = false;
    mkdir(in_world(""), 0700);
    const char *root = in_world("");
    const struct sluice_store_file_options options = {
        .root = root,
        .max_file_bytes = CONFORMANCE_MAX_BYTES,
        .turns = {take_one, give_one, NULL},
        .avoid_openat2 = avoid_openat2,
    };
    struct sluice_store *store = NULL;
    REQUIRE_OK(sluice_store_file_open(&options, &store, NULL));
    return store;
}

/* In place, as the descriptor that is open is to see it; the time of change always moves on. */
static void put_file(const char *key, const void *data, size_t len)
{
    static int64_t seconds = 1000000000;
    for (const char *slash = key; (slash = strchr(slash, '/')); slash++) {
        char folder[256];
        snprintf(folder, sizeof(folder), "%.*s", (int)(slash - key), key);
        mkdir(in_world(folder), 0700);
    }
    sluice_test_write_file(in_world(key), data, len);
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    seconds++;
    CU_ASSERT_EQUAL(utimensat(AT_FDCWD, in_world(key), times, 0), 0);
}

static void remove_file(const char *key)
{
    CU_ASSERT_EQUAL(unlink(in_world(key)), 0);
}

static void slow_down(const char *key)
{
    (void)key;
    is_slow = true;
}

static const struct conformance_world folder = {
    .open = open_world, .put = put_file, .remove = remove_file, .slow_down = slow_down};

int main(int argc, char **argv)
{
    conformance_use(&folder);
    avoid_openat2 = argc > 1 && strcmp(argv[1], "walk") == 0;
    make_tree();
    return sluice_test_main();
}
