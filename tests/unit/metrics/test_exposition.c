#include "metrics/exposition.h"

#include "base/text.h"
#include "support/test.h"

#include <math.h>

static struct sluice_exposition *begin(void)
{
    struct sluice_exposition *page = sluice_exposition_create();
    if (!page)
        abort();
    return page;
}

/* Ends the page and compares it. */
static void expect(struct sluice_exposition *page, const char *text)
{
    char *made = sluice_exposition_finish(page);
    if (!made)
        abort();
    CU_ASSERT_STRING_EQUAL(made, text);
    free(made);
}

TEST(a_page_without_families_is_empty)
{
    expect(begin(), "");
}

TEST(each_family_has_help_and_type_before_its_samples)
{
    struct sluice_exposition *page = begin();
    const struct sluice_label a[] = {{"form", "u8"}, {"split", "3"}}, b[] = {{"form", "raw"}};
    sluice_exposition_family(page, "sluice_a_total", SLUICE_COUNTER, "Of a.");
    sluice_exposition_count(page, a, 2, 7);
    sluice_exposition_count(page, b, 1, UINT64_MAX);
    sluice_exposition_gauge(page, "sluice_b", 1.5, "Of b.");
    sluice_exposition_counter(page, "sluice_c_total", 3, "Of c.");
    sluice_exposition_seconds(page, "sluice_d_seconds_total", 0.1, "Of d.");
    expect(page, "# HELP sluice_a_total Of a.\n"
                 "# TYPE sluice_a_total counter\n"
                 "sluice_a_total{form=\"u8\",split=\"3\"} 7\n"
                 "sluice_a_total{form=\"raw\"} 18446744073709551615\n"
                 "# HELP sluice_b Of b.\n"
                 "# TYPE sluice_b gauge\n"
                 "sluice_b 1.5\n"
                 "# HELP sluice_c_total Of c.\n"
                 "# TYPE sluice_c_total counter\n"
                 "sluice_c_total 3\n"
                 "# HELP sluice_d_seconds_total Of d.\n"
                 "# TYPE sluice_d_seconds_total counter\n"
                 "sluice_d_seconds_total 0.1\n");
}

TEST(values_come_back_as_they_were)
{
    static const double values[] = {0, 1.0 / 3, 1e15 + 0.3, 1e-300, -2.5, 123456789.123};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(values); i++) {
        struct sluice_exposition *page = begin();
        sluice_exposition_gauge(page, "sluice_a", values[i], "A.");
        char *text = sluice_exposition_finish(page);
        const char *value = text ? strstr(text, "\nsluice_a ") : NULL;
        CU_ASSERT_PTR_NOT_NULL_FATAL(value);
        CU_ASSERT_EQUAL(strtod(value + strlen("\nsluice_a "), NULL), values[i]);
        free(text);
    }
}

TEST(what_is_no_number_is_spelled_as_prometheus_does)
{
    struct sluice_exposition *page = begin();
    sluice_exposition_family(page, "sluice_a", SLUICE_GAUGE, "A.");
    sluice_exposition_value(page, NULL, 0, (double)NAN);
    sluice_exposition_value(page, NULL, 0, (double)INFINITY);
    sluice_exposition_value(page, NULL, 0, -(double)INFINITY);
    expect(page, "# HELP sluice_a A.\n# TYPE sluice_a gauge\n"
                 "sluice_a NaN\nsluice_a +Inf\nsluice_a -Inf\n");
}

TEST(label_values_are_escaped)
{
    struct sluice_exposition *page = begin();
    const struct sluice_label label = {"client", "a\"b\nc\\d"};
    sluice_exposition_family(page, "sluice_a", SLUICE_GAUGE, "A.");
    sluice_exposition_count(page, &label, 1, 1);
    expect(page, "# HELP sluice_a A.\n# TYPE sluice_a gauge\n"
                 "sluice_a{client=\"a\\\"b\\\\nc\\\\d\"} 1\n");
}

TEST(control_characters_of_a_label_are_shown_and_not_sent)
{
    struct sluice_exposition *page = begin();
    const struct sluice_label label = {"client", "\x1b[2J\x7f\xc2\x9b"};
    sluice_exposition_family(page, "sluice_a", SLUICE_GAUGE, "A.");
    sluice_exposition_count(page, &label, 1, 1);
    expect(page, "# HELP sluice_a A.\n# TYPE sluice_a gauge\n"
                 "sluice_a{client=\"\\\\x1b[2J\\\\x7f\\\\xc2\\\\x9b\"} 1\n");
}

TEST(label_values_become_valid_utf8)
{
    struct sluice_exposition *page = begin();
    const struct sluice_label labels[] = {{"a", "\xff"}, {"b", "\xc3\xa9\xe2\x82"}, {"c", ""}};
    sluice_exposition_family(page, "sluice_a", SLUICE_GAUGE, "A.");
    sluice_exposition_count(page, labels, 3, 1);
    expect(page, "# HELP sluice_a A.\n# TYPE sluice_a gauge\n"
                 "sluice_a{a=\"\xef\xbf\xbd\",b=\"\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\",c=\"\"} 1\n");
}

