#include "storage_top/options.h"

#include "compute_client/fetch/host_text.h"

#include <string.h>
#include <unistd.h>

enum { WHAT, CONNECTION };
static const char *const groups[] = {[WHAT] = "what is shown", [CONNECTION] = "connection", NULL};

/* The table stores its values here. */
static struct {
    bool has_tls, is_once;
    const char *ca, *cert, *key, *server_name, *token_file;
    double interval_s;
} given = {.interval_s = 1};

static struct top_options parsed_options;

static const struct sluice_option table[] = {
    {.name = "once",
     .group = WHAT,
     SLUICE_VALUE_FLAG(given.is_once),
     .help = "Ask each server twice, --interval apart, print one plain table and end: with exit "
             "code 1 if a server did not answer. --json does the same with a JSON object."},
    {.name = "interval",
     .group = WHAT,
     SLUICE_VALUE_SECONDS(given.interval_s, "SECONDS"),
     SLUICE_RANGE(0.05, 3600),
     .help = "Time between two questions to a server, over which the rates are."},
    SLUICE_CONNECTION_ROWS(given, CONNECTION),
};

static sluice_status check(const struct sluice_cli_result *parsed, struct sluice_err *err)
{
    struct top_options *o = &parsed_options;
    o->connection = (struct sluice_connection_options){.has_tls = given.has_tls,
                                                       .ca = given.ca,
                                                       .cert = given.cert,
                                                       .key = given.key,
                                                       .server_name = given.server_name,
                                                       .token_file = given.token_file};
    o->interval_s = given.interval_s;
    o->is_json = parsed->is_json;
    o->is_once = given.is_once || parsed->is_json;
    struct sluice_host_items items = {0};
    sluice_status status = sluice_host_items_parse((const char *const *)parsed->positional,
                                                   parsed->num_positional, &items, err);
    if (status == SLUICE_OK && items.num > TOP_MAX_SERVERS)
        status = sluice_fail(err, SLUICE_E_INVALID, "more than %d servers", TOP_MAX_SERVERS);
    o->num_targets = status == SLUICE_OK ? items.num : 0;
    for (size_t i = 0; status == SLUICE_OK && i < items.num; i++) {
        if (items.at[i].is_dns)
            status = sluice_fail(err, SLUICE_E_INVALID,
                                 "dns: names are for loaders: name each server here");
        sluice_host_port_format(&items.at[i].address, "127.0.0.1", o->targets[i]);
    }
    sluice_host_items_clear(&items);
    if (status == SLUICE_OK)
        status = sluice_connection_check(&o->connection, err);
    if (status != SLUICE_OK || o->is_once)
        return status;
#ifndef SLUICE_HAVE_NCURSES
    return sluice_fail(err, SLUICE_E_INVALID,
                       "this program was built without ncurses: it has --once and --json alone");
#else
    return SLUICE_OK;
#endif
}

static const struct sluice_cli cli = {
    .program = "offload_top",
    .summary = "Shows what storage servers do right now, and for whom.",
    .positional = "SERVER...",
    .options = table,
    .num_options = SLUICE_ARRAY_LEN(table),
    .groups = groups,
    .check = check,
    .epilog = "SERVER is HOST or HOST:PORT, port 50051 if left out. q ends it, arrows and the page "
              "keys scroll. Cores, Mbit/s and samples/s are over the last interval, errors and "
              "refused are counts since the server's start; index is the share of JPEGs that were "
              "decoded with an index, price what a core is worth to the clients, age the time "
              "since the last answer. Below are the clients that have an open stream or were "
              "served in that interval, with the names of their tokens.",
};

bool top_options_parse(int argc, char **argv, struct top_options *options, int *exit_code)
{
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    *exit_code = parsed.exit_code;
    if (parsed.should_exit)
        return false;
    if (!parsed_options.is_once && !isatty(STDOUT_FILENO)) {
        *exit_code =
            sluice_cli_usage_error(&cli, "standard output is no terminal: give --once or --json");
        return false;
    }
    *options = parsed_options;
    return true;
}
