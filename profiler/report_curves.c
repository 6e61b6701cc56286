#include "profiler/report.h"

#include "profiler/svg.h"

#include <math.h>
#include <stddef.h>

/* Points of longer lines would touch. */
#define MAX_POINTS 60

static const char *const run_colours[] = {SLUICE_GREEN, SLUICE_BLUE,  SLUICE_VERMILION,
                                          SLUICE_PINK,  SLUICE_OCHRE, SLUICE_GREY};
static const int run_points[] = {7, 5, 9, 13, 11, 4};

static size_t count_epochs(const struct sluice_runs *runs, size_t run)
{
    size_t num = 0;
    for (size_t i = 0; i < runs->num_items; i++)
        num += runs->items[i].run == run && !runs->items[i].is_evaluation;
    return num;
}

/* A curve is a run of at least two epochs. */
static bool is_drawn(const struct sluice_runs *runs, size_t run)
{
    return count_epochs(runs, run) > 1;
}

static size_t count_drawn(const struct sluice_runs *runs)
{
    size_t num = 0;
    for (size_t run = 0; run < runs->num_runs; run++)
        num += is_drawn(runs, run);
    return num;
}

static const char *mode_of(const struct sluice_runs *runs, size_t run)
{
    for (size_t i = 0; i < runs->num_items; i++) {
        if (runs->items[i].run == run && !runs->items[i].is_evaluation)
            return runs->items[i].mode;
    }
    return "";
}

/* --- the axis of time --- */

struct time_unit {
    const char *name;
    double seconds;
};

static struct time_unit unit_of(double seconds)
{
    return seconds < 180     ? (struct time_unit){"s", 1}
           : seconds < 10800 ? (struct time_unit){"min", 60}
                             : (struct time_unit){"h", 3600};
}

/* From when the runs began to the end of the longest, or of `only` (-1: all). */
static struct time_unit set_time_axis(struct sluice_figure *figure, const struct sluice_runs *runs,
                                      long only)
{
    double end_s = 0;
    for (size_t i = 0; i < runs->num_items; i++) {
        const struct sluice_run_epoch *epoch = &runs->items[i];
        if (!epoch->is_evaluation &&
            (only < 0 ? is_drawn(runs, epoch->run) : (long)epoch->run == only))
            end_s = fmax(end_s, epoch->to_s);
    }
    const struct time_unit unit = unit_of(end_s);
    fprintf(figure->script, "set xlabel 'time since the run began, %s'\nset xrange [0:%.9g]\n",
            unit.name, end_s > 0 ? end_s / unit.seconds : 1);
    return unit;
}

/* --- lines --- */

struct chart {
    const char *name, *title, *ylabel, *caption;
    struct {
        size_t offset; /* of the value in an epoch */
        const char *title;
    } lines[2]; /* the second is dashed; without a title there is none */
};

static double value_of(const struct sluice_run_epoch *epoch, size_t offset)
{
    return epoch->is_evaluation ? NAN : *(const double *)((const char *)epoch + offset);
}

/* The data of one line, of which range becomes the least and the most; returns its points. */
static size_t print_line(struct sluice_figure *figure, const struct sluice_runs *runs, size_t run,
                         int line, size_t offset, struct time_unit unit, double range[2])
{
    size_t num = 0;
    fprintf(figure->script, "$run%zu_%d << EOD\n", run, line);
    for (size_t i = 0; i < runs->num_items; i++) {
        const double value = value_of(&runs->items[i], offset);
        if (runs->items[i].run != run || !isfinite(value))
            continue;
        fprintf(figure->script, "%.9g %.9g\n", runs->items[i].to_s / unit.seconds, value);
        range[0] = fmin(range[0], value);
        range[1] = fmax(range[1], value);
        num++;
    }
    fprintf(figure->script, "EOD\n");
    return num;
}

