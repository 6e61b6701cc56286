#include "conformance.h"

#include "base/buf.h"
#include "base/text.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const struct conformance_world *world;

void conformance_use(const struct conformance_world *used_world)
{
    world = used_world;
}

/* Bytes that differ from place to place and from seed to seed. */
static void make_bytes(uint8_t *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 251 + seed * 97 + 1);
}

static void put(const char *key, size_t len, unsigned seed)
{
    static uint8_t bytes[2 * CONFORMANCE_MAX_BYTES];
    make_bytes(bytes, len, seed);
    world->put(key, bytes, len);
}

/* --- lists --- */

struct seen {
    struct sluice_object objects[8];
    char keys[8][64];
    size_t num;
};

static sluice_status see(void *ctx, const struct sluice_object *object, struct sluice_err *err)
{
    struct seen *seen = ctx;
    if (seen->num == SLUICE_ARRAY_LEN(seen->objects))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "enough");
    (void)sluice_print(seen->keys[seen->num], sizeof(seen->keys[0]), "%s", object->key);
    seen->objects[seen->num] = *object;
    seen->num++;
    return SLUICE_OK;
}

static struct seen list(struct sluice_store *store, const char *prefix)
{
    struct seen seen = {.num = 0};
    struct sluice_err err = {0};
    const sluice_status status = store->list(store, prefix, see, &seen, &err);
    if (status != SLUICE_OK)
        printf("list %s: %s\n", prefix, err.text);
    REQUIRE_OK(status);
    return seen;
}

/* In an order in which "a.b" comes between "a-b" and "a/b". */
static const char *const keys[] = {"a b+c%.jpg", "a-b.jpg",   "a.b.jpg",
                                   "a/b.jpg",    "a/c/d.jpg", "\xc3\xa4.jpg"};

static void put_keys(void)
{
    for (size_t i = SLUICE_ARRAY_LEN(keys); i-- > 0;)
        put(keys[i], 100 + i, (unsigned)i);
}

TEST(conformance_lists_keys_in_order_with_lengths_and_versions)
{
    struct sluice_store *store = world->open();
    put_keys();
    const struct seen seen = list(store, "");
    CU_ASSERT_EQUAL_FATAL(seen.num, SLUICE_ARRAY_LEN(keys));
    for (size_t i = 0; i < seen.num; i++) {
        struct sluice_object object;
        CU_ASSERT_STRING_EQUAL(seen.keys[i], keys[i]);
        CU_ASSERT_EQUAL(seen.objects[i].bytes, 100 + i);
        REQUIRE_OK(store->describe(store, keys[i], &object, NULL));
        CU_ASSERT_EQUAL(object.version, seen.objects[i].version);
        CU_ASSERT_NOT_EQUAL(object.version, 0);
    }
    store->destroy(store);
}

static sluice_status refuse(void *ctx, const struct sluice_object *object, struct sluice_err *err)
{
    (void)ctx, (void)object;
    return sluice_fail(err, SLUICE_E_UNSUPPORTED, "enough");
}

TEST(conformance_lists_by_prefix_and_nothing)
{
    struct sluice_store *store = world->open();
    CU_ASSERT_EQUAL(list(store, "").num, 0);
    put_keys();
    CU_ASSERT_EQUAL(list(store, "a/").num, 2);
    CU_ASSERT_EQUAL(list(store, "a").num, 5);
    CU_ASSERT_EQUAL(list(store, "b").num, 0);
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "enough",
                store->list(store, "", refuse, NULL, sluice_test_err()));
    store->destroy(store);
}

TEST(conformance_describes_an_object)
{
    struct sluice_store *store = world->open();
    struct sluice_object object = {.bytes = 7};
    struct sluice_store_limits limits;
    put("a/b.jpg", 1234, 1);
    REQUIRE_OK(store->describe(store, "a/b.jpg", &object, NULL));
    CU_ASSERT_STRING_EQUAL(object.key, "a/b.jpg");
    CU_ASSERT_EQUAL(object.bytes, 1234);
    store->limits(store, &limits);
    CU_ASSERT(limits.is_remote ? object.version < 0 : object.version > 0);
    CU_ASSERT_EQUAL(limits.max_object_bytes, CONFORMANCE_MAX_BYTES);
    CU_ASSERT(limits.parallel_reads > 0);
    store->destroy(store);
}

