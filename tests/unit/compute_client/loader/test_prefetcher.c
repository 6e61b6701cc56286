#include "compute_client/loader/batch/prefetcher.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "compute_client/fetch/replicas.h"
#include "compute_client/loader/order/digest.h"
#include "compute_client/loader/source/local_source.h"
#include "compute_client/loader/tuning.h"
#include "fake_server.h"
#include "image/codecs/codec.h"
#include "support/test.h"
#include "trace/tracer.h"

#include <pthread.h>
#include <sched.h>

#define NUM_SAMPLES 50
#define BATCH 8
#define SEED 11

static struct sluice_pipeline *pipeline;
static struct fake_dataset good, bad; /* bad: sample `bad_id` is cut */
static uint32_t ids[NUM_SAMPLES];
static uint32_t bad_id;

/* --- the reference: one sample after the other, in one thread, in one place --- */

struct reference {
    uint8_t pixels[NUM_SAMPLES][FAKE_ROW_BYTES];
    uint32_t labels[NUM_SAMPLES];
    char digest[33];
};

static void make_reference(const struct fake_dataset *dataset,
                           const struct sluice_sampler_item *items, size_t num_items,
                           struct reference *reference)
{
    struct sluice_scratch *scratch = NULL;
    struct sluice_hasher *hasher = sluice_hasher_create(), *chain = sluice_hasher_create();
    REQUIRE_OK(sluice_scratch_create(NULL, &scratch, NULL));
    CU_ASSERT_PTR_NOT_NULL_FATAL(hasher);
    CU_ASSERT_PTR_NOT_NULL_FATAL(chain);
    for (size_t i = 0; i < num_items; i++) {
        const uint32_t id = ids[items[i].position];
        struct sluice_sample sample = {
            .key = {.seed = SEED, .epoch = items[i].draw_epoch, .sample_id = id},
            .kind = SLUICE_KIND_FILE,
            .data = sluice_buf_ref(dataset->files[id]),
        };
        REQUIRE_OK(sluice_pipeline_finish_u8(pipeline, scratch, &sample, reference->pixels[i],
                                             FAKE_ROW_BYTES, NULL));
        reference->labels[i] = sluice_manifest_at(dataset->manifest, id).label;
        sluice_digest_chain(chain, sluice_digest_sample(hasher, reference->pixels[i],
                                                        FAKE_ROW_BYTES, reference->labels[i]));
    }
    sluice_hash128_hex(sluice_hasher_digest(chain), reference->digest);
    sluice_hasher_destroy(hasher);
    sluice_hasher_destroy(chain);
    sluice_scratch_destroy(scratch);
}

/* --- a loader with plain memory --- */

/* The blocks of a loader's memory, if somebody counts them. */
struct blocks {
    _Atomic unsigned num_made, num_freed;
    bool fails;
};

static sluice_status alloc_memory(void *ctx, size_t bytes, void **memory, struct sluice_err *err)
{
    struct blocks *blocks = ctx;
    CU_ASSERT_EQUAL(bytes, BATCH * FAKE_ROW_BYTES);
    if (blocks && blocks->fails)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "none for you");
    if (blocks)
        blocks->num_made++;
    *memory = malloc(bytes);
    return *memory ? SLUICE_OK : SLUICE_E_NO_MEMORY;
}

static void free_memory(void *ctx, void *memory, size_t bytes)
{
    struct blocks *blocks = ctx;
    if (bytes != BATCH * FAKE_ROW_BYTES)
        abort(); /* several threads: CUnit counts in one */
    if (blocks)
        blocks->num_freed++;
    free(memory);
}

static struct sluice_prefetcher *make_loader(struct sluice_prefetcher_options options)
{
    if (!options.num_workers)
        options.num_workers = 2;
    if (!options.num_slots)
        options.num_slots = 3;
    if (!options.payload_bytes)
        options.payload_bytes = 1 << 20;
    options.batch_size = BATCH;
    options.row_bytes = FAKE_ROW_BYTES;
    options.alloc = alloc_memory;
    options.free = free_memory;
    struct sluice_prefetcher *prefetcher = NULL;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_prefetcher_create(&options, &prefetcher, &err));
    return prefetcher;
}

/* What an epoch asks for. */
struct drawn {
    struct sluice_sampler_item items[NUM_SAMPLES];
    struct sluice_choice choices[NUM_SAMPLES];
};

static struct drawn draw_by_turns(uint32_t epoch, const unsigned *splits, size_t num_splits)
{
    const struct sluice_sampler sampler = {
        .seed = SEED, .num_samples = NUM_SAMPLES, .repeat = 1, .is_shuffled = true};
    struct drawn drawn;
    REQUIRE_OK(sluice_sampler_fill(&sampler, epoch, drawn.items, NULL));
    for (size_t i = 0; i < NUM_SAMPLES; i++)
        drawn.choices[i] = sluice_choice_at(pipeline, splits[i % num_splits]);
    return drawn;
}

static struct drawn draw(uint32_t epoch, unsigned split)
{
    return draw_by_turns(epoch, &split, 1);
}

struct net {
    struct fake_server *server;
    struct sluice_client *client;
    struct sluice_source *source;
    struct sluice_prefetcher *prefetcher;
    struct sluice_live *live;
};

static void net_open_source(struct net *net)
{
    const struct sluice_replica server = {.client = net->client, .dataset_id = ""};
    const struct sluice_replicas_options options = {
        .replicas = &server,
        .num_replicas = 1,
        .num_shards = 1,
        .fetcher = {.pipeline = pipeline,
                    .max_items = sluice_prefetcher_max_items(net->prefetcher),
                    .live = net->live,
                    .window_bytes = 1 << 20},
        .events = sluice_prefetcher_events(net->prefetcher),
    };
    REQUIRE_OK(sluice_replicas_create(&options, &net->source, NULL));
}

static void net_open(struct net *net, struct fake_server_options server,
                     struct sluice_prefetcher_options options)
{
    if (!server.dataset)
        server.dataset = &good;
    net->server = fake_server_start(&server);
    const struct sluice_client_options client = {
        .target = fake_server_target(net->server),
        .retry_for_s = 20,
    };
    REQUIRE_OK(sluice_client_create(&client, &net->client, NULL));
    net->live = options.live;
    net->prefetcher = make_loader(options);
    net_open_source(net);
}

static void net_close(struct net *net)
{
    net->source->close(net->source);
    sluice_prefetcher_destroy(net->prefetcher);
    net->source->destroy(net->source);
    sluice_client_destroy(net->client);
    fake_server_stop(net->server);
}

static void start_epoch(struct sluice_prefetcher *prefetcher, struct sluice_source *source,
                        const struct fake_dataset *dataset, const struct drawn *drawn, size_t first,
                        struct sluice_cost_table *profile)
{
    const struct sluice_epoch epoch = {
        .source = source,
        .pipeline = pipeline,
        .manifest = dataset->manifest,
        .ids = ids,
        .chooser = sluice_chooser_fixed(drawn->choices),
        .seed = SEED,
        .items = drawn->items,
        .num_items = NUM_SAMPLES,
        .first_item = first,
        .profile = profile,
    };
    REQUIRE_OK(sluice_prefetcher_start(prefetcher, &epoch, NULL));
}

/* Takes every batch and compares it with the reference, row by row. */
static void check_batches(struct sluice_prefetcher *prefetcher, const struct reference *reference,
                          size_t first)
{
    size_t row = first;
    for (;;) {
        struct sluice_held *batch = NULL;
        struct sluice_err err = {0};
        REQUIRE_OK(sluice_prefetcher_next(prefetcher, -1, &batch, &err));
        if (!batch)
            break;
        CU_ASSERT_EQUAL(batch->index, row / BATCH);
        CU_ASSERT_EQUAL(batch->num_rows, NUM_SAMPLES - row < BATCH ? NUM_SAMPLES - row : BATCH);
        for (unsigned i = 0; i < batch->num_rows; i++, row++) {
            CU_ASSERT_EQUAL(batch->labels[i], reference->labels[row]);
            CU_ASSERT_EQUAL(
                memcmp(batch->pixels + i * FAKE_ROW_BYTES, reference->pixels[row], FAKE_ROW_BYTES),
                0);
        }
        sluice_held_release(batch);
    }
    CU_ASSERT_EQUAL(row, NUM_SAMPLES);
}

/* --- tests --- */

