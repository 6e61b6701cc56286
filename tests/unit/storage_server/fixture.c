#include "fixture.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/cond.h"
#include "datasets/manifest/builder.h"
#include "image/codecs/codec.h"
#include "support/test.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static void must(bool is_true, const char *what)
{
    if (!is_true) {
        fprintf(stderr, "fixture: %s\n", what);
        exit(1);
    }
}

/* --- images --- */

static void write_image(const char *path, unsigned id)
{
    const uint32_t width = 48 + 7 * id, height = 40 + 5 * id;
    uint8_t *rgb = malloc((size_t)width * height * 3);
    must(rgb != NULL, "no memory");
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            uint8_t *pixel = rgb + ((size_t)y * width + x) * 3;
            pixel[0] = (uint8_t)(x * 3 + id * 17);
            pixel[1] = (uint8_t)(y * 5);
            pixel[2] = (uint8_t)((x * y) / (id + 3));
        }
    }
    struct sluice_buf *file = NULL;
    must(sluice_jpeg_encode(rgb, width, height, &(struct sluice_jpeg_encode_options){0}, &file,
                            NULL) == SLUICE_OK,
         "cannot encode");
    sluice_test_write_file(path, file->data, file->len);
    sluice_buf_unref(file);
    free(rgb);
}

const char *image_name(unsigned id)
{
    static char names[NUM_IMAGES][32];
    snprintf(names[id], sizeof(names[id]), "%s/%02u.jpg", id < NUM_IMAGES / 2 ? "ant" : "bee", id);
    return names[id];
}

const char *image_path(unsigned id)
{
    static char paths[NUM_IMAGES][1024];
    snprintf(paths[id], sizeof(paths[id]), "%s/%s", image_root(), image_name(id));
    return paths[id];
}

void write_targets(void)
{
    struct sluice_manifest_builder builder = {0};
    char path[600], target[NUM_IMAGES];
    snprintf(path, sizeof(path), "%s/" IMAGE_MANIFEST, image_root());
    must(sluice_manifest_scan(image_root(), NULL, &builder.manifest, NULL) == SLUICE_OK, "no list");
    builder.manifest->fields =
        (struct sluice_fields){.num = 1, .of = {{{SLUICE_FIELD_BYTES, 0}, SLUICE_TARGET_FIELD}}};
    for (size_t i = 0; i < NUM_IMAGES; i++) {
        memset(target, 'a' + (int)i, sizeof(target));
        must(sluice_manifest_set_field(&builder, i, 0, target, i, NULL) == SLUICE_OK, "no memory");
    }
    must(sluice_manifest_write(builder.manifest, path, NULL) == SLUICE_OK, "no manifest");
    sluice_manifest_destroy(builder.manifest);
}

void write_fields(void)
{
    struct sluice_manifest_builder builder = {0};
    char path[600], caption[NUM_IMAGES];
    snprintf(path, sizeof(path), "%s/" IMAGE_MANIFEST, image_root());
    must(sluice_manifest_scan(image_root(), NULL, &builder.manifest, NULL) == SLUICE_OK, "no list");
    builder.manifest->fields = (struct sluice_fields){
        .num = 2, .of = {{{SLUICE_FIELD_TEXT, 0}, "caption"}, {{SLUICE_FIELD_BOXES, 0}, "boxes"}}};
    for (size_t i = 0; i < NUM_IMAGES; i++) {
        const float corners[4] = {0, 0, (float)i, (float)i};
        const uint32_t label = (uint32_t)i;
        char box[sizeof(corners) + sizeof(label)];
        memcpy(box, corners, sizeof(corners));
        memcpy(box + sizeof(corners), &label, sizeof(label));
        memset(caption, 'a' + (int)i, sizeof(caption));
        must(sluice_manifest_set_field(&builder, i, 0, caption, i, NULL) == SLUICE_OK &&
                 sluice_manifest_set_field(&builder, i, 1, box, i ? sizeof(box) : 0, NULL) ==
                     SLUICE_OK,
             "no memory");
    }
    must(sluice_manifest_finish_fields(&builder, NULL) == SLUICE_OK, "no memory");
    must(sluice_manifest_write(builder.manifest, path, NULL) == SLUICE_OK, "no manifest");
    sluice_manifest_destroy(builder.manifest);
}

