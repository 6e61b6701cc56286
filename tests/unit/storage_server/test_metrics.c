#include "storage_server/observe/metrics.h"

#include "support/test.h"

static struct sluice_server_counts some_counts(void)
{
    struct sluice_server_counts counts = {
        .stats = {.uptime_s = 2.5,
                  .samples = 10,
                  .wire_bytes = 1ull << 40,
                  .refused_paths = 3,
                  .queue_depth = 4,
                  .cpu_price = 0.25,
                  .cpu_s = 6.5,
                  .process_cpu_s = 7.25,
                  .streams = 2,
                  .files = {8, 9000, 7000},
                  .jpeg_index = {11, 12, 13, 14}},
        .service = {.damaged_requests = 15},
        .num_clients = 2,
        .clients = {{.name = "gpu \"1\"",
                     .address = "10.0.0.1",
                     .samples = 16,
                     .payload_bytes = 17,
                     .errors = 18,
                     .streams = 19},
                    {.name = "other", .samples = 20}},
        .connections = {.open = 21, .refused = {22, 40, 41, 42}, .cut = 23},
        .refused_calls = {{43, 44, 45, 46}},
        .certificate_end = 1893456000,
        .memory = {.bytes = 24, .used = 25, .peak = 26, .refused = 27, .num_waiting = 28},
        .resident_bytes = 29,
        .dataset = {.id = "00ff", .samples = 30, .classes = 31, .bytes = 32},
        .groups = {{.queue_depth = 33, .num_workers = 34, .busy_ns = 3750000000},
                   {.queue_depth = 35, .num_workers = 36}},
        .unanswered = 37,
        .timeouts = 38,
        .hanging = 39,
        .is_serving = true,
    };
    counts.stats.choices[3][SLUICE_FORM_U8].samples = 7;
    counts.stats.choices[3][SLUICE_FORM_U8].bytes = 7 * 150528;
    counts.stats.errors[SLUICE_E_CORRUPT] = 2;
    sluice_histogram_add(&counts.service.service, 20000000);
    sluice_histogram_add(&counts.service.stages[SLUICE_STAGE_QUEUE], 4000000);
    return counts;
}

static char *make_page(const struct sluice_server_counts *counts)
{
    struct sluice_exposition *page = sluice_exposition_create();
    if (!page)
        abort();
    sluice_metrics_write(counts, page);
    char *text = sluice_exposition_finish(page);
    if (!text)
        abort();
    return text;
}

TEST(the_page_has_every_counter)
{
    const struct sluice_server_counts counts = some_counts();
    char *text = make_page(&counts);
    static const char *const lines[] = {
        "# TYPE sluice_samples_total counter\n",
        "\nsluice_samples_total{split=\"3\",form=\"u8\"} 7\n",
        "\nsluice_payload_bytes_total{split=\"3\",form=\"u8\"} 1053696\n",
        "\nsluice_wire_bytes_total 1099511627776\n",
        "\nsluice_refused_paths_total 3\n",
        "\nsluice_errors_total{status=\"corrupt\"} 2\n",
        "\nsluice_errors_total{status=\"not found\"} 0\n",
        "\nsluice_queue_depth 4\n",
        "\nsluice_busy_core_seconds_total 3.75\n",
        "\nsluice_uptime_seconds 2.5\n",
        "\nsluice_cpu_price 0.25\n",
        "\nsluice_cpu_seconds_total 6.5\n",
        "\nsluice_process_cpu_seconds_total 7.25\n",
        "\nsluice_file_reads_total 8\n",
        "\nsluice_file_bytes_total 9000\n",
        "\nsluice_file_read_bytes_total 7000\n",
        "\nsluice_jpeg_index_total{use=\"hit\"} 11\n",
        "\nsluice_jpeg_index_total{use=\"stale\"} 12\n",
        "\nsluice_jpeg_index_total{use=\"missing\"} 13\n",
        "\nsluice_jpeg_index_total{use=\"again\"} 14\n",
        "\nsluice_streams 2\n",
        "\nsluice_service_seconds_bucket{le=\"0.01\"} 0\n",
        "\nsluice_service_seconds_bucket{le=\"0.025\"} 1\n",
        "\nsluice_service_seconds_sum 0.02\n",
        "\nsluice_service_stage_seconds_sum{stage=\"queue\"} 0.004\n",
        "\nsluice_service_stage_seconds_count{stage=\"send\"} 0\n",
        "\nsluice_damaged_requests_total 15\n",
        "\nsluice_client_samples_total{client=\"gpu \\\"1\\\"\",address=\"10.0.0.1\"} 16\n",
        "\nsluice_client_payload_bytes_total{client=\"gpu \\\"1\\\"\",address=\"10.0.0.1\"} 17\n",
        "\nsluice_client_errors_total{client=\"gpu \\\"1\\\"\",address=\"10.0.0.1\"} 18\n",
        "\nsluice_client_streams{client=\"gpu \\\"1\\\"\",address=\"10.0.0.1\"} 19\n",
        "\nsluice_client_samples_total{client=\"other\",address=\"\"} 20\n",
        "\nsluice_connections 21\n",
        "\nsluice_refused_connections_total{reason=\"connections\"} 22\n",
        "\nsluice_refused_connections_total{reason=\"host\"} 40\n",
        "\nsluice_refused_connections_total{reason=\"paused\"} 41\n",
        "\nsluice_refused_connections_total{reason=\"descriptors\"} 42\n",
        "\nsluice_refused_calls_total{reason=\"no_token\"} 43\n",
        "\nsluice_refused_calls_total{reason=\"unknown_token\"} 44\n",
        "\nsluice_refused_calls_total{reason=\"other_data\"} 45\n",
        "\nsluice_refused_calls_total{reason=\"connections\"} 46\n",
        "\nsluice_certificate_expiry_timestamp_seconds 1893456000\n",
        "\nsluice_root_available 0\n",
        "\nsluice_cut_connections_total 23\n",
        "\nsluice_memory_limit_bytes 24\n",
        "\nsluice_memory_used_bytes 25\n",
        "\nsluice_memory_peak_bytes 26\n",
        "\nsluice_memory_refusals_total 27\n",
        "\nsluice_memory_waiting_streams 28\n",
        "\nsluice_process_resident_bytes 29\n",
        "\nsluice_dataset_info{dataset=\"00ff\"} 1\n",
        "\nsluice_dataset_samples 30\n",
        "\nsluice_dataset_classes 31\n",
        "\nsluice_dataset_bytes 32\n",
        "\nsluice_waiting_jobs{group=\"prep\"} 33\n",
        "\nsluice_workers{group=\"prep\"} 34\n",
        "\nsluice_waiting_jobs{group=\"io\"} 35\n",
        "\nsluice_workers{group=\"io\"} 36\n",
        "\nsluice_unanswered_requests 37\n",
        "\nsluice_sample_timeouts_total 38\n",
        "\nsluice_hanging_workers 39\n",
        "\nsluice_serving 1\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (!strstr(text, lines[i]))
            printf("missing: %s", lines[i]);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, lines[i]));
    }
    free(text);
}

