#include "storage_server/data/descriptors.h"

#include "support/capture.h"
#include "support/test.h"

#include <sys/resource.h>

static struct sluice_server_options some_options(void)
{
    struct sluice_server_options options = sluice_server_options_init();
    options.prep_workers = 2;
    options.io_workers = 2;
    return options;
}

TEST(connections_get_what_the_rest_leaves)
{
    struct sluice_server_options options = some_options();
    CHECK_OK(sluice_descriptors_share(100, &options, NULL));
    CU_ASSERT_EQUAL(options.max_connections, 60);
    CU_ASSERT_EQUAL(options.max_connections_per_host, 30);

    struct sluice_server_options more = some_options();
    more.metrics = "127.0.0.1:0";
    more.prep_workers = 10;
    CHECK_OK(sluice_descriptors_share(200, &more, NULL));
    CU_ASSERT(more.max_connections < 200 - 2 * 12 - 64);
    CU_ASSERT(more.max_connections >= 8);
}

TEST(the_default_has_an_end)
{
    struct sluice_server_options options = some_options();
    CHECK_OK(sluice_descriptors_share(1u << 20, &options, NULL));
    CU_ASSERT_EQUAL(options.max_connections, 8192);
    CU_ASSERT_EQUAL(options.max_connections_per_host, 4096);
}

TEST(what_was_given_stays_or_is_refused)
{
    struct sluice_server_options options = some_options();
    options.max_connections = 60;
    options.max_connections_per_host = 50;
    CHECK_OK(sluice_descriptors_share(100, &options, NULL));
    CU_ASSERT_EQUAL(options.max_connections, 60);
    CU_ASSERT_EQUAL(options.max_connections_per_host, 50);
    options.max_connections = 61;
    CHECK_FAILS(SLUICE_E_INVALID, "61 connections need 101 descriptors",
                sluice_descriptors_share(100, &options, sluice_test_err()));

    static const uint64_t too_low[] = {0, 20, 40, 47};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(too_low); i++) {
        struct sluice_server_options few = some_options();
        CU_ASSERT_EQUAL(sluice_descriptors_share(too_low[i], &few, NULL), SLUICE_E_INVALID);
    }
}

TEST(a_part_larger_than_the_whole_is_told)
{
    static struct sluice_test_output output;
    for (unsigned per_host = 50; per_host <= 51; per_host++) {
        struct sluice_server_options options = some_options();
        options.max_connections = 50;
        options.max_connections_per_host = per_host;
        sluice_test_capture_begin();
        const sluice_status status = sluice_descriptors_share(10000, &options, NULL);
        sluice_test_capture_end(&output);
        CHECK_OK(status);
        CU_ASSERT_EQUAL(strstr(output.err, "--max-connections-per-host 51") != NULL, per_host > 50);
    }
}

TEST(the_soft_limit_becomes_the_hard_one)
{
    struct rlimit limit;
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit low = {limit.rlim_max < 64 ? limit.rlim_max : 64, limit.rlim_max};
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &low), 0);
    const uint64_t raised = sluice_descriptors_raise();
    struct rlimit now;
    CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &now), 0);
    CU_ASSERT_EQUAL(now.rlim_cur, raised);
    CU_ASSERT_EQUAL(sluice_descriptors_limit(), raised);
    CU_ASSERT_EQUAL(now.rlim_max, limit.rlim_max);
    CU_ASSERT_EQUAL(raised, limit.rlim_max < 1u << 20 ? limit.rlim_max : 1u << 20);
}
