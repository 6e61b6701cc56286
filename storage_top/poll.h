#ifndef SLUICE_STORAGE_TOP_POLL_H
#define SLUICE_STORAGE_TOP_POLL_H

#include "storage_top/options.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Asks servers for their counters, each on a thread of its own, so that one that does not answer
 * holds up nobody.
 *
 * Threads: create and destroy on one; the rest from any. */

enum top_state {
    TOP_ASKING, /* no answer yet, and no failure */
    TOP_OK,
    TOP_NOT_SERVING, /* it answers, and its health is NOT_SERVING */
    TOP_AWAY,
};
const char *top_state_name(enum top_state state); /* "ok", "not serving" */

/* Over the time between two answers; NAN: there are not two of the same run of the server. */
struct top_rates {
    double cores, bytes_per_s, samples_per_s;
};

/* One client; its rates. */
struct top_client {
    struct sluice_wire_client counts;
    struct top_rates rates; /* cores: NAN */
};

struct top_server {
    const char *target; /* borrowed of the options */
    enum top_state state;
    char why[300];                  /* of a server that is away */
    double age_s;                   /* since the last answer; below 0: there was none */
    struct sluice_wire_stats stats; /* of it, without its list of clients */
    struct top_rates rates;
    struct top_client *clients; /* owned */
    size_t num_clients;
    unsigned attempts, answers;
};
void top_servers_clear(struct top_server *servers, size_t num_servers);

/* Rates between two answers.  A server that was started anew in between has no rates. */
struct top_rates top_rates_between(const struct sluice_wire_stats *before,
                                   const struct sluice_wire_stats *now);

struct top_poll;

/* Starts to ask.  Borrows the options.  SLUICE_E_INVALID, _IO: an invalid certificate or token. */
SLUICE_MUST_USE sluice_status top_poll_create(const struct top_options *options,
                                              struct top_poll **poll, struct sluice_err *err);
/* Calls under way are ended.  NULL is allowed. */
void top_poll_destroy(struct top_poll *poll);

/* The current state: servers[num_targets], for top_servers_clear(). */
SLUICE_MUST_USE sluice_status top_poll_read(struct top_poll *poll, struct top_server *servers,
                                            struct sluice_err *err);
/* Returns once every server was asked `attempts` times, and either answered or failed, or at
 * until_ns of the clock. */
void top_poll_wait(struct top_poll *poll, unsigned attempts, uint64_t until_ns);

#endif
