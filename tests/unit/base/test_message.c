#include "base/message.h"

#include "base/buf.h"
#include "base/rng.h"
#include "support/test.h"

/* Linked with --wrap, to let the allocator fail. */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool fail_malloc, fail_realloc;

void *__wrap_malloc(size_t size)
{
    return fail_malloc ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fail_realloc ? NULL : __real_realloc(old, size);
}

static void count_release(void *owner)
{
    ++*(int *)owner;
}

static void expect_bytes(const struct sluice_message *message, const char *text)
{
    char bytes[2048];
    struct sluice_cursor cursor = sluice_cursor_init(message);
    CU_ASSERT_EQUAL_FATAL(message->len, strlen(text));
    CU_ASSERT_EQUAL(sluice_cursor_left(&cursor), strlen(text));
    CU_ASSERT_TRUE_FATAL(sluice_cursor_read(&cursor, bytes, strlen(text)));
    CU_ASSERT_EQUAL(memcmp(bytes, text, strlen(text)), 0);
    CU_ASSERT_EQUAL(sluice_cursor_left(&cursor), 0);
}

TEST(copies_are_copies_and_share_a_segment)
{
    struct sluice_message message = {0};
    char text[] = "abc";
    CHECK_OK(sluice_message_append_copy(&message, text, 3, NULL));
    text[0] = 'x';
    CHECK_OK(sluice_message_append_copy(&message, "de", 2, NULL));
    CHECK_OK(sluice_message_append_copy(&message, NULL, 0, NULL));
    CU_ASSERT_EQUAL(message.num_segments, 1);
    expect_bytes(&message, "abcde");
    sluice_message_clear(&message);
}

TEST(references_are_not_copied_and_released_once)
{
    struct sluice_message message = {0};
    int num_releases[2] = {0, 0};
    static const uint8_t data[] = "hello";
    CHECK_OK(sluice_message_append_ref(&message, data, 5, count_release, &num_releases[0], NULL));
    CHECK_OK(sluice_message_append_ref(&message, data, 0, count_release, &num_releases[1], NULL));
    CHECK_OK(sluice_message_append_ref(&message, data, 4, NULL, NULL, NULL));
    CU_ASSERT_PTR_EQUAL(message.segments[0].data, data);
    expect_bytes(&message, "hellohell");
    CU_ASSERT_EQUAL(num_releases[0], 0);
    sluice_message_clear(&message);
    CU_ASSERT_EQUAL(num_releases[0], 1);
    CU_ASSERT_EQUAL(num_releases[1], 1);
}

TEST(clear_is_idempotent_and_leaves_an_empty_message)
{
    struct sluice_message message = {0};
    int num_releases = 0;
    sluice_message_clear(&message);
    CHECK_OK(sluice_message_append_ref(&message, (const uint8_t *)"a", 1, count_release,
                                       &num_releases, NULL));
    sluice_message_clear(&message);
    sluice_message_clear(&message);
    CU_ASSERT_EQUAL(num_releases, 1);
    CU_ASSERT_PTR_NULL(message.segments);
    CU_ASSERT_EQUAL(message.num_segments, 0);
    CU_ASSERT_EQUAL(message.len, 0);
    CHECK_OK(sluice_message_append_copy(&message, "b", 1, NULL));
    expect_bytes(&message, "b");
    sluice_message_clear(&message);
}

TEST(a_copy_behind_memory_released_by_free_does_not_write_into_it)
{
    struct sluice_message message = {0};
    uint8_t *data = malloc(4);
    if (!data)
        abort();
    memcpy(data, "\xFF\xFF\xFF\xFF", 4);
    CHECK_OK(sluice_message_append_ref(&message, data, 4, free, data, NULL));
    CHECK_OK(sluice_message_append_copy(&message, "x", 1, NULL));
    expect_bytes(&message, "\xFF\xFF\xFF\xFFx");
    sluice_message_clear(&message);
}

TEST(a_buf_gets_a_reference_of_the_messages_own)
{
    struct sluice_message message = {0};
    struct sluice_buf_pool *pool = NULL;
    struct sluice_buf *buf = NULL;
    REQUIRE_OK(sluice_buf_pool_create(1 << 20, &pool, NULL));
    REQUIRE_OK(sluice_buf_create(pool, 100, &buf, NULL));
    memcpy(buf->data, "abcdef", 6);
    buf->len = 3;
    CHECK_OK(sluice_message_append_buf(&message, buf, NULL));
    sluice_buf_unref(buf);
    /* Still in use: a new buffer is another one. */
    struct sluice_buf *other = NULL;
    REQUIRE_OK(sluice_buf_create(pool, 100, &other, NULL));
    CU_ASSERT_PTR_NOT_EQUAL(other, buf);
    expect_bytes(&message, "abc");
    sluice_message_clear(&message);
    struct sluice_buf *again = NULL;
    REQUIRE_OK(sluice_buf_create(pool, 100, &again, NULL));
    CU_ASSERT_PTR_EQUAL(again, buf);
    sluice_buf_unref(again);
    sluice_buf_unref(other);
    sluice_buf_pool_destroy(pool);
}

