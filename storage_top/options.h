#ifndef SLUICE_STORAGE_TOP_OPTIONS_H
#define SLUICE_STORAGE_TOP_OPTIONS_H

#include "base/host_port.h"
#include "compute_client/options/connection.h"

#include <stdbool.h>
#include <stddef.h>

/* The command line of offload_top, checked.
 *
 * Threads: at start, on the main thread. */

#define TOP_MAX_SERVERS 16

struct top_options {
    struct sluice_connection_options connection;
    double interval_s;
    bool is_once, is_json; /* json: once, too */
    char targets[TOP_MAX_SERVERS][SLUICE_HOST_PORT_BYTES];
    size_t num_targets;
};

/* False: the program ends with *exit_code, and everything is printed already.  Borrows argv. */
bool top_options_parse(int argc, char **argv, struct top_options *options, int *exit_code);

#endif
