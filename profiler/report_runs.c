#include "profiler/report.h"

#include "base/show.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Longer tables are folded. */
#define MAX_OPEN_ROWS 40

/* --- tables --- */

/* How much less than remote_nooff that is, in MB. */
static const char *saved_text(const struct sluice_runs *runs, size_t item,
                              char text[SLUICE_SHOW_BYTES])
{
    const double baseline = sluice_runs_baseline_bytes(runs, item);
    const double bytes = runs->items[item].wire_bytes;
    if (!isfinite(baseline) || !(bytes > 0))
        return strcpy(text, "-");
    snprintf(text, SLUICE_SHOW_BYTES, "%.2f", (baseline - bytes) / 1e6);
    return text;
}

static void print_runs(FILE *out, const struct sluice_runs *runs)
{
    fprintf(out, "%-14s %9s %10s %10s  %-32s  %s\n", "mode", "seconds", "MB", "MB saved", "digest",
            "choices");
    for (size_t i = 0; i < runs->num_items; i++) {
        const struct sluice_run_epoch *epoch = &runs->items[i];
        char saved[SLUICE_SHOW_BYTES], mb[32] = "-";
        if (isfinite(epoch->wire_bytes))
            snprintf(mb, sizeof(mb), "%.2f", epoch->wire_bytes / 1e6);
        fprintf(out, "%-14s %9.3f %10s %10s  %-32s  %s\n", epoch->mode, epoch->seconds, mb,
                saved_text(runs, i, saved), epoch->digest[0] ? epoch->digest : "-", epoch->choices);
    }
}

static bool has_losses(const struct sluice_runs *runs)
{
    for (size_t i = 0; i < runs->num_items; i++) {
        if (isfinite(runs->items[i].loss) || isfinite(runs->items[i].val_loss))
            return true;
    }
    return false;
}

static void add_table(struct sluice_page *page, const struct sluice_runs *runs)
{
    static const char *const with_loss[] = {
        "<mode",       "epoch", "seconds",   "samples/s",  "MB",      "MB saved", "<same digest",
        "<waited for", "loss",  "val. loss", "val. top 1", "<digest", "<choices", NULL};
    static const char *const without_loss[] = {
        "<mode",        "epoch",       "seconds", "samples/s", "MB", "MB saved",
        "<same digest", "<waited for", "<digest", "<choices",  NULL};
    const bool has_loss = has_losses(runs);
    const bool is_folded = runs->num_items > MAX_OPEN_ROWS;
    if (is_folded)
        sluice_page_html(page, "<details><summary>All %zu epochs</summary>\n", runs->num_items);
    sluice_page_table_begin(page, has_loss ? with_loss : without_loss);
    for (size_t i = 0; i < runs->num_items; i++) {
        const struct sluice_run_epoch *epoch = &runs->items[i];
        const int stall = sluice_run_largest_stall(epoch);
        const int is_equal = sluice_runs_digest_is_equal(runs, i);
        char text[SLUICE_SHOW_BYTES];
        sluice_page_row_begin(page);
        sluice_page_text_cell(page, "%s%s", epoch->mode,
                              epoch->is_evaluation ? ", evaluation" : "");
        if (isfinite(epoch->epoch))
            sluice_page_cell(page, "%.0f", epoch->epoch);
        else
            sluice_page_cell(page, "-");
        sluice_page_cell(page, "%.3f", epoch->seconds);
        sluice_page_cell(page, "%s", sluice_show_number(epoch->samples_per_s, text));
        sluice_page_cell(page, "%s", sluice_show_number(epoch->wire_bytes / 1e6, text));
        sluice_page_cell(page, "%s", saved_text(runs, i, text));
        sluice_page_text_cell(page, "%s", is_equal < 0 ? "-" : is_equal ? "yes" : "no");
        if (stall < 0)
            sluice_page_text_cell(page, "-");
        else
            sluice_page_text_cell(page, "%s, %s", sluice_run_stall_titles[stall],
                                  sluice_show_share(epoch->stalls[stall], text));
        if (has_loss) {
            sluice_page_cell(page, "%s", sluice_show_number(epoch->loss, text));
            sluice_page_cell(page, "%s", sluice_show_number(epoch->val_loss, text));
            sluice_page_cell(page, "%s", sluice_show_number(epoch->val_top1, text));
        }
        sluice_page_text_cell(page, "%.8s", epoch->digest[0] ? epoch->digest : "-");
        sluice_page_text_cell(page, "%s", epoch->choices[0] ? epoch->choices : "-");
        sluice_page_row_end(page);
    }
    sluice_page_table_end(page);
    if (is_folded)
        sluice_page_html(page, "</details>\n");
    sluice_page_html(
        page,
        "<p class=\"faint\">MB saved: less than remote_nooff, the files as they are. "
        "Waited for: what "
        "the next batch waited for longest, as a share of the epoch; trainer: the time "
        "it worked. Same digest: the samples are, "
        "bit by bit, those of another epoch of equal number; its first digits are shown.</p>\n");
}

