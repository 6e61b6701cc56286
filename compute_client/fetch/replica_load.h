#ifndef SLUICE_COMPUTE_CLIENT_FETCH_REPLICA_LOAD_H
#define SLUICE_COMPUTE_CLIENT_FETCH_REPLICA_LOAD_H

#include <stddef.h>
#include <stdint.h>

/* How long one more request would wait at a server: shortest expected delay.
 *
 *     wait = max(round trip, (requests without an answer + 1) / rate, time since the last answer)
 *
 * - By Little's law the second is the time in the server where the server, its link or the number
 *   of its cores is what limits; the round trip is the least where nothing does.
 * - A server that owes answers and has given none for a while will be as long again (Lindy).
 * - The rate is of the time in which it owed answers, an EWMA over time: replies come in bursts.
 * - What is known of a server that is asked nothing ages: its wait halves each
 *   TUNING_REPLICA_FORGET_NS.  So a slow one is tried again now and then, with one request.
 *
 * It is doubted once it has been silent for much longer than is usual for it: the mean of its gaps
 * and four times their mean deviation, as TCP's retransmission timeout (Jacobson, 1988).  So a
 * server that is slow, or behind a slow link, is not doubted for that.
 *
 * Pure: the times come from outside.
 * Threads: one at a time. */

struct sluice_replica_load {
    size_t num_owed;             /* requests without an answer */
    double answers, busy_s;      /* of late, and the time in which it owed them; EWMA */
    double trip_s;               /* the least round trip, which rises slowly; 0: not known */
    double shortest_trip_s;      /* of all, in which little waited before it; 0: not known */
    double pause_s, deviation_s; /* of the gaps between bursts of replies; 0: none yet */
    uint64_t since_ns; /* of the last answer, or of the first request after it owed none */
};

void sluice_replica_load_asked(struct sluice_replica_load *load, uint64_t now_ns);
/* To a request of asked_ns. */
void sluice_replica_load_answered(struct sluice_replica_load *load, uint64_t asked_ns,
                                  uint64_t now_ns);
/* A request is not waited for any more. */
void sluice_replica_load_forgot(struct sluice_replica_load *load);

/* Seconds from one answer to the next while it owes some; 0: it has not answered yet. */
double sluice_replica_load_gap_s(const struct sluice_replica_load *load);

/* Seconds of silence that are usual; 0: not known. */
double sluice_replica_load_usual_silence_s(const struct sluice_replica_load *load);

/* Requests that it should owe at once, so that it always has something to do and no more is bound
 * to it than needs be. */
size_t sluice_replica_load_most_owed(const struct sluice_replica_load *load);

/* Seconds.  usual_gap_s > 0 stands for the gap of one that has not answered yet. */
double sluice_replica_load_wait_s(const struct sluice_replica_load *load, uint64_t now_ns,
                                  double usual_gap_s);

#endif