static void plot_line(struct sluice_figure *figure, const struct chart *chart,
                      const struct sluice_runs *runs, size_t run, int line, size_t num_points,
                      size_t place, bool has_many)
{
    /* Of many runs each has a colour, of one each line. */
    const size_t look = (has_many ? place : (size_t)line) % SLUICE_ARRAY_LEN(run_colours);
    fprintf(figure->plot, "%s$run%zu_%d using 1:2 with ", ftell(figure->plot) > 0 ? ", " : "plot ",
            run, line);
    if (num_points > MAX_POINTS)
        fprintf(figure->plot, "lines");
    else
        fprintf(figure->plot, "linespoints pt %d ps 0.8", run_points[look]);
    fprintf(figure->plot, " lw 2 dt %d lc rgb '%s' ", line + 1, run_colours[look]);
    char mode[24];
    sluice_figure_label(mode, sizeof(mode), mode_of(runs, run));
    if (!has_many && chart->lines[1].title)
        fprintf(figure->plot, "title '%s'", chart->lines[line].title);
    else if (has_many && line == 0)
        fprintf(figure->plot, "title '%zu: %s'", run + 1, mode);
    else
        fprintf(figure->plot, "notitle");
}

static sluice_status draw_chart(const struct chart *chart, const struct sluice_runs *runs,
                                const char *folder, struct sluice_page *page,
                                struct sluice_err *err)
{
    struct sluice_figure figure;
    sluice_status status = sluice_figure_open(&figure, folder, chart->name, chart->title, err);
    if (status != SLUICE_OK)
        return status;
    const struct time_unit unit = set_time_axis(&figure, runs, -1);
    const bool has_many = count_drawn(runs) > 1;
    double range[2] = {INFINITY, -INFINITY};
    bool has_dashed = false;
    for (size_t run = 0, place = 0; run < runs->num_runs; run++) {
        if (!is_drawn(runs, run))
            continue;
        for (int line = 0; line < 2 && chart->lines[line].title; line++) {
            const size_t num =
                print_line(&figure, runs, run, line, chart->lines[line].offset, unit, range);
            if (num == 0)
                continue;
            plot_line(&figure, chart, runs, run, line, num, place, has_many);
            has_dashed |= line == 1;
        }
        place++;
    }
    if (range[0] > range[1]) { /* no values */
        sluice_figure_abandon(&figure);
        return SLUICE_OK;
    }
    if (has_many && has_dashed)
        fprintf(figure.plot,
                ", NaN with lines lw 2 dt 2 lc rgb '" SLUICE_GREY "' title 'dashed: %s'",
                chart->lines[1].title);
    const double spread = range[1] - range[0];
    const double pad = spread > 0 ? 0.05 * spread : 0.05 * fabs(range[1]) + 1e-6;
    fprintf(figure.script, "set ylabel '%s'\nset yrange [%.9g:%.9g]\n", chart->ylabel,
            range[0] >= 0 ? fmax(0, range[0] - pad) : range[0] - pad, range[1] + pad);
    status = sluice_figure_draw(&figure, err);
    if (status == SLUICE_OK)
        status = sluice_page_figure(page, folder, chart->name, chart->caption, err);
    return status;
}

/* --- stalls --- */

