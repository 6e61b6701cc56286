#include "base/buf.h"

#include "base/rng.h"
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>

/* Linked with --wrap: what the code under test asks of the allocator. */
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static atomic_uint num_data_allocations;
static bool fail_aligned_alloc, fail_calloc;

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    if (fail_aligned_alloc)
        return NULL;
    atomic_fetch_add(&num_data_allocations, 1);
    return __real_aligned_alloc(alignment, size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fail_calloc ? NULL : __real_calloc(count, size);
}

static struct sluice_buf_pool *new_pool(size_t max_cached_bytes)
{
    struct sluice_buf_pool *pool = NULL;
    REQUIRE_OK(sluice_buf_pool_create(max_cached_bytes, &pool, NULL));
    return pool;
}

static struct sluice_buf *new_buf(struct sluice_buf_pool *pool, size_t capacity)
{
    struct sluice_buf *buf = NULL;
    REQUIRE_OK(sluice_buf_create(pool, capacity, &buf, NULL));
    return buf;
}

TEST(is_empty_aligned_roomy_and_has_slack)
{
    static const size_t sizes[] = {0,    1,    63,   64,    65,     4095,    4096,
                                   4097, 5120, 5121, 70000, 150528, 3000001, 1 << 23};
    struct sluice_buf_pool *pool = new_pool(1 << 20);
    for (int pooled = 0; pooled < 2; pooled++) {
        for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
            struct sluice_buf *buf = new_buf(pooled ? pool : NULL, sizes[i]);
            CU_ASSERT_EQUAL(buf->len, 0);
            CU_ASSERT(buf->capacity >= sizes[i]);
            CU_ASSERT_EQUAL((uintptr_t)buf->data % 64, 0);
            /* asan knows if the slack were not ours */
            memset(buf->data, 1, buf->capacity);
            volatile uint8_t seen = 0;
            for (int k = 0; k < SLUICE_BUF_SLACK; k++)
                seen = (uint8_t)(seen + buf->data[buf->capacity + (size_t)k]);
            sluice_buf_unref(buf);
        }
    }
    sluice_buf_pool_destroy(pool);
}

TEST(wastes_at_most_a_quarter_of_large_buffers)
{
    struct sluice_buf_pool *pool = new_pool(0);
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int i = 0; i < 200; i++) {
        const size_t size = 4096 + sluice_rng_below(&rng, 1 << 22);
        struct sluice_buf *buf = new_buf(pool, size);
        CU_ASSERT(buf->capacity <= size + size / 4 + 1);
        sluice_buf_unref(buf);
    }
    sluice_buf_pool_destroy(pool);
}

TEST(a_returned_buffer_is_used_again)
{
    struct sluice_buf_pool *pool = new_pool(1 << 20);
    struct sluice_buf *buf = new_buf(pool, 100000);
    const uint8_t *data = buf->data;
    buf->len = 17;
    sluice_buf_unref(buf);
    const unsigned before = num_data_allocations;
    buf = new_buf(pool, 99000); /* the same class */
    CU_ASSERT_PTR_EQUAL(buf->data, data);
    CU_ASSERT_EQUAL(buf->len, 0);
    CU_ASSERT_EQUAL(num_data_allocations, before);
    sluice_buf_unref(buf);
    sluice_buf_pool_destroy(pool);
}

TEST(keeps_no_more_than_the_limit)
{
    /* Three of a size, room to keep two: taking three again allocates one. */
    struct sluice_buf *bufs[3];
    struct sluice_buf *probe = new_buf(new_pool(0), 65536);
    const size_t size = probe->capacity;
    sluice_buf_pool_destroy(probe->pool);
    sluice_buf_unref(probe);

    struct sluice_buf_pool *pool = new_pool(2 * size);
    for (int i = 0; i < 3; i++)
        bufs[i] = new_buf(pool, size);
    for (int i = 0; i < 3; i++)
        sluice_buf_unref(bufs[i]);
    const unsigned before = num_data_allocations;
    for (int i = 0; i < 3; i++)
        bufs[i] = new_buf(pool, size);
    CU_ASSERT_EQUAL(num_data_allocations, before + 1);
    for (int i = 0; i < 3; i++)
        sluice_buf_unref(bufs[i]);
    sluice_buf_pool_destroy(pool);

    pool = new_pool(size - 1); /* keeps nothing of this size */
    sluice_buf_unref(new_buf(pool, size));
    const unsigned alone = num_data_allocations;
    sluice_buf_unref(new_buf(pool, size));
    CU_ASSERT_EQUAL(num_data_allocations, alone + 1);
    sluice_buf_pool_destroy(pool);
}

