#include "fake_server.h"

#include "image/codecs/codec.h"
#include "rpc/rpc_server.h"
#include "support/test.h"
#include "wire/wire.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CUnit's own are for the main thread inside a test. */
#define REQUIRE_TRUE(condition)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)
#define REQUIRE(status) REQUIRE_TRUE((status) == SLUICE_OK)

void fake_dataset_make(struct fake_dataset *dataset, size_t num_samples, size_t corrupt)
{
    struct sluice_manifest_entry *entries = calloc(num_samples, sizeof(*entries));
    dataset->files = calloc(num_samples, sizeof(void *));
    dataset->num_samples = num_samples;
    for (size_t i = 0; i < num_samples; i++) {
        uint8_t rgb[20 * 16 * 3];
        for (size_t k = 0; k < sizeof(rgb); k++)
            rgb[k] = (uint8_t)((i + 1) * 2654435761u >> (k % 23));
        REQUIRE(sluice_png_encode(rgb, 20, 16, 1, &dataset->files[i], NULL));
        if (i == corrupt)
            dataset->files[i]->len /= 2;
        char path[48];
        snprintf(path, sizeof(path), "train/%c/%06zu.png", i % 2 ? 'b' : 'a', i);
        entries[i].path = strdup(path);
        entries[i].bytes = dataset->files[i]->len;
        entries[i].label = (uint32_t)(i % 2);
    }
    /* The manifest wants paths in order: first all of class a. */
    struct sluice_manifest_entry *sorted = calloc(num_samples, sizeof(*sorted));
    struct sluice_buf **files = calloc(num_samples, sizeof(void *));
    size_t n = 0;
    for (size_t parity = 0; parity < 2; parity++) {
        for (size_t i = parity; i < num_samples; i += 2) {
            files[n] = dataset->files[i];
            sorted[n++] = entries[i];
        }
    }
    static const char *const classes[] = {"a", "b"};
    REQUIRE(sluice_manifest_create(sorted, num_samples, classes, 2, &dataset->manifest, NULL));
    for (size_t i = 0; i < num_samples; i++)
        free((char *)(uintptr_t)entries[i].path);
    free(entries);
    free(sorted);
    free(dataset->files);
    dataset->files = files;
}

void fake_dataset_clear(struct fake_dataset *dataset)
{
    for (size_t i = 0; i < dataset->num_samples; i++)
        sluice_buf_unref(dataset->files[i]);
    free(dataset->files);
    sluice_manifest_destroy(dataset->manifest);
    *dataset = (struct fake_dataset){0};
}

int fake_dataset_main(struct fake_dataset *dataset, size_t num_samples,
                      struct sluice_pipeline **pipeline)
{
    fake_dataset_make(dataset, num_samples, SIZE_MAX);
    REQUIRE(sluice_pipeline_parse(FAKE_PIPELINE, pipeline, NULL));
    const int code = sluice_test_main();
    sluice_pipeline_destroy(*pipeline);
    fake_dataset_clear(dataset);
    return code;
}

struct fake_server {
    pthread_mutex_t lock;
    struct fake_server_stats stats;

    /* The completion thread's. */
    struct sluice_scratch *scratch;
    unsigned sizes_asked, lost, garbled, hellos, lists_lost, lists_damaged;
    uint64_t replies;

    /* Constant. */
    struct fake_server_options options;
    char dataset_id[33], target[32];
    struct sluice_rpc_server *server;
};

/* Flips one bit of the message's byte `at`. */
static void flip_bit(struct sluice_message *message, size_t at)
{
    struct sluice_cursor cursor = sluice_cursor_init(message);
    const size_t len = message->len;
    uint8_t *flat = malloc(len);
    REQUIRE_TRUE(flat && at < len && sluice_cursor_read(&cursor, flat, len));
    flat[at] ^= 4;
    sluice_message_clear(message);
    REQUIRE(sluice_message_append_copy(message, flat, len, NULL));
    free(flat);
}