TEST(every_choice_delivers_the_same_bytes_in_the_samplers_order)
{
    static const unsigned all[] = {0, 1, 2, 3, 4, 5};
    const struct {
        const unsigned *splits;
        size_t num_splits;
    } cases[] = {{all, 1},     {all + 1, 1}, {all + 2, 1}, {all + 3, 1},
                 {all + 4, 1}, {all + 5, 1}, {all, 6}};
    struct reference reference;
    for (unsigned workers = 1; workers <= 4; workers += 3) {
        struct net net = {0};
        net_open(&net, (struct fake_server_options){.reduce_every = 7},
                 (struct sluice_prefetcher_options){.num_workers = workers, .has_digest = true});
        for (uint32_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
            const struct drawn drawn = draw_by_turns(k, cases[k].splits, cases[k].num_splits);
            make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
            start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
            check_batches(net.prefetcher, &reference, 0);
            const struct sluice_epoch_stats stats = sluice_prefetcher_finish(net.prefetcher);
            CU_ASSERT_STRING_EQUAL(stats.digest, reference.digest);
            CU_ASSERT_EQUAL(stats.samples, NUM_SAMPLES);
            CU_ASSERT_EQUAL(stats.errors, 0);
            CU_ASSERT(stats.wire_bytes > stats.payload_bytes);
            uint64_t counted = 0;
            for (int s = 0; s <= SLUICE_PIPELINE_MAX_OPS; s++) {
                for (int f = 0; f < SLUICE_MAX_FORMS; f++)
                    counted += stats.choices[s][f];
            }
            CU_ASSERT_EQUAL(counted, NUM_SAMPLES);
            CU_ASSERT(k == 0 ? stats.reduced == 0 : stats.reduced > 0);
        }
        net_close(&net);
    }
}

TEST(batches_begin_where_the_epoch_says)
{
    static const struct sluice_order_batch batches[] = {{0, 0, 0},  {3, 1, 0},  {11, 0, 0},
                                                        {12, 0, 0}, {20, 2, 0}, {27, 0, 0},
                                                        {35, 0, 0}, {43, 7, 0}, {50, 0, 0}};
    static const unsigned splits[] = {0, 3, 5};
    const size_t num_batches = SLUICE_ARRAY_LEN(batches) - 1;
    struct reference reference;
    struct net net = {0};
    net_open(&net, (struct fake_server_options){0},
             (struct sluice_prefetcher_options){.has_digest = true, .num_slots = 2});
    for (uint32_t k = 0; k < 3; k++) { /* an epoch without them goes between */
        const struct drawn drawn = draw_by_turns(k, splits, 3);
        make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
        if (k == 1) {
            start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
            check_batches(net.prefetcher, &reference, 0);
            (void)sluice_prefetcher_finish(net.prefetcher);
            continue;
        }
        const struct sluice_epoch epoch = {
            .source = net.source,
            .pipeline = pipeline,
            .manifest = good.manifest,
            .ids = ids,
            .chooser = sluice_chooser_fixed(drawn.choices),
            .seed = SEED,
            .items = drawn.items,
            .num_items = NUM_SAMPLES,
            .batches = batches,
            .num_batches = num_batches,
        };
        REQUIRE_OK(sluice_prefetcher_start(net.prefetcher, &epoch, NULL));
        for (size_t b = 0; b < num_batches; b++) {
            struct sluice_held *batch = NULL;
            REQUIRE_OK(sluice_prefetcher_next(net.prefetcher, -1, &batch, NULL));
            CU_ASSERT_PTR_NOT_NULL_FATAL(batch);
            CU_ASSERT_EQUAL(batch->index, b);
            CU_ASSERT_EQUAL(batch->num_padded, batches[b].num_padded);
            CU_ASSERT_EQUAL_FATAL(batch->num_rows, batches[b + 1].start - batches[b].start);
            for (unsigned i = 0; i < batch->num_rows; i++) {
                const size_t item = batches[b].start + i;
                CU_ASSERT_EQUAL(batch->ids[i], ids[drawn.items[item].position]);
                CU_ASSERT_EQUAL(memcmp(batch->pixels + i * FAKE_ROW_BYTES, reference.pixels[item],
                                       FAKE_ROW_BYTES),
                                0);
            }
            sluice_held_release(batch);
        }
        struct sluice_held *end = NULL;
        REQUIRE_OK(sluice_prefetcher_next(net.prefetcher, -1, &end, NULL));
        CU_ASSERT_PTR_NULL(end);
        const struct sluice_epoch_stats stats = sluice_prefetcher_finish(net.prefetcher);
        CU_ASSERT_STRING_EQUAL(stats.digest, reference.digest);
        CU_ASSERT(stats.samples == NUM_SAMPLES && stats.padded == 10);
    }
    net_close(&net);
}

TEST(whoever_looks_on_sees_the_same_sums_as_the_epoch)
{
    struct sluice_live live = {0};
    const unsigned splits[] = {3, 0};
    const struct drawn drawn = draw_by_turns(2, splits, 2);
    struct net net = {0};
    net_open(&net, (struct fake_server_options){0},
             (struct sluice_prefetcher_options){.live = &live});
    start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
    struct sluice_held *batch = NULL;
    do {
        REQUIRE_OK(sluice_prefetcher_next(net.prefetcher, -1, &batch, NULL));
        CU_ASSERT_EQUAL(sluice_live_get(&live.waits_since_ns), 0);
        if (batch)
            sluice_held_release(batch);
    } while (batch);
    const struct sluice_epoch_stats stats = sluice_prefetcher_finish(net.prefetcher);
    CU_ASSERT_EQUAL(sluice_live_get(&live.samples), stats.samples);
    CU_ASSERT_EQUAL(sluice_live_get(&live.rows), NUM_SAMPLES);
    CU_ASSERT_EQUAL(sluice_live_get(&live.taken), NUM_SAMPLES);
    CU_ASSERT_EQUAL(sluice_live_get(&live.errors), 0);
    CU_ASSERT_EQUAL(sluice_live_get(&live.wire_bytes), stats.wire_bytes);
    for (int s = 0; s <= SLUICE_PIPELINE_MAX_OPS; s++) {
        for (int f = 0; f < SLUICE_MAX_FORMS; f++)
            CU_ASSERT_EQUAL(sluice_live_get(&live.choices[s][f]), stats.choices[s][f]);
    }
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        CU_ASSERT_EQUAL(sluice_live_get(&live.stall_ns[r]),
                        r == SLUICE_GPU ? 0 : stats.stall_ns[r]);
    net_close(&net);
}

/* Lines of the file with the word. */
static unsigned count_lines(const char *path, const char *word)
{
    static char line[16384];
    unsigned count = 0;
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    while (fgets(line, sizeof(line), file))
        count += strstr(line, word) != NULL;
    fclose(file);
    return count;
}

TEST(a_sample_that_is_traced_has_a_line_once_it_is_delivered)
{
    const char *path = sluice_test_path("trace");
    const struct sluice_tracer_options tracer_options = {
        .path = path, .service = "test", .sample = 1};
    struct sluice_tracer *tracer = NULL;
    REQUIRE_OK(sluice_tracer_open(&tracer_options, &tracer, NULL));
    struct reference reference;
    const struct drawn drawn = draw(1, 3);
    make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
    struct net net = {0};
    net_open(&net, (struct fake_server_options){.again_every = 11},
             (struct sluice_prefetcher_options){.tracer = tracer});
    start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
    check_batches(net.prefetcher, &reference, 0);
    (void)sluice_prefetcher_finish(net.prefetcher);
    CU_ASSERT_EQUAL(count_lines(path, "\"sample\""), NUM_SAMPLES);
    CU_ASSERT_EQUAL(count_lines(path, "{\"stringValue\":\"u8@3\"}"), NUM_SAMPLES);
    CU_ASSERT_EQUAL(count_lines(path, "\"status\""), 0);

    /* Of an epoch that is broken off, those of the batches that came. */
    start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
    struct sluice_held *batch = NULL;
    REQUIRE_OK(sluice_prefetcher_next(net.prefetcher, -1, &batch, NULL));
    sluice_held_release(batch);
    (void)sluice_prefetcher_finish(net.prefetcher);
    net_close(&net);
    CU_ASSERT_EQUAL(count_lines(path, "\"sample\""), NUM_SAMPLES + BATCH);
    sluice_tracer_close(tracer);
}

TEST(lost_streams_and_reversed_repeated_answers_change_nothing)
{
    struct reference reference;
    const unsigned splits[] = {3, 0, 5};
    const struct drawn drawn = draw_by_turns(4, splits, 3);
    make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
    struct net net = {0};
    net_open(&net,
             (struct fake_server_options){.lose_after = 6,
                                          .lose_times = 3,
                                          .garble_after = 9,
                                          .garble_times = 1,
                                          .repeat_every = 2,
                                          .stray_every = 3,
                                          .again_every = 11},
             (struct sluice_prefetcher_options){.has_digest = true});
    start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
    check_batches(net.prefetcher, &reference, 0);
    const struct sluice_epoch_stats stats = sluice_prefetcher_finish(net.prefetcher);
    CU_ASSERT_STRING_EQUAL(stats.digest, reference.digest);
    CU_ASSERT_EQUAL(sluice_replicas_stats(net.source).fetchers.lost_streams, 4);
    net_close(&net);
}

