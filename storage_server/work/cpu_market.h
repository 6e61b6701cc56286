#ifndef SLUICE_STORAGE_SERVER_WORK_CPU_MARKET_H
#define SLUICE_STORAGE_SERVER_WORK_CPU_MARKET_H

#include "storage_server/work/cpu_price.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The accounts behind the price of CPU (cpu_price.h): which clients follow the price, how PREP's
 * workers spend their time, and the mean worth of a core to the clients.
 *
 * The market uses the worth that a client reports while it is credible: within a factor of
 * CPU_MARKET_CREDIBLE of the median, if the client uses the cores as others do.  (Each client uses
 * more cores until one more is worth the price, so honest reports are close to each other.)  A
 * client whose reports stay outside that range is treated as one that does not follow the price: it
 * gets its fair part of the cores, and does not move the price.
 *
 *     join, follow, hear_worth, leave      reports of a client
 *     asked, queued, started, done         the states of its jobs
 *     is_due, update                       every 50 ms: computes a new price
 *
 * A plain value without lock, thread or clock: every call passes the time in ns, which must not go
 * back.  So a simulation runs the same code as the server (workers.c).
 *
 * Threads: none of its own; the owner of a market locks it. */

/* Embed one in the caller's struct of a client; zero before it joins.  Only sluice_cpu_market_*()
 * change it. */
struct sluice_cpu_market_client {
    bool follows_price; /* as the client says */
    bool has_told;      /* it has reported its worth at least once */
    double worth;       /* of a core to it (cpu_price.h) */
    double used_s;      /* CPU time of its jobs in PREP; decays */
    uint64_t asked_ns;  /* when its last job came; 0: no job yet */
    /* It follows the price and is credible: its jobs and its worth count for the price. */
    bool is_priced;
    uint64_t doubted_ns;    /* its reports have been incredible since then; 0: they are credible */
    uint64_t incredible_ns; /* when they were last incredible; 0: never */
    size_t num_waiting;     /* its jobs that wait for PREP */
    /* Its jobs at work: [true] jobs that count for the price, [false] jobs that started before the
     * client followed the price. */
    unsigned num_at_work[2];
    struct sluice_cpu_market_client *next, **link;
};

struct sluice_cpu_market {
    struct sluice_cpu_price price;
    struct sluice_cpu_market_client *clients;
    unsigned num_workers;
    unsigned num_followers; /* that had requests recently, at the last update */

    /* PREP's jobs of clients that follow the price: */
    size_t num_waiting;
    uint64_t done_ns; /* CPU time since the last update */
    bool was_empty;   /* at some time since then no job waited */
    /* PREP's workers that work for clients that follow the price [true] and for others [false]:
     * their number now, and their time since the last update, summed up to counted_ns. */
    struct {
        unsigned num;
        uint64_t ns;
    } at_work[2];
    uint64_t counted_ns;
};

/* Starts with price 0, no clients and no jobs.  num_workers: the threads of PREP. */
struct sluice_cpu_market sluice_cpu_market_init(uint64_t now_ns, unsigned num_workers);

/* Borrows the client until it leaves, which must be after its last job. */
void sluice_cpu_market_join(struct sluice_cpu_market *market,
                            struct sluice_cpu_market_client *client);
void sluice_cpu_market_leave(struct sluice_cpu_market *market,
                             struct sluice_cpu_market_client *client);

/* From now on the client follows the price. */
void sluice_cpu_market_follow(struct sluice_cpu_market *market,
                              struct sluice_cpu_market_client *client);

/* The client reports the worth of one more core; 0: nothing. */
void sluice_cpu_market_hear_worth(struct sluice_cpu_market_client *client, double worth);

/* A job came that does not use PREP; it shows that the client is present. */
void sluice_cpu_market_asked(struct sluice_cpu_market_client *client, uint64_t now_ns);

/* queued: a job came and waits for PREP.  started: a worker took it.  done: it cost cpu_ns. */
void sluice_cpu_market_queued(struct sluice_cpu_market *market,
                              struct sluice_cpu_market_client *client, uint64_t now_ns);
void sluice_cpu_market_started(struct sluice_cpu_market *market,
                               struct sluice_cpu_market_client *client, uint64_t now_ns);
void sluice_cpu_market_done(struct sluice_cpu_market *market,
                            struct sluice_cpu_market_client *client, uint64_t now_ns,
                            uint64_t cpu_ns);
/* In place of started and done: the job was cancelled while it waited. */
void sluice_cpu_market_withdrawn(struct sluice_cpu_market *market,
                                 struct sluice_cpu_market_client *client);

/* The last update is an interval ago. */
bool sluice_cpu_market_is_due(const struct sluice_cpu_market *market, uint64_t now_ns);

/* Returns the new price.  cores: the cores that PREP's workers may use together; waiting_s: the
 * expected CPU time of all jobs that wait for PREP, of clients that follow the price. */
double sluice_cpu_market_update(struct sluice_cpu_market *market, uint64_t now_ns, double cores,
                                double waiting_s);

#endif
