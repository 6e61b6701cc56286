#include "compute_client/fetch/client.h"

#include "base/clock.h"
#include "base/log.h"
#include "fake_server.h"
#include "support/capture.h"
#include "support/test.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static struct fake_dataset dataset;
static struct sluice_pipeline *pipeline;

static struct sluice_client *connect_to(const char *target, double retry_for_s)
{
    const struct sluice_client_options options = {.target = target, .retry_for_s = retry_for_s};
    struct sluice_client *client = NULL;
    REQUIRE_OK(sluice_client_create(&options, &client, NULL));
    return client;
}

static struct sluice_server_info greet(struct sluice_client *client)
{
    struct sluice_server_info info = {0};
    REQUIRE_OK(sluice_client_hello(client, pipeline, "", &info, NULL));
    return info;
}

TEST(hello_tells_what_the_server_has)
{
    struct fake_server *server =
        fake_server_start(&(struct fake_server_options){.dataset = &dataset, .max_in_flight = 9});
    struct sluice_client *client = connect_to(fake_server_target(server), 0);
    struct sluice_server_info info = {.num_samples = 0};
    CHECK_OK(sluice_client_hello(client, pipeline, "", &info, NULL));
    char id[33];
    sluice_hash128_hex(sluice_manifest_id(dataset.manifest), id);
    CU_ASSERT_STRING_EQUAL(info.dataset_id, id);
    CU_ASSERT_EQUAL(info.num_samples, dataset.num_samples);
    CU_ASSERT_EQUAL(info.prep_cores, 3);
    CU_ASSERT_EQUAL(info.max_in_flight, 9);
    CU_ASSERT_EQUAL(info.max_image_pixels, 1u << 20);
    CU_ASSERT(info.has_jpeg_crop_restart);
    sluice_client_destroy(client);
    fake_server_stop(server);
}

TEST(hello_may_tell_of_parts_of_a_core)
{
    struct fake_server *server = fake_server_start(
        &(struct fake_server_options){.dataset = &dataset, .max_in_flight = 9, .prep_cores = 1.5});
    struct sluice_client *client = connect_to(fake_server_target(server), 0);
    struct sluice_server_info info = {.num_samples = 0};
    CHECK_OK(sluice_client_hello(client, pipeline, "", &info, NULL));
    CU_ASSERT_EQUAL(info.prep_cores, 1.5);
    sluice_client_destroy(client);
    fake_server_stop(server);
}

TEST(another_pipeline_or_dataset_is_refused_with_both_names)
{
    struct fake_server *server = fake_server_start(
        &(struct fake_server_options){.dataset = &dataset, .fingerprint_xor = 0xff});
    struct sluice_client *client = connect_to(fake_server_target(server), 60);
    struct sluice_server_info info = {.num_samples = 0};
    char ours[20], theirs[20];
    snprintf(ours, sizeof(ours), "%016llx",
             (unsigned long long)sluice_pipeline_fingerprint(pipeline));
    snprintf(theirs, sizeof(theirs), "%016llx",
             (unsigned long long)sluice_pipeline_fingerprint(pipeline) ^ 0xff);
    CHECK_FAILS(SLUICE_E_INVALID, ours,
                sluice_client_hello(client, pipeline, "", &info, sluice_test_err()));
    CHECK_SAYS(theirs);
    sluice_client_destroy(client);
    fake_server_stop(server);

    server = fake_server_start(&(struct fake_server_options){.dataset = &dataset});
    client = connect_to(fake_server_target(server), 60);
    char id[33];
    sluice_hash128_hex(sluice_manifest_id(dataset.manifest), id);
    CHECK_FAILS(SLUICE_E_INVALID, "ffffffffffffffffffffffffffffffff",
                sluice_client_hello(client, pipeline, "ffffffffffffffffffffffffffffffff", &info,
                                    sluice_test_err()));
    CHECK_SAYS(id);
    CU_ASSERT_EQUAL(info.num_samples, 0); /* untouched */
    sluice_client_destroy(client);
    fake_server_stop(server);
}

