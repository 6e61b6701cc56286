#ifndef SLUICE_STORAGE_SERVER_CPU_PRICE_H
#define SLUICE_STORAGE_SERVER_CPU_PRICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the server's cores are worth to its clients, found from the queue alone.
 *
 * The price is what a second of a storage core costs, in seconds of a client's
 * epoch.  Every client adds it to its own prices, so those that gain least from
 * the cores leave them to the others.  It is the one at which the cores are just
 * busy:
 *
 *     d log2(price) / dt  =  gain * 2 [ d wait / dt  -  idle  +  (wait - target) / 0.5 s ]
 *
 * with `wait` the time that a job which comes now will wait and `idle` the share of
 * worker time without a job.  d wait / dt - idle is by how much more is asked for
 * than there are cores; the last term, within -1/2 and 1/2, lets a queue that is
 * too long shrink, at most at half speed; the product without the gain, smoothed, is
 * within -1 and 1.  The gain begins at two octaves a second, falls whenever the
 * price turns after it went some way, which damps what would swing, and grows again
 * where it turns at once (that is noise, of jobs that come in fits) and while the price
 * has far to go.  Below SLUICE_CPU_PRICE_LEAST the price is 0, above
 * SLUICE_CPU_PRICE_MOST it does not go.
 *
 * Threads: a value; whoever holds it locks it. */

#define SLUICE_CPU_PRICE_LEAST 0x1p-7
#define SLUICE_CPU_PRICE_MOST 0x1p10
#define SLUICE_CPU_PRICE_TARGET_S 0.03 /* the wait at which the price rests */

struct sluice_cpu_price {
    double price;
    double gain;        /* octaves a second */
    double turned_at;   /* log2 of the price when it turned last */
    double far_s;       /* for so long it has gone the same way, since the gain was changed */
    double signal;      /* smoothed */
    double mean_s;      /* of a job */
    double num_waiting; /* at last_ns */
    uint64_t last_ns;
    bool was_rising;
};

/* The price is 0 and the queue empty. */
struct sluice_cpu_price sluice_cpu_price_init(uint64_t now_ns);

/* What was seen of the workers.  Clients that do not follow the price do not move it either: a
 * fair queue gives them their part and what nobody else wants, and the price is that of the rest.
 */
struct sluice_cpu_load {
    unsigned num_workers;
    size_t num_waiting;     /* jobs of followers, now */
    uint64_t num_done;      /* the same, since the last time */
    double held_s;          /* for how long these held their workers, in all */
    double others_held_s;   /* the same of those who do not follow */
    unsigned num_followers; /* with jobs that wait or run, now */
    unsigned num_others;
};

/* What was seen at now_ns (not before the last one): returns the price from here on.  Any spacing
 * will do; below 100 ms it makes no difference. */
double sluice_cpu_price_update(struct sluice_cpu_price *price, uint64_t now_ns,
                               const struct sluice_cpu_load *load);

#endif
