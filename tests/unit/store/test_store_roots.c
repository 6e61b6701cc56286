#include "store/store_roots.h"

#include "base/buf.h"
#include "conformance.h"
#include "store/open.h"
#include "support/test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned world_number;

/* folder/key in this test's world. */
static const char *in_world(const char *folder, const char *key)
{
    static char path[4][1024];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[0]), "%s/world%u/%s/%s", sluice_test_dir(), world_number,
             folder, key);
    return path[turn];
}

static void put(const char *folder, const char *key, const void *data, size_t len)
{
    static int64_t seconds = 1000000000;
    for (const char *slash = key; (slash = strchr(slash, '/')); slash++) {
        char parent[256];
        snprintf(parent, sizeof(parent), "%.*s", (int)(slash - key), key);
        mkdir(in_world(folder, parent), 0700);
    }
    sluice_test_write_file(in_world(folder, key), data, len);
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    seconds++;
    CU_ASSERT_EQUAL(utimensat(AT_FDCWD, in_world(folder, key), times, 0), 0);
}

static bool is_slow;

static size_t take_turn(void *ctx)
{
    (void)ctx;
    return is_slow ? 1 : SIZE_MAX;
}

static void give_turn(void *ctx)
{
    (void)ctx;
}

/* A new world; the roots are called as their folders. */
static struct sluice_store *open_roots(const char *const *names, size_t num)
{
    const struct sluice_file_turns turn = {take_turn, give_turn, NULL};
    const struct sluice_file_turns turns[] = {turn, turn, turn};
    world_number++;
    is_slow = false;
    char world[1024], texts[4][1200];
    const char *given[4];
    snprintf(world, sizeof(world), "%s/world%u", sluice_test_dir(), world_number);
    mkdir(world, 0700);
    for (size_t i = 0; i < num; i++) {
        mkdir(in_world(names[i], ""), 0700);
        snprintf(texts[i], sizeof(texts[i]), "%s=%s", names[i], in_world(names[i], ""));
        given[i] = texts[i];
    }
    struct sluice_roots roots;
    struct sluice_store *store = NULL;
    const struct sluice_store_options options = {.max_object_bytes = CONFORMANCE_MAX_BYTES};
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_roots_parse(given, num, &roots, &err));
    if (sluice_store_open_roots(&options, &roots, turns, &store, &err) != SLUICE_OK)
        CU_FAIL_FATAL(err.text);
    return store;
}

/* --- what every store promises: of the paths in one of the roots --- */

struct narrowed {
    struct sluice_store store, *roots;
    char path[1100];
};

static struct narrowed *narrowed_of(struct sluice_store *store)
{
    return SLUICE_CONTAINER_OF(store, struct narrowed, store);
}

static void add_root(char path[1100], const char *key)
{
    snprintf(path, 1100, "left/%s", key);
}

struct listing {
    sluice_object_fn *fn;
    void *ctx;
};

static sluice_status strip(void *ctx, const struct sluice_object *object, struct sluice_err *err)
{
    const struct listing *listing = ctx;
    struct sluice_object stripped = *object;
    CU_ASSERT_EQUAL_FATAL(strncmp(object->key, "left/", 5), 0);
    stripped.key += 5;
    return listing->fn(listing->ctx, &stripped, err);
}

static sluice_status narrowed_list(struct sluice_store *store, const char *prefix,
                                   sluice_object_fn *fn, void *ctx, struct sluice_err *err)
{
    struct sluice_store *roots = narrowed_of(store)->roots;
    struct listing listing = {fn, ctx};
    char path[1100];
    add_root(path, prefix);
    return roots->list(roots, path, strip, &listing, err);
}

static sluice_status narrowed_describe(struct sluice_store *store, const char *key,
                                       struct sluice_object *object, struct sluice_err *err)
{
    struct sluice_store *roots = narrowed_of(store)->roots;
    char path[1100];
    add_root(path, key);
    const sluice_status status = roots->describe(roots, path, object, err);
    if (status == SLUICE_OK) {
        CU_ASSERT_PTR_EQUAL(object->key, path);
        object->key = key;
    }
    return status;
}

static sluice_status narrowed_read(struct sluice_store *store, const struct sluice_store_read *read,
                                   struct sluice_buf **file, struct sluice_err *err)
{
    struct sluice_store *roots = narrowed_of(store)->roots;
    struct sluice_store_read named = *read;
    char path[1100];
    add_root(path, read->key);
    named.key = path;
    return roots->read(roots, &named, file, err);
}

static void narrowed_cancel(struct sluice_store *store, const void *owner)
{
    struct sluice_store *roots = narrowed_of(store)->roots;
    roots->cancel(roots, owner);
}

static void narrowed_limits(struct sluice_store *store, struct sluice_store_limits *limits)
{
    struct sluice_store *roots = narrowed_of(store)->roots;
    roots->limits(roots, limits);
}