TEST(a_failed_append_leaves_message_and_owner)
{
    struct sluice_message message = {0};
    struct sluice_buf *buf = NULL;
    int num_releases = 0;
    REQUIRE_OK(sluice_buf_create(NULL, 8, &buf, NULL));
    buf->len = 8;
    for (int i = 0; i < 100; i++) {
        const size_t len = message.len, num_segments = message.num_segments;
        if (message.num_segments == message.capacity) {
            fail_realloc = true;
            const sluice_status by_ref = sluice_message_append_ref(
                &message, (const uint8_t *)"a", 1, count_release, &num_releases, NULL);
            const sluice_status by_buf = sluice_message_append_buf(&message, buf, NULL);
            const sluice_status by_copy = sluice_message_append_copy(&message, "a", 1, NULL);
            fail_realloc = false;
            CU_ASSERT_EQUAL(by_ref, SLUICE_E_NO_MEMORY);
            CU_ASSERT_EQUAL(by_buf, SLUICE_E_NO_MEMORY);
            CU_ASSERT_EQUAL(by_copy, SLUICE_E_NO_MEMORY);
            CU_ASSERT_EQUAL(num_releases, 0);
        }
        fail_malloc = true;
        const sluice_status by_copy = sluice_message_append_copy(&message, "a", 1, NULL);
        fail_malloc = false;
        CU_ASSERT_EQUAL(by_copy, SLUICE_E_NO_MEMORY);
        CU_ASSERT_EQUAL(message.len, len);
        CU_ASSERT_EQUAL(message.num_segments, num_segments);
        REQUIRE_OK(sluice_message_append_ref(&message, (const uint8_t *)"a", 1, NULL, NULL, NULL));
    }
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_message_append_ref(&message, (const uint8_t *)"a", SIZE_MAX,
                                              count_release, &num_releases, &err),
                    SLUICE_E_NO_MEMORY);
    CU_ASSERT_EQUAL(num_releases, 0);
    CU_ASSERT_EQUAL(message.len, 100);
    sluice_message_clear(&message);
    sluice_buf_unref(buf); /* the only reference: leak checking knows */
}

enum { FLAT_LEN = 3000 };

/* A message over flat[0, FLAT_LEN), cut at random and appended in every way. */
static void segment_randomly(struct sluice_rng *rng, const uint8_t *flat, unsigned max_piece,
                             struct sluice_message *message, int *num_releases, int *num_refs)
{
    for (size_t at = 0; at < FLAT_LEN;) {
        size_t piece = sluice_rng_below(rng, max_piece + 1);
        piece = piece < FLAT_LEN - at ? piece : FLAT_LEN - at;
        struct sluice_buf *buf = NULL;
        sluice_status status;
        switch (sluice_rng_below(rng, 3)) {
        case 0:
            status = sluice_message_append_copy(message, flat + at, piece, NULL);
            break;
        case 1:
            status = sluice_message_append_ref(message, flat + at, piece, count_release,
                                               num_releases, NULL);
            ++*num_refs;
            break;
        default:
            REQUIRE_OK(sluice_buf_create(NULL, piece, &buf, NULL));
            memcpy(buf->data, flat + at, piece);
            buf->len = piece;
            status = sluice_message_append_buf(message, buf, NULL);
            sluice_buf_unref(buf);
        }
        REQUIRE_OK(status);
        at += piece;
    }
}

/* The plain reading of the protobuf documentation: 0 if there is none. */
static size_t flat_varint(const uint8_t *data, size_t len, uint64_t *value)
{
    __extension__ unsigned __int128 result = 0;
    for (size_t i = 0; i < len && i < 10; i++) {
        __extension__ const unsigned __int128 bits = data[i] & 0x7F;
        result |= bits << (7 * i);
        if (data[i] < 0x80) {
            *value = (uint64_t)result;
            return result >> 64 ? 0 : i + 1;
        }
    }
    return 0;
}

static bool same_cursor(const struct sluice_cursor *a, const struct sluice_cursor *b)
{
    return a->message == b->message && a->segment == b->segment && a->offset == b->offset &&
           a->pos == b->pos && a->end == b->end;
}