TEST(a_broken_off_epoch_goes_on_at_its_batch)
{
    struct reference reference;
    const struct drawn drawn = draw(0, 3);
    make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
    struct net net = {0};
    net_open(&net, (struct fake_server_options){0}, (struct sluice_prefetcher_options){0});
    start_epoch(net.prefetcher, net.source, &good, &drawn, 3 * BATCH, NULL);
    check_batches(net.prefetcher, &reference, 3 * BATCH);
    CU_ASSERT_EQUAL(sluice_prefetcher_position(net.prefetcher),
                    (NUM_SAMPLES + BATCH - 1) / BATCH - 3);
    const struct sluice_epoch_stats stats = sluice_prefetcher_finish(net.prefetcher);
    CU_ASSERT_EQUAL(stats.samples, NUM_SAMPLES - 3 * BATCH);
    CU_ASSERT_STRING_EQUAL(stats.digest, ""); /* not asked for */
    net_close(&net);
}

/* The digest of an epoch in which one sample is cut, with the choice `split` for all. */
static struct sluice_epoch_stats run_bad(enum sluice_on_error on_error, unsigned split)
{
    const struct drawn drawn = draw(1, split);
    struct sluice_live live = {0};
    struct net net = {0};
    net_open(&net, (struct fake_server_options){.dataset = &bad},
             (struct sluice_prefetcher_options){
                 .has_digest = true, .on_error = on_error, .live = &live});
    start_epoch(net.prefetcher, net.source, &bad, &drawn, 0, NULL);
    for (;;) {
        struct sluice_held *batch = NULL;
        REQUIRE_OK(sluice_prefetcher_next(net.prefetcher, -1, &batch, NULL));
        if (!batch)
            break;
        sluice_held_release(batch);
    }
    const struct sluice_epoch_stats stats = sluice_prefetcher_finish(net.prefetcher);
    net_close(&net);
    CU_ASSERT_EQUAL(sluice_live_get(&live.errors), 1);
    CU_ASSERT_EQUAL(sluice_live_get(&live.failed[SLUICE_E_CORRUPT]), 1);
    CU_ASSERT_EQUAL(sluice_live_get(&live.taken), sluice_live_get(&live.rows));
    return stats;
}

TEST(a_bad_sample_is_counted_named_and_the_same_in_every_mode)
{
    char digests[2][33];
    for (int k = 0; k < 2; k++) {
        const enum sluice_on_error on_error = k ? SLUICE_ON_ERROR_SUBSTITUTE : SLUICE_ON_ERROR_SKIP;
        for (unsigned split = 0; split <= 5; split++) {
            const struct sluice_epoch_stats stats = run_bad(on_error, split);
            CU_ASSERT_EQUAL(stats.errors, 1);
            CU_ASSERT_EQUAL(stats.samples, (uint64_t)(k ? NUM_SAMPLES : NUM_SAMPLES - 1));
            CU_ASSERT_EQUAL_FATAL(stats.num_named, 1);
            CU_ASSERT_EQUAL(stats.named[0].sample_id, bad_id);
            CU_ASSERT_EQUAL(stats.named[0].status, SLUICE_E_CORRUPT);
            CU_ASSERT_NOT_EQUAL(stats.named[0].text[0], '\0');
            if (split == 0)
                memcpy(digests[k], stats.digest, 33);
            CU_ASSERT_STRING_EQUAL(stats.digest, digests[k]);
        }
    }
    CU_ASSERT_STRING_NOT_EQUAL(digests[0], digests[1]);
}

TEST(on_error_fail_ends_with_the_samples_name)
{
    const struct drawn drawn = draw(1, 0);
    struct net net = {0};
    net_open(&net, (struct fake_server_options){.dataset = &bad},
             (struct sluice_prefetcher_options){.on_error = SLUICE_ON_ERROR_FAIL});
    start_epoch(net.prefetcher, net.source, &bad, &drawn, 0, NULL);
    struct sluice_err err = {0};
    sluice_status status = SLUICE_OK;
    while (status == SLUICE_OK) {
        struct sluice_held *batch = NULL;
        status = sluice_prefetcher_next(net.prefetcher, -1, &batch, &err);
        if (status == SLUICE_OK) {
            CU_ASSERT_PTR_NOT_NULL_FATAL(batch);
            sluice_held_release(batch);
        }
    }
    CU_ASSERT_EQUAL(status, SLUICE_E_CORRUPT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, sluice_manifest_at(bad.manifest, bad_id).path));
    (void)sluice_prefetcher_finish(net.prefetcher);
    net_close(&net);
}

TEST(profiling_measures_every_stage_and_delivers_the_same)
{
    struct reference reference;
    struct sluice_sample_cost rows[NUM_SAMPLES];
    struct sluice_cost_table profile = {.rows = rows, .num_rows = NUM_SAMPLES};
    memset(rows, 0, sizeof(rows));
    const struct drawn drawn = draw(0, 0);
    make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
    struct net net = {0};
    net_open(&net, (struct fake_server_options){0},
             (struct sluice_prefetcher_options){.has_digest = true, .measures_ops = true});
    const uint64_t start_ns = sluice_clock_ns();
    start_epoch(net.prefetcher, net.source, &good, &drawn, 0, &profile);
    check_batches(net.prefetcher, &reference, 0);
    const struct sluice_epoch_stats stats = sluice_prefetcher_finish(net.prefetcher);
    const double elapsed_s = (double)(sluice_clock_ns() - start_ns) * 1e-9;
    CU_ASSERT_STRING_EQUAL(stats.digest, reference.digest);
    for (size_t i = 0; i < NUM_SAMPLES; i++) {
        const uint64_t want[] = {good.files[i]->len, 20 * 16 * 3,        FAKE_ROW_BYTES,
                                 FAKE_ROW_BYTES,     4 * FAKE_ROW_BYTES, 4 * FAKE_ROW_BYTES};
        for (int k = 0; k < 6; k++) {
            CU_ASSERT_EQUAL(rows[i].bytes[k], want[k]);
            /* The table that makes both tensor ops counts under the first. */
            CU_ASSERT(rows[i].op_s[k] >= 0 && rows[i].op_s[k] < elapsed_s);
            CU_ASSERT_EQUAL(rows[i].op_s[k] > 0, k < 5);
        }
        CU_ASSERT_DOUBLE_EQUAL(rows[i].op_s[0], 30e-6, 1e-12); /* what the server says */
        CU_ASSERT_EQUAL(rows[i].width, 20);
        CU_ASSERT_EQUAL(rows[i].height, 16);
    }
    net_close(&net);
}

/* --- a source in the test's hand --- */

struct held {
    struct sluice_source source;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sluice_source_item asked[NUM_SAMPLES];
    size_t num_asked;
    const struct fake_dataset *dataset;
};

static sluice_status held_request(struct sluice_source *source,
                                  const struct sluice_source_item *items, size_t num_items)
{
    struct held *held = SLUICE_CONTAINER_OF(source, struct held, source);
    pthread_mutex_lock(&held->lock);
    memcpy(held->asked + held->num_asked, items, num_items * sizeof(*items));
    held->num_asked += num_items;
    pthread_cond_broadcast(&held->changed);
    pthread_mutex_unlock(&held->lock);
    return SLUICE_OK;
}

static void held_consumed(struct sluice_source *source, uint32_t origin, size_t payload_bytes)
{
    (void)source, (void)origin, (void)payload_bytes;
}

static uint64_t held_wire_bytes(struct sluice_source *source)
{
    (void)source;
    return 0;
}

static void held_init(struct held *held)
{
    *held = (struct held){
        .source = {.request = held_request,
                   .consumed = held_consumed,
                   .wire_bytes = held_wire_bytes},
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
        .dataset = &good,
    };
}

/* Takes and releases a batch if item i was the last that it waited for. */
static void pass_batch_after(struct sluice_prefetcher *prefetcher, size_t i)
{
    if (i % BATCH != BATCH - 1 && i != NUM_SAMPLES - 1)
        return;
    struct sluice_held *batch = NULL;
    REQUIRE_OK(sluice_prefetcher_next(prefetcher, -1, &batch, NULL));
    CU_ASSERT_PTR_NOT_NULL(batch);
    sluice_held_release(batch);
}

static void end(struct sluice_prefetcher *prefetcher)
{
    (void)sluice_prefetcher_finish(prefetcher);
    sluice_prefetcher_destroy(prefetcher);
}

/* A loader whose epoch has begun on it. */
static struct sluice_prefetcher *held_start(struct held *held, const struct drawn *drawn,
                                            struct sluice_prefetcher_options options)
{
    held_init(held);
    struct sluice_prefetcher *prefetcher = make_loader(options);
    start_epoch(prefetcher, &held->source, &good, drawn, 0, NULL);
    return prefetcher;
}

static void wait_asked(struct held *held, size_t count)
{
    pthread_mutex_lock(&held->lock);
    while (held->num_asked < count)
        pthread_cond_wait(&held->changed, &held->lock);
    pthread_mutex_unlock(&held->lock);
}

static size_t num_asked(struct held *held)
{
    pthread_mutex_lock(&held->lock);
    const size_t count = held->num_asked;
    pthread_mutex_unlock(&held->lock);
    return count;
}

