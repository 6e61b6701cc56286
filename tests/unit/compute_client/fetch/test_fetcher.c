#include "compute_client/fetch/fetcher.h"

#include "base/clock.h"
#include "base/log.h"
#include "fake_server.h"
#include "record.h"
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* The stream to one server, and what it tells; the source's promises are in test_one_server.c. */

#define NUM_SAMPLES RECORD_SAMPLES
#define MAX_ITEMS 40

static struct fake_dataset dataset;
static struct sluice_pipeline *pipeline;

struct bench {
    struct fake_server *server;
    struct sluice_client *client;
    struct sluice_fetcher *fetcher;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned num_there, num_losses, num_results;
    unsigned answers[MAX_ITEMS]; /* by ticket: results, and what was owed */
    sluice_status status;        /* of the last result */
    bool is_overdue;
    /* Of the first loss, or the first refusal. */
    struct sluice_fetcher_loss loss;
    struct sluice_fetcher_owed owed[MAX_ITEMS];
    char text[400];
};

static void on_there(void *ctx, const struct sluice_server_info *info)
{
    struct bench *b = ctx;
    pthread_mutex_lock(&b->lock);
    b->num_there += info->num_samples == NUM_SAMPLES;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

static void on_lost(void *ctx, const struct sluice_fetcher_loss *loss)
{
    struct bench *b = ctx;
    pthread_mutex_lock(&b->lock);
    if (b->num_losses++ == 0 || (loss->is_refusal && !b->loss.is_refusal)) {
        b->loss = *loss;
        for (size_t i = 0; i < loss->num_owed; i++)
            b->owed[i] = loss->owed[i];
        snprintf(b->text, sizeof(b->text), "%s", loss->text);
    }
    for (size_t i = 0; i < loss->num_owed; i++)
        b->answers[loss->owed[i].ticket]++;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

static void on_result(void *ctx, struct sluice_source_result *result)
{
    struct bench *b = ctx;
    pthread_mutex_lock(&b->lock);
    b->num_results++;
    b->answers[result->ticket]++;
    b->status = result->status;
    b->is_overdue = result->is_overdue;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    sluice_source_result_clear(result);
}

/* Waits until *counter, which the events change, is `least` or more. */
static void wait_for(struct bench *b, const unsigned *counter, unsigned least)
{
    pthread_mutex_lock(&b->lock);
    while (*counter < least)
        pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

static void bench_open(struct bench *b, const struct fake_server_options *server,
                       double sample_timeout_s)
{
    *b = (struct bench){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    struct fake_server_options options = *server;
    options.dataset = &dataset;
    b->server = fake_server_start(&options);
    const struct sluice_client_options client = {.target = fake_server_target(b->server),
                                                 .retry_for_s = 20};
    REQUIRE_OK(sluice_client_create(&client, &b->client, NULL));
    const struct sluice_fetcher_options fetcher = {
        .client = b->client,
        .pipeline = pipeline,
        .dataset_id = "",
        .max_items = MAX_ITEMS,
        .window_bytes = 1 << 20,
        .sample_timeout_s = sample_timeout_s,
        .events = {.on_there = on_there, .on_lost = on_lost, .on_result = on_result, .ctx = b},
    };
    REQUIRE_OK(sluice_fetcher_create(&fetcher, &b->fetcher, NULL));
}

static void bench_close(struct bench *b)
{
    sluice_fetcher_destroy(b->fetcher);
    sluice_client_destroy(b->client);
    if (b->server)
        fake_server_stop(b->server);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
}

static sluice_status ask(struct bench *b, size_t count)
{
    struct sluice_source_item items[MAX_ITEMS];
    for (size_t i = 0; i < count; i++)
        items[i] = (struct sluice_source_item){
            .ticket = i,
            .key = {.seed = 1, .epoch = 2, .sample_id = i % NUM_SAMPLES},
            .path = "",
            .split = 3,
            .form = SLUICE_FORM_U8,
        };
    return sluice_fetcher_request(b->fetcher, items, count);
}

static enum fake_action act(void *ctx, const struct sluice_wire_sample_request *request,
                            struct sluice_wire_sample_reply *reply)
{
    (void)request, (void)reply;
    return *(const enum fake_action *)ctx;
}

static enum fake_action fail(void *ctx, const struct sluice_wire_sample_request *request,
                             struct sluice_wire_sample_reply *reply)
{
    (void)request;
    sluice_buf_unref(reply->payload);
    reply->payload = NULL;
    reply->status = SLUICE_E_IO;
    atomic_fetch_add((atomic_uint *)ctx, 1);
    return FAKE_SEND;
}

TEST(a_failure_that_may_pass_is_an_answer)
{
    struct bench b;
    atomic_uint replies = 0;
    bench_open(&b, &(struct fake_server_options){.meddle = fail, .meddle_ctx = &replies}, 0);
    wait_for(&b, &b.num_there, 1);
    CHECK_OK(ask(&b, 5));
    wait_for(&b, &b.num_results, 5);
    CU_ASSERT_EQUAL(b.status, SLUICE_E_IO);
    sluice_fetcher_close(b.fetcher);
    CU_ASSERT_EQUAL(replies, 5);
    CU_ASSERT_EQUAL(sluice_fetcher_stats(b.fetcher).repeated, 0);
    bench_close(&b);
}

TEST(without_a_stream_it_takes_no_requests)
{
    struct bench b;
    bench_open(&b, &(struct fake_server_options){.refuse_fetch = SLUICE_RPC_UNAVAILABLE}, 0);
    fake_server_stop(b.server);
    b.server = NULL;
    wait_for(&b, &b.num_losses, 2); /* it goes on trying */
    CU_ASSERT_EQUAL(ask(&b, 1), SLUICE_E_AGAIN);
    CU_ASSERT_FALSE(b.loss.is_refusal);
    sluice_fetcher_close(b.fetcher);
    CU_ASSERT_EQUAL(ask(&b, 1), SLUICE_E_AGAIN);
    bench_close(&b);
}

/* Asks a server, which acts so, for a sample, and waits until it is lost. */
static void lose(struct bench *b, enum fake_action *action)
{
    const uint64_t before_ns = sluice_clock_ns();
    bench_open(b, &(struct fake_server_options){.meddle = act, .meddle_ctx = action},
               *action == FAKE_KEEP ? 0.1 : 0);
    wait_for(b, &b->num_there, 1);
    CHECK_OK(ask(b, 1));
    wait_for(b, &b->num_losses, 1);
    CU_ASSERT_EQUAL(b->loss.status, SLUICE_E_IO);
    CU_ASSERT_FALSE(b->loss.is_refusal);
    CU_ASSERT_EQUAL(b->loss.is_silent, *action == FAKE_KEEP);
    CU_ASSERT_EQUAL(b->loss.away_ns >= before_ns, *action != FAKE_KEEP);
    CU_ASSERT_EQUAL(b->answers[0], 1);
    CU_ASSERT_EQUAL(sluice_fetcher_stats(b->fetcher).lost_streams, 1);
}

TEST(a_silent_stream_is_lost_and_its_requests_fail_before)
{
    struct bench b;
    enum fake_action action = FAKE_KEEP;
    lose(&b, &action);
    CU_ASSERT_PTR_NOT_NULL(strstr(b.text, "no answer for "));
    CU_ASSERT_EQUAL(b.loss.num_owed, 0);
    CU_ASSERT_EQUAL(b.status, SLUICE_E_IO);
    CU_ASSERT_TRUE(b.is_overdue);
    bench_close(&b);
}

TEST(a_stream_that_ends_without_a_failure_is_lost_with_one)
{
    struct bench b;
    enum fake_action action = FAKE_END;
    lose(&b, &action);
    CU_ASSERT_PTR_NOT_NULL(strstr(b.text, "it ended the stream"));
    CU_ASSERT_EQUAL(b.loss.num_owed, 1);
    CU_ASSERT_TRUE(b.owed[0].was_sent);
    CU_ASSERT_EQUAL(b.num_results, 0);
    CU_ASSERT_EQUAL(sluice_fetcher_stats(b.fetcher).repeated, 1);
    bench_close(&b);
}

TEST(a_lost_stream_owes_what_was_sent_and_what_was_not)
{
    struct bench b;
    enum fake_action action = FAKE_KEEP;
    bench_open(
        &b, &(struct fake_server_options){.max_in_flight = 3, .meddle = act, .meddle_ctx = &action},
        0);
    wait_for(&b, &b.num_there, 1);
    CHECK_OK(ask(&b, 10));
    while (fake_server_stats(b.server).requests < 3)
        sched_yield();
    CU_ASSERT_TRUE(sluice_fetcher_cancel(b.fetcher, 1));  /* sent */
    CU_ASSERT_TRUE(sluice_fetcher_cancel(b.fetcher, 9));  /* not sent */
    CU_ASSERT_FALSE(sluice_fetcher_cancel(b.fetcher, 9)); /* forgotten */
    while (fake_server_stats(b.server).requests < 4)
        sched_yield();
    sluice_fetcher_cut(b.fetcher, "cut on purpose");
    wait_for(&b, &b.num_there, 2); /* it is opened again */
    CU_ASSERT_PTR_NOT_NULL(strstr(b.text, "cut on purpose"));
    CU_ASSERT_EQUAL(b.loss.num_owed, 8);
    size_t num_sent = 0;
    for (size_t i = 0; i < b.loss.num_owed; i++)
        num_sent += b.owed[i].was_sent;
    CU_ASSERT_EQUAL(num_sent, 3);
    for (size_t i = 0; i < 10; i++)
        CU_ASSERT_EQUAL(b.answers[i], i == 1 || i == 9 ? 0 : 1);
    bench_close(&b);
}

TEST(a_refusal_is_believed_after_several_in_a_row)
{
    struct bench b;
    bench_open(&b,
               &(struct fake_server_options){.dataset_id = "00112233445566778899aabbccddeeff",
                                             .fingerprint_xor = 1},
               0);
    wait_for(&b, &b.num_losses, SLUICE_CLIENT_REFUSALS);
    CU_ASSERT_TRUE(b.loss.is_refusal);
    CU_ASSERT_EQUAL(b.num_losses, SLUICE_CLIENT_REFUSALS);
    CU_ASSERT_EQUAL(b.loss.status, SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(b.loss.away_ns, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(b.text, "pipeline"));
    CU_ASSERT_EQUAL(b.num_there, 0);
    bench_close(&b);
}

TEST(rejects_no_items_and_no_window)
{
    struct sluice_fetcher *fetcher = NULL;
    const struct sluice_fetcher_options bad[] = {
        {.pipeline = pipeline, .dataset_id = "", .window_bytes = 1},
        {.pipeline = pipeline, .dataset_id = "", .max_items = 1},
        {.pipeline = pipeline, .dataset_id = "", .max_items = 1 << 20, .window_bytes = 1},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(bad); i++)
        CU_ASSERT_EQUAL(sluice_fetcher_create(&bad[i], &fetcher, NULL), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NULL(fetcher);
}

int main(void)
{
    sluice_log_set_level(SLUICE_LOG_ERROR);
    return fake_dataset_main(&dataset, NUM_SAMPLES, &pipeline);
}
