/* Of http.c, and of http_try.c beneath it. */
#include "store/http.h"

#include "base/clock.h"
#include "store/tuning.h"
#include "support/test.h"
#include "web_server.h"

#include <pthread.h>

static int port;
static struct sluice_http *http;
static uint8_t data[8192];

static const char *url_of(const char *key)
{
    static char url[256];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/folder/%s", port, key);
    return url;
}

static uint64_t in_ms(unsigned ms)
{
    return sluice_clock_ns() + ms * UINT64_C(1000000);
}

static struct sluice_http_transfer get(const char *key)
{
    return (struct sluice_http_transfer){.url = url_of(key), .data = data, .room = sizeof(data)};
}

static void run(struct sluice_http_transfer *transfer)
{
    sluice_http_run(http, transfer, 1, in_ms(60000), NULL);
    CU_ASSERT_EQUAL(transfer->status == SLUICE_OK, transfer->err.text[0] == '\0');
    CU_ASSERT_PTR_NULL(strstr(transfer->err.text, "http://"));
}

static void put_digits(const char *key)
{
    web_put(key, "0123456789", 10);
}

TEST(bodies_ranges_and_heads)
{
    web_clear();
    put_digits("a");
    struct sluice_http_transfer t = get("a");
    run(&t);
    CU_ASSERT(t.status == SLUICE_OK && t.code == 200 && t.len == 10 && t.total == 10);
    CU_ASSERT(t.is_etag && t.tag[0] == '"');
    CU_ASSERT_EQUAL(memcmp(data, "0123456789", 10), 0);
    t = get("a");
    t.has_range = true;
    t.from = 3;
    t.to = 7;
    run(&t);
    CU_ASSERT(t.status == SLUICE_OK && t.code == 206 && t.len == 4 && t.total == 10);
    CU_ASSERT_EQUAL(memcmp(data, "3456", 4), 0);
    t = get("a");
    t.is_head = true;
    run(&t);
    CU_ASSERT(t.status == SLUICE_OK && t.len == 0 && t.total == 10);
    t = get("a");
    t.room = 4;
    run(&t);
    CU_ASSERT(t.status == SLUICE_OK && t.is_longer && t.len == 4);
}

TEST(a_206_of_another_range_is_not_taken)
{
    static const struct {
        enum web_lie lie;
        const char *why;
    } cases[] = {
        {WEB_OTHER_RANGE, "asked for bytes 3-6, and got a 206 with bytes 2-5"},
        {WEB_LESS, "asked for bytes 3-6, and got a 206 with bytes 3-5"},
        {WEB_MORE, "asked for bytes 3-6, and got a 206 with bytes 3-7"},
        {WEB_NO_RANGE, "a 206 without the range that was asked for"},
    };
    web_clear();
    put_digits("a");
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_http_transfer t = get("a");
        t.has_range = true;
        t.from = 3;
        t.to = 7;
        web_lie_about_ranges(cases[i].lie);
        run(&t);
        CU_ASSERT(t.status == SLUICE_E_IO && t.len == 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(t.err.text, cases[i].why));
    }
    web_lie_about_ranges(WEB_HONEST);
    /* At the end of the object there is less. */
    struct sluice_http_transfer t = get("a");
    t.has_range = true;
    t.from = 8;
    t.to = 20;
    run(&t);
    CU_ASSERT(t.status == SLUICE_OK && t.len == 2 && t.total == 10);
}

TEST(statuses_say_what_is_wrong)
{
    web_clear();
    put_digits("a");
    struct sluice_http_transfer t = get("none");
    run(&t);
    CU_ASSERT(t.status == SLUICE_E_NOT_FOUND && t.code == 404);
    CU_ASSERT_PTR_NOT_NULL(strstr(t.text, "<Code>NoSuchKey</Code>"));
    t = get("a");
    t.headers[0] = "If-Match: \"other\"";
    run(&t);
    CU_ASSERT(t.status == SLUICE_E_STALE && t.code == 412);
    t = get("a");
    t.has_range = true;
    t.from = 10;
    t.to = 11;
    run(&t);
    CU_ASSERT(t.status == SLUICE_E_STALE && t.code == 416);
    web_fail(403, "no", 1);
    t = get("a");
    run(&t);
    CU_ASSERT(t.status == SLUICE_E_IO && t.code == 403);
    CU_ASSERT_EQUAL(web_count().requests, 4);
}