TEST(conformance_versions_change_with_the_content)
{
    struct sluice_store *store = world->open();
    struct sluice_object first, second;
    put("a.jpg", 100, 1);
    REQUIRE_OK(store->describe(store, "a.jpg", &first, NULL));
    REQUIRE_OK(store->describe(store, "a.jpg", &second, NULL));
    CU_ASSERT_EQUAL(first.version, second.version);
    put("a.jpg", 100, 2);
    REQUIRE_OK(store->describe(store, "a.jpg", &second, NULL));
    CU_ASSERT_NOT_EQUAL(first.version, second.version);
    store->destroy(store);
}

/* --- reads --- */

static sluice_status read_object(struct sluice_store *store, const struct sluice_store_read *read,
                                 struct sluice_buf **buf, struct sluice_err *err)
{
    const sluice_status status = store->read(store, read, buf, err);
    if (status != SLUICE_OK)
        CU_ASSERT(err->text[0] != '\0' && !strstr(err->text, read->key));
    return status;
}

/* The bytes [from, to) of what `put` made of this seed, which stand at `buf`'s begin + from. */
static void check_bytes(const struct sluice_buf *buf, size_t offset, size_t from, size_t to,
                        unsigned seed)
{
    static uint8_t bytes[2 * CONFORMANCE_MAX_BYTES];
    make_bytes(bytes, offset + to, seed);
    CU_ASSERT_EQUAL(memcmp(buf->data + from, bytes + offset + from, to - from), 0);
}

static void expect_failure(struct sluice_store *store, const struct sluice_store_read *read,
                           sluice_status expected)
{
    struct sluice_buf *buf = NULL;
    struct sluice_err err = {0};
    const sluice_status status = read_object(store, read, &buf, &err);
    if (status != expected)
        printf("%s: %s (%s)\n", read->key, sluice_status_name(status), err.text);
    CU_ASSERT_EQUAL(status, expected);
    CU_ASSERT_PTR_NULL(buf);
}

static void expect_whole(struct sluice_store *store, const struct sluice_store_read *read,
                         size_t len, unsigned seed)
{
    struct sluice_buf *buf = NULL;
    struct sluice_err err = {0};
    const sluice_status status = read_object(store, read, &buf, &err);
    if (status != SLUICE_OK)
        printf("%s: %s\n", read->key, err.text);
    REQUIRE_OK(status);
    CU_ASSERT_EQUAL_FATAL(buf->len, len);
    check_bytes(buf, (size_t)read->offset, 0, len, seed);
    sluice_buf_unref(buf);
}

/* A read of an object as it is listed now. */
static struct sluice_store_read listed(struct sluice_store *store, const char *key)
{
    struct sluice_object object;
    REQUIRE_OK(store->describe(store, key, &object, NULL));
    return (struct sluice_store_read){.key = key, .bytes = object.bytes, .version = object.version};
}

TEST(conformance_reads_whole_objects)
{
    struct sluice_store *store = world->open();
    static const size_t lengths[] = {1, 2, 1000, CONFORMANCE_MAX_BYTES};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(lengths); i++) {
        put("a/b c.jpg", lengths[i], (unsigned)i);
        expect_whole(store, &(struct sluice_store_read){.key = "a/b c.jpg"}, lengths[i],
                     (unsigned)i);
        const struct sluice_store_read read = listed(store, "a/b c.jpg");
        expect_whole(store, &read, lengths[i], (unsigned)i);
    }
    store->destroy(store);
}

struct choice {
    struct sluice_file_part parts[SLUICE_STORE_MAX_PARTS];
    unsigned num_parts, num_calls;
    uint64_t len;
    int64_t version;
    sluice_status status;
    void (*act)(void); /* what happens between opening and reading */
};

static sluice_status choose(void *ctx, uint64_t len, int64_t version,
                            struct sluice_file_part *parts, unsigned *num_parts,
                            struct sluice_err *err)
{
    struct choice *choice = ctx;
    choice->num_calls++;
    choice->len = len;
    choice->version = version;
    if (choice->act)
        choice->act();
    if (choice->status != SLUICE_OK)
        return sluice_fail(err, choice->status, "not that one");
    if (choice->num_parts) {
        memcpy(parts, choice->parts, sizeof(choice->parts));
        *num_parts = choice->num_parts;
    }
    return SLUICE_OK;
}

