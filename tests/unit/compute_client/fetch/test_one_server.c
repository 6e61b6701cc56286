#include "compute_client/fetch/replicas.h"

#include "base/log.h"
#include "fake_server.h"
#include "record.h"
#include "support/capture.h"
#include "support/test.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

/* The source over a single server, as servers.h makes it. */

#define NUM_SAMPLES RECORD_SAMPLES
#define MAX_ITEMS 120

static struct fake_dataset dataset;
static struct sluice_pipeline *pipeline;

struct bench {
    struct fake_server *server;
    struct sluice_client *client;
    struct sluice_source *source;
    struct record record;
    struct sluice_live live;
};

static double sample_timeout_s;  /* of the next bench */
static size_t max_message_bytes; /* 0: the client's own bound */
static bool wants_file_image;    /* of the next bench */
static uint64_t listed_bytes;    /* of the next items' files; 0: not known */

static void bench_open_at(struct bench *b, const char *target, double retry_for_s,
                          uint64_t window_bytes)
{
    b->live = (struct sluice_live){0};
    const struct sluice_client_options client = {
        .target = target, .retry_for_s = retry_for_s, .live = &b->live};
    REQUIRE_OK(sluice_client_create(&client, &b->client, NULL));
    if (max_message_bytes)
        REQUIRE_OK(sluice_client_bound_messages(b->client, max_message_bytes, NULL));
    max_message_bytes = 0;
    record_init(&b->record);
    char id[33];
    sluice_hash128_hex(sluice_manifest_id(dataset.manifest), id);
    const struct sluice_replica server = {.client = b->client, .dataset_id = id};
    const struct sluice_replicas_options options = {
        .replicas = &server,
        .num_replicas = 1,
        .num_shards = 1,
        .fetcher = {.pipeline = pipeline,
                    .max_items = MAX_ITEMS,
                    .window_bytes = window_bytes,
                    .sample_timeout_s = sample_timeout_s,
                    .wants_file_image = wants_file_image,
                    .live = &b->live},
        .events = record_events(&b->record),
    };
    REQUIRE_OK(sluice_replicas_create(&options, &b->source, NULL));
    b->record.source = b->source;
}

static void bench_open(struct bench *b, const struct fake_server_options *server,
                       double retry_for_s, uint64_t window_bytes)
{
    *b = (struct bench){0};
    struct fake_server_options options = *server;
    options.dataset = &dataset;
    b->server = fake_server_start(&options);
    bench_open_at(b, fake_server_target(b->server), retry_for_s, window_bytes);
}

static struct sluice_fetcher_stats stats_of(const struct bench *b)
{
    return sluice_replicas_stats(b->source).fetchers;
}

static void bench_close(struct bench *b)
{
    sample_timeout_s = 0;
    wants_file_image = false;
    b->source->close(b->source);
    const struct sluice_fetcher_stats stats = stats_of(b);
    CU_ASSERT_EQUAL(sluice_live_get(&b->live.wire_bytes), stats.wire_bytes);
    CU_ASSERT_EQUAL(sluice_live_get(&b->live.lost_streams), stats.lost_streams);
    CU_ASSERT_EQUAL(sluice_live_get(&b->live.repeated), stats.repeated);
    CU_ASSERT_EQUAL(sluice_live_get(&b->live.hash_errors), stats.hash_errors);
    CU_ASSERT_EQUAL(sluice_live_get(&b->live.failed_over), 0); /* there is nobody else */
    b->source->destroy(b->source);
    CU_ASSERT_EQUAL(b->record.num_wrong, 0);
    sluice_client_destroy(b->client);
    if (b->server)
        fake_server_stop(b->server);
    record_clear(&b->record);
}

static sluice_status ask(struct bench *b, uint64_t first, size_t count, unsigned split)
{
    return record_ask(&b->record, first, count, split, listed_bytes);
}

static void check_each_once(const struct bench *b, size_t count)
{
    CU_ASSERT_TRUE(record_has_each_once(&b->record, count));
    CU_ASSERT_EQUAL(b->record.num_good, count);
}

TEST(everything_is_answered_once_in_any_order)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){.repeat_every = 3, .stray_every = 5}, 5, 1 << 20);
    CHECK_OK(ask(&b, 0, 50, 0));
    CHECK_OK(ask(&b, 50, 50, 3));
    CHECK_OK(ask(&b, 100, 20, 5));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 120));
    b.source->close(b.source);
    check_each_once(&b, 120);
    bool is_in_order = true;
    for (size_t i = 1; i < 120; i++)
        is_in_order = is_in_order && b.record.order[i] > b.record.order[i - 1];
    CU_ASSERT_FALSE(is_in_order);
    for (size_t i = 0; i < 120; i++)
        CU_ASSERT_EQUAL(b.record.ops_done[i], i < 50 ? 0 : i < 100 ? 3 : 5);
    bench_close(&b);
}