void write_masks(size_t bytes)
{
    struct sluice_manifest_builder builder = {0};
    char path[600], *mask = malloc(bytes);
    snprintf(path, sizeof(path), "%s/" IMAGE_MANIFEST, image_root());
    must(mask && sluice_manifest_scan(image_root(), NULL, &builder.manifest, NULL) == SLUICE_OK,
         "no list");
    builder.manifest->fields =
        (struct sluice_fields){.num = 1, .of = {{{SLUICE_FIELD_MASK, 0}, "mask"}}};
    for (size_t i = 0; i < NUM_IMAGES; i++) {
        memset(mask, 'a' + (int)i, bytes);
        must(sluice_manifest_set_field(&builder, i, 0, mask, bytes, NULL) == SLUICE_OK,
             "no memory");
    }
    must(sluice_manifest_write(builder.manifest, path, NULL) == SLUICE_OK, "no manifest");
    sluice_manifest_destroy(builder.manifest);
    free(mask);
}

void remove_targets(void)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/" IMAGE_MANIFEST, image_root());
    must(unlink(path) == 0, "no manifest");
}

const char *image_root(void)
{
    static char root[512];
    if (!root[0]) {
        char folder[600];
        snprintf(root, sizeof(root), "%s/images", sluice_test_dir());
        mkdir(root, 0700);
        snprintf(folder, sizeof(folder), "%s/ant", root);
        mkdir(folder, 0700);
        snprintf(folder, sizeof(folder), "%s/bee", root);
        mkdir(folder, 0700);
        for (unsigned id = 0; id < NUM_IMAGES; id++)
            write_image(image_path(id), id);
    }
    return root;
}

/* --- waiting, with an end --- */

static void init_waiting(pthread_mutex_t *lock, pthread_cond_t *changed)
{
    sluice_cond_init(changed);
    pthread_mutex_init(lock, NULL);
}

static void wait_changed(pthread_cond_t *changed, pthread_mutex_t *lock, const char *what)
{
    const uint64_t until_ns = sluice_clock_ns() + PATIENCE_MS * UINT64_C(1000000);
    must(sluice_cond_wait_until(changed, lock, until_ns), what);
}

/* --- the gate --- */

struct gate {
    struct sluice_store store;
    struct sluice_store *files;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_closed;
    unsigned num_held, num_reading, peak;
};

static void pass_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->num_reading++;
    if (gate->num_reading > gate->peak)
        gate->peak = gate->num_reading;
    gate->num_held++;
    pthread_cond_broadcast(&gate->changed);
    while (gate->is_closed)
        wait_changed(&gate->changed, &gate->lock, "the gate was never opened");
    gate->num_held--;
    pthread_mutex_unlock(&gate->lock);
}

static void leave_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->num_reading--;
    pthread_mutex_unlock(&gate->lock);
}

static sluice_status gate_read(struct sluice_store *store, const struct sluice_store_read *read,
                               struct sluice_buf **file, struct sluice_err *err)
{
    struct gate *gate = SLUICE_CONTAINER_OF(store, struct gate, store);
    pass_gate(gate);
    const sluice_status status = gate->files->read(gate->files, read, file, err);
    leave_gate(gate);
    return status;
}

static void gate_cancel(struct sluice_store *store, const void *owner)
{
    struct gate *gate = SLUICE_CONTAINER_OF(store, struct gate, store);
    gate->files->cancel(gate->files, owner);
}

bool gate_is_remote;

static void gate_limits(struct sluice_store *store, struct sluice_store_limits *limits)
{
    struct gate *gate = SLUICE_CONTAINER_OF(store, struct gate, store);
    gate->files->limits(gate->files, limits);
    limits->is_remote = gate_is_remote;
}

static sluice_status gate_list(struct sluice_store *store, const char *prefix, sluice_object_fn *fn,
                               void *ctx, struct sluice_err *err)
{
    struct gate *gate = SLUICE_CONTAINER_OF(store, struct gate, store);
    return gate->files->list(gate->files, prefix, fn, ctx, err);
}

