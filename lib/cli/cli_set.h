#ifndef SLUICE_CLI_CLI_SET_H
#define SLUICE_CLI_CLI_SET_H

#include "cli/cli.h"

#include <stddef.h>

/* Options of a table (cli.h) by name and text, without a command line: nothing is printed, and the
 * struct that is written to need not be the one that the table points into.
 *
 *     static struct foo_options given;                      what the table points into
 *     static const struct sluice_option table[] = {{.name = "root", .value = &given.root, ...
 *
 *     sluice_cli_set(table, num, sluice_cli_offset(&given, options), &texts, "root", "/data", &err)
 *
 * Threads: the table is only read; what is written belongs to the caller.  So any thread. */

/* Copies of the values that are text.  Zero-initialise; clear once no option points to one. */
struct sluice_cli_texts {
    struct sluice_cli_text *first;
};
/* Twice is fine. */
void sluice_cli_texts_clear(struct sluice_cli_texts *texts);

/* From the struct that a table points into to another one of its type, in bytes. */
ptrdiff_t sluice_cli_offset(const void *table_struct, const void *instance);

/* Sets the option called `key` (no dashes; its alias is the same) to `value`, which is checked as
 * the command line does; of a flag it is "true" or "false".  Each pointer of the option, value and
 * is_given, is taken `offset` bytes further on.  An option set twice has the last value; of those
 * that may be given many times each call adds one.  That required options are given is not checked.
 *
 * `texts` takes a copy of a value that is text; NULL: the option borrows `value`.
 *
 * SLUICE_E_INVALID names the key and what is wrong with the value, or the keys that are near to one
 * that is unknown; nothing is set then. */
SLUICE_MUST_USE sluice_status sluice_cli_set(const struct sluice_option *options,
                                             size_t num_options, ptrdiff_t offset,
                                             struct sluice_cli_texts *texts, const char *key,
                                             const char *value, struct sluice_err *err);

#endif
