#include "compute_client/run/live_line.h"

#include "base/compiler.h"
#include "base/fit.h"
#include "base/show.h"
#include "compute_client/run/tuning.h"
#include "op/form_words.h"
#include "plan/resource.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- recent rates --- */

static void count_forms(const struct sluice_counters *live, uint64_t forms[SLUICE_MAX_FORMS])
{
    memset(forms, 0, SLUICE_MAX_FORMS * sizeof(*forms));
    for (int split = 0; split <= SLUICE_MAX_OPS; split++) {
        for (int f = 0; f < SLUICE_NUM_FORMS; f++)
            forms[f] += live->choices[split][f];
    }
}

static uint64_t count_on_gpu(const struct sluice_counters *live)
{
    uint64_t sum = 0;
    for (int f = 0; f < SLUICE_NUM_FORMS; f++)
        sum += live->on_gpu[f];
    return sum;
}

void sluice_live_meter_start(struct sluice_live_meter *meter, const struct sluice_counters *live,
                             uint64_t now_ns)
{
    *meter = (struct sluice_live_meter){
        .start_ns = now_ns,
        .seen_ns = now_ns,
        .stepped_ns = now_ns,
        .first_samples = live->samples,
        .last_samples = live->samples,
        .last_bytes = live->wire_bytes,
        .first_on_gpu = count_on_gpu(live),
    };
    count_forms(live, meter->first_forms);
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        meter->last_stall_ns[r] = live->wait_ns[r];
}

void sluice_live_meter_go_on(struct sluice_live_meter *meter, const struct sluice_counters *live)
{
    meter->first_samples = live->samples;
    meter->first_on_gpu = count_on_gpu(live);
    count_forms(live, meter->first_forms);
}

static void decay(double *sum, double *time_s, double seconds, double memory_s, double amount)
{
    const double kept = exp(-seconds / memory_s);
    *sum = *sum * kept + amount;
    *time_s = *time_s * kept + seconds;
}

void sluice_live_meter_see(struct sluice_live_meter *meter, const struct sluice_counters *live,
                           uint64_t now_ns)
{
    if (now_ns <= meter->seen_ns)
        return;
    const double seconds = (double)(now_ns - meter->seen_ns) * 1e-9;
    meter->seen_ns = now_ns;
    const uint64_t samples = live->samples;
    if (samples > meter->last_samples) {
        const double step_s = (double)(now_ns - meter->stepped_ns) * 1e-9;
        meter->last_step = samples - meter->last_samples;
        decay(&meter->samples, &meter->samples_s, step_s, TUNING_SHOW_MEMORY_S,
              (double)meter->last_step);
        decay(&meter->many_samples, &meter->many_samples_s, step_s, TUNING_SHOW_LONG_MEMORY_S,
              (double)meter->last_step);
        meter->last_samples = samples;
        meter->stepped_ns = now_ns;
    }
    const uint64_t bytes = live->wire_bytes;
    decay(&meter->bytes, &meter->bytes_s, seconds, TUNING_SHOW_MEMORY_S,
          (double)(bytes - meter->last_bytes));
    meter->last_bytes = bytes;
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        const uint64_t stall_ns = live->wait_ns[r];
        double unused = 0;
        decay(&meter->stall_s[r], &unused, seconds, TUNING_SHOW_MEMORY_S,
              (double)(stall_ns - meter->last_stall_ns[r]) * 1e-9);
        meter->last_stall_ns[r] = stall_ns;
    }
}

void sluice_live_meter_see_lent(struct sluice_live_meter *meter, uint64_t lent_ns, uint64_t now_ns)
{
    if (meter->lent_seen_ns && now_ns > meter->lent_seen_ns)
        decay(&meter->lent_s, &meter->lent_of_s, (double)(now_ns - meter->lent_seen_ns) * 1e-9,
              TUNING_SHOW_MEMORY_S, (double)(lent_ns - meter->last_lent_ns) * 1e-9);
    meter->last_lent_ns = lent_ns;
    meter->lent_seen_ns = now_ns;
}

/* The rate of the batches that came; a late next batch counts as if it came now. */
static double rate_of(const struct sluice_live_meter *meter, double sum, double time_s,
                      double memory_s, uint64_t now_ns)
{
    if (!(time_s > 0))
        return NAN;
    const double usual = sum / time_s;
    const double since_s =
        now_ns > meter->stepped_ns ? (double)(now_ns - meter->stepped_ns) * 1e-9 : 0;
    decay(&sum, &time_s, since_s, memory_s, (double)meter->last_step);
    return fmin(usual, sum / time_s);
}