TEST(only_the_last_unref_gives_back)
{
    struct sluice_buf_pool *pool = new_pool(1 << 20);
    struct sluice_buf *buf = new_buf(pool, 5000);
    CU_ASSERT_PTR_EQUAL(sluice_buf_ref(buf), buf);
    sluice_buf_unref(buf);
    struct sluice_buf *other = new_buf(pool, 5000);
    CU_ASSERT_PTR_NOT_EQUAL(other, buf);
    memset(buf->data, 3, 5000);
    sluice_buf_unref(buf);
    sluice_buf_unref(other);
    sluice_buf_pool_destroy(pool);
    sluice_buf_unref(NULL);
}

TEST(buffers_outlive_their_destroyed_pool)
{
    struct sluice_buf_pool *pool = new_pool(1 << 20);
    struct sluice_buf *a = new_buf(pool, 10000);
    struct sluice_buf *b = new_buf(pool, 20000);
    sluice_buf_unref(new_buf(pool, 30000)); /* one cached */
    sluice_buf_pool_destroy(pool);
    memset(a->data, 1, 10000);
    sluice_buf_unref(a);
    memset(b->data, 2, 20000);
    sluice_buf_unref(b); /* frees the pool: asan knows whether */
    sluice_buf_pool_destroy(NULL);
}

TEST(no_memory_leaves_the_out_parameter_alone)
{
    struct sluice_buf_pool *pool = new_pool(1 << 20);
    for (int kind = 0; kind < 3; kind++) {
        for (int pooled = 0; pooled < 2; pooled++) {
            struct sluice_err err = {0};
            struct sluice_buf *buf = (struct sluice_buf *)&err;
            fail_aligned_alloc = kind == 0;
            fail_calloc = kind == 1;
            const size_t size = kind == 2 ? SIZE_MAX - 8 : 8192;
            const sluice_status status = sluice_buf_create(pooled ? pool : NULL, size, &buf, &err);
            fail_aligned_alloc = fail_calloc = false;
            CU_ASSERT_EQUAL(status, SLUICE_E_NO_MEMORY);
            CU_ASSERT_PTR_EQUAL(buf, &err);
            CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "buffer"));
        }
    }
    sluice_buf_pool_destroy(pool); /* asan: the failures left no count behind */

    fail_calloc = true;
    struct sluice_buf_pool *none = NULL;
    CU_ASSERT_EQUAL(sluice_buf_pool_create(1, &none, NULL), SLUICE_E_NO_MEMORY);
    fail_calloc = false;
    CU_ASSERT_PTR_NULL(none);
}

#define NUM_THREADS 4
#define NUM_SHARED 64

struct shared {
    struct sluice_buf_pool *pool;
    struct sluice_buf *bufs[NUM_SHARED]; /* one reference for each thread */
};

struct thread_arg {
    struct shared *shared;
    uint32_t index;
};

static void *use_buffers(void *arg)
{
    const struct thread_arg *my = arg;
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, my->index, 1);
    unsigned num_wrong = 0;
    for (uint32_t i = 0; i < NUM_SHARED; i++) {
        struct sluice_buf *shared = my->shared->bufs[i];
        num_wrong += shared->data[shared->len - 1] != (uint8_t)i;

        struct sluice_buf *own = NULL;
        const size_t size = 1 + sluice_rng_below(&rng, 60000);
        if (sluice_buf_create(my->shared->pool, size, &own, NULL) != SLUICE_OK)
            abort();
        /* Nobody else writes here while it is ours. */
        memset(own->data, (int)my->index, size);
        num_wrong += shared->data[0] != (uint8_t)i;
        sluice_buf_unref(shared);
        for (size_t k = 0; k < size; k += 1000)
            num_wrong += own->data[k] != my->index;
        sluice_buf_unref(own);
    }
    return (void *)(uintptr_t)num_wrong;
}