TEST(conformance_reads_the_parts_that_are_chosen)
{
    struct sluice_store *store = world->open();
    put("a.jpg", 5000, 3);
    struct sluice_store_read read = listed(store, "a.jpg");
    struct choice choice = {.num_parts = 3, .parts = {{0, 10}, {100, 1100}, {4990, 5000}}};
    read.choose = choose;
    read.ctx = &choice;
    for (int is_listed = 0; is_listed < 2; is_listed++) {
        struct sluice_buf *buf = NULL;
        struct sluice_err err = {0};
        const int64_t version = read.version;
        read.version = is_listed ? version : 0;
        choice.num_calls = 0;
        REQUIRE_OK(read_object(store, &read, &buf, &err));
        read.version = version;
        CU_ASSERT_EQUAL(choice.num_calls, 1);
        CU_ASSERT_EQUAL(choice.len, 5000);
        CU_ASSERT_EQUAL(choice.version, version);
        CU_ASSERT_EQUAL(buf->len, 5000);
        for (unsigned i = 0; i < choice.num_parts; i++)
            check_bytes(buf, 0, choice.parts[i].from, choice.parts[i].to, 3);
        sluice_buf_unref(buf);
    }
    /* A part that is none. */
    choice.parts[2].to = 5001;
    expect_failure(store, &read, SLUICE_E_INVALID);
    store->destroy(store);
}

TEST(conformance_reads_ranges_and_parts_of_them)
{
    struct sluice_store *store = world->open();
    put("x.tar", 2 * CONFORMANCE_MAX_BYTES, 4); /* the limit is of a range, not of its object */
    struct sluice_store_read read = listed(store, "x.tar");
    read.offset = 512;
    read.bytes = 1000;
    expect_whole(store, &read, 1000, 4);
    read.offset = 2 * CONFORMANCE_MAX_BYTES - 7;
    read.bytes = 7;
    expect_whole(store, &read, 7, 4);
    struct choice choice = {.num_parts = 2, .parts = {{0, 3}, {500, 600}}};
    struct sluice_buf *buf = NULL;
    struct sluice_err err = {0};
    read = (struct sluice_store_read){.key = "x.tar",
                                      .offset = 70000,
                                      .bytes = 1000,
                                      .version = read.version,
                                      .choose = choose,
                                      .ctx = &choice};
    REQUIRE_OK(read_object(store, &read, &buf, &err));
    CU_ASSERT_EQUAL(choice.len, 1000);
    CU_ASSERT_EQUAL(buf->len, 1000);
    check_bytes(buf, 70000, 0, 3, 4);
    check_bytes(buf, 70000, 500, 600, 4);
    sluice_buf_unref(buf);
    store->destroy(store);
}

TEST(conformance_names_what_is_missing)
{
    struct sluice_store *store = world->open();
    struct sluice_object object = {.bytes = 7};
    struct sluice_err err = {0};
    put("a/b.jpg", 10, 1);
    struct sluice_store_read read = listed(store, "a/b.jpg");
    CU_ASSERT_EQUAL(store->describe(store, "a/c.jpg", &object, &err), SLUICE_E_NOT_FOUND);
    CU_ASSERT_EQUAL(object.bytes, 7);
    CU_ASSERT(err.text[0] != '\0');
    expect_failure(store, &(struct sluice_store_read){.key = "a/c.jpg"}, SLUICE_E_NOT_FOUND);
    world->remove("a/b.jpg");
    expect_failure(store, &read, SLUICE_E_NOT_FOUND);
    expect_failure(store, &(struct sluice_store_read){.key = "z/z/z"}, SLUICE_E_NOT_FOUND);
    store->destroy(store);
}

TEST(conformance_refuses_and_counts_ways_out_of_the_root)
{
    static const char *const out[] = {"../secret.jpg", "a/../../secret.jpg", "/etc/passwd", ".."};
    struct sluice_store *store = world->open();
    put("a/b.jpg", 10, 1);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(out); i++) {
        expect_failure(store, &(struct sluice_store_read){.key = out[i]}, SLUICE_E_INVALID);
        CU_ASSERT_EQUAL(store->refused(store), i + 1);
    }
    CU_ASSERT_PTR_NULL(store->relative(store, "/etc/passwd"));
    CU_ASSERT_PTR_NULL(store->relative(store, "a/../../b"));
    CU_ASSERT_EQUAL(store->refused(store), SLUICE_ARRAY_LEN(out) + 2);
    CU_ASSERT_STRING_EQUAL(store->relative(store, "a/b.jpg"), "a/b.jpg");
    store->destroy(store);
}