static struct sluice_source_item asked(struct held *held, size_t i)
{
    pthread_mutex_lock(&held->lock);
    const struct sluice_source_item item = held->asked[i];
    pthread_mutex_unlock(&held->lock);
    return item;
}

/* Answers request i with the file. */
static void answer(struct held *held, struct sluice_prefetcher *prefetcher, size_t i)
{
    const struct sluice_source_item item = asked(held, i);
    struct sluice_buf *file = held->dataset->files[item.key.sample_id];
    struct sluice_source_result result = {
        .ticket = item.ticket,
        .form = SLUICE_FORM_RAW,
        .sample = {.key = item.key, .kind = SLUICE_KIND_FILE, .data = sluice_buf_ref(file)},
        .payload_bytes = file->len,
    };
    const struct sluice_source_events events = sluice_prefetcher_events(prefetcher);
    events.on_result(events.ctx, &result);
}

TEST(reads_ahead_as_far_as_the_slots_and_no_further)
{
    const struct drawn drawn = draw(0, 0);
    struct held held;
    struct sluice_prefetcher *prefetcher =
        held_start(&held, &drawn, (struct sluice_prefetcher_options){.num_slots = 2});
    size_t answered = 0;
    for (size_t taken = 0; taken < NUM_SAMPLES; taken += BATCH) {
        const size_t ahead = taken + 2 * BATCH < NUM_SAMPLES ? taken + 2 * BATCH : NUM_SAMPLES;
        wait_asked(&held, ahead);
        /* In reverse, so that a row's place is not that of its arrival. */
        for (size_t i = ahead; i > answered; i--)
            answer(&held, prefetcher, i - 1);
        answered = ahead;
        struct sluice_held *batch = NULL;
        REQUIRE_OK(sluice_prefetcher_next(prefetcher, -1, &batch, NULL));
        CU_ASSERT_PTR_NOT_NULL_FATAL(batch);
        CU_ASSERT_EQUAL(num_asked(&held), ahead); /* the slot is not free before it is released */
        for (unsigned i = 0; i < batch->num_rows; i++)
            CU_ASSERT_EQUAL(
                batch->labels[i],
                sluice_manifest_at(good.manifest, ids[drawn.items[taken + i].position]).label);
        sluice_held_release(batch);
    }
    end(prefetcher);
}

TEST(reads_ahead_as_far_as_usual_until_batches_are_taken)
{
    const struct drawn drawn = draw(0, 3); /* expected: a row */
    for (unsigned i = 0; i < 2; i++) {
        /* A quarter of the slots, and of the bytes. */
        const size_t limit = i == 0 ? 2 * BATCH : BATCH + 1;
        const struct sluice_prefetcher_options options = {
            .num_slots = 8,
            .usual_slots = 2,
            .payload_bytes = i == 0 ? 1 << 20 : 4 * limit * FAKE_ROW_BYTES,
        };
        struct held held;
        struct sluice_prefetcher *prefetcher = held_start(&held, &drawn, options);
        wait_asked(&held, limit);
        CU_ASSERT_EQUAL(num_asked(&held), limit);
        for (size_t taken = 0, answered = 0; taken < NUM_SAMPLES; taken += BATCH) {
            for (; answered < taken + BATCH && answered < NUM_SAMPLES; answered++) {
                wait_asked(&held, answered + 1);
                answer(&held, prefetcher, answered);
            }
            struct sluice_held *batch = NULL;
            REQUIRE_OK(sluice_prefetcher_next(prefetcher, -1, &batch, NULL));
            CU_ASSERT_PTR_NOT_NULL_FATAL(batch);
            sluice_held_release(batch);
        }
        end(prefetcher);
    }
}

TEST(reads_ahead_as_far_as_the_bytes_and_no_further)
{
    const struct drawn drawn = draw(0, 3); /* expected: a row */
    struct held held;
    struct sluice_prefetcher *prefetcher =
        held_start(&held, &drawn,
                   (struct sluice_prefetcher_options){.payload_bytes = 3 * FAKE_ROW_BYTES + 1,
                                                      .num_slots = 8});
    wait_asked(&held, 3);
    CU_ASSERT_EQUAL(num_asked(&held), 3);
    /* A reply that is larger than expected holds the next ones back until it is finished; each
     * then lets the next be asked for. */
    for (size_t i = 0; i < NUM_SAMPLES; i++) {
        wait_asked(&held, i + 1);
        CU_ASSERT(num_asked(&held) <= i + 3);
        answer(&held, prefetcher, i);
        pass_batch_after(prefetcher, i);
    }
    end(prefetcher);
}

TEST(a_sample_larger_than_the_bound_is_let_through_alone)
{
    const struct drawn drawn = draw(0, 0);
    struct held held;
    struct sluice_prefetcher *prefetcher = held_start(
        &held, &drawn, (struct sluice_prefetcher_options){.payload_bytes = 1, .num_slots = 7});
    for (size_t i = 0; i < NUM_SAMPLES; i++) {
        wait_asked(&held, i + 1);
        CU_ASSERT_EQUAL(num_asked(&held), i + 1);
        answer(&held, prefetcher, i);
    }
    end(prefetcher);
}

/* Asks for split 0 and 3 by turns, with bounds on what is under way, and notes what it sees. */
struct watching {
    pthread_mutex_t lock;
    uint32_t max_away, max_unfinished;
    size_t num_chosen, num_rows, num_good, num_batches, num_samples;
    size_t most_away, most_unfinished; /* by what the items were expected to take */
    bool is_in_order, is_consistent;
};

static struct sluice_ask watching_choose(void *ctx, size_t index,
                                         const struct sluice_sampler_item *item,
                                         const struct sluice_expected *under_way)
{
    struct watching *watching = ctx;
    pthread_mutex_lock(&watching->lock);
    /* Each is expected to take 1 s of storage CPU, 2 bytes and 4 s of compute CPU. */
    const size_t away = (size_t)under_way->storage_s;
    const size_t unfinished = (size_t)(under_way->compute_s / 4);
    watching->is_consistent &= under_way->bytes == 2 * under_way->storage_s && away <= unfinished &&
                               unfinished <= watching->num_chosen;
    watching->is_consistent &= (watching->num_chosen == 0) == (unfinished == 0);
    watching->most_away = away > watching->most_away ? away : watching->most_away;
    if (unfinished > watching->most_unfinished)
        watching->most_unfinished = unfinished;
    watching->is_in_order &= index == watching->num_chosen && item->position < NUM_SAMPLES;
    watching->num_chosen++;
    const struct sluice_ask ask = {.choice = sluice_choice_at(pipeline, index % 2 ? 3 : 0),
                                   .max_away = watching->max_away,
                                   .max_unfinished = watching->max_unfinished,
                                   .expected = {.storage_s = 1, .bytes = 2, .compute_s = 4}};
    pthread_mutex_unlock(&watching->lock);
    return ask;
}

static void watching_row(void *ctx, const struct sluice_row_seen *row)
{
    struct watching *watching = ctx;
    pthread_mutex_lock(&watching->lock);
    watching->num_rows++;
    watching->num_good += row->status == SLUICE_OK;
    watching->is_consistent &=
        row->index < NUM_SAMPLES && row->asked.split == (row->index % 2 ? 3 : 0) &&
        row->got.split <= row->asked.split && row->payload_bytes > 0 &&
        row->requested_ns <= row->arrived_ns && row->arrived_ns <= row->started_ns &&
        row->started_ns <= row->done_ns && row->compute_cpu_ns > 0;
    pthread_mutex_unlock(&watching->lock);
}

static void watching_batch(void *ctx, unsigned n, uint64_t waited_ns, uint64_t now_ns)
{
    struct watching *watching = ctx;
    pthread_mutex_lock(&watching->lock);
    watching->num_batches++;
    watching->num_samples += n;
    watching->is_consistent &= waited_ns < now_ns;
    pthread_mutex_unlock(&watching->lock);
}

static struct sluice_chooser watching_chooser(struct watching *watching)
{
    pthread_mutex_init(&watching->lock, NULL);
    watching->is_in_order = watching->is_consistent = true;
    return (struct sluice_chooser){
        .choose = watching_choose,
        .on_row = watching_row,
        .on_batch = watching_batch,
        .ctx = watching,
    };
}

static void start_watched(struct sluice_prefetcher *prefetcher, struct sluice_source *source,
                          struct watching *watching, const struct sluice_sampler_item *items)
{
    const struct sluice_epoch epoch = {
        .source = source,
        .pipeline = pipeline,
        .manifest = good.manifest,
        .ids = ids,
        .chooser = watching_chooser(watching),
        .seed = SEED,
        .items = items,
        .num_items = NUM_SAMPLES,
    };
    REQUIRE_OK(sluice_prefetcher_start(prefetcher, &epoch, NULL));
}