static sluice_status gate_describe(struct sluice_store *store, const char *key,
                                   struct sluice_object *object, struct sluice_err *err)
{
    struct gate *gate = SLUICE_CONTAINER_OF(store, struct gate, store);
    return gate->files->describe(gate->files, key, object, err);
}

static const char *gate_relative(struct sluice_store *store, const char *path)
{
    struct gate *gate = SLUICE_CONTAINER_OF(store, struct gate, store);
    return gate->files->relative(gate->files, path);
}

static uint64_t gate_refused(struct sluice_store *store)
{
    struct gate *gate = SLUICE_CONTAINER_OF(store, struct gate, store);
    return gate->files->refused(gate->files);
}

static void gate_destroy(struct sluice_store *store)
{
    struct gate *gate = SLUICE_CONTAINER_OF(store, struct gate, store);
    gate->files->destroy(gate->files);
    pthread_cond_destroy(&gate->changed);
    pthread_mutex_destroy(&gate->lock);
    free(gate);
}

struct gate *gate_create(struct sluice_store **store)
{
    struct gate *gate = calloc(1, sizeof(*gate));
    must(gate != NULL, "no memory");
    init_waiting(&gate->lock, &gate->changed);
    gate->store = (struct sluice_store){
        .list = gate_list,
        .describe = gate_describe,
        .read = gate_read,
        .cancel = gate_cancel,
        .limits = gate_limits,
        .relative = gate_relative,
        .refused = gate_refused,
        .destroy = gate_destroy,
    };
    const struct sluice_store_file_options options = {.root = image_root(),
                                                      .max_file_bytes = 1 << 20};
    must(sluice_store_file_open(&options, &gate->files, NULL) == SLUICE_OK, "no store");
    *store = &gate->store;
    return gate;
}

void gate_close(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_closed = true;
    pthread_mutex_unlock(&gate->lock);
}

