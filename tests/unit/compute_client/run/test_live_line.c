#include "compute_client/run/live_line.h"

#include "support/test.h"

#include <math.h>

#define SECOND 1000000000ull

/* --- rates --- */

/* A trainer that takes a batch of n every step_s, with a look each 0.1 s; returns the view after
 * `seconds` of it. */
static struct sluice_live_view run_for(struct sluice_live_meter *meter,
                                       struct sluice_counters *live, uint64_t *now, double seconds,
                                       double step_s, uint64_t n, uint64_t total)
{
    const uint64_t begin = *now;
    uint64_t steps = 0;
    for (int tenths = 1; tenths <= (int)(10 * seconds); tenths++) {
        const double at_s = tenths * 0.1;
        *now = begin + (uint64_t)(at_s * 1e9);
        while ((double)(steps + 1) * step_s <= at_s + 1e-9) {
            steps++;
            live->samples += n;
            live->wire_bytes += n * 1000;
            live->choices[0][SLUICE_FORM_RAW] += n;
            live->wait_ns[SLUICE_NETWORK] += (uint64_t)(step_s * 0.8e9);
            live->wait_ns[SLUICE_GPU] += (uint64_t)(step_s * 0.2e9);
        }
        sluice_live_meter_see(meter, live, *now);
    }
    return sluice_live_view_of(meter, live, 0, total, 0, true, *now);
}

TEST(rates_are_of_the_last_seconds)
{
    struct sluice_counters live = {0};
    struct sluice_live_meter meter;
    uint64_t now = SECOND;
    sluice_live_meter_start(&meter, &live, now);
    struct sluice_live_view view = sluice_live_view_of(&meter, &live, 0, 100000, 0, true, now);
    CU_ASSERT(isnan(view.samples_per_s) && isnan(view.left_s));
    CU_ASSERT_STRING_EQUAL(view.limit, "");
    view = run_for(&meter, &live, &now, 60, 0.5, 100, 100000);
    CU_ASSERT_DOUBLE_EQUAL(view.samples_per_s, 200, 5);
    CU_ASSERT_DOUBLE_EQUAL(view.wire_bytes_per_s, 200e3, 30e3);
    CU_ASSERT_DOUBLE_EQUAL(view.left_s, (100000 - 12000) / 200.0, 20);
    CU_ASSERT_EQUAL(view.done, 12000);
    CU_ASSERT_STRING_EQUAL(view.limit, "network");
    CU_ASSERT_STRING_EQUAL(view.choices, "raw 100%");
    /* Twice as fast: most of it shows within some seconds. */
    view = run_for(&meter, &live, &now, 6, 0.25, 100, 100000);
    CU_ASSERT(view.samples_per_s > 360 && view.samples_per_s < 405);
}

TEST(batches_that_come_seldom_make_no_ripple)
{
    struct sluice_counters live = {0};
    struct sluice_live_meter meter;
    uint64_t now = SECOND;
    sluice_live_meter_start(&meter, &live, now);
    (void)run_for(&meter, &live, &now, 30, 3, 256, 100000);
    double least = INFINITY, most = 0;
    for (int i = 0; i < 60; i++) { /* 0.1 s each: two batches */
        now += SECOND / 10;
        live.samples += i % 30 == 29 ? 256 : 0;
        sluice_live_meter_see(&meter, &live, now);
        const double per_s =
            sluice_live_view_of(&meter, &live, 0, 100000, 0, true, now).samples_per_s;
        least = fmin(least, per_s);
        most = fmax(most, per_s);
    }
    CU_ASSERT_DOUBLE_EQUAL(least, 256 / 3.0, 1);
    CU_ASSERT_DOUBLE_EQUAL(most, 256 / 3.0, 1);
}

TEST(a_stall_shows_while_it_lasts)
{
    struct sluice_counters live = {0};
    struct sluice_live_meter meter;
    uint64_t now = SECOND;
    sluice_live_meter_start(&meter, &live, now);
    (void)run_for(&meter, &live, &now, 20, 0.5, 100, 100000);
    now += 20 * SECOND;
    live.waits_s = 20;
    sluice_live_meter_see(&meter, &live, now);
    struct sluice_live_view view = sluice_live_view_of(&meter, &live, 0, 100000, 0, true, now);
    CU_ASSERT(view.samples_per_s < 20);
    CU_ASSERT_DOUBLE_EQUAL(view.waits_s, 20, 1e-6);
    CU_ASSERT_EQUAL(view.lost_s, 0);
    live.lost_s = 3;
    view = sluice_live_view_of(&meter, &live, 0, 100000, 0, true, now);
    CU_ASSERT_DOUBLE_EQUAL(view.lost_s, 3, 1e-6);
}

