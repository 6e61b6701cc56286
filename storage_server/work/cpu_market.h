#ifndef SLUICE_STORAGE_SERVER_WORK_CPU_MARKET_H
#define SLUICE_STORAGE_SERVER_WORK_CPU_MARKET_H

#include "storage_server/work/cpu_price.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The accounts behind the price of CPU (cpu_price.h): who follows it, what PREP's workers spend
 * their time on, and what a core is worth to the clients on average.
 *
 * What a client says of its worth is believed while it is credible: if it uses the cores as others
 * do, it is within CPU_MARKET_CREDIBLE of their median, as each uses more of them until they are
 * worth the price.  Who says otherwise for long is treated as a client that does not follow the
 * price: it has its fair part of the cores, and moves the price of nobody.
 *
 *     join, follow, hear_worth, leave      what a client says
 *     asked, queued, started, done         what becomes of its jobs
 *     is_due, update                       every 50 ms: all of it becomes a new price
 *
 * A plain value without lock, thread or clock: the time comes with every call, in ns, and must not
 * go back.  So a simulation runs the same code as the server (workers.c).
 *
 * Threads: none of its own; whoever holds a market locks it. */

/* Embed one in what stands for a client; zero before it joins.  Only sluice_cpu_market_*() change
 * it. */
struct sluice_cpu_market_client {
    bool follows_price; /* it says so */
    bool has_told;      /* its worth, at least once */
    double worth;       /* of a core to it, as cpu_price.h has it */
    double used_s;      /* CPU time of its jobs in PREP; decays */
    uint64_t asked_ns;  /* when its last job came; 0: none did */
    /* It follows, and what it says is credible: its jobs and its worth count for the price. */
    bool is_priced;
    uint64_t doubted_ns;    /* what it says has been incredible since then; 0: it is not */
    uint64_t incredible_ns; /* when it was so last; 0: never */
    size_t num_waiting;     /* its jobs that wait for PREP */
    /* Its jobs that workers have now: [true] those that count for the price, [false] those that
     * started before it followed the price. */
    unsigned num_at_work[2];
    struct sluice_cpu_market_client *next, **link;
};

struct sluice_cpu_market {
    struct sluice_cpu_price price;
    struct sluice_cpu_market_client *clients;
    unsigned num_workers;
    unsigned num_followers; /* that asked for something of late, at the last update */

    /* Among PREP's jobs of clients that follow the price: */
    size_t num_waiting;
    uint64_t done_ns; /* CPU time since the last update */
    bool was_empty;   /* none waited at some time since */
    /* PREP's workers: at work for others [false] and for clients that follow the price [true], now
     * and for how many ns since the last update, as far as counted_ns. */
    struct {
        unsigned num;
        uint64_t ns;
    } at_work[2];
    uint64_t counted_ns;
};

/* The price is 0, nobody has joined, and no job waits.  num_workers: the threads of PREP. */
struct sluice_cpu_market sluice_cpu_market_init(uint64_t now_ns, unsigned num_workers);

/* Borrows the client until it leaves, which it does when no job of it is left. */
void sluice_cpu_market_join(struct sluice_cpu_market *market,
                            struct sluice_cpu_market_client *client);
void sluice_cpu_market_leave(struct sluice_cpu_market *market,
                             struct sluice_cpu_market_client *client);

/* From now on the client follows the price. */
void sluice_cpu_market_follow(struct sluice_cpu_market *market,
                              struct sluice_cpu_market_client *client);

/* What one more core is worth to the client; 0: nothing. */
void sluice_cpu_market_hear_worth(struct sluice_cpu_market_client *client, double worth);

/* A job came that does not use PREP: the client is present. */
void sluice_cpu_market_asked(struct sluice_cpu_market_client *client, uint64_t now_ns);

/* A job came and waits for PREP; then a worker takes it; then it is done and has cost cpu_ns. */
void sluice_cpu_market_queued(struct sluice_cpu_market *market,
                              struct sluice_cpu_market_client *client, uint64_t now_ns);
void sluice_cpu_market_started(struct sluice_cpu_market *market,
                               struct sluice_cpu_market_client *client, uint64_t now_ns);
void sluice_cpu_market_done(struct sluice_cpu_market *market,
                            struct sluice_cpu_market_client *client, uint64_t now_ns,
                            uint64_t cpu_ns);
/* Or, in place of these two, it was cancelled while it waited. */
void sluice_cpu_market_withdrawn(struct sluice_cpu_market *market,
                                 struct sluice_cpu_market_client *client);

/* The last update is an interval ago. */
bool sluice_cpu_market_is_due(const struct sluice_cpu_market *market, uint64_t now_ns);

/* Returns the price from now on.  cores: what PREP's workers may use together; waiting_s: the CPU
 * time that the jobs which wait for PREP are expected to take, of all clients that follow the
 * price. */
double sluice_cpu_market_update(struct sluice_cpu_market *market, uint64_t now_ns, double cores,
                                double waiting_s);

#endif
