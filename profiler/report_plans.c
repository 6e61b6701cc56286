#include "profiler/report.h"

#include "base/show.h"
#include "plan/mode.h"
#include "profiler/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* local reads no files over the link, so nothing is planned for it. */
static const enum sluice_mode plans[] = {SLUICE_MODE_NOOFF, SLUICE_MODE_ALLOFF, SLUICE_MODE_PILOFF,
                                         SLUICE_MODE_SOPHON, SLUICE_MODE_AUTO};
enum { NUM_PLANS = SLUICE_ARRAY_LEN(plans), AUTO = NUM_PLANS - 1, SOPHON = AUTO - 1, NOOFF = 0 };

static const char *const resource_titles[SLUICE_NUM_RESOURCES] = {
    [SLUICE_DISK] = "disk",
    [SLUICE_STORAGE_CPU] = "storage CPU",
    [SLUICE_NETWORK] = "network",
    [SLUICE_RECEIVE] = "receiver",
    [SLUICE_COMPUTE_CPU] = "compute CPU",
    [SLUICE_PCIE] = "PCIe",
    [SLUICE_GPU] = "GPU",
};

/* What is planned from. */
struct subject {
    const struct sluice_profile *profile;
    struct sluice_form_menu menu;
    const struct sluice_rates *rates;
    const char *folder;
    struct sluice_page *page;
};

static sluice_status forecast(const struct sluice_form_menu *menu, const struct sluice_rates *rates,
                              size_t plan, struct sluice_choice_forecast *out,
                              struct sluice_err *err)
{
    uint8_t *choice = NULL;
    const sluice_status status =
        sluice_profile_make_plan(sluice_mode_name(plans[plan]), menu, rates, &choice, err);
    if (status != SLUICE_OK)
        return status;
    *out = sluice_form_menu_forecast(menu, rates, choice);
    free(choice);
    return SLUICE_OK;
}

/* A plan over all resources makes some equally slow: those within this much of the slowest limit
 * it together.  Half as much splits what the plan's rounding parts. */
#define TOGETHER 0.97

#define MANY (1u << SLUICE_NUM_RESOURCES) /* three or more */

static unsigned limits_of(const struct sluice_choice_forecast *at)
{
    unsigned mask = 0;
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        if (at->busy_s[r] >= TOGETHER * at->primal_s)
            mask |= 1u << r;
    }
    return mask;
}

/* The same where three or more are one thing. */
static unsigned few_limits_of(const struct sluice_choice_forecast *at)
{
    const unsigned mask = limits_of(at);
    return __builtin_popcount(mask) > 2 ? MANY : mask;
}

/* "network and storage CPU" */
static const char *limits_text(unsigned mask, char text[120])
{
    size_t len = 0;
    snprintf(text, 120, "%s", mask == MANY ? "three or more" : "");
    SLUICE_EACH_RESOURCE (r, mask)
        len += (size_t)snprintf(text + len, 120 - len, "%s%s",
                                len == 0               ? ""
                                : mask >> (r + 1) == 0 ? " and "
                                                       : ", ",
                                resource_titles[r]);
    return text;
}

static double mbit_of(const struct sluice_rates *rates)
{
    return rates->link_bytes_per_s * 8 / 1e6;
}

static sluice_status forecast_all(const struct subject *subject,
                                  struct sluice_choice_forecast at[NUM_PLANS],
                                  struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (size_t p = 0; status == SLUICE_OK && p < NUM_PLANS; p++)
        status = forecast(&subject->menu, subject->rates, p, &at[p], err);
    return status;
}

/* --- in words --- */

static sluice_status add_limit(const struct subject *subject,
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
                     limits_text(limits_of(&at[AUTO]), text));
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
        const sluice_status status = forecast(&subject->menu, &rates, AUTO, &more, err);
        if (status != SLUICE_OK)
            return status;
        sluice_page_text(page, "%s%s it would take %s", lead, twice[i].what,
                         sluice_show_seconds(more.primal_s, time));
        lead = i == 1 ? ", and with twice " : ", with twice ";
    }
    sluice_page_html(page, ". Predicted, for a trainer that takes samples as they come.</p>\n");
    return SLUICE_OK;
}

