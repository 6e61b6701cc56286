#ifndef SLUICE_STORAGE_SERVER_WORK_CPU_PRICE_H
#define SLUICE_STORAGE_SERVER_WORK_CPU_PRICE_H

#include <stdbool.h>
#include <stdint.h>

/* The price of the server's CPU, by which clients that do not know each other share its cores.
 *
 * Price adjustment: tatonnement, or dual ascent, as in Kelly, Maulloo, Tan, "Rate control for
 * communication networks" (1998).  The server tells all clients one price.  Each one uses more of
 * the cores while a core is worth more to it than the price, and less while it is worth less, at a
 * rate proportional to log(worth / price) (compute_client/replan).  So those that gain least from
 * the cores leave them to the others.  Prices and worths are in seconds by which a million samples
 * come sooner with one core more.
 *
 * The server adjusts the price by excess demand and by the queue, as the active queue management
 * REM does (Athuraliya, Li, Low, Yin, "REM: active queue management", 2001):
 *
 *     asked  =  (work done + growth of the queue) / capacity - 1      smoothed
 *     level  =  RATE_GAIN * asked + QUEUE_GAIN * (standing - target)  within +- MAX_LEVEL
 *     price  =  worth * exp(level)
 *
 * - worth is the mean of what the clients say (geometric, weighted by use).  At that price some
 *   come to use more and others less, and all together the same.  So level alone decides whether
 *   all together use more or less.
 * - standing is the queue, in seconds of work, as CoDel measures it (RFC 8289): the least that
 *   waited within the last 0.2 s.  A queue that comes and goes is none.
 * - The queue is the integral of excess demand, and clients take time to follow.  Control by the
 *   queue alone would oscillate; the term with `asked` answers to its growth before it has grown.
 *
 * Capacity is not the number of workers.  It is what workers do per second in which they have jobs,
 * after what quotas, other programs and clients that do not follow the price take.  So the pauses
 * of a quota do not look like a lack of work, and a quota that is not used up does.
 *
 * While no client says what the cores are worth, the worth is searched for: it rises while jobs
 * stand and falls while cores are idle.
 *
 * The price is 0 for a client that says its worth and is alone, as it has nobody to leave cores to.
 * It is 0 also where it would be below SLUICE_CPU_PRICE_LEAST, and never above
 * SLUICE_CPU_PRICE_MOST.
 *
 * The constants are in tuning.h.
 *
 * Threads: none of its own, a plain value; whoever holds it locks it. */

#define SLUICE_CPU_PRICE_LEAST 0x1p-5
#define SLUICE_CPU_PRICE_MOST 0x1p30

struct sluice_cpu_price {
    double price;
    double worth;      /* the mean, as it was told or found last */
    double asked;      /* excess demand, in parts of capacity, smoothed */
    double cores;      /* capacity; 0: not known */
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

/* What happened since the last update, of jobs of clients that follow the price unless it says
 * otherwise.  Other clients do not move the price: the fair queue gives them an equal part and what
 * nobody else wants, and the price is that of the rest. */
struct sluice_cpu_load {
    double cores;     /* that workers may use, as far as is known */
    double waiting_s; /* CPU time that the jobs which wait now are expected to take */
    double done_s;    /* CPU time of jobs that were done */
    double busy_s;    /* time for which workers had such jobs, summed over the workers */
    double others_s;  /* the same for jobs of other clients */
    double idle_s;    /* the same for no job at all */
    bool was_empty;   /* no job waited, at some time */
    unsigned num_followers;
    double worth;    /* the mean of what a core is worth to them; 0: nothing, or not told */
    bool has_silent; /* one of them never told it */
};

/* Returns the price from now on.  A now_ns that is not later than the last one changes nothing.
 * Updates may come at any interval; below 100 ms it makes no difference. */
double sluice_cpu_price_update(struct sluice_cpu_price *price, uint64_t now_ns,
                               const struct sluice_cpu_load *load);

#endif
