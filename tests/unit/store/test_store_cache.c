#include "store/store_cache.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "conformance.h"
#include "store/cache_file.h"
#include "store/open.h"
#include "web_server.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- a store that counts what it is asked for --- */

#define NUM_OBJECTS 400
#define LEN 10000

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sluice_store store;
    int64_t versions[NUM_OBJECTS];
    uint64_t bytes;
    unsigned reads, num_held;
    bool holds, fails;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static uint8_t byte_of(unsigned object, int64_t version, size_t at)
{
    return (uint8_t)(object * 31 + at * 7 + at / 256 + (uint64_t)version * 101);
}

/* Waits while reads are held.  Under the lock. */
static void hold(void)
{
    fake.num_held++;
    pthread_cond_broadcast(&fake.changed);
    while (fake.holds)
        pthread_cond_wait(&fake.changed, &fake.lock);
    fake.num_held--;
}

static sluice_status fake_read(struct sluice_store *store, const struct sluice_store_read *read,
                               struct sluice_buf **out, struct sluice_err *err)
{
    (void)store;
    const unsigned object = (unsigned)atoi(read->key);
    struct sluice_file_part parts[SLUICE_STORE_MAX_PARTS] = {{0, LEN}};
    unsigned num_parts = 1;
    pthread_mutex_lock(&fake.lock);
    const int64_t version = fake.versions[object];
    pthread_mutex_unlock(&fake.lock);
    sluice_status status = SLUICE_OK;
    if (read->choose)
        status = read->choose(read->ctx, LEN, version, parts, &num_parts, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_buf *buf = NULL;
    if (sluice_buf_create(read->pool, LEN, &buf, err) != SLUICE_OK)
        abort();
    buf->len = LEN;
    memset(buf->data, 0xee, LEN);
    for (unsigned i = 0; i < num_parts; i++) {
        for (size_t at = parts[i].from; at < parts[i].to; at++)
            buf->data[at] = byte_of(object, version, at);
    }
    pthread_mutex_lock(&fake.lock);
    for (unsigned i = 0; i < num_parts; i++)
        fake.bytes += parts[i].to - parts[i].from;
    fake.reads += num_parts > 0;
    if (num_parts)
        hold();
    const bool fails = fake.fails && num_parts;
    pthread_mutex_unlock(&fake.lock);
    if (fails) {
        sluice_buf_unref(buf);
        return sluice_fail(err, SLUICE_E_IO, "as told");
    }
    *out = buf;
    return SLUICE_OK;
}

static void fake_cancel(struct sluice_store *store, const void *owner)
{
    (void)store, (void)owner;
}

static void fake_limits(struct sluice_store *store, struct sluice_store_limits *limits)
{
    (void)store;
    *limits = (struct sluice_store_limits){LEN, 100, 8, true};
}

static void fake_destroy(struct sluice_store *store)
{
    (void)store;
}

/* --- a cache over it --- */

static char folder[SLUICE_MAX_PATH_BYTES];

/* Bytes of all files beneath the folder, in blocks, and how many there are. */
static uint64_t files_of(const char *path, unsigned *num, char *last)
{
    uint64_t bytes = 0;
    DIR *dir = opendir(path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char inner[SLUICE_MAX_PATH_BYTES];
        struct stat st;
        if (entry->d_name[0] == '.' ||
            !sluice_print(inner, sizeof(inner), "%s/%s", path, entry->d_name) ||
            stat(inner, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode)) {
            bytes += files_of(inner, num, last);
        } else if (st.st_size) {
            bytes += ((uint64_t)st.st_size + 4095) / 4096 * 4096;
            ++*num;
            if (last)
                memcpy(last, inner, sizeof(inner));
        }
    }
    closedir(dir);
    return bytes;
}

static void empty_cache(void)
{
    char file[SLUICE_MAX_PATH_BYTES];
    for (unsigned num = 0; files_of(folder, &num, file) > 0; num = 0)
        unlink(file);
}

/* One for all tests, as its 256 folders take a disk a while. */
static void name_folder(void)
{
    REQUIRE_OK(sluice_path_in(sluice_test_dir(), "cache", folder, NULL));
    REQUIRE_OK(sluice_store_cache_prepare(folder, NULL));
    empty_cache();
}

static struct sluice_store *open_over(struct sluice_store *under, uint64_t max_bytes)
{
    struct sluice_store *store = NULL;
    struct sluice_err err = {0};
    const struct sluice_store_cache_options options = {folder, max_bytes};
    const sluice_status status = sluice_store_cache_open(&options, under, &store, &err);
    if (status != SLUICE_OK)
        printf("%s\n", err.text);
    REQUIRE_OK(status);
    return store;
}

/* The same folder again, over the fake store. */
static struct sluice_store *reopen_cache(uint64_t max_bytes)
{
    fake.store = (struct sluice_store){
        .read = fake_read, .cancel = fake_cancel, .limits = fake_limits, .destroy = fake_destroy};
    fake.bytes = fake.reads = 0;
    fake.holds = fake.fails = false;
    return open_over(&fake.store, max_bytes);
}

static struct sluice_store *open_cache(uint64_t max_bytes)
{
    for (unsigned i = 0; i < NUM_OBJECTS; i++)
        fake.versions[i] = -1;
    name_folder();
    return reopen_cache(max_bytes);
}

struct choice {
    struct sluice_file_part parts[SLUICE_STORE_MAX_PARTS];
    unsigned num_parts;
};

static sluice_status choose(void *ctx, uint64_t len, int64_t version,
                            struct sluice_file_part *parts, unsigned *num_parts,
                            struct sluice_err *err)
{
    const struct choice *choice = ctx;
    (void)len, (void)version, (void)err;
    memcpy(parts, choice->parts, sizeof(choice->parts));
    *num_parts = choice->num_parts;
    return SLUICE_OK;
}

/* The status; false in *is_right if a byte that was chosen is another. */
static sluice_status read_as(struct sluice_store *store, unsigned object, struct choice *choice,
                             const void *owner, bool *is_right)
{
    char key[16];
    struct sluice_buf *buf = NULL;
    struct sluice_err err = {0};
    snprintf(key, sizeof(key), "%u", object);
    const struct sluice_store_read read = {.key = key,
                                           .bytes = LEN,
                                           .version = fake.versions[object],
                                           .choose = choice ? choose : NULL,
                                           .ctx = choice,
                                           .owner = owner};
    const sluice_status status = store->read(store, &read, &buf, &err);
    const struct choice whole = {.parts = {{0, LEN}}, .num_parts = 1};
    const struct choice *parts = choice ? choice : &whole;
    *is_right = status != SLUICE_OK || buf->len == LEN;
    for (unsigned i = 0; i < parts->num_parts && status == SLUICE_OK; i++) {
        for (size_t at = parts->parts[i].from; at < parts->parts[i].to; at++)
            *is_right &= buf->data[at] == byte_of(object, fake.versions[object], at);
    }
    sluice_buf_unref(buf);
    return status;
}

static void expect_read(struct sluice_store *store, unsigned object, struct choice *choice)
{
    bool is_right = false;
    CHECK_OK(read_as(store, object, choice, NULL, &is_right));
    CU_ASSERT(is_right);
}

TEST(a_second_read_asks_the_store_for_nothing)
{
    struct sluice_store *store = open_cache(1u << 20);
    expect_read(store, 1, NULL);
    CU_ASSERT_EQUAL(fake.bytes, LEN);
    expect_read(store, 1, NULL);
    CU_ASSERT_EQUAL(fake.bytes, LEN);
    const struct sluice_store_cache_counts counts = sluice_store_cache_count(store);
    CU_ASSERT(counts.hits == 1 && counts.misses == 1);
    CU_ASSERT(counts.hit_bytes == LEN && counts.miss_bytes == LEN);
    CU_ASSERT(counts.pieces == 1 && counts.bytes == 12288 && counts.max_bytes == 1u << 20);
    store->destroy(store);
    /* And another process finds it. */
    store = reopen_cache(1u << 20);
    expect_read(store, 1, NULL);
    CU_ASSERT_EQUAL(fake.bytes, 0);
    store->destroy(store);
}

TEST(other_parts_take_from_the_cache_what_overlaps)
{
    struct sluice_store *store = open_cache(1u << 20);
    struct choice first = {{{0, 500}, {3000, 6000}}, 2}, second = {{{0, 500}, {4000, 8000}}, 2},
                  third = {{{0, 500}, {3500, 7000}}, 2}, all = {{{0, LEN}}, 1};
    expect_read(store, 2, &first);
    CU_ASSERT_EQUAL(fake.bytes, 3500);
    expect_read(store, 2, &second); /* 6000 to 8000 is new */
    CU_ASSERT_EQUAL(fake.bytes, 5500);
    expect_read(store, 2, &third);
    CU_ASSERT_EQUAL(fake.bytes, 5500);
    expect_read(store, 2, &all);
    CU_ASSERT_EQUAL(fake.bytes, LEN);
    expect_read(store, 2, &all);
    CU_ASSERT_EQUAL(fake.bytes, LEN);
    const struct sluice_store_cache_counts counts = sluice_store_cache_count(store);
    CU_ASSERT(counts.hits == 2 && counts.misses == 3);
    store->destroy(store);
}

TEST(random_parts_are_right_and_never_fetched_in_excess)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    struct sluice_store *store = open_cache(200u << 10); /* too small for them */
    uint64_t wanted = 0;
    for (unsigned i = 0; i < 2000; i++) {
        struct choice choice = {.num_parts = 1 + sluice_rng_below(&rng, 3)};
        size_t at = 0;
        for (unsigned k = 0; k < choice.num_parts; k++) {
            choice.parts[k].from = at += sluice_rng_below(&rng, 2000);
            choice.parts[k].to = at += sluice_rng_below(&rng, 1300);
            wanted += choice.parts[k].to - choice.parts[k].from;
        }
        expect_read(store, sluice_rng_below(&rng, 30), &choice);
        CU_ASSERT(fake.bytes <= wanted);
    }
    const struct sluice_store_cache_counts counts = sluice_store_cache_count(store);
    CU_ASSERT_EQUAL(counts.miss_bytes, fake.bytes);
    CU_ASSERT(counts.hit_bytes > 0 && counts.evictions > 0 && counts.errors == 0);
    CU_ASSERT(counts.bytes <= 200u << 10);
    store->destroy(store);
}