TEST(the_list_is_the_servers_manifest)
{
    struct fake_server *server =
        fake_server_start(&(struct fake_server_options){.dataset = &dataset});
    struct sluice_client *client = connect_to(fake_server_target(server), 0);
    struct sluice_manifest *manifest = NULL;
    struct sluice_err err = {0};
    const struct sluice_server_info info = greet(client);
    REQUIRE_OK(sluice_client_list(client, &info, &manifest, &err));
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, dataset.num_samples);
    CU_ASSERT_EQUAL(manifest->num_classes, 2);
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry got = sluice_manifest_at(manifest, i),
                                           want = sluice_manifest_at(dataset.manifest, i);
        CU_ASSERT_STRING_EQUAL(got.path, want.path);
        CU_ASSERT_EQUAL(got.bytes, want.bytes);
        CU_ASSERT_EQUAL(got.label, want.label);
        CU_ASSERT_EQUAL(got.subset, want.subset);
    }
    sluice_manifest_destroy(manifest);
    sluice_client_destroy(client);
    fake_server_stop(server);
}

TEST(a_list_that_is_not_the_dataset_it_claims_is_refused)
{
    struct fake_server *server = fake_server_start(&(struct fake_server_options){
        .dataset = &dataset, .dataset_id = "00112233445566778899aabbccddeeff"});
    struct sluice_client *client = connect_to(fake_server_target(server), 60);
    struct sluice_manifest *manifest = NULL;
    struct sluice_err err = {0};
    const struct sluice_server_info info = greet(client);
    CU_ASSERT_EQUAL(sluice_client_list(client, &info, &manifest, &err), SLUICE_E_CORRUPT);
    CU_ASSERT_PTR_NULL(manifest);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "00112233445566778899aabbccddeeff"));
    sluice_client_destroy(client);
    fake_server_stop(server);
}

struct listed {
    sluice_status status;
    struct sluice_err err;
    struct fake_server_stats stats;
};

/* Lists what a server of these options has; *changed is told to the client in place of Hello's
 * reply. */
static struct listed list_from(const struct fake_server_options *options,
                               const struct sluice_server_info *changed)
{
    struct listed listed = {0};
    struct fake_server *server = fake_server_start(options);
    struct sluice_client *client = connect_to(fake_server_target(server), 60);
    struct sluice_manifest *manifest = NULL;
    const struct sluice_server_info info = changed ? *changed : greet(client);
    listed.status = sluice_client_list(client, &info, &manifest, &listed.err);
    if (listed.status == SLUICE_OK) {
        CU_ASSERT_EQUAL_FATAL(manifest->num_entries, dataset.num_samples);
        for (size_t i = 0; i < manifest->num_entries; i++)
            CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, i).path,
                                   sluice_manifest_at(dataset.manifest, i).path);
    } else {
        CU_ASSERT_PTR_NULL(manifest);
    }
    sluice_manifest_destroy(manifest);
    listed.stats = fake_server_stats(server);
    sluice_client_destroy(client);
    fake_server_stop(server);
    return listed;
}

