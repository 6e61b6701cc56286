#include "storage_top/table.h"

#include "support/test.h"

#include <math.h>

static struct top_client client;
static struct top_server servers[2];

static void init(void)
{
    client = (struct top_client){.counts = {.name = "team",
                                            .address = "10.0.0.1",
                                            .token = "team",
                                            .samples = 7,
                                            .streams = 1},
                                 .rates = {NAN, 1e6, 25}};
    servers[0] = (struct top_server){
        .target = "storage:50051",
        .state = TOP_OK,
        .age_s = 0.25,
        .stats = {.server = "offload_server 1",
                  .prep_cores = 4,
                  .queue_depth = 3,
                  .memory_used = 2000000,
                  .memory_limit = 1000000000,
                  .refused_calls = 2,
                  .refused_connections = 1,
                  .jpeg_index = {.hits = 3, .missing = 1}},
        .rates = {1.5, 12.5e6, 100},
        .clients = &client,
        .num_clients = 1,
        .attempts = 2,
        .answers = 2,
    };
    servers[0].stats.errors[SLUICE_E_IO] = 5;
    servers[1] = (struct top_server){.target = "other:1",
                                     .state = TOP_AWAY,
                                     .why = "cannot reach other:1",
                                     .age_s = -1,
                                     .rates = {NAN, NAN, NAN}};
}

TEST(a_line_for_each_server_and_client_and_reason)
{
    init();
    struct top_lines lines;
    REQUIRE_OK(top_table_make(servers, 2, &lines, NULL));
    CU_ASSERT_EQUAL_FATAL(lines.num_lines, 8);
    char words[16][32] = {{0}};
    CU_ASSERT_EQUAL(sscanf(lines.lines[1], "%31s %31s %31s %31s %31s %31s %31s %31s %31s", words[0],
                           words[1], words[2], words[3], words[4], words[5], words[6], words[7],
                           words[8]),
                    9);
    CU_ASSERT_STRING_EQUAL(words[0], "storage:50051");
    CU_ASSERT_STRING_EQUAL(words[1], "ok");
    CU_ASSERT_STRING_EQUAL(words[2], "1.50/4.00");
    CU_ASSERT_STRING_EQUAL(words[3], "3");
    CU_ASSERT_STRING_EQUAL(words[4], "100"); /* Mbit/s */
    CU_ASSERT_STRING_EQUAL(words[5], "100");
    CU_ASSERT_STRING_EQUAL(words[6], "1");
    CU_ASSERT_STRING_EQUAL(words[8], "75%");
    CU_ASSERT(lines.are_heads[0] && !lines.are_heads[1] && lines.are_heads[4]);
    CU_ASSERT_PTR_NOT_NULL(strstr(lines.lines[2], "away"));
    CU_ASSERT_STRING_EQUAL(lines.lines[3], "");
    CU_ASSERT_PTR_NOT_NULL(strstr(lines.lines[5], "team"));
    CU_ASSERT_STRING_EQUAL(lines.lines[7], "cannot reach other:1");
    /* Numbers stand below their columns' ends. */
    CU_ASSERT_EQUAL(strlen(lines.lines[0]), strlen(lines.lines[1]));
    top_lines_clear(&lines);
    top_lines_clear(&lines);
}

TEST(a_terminal_obeys_no_name)
{
    init();
    snprintf(client.counts.name, sizeof(client.counts.name), "a\x1b[2Jb\xff");
    struct top_lines lines;
    REQUIRE_OK(top_table_make(servers, 1, &lines, NULL));
    for (size_t i = 0; i < lines.num_lines; i++)
        CU_ASSERT_PTR_NULL(strpbrk(lines.lines[i], "\x1b\xff"));
    CU_ASSERT_PTR_NOT_NULL(strstr(lines.lines[4], "a\\x1b[2Jb\\xff"));
    top_lines_clear(&lines);
}

TEST(long_texts_are_cut_and_wide_ones_align)
{
    init();
    memset(client.counts.name, 1, sizeof(client.counts.name) - 1); /* 4 characters for each byte */
    struct top_lines lines;
    REQUIRE_OK(top_table_make(servers, 1, &lines, NULL));
    top_lines_clear(&lines);
    struct top_client two[] = {client, client};
    snprintf(two[0].counts.name, sizeof(two[0].counts.name), "\xc3\xa4\xc3\xb6\xc3\xbc");
    snprintf(two[1].counts.name, sizeof(two[1].counts.name), "aou");
    servers[0].clients = two;
    servers[0].num_clients = 2;
    REQUIRE_OK(top_table_make(servers, 1, &lines, NULL));
    CU_ASSERT_EQUAL(strlen(lines.lines[4]), strlen(lines.lines[5]) + 3);
    top_lines_clear(&lines);
}

TEST(a_client_of_before_is_not_shown)
{
    init();
    client.counts.streams = 0;
    client.rates.samples_per_s = 0;
    struct top_lines lines;
    REQUIRE_OK(top_table_make(servers, 1, &lines, NULL));
    CU_ASSERT_EQUAL(lines.num_lines, 2);
    top_lines_clear(&lines);
}

TEST(what_hangs_and_what_does_not_serve_is_said)
{
    init();
    servers[0].stats.hanging_workers = 2;
    struct top_lines lines;
    REQUIRE_OK(top_table_make(servers, 1, &lines, NULL));
    CU_ASSERT_PTR_NOT_NULL(strstr(lines.lines[1], "2 hang"));
    top_lines_clear(&lines);
    servers[0].state = TOP_NOT_SERVING;
    REQUIRE_OK(top_table_make(servers, 1, &lines, NULL));
    CU_ASSERT_PTR_NOT_NULL(strstr(lines.lines[1], "not serving"));
    top_lines_clear(&lines);
}