TEST(any_bytes_make_one_line_that_reads_back)
{
    uint64_t state = sluice_test_seed();
    for (int round = 0; round < 1000; round++) {
        char value[24];
        size_t len = 0;
        while (len + 1 < sizeof(value)) {
            static const char special[] = "\"\\\n{},= #\xc3\xa9";
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
            const char c = (char)(state >> 40);
            value[len++] = state >> 63 ? special[(state >> 33) % (sizeof(special) - 1)] : c;
        }
        value[len] = '\0';
        struct sluice_exposition *page = begin();
        const struct sluice_label label = {"a", value};
        sluice_exposition_family(page, "sluice_a", SLUICE_GAUGE, "A.");
        sluice_exposition_count(page, &label, 1, 5);
        char *text = sluice_exposition_finish(page);
        CU_ASSERT_PTR_NOT_NULL_FATAL(text);
        CU_ASSERT(sluice_is_utf8(text));
        /* Back by the format's rules. */
        const char *in = strchr(strstr(text, "\nsluice_a{") + 1, '"') + 1;
        char back[5 * sizeof(value)], valid[5 * sizeof(value)];
        size_t n = 0;
        while (*in && *in != '"' && *in != '\n') {
            in += *in == '\\';
            back[n++] = *in++;
        }
        back[n] = '\0';
        CU_ASSERT_STRING_EQUAL(in, "\"} 5\n");
        sluice_label_text(valid, sizeof(valid), value);
        CU_ASSERT_STRING_EQUAL(back, valid);
        free(text);
    }
}

TEST(label_text_is_cut_between_characters)
{
    char out[6];
    sluice_label_text(out, sizeof(out), "ab\xc3\xa9\xc3\xa9z");
    CU_ASSERT_STRING_EQUAL(out, "ab\xc3\xa9");
    sluice_label_text(out, sizeof(out), "a\xff\xffz");
    CU_ASSERT_STRING_EQUAL(out, "a\xef\xbf\xbd");
    sluice_label_text(out, sizeof(out), "abcde");
    CU_ASSERT_STRING_EQUAL(out, "abcde");
    sluice_label_text(out, 1, "abc");
    CU_ASSERT_STRING_EQUAL(out, "");
}

TEST(buckets_may_have_bounds_of_their_own)
{
    static const uint64_t bounds_ns[] = {1000, 2000000}, counts[] = {3, 0, 2};
    struct sluice_exposition *page = begin();
    sluice_exposition_family(page, "sluice_a_seconds", SLUICE_HISTOGRAM, "A.");
    sluice_exposition_buckets(page, NULL, 0, bounds_ns, 2, counts, 4500000000);
    char *text = sluice_exposition_finish(page);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nsluice_a_seconds_bucket{le=\"1e-06\"} 3\n"
                                        "sluice_a_seconds_bucket{le=\"0.002\"} 3\n"
                                        "sluice_a_seconds_bucket{le=\"+Inf\"} 5\n"
                                        "sluice_a_seconds_sum 4.5\n"
                                        "sluice_a_seconds_count 5\n"));
    free(text);
}

TEST(buckets_are_cumulative_and_end_with_inf)
{
    struct sluice_histogram histogram = {0};
    sluice_histogram_add(&histogram, 50000);         /* <= 0.0001 */
    sluice_histogram_add(&histogram, 300000);        /* <= 0.0005 */
    sluice_histogram_add(&histogram, 7000000000);    /* <= 10 */
    sluice_histogram_add(&histogram, 3600000000000); /* above all */
    struct sluice_exposition *page = begin();
    const struct sluice_label label = {"stage", "work"};
    sluice_exposition_family(page, "sluice_a_seconds", SLUICE_HISTOGRAM, "A.");
    sluice_exposition_histogram(page, &label, 1, &histogram);
    char *text = sluice_exposition_finish(page);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    static const char *const lines[] = {
        "# TYPE sluice_a_seconds histogram\n"
        "sluice_a_seconds_bucket{stage=\"work\",le=\"0.0001\"} 1\n"
        "sluice_a_seconds_bucket{stage=\"work\",le=\"0.00025\"} 1\n"
        "sluice_a_seconds_bucket{stage=\"work\",le=\"0.0005\"} 2\n",
        "\nsluice_a_seconds_bucket{stage=\"work\",le=\"2.5\"} 2\n",
        "\nsluice_a_seconds_bucket{stage=\"work\",le=\"5\"} 2\n"
        "sluice_a_seconds_bucket{stage=\"work\",le=\"10\"} 3\n",
        "\nsluice_a_seconds_bucket{stage=\"work\",le=\"60\"} 3\n"
        "sluice_a_seconds_bucket{stage=\"work\",le=\"+Inf\"} 4\n"
        "sluice_a_seconds_sum{stage=\"work\"} 3607.00035\n"
        "sluice_a_seconds_count{stage=\"work\"} 4\n",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(lines); i++)
        CU_ASSERT_PTR_NOT_NULL(strstr(text, lines[i]));
    free(text);

    page = begin();
    sluice_exposition_family(page, "sluice_b_seconds", SLUICE_HISTOGRAM, "B.");
    sluice_exposition_histogram(page, NULL, 0, &histogram);
    text = sluice_exposition_finish(page);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nsluice_b_seconds_bucket{le=\"+Inf\"} 4\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nsluice_b_seconds_count 4\n"));
    free(text);
}
