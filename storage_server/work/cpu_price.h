#ifndef SLUICE_STORAGE_SERVER_WORK_CPU_PRICE_H
#define SLUICE_STORAGE_SERVER_WORK_CPU_PRICE_H

#include <stdbool.h>
#include <stdint.h>

/* The price of the server's CPU, by which independent clients share its cores.
 *
 * Price adjustment: tatonnement, or dual ascent, as in Kelly, Maulloo, Tan, "Rate control for
 * communication networks" (1998).  The server sends one price to all clients.  A client uses more
 * of the cores while a core is worth more to it than the price, and less while it is worth less, at
 * a rate proportional to log(worth / price) (compute_client/replan).  So clients that gain least
 * from the cores leave them to the others.  The unit of prices and worths is the seconds that one
 * more core saves for a million samples.
 *
 * The server adjusts the price by excess demand and by the queue, as the active queue management
 * REM does (Athuraliya, Li, Low, Yin, "REM: active queue management", 2001):
 *
 *     asked  =  (work done + growth of the queue) / capacity - 1      smoothed
 *     level  =  RATE_GAIN * asked + QUEUE_GAIN * (standing - target)  within +- MAX_LEVEL
 *     price  =  worth * exp(level)
 *
 * - worth is the mean of the worths that clients report (geometric, weighted by use).  At that
 *   price some clients use more and others less, and their sum stays the same.  So level alone
 *   decides whether the sum grows or shrinks.
 * - standing is the standing queue, in seconds of work, as CoDel measures it (RFC 8289): the
 *   minimum that waited within the last 0.2 s.  A queue that comes and goes does not count.
 * - The queue is the integral of excess demand, and clients take time to follow.  Control by the
 *   queue alone would oscillate; the term with `asked` answers to its growth before it has grown.
 *
 * Capacity is not the number of workers.  It is the work that they do in each second in which they
 * have jobs, without the part that quotas, other programs and clients that do not follow the price
 * take.  So the pauses of a quota do not look like a lack of work, and an unused quota does.
 *
 * While no client reports a worth, the server searches for it: the worth rises while jobs wait, and
 * falls while cores are idle.
 *
 * The price is 0 if there is one client and it reports its worth, because it need not leave cores
 * to anybody.  It is also 0 if it would be below SLUICE_CPU_PRICE_LEAST, and never above
 * SLUICE_CPU_PRICE_MOST.
 *
 * The constants are in tuning.h.
 *
 * Threads: none of its own, a plain value; the owner locks it. */

#define SLUICE_CPU_PRICE_LEAST 0x1p-5
#define SLUICE_CPU_PRICE_MOST 0x1p30

struct sluice_cpu_price {
    double price;
    double worth;      /* the mean, as last reported or found */
    double asked;      /* smoothed excess demand, as a part of capacity */
    double cores;      /* capacity; 0: unknown */
    double waiting_s;  /* CPU time of the jobs that waited at last_ns */
    double standing_s; /* the standing queue: time to work it off */
    /* Sums since the capacity was updated last. */
    struct {
        double elapsed_s, done_s, busy_s, idle_s, others_s;
    } seen;
    double least_s[2];  /* the shortest queue of this period and of the one before */
    uint64_t period_ns; /* when this period began */
    uint64_t last_ns;   /* of the last update */
};

/* The price is 0 and the queue empty. */
struct sluice_cpu_price sluice_cpu_price_init(uint64_t now_ns);

/* The load since the last update: jobs of clients that follow the price, except where a field says
 * otherwise.  Other clients do not move the price: the fair queue gives them an equal part and
 * unused cores, and the price is for the remaining cores. */
struct sluice_cpu_load {
    double cores;     /* that workers may use, as far as known */
    double waiting_s; /* expected CPU time of the jobs that wait now */
    double done_s;    /* CPU time of finished jobs */
    double busy_s;    /* time that workers spent on these jobs, summed over the workers */
    double others_s;  /* the same for jobs of other clients */
    double idle_s;    /* the same without any job */
    bool was_empty;   /* no job waited, at some time */
    unsigned num_followers;
    double worth;    /* mean worth of a core to them; 0: nothing, or not reported */
    bool has_silent; /* one of them has never reported its worth */
};

/* Returns the new price.  A now_ns that is not later than the last one changes nothing.  Updates
 * may come at any interval; below 100 ms the interval makes no difference. */
double sluice_cpu_price_update(struct sluice_cpu_price *price, uint64_t now_ns,
                               const struct sluice_cpu_load *load);

#endif
