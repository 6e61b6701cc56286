#ifndef SLUICE_PROFILER_REPORT_INTERNAL_H
#define SLUICE_PROFILER_REPORT_INTERNAL_H

#include "profiler/report.h"

#include "plan/mode.h"

/* Private to the files behind sluice_report_plans().
 *
 *     report_plans.c  the section: words, table, bars, lines over one rate
 *     report_map.c    the map of what limits where
 *     report_sizes.c  how the sizes of samples spread
 *
 * Threads: one. */

/* What is planned from. */
struct report_subject {
    const struct sluice_profile *profile;
    struct sluice_form_menu menu;
    const struct sluice_rates *rates;
    const char *folder;
    struct sluice_page *page;
};

/* What a figure goes along. */
struct report_axis {
    const char *name, *title, *xlabel, *caption;
    double low, high; /* at least; the machine asked for is within */
    double here;      /* of that machine; infinite: no limit */
    void (*set)(struct sluice_rates *rates, double value);
};

SLUICE_MUST_USE sluice_status report_forecast(const struct sluice_form_menu *menu,
                                              const struct sluice_rates *rates,
                                              enum sluice_mode mode,
                                              struct sluice_choice_forecast *out,
                                              struct sluice_err *err);

/* The resources that limit an epoch together, as a mask; and in words: "network and storage CPU".
 */
#define REPORT_MANY (1u << SLUICE_NUM_RESOURCES) /* three or more */
unsigned report_limits(const struct sluice_choice_forecast *at);
const char *report_limits_text(unsigned mask, char text[120]);

/* Figure "limits", along both axes. */
SLUICE_MUST_USE sluice_status report_draw_map(const struct report_subject *subject,
                                              const struct report_axis *x,
                                              const struct report_axis *y, struct sluice_err *err);

/* Figure "sizes_cdf". */
SLUICE_MUST_USE sluice_status report_draw_sizes(const struct report_subject *subject,
                                                const struct sluice_form_table *forms,
                                                struct sluice_err *err);

#endif