TEST(a_list_of_wrong_fields_or_without_their_values_is_refused)
{
    static const struct {
        const char *fields, *says;
    } wrong[] = {
        {"x\tpixels\t0\n", "it lists targets of kind"},
        {"x\ttext\t0\nx\ttext\t0\n", "it lists targets of kind"},
        {"x\ttext", "it lists targets of kind"},
        {"x\ttext\t0\n", "no target where others have one"},
        {"x\ttext\t0\ny\tboxes\t0\n", "no values where others have some"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        struct fake_server *server = fake_server_start(
            &(struct fake_server_options){.dataset = &dataset, .list_fields = wrong[i].fields});
        struct sluice_client *client = connect_to(fake_server_target(server), 0);
        struct sluice_manifest *manifest = NULL;
        const struct sluice_server_info info = greet(client);
        CHECK_FAILS(SLUICE_E_CORRUPT, wrong[i].says,
                    sluice_client_list(client, &info, &manifest, sluice_test_err()));
        CU_ASSERT_PTR_NULL(manifest);
        sluice_client_destroy(client);
        fake_server_stop(server);
    }
}

TEST(a_list_goes_on_from_the_row_that_it_has_reached)
{
    const struct listed listed = list_from(
        &(struct fake_server_options){
            .dataset = &dataset, .has_hashes = true, .list_lose_after = 1, .list_lose_times = 3},
        NULL);
    CHECK_OK(listed.status);
    CU_ASSERT_EQUAL(listed.stats.lists, 4);
    CU_ASSERT_EQUAL(listed.stats.list_rows, dataset.num_samples); /* each row once */
}

TEST(a_list_without_hashes_starts_over)
{
    const struct listed listed = list_from(&(struct fake_server_options){.dataset = &dataset,
                                                                         .list_lose_after = 2,
                                                                         .list_lose_times = 3},
                                           NULL);
    CHECK_OK(listed.status);
    CU_ASSERT_EQUAL(listed.stats.lists, 4);
    CU_ASSERT_EQUAL(listed.stats.list_rows, dataset.num_samples + 3 * 6);
}

TEST(a_damaged_page_of_a_list_is_asked_for_again)
{
    const struct listed listed = list_from(&(struct fake_server_options){.dataset = &dataset,
                                                                         .has_hashes = true,
                                                                         .list_damage_times = 2},
                                           NULL);
    CHECK_OK(listed.status);
    CU_ASSERT_EQUAL(listed.stats.lists, 3);
}

TEST(an_endless_list_stops_at_the_promised_count)
{
    for (int has_hashes = 0; has_hashes < 2; has_hashes++) {
        const struct listed listed = list_from(
            &(struct fake_server_options){
                .dataset = &dataset, .has_hashes = has_hashes, .list_extra = 1000},
            NULL);
        CU_ASSERT_EQUAL(listed.status, SLUICE_E_CORRUPT);
        CU_ASSERT_PTR_NOT_NULL(strstr(listed.err.text, "more than the 10 samples"));
        CU_ASSERT_EQUAL(listed.stats.lists, SLUICE_CLIENT_REFUSALS);
    }
}

TEST(a_list_of_other_data_is_refused_with_both_names)
{
    char id[33];
    sluice_hash128_hex(sluice_manifest_id(dataset.manifest), id);
    const struct fake_server_options options = {.dataset = &dataset, .has_hashes = true};
    struct sluice_server_info said = {.num_samples = dataset.num_samples,
                                      .has_hashes = true,
                                      .dataset_id = "ffffffffffffffffffffffffffffffff"};
    struct listed listed = list_from(&options, &said);
    CU_ASSERT_EQUAL(listed.status, SLUICE_E_STALE);
    CU_ASSERT_PTR_NOT_NULL(strstr(listed.err.text, said.dataset_id));
    CU_ASSERT_PTR_NOT_NULL(strstr(listed.err.text, id));

    memcpy(said.dataset_id, id, sizeof(id));
    said.num_samples = 12;
    listed = list_from(&options, &said);
    CU_ASSERT_EQUAL(listed.status, SLUICE_E_CORRUPT);
    CU_ASSERT_PTR_NOT_NULL(strstr(listed.err.text, "10 samples"));
    CU_ASSERT_PTR_NOT_NULL(strstr(listed.err.text, "12"));
}

TEST(a_damaged_hello_is_asked_for_again)
{
    struct fake_server *server = fake_server_start(&(struct fake_server_options){
        .dataset = &dataset, .has_hashes = true, .flip_hello_times = 4});
    struct sluice_client *client = connect_to(fake_server_target(server), 60);
    const struct sluice_server_info info = greet(client);
    CU_ASSERT_TRUE(info.has_hashes);
    CU_ASSERT_EQUAL(info.num_samples, dataset.num_samples);
    sluice_client_destroy(client);
    fake_server_stop(server);
}

TEST(the_probe_measures_the_link)
{
    struct fake_server *server =
        fake_server_start(&(struct fake_server_options){.dataset = &dataset});
    struct sluice_client *client = connect_to(fake_server_target(server), 0);
    struct sluice_client_probed probed;
    /* In one piece, and growing from a first one. */
    for (uint64_t most = 60000; most <= 1 << 20; most *= 17) {
        memset(&probed, 0, sizeof(probed));
        const uint64_t start_ns = sluice_clock_ns();
        CHECK_OK(sluice_client_probe(client, most, &probed, NULL));
        const double elapsed_s = (double)(sluice_clock_ns() - start_ns) * 1e-9;
        /* Half of the bytes at least came within the time that is counted, and this within the
         * call; of one that is received the CPU had no more. */
        CU_ASSERT(probed.link_bytes_per_s * elapsed_s > 60000 / 2.0);
        CU_ASSERT(probed.receive_s_per_byte > 0);
        CU_ASSERT(probed.receive_s_per_byte * 60000 < elapsed_s);
    }
    sluice_client_destroy(client);
    fake_server_stop(server);
}

TEST(the_server_says_its_cpu_time)
{
    struct fake_server *server =
        fake_server_start(&(struct fake_server_options){.dataset = &dataset});
    struct sluice_client *client = connect_to(fake_server_target(server), 0);
    double cpu_s = -1;
    CHECK_OK(sluice_client_server_cpu(client, &cpu_s, NULL));
    CU_ASSERT_EQUAL(cpu_s, FAKE_SERVER_CPU_S);
    fake_server_stop(server);
    struct sluice_err err = {0};
    CU_ASSERT_NOT_EQUAL(sluice_client_server_cpu(client, &cpu_s, &err), SLUICE_OK);
    CU_ASSERT_EQUAL(cpu_s, FAKE_SERVER_CPU_S);
    CU_ASSERT(err.text[0] != 0);
    sluice_client_destroy(client);
}

TEST(waits_for_a_server_that_is_not_there_yet)
{
    const int port = sluice_test_port();
    char target[32];
    snprintf(target, sizeof(target), "127.0.0.1:%d", port);
    struct sluice_client *client = connect_to(target, 60);
    struct sluice_server_info info;
    bool is_passing = false;
    CU_ASSERT_EQUAL(sluice_client_hello_once(client, pipeline, "", &info, &is_passing, NULL),
                    SLUICE_E_IO);
    CU_ASSERT_TRUE(is_passing);
    struct fake_server *server =
        fake_server_start(&(struct fake_server_options){.dataset = &dataset, .port = port});
    CHECK_OK(sluice_client_hello(client, pipeline, "", &info, NULL));
    sluice_client_destroy(client);
    fake_server_stop(server);
}

TEST(gives_up_after_its_patience)
{
    char target[32];
    snprintf(target, sizeof(target), "127.0.0.1:%d", sluice_test_port());
    struct sluice_client *client = connect_to(target, 0.3);
    struct sluice_server_info info;
    struct sluice_err err = {0};
    const uint64_t start = sluice_clock_ns();
    CU_ASSERT_EQUAL(sluice_client_hello(client, pipeline, "", &info, &err), SLUICE_E_IO);
    CU_ASSERT(sluice_clock_ns() - start >= 300000000u);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, target));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "tried for"));
    sluice_client_destroy(client);
}

