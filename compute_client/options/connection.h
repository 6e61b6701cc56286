#ifndef SLUICE_COMPUTE_CLIENT_OPTIONS_CONNECTION_H
#define SLUICE_COMPUTE_CLIENT_OPTIONS_CONNECTION_H

#include "base/error.h"
#include "cli/cli.h"

#include <stdbool.h>

/* The options that say how a client's connection is guarded, the same for each program that has
 * one.
 *
 * Threads: pure functions. */

struct sluice_connection_options {
    bool has_tls;
    const char *ca, *cert, *key, *server_name; /* NULL: not given */
    const char *token_file;
};

/* Rows of a table of options (cli/cli.h) that set the fields of `target`, a struct with these
 * names. */
#define SLUICE_CONNECTION_ROWS(target, in_group)                                                   \
    {.name = "tls",                                                                                \
     .group = (in_group),                                                                          \
     SLUICE_VALUE_FLAG((target).has_tls),                                                          \
     .help = "Encrypt the connection to the server, and check its certificate."},                  \
        {.name = "ca",                                                                             \
         .group = (in_group),                                                                      \
         SLUICE_VALUE_STRING((target).ca, "FILE"),                                                 \
         .help = "For --tls: the CA of the server's certificate, in PEM.",                         \
         .default_text = "the system's CAs"},                                                      \
        {.name = "cert",                                                                           \
         .group = (in_group),                                                                      \
         SLUICE_VALUE_STRING((target).cert, "FILE"),                                               \
         .help = "For --tls: this client's certificate in PEM, for a server that wants one.",      \
         .default_text = "none is shown"},                                                         \
        {.name = "key",                                                                            \
         .group = (in_group),                                                                      \
         SLUICE_VALUE_STRING((target).key, "FILE"),                                                \
         .help = "The key of --cert, in PEM, without a passphrase."},                              \
        {.name = "server-name",                                                                    \
         .group = (in_group),                                                                      \
         SLUICE_VALUE_STRING((target).server_name, "NAME"),                                        \
         .help = "For --tls: the name that the server's certificate must have.",                   \
         .default_text = "the server's host, as it was given"},                                    \
    {                                                                                              \
        .name = "token-file", .group = (in_group),                                                 \
        SLUICE_VALUE_STRING((target).token_file, "FILE"),                                          \
        .help = "File with the token that the server wants. It is sent with --tls or to this "     \
                "machine alone.",                                                                  \
        .default_text = "the variable SLUICE_TOKEN, or none"                                       \
    }

/* Checks options that need --tls or each other, and that no file name is empty. */
SLUICE_MUST_USE sluice_status
sluice_connection_check(const struct sluice_connection_options *options, struct sluice_err *err);

#endif