static void hello_message(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    struct fake_server *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->stats.hellos++;
    pthread_mutex_unlock(&s->lock);
    struct sluice_wire_hello hello = {0};
    if (sluice_wire_get_hello_request(message, &hello, NULL) != SLUICE_OK) {
        sluice_rpc_call_finish(call, SLUICE_RPC_INVALID_ARGUMENT, "no hello");
        return;
    }
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_wire_hello reply = {
        .protocol_version = SLUICE_WIRE_PROTOCOL_VERSION,
        .peer = (char *)(uintptr_t) "fake",
        .num_samples = s->options.dataset->num_samples,
        .prep_cores = s->options.prep_cores,
        .prep_workers = 3,
        .max_in_flight = s->options.max_in_flight,
        .has_hashes = s->options.has_hashes,
        .max_image_pixels = 1u << 20,
        .max_file_bytes = 1u << 20,
        .forms = 1u << SLUICE_FORM_RAW | 1u << SLUICE_FORM_U8 | 1u << SLUICE_FORM_F32,
        .has_jpeg_crop_restart = true,
        .has_listed_id = !s->options.has_no_listed_id,
        .has_file_image = !s->options.has_no_file_image,
    };
    if (sluice_pipeline_parse(hello.pipeline, &pipeline, NULL) == SLUICE_OK)
        reply.pipeline_fingerprint =
            sluice_pipeline_fingerprint(pipeline) ^ s->options.fingerprint_xor;
    memcpy(reply.dataset_id, s->dataset_id, sizeof(reply.dataset_id));
    struct sluice_message out = {0};
    REQUIRE(sluice_wire_put_hello_reply(&reply, &out, NULL));
    if (s->hellos++ < s->options.flip_hello_times)
        flip_bit(&out, out.len / 2);
    (void)sluice_rpc_call_send(call, &out);
    sluice_rpc_call_finish(call, SLUICE_RPC_OK, NULL);
    sluice_pipeline_destroy(pipeline);
    sluice_wire_hello_clear(&hello);
}

/* At most three samples from row `first` on, of `num_rows`: those beyond the manifest are made up.
 */
static void put_list(const struct fake_server *s, size_t first, size_t num_rows, bool is_first,
                     struct sluice_message *out)
{
    const struct sluice_manifest *manifest = s->options.dataset->manifest;
    struct sluice_wire_sample_info rows[3] = {{0}};
    struct sluice_wire_list list = {
        .samples = rows,
        .has_hash = s->options.has_hashes,
        .first_row = s->options.has_hashes ? first : 0,
    };
    if (is_first) {
        list.classes = (char **)(uintptr_t)manifest->classes;
        list.num_classes = manifest->num_classes;
        list.num_samples = manifest->num_entries;
        list.fields = (char *)(uintptr_t)s->options.list_fields;
        memcpy(list.dataset_id, s->dataset_id, sizeof(list.dataset_id));
    }
    while (list.num_samples_here < 3 && first + list.num_samples_here < num_rows) {
        const size_t id = first + list.num_samples_here;
        const struct sluice_manifest_entry entry =
            sluice_manifest_at(manifest, id % manifest->num_entries);
        rows[list.num_samples_here++] = (struct sluice_wire_sample_info){
            .sample_id = id,
            .path = (char *)(uintptr_t)entry.path,
            .bytes = entry.bytes,
            .label = entry.label,
            .is_val = entry.subset == SLUICE_SUBSET_VAL,
        };
    }
    REQUIRE(sluice_wire_put_list_reply(&list, out, NULL));
}

