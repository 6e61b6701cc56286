#include "wire/wire.h"

#include "health.pb-c.h"
#include "offload.pb-c.h"
#include "support/test.h"
#include "wire_random.h"

#include <math.h>

TEST(probe_requests_come_back_as_they_were_put)
{
    for (int i = 0; i < 100; i++) {
        const uint64_t bytes = random_u64();
        const uint32_t message_bytes = random_u32();
        uint64_t got_bytes = 1;
        uint32_t got_message_bytes = 1;
        struct sluice_message message = {0};
        CHECK_OK(sluice_wire_put_probe_request(bytes, message_bytes, &message, NULL));
        message_recut(&message);
        CHECK_OK(sluice_wire_get_probe_request(&message, &got_bytes, &got_message_bytes, NULL));
        CU_ASSERT_EQUAL(got_bytes, bytes);
        CU_ASSERT_EQUAL(got_message_bytes, message_bytes);
        sluice_message_clear(&message);
    }
}

TEST(probe_payloads_travel_by_reference)
{
    struct sluice_buf *payload = random_buf(256 << 10);
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_probe_reply(payload, &message, NULL));
    CU_ASSERT_EQUAL_FATAL(message.num_segments, 2);
    CU_ASSERT_PTR_EQUAL(message.segments[1].data, payload->data);
    uint8_t *flat = message_flatten(&message);
    Sluice__V1__ProbeReply *wire = sluice__v1__probe_reply__unpack(NULL, message.len, flat);
    CU_ASSERT_PTR_NOT_NULL_FATAL(wire);
    CU_ASSERT_EQUAL_FATAL(wire->payload.len, payload->len);
    CU_ASSERT(memcmp(wire->payload.data, payload->data, payload->len) == 0);
    sluice__v1__probe_reply__free_unpacked(wire, NULL);
    free(flat);
    sluice_message_clear(&message);
    sluice_buf_unref(payload);
}