TEST(cursors_read_any_segmentation_as_if_it_were_flat)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    uint8_t flat[FLAT_LEN], bytes[FLAT_LEN];
    for (int round = 0; round < 60; round++) {
        static const unsigned max_pieces[] = {1, 3, 20, 700, 3000};
        struct sluice_message message = {0};
        int num_releases = 0, num_refs = 0;
        for (size_t i = 0; i < FLAT_LEN; i++) /* often with the varint's high bit */
            flat[i] = (uint8_t)(sluice_rng_u32(&rng) | (sluice_rng_below(&rng, 4) ? 0x80 : 0));
        segment_randomly(&rng, flat, max_pieces[round % 5], &message, &num_releases, &num_refs);
        CU_ASSERT_EQUAL(message.len, FLAT_LEN);

        struct sluice_cursor cursor = sluice_cursor_init(&message);
        size_t at = 0, end = FLAT_LEN;
        for (int step = 0; step < 400; step++) {
            CU_ASSERT_EQUAL_FATAL(sluice_cursor_left(&cursor), end - at);
            const struct sluice_cursor before = cursor;
            const size_t len = sluice_rng_below(&rng, step % 7 ? 12 : 300);
            const bool has_enough = len <= end - at;
            struct sluice_cursor sub = {0};
            uint64_t value = 0, expected = 0;
            bool is_ok = false;
            size_t taken = len;
            switch (sluice_rng_below(&rng, 5)) {
            case 0:
                is_ok = sluice_cursor_skip(&cursor, len);
                CU_ASSERT_EQUAL(is_ok, has_enough);
                break;
            case 1:
                taken = flat_varint(flat + at, end - at, &expected);
                is_ok = sluice_cursor_varint(&cursor, &value);
                CU_ASSERT_EQUAL(is_ok, taken > 0);
                CU_ASSERT_EQUAL(value, is_ok ? expected : 0);
                break;
            case 2:
                is_ok = sluice_cursor_sub(&cursor, len, &sub);
                CU_ASSERT_EQUAL(is_ok, has_enough);
                if (is_ok && sluice_rng_below(&rng, 40) == 0 && len > 100) {
                    /* Go on inside: reading must stop at its end. */
                    cursor = sub;
                    end = at + len;
                    taken = 0;
                } else if (is_ok) {
                    CU_ASSERT_EQUAL(sluice_cursor_left(&sub), len);
                    CU_ASSERT_FALSE(sluice_cursor_skip(&sub, len + 1));
                    CU_ASSERT_TRUE(sluice_cursor_read(&sub, bytes, len));
                    CU_ASSERT_EQUAL(memcmp(bytes, flat + at, len), 0);
                }
                break;
            default:
                is_ok = sluice_cursor_read(&cursor, bytes, len);
                CU_ASSERT_EQUAL(is_ok, has_enough);
                CU_ASSERT(!is_ok || memcmp(bytes, flat + at, len) == 0);
            }
            if (is_ok) {
                at += taken;
            } else {
                CU_ASSERT_TRUE(same_cursor(&cursor, &before));
            }
            if (at == end) { /* begin again */
                cursor = sluice_cursor_init(&message);
                at = 0;
                end = FLAT_LEN;
            }
        }
        sluice_message_clear(&message);
        CU_ASSERT_EQUAL(num_releases, num_refs);
    }
}

TEST(next_gives_every_byte_once_where_it_lies)
{
    struct sluice_message message = {0};
    int releases = 0;
    static const uint8_t a[] = "abc", b[] = "defgh";
    CHECK_OK(sluice_message_append_ref(&message, a, 3, count_release, &releases, NULL));
    CHECK_OK(sluice_message_append_ref(&message, b, 0, count_release, &releases, NULL));
    CHECK_OK(sluice_message_append_ref(&message, b, 5, count_release, &releases, NULL));
    struct sluice_cursor cursor = sluice_cursor_init(&message), part;
    CU_ASSERT_TRUE(sluice_cursor_skip(&cursor, 1));
    CU_ASSERT_TRUE(sluice_cursor_sub(&cursor, 4, &part));
    const uint8_t *data = NULL;
    CU_ASSERT_EQUAL(sluice_cursor_next(&part, &data), 2);
    CU_ASSERT_PTR_EQUAL(data, a + 1);
    CU_ASSERT_EQUAL(sluice_cursor_next(&part, &data), 2); /* past the empty segment */
    CU_ASSERT_PTR_EQUAL(data, b);
    CU_ASSERT_EQUAL(sluice_cursor_next(&part, &data), 0);
    CU_ASSERT_EQUAL(sluice_cursor_left(&part), 0);
    CU_ASSERT_EQUAL(sluice_cursor_next(&cursor, &data), 3);
    CU_ASSERT_PTR_EQUAL(data, b + 2);
    sluice_message_clear(&message);
}