TEST(says_at_once_why_it_waits)
{
    char target[32], expected[300];
    struct sluice_test_output output;
    snprintf(target, sizeof(target), "127.0.0.1:%d", sluice_test_port());
    const struct sluice_client_options options = {
        .target = target, .retry_for_s = 0.3, .advice = "do this"};
    struct sluice_client *client = NULL;
    struct sluice_server_info info;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_client_create(&options, &client, NULL));
    sluice_log_set_level(SLUICE_LOG_INFO);
    sluice_test_capture_begin();
    CU_ASSERT_EQUAL(sluice_client_hello(client, pipeline, "", &info, &err), SLUICE_E_IO);
    sluice_test_capture_end(&output);
    sluice_log_set_level(SLUICE_LOG_ERROR);
    snprintf(expected, sizeof(expected),
             "cannot reach %s: connection refused: is offload_server running there?", target);
    CU_ASSERT_EQUAL(strncmp(err.text, expected, strlen(expected)), 0);
    /* Once, though it tried more often. */
    const char *said = strstr(output.err, expected);
    CU_ASSERT_PTR_NOT_NULL_FATAL(said);
    CU_ASSERT_PTR_NULL(strstr(said + 1, expected));
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "trying for up to 0.3 s; do this"));
    sluice_client_destroy(client);
}