TEST(another_version_is_never_taken_from_the_cache)
{
    struct sluice_store *store = open_cache(1u << 20);
    expect_read(store, 3, NULL);
    fake.versions[3] = -2;
    expect_read(store, 3, NULL);
    CU_ASSERT_EQUAL(fake.bytes, 2 * LEN);
    fake.versions[3] = 0; /* not known: read each time */
    expect_read(store, 3, NULL);
    expect_read(store, 3, NULL);
    CU_ASSERT_EQUAL(fake.bytes, 4 * LEN);
    CU_ASSERT_EQUAL(sluice_store_cache_count(store).misses, 4);
    store->destroy(store);
}

static void shuffle(unsigned order[NUM_OBJECTS], struct sluice_rng *rng)
{
    for (unsigned i = 0; i < NUM_OBJECTS; i++)
        order[i] = i;
    for (unsigned i = NUM_OBJECTS - 1; i > 0; i--) {
        const unsigned k = sluice_rng_below(rng, i + 1), other = order[k];
        order[k] = order[i];
        order[i] = other;
    }
}

/* An LRU would hit next to nothing: what it has just thrown out is read next. */
TEST(epochs_over_twice_the_cache_hit_about_half)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    const uint64_t max_bytes = NUM_OBJECTS / 2 * 12288;
    struct sluice_store *store = open_cache(max_bytes);
    unsigned order[NUM_OBJECTS], num = 0;
    uint64_t hits_before = 0;
    for (unsigned epoch = 0; epoch < 4; epoch++) {
        shuffle(order, &rng);
        for (unsigned i = 0; i < NUM_OBJECTS; i++) {
            expect_read(store, order[i], NULL);
            if (i % 50 == 0) { /* the bound holds at every moment */
                num = 0;
                const struct sluice_store_cache_counts now = sluice_store_cache_count(store);
                CU_ASSERT(now.bytes <= max_bytes);
                CU_ASSERT_EQUAL(files_of(folder, &num, NULL), now.bytes);
                CU_ASSERT_EQUAL(num, now.pieces);
            }
        }
        const struct sluice_store_cache_counts counts = sluice_store_cache_count(store);
        const uint64_t hits = counts.hits - hits_before;
        printf("epoch %u: %llu of %d hit, %llu evicted so far\n", epoch, (unsigned long long)hits,
               NUM_OBJECTS, (unsigned long long)counts.evictions);
        CU_ASSERT(epoch == 0 ? hits == 0
                             : hits > NUM_OBJECTS * 44 / 100 && hits <= NUM_OBJECTS * 52 / 100);
        hits_before = counts.hits;
    }
    store->destroy(store);
    /* A smaller cache begins with what it may have. */
    store = reopen_cache(max_bytes / 4);
    num = 0;
    CU_ASSERT(sluice_store_cache_count(store).bytes <= max_bytes / 4);
    CU_ASSERT_EQUAL(files_of(folder, &num, NULL), sluice_store_cache_count(store).bytes);
    CU_ASSERT_EQUAL(num, NUM_OBJECTS / 8);
    store->destroy(store);
}

