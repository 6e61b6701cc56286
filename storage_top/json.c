#include "storage_top/table.h"

#include <jansson.h>

#include <math.h>

/* Takes the values also where it fails, and fails on NULL. */
struct object {
    json_t *json;
    int has_failed;
};

static void put(struct object *object, const char *name, json_t *value)
{
    object->has_failed |= json_object_set_new(object->json, name, value);
}

static void put_real(struct object *object, const char *name, double value)
{
    put(object, name, isfinite(value) ? json_real(value) : json_null());
}

static void put_count(struct object *object, const char *name, uint64_t value)
{
    put(object, name, json_integer((json_int_t)value));
}

static void put_text(struct object *object, const char *name, const char *text)
{
    put(object, name, json_string(text));
}

/* NULL: no memory. */
static json_t *finish(struct object *object)
{
    if (!object->has_failed)
        return object->json;
    json_decref(object->json);
    return NULL;
}

static json_t *errors_json(const struct sluice_wire_stats *stats)
{
    struct object object = {.json = json_object()};
    for (int i = 1; i < SLUICE_WIRE_NUM_STATUS; i++) {
        if (stats->errors[i])
            put_count(&object, sluice_status_name((sluice_status)i), stats->errors[i]);
    }
    return finish(&object);
}

static json_t *index_json(const struct sluice_wire_stats *stats)
{
    struct object object = {.json = json_object()};
    put_count(&object, "hits", stats->jpeg_index.hits);
    put_count(&object, "stale", stats->jpeg_index.stale);
    put_count(&object, "missing", stats->jpeg_index.missing);
    put_count(&object, "again", stats->jpeg_index.again);
    return finish(&object);
}

static json_t *client_json(const struct top_client *client)
{
    struct object object = {.json = json_object()};
    put_text(&object, "client", client->counts.name);
    put_text(&object, "address", client->counts.address);
    put(&object, "token",
        client->counts.token[0] ? json_string(client->counts.token) : json_null());
    put_count(&object, "streams", client->counts.streams);
    put_count(&object, "samples", client->counts.samples);
    put_count(&object, "payload_bytes", client->counts.payload_bytes);
    put_count(&object, "errors", client->counts.errors);
    put_real(&object, "samples_per_s", client->rates.samples_per_s);
    put_real(&object, "payload_bytes_per_s", client->rates.bytes_per_s);
    return finish(&object);
}

static json_t *clients_json(const struct top_server *server)
{
    json_t *array = json_array();
    int has_failed = 0;
    for (size_t i = 0; i < server->num_clients; i++)
        has_failed |= json_array_append_new(array, client_json(&server->clients[i]));
    if (!has_failed)
        return array;
    json_decref(array);
    return NULL;
}

static json_t *server_json(const struct top_server *server)
{
    const struct sluice_wire_stats *stats = &server->stats;
    struct object object = {.json = json_object()};
    put_text(&object, "server", server->target);
    put_text(&object, "state", top_state_name(server->state));
    put(&object, "why", server->why[0] ? json_string(server->why) : json_null());
    put_real(&object, "age_s", server->age_s < 0 ? (double)NAN : server->age_s);
    if (!server->answers)
        return finish(&object);
    put_text(&object, "version", stats->server);
    put_real(&object, "uptime_s", stats->uptime_s);
    put_real(&object, "cores_used", server->rates.cores);
    put_real(&object, "cores", stats->prep_cores);
    put_count(&object, "queue", stats->queue_depth);
    put_real(&object, "wire_bytes_per_s", server->rates.bytes_per_s);
    put_real(&object, "samples_per_s", server->rates.samples_per_s);
    put_real(&object, "price", stats->cpu_price);
    put_count(&object, "streams", stats->streams);
    put_count(&object, "samples", stats->samples);
    put_count(&object, "wire_bytes", stats->wire_bytes);
    put_count(&object, "reduced", stats->reduced);
    put_count(&object, "hanging_workers", stats->hanging_workers);
    put_count(&object, "refused_connections", stats->refused_connections);
    put_count(&object, "refused_calls", stats->refused_calls);
    put_count(&object, "refused_paths", stats->refused_paths);
    put_count(&object, "memory_used", stats->memory_used);
    put_count(&object, "memory_limit", stats->memory_limit);
    put(&object, "errors", errors_json(stats));
    put(&object, "jpeg_index", index_json(stats));
    put(&object, "clients", clients_json(server));
    return finish(&object);
}

sluice_status top_json_make(const struct top_server *servers, size_t num_servers, char **json,
                            struct sluice_err *err)
{
    json_t *root = json_object(), *array = json_array();
    int has_failed = json_object_set_new(root, "servers", array);
    for (size_t i = 0; !has_failed && i < num_servers; i++)
        has_failed = json_array_append_new(array, server_json(&servers[i]));
    char *text = has_failed
                     ? NULL
                     : json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
    json_decref(root);
    if (!text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for JSON");
    *json = text;
    return SLUICE_OK;
}