TEST(the_chooser_is_asked_once_per_item_and_sees_every_row)
{
    const struct drawn drawn = draw(0, 0);
    struct watching watching = {.max_away = UINT32_MAX, .max_unfinished = UINT32_MAX};
    struct net net = {0};
    net_open(&net, (struct fake_server_options){0}, (struct sluice_prefetcher_options){0});
    start_watched(net.prefetcher, net.source, &watching, drawn.items);
    struct reference reference;
    make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
    check_batches(net.prefetcher, &reference, 0);
    (void)sluice_prefetcher_finish(net.prefetcher);
    CU_ASSERT_EQUAL(watching.num_chosen, NUM_SAMPLES);
    CU_ASSERT_EQUAL(watching.num_rows, NUM_SAMPLES);
    CU_ASSERT_EQUAL(watching.num_good, NUM_SAMPLES);
    CU_ASSERT_EQUAL(watching.num_samples, NUM_SAMPLES);
    CU_ASSERT_EQUAL(watching.num_batches, (NUM_SAMPLES + BATCH - 1) / BATCH);
    CU_ASSERT_TRUE(watching.is_in_order);
    CU_ASSERT_TRUE(watching.is_consistent);
    net_close(&net);
}

TEST(no_more_is_under_way_than_the_chooser_wants)
{
    const struct drawn drawn = draw(0, 0);
    struct held held;
    held_init(&held);
    /* 0 counts as 1: a chooser cannot bring the epoch to a stop. */
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t bound = k % 2 ? 3 : 0;
        held.num_asked = 0;
        struct watching watching = {.max_away = k < 2 ? bound : UINT32_MAX,
                                    .max_unfinished = k < 2 ? UINT32_MAX : bound};
        const size_t most = bound ? bound : 1;
        struct sluice_prefetcher *prefetcher =
            make_loader((struct sluice_prefetcher_options){.num_slots = 8});
        start_watched(prefetcher, &held.source, &watching, drawn.items);
        for (size_t i = 0; i < NUM_SAMPLES; i++) {
            const size_t ahead = i + most < NUM_SAMPLES ? i + most : NUM_SAMPLES;
            wait_asked(&held, ahead);
            CU_ASSERT_EQUAL(num_asked(&held), ahead);
            answer(&held, prefetcher, i);
            pass_batch_after(prefetcher, i);
        }
        CU_ASSERT_TRUE(watching.is_consistent);
        CU_ASSERT_EQUAL(watching.most_away, most);
        CU_ASSERT(watching.most_unfinished == most || (k < 2 && watching.most_unfinished > most));
        (void)sluice_prefetcher_finish(prefetcher);
        sluice_prefetcher_destroy(prefetcher);
    }
}

TEST(stop_wakes_a_waiting_next_for_good)
{
    const struct drawn drawn = draw(0, 0);
    struct held held;
    struct sluice_prefetcher *prefetcher =
        held_start(&held, &drawn, (struct sluice_prefetcher_options){0});
    wait_asked(&held, 1);
    answer(&held, prefetcher, 0);
    sluice_prefetcher_stop(prefetcher);
    struct sluice_held *batch = NULL;
    CU_ASSERT_EQUAL(sluice_prefetcher_next(prefetcher, -1, &batch, NULL), SLUICE_E_CLOSED);
    CU_ASSERT_EQUAL(sluice_prefetcher_next(prefetcher, -1, &batch, NULL), SLUICE_E_CLOSED);
    end(prefetcher);
}

TEST(a_source_that_gives_up_ends_the_epoch_with_its_words)
{
    const struct drawn drawn = draw(0, 0);
    struct held held;
    struct sluice_prefetcher *prefetcher =
        held_start(&held, &drawn, (struct sluice_prefetcher_options){0});
    const struct sluice_source_events events = sluice_prefetcher_events(prefetcher);
    events.on_failed(events.ctx, SLUICE_E_IO, "nobody there");
    struct sluice_held *batch = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_prefetcher_next(prefetcher, -1, &batch, &err), SLUICE_E_IO);
    CU_ASSERT_STRING_EQUAL(err.text, "nobody there");
    end(prefetcher);
}

/* Answers request i with a failure. */
static void refuse(struct held *held, struct sluice_prefetcher *prefetcher, size_t i,
                   sluice_status status)
{
    struct sluice_source_result result = {.ticket = asked(held, i).ticket, .status = status};
    const struct sluice_source_events events = sluice_prefetcher_events(prefetcher);
    events.on_result(events.ctx, &result);
}

/* Refuses the first of three batches' samples as told, and returns how the first next() ended. */
static sluice_status first_batch_of(const sluice_status refused[BATCH], uint64_t max_errors,
                                    uint64_t missing_before, bool *has_lost_source,
                                    struct sluice_err *err)
{
    const struct drawn drawn = draw(0, 0);
    struct held held;
    held_init(&held);
    struct sluice_prefetcher *prefetcher =
        make_loader((struct sluice_prefetcher_options){.on_error = SLUICE_ON_ERROR_SKIP});
    struct sluice_epoch epoch = {
        .source = &held.source,
        .pipeline = pipeline,
        .manifest = good.manifest,
        .ids = ids,
        .chooser = sluice_chooser_fixed(drawn.choices),
        .seed = SEED,
        .items = drawn.items,
        .num_items = NUM_SAMPLES,
        .has_max_errors = true,
        .max_errors = max_errors,
    };
    epoch.errors_before[SLUICE_E_NOT_FOUND] = missing_before;
    REQUIRE_OK(sluice_prefetcher_start(prefetcher, &epoch, NULL));
    wait_asked(&held, BATCH);
    for (size_t i = 0; i < BATCH; i++) {
        if (refused[i] == SLUICE_OK)
            answer(&held, prefetcher, i);
        else
            refuse(&held, prefetcher, i, refused[i]);
    }
    struct sluice_held *batch = NULL;
    const sluice_status status = sluice_prefetcher_next(prefetcher, -1, &batch, err);
    *has_lost_source = sluice_prefetcher_has_lost_source(prefetcher);
    CU_ASSERT_EQUAL(sluice_prefetcher_position(prefetcher), status == SLUICE_OK ? 1 : 0);
    sluice_held_release(batch);
    end(prefetcher);
    return status;
}

TEST(more_errors_of_a_kind_than_allowed_end_the_epoch_at_once)
{
    sluice_status refused[BATCH] = {0};
    refused[0] = refused[1] = SLUICE_E_NOT_FOUND;
    refused[2] = SLUICE_E_CORRUPT;
    bool has_lost_source = true;
    CHECK_OK(first_batch_of(refused, 2, 0, &has_lost_source, NULL));
    CU_ASSERT_FALSE(has_lost_source);

    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(first_batch_of(refused, 1, 0, &has_lost_source, &err), SLUICE_E_INVALID);
    CU_ASSERT_FALSE(has_lost_source); /* going on would not help */
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "1 corrupt, 2 not found, where 1 of a kind may"));
    const struct drawn drawn = draw(0, 0);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(err.text, sluice_manifest_at(good.manifest, ids[drawn.items[0].position]).path));

    /* Those of the epoch's part before a resume count, too. */
    err = (struct sluice_err){0};
    CHECK_OK(first_batch_of(refused, 3, 1, &has_lost_source, &err));
    CU_ASSERT_EQUAL(first_batch_of(refused, 3, 2, &has_lost_source, &err), SLUICE_E_INVALID);

    memset(refused, 0, sizeof(refused));
    CHECK_OK(first_batch_of(refused, 0, 0, &has_lost_source, NULL));
    refused[3] = SLUICE_E_UNSUPPORTED;
    CU_ASSERT_EQUAL(first_batch_of(refused, 0, 0, &has_lost_source, NULL), SLUICE_E_INVALID);
}

TEST(too_many_errors_that_pass_leave_the_epoch_to_go_on)
{
    for (int status = SLUICE_E_INVALID; status < SLUICE_NUM_STATUS; status++) {
        const bool is_of_the_data = status == SLUICE_E_INVALID || status == SLUICE_E_CORRUPT ||
                                    status == SLUICE_E_UNSUPPORTED || status == SLUICE_E_NOT_FOUND;
        sluice_status refused[BATCH] = {0};
        refused[1] = refused[3] = (sluice_status)status;
        bool has_lost_source = true;
        CHECK_OK(first_batch_of(refused, 2, 0, &has_lost_source, NULL));
        CU_ASSERT_FALSE(has_lost_source);
        CU_ASSERT_EQUAL(first_batch_of(refused, 1, 0, &has_lost_source, NULL), SLUICE_E_INVALID);
        CU_ASSERT_EQUAL(has_lost_source, !is_of_the_data);
    }
}

/* Answers everything, with a failure so that no worker comes into it, once the trainer waits. */
struct slow {
    struct held *held;
    struct sluice_prefetcher *prefetcher;
    struct sluice_live *live;
    uint64_t disk_ns, storage_ns;
};