TEST(redirects_are_not_followed)
{
    web_clear();
    put_digits("elsewhere");
    web_fail(307, "", 1);
    struct sluice_http_transfer t = get("a");
    run(&t);
    CU_ASSERT(t.status == SLUICE_E_IO && t.code == 307);
    CU_ASSERT_EQUAL(web_count().requests, 1);
}

TEST(what_may_pass_is_tried_again)
{
    static const unsigned codes[] = {500, 502, 503, 429, 408};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        web_clear();
        put_digits("a");
        web_fail(codes[i], "SlowDown", 2);
        struct sluice_http_transfer t = get("a");
        run(&t);
        CU_ASSERT(t.status == SLUICE_OK && t.len == 10 && t.text[0] == '\0');
        CU_ASSERT_EQUAL(web_count().requests, 3);
    }
    web_clear();
    web_fail(503, "SlowDown", 1000);
    struct sluice_http_transfer t = get("a");
    run(&t);
    CU_ASSERT(t.status == SLUICE_E_IO && t.code == 503);
    CU_ASSERT_PTR_NOT_NULL(strstr(t.err.text, "5 tries"));
    CU_ASSERT_STRING_EQUAL(t.text, "SlowDown");
    CU_ASSERT_EQUAL(web_count().requests, STORE_MAX_TRIES);
}

TEST(a_retry_asks_for_the_version_that_it_began_with)
{
    web_clear();
    put_digits("a");
    web_break_off("a", 1);
    struct sluice_http_transfer t = get("a");
    run(&t);
    CU_ASSERT(t.status == SLUICE_OK && t.len == 10);
    CU_ASSERT_STRING_EQUAL(web_count().match, t.tag);
    web_change_amid("a", "abcdefghij", 10);
    t = get("a");
    run(&t);
    CU_ASSERT(t.status == SLUICE_E_STALE && t.code == 412);
}

TEST(connections_are_kept)
{
    web_clear();
    put_digits("a");
    for (int i = 0; i < 20; i++) {
        struct sluice_http_transfer t = get("a");
        run(&t);
        CHECK_OK(t.status);
    }
    CU_ASSERT_EQUAL(web_count().requests, 20);
    CU_ASSERT(web_count().connections <= 1);
}

TEST(a_server_that_is_not_there_is_an_error_in_time)
{
    char url[64];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/a", sluice_test_port());
    struct sluice_http_transfer t = {.url = url, .data = data, .room = sizeof(data)};
    run(&t);
    CU_ASSERT(t.status == SLUICE_E_IO && t.code == 0);
    t = (struct sluice_http_transfer){
        .url = "http://no-such-host.invalid/a", .data = data, .room = sizeof(data)};
    sluice_http_run(http, &t, 1, in_ms(2000), NULL);
    CU_ASSERT_EQUAL(t.status, SLUICE_E_IO);
}

TEST(a_body_that_stops_ends_with_the_time)
{
    web_clear();
    put_digits("a");
    web_hang("a");
    struct sluice_http_transfer t = get("a");
    sluice_http_run(http, &t, 1, in_ms(300), NULL);
    CU_ASSERT_EQUAL(t.status, SLUICE_E_IO);
    web_hang(NULL);
}

/* Another one than the others', which has a history of `num` requests. */
static struct sluice_http *begin_history(unsigned num)
{
    struct sluice_http *kept = http;
    const struct sluice_http_options options = {.num_parallel = 64};
    REQUIRE_OK(sluice_http_open(&options, &http, NULL));
    for (unsigned i = 0; i < num; i++) {
        struct sluice_http_transfer t = get("a");
        run(&t);
        CHECK_OK(t.status);
    }
    return kept;
}

