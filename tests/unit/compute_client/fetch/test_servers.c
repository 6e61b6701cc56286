#include "compute_client/fetch/servers.h"

#include "datasets/manifest/image_sizes.h"
#include "fake_server.h"
#include "support/capture.h"
#include "support/test.h"

#include <pthread.h>

#define NUM_SAMPLES 60
#define MAX_SHARDS 4
#define SEED 7

static struct fake_dataset dataset;
static struct sluice_pipeline *pipeline;

/* Rows part, part + num_parts, ... of the dataset. */
static struct fake_dataset part_of(size_t part, size_t num_parts)
{
    struct fake_dataset made = {.files = calloc(NUM_SAMPLES, sizeof(void *))};
    struct sluice_manifest_entry entries[NUM_SAMPLES];
    for (size_t i = part; i < NUM_SAMPLES; i += num_parts) {
        made.files[made.num_samples] = sluice_buf_ref(dataset.files[i]);
        entries[made.num_samples++] = sluice_manifest_at(dataset.manifest, i);
    }
    REQUIRE_OK(sluice_manifest_create(entries, made.num_samples, dataset.manifest->classes, 2,
                                      &made.manifest, NULL));
    return made;
}

/* --- a source's events --- */

struct record {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t num_answers, num_wrong;
    bool has_failed;
    char text[400];
    struct sluice_source *source;
};

/* What one server over all of the files would give. */
static bool is_right(const struct sluice_sample *got)
{
    struct sluice_scratch *scratch = NULL;
    struct sluice_sample want = {.key = got->key, .kind = SLUICE_KIND_FILE};
    want.data = sluice_buf_ref(dataset.files[got->key.sample_id]);
    bool is_same = sluice_scratch_create(NULL, &scratch, NULL) == SLUICE_OK &&
                   sluice_pipeline_run(pipeline, scratch, &want, got->ops_done, NULL) == SLUICE_OK;
    is_same = is_same && got->data->len == want.data->len &&
              memcmp(got->data->data, want.data->data, want.data->len) == 0;
    sluice_sample_clear(&want);
    sluice_scratch_destroy(scratch);
    return is_same;
}

