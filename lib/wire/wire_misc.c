#include "wire/message_reader.h"
#include "wire/message_writer.h"
#include "wire/wire.h"
#include "wire/wire_internal.h"

#include "health.pb-c.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* --- Probe --- */

sluice_status sluice_wire_put_probe_request(uint64_t bytes, uint32_t message_bytes,
                                            struct sluice_message *message, struct sluice_err *err)
{
    Sluice__V1__ProbeRequest wire = SLUICE__V1__PROBE_REQUEST__INIT;
    wire.bytes = bytes;
    wire.message_bytes = message_bytes;
    return sluice_wire_pack(&wire.base, NULL, message, err);
}

sluice_status sluice_wire_get_probe_request(const struct sluice_message *message, uint64_t *bytes,
                                            uint32_t *message_bytes, struct sluice_err *err)
{
    ProtobufCMessage *unpacked;
    const sluice_status status =
        sluice_wire_unpack(&sluice__v1__probe_request__descriptor, message, &unpacked, err);
    if (status != SLUICE_OK)
        return status;
    const Sluice__V1__ProbeRequest *wire = (const Sluice__V1__ProbeRequest *)unpacked;
    *bytes = wire->bytes;
    *message_bytes = wire->message_bytes;
    protobuf_c_message_free_unpacked(unpacked, NULL);
    return SLUICE_OK;
}

sluice_status sluice_wire_put_probe_reply(struct sluice_buf *payload,
                                          struct sluice_message *message, struct sluice_err *err)
{
    Sluice__V1__ProbeReply wire = SLUICE__V1__PROBE_REPLY__INIT;
    wire.payload = (ProtobufCBinaryData){.len = payload->len, .data = payload->data};
    return sluice_wire_pack(&wire.base, payload, message, err);
}

/* --- Stats --- */

sluice_status sluice_wire_put_stats_request(struct sluice_message *message, struct sluice_err *err)
{
    const Sluice__V1__StatsRequest wire = SLUICE__V1__STATS_REQUEST__INIT;
    return sluice_wire_pack(&wire.base, NULL, message, err);
}

void sluice_wire_stats_clear(struct sluice_wire_stats *stats)
{
    free(stats->clients);
    stats->clients = NULL;
    stats->num_clients = 0;
}

/* Their texts are valid UTF-8. */
static void put_clients(struct sluice_wire_client *clients, size_t num_clients,
                        Sluice__V1__ClientStats *rows, Sluice__V1__ClientStats **row_pointers)
{
    for (size_t i = 0; i < num_clients; i++) {
        sluice__v1__client_stats__init(&rows[i]);
        rows[i].name = clients[i].name;
        rows[i].address = clients[i].address;
        rows[i].token = clients[i].token;
        rows[i].samples = clients[i].samples;
        rows[i].payload_bytes = clients[i].payload_bytes;
        rows[i].errors = clients[i].errors;
        rows[i].streams = clients[i].streams;
        row_pointers[i] = &rows[i];
    }
}

static sluice_status get_clients(const Sluice__V1__StatsReply *wire, struct sluice_wire_stats *got,
                                 struct sluice_err *err)
{
    const size_t count =
        wire->n_clients < SLUICE_WIRE_MAX_CLIENTS ? wire->n_clients : SLUICE_WIRE_MAX_CLIENTS;
    got->clients = calloc(count + 1, sizeof(*got->clients));
    if (!got->clients)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a list of clients");
    got->num_clients = count;
    for (size_t i = 0; i < count; i++) {
        const Sluice__V1__ClientStats *row = wire->clients[i];
        struct sluice_wire_client *client = &got->clients[i];
        sluice_wire_copy_utf8(row->name, client->name, sizeof(client->name));
        sluice_wire_copy_utf8(row->address, client->address, sizeof(client->address));
        sluice_wire_copy_utf8(row->token, client->token, sizeof(client->token));
        client->samples = row->samples;
        client->payload_bytes = row->payload_bytes;
        client->errors = row->errors;
        client->streams = row->streams;
    }
    return SLUICE_OK;
}