TEST(conformance_names_empty_and_huge_objects)
{
    struct sluice_store *store = world->open();
    put("empty.jpg", 0, 0);
    put("huge.jpg", CONFORMANCE_MAX_BYTES + 1, 0);
    struct sluice_store_read empty = listed(store, "empty.jpg"), huge = listed(store, "huge.jpg");
    CU_ASSERT_EQUAL(empty.bytes, 0);
    expect_failure(store, &empty, SLUICE_E_CORRUPT);
    expect_failure(store, &(struct sluice_store_read){.key = "empty.jpg"}, SLUICE_E_CORRUPT);
    expect_failure(store, &huge, SLUICE_E_UNSUPPORTED);
    expect_failure(store, &(struct sluice_store_read){.key = "huge.jpg"}, SLUICE_E_UNSUPPORTED);
    store->destroy(store);
}

TEST(conformance_whoever_chooses_may_refuse)
{
    struct sluice_store *store = world->open();
    put("a.jpg", 10, 1);
    put("empty.jpg", 0, 1);
    struct choice choice = {.status = SLUICE_E_STALE};
    expect_failure(store,
                   &(struct sluice_store_read){.key = "a.jpg", .choose = choose, .ctx = &choice},
                   SLUICE_E_STALE);
    expect_failure(
        store, &(struct sluice_store_read){.key = "empty.jpg", .choose = choose, .ctx = &choice},
        SLUICE_E_STALE);
    CU_ASSERT_EQUAL(choice.num_calls, 2);
    store->destroy(store);
}

/* --- objects that change --- */

static void replace(void)
{
    put("a.jpg", 3000, 6);
}

static void cut(void)
{
    put("a.jpg", 1500, 5);
}

/* What happens between the object's opening and its reading is seen, in parts and as a whole. */
static void expect_stale(void (*act)(void))
{
    for (int case_ = 0; case_ < 4; case_++) {
        struct sluice_store *store = world->open();
        put("a.jpg", 3000, 5);
        struct choice choice = {.act = act};
        if (case_ & 1) {
            choice.num_parts = 2;
            choice.parts[0] = (struct sluice_file_part){0, 10};
            choice.parts[1] = (struct sluice_file_part){1000, 2000};
        }
        struct sluice_store_read read = {.key = "a.jpg"};
        if (case_ & 2)
            read = listed(store, "a.jpg");
        read.choose = choose;
        read.ctx = &choice;
        struct sluice_buf *buf = NULL;
        struct sluice_err err = {0};
        const sluice_status status = read_object(store, &read, &buf, &err);
        /* A file that ends early is an error of reading it. */
        CU_ASSERT(status == SLUICE_E_STALE || (act == cut && status == SLUICE_E_IO));
        CU_ASSERT_PTR_NULL(buf);
        CU_ASSERT_EQUAL(choice.num_calls, 1);
        store->destroy(store);
    }
}

TEST(conformance_an_object_that_changes_is_stale)
{
    expect_stale(replace);
    /* And one that has changed since it was listed, where the version tells. */
    struct sluice_store *store = world->open();
    struct sluice_store_limits limits;
    put("a.jpg", 3000, 5);
    const struct sluice_store_read read = listed(store, "a.jpg");
    replace();
    store->limits(store, &limits);
    if (limits.is_remote)
        expect_failure(store, &read, SLUICE_E_STALE);
    else
        expect_whole(store, &read, 3000, 6);
    store->destroy(store);
}

TEST(conformance_an_object_that_is_cut_is_stale)
{
    expect_stale(cut);
}

TEST(conformance_a_range_beyond_the_end_is_stale)
{
    struct sluice_store *store = world->open();
    put("x.tar", 2000, 5);
    struct sluice_store_read read = listed(store, "x.tar");
    static const uint64_t beyond[][2] = {{1500, 501}, {2000, 1}, {5000, 10}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(beyond); i++) {
        read.offset = beyond[i][0];
        read.bytes = beyond[i][1];
        expect_failure(store, &read, SLUICE_E_STALE);
        const struct sluice_store_read unlisted = {
            .key = "x.tar", .offset = beyond[i][0], .bytes = beyond[i][1]};
        expect_failure(store, &unlisted, SLUICE_E_STALE);
    }
    store->destroy(store);
}

