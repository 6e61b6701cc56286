#include "profiler/commands.h"

#include "base/cli.h"
#include "base/file.h"
#include "profiler/figure.h"

#include <jansson.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *planner_title(size_t planner)
{
    static const char *const titles[] = {"all resources", "SOPHON", "no-off", "all-off",
                                         "resize-off"};
    return titles[planner];
}

/* --- figures of a cost table --- */

static int compare_bytes(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* How the sizes of all samples spread at each stage; stages with equal sizes are one line. */
static sluice_status draw_sizes(const char *folder, const struct sluice_profile *profile,
                                struct sluice_err *err)
{
    const struct sluice_cost_table *table = &profile->table;
    const unsigned num_ops = profile->choices.num_ops, u8_split = profile->choices.u8_split;
    const struct {
        unsigned stage;
        const char *title;
        bool is_drawn;
    } lines[] = {
        {0, "file", true},
        {1, "decoded", true},
        {u8_split, "cropped, u8", u8_split > 1},
        {num_ops, "float32", num_ops > u8_split},
    };
    enum { NUM_POINTS = 400 };

    struct sluice_figure figure;
    sluice_status status = sluice_figure_open(&figure, folder, "sizes_cdf", err);
    if (status != SLUICE_OK)
        return status;
    uint64_t *sorted = malloc(table->num_rows * sizeof(*sorted));
    if (!sorted) {
        fclose(figure.script);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to sort %zu sizes", table->num_rows);
    }
    char plot[1024] = "plot ";
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(lines); i++) {
        if (!lines[i].is_drawn)
            continue;
        for (size_t row = 0; row < table->num_rows; row++)
            sorted[row] = table->rows[row].bytes[lines[i].stage];
        qsort(sorted, table->num_rows, sizeof(*sorted), compare_bytes);
        fprintf(figure.script, "$line%zu << EOD\n", i);
        for (size_t point = 0; point <= NUM_POINTS; point++) {
            const size_t rank = (table->num_rows - 1) * point / NUM_POINTS;
            fprintf(figure.script, "%.3f %.6f\n", (double)sorted[rank] / 1e3,
                    (double)point / NUM_POINTS);
        }
        fprintf(figure.script, "EOD\n");
        const size_t len = strlen(plot);
        snprintf(plot + len, sizeof(plot) - len, "%s$line%zu using 1:2 with lines lw 2 title '%s'",
                 i ? ", " : "", i, lines[i].title);
    }
    free(sorted);
    fprintf(figure.script,
            "set title 'Bytes of a sample at each stage (%zu samples)'\nset logscale x\n"
            "set xlabel 'kB per sample'\nset ylabel 'share of samples'\nset yrange [0:1]\n",
            table->num_rows);
    return sluice_figure_draw(&figure, plot, err);
}

/* One line per planner over a rate that `set` puts into the rates. */
static sluice_status draw_over_rate(const char *folder, const char *name, const char *title,
                                    const char *xlabel, const struct sluice_profile *profile,
                                    const struct sluice_profile_costs *costs,
                                    const struct sluice_rates *rates, const double *values,
                                    size_t num_values, void (*set)(struct sluice_rates *, double),
                                    struct sluice_err *err)
{
    struct sluice_figure figure;
    sluice_status status = sluice_figure_open(&figure, folder, name, err);
    if (status != SLUICE_OK)
        return status;
    char plot[1024] = "plot ";
    struct sluice_form_menu menu = sluice_profile_menu(profile, costs);
    for (unsigned c = 0; c < menu.choices.num; c++)
        menu.has_choice[c] = true;
    fprintf(figure.script, "$data << EOD\n");
    for (size_t i = 0; i < num_values; i++) {
        struct sluice_rates at = *rates;
        set(&at, values[i]);
        fprintf(figure.script, "%g", values[i]);
        for (size_t p = 0; sluice_profile_planners[p]; p++) {
            uint8_t *split = NULL;
            status = sluice_profile_make_plan(sluice_profile_planners[p], &menu, &at, &split, err);
            if (status != SLUICE_OK) {
                fclose(figure.script);
                return status;
            }
            fprintf(figure.script, " %.6f", sluice_form_menu_forecast(&menu, &at, split).primal_s);
            free(split);
        }
        fprintf(figure.script, "\n");
    }
    fprintf(figure.script,
            "EOD\nset title '%s'\nset logscale xy\nset xlabel '%s'\n"
            "set ylabel 'seconds per epoch, predicted'\n",
            title, xlabel);
    for (size_t p = 0; sluice_profile_planners[p]; p++) {
        const size_t len = strlen(plot);
        snprintf(plot + len, sizeof(plot) - len,
                 "%s$data using 1:%zu with linespoints lw 2 pt 7 ps 0.6 title '%s'", p ? ", " : "",
                 p + 2, planner_title(p));
    }
    return sluice_figure_draw(&figure, plot, err);
}