static void add_table(const struct subject *subject,
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
        sluice_page_text_cell(subject->page, "%s", limits_text(limits_of(&at[p]), text));
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

static sluice_status draw_modes(const struct subject *subject,
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

/* What a figure goes along. */
struct axis {
    const char *name, *title, *xlabel, *caption;
    double low, high; /* at least; the machine asked for is within */
    double here;      /* of that machine; infinite: no limit */
    void (*set)(struct sluice_rates *rates, double value);
};

static void set_bandwidth(struct sluice_rates *rates, double mbit)
{
    rates->link_bytes_per_s = mbit * 1e6 / 8;
}

static void set_storage_cores(struct sluice_rates *rates, double cores)
{
    rates->storage_cores = cores;
}

static void widen(struct axis *axis)
{
    if (!isfinite(axis->here))
        return;
    axis->low = fmin(axis->low, axis->here);
    axis->high = fmax(axis->high, axis->here);
}

/* Points of a line, evenly spread on a logarithmic axis. */
#define NUM_VALUES 17

static sluice_status draw_over(const struct subject *subject, const struct axis *axis,
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
            status = forecast(&subject->menu, &rates, p, &at, err);
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

/* --- the map of what limits where --- */

/* Cells, and of how many samples at most each is planned: the map takes a second or two. */
enum { COLUMNS = 36, ROWS = 18, MAP_SAMPLES = 1000 };

struct map {
    struct axis x, y;
    unsigned limits[ROWS][COLUMNS]; /* masks; the first row is the lowest */
};

static double edge_of(const struct axis *axis, size_t edge, size_t num_cells)
{
    return axis->low * pow(axis->high / axis->low, (double)edge / (double)num_cells);
}

static double middle_of(const struct axis *axis, size_t cell, size_t num_cells)
{
    return sqrt(edge_of(axis, cell, num_cells) * edge_of(axis, cell + 1, num_cells));
}

/* The profile's samples or an even part of them: what limits is alike for both. */
static sluice_status fill_map(const struct subject *subject, struct map *map,
                              struct sluice_err *err)
{
    const struct sluice_cost_table *all = subject->menu.table;
    const size_t num = all->num_rows < MAP_SAMPLES ? all->num_rows : MAP_SAMPLES;
    struct sluice_cost_table some = *all;
    struct sluice_sample_facts *facts = malloc((num + 1) * sizeof(*facts));
    some.rows = malloc((num + 1) * sizeof(*some.rows));
    sluice_status status = SLUICE_OK;
    if (!facts || !some.rows)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a map of limits");
    for (size_t i = 0; status == SLUICE_OK && i < num; i++) {
        some.rows[i] = all->rows[i * all->num_rows / num];
        facts[i] = subject->menu.facts[i * all->num_rows / num];
    }
    some.num_rows = num;
    struct sluice_form_menu menu = subject->menu;
    menu.table = &some;
    menu.facts = facts;
    for (size_t i = 0; status == SLUICE_OK && i < ROWS * COLUMNS; i++) {
        struct sluice_rates rates = *subject->rates;
        struct sluice_choice_forecast at;
        map->x.set(&rates, middle_of(&map->x, i % COLUMNS, COLUMNS));
        map->y.set(&rates, middle_of(&map->y, i / COLUMNS, ROWS));
        status = forecast(&menu, &rates, AUTO, &at, err);
        if (status == SLUICE_OK)
            map->limits[i / COLUMNS][i % COLUMNS] = few_limits_of(&at);
    }
    free(facts);
    free(some.rows);
    return status;
}

static const char *area_colour(unsigned mask)
{
    static const struct {
        unsigned mask;
        const char *colour;
    } areas[] = {
        {1u << SLUICE_DISK, SLUICE_AREA_VIOLET},
        {1u << SLUICE_STORAGE_CPU, SLUICE_AREA_ORANGE},
        {1u << SLUICE_NETWORK, SLUICE_AREA_BLUE},
        {1u << SLUICE_RECEIVE, SLUICE_AREA_OLIVE},
        {1u << SLUICE_COMPUTE_CPU, SLUICE_AREA_GREEN},
        {1u << SLUICE_NETWORK | 1u << SLUICE_STORAGE_CPU, SLUICE_AREA_LILAC},
        {1u << SLUICE_NETWORK | 1u << SLUICE_COMPUTE_CPU, SLUICE_AREA_TEAL},
        {1u << SLUICE_STORAGE_CPU | 1u << SLUICE_COMPUTE_CPU, SLUICE_AREA_PINK},
        {1u << SLUICE_RECEIVE | 1u << SLUICE_NETWORK, SLUICE_AREA_VIOLET},
        {MANY, SLUICE_AREA_YELLOW},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(areas); i++) {
        if (areas[i].mask == mask)
            return areas[i].colour;
    }
    return SLUICE_AREA_GREY;
}

/* The end of the cells from `column` on that are alike in this row. */
static size_t end_of_run(const struct map *map, size_t row, size_t column)
{
    size_t end = column + 1;
    while (end < COLUMNS && map->limits[row][end] == map->limits[row][column])
        end++;
    return end;
}

static void print_cells(struct sluice_figure *figure, const struct map *map)
{
    fprintf(figure->script, "$cells << EOD\n");
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t from = 0, to; from < COLUMNS; from = to) {
            to = end_of_run(map, row, from);
            /* Up into the next row, which is drawn above: no seam is left between them. */
            const size_t above = row + 2 < ROWS ? row + 2 : ROWS;
            const double x[] = {edge_of(&map->x, from, COLUMNS), edge_of(&map->x, to, COLUMNS)};
            const double y[] = {edge_of(&map->y, row, ROWS), edge_of(&map->y, above, ROWS)};
            fprintf(figure->script, "%.9g %.9g %.9g %.9g %.9g %.9g %lu\n", x[0], y[0], x[0], x[1],
                    y[0], y[1], strtoul(area_colour(map->limits[row][from]) + 1, NULL, 16));
        }
    }
    fprintf(figure->script, "EOD\n");
}

/* The name of each area where it is widest and there is room for it: a character is as wide as
 * chars_per_cell says. */
static void print_labels(struct sluice_figure *figure, const struct map *map, double chars_per_cell)
{
    unsigned named[ROWS * COLUMNS];
    size_t num_named = 0;
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        const unsigned mask = map->limits[i / COLUMNS][i % COLUMNS];
        bool is_named = false;
        for (size_t k = 0; k < num_named; k++)
            is_named |= named[k] == mask;
        if (is_named)
            continue;
        named[num_named++] = mask;
        size_t best_row = 0, best_from = 0, best_to = 0;
        for (size_t row = 1; row + 1 < ROWS; row++) {
            for (size_t from = 0, to; from < COLUMNS; from = to) {
                to = end_of_run(map, row, from);
                const double here = middle_of(&map->y, row, ROWS) / map->y.here;
                const bool has_room = map->limits[row - 1][from] == mask &&
                                      map->limits[row + 1][from] == mask &&
                                      end_of_run(map, row - 1, from) >= to - 1 &&
                                      end_of_run(map, row + 1, from) >= to - 1;
                if (map->limits[row][from] == mask && has_room && fabs(log(here)) > 0.25 &&
                    to - from > best_to - best_from)
                    best_row = row, best_from = from, best_to = to;
            }
        }
        char text[120];
        limits_text(mask, text);
        if ((double)(best_to - best_from) * chars_per_cell < (double)strlen(text) + 2)
            continue;
        fprintf(figure->plot,
                "set label '%s' at %.9g,%.9g center front textcolor rgb '" SLUICE_INK "'\n", text,
                sqrt(edge_of(&map->x, best_from, COLUMNS) * edge_of(&map->x, best_to, COLUMNS)),
                middle_of(&map->y, best_row, ROWS));
    }
}