TEST(stats_come_back_as_they_were_put)
{
    for (int i = 0; i < 100; i++) {
        struct sluice_wire_stats stats, got;
        memset(&stats, 0, sizeof(stats)); /* memcmp below compares padding too */
        memset(&got, 0, sizeof(got));
        stats.uptime_s = random_u32() / 7.0;
        stats.busy_cores = random_u32() / 3.0;
        stats.cpu_price = random_u32() / 5.0;
        for (int split = 0; split < SLUICE_WIRE_MAX_SPLITS; split++) {
            for (int form = 0; form < SLUICE_NUM_FORMS; form++) {
                stats.choices[split][form].samples = random_bool() ? random_u64() : 0;
                stats.choices[split][form].bytes = random_bool() ? random_u64() : 0;
            }
        }
        for (int status = 0; status < SLUICE_WIRE_NUM_STATUS; status++)
            stats.errors[status] = random_bool() ? random_u64() : 0;
        stats.samples = random_u64();
        stats.payload_bytes = random_u64();
        stats.wire_bytes = random_u64();
        stats.reduced = random_u64();
        stats.refused_paths = random_u64();
        stats.queue_depth = random_u32();
        stats.queue_peak = random_u32();
        stats.prep_workers = random_u32();
        stats.prep_cores = random_u32() / 3.0;
        stats.streams = random_u32();
        stats.cpu_s = random_u32() / 5.0;
        stats.process_cpu_s = random_u32() / 7.0;
        stats.files.reads = random_u64();
        stats.files.bytes = random_u64();
        stats.files.read_bytes = random_u64();
        stats.jpeg_index.hits = random_u64();
        stats.jpeg_index.stale = random_u64();
        stats.jpeg_index.missing = random_u64();
        stats.jpeg_index.again = random_u64();
        struct sluice_wire_client clients[3];
        memset(clients, 0, sizeof(clients));
        stats.clients = clients;
        stats.num_clients = (size_t)i % 4;
        for (size_t k = 0; k < stats.num_clients; k++) {
            snprintf(clients[k].name, sizeof(clients[k].name), "client %u", random_u32());
            snprintf(clients[k].address, sizeof(clients[k].address), "10.0.0.%zu", k);
            snprintf(clients[k].token, sizeof(clients[k].token), "%s", k ? "team" : "");
            clients[k].samples = random_u64();
            clients[k].payload_bytes = random_u64();
            clients[k].errors = random_u64();
            clients[k].streams = random_u32();
        }
        snprintf(stats.server, sizeof(stats.server), "server %u", random_u32());
        stats.is_not_serving = random_bool();
        stats.hanging_workers = random_u32();
        stats.refused_connections = random_u64();
        stats.refused_calls = random_u64();
        stats.memory_limit = random_u64();
        stats.memory_used = random_u64();
        struct sluice_message message = {0};
        CHECK_OK(sluice_wire_put_stats_reply(&stats, &message, NULL));
        message_recut(&message);
        CHECK_OK(sluice_wire_get_stats_reply(&message, &got, NULL));
        CU_ASSERT(memcmp(got.choices, stats.choices, sizeof(got.choices)) == 0);
        CU_ASSERT(memcmp(got.errors, stats.errors, sizeof(got.errors)) == 0);
        CU_ASSERT_EQUAL(got.cpu_s, stats.cpu_s);
        CU_ASSERT_EQUAL(got.process_cpu_s, stats.process_cpu_s);
        CU_ASSERT(memcmp(&got.files, &stats.files, sizeof(got.files)) == 0);
        CU_ASSERT(memcmp(&got.jpeg_index, &stats.jpeg_index, sizeof(got.jpeg_index)) == 0);
        CU_ASSERT_EQUAL(got.uptime_s, stats.uptime_s);
        CU_ASSERT_EQUAL(got.busy_cores, stats.busy_cores);
        CU_ASSERT_EQUAL(got.cpu_price, stats.cpu_price);
        CU_ASSERT_EQUAL(got.samples, stats.samples);
        CU_ASSERT_EQUAL(got.payload_bytes, stats.payload_bytes);
        CU_ASSERT_EQUAL(got.wire_bytes, stats.wire_bytes);
        CU_ASSERT_EQUAL(got.reduced, stats.reduced);
        CU_ASSERT_EQUAL(got.refused_paths, stats.refused_paths);
        CU_ASSERT_EQUAL(got.queue_depth, stats.queue_depth);
        CU_ASSERT_EQUAL(got.queue_peak, stats.queue_peak);
        CU_ASSERT_EQUAL(got.prep_workers, stats.prep_workers);
        CU_ASSERT_EQUAL(got.prep_cores, stats.prep_cores);
        CU_ASSERT_EQUAL(got.streams, stats.streams);
        CU_ASSERT_STRING_EQUAL(got.server, stats.server);
        CU_ASSERT_EQUAL(got.is_not_serving, stats.is_not_serving);
        CU_ASSERT_EQUAL(got.hanging_workers, stats.hanging_workers);
        CU_ASSERT_EQUAL(got.refused_connections, stats.refused_connections);
        CU_ASSERT_EQUAL(got.refused_calls, stats.refused_calls);
        CU_ASSERT_EQUAL(got.memory_limit, stats.memory_limit);
        CU_ASSERT_EQUAL(got.memory_used, stats.memory_used);
        CU_ASSERT_EQUAL_FATAL(got.num_clients, stats.num_clients);
        CU_ASSERT(memcmp(got.clients, clients, got.num_clients * sizeof(clients[0])) == 0);
        sluice_wire_stats_clear(&got);
        sluice_wire_stats_clear(&got);
        sluice_message_clear(&message);
    }
}

TEST(stats_of_a_later_version_lose_only_what_is_unknown)
{
    Sluice__V1__CountByChoice a = SLUICE__V1__COUNT_BY_CHOICE__INIT, b = a, c = a;
    a.split = SLUICE_WIRE_MAX_SPLITS;
    a.samples = 5;
    b.form = SLUICE__V1__FORM__FORM_LISTED_ID /* no form of a sample */;
    b.samples = 6;
    c.form = SLUICE__V1__FORM__FORM_F32;
    c.split = 5;
    c.samples = 7;
    Sluice__V1__CountByChoice *choices[] = {&a, &b, &c};
    Sluice__V1__CountByError d = SLUICE__V1__COUNT_BY_ERROR__INIT, e = d;
    d.status = (Sluice__V1__SampleStatus)99;
    d.samples = 8;
    e.status = SLUICE__V1__SAMPLE_STATUS__SAMPLE_IO;
    e.samples = 9;
    Sluice__V1__CountByError *errors[] = {&d, &e};
    Sluice__V1__StatsReply wire = SLUICE__V1__STATS_REPLY__INIT;
    wire.choices = choices;
    wire.n_choices = 3;
    wire.errors = errors;
    wire.n_errors = 2;
    uint8_t packed[256];
    const size_t len = sluice__v1__stats_reply__get_packed_size(&wire);
    CU_ASSERT_FATAL(len <= sizeof(packed));
    sluice__v1__stats_reply__pack(&wire, packed);

    struct sluice_message message = message_cut(packed, len);
    struct sluice_wire_stats got;
    REQUIRE_OK(sluice_wire_get_stats_reply(&message, &got, NULL));
    CU_ASSERT_EQUAL(got.choices[5][SLUICE_FORM_F32].samples, 7);
    CU_ASSERT_EQUAL(got.choices[0][SLUICE_FORM_RAW].samples, 0);
    CU_ASSERT_EQUAL(got.errors[SLUICE_E_IO], 9);
    CU_ASSERT_EQUAL(got.errors[SLUICE_E_INTERNAL], 0);
    CU_ASSERT_STRING_EQUAL(got.server, "");
    CU_ASSERT_EQUAL(got.num_clients, 0);
    sluice_wire_stats_clear(&got);
    sluice_message_clear(&message);
}

