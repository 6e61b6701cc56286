#include "profiler/report.h"

#include "op/form.h"
#include "plan/mode.h"

#include <jansson.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* local reads no files over the link, so nothing is planned for it. */
static const enum sluice_mode plans[] = {SLUICE_MODE_NOOFF, SLUICE_MODE_ALLOFF, SLUICE_MODE_PILOFF,
                                         SLUICE_MODE_SOPHON, SLUICE_MODE_AUTO};

/* A plan over all resources makes some equally slow: those within this much of the slowest limit
 * it together.  Half as much splits what the plan's rounding parts. */
#define TOGETHER 0.97

/* Appends what the mode's plan brings at these rates to `list`. */
static sluice_status add_plan(const struct sluice_form_menu *menu, const struct sluice_rates *rates,
                              enum sluice_mode mode, json_t *list, struct sluice_err *err)
{
    uint8_t *choice = NULL;
    const sluice_status status =
        sluice_profile_make_plan(sluice_mode_name(mode), menu, rates, &choice, err);
    if (status != SLUICE_OK)
        return status;
    const struct sluice_choice_forecast at = sluice_form_menu_forecast(menu, rates, choice);
    free(choice);
    json_t *limits = json_array(), *choices = json_object();
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        if (at.busy_s[r] >= TOGETHER * at.primal_s)
            json_array_append_new(limits,
                                  json_string(sluice_resource_words((enum sluice_resource)r)));
    }
    for (unsigned c = 0; c < menu->choices.num; c++) {
        if (at.choices[c])
            json_object_set_new(choices, sluice_choice_name(menu->choices.at[c]),
                                json_integer((json_int_t)at.choices[c]));
    }
    json_t *plan = json_pack("{s:s, s:f, s:o, s:I, s:o}", "mode", sluice_mode_name(mode), "seconds",
                             at.primal_s, "limits", limits, "wire_bytes", (json_int_t)at.wire_bytes,
                             "choices", choices);
    return json_array_append_new(list, plan) == 0
               ? SLUICE_OK
               : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a report");
}

static sluice_status add_modes(const struct sluice_form_menu *menu,
                               const struct sluice_rates *rates, json_t *list,
                               struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (size_t p = 0; status == SLUICE_OK && p < SLUICE_ARRAY_LEN(plans); p++)
        status = add_plan(menu, rates, plans[p], list, err);
    return status;
}

static sluice_status add_twice(const struct sluice_form_menu *menu,
                               const struct sluice_rates *rates, json_t *list,
                               struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (int i = 0; status == SLUICE_OK && i < 3; i++) {
        struct sluice_rates more = *rates;
        double *const amounts[] = {&more.link_bytes_per_s, &more.storage_cores,
                                   &more.compute_cores};
        *amounts[i] *= 2;
        status = add_plan(menu, &more, SLUICE_MODE_AUTO, list, err);
    }
    return status;
}

/* --- over a rate --- */

struct axis {
    double low, high; /* the machine asked for is within */
    double here;      /* of that machine; infinite: no limit */
};

static double value_at(const struct axis *axis, double share)
{
    return axis->low * pow(axis->high / axis->low, share);
}

/* Points of a line, evenly spread on a logarithmic axis. */
#define NUM_VALUES 17

static sluice_status add_over(const struct sluice_form_menu *menu, const struct sluice_rates *at,
                              const struct axis *axis, bool is_link, json_t *over,
                              struct sluice_err *err)
{
    json_t *points = json_array();
    json_object_set_new(
        over, is_link ? "bandwidth" : "storage_cores",
        json_pack("{s:f, s:f, s:o, s:o}", "low", axis->low, "high", axis->high, "here",
                  isfinite(axis->here) ? json_real(axis->here) : json_null(), "points", points));
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < NUM_VALUES; i++) {
        struct sluice_rates rates = *at;
        const double value = value_at(axis, (double)i / (NUM_VALUES - 1));
        if (is_link)
            rates.link_bytes_per_s = value * 1e6 / 8;
        else
            rates.storage_cores = value;
        json_t *list = json_array();
        json_array_append_new(points, json_pack("[f, o]", value, list));
        status = add_modes(menu, &rates, list, err);
    }
    return status;
}

/* --- the map of what limits where --- */

/* Cells, and of how many samples at most each is planned: the map takes a second or two. */
enum { COLUMNS = 36, ROWS = 18, MAP_SAMPLES = 1000 };