/* A legend of the areas that there are. */
static void print_legend(struct sluice_figure *figure, const struct map *map)
{
    unsigned named[ROWS * COLUMNS];
    size_t num_named = 0;
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        const unsigned mask = map->limits[i / COLUMNS][i % COLUMNS];
        bool is_named = false;
        for (size_t k = 0; k < num_named; k++)
            is_named |= named[k] == mask;
        if (is_named)
            continue;
        named[num_named++] = mask;
        char text[120];
        fprintf(figure->plot, ", NaN with boxes lc rgb '%s' title '%s'", area_colour(mask),
                limits_text(mask, text));
    }
}

static sluice_status draw_map(const struct subject *subject, const struct map *map,
                              struct sluice_err *err)
{
    struct sluice_figure figure;
    sluice_status status = sluice_figure_open(&figure, subject->folder, "limits",
                                              "What limits remote_auto where", err);
    if (status != SLUICE_OK)
        return status;
    figure.height = 500;
    figure.narrow_height = 500;
    print_cells(&figure, map);
    sluice_figure_log_axis(&figure, 'x', map->x.low, map->x.high);
    sluice_figure_log_axis(&figure, 'y', map->y.low, map->y.high);
    fprintf(figure.script,
            "set xlabel '%s'\nset ylabel '%s'\nunset grid\nset style fill solid noborder\n",
            map->x.xlabel, map->y.xlabel);
    /* The plot is about 780 of 860 points wide and 280 of 360. */
    fprintf(figure.plot, "unset label\nif (narrow) {\n");
    print_labels(&figure, map, 280.0 / COLUMNS / 7.5);
    fprintf(figure.plot, "} else {\n");
    print_labels(&figure, map, 780.0 / COLUMNS / 8);
    fprintf(figure.plot,
            "}\nset key outside bottom center horizontal height 0.5\nif (narrow) { set key "
            "maxcols 1 samplen 1 } else { set key maxcols 2 }\n"
            "plot $cells using 1:2:3:4:5:6:7 with boxxyerror lc rgb variable notitle");
    print_legend(&figure, map);
    if (isfinite(map->x.here))
        fprintf(figure.plot,
                ", '+' using (%.9g):(%.9g) every ::0::0 with points pt 6 ps 1.6 lw 2.5 lc rgb "
                "'" SLUICE_INK "' title 'the machines above'",
                map->x.here, map->y.here);
    status = sluice_figure_draw(&figure, err);
    if (status != SLUICE_OK)
        return status;
    return sluice_page_figure(subject->page, subject->folder, "limits",
                              "What is busy for the whole epoch under the plan of remote_auto, by "
                              "bandwidth and storage cores. Where two are named the plan has "
                              "balanced them: more of one alone helps little.",
                              err);
}

