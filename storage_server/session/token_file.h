#ifndef SLUICE_STORAGE_SERVER_SESSION_TOKEN_FILE_H
#define SLUICE_STORAGE_SERVER_SESSION_TOKEN_FILE_H

#include "base/error.h"
#include "crypto/secret.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The file of --tokens: the callers, and the limits of each.  One JSON object in each line; empty
 * lines and lines that begin with '#' are skipped.
 *
 *     {"name": "team-a", "sha256": "64 hex digits", "roots": ["/data/imagenet"],
 *      "subsets": ["train"], "cores": 2, "mbit_s": 500, "connections": 4}
 *
 * `name` and `sha256`, the hash of the token, are required.  A limit that is missing does not
 * apply.  An unknown key is an error, since nobody would enforce that limit.
 *
 * Threads: any. */

#define SLUICE_TOKEN_NAME_BYTES 64

struct sluice_token_entry {
    char name[SLUICE_TOKEN_NAME_BYTES]; /* letters, digits, '.', '_', '-' */
    uint8_t hash[SLUICE_SHA256_BYTES];
    char **roots; /* absolute; with num_roots 0 any root is allowed */
    size_t num_roots;
    bool may_train, may_val;
    double cores, bytes_per_s; /* 0: no limit */
    unsigned connections;      /* 0: no limit */
};

struct sluice_token_list {
    struct sluice_token_entry *entries;
    size_t num_entries;
};

/* SLUICE_E_INVALID names the line and its mistake, such as a second token of the same name or hash.
 * The caller clears *list. */
SLUICE_MUST_USE sluice_status sluice_token_list_parse(const char *text, size_t len,
                                                      struct sluice_token_list *list,
                                                      struct sluice_err *err);
/* The same for a file, which the errors name. */
SLUICE_MUST_USE sluice_status sluice_token_list_read(const char *path,
                                                     struct sluice_token_list *list,
                                                     struct sluice_err *err);
void sluice_token_list_clear(struct sluice_token_list *list); /* twice is fine */

/* Reads a token from standard input and prints its line to standard output.  The token itself is
 * never printed. */
SLUICE_MUST_USE sluice_status sluice_token_print_line(const char *name, struct sluice_err *err);

#endif
