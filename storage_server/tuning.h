#ifndef SLUICE_STORAGE_SERVER_TUNING_H
#define SLUICE_STORAGE_SERVER_TUNING_H

/* The server's tuned constants, each with its unit and where it comes from. */

/* --- cpu_market.c --- */

/* ns between two prices.  cpu_price.h: below 100 ms the spacing makes no difference; each update
 * visits every client under the workers' lock. */
#define CPU_MARKET_INTERVAL_NS 50000000u

/* ns.  A client that asked for nothing for so long does not share the cores: its epoch may be
 * over.  Longer than a client is silent while it waits for its trainer. */
#define CPU_MARKET_ABSENT_NS 3000000000u

/* ns, the time constant in which a client's use of the cores is forgotten.  Its use is the weight
 * of its worth in the mean. */
#define CPU_MARKET_USED_NS 1e9

/* CPU seconds that every client counts as having used, so that those that used nothing have a
 * weight, too. */
#define CPU_MARKET_LEAST_USED_S 1e-6

/* --- core_watch.c --- */

/* ns.  A number of cores this old is read anew when somebody asks for it: the interval of the
 * price, which is made from it. */
#define CORE_WATCH_FRESH_NS CPU_MARKET_INTERVAL_NS

/* ns.  So old a number may get while nobody asks: what the first client after a pause is told. */
#define CORE_WATCH_MAX_AGE_NS 1000000000u

#endif
