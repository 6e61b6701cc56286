#include "compute_client/fetch/replicas.h"

#include "base/log.h"
#include "fake_server.h"
#include "record.h"
#include "support/capture.h"
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define NUM_SAMPLES RECORD_SAMPLES
#define MAX_ITEMS RECORD_MAX_ITEMS
#define MAX_SERVERS 4

static struct fake_dataset dataset;
static struct sluice_pipeline *pipeline;

/* --- servers --- */

/* What a server does to its replies; changed while it runs. */
struct conduct {
    atomic_bool is_silent;
    atomic_int kept;           /* the sample that it never answers; -1: none */
    atomic_int poison;         /* the sample that ends the stream; -1: none */
    atomic_bool is_poison_raw; /* also as a file */
    atomic_uint slow_ms;       /* for each reply */
    atomic_bool keeps_next;    /* does not answer the next request */
    atomic_int status;         /* of every reply, in place of a sample */
    atomic_uint replies;       /* that it made */
    atomic_uint strangers;     /* requests for samples of another shard */
    unsigned shard, num_shards;
};

static enum fake_action behave(void *ctx, const struct sluice_wire_sample_request *request,
                               struct sluice_wire_sample_reply *reply)
{
    struct conduct *conduct = ctx;
    if (conduct->num_shards && request->key.sample_id % conduct->num_shards != conduct->shard)
        conduct->strangers++;
    const bool is_kept = (int)request->key.sample_id == conduct->kept ||
                         atomic_exchange(&conduct->keeps_next, false);
    if (conduct->is_silent || is_kept)
        return FAKE_KEEP;
    if ((int)request->key.sample_id == conduct->poison &&
        (request->split > 0 || conduct->is_poison_raw))
        return FAKE_ABORT;
    if (conduct->slow_ms) {
        const struct timespec pause = {.tv_nsec = (long)conduct->slow_ms * 1000000};
        nanosleep(&pause, NULL);
    }
    conduct->replies++;
    if (conduct->status != SLUICE_OK) {
        sluice_buf_unref(reply->payload);
        reply->payload = NULL;
        reply->status = (sluice_status)(int)conduct->status;
        snprintf(reply->error, sizeof(reply->error), "it fails");
    }
    return FAKE_SEND;
}

struct bench {
    size_t num_servers;
    struct fake_server *servers[MAX_SERVERS];
    struct fake_server_options options[MAX_SERVERS];
    struct conduct conduct[MAX_SERVERS];
    struct sluice_client *clients[MAX_SERVERS];
    struct sluice_source *source;
    struct record record;
    struct sluice_live live;
    struct sluice_manifest_place places[NUM_SAMPLES];
};

/* Of the next bench. */
static struct {
    double retry_for_s, sample_timeout_s;
    uint64_t window_bytes;
    uint32_t num_shards;
    bool hedges;
    size_t num_absent; /* the last so many servers are not there */
    size_t num_later;  /* and these are no replicas yet */
} set;

static void start_server(struct bench *b, size_t i)
{
    b->servers[i] = fake_server_start(&b->options[i]);
}

static void stop_server(struct bench *b, size_t i)
{
    fake_server_stop(b->servers[i]);
    b->servers[i] = NULL;
}

static const char *dataset_id(void)
{
    static char id[33];
    sluice_hash128_hex(sluice_manifest_id(dataset.manifest), id);
    return id;
}

static struct sluice_replica replica_of(struct bench *b, size_t i)
{
    return (struct sluice_replica){
        .client = b->clients[i],
        .shard = (uint32_t)(i % (set.num_shards ? set.num_shards : 1)),
        .dataset_id = dataset_id(),
    };
}

