#ifndef SLUICE_COMPUTE_CLIENT_FETCH_OUTAGE_H
#define SLUICE_COMPUTE_CLIENT_FETCH_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

/* When a server is away, and what of it is said: one line when it is lost, one when it is back.
 *
 * All who talk to a server share one outage, so that whoever notices first tells of it, and nobody
 * again.  A link that flaps is told of a few times; then one outage each TUNING_TELL_OUTAGE_NS
 * (token bucket), and one that lasts, as soon as a line is free.  The next line counts those that
 * were not told.
 *
 * Pure: the times come from outside.
 * Threads: one at a time. */

struct sluice_outage {
    uint64_t since_ns; /* 0: the server is there */
    bool is_told;      /* of this outage */
    uint64_t untold;   /* outages that are over, since the last line */
    uint64_t num;      /* outages in all */
    uint64_t back_ns;  /* when the last one was over */
    uint64_t full_ns;  /* the token bucket is full again then */
};

/* A call failed, or a stream ended, at at_ns: repeatedly while it lasts.  True: it is to be told
 * now; *untold (unless NULL) are those before it that were not. */
bool sluice_outage_lost(struct sluice_outage *outage, uint64_t at_ns, uint64_t *untold);

/* The server has answered.  True: it is to be told now, after *away_s seconds. */
bool sluice_outage_back(struct sluice_outage *outage, uint64_t now_ns, double *away_s);

#endif