static const char *narrowed_relative(struct sluice_store *store, const char *path)
{
    struct narrowed *n = narrowed_of(store);
    add_root(n->path, path);
    const char *relative = n->roots->relative(n->roots, n->path);
    return relative ? relative + 5 : NULL;
}

static uint64_t narrowed_refused(struct sluice_store *store)
{
    struct sluice_store *roots = narrowed_of(store)->roots;
    return roots->refused(roots);
}

static void narrowed_destroy(struct sluice_store *store)
{
    struct narrowed *n = narrowed_of(store);
    n->roots->destroy(n->roots);
    free(n);
}

static struct sluice_store *open_world(void)
{
    struct narrowed *n = calloc(1, sizeof(*n));
    CU_ASSERT_PTR_NOT_NULL_FATAL(n);
    n->roots = open_roots((const char *const[]){"lef", "left", "left-over"}, 3);
    n->store = (struct sluice_store){
        .list = narrowed_list,
        .describe = narrowed_describe,
        .read = narrowed_read,
        .cancel = narrowed_cancel,
        .limits = narrowed_limits,
        .relative = narrowed_relative,
        .refused = narrowed_refused,
        .destroy = narrowed_destroy,
    };
    return &n->store;
}

static void put_left(const char *key, const void *data, size_t len)
{
    put("left", key, data, len);
}

static void remove_left(const char *key)
{
    CU_ASSERT_EQUAL(unlink(in_world("left", key)), 0);
}

static void slow_down(const char *key)
{
    (void)key;
    is_slow = true;
}

/* --- several at once --- */

static char listed[400];

static sluice_status note(void *ctx, const struct sluice_object *object, struct sluice_err *err)
{
    (void)ctx, (void)err;
    strncat(listed, object->key, sizeof(listed) - strlen(listed) - 1);
    strncat(listed, " ", sizeof(listed) - strlen(listed) - 1);
    return SLUICE_OK;
}

static const char *list(struct sluice_store *store, const char *prefix)
{
    listed[0] = '\0';
    CHECK_OK(store->list(store, prefix, note, NULL, NULL));
    return listed;
}

TEST(the_first_part_of_a_path_names_the_store)
{
    struct sluice_store *store = open_roots((const char *const[]){"a", "a-b", "c"}, 3);
    put("a", "x/1.jpg", "one", 3);
    put("a-b", "x/1.jpg", "other", 5);
    put("c", "2.jpg", "two", 3);
    CU_ASSERT_STRING_EQUAL(list(store, ""), "a-b/x/1.jpg a/x/1.jpg c/2.jpg ");
    CU_ASSERT_STRING_EQUAL(list(store, "a"), "a-b/x/1.jpg a/x/1.jpg ");
    CU_ASSERT_STRING_EQUAL(list(store, "a/x"), "a/x/1.jpg ");
    CU_ASSERT_STRING_EQUAL(list(store, "c/x"), "");
    static const struct {
        const char *key, *bytes;
    } files[] = {{"a/x/1.jpg", "one"}, {"a-b/x/1.jpg", "other"}, {"c/2.jpg", "two"}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(files); i++) {
        struct sluice_buf *buf = NULL;
        const struct sluice_store_read read = {.key = files[i].key};
        REQUIRE_OK(store->read(store, &read, &buf, NULL));
        CU_ASSERT(buf->len == strlen(files[i].bytes) &&
                  memcmp(buf->data, files[i].bytes, buf->len) == 0);
        sluice_buf_unref(buf);
        CU_ASSERT_PTR_EQUAL(store->relative(store, files[i].key), files[i].key);
    }
    store->destroy(store);
}

TEST(another_first_part_is_not_found_and_ways_out_are_refused)
{
    struct sluice_store *store = open_roots((const char *const[]){"a", "b"}, 2);
    put("b", "1.jpg", "one", 3);
    static const struct {
        const char *key;
        sluice_status status;
    } cases[] = {
        {"c/1.jpg", SLUICE_E_NOT_FOUND}, {"1.jpg", SLUICE_E_NOT_FOUND},
        {"b", SLUICE_E_NOT_FOUND},       {"..", SLUICE_E_INVALID},
        {"/b/1.jpg", SLUICE_E_INVALID},  {"a/../../b/1.jpg", SLUICE_E_INVALID},
        {"c/../b", SLUICE_E_INVALID},
    };
    uint64_t refused = 0;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_buf *buf = NULL;
        struct sluice_object object;
        const struct sluice_store_read read = {.key = cases[i].key};
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(store->read(store, &read, &buf, &err), cases[i].status);
        CU_ASSERT(err.text[0] && !buf);
        CU_ASSERT_NOT_EQUAL(store->describe(store, cases[i].key, &object, NULL), SLUICE_OK);
        CU_ASSERT_EQUAL(store->relative(store, cases[i].key) == NULL,
                        cases[i].status == SLUICE_E_INVALID);
        refused += cases[i].status == SLUICE_E_INVALID ? 3 : 0;
    }
    CU_ASSERT_EQUAL(store->refused(store), refused);
    CU_ASSERT_PTR_NULL(store->relative(store, "b//etc/passwd"));
    CU_ASSERT_EQUAL(store->refused(store), refused + 1);
    CU_ASSERT_STRING_EQUAL(store->relative(store, ".//b/1.jpg"), "b/1.jpg");
    store->destroy(store);
}

