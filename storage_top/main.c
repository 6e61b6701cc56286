#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/quit.h"
#include "cli/cli.h"
#include "crypto/secret.h"
#include "rpc/rpc.h"
#include "storage_top/options.h"
#include "storage_top/poll.h"
#include "storage_top/table.h"
#include "storage_top/tuning.h"
#ifdef SLUICE_HAVE_NCURSES
#include "storage_top/screen.h"
#endif

#include <stdio.h>
#include <stdlib.h>

/* A server did not answer. */
#define EXIT_AWAY 1

static sluice_status print_servers(const struct top_options *options,
                                   const struct top_server *servers, struct sluice_err *err)
{
    if (options->is_json) {
        char *json = NULL;
        const sluice_status status = top_json_make(servers, options->num_targets, &json, err);
        if (status == SLUICE_OK)
            puts(json);
        free(json);
        return status;
    }
    struct top_lines lines;
    const sluice_status status = top_table_make(servers, options->num_targets, &lines, err);
    if (status != SLUICE_OK)
        return status;
    for (size_t i = 0; i < lines.num_lines; i++)
        puts(lines.lines[i]);
    top_lines_clear(&lines);
    return SLUICE_OK;
}

/* Two answers of each, for the rates. */
static sluice_status run_once(const struct top_options *options, struct top_poll *poll,
                              bool *are_all_there, struct sluice_err *err)
{
    struct top_server servers[TOP_MAX_SERVERS];
    const uint64_t most_ns =
        2 * TUNING_ANSWER_MS * UINT64_C(1000000) + (uint64_t)(options->interval_s * 1e9);
    top_poll_wait(poll, 2, sluice_clock_ns() + most_ns);
    sluice_status status = top_poll_read(poll, servers, err);
    if (status != SLUICE_OK)
        return status;
    status = print_servers(options, servers, err);
    *are_all_there = true;
    for (size_t i = 0; i < options->num_targets; i++)
        *are_all_there &= servers[i].state == TOP_OK || servers[i].state == TOP_NOT_SERVING;
    top_servers_clear(servers, options->num_targets);
    if (status == SLUICE_OK && fflush(stdout) != 0)
        status = sluice_fail(err, SLUICE_E_IO, "standard output does not take the table");
    return status;
}

#ifdef SLUICE_HAVE_NCURSES
static sluice_status run_live(const struct top_options *options, struct top_poll *poll,
                              struct sluice_err *err)
{
    struct top_screen *screen = NULL;
    sluice_status status = top_screen_open(&screen, err);
    bool is_going_on = status == SLUICE_OK;
    while (is_going_on && !sluice_quit_requested()) {
        struct top_server servers[TOP_MAX_SERVERS];
        struct top_lines lines;
        status = top_poll_read(poll, servers, err);
        if (status != SLUICE_OK)
            break;
        status = top_table_make(servers, options->num_targets, &lines, err);
        top_servers_clear(servers, options->num_targets);
        if (status != SLUICE_OK)
            break;
        top_screen_show(screen, &lines);
        top_lines_clear(&lines);
        is_going_on = top_screen_wait(screen, TUNING_LOOK_MS);
    }
    top_screen_close(screen);
    return status;
}
#else
static sluice_status run_live(const struct top_options *options, struct top_poll *poll,
                              struct sluice_err *err)
{
    (void)options, (void)poll;
    return sluice_fail(err, SLUICE_E_UNSUPPORTED, "built without ncurses"); /* options.c refuses */
}
#endif

int main(int argc, char **argv)
{
    sluice_open_standard_descriptors();
    static struct top_options options; /* its texts are borrowed by all that follows */
    int exit_code = 0;
    if (!top_options_parse(argc, argv, &options, &exit_code))
        return exit_code;
    sluice_log_set_program("offload_top");
    if (!options.is_once) /* lines would end on the screen, and the table says why */
        sluice_log_set_level(SLUICE_LOG_ERROR);
    if (options.connection.key || options.connection.token_file || getenv("SLUICE_TOKEN"))
        sluice_secret_keep_from_core_dumps();
    struct sluice_err err = {0};
    struct top_poll *poll = NULL;
    bool are_all_there = true;
    sluice_status status = sluice_quit_init(&err);
    if (status == SLUICE_OK)
        status = top_poll_create(&options, &poll, &err);
    if (status == SLUICE_OK)
        status = options.is_once ? run_once(&options, poll, &are_all_there, &err)
                                 : run_live(&options, poll, &err);
    top_poll_destroy(poll);
    if (status != SLUICE_OK)
        return sluice_cli_exit_code(status, &err);
    return are_all_there ? 0 : EXIT_AWAY;
}
