#include "profiler/report.h"

#include "base/show.h"
#include "profiler/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sluice_mode_look sluice_report_look(const char *mode)
{
    static const struct {
        const char *mode;
        struct sluice_mode_look look;
    } looks[] = {
        {"local", {SLUICE_GREY, 11, 4, 1.5}},
        {"remote_nooff", {SLUICE_BLUE, 5, 2, 1.5}},
        {"remote_alloff", {SLUICE_VERMILION, 9, 3, 1.5}},
        {"remote_piloff", {SLUICE_OCHRE, 13, 4, 1.5}},
        {"remote_sophon", {SLUICE_PINK, 4, 5, 2}},
        {"remote_auto", {SLUICE_GREEN, 7, 1, 3}},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(looks); i++) {
        if (strcmp(looks[i].mode, mode) == 0)
            return looks[i].look;
    }
    return (struct sluice_mode_look){SLUICE_GREY, 6, 2, 1.5};
}

static void print_panel(FILE *plot, const char *title, int column, double most, size_t num_bars)
{
    fprintf(
        plot,
        "set title '%s' textcolor rgb '" SLUICE_INK "'\nset xrange [0:%.9g]\n"
        "set yrange [%zu.5:-0.5]\n"
        "plot $bars using (0):0:(0):%d:($0-0.36):($0+0.36):4:ytic(1) with boxxyerror "
        "linecolor rgb variable notitle, "
        "$bars using %d:0:%d with labels left offset 0.6,0 noenhanced textcolor rgb '" SLUICE_INK
        "' notitle\n",
        title, most > 0 ? most * 1.22 : 1, num_bars - 1, column, column, column + 3);
}

sluice_status sluice_report_draw_modes(const char *folder, const char *name, const char *title,
                                       const struct sluice_mode_bar *bars, size_t num_bars,
                                       struct sluice_err *err)
{
    struct sluice_figure figure;
    const sluice_status status = sluice_figure_open(&figure, folder, name, title, err);
    if (status != SLUICE_OK)
        return status;
    figure.height = (unsigned)(90 + 36 * num_bars);
    figure.narrow_height = (unsigned)(2 * (80 + 30 * num_bars));
    double most_s = 0, most_mb = 0;
    size_t longest = 0;
    fprintf(figure.script, "$bars << EOD\n");
    for (size_t i = 0; i < num_bars; i++) {
        const double mb = bars[i].wire_bytes / 1e6;
        char label[24], seconds[SLUICE_SHOW_BYTES], mbytes[SLUICE_SHOW_BYTES];
        sluice_figure_label(label, sizeof(label), bars[i].mode);
        /* The rest of a bar of nothing: its label says "-". */
        fprintf(figure.script, "\"%s\" %.9g %.9g %lu \"%s\" \"%s\"\n", label, bars[i].seconds,
                isfinite(mb) ? mb : 0,
                strtoul(sluice_report_look(bars[i].mode).colour + 1, NULL, 16),
                sluice_show_number(bars[i].seconds, seconds), sluice_show_number(mb, mbytes));
        longest = strlen(label) > longest ? strlen(label) : longest;
        most_s = fmax(most_s, bars[i].seconds);
        most_mb = fmax(most_mb, isfinite(mb) ? mb : 0);
    }
    fprintf(figure.script, "EOD\nunset key\nset style fill solid noborder\nset border 2\n"
                           "unset xtics\nunset grid\nset ytics scale 0\n");
    fprintf(figure.plot,
            "if (narrow) { set multiplot layout 2,1 } else { set multiplot layout 1,2 }\n"
            "set lmargin %zu\nset rmargin 2\n",
            longest + 2);
    print_panel(figure.plot, "Seconds per epoch", 2, most_s, num_bars);
    print_panel(figure.plot, "MB on the wire per epoch", 3, most_mb, num_bars);
    fprintf(figure.plot, "unset multiplot");
    return sluice_figure_draw(&figure, err);
}

void sluice_report_limit(struct sluice_page *page, const char *who,
                         const double waits[SLUICE_RUN_STALLS], double seconds)
{
    int most = 0;
    for (int r = 1; r < SLUICE_RUN_STALLS; r++)
        most = waits[r] > waits[most] ? r : most;
    char share[SLUICE_SHOW_BYTES];
    sluice_show_share(waits[most] / seconds, share);
    if (strcmp(sluice_run_stall_names[most], "trainer") == 0)
        sluice_page_text(page,
                         "%s was limited by the trainer: for %s of the time the data was there "
                         "before it was wanted.",
                         who, share);
    else
        sluice_page_text(page, "%s was limited by the %s: it waited for it during %s of the time.",
                         who, sluice_run_stall_titles[most], share);
}
