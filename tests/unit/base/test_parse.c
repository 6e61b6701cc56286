#include "base/parse.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
        CU_ASSERT_EQUAL(parse(good[i].text, &value, NULL), SLUICE_OK);
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
        CU_ASSERT_EQUAL(parse(good[i].text, &value, NULL), SLUICE_OK);
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

static void parses_whole_numbers_exactly(void)
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
    check_whole(sluice_parse_uint, good, SLUICE_TEST_COUNT(good), bad, SLUICE_TEST_COUNT(bad));
}

static void parses_finite_decimals_only(void)
{
    static const struct real good[] = {{"0", 0},     {"-1.5", -1.5}, {"+2", 2},   {".5", 0.5},
                                       {"1e3", 1e3}, {"1E-2", 1e-2}, {"0.1", 0.1}};
    static const char *const bad[] = {"",    " 1",  "1 ",   "nan", "inf", "-inf", "0x10", "1e999",
                                      "1,5", "--1", "1.5f", "-",   "+",   ".",    "e5"};
    check_real(sluice_parse_double, good, SLUICE_TEST_COUNT(good), bad, SLUICE_TEST_COUNT(bad));
}

static void parses_bytes_in_powers_of_1024(void)
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
        "",    "k",  "64kB", "64 k", "1.5G", "-1",        "64kk",
        "64q", "+1", " 1",   "0x10", "1e3",  "16777216T", "18446744073709551616"};
    check_whole(sluice_parse_bytes, good, SLUICE_TEST_COUNT(good), bad, SLUICE_TEST_COUNT(bad));
}

static void parses_rates_in_powers_of_1000(void)
{
    static const struct real good[] = {{"500mbit", 62500000},
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
                                       {"none", 0}};
    static const char *const bad[] = {"",     "mbit", "-1",   "+1",   " 1",     "1 mbit", "1Mb",
                                      "1mb",  "1.",   ".5",   "1e3",  "inf",    "nan",    "None",
                                      "1..5", "1,5",  "7bit", "0.1B", "1mbits", "0x10"};
    check_real(sluice_parse_rate, good, SLUICE_TEST_COUNT(good), bad, SLUICE_TEST_COUNT(bad));
    /* Too small to be a limit, too large to be a number. */
    char tiny[500], huge[500];
    double value = 77;
    snprintf(tiny, sizeof(tiny), "0.%0400d1", 0);
    snprintf(huge, sizeof(huge), "1%0400d", 0);
    CU_ASSERT_EQUAL(sluice_parse_rate(tiny, &value, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_parse_rate(huge, &value, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(value, 77);
}

static void what_is_formatted_parses_back_exactly(void)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int round = 0; round < 2000; round++) {
        char text[400];
        /* Of all sizes, and round ones among them. */
        uint64_t bytes = sluice_rng_u32(&rng), back = 0;
        bytes = bytes << sluice_rng_below(&rng, 32) >> sluice_rng_below(&rng, 32);
        sluice_format_bytes(bytes, text);
        CU_ASSERT_EQUAL(sluice_parse_bytes(text, &back, NULL), SLUICE_OK);
        CU_ASSERT_EQUAL(back, bytes);
        const double value =
            ldexp((double)sluice_rng_u32(&rng) - 2e9, (int)sluice_rng_below(&rng, 200) - 100);
        double other = NAN;
        sluice_format_double(value, text);
        CU_ASSERT_EQUAL(sluice_parse_double(text, &other, NULL), SLUICE_OK);
        CU_ASSERT_EQUAL(other, value);
        const double rate = 1 + (double)sluice_rng_u32(&rng) / (1 + sluice_rng_below(&rng, 1000));
        sluice_format_rate(rate, text);
        CU_ASSERT_EQUAL(sluice_parse_rate(text, &other, NULL), SLUICE_OK);
        CU_ASSERT_EQUAL(other, rate);
    }
    char text[400];
    sluice_format_rate(0, text);
    CU_ASSERT_STRING_EQUAL(text, "none");
    sluice_format_rate(62500000, text);
    CU_ASSERT_STRING_EQUAL(text, "500mbit");
    sluice_format_bytes(3ull << 30, text);
    CU_ASSERT_STRING_EQUAL(text, "3G");
    sluice_format_double(0.1, text);
    CU_ASSERT_STRING_EQUAL(text, "0.1");
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(parses_whole_numbers_exactly),
        SLUICE_TEST(parses_finite_decimals_only),
        SLUICE_TEST(parses_bytes_in_powers_of_1024),
        SLUICE_TEST(parses_rates_in_powers_of_1000),
        SLUICE_TEST(what_is_formatted_parses_back_exactly),
    };
    return sluice_test_run("parse", tests, SLUICE_TEST_COUNT(tests));
}