TEST(late_and_repeated_replies_are_dropped)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){.repeat_every = 1, .stray_every = 1}, 5, 1 << 20);
    for (unsigned round = 0; round < 4; round++) {
        CHECK_OK(ask(&b, round * 30, 30, 3));
        CU_ASSERT_TRUE(record_wait_answers(&b.record, (round + 1) * 30));
    }
    check_each_once(&b, 120);
    /* All but the last round's tail must have arrived by now. */
    CU_ASSERT(stats_of(&b).dropped >= 2 * 90);
    bench_close(&b);
}

TEST(a_lost_stream_is_opened_again_and_the_unanswered_asked_again)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){.lose_after = 7, .lose_times = 5}, 20, 1 << 20);
    CHECK_OK(ask(&b, 0, 120, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 120));
    b.source->close(b.source);
    check_each_once(&b, 120);
    const struct sluice_fetcher_stats stats = stats_of(&b);
    CU_ASSERT_EQUAL(stats.lost_streams, 5);
    CU_ASSERT(stats.repeated > 0);
    CU_ASSERT_EQUAL(fake_server_stats(b.server).streams, 6);
    bench_close(&b);
}

TEST(a_message_that_cannot_be_read_costs_the_stream_alone)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){.garble_after = 11, .garble_times = 3}, 20,
               1 << 20);
    CHECK_OK(ask(&b, 0, 100, 0));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 100));
    b.source->close(b.source);
    check_each_once(&b, 100);
    CU_ASSERT_EQUAL(stats_of(&b).lost_streams, 3);
    bench_close(&b);
}

TEST(a_damaged_reply_is_asked_again_and_counted)
{
    for (int is_request = 0; is_request < 2; is_request++) {
        struct bench b;
        bench_open(&b,
                   &(struct fake_server_options){.has_hashes = true,
                                                 .flip_payload_every = is_request ? 0 : 10,
                                                 .flip_request_every = is_request ? 10 : 0},
                   20, 1 << 20);
        CHECK_OK(ask(&b, 0, 100, 0));
        CU_ASSERT_TRUE(record_wait_answers(&b.record, 100));
        b.source->close(b.source);
        check_each_once(&b, 100);
        const struct sluice_fetcher_stats stats = stats_of(&b);
        CU_ASSERT_EQUAL(stats.hash_errors, (100 + stats.repeated) / 10);
        CU_ASSERT_EQUAL(stats.repeated, stats.hash_errors);
        CU_ASSERT_EQUAL(stats.lost_streams, 0);
        bench_close(&b);
    }
}

TEST(a_damaged_message_costs_the_stream_alone)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){.has_hashes = true, .flip_message_every = 40}, 20,
               1 << 20);
    CHECK_OK(ask(&b, 0, 100, 0));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 100));
    b.source->close(b.source);
    check_each_once(&b, 100);
    const struct sluice_fetcher_stats stats = stats_of(&b);
    CU_ASSERT(stats.hash_errors >= 2);
    CU_ASSERT_EQUAL(stats.lost_streams, stats.hash_errors);
    bench_close(&b);
}

TEST(a_reply_that_is_always_damaged_is_that_samples_error)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){.has_hashes = true, .flip_payload_every = 1}, 0.15,
               1 << 20);
    CHECK_OK(ask(&b, 0, 2, 0));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 2));
    CU_ASSERT_EQUAL(b.record.num_good, 0);
    CU_ASSERT_EQUAL(b.record.status[0], SLUICE_E_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(b.record.error[0], "damaged"));
    bench_close(&b);
}

/* Fails the first `times` attempts at every sample with a status; or at one sample alone. */
struct failing {
    sluice_status status;
    unsigned times;
    int only;                      /* -1: every sample */
    atomic_uint seen[NUM_SAMPLES]; /* here and below: counted on the server's thread */
};

static enum fake_action fail_some(void *ctx, const struct sluice_wire_sample_request *request,
                                  struct sluice_wire_sample_reply *reply)
{
    struct failing *failing = ctx;
    const uint64_t id = request->key.sample_id;
    if ((failing->only >= 0 && id != (uint64_t)failing->only) ||
        failing->seen[id]++ >= failing->times)
        return FAKE_SEND;
    sluice_buf_unref(reply->payload);
    reply->payload = NULL;
    reply->status = failing->status;
    snprintf(reply->error, sizeof(reply->error), "sample %d fails", (int)id);
    return FAKE_SEND;
}

static const sluice_status passing[] = {SLUICE_E_IO,     SLUICE_E_NO_MEMORY, SLUICE_E_AGAIN,
                                        SLUICE_E_CLOSED, SLUICE_E_INTERNAL,  SLUICE_E_STALE};