/* Areas one above the other: what each epoch waited for, as shares of it. */
static sluice_status draw_stalls(const struct sluice_runs *runs, size_t run, const char *name,
                                 const char *folder, struct sluice_page *page,
                                 struct sluice_err *err)
{
    static const char *const colours[SLUICE_RUN_STALLS] = {SLUICE_AREA_VIOLET, SLUICE_AREA_ORANGE,
                                                           SLUICE_AREA_BLUE,   SLUICE_AREA_GREEN,
                                                           SLUICE_AREA_PINK,   SLUICE_AREA_YELLOW};
    char title[120], caption[200];
    snprintf(title, sizeof(title), "What each epoch waited for\nrun %zu, %s", run + 1,
             mode_of(runs, run));
    struct sluice_figure figure;
    sluice_status status = sluice_figure_open(&figure, folder, name, title, err);
    if (status != SLUICE_OK)
        return status;
    const struct time_unit unit = set_time_axis(&figure, runs, (long)run);
    size_t num = 0;
    fprintf(figure.script, "$stalls << EOD\n");
    for (size_t i = 0; i < runs->num_items; i++) {
        const struct sluice_run_epoch *epoch = &runs->items[i];
        if (epoch->run != run || epoch->is_evaluation || sluice_run_largest_stall(epoch) < 0)
            continue;
        num++;
        /* A share is that of the whole epoch: a step. */
        for (int end = 0; end < 2; end++) {
            double sum = 0;
            fprintf(figure.script, "%.9g 0", (end ? epoch->to_s : epoch->from_s) / unit.seconds);
            for (int r = 0; r < SLUICE_RUN_STALLS; r++) {
                sum = fmin(sum + (isnan(epoch->stalls[r]) ? 0 : epoch->stalls[r]), 1);
                fprintf(figure.script, " %.6g", 100 * sum);
            }
            fprintf(figure.script, "\n");
        }
    }
    fprintf(figure.script, "EOD\nset ylabel 'share of the epoch, %%'\nset yrange [0:100]\n"
                           "unset grid\nset style fill solid noborder\n");
    if (num == 0) {
        sluice_figure_abandon(&figure);
        return SLUICE_OK;
    }
    /* The highest area first, as the legend reads from above. */
    for (int r = SLUICE_RUN_STALLS - 1; r >= 0; r--)
        fprintf(figure.plot, "%s$stalls using 1:%d:%d with filledcurves lc rgb '%s' title '%s'",
                r == SLUICE_RUN_STALLS - 1 ? "plot " : ", ", r + 2, r + 3, colours[r],
                sluice_run_stall_titles[r]);
    status = sluice_figure_draw(&figure, err);
    double waits[SLUICE_RUN_STALLS] = {0}, seconds = 0;
    for (size_t i = 0; i < runs->num_items; i++) {
        if (runs->items[i].run == run && !runs->items[i].is_evaluation)
            seconds += sluice_run_add_waits(&runs->items[i], waits);
    }
    char who[80];
    snprintf(who, sizeof(who), "Run %zu, %s,", run + 1, mode_of(runs, run));
    sluice_page_html(page, "<p>");
    sluice_report_limit(page, who, waits, seconds);
    sluice_page_html(page, "</p>\n");
    snprintf(caption, sizeof(caption),
             "Run %zu, %s: the shares of each epoch in which the trainer worked, or waited for the "
             "next batch, by what that waited for.",
             run + 1, mode_of(runs, run));
    if (status == SLUICE_OK)
        status = sluice_page_figure(page, folder, name, caption, err);
    return status;
}

#define OFFSET(field) offsetof(struct sluice_run_epoch, field)

sluice_status sluice_report_curves(const struct sluice_runs *runs, const char *folder,
                                   struct sluice_page *page, struct sluice_err *err)
{
    static const struct chart charts[] = {
        {"loss",
         "Loss",
         "loss",
         "The mean loss of each epoch, at its end.",
         {{OFFSET(loss), "training"}, {OFFSET(val_loss), "validation"}}},
        {"accuracy",
         "Top-1 accuracy",
         "share of samples that are right",
         "The top-1 accuracy of each epoch, at its end.",
         {{OFFSET(top1), "training"}, {OFFSET(val_top1), "validation"}}},
        {"samples_per_s",
         "Samples per second",
         "samples/s",
         "Samples per second of each epoch, without its validation.",
         {{OFFSET(samples_per_s), "training"}}},
    };
    sluice_status status = SLUICE_OK;
    if (count_drawn(runs) == 0)
        return SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < SLUICE_ARRAY_LEN(charts); i++)
        status = draw_chart(&charts[i], runs, folder, page, err);
    for (size_t run = 0, place = 0; status == SLUICE_OK && run < runs->num_runs; run++) {
        char name[32];
        if (!is_drawn(runs, run))
            continue;
        place++;
        snprintf(name, sizeof(name), place > 1 ? "stalls_%zu" : "stalls", place);
        status = draw_stalls(runs, run, name, folder, page, err);
    }
    return status;
}