/* As by itself: what is gone is IO for its paths alone. */
TEST(a_root_that_is_gone_takes_no_other_with_it)
{
    struct sluice_store *store = open_roots((const char *const[]){"a", "b"}, 2);
    put("a", "1.jpg", "one", 3);
    put("b", "1.jpg", "one", 3);
    const struct sluice_store_known of_a = {.path = "a/1.jpg", .bytes = 3},
                                    of_b = {.path = "b/1.jpg", .bytes = 3};
    CHECK_OK(store->look(store, &of_a, NULL));
    CU_ASSERT_EQUAL(unlink(in_world("b", "1.jpg")), 0);
    CU_ASSERT_EQUAL(rmdir(in_world("b", "")), 0);
    CHECK_OK(store->look(store, &of_a, NULL));
    CHECK_FAILS(SLUICE_E_IO, "/b", store->look(store, &of_b, sluice_test_err()));
    struct sluice_buf *buf = NULL;
    CU_ASSERT_EQUAL(store->read(store, &(struct sluice_store_read){.key = "b/1.jpg"}, &buf, NULL),
                    SLUICE_E_IO);
    REQUIRE_OK(store->read(store, &(struct sluice_store_read){.key = "a/1.jpg"}, &buf, NULL));
    sluice_buf_unref(buf);
    CU_ASSERT_EQUAL(store->look(store, &(struct sluice_store_known){.path = "c/."}, NULL),
                    SLUICE_E_NOT_FOUND);
    store->destroy(store);
}

/* --- members that note what they are asked --- */

static struct sluice_store fakes[2];
static unsigned num_destroyed;
static const void *cancelled[2];

static void fake_cancel(struct sluice_store *store, const void *owner)
{
    cancelled[store - fakes] = owner;
}

static void fake_limits(struct sluice_store *store, struct sluice_store_limits *limits)
{
    static const struct sluice_store_limits of[] = {{100, 0, 2, false}, {50, 7, 64, true}};
    *limits = of[store - fakes];
}

static void fake_destroy(struct sluice_store *store)
{
    (void)store;
    num_destroyed++;
}

TEST(limits_hold_for_each_and_cancel_reaches_all)
{
    struct sluice_store *store = NULL;
    for (int i = 0; i < 2; i++)
        fakes[i] = (struct sluice_store){
            .cancel = fake_cancel, .limits = fake_limits, .destroy = fake_destroy};
    REQUIRE_OK(sluice_store_roots_create((const char *const[]){"a", "b"},
                                         (struct sluice_store *const[]){&fakes[0], &fakes[1]}, 2,
                                         &store, NULL));
    struct sluice_store_limits limits;
    store->limits(store, &limits);
    CU_ASSERT(limits.max_object_bytes == 50 && limits.merge_gap_bytes == 7 &&
              limits.parallel_reads == 64 && limits.is_remote);
    CU_ASSERT_PTR_NULL(store->look); /* no member has one */
    store->cancel(store, &num_destroyed);
    CU_ASSERT(cancelled[0] == &num_destroyed && cancelled[1] == &num_destroyed);
    CU_ASSERT_PTR_EQUAL(sluice_store_roots_member(store, "b"), &fakes[1]);
    CU_ASSERT_PTR_NULL(sluice_store_roots_member(store, "c"));
    CU_ASSERT_PTR_NULL(sluice_store_roots_member(&fakes[0], "a"));
    store->destroy(store);
    CU_ASSERT_EQUAL(num_destroyed, 2);
}

TEST(a_root_that_is_not_there_is_named)
{
    struct sluice_roots roots;
    char there[1100], missing[1100];
    snprintf(there, sizeof(there), "a=%s", sluice_test_dir());
    snprintf(missing, sizeof(missing), "b=%s/nowhere", sluice_test_dir());
    REQUIRE_OK(sluice_roots_parse((const char *const[]){there, missing}, 2, &roots, NULL));
    struct sluice_store *store = NULL;
    const struct sluice_store_options options = {.max_object_bytes = 10};
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "/nowhere",
                sluice_store_open_roots(&options, &roots, NULL, &store, sluice_test_err()));
    CU_ASSERT_PTR_NULL(store);
}

static const struct conformance_world one_of_three = {
    .open = open_world, .put = put_left, .remove = remove_left, .slow_down = slow_down};

int main(void)
{
    conformance_use(&one_of_three);
    return sluice_test_main();
}