static void list_message(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    struct fake_server *s = ctx;
    const struct fake_server_options *o = &s->options;
    const size_t num_rows = o->dataset->manifest->num_entries + 3 * (size_t)o->list_extra;
    char *subset = NULL;
    uint64_t first = 0;
    bool is_packed = false;
    REQUIRE(sluice_wire_get_list_request(message, &subset, &first, &is_packed, NULL));
    free(subset);
    if (!o->has_hashes)
        first = 0; /* as a server that does not know the field */
    pthread_mutex_lock(&s->lock);
    s->stats.lists++;
    pthread_mutex_unlock(&s->lock);
    for (unsigned sent = 0; first < num_rows || sent == 0; first += 3, sent++) {
        if (o->list_lose_after && sent == o->list_lose_after &&
            s->lists_lost < o->list_lose_times) {
            s->lists_lost++;
            sluice_rpc_call_finish(call, SLUICE_RPC_UNAVAILABLE, "lost on purpose");
            return;
        }
        struct sluice_message out = {0};
        put_list(s, first, num_rows, sent == 0, &out);
        if (sent == 1 && s->lists_damaged < o->list_damage_times) {
            s->lists_damaged++;
            flip_bit(&out, out.len / 2);
        }
        pthread_mutex_lock(&s->lock);
        s->stats.list_rows += num_rows - first < 3 ? num_rows - first : 3;
        pthread_mutex_unlock(&s->lock);
        if (sluice_rpc_call_send(call, &out) != SLUICE_OK)
            return;
    }
    sluice_rpc_call_finish(call, SLUICE_RPC_OK, NULL);
}

static void probe_message(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    (void)ctx;
    uint64_t bytes = 0;
    uint32_t each = 0;
    REQUIRE(sluice_wire_get_probe_request(message, &bytes, &each, NULL));
    for (int i = 0; i < 4; i++) {
        struct sluice_buf *buf = NULL;
        struct sluice_message out = {0};
        REQUIRE(sluice_buf_create(NULL, bytes / 4, &buf, NULL));
        memset(buf->data, 0, bytes / 4);
        buf->len = bytes / 4;
        REQUIRE(sluice_wire_put_probe_reply(buf, &out, NULL));
        sluice_buf_unref(buf);
        (void)sluice_rpc_call_send(call, &out);
    }
    sluice_rpc_call_finish(call, SLUICE_RPC_OK, NULL);
}

static void stats_message(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    (void)ctx, (void)message;
    struct sluice_message out = {0};
    const struct sluice_wire_stats stats = {.process_cpu_s = FAKE_SERVER_CPU_S};
    REQUIRE(sluice_wire_put_stats_reply(&stats, &out, NULL));
    (void)sluice_rpc_call_send(call, &out);
    sluice_rpc_call_finish(call, SLUICE_RPC_OK, NULL);
}

/* --- Fetch --- */

struct fetch {
    struct sluice_pipeline *pipeline;
    struct sluice_wire_sample_request *waiting; /* answered from the end: the newest first */
    size_t num_waiting, capacity;
    int64_t window;
    uint64_t window_bytes;
    unsigned replies;
    bool is_over;
};

static void fetch_open(void *ctx, struct sluice_rpc_call *call)
{
    struct fake_server *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->stats.streams++;
    pthread_mutex_unlock(&s->lock);
    sluice_rpc_call_set_state(call, calloc(1, sizeof(struct fetch)));
}

static void make_payload(struct fake_server *s, const struct fetch *fetch,
                         const struct sluice_wire_sample_request *request,
                         struct sluice_wire_sample_reply *reply)
{
    const struct sluice_sample empty = {0};
    struct sluice_sample sample = empty;
    struct sluice_err err = {0};
    sample.key = request->key;
    sample.kind = SLUICE_KIND_FILE;
    sample.data = sluice_buf_ref(s->options.dataset->files[sluice_wire_listed_id(request)]);
    const bool is_reduced = s->options.reduce_every && s->replies % s->options.reduce_every == 0;
    const bool is_wrong =
        s->options.wrong_kind_every && s->replies % s->options.wrong_kind_every == 0;
    reply->status = sluice_pipeline_run(fetch->pipeline, s->scratch, &sample,
                                        is_reduced ? 0 : request->split, &err);
    if (reply->status != SLUICE_OK) {
        memcpy(reply->error, err.text, sizeof(reply->error) - 1);
        sluice_sample_clear(&sample);
        return;
    }
    static const enum sluice_form forms[] = {
        [SLUICE_KIND_FILE] = SLUICE_FORM_RAW,
        [SLUICE_KIND_U8] = SLUICE_FORM_U8,
        [SLUICE_KIND_F32] = SLUICE_FORM_F32,
    };
    reply->ops_done = is_wrong ? 5 : sample.ops_done;
    reply->form = is_wrong ? SLUICE_FORM_F32 : forms[sample.kind];
    if (s->options.cut_every && s->replies % s->options.cut_every == 0)
        reply->form = SLUICE_FORM_JPEG_CROP;
    reply->width = sample.width;
    reply->height = sample.height;
    reply->channels = sample.channels;
    reply->queue_us = 10;
    reply->cpu_us = 20;
    reply->disk_us = 40;
    reply->disk_busy_us = 30;
    reply->payload = sluice_buf_ref(sample.data);
    sluice_sample_clear(&sample);
}