TEST(decoders_are_told_of_where_there_are_some)
{
    struct sluice_server_counts counts = some_counts();
    counts.decoders =
        (struct sluice_decoder_counts){.running = 2, .ends = {3, 4, 5, 6}, .missed = 7};
    char *text = make_page(&counts);
    CU_ASSERT_PTR_NULL(strstr(text, "sluice_decoder"));
    free(text);
    counts.has_decoders = true;
    text = make_page(&counts);
    static const char *const lines[] = {
        "\nsluice_decoders 2\n",
        "\nsluice_decoder_ends_total{cause=\"crashed\"} 3\n",
        "\nsluice_decoder_ends_total{cause=\"killed\"} 4\n",
        "\nsluice_decoder_ends_total{cause=\"hung\"} 5\n",
        "\nsluice_decoder_ends_total{cause=\"bad_answer\"} 6\n",
        "\nsluice_decoder_misses_total 7\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        CU_ASSERT_PTR_NOT_NULL(strstr(text, lines[i]));
    free(text);
}

TEST(a_cache_is_told_of_where_there_is_one)
{
    struct sluice_server_counts counts = some_counts();
    counts.cache = (struct sluice_store_cache_counts){.hits = 2,
                                                      .misses = 3,
                                                      .hit_bytes = 4,
                                                      .miss_bytes = 5,
                                                      .evictions = 6,
                                                      .errors = 7,
                                                      .bytes = 8,
                                                      .max_bytes = 9};
    char *text = make_page(&counts);
    CU_ASSERT_PTR_NULL(strstr(text, "sluice_cache"));
    free(text);
    counts.has_cache = true;
    text = make_page(&counts);
    static const char *const lines[] = {
        "\nsluice_cache_reads_total{result=\"hit\"} 2\n",
        "\nsluice_cache_reads_total{result=\"miss\"} 3\n",
        "\nsluice_cache_read_bytes_total{result=\"hit\"} 4\n",
        "\nsluice_cache_read_bytes_total{result=\"miss\"} 5\n",
        "\nsluice_cache_evictions_total 6\n",
        "\nsluice_cache_errors_total 7\n",
        "\nsluice_cache_bytes 8\n",
        "\nsluice_cache_limit_bytes 9\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        CU_ASSERT_PTR_NOT_NULL(strstr(text, lines[i]));
    free(text);
}

TEST(a_server_that_did_nothing_has_a_page_too)
{
    const struct sluice_server_counts counts = {.dataset.id = ""};
    char *text = make_page(&counts);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nsluice_serving 0\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\n# TYPE sluice_client_samples_total counter\n"));
    CU_ASSERT_PTR_NULL(strstr(text, " NaN"));
    CU_ASSERT_PTR_NULL(strstr(text, "sluice_process_resident_bytes"));
    free(text);
}