static void bench_open(struct bench *b, size_t num_servers)
{
    *b = (struct bench){.num_servers = num_servers};
    const double retry_for_s = set.retry_for_s ? set.retry_for_s : 20;
    struct sluice_replica replicas[MAX_SERVERS];
    for (size_t i = 0; i < num_servers; i++) {
        b->conduct[i].poison = b->conduct[i].kept = -1;
        b->conduct[i].num_shards = set.num_shards;
        b->conduct[i].shard = set.num_shards ? (unsigned)i % set.num_shards : 0;
        b->options[i] = (struct fake_server_options){
            .dataset = &dataset,
            .port = sluice_test_port(),
            .prep_cores = 2,
            .meddle = behave,
            .meddle_ctx = &b->conduct[i],
        };
        if (i + set.num_absent < num_servers)
            start_server(b, i);
        char target[32];
        snprintf(target, sizeof(target), "127.0.0.1:%d", b->options[i].port);
        const struct sluice_client_options client = {.target = target, .retry_for_s = retry_for_s};
        REQUIRE_OK(sluice_client_create(&client, &b->clients[i], NULL));
        replicas[i] = replica_of(b, i);
    }
    for (uint32_t i = 0; i < NUM_SAMPLES && set.num_shards; i++)
        b->places[i] = (struct sluice_manifest_place){i % set.num_shards, i / set.num_shards};
    record_init(&b->record);
    const struct sluice_replicas_options options = {
        .replicas = replicas,
        .num_replicas = num_servers - set.num_later,
        .num_shards = set.num_shards ? set.num_shards : 1,
        .places = set.num_shards ? b->places : NULL,
        .fetcher =
            {
                .pipeline = pipeline,
                .max_items = MAX_ITEMS,
                .window_bytes = set.window_bytes ? set.window_bytes : 1 << 20,
                .sample_timeout_s = set.sample_timeout_s,
                .live = &b->live,
            },
        .hedges = set.hedges,
        .shows_outages = true,
        .events = record_events(&b->record),
    };
    /* The first answer may come before create() returns. */
    pthread_mutex_lock(&b->record.lock);
    REQUIRE_OK(sluice_replicas_create(&options, &b->source, NULL));
    b->record.source = b->source;
    pthread_mutex_unlock(&b->record.lock);
}

static void bench_close(struct bench *b)
{
    b->source->close(b->source);
    const struct sluice_replicas_stats stats = sluice_replicas_stats(b->source);
    CU_ASSERT_EQUAL(sluice_live_get(&b->live.wire_bytes), stats.fetchers.wire_bytes);
    CU_ASSERT_EQUAL(sluice_live_get(&b->live.lost_streams), stats.fetchers.lost_streams);
    CU_ASSERT_EQUAL(sluice_live_get(&b->live.repeated), stats.fetchers.repeated);
    CU_ASSERT_EQUAL(sluice_live_get(&b->live.failed_over), stats.failed_over);
    CU_ASSERT_EQUAL(sluice_live_get(&b->live.hedged), stats.hedged);
    b->source->destroy(b->source);
    CU_ASSERT_EQUAL(b->record.num_wrong, 0);
    CU_ASSERT_EQUAL(sluice_live_get(&b->live.lost_since_ns), 0);
    for (size_t i = 0; i < b->num_servers; i++) {
        CU_ASSERT_EQUAL(b->conduct[i].strangers, 0);
        sluice_client_destroy(b->clients[i]);
        if (b->servers[i])
            fake_server_stop(b->servers[i]);
    }
    record_clear(&b->record);
    memset(&set, 0, sizeof(set));
}

static void ask(struct bench *b, uint64_t first, size_t count, unsigned split)
{
    CHECK_OK(record_ask(&b->record, first, count, split, 0));
}

static void check_each_once(const struct bench *b, size_t count)
{
    CU_ASSERT_TRUE(record_has_each_once(&b->record, count));
}