/* All samples of the profile or an even part of them, which has the same limits. */
static sluice_status add_map(const struct sluice_form_menu *full, const struct sluice_rates *at,
                             const struct axis *x, const struct axis *y, json_t *map,
                             struct sluice_err *err)
{
    const struct sluice_cost_table *all = full->table;
    struct sluice_cost_table some = *all;
    some.num_rows = all->num_rows < MAP_SAMPLES ? all->num_rows : MAP_SAMPLES;
    struct sluice_sample_facts *facts = malloc(some.num_rows * sizeof(*facts));
    some.rows = malloc(some.num_rows * sizeof(*some.rows));
    sluice_status status = SLUICE_OK;
    if (!facts || !some.rows)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a map of limits");
    for (size_t i = 0; status == SLUICE_OK && i < some.num_rows; i++) {
        some.rows[i] = all->rows[i * all->num_rows / some.num_rows];
        facts[i] = full->facts[i * all->num_rows / some.num_rows];
    }
    struct sluice_form_menu menu = *full;
    menu.table = &some;
    menu.facts = facts;
    for (size_t i = 0; status == SLUICE_OK && i < ROWS * COLUMNS; i++) {
        struct sluice_rates rates = *at;
        const size_t row = i / COLUMNS, column = i % COLUMNS;
        rates.link_bytes_per_s = value_at(x, ((double)column + 0.5) / COLUMNS) * 1e6 / 8;
        rates.storage_cores = value_at(y, ((double)row + 0.5) / ROWS);
        status = add_plan(&menu, &rates, SLUICE_MODE_AUTO, map, err);
    }
    free(facts);
    free(some.rows);
    return status;
}

/* --- sizes --- */

static int compare_bytes(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static sluice_status add_sizes(const struct sluice_profile *profile,
                               const struct sluice_form_table *forms, json_t *sizes,
                               struct sluice_err *err)
{
    enum { NUM_POINTS = 200 };
    const struct sluice_cost_table *table = &profile->table;
    const struct sluice_choices *choices = &profile->choices;
    const struct {
        const char *name;
        unsigned stage; /* with a form: not looked at */
        const char *form;
        bool is_there;
    } lines[] = {
        {"file", 0, NULL, true},
        {"file, cut to the crop", 0, "jpeg_crop", true},
        {"rows under the crop", 0, "jpeg_rows", true},
        {"decoded", 1, NULL, true},
        {"cropped pixels", choices->u8_split, NULL, choices->u8_split > 1},
        {"cropped, packed", 0, "u8_packed", true},
        {"float32", choices->num_ops, NULL, choices->num_ops > choices->u8_split},
    };
    uint64_t *bytes = malloc((table->num_rows + forms->num_rows) * sizeof(*bytes));
    if (!bytes)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to sort %zu sizes", table->num_rows);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(lines); i++) {
        size_t num = 0;
        if (!lines[i].is_there)
            continue;
        for (size_t row = 0; !lines[i].form && row < table->num_rows; row++)
            bytes[num++] = table->rows[row].bytes[lines[i].stage];
        for (size_t row = 0; lines[i].form && row < forms->num_rows; row++) {
            if (choices->at[forms->rows[row].choice].form == sluice_form_find(lines[i].form))
                bytes[num++] = forms->rows[row].bytes;
        }
        if (num == 0)
            continue;
        qsort(bytes, num, sizeof(*bytes), compare_bytes);
        json_t *kb = json_array();
        json_object_set_new(sizes, lines[i].name, kb);
        for (size_t point = 0; point <= NUM_POINTS; point++) {
            const size_t rank = (num - 1) * point / NUM_POINTS;
            json_array_append_new(kb, json_real((double)bytes[rank] / 1e3));
        }
    }
    free(bytes);
    return SLUICE_OK;
}

sluice_status sluice_report_plans(const struct sluice_profile *profile,
                                  const struct sluice_profile_costs *costs,
                                  const struct sluice_form_table *forms,
                                  const struct sluice_rates *rates, FILE *out,
                                  struct sluice_err *err)
{
    if (profile->table.num_rows == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "the profile has no samples");
    const struct sluice_form_menu menu = sluice_profile_menu(profile, costs, NULL);
    const double mbit = rates->link_bytes_per_s * 8 / 1e6, cores = rates->storage_cores;
    const struct axis x = {fmin(50, mbit), isfinite(mbit) ? fmax(10000, mbit) : 10000, mbit};
    const struct axis y = {fmin(1, cores), fmax(32, cores), cores};
    json_t *list = json_array(), *twice = json_array(), *over = json_object(), *map = json_array();
    json_t *sizes = json_object();
    json_t *report =
        json_pack("{s:I, s:f, s:f, s:i, s:o, s:o, s:o, s:o, s:o}", "num_samples",
                  (json_int_t)profile->table.num_rows, "storage_cores", rates->storage_cores,
                  "compute_cores", rates->compute_cores, "map_columns", COLUMNS, "plans", list,
                  "twice", twice, "over", over, "map", map, "sizes", sizes);
    if (!report)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a report");
    sluice_status status = add_modes(&menu, rates, list, err);
    if (status == SLUICE_OK)
        status = add_twice(&menu, rates, twice, err);
    if (status == SLUICE_OK)
        status = add_over(&menu, rates, &x, true, over, err);
    if (status == SLUICE_OK)
        status = add_over(&menu, rates, &y, false, over, err);
    if (status == SLUICE_OK)
        status = add_map(&menu, rates, &x, &y, map, err);
    if (status == SLUICE_OK)
        status = add_sizes(profile, forms, sizes, err);
    if (status == SLUICE_OK && (json_dumpf(report, out, JSON_COMPACT) != 0 || fflush(out) != 0))
        status = sluice_fail(err, SLUICE_E_IO, "what a report shows: %s", strerror(errno));
    json_decref(report);
    return status;
}