static void set_bandwidth(struct sluice_rates *rates, double mbit)
{
    rates->link_bytes_per_s = mbit * 1e6 / 8;
}

static void set_storage_cores(struct sluice_rates *rates, double cores)
{
    rates->storage_cores = cores;
}

static sluice_status draw_table(const char *folder, const struct sluice_profile *profile,
                                const struct sluice_profile_costs *costs,
                                const struct sluice_rates *rates, struct sluice_err *err)
{
    static const double mbits[] = {50, 100, 200, 350, 500, 750, 1000, 2000, 5000, 10000};
    static const double cores[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
    char title[200];
    sluice_status status = draw_sizes(folder, profile, err);
    if (status != SLUICE_OK)
        return status;
    snprintf(title, sizeof(title), "Epoch time over bandwidth (%g storage, %g compute cores)",
             rates->storage_cores, rates->compute_cores);
    status = draw_over_rate(folder, "time_over_bandwidth", title, "bandwidth, Mbit/s", profile,
                            costs, rates, mbits, SLUICE_ARRAY_LEN(mbits), set_bandwidth, err);
    if (status != SLUICE_OK)
        return status;
    snprintf(title, sizeof(title), "Epoch time over storage cores (%g Mbit/s, %g compute cores)",
             rates->link_bytes_per_s * 8 / 1e6, rates->compute_cores);
    return draw_over_rate(folder, "time_over_storage_cores", title, "storage cores", profile, costs,
                          rates, cores, SLUICE_ARRAY_LEN(cores), set_storage_cores, err);
}

/* --- figures of runs --- */

struct run {
    char mode[32];
    char digest[64];
    char choices[128];
    double seconds, wire_bytes;
};

struct runs {
    struct run *items;
    size_t num_items, capacity;
};

static sluice_status parse_run(const char *path, size_t line, json_t *json, struct run *run,
                               struct sluice_err *err)
{
    const json_t *mode = json_object_get(json, "mode");
    const json_t *seconds = json_object_get(json, "seconds");
    const json_t *wire_bytes = json_object_get(json, "wire_bytes");
    const json_t *digest = json_object_get(json, "digest");
    if (!json_is_string(mode) || !json_is_number(seconds) || !json_is_number(wire_bytes))
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "%s:%zu: 'mode', 'seconds' or 'wire_bytes' is missing", path, line);
    *run = (struct run){.seconds = json_number_value(seconds),
                        .wire_bytes = json_number_value(wire_bytes)};
    snprintf(run->mode, sizeof(run->mode), "%s", json_string_value(mode));
    snprintf(run->digest, sizeof(run->digest), "%s",
             json_is_string(digest) ? json_string_value(digest) : "-");
    const char *key;
    json_t *count;
    json_object_foreach(json_object_get(json, "choices"), key, count)
    {
        const size_t len = strlen(run->choices);
        snprintf(run->choices + len, sizeof(run->choices) - len, "%s%s:%lld", len ? " " : "", key,
                 (long long)json_integer_value(count));
    }
    return SLUICE_OK;
}