static void send_reply(struct fake_server *s, struct sluice_rpc_call *call, struct fetch *fetch,
                       const struct sluice_wire_sample_reply *reply)
{
    fetch->window -= reply->payload ? (int64_t)reply->payload->len : 0;
    struct sluice_message out = {0};
    REQUIRE(sluice_wire_put_sample_reply(reply, &out, NULL));
    REQUIRE(sluice_wire_put_load(&(struct sluice_wire_load){.queue_depth = 1}, &out, NULL));
    if (s->options.flip_message_every && s->replies % s->options.flip_message_every == 0)
        flip_bit(&out, 4);
    pthread_mutex_lock(&s->lock);
    s->stats.replies++;
    s->stats.message_bytes += out.len;
    pthread_mutex_unlock(&s->lock);
    (void)sluice_rpc_call_send(call, &out);
}

/* Hashes the reply, if this server does, and lets the way to it and from it do harm. */
static void seal(const struct fake_server *s, const struct sluice_wire_sample_request *request,
                 struct sluice_wire_sample_reply *reply)
{
    struct sluice_draw_key key = request->key;
    const struct fake_server_options *o = &s->options;
    if (!o->has_hashes)
        return;
    if (o->flip_request_every && s->replies % o->flip_request_every == 0)
        key.sample_id ^= 8;
    sluice_wire_seal_sample_reply(reply, &key, request->listed_id);
    if (o->flip_payload_every && s->replies % o->flip_payload_every == 0 && reply->payload) {
        struct sluice_buf *own = NULL;
        const size_t len = reply->payload->len;
        REQUIRE(sluice_buf_create(NULL, len, &own, NULL));
        memcpy(own->data, reply->payload->data, len);
        own->len = len;
        own->data[s->replies * 7 % len] ^= 0x20;
        sluice_buf_unref(reply->payload);
        reply->payload = own;
    }
}

static void answer(struct fake_server *s, struct sluice_rpc_call *call, struct fetch *fetch)
{
    const struct fake_server_options *o = &s->options;
    while (!fetch->is_over && fetch->num_waiting > 0 && (fetch->window > 0 || o->ignores_credit)) {
        if (o->lose_after && fetch->replies == o->lose_after && s->lost < o->lose_times) {
            s->lost++;
            fetch->is_over = true;
            sluice_rpc_call_finish(call, SLUICE_RPC_UNAVAILABLE, "lost on purpose");
            return;
        }
        if (o->garble_after && fetch->replies == o->garble_after && s->garbled < o->garble_times) {
            s->garbled++;
            fetch->is_over = true;
            struct sluice_message out = {0};
            REQUIRE(sluice_message_append_copy(&out, "\x0a\x7f\x08", 3, NULL));
            (void)sluice_rpc_call_send(call, &out);
            return;
        }
        const struct sluice_wire_sample_request request = fetch->waiting[--fetch->num_waiting];
        struct sluice_wire_sample_reply reply = {.request_id = request.request_id};
        s->replies++;
        fetch->replies++;
        if (o->again_every && s->replies % o->again_every == 0)
            reply.status = s->replies % 2 ? SLUICE_E_AGAIN : SLUICE_E_CLOSED;
        else
            make_payload(s, fetch, &request, &reply);
        const enum fake_action action =
            o->meddle ? o->meddle(o->meddle_ctx, &request, &reply) : FAKE_SEND;
        if (action != FAKE_SEND) {
            sluice_wire_sample_reply_clear(&reply);
            if (action == FAKE_KEEP)
                continue;
            fetch->is_over = true;
            if (action == FAKE_END)
                sluice_rpc_call_finish(call, SLUICE_RPC_OK, "");
            else
                sluice_rpc_call_finish(call, SLUICE_RPC_UNAVAILABLE, "ended on purpose");
            return;
        }
        seal(s, &request, &reply);
        send_reply(s, call, fetch, &reply);
        if (o->repeat_every && fetch->window > 0 && s->replies % o->repeat_every == 0)
            send_reply(s, call, fetch, &reply);
        if (o->stray_every && fetch->window > 0 && s->replies % o->stray_every == 0) {
            reply.request_id = UINT64_MAX - s->replies;
            send_reply(s, call, fetch, &reply);
        }
        sluice_wire_sample_reply_clear(&reply);
        const uint64_t unconsumed = (uint64_t)((int64_t)fetch->window_bytes - fetch->window);
        pthread_mutex_lock(&s->lock);
        if (unconsumed > s->stats.most_unconsumed)
            s->stats.most_unconsumed = unconsumed;
        pthread_mutex_unlock(&s->lock);
    }
}

