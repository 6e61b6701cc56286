#include "trace/tracer.h"

#include "base/clock.h"
#include "base/log.h"
#include "support/test.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>

static char path[4096];

static struct sluice_tracer *open_tracer(double sample, const char *parent, unsigned max_lines)
{
    struct sluice_tracer *tracer = NULL;
    snprintf(path, sizeof(path), "%s/trace", sluice_test_dir());
    (void)remove(path);
    const struct sluice_tracer_options options = {.path = path,
                                                  .service = "a program",
                                                  .sample = sample,
                                                  .parent = parent,
                                                  .max_lines_per_s = max_lines};
    REQUIRE_OK(sluice_tracer_open(&options, &tracer, NULL));
    return tracer;
}

/* Each line is JSON; returns how many there are, and the last one to be freed. */
static unsigned read_lines(json_t **last)
{
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    static char line[16384];
    unsigned count = 0;
    *last = NULL;
    while (fgets(line, sizeof(line), file)) {
        json_decref(*last);
        *last = json_loads(line, 0, NULL);
        CU_ASSERT_PTR_NOT_NULL(*last);
        CU_ASSERT_PTR_NOT_NULL(strchr(line, '\n'));
        count++;
    }
    fclose(file);
    return count;
}

static const json_t *first(const json_t *object, const char *name)
{
    return json_array_get(json_object_get(object, name), 0);
}

static const char *text(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));
    return value ? value : "";
}

TEST(a_line_has_all_spans_of_a_sample)
{
    struct sluice_tracer *tracer = open_tracer(1, NULL, 0);
    const struct sluice_trace_context context = {{0x0123456789abcdef, 7}, 0xf};
    const struct sluice_attribute attributes[] = {
        {.name = "t", .text = "a\n\xff\""},
        {.name = "c", .type = SLUICE_ATTRIBUTE_COUNT, .count = UINT64_MAX},
        {.name = "nan", .type = SLUICE_ATTRIBUTE_REAL, .real = NAN},
        {.name = "r", .type = SLUICE_ATTRIBUTE_REAL, .real = 0.5},
    };
    const uint64_t now_ns = sluice_clock_ns();
    const struct sluice_span spans[] = {
        {"whole", SLUICE_SPAN_CLIENT, 0xf, 0, now_ns - 500, now_ns, attributes, 4, "it failed"},
        {"part", SLUICE_SPAN_INTERNAL, 0x10, 0xf, now_ns - 500, now_ns - 100, NULL, 0, NULL},
    };
    sluice_tracer_write(tracer, &context, spans, 2);
    sluice_tracer_close(tracer);
    json_t *line = NULL;
    CU_ASSERT_EQUAL_FATAL(read_lines(&line), 1);
    const json_t *resource = first(line, "resourceSpans");
    const json_t *service = first(json_object_get(resource, "resource"), "attributes");
    CU_ASSERT_STRING_EQUAL(text(service, "key"), "service.name");
    CU_ASSERT_STRING_EQUAL(text(json_object_get(service, "value"), "stringValue"), "a program");
    const json_t *list = json_object_get(first(resource, "scopeSpans"), "spans");
    CU_ASSERT_EQUAL_FATAL(json_array_size(list), 2);
    const json_t *whole = json_array_get(list, 0), *part = json_array_get(list, 1);
    CU_ASSERT_STRING_EQUAL(text(whole, "traceId"), "0123456789abcdef0000000000000007");
    CU_ASSERT_STRING_EQUAL(text(whole, "spanId"), "000000000000000f");
    CU_ASSERT_PTR_NULL(json_object_get(whole, "parentSpanId"));
    CU_ASSERT_STRING_EQUAL(text(part, "parentSpanId"), "000000000000000f");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(whole, "kind")), 3);
    const uint64_t start = strtoull(text(whole, "startTimeUnixNano"), NULL, 10);
    CU_ASSERT_EQUAL(strtoull(text(whole, "endTimeUnixNano"), NULL, 10) - start, 500);
    CU_ASSERT(start > UINT64_C(1600000000000000000)); /* 2020 */
    const json_t *named = json_object_get(whole, "attributes");
    CU_ASSERT_EQUAL(json_array_size(named), 3);
    CU_ASSERT_STRING_EQUAL(text(json_object_get(json_array_get(named, 0), "value"), "stringValue"),
                           "a\\n\\xff\"");
    CU_ASSERT_STRING_EQUAL(text(json_object_get(json_array_get(named, 1), "value"), "intValue"),
                           "18446744073709551615");
    CU_ASSERT_STRING_EQUAL(text(json_object_get(whole, "status"), "message"), "it failed");
    CU_ASSERT_PTR_NULL(json_object_get(part, "status"));
    json_decref(line);
}