sluice_status sluice_wire_put_stats_reply(const struct sluice_wire_stats *stats,
                                          struct sluice_message *message, struct sluice_err *err)
{
    Sluice__V1__ClientStats clients[SLUICE_WIRE_MAX_CLIENTS], *client_rows[SLUICE_WIRE_MAX_CLIENTS];
    assert(stats->num_clients <= SLUICE_WIRE_MAX_CLIENTS);
    Sluice__V1__CountByChoice choices[SLUICE_WIRE_MAX_SPLITS * SLUICE_MAX_FORMS];
    Sluice__V1__CountByChoice *choice_rows[SLUICE_ARRAY_LEN(choices)];
    Sluice__V1__CountByError errors[SLUICE_WIRE_NUM_STATUS];
    Sluice__V1__CountByError *error_rows[SLUICE_ARRAY_LEN(errors)];

    Sluice__V1__StatsReply wire = SLUICE__V1__STATS_REPLY__INIT;
    wire.choices = choice_rows;
    wire.errors = error_rows;
    for (uint32_t split = 0; split < SLUICE_WIRE_MAX_SPLITS; split++) {
        for (unsigned form = 0; form < SLUICE_MAX_FORMS; form++) {
            if (!stats->choices[split][form].samples && !stats->choices[split][form].bytes)
                continue;
            Sluice__V1__CountByChoice *row = &choices[wire.n_choices];
            sluice__v1__count_by_choice__init(row);
            row->split = split;
            row->form = sluice_wire_form_to_wire((enum sluice_form)form);
            row->samples = stats->choices[split][form].samples;
            row->bytes = stats->choices[split][form].bytes;
            choice_rows[wire.n_choices++] = row;
        }
    }
    for (unsigned status = 0; status < SLUICE_WIRE_NUM_STATUS; status++) {
        if (!stats->errors[status])
            continue;
        Sluice__V1__CountByError *row = &errors[wire.n_errors];
        sluice__v1__count_by_error__init(row);
        row->status = sluice_wire_status_to_wire((sluice_status)status);
        row->samples = stats->errors[status];
        error_rows[wire.n_errors++] = row;
    }
    wire.uptime_s = stats->uptime_s;
    wire.samples = stats->samples;
    wire.payload_bytes = stats->payload_bytes;
    wire.wire_bytes = stats->wire_bytes;
    wire.reduced = stats->reduced;
    wire.queue_depth = stats->queue_depth;
    wire.queue_peak = stats->queue_peak;
    wire.prep_workers = stats->prep_workers;
    wire.prep_cores = stats->prep_cores;
    wire.busy_cores = stats->busy_cores;
    wire.streams = stats->streams;
    wire.refused_paths = stats->refused_paths;
    wire.cpu_price = stats->cpu_price;
    wire.cpu_s = stats->cpu_s;
    wire.process_cpu_s = stats->process_cpu_s;
    wire.file_reads = stats->files.reads;
    wire.file_bytes = stats->files.bytes;
    wire.file_read_bytes = stats->files.read_bytes;
    wire.index_hits = stats->jpeg_index.hits;
    wire.index_stale = stats->jpeg_index.stale;
    wire.index_missing = stats->jpeg_index.missing;
    wire.index_again = stats->jpeg_index.again;
    wire.server = (char *)(uintptr_t)stats->server;
    wire.is_not_serving = stats->is_not_serving;
    wire.hanging_workers = stats->hanging_workers;
    wire.refused_connections = stats->refused_connections;
    wire.refused_calls = stats->refused_calls;
    wire.memory_limit = stats->memory_limit;
    wire.memory_used = stats->memory_used;
    put_clients(stats->clients, stats->num_clients, clients, client_rows);
    wire.clients = client_rows;
    wire.n_clients = stats->num_clients;
    return sluice_wire_pack(&wire.base, NULL, message, err);
}

