#ifndef SLUICE_PROFILER_REPORT_H
#define SLUICE_PROFILER_REPORT_H

#include "profiler/commands.h"
#include "profiler/figure.h"
#include "profiler/page.h"
#include "profiler/runs.h"

/* The two parts of `offload_profile report`: what was measured and what is planned.  Each draws
 * figures into a folder and adds its section, with tables and figures, to the page.
 *
 * Threads: one. */

/* Prints the table of runs, too, to `table` (NULL: not).  Figures: "modes" where modes can be
 * compared, "loss", "accuracy", "samples_per_s" and "stalls" (then "stalls_2" and so on) of runs of
 * two epochs or more. */
SLUICE_MUST_USE sluice_status sluice_report_runs(const struct sluice_runs *runs, const char *folder,
                                                 struct sluice_page *page, FILE *table,
                                                 struct sluice_err *err);

/* Figures: "modes_planned", "time_over_bandwidth", "time_over_storage_cores", "limits" and
 * "sizes_cdf".  All rates but those of the link and the cores are beyond any need. */
SLUICE_MUST_USE sluice_status sluice_report_plans(const struct sluice_profile *profile,
                                                  const struct sluice_profile_costs *costs,
                                                  const struct sluice_form_table *forms,
                                                  const struct sluice_rates *rates,
                                                  const char *folder, struct sluice_page *page,
                                                  struct sluice_err *err);

/* The curves of the runs; sluice_report_runs() calls it. */
SLUICE_MUST_USE sluice_status sluice_report_curves(const struct sluice_runs *runs,
                                                   const char *folder, struct sluice_page *page,
                                                   struct sluice_err *err);

/* --- shared by both --- */

/* How a mode looks in every figure. */
struct sluice_mode_look {
    const char *colour;
    int point, dash; /* gnuplot's types */
    double width;
};
struct sluice_mode_look sluice_report_look(const char *mode);

/* A sentence on what `who` waited for longest, of so many seconds. */
void sluice_report_limit(struct sluice_page *page, const char *who,
                         const double waits[SLUICE_RUN_STALLS], double seconds);

/* Bars from left to right, a panel of seconds and one of MB, into the figure `name`. */
struct sluice_mode_bar {
    const char *mode; /* any text */
    double seconds, wire_bytes;
};
SLUICE_MUST_USE sluice_status sluice_report_draw_modes(const char *folder, const char *name,
                                                       const char *title,
                                                       const struct sluice_mode_bar *bars,
                                                       size_t num_bars, struct sluice_err *err);

#endif