static void on_result(void *ctx, struct sluice_source_result *result)
{
    struct record *r = ctx;
    const bool is_good =
        result->status == SLUICE_OK && sluice_source_gather(result, NULL, NULL) == SLUICE_OK &&
        result->sample.key.sample_id == result->ticket % NUM_SAMPLES && is_right(&result->sample);
    const size_t payload_bytes = result->payload_bytes;
    sluice_source_result_clear(result);
    r->source->consumed(r->source, result->origin, payload_bytes);
    pthread_mutex_lock(&r->lock);
    r->num_answers++;
    r->num_wrong += !is_good;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void on_failed(void *ctx, sluice_status status, const char *text)
{
    (void)status;
    struct record *r = ctx;
    pthread_mutex_lock(&r->lock);
    r->has_failed = true;
    snprintf(r->text, sizeof(r->text), "%s", text);
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void ask(struct record *r, uint64_t first_ticket, size_t count)
{
    struct sluice_source_item items[NUM_SAMPLES] = {{0}};
    for (size_t i = 0; i < count; i++) {
        const uint64_t ticket = first_ticket + i;
        items[i] = (struct sluice_source_item){
            .ticket = ticket,
            .key = {.seed = SEED, .epoch = 1, .sample_id = ticket % NUM_SAMPLES},
            .path = sluice_manifest_at(dataset.manifest, ticket % NUM_SAMPLES).path,
            .split = 3,
            .form = SLUICE_FORM_U8,
        };
    }
    CHECK_OK(r->source->request(r->source, items, count));
}

static void await(struct record *r, size_t count)
{
    pthread_mutex_lock(&r->lock);
    while (r->num_answers < count && !r->has_failed)
        pthread_cond_wait(&r->changed, &r->lock);
    if (r->has_failed)
        CU_FAIL(r->text);
    pthread_mutex_unlock(&r->lock);
}

/* --- servers --- */

struct opened {
    struct sluice_servers *servers;
    struct sluice_server_info info;
    struct sluice_manifest *manifest;
    struct sluice_err err;
    sluice_status status;
};

static struct opened open_with(const struct sluice_servers_options *options)
{
    struct opened o = {.servers = NULL};
    REQUIRE_OK(sluice_servers_create(options, &o.servers, &o.err));
    o.status = sluice_servers_open(o.servers, pipeline, &o.info, &o.manifest, &o.err);
    return o;
}

static struct opened open_them(const char *const *shards, size_t num_shards, double retry_for_s)
{
    return open_with(&(struct sluice_servers_options){
        .shards = shards, .num_shards = num_shards, .client.retry_for_s = retry_for_s});
}

static void opened_close(struct opened *o, struct sluice_source *source)
{
    sluice_servers_stop(o->servers);
    sluice_servers_end_lookups(o->servers);
    if (source)
        source->destroy(source);
    sluice_servers_destroy(o->servers);
    sluice_manifest_destroy(o->manifest);
}

static struct sluice_source *source_of(struct opened *o, struct record *r)
{
    const struct sluice_fetcher_options options = {
        .pipeline = pipeline,
        .max_items = 4 * NUM_SAMPLES,
        .window_bytes = 1 << 20,
    };
    const struct sluice_source_events events = {
        .on_result = on_result, .on_failed = on_failed, .ctx = r};
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    struct sluice_err err = {0};
    if (sluice_servers_source(o->servers, &options, &events, &r->source, &err) != SLUICE_OK)
        CU_FAIL_FATAL(err.text);
    return r->source;
}

static void expect_whole(const struct opened *o)
{
    if (o->status != SLUICE_OK)
        CU_FAIL_FATAL(o->err.text);
    char id[33];
    sluice_hash128_hex(sluice_manifest_id(dataset.manifest), id);
    CU_ASSERT_STRING_EQUAL(o->info.dataset_id, id);
    CU_ASSERT_EQUAL(o->info.num_samples, NUM_SAMPLES);
    CU_ASSERT_EQUAL_FATAL(o->manifest->num_entries, NUM_SAMPLES);
    for (size_t i = 0; i < NUM_SAMPLES; i++) {
        CU_ASSERT_STRING_EQUAL(sluice_manifest_at(o->manifest, i).path,
                               sluice_manifest_at(dataset.manifest, i).path);
        CU_ASSERT_EQUAL(sluice_manifest_at(o->manifest, i).label,
                        sluice_manifest_at(dataset.manifest, i).label);
    }
}

/* Fails to open, with these words. */
static void expect_failure(struct opened *o, sluice_status status, const char *const *words)
{
    CU_ASSERT_EQUAL(o->status, status);
    for (size_t i = 0; words[i]; i++) {
        if (!strstr(o->err.text, words[i]))
            CU_FAIL(o->err.text);
    }
    CU_ASSERT_PTR_NULL(o->manifest);
    opened_close(o, NULL);
}

TEST(shards_and_replicas_give_what_one_server_would)
{
    for (size_t num_shards = 1; num_shards <= MAX_SHARDS; num_shards++) {
        for (size_t num_replicas = 1; num_replicas <= 2; num_replicas++) {
            struct fake_dataset parts[MAX_SHARDS];
            struct fake_server *servers[2 * MAX_SHARDS];
            char texts[MAX_SHARDS][80] = {""};
            const char *shards[MAX_SHARDS];
            for (size_t i = 0; i < num_shards; i++) {
                parts[i] = part_of(i, num_shards);
                for (size_t k = 0; k < num_replicas; k++) {
                    struct fake_server *server = fake_server_start(
                        &(struct fake_server_options){.dataset = &parts[i], .has_hashes = true});
                    servers[i * num_replicas + k] = server;
                    const size_t len = strlen(texts[i]);
                    snprintf(texts[i] + len, sizeof(texts[i]) - len, "%s%s", k ? "," : "",
                             fake_server_target(server));
                }
                shards[i] = texts[i];
            }
            struct opened o = open_them(shards, num_shards, 20);
            expect_whole(&o);
            CU_ASSERT_EQUAL(o.info.prep_cores, 3.0 * (double)(num_shards * num_replicas));
            CHECK_OK(sluice_servers_bound_messages(o.servers, 4 << 20, NULL));
            struct record r = {.num_answers = 0};
            struct sluice_source *source = source_of(&o, &r);
            ask(&r, 0, NUM_SAMPLES);
            await(&r, NUM_SAMPLES);
            CU_ASSERT_EQUAL(r.num_wrong, 0);
            double cpu_s = 0;
            CHECK_OK(sluice_servers_cpu(o.servers, &cpu_s, NULL));
            CU_ASSERT_EQUAL(cpu_s, FAKE_SERVER_CPU_S * (double)(num_shards * num_replicas));
            opened_close(&o, source);
            for (size_t i = 0; i < num_shards * num_replicas; i++)
                fake_server_stop(servers[i]);
            for (size_t i = 0; i < num_shards; i++)
                fake_dataset_clear(&parts[i]);
        }
    }
}

TEST(links_add_up)
{
    struct fake_server *a = fake_server_start(&(struct fake_server_options){.dataset = &dataset});
    struct fake_server *b = fake_server_start(&(struct fake_server_options){.dataset = &dataset});
    char both[80];
    snprintf(both, sizeof(both), "%s,%s", fake_server_target(a), fake_server_target(b));
    struct opened o = open_them((const char *const[]){both}, 1, 0.1);
    REQUIRE_OK(o.status);
    struct sluice_client_probed probed = {0};
    CHECK_OK(sluice_servers_probe(o.servers, 1 << 20, &probed, NULL));
    CU_ASSERT(probed.link_bytes_per_s > 0);
    /* One that is gone is left out. */
    fake_server_stop(a);
    CHECK_OK(sluice_servers_probe(o.servers, 1 << 20, &probed, NULL));
    fake_server_stop(b);
    struct sluice_err err = {0};
    CU_ASSERT_NOT_EQUAL(sluice_servers_probe(o.servers, 1 << 20, &probed, &err), SLUICE_OK);
    CU_ASSERT(err.text[0] != '\0');
    opened_close(&o, NULL);
}

/* A warning, and it is used once it answers. */
TEST(a_dead_replica_is_no_error)
{
    struct fake_server *there =
        fake_server_start(&(struct fake_server_options){.dataset = &dataset, .has_hashes = true});
    const int port = sluice_test_port();
    char both[80], dead[40];
    snprintf(dead, sizeof(dead), "127.0.0.1:%d", port);
    snprintf(both, sizeof(both), "%s,%s", dead, fake_server_target(there));
    struct sluice_test_output *output = malloc(sizeof(*output));
    sluice_test_capture_begin();
    struct opened o = open_them((const char *const[]){both}, 1, 60);
    sluice_test_capture_end(output);
    expect_whole(&o);
    strcat(dead, " does not answer");
    CU_ASSERT_PTR_NOT_NULL(strstr(output->err, dead));
    free(output);
    struct record r = {.num_answers = 0};
    struct sluice_source *source = source_of(&o, &r);
    ask(&r, 0, NUM_SAMPLES);
    await(&r, NUM_SAMPLES);
    struct fake_server *late = fake_server_start(
        &(struct fake_server_options){.dataset = &dataset, .port = port, .has_hashes = true});
    size_t asked = NUM_SAMPLES;
    while (fake_server_stats(late).replies == 0 && !r.has_failed) {
        ask(&r, asked, NUM_SAMPLES);
        await(&r, asked += NUM_SAMPLES);
    }
    CU_ASSERT_EQUAL(r.num_wrong, 0);
    opened_close(&o, source);
    fake_server_stop(there);
    fake_server_stop(late);
}

TEST(a_dead_shard_is_an_error_with_host_and_number)
{
    struct fake_dataset half = part_of(0, 2);
    struct fake_server *there =
        fake_server_start(&(struct fake_server_options){.dataset = &half, .has_hashes = true});
    char dead[80];
    snprintf(dead, sizeof(dead), "127.0.0.1:%d,127.0.0.1:%d", sluice_test_port(),
             sluice_test_port());
    struct opened o = open_them((const char *const[]){fake_server_target(there), dead}, 2, 0.2);
    expect_failure(
        &o, SLUICE_E_IO,
        (const char *const[]){"shard 2 of 2", dead, "connection refused", "tried for 0.2 s", NULL});
    o = open_them((const char *const[]){dead}, 1, 0);
    expect_failure(&o, SLUICE_E_IO, (const char *const[]){"none of 2 replicas", dead, NULL});
    fake_server_stop(there);
    fake_dataset_clear(&half);
}

TEST(replicas_with_other_data_are_refused_with_both_ids)
{
    struct fake_dataset parts[] = {part_of(0, 2), part_of(1, 2)};
    struct fake_server *a = fake_server_start(&(struct fake_server_options){.dataset = &parts[0]});
    struct fake_server *b = fake_server_start(&(struct fake_server_options){.dataset = &parts[1]});
    char both[80], ids[2][33];
    snprintf(both, sizeof(both), "%s,%s", fake_server_target(a), fake_server_target(b));
    for (int i = 0; i < 2; i++)
        sluice_hash128_hex(sluice_manifest_id(parts[i].manifest), ids[i]);
    struct opened o = open_them((const char *const[]){both}, 1, 20);
    expect_failure(&o, SLUICE_E_INVALID,
                   (const char *const[]){fake_server_target(a), fake_server_target(b), ids[0],
                                         ids[1], "are shards, each with a --host", NULL});
    /* And a path that two shards have. */
    struct fake_server *whole =
        fake_server_start(&(struct fake_server_options){.dataset = &dataset});
    o = open_them((const char *const[]){fake_server_target(a), fake_server_target(whole)}, 2, 20);
    expect_failure(&o, SLUICE_E_INVALID,
                   (const char *const[]){fake_server_target(a), fake_server_target(whole),
                                         sluice_manifest_at(parts[0].manifest, 0).path,
                                         "--host A,B", NULL});
    fake_server_stop(a);
    fake_server_stop(b);
    fake_server_stop(whole);
    fake_dataset_clear(&parts[0]);
    fake_dataset_clear(&parts[1]);
}

TEST(a_server_that_knows_no_parts_is_refused_as_a_shard_alone)
{
    struct fake_dataset parts[] = {part_of(0, 2), part_of(1, 2)};
    struct fake_server *a = fake_server_start(&(struct fake_server_options){.dataset = &parts[0]});
    struct fake_server *b = fake_server_start(
        &(struct fake_server_options){.dataset = &parts[1], .has_no_listed_id = true});
    struct opened o =
        open_them((const char *const[]){fake_server_target(a), fake_server_target(b)}, 2, 20);
    expect_failure(&o, SLUICE_E_INVALID,
                   (const char *const[]){fake_server_target(b), "whole datasets alone", NULL});
    o = open_them((const char *const[]){fake_server_target(b)}, 1, 20);
    CHECK_OK(o.status);
    opened_close(&o, NULL);
    fake_server_stop(a);
    fake_server_stop(b);
    fake_dataset_clear(&parts[0]);
    fake_dataset_clear(&parts[1]);
}

TEST(a_server_that_cannot_say_the_size_of_images_is_refused_where_geometry_needs_it)
{
    struct fake_server *old = fake_server_start(
        &(struct fake_server_options){.dataset = &dataset, .has_no_file_image = true});
    const char *target = fake_server_target(old);
    struct opened o = open_with(&(struct sluice_servers_options){
        .shards = &target, .num_shards = 1, .needs_file_image = true, .client.retry_for_s = 20});
    expect_failure(&o, SLUICE_E_INVALID,
                   (const char *const[]){target, "which --geometry needs", NULL});
    o = open_them(&target, 1, 20);
    CHECK_OK(o.status);
    opened_close(&o, NULL);
    fake_server_stop(old);
}

TEST(sizes_of_shards_come_to_their_rows)
{
    struct fake_dataset parts[2] = {part_of(0, 2), part_of(1, 2)};
    struct fake_server *servers[2];
    const char *shards[2];
    for (unsigned i = 0; i < 2; i++) {
        servers[i] = fake_server_start(&(struct fake_server_options){
            .dataset = &parts[i], .has_hashes = true, .lists_sizes = true, .sizes_height = 7 + i});
        shards[i] = fake_server_target(servers[i]);
    }
    for (unsigned num_shards = 1; num_shards <= 2; num_shards++) {
        struct opened o = open_them(shards, num_shards, 0);
        struct sluice_image_sizes *sizes = NULL;
        const size_t num = o.manifest->num_entries;
        CU_ASSERT_EQUAL(num, num_shards * NUM_SAMPLES / 2);
        REQUIRE_OK(sluice_image_sizes_create(num, num_shards == 2, &sizes, NULL));
        CHECK_OK(sluice_servers_read_sizes(o.servers, num, sizes, NULL));
        for (size_t i = 0; i < num; i++) {
            struct sluice_image_size size;
            CU_ASSERT_FATAL(sluice_image_sizes_get(sizes, i, &size));
            CU_ASSERT_EQUAL(size.width, 100 + i / num_shards);
            CU_ASSERT_EQUAL(size.height, 7 + i % num_shards);
            CU_ASSERT_EQUAL(size.orientation, num_shards == 2 ? 6 : 1);
        }
        sluice_image_sizes_destroy(sizes);
        opened_close(&o, NULL);
    }
    for (unsigned i = 0; i < 2; i++) {
        fake_server_stop(servers[i]);
        fake_dataset_clear(&parts[i]);
    }
}

TEST(another_pipeline_is_refused_at_once)
{
    struct fake_server *good =
        fake_server_start(&(struct fake_server_options){.dataset = &dataset});
    struct fake_server *bad =
        fake_server_start(&(struct fake_server_options){.dataset = &dataset, .fingerprint_xor = 1});
    char both[80];
    snprintf(both, sizeof(both), "%s,%s", fake_server_target(good), fake_server_target(bad));
    struct opened o = open_them((const char *const[]){both}, 1, 1000);
    expect_failure(&o, SLUICE_E_INVALID,
                   (const char *const[]){fake_server_target(bad), "reads the pipeline", NULL});
    fake_server_stop(good);
    fake_server_stop(bad);
}

TEST(texts_that_cannot_be_read_make_none)
{
    const struct sluice_servers_options options = {.shards = (const char *const[]){"a", "b,,c"},
                                                   .num_shards = 2};
    struct sluice_servers *servers = NULL;
    CHECK_FAILS(SLUICE_E_INVALID, "'b,,c'",
                sluice_servers_create(&options, &servers, sluice_test_err()));
    CU_ASSERT_PTR_NULL(servers);
    sluice_servers_destroy(NULL);
}

/* --- stop --- */

static void *stop_main(void *ctx)
{
    sluice_servers_stop(ctx);
    return NULL;
}

TEST(stop_ends_the_wait_for_servers)
{
    char dead[80];
    snprintf(dead, sizeof(dead), "127.0.0.1:%d,127.0.0.1:%d", sluice_test_port(),
             sluice_test_port());
    struct opened o = {.servers = NULL};
    const struct sluice_servers_options options = {
        .shards = (const char *const[]){dead}, .num_shards = 1, .client.retry_for_s = 1000};
    REQUIRE_OK(sluice_servers_create(&options, &o.servers, NULL));
    pthread_t thread;
    pthread_create(&thread, NULL, stop_main, o.servers);
    o.status = sluice_servers_open(o.servers, pipeline, &o.info, &o.manifest, &o.err);
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(o.status, SLUICE_E_CLOSED);
    opened_close(&o, NULL);
}

/* --- names --- */

/* A name server in this process. */
struct names {
    pthread_mutex_t lock;
    pthread_cond_t asked;
    char name[40];
    const char *addresses[4];
    size_t num;
    bool is_broken;
    unsigned count; /* of questions */
};

static sluice_status resolve(void *ctx, const char *name, uint16_t port, size_t most,
                             char (*found)[SLUICE_HOST_PORT_BYTES], size_t *num_found,
                             struct sluice_err *err)
{
    struct names *names = ctx;
    pthread_mutex_lock(&names->lock);
    snprintf(names->name, sizeof(names->name), "%s", name);
    names->count++;
    pthread_cond_broadcast(&names->asked);
    const bool is_broken = names->is_broken;
    *num_found = names->num < most ? names->num : most;
    for (size_t i = 0; i < *num_found; i++)
        snprintf(found[i], SLUICE_HOST_PORT_BYTES, "%s:%u", names->addresses[i], port);
    pthread_mutex_unlock(&names->lock);
    return is_broken ? sluice_fail(err, SLUICE_E_IO, "the name server is away") : SLUICE_OK;
}

/* From the next look-up on. */
static void say(struct names *names, bool is_broken, const char *const *addresses)
{
    pthread_mutex_lock(&names->lock);
    names->is_broken = is_broken;
    names->num = 0;
    while (addresses && addresses[names->num]) {
        names->addresses[names->num] = addresses[names->num];
        names->num++;
    }
    pthread_mutex_unlock(&names->lock);
}

/* Until so many more look-ups have begun: what was said before the last of them is done. */
static void await_lookups(struct names *names, unsigned more)
{
    pthread_mutex_lock(&names->lock);
    const unsigned until = names->count + more;
    while (names->count < until)
        pthread_cond_wait(&names->asked, &names->lock);
    pthread_mutex_unlock(&names->lock);
}

/* Asks again and again until the server has made a reply. */
static void ask_until_used(struct record *r, size_t *asked, struct fake_server *server)
{
    const uint64_t before = fake_server_stats(server).replies;
    while (fake_server_stats(server).replies == before && !r->has_failed) {
        ask(r, *asked, NUM_SAMPLES);
        await(r, *asked += NUM_SAMPLES);
    }
}

TEST(addresses_of_a_name_come_and_go)
{
    const int port = sluice_test_port();
    struct fake_server_options options = {.dataset = &dataset, .port = port, .has_hashes = true};
    struct fake_server *one = fake_server_start(&options);
    options.host = "127.0.0.2";
    struct fake_server *two = fake_server_start(&options);
    struct names names = {.lock = PTHREAD_MUTEX_INITIALIZER, .asked = PTHREAD_COND_INITIALIZER};
    say(&names, false, (const char *const[]){"127.0.0.1", NULL});
    char text[40];
    snprintf(text, sizeof(text), "dns:images:%d", port);
    struct opened o = open_with(&(struct sluice_servers_options){
        .shards = (const char *const[]){text},
        .num_shards = 1,
        .client.retry_for_s = 20,
        .resolve = resolve,
        .resolve_ctx = &names,
        .lookup_s = 0.02,
    });
    expect_whole(&o);
    CU_ASSERT_STRING_EQUAL(names.name, "images");
    CU_ASSERT_STRING_EQUAL(sluice_servers_target(o.servers), text);
    struct record r = {.num_answers = 0};
    struct sluice_source *source = source_of(&o, &r);
    size_t asked = 0;
    ask_until_used(&r, &asked, one);
    CU_ASSERT_EQUAL(fake_server_stats(two).replies, 0);

    say(&names, false, (const char *const[]){"127.0.0.1", "127.0.0.2", NULL});
    ask_until_used(&r, &asked, two);

    /* The first goes: nothing is asked of it any more. */
    say(&names, false, (const char *const[]){"127.0.0.2", NULL});
    await_lookups(&names, 3);
    const uint64_t before = fake_server_stats(one).replies;
    for (int i = 0; i < 5; i++)
        ask_until_used(&r, &asked, two);
    CU_ASSERT_EQUAL(fake_server_stats(one).replies, before);

    /* A look-up that fails changes nothing. */
    say(&names, true, NULL);
    await_lookups(&names, 3);
    ask_until_used(&r, &asked, two);

    /* It is back; and the other one ends without a word. */
    say(&names, false, (const char *const[]){"127.0.0.1", "127.0.0.2", NULL});
    fake_server_stop(two);
    ask_until_used(&r, &asked, one);
    CU_ASSERT_EQUAL(r.num_wrong, 0);
    opened_close(&o, source);
    fake_server_stop(one);
}

TEST(a_name_that_does_not_resolve_is_waited_for)
{
    struct names names = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .asked = PTHREAD_COND_INITIALIZER, .is_broken = true};
    struct opened o = open_with(&(struct sluice_servers_options){
        .shards = (const char *const[]){"dns:images"},
        .num_shards = 1,
        .client.retry_for_s = 0.2,
        .resolve = resolve,
        .resolve_ctx = &names,
    });
    CU_ASSERT(names.count > 1);
    expect_failure(&o, SLUICE_E_IO,
                   (const char *const[]){"the name server is away", "tried for 0.2 s", NULL});
}

int main(void)
{
    return fake_dataset_main(&dataset, NUM_SAMPLES, &pipeline);
}