TEST(what_is_lent_is_a_share_of_the_last_seconds)
{
    struct sluice_counters live = {0};
    struct sluice_live_meter meter;
    uint64_t now = SECOND, lent_ns = 50 * SECOND; /* of the epochs before */
    sluice_live_meter_start(&meter, &live, now);
    CU_ASSERT_EQUAL(sluice_live_view_of(&meter, &live, 0, 1000, 0, true, now).lent, 0);
    for (int i = 0; i < 300; i++) {
        sluice_live_meter_see_lent(&meter, lent_ns, now);
        now += SECOND / 10;
        lent_ns += SECOND / 40;
    }
    CU_ASSERT_DOUBLE_EQUAL(sluice_live_view_of(&meter, &live, 0, 1000, 0, true, now).lent, 0.25,
                           0.001);
    for (int i = 0; i < 300; i++) {
        sluice_live_meter_see_lent(&meter, lent_ns, now);
        now += SECOND / 10;
    }
    CU_ASSERT(sluice_live_view_of(&meter, &live, 0, 1000, 0, true, now).lent < 0.001);
}

TEST(what_was_before_counts_as_done_and_what_comes_after_as_left)
{
    struct sluice_counters live = {.samples = 777, .wire_bytes = 99999999};
    live.choices[3][SLUICE_FORM_U8] = 777;
    live.on_gpu[SLUICE_FORM_RAW] = 55;
    struct sluice_live_meter meter;
    uint64_t now = SECOND;
    sluice_live_meter_start(&meter, &live, now);
    (void)run_for(&meter, &live, &now, 10, 0.5, 10, 1000);
    struct sluice_live_view view = sluice_live_view_of(&meter, &live, 500, 1000, 400, true, now);
    CU_ASSERT_EQUAL(view.done, 700);
    CU_ASSERT_DOUBLE_EQUAL(view.left_s, (300 + 400) / 20.0, 1);
    CU_ASSERT_STRING_EQUAL(view.choices, "raw 100%");
    live.on_gpu[SLUICE_FORM_RAW] += 150;
    view = sluice_live_view_of(&meter, &live, 500, 1000, 400, true, now);
    CU_ASSERT_STRING_EQUAL(view.choices, "raw 100% +gpu 75%");
    /* Another part: counted from 0, and the rate goes on. */
    sluice_live_meter_go_on(&meter, &live);
    view = sluice_live_view_of(&meter, &live, 0, 1000, 0, false, now);
    CU_ASSERT_EQUAL(view.done, 0);
    CU_ASSERT_DOUBLE_EQUAL(view.samples_per_s, 20, 1);
    CU_ASSERT(isnan(view.wire_bytes_per_s));
    live.samples += 5000; /* never more than all */
    sluice_live_meter_see(&meter, &live, now + SECOND);
    CU_ASSERT_EQUAL(sluice_live_view_of(&meter, &live, 0, 1000, 0, false, now + SECOND).done, 1000);
}

/* --- text --- */

static struct sluice_live_view sample_view(void)
{
    return (struct sluice_live_view){
        .what = "epoch 0",
        .done = 470,
        .total = 1000,
        .samples_per_s = 1834,
        .left_s = 41,
        .loss = 2.31449,
        .wire_bytes_per_s = 498e6 / 8,
        .limit = "network",
        .choices = "crop 93% raw 7%",
    };
}

static unsigned columns_of(const char *text)
{
    unsigned columns = 0;
    for (; *text; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

static void expect(const struct sluice_live_view *view, unsigned columns, bool has_utf8,
                   const char *expected)
{
    char text[512];
    const unsigned taken = sluice_live_line(view, columns, has_utf8, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, expected);
    CU_ASSERT_EQUAL(taken, columns_of(text));
}

TEST(a_line_has_what_fits_and_what_matters_most)
{
    const struct sluice_live_view view = sample_view();
    expect(&view, 119, true,
           "epoch 0 ━━━━━━━━──────────  47%  1834 samples/s  0:41 left  loss 2.3145  498 Mbit/s  "
           "limited by network  crop 93%");
    expect(&view, 79, true,
           "epoch 0 ━━━╸────  47%  1834/s  0:41 left  loss 2.31  498 Mbit/s  limit network");
    expect(&view, 79, false,
           "epoch 0 [==>   ]  47%  1834/s  0:41 left  loss 2.31  498 Mbit/s  limit network");
    expect(&view, 59, true, "epoch 0 ━━╸───  47%  1834/s  0:41 left  loss 2.31  network");
    expect(&view, 39, true, "epoch 0  47%  1834 samples/s  0:41 left");
    expect(&view, 19, true, "epoch 0  47%");
}

TEST(what_is_lent_is_told_from_a_percent_on)
{
    struct sluice_live_view view = sample_view();
    view.lent = 0.04;
    char text[512];
    sluice_live_text(&view, text, sizeof(text));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, ", limited by network, lent 4%, crop"));
    view.lent = 0.004;
    sluice_live_text(&view, text, sizeof(text));
    CU_ASSERT_PTR_NULL(strstr(text, "lent"));
}

