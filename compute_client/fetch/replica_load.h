#ifndef SLUICE_COMPUTE_CLIENT_FETCH_REPLICA_LOAD_H
#define SLUICE_COMPUTE_CLIENT_FETCH_REPLICA_LOAD_H

#include <stddef.h>
#include <stdint.h>

/* The expected wait of one more request at a server, for shortest-expected-delay routing.
 *
 *     wait = max(round trip, (requests without an answer + 1) / rate, time since the last answer)
 *
 * - By Little's law the second term is the time in the system if the server, its link or its cores
 *   are the bottleneck; without a bottleneck the round trip is the minimum.
 * - The third term: a server that has been silent for some time while it owed answers is expected
 *   to be silent for as long again (Lindy effect).
 * - The rate is an EWMA over the time in which the server owed answers, because replies come in
 *   bursts.
 * - Knowledge of a server without requests ages: its wait halves each TUNING_REPLICA_FORGET_NS.  So
 *   a slow server is tried again now and then, with one request.
 *
 * A server is suspected once it has been silent for much longer than usual: the mean of its gaps
 * plus four times their mean deviation, as in TCP's retransmission timeout (Jacobson, 1988).  So a
 * server that is always slow, or behind a slow link, is not suspected.
 *
 * Pure: the times come from outside.
 * Threads: one at a time. */

struct sluice_replica_load {
    size_t num_owed;             /* requests without an answer */
    double answers, busy_s;      /* recent answers, and the time in which it owed them; EWMA */
    double trip_s;               /* the least round trip, which rises slowly; 0: unknown */
    double shortest_trip_s;      /* the shortest of all, with a short queue; 0: unknown */
    double pause_s, deviation_s; /* mean gap between bursts of replies, and deviation; 0: none */
    uint64_t since_ns; /* of the last answer, or of the first request after it owed none */
};

void sluice_replica_load_asked(struct sluice_replica_load *load, uint64_t now_ns);
/* Records the answer to a request that was sent at asked_ns. */
void sluice_replica_load_answered(struct sluice_replica_load *load, uint64_t asked_ns,
                                  uint64_t now_ns);
/* Removes a request whose reply nobody waits for. */
void sluice_replica_load_forgot(struct sluice_replica_load *load);

/* Seconds from one answer to the next while it owes some; 0: it has not answered yet. */
double sluice_replica_load_gap_s(const struct sluice_replica_load *load);

/* The usual silence, in seconds; 0: unknown. */
double sluice_replica_load_usual_silence_s(const struct sluice_replica_load *load);

/* The number of requests that the server should have at once, so that it is always busy, and no
 * more requests than necessary are bound to it. */
size_t sluice_replica_load_most_owed(const struct sluice_replica_load *load);

/* The expected wait in seconds.  usual_gap_s (> 0) is used for a server that has not answered
 * yet. */
double sluice_replica_load_wait_s(const struct sluice_replica_load *load, uint64_t now_ns,
                                  double usual_gap_s);

#endif