/* All of first .. first + count are good in the end. */
static void fetch(struct bench *b, uint64_t first, size_t count)
{
    ask(b, first, count, 3);
    CU_ASSERT_TRUE(record_wait_answers(&b->record, first + count));
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* Fetches from ticket `done` on until the server has answered once more; returns the next ticket.
 */
static size_t fetch_until_it_answers(struct bench *b, size_t done, size_t server)
{
    const unsigned before = b->conduct[server].replies;
    for (; b->conduct[server].replies == before && done + 2 <= MAX_ITEMS; done += 2) {
        nap();
        fetch(b, done, 2);
    }
    CU_ASSERT(b->conduct[server].replies > before);
    return done;
}

/* Asks for more from ticket `done` on until the server, which is silent, owes some. */
static size_t ask_until_it_owes(struct bench *b, size_t done, size_t server)
{
    const uint64_t before = fake_server_stats(b->servers[server]).requests;
    for (; fake_server_stats(b->servers[server]).requests == before && done + 20 <= MAX_ITEMS;
         done += 20) {
        ask(b, done, 20, 3);
        nap();
    }
    CU_ASSERT(fake_server_stats(b->servers[server]).requests > before);
    return done;
}

/* --- the tests --- */

TEST(all_servers_answer_and_each_item_is_answered_once)
{
    struct bench b;
    bench_open(&b, 3);
    size_t done = 0;
    for (size_t i = 0; i < 3; i++)
        done = fetch_until_it_answers(&b, done, i);
    fetch(&b, done, 400);
    b.source->close(b.source);
    check_each_once(&b, done + 400);
    CU_ASSERT_EQUAL(b.record.num_good, done + 400);
    CU_ASSERT_DOUBLE_EQUAL(b.record.cores, 6, 1e-9);
    bench_close(&b);
}

TEST(an_item_goes_to_the_shard_that_has_it)
{
    struct bench b;
    set.num_shards = 2;
    bench_open(&b, 4);
    fetch(&b, 0, 200);
    b.source->close(b.source);
    check_each_once(&b, 200);
    for (size_t i = 0; i < 200; i++)
        CU_ASSERT_EQUAL(b.record.origin[i] % 2, i % NUM_SAMPLES % 2);
    bench_close(&b); /* checks that nobody was asked for another shard's */
}

TEST(what_a_lost_server_owes_comes_from_another)
{
    struct bench b;
    bench_open(&b, 2);
    size_t done = fetch_until_it_answers(&b, 0, 0);
    b.conduct[0].is_silent = true;
    done = ask_until_it_owes(&b, done, 0);
    stop_server(&b, 0);
    CU_ASSERT_TRUE(record_wait_answers(&b.record, done));
    CU_ASSERT(sluice_replicas_stats(b.source).failed_over > 0);
    CU_ASSERT_EQUAL(sluice_live_get(&b.live.outages), 0); /* nobody had to wait */
    /* It is used again once it is back. */
    b.conduct[0].is_silent = false;
    start_server(&b, 0);
    done = fetch_until_it_answers(&b, done, 0);
    b.source->close(b.source);
    check_each_once(&b, done);
    CU_ASSERT_EQUAL(b.record.num_good, done);
    bench_close(&b);
}

TEST(a_server_that_is_absent_at_first_is_used_once_it_is_there)
{
    struct bench b;
    set.num_absent = 1;
    bench_open(&b, 2);
    fetch(&b, 0, 100);
    start_server(&b, 1);
    (void)fetch_until_it_answers(&b, 100, 1);
    bench_close(&b);
}

TEST(with_all_servers_away_the_first_that_is_back_serves)
{
    struct bench b;
    bench_open(&b, 2);
    fetch(&b, 0, 40);
    stop_server(&b, 0);
    stop_server(&b, 1);
    ask(&b, 40, 60, 3);
    while (sluice_live_get(&b.live.lost_since_ns) == 0)
        nap();
    start_server(&b, 1);
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 100));
    CU_ASSERT_EQUAL(sluice_live_get(&b.live.lost_since_ns), 0);
    CU_ASSERT_EQUAL(sluice_live_get(&b.live.outages), 1);
    check_each_once(&b, 100);
    bench_close(&b);
}

TEST(gives_up_when_no_server_of_a_shard_came_back)
{
    struct bench b;
    set.retry_for_s = 0.3;
    set.num_shards = 2;
    bench_open(&b, 4);
    fetch(&b, 0, 40);
    stop_server(&b, 1);
    stop_server(&b, 3);
    ask(&b, 40, 20, 3);
    record_wait_failed(&b.record);
    CU_ASSERT_EQUAL(b.record.failure, SLUICE_E_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(b.record.failure_text, "127.0.0.1:"));
    CU_ASSERT_PTR_NOT_NULL(strstr(b.record.failure_text, "(tried for 0 s)"));
    const struct sluice_source_item item = {.ticket = 60, .path = ""};
    CU_ASSERT_EQUAL(b.source->request(b.source, &item, 1), SLUICE_E_CLOSED);
    bench_close(&b);
}

