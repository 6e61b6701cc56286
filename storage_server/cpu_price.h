#ifndef SLUICE_STORAGE_SERVER_CPU_PRICE_H
#define SLUICE_STORAGE_SERVER_CPU_PRICE_H

#include <stdbool.h>
#include <stdint.h>

/* What the server's cores are worth to its clients.
 *
 * The price is what a storage core costs, in seconds by which a million samples come later.
 * Every client says by how many they would come sooner to it with a core more, hears the
 * price, and uses less or more (compute_client/replan/auto_price.h), at a rate that follows
 *
 *     log(worth / price)
 *
 * so those that gain least from the cores leave them to the others.  The price is the
 * mean worth (of logarithms, by use), and more or less than that by the queue:
 *
 *     asked  =  (work done + growth of the queue) / capacity - 1      smoothed over 0.2 s
 *     price  =  worth * exp(DAMPING * asked + DRAIN * (standing - target))
 *
 * with `standing` the least time of work that waited within the last 0.2 s.  At the mean
 * worth some come to use more and others less, and all together what they did; so the
 * queue alone says whether all together use more or less.  It is the sum of what they
 * asked for too much, and they take time to follow: without the first term, which
 * answers to how fast the queue grows before it has grown, both would swing.
 *
 * Capacity is not the number of workers: it is what they do while they have jobs, which
 * quotas, other threads and clients that do not follow the price leave them, as if they had
 * some all the time.  So a quota that stops the workers for a part of each of its periods is
 * no lack of work in the rest, and one that is not exhausted is.
 *
 * Where nobody has a use for more, or says what it is worth, the worth is looked for: it
 * rises while jobs stand, and falls while cores are idle.
 *
 * A client that says what the cores are worth to it and is alone has nobody to leave
 * anything to: then the price is 0.  Below SLUICE_CPU_PRICE_LEAST the price is 0, above
 * SLUICE_CPU_PRICE_MOST it does not go.
 *
 * Threads: a value; whoever holds it locks it. */

#define SLUICE_CPU_PRICE_LEAST 0x1p-5
#define SLUICE_CPU_PRICE_MOST 0x1p30
#define SLUICE_CPU_PRICE_TARGET_S 0.03 /* of work stands in the queue while the price rests */

struct sluice_cpu_price {
    double price;
    double worth;     /* the mean, as it was heard last */
    double asked;     /* smoothed */
    double cores;     /* capacity; 0: not known */
    double waiting_s; /* CPU time of the jobs that waited at last_ns */
    double standing_s;
    struct {
        double elapsed_s, done_s, busy_s, idle_s, others_s;
    } seen;            /* since the capacity was made last */
    double least_s[2]; /* of work that waited, in this part of the window and the one before */
    uint64_t part_ns;  /* this part began */
    uint64_t last_ns;
};

/* The price is 0 and the queue empty. */
struct sluice_cpu_price sluice_cpu_price_init(uint64_t now_ns);

/* What was seen of the jobs of those who follow the price, since the last time: clients that do not
 * follow it do not move it either.  A fair queue gives them their part and what nobody else wants,
 * and the price is that of the rest. */
struct sluice_cpu_load {
    double cores;     /* that workers may use, as far as is known */
    double waiting_s; /* CPU time that the jobs which wait now are expected to take */
    double done_s;    /* CPU time of jobs that were done */
    double busy_s;    /* for which workers had such jobs, all together ... */
    double others_s;  /* ... those of others ... */
    double idle_s;    /* ... and none at all */
    bool was_empty;   /* no job waited, at some time */
    unsigned num_followers;
    double worth;    /* the mean of what a core is worth to them; 0: nothing, or not told */
    bool has_silent; /* one of them never said that */
};

/* What was seen at now_ns (not before the last one): returns the price from here on.  Any spacing
 * will do; below 100 ms it makes no difference. */
double sluice_cpu_price_update(struct sluice_cpu_price *price, uint64_t now_ns,
                               const struct sluice_cpu_load *load);

#endif
