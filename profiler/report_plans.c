#include "profiler/report_internal.h"

#include "base/show.h"
#include "plan/mode.h"
#include "profiler/svg.h"

#include <math.h>
#include <stdlib.h>

/* local reads no files over the link, so nothing is planned for it. */
static const enum sluice_mode plans[] = {SLUICE_MODE_NOOFF, SLUICE_MODE_ALLOFF, SLUICE_MODE_PILOFF,
                                         SLUICE_MODE_SOPHON, SLUICE_MODE_AUTO};
enum { NUM_PLANS = SLUICE_ARRAY_LEN(plans), AUTO = NUM_PLANS - 1, SOPHON = AUTO - 1, NOOFF = 0 };

sluice_status report_forecast(const struct sluice_form_menu *menu, const struct sluice_rates *rates,
                              enum sluice_mode mode, struct sluice_choice_forecast *out,
                              struct sluice_err *err)
{
    uint8_t *choice = NULL;
    const sluice_status status =
        sluice_profile_make_plan(sluice_mode_name(mode), menu, rates, &choice, err);
    if (status != SLUICE_OK)
        return status;
    *out = sluice_form_menu_forecast(menu, rates, choice);
    free(choice);
    return SLUICE_OK;
}

/* A plan over all resources makes some equally slow: those within this much of the slowest limit
 * it together.  Half as much splits what the plan's rounding parts. */
#define TOGETHER 0.97

unsigned report_limits(const struct sluice_choice_forecast *at)
{
    unsigned mask = 0;
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        if (at->busy_s[r] >= TOGETHER * at->primal_s)
            mask |= 1u << r;
    }
    return mask;
}

const char *report_limits_text(unsigned mask, char text[120])
{
    size_t len = 0;
    snprintf(text, 120, "%s", mask == REPORT_MANY ? "three or more" : "");
    SLUICE_EACH_RESOURCE (r, mask)
        len += (size_t)snprintf(text + len, 120 - len, "%s%s",
                                len == 0               ? ""
                                : mask >> (r + 1) == 0 ? " and "
                                                       : ", ",
                                sluice_resource_words((enum sluice_resource)r));
    return text;
}

static double mbit_of(const struct sluice_rates *rates)
{
    return rates->link_bytes_per_s * 8 / 1e6;
}

static sluice_status forecast_all(const struct report_subject *subject,
                                  struct sluice_choice_forecast at[NUM_PLANS],
                                  struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (size_t p = 0; status == SLUICE_OK && p < NUM_PLANS; p++)
        status = report_forecast(&subject->menu, subject->rates, plans[p], &at[p], err);
    return status;
}

/* --- in words --- */

static sluice_status add_limit(const struct report_subject *subject,
                               const struct sluice_choice_forecast at[NUM_PLANS],
                               struct sluice_err *err)
{
    char text[120], rate[SLUICE_SHOW_BYTES], time[SLUICE_SHOW_BYTES];
    struct sluice_page *page = subject->page;
    sluice_page_html(page, "<p class=\"lead\">");
    sluice_page_text(page,
                     "At %s, with %g storage and %g compute cores, an epoch of remote_auto takes "
                     "%s and is limited by the %s.",
                     sluice_show_rate(subject->rates->link_bytes_per_s, rate),
                     subject->rates->storage_cores, subject->rates->compute_cores,
                     sluice_show_seconds(at[AUTO].primal_s, time),
                     report_limits_text(report_limits(&at[AUTO]), text));
    sluice_page_html(page, "</p>\n<p>");
    sluice_page_text(page,
                     "That is %.2f times as fast as remote_sophon and %.2f times as fast as "
                     "remote_nooff.",
                     at[SOPHON].primal_s / at[AUTO].primal_s,
                     at[NOOFF].primal_s / at[AUTO].primal_s);
    const struct {
        const char *what;
        struct sluice_rates rates;
    } twice[] = {
        {"the bandwidth", *subject->rates},
        {"the storage cores", *subject->rates},
        {"the compute cores", *subject->rates},
    };
    const char *lead = " With twice ";
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(twice); i++) {
        struct sluice_rates rates = twice[i].rates;
        struct sluice_choice_forecast more;
        if (i == 0)
            rates.link_bytes_per_s *= 2;
        else if (i == 1)
            rates.storage_cores *= 2;
        else
            rates.compute_cores *= 2;
        const sluice_status status =
            report_forecast(&subject->menu, &rates, SLUICE_MODE_AUTO, &more, err);
        if (status != SLUICE_OK)
            return status;
        sluice_page_text(page, "%s%s it would take %s", lead, twice[i].what,
                         sluice_show_seconds(more.primal_s, time));
        lead = i == 1 ? ", and with twice " : ", with twice ";
    }
    sluice_page_html(page, ". Predicted, for a trainer that takes samples as they come.</p>\n");
    return SLUICE_OK;
}

