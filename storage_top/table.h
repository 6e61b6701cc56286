#ifndef SLUICE_STORAGE_TOP_TABLE_H
#define SLUICE_STORAGE_TOP_TABLE_H

#include "storage_top/poll.h"

#include <stddef.h>

/* The text shown: a line for each server, then a line for each of their clients, and why servers
 * are away.  The same lines for --once and for the live view.
 *
 * Threads: pure functions. */

struct top_lines {
    char **lines;
    bool *are_heads; /* of the line: it names columns */
    size_t num_lines;
};

/* Control characters in texts of others (names of clients) are removed. */
SLUICE_MUST_USE sluice_status top_table_make(const struct top_server *servers, size_t num_servers,
                                             struct top_lines *lines, struct sluice_err *err);
void top_lines_clear(struct top_lines *lines); /* twice is fine */

/* The same as one JSON object, with all numbers; free() it.  Unknown values are null. */
SLUICE_MUST_USE sluice_status top_json_make(const struct top_server *servers, size_t num_servers,
                                            char **json, struct sluice_err *err);

#endif
