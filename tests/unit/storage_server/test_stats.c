#include "storage_server/observe/stats.h"

#include "base/buf.h"
#include "support/test.h"

#include <jansson.h>

static void count(struct sluice_stats *stats, sluice_status status, unsigned split,
                  enum sluice_form form, size_t len, bool is_reduced)
{
    struct sluice_wire_sample_reply reply = {.status = status, .ops_done = split, .form = form};
    if (status == SLUICE_OK) {
        REQUIRE_OK(sluice_buf_create(NULL, len, &reply.payload, NULL));
        reply.payload->len = len;
    }
    sluice_stats_count(stats, &reply, is_reduced, 1000);
    sluice_buf_unref(reply.payload);
}

TEST(counts_samples_bytes_and_errors_by_kind)
{
    struct sluice_stats stats;
    sluice_stats_init(&stats, 1000000000);
    count(&stats, SLUICE_OK, 0, SLUICE_FORM_RAW, 100, false);
    count(&stats, SLUICE_OK, 0, SLUICE_FORM_RAW, 50, true);
    count(&stats, SLUICE_OK, 3, SLUICE_FORM_U8, 7, false);
    count(&stats, SLUICE_E_CORRUPT, 0, SLUICE_FORM_RAW, 0, true);
    sluice_stats_count_transfer(&stats, SLUICE_OK, 5, SLUICE_FORM_F32, 1000);
    sluice_stats_count_transfer(&stats, SLUICE_E_NOT_FOUND, 0, SLUICE_FORM_RAW, 0);
    sluice_stats_stream_opened(&stats);
    sluice_stats_stream_opened(&stats);
    sluice_stats_stream_closed(&stats);

    const struct sluice_wire_stats read = sluice_stats_read(&stats, 3500000000);
    CU_ASSERT_DOUBLE_EQUAL(read.uptime_s, 2.5, 1e-9);
    CU_ASSERT_EQUAL(read.samples, 4);
    CU_ASSERT_EQUAL(read.payload_bytes, 1157);
    CU_ASSERT_EQUAL(read.choices[0][SLUICE_FORM_RAW].samples, 2);
    CU_ASSERT_EQUAL(read.choices[0][SLUICE_FORM_RAW].bytes, 150);
    CU_ASSERT_EQUAL(read.choices[3][SLUICE_FORM_U8].samples, 1);
    CU_ASSERT_EQUAL(read.choices[5][SLUICE_FORM_F32].bytes, 1000);
    CU_ASSERT_EQUAL(read.errors[SLUICE_E_CORRUPT], 1);
    CU_ASSERT_EQUAL(read.errors[SLUICE_E_NOT_FOUND], 1);
    CU_ASSERT_EQUAL(read.reduced, 1); /* an error has no ops to be fewer */
    CU_ASSERT_EQUAL(read.streams, 1);
    sluice_stats_clear(&stats);
}

static uint64_t total(const struct sluice_histogram *histogram)
{
    uint64_t sum = 0;
    for (size_t i = 0; i <= SLUICE_HISTOGRAM_BUCKETS; i++)
        sum += histogram->counts[i];
    return sum;
}

TEST(a_samples_time_is_split_into_its_stages)
{
    struct sluice_stats stats;
    sluice_stats_init(&stats, 0);
    const struct sluice_wire_sample_reply reply = {
        .backlog_us = 10, .queue_us = 200, .disk_us = 3000, .work_us = 43000};
    const struct sluice_wire_sample_reply bad = {.status = SLUICE_E_CORRUPT, .work_us = 7};
    sluice_stats_count(&stats, &reply, false, 50000000);
    sluice_stats_count(&stats, &reply, false, 40000000); /* the clocks were read apart */
    sluice_stats_count(&stats, &bad, false, 1000);
    sluice_stats_count_damaged(&stats);
    const struct sluice_service_stats read = sluice_stats_read_service(&stats);
    CU_ASSERT_EQUAL(total(&read.service), 3);
    CU_ASSERT_EQUAL(read.service.sum_ns, 90001000);
    static const uint64_t sums_ns[SLUICE_NUM_STAGES] = {20000, 400000, 6000000, 80000000, 6790000};
    for (int stage = 0; stage < SLUICE_NUM_STAGES; stage++) {
        CU_ASSERT_EQUAL(total(&read.stages[stage]), 2);
        CU_ASSERT_EQUAL(read.stages[stage].sum_ns, sums_ns[stage]);
    }
    CU_ASSERT_EQUAL(read.damaged_requests, 1);
    sluice_stats_clear(&stats);
}

TEST(files_are_counted_by_what_was_read_and_their_index)
{
    struct sluice_stats stats;
    sluice_stats_init(&stats, 0);
    const struct sluice_file_reading readings[] = {
        {.file_bytes = 100, .read_bytes = 100, .use = SLUICE_INDEX_NONE},
        {.file_bytes = 100, .read_bytes = 30, .use = SLUICE_INDEX_HIT},
        {.file_bytes = 100, .read_bytes = 100, .is_again = true},
        {.file_bytes = 10, .read_bytes = 10, .use = SLUICE_INDEX_STALE},
        {.file_bytes = 1, .read_bytes = 1, .use = SLUICE_INDEX_MISSING},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(readings); i++)
        sluice_stats_count_file(&stats, &readings[i]);
    const struct sluice_wire_stats read = sluice_stats_read(&stats, 1);
    CU_ASSERT_EQUAL(read.files.reads, 4);
    CU_ASSERT_EQUAL(read.files.bytes, 211);
    CU_ASSERT_EQUAL(read.files.read_bytes, 241);
    CU_ASSERT_EQUAL(read.jpeg_index.hits, 1);
    CU_ASSERT_EQUAL(read.jpeg_index.stale, 1);
    CU_ASSERT_EQUAL(read.jpeg_index.missing, 1);
    CU_ASSERT_EQUAL(read.jpeg_index.again, 1);
    sluice_stats_clear(&stats);
}