static void add_table(const struct report_subject *subject,
                      const struct sluice_choice_forecast at[NUM_PLANS])
{
    static const char *const heads[] = {"<mode",     "seconds",  "<limited by", "MB",
                                        "kB/sample", "<choices", NULL};
    const struct sluice_choices *choices = &subject->menu.choices;
    const double num_samples = (double)subject->menu.table->num_rows;
    sluice_page_table_begin(subject->page, heads);
    for (size_t p = NUM_PLANS; p-- > 0;) {
        char text[120], number[SLUICE_SHOW_BYTES], chosen[400] = "";
        size_t len = 0;
        for (unsigned c = 0; c < choices->num && len < sizeof(chosen) - 1; c++) {
            if (at[p].choices[c])
                len += (size_t)snprintf(chosen + len, sizeof(chosen) - len, "%s%s:%llu",
                                        len ? " " : "", sluice_choice_name(choices->at[c]),
                                        (unsigned long long)at[p].choices[c]);
        }
        const double bytes = (double)at[p].wire_bytes;
        sluice_page_row_begin(subject->page);
        sluice_page_text_cell(subject->page, "%s", sluice_mode_name(plans[p]));
        sluice_page_cell(subject->page, "%s", sluice_show_number(at[p].primal_s, number));
        sluice_page_text_cell(subject->page, "%s", report_limits_text(report_limits(&at[p]), text));
        sluice_page_cell(subject->page, "%s", sluice_show_number(bytes / 1e6, number));
        sluice_page_cell(
            subject->page, "%s",
            sluice_show_number(num_samples > 0 ? bytes / 1e3 / num_samples : 0, number));
        sluice_page_text_cell(subject->page, "%s", chosen);
        sluice_page_row_end(subject->page);
    }
    sluice_page_table_end(subject->page);
    sluice_page_html(subject->page,
                     "<p class=\"faint\">Choices: form@split, how many samples cross the wire in "
                     "which form after how many steps on the storage node.</p>\n");
}

/* --- bars --- */

static sluice_status draw_modes(const struct report_subject *subject,
                                const struct sluice_choice_forecast at[NUM_PLANS],
                                struct sluice_err *err)
{
    struct sluice_mode_bar bars[NUM_PLANS];
    for (size_t p = 0; p < NUM_PLANS; p++)
        bars[p] = (struct sluice_mode_bar){sluice_mode_name(plans[p]), at[p].primal_s,
                                           (double)at[p].wire_bytes};
    const sluice_status status = sluice_report_draw_modes(subject->folder, "modes_planned",
                                                          "Modes, predicted", bars, NUM_PLANS, err);
    if (status != SLUICE_OK)
        return status;
    return sluice_page_figure(subject->page, subject->folder, "modes_planned",
                              "Predicted for the machines above.", err);
}

/* --- lines over one rate --- */

static void set_bandwidth(struct sluice_rates *rates, double mbit)
{
    rates->link_bytes_per_s = mbit * 1e6 / 8;
}

static void set_storage_cores(struct sluice_rates *rates, double cores)
{
    rates->storage_cores = cores;
}

static void widen(struct report_axis *axis)
{
    if (!isfinite(axis->here))
        return;
    axis->low = fmin(axis->low, axis->here);
    axis->high = fmax(axis->high, axis->here);
}

/* Points of a line, evenly spread on a logarithmic axis. */
#define NUM_VALUES 17

