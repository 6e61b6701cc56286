#include "profiler/commands.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "profiler/report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
     SLUICE_VALUE_STRING(given.out_folder, "FOLDER"),
     .help = "Folder for the page index.html and its figures, each as SVG, PNG and gnuplot script.",
     .default_text = "FOLDER/report, or RUN-report beside RUN.jsonl"},
    {.name = "runs",
     .group = DATA,
     SLUICE_VALUE_STRING(given.runs_path, "FILE"),
     .help = "Lines that offload_train --json printed, as if FILE stood among the arguments."},
    {.name = "profile-folder",
     .group = DATA,
     SLUICE_VALUE_STRING(given.source.folder, "FOLDER"),
     .help = "Folder of a profile (prep_sizes.csv, prep_times.csv), as if FOLDER stood among the "
             "arguments."},
    SLUICE_PROFILE_TABLE_OPTIONS(DATA, given.source),
    SLUICE_PROFILE_COSTS_OPTION(DATA, given.source),
    {.name = "net-bw",
     .group = MACHINES,
     SLUICE_VALUE_RATE(given.net_bw, "RATE"),
     .help = "Bandwidth in Mbit/s or with a unit (1Gbps), in the figure over storage cores."},
    {.name = "remote-cpus",
     .group = MACHINES,
     SLUICE_VALUE_UINT(given.remote_cpus, "N"),
     SLUICE_RANGE(1, 1e9),
     .help = "Storage cores, in the figure over bandwidth."},
    {.name = "local-cpus",
     .group = MACHINES,
     SLUICE_VALUE_UINT(given.local_cpus, "N"),
     SLUICE_RANGE(1, 1e9),
     .help = "Compute cores."},
    SLUICE_PROFILE_GPU_OPTIONS(MACHINES, given.source),
};

/* The profile's folder and the files of runs, whichever way they were named. */
struct inputs {
    const char *runs[17];
    size_t num_runs;
    char out[SLUICE_MAX_PATH_BYTES];
};

/* Sets the path of the page: the option, else the profile's folder, else that of the first run. */
static bool choose_out(struct inputs *inputs)
{
    if (given.out_folder)
        return sluice_print(inputs->out, sizeof(inputs->out), "%s", given.out_folder);
    if (given.source.folder)
        return sluice_print(inputs->out, sizeof(inputs->out), "%s/report", given.source.folder);
    const char *run = inputs->runs[0];
    const size_t len = strlen(run);
    const bool has_suffix = len > 6 && strcmp(run + len - 6, ".jsonl") == 0;
    return sluice_print(inputs->out, sizeof(inputs->out), "%.*s-report",
                        (int)(has_suffix ? len - 6 : len), run);
}

/* 0, or the exit code of what is wrong with the arguments. */
static int sort_inputs(const struct sluice_cli *cli, const struct sluice_cli_result *parsed,
                       struct inputs *inputs)
{
    *inputs = (struct inputs){0};
    if (given.runs_path)
        inputs->runs[inputs->num_runs++] = given.runs_path;
    for (size_t i = 0; i < parsed->num_positional; i++) {
        const char *path = parsed->positional[i];
        struct stat st;
        if (stat(path, &st) != 0)
            return sluice_cli_usage_error(cli, "%s: %s", path, strerror(errno));
        if (!S_ISDIR(st.st_mode))
            inputs->runs[inputs->num_runs++] = path;
        else if (given.source.folder)
            return sluice_cli_usage_error(cli,
                                          "%s: one folder of a profile is enough, and %s is one",
                                          path, given.source.folder);
        else
            given.source.folder = path;
    }
    if (!given.source.folder && !given.source.sizes_path && inputs->num_runs == 0)
        return sluice_cli_usage_error(
            cli, "a FOLDER of a profile or a RUN.jsonl is needed (or --sizes)");
    if (!given.out_folder && !given.source.folder && inputs->num_runs == 0)
        return sluice_cli_usage_error(cli, "--out is needed where there is no folder");
    if (given.source.gpu_decode_rate > 0 && strcmp(given.source.gpu_decode, "on") != 0)
        return sluice_cli_usage_error(cli, "--gpu-decode-rate is of --gpu-decode on");
    return choose_out(inputs) ? 0 : sluice_cli_usage_error(cli, "the path is too long");
}