static void *slow_main(void *ctx)
{
    struct slow *slow = ctx;
    wait_asked(slow->held, NUM_SAMPLES);
    while (sluice_live_get(&slow->live->waits_since_ns) == 0)
        sched_yield();
    const struct sluice_source_events events = sluice_prefetcher_events(slow->prefetcher);
    for (size_t i = 0; i < NUM_SAMPLES; i++) {
        struct sluice_source_result result = {
            .ticket = asked(slow->held, i).ticket,
            .status = SLUICE_E_NOT_FOUND,
            .disk_ns = slow->disk_ns,
            .storage_ns = slow->storage_ns,
        };
        events.on_result(events.ctx, &result);
    }
    return NULL;
}

/* Runs an epoch whose samples spend their time away with one resource alone.  Compute CPU may have
 * any part: a busy machine may stop the thread that answers between a sample's arrival and its end.
 */
static void check_stalls(uint64_t disk_ns, uint64_t storage_ns, enum sluice_resource away)
{
    const struct drawn drawn = draw(0, 0);
    struct sluice_live live = {0};
    struct held held;
    held_init(&held);
    struct sluice_prefetcher *prefetcher = make_loader((struct sluice_prefetcher_options){
        .num_slots = 7, .on_error = SLUICE_ON_ERROR_SKIP, .live = &live});
    const uint64_t start = sluice_clock_ns();
    start_epoch(prefetcher, &held.source, &good, &drawn, 0, NULL);
    struct slow slow = {
        .held = &held,
        .prefetcher = prefetcher,
        .live = &live,
        .disk_ns = disk_ns,
        .storage_ns = storage_ns,
    };
    pthread_t thread;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, slow_main, &slow), 0);
    struct sluice_held *batch = NULL;
    CHECK_OK(sluice_prefetcher_next(prefetcher, -1, &batch, NULL));
    CU_ASSERT_PTR_NULL(batch); /* no row was good */
    const uint64_t elapsed = sluice_clock_ns() - start;
    pthread_join(thread, NULL);
    const struct sluice_epoch_stats stats = sluice_prefetcher_finish(prefetcher);
    sluice_prefetcher_destroy(prefetcher);
    CU_ASSERT_EQUAL(stats.errors, NUM_SAMPLES);
    CU_ASSERT_EQUAL(stats.num_named, SLUICE_MAX_NAMED_ERRORS);
    uint64_t sum = 0;
    for (int i = 0; i < SLUICE_NUM_RESOURCES; i++) {
        sum += stats.stall_ns[i];
        CU_ASSERT(i == (int)away ? stats.stall_ns[i] > 0
                                 : i == SLUICE_COMPUTE_CPU || stats.stall_ns[i] == 0);
    }
    CU_ASSERT(sum <= elapsed);
}

TEST(waiting_is_put_down_to_what_the_slowest_sample_waited_for)
{
    check_stalls(0, 0, SLUICE_NETWORK);
    check_stalls(0, UINT64_MAX / 4, SLUICE_STORAGE_CPU);
    check_stalls(UINT64_MAX / 4, 0, SLUICE_DISK);
    CU_ASSERT_STRING_EQUAL(sluice_stall_name(SLUICE_COMPUTE_CPU), "compute_cpu");
}

/* --- batches that are held --- */

#define NUM_BATCHES ((NUM_SAMPLES + BATCH - 1) / BATCH)

/* Whether the batch is, whole, what the epoch's items say. */
static bool is_right(const struct sluice_held *batch, const struct drawn *drawn,
                     const struct reference *reference)
{
    bool is_right = batch->num_rows > 0;
    for (unsigned i = 0; i < batch->num_rows; i++) {
        const size_t row = batch->index * BATCH + i;
        is_right &=
            batch->labels[i] == (int64_t)reference->labels[row] &&
            batch->ids[i] == ids[drawn->items[row].position] &&
            batch->draw_epochs[i] == drawn->items[row].draw_epoch &&
            memcmp(batch->pixels + i * FAKE_ROW_BYTES, reference->pixels[row], FAKE_ROW_BYTES) == 0;
    }
    return is_right;
}

static struct sluice_held *take(struct sluice_prefetcher *prefetcher)
{
    struct sluice_held *batch = NULL;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_prefetcher_next(prefetcher, -1, &batch, &err));
    return batch;
}

TEST(a_trainer_with_one_batch_at_a_time_needs_the_slots_memory_alone)
{
    struct blocks blocks = {0};
    struct net net = {0};
    net_open(&net, (struct fake_server_options){0},
             (struct sluice_prefetcher_options){.memory_ctx = &blocks});
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        const struct drawn drawn = draw(epoch, 3);
        start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
        for (struct sluice_held *batch; (batch = take(net.prefetcher));)
            sluice_held_release(batch);
        (void)sluice_prefetcher_finish(net.prefetcher);
    }
    CU_ASSERT_EQUAL(blocks.num_made, 3);
    CU_ASSERT_EQUAL(blocks.num_freed, 0);
    net_close(&net);
    CU_ASSERT_EQUAL(blocks.num_freed, 3);
}

TEST(held_batches_stay_as_they_are_and_are_released_in_any_order)
{
    struct blocks blocks = {0};
    struct reference reference;
    const struct drawn drawn = draw(5, 3);
    make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
    struct net net = {0};
    net_open(&net, (struct fake_server_options){0},
             (struct sluice_prefetcher_options){.memory_ctx = &blocks, .has_digest = true});
    for (int k = 0; k < 3; k++) {
        struct sluice_held *held[NUM_BATCHES];
        start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
        for (size_t i = 0; i < NUM_BATCHES; i++) {
            held[i] = take(net.prefetcher);
            CU_ASSERT_PTR_NOT_NULL_FATAL(held[i]);
            CU_ASSERT_EQUAL(held[i]->index, i);
        }
        CU_ASSERT_PTR_NULL(take(net.prefetcher));
        CU_ASSERT_EQUAL(blocks.num_made - blocks.num_freed, 3 + NUM_BATCHES - 1);
        const struct sluice_epoch_stats stats = sluice_prefetcher_finish(net.prefetcher);
        CU_ASSERT_STRING_EQUAL(stats.digest, reference.digest);
        for (size_t i = 0; i < NUM_BATCHES; i++) {
            const size_t mine = i * 3 % NUM_BATCHES; /* NUM_BATCHES is 7 */
            CU_ASSERT_TRUE(is_right(held[mine], &drawn, &reference));
            sluice_held_release(held[mine]);
            held[mine] = NULL;
        }
        CU_ASSERT_EQUAL(blocks.num_made - blocks.num_freed, 3 + TUNING_SPARE_BATCHES);
    }
    sluice_held_release(NULL);
    net_close(&net);
    CU_ASSERT_EQUAL(blocks.num_made, blocks.num_freed);
}

TEST(a_trainer_that_holds_three_allocates_two_more_and_no_more)
{
    struct blocks blocks = {0};
    struct reference reference;
    struct net net = {0};
    net_open(&net, (struct fake_server_options){0},
             (struct sluice_prefetcher_options){.memory_ctx = &blocks});
    for (uint32_t epoch = 0; epoch < 4; epoch++) {
        const struct drawn drawn = draw(epoch, 3);
        make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
        struct sluice_held *held[3] = {0};
        start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
        for (size_t i = 0;; i++) {
            struct sluice_held *batch = take(net.prefetcher);
            if (!batch)
                break;
            held[i % 3] = batch;
            if (i < 2)
                continue;
            struct sluice_held **oldest = &held[(i + 1) % 3];
            CU_ASSERT_TRUE(is_right(*oldest, &drawn, &reference));
            sluice_held_release(*oldest);
            *oldest = NULL;
        }
        for (size_t i = 0; i < 3; i++)
            sluice_held_release(held[i]);
        (void)sluice_prefetcher_finish(net.prefetcher);
    }
    CU_ASSERT_EQUAL(blocks.num_made, 3 + 2);
    CU_ASSERT_EQUAL(blocks.num_freed, 0);
    net_close(&net);
    CU_ASSERT_EQUAL(blocks.num_freed, 5);
}

/* Threads that look at batches and release them. */
struct releasers {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sluice_held *queue[6 * NUM_BATCHES];
    size_t num_queued;
    bool is_over;
    const struct drawn *drawn;
    const struct reference *reference;
    _Atomic unsigned num_wrong;
};

static void *release_main(void *ctx)
{
    struct releasers *releasers = ctx;
    for (;;) {
        pthread_mutex_lock(&releasers->lock);
        while (releasers->num_queued == 0 && !releasers->is_over)
            pthread_cond_wait(&releasers->changed, &releasers->lock);
        struct sluice_held *batch =
            releasers->num_queued ? releasers->queue[--releasers->num_queued] : NULL;
        pthread_mutex_unlock(&releasers->lock);
        if (!batch)
            return NULL;
        releasers->num_wrong += !is_right(batch, releasers->drawn, releasers->reference);
        memset(batch->pixels, 0xEE, batch->num_rows * FAKE_ROW_BYTES); /* the holder may */
        sluice_held_release(batch);
    }
}