TEST(a_detail_goes_after_the_rest_of_what_can_go)
{
    struct sluice_live_view view = sample_view();
    strcpy(view.what, "part 6 of 10");
    strcpy(view.detail, "(JPEG crops)");
    view.loss = NAN;
    expect(&view, 79, true,
           "part 6 of 10 (JPEG crops) ━━━╸────  47%  1834/s  0:41 left  498 Mbit/s  network");
    expect(&view, 43, true, "part 6 of 10  47%  1834/s  0:41 left");
}

TEST(every_width_holds)
{
    struct sluice_live_view view = sample_view();
    for (int state = 0; state < 3; state++) {
        view.lost_s = state == 1 ? 3 : 0;
        view.waits_s = state == 2 ? 75 : 0;
        for (unsigned columns = 0; columns < 240; columns++) {
            for (int has_utf8 = 0; has_utf8 < 2; has_utf8++) {
                char text[512];
                const unsigned taken =
                    sluice_live_line(&view, columns, has_utf8, text, sizeof(text));
                CU_ASSERT_EQUAL(taken, columns_of(text));
                CU_ASSERT(taken <= columns);
                CU_ASSERT_PTR_NULL(strpbrk(text, "\n\r\x1b"));
            }
        }
    }
}

TEST(the_bar_is_full_at_the_end_and_not_before)
{
    struct sluice_live_view view = sample_view();
    char text[512];
    view.done = 999;
    (void)sluice_live_line(&view, 79, true, text, sizeof(text));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "━━━━━━━╸  99%"));
    (void)sluice_live_line(&view, 79, false, text, sizeof(text));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "[=====>]  99%"));
    view.done = 1000;
    (void)sluice_live_line(&view, 79, true, text, sizeof(text));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "━━━━━━━━ 100%"));
    (void)sluice_live_line(&view, 79, false, text, sizeof(text));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "[======] 100%"));
}

TEST(what_is_not_known_is_not_there)
{
    const struct sluice_live_view view = {
        .what = "epoch 0",
        .total = 1000,
        .samples_per_s = NAN,
        .left_s = NAN,
        .loss = NAN,
        .wire_bytes_per_s = NAN,
        .limit = "",
    };
    expect(&view, 79, true, "epoch 0 ────────   0%");
    const struct sluice_live_view endless = {.what = "epoch 0",
                                             .samples_per_s = INFINITY,
                                             .left_s = INFINITY,
                                             .loss = INFINITY,
                                             .wire_bytes_per_s = INFINITY,
                                             .limit = ""};
    char text[512];
    (void)sluice_live_line(&endless, 200, true, text, sizeof(text));
    CU_ASSERT_PTR_NULL(strstr(text, "inf"));
    CU_ASSERT_PTR_NULL(strstr(text, "nan"));
}

TEST(a_lost_server_stands_before_everything_else)
{
    struct sluice_live_view view = sample_view();
    view.lost_s = 3.2;
    view.waits_s = 3;
    for (unsigned columns = 23; columns < 200; columns++) {
        char text[512];
        (void)sluice_live_line(&view, columns, true, text, sizeof(text));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "server lost 3 s"));
    }
    view.lost_s = 0;
    view.waits_s = 75;
    char text[512];
    (void)sluice_live_line(&view, 79, true, text, sizeof(text));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "waiting 1:15"));
}

TEST(a_log_gets_all_of_it)
{
    const struct sluice_live_view view = sample_view();
    char text[512];
    sluice_live_text(&view, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "epoch 0: 470 of 1000 samples, 1834 samples/s, 0:41 left, "
                                 "loss 2.3145, 498 Mbit/s, limited by network, crop 93% raw 7%");
}