static void *stop_main(void *client)
{
    sluice_client_stop(client);
    return NULL;
}

TEST(stop_ends_the_waiting)
{
    char target[32];
    snprintf(target, sizeof(target), "127.0.0.1:%d", sluice_test_port());
    struct sluice_client *client = connect_to(target, 1000);
    struct sluice_server_info info = {.num_samples = 1};
    struct sluice_manifest *manifest = NULL;
    pthread_t thread;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, stop_main, client), 0);
    CU_ASSERT_EQUAL(sluice_client_hello(client, pipeline, "", &info, NULL), SLUICE_E_CLOSED);
    CU_ASSERT_EQUAL(sluice_client_list(client, &info, &manifest, NULL), SLUICE_E_CLOSED);
    pthread_join(thread, NULL);
    sluice_client_destroy(client);
}

static void *hello_main(void *ctx)
{
    struct sluice_client *client = ctx;
    struct sluice_server_info info;
    return (void *)(intptr_t)sluice_client_hello(client, pipeline, "", &info, NULL);
}

/* The library's own form of an address names the resolver, which --host does not take. */
TEST(stop_ends_the_wait_for_a_name)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    char target[64], question[512];
    const int names = socket(AF_INET, SOCK_DGRAM, 0);
    CU_ASSERT_FATAL(names >= 0 && bind(names, (struct sockaddr *)&address, len) == 0 &&
                    getsockname(names, (struct sockaddr *)&address, &len) == 0);
    snprintf(target, sizeof(target), "dns://127.0.0.1:%u/storage.example:50051",
             ntohs(address.sin_port));
    struct sluice_client *client = connect_to(target, 1000);
    pthread_t thread;
    void *result = NULL;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, hello_main, client), 0);
    CU_ASSERT(recv(names, question, sizeof(question), 0) > 0);
    sluice_client_stop(client);
    pthread_join(thread, &result);
    CU_ASSERT_EQUAL((sluice_status)(intptr_t)result, SLUICE_E_CLOSED);
    sluice_client_destroy(client);
    close(names);
}

TEST(only_what_may_pass_is_tried_again)
{
    const enum sluice_rpc_code passing[] = {SLUICE_RPC_UNAVAILABLE, SLUICE_RPC_DEADLINE_EXCEEDED,
                                            SLUICE_RPC_CANCELLED,   SLUICE_RPC_INTERNAL,
                                            SLUICE_RPC_UNKNOWN,     SLUICE_RPC_RESOURCE_EXHAUSTED};
    const enum sluice_rpc_code final[] = {
        SLUICE_RPC_UNIMPLEMENTED, SLUICE_RPC_INVALID_ARGUMENT,  SLUICE_RPC_FAILED_PRECONDITION,
        SLUICE_RPC_NOT_FOUND,     SLUICE_RPC_PERMISSION_DENIED, SLUICE_RPC_UNAUTHENTICATED};
    for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++)
        CU_ASSERT_TRUE(sluice_client_is_passing(passing[i]));
    for (size_t i = 0; i < sizeof(final) / sizeof(final[0]); i++)
        CU_ASSERT_FALSE(sluice_client_is_passing(final[i]));
}

int main(void)
{
    sluice_log_set_level(SLUICE_LOG_ERROR);
    return fake_dataset_main(&dataset, 10, &pipeline);
}