/* --- what there is to say --- */

static const char *limit_of(const struct sluice_live_meter *meter)
{
    int largest = 0;
    for (int r = 1; r < SLUICE_NUM_RESOURCES; r++)
        largest = meter->stall_s[r] > meter->stall_s[largest] ? r : largest;
    return meter->stall_s[largest] > 0 ? sluice_stall_words((enum sluice_resource)largest) : "";
}

static void put_choices(const struct sluice_live_meter *meter, const struct sluice_counters *live,
                        char *out, size_t size)
{
    uint64_t forms[SLUICE_MAX_FORMS], total = 0;
    count_forms(live, forms);
    for (int f = 0; f < SLUICE_MAX_FORMS; f++) {
        forms[f] -= meter->first_forms[f];
        total += forms[f];
    }
    sluice_form_shares(forms, SLUICE_FORMS_SHORT, out, size);
    sluice_form_add_gpu(count_on_gpu(live) - meter->first_on_gpu, total, out, size);
}

struct sluice_live_view sluice_live_view_of(const struct sluice_live_meter *meter,
                                            const struct sluice_counters *live, uint64_t first,
                                            uint64_t total, uint64_t more, bool has_network,
                                            uint64_t now_ns)
{
    const uint64_t came =
        meter->last_samples > meter->first_samples ? meter->last_samples - meter->first_samples : 0;
    const double per_s =
        rate_of(meter, meter->samples, meter->samples_s, TUNING_SHOW_MEMORY_S, now_ns);
    const double long_per_s = rate_of(meter, meter->many_samples, meter->many_samples_s,
                                      TUNING_SHOW_LONG_MEMORY_S, now_ns);
    struct sluice_live_view view = {
        .done = first + came < total ? first + came : total,
        .total = total,
        .samples_per_s = per_s,
        .left_s = NAN,
        .loss = NAN,
        .wire_bytes_per_s = has_network && meter->bytes_s > 0 ? meter->bytes / meter->bytes_s : NAN,
        .lent = meter->lent_of_s > 0 ? meter->lent_s / meter->lent_of_s : 0,
        .limit = limit_of(meter),
        .lost_s = live->lost_s,
    };
    if (long_per_s > 0)
        view.left_s = (double)(total - view.done + more) / long_per_s;
    const double usual_s = /* between two batches that came */
        meter->samples > 0 ? (double)meter->last_step * meter->samples_s / meter->samples : 0;
    if (live->waits_s > TUNING_SHOW_LONG_WAIT_S &&
        live->waits_s > TUNING_SHOW_LONG_WAIT_STEPS * usual_s)
        view.waits_s = live->waits_s;
    put_choices(meter, live, view.choices, sizeof(view.choices));
    return view;
}

/* --- text --- */

enum part { WHAT, DETAIL, BAR, DONE, RATE, LEFT, LOSS, WIRE, LIMIT, LENT, CHOICES, NUM_PARTS };

/* "━━━╸────" or "[===>    ]" */
static void put_bar(struct sluice_fit_part *part, double share, unsigned width, bool has_utf8)
{
    char *out = part->form[0];
    if (has_utf8) {
        const unsigned halves = (unsigned)(share * 2 * width);
        for (unsigned i = 0; i < width; i++)
            out = stpcpy(out, 2 * i + 1 < halves ? "━" : 2 * i + 1 == halves ? "╸" : "─");
        part->extra_bytes = 2 * width;
        return;
    }
    const unsigned inner = width - 2, full = (unsigned)(share * inner);
    *out++ = '[';
    for (unsigned i = 0; i < inner; i++)
        *out++ = i < full ? '=' : i == full ? '>' : ' ';
    *out++ = ']';
    *out = '\0';
}

/* Constant while the terminal's width is, so that nothing jumps. */
static unsigned bar_width(unsigned columns)
{
    if (columns < 76)
        return 6;
    const unsigned width = 8 + (columns - 76) / 4;
    return width < 24 ? width : 24;
}

