#include "storage_server/server.h"

#include "base/clock.h"
#include "fixture.h"
#include "support/test.h"

TEST(what_cannot_be_served_is_named)
{
    struct sluice_server_options options = sluice_server_options_init();
    struct sluice_storage_server *server = NULL;
    struct sluice_server_parts parts = {0};
    struct sluice_err err = {0};
    options.roots = sluice_roots_one(image_root());
    options.listen = "127.0.0.1:notaport";
    (void)gate_create(&parts.store); /* the server destroys it */
    CU_ASSERT_EQUAL(sluice_storage_server_create(&options, &parts, &server, &err),
                    SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "notaport"));

    /* Two on one port. */
    struct fixture f = fixture_init();
    fixture_start(&f);
    char taken[64];
    snprintf(taken, sizeof(taken), "127.0.0.1:%d", sluice_storage_server_port(f.server));
    options.listen = taken;
    err = (struct sluice_err){0};
    (void)gate_create(&parts.store);
    CU_ASSERT_EQUAL(sluice_storage_server_create(&options, &parts, &server, &err), SLUICE_E_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, taken));
    CU_ASSERT_PTR_NULL(server);
    fixture_end(&f);
}

TEST(the_link_limit_holds_back_what_is_sent)
{
    struct fixture f = fixture_init();
    f.options.link_bytes_per_s = 1e6;
    fixture_start(&f);
    struct sluice_message request = {0};
    CHECK_OK(sluice_wire_put_probe_request(200000, 10000, &request, NULL));
    struct client *client = client_open(&f, SLUICE_METHOD_PROBE);
    const uint64_t start_ns = sluice_clock_ns();
    client_send(client, &request);
    client_half_close(client);
    CU_ASSERT_EQUAL(client_await_done(client, NULL), SLUICE_RPC_OK);
    /* 200 kB less one burst and one message, at 1 MB/s; how much longer depends on the machine. */
    CU_ASSERT(sluice_clock_ns() - start_ns >= 165000000);
    CU_ASSERT_EQUAL(client_num_messages(client), 20);
    client_close(client);
    fixture_end(&f);
}

TEST(a_stop_may_come_twice)
{
    struct fixture f = fixture_init();
    fixture_start(&f);
    sluice_storage_server_stop(f.server);
    sluice_storage_server_stop(f.server);
    char *json = NULL;
    CHECK_OK(sluice_storage_server_stats_json(f.server, &json, NULL));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"streams\":0"));
    free(json);
    fixture_end(&f);
    sluice_storage_server_destroy(NULL);
}
