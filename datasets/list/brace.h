#ifndef SLUICE_DATASETS_LIST_BRACE_H
#define SLUICE_DATASETS_LIST_BRACE_H

#include "base/error.h"

#include <stddef.h>

/* Lists of names in bash's brace notation, as WebDataset has it:
 * "train-{000000..001023}.tar::val-{a,b{1..3}}.tar".
 *
 *     {a,b}      each of them; any of them may be empty, and hold braces itself
 *     {1..10}    numbers, also downwards; {1..10..3} in steps.  All are as wide as the wider end if
 *                one of them begins with a 0: {08..11} is 08, 09, 10, 11
 *     {a..e}     letters
 *     ::         between lists
 *
 * A brace without comma or range is literal, as in bash.  Braces cannot be escaped, so names that
 * contain such braces cannot be given.
 *
 * Threads: pure functions. */

#define SLUICE_BRACE_MAX_NAMES ((size_t)1 << 20)
#define SLUICE_BRACE_MAX_BYTES ((size_t)64 << 10) /* of a list, and of a name */
#define SLUICE_BRACE_MAX_BRACES 32                /* between two :: */

/* Any status but SLUICE_OK ends the expansion with it. */
typedef sluice_status sluice_brace_fn(void *ctx, const char *name, struct sluice_err *err);

/* Calls `fn` with each name, from left to right; the name is the caller's until it returns.
 * SLUICE_E_INVALID: braces that do not match, a name that is empty, or more than the limits. */
SLUICE_MUST_USE sluice_status sluice_brace_expand(const char *list, sluice_brace_fn *fn, void *ctx,
                                                  struct sluice_err *err);

#endif
