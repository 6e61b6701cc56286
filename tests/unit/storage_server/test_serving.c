#include "storage_server/serving.h"

#include "fixture.h"
#include "storage_server/server.h"
#include "support/test.h"

static struct sluice_server_options options_here(void)
{
    struct sluice_server_options options = sluice_server_options_init();
    options.roots = sluice_roots_one(image_root());
    options.listen = "127.0.0.1:0";
    return options;
}

TEST(opens_what_the_options_ask_for)
{
    char metrics[32];
    snprintf(metrics, sizeof(metrics), "127.0.0.1:%d", sluice_test_port());
    for (int asked = 0; asked < 2; asked++) {
        struct sluice_server_options options = options_here();
        options.metrics = asked ? metrics : NULL;
        options.self_check_s = asked ? 10 : 0;
        struct sluice_serving serving = {.options = &options};
        REQUIRE_OK(sluice_serving_limit(&serving, NULL));
        REQUIRE_OK(sluice_serving_open(&serving, NULL));
        CU_ASSERT_EQUAL(serving.metrics != NULL, asked);
        CU_ASSERT_EQUAL(serving.watch != NULL, asked);
        char address[SLUICE_HOST_PORT_BYTES];
        snprintf(address, sizeof(address), "127.0.0.1:%d",
                 sluice_storage_server_port(serving.server));
        CU_ASSERT_STRING_EQUAL(serving.address, address);
        CU_ASSERT_EQUAL(sluice_serving_stop(&serving), 0);
        sluice_serving_close(&serving);
    }
}

TEST(serves_the_files_beneath_the_root)
{
    const struct sluice_server_options options = options_here();
    struct sluice_serving serving = {.options = &options};
    REQUIRE_OK(sluice_serving_limit(&serving, NULL));
    REQUIRE_OK(sluice_serving_open(&serving, NULL));
    struct fixture f = {.options = options, .server = serving.server};
    f.channel = fixture_connect(&f);
    struct client *client = fetch_open(&f, 0);
    fetch_ask(client, 0, NUM_IMAGES, 0, SLUICE_FORM_RAW);
    fetch_await(client, NUM_IMAGES);
    for (unsigned id = 0; id < NUM_IMAGES; id++) {
        size_t len;
        uint8_t *bytes = sluice_test_read_file(image_path(id), &len);
        const struct sluice_wire_sample_reply *reply = fetch_reply_to(client, id);
        REQUIRE_OK(reply->status);
        CU_ASSERT(reply->payload->len == len && memcmp(reply->payload->data, bytes, len) == 0);
        free(bytes);
    }
    client_close(client);
    sluice_rpc_channel_destroy(f.channel);
    sluice_serving_close(&serving);
}

TEST(what_cannot_be_opened_is_named_and_freed)
{
    struct sluice_err err = {0};
    struct sluice_server_options options = options_here();
    struct sluice_serving serving = {.options = &options};
    options.prep_cgroup = "/no/such/cgroup";
    CU_ASSERT_NOT_EQUAL(sluice_serving_limit(&serving, &err), SLUICE_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/no/such/cgroup"));
    sluice_serving_close(&serving);

    err = (struct sluice_err){0};
    options = options_here();
    options.metrics = "127.0.0.1:99999";
    serving = (struct sluice_serving){.options = &options};
    REQUIRE_OK(sluice_serving_limit(&serving, NULL));
    CU_ASSERT_NOT_EQUAL(sluice_serving_open(&serving, &err), SLUICE_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "99999"));
    sluice_serving_close(&serving);

    err = (struct sluice_err){0};
    options = options_here();
    options.roots = sluice_roots_one("/no/such/folder");
    serving = (struct sluice_serving){.options = &options};
    REQUIRE_OK(sluice_serving_limit(&serving, NULL));
    CU_ASSERT_EQUAL(sluice_serving_open(&serving, &err), SLUICE_E_NOT_FOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/no/such/folder"));
    sluice_serving_close(&serving);
}