/* Reads the lines that offload_train --json printed, one object each. */
static sluice_status read_runs(const char *path, struct runs *runs, struct sluice_err *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    sluice_status status = SLUICE_OK;
    char *line = NULL;
    size_t capacity = 0;
    for (size_t number = 1; status == SLUICE_OK && getline(&line, &capacity, file) > 0; number++) {
        if (line[strspn(line, " \t\r\n")] == '\0')
            continue;
        json_error_t why;
        json_t *json = json_loads(line, 0, &why);
        if (!json) {
            status = sluice_fail(err, SLUICE_E_CORRUPT, "%s:%zu: %s", path, number, why.text);
            break;
        }
        if (runs->num_items == runs->capacity) {
            const size_t grown = runs->capacity ? runs->capacity * 2 : 16;
            struct run *moved = realloc(runs->items, grown * sizeof(*moved));
            if (moved) {
                runs->items = moved;
                runs->capacity = grown;
            } else {
                status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu runs", grown);
            }
        }
        if (status == SLUICE_OK)
            status = parse_run(path, number, json, &runs->items[runs->num_items], err);
        if (status == SLUICE_OK)
            runs->num_items++;
        json_decref(json);
    }
    free(line);
    fclose(file);
    if (status == SLUICE_OK && runs->num_items == 0)
        status = sluice_fail(err, SLUICE_E_CORRUPT, "%s: no runs in it", path);
    return status;
}

/* What remote_nooff moved, against which savings are counted; NAN if it was not run. */
static double baseline_bytes(const struct runs *runs)
{
    for (size_t i = 0; i < runs->num_items; i++) {
        if (strcmp(runs->items[i].mode, "remote_nooff") == 0)
            return runs->items[i].wire_bytes;
    }
    return NAN;
}

static void print_runs(const struct runs *runs)
{
    const double baseline = baseline_bytes(runs);
    printf("%-14s %9s %10s %10s  %-32s  %s\n", "mode", "seconds", "MB", "MB saved", "digest",
           "choices");
    for (size_t i = 0; i < runs->num_items; i++) {
        const struct run *run = &runs->items[i];
        char saved[32] = "-";
        if (!isnan(baseline) && run->wire_bytes > 0)
            snprintf(saved, sizeof(saved), "%.2f", (baseline - run->wire_bytes) / 1e6);
        printf("%-14s %9.3f %10.2f %10s  %-32s  %s\n", run->mode, run->seconds,
               run->wire_bytes / 1e6, saved, run->digest, run->choices);
    }
}

static sluice_status draw_runs(const char *folder, const struct runs *runs, struct sluice_err *err)
{
    struct sluice_figure figure;
    sluice_status status = sluice_figure_open(&figure, folder, "modes", err);
    if (status != SLUICE_OK)
        return status;
    fprintf(figure.script, "$data << EOD\n");
    for (size_t i = 0; i < runs->num_items; i++)
        fprintf(figure.script, "\"%s\" %.6f %.6f\n", runs->items[i].mode, runs->items[i].seconds,
                runs->items[i].wire_bytes / 1e6);
    fprintf(figure.script, "EOD\nunset key\nset style fill solid 0.85 noborder\n"
                           "set boxwidth 0.65\nset xtics rotate by -30 noenhanced\n"
                           "set yrange [0:*]\nset offsets graph 0.08, graph 0.08, graph 0.12, 0\n");
    return sluice_figure_draw(&figure,
                              "set multiplot layout 1,2\n"
                              "set title 'Seconds per epoch'\nset ylabel 'seconds'\n"
                              "plot $data using 0:2:xtic(1) with boxes linecolor rgb '#4477aa', "
                              "$data using 0:2:(sprintf('%.2f', $2)) with labels offset 0,0.7\n"
                              "set title 'MB on the wire per epoch'\nset ylabel 'MB'\n"
                              "plot $data using 0:3:xtic(1) with boxes linecolor rgb '#cc6677', "
                              "$data using 0:3:(sprintf('%.1f', $3)) with labels offset 0,0.7\n"
                              "unset multiplot",
                              err);
}

static sluice_status report_runs(const char *path, const char *folder, struct sluice_err *err)
{
    struct runs runs = {0};
    sluice_status status = read_runs(path, &runs, err);
    if (status == SLUICE_OK) {
        print_runs(&runs);
        status = draw_runs(folder, &runs, err);
    }
    free(runs.items);
    return status;
}

/* --- the command line --- */

