#include "storage_top/poll.h"

#include "base/clock.h"
#include "base/log.h"
#include "support/test.h"

#include <math.h>

TEST(rates_are_over_the_time_between_two_answers)
{
    const struct sluice_wire_stats before = {
        .uptime_s = 10, .busy_cores = 1, .wire_bytes = 1000, .samples = 100};
    const struct sluice_wire_stats now = {
        .uptime_s = 12, .busy_cores = 1.5, .wire_bytes = 5000, .samples = 130};
    const struct top_rates rates = top_rates_between(&before, &now);
    CU_ASSERT_DOUBLE_EQUAL(rates.cores, (18.0 - 10.0) / 2, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(rates.bytes_per_s, 2000, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(rates.samples_per_s, 15, 1e-9);
}

TEST(one_answer_has_no_rates)
{
    const struct sluice_wire_stats none = {0}, now = {.uptime_s = 2, .samples = 9};
    CU_ASSERT(isnan(top_rates_between(&none, &now).samples_per_s));
    CU_ASSERT(isnan(top_rates_between(&now, &now).samples_per_s));
}

TEST(a_server_that_was_started_anew_has_no_rates)
{
    const struct sluice_wire_stats before = {.uptime_s = 90, .samples = 9000};
    const struct sluice_wire_stats now = {.uptime_s = 2, .samples = 9};
    const struct top_rates rates = top_rates_between(&before, &now);
    CU_ASSERT(isnan(rates.cores) && isnan(rates.bytes_per_s) && isnan(rates.samples_per_s));
}

TEST(a_server_that_is_not_there_is_away)
{
    struct top_options options = {.interval_s = 0.05, .num_targets = 2};
    strcpy(options.targets[0], "127.0.0.1:1");
    strcpy(options.targets[1], "127.0.0.1:2");
    struct top_poll *poll = NULL;
    struct top_server servers[2];
    sluice_log_set_level(SLUICE_LOG_ERROR);
    REQUIRE_OK(top_poll_create(&options, &poll, NULL));
    top_poll_wait(poll, 2, sluice_clock_ns() + UINT64_C(60000000000));
    REQUIRE_OK(top_poll_read(poll, servers, NULL));
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(servers[i].state, TOP_AWAY);
        CU_ASSERT(servers[i].attempts >= 2);
        CU_ASSERT(servers[i].age_s < 0);
        CU_ASSERT_EQUAL(servers[i].num_clients, 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(servers[i].why, "connection refused"));
    }
    top_servers_clear(servers, 2);
    top_poll_destroy(poll);
    top_poll_destroy(NULL);
}

TEST(a_token_file_that_is_not_there_is_an_error)
{
    struct top_options options = {
        .interval_s = 1, .num_targets = 1, .connection = {.token_file = "/nowhere/token"}};
    strcpy(options.targets[0], "127.0.0.1:1");
    struct top_poll *poll = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_NOT_EQUAL(top_poll_create(&options, &poll, &err), SLUICE_OK);
    CU_ASSERT_PTR_NULL(poll);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/nowhere/token"));
}