/* --- sentences --- */

/* Whether an epoch counts where modes are compared. */
static bool is_of_mode(const struct sluice_runs *runs, size_t item, const char *mode)
{
    return strcmp(runs->items[item].mode, mode) == 0 && sluice_runs_is_comparable(runs, item);
}

/* remote_auto if it was run, else the first. */
static const char *find_main_mode(const struct sluice_runs *runs)
{
    const char *mode = NULL;
    for (size_t i = 0; i < runs->num_items; i++) {
        if (is_of_mode(runs, i, "remote_auto"))
            return "remote_auto";
        if (!mode && sluice_runs_is_comparable(runs, i))
            mode = runs->items[i].mode;
    }
    return mode;
}

static void add_limit(struct sluice_page *page, const struct sluice_runs *runs)
{
    const char *mode = find_main_mode(runs);
    double waits[SLUICE_RUN_STALLS] = {0}, seconds = 0;
    for (size_t i = 0; mode && i < runs->num_items; i++) {
        if (is_of_mode(runs, i, mode))
            seconds += sluice_run_add_waits(&runs->items[i], waits);
    }
    if (seconds <= 0)
        return;
    sluice_page_html(page, "<p class=\"lead\">");
    sluice_report_limit(page, mode, waits, seconds);
    sluice_page_html(page, "</p>\n");
}

static void add_digests(struct sluice_page *page, const struct sluice_runs *runs)
{
    size_t num_equal = 0, num_other = 0;
    for (size_t i = 0; i < runs->num_items; i++) {
        const int is_equal = sluice_runs_digest_is_equal(runs, i);
        num_equal += is_equal == 1;
        num_other += is_equal == 0;
    }
    if (num_other)
        sluice_page_html(page,
                         "<p class=\"bad\">%zu of %zu epochs delivered other samples than "
                         "those of equal number in the same file: another seed, size or data, or "
                         "an error.</p>\n",
                         num_other, num_equal + num_other);
    else if (num_equal)
        sluice_page_html(page,
                         "<p>Every mode delivered the same samples, bit by bit: all %zu digests "
                         "that can be compared are equal.</p>\n",
                         num_equal);
    if (runs->num_passed_over)
        sluice_page_html(
            page, "<p class=\"bad\">Lines that are no epochs and were passed over: %zu.</p>\n",
            runs->num_passed_over);
}

/* --- modes --- */

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t num_values)
{
    if (num_values == 0)
        return NAN;
    qsort(values, num_values, sizeof(*values), compare_doubles);
    return (values[(num_values - 1) / 2] + values[num_values / 2]) / 2;
}

static sluice_status draw_modes(const struct sluice_runs *runs, const char *folder,
                                struct sluice_page *page, struct sluice_err *err)
{
    struct sluice_mode_bar *bars = calloc(runs->num_items, sizeof(*bars));
    double *values = malloc(2 * runs->num_items * sizeof(*values));
    sluice_status status =
        bars && values ? SLUICE_OK : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a figure");
    size_t num_bars = 0;
    for (size_t i = 0; status == SLUICE_OK && i < runs->num_items; i++) {
        const char *mode = runs->items[i].mode;
        bool is_there = !sluice_runs_is_comparable(runs, i);
        for (size_t b = 0; b < num_bars; b++)
            is_there |= strcmp(bars[b].mode, mode) == 0;
        if (is_there)
            continue;
        double *seconds = values, *bytes = values + runs->num_items;
        size_t num_seconds = 0, num_bytes = 0;
        for (size_t k = i; k < runs->num_items; k++) {
            if (!is_of_mode(runs, k, mode))
                continue;
            seconds[num_seconds++] = runs->items[k].seconds;
            if (isfinite(runs->items[k].wire_bytes))
                bytes[num_bytes++] = runs->items[k].wire_bytes;
        }
        bars[num_bars++] = (struct sluice_mode_bar){
            .mode = mode,
            .seconds = median(seconds, num_seconds),
            .wire_bytes = median(bytes, num_bytes),
        };
    }
    if (status == SLUICE_OK && num_bars > 1) {
        status = sluice_report_draw_modes(folder, "modes", "Modes, measured", bars, num_bars, err);
        if (status == SLUICE_OK)
            status = sluice_page_figure(page, folder, "modes",
                                        "Measured; of several epochs of a mode the median.", err);
    }
    free(bars);
    free(values);
    return status;
}

sluice_status sluice_report_runs(const struct sluice_runs *runs, const char *folder,
                                 struct sluice_page *page, FILE *table, struct sluice_err *err)
{
    if (table)
        print_runs(table, runs);
    sluice_page_html(page, "<h2>Runs, measured</h2>\n");
    add_limit(page, runs);
    add_digests(page, runs);
    sluice_status status = draw_modes(runs, folder, page, err);
    if (status == SLUICE_OK)
        status = sluice_report_curves(runs, folder, page, err);
    if (status == SLUICE_OK)
        add_table(page, runs);
    return status;
}
