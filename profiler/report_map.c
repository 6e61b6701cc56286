#include "profiler/report_internal.h"

#include "profiler/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The map of what limits where. */

/* Cells, and of how many samples at most each is planned: the map takes a second or two. */
enum { COLUMNS = 36, ROWS = 18, MAP_SAMPLES = 1000 };

struct map {
    struct report_axis x, y;
    unsigned limits[ROWS][COLUMNS]; /* masks; the first row is the lowest */
};

/* The same where three or more are one thing. */
static unsigned few_limits_of(const struct sluice_choice_forecast *at)
{
    const unsigned mask = report_limits(at);
    return __builtin_popcount(mask) > 2 ? REPORT_MANY : mask;
}

static double edge_of(const struct report_axis *axis, size_t edge, size_t num_cells)
{
    return axis->low * pow(axis->high / axis->low, (double)edge / (double)num_cells);
}

static double middle_of(const struct report_axis *axis, size_t cell, size_t num_cells)
{
    return sqrt(edge_of(axis, cell, num_cells) * edge_of(axis, cell + 1, num_cells));
}

/* The profile's samples or an even part of them: what limits is alike for both. */
static sluice_status fill_map(const struct report_subject *subject, struct map *map,
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
        status = report_forecast(&menu, &rates, SLUICE_MODE_AUTO, &at, err);
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
        {REPORT_MANY, SLUICE_AREA_YELLOW},
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

/* The limits that there are, each once; returns their number. */
static size_t list_limits(const struct map *map, unsigned limits[ROWS * COLUMNS])
{
    size_t num = 0;
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        const unsigned mask = map->limits[i / COLUMNS][i % COLUMNS];
        bool is_listed = false;
        for (size_t k = 0; k < num; k++)
            is_listed |= limits[k] == mask;
        if (!is_listed)
            limits[num++] = mask;
    }
    return num;
}

/* The name of each area where it is widest and there is room for it: a character is as wide as
 * chars_per_cell says. */
static void print_labels(struct sluice_figure *figure, const struct map *map, double chars_per_cell)
{
    unsigned limits[ROWS * COLUMNS];
    const size_t num = list_limits(map, limits);
    for (size_t i = 0; i < num; i++) {
        const unsigned mask = limits[i];
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
        report_limits_text(mask, text);
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
    unsigned limits[ROWS * COLUMNS];
    const size_t num = list_limits(map, limits);
    for (size_t i = 0; i < num; i++) {
        const unsigned mask = limits[i];
        char text[120];
        fprintf(figure->plot, ", NaN with boxes lc rgb '%s' title '%s'", area_colour(mask),
                report_limits_text(mask, text));
    }
}

static sluice_status draw(const struct report_subject *subject, const struct map *map,
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

sluice_status report_draw_map(const struct report_subject *subject, const struct report_axis *x,
                              const struct report_axis *y, struct sluice_err *err)
{
    struct map *map = calloc(1, sizeof(*map));
    if (!map)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a map of limits");
    map->x = *x;
    map->y = *y;
    sluice_status status = fill_map(subject, map, err);
    if (status == SLUICE_OK)
        status = draw(subject, map, err);
    free(map);
    return status;
}