TEST(batches_are_released_from_other_threads_and_after_destroy)
{
    struct blocks blocks = {0};
    struct reference reference;
    const struct drawn drawn = draw(6, 3);
    make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
    struct releasers releasers = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                  .changed = PTHREAD_COND_INITIALIZER,
                                  .drawn = &drawn,
                                  .reference = &reference};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, release_main, &releasers), 0);
    struct net net = {0};
    net_open(&net, (struct fake_server_options){0},
             (struct sluice_prefetcher_options){.memory_ctx = &blocks, .has_digest = true});
    struct sluice_held *kept[6] = {0};
    for (int epoch = 0; epoch < 6; epoch++) {
        start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
        for (struct sluice_held *batch; (batch = take(net.prefetcher));) {
            if (batch->index == (uint64_t)epoch) {
                kept[epoch] = batch;
                continue;
            }
            pthread_mutex_lock(&releasers.lock);
            CU_ASSERT_FATAL(releasers.num_queued < 6 * NUM_BATCHES);
            releasers.queue[releasers.num_queued++] = batch;
            pthread_cond_signal(&releasers.changed);
            pthread_mutex_unlock(&releasers.lock);
        }
        const struct sluice_epoch_stats stats = sluice_prefetcher_finish(net.prefetcher);
        CU_ASSERT_STRING_EQUAL(stats.digest, reference.digest);
    }
    /* Some threads may still release while the loader goes. */
    net_close(&net);
    pthread_mutex_lock(&releasers.lock);
    releasers.is_over = true;
    pthread_cond_broadcast(&releasers.changed);
    pthread_mutex_unlock(&releasers.lock);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CU_ASSERT_EQUAL(releasers.num_wrong, 0);
    CU_ASSERT_EQUAL(blocks.num_made - blocks.num_freed, 6);
    for (int i = 0; i < 6; i++) {
        CU_ASSERT_PTR_NOT_NULL_FATAL(kept[i]);
        CU_ASSERT_TRUE(is_right(kept[i], &drawn, &reference));
        sluice_held_release(kept[i]);
    }
    CU_ASSERT_EQUAL(blocks.num_made, blocks.num_freed);
}

TEST(without_memory_next_says_so_and_goes_on_after_a_release)
{
    struct blocks blocks = {0};
    struct reference reference;
    const struct drawn drawn = draw(0, 3);
    make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
    struct net net = {0};
    net_open(&net, (struct fake_server_options){0},
             (struct sluice_prefetcher_options){.memory_ctx = &blocks, .has_digest = true});
    start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
    struct sluice_held *first = take(net.prefetcher), *other = NULL;
    blocks.fails = true;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_prefetcher_next(net.prefetcher, -1, &other, &err), SLUICE_E_NO_MEMORY);
    CU_ASSERT_STRING_EQUAL(err.text, "none for you");
    CU_ASSERT_PTR_NULL(other);
    CU_ASSERT_TRUE(is_right(first, &drawn, &reference));
    sluice_held_release(first);
    check_batches(net.prefetcher, &reference, BATCH);
    const struct sluice_epoch_stats stats = sluice_prefetcher_finish(net.prefetcher);
    CU_ASSERT_STRING_EQUAL(stats.digest, reference.digest);
    net_close(&net);
    CU_ASSERT_EQUAL(blocks.num_made, 3);
    CU_ASSERT_EQUAL(blocks.num_freed, 3);
}

TEST(next_waits_no_longer_than_it_is_told)
{
    const struct drawn drawn = draw(0, 3);
    struct held held;
    struct sluice_prefetcher *prefetcher =
        held_start(&held, &drawn, (struct sluice_prefetcher_options){.num_slots = 7});
    struct sluice_held *batch = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_prefetcher_next(prefetcher, 0, &batch, &err), SLUICE_E_AGAIN);
    const uint64_t start_ns = sluice_clock_ns();
    CU_ASSERT_EQUAL(sluice_prefetcher_next(prefetcher, 30, &batch, &err), SLUICE_E_AGAIN);
    const uint64_t waited_ns = sluice_clock_ns() - start_ns;
    CU_ASSERT(waited_ns >= 30000000);
    CU_ASSERT_PTR_NULL(batch);
    CU_ASSERT_EQUAL(sluice_prefetcher_position(prefetcher), 0);
    wait_asked(&held, BATCH);
    for (size_t i = 0; i < BATCH; i++)
        answer(&held, prefetcher, i);
    REQUIRE_OK(sluice_prefetcher_next(prefetcher, 60000, &batch, &err));
    CU_ASSERT_PTR_NOT_NULL_FATAL(batch);
    /* The waits that were in vain are the batch's, too. */
    uint64_t stall_ns = 0;
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        stall_ns += batch->stall_ns[r];
    CU_ASSERT(stall_ns >= 30000000);
    sluice_held_release(batch);
    batch = NULL;
    CU_ASSERT_EQUAL(sluice_prefetcher_next(prefetcher, 1, &batch, &err), SLUICE_E_AGAIN);
    end(prefetcher);
}

TEST(the_callers_time_is_that_outside_next)
{
    const struct drawn drawn = draw(0, 3);
    struct net net = {0};
    net_open(&net, (struct fake_server_options){0}, (struct sluice_prefetcher_options){0});
    start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
    const uint64_t start_ns = sluice_clock_ns();
    uint64_t own_ns = 0, waited_ns = 0;
    for (struct sluice_held *batch; (batch = take(net.prefetcher));) {
        const uint64_t from_ns = sluice_clock_ns();
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
            waited_ns += batch->stall_ns[r];
        CU_ASSERT_EQUAL(batch->stall_ns[SLUICE_GPU], 0);
        const struct timespec step = {.tv_nsec = 2000000}; /* the step that is measured */
        (void)nanosleep(&step, NULL);
        sluice_held_release(batch);
        own_ns += sluice_clock_ns() - from_ns;
    }
    const uint64_t elapsed_ns = sluice_clock_ns() - start_ns;
    const struct sluice_epoch_stats stats = sluice_prefetcher_finish(net.prefetcher);
    CU_ASSERT(stats.stall_ns[SLUICE_GPU] >= own_ns);
    CU_ASSERT(stats.stall_ns[SLUICE_GPU] + waited_ns <= elapsed_ns);
    net_close(&net);
}

TEST(an_abandoned_epoch_leaves_the_next_one_right)
{
    struct blocks blocks = {0};
    struct sluice_live live = {0};
    struct reference first, second;
    const struct drawn drawn = draw(2, 0), other = draw(3, 3);
    make_reference(&good, drawn.items, NUM_SAMPLES, &first);
    make_reference(&good, other.items, NUM_SAMPLES, &second);
    struct net net = {0};
    net_open(&net, (struct fake_server_options){0},
             (struct sluice_prefetcher_options){
                 .num_slots = 4, .memory_ctx = &blocks, .has_digest = true, .live = &live});
    for (size_t num_taken = 0; num_taken <= NUM_BATCHES; num_taken++) {
        struct sluice_held *kept = NULL;
        start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
        for (size_t i = 0; i < num_taken; i++) {
            sluice_held_release(kept);
            kept = take(net.prefetcher);
        }
        (void)sluice_prefetcher_finish(net.prefetcher);
        net.source->close(net.source);
        sluice_prefetcher_abandon(net.prefetcher);
        net.source->destroy(net.source);
        CU_ASSERT_EQUAL(sluice_live_get(&live.rows), sluice_live_get(&live.taken));
        if (num_taken % 2 == 0) { /* before the next epoch, or in it */
            CU_ASSERT(!kept || is_right(kept, &drawn, &first));
            sluice_held_release(kept);
            kept = NULL;
        }
        net_open_source(&net);
        start_epoch(net.prefetcher, net.source, &good, &other, 0, NULL);
        check_batches(net.prefetcher, &second, 0);
        const struct sluice_epoch_stats stats = sluice_prefetcher_finish(net.prefetcher);
        CU_ASSERT_STRING_EQUAL(stats.digest, second.digest);
        CU_ASSERT_EQUAL(stats.samples, NUM_SAMPLES);
        CU_ASSERT(!kept || is_right(kept, &drawn, &first));
        sluice_held_release(kept);
    }
    CU_ASSERT_EQUAL(blocks.num_made, 4 + 1);
    net_close(&net);
    CU_ASSERT_EQUAL(blocks.num_made, blocks.num_freed);
}