TEST(servers_are_added_and_removed_while_it_runs)
{
    struct bench b;
    set.num_later = 2;
    bench_open(&b, 3);
    fetch(&b, 0, 40);
    struct sluice_replica more = replica_of(&b, 1);
    CHECK_OK(sluice_replicas_add(b.source, &more, NULL));
    size_t done = fetch_until_it_answers(&b, 40, 1);
    b.conduct[0].is_silent = true;
    done = ask_until_it_owes(&b, done, 0);
    sluice_replicas_remove(b.source, b.clients[0]);
    CU_ASSERT_TRUE(record_wait_answers(&b.record, done));
    more = replica_of(&b, 2);
    CHECK_OK(sluice_replicas_add(b.source, &more, NULL));
    sluice_replicas_remove(b.source, b.clients[1]);
    done = fetch_until_it_answers(&b, done, 2);
    check_each_once(&b, done);
    CU_ASSERT_EQUAL(b.record.num_good, done);
    bench_close(&b);
}

TEST(a_silent_server_does_not_hold_up_the_others)
{
    struct bench b;
    bench_open(&b, 2);
    size_t done = fetch_until_it_answers(&b, 0, 0);
    b.conduct[0].is_silent = true;
    done = ask_until_it_owes(&b, done, 0);
    CU_ASSERT_TRUE(record_wait_answers(&b.record, done));
    CU_ASSERT(sluice_replicas_stats(b.source).failed_over > 0);
    CU_ASSERT_EQUAL(sluice_replicas_stats(b.source).fetchers.lost_streams, 0);
    /* Doubted, it is asked nothing, and cut off in the end. */
    const uint64_t requests = fake_server_stats(b.servers[0]).requests;
    fetch(&b, done, 100);
    done += 100;
    CU_ASSERT_EQUAL(fake_server_stats(b.servers[0]).requests, requests);
    ask(&b, done, 1, 3);
    done++;
    b.conduct[0].is_silent = false;
    done = fetch_until_it_answers(&b, done, 0);
    b.source->close(b.source);
    check_each_once(&b, done);
    CU_ASSERT_EQUAL(b.record.num_good, done);
    bench_close(&b);
}

TEST(a_doubt_that_was_wrong_costs_nothing_but_work)
{
    struct bench b;
    bench_open(&b, 2);
    size_t done = fetch_until_it_answers(&b, 0, 0);
    done = fetch_until_it_answers(&b, done, 1);
    b.conduct[0].slow_ms = b.conduct[1].slow_ms = 500; /* more than TUNING_FAILOVER_NS */
    fetch(&b, done, 3);
    CU_ASSERT(sluice_replicas_stats(b.source).failed_over <= 3);
    CU_ASSERT_EQUAL(sluice_replicas_stats(b.source).fetchers.lost_streams, 0);
    b.source->close(b.source);
    check_each_once(&b, done + 3);
    CU_ASSERT_EQUAL(b.record.num_good, done + 3);
    bench_close(&b);
}

TEST(a_slow_server_gets_less)
{
    struct bench b;
    bench_open(&b, 2);
    b.conduct[0].slow_ms = 20;
    b.conduct[1].slow_ms = 1;
    size_t done = fetch_until_it_answers(&b, 0, 0);
    done = fetch_until_it_answers(&b, done, 1);
    const size_t before = b.record.from[0];
    fetch(&b, done, 600);
    /* 1 in 20 by their rates. */
    CU_ASSERT(b.record.from[0] - before < 600 / 4);
    check_each_once(&b, done + 600);
    bench_close(&b);
}

/* Late binding: not all goes to whom was there when it was asked for. */
TEST(a_burst_is_shared_with_one_that_comes_later)
{
    struct bench b;
    set.num_absent = 1;
    bench_open(&b, 2);
    b.conduct[0].slow_ms = b.conduct[1].slow_ms = 5;
    ask(&b, 0, 400, 3);
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 1));
    start_server(&b, 1);
    CU_ASSERT_TRUE(record_wait_answers(&b.record, 400));
    CU_ASSERT(b.record.from[1] > 0);
    check_each_once(&b, 400);
    bench_close(&b);
}