TEST(what_never_fits_is_not_kept)
{
    struct sluice_store *store = open_cache(8192);
    for (unsigned i = 0; i < 40; i++)
        expect_read(store, 1, NULL);
    const struct sluice_store_cache_counts counts = sluice_store_cache_count(store);
    CU_ASSERT(counts.pieces == 0 && counts.bytes == 0 && counts.misses == 40);
    store->destroy(store);
}

/* --- what goes wrong --- */

static char said[1024];
static unsigned num_said;

static void listen_to(void *ctx, enum sluice_log_level level, const char *text)
{
    (void)ctx;
    if (level != SLUICE_LOG_WARN)
        return;
    num_said++;
    (void)sluice_print(said, sizeof(said), "%s", text);
}

TEST(a_damaged_file_costs_a_warning_and_no_read)
{
    static const char *const expected[] = {"damaged", "too short", "not a regular file"};
    for (unsigned how = 0; how < 3; how++) {
        char file[SLUICE_MAX_PATH_BYTES];
        unsigned num = 0;
        size_t len = 0;
        struct sluice_store *store = open_cache(1u << 20);
        expect_read(store, 1, NULL);
        CU_ASSERT_EQUAL(files_of(folder, &num, file), 12288);
        CU_ASSERT_EQUAL_FATAL(num, 1);
        uint8_t *data = sluice_test_read_file(file, &len);
        data[len - 1] ^= 1;
        unlink(file);
        if (how < 2)
            sluice_test_write_file(file, data, how ? len - 1 : len);
        else if (mkdir(file, 0700) != 0)
            abort();
        free(data);
        num_said = 0;
        sluice_log_set_sink(listen_to, NULL);
        expect_read(store, 1, NULL);
        expect_read(store, 1, NULL);
        sluice_log_set_sink(NULL, NULL);
        CU_ASSERT_EQUAL(num_said, 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(said, expected[how]));
        /* It is fetched again, and kept if there is no folder in the way. */
        CU_ASSERT_EQUAL(fake.bytes, how == 2 ? 3 * LEN : 2 * LEN);
        CU_ASSERT(sluice_store_cache_count(store).errors >= 1);
        store->destroy(store);
        if (how == 2)
            rmdir(file);
    }
}

