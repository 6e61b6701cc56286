#include "base/parse.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>

struct whole {
    const char *text;
    uint64_t value;
};

struct real {
    const char *text;
    double value;
};

/* These parse as themselves; those are refused by name, and leave the value as it was. */
static void check_whole(sluice_status (*parse)(const char *, uint64_t *, struct sluice_err *),
                        const struct whole *good, size_t num_good, const char *const *bad,
                        size_t num_bad)
{
    for (size_t i = 0; i < num_good; i++) {
        uint64_t value = 77;
        CHECK_OK(parse(good[i].text, &value, NULL));
        CU_ASSERT_EQUAL(value, good[i].value);
    }
    for (size_t i = 0; i < num_bad; i++) {
        uint64_t value = 77;
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(parse(bad[i], &value, &err), SLUICE_E_INVALID);
        CU_ASSERT_EQUAL(value, 77);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, bad[i]));
    }
}

static void check_real(sluice_status (*parse)(const char *, double *, struct sluice_err *),
                       const struct real *good, size_t num_good, const char *const *bad,
                       size_t num_bad)
{
    for (size_t i = 0; i < num_good; i++) {
        double value = 77;
        CHECK_OK(parse(good[i].text, &value, NULL));
        CU_ASSERT_EQUAL(value, good[i].value);
    }
    for (size_t i = 0; i < num_bad; i++) {
        double value = 77;
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(parse(bad[i], &value, &err), SLUICE_E_INVALID);
        CU_ASSERT_EQUAL(value, 77);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, bad[i]));
    }
}

TEST(parses_whole_numbers_exactly)
{
    static const struct whole good[] = {{"0", 0},
                                        {"007", 7},
                                        {"9007199254740993", 9007199254740993},
                                        {"18446744073709551615", UINT64_MAX}};
    static const char *const bad[] = {"",
                                      " 1",
                                      "1 ",
                                      "+1",
                                      "-1",
                                      "0x10",
                                      "1.0",
                                      "1e3",
                                      "18446744073709551616",
                                      "99999999999999999999",
                                      "a"};
    check_whole(sluice_parse_uint, good, SLUICE_ARRAY_LEN(good), bad, SLUICE_ARRAY_LEN(bad));
}

TEST(parses_finite_decimals_only)
{
    static const struct real good[] = {{"0", 0},     {"-1.5", -1.5}, {"+2", 2},   {".5", 0.5},
                                       {"1e3", 1e3}, {"1E-2", 1e-2}, {"0.1", 0.1}};
    static const char *const bad[] = {"",    " 1",  "1 ",   "nan", "inf", "-inf", "0x10", "1e999",
                                      "1,5", "--1", "1.5f", "-",   "+",   ".",    "e5"};
    check_real(sluice_parse_double, good, SLUICE_ARRAY_LEN(good), bad, SLUICE_ARRAY_LEN(bad));
}

TEST(a_letter_alone_is_a_power_of_1024)
{
    static const struct whole good[] = {{"0", 0},
                                        {"64", 64},
                                        {"64k", 65536},
                                        {"64K", 65536},
                                        {"64M", 64ull << 20},
                                        {"2g", 2ull << 30},
                                        {"3T", 3ull << 40},
                                        {"16777215T", 16777215ull << 40},
                                        {"18446744073709551615", UINT64_MAX}};
    static const char *const bad[] = {
        "",   "k",  "-1", "64kk", "64q", "+1",  " 1",    "0x10",      "1e3",
        "1 ", "1.", ".5", "1..5", "64 ", "1,5", "64  k", "16777216T", "18446744073709551616"};
    check_whole(sluice_parse_bytes, good, SLUICE_ARRAY_LEN(good), bad, SLUICE_ARRAY_LEN(bad));
}

TEST(an_i_makes_bytes_powers_of_1024_and_a_b_alone_of_1000)
{
    static const struct whole good[] = {
        {"1KiB", 1024},       {"64kiB", 65536},      {"1MiB", 1 << 20},      {"1GiB", 1ull << 30},
        {"2TiB", 2ull << 40}, {"4Ki", 4096},         {"1kB", 1000},          {"1KB", 1000},
        {"100MB", 100000000}, {"1GB", 1000000000},   {"2TB", 2000000000000}, {"7B", 7},
        {"64 k", 65536},      {"1 GiB", 1ull << 30}, {"65536 B", 65536},
    };
    /* A small b means bits, which a size does not have. */
    static const char *const bad[] = {"64kb", "1mb", "1gb", "1Mb", "1Mib", "1GBit", "1iB", "1Mbit"};
    check_whole(sluice_parse_bytes, good, SLUICE_ARRAY_LEN(good), bad, SLUICE_ARRAY_LEN(bad));
}