TEST(failures_that_may_pass_are_asked_again)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(passing); i++) {
        struct bench b;
        struct failing failing = {.status = passing[i], .times = 2, .only = -1};
        bench_open(&b, &(struct fake_server_options){.meddle = fail_some, .meddle_ctx = &failing},
                   20, 1 << 20);
        CHECK_OK(ask(&b, 0, NUM_SAMPLES, 3));
        CU_ASSERT_TRUE(record_wait_answers(&b.record, NUM_SAMPLES));
        check_each_once(&b, NUM_SAMPLES);
        CU_ASSERT_EQUAL(stats_of(&b).repeated, 2 * NUM_SAMPLES);
        bench_close(&b);
    }
}

TEST(one_that_lasts_is_that_samples_error_after_the_deadline)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(passing); i++) {
        struct bench b;
        struct failing failing = {.status = passing[i], .times = UINT_MAX, .only = 7};
        bench_open(&b, &(struct fake_server_options){.meddle = fail_some, .meddle_ctx = &failing},
                   0.15, 1 << 20);
        CHECK_OK(ask(&b, 0, NUM_SAMPLES, 3));
        CU_ASSERT_TRUE(record_wait_answers(&b.record, NUM_SAMPLES));
        CU_ASSERT_EQUAL(b.record.num_good, NUM_SAMPLES - 1);
        CU_ASSERT_EQUAL(b.record.order[NUM_SAMPLES - 1], 7);
        CU_ASSERT_EQUAL(b.record.status[7], passing[i]);
        CU_ASSERT_STRING_EQUAL(b.record.error[7], "sample 7 fails");
        CU_ASSERT(failing.seen[7] >= 2);
        CU_ASSERT_FALSE(b.record.has_failed);
        bench_close(&b);
    }
}

TEST(what_the_data_is_stays_so_and_is_not_asked_again)
{
    static const sluice_status lasting[] = {SLUICE_E_CORRUPT, SLUICE_E_UNSUPPORTED,
                                            SLUICE_E_NOT_FOUND, SLUICE_E_INVALID};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(lasting); i++) {
        struct bench b;
        struct failing failing = {.status = lasting[i], .times = UINT_MAX, .only = 7};
        bench_open(&b, &(struct fake_server_options){.meddle = fail_some, .meddle_ctx = &failing},
                   20, 1 << 20);
        CHECK_OK(ask(&b, 0, NUM_SAMPLES, 3));
        CU_ASSERT_TRUE(record_wait_answers(&b.record, NUM_SAMPLES));
        CU_ASSERT_EQUAL(b.record.num_good, NUM_SAMPLES - 1);
        CU_ASSERT_EQUAL(b.record.status[7], lasting[i]);
        CU_ASSERT_EQUAL(failing.seen[7], 1);
        CU_ASSERT_EQUAL(stats_of(&b).repeated, 0);
        bench_close(&b);
    }
}

TEST(fewer_ops_than_asked_for_are_an_answer)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){.reduce_every = 2}, 5, 1 << 20);
    CHECK_OK(ask(&b, 0, 60, 5));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 60));
    check_each_once(&b, 60);
    size_t reduced = 0;
    for (size_t i = 0; i < 60; i++)
        reduced += b.record.ops_done[i] == 0;
    CU_ASSERT_EQUAL(reduced, 30);
    bench_close(&b);
}

TEST(a_reply_that_contradicts_itself_is_asked_again)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){.wrong_kind_every = 10}, 20, 1 << 20);
    CHECK_OK(ask(&b, 0, 60, 0));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 60));
    check_each_once(&b, 60);
    CU_ASSERT(stats_of(&b).repeated >= 6);
    bench_close(&b);
}

TEST(and_after_the_deadline_it_is_that_samples_error)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){.wrong_kind_every = 10}, 0, 1 << 20);
    CHECK_OK(ask(&b, 0, 60, 0));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 60));
    CU_ASSERT_EQUAL(b.record.num_good, 54);
    for (size_t i = 0; i < 60; i++) {
        CU_ASSERT_EQUAL(b.record.answers[i], 1);
        if (b.record.status[i] != SLUICE_OK) {
            CU_ASSERT_EQUAL(b.record.status[i], SLUICE_E_INTERNAL);
            CU_ASSERT_NOT_EQUAL(b.record.error[i][0], '\0');
        }
    }
    bench_close(&b);
}

static enum fake_action say_rows(void *ctx, const struct sluice_wire_sample_request *request,
                                 struct sluice_wire_sample_reply *reply)
{
    (void)ctx;
    if (request->key.sample_id % 10 == 0)
        reply->form = SLUICE_FORM_JPEG_ROWS;
    return FAKE_SEND;
}

static enum fake_action say_image(void *ctx, const struct sluice_wire_sample_request *request,
                                  struct sluice_wire_sample_reply *reply)
{
    (void)ctx;
    reply->image = (struct sluice_file_image){40, 30, request->key.sample_id % 10 ? 8 : 9};
    return FAKE_SEND;
}

