#ifndef SLUICE_CLI_CLI_SET_H
#define SLUICE_CLI_CLI_SET_H

#include "cli/cli.h"

#include <stddef.h>

/* Sets options of a table (cli.h) by name and text, without a command line.  Prints nothing.  May
 * write to another struct than the one that the table points into.
 *
 *     static struct foo_options given;                      what the table points into
 *     static const struct sluice_option table[] = {{.name = "root", .value = &given.root, ...
 *
 *     sluice_cli_set(table, num, sluice_cli_offset(&given, options), &texts, "root", "/data", &err)
 *
 * Threads: any; the table is only read, and the written struct is the caller's. */

/* Copies of the values that are text.  Zero-initialise; clear once no option points to one. */
struct sluice_cli_texts {
    struct sluice_cli_text *first;
};
/* Idempotent. */
void sluice_cli_texts_clear(struct sluice_cli_texts *texts);

/* The offset in bytes from the struct that a table points into to another one of its type. */
ptrdiff_t sluice_cli_offset(const void *table_struct, const void *instance);

/* Sets the option called `key` (no dashes; its alias is the same) to `value`, which is checked as
 * the command line does; a flag takes "true" or "false".  `offset` is added to the option's
 * pointers, value and is_given.  The last of several calls counts; for options that may be given
 * many times, each call adds a value.  Does not check that required options are given.
 *
 * `texts` takes a copy of a value that is text; NULL: the option borrows `value`.
 *
 * SLUICE_E_INVALID names the key and the fault of the value or, for an unknown key, similar keys;
 * nothing is set. */
SLUICE_MUST_USE sluice_status sluice_cli_set(const struct sluice_option *options,
                                             size_t num_options, ptrdiff_t offset,
                                             struct sluice_cli_texts *texts, const char *key,
                                             const char *value, struct sluice_err *err);

#endif