sluice_status sluice_wire_get_stats_reply(const struct sluice_message *message,
                                          struct sluice_wire_stats *stats, struct sluice_err *err)
{
    ProtobufCMessage *unpacked;
    sluice_status status =
        sluice_wire_unpack(&sluice__v1__stats_reply__descriptor, message, &unpacked, err);
    if (status != SLUICE_OK)
        return status;
    const Sluice__V1__StatsReply *wire = (const Sluice__V1__StatsReply *)unpacked;
    struct sluice_wire_stats got = {
        .uptime_s = wire->uptime_s,
        .samples = wire->samples,
        .payload_bytes = wire->payload_bytes,
        .wire_bytes = wire->wire_bytes,
        .reduced = wire->reduced,
        .refused_paths = wire->refused_paths,
        .queue_depth = wire->queue_depth,
        .queue_peak = wire->queue_peak,
        .prep_workers = wire->prep_workers,
        .prep_cores = wire->prep_cores,
        .streams = wire->streams,
        .busy_cores = wire->busy_cores,
        .cpu_price = wire->cpu_price,
        .cpu_s = wire->cpu_s,
        .process_cpu_s = wire->process_cpu_s,
        .files = {wire->file_reads, wire->file_bytes, wire->file_read_bytes},
        .jpeg_index = {wire->index_hits, wire->index_stale, wire->index_missing, wire->index_again},
        .is_not_serving = wire->is_not_serving,
        .hanging_workers = wire->hanging_workers,
        .refused_connections = wire->refused_connections,
        .refused_calls = wire->refused_calls,
        .memory_limit = wire->memory_limit,
        .memory_used = wire->memory_used,
    };
    sluice_wire_copy_utf8(wire->server, got.server, sizeof(got.server));
    /* Counts by numbers that a newer server knows and we do not are left out. */
    for (size_t i = 0; i < wire->n_choices; i++) {
        const Sluice__V1__CountByChoice *row = wire->choices[i];
        enum sluice_form form;
        if (row->split < SLUICE_WIRE_MAX_SPLITS &&
            sluice_wire_form_from_wire((uint64_t)row->form, &form)) {
            got.choices[row->split][form].samples = row->samples;
            got.choices[row->split][form].bytes = row->bytes;
        }
    }
    for (size_t i = 0; i < wire->n_errors; i++) {
        sluice_status kind;
        if (sluice_wire_status_from_wire(wire->errors[i]->status, &kind))
            got.errors[kind] = wire->errors[i]->samples;
    }
    if (!isfinite(got.uptime_s) || !isfinite(got.busy_cores) || !isfinite(got.cpu_price) ||
        !isfinite(got.cpu_s) || !isfinite(got.prep_cores) || !isfinite(got.process_cpu_s))
        status = sluice_fail(err, SLUICE_E_CORRUPT, "a StatsReply with a number that is none");
    if (status == SLUICE_OK)
        status = get_clients(wire, &got, err);
    protobuf_c_message_free_unpacked(unpacked, NULL);
    if (status == SLUICE_OK)
        *stats = got;
    return status;
}

/* --- health --- */

sluice_status sluice_wire_get_health_request(const struct sluice_message *message, char **service,
                                             struct sluice_err *err)
{
    ProtobufCMessage *unpacked;
    sluice_status status = sluice_wire_unpack(&grpc__health__v1__health_check_request__descriptor,
                                              message, &unpacked, err);
    if (status != SLUICE_OK)
        return status;
    status = sluice_wire_copy_string(
        ((const Grpc__Health__V1__HealthCheckRequest *)unpacked)->service, service, err);
    protobuf_c_message_free_unpacked(unpacked, NULL);
    return status;
}

sluice_status sluice_wire_put_health_reply(int serving_status, struct sluice_message *message,
                                           struct sluice_err *err)
{
    Grpc__Health__V1__HealthCheckResponse wire = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    wire.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)serving_status;
    return sluice_wire_pack(&wire.base, NULL, message, err);
}