/* Servers that a sample ends, in two rounds: as pixels alone, then as a file as well. */
static void check_poison(size_t num_servers, bool is_raw)
{
    struct bench b;
    bench_open(&b, num_servers);
    for (size_t i = 0; i < num_servers; i++) {
        b.conduct[i].poison = 7;
        b.conduct[i].is_poison_raw = is_raw;
    }
    fetch(&b, 0, NUM_SAMPLES);
    b.source->close(b.source);
    check_each_once(&b, NUM_SAMPLES);
    CU_ASSERT_EQUAL(b.record.num_good, is_raw ? NUM_SAMPLES - 1 : NUM_SAMPLES);
    for (size_t i = 0; i < NUM_SAMPLES; i++)
        if (i != 7)
            CU_ASSERT_EQUAL(b.record.ops_done[i], 3);
    CU_ASSERT_EQUAL(b.record.ops_done[7], 0);
    if (is_raw) {
        CU_ASSERT_EQUAL(b.record.status[7], SLUICE_E_INTERNAL);
        CU_ASSERT_STRING_EQUAL(b.record.error[7], "its answer ended the connection 5 times");
    }
    bench_close(&b);
}

TEST(a_sample_that_ends_every_server_comes_as_a_file)
{
    check_poison(1, false);
    check_poison(3, false);
}

TEST(and_one_that_does_so_as_a_file_is_named)
{
    check_poison(1, true);
    check_poison(3, true);
}

TEST(a_server_that_refuses_is_left_out_while_another_serves)
{
    struct bench b;
    static const char other[] = "0123456789abcdef0123456789abcdef";
    bench_open(&b, 2);
    size_t done = fetch_until_it_answers(&b, 0, 0);
    sluice_log_set_level(SLUICE_LOG_WARN);
    sluice_test_capture_begin();
    stop_server(&b, 0);
    b.options[0].dataset_id = other;
    start_server(&b, 0);
    while (fake_server_stats(b.servers[0]).hellos < SLUICE_CLIENT_REFUSALS) {
        fetch(&b, done++, 1);
        nap();
    }
    while (!sluice_test_capture_has(other)) /* the client has not read the last refusal yet */
        nap();
    /* Once it fits again it is used. */
    stop_server(&b, 0);
    b.options[0].dataset_id = NULL;
    start_server(&b, 0);
    done = fetch_until_it_answers(&b, done, 0);
    static struct sluice_test_output said;
    sluice_test_capture_end(&said);
    sluice_log_set_level(SLUICE_LOG_ERROR);
    CU_ASSERT_PTR_NOT_NULL(strstr(said.err, other));
    CU_ASSERT_PTR_NOT_NULL(strstr(said.err, dataset_id()));
    CU_ASSERT_FALSE(b.record.has_failed);
    check_each_once(&b, done);
    bench_close(&b);
}

TEST(a_shard_whose_servers_all_refuse_is_given_up)
{
    struct bench b;
    static const char other[] = "0123456789abcdef0123456789abcdef";
    bench_open(&b, 2);
    fetch(&b, 0, 40);
    for (size_t i = 0; i < 2; i++) {
        stop_server(&b, i);
        b.options[i].dataset_id = other;
    }
    for (size_t i = 0; i < 2; i++)
        start_server(&b, i);
    ask(&b, 40, 10, 3);
    record_wait_failed(&b.record);
    CU_ASSERT_EQUAL(b.record.failure, SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(b.record.failure_text, other));
    CU_ASSERT_PTR_NULL(strstr(b.record.failure_text, "tried for"));
    bench_close(&b);
}