TEST(a_file_that_is_gone_is_fetched_again)
{
    char file[SLUICE_MAX_PATH_BYTES];
    unsigned num = 0;
    struct sluice_store *store = open_cache(1u << 20);
    expect_read(store, 1, NULL);
    (void)files_of(folder, &num, file);
    unlink(file);
    expect_read(store, 1, NULL);
    expect_read(store, 1, NULL);
    CU_ASSERT_EQUAL(fake.bytes, 2 * LEN);
    CU_ASSERT_EQUAL(sluice_store_cache_count(store).errors, 0);
    store->destroy(store);
}

/* As a disk that is full: nothing new can be made. */
TEST(a_cache_that_cannot_be_written_is_a_warning_and_passes_through)
{
    char sub[SLUICE_MAX_PATH_BYTES];
    struct sluice_store *store = open_cache(1u << 20);
    for (unsigned i = 0; i < 256; i++) {
        CU_ASSERT(sluice_print(sub, sizeof(sub), "%s/%02x", folder, i));
        CU_ASSERT_EQUAL_FATAL(rmdir(sub), 0);
    }
    num_said = 0;
    sluice_log_set_sink(listen_to, NULL);
    for (unsigned i = 0; i < 5; i++)
        expect_read(store, i, NULL);
    sluice_log_set_sink(NULL, NULL);
    CU_ASSERT_EQUAL(num_said, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(said, "No such file"));
    const struct sluice_store_cache_counts counts = sluice_store_cache_count(store);
    CU_ASSERT(counts.errors == 5 && counts.bytes == 0 && counts.pieces == 0);
    store->destroy(store);
}

TEST(a_read_that_fails_is_not_kept)
{
    bool is_right;
    struct sluice_store *store = open_cache(1u << 20);
    fake.fails = true;
    CU_ASSERT_EQUAL(read_as(store, 1, NULL, NULL, &is_right), SLUICE_E_IO);
    fake.fails = false;
    expect_read(store, 1, NULL);
    CU_ASSERT_EQUAL(sluice_store_cache_count(store).pieces, 1);
    store->destroy(store);
}

/* --- single flight --- */

struct reader {
    pthread_t thread;
    struct sluice_store *store;
    unsigned object;
    const void *owner;
    sluice_status status;
    bool is_right;
};