TEST(every_run_picks_the_same_share_under_other_ids)
{
    struct sluice_tracer *one = open_tracer(0.1, NULL, 0), *two = open_tracer(0.1, NULL, 0);
    unsigned picked = 0;
    for (uint64_t sample = 0; sample < 20000; sample++) {
        const struct sluice_trace_context a = sluice_tracer_pick(one, 5, 1, sample);
        const struct sluice_trace_context b = sluice_tracer_pick(two, 5, 1, sample);
        CU_ASSERT_EQUAL(a.span != 0, b.span != 0);
        if (!a.span)
            continue;
        picked++;
        CU_ASSERT_NOT_EQUAL(a.trace[0], b.trace[0]);
        CU_ASSERT_NOT_EQUAL(a.span, b.span);
    }
    CU_ASSERT(picked > 1700 && picked < 2300); /* 7 standard deviations: 42 each */
    sluice_tracer_close(one);
    sluice_tracer_close(two);
}

TEST(all_and_none_are_exact)
{
    struct sluice_tracer *all = open_tracer(1, NULL, 0), *none = open_tracer(0, NULL, 0);
    for (uint64_t sample = 0; sample < 1000; sample++) {
        CU_ASSERT_NOT_EQUAL(sluice_tracer_pick(all, 0, 0, sample).span, 0);
        CU_ASSERT_EQUAL(sluice_tracer_pick(none, 0, 0, sample).span, 0);
        CU_ASSERT_EQUAL(sluice_tracer_pick(NULL, 0, 0, sample).span, 0);
    }
    sluice_tracer_close(all);
    sluice_tracer_close(none);
    sluice_tracer_close(NULL);
}

TEST(a_parents_trace_is_that_of_all)
{
    struct sluice_tracer *tracer =
        open_tracer(1, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", 0);
    const struct sluice_trace_context a = sluice_tracer_pick(tracer, 0, 0, 1);
    const struct sluice_trace_context b = sluice_tracer_pick(tracer, 0, 0, 2);
    CU_ASSERT_EQUAL(a.trace[0], 0x4bf92f3577b34da6);
    CU_ASSERT_EQUAL(b.trace[1], 0xa3ce929d0e0e4736);
    CU_ASSERT_NOT_EQUAL(a.span, b.span);
    CU_ASSERT_EQUAL(sluice_tracer_parent(tracer), 0x00f067aa0ba902b7);
    sluice_tracer_close(tracer);
    const struct sluice_tracer_options wrong = {.path = path, .service = "x", .parent = "x"};
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_tracer_open(&wrong, &tracer, &err), SLUICE_E_INVALID);
    const struct sluice_tracer_options nowhere = {.path = "/nowhere/t", .service = "x"};
    CHECK_FAILS(SLUICE_E_IO, "/nowhere/t",
                sluice_tracer_open(&nowhere, &tracer, sluice_test_err()));
}

static const struct sluice_trace_context some = {{1, 2}, 3};

static void *write_many(void *tracer)
{
    const struct sluice_span span = {.name = "s", .kind = SLUICE_SPAN_INTERNAL, .id = 3};
    for (int i = 0; i < 200; i++)
        sluice_tracer_write(tracer, &some, &span, 1);
    return NULL;
}

TEST(lines_of_threads_do_not_mix)
{
    struct sluice_tracer *tracer = open_tracer(1, NULL, 0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, write_many, tracer), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    sluice_tracer_close(tracer);
    json_t *last = NULL;
    CU_ASSERT_EQUAL(read_lines(&last), 800);
    json_decref(last);
}

TEST(what_is_above_the_limit_is_dropped)
{
    sluice_log_set_level(SLUICE_LOG_ERROR);
    const uint64_t start_ns = sluice_clock_ns();
    struct sluice_tracer *tracer = open_tracer(1, NULL, 10);
    (void)write_many(tracer);
    const uint64_t seconds = (sluice_clock_ns() - start_ns) / 1000000000 + 1;
    sluice_tracer_close(tracer);
    json_t *last = NULL;
    const unsigned lines = read_lines(&last);
    CU_ASSERT(lines >= 10 && lines <= 10 * seconds);
    json_decref(last);
}