TEST(pixels_without_a_possible_image_are_refused_where_it_is_wanted)
{
    for (unsigned wants = 0; wants < 2; wants++) {
        struct bench b;
        wants_file_image = wants;
        bench_open(&b, &(struct fake_server_options){.meddle = say_image}, 0, 1 << 20);
        CHECK_OK(ask(&b, 0, 30, 2));
        CHECK_OK(ask(&b, 30, 30, 0));
        CU_ASSERT_TRUE(record_wait_answers(&b.record, 60));
        for (size_t i = 0; i < 60; i++) {
            const bool is_refused = wants && i < 30 && i % 10 == 0;
            CU_ASSERT_EQUAL(b.record.status[i], is_refused ? SLUICE_E_INTERNAL : SLUICE_OK);
            CU_ASSERT_EQUAL(b.record.images[i].width, wants && i < 30 && !is_refused ? 40 : 0);
        }
        CU_ASSERT(!wants || strstr(b.record.error[10], "40 x 30 pixels, turned by 9"));
        bench_close(&b);
    }
}

TEST(rows_that_were_not_asked_for_are_refused)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){.meddle = say_rows}, 0, 1 << 20);
    CHECK_OK(ask(&b, 0, 60, 0));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 60));
    CU_ASSERT_EQUAL(b.record.num_good, 54);
    for (size_t i = 0; i < 60; i++)
        CU_ASSERT_EQUAL(b.record.status[i], i % 10 ? SLUICE_OK : SLUICE_E_INTERNAL);
    bench_close(&b);
}

TEST(a_cut_file_is_told_from_a_whole_one)
{
    for (unsigned split = 0; split <= 2; split += 2) {
        struct bench b;
        bench_open(&b, &(struct fake_server_options){.cut_every = 10}, 0, 1 << 20);
        CHECK_OK(ask(&b, 0, 60, split));
        CU_ASSERT_TRUE(record_wait_answers(&b.record, 60));
        size_t num_cut = 0, num_bad = 0;
        for (size_t i = 0; i < 60; i++) {
            num_cut += b.record.is_jpeg_crop[i];
            num_bad += b.record.status[i] == SLUICE_E_INTERNAL;
        }
        /* Pixels are never a cut file. */
        CU_ASSERT_EQUAL(num_cut, split == 0 ? 6 : 0);
        CU_ASSERT_EQUAL(num_bad, split == 0 ? 0 : 6);
        bench_close(&b);
    }
}

TEST(keeps_to_what_the_server_queues)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){.max_in_flight = 5}, 5, 1 << 20);
    CHECK_OK(ask(&b, 0, 120, 0));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 120));
    check_each_once(&b, 120);
    CU_ASSERT(fake_server_stats(b.server).most_in_flight <= 5);
    bench_close(&b);
}

TEST(grants_only_what_was_consumed)
{
    struct bench b;
    const uint64_t window = 10 * FAKE_ROW_BYTES;
    bench_open(&b, &(struct fake_server_options){0}, 5, window);
    b.record.keeps_payload = true;
    CHECK_OK(ask(&b, 0, 60, 3));
    /* Nothing is consumed, so the window is all there is. */
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 10));
    CU_ASSERT_EQUAL(fake_server_stats(b.server).replies, 10);
    /* Consuming lets the rest come. */
    pthread_mutex_lock(&b.record.lock);
    b.record.keeps_payload = false;
    const size_t kept = b.record.kept_bytes;
    pthread_mutex_unlock(&b.record.lock);
    CU_ASSERT_EQUAL(kept, window);
    b.source->consumed(b.source, 0, kept);
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 60));
    check_each_once(&b, 60);
    CU_ASSERT_EQUAL(fake_server_stats(b.server).most_unconsumed, window);
    bench_close(&b);
}

TEST(a_new_streams_window_leaves_out_what_is_still_held)
{
    struct bench b;
    const uint64_t window = 20 * FAKE_ROW_BYTES;
    bench_open(&b, &(struct fake_server_options){.lose_after = 5, .lose_times = 2}, 20, window);
    b.record.keeps_payload = true;
    CHECK_OK(ask(&b, 0, 60, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 20));
    CU_ASSERT_EQUAL(fake_server_stats(b.server).replies, 20);
    pthread_mutex_lock(&b.record.lock);
    b.record.keeps_payload = false;
    pthread_mutex_unlock(&b.record.lock);
    b.source->consumed(b.source, 0, window);
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 60));
    check_each_once(&b, 60);
    bench_close(&b);
}

TEST(counts_the_messages_bytes)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){0}, 5, 1 << 20);
    CHECK_OK(ask(&b, 0, 100, 5));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 100));
    CU_ASSERT_EQUAL(b.source->wire_bytes(b.source), fake_server_stats(b.server).message_bytes);
    CU_ASSERT(b.source->wire_bytes(b.source) >= 100 * 4 * FAKE_ROW_BYTES);
    bench_close(&b);
}

TEST(a_restarted_server_costs_time_only)
{
    struct bench b;
    const int port = sluice_test_port();
    bench_open(&b, &(struct fake_server_options){.max_in_flight = 3, .port = port}, 30, 1 << 20);
    CHECK_OK(ask(&b, 0, 60, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 5));
    fake_server_stop(b.server);
    CHECK_OK(ask(&b, 60, 60, 3));
    b.server = fake_server_start(&(struct fake_server_options){.dataset = &dataset, .port = port});
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 120));
    b.source->close(b.source);
    check_each_once(&b, 120);
    bench_close(&b);
}

