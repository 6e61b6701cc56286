#include "storage_server/services/health.h"

#include "fixture.h"
#include "support/test.h"

#include <pthread.h>

static void put_request(struct sluice_message *message, const char *service)
{
    const uint8_t head[] = {1 << 3 | 2, (uint8_t)strlen(service)};
    CHECK_OK(sluice_message_append_copy(message, head, sizeof(head), NULL));
    CHECK_OK(sluice_message_append_copy(message, service, strlen(service), NULL));
}

static int get_status(const struct sluice_message *message)
{
    uint8_t bytes[2] = {0};
    struct sluice_cursor cursor = sluice_cursor_init(message);
    CU_ASSERT_EQUAL_FATAL(message->len, 2);
    CU_ASSERT(sluice_cursor_read(&cursor, bytes, 2));
    CU_ASSERT_EQUAL(bytes[0], 1 << 3);
    return bytes[1];
}

TEST(check_knows_its_services)
{
    static const char *const known[] = {"", "sluice.v1.Offload", "DataTransfer"};
    struct fixture f = fixture_init();
    fixture_start(&f);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct sluice_message request = {0}, reply = {0};
        put_request(&request, known[i]);
        CU_ASSERT_EQUAL_FATAL(call(&f, SLUICE_METHOD_HEALTH_CHECK, &request, &reply, NULL),
                              SLUICE_RPC_OK);
        CU_ASSERT_EQUAL(get_status(&reply), SLUICE_SERVING);
        sluice_message_clear(&reply);
    }
    struct sluice_message request = {0};
    put_request(&request, "sluice.v9.Offload");
    CU_ASSERT_EQUAL(call(&f, SLUICE_METHOD_HEALTH_CHECK, &request, NULL, NULL),
                    SLUICE_RPC_NOT_FOUND);
    /* No field at all asks for the server as a whole. */
    CU_ASSERT_EQUAL(call(&f, SLUICE_METHOD_HEALTH_CHECK, &request, NULL, NULL), SLUICE_RPC_OK);
    fixture_end(&f);
}

TEST(watch_tells_the_stop_and_ends)
{
    struct fixture f = fixture_init();
    fixture_start(&f);
    struct client *watchers[3];
    static const char *const services[] = {"", "sluice.v1.Offload", "unknown"};
    for (int i = 0; i < 3; i++) {
        struct sluice_message request = {0};
        put_request(&request, services[i]);
        watchers[i] = client_open(&f, SLUICE_METHOD_HEALTH_WATCH);
        client_send(watchers[i], &request);
        client_half_close(watchers[i]);
        client_await_messages(watchers[i], 1);
        CU_ASSERT_EQUAL(get_status(client_message(watchers[i], 0)),
                        i < 2 ? SLUICE_SERVING : SLUICE_SERVICE_UNKNOWN);
    }
    /* One that went away is not told. */
    client_close(watchers[0]);
    sluice_storage_server_stop(f.server);
    for (int i = 1; i < 3; i++) {
        CU_ASSERT_EQUAL(client_await_done(watchers[i], NULL), SLUICE_RPC_UNAVAILABLE);
        CU_ASSERT_EQUAL(client_num_messages(watchers[i]), i == 1 ? 2 : 1);
    }
    CU_ASSERT_EQUAL(get_status(client_message(watchers[1], 1)), SLUICE_NOT_SERVING);
    client_close(watchers[1]);
    client_close(watchers[2]);
    fixture_end(&f);
}

TEST(reading_it_gives_every_reason)
{
    struct sluice_health *health = NULL;
    char reason[200] = "untouched", cut[8];
    REQUIRE_OK(sluice_health_create(false, &health, NULL));
    CU_ASSERT(sluice_health_read(health, reason, sizeof(reason)));
    CU_ASSERT_STRING_EQUAL(reason, "untouched");
    sluice_health_set(health, SLUICE_HEALTH_WORKERS, false);
    CU_ASSERT_FALSE(sluice_health_read(health, reason, sizeof(reason)));
    CU_ASSERT_STRING_EQUAL(reason, "a worker hangs");
    sluice_health_set(health, SLUICE_HEALTH_ROOT, false);
    CU_ASSERT_FALSE(sluice_health_read(health, reason, sizeof(reason)));
    CU_ASSERT_STRING_EQUAL(reason, "the root is gone; a worker hangs");
    CU_ASSERT_FALSE(sluice_health_read(health, cut, sizeof(cut)));
    CU_ASSERT_STRING_EQUAL(cut, "the roo");
    sluice_health_set(health, SLUICE_HEALTH_WORKERS, true);
    sluice_health_set(health, SLUICE_HEALTH_ROOT, true);
    CU_ASSERT(sluice_health_read(health, reason, sizeof(reason)));
    sluice_health_stop(health);
    CU_ASSERT_FALSE(sluice_health_read(health, reason, sizeof(reason)));
    CU_ASSERT_STRING_EQUAL(reason, "the server is stopping");
    sluice_health_destroy(health);
}
