#include "base/show.h"

#include "support/test.h"

#include <math.h>

typedef const char *show_fn(double number, char out[SLUICE_SHOW_BYTES]);

struct shown {
    double number;
    const char *text;
};

static void check(show_fn *show, const struct shown *cases, size_t num_cases)
{
    for (size_t i = 0; i < num_cases; i++) {
        char out[SLUICE_SHOW_BYTES];
        CU_ASSERT_STRING_EQUAL(show(cases[i].number, out), cases[i].text);
    }
}

TEST(bytes_are_powers_of_1000)
{
    static const struct shown cases[] = {
        {0, "0 B"},          {812, "812 B"},      {999.4, "999 B"},     {999.6, "1.00 kB"},
        {1000, "1.00 kB"},   {65536, "65.5 kB"},  {999.6e3, "1.00 MB"}, {12.4e6, "12.4 MB"},
        {123.4e6, "123 MB"}, {1.5e12, "1.50 TB"}, {4e15, "4000 TB"},    {INFINITY, "-"},
        {NAN, "-"},          {99.96e6, "100 MB"},
    };
    check(sluice_show_bytes, cases, SLUICE_ARRAY_LEN(cases));
}

TEST(rates_are_in_mbit_per_second_and_infinite_ones_no_limit)
{
    static const struct shown cases[] = {
        {62.5e6, "500 Mbit/s"},
        {125e6, "1000 Mbit/s"},
        {1e5, "0.80 Mbit/s"},
        {1.5625e6, "12.5 Mbit/s"},
        {0, "0 Mbit/s"},
        {INFINITY, "no limit"},
        {NAN, "-"},
    };
    check(sluice_show_rate, cases, SLUICE_ARRAY_LEN(cases));
}

TEST(seconds_take_the_unit_that_fits)
{
    static const struct shown cases[] = {
        {0, "0 s"},        {1.23e-4, "123 us"}, {0.0123, "12.3 ms"}, {0.9996, "1.00 s"},
        {4.561, "4.56 s"}, {1234, "1234 s"},    {INFINITY, "-"},     {NAN, "-"},
    };
    check(sluice_show_seconds, cases, SLUICE_ARRAY_LEN(cases));
}

TEST(clocks_count_whole_seconds)
{
    static const struct shown cases[] = {
        {0, "0:00"}, {7.4, "0:07"},   {59.6, "1:00"}, {83, "1:23"}, {7509, "2:05:09"},
        {-1, "-"},   {INFINITY, "-"}, {NAN, "-"},     {1e12, "-"},
    };
    check(sluice_show_clock, cases, SLUICE_ARRAY_LEN(cases));
}

TEST(shares_never_leave_0_to_100_percent)
{
    static const struct shown cases[] = {
        {0, "0%"},      {0.001, "<1%"}, {0.18, "18%"},      {0.999, "99%"}, {1, "100%"},
        {1.37, "100%"}, {-0.2, "0%"},   {INFINITY, "100%"}, {NAN, "-"},
    };
    check(sluice_show_share, cases, SLUICE_ARRAY_LEN(cases));
}

TEST(numbers_have_three_digits_and_are_finite)
{
    static const struct shown cases[] = {
        {0, "0"}, {4.2, "4.20"}, {1234.5, "1234"}, {-3.14159, "-3.14"}, {INFINITY, "-"}, {NAN, "-"},
    };
    check(sluice_show_number, cases, SLUICE_ARRAY_LEN(cases));
}

TEST(the_largest_numbers_fit)
{
    static show_fn *const all[] = {sluice_show_bytes, sluice_show_rate,  sluice_show_seconds,
                                   sluice_show_clock, sluice_show_share, sluice_show_number};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(all); i++) {
        char out[SLUICE_SHOW_BYTES];
        CU_ASSERT_TRUE(strlen(all[i](-1.5e308, out)) < SLUICE_SHOW_BYTES - 1);
        CU_ASSERT_PTR_NULL(strstr(all[i](1.5e308, out), "inf"));
    }
}