static size_t count_in(const char *text, const char *word)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)); at++)
        count++;
    return count;
}

TEST(a_server_that_nobody_waits_for_is_said_to_be_lost_and_back)
{
    struct bench b;
    const int port = sluice_test_port();
    static struct sluice_test_output output;
    sluice_log_set_level(SLUICE_LOG_INFO);
    sluice_test_capture_begin();
    bench_open(&b, &(struct fake_server_options){.port = port}, 30, 1 << 20);
    CHECK_OK(ask(&b, 0, 10, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 10));
    fake_server_stop(b.server); /* nothing is asked for meanwhile */
    while (sluice_live_get(&b.live.lost_since_ns) == 0)
        sched_yield();
    b.server = fake_server_start(&(struct fake_server_options){.dataset = &dataset, .port = port});
    while (sluice_live_get(&b.live.lost_since_ns) != 0)
        sched_yield();
    CHECK_OK(ask(&b, 10, 10, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 20));
    b.source->close(b.source);
    sluice_test_capture_end(&output);
    sluice_log_set_level(SLUICE_LOG_ERROR);
    CU_ASSERT_EQUAL(sluice_live_get(&b.live.outages), 1);
    char lost[64], back[64];
    snprintf(lost, sizeof(lost), "lost 127.0.0.1:%d: ", port);
    snprintf(back, sizeof(back), "127.0.0.1:%d is back after ", port);
    CU_ASSERT_EQUAL(count_in(output.err, lost), 1);
    CU_ASSERT_EQUAL(count_in(output.err, " (trying for up to 30 s)"), 1);
    CU_ASSERT_EQUAL(count_in(output.err, back), 1);
    check_each_once(&b, 20);
    bench_close(&b);
}

TEST(another_dataset_after_a_restart_is_refused)
{
    struct bench b;
    const int port = sluice_test_port();
    bench_open(&b, &(struct fake_server_options){.port = port}, 30, 1 << 20);
    CHECK_OK(ask(&b, 0, 10, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 10));
    fake_server_stop(b.server);
    b.server = fake_server_start(&(struct fake_server_options){
        .dataset = &dataset, .port = port, .dataset_id = "00112233445566778899aabbccddeeff"});
    (void)ask(&b, 10, 10, 3);
    record_wait_failed(&b.record);
    CU_ASSERT_EQUAL(b.record.failure, SLUICE_E_INVALID);
    char id[33];
    sluice_hash128_hex(sluice_manifest_id(dataset.manifest), id);
    CU_ASSERT_PTR_NOT_NULL(strstr(b.record.failure_text, "00112233445566778899aabbccddeeff"));
    CU_ASSERT_PTR_NOT_NULL(strstr(b.record.failure_text, id));
    CU_ASSERT_EQUAL(ask(&b, 20, 1, 3), SLUICE_E_CLOSED);
    bench_close(&b);
}

TEST(a_server_that_keeps_refusing_the_stream_is_believed)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){.refuse_fetch = SLUICE_RPC_FAILED_PRECONDITION},
               30, 1 << 20);
    CHECK_OK(ask(&b, 0, 10, 3));
    record_wait_failed(&b.record);
    CU_ASSERT_EQUAL(b.record.failure, SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(b.record.failure_text, "refused on purpose"));
    CU_ASSERT_EQUAL(fake_server_stats(b.server).streams, SLUICE_CLIENT_REFUSALS);
    bench_close(&b);
}

TEST(gives_up_when_nothing_was_answered_for_so_long)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){0}, 0.2, 1 << 20);
    CHECK_OK(ask(&b, 0, 10, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 10));
    fake_server_stop(b.server);
    b.server = NULL;
    (void)ask(&b, 10, 10, 3);
    record_wait_failed(&b.record);
    CU_ASSERT_EQUAL(b.record.failure, SLUICE_E_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(b.record.failure_text, "tried for"));
    CU_ASSERT_EQUAL(b.record.num_answers, 10);
    bench_close(&b);
}

TEST(close_ends_the_waiting_and_refuses_requests)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){0}, 1000, 1 << 20);
    fake_server_stop(b.server);
    b.server = NULL;
    CHECK_OK(ask(&b, 0, 10, 3));
    b.source->close(b.source);
    b.source->close(b.source);
    CU_ASSERT_EQUAL(ask(&b, 10, 1, 3), SLUICE_E_CLOSED);
    CU_ASSERT_EQUAL(b.record.num_answers, 0);
    b.source->consumed(b.source, 0, 0);
    bench_close(&b);
}

/* --- silence --- */