void gate_open(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_closed = false;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

void gate_await_held(struct gate *gate, unsigned count)
{
    pthread_mutex_lock(&gate->lock);
    while (gate->num_held < count)
        wait_changed(&gate->changed, &gate->lock, "too few reads came to the gate");
    pthread_mutex_unlock(&gate->lock);
}

unsigned gate_peak(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    const unsigned peak = gate->peak;
    pthread_mutex_unlock(&gate->lock);
    return peak;
}

/* --- the server --- */

struct fixture fixture_init(void)
{
    struct fixture fixture = {.options = sluice_server_options_init()};
    fixture.options.roots = sluice_roots_one(image_root());
    fixture.options.listen = "127.0.0.1:0";
    fixture.options.has_data_transfer = true;
    fixture.options.grpc_workers = 2;
    fixture.options.prep_workers = 2;
    fixture.options.max_file_bytes = 1 << 20;
    fixture.options.grace_s = PATIENCE_MS / 1000.0;
    return fixture;
}

void fixture_start(struct fixture *fixture)
{
    struct sluice_err err = {0};
    fixture->gate = gate_create(&fixture->parts.store);
    const sluice_status status =
        sluice_storage_server_create(&fixture->options, &fixture->parts, &fixture->server, &err);
    must(status == SLUICE_OK, err.text);
    fixture->channel = fixture_connect(fixture);
}

struct sluice_rpc_channel *fixture_connect(const struct fixture *fixture)
{
    struct sluice_err err = {0};
    char target[64];
    snprintf(target, sizeof(target), "127.0.0.1:%d", sluice_storage_server_port(fixture->server));
    const struct sluice_rpc_channel_options options = {.target = target};
    struct sluice_rpc_channel *channel = NULL;
    must(sluice_rpc_channel_create(&options, &channel, &err) == SLUICE_OK, err.text);
    return channel;
}

void fixture_end(struct fixture *fixture)
{
    sluice_rpc_channel_destroy(fixture->channel);
    sluice_storage_server_destroy(fixture->server);
}

enum sluice_rpc_code call(struct fixture *fixture, const char *path, struct sluice_message *request,
                          struct sluice_message *reply, struct sluice_err *err)
{
    struct sluice_message got = {0};
    enum sluice_rpc_code code = SLUICE_RPC_UNKNOWN;
    const sluice_status status =
        sluice_rpc_unary(fixture->channel, path, request, PATIENCE_MS, &got, &code, err);
    (void)status; /* `code` says the same more exactly */
    if (reply)
        *reply = got;
    else
        sluice_message_clear(&got);
    return code;
}

/* --- streams --- */

struct client {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sluice_message *messages;
    size_t num_messages;
    struct sluice_wire_sample_reply *replies;
    size_t num_replies;
    bool is_fetch, is_done;
    enum sluice_rpc_code code;
    char text[256];

    struct sluice_rpc_stream *stream;
};

/* Room for one more behind `count` items; by doubling, since sanitizers copy at every realloc. */
static void *grow(void *items, size_t count, size_t size)
{
    if (count & (count - 1))
        return items;
    items = realloc(items, (count ? 2 * count : 1) * size);
    must(items != NULL, "no memory");
    return items;
}

static void keep_reply(void *ctx, const struct sluice_wire_sample_reply *reply)
{
    struct client *client = ctx;
    client->replies = grow(client->replies, client->num_replies, sizeof(*client->replies));
    struct sluice_wire_sample_reply *kept = &client->replies[client->num_replies++];
    *kept = *reply;
    const size_t len = sluice_cursor_left(&kept->arrived);
    must(reply->status != SLUICE_OK ||
             sluice_cursor_gather(&kept->arrived, len, NULL, &kept->payload, NULL) == SLUICE_OK,
         "no memory for a payload");
}

static void on_message(void *ctx, struct sluice_message *message)
{
    struct client *client = ctx;
    pthread_mutex_lock(&client->lock);
    if (client->is_fetch) {
        struct sluice_err err = {0};
        must(sluice_wire_get_fetch_reply(message, 64 << 20, keep_reply, client, NULL, &err) ==
                 SLUICE_OK,
             err.text);
    }
    client->messages = grow(client->messages, client->num_messages, sizeof(*client->messages));
    client->messages[client->num_messages++] = *message;
    *message = (struct sluice_message){0};
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
}

static void on_done(void *ctx, enum sluice_rpc_code code, const char *text)
{
    struct client *client = ctx;
    pthread_mutex_lock(&client->lock);
    client->is_done = true;
    client->code = code;
    snprintf(client->text, sizeof(client->text), "%s", text ? text : "");
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
}

static struct client *open_client(struct fixture *fixture, const char *path, bool is_fetch)
{
    struct client *client = calloc(1, sizeof(*client));
    must(client != NULL, "no memory");
    init_waiting(&client->lock, &client->changed);
    client->is_fetch = is_fetch;
    struct sluice_err err = {0};
    const struct sluice_rpc_stream_events events = {on_message, on_done, client};
    must(sluice_rpc_stream_open(fixture->channel, path, 0, &events, &client->stream, &err) ==
             SLUICE_OK,
         err.text);
    return client;
}

struct client *client_open(struct fixture *fixture, const char *path)
{
    return open_client(fixture, path, false);
}

void client_close(struct client *client)
{
    sluice_rpc_stream_destroy(client->stream);
    for (size_t i = 0; i < client->num_messages; i++)
        sluice_message_clear(&client->messages[i]);
    for (size_t i = 0; i < client->num_replies; i++)
        sluice_wire_sample_reply_clear(&client->replies[i]);
    free(client->messages);
    free(client->replies);
    pthread_cond_destroy(&client->changed);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

void client_stall(struct client *client)
{
    pthread_mutex_lock(&client->lock);
}

void client_go_on(struct client *client)
{
    pthread_mutex_unlock(&client->lock);
}

void client_send(struct client *client, struct sluice_message *message)
{
    /* A stream that is over already says so in on_done. */
    (void)sluice_rpc_stream_send(client->stream, message);
}

void client_half_close(struct client *client)
{
    sluice_rpc_stream_half_close(client->stream);
}

static void await(struct client *client, const size_t *counter, size_t count)
{
    pthread_mutex_lock(&client->lock);
    while (*counter < count && !client->is_done)
        wait_changed(&client->changed, &client->lock, "too few messages came");
    if (*counter < count)
        fprintf(stderr, "the stream ended with %s: %s\n", sluice_rpc_code_name(client->code),
                client->text);
    must(*counter >= count, "the stream ended early");
    pthread_mutex_unlock(&client->lock);
}

void client_await_messages(struct client *client, size_t count)
{
    await(client, &client->num_messages, count);
}

enum sluice_rpc_code client_await_done(struct client *client, struct sluice_err *err)
{
    pthread_mutex_lock(&client->lock);
    while (!client->is_done)
        wait_changed(&client->changed, &client->lock, "the stream did not end");
    const enum sluice_rpc_code code = client->code;
    if (err)
        snprintf(err->text, sizeof(err->text), "%s", client->text);
    pthread_mutex_unlock(&client->lock);
    return code;
}

size_t client_num_messages(struct client *client)
{
    pthread_mutex_lock(&client->lock);
    const size_t count = client->num_messages;
    pthread_mutex_unlock(&client->lock);
    return count;
}

/* The arrays move while messages arrive, so tests read them when all that they wait for has come.
 */
struct sluice_message *client_message(struct client *client, size_t index)
{
    pthread_mutex_lock(&client->lock);
    must(index < client->num_messages, "no such message");
    struct sluice_message *message = &client->messages[index];
    pthread_mutex_unlock(&client->lock);
    return message;
}

/* --- Fetch --- */

struct client *fetch_open(struct fixture *fixture, uint64_t window_bytes)
{
    struct client *client = open_client(fixture, SLUICE_METHOD_FETCH, true);
    const struct sluice_wire_fetch_request request = {
        .open = {.is_present = true,
                 .protocol_version = SLUICE_WIRE_PROTOCOL_VERSION,
                 .pipeline = (char[]){PIPELINE},
                 .window_bytes = window_bytes,
                 .wants_file_image = fixture->wants_file_image},
    };
    struct sluice_message message = {0};
    must(sluice_wire_put_fetch_request(&request, &message, NULL) == SLUICE_OK, "no memory");
    client_send(client, &message);
    return client;
}

void fetch_send(struct client *client, const struct sluice_wire_sample_request *requests,
                size_t num_requests, uint64_t grant_bytes)
{
    const struct sluice_wire_fetch_request request = {
        .samples = (struct sluice_wire_sample_request *)requests,
        .num_samples = num_requests,
        .grant_bytes = grant_bytes,
    };
    struct sluice_message message = {0};
    must(sluice_wire_put_fetch_request(&request, &message, NULL) == SLUICE_OK, "no memory");
    client_send(client, &message);
}

void fetch_ask(struct client *client, uint64_t first, size_t count, uint32_t split,
               enum sluice_form form)
{
    struct sluice_wire_sample_request *requests = calloc(count, sizeof(*requests));
    must(requests != NULL, "no memory");
    for (size_t i = 0; i < count; i++)
        requests[i] = (struct sluice_wire_sample_request){
            .request_id = first + i,
            .key = {.seed = 5, .epoch = 1, .sample_id = (first + i) % NUM_IMAGES},
            .split = split,
            .form = form,
        };
    fetch_send(client, requests, count, 0);
    free(requests);
}

void fetch_await(struct client *client, size_t count)
{
    await(client, &client->num_replies, count);
}

size_t fetch_count(struct client *client)
{
    pthread_mutex_lock(&client->lock);
    const size_t count = client->num_replies;
    pthread_mutex_unlock(&client->lock);
    return count;
}

const struct sluice_wire_sample_reply *fetch_reply(struct client *client, size_t index)
{
    pthread_mutex_lock(&client->lock);
    must(index < client->num_replies, "no such reply");
    const struct sluice_wire_sample_reply *reply = &client->replies[index];
    pthread_mutex_unlock(&client->lock);
    return reply;
}

const struct sluice_wire_sample_reply *fetch_reply_to(struct client *client, uint64_t request_id)
{
    const struct sluice_wire_sample_reply *found = NULL;
    pthread_mutex_lock(&client->lock);
    for (size_t i = 0; i < client->num_replies; i++) {
        if (client->replies[i].request_id == request_id) {
            must(!found, "a request was answered twice");
            found = &client->replies[i];
        }
    }
    must(found != NULL, "a request was not answered");
    pthread_mutex_unlock(&client->lock);
    return found;
}