static void fetch_message(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    struct fake_server *s = ctx;
    struct fetch *fetch = sluice_rpc_call_state(call);
    struct sluice_wire_fetch_request request = {0};
    if (s->options.refuse_fetch != SLUICE_RPC_OK) {
        fetch->is_over = true;
        sluice_rpc_call_finish(call, s->options.refuse_fetch, "refused on purpose");
        return;
    }
    REQUIRE(sluice_wire_get_fetch_request(message, &request, NULL));
    if (request.open.is_present && request.open.dataset_id[0] &&
        strcmp(request.open.dataset_id, s->dataset_id) != 0) {
        /* The Hello may have been answered by the server before this one, on the same port. */
        char text[128];
        snprintf(text, sizeof(text), "other data: the client has dataset %s, the server %s",
                 request.open.dataset_id, s->dataset_id);
        fetch->is_over = true;
        sluice_rpc_call_finish(call, SLUICE_RPC_FAILED_PRECONDITION, text);
        sluice_wire_fetch_request_clear(&request);
        return;
    }
    if (request.open.is_present) {
        REQUIRE(sluice_pipeline_parse(request.open.pipeline, &fetch->pipeline, NULL));
        REQUIRE_TRUE(request.open.window_bytes > 0);
        fetch->window = (int64_t)request.open.window_bytes;
        fetch->window_bytes = request.open.window_bytes;
    }
    fetch->window += (int64_t)request.grant_bytes;
    if (fetch->num_waiting + request.num_samples > fetch->capacity) {
        fetch->capacity = 2 * (fetch->num_waiting + request.num_samples);
        fetch->waiting = realloc(fetch->waiting, fetch->capacity * sizeof(*fetch->waiting));
    }
    if (request.num_samples)
        memcpy(fetch->waiting + fetch->num_waiting, request.samples,
               request.num_samples * sizeof(*request.samples));
    fetch->num_waiting += request.num_samples;
    pthread_mutex_lock(&s->lock);
    s->stats.requests += request.num_samples;
    if (fetch->num_waiting > s->stats.most_in_flight)
        s->stats.most_in_flight = fetch->num_waiting;
    pthread_mutex_unlock(&s->lock);
    sluice_wire_fetch_request_clear(&request);
    answer(s, call, fetch);
}

static void fetch_half_close(void *ctx, struct sluice_rpc_call *call)
{
    (void)ctx;
    sluice_rpc_call_finish(call, SLUICE_RPC_OK, NULL);
}

static void fetch_done(void *ctx, struct sluice_rpc_call *call)
{
    (void)ctx;
    struct fetch *fetch = sluice_rpc_call_state(call);
    sluice_pipeline_destroy(fetch->pipeline);
    free(fetch->waiting);
    free(fetch);
}