static void put_limit(const struct sluice_live_view *view, struct sluice_fit_part *part)
{
    char time[SLUICE_SHOW_BYTES];
    if (view->lost_s > 0) {
        sluice_fit_put(part, 0, "server lost %.0f s", view->lost_s);
        part->importance = 100; /* whatever else there is to say */
    } else if (view->waits_s > 0) {
        sluice_fit_put(part, 0, "waiting %s", sluice_show_clock(view->waits_s, time));
        part->importance = 96;
    } else if (view->limit[0]) {
        sluice_fit_put(part, 0, "limited by %s", view->limit);
        sluice_fit_put(part, 1, "limit %s", view->limit);
        sluice_fit_put(part, 2, "%s", view->limit);
    }
}

/* The first `num` pairs of words of the choices; false: there are no more than that. */
static bool put_most_frequent(const char *choices, unsigned num, struct sluice_fit_part *part,
                              unsigned form)
{
    const char *end = choices;
    for (unsigned spaces = 0; *end && spaces < 2 * num; end++)
        spaces += *end == ' ';
    if (*end)
        sluice_fit_put(part, form, "%.*s", (int)(end - choices) - 1, choices);
    return *end;
}

static double share_done(const struct sluice_live_view *view)
{
    return view->total ? (double)view->done / (double)view->total : 0;
}

/* `is_plain`: for a log. */
static void fill_parts(const struct sluice_live_view *view, struct sluice_fit_part parts[NUM_PARTS],
                       bool is_plain)
{
    static const unsigned importance[NUM_PARTS] = {
        [WHAT] = 98, [DETAIL] = 75, [BAR] = 45,   [DONE] = 95, [RATE] = 90,    [LEFT] = 80,
        [LOSS] = 50, [WIRE] = 40,   [LIMIT] = 60, [LENT] = 55, [CHOICES] = 20,
    };
    char text[SLUICE_SHOW_BYTES];
    for (int i = 0; i < NUM_PARTS; i++) {
        parts[i].importance = importance[i];
        parts[i].before = is_plain ? ", " : i <= DONE ? " " : "  ";
    }
    sluice_fit_put(&parts[WHAT], 0, "%s", view->what);
    sluice_fit_put(&parts[WHAT], 1, "%s", view->what_brief);
    sluice_fit_put(&parts[DETAIL], 0, "%s", view->detail);
    if (is_plain)
        sluice_fit_put(&parts[DONE], 0, "%llu of %llu samples", (unsigned long long)view->done,
                       (unsigned long long)view->total);
    else
        sluice_fit_put(&parts[DONE], 0, "%4s", sluice_show_share(share_done(view), text));
    if (view->samples_per_s >= 0) {
        sluice_show_number(view->samples_per_s, text);
        sluice_fit_put(&parts[RATE], 0, "%s samples/s", text);
        sluice_fit_put(&parts[RATE], 1, "%s/s", text);
    }
    if (view->left_s >= 0)
        sluice_fit_put(&parts[LEFT], 0, "%s left", sluice_show_clock(view->left_s, text));
    if (isfinite(view->loss)) {
        sluice_fit_put(&parts[LOSS], 0, "loss %.4f", view->loss);
        sluice_fit_put(&parts[LOSS], 1, "loss %.2f", view->loss);
    }
    if (isfinite(view->wire_bytes_per_s))
        sluice_fit_put(&parts[WIRE], 0, "%s", sluice_show_rate(view->wire_bytes_per_s, text));
    put_limit(view, &parts[LIMIT]);
    if (view->lent >= 0.005) /* "1%" */
        sluice_fit_put(&parts[LENT], 0, "lent %s", sluice_show_share(view->lent, text));
    sluice_fit_put(&parts[CHOICES], 0, "%s", view->choices);
    unsigned form = 1;
    for (unsigned num = 2; num > 0; num--)
        form += put_most_frequent(view->choices, num, &parts[CHOICES], form);
}

unsigned sluice_live_line(const struct sluice_live_view *view, unsigned columns, bool has_utf8,
                          char *out, size_t size)
{
    struct sluice_fit_part parts[NUM_PARTS] = {0};
    fill_parts(view, parts, false);
    put_bar(&parts[BAR], share_done(view), bar_width(columns), has_utf8);
    return sluice_fit_line(parts, NUM_PARTS, columns, out, size);
}

void sluice_live_text(const struct sluice_live_view *view, char *out, size_t size)
{
    struct sluice_fit_part parts[NUM_PARTS] = {0};
    fill_parts(view, parts, true);
    parts[DETAIL].before = " ";
    parts[DONE].before = ": ";
    (void)sluice_fit_line(parts, NUM_PARTS, UINT32_MAX, out, size);
}