TEST(a_source_that_gave_up_is_forgotten_after_abandon)
{
    struct reference reference;
    const struct drawn drawn = draw(0, 0);
    make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
    struct held held;
    struct sluice_prefetcher *prefetcher = held_start(
        &held, &drawn, (struct sluice_prefetcher_options){.num_slots = 7, .has_digest = true});
    wait_asked(&held, NUM_SAMPLES);
    for (size_t i = 0; i < NUM_SAMPLES; i += 2) /* no batch is whole */
        answer(&held, prefetcher, i);
    const struct sluice_source_events events = sluice_prefetcher_events(prefetcher);
    events.on_failed(events.ctx, SLUICE_E_IO, "nobody there");
    struct sluice_held *batch = NULL;
    CU_ASSERT_EQUAL(sluice_prefetcher_next(prefetcher, -1, &batch, NULL), SLUICE_E_IO);
    CU_ASSERT_TRUE(sluice_prefetcher_has_lost_source(prefetcher));
    (void)sluice_prefetcher_finish(prefetcher);
    sluice_prefetcher_abandon(prefetcher);

    struct held again;
    held_init(&again);
    start_epoch(prefetcher, &again.source, &good, &drawn, 0, NULL);
    CU_ASSERT_FALSE(sluice_prefetcher_has_lost_source(prefetcher));
    wait_asked(&again, NUM_SAMPLES);
    for (size_t i = NUM_SAMPLES; i > 0; i--)
        answer(&again, prefetcher, i - 1);
    check_batches(prefetcher, &reference, 0);
    const struct sluice_epoch_stats stats = sluice_prefetcher_finish(prefetcher);
    CU_ASSERT_STRING_EQUAL(stats.digest, reference.digest);
    sluice_prefetcher_destroy(prefetcher);
}

TEST(a_substitute_has_the_id_of_the_row_that_it_copies)
{
    struct reference reference;
    const struct drawn drawn = draw(1, 0);
    make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
    struct net net = {0};
    net_open(&net, (struct fake_server_options){.dataset = &bad},
             (struct sluice_prefetcher_options){.on_error = SLUICE_ON_ERROR_SUBSTITUTE});
    start_epoch(net.prefetcher, net.source, &bad, &drawn, 0, NULL);
    size_t bad_item = 0;
    while (ids[drawn.items[bad_item].position] != bad_id)
        bad_item++;
    size_t row = 0;
    for (struct sluice_held *batch; (batch = take(net.prefetcher));) {
        const bool is_after = (batch->index + 1) * BATCH > bad_item;
        CU_ASSERT_EQUAL(batch->errors[SLUICE_E_CORRUPT], is_after ? 1 : 0);
        for (unsigned i = 0; i < batch->num_rows; i++, row++) {
            const size_t from = row != bad_item ? row : row % BATCH ? row - 1 : row + 1;
            CU_ASSERT_EQUAL(batch->ids[i], ids[drawn.items[from].position]);
            CU_ASSERT_EQUAL(batch->draw_epochs[i], drawn.items[from].draw_epoch);
            CU_ASSERT_EQUAL(batch->labels[i], reference.labels[from]);
            CU_ASSERT_EQUAL(
                memcmp(batch->pixels + i * FAKE_ROW_BYTES, reference.pixels[from], FAKE_ROW_BYTES),
                0);
        }
        sluice_held_release(batch);
    }
    CU_ASSERT_EQUAL(row, NUM_SAMPLES);
    (void)sluice_prefetcher_finish(net.prefetcher);
    net_close(&net);
}

/* --- what is asked for, for a GPU --- */

/* On the server's thread. */
struct asked {
    _Atomic unsigned num_crops, num_others, num_wrong;
};

static enum fake_action count_asked(void *ctx, const struct sluice_wire_sample_request *request,
                                    struct sluice_wire_sample_reply *reply)
{
    (void)reply;
    struct asked *asked = ctx;
    const bool is_for_gpu =
        request->form == SLUICE_FORM_JPEG_CROP && request->key.sample_id % 2 == 0;
    *(is_for_gpu ? &asked->num_crops : &asked->num_others) += 1;
    asked->num_wrong += request->jpeg_crop_restart != (is_for_gpu ? TUNING_GPU_RESTART : 0);
    return FAKE_SEND;
}

TEST(crops_for_a_gpu_are_asked_for_with_restart_markers_and_nothing_else_is)
{
    struct asked asked = {0};
    struct net net = {0};
    net_open(&net, (struct fake_server_options){.meddle = count_asked, .meddle_ctx = &asked},
             (struct sluice_prefetcher_options){0});
    static const unsigned splits[] = {0, 3};
    struct drawn drawn = draw_by_turns(0, splits, 2);
    unsigned num_for_gpu = 0;
    for (size_t i = 0; i < NUM_SAMPLES; i += 2) { /* by position, which is the id */
        drawn.choices[i].form = i % 4 ? SLUICE_FORM_RAW : SLUICE_FORM_JPEG_CROP;
        drawn.choices[i].on_gpu = true;
        num_for_gpu += i % 4 == 0;
    }
    drawn.choices[1] = (struct sluice_choice){.form = SLUICE_FORM_JPEG_CROP};
    struct reference reference;
    make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
    start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
    check_batches(net.prefetcher, &reference, 0);
    (void)sluice_prefetcher_finish(net.prefetcher);
    net_close(&net);
    CU_ASSERT_EQUAL(asked.num_crops, num_for_gpu);
    CU_ASSERT_EQUAL(asked.num_others, NUM_SAMPLES - num_for_gpu);
    CU_ASSERT_EQUAL(asked.num_wrong, 0);
}

/* --- rows that do not do --- */

/* On the server's thread: files as rows, which they are not. */
static enum fake_action call_it_rows(void *ctx, const struct sluice_wire_sample_request *request,
                                     struct sluice_wire_sample_reply *reply)
{
    _Atomic unsigned *num_asked = ctx;
    if (request->form == SLUICE_FORM_JPEG_ROWS)
        reply->form = SLUICE_FORM_JPEG_ROWS;
    num_asked[request->form]++;
    return FAKE_SEND;
}

TEST(where_rows_do_not_do_the_file_is_asked_for)
{
    _Atomic unsigned num_asked[SLUICE_MAX_FORMS] = {0};
    struct sluice_live live = {0};
    struct net net = {0};
    net_open(&net, (struct fake_server_options){.meddle = call_it_rows, .meddle_ctx = num_asked},
             (struct sluice_prefetcher_options){.has_digest = true, .live = &live});
    struct reference reference;
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        struct drawn drawn = draw(epoch, 0);
        for (size_t i = 0; i < NUM_SAMPLES; i += epoch + 1)
            drawn.choices[i].form = SLUICE_FORM_JPEG_ROWS;
        const unsigned num_rows = (NUM_SAMPLES + epoch) / (epoch + 1);
        make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
        start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
        check_batches(net.prefetcher, &reference, 0);
        const struct sluice_epoch_stats stats = sluice_prefetcher_finish(net.prefetcher);
        CU_ASSERT_STRING_EQUAL(stats.digest, reference.digest);
        CU_ASSERT_EQUAL(stats.errors, 0);
        CU_ASSERT_EQUAL(stats.choices[0][SLUICE_FORM_RAW], NUM_SAMPLES);
        CU_ASSERT_EQUAL(num_asked[SLUICE_FORM_JPEG_ROWS], num_rows);
        CU_ASSERT_EQUAL(num_asked[SLUICE_FORM_RAW], NUM_SAMPLES);
        num_asked[SLUICE_FORM_RAW] = num_asked[SLUICE_FORM_JPEG_ROWS] = 0;
    }
    CU_ASSERT_EQUAL(sluice_live_get(&live.errors), 0);
    net_close(&net);
}

TEST(an_epoch_is_broken_off_while_files_are_asked_for)
{
    _Atomic unsigned num_asked[SLUICE_MAX_FORMS] = {0};
    struct net net = {0};
    net_open(&net, (struct fake_server_options){.meddle = call_it_rows, .meddle_ctx = num_asked},
             (struct sluice_prefetcher_options){.has_digest = true});
    struct reference reference;
    struct drawn drawn = draw(0, 0);
    for (size_t i = 0; i < NUM_SAMPLES; i++)
        drawn.choices[i].form = SLUICE_FORM_JPEG_ROWS;
    make_reference(&good, drawn.items, NUM_SAMPLES, &reference);
    start_epoch(net.prefetcher, net.source, &good, &drawn, 0, NULL);
    struct sluice_held *batch = NULL;
    CHECK_OK(sluice_prefetcher_next(net.prefetcher, -1, &batch, NULL));
    sluice_held_release(batch);
    (void)sluice_prefetcher_finish(net.prefetcher);
    net_close(&net);
}

int main(void)
{
    sluice_log_set_level(SLUICE_LOG_ERROR);
    fake_dataset_make(&good, NUM_SAMPLES, SIZE_MAX);
    fake_dataset_make(&bad, NUM_SAMPLES, 12);
    for (uint32_t i = 0; i < NUM_SAMPLES; i++) {
        ids[i] = i;
        if (bad.files[i]->len != good.files[i]->len)
            bad_id = i;
    }
    if (sluice_pipeline_parse(FAKE_PIPELINE, &pipeline, NULL) != SLUICE_OK)
        return 1;
    const int failed = sluice_test_main();
    sluice_pipeline_destroy(pipeline);
    fake_dataset_clear(&good);
    fake_dataset_clear(&bad);
    return failed;
}