TEST(what_fails_at_one_is_asked_of_another)
{
    struct bench b;
    bench_open(&b, 2);
    size_t done = fetch_until_it_answers(&b, 0, 0);
    b.conduct[0].status = SLUICE_E_IO;
    done = fetch_until_it_answers(&b, done, 0);
    fetch(&b, done, 100);
    done += 100;
    CU_ASSERT_EQUAL(b.record.num_good, done);
    CU_ASSERT(sluice_replicas_stats(b.source).fetchers.repeated > 0);
    check_each_once(&b, done);
    /* What the data is stays so. */
    b.conduct[0].status = b.conduct[1].status = SLUICE_E_CORRUPT;
    const uint64_t repeated = sluice_replicas_stats(b.source).fetchers.repeated;
    fetch(&b, done, 20);
    CU_ASSERT_EQUAL(b.record.num_good, done);
    CU_ASSERT_EQUAL(b.record.status[done + 3], SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(sluice_replicas_stats(b.source).fetchers.repeated, repeated);
    bench_close(&b);
}

TEST(a_failure_of_all_that_lasts_is_that_samples_error)
{
    struct bench b;
    set.retry_for_s = 0.3;
    bench_open(&b, 2);
    b.conduct[0].status = b.conduct[1].status = SLUICE_E_IO;
    fetch(&b, 0, 10);
    check_each_once(&b, 10);
    CU_ASSERT_EQUAL(b.record.num_good, 0);
    CU_ASSERT_EQUAL(b.record.status[3], SLUICE_E_IO);
    CU_ASSERT_STRING_EQUAL(b.record.error[3], "it fails");
    bench_close(&b);
}

TEST(all_servers_together_keep_to_the_window)
{
    struct bench b;
    set.window_bytes = 20 * FAKE_ROW_BYTES;
    bench_open(&b, 4);
    b.record.keeps_payload = true;
    ask(&b, 0, 200, 3);
    /* A server may begin a reply while it has any credit. */
    const size_t most = 20 + 4;
    for (size_t held = 0; held < 200;) {
        pthread_mutex_lock(&b.record.lock);
        const size_t here = b.record.num_answers;
        const size_t bytes = b.record.kept_bytes;
        b.record.kept_bytes = 0;
        uint32_t origin[200];
        size_t count = 0;
        for (size_t i = 0; i < 200; i++) {
            if (b.record.answers[i] == 1) {
                b.record.answers[i] = 2;
                origin[count++] = b.record.origin[i];
            }
        }
        pthread_mutex_unlock(&b.record.lock);
        CU_ASSERT(count <= most);
        CU_ASSERT_EQUAL(bytes, count * FAKE_ROW_BYTES);
        for (size_t i = 0; i < count; i++)
            b.source->consumed(b.source, origin[i], FAKE_ROW_BYTES);
        held = here;
        if (count == 0)
            nap();
    }
    bench_close(&b);
}

TEST(what_takes_longer_than_nearly_all_is_asked_for_twice)
{
    struct bench b;
    set.hedges = true;
    bench_open(&b, 2);
    size_t done = fetch_until_it_answers(&b, 0, 0);
    fetch(&b, done, 300);
    done += 300;
    struct sluice_replicas_stats stats = {0};
    /* A failover takes seconds of silence: a few are enough. */
    for (; stats.hedges_won == 0 && stats.failed_over < 10 && done + 2 <= MAX_ITEMS; done += 2) {
        /* In turns, as one of them may be known as slow, and be asked for nothing. */
        b.conduct[0].keeps_next = done / 2 % 2 == 0;
        b.conduct[1].keeps_next = done / 2 % 2 == 1;
        nap();
        fetch(&b, done, 2);
        stats = sluice_replicas_stats(b.source);
    }
    /* On a busy machine all round trips may be so long that failover comes first. */
    CU_ASSERT(stats.hedges_won > 0 || stats.failed_over > 0);
    CU_ASSERT(stats.hedges_won <= stats.hedged && stats.hedged <= done / 100);
    b.source->close(b.source);
    check_each_once(&b, done);
    CU_ASSERT_EQUAL(b.record.num_good, done);
    bench_close(&b);
}

TEST(rejects_a_shard_without_a_server)
{
    struct sluice_client *client = NULL;
    const struct sluice_client_options of_client = {.target = "127.0.0.1:1"};
    REQUIRE_OK(sluice_client_create(&of_client, &client, NULL));
    const struct sluice_replica replica = {.client = client, .shard = 1, .dataset_id = ""};
    struct sluice_replicas_options options = {
        .replicas = &replica,
        .num_replicas = 1,
        .num_shards = 2,
        .fetcher = {.pipeline = pipeline, .max_items = 10, .window_bytes = 1000},
    };
    struct sluice_source *source = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_replicas_create(&options, &source, &err), SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, "shard 0 has no server");
    options.num_shards = 1; /* but the replica is of shard 1 */
    CU_ASSERT_EQUAL(sluice_replicas_create(&options, &source, NULL), SLUICE_E_INVALID);
    options.fetcher.window_bytes = 0;
    CU_ASSERT_EQUAL(sluice_replicas_create(&options, &source, NULL), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NULL(source);
    sluice_client_destroy(client);
}

TEST(without_any_server_left_it_fails_in_the_end)
{
    struct bench b;
    set.retry_for_s = 0.2;
    bench_open(&b, 2);
    fetch(&b, 0, 20);
    sluice_replicas_remove(b.source, b.clients[0]);
    sluice_replicas_remove(b.source, b.clients[1]);
    ask(&b, 20, 1, 3);
    record_wait_failed(&b.record);
    CU_ASSERT_PTR_NOT_NULL(strstr(b.record.failure_text, "no server is left"));
    bench_close(&b);
}

TEST(what_is_consumed_late_may_be_of_a_server_that_is_gone)
{
    struct bench b;
    bench_open(&b, 2);
    b.record.keeps_payload = true;
    fetch(&b, 0, 100);
    sluice_replicas_remove(b.source, b.clients[0]);
    for (size_t i = 0; i < 100; i++)
        b.source->consumed(b.source, b.record.origin[i], FAKE_ROW_BYTES);
    fetch(&b, 100, 20);
    for (size_t i = 100; i < 120; i++)
        CU_ASSERT_EQUAL(b.record.origin[i], 1);
    bench_close(&b);
}

/* --- any order of events --- */

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

/* One thing happens to one of the servers; the last one only becomes slow, so that all ends. */
static void disturb(struct bench *b, uint64_t *state, bool *is_used)
{
    const size_t i = draw(state, (uint32_t)b->num_servers);
    const bool is_last = i + 1 == b->num_servers;
    struct conduct *conduct = &b->conduct[i];
    switch (is_last ? 3 : draw(state, 7)) {
    case 0:
    case 1:
        if (b->servers[i])
            stop_server(b, i);
        else
            start_server(b, i);
        break;
    case 2:
        conduct->status = draw(state, 2) ? SLUICE_OK : SLUICE_E_IO;
        break;
    case 3:
        conduct->slow_ms = draw(state, 3);
        break;
    case 4:
        conduct->is_silent = draw(state, 8) == 0;
        break;
    case 5:
        conduct->kept = draw(state, 4) ? -1 : (int)draw(state, NUM_SAMPLES);
        break;
    default:
        if (is_used[i]) {
            sluice_replicas_remove(b->source, b->clients[i]);
        } else {
            const struct sluice_replica more = replica_of(b, i);
            CHECK_OK(sluice_replicas_add(b->source, &more, NULL));
        }
        is_used[i] = !is_used[i];
        break;
    }
}

TEST(each_item_is_answered_once_whatever_happens)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const char *given = getenv("SLUICE_TEST_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)now.tv_nsec;
    printf("[seed %llu] ", (unsigned long long)seed);
    uint64_t state = seed;
    struct bench b;
    set.hedges = true;
    set.sample_timeout_s = 0.5;
    set.window_bytes = 16384; /* credit that got lost would soon be missed */
    bench_open(&b, 4);
    bool is_used[MAX_SERVERS] = {true, true, true, true};
    size_t done = 0;
    for (unsigned round = 0; round < 200 && done + 20 <= MAX_ITEMS; round++) {
        const size_t count = 4 + draw(&state, 16);
        ask(&b, done, count, draw(&state, 2) ? 3 : 0);
        done += count;
        disturb(&b, &state, is_used);
        if (draw(&state, 3) == 0)
            CU_ASSERT_TRUE(record_wait_answers(&b.record, done));
    }
    CU_ASSERT_TRUE(record_wait_answers(&b.record, done));
    b.source->close(b.source);
    check_each_once(&b, done);
    CU_ASSERT_EQUAL(b.record.num_good, done);
    bench_close(&b);
}

int main(void)
{
    sluice_log_set_level(getenv("LOGW") ? SLUICE_LOG_DEBUG : SLUICE_LOG_ERROR);
    return fake_dataset_main(&dataset, NUM_SAMPLES, &pipeline);
}