/* Does not answer requests for one sample, as far as `only` and `splits` say. */
struct hanging {
    int only;           /* -1: every sample */
    unsigned min_split; /* ... that is asked for at this split or above it */
    unsigned times;     /* so often */
    atomic_uint seen;
};

static enum fake_action hang_some(void *ctx, const struct sluice_wire_sample_request *request,
                                  struct sluice_wire_sample_reply *reply)
{
    (void)reply;
    struct hanging *hanging = ctx;
    if (hanging->only >= 0 && request->key.sample_id != (uint64_t)hanging->only)
        return FAKE_SEND;
    if (request->split < hanging->min_split || hanging->seen >= hanging->times)
        return FAKE_SEND;
    hanging->seen++;
    return FAKE_KEEP;
}

TEST(a_sample_that_later_ones_have_passed_is_asked_for_as_a_file)
{
    struct bench b;
    struct hanging hanging = {.only = 20, .min_split = 1, .times = UINT_MAX};
    sample_timeout_s = 0.5;
    bench_open(&b, &(struct fake_server_options){.meddle = hang_some, .meddle_ctx = &hanging}, 20,
               1 << 20);
    CHECK_OK(ask(&b, 0, NUM_SAMPLES, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, NUM_SAMPLES));
    check_each_once(&b, NUM_SAMPLES);
    CU_ASSERT_EQUAL(b.record.order[NUM_SAMPLES - 1], 20);
    CU_ASSERT_EQUAL(b.record.ops_done[20], 0);
    CU_ASSERT_EQUAL(hanging.seen, 1);
    CU_ASSERT_EQUAL(stats_of(&b).lost_streams, 0);
    bench_close(&b);
}

TEST(a_stream_that_is_silent_is_opened_again)
{
    struct bench b;
    struct hanging hanging = {.only = -1, .times = 1}; /* the newest: nothing is sent after it */
    sample_timeout_s = 0.2;
    bench_open(&b, &(struct fake_server_options){.meddle = hang_some, .meddle_ctx = &hanging}, 20,
               1 << 20);
    CHECK_OK(ask(&b, 0, 1, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 1));
    check_each_once(&b, 1);
    CU_ASSERT(stats_of(&b).lost_streams >= 1);
    CU_ASSERT_EQUAL(sluice_live_get(&b.live.outages), 0); /* it answers Hello */
    bench_close(&b);
}

TEST(a_server_that_is_silent_for_ever_fails_each_sample_and_not_the_source)
{
    struct bench b;
    struct hanging hanging = {.only = -1, .times = UINT_MAX};
    sample_timeout_s = 0.2;
    bench_open(&b, &(struct fake_server_options){.meddle = hang_some, .meddle_ctx = &hanging}, 0.3,
               1 << 20);
    CHECK_OK(ask(&b, 0, 3, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 3));
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(b.record.status[i], SLUICE_E_IO);
        CU_ASSERT_STRING_EQUAL(b.record.error[i], "no answer within 0.2 s");
    }
    CU_ASSERT_FALSE(b.record.has_failed);
    bench_close(&b);
}

TEST(a_sample_that_never_comes_is_named_and_the_others_go_on)
{
    struct bench b;
    struct hanging hanging = {.only = 5, .times = UINT_MAX};
    sample_timeout_s = 0.5;
    bench_open(&b, &(struct fake_server_options){.meddle = hang_some, .meddle_ctx = &hanging}, 0.6,
               1 << 20);
    CHECK_OK(ask(&b, 0, NUM_SAMPLES, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, NUM_SAMPLES));
    CU_ASSERT_EQUAL(b.record.num_good, NUM_SAMPLES - 1);
    CU_ASSERT_EQUAL(b.record.status[5], SLUICE_E_IO);
    CU_ASSERT_STRING_EQUAL(b.record.error[5], "no answer within 0.5 s");
    CU_ASSERT(hanging.seen >= 2);
    CHECK_OK(ask(&b, 40, 10, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, NUM_SAMPLES + 10));
    CU_ASSERT_FALSE(b.record.has_failed);
    bench_close(&b);
}

TEST(no_time_counts_while_the_server_has_no_credit)
{
    struct bench b;
    sample_timeout_s = 0.3;
    bench_open(&b, &(struct fake_server_options){0}, 20, 10 * FAKE_ROW_BYTES);
    b.record.keeps_payload = true;
    CHECK_OK(ask(&b, 0, 60, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 10));
    /* The receiver takes several times the timeout. */
    const struct sluice_fetcher_stats before = stats_of(&b);
    const struct timespec pause = {.tv_nsec = 900000000};
    nanosleep(&pause, NULL);
    const struct sluice_fetcher_stats after = stats_of(&b);
    CU_ASSERT_EQUAL(after.lost_streams, before.lost_streams);
    CU_ASSERT_EQUAL(after.repeated, before.repeated);
    pthread_mutex_lock(&b.record.lock);
    b.record.keeps_payload = false;
    CU_ASSERT_EQUAL(b.record.num_answers, 10);
    pthread_mutex_unlock(&b.record.lock);
    b.source->consumed(b.source, 0, 10 * FAKE_ROW_BYTES);
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 60));
    check_each_once(&b, 60);
    bench_close(&b);
}