/* Writes what is drawn of the profile to `out`. */
static sluice_status write_plans(FILE *out, struct sluice_err *err)
{
    const struct sluice_rates rates = {
        .link_bytes_per_s = given.net_bw > 0 ? given.net_bw : INFINITY,
        .storage_cores = (double)given.remote_cpus,
        .compute_cores = (double)given.local_cpus,
        .gpu_samples_per_s = INFINITY,
    };
    struct sluice_profile profile = {0};
    struct sluice_profile_costs costs = {0};
    struct sluice_form_table forms = {0};
    sluice_status status = sluice_profile_load(&given.source, &profile, err);
    if (status == SLUICE_OK)
        status = sluice_profile_load_costs(&given.source, &profile, &costs, err);
    if (status == SLUICE_OK)
        status = sluice_profile_load_forms(&given.source, &profile, &forms, err);
    if (status == SLUICE_OK)
        status = sluice_report_plans(&profile, &costs, &forms, &rates, out, err);
    sluice_form_table_clear(&forms);
    sluice_profile_costs_clear(&costs);
    sluice_profile_clear(&profile);
    return status;
}

/* report.py in the package that this program is installed in (a wheel), else in share/sluice. */
static sluice_status find_script(char path[SLUICE_MAX_PATH_BYTES], struct sluice_err *err)
{
    char program[SLUICE_MAX_PATH_BYTES] = "";
    const ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
    char *name = len > 0 ? strrchr(program, '/') : NULL;
    if (!name)
        return sluice_fail(err, SLUICE_E_IO, "/proc/self/exe: %s", strerror(errno));
    *name = '\0';
    const char *folder = strrchr(program, '/');
    const bool is_in_package = folder && strcmp(folder, "/_bin") == 0;
    if (!sluice_print(path, SLUICE_MAX_PATH_BYTES, "%s/../%sreport.py", program,
                      is_in_package ? "" : "share/sluice/"))
        return sluice_fail(err, SLUICE_E_INVALID, "%s: the path is too long", program);
    if (access(path, R_OK) != 0)
        return sluice_fail(err, SLUICE_E_NOT_FOUND,
                           "%s, which draws the page, is not there: %s; install sluice again", path,
                           strerror(errno));
    return SLUICE_OK;
}

/* Becomes python3, which runs the script with the plans on its stdin; returns only on failure. */
static sluice_status draw(const struct inputs *inputs, FILE *plans, bool is_json,
                          struct sluice_err *err)
{
    char script[SLUICE_MAX_PATH_BYTES];
    const sluice_status status = find_script(script, err);
    if (status != SLUICE_OK)
        return status;
    if (plans)
        rewind(plans);
    /* -I: nothing of the folder that it lies in, or of the environment, is imported. */
    const char *argv[SLUICE_ARRAY_LEN(inputs->runs) + 10] = {"python3", "-I", script, "--out",
                                                             inputs->out};
    size_t argc = 5;
    if (plans)
        argv[argc++] = "--plans";
    if (is_json)
        argv[argc++] = "--json";
    if (!sluice_log_is_enabled(SLUICE_LOG_WARN))
        argv[argc++] = "--quiet";
    argv[argc++] = "--";
    for (size_t i = 0; i < inputs->num_runs; i++)
        argv[argc++] = inputs->runs[i];
    if (!plans || dup2(fileno(plans), STDIN_FILENO) >= 0)
        execvp(argv[0], (char **)argv);
    return errno == ENOENT
               ? sluice_fail(err, SLUICE_E_NOT_FOUND,
                             "the page is drawn by python3 and gnuplot, and python3 is not "
                             "installed (packages python3 and gnuplot-nox)")
               : sluice_fail(err, SLUICE_E_IO, "python3: %s", strerror(errno));
}

int sluice_profile_cmd_report(int argc, char **argv)
{
    given = (struct report_options){.source = sluice_profile_source_init(),
                                    .net_bw = 500e6 / 8,
                                    .remote_cpus = 4,
                                    .local_cpus = 8};
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "Make a page with figures of a profile, of runs, or of both: FOLDER holds a "
                   "profile, RUN.jsonl what offload_train --json printed.",
        .positional = "[FOLDER|RUN.jsonl]...",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
        .groups = groups,
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    struct inputs inputs;
    const int exit_code = sort_inputs(&cli, &parsed, &inputs);
    if (exit_code != 0)
        return exit_code;
    struct sluice_err err = {0};
    const bool has_profile = given.source.folder || given.source.sizes_path;
    FILE *plans = has_profile ? tmpfile() : NULL;
    sluice_status status = SLUICE_OK;
    if (has_profile)
        status = plans ? write_plans(plans, &err)
                       : sluice_fail(&err, SLUICE_E_IO, "a temporary file: %s", strerror(errno));
    if (status == SLUICE_OK)
        status = draw(&inputs, plans, parsed.is_json, &err);
    if (plans)
        fclose(plans);
    return sluice_cli_exit_code(status, &err);
}