TEST(references_may_be_dropped_from_any_thread)
{
    struct shared shared = {.pool = new_pool(1 << 19)};
    struct thread_arg args[NUM_THREADS];
    pthread_t threads[NUM_THREADS];
    (void)sluice_test_seed(); /* printed once, from one thread */
    for (int i = 0; i < NUM_SHARED; i++) {
        struct sluice_buf *buf = new_buf(shared.pool, 100 + (size_t)i * 900);
        buf->len = 100 + (size_t)i * 900;
        memset(buf->data, i, buf->len);
        for (int k = 1; k < NUM_THREADS; k++)
            sluice_buf_ref(buf);
        shared.bufs[i] = buf;
    }
    for (uint32_t i = 0; i < NUM_THREADS; i++) {
        args[i] = (struct thread_arg){&shared, i};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, use_buffers, &args[i]), 0);
    }
    for (int i = 0; i < NUM_THREADS; i++) {
        void *num_wrong = NULL;
        pthread_join(threads[i], &num_wrong);
        CU_ASSERT_PTR_NULL(num_wrong);
    }
    sluice_buf_pool_destroy(shared.pool);
}

static void *unref_all(void *arg)
{
    struct sluice_buf **bufs = arg;
    for (int i = 0; i < NUM_SHARED; i++)
        sluice_buf_unref(bufs[i]);
    return NULL;
}

TEST(the_last_buffers_may_come_back_while_the_pool_is_destroyed)
{
    for (int round = 0; round < 50; round++) {
        struct sluice_buf_pool *pool = new_pool(1 << 20);
        struct sluice_buf *bufs[NUM_SHARED];
        for (int i = 0; i < NUM_SHARED; i++)
            bufs[i] = new_buf(pool, 64);
        pthread_t thread;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, unref_all, bufs), 0);
        sluice_buf_pool_destroy(pool);
        pthread_join(thread, NULL);
    }
}

TEST(hands_out_no_more_than_its_limit)
{
    struct sluice_buf_pool *pool = new_pool(1 << 20);
    sluice_buf_pool_limit(pool, 100000);
    struct sluice_buf *first = new_buf(pool, 60000), *none = NULL;
    CHECK_FAILS(SLUICE_E_NO_MEMORY, "now",
                sluice_buf_create(pool, 60000, &none, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "memory limit",
                sluice_buf_create(pool, 200000, &none, sluice_test_err()));
    CU_ASSERT_PTR_NULL(none);
    CU_ASSERT(sluice_buf_pool_live_bytes(pool) >= 60000);
    sluice_buf_unref(first);
    CU_ASSERT_EQUAL(sluice_buf_pool_live_bytes(pool), 0);
    first = new_buf(pool, 60000);
    sluice_buf_unref(first);
    sluice_buf_pool_trim(pool);
    sluice_buf_pool_destroy(pool);
}

static size_t given;

TEST(lent_memory_is_never_freed)
{
    static _Alignas(64) uint8_t memory[100 + SLUICE_BUF_SLACK];
    struct sluice_buf buf;
    sluice_buf_lend(&buf, memory, 100);
    CU_ASSERT_PTR_EQUAL(buf.data, memory);
    CU_ASSERT_EQUAL(buf.len, 100);
    for (int i = 0; i < 3; i++) {
        struct sluice_buf *again = sluice_buf_ref(&buf);
        CU_ASSERT_PTR_EQUAL(again, &buf);
        sluice_buf_unref(again); /* free() would end the program */
    }
    memory[99] = 1;
    CU_ASSERT_EQUAL(buf.data[99], 1);
}

static void note_given(void *owner, size_t bytes)
{
    CU_ASSERT_PTR_EQUAL(owner, &given);
    given += bytes;
}

TEST(the_last_unref_calls_the_hook_once)
{
    struct sluice_buf_pool *pool = new_pool(1 << 20);
    struct sluice_buf *buf = new_buf(pool, 5000);
    given = 0;
    sluice_buf_on_last(buf, note_given, &given, 77);
    sluice_buf_unref(sluice_buf_ref(buf));
    CU_ASSERT_EQUAL(given, 0);
    sluice_buf_unref(buf);
    CU_ASSERT_EQUAL(given, 77);
    buf = new_buf(pool, 5000); /* the same memory, without the hook */
    sluice_buf_unref(buf);
    CU_ASSERT_EQUAL(given, 77);
    CU_ASSERT(sluice_buf_footprint(5000) >= 5000 && sluice_buf_footprint(5000) < 8000);
    sluice_buf_pool_destroy(pool);
}