TEST(a_list_of_clients_has_a_bound)
{
    enum { MANY = SLUICE_WIRE_MAX_CLIENTS + 50 };
    char longer[300];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    Sluice__V1__ClientStats rows[MANY], *pointers[MANY];
    for (size_t i = 0; i < MANY; i++) {
        sluice__v1__client_stats__init(&rows[i]);
        rows[i].name = longer;
        pointers[i] = &rows[i];
    }
    Sluice__V1__StatsReply wire = SLUICE__V1__STATS_REPLY__INIT;
    wire.clients = pointers;
    wire.n_clients = MANY;
    uint8_t *packed = malloc(sluice__v1__stats_reply__get_packed_size(&wire));
    CU_ASSERT_PTR_NOT_NULL_FATAL(packed);
    struct sluice_message message =
        message_cut(packed, sluice__v1__stats_reply__pack(&wire, packed));
    struct sluice_wire_stats got;
    REQUIRE_OK(sluice_wire_get_stats_reply(&message, &got, NULL));
    CU_ASSERT_EQUAL(got.num_clients, SLUICE_WIRE_MAX_CLIENTS);
    CU_ASSERT_EQUAL(strlen(got.clients[0].name), SLUICE_WIRE_CLIENT_NAME - 1);
    sluice_wire_stats_clear(&got);
    sluice_message_clear(&message);
    free(packed);
}

TEST(rejects_stats_that_are_no_numbers)
{
    const double wrong[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 9; i++) {
        Sluice__V1__StatsReply wire = SLUICE__V1__STATS_REPLY__INIT;
        *(i % 3 == 0   ? &wire.uptime_s
          : i % 3 == 1 ? &wire.busy_cores
                       : &wire.cpu_price) = wrong[i / 3];
        uint8_t packed[32];
        CU_ASSERT_FATAL(sluice__v1__stats_reply__get_packed_size(&wire) <= sizeof(packed));
        struct sluice_message message =
            message_cut(packed, sluice__v1__stats_reply__pack(&wire, packed));
        struct sluice_wire_stats got;
        CU_ASSERT_EQUAL(sluice_wire_get_stats_reply(&message, &got, NULL), SLUICE_E_CORRUPT);
        sluice_message_clear(&message);
    }
}

TEST(a_stats_request_is_empty)
{
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_stats_request(&message, NULL));
    CU_ASSERT_EQUAL(message.len, 0);
    sluice_message_clear(&message);
}

TEST(health_speaks_with_protobuf_c)
{
    Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    request.service = "sluice.v1.Offload";
    uint8_t packed[64];
    struct sluice_message message =
        message_cut(packed, grpc__health__v1__health_check_request__pack(&request, packed));
    char *service = NULL;
    REQUIRE_OK(sluice_wire_get_health_request(&message, &service, NULL));
    CU_ASSERT_STRING_EQUAL(service, "sluice.v1.Offload");
    free(service);
    sluice_message_clear(&message);

    for (int serving = 0; serving < 4; serving++) {
        CHECK_OK(sluice_wire_put_health_reply(serving, &message, NULL));
        uint8_t *flat = message_flatten(&message);
        Grpc__Health__V1__HealthCheckResponse *reply =
            grpc__health__v1__health_check_response__unpack(NULL, message.len, flat);
        CU_ASSERT_PTR_NOT_NULL_FATAL(reply);
        CU_ASSERT_EQUAL((int)reply->status, serving);
        grpc__health__v1__health_check_response__free_unpacked(reply, NULL);
        free(flat);
        sluice_message_clear(&message);
    }
}
