#ifndef SLUICE_DATASETS_LIST_PYTHON_JSON_H
#define SLUICE_DATASETS_LIST_PYTHON_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* JSON as Python's json.dumps() writes it.  It writes more than JSON has, or than Jansson reads:
 * NaN, Infinity and -Infinity, "\u0000", halves of surrogate pairs, and integers beyond 64 bits.
 * Such a value is an error if its column is used, and is skipped otherwise.
 *
 * Threads: pure functions. */

#define SLUICE_PYTHON_JSON_KEY 100 /* bytes of a key that are looked at */

/* Called for each value of the outermost object that holds something of the kind. */
typedef void sluice_python_json_fn(void *ctx, const char *key);

/* Replaces in text[0 .. len) what Jansson would refuse, in strings by U+FFFD and elsewhere by 0, in
 * as many bytes.  Calls `told` with the key above each. */
void sluice_python_json_replace(char *text, size_t len, sluice_python_json_fn *told, void *ctx);

#endif
