#ifndef SLUICE_COMPUTE_CLIENT_FETCH_OUTAGE_H
#define SLUICE_COMPUTE_CLIENT_FETCH_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

/* Tracks outages of a server, and limits their lines in the log: one line when the server is lost,
 * one when it is back.
 *
 * All users of a server share one outage, so that each is logged once.  A token bucket limits the
 * lines of a link that flaps: TUNING_OUTAGES_AT_ONCE at once, then one outage each
 * TUNING_TELL_OUTAGE_NS.  A lasting outage is logged as soon as there is a token.  The next line
 * counts outages that were not logged.
 *
 * Pure: the times come from outside.
 * Threads: one at a time. */

struct sluice_outage {
    uint64_t since_ns; /* 0: the server is there */
    bool is_told;      /* this outage was logged */
    uint64_t untold;   /* outages since the last line that ended without one */
    uint64_t num;      /* outages in all */
    uint64_t back_ns;  /* when the last one was over */
    uint64_t full_ns;  /* the token bucket is full again then */
};

/* Reports a failed call or a lost stream at at_ns; may be called repeatedly in an outage.  True:
 * log it now; *untold (unless NULL) is the number of earlier outages without a line. */
bool sluice_outage_lost(struct sluice_outage *outage, uint64_t at_ns, uint64_t *untold);

/* Reports that the server has answered.  True: log it now; it was away for *away_s seconds. */
bool sluice_outage_back(struct sluice_outage *outage, uint64_t now_ns, double *away_s);

#endif