/* --- samples that end the connection --- */

struct poison {
    uint64_t sample;
    unsigned min_split;
    atomic_uint ended, ended_raw;
};

static enum fake_action poison_some(void *ctx, const struct sluice_wire_sample_request *request,
                                    struct sluice_wire_sample_reply *reply)
{
    (void)reply;
    struct poison *poison = ctx;
    if (request->key.sample_id != poison->sample || request->split < poison->min_split)
        return FAKE_SEND;
    poison->ended++;
    poison->ended_raw += request->split == 0;
    return FAKE_ABORT;
}

TEST(a_sample_that_ends_the_stream_comes_as_a_file)
{
    struct bench b;
    struct poison poison = {.sample = 17, .min_split = 1};
    bench_open(&b, &(struct fake_server_options){.meddle = poison_some, .meddle_ctx = &poison}, 20,
               1 << 20);
    CHECK_OK(ask(&b, 0, NUM_SAMPLES, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, NUM_SAMPLES));
    check_each_once(&b, NUM_SAMPLES);
    for (size_t i = 0; i < NUM_SAMPLES; i++)
        CU_ASSERT_EQUAL(b.record.ops_done[i], i == 17 ? 0 : 3);
    /* Slow start finds one in thirty at once or a few streams later. */
    CU_ASSERT(poison.ended >= 2 && poison.ended <= 8);
    bench_close(&b);
}

TEST(and_one_that_ends_it_as_a_file_is_named)
{
    struct bench b;
    struct poison poison = {.sample = 17};
    bench_open(&b, &(struct fake_server_options){.meddle = poison_some, .meddle_ctx = &poison}, 60,
               1 << 20);
    CHECK_OK(ask(&b, 0, NUM_SAMPLES, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, NUM_SAMPLES));
    CU_ASSERT_EQUAL(b.record.num_good, NUM_SAMPLES - 1);
    CU_ASSERT_EQUAL(b.record.status[17], SLUICE_E_INTERNAL);
    CU_ASSERT_STRING_EQUAL(b.record.error[17], "its answer ended the connection 5 times");
    CU_ASSERT_EQUAL(poison.ended_raw, 3);
    CU_ASSERT(poison.ended <= 11);
    CU_ASSERT_FALSE(b.record.has_failed);
    bench_close(&b);
}

/* Ends the first stream with its first reply; notes which sample is asked for after that. */
struct order {
    atomic_bool has_ended;
    atomic_int next;
};

static enum fake_action end_first(void *ctx, const struct sluice_wire_sample_request *request,
                                  struct sluice_wire_sample_reply *reply)
{
    (void)reply;
    struct order *order = ctx;
    if (!atomic_exchange(&order->has_ended, true))
        return FAKE_ABORT;
    int none = -1;
    atomic_compare_exchange_strong(&order->next, &none, (int)request->key.sample_id);
    return FAKE_SEND;
}

/* The server answers the newest request first, so one that is not alone is not the lowest. */
TEST(after_a_loss_the_lowest_ticket_goes_alone)
{
    struct bench b;
    struct order order = {.next = -1};
    bench_open(&b, &(struct fake_server_options){.meddle = end_first, .meddle_ctx = &order}, 20,
               1 << 20);
    CHECK_OK(ask(&b, 0, NUM_SAMPLES, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, NUM_SAMPLES));
    check_each_once(&b, NUM_SAMPLES);
    CU_ASSERT_EQUAL(order.next, 0);
    bench_close(&b);
}

TEST(one_that_fails_after_a_loss_does_not_hold_up_the_others)
{
    struct bench b;
    struct failing failing = {.status = SLUICE_E_IO, .times = UINT_MAX, .only = 0};
    bench_open(&b,
               &(struct fake_server_options){
                   .lose_after = 1, .lose_times = 1, .meddle = fail_some, .meddle_ctx = &failing},
               20, 1 << 20);
    CHECK_OK(ask(&b, 0, NUM_SAMPLES, 3));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, NUM_SAMPLES - 1));
    pthread_mutex_lock(&b.record.lock);
    CU_ASSERT_EQUAL(b.record.answers[0], 0);
    pthread_mutex_unlock(&b.record.lock);
    bench_close(&b);
}

/* --- a server that is not to be trusted --- */

struct hostile {
    enum { LONG_FILE, WRONG_FORM, MORE_OPS, BAD_SIZE, SHORT_PIXELS } trick;
    unsigned every;
    unsigned seen;
};

static void resize_payload(struct sluice_wire_sample_reply *reply, size_t len)
{
    struct sluice_buf *buf = NULL;
    if (sluice_buf_create(NULL, len, &buf, NULL) != SLUICE_OK)
        abort();
    memset(buf->data, 1, len);
    buf->len = len;
    sluice_buf_unref(reply->payload);
    reply->payload = buf;
}