TEST(json_is_one_line_with_what_occurred)
{
    struct sluice_wire_stats stats = {
        .uptime_s = 12.5,
        .samples = 3,
        .payload_bytes = 157,
        .wire_bytes = 200,
        .reduced = 1,
        .refused_paths = 2,
        .queue_depth = 4,
        .queue_peak = 5,
        .prep_workers = 6,
        .prep_cores = 5.5,
        .streams = 7,
        .busy_cores = 0.75,
        .cpu_price = 1.25,
        .cpu_s = 1.5,
        .process_cpu_s = 2.5,
        .files = {8, 9000, 7000},
        .jpeg_index = {11, 12, 13, 14},
    };
    stats.choices[0][SLUICE_FORM_RAW].samples = 2;
    stats.choices[0][SLUICE_FORM_RAW].bytes = 150;
    stats.choices[3][SLUICE_FORM_U8].samples = 1;
    stats.choices[3][SLUICE_FORM_U8].bytes = 7;
    stats.errors[SLUICE_E_CORRUPT] = 9;

    char *text = NULL;
    REQUIRE_OK(sluice_stats_json(&stats, NULL, &text, NULL));
    CU_ASSERT_PTR_NULL(strchr(text, '\n'));
    json_t *root = json_loads(text, 0, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(root);

    double uptime, cores, price, cpu, process_cpu, prep_cores;
    int files[3], index[4];
    int samples, payload, wire, reduced, refused, depth, peak, workers, streams;
    int raw, raw_bytes, u8, u8_bytes, corrupt;
    CU_ASSERT_EQUAL(json_unpack(root,
                                "{s:f, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:i, s:f, s:f,"
                                " s:{s:i, s:i !}, s:{s:i, s:i !}, s:{s:i !},"
                                " s:f, s:f, s:{s:i, s:i, s:i !}, s:{s:i, s:i, s:i, s:i !} !}",
                                "uptime_s", &uptime, "samples", &samples, "payload_bytes", &payload,
                                "wire_bytes", &wire, "reduced", &reduced, "refused_paths", &refused,
                                "queue_depth", &depth, "queue_peak", &peak, "prep_workers",
                                &workers, "prep_cores", &prep_cores, "streams", &streams,
                                "busy_cores", &cores, "cpu_price", &price, "choices", "raw@0", &raw,
                                "u8@3", &u8, "choice_bytes", "raw@0", &raw_bytes, "u8@3", &u8_bytes,
                                "errors", "corrupt", &corrupt, "cpu_s", &cpu, "process_cpu_s",
                                &process_cpu, "files", "reads", &files[0], "bytes", &files[1],
                                "read_bytes", &files[2], "jpeg_index", "hits", &index[0], "stale",
                                &index[1], "missing", &index[2], "again", &index[3]),
                    0);
    CU_ASSERT_DOUBLE_EQUAL(uptime, 12.5, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(cores, 0.75, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(process_cpu, 2.5, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(price, 1.25, 1e-6);
    CU_ASSERT_EQUAL(samples, 3);
    CU_ASSERT_EQUAL(payload, 157);
    CU_ASSERT_EQUAL(wire, 200);
    CU_ASSERT_EQUAL(reduced, 1);
    CU_ASSERT_EQUAL(refused, 2);
    CU_ASSERT_EQUAL(depth, 4);
    CU_ASSERT_EQUAL(peak, 5);
    CU_ASSERT_EQUAL(workers, 6);
    CU_ASSERT_DOUBLE_EQUAL(prep_cores, 5.5, 1e-6);
    CU_ASSERT_EQUAL(streams, 7);
    CU_ASSERT_EQUAL(raw, 2);
    CU_ASSERT_EQUAL(raw_bytes, 150);
    CU_ASSERT_EQUAL(u8, 1);
    CU_ASSERT_EQUAL(u8_bytes, 7);
    CU_ASSERT_EQUAL(corrupt, 9);
    CU_ASSERT_DOUBLE_EQUAL(cpu, 1.5, 1e-6);
    CU_ASSERT(files[0] == 8 && files[1] == 9000 && files[2] == 7000);
    CU_ASSERT(index[0] == 11 && index[1] == 12 && index[2] == 13 && index[3] == 14);
    json_decref(root);
    free(text);
}

TEST(json_tells_of_a_cache_where_there_is_one)
{
    const struct sluice_wire_stats stats = {.samples = 1};
    const struct sluice_store_cache_counts cache = {.hits = 1,
                                                    .misses = 2,
                                                    .hit_bytes = 3,
                                                    .miss_bytes = 4,
                                                    .evictions = 5,
                                                    .errors = 6,
                                                    .bytes = 7};
    char *text = NULL;
    REQUIRE_OK(sluice_stats_json(&stats, &cache, &text, NULL));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"cache\":{\"hits\":1,\"misses\":2,\"hit_bytes\":3,"
                                        "\"miss_bytes\":4,\"evictions\":5,\"errors\":6,"
                                        "\"bytes\":7}"));
    free(text);
}