/* It would hang for ever. */
TEST(what_takes_long_is_asked_for_again)
{
    web_clear();
    put_digits("a");
    struct sluice_http *kept = begin_history(600);
    for (unsigned is_range = 0; is_range < 2; is_range++) {
        const unsigned before = web_count().requests;
        web_hang_some("a", 1);
        memset(data, 0, sizeof(data));
        struct sluice_http_transfer t = get("a");
        t.has_range = is_range;
        t.from = 2;
        t.to = 9;
        run(&t);
        CHECK_OK(t.status);
        CU_ASSERT(t.len == (is_range ? 7 : 10) && t.total == 10);
        CU_ASSERT_EQUAL(memcmp(data, is_range ? "2345678" : "0123456789", t.len), 0);
        CU_ASSERT_EQUAL(web_count().requests, before + 2);
        /* Of the version that the first one began with. */
        CU_ASSERT(t.is_etag);
        CU_ASSERT_STRING_EQUAL(web_count().match, t.tag);
        web_hang(NULL);
    }
    sluice_http_close(http);
    http = kept;
}

TEST(a_store_that_is_slow_as_a_whole_is_not_asked_twice)
{
    static struct sluice_http_transfer ts[60];
    static uint8_t rooms[60][16];
    char url[256];
    web_clear();
    put_digits("a");
    struct sluice_http *kept = begin_history(200);
    const unsigned before = web_count().requests;
    snprintf(url, sizeof(url), "%s", url_of("a"));
    web_hang("a");
    for (size_t i = 0; i < 60; i++)
        ts[i] = (struct sluice_http_transfer){.url = url, .data = rooms[i], .room = 16};
    sluice_http_run(http, ts, 60, in_ms(1000), NULL);
    unsigned num_bad = 0;
    for (size_t i = 0; i < 60; i++)
        num_bad += ts[i].status == SLUICE_E_IO;
    CU_ASSERT_EQUAL(num_bad, 60);
    /* Two in a hundred of what there was. */
    CU_ASSERT(web_count().requests <= before + 60 + 6);
    web_hang(NULL);
    sluice_http_close(http);
    http = kept;
}

static void *run_hanging(void *ctx)
{
    struct sluice_http_transfer *t = ctx;
    sluice_http_run(http, t, 1, in_ms(60000), &port);
    return NULL;
}

TEST(closing_ends_what_runs)
{
    struct sluice_http *kept = http;
    const struct sluice_http_options options = {.num_parallel = 4};
    pthread_t thread;
    web_clear();
    put_digits("a");
    web_hang("a");
    REQUIRE_OK(sluice_http_open(&options, &http, NULL));
    struct sluice_http_transfer t = get("a");
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, run_hanging, &t), 0);
    web_wait_for_hang();
    sluice_http_cancel(http, &thread); /* not its owner */
    sluice_http_cancel(http, &port);
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(t.status, SLUICE_E_CLOSED);
    sluice_http_close(http);
    sluice_http_close(NULL);
    web_hang(NULL);
    http = kept;
}

/* After all others, as it leaves nothing of the budget. */
TEST(retries_have_a_budget)
{
    unsigned num_requests = 0;
    web_clear();
    web_fail(503, "SlowDown", 100000);
    for (int i = 0; i < 60; i++) {
        struct sluice_http_transfer ts[4];
        for (int k = 0; k < 4; k++) {
            static char url[256];
            snprintf(url, sizeof(url), "%s", url_of("a"));
            ts[k] = (struct sluice_http_transfer){.url = url, .data = data, .room = sizeof(data)};
        }
        sluice_http_run(http, ts, 4, in_ms(60000), NULL);
        num_requests += 4;
    }
    const unsigned retries = web_count().requests - num_requests;
    CU_ASSERT(retries <= STORE_MAX_RETRIES_SAVED + num_requests * STORE_RETRY_RATIO + 1);
    CU_ASSERT(retries > 0);
    web_clear();
}

int main(void)
{
    const struct sluice_http_options options = {.num_parallel = 8};
    port = web_open();
    if (sluice_http_open(&options, &http, NULL) != SLUICE_OK)
        return 1;
    const int failed = sluice_test_main();
    sluice_http_close(http);
    return failed;
}