TEST(fractions_of_bytes_are_taken_where_they_are_whole)
{
    static const struct whole good[] = {{"1.5GiB", 3ull << 29}, {"1.5G", 3ull << 29}, {"0.5k", 512},
                                        {"2.50kB", 2500},       {"62.5MB", 62500000}, {"1.0", 1},
                                        {"1.000k", 1024},       {"0.000001GB", 1000}};
    static const char *const bad[] = {"1.5",
                                      "0.1k",
                                      "1.0001kB",
                                      "0.1KiB",
                                      "1.00000000000000000000000001GiB",
                                      "18446744073709551615.5"};
    check_whole(sluice_parse_bytes, good, SLUICE_ARRAY_LEN(good), bad, SLUICE_ARRAY_LEN(bad));
}

TEST(parses_rates_in_bits_and_bytes)
{
    static const struct real good[] = {
        {"500mbit", 62500000},
        {"1gbit", 125000000},
        {"62.5MB", 62500000},
        {"500", 62500000}, /* a bare number is Mbit/s */
        {"0.5", 62500},
        {"8bit", 1},
        {"1kbit", 125},
        {"1tbit", 125e9},
        {"3B", 3},
        {"4kB", 4000},
        {"2GB", 2e9},
        {"0", 0},
        {"0.0mbit", 0},
        {"none", 0},
        {"1Gbps", 125000000},
        {"1gbps", 125000000},
        {"100Mbps", 12500000},
        {"8bps", 1},
        {"1Gbit/s", 125000000},
        {"500 Mbit/s", 62500000},
        {"1 mbit", 125000},
        {"1Mb", 125000},
        {"1Mb/s", 125000},
        {"1Gb/s", 125000000},
        {"62.5MB/s", 62500000},
        {"62.5 MB/s", 62500000},
        {"1MBps", 1000000},
        {"1MiB/s", 1 << 20},
        {"1KiB", 1024},
        {"2GiB/s", 2.0 * (1 << 30)},
    };
    static const char *const bad[] = {
        "",      "mbit", "-1",   "+1",    " 1",      "1mb",  "1mb/s",   "1.",      ".5",   "1e3",
        "inf",   "nan",  "None", "1..5",  "1,5",     "7bit", "0.1B",    "1mbits",  "0x10", "1M",
        "1MBPS", "1 ",   "1b",   "1gb/s", "1Mbitps", "1Mib", "1Mbit/h", "1MB/s/s", "1iB",  "1  MB"};
    check_real(sluice_parse_rate, good, SLUICE_ARRAY_LEN(good), bad, SLUICE_ARRAY_LEN(bad));
    /* Too small to be a limit, too large to be a number. */
    char tiny[500], huge[500];
    double value = 77;
    snprintf(tiny, sizeof(tiny), "0.%0400d1", 0);
    snprintf(huge, sizeof(huge), "1%0400d", 0);
    CU_ASSERT_EQUAL(sluice_parse_rate(tiny, &value, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_parse_rate(huge, &value, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(value, 77);
}

static sluice_status parse_seconds(const char *text, double *seconds, struct sluice_err *err)
{
    return sluice_parse_time(text, 1, seconds, err);
}

static sluice_status parse_ms(const char *text, double *ms, struct sluice_err *err)
{
    return sluice_parse_time(text, 1e-3, ms, err);
}

TEST(parses_times_with_and_without_a_unit)
{
    static const struct real good[] = {
        {"30", 30},    {"0", 0},          {"0.5", 0.5}, {"500ms", 0.5}, {"3ms", 0.003},
        {"10s", 10},   {"1sec", 1},       {"2m", 120},  {"2min", 120},  {"1.5h", 5400},
        {"1d", 86400}, {"250us", 250e-6}, {"90 s", 90},
    };
    static const char *const bad[] = {"",   "s",   "-1", "1 ",   "1M",    "1e3",
                                      "1S", "inf", "1w", "1:30", "2mins", "1h30m"};
    check_real(parse_seconds, good, SLUICE_ARRAY_LEN(good), bad, SLUICE_ARRAY_LEN(bad));
    static const struct real ms[] = {
        {"3", 3}, {"3ms", 3}, {"1.25s", 1250}, {"2m", 120000}, {"57us", 0.057}};
    static const char *const bad_ms[] = {"3 ", "3mS"};
    check_real(parse_ms, ms, SLUICE_ARRAY_LEN(ms), bad_ms, SLUICE_ARRAY_LEN(bad_ms));
}

TEST(errors_list_examples)
{
    struct sluice_err bytes = {0}, rate = {0}, seconds = {0};
    uint64_t whole;
    double real;
    CU_ASSERT_EQUAL(sluice_parse_bytes("16mb", &whole, &bytes), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(bytes.text, "1.5GiB"));
    CU_ASSERT_PTR_NOT_NULL(strstr(bytes.text, "100MB"));
    CU_ASSERT_EQUAL(sluice_parse_rate("60mb", &real, &rate), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(rate.text, "1Gbps"));
    CU_ASSERT_PTR_NOT_NULL(strstr(rate.text, "62.5MB/s"));
    CU_ASSERT_EQUAL(sluice_parse_time("soon", 1, &real, &seconds), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(seconds.text, "500ms"));
}

TEST(what_is_formatted_parses_back_exactly)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int round = 0; round < 2000; round++) {
        char text[400];
        /* Of all sizes, and round ones among them. */
        uint64_t bytes = sluice_rng_u32(&rng), back = 0;
        bytes = bytes << sluice_rng_below(&rng, 32) >> sluice_rng_below(&rng, 32);
        sluice_format_bytes(bytes, text);
        CHECK_OK(sluice_parse_bytes(text, &back, NULL));
        CU_ASSERT_EQUAL(back, bytes);
        const double value =
            ldexp((double)sluice_rng_u32(&rng) - 2e9, (int)sluice_rng_below(&rng, 200) - 100);
        double other = NAN;
        sluice_format_double(value, text);
        CHECK_OK(sluice_parse_double(text, &other, NULL));
        CU_ASSERT_EQUAL(other, value);
        const double rate = 1 + (double)sluice_rng_u32(&rng) / (1 + sluice_rng_below(&rng, 1000));
        sluice_format_rate(rate, text);
        CHECK_OK(sluice_parse_rate(text, &other, NULL));
        CU_ASSERT_EQUAL(other, rate);
        const double seconds = (double)sluice_rng_u32(&rng) / (1 + sluice_rng_below(&rng, 10000));
        sluice_format_time(seconds, 1, text);
        CHECK_OK(sluice_parse_time(text, 1, &other, NULL));
        CU_ASSERT_EQUAL(other, seconds);
        sluice_format_time(seconds, 1e-3, text);
        CHECK_OK(sluice_parse_time(text, 1e-3, &other, NULL));
        CU_ASSERT_EQUAL(other, seconds);
    }
    static const struct real times[] = {
        {"1m", 60},   {"2m", 120}, {"500ms", 0.5}, {"3ms", 0.003}, {"1.5s", 1.5},
        {"1h", 3600}, {"90s", 90}, {"0s", 0},      {"1d", 86400},  {"250us", 2.5e-4}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(times); i++) {
        char shown[32];
        sluice_format_time(times[i].value, 1, shown);
        CU_ASSERT_STRING_EQUAL(shown, times[i].text);
    }
    static const struct whole sizes[] = {
        {"64KiB", 65536}, {"1GiB", 1 << 30}, {"100MB", 100000000},   {"1kB", 1000},
        {"1500", 1500},   {"0", 0},          {"1TB", 1000000000000}, {"32MiB", 32 << 20}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
        char shown[32];
        sluice_format_bytes(sizes[i].value, shown);
        CU_ASSERT_STRING_EQUAL(shown, sizes[i].text);
    }
    char text[400];
    sluice_format_rate(0, text);
    CU_ASSERT_STRING_EQUAL(text, "none");
    sluice_format_rate(62500000, text);
    CU_ASSERT_STRING_EQUAL(text, "500Mbit/s");
    sluice_format_bytes(3ull << 30, text);
    CU_ASSERT_STRING_EQUAL(text, "3GiB");
    sluice_format_double(0.1, text);
    CU_ASSERT_STRING_EQUAL(text, "0.1");
}