static sluice_status draw_over(const struct report_subject *subject, const struct report_axis *axis,
                               struct sluice_err *err)
{
    struct sluice_figure figure;
    sluice_status status =
        sluice_figure_open(&figure, subject->folder, axis->name, axis->title, err);
    if (status != SLUICE_OK)
        return status;
    double least_s = INFINITY, most_s = 0;
    fprintf(figure.script, "$data << EOD\n");
    for (size_t i = 0; i < NUM_VALUES; i++) {
        struct sluice_rates rates = *subject->rates;
        const double value = axis->low * pow(axis->high / axis->low, (double)i / (NUM_VALUES - 1));
        axis->set(&rates, value);
        fprintf(figure.script, "%.9g", value);
        for (size_t p = 0; p < NUM_PLANS; p++) {
            struct sluice_choice_forecast at;
            status = report_forecast(&subject->menu, &rates, plans[p], &at, err);
            if (status != SLUICE_OK) {
                sluice_figure_abandon(&figure);
                return status;
            }
            fprintf(figure.script, " %.6f", at.primal_s);
            least_s = fmin(least_s, at.primal_s);
            most_s = fmax(most_s, at.primal_s);
        }
        fprintf(figure.script, "\n");
    }
    fprintf(figure.script, "EOD\n");
    sluice_figure_log_axis(&figure, 'x', axis->low, axis->high);
    sluice_figure_log_axis(&figure, 'y', fmax(least_s, 1e-6) / 1.08, fmax(most_s, 1e-6) * 1.08);
    fprintf(figure.script, "set xlabel '%s'\nset ylabel 'seconds per epoch, predicted'\n",
            axis->xlabel);
    if (isfinite(axis->here))
        fprintf(figure.script,
                "set arrow from %.9g, graph 0 to %.9g, graph 1 nohead lw 1.5 dt 3 lc rgb "
                "'" SLUICE_FAINT_INK "'\n",
                axis->here, axis->here);
    for (size_t p = 0; p < NUM_PLANS; p++) {
        const char *mode = sluice_mode_name(plans[p]);
        const struct sluice_mode_look look = sluice_report_look(mode);
        fprintf(figure.plot,
                "%s$data using 1:%zu with linespoints lw %g dt %d pt %d ps 0.8 lc rgb '%s' title "
                "'%s'",
                p ? ", " : "plot ", p + 2, look.width, look.dash, look.point, look.colour, mode);
    }
    status = sluice_figure_draw(&figure, err);
    if (status != SLUICE_OK)
        return status;
    return sluice_page_figure(subject->page, subject->folder, axis->name, axis->caption, err);
}

sluice_status sluice_report_plans(const struct sluice_profile *profile,
                                  const struct sluice_profile_costs *costs,
                                  const struct sluice_form_table *forms,
                                  const struct sluice_rates *rates, const char *folder,
                                  struct sluice_page *page, struct sluice_err *err)
{
    struct report_subject subject = {
        .profile = profile,
        .menu = sluice_profile_menu(profile, costs),
        .rates = rates,
        .folder = folder,
        .page = page,
    };
    for (unsigned c = 0; c < subject.menu.choices.num; c++)
        sluice_profile_offer(&subject.menu, costs, c);
    char title[200], rate[SLUICE_SHOW_BYTES];
    struct sluice_choice_forecast at[NUM_PLANS];
    if (profile->table.num_rows == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "the profile has no samples");
    sluice_status status = forecast_all(&subject, at, err);
    if (status != SLUICE_OK)
        return status;
    sluice_page_html(page, "<h2>Plans, predicted from the profile</h2>\n");
    status = add_limit(&subject, at, err);
    if (status == SLUICE_OK)
        status = draw_modes(&subject, at, err);
    if (status != SLUICE_OK)
        return status;
    add_table(&subject, at);

    struct report_axis x, y;
    snprintf(title, sizeof(title), "Epoch time over bandwidth\n%g storage, %g compute cores",
             rates->storage_cores, rates->compute_cores);
    x = (struct report_axis){.name = "time_over_bandwidth",
                             .title = title,
                             .xlabel = "bandwidth, Mbit/s",
                             .caption = "Predicted. Dotted: the bandwidth above.",
                             .low = 50,
                             .high = 10000,
                             .here = mbit_of(rates),
                             .set = set_bandwidth};
    widen(&x);
    status = draw_over(&subject, &x, err);
    snprintf(title, sizeof(title), "Epoch time over storage cores\n%s, %g compute cores",
             sluice_show_rate(rates->link_bytes_per_s, rate), rates->compute_cores);
    y = (struct report_axis){.name = "time_over_storage_cores",
                             .title = title,
                             .xlabel = "storage cores",
                             .caption = "Predicted. Dotted: the storage cores above.",
                             .low = 1,
                             .high = 32,
                             .here = rates->storage_cores,
                             .set = set_storage_cores};
    widen(&y);
    if (status == SLUICE_OK)
        status = draw_over(&subject, &y, err);
    if (status == SLUICE_OK)
        status = report_draw_map(&subject, &x, &y, err);
    if (status == SLUICE_OK)
        status = report_draw_sizes(&subject, forms, err);
    return status;
}