/* --- how the sizes of all samples spread at each stage --- */

static int compare_bytes(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

struct spread {
    const char *title, *colour;
    int dash;
};

/* A line of the figure, of which range becomes the least and the most; sorts `bytes`. */
static void print_spread(struct sluice_figure *figure, size_t line, const struct spread *look,
                         uint64_t *bytes, size_t num, double range_kb[2])
{
    enum { NUM_POINTS = 200 };
    if (num == 0)
        return;
    qsort(bytes, num, sizeof(*bytes), compare_bytes);
    fprintf(figure->script, "$line%zu << EOD\n", line);
    for (size_t point = 0; point <= NUM_POINTS; point++) {
        const size_t rank = (num - 1) * point / NUM_POINTS;
        fprintf(figure->script, "%.3f %.4f\n", (double)bytes[rank] / 1e3,
                (double)point / NUM_POINTS);
    }
    fprintf(figure->script, "EOD\n");
    range_kb[0] = fmin(range_kb[0], (double)bytes[0] / 1e3);
    range_kb[1] = fmax(range_kb[1], (double)bytes[num - 1] / 1e3);
    fprintf(figure->plot, "%s$line%zu using 1:2 with lines lw 2.5 dt %d lc rgb '%s' title '%s'",
            ftell(figure->plot) > 0 ? ", " : "plot ", line, look->dash, look->colour, look->title);
}

static size_t bytes_at_stage(const struct sluice_cost_table *table, unsigned stage, uint64_t *bytes)
{
    for (size_t row = 0; row < table->num_rows; row++)
        bytes[row] = table->rows[row].bytes[stage];
    return table->num_rows;
}

static size_t bytes_in_form(const struct sluice_form_table *forms,
                            const struct sluice_choices *choices, enum sluice_form form,
                            uint64_t *bytes)
{
    size_t num = 0;
    for (size_t i = 0; i < forms->num_rows; i++) {
        if (choices->at[forms->rows[i].choice].form == form)
            bytes[num++] = forms->rows[i].bytes;
    }
    return num;
}

static sluice_status draw_sizes(const struct subject *subject,
                                const struct sluice_form_table *forms, struct sluice_err *err)
{
    const struct sluice_cost_table *table = &subject->profile->table;
    const struct sluice_choices *choices = &subject->profile->choices;
    struct sluice_figure figure;
    char title[100];
    snprintf(title, sizeof(title), "Bytes of a sample at each stage\n%zu samples", table->num_rows);
    sluice_status status = sluice_figure_open(&figure, subject->folder, "sizes_cdf", title, err);
    if (status != SLUICE_OK)
        return status;
    figure.narrow_height = 480;
    uint64_t *bytes = malloc((table->num_rows + forms->num_rows + 1) * sizeof(*bytes));
    if (!bytes) {
        sluice_figure_abandon(&figure);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to sort %zu sizes", table->num_rows);
    }
    double range_kb[2] = {INFINITY, 0};
    const struct {
        struct spread look;
        unsigned stage; /* with a form: not looked at */
        enum sluice_form form;
        bool is_there;
    } lines[] = {
        {{"file", SLUICE_BLUE, 1}, 0, SLUICE_FORM_RAW, true},
        {{"file, cut to the crop", SLUICE_BLUE, 2}, 0, SLUICE_FORM_JPEG_CROP, true},
        {{"decoded", SLUICE_VERMILION, 1}, 1, SLUICE_FORM_RAW, true},
        {{"cropped pixels", SLUICE_GREEN, 1},
         choices->u8_split,
         SLUICE_FORM_RAW,
         choices->u8_split > 1},
        {{"cropped, packed", SLUICE_GREEN, 2}, 0, SLUICE_FORM_U8_PACKED, true},
        {{"float32", SLUICE_PINK, 4},
         choices->num_ops,
         SLUICE_FORM_RAW,
         choices->num_ops > choices->u8_split},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(lines); i++) {
        if (!lines[i].is_there)
            continue;
        const size_t num = lines[i].form == SLUICE_FORM_RAW
                               ? bytes_at_stage(table, lines[i].stage, bytes)
                               : bytes_in_form(forms, choices, lines[i].form, bytes);
        print_spread(&figure, i, &lines[i].look, bytes, num, range_kb);
    }
    free(bytes);
    sluice_figure_log_axis(&figure, 'x', fmax(range_kb[0], 1e-3), fmax(range_kb[1], 1e-3));
    fprintf(figure.script, "set xlabel 'kB per sample'\nset ylabel 'share of samples'\n"
                           "set yrange [0:1]\n");
    status = sluice_figure_draw(&figure, err);
    if (status != SLUICE_OK)
        return status;
    return sluice_page_figure(subject->page, subject->folder, "sizes_cdf",
                              "The share of samples that have at most so many bytes; dashed: forms "
                              "that only Sluice's protocol has.",
                              err);
}

sluice_status sluice_report_plans(const struct sluice_profile *profile,
                                  const struct sluice_profile_costs *costs,
                                  const struct sluice_form_table *forms,
                                  const struct sluice_rates *rates, const char *folder,
                                  struct sluice_page *page, struct sluice_err *err)
{
    struct subject subject = {
        .profile = profile,
        .menu = sluice_profile_menu(profile, costs),
        .rates = rates,
        .folder = folder,
        .page = page,
    };
    for (unsigned c = 0; c < subject.menu.choices.num; c++)
        subject.menu.has_choice[c] = true;
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

    struct map *map = calloc(1, sizeof(*map));
    if (!map)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a map of limits");
    snprintf(title, sizeof(title), "Epoch time over bandwidth\n%g storage, %g compute cores",
             rates->storage_cores, rates->compute_cores);
    map->x = (struct axis){.name = "time_over_bandwidth",
                           .title = title,
                           .xlabel = "bandwidth, Mbit/s",
                           .caption = "Predicted. Dotted: the bandwidth above.",
                           .low = 50,
                           .high = 10000,
                           .here = mbit_of(rates),
                           .set = set_bandwidth};
    widen(&map->x);
    status = draw_over(&subject, &map->x, err);
    snprintf(title, sizeof(title), "Epoch time over storage cores\n%s, %g compute cores",
             sluice_show_rate(rates->link_bytes_per_s, rate), rates->compute_cores);
    map->y = (struct axis){.name = "time_over_storage_cores",
                           .title = title,
                           .xlabel = "storage cores",
                           .caption = "Predicted. Dotted: the storage cores above.",
                           .low = 1,
                           .high = 32,
                           .here = rates->storage_cores,
                           .set = set_storage_cores};
    widen(&map->y);
    if (status == SLUICE_OK)
        status = draw_over(&subject, &map->y, err);
    if (status == SLUICE_OK)
        status = fill_map(&subject, map, err);
    if (status == SLUICE_OK)
        status = draw_map(&subject, map, err);
    free(map);
    if (status == SLUICE_OK)
        status = draw_sizes(&subject, forms, err);
    return status;
}