static void *read_one(void *ctx)
{
    struct reader *reader = ctx;
    reader->status = read_as(reader->store, reader->object, NULL, reader->owner, &reader->is_right);
    return NULL;
}

static void start(struct reader *reader, struct sluice_store *store, const void *owner)
{
    *reader = (struct reader){.store = store, .object = 7, .owner = owner};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&reader->thread, NULL, read_one, reader), 0);
}

static void wait_for_held(unsigned num)
{
    pthread_mutex_lock(&fake.lock);
    while (fake.num_held < num)
        pthread_cond_wait(&fake.changed, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
}

static void release(bool fails)
{
    pthread_mutex_lock(&fake.lock);
    fake.fails = fails;
    fake.holds = false;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

/* Whether the others came to wait or came later: there is one fetch. */
TEST(many_at_once_are_one_fetch)
{
    struct reader readers[8];
    struct sluice_store *store = open_cache(1u << 20);
    fake.holds = true;
    start(&readers[0], store, NULL);
    wait_for_held(1);
    for (unsigned i = 1; i < 8; i++)
        start(&readers[i], store, NULL);
    release(false);
    for (unsigned i = 0; i < 8; i++) {
        pthread_join(readers[i].thread, NULL);
        CU_ASSERT(readers[i].status == SLUICE_OK && readers[i].is_right);
    }
    CU_ASSERT_EQUAL(fake.reads, 1);
    const struct sluice_store_cache_counts counts = sluice_store_cache_count(store);
    CU_ASSERT(counts.hits == 7 && counts.misses == 1);
    store->destroy(store);
}

TEST(who_waits_is_cancelled_or_reads_itself_when_the_fetch_fails)
{
    struct reader first, cancelled, patient;
    int owner;
    bool is_right;
    struct sluice_store *store = open_cache(1u << 20);
    fake.holds = true;
    start(&first, store, NULL);
    wait_for_held(1);
    start(&cancelled, store, &owner);
    start(&patient, store, NULL);
    /* It waits by now, or later: then it is cancelled as soon as it does. */
    void *done = NULL;
    struct timespec soon;
    do {
        store->cancel(store, &owner);
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_nsec += 1000000;
        soon.tv_sec += soon.tv_nsec / 1000000000;
        soon.tv_nsec %= 1000000000;
    } while (pthread_timedjoin_np(cancelled.thread, &done, &soon) != 0);
    CU_ASSERT_EQUAL(cancelled.status, SLUICE_E_CLOSED);
    release(true);
    pthread_join(first.thread, NULL);
    CU_ASSERT_EQUAL(first.status, SLUICE_E_IO);
    pthread_join(patient.thread, NULL);
    CU_ASSERT_EQUAL(patient.status, SLUICE_E_IO); /* by its own read */
    CU_ASSERT_EQUAL(fake.reads, 2);
    fake.fails = false;
    CHECK_OK(read_as(store, 7, NULL, NULL, &is_right));
    store->destroy(store);
}

/* --- what every store promises --- */

static int port;
static bool is_s3;

static struct sluice_store *open_world(void)
{
    char endpoint[64], list[128];
    struct sluice_store *under = NULL;
    web_clear();
    snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d", port);
    snprintf(list, sizeof(list), "%s/folder/list.txt", endpoint);
    const struct sluice_store_options options = {
        .root = is_s3 ? "s3://folder/pre" : list,
        .max_object_bytes = CONFORMANCE_MAX_BYTES,
        .patience_ms = 20000,
        .s3_endpoint = is_s3 ? endpoint : NULL,
    };
    REQUIRE_OK(sluice_store_open(&options, &under, NULL));
    name_folder();
    return open_over(under, 10u << 20);
}

/* What is in the cache already meets no fault of the network. */
static void slow_down(const char *key)
{
    empty_cache();
    web_slow_down(key);
}

static void break_off(const char *key, unsigned times)
{
    empty_cache();
    web_break_off(key, times);
}

static void hang(const char *key)
{
    empty_cache();
    web_hang(key);
}

static const struct conformance_world world = {
    .open = open_world,
    .put = web_put,
    .remove = web_remove,
    .slow_down = slow_down,
    .break_off = break_off,
    .hang = hang,
    .wait_for_hang = web_wait_for_hang,
};

int main(int argc, char **argv)
{
    is_s3 = argc > 1 && strcmp(argv[1], "s3") == 0;
    setenv("AWS_ACCESS_KEY_ID", "AKEY", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    port = web_open();
    conformance_use(&world);
    return sluice_test_main();
}
