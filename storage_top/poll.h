#ifndef SLUICE_STORAGE_TOP_POLL_H
#define SLUICE_STORAGE_TOP_POLL_H

#include "storage_top/options.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Polls the counters of servers, with one thread for each, so that a server that does not answer
 * delays no other.
 *
 * Threads: create and destroy on one; the rest from any. */

enum top_state {
    TOP_ASKING, /* no answer yet, and no failure */
    TOP_OK,
    TOP_NOT_SERVING, /* it answers, and its health is NOT_SERVING */
    TOP_AWAY,
};
const char *top_state_name(enum top_state state); /* "ok", "not serving" */

/* Rates between two answers; NAN: fewer than two answers of the server's current run. */
struct top_rates {
    double cores, bytes_per_s, samples_per_s;
};

/* A client of a server. */
struct top_client {
    struct sluice_wire_client counts;
    struct top_rates rates; /* cores: NAN */
};

struct top_server {
    const char *target; /* borrowed of the options */
    enum top_state state;
    char why[300];                  /* why the server is away */
    double age_s;                   /* time since the last answer; below 0: no answer yet */
    struct sluice_wire_stats stats; /* the last answer, without its list of clients */
    struct top_rates rates;
    struct top_client *clients; /* owned */
    size_t num_clients;
    unsigned attempts, answers;
};
void top_servers_clear(struct top_server *servers, size_t num_servers);

/* Rates between two answers.  NAN if the server was restarted in between. */
struct top_rates top_rates_between(const struct sluice_wire_stats *before,
                                   const struct sluice_wire_stats *now);

struct top_poll;

/* Starts polling.  Borrows the options.  SLUICE_E_INVALID, _IO: an invalid certificate or token. */
SLUICE_MUST_USE sluice_status top_poll_create(const struct top_options *options,
                                              struct top_poll **poll, struct sluice_err *err);
/* Ends calls under way.  NULL is allowed. */
void top_poll_destroy(struct top_poll *poll);

/* The current state: servers[num_targets], for top_servers_clear(). */
SLUICE_MUST_USE sluice_status top_poll_read(struct top_poll *poll, struct top_server *servers,
                                            struct sluice_err *err);
/* Returns once `attempts` calls to every server have succeeded or failed, or at until_ns of the
 * clock. */
void top_poll_wait(struct top_poll *poll, unsigned attempts, uint64_t until_ns);

#endif