TEST(varints_have_at_most_ten_bytes_and_64_bits)
{
    static const struct {
        const char *bytes;
        size_t len;
        bool is_ok;
        uint64_t value;
    } cases[] = {
        {"\x00", 1, true, 0},
        {"\x7F", 1, true, 127},
        {"\x96\x01", 2, true, 150},
        {"\x80\x00", 2, true, 0},
        {"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 10, true, UINT64_MAX},
        {"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", 10, false, 0},
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11, false, 0},
        {"\xFF\xFF", 2, false, 0},
        {"", 0, false, 0},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_message message = {0};
        CHECK_OK(sluice_message_append_copy(&message, cases[i].bytes, cases[i].len, NULL));
        struct sluice_cursor cursor = sluice_cursor_init(&message);
        uint64_t value = 77;
        CU_ASSERT_EQUAL(sluice_cursor_varint(&cursor, &value), cases[i].is_ok);
        CU_ASSERT_EQUAL(value, cases[i].is_ok ? cases[i].value : 77);
        CU_ASSERT_EQUAL(cursor.pos, cases[i].is_ok ? cases[i].len : 0);
        sluice_message_clear(&message);
    }
}

TEST(gathers_what_lies_apart)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 1, 0, 0);
    uint8_t flat[FLAT_LEN];
    for (size_t i = 0; i < FLAT_LEN; i++)
        flat[i] = (uint8_t)sluice_rng_u32(&rng);
    for (int round = 0; round < 20; round++) {
        struct sluice_message message = {0};
        int num_releases = 0, num_refs = 0;
        segment_randomly(&rng, flat, 1 + sluice_rng_below(&rng, 900), &message, &num_releases,
                         &num_refs);
        struct sluice_cursor cursor = sluice_cursor_init(&message);
        const size_t skip = sluice_rng_below(&rng, FLAT_LEN + 1);
        const size_t len = sluice_rng_below(&rng, (unsigned)(FLAT_LEN - skip + 1));
        CU_ASSERT_TRUE(sluice_cursor_skip(&cursor, skip));
        struct sluice_buf *buf = NULL;
        REQUIRE_OK(sluice_cursor_gather(&cursor, len, NULL, &buf, NULL));
        CU_ASSERT_EQUAL(buf->len, len);
        CU_ASSERT_EQUAL(memcmp(buf->data, flat + skip, len), 0);
        CU_ASSERT_EQUAL(sluice_cursor_left(&cursor), FLAT_LEN - skip - len);
        sluice_buf_unref(buf);
        sluice_message_clear(&message);
    }
}

TEST(a_failed_gather_leaves_the_cursor)
{
    struct sluice_message message = {0};
    CHECK_OK(sluice_message_append_copy(&message, "abc", 3, NULL));
    struct sluice_cursor cursor = sluice_cursor_init(&message);
    const struct sluice_cursor before = cursor;
    struct sluice_buf *buf = NULL;
    CU_ASSERT_EQUAL(sluice_cursor_gather(&cursor, 4, NULL, &buf, NULL), SLUICE_E_INVALID);
    CU_ASSERT(same_cursor(&cursor, &before));
    CHECK_OK(sluice_cursor_gather(&cursor, 3, NULL, &buf, NULL));
    sluice_buf_unref(buf);
    sluice_message_clear(&message);
}

TEST(a_shared_message_is_cleared_with_its_last_reference)
{
    struct sluice_message message = {0};
    int num_releases = 0;
    CHECK_OK(sluice_message_append_ref(&message, (const uint8_t *)"hello", 5, count_release,
                                       &num_releases, NULL));
    struct sluice_shared_message *shared = NULL;
    fail_malloc = true;
    const sluice_status failed = sluice_message_share(&message, &shared, NULL);
    fail_malloc = false;
    CU_ASSERT_EQUAL(failed, SLUICE_E_NO_MEMORY);
    expect_bytes(&message, "hello");
    REQUIRE_OK(sluice_message_share(&message, &shared, NULL));
    CU_ASSERT(message.num_segments == 0 && message.len == 0 && !message.segments);
    CU_ASSERT_PTR_EQUAL(sluice_shared_message_ref(shared), shared);
    sluice_shared_message_unref(shared);
    CU_ASSERT_EQUAL(num_releases, 0);
    expect_bytes(sluice_shared_message_get(shared), "hello");
    sluice_shared_message_unref(shared);
    CU_ASSERT_EQUAL(num_releases, 1);
    sluice_shared_message_unref(NULL);
}