static enum fake_action trick(void *ctx, const struct sluice_wire_sample_request *request,
                              struct sluice_wire_sample_reply *reply)
{
    (void)request;
    struct hostile *hostile = ctx;
    if (++hostile->seen % hostile->every != 0)
        return FAKE_SEND;
    switch (hostile->trick) {
    case LONG_FILE:
        resize_payload(reply, 5000);
        break;
    case WRONG_FORM:
        reply->form = SLUICE_FORM_U8_PACKED;
        break;
    case MORE_OPS:
        reply->ops_done = 3;
        reply->form = SLUICE_FORM_U8;
        reply->width = reply->height = 8;
        reply->channels = 3;
        resize_payload(reply, FAKE_ROW_BYTES);
        break;
    case BAD_SIZE:
        reply->width = reply->height = 60000;
        break;
    case SHORT_PIXELS:
        resize_payload(reply, 10);
        break;
    }
    return FAKE_SEND;
}

TEST(a_payload_that_cannot_be_the_samples_is_asked_again)
{
    static const struct {
        int trick;
        unsigned split;
    } cases[] = {{LONG_FILE, 0}, {WRONG_FORM, 0}, {MORE_OPS, 0}, {BAD_SIZE, 3}, {SHORT_PIXELS, 3}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct bench b;
        struct hostile hostile = {.every = 5};
        memcpy(&hostile.trick, &cases[i].trick, sizeof(hostile.trick));
        listed_bytes = 2000; /* no file of the dataset has more */
        bench_open(&b, &(struct fake_server_options){.meddle = trick, .meddle_ctx = &hostile}, 20,
                   1 << 20);
        CHECK_OK(ask(&b, 0, NUM_SAMPLES, cases[i].split));
        CU_ASSERT_TRUE(record_wait_answers(&b.record, NUM_SAMPLES));
        check_each_once(&b, NUM_SAMPLES);
        CU_ASSERT(stats_of(&b).repeated >= NUM_SAMPLES / 5);
        listed_bytes = 0;
        bench_close(&b);
    }
}

TEST(payload_above_its_credit_ends_the_stream_and_is_not_kept)
{
    struct bench b;
    const uint64_t window = 4 * FAKE_ROW_BYTES;
    bench_open(&b, &(struct fake_server_options){.ignores_credit = true}, 20, window);
    b.record.keeps_payload = true;
    CHECK_OK(ask(&b, 0, NUM_SAMPLES, 3));
    while (stats_of(&b).lost_streams < 3)
        sched_yield();
    pthread_mutex_lock(&b.record.lock);
    /* What was taken: the window, and one reply for each new stream, which has a credit of 1. */
    CU_ASSERT(b.record.kept_bytes <= window + 4 * FAKE_ROW_BYTES);
    b.record.keeps_payload = false;
    const size_t kept = b.record.kept_bytes;
    pthread_mutex_unlock(&b.record.lock);
    b.source->consumed(b.source, 0, kept);
    CU_ASSERT_TRUE(record_wait_answers(&b.record, NUM_SAMPLES));
    check_each_once(&b, NUM_SAMPLES);
    bench_close(&b);
}

static enum fake_action send_much(void *ctx, const struct sluice_wire_sample_request *request,
                                  struct sluice_wire_sample_reply *reply)
{
    (void)ctx;
    if (request->key.sample_id == 11)
        resize_payload(reply, 300000);
    return FAKE_SEND;
}

TEST(a_message_above_the_bound_is_not_taken)
{
    struct bench b = {0};
    b.server =
        fake_server_start(&(struct fake_server_options){.dataset = &dataset, .meddle = send_much});
    max_message_bytes = 100000;
    bench_open_at(&b, fake_server_target(b.server), 60, 1 << 20);
    CHECK_OK(ask(&b, 0, NUM_SAMPLES, 0));
    CU_ASSERT_TRUE(record_wait_answers(&b.record, NUM_SAMPLES - 1));
    while (stats_of(&b).lost_streams < 3)
        sched_yield();
    CU_ASSERT_EQUAL(b.record.answers[11], 0);
    CU_ASSERT(b.source->wire_bytes(b.source) < 300000);
    bench_close(&b);
}

TEST(replies_that_nobody_asked_for_do_not_use_up_the_credit)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){.stray_every = 1, .repeat_every = 1}, 20,
               8 * FAKE_ROW_BYTES);
    for (unsigned round = 0; round < 4; round++) {
        CHECK_OK(ask(&b, round * 30, 30, 3));
        CU_ASSERT_TRUE(record_wait_answers(&b.record, (round + 1) * 30));
    }
    check_each_once(&b, 120);
    CU_ASSERT_EQUAL(stats_of(&b).lost_streams, 0);
    bench_close(&b);
}

int main(void)
{
    sluice_log_set_level(SLUICE_LOG_ERROR);
    return fake_dataset_main(&dataset, NUM_SAMPLES, &pipeline);
}