/* Every other reply has no sizes yet, and the others two. */
static void sizes_message(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    struct fake_server *s = ctx;
    const size_t num_samples = s->options.dataset->num_samples;
    struct sluice_wire_sizes_request request;
    struct sluice_wire_image_size sizes[16];
    struct sluice_message reply = {0};
    REQUIRE(sluice_wire_get_sizes_request(message, &request, NULL));
    REQUIRE_TRUE(request.first_row < num_samples && strcmp(request.dataset_id, s->dataset_id) == 0);
    size_t num = 0;
    s->sizes_asked++;
    const uint64_t end = s->options.sizes_hang_at ? s->options.sizes_hang_at : num_samples;
    for (uint64_t row = request.first_row; s->sizes_asked % 2 == 0 && num < 2 && row < end;)
        sizes[num++] = (struct sluice_wire_image_size){
            (uint16_t)(100 + row++), (uint16_t)s->options.sizes_height, request.is_upright ? 6 : 1};
    for (unsigned i = 0;
         num > 0 && request.first_row + num >= num_samples && i < s->options.sizes_extra; i++)
        sizes[num++] = (struct sluice_wire_image_size){1, 1, 1};
    REQUIRE(sluice_wire_put_sizes_reply(sizes, num, &reply, NULL));
    (void)sluice_rpc_call_send(call, &reply);
    sluice_rpc_call_finish(call, SLUICE_RPC_OK, NULL);
}

static void call_done(void *ctx, struct sluice_rpc_call *call)
{
    (void)ctx, (void)call;
}

struct fake_server *fake_server_start(const struct fake_server_options *options)
{
    static const struct sluice_rpc_method methods[] = {
        {.path = SLUICE_METHOD_HELLO, .on_message = hello_message, .on_done = call_done},
        {.path = SLUICE_METHOD_LIST_SAMPLES, .on_message = list_message, .on_done = call_done},
        {.path = SLUICE_METHOD_PROBE, .on_message = probe_message, .on_done = call_done},
        {.path = SLUICE_METHOD_STATS, .on_message = stats_message, .on_done = call_done},
        {.path = SLUICE_METHOD_FETCH,
         .on_open = fetch_open,
         .on_message = fetch_message,
         .on_half_close = fetch_half_close,
         .on_done = fetch_done},
        {.path = SLUICE_METHOD_LIST_SIZES, .on_message = sizes_message, .on_done = call_done},
    };
    struct fake_server *s = calloc(1, sizeof(*s));
    pthread_mutex_init(&s->lock, NULL);
    s->options = *options;
    if (s->options.max_in_flight == 0)
        s->options.max_in_flight = 1000;
    if (options->dataset_id)
        snprintf(s->dataset_id, sizeof(s->dataset_id), "%s", options->dataset_id);
    else
        sluice_hash128_hex(sluice_manifest_id(options->dataset->manifest), s->dataset_id);
    REQUIRE(sluice_scratch_create(NULL, &s->scratch, NULL));
    char listen[32];
    const char *host = options->host ? options->host : "127.0.0.1";
    snprintf(listen, sizeof(listen), "%s:%d", host, options->port);
    const struct sluice_rpc_server_options server = {
        .listen = listen,
        .num_threads = 1,
        .methods = methods,
        .num_methods = sizeof(methods) / sizeof(methods[0]) - !options->lists_sizes,
        .ctx = s,
    };
    struct sluice_err err = {0};
    if (sluice_rpc_server_create(&server, &s->server, &err) != SLUICE_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    snprintf(s->target, sizeof(s->target), "%s:%d", host, sluice_rpc_server_port(s->server));
    return s;
}

const char *fake_server_target(const struct fake_server *server)
{
    return server->target;
}

struct fake_server_stats fake_server_stats(struct fake_server *server)
{
    pthread_mutex_lock(&server->lock);
    const struct fake_server_stats stats = server->stats;
    pthread_mutex_unlock(&server->lock);
    return stats;
}

void fake_server_stop(struct fake_server *server)
{
    sluice_rpc_server_shutdown(server->server, 0);
    sluice_rpc_server_destroy(server->server);
    sluice_scratch_destroy(server->scratch);
    pthread_mutex_destroy(&server->lock);
    free(server);
}