struct report_options {
    struct sluice_profile_source source;
    const char *out_folder, *runs_path;
    double net_bw;
    uint64_t remote_cpus, local_cpus;
};

static struct report_options given;

enum { DATA, MACHINES, OUTPUT };
static const char *const groups[] = {
    [DATA] = "data", [MACHINES] = "machines to plan for", [OUTPUT] = "output", NULL};

static const struct sluice_option options[] = {
    {.name = "out",
     .short_name = 'o',
     .group = OUTPUT,
     .type = SLUICE_OPTION_STRING,
     .value = &given.out_folder,
     .arg = "FOLDER",
     .is_required = true,
     .help = "Folder to write the figures to, each as SVG, PNG and gnuplot script."},
    {.name = "runs",
     .group = DATA,
     .type = SLUICE_OPTION_STRING,
     .value = &given.runs_path,
     .arg = "FILE",
     .help = "Lines that offload_train --json printed. They make a table on standard output and "
             "the figure 'modes'."},
    {.name = "profile-folder",
     .group = DATA,
     .type = SLUICE_OPTION_STRING,
     .value = &given.source.folder,
     .arg = "FOLDER",
     .help = "Folder of a profile (prep_sizes.csv, prep_times.csv). It makes the figures "
             "'sizes_cdf', 'time_over_bandwidth' and 'time_over_storage_cores'."},
    SLUICE_PROFILE_TABLE_OPTIONS(DATA, given.source),
    {.name = "costs",
     .group = DATA,
     .type = SLUICE_OPTION_CHOICE,
     .value = &given.source.costs,
     .arg = "NAME",
     .choices = sluice_profile_costs_names,
     .help = SLUICE_PROFILE_COSTS_HELP},
    {.name = "net-bw",
     .group = MACHINES,
     .type = SLUICE_OPTION_RATE,
     .value = &given.net_bw,
     .arg = "MBIT",
     .help = "Bandwidth in Mbit/s or with a unit (1gbit), in the figure over storage cores."},
    {.name = "remote-cpus",
     .group = MACHINES,
     .type = SLUICE_OPTION_UINT,
     .value = &given.remote_cpus,
     .arg = "N",
     .min = 1,
     .max = 1e9,
     .help = "Storage cores, in the figure over bandwidth."},
    {.name = "local-cpus",
     .group = MACHINES,
     .type = SLUICE_OPTION_UINT,
     .value = &given.local_cpus,
     .arg = "N",
     .min = 1,
     .max = 1e9,
     .help = "Compute cores."},
};

int sluice_profile_cmd_report(int argc, char **argv)
{
    given = (struct report_options){.source = sluice_profile_source_init(),
                                    .net_bw = 500e6 / 8,
                                    .remote_cpus = 4,
                                    .local_cpus = 8};
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "Draw figures of a profile, of runs, or of both.",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
        .groups = groups,
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    const bool has_table = given.source.folder || given.source.sizes_path;
    if (!has_table && !given.runs_path)
        return sluice_cli_usage_error(&cli, "--profile-folder, --sizes or --runs is needed");

    const struct sluice_rates rates = {
        .link_bytes_per_s = given.net_bw > 0 ? given.net_bw : INFINITY,
        .storage_cores = (double)given.remote_cpus,
        .compute_cores = (double)given.local_cpus,
        .gpu_samples_per_s = INFINITY,
    };
    struct sluice_profile profile = {0};
    struct sluice_profile_costs costs = {0};
    struct sluice_err err = {0};
    sluice_status status = sluice_mkdirs(given.out_folder, &err);
    if (status == SLUICE_OK && has_table)
        status = sluice_profile_load(&given.source, &profile, &err);
    if (status == SLUICE_OK && has_table)
        status = sluice_profile_load_costs(&given.source, &profile, &costs, &err);
    if (status == SLUICE_OK && has_table)
        status = draw_table(given.out_folder, &profile, &costs, &rates, &err);
    if (status == SLUICE_OK && given.runs_path)
        status = report_runs(given.runs_path, given.out_folder, &err);
    sluice_profile_costs_clear(&costs);
    sluice_profile_clear(&profile);
    return sluice_cli_exit_code(status, &err);
}