/* --- many, slow and broken --- */

#define NUM_READERS 8
#define NUM_READS 20

struct reader {
    pthread_t thread;
    struct sluice_store *store;
    unsigned number, num_good;
};

/* CUnit's assertions are for one thread. */
static void *read_some(void *ctx)
{
    struct reader *reader = ctx;
    for (unsigned i = 0; i < NUM_READS; i++) {
        static const char *const names[] = {"0.jpg", "1.jpg", "2.jpg", "3.jpg"};
        const unsigned seed = (reader->number + i) % 4;
        const size_t len = 1000 + 5000 * seed;
        uint8_t *bytes = malloc(len);
        struct sluice_buf *buf = NULL;
        if (!bytes)
            abort();
        make_bytes(bytes, len, seed);
        if (reader->store->read(reader->store, &(struct sluice_store_read){.key = names[seed]},
                                &buf, NULL) == SLUICE_OK)
            reader->num_good += buf->len == len && memcmp(buf->data, bytes, len) == 0;
        sluice_buf_unref(buf);
        free(bytes);
    }
    return NULL;
}

TEST(conformance_reads_many_at_once)
{
    struct sluice_store *store = world->open();
    struct reader readers[NUM_READERS];
    put("0.jpg", 1000, 0);
    put("1.jpg", 6000, 1);
    put("2.jpg", 11000, 2);
    put("3.jpg", 16000, 3);
    for (unsigned i = 0; i < NUM_READERS; i++) {
        readers[i] = (struct reader){.store = store, .number = i};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&readers[i].thread, NULL, read_some, &readers[i]), 0);
    }
    for (unsigned i = 0; i < NUM_READERS; i++) {
        pthread_join(readers[i].thread, NULL);
        CU_ASSERT_EQUAL(readers[i].num_good, NUM_READS);
    }
    store->destroy(store);
}

TEST(conformance_reads_what_comes_slowly)
{
    struct sluice_store *store = world->open();
    put("slow.jpg", 200, 7);
    world->slow_down("slow.jpg");
    expect_whole(store, &(struct sluice_store_read){.key = "slow.jpg"}, 200, 7);
    store->destroy(store);
}

TEST(conformance_a_body_that_breaks_off_is_read_again_or_an_error)
{
    if (!world->break_off)
        return;
    struct sluice_store *store = world->open();
    put("a.jpg", 3000, 8);
    struct sluice_store_read read = listed(store, "a.jpg");
    world->break_off("a.jpg", 2);
    expect_whole(store, &read, 3000, 8);
    world->break_off("a.jpg", 1000);
    expect_failure(store, &read, SLUICE_E_IO);
    world->break_off("a.jpg", 0);
    expect_whole(store, &read, 3000, 8);
    store->destroy(store);
}

struct hanging {
    pthread_t thread;
    struct sluice_store *store;
    struct sluice_store_read read;
    sluice_status status;
};

static void *read_hanging(void *ctx)
{
    struct hanging *hanging = ctx;
    struct sluice_buf *buf = NULL;
    hanging->status = hanging->store->read(hanging->store, &hanging->read, &buf, NULL);
    sluice_buf_unref(buf);
    return NULL;
}

TEST(conformance_cancel_ends_the_reads_of_one_owner)
{
    struct sluice_store *store = world->open();
    int ours, theirs; /* owners by their addresses */
    put("a.jpg", 3000, 9);
    store->cancel(store, &ours); /* nothing runs */
    struct sluice_store_read read = listed(store, "a.jpg");
    read.owner = &ours;
    expect_whole(store, &read, 3000, 9);
    if (world->hang) {
        struct hanging hanging = {.store = store, .read = read, .status = SLUICE_OK};
        world->hang("a.jpg");
        CU_ASSERT_EQUAL_FATAL(pthread_create(&hanging.thread, NULL, read_hanging, &hanging), 0);
        world->wait_for_hang();
        store->cancel(store, &theirs);
        put("b.jpg", 10, 1);
        expect_whole(store, &(struct sluice_store_read){.key = "b.jpg", .owner = &theirs}, 10, 1);
        store->cancel(store, &ours);
        pthread_join(hanging.thread, NULL);
        CU_ASSERT_EQUAL(hanging.status, SLUICE_E_CLOSED);
        world->hang(NULL);
        expect_whole(store, &read, 3000, 9);
    }
    store->destroy(store);
}
