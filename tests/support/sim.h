#ifndef SLUICE_TESTS_SUPPORT_SIM_H
#define SLUICE_TESTS_SUPPORT_SIM_H

#include "compute_client/replan/controller.h"

#include <stdbool.h>
#include <stddef.h>

/* A discrete-event simulation of one storage node and its clients, in simulated time: each client
 * runs the product's own plan (compute_client/replan), the storage node the product's own fair
 * queue and CPU market.  Of its own it has only the stations, whose speeds a scenario sets:
 *
 *     plan -> [disk] -> [fair queue -> storage workers] -> [link] -> latency -> [compute workers]
 *
 * Raw files pass the storage workers by, but take their CPU time.  What an item takes is what the
 * default cost model says, times the scenario's factors and noise.
 *
 * Threads: none; a simulation belongs to one thread. */

#define SIM_MOST_CLIENTS 8
#define SIM_INTERVAL_S 0.25 /* the link's noise changes */

/* Rates from the phase before up to until_s; 0: as the client or the scenario says. */
struct sim_phase {
    double until_s;
    double link_bytes_per_s, storage_cores, disk_bytes_per_s;
    double latency_s; /* beside the usual 1 ms */
};

struct sim_client {
    double link_bytes_per_s, compute_cores;
    bool is_greedy; /* asks for pixels, always, and follows no price */
    /* Says that it follows the price, and says this of what a core is worth to it.  NULL: the
     * truth, or if it is greedy nothing. */
    double (*lie)(double now_s, double truth);
};

struct sim_scenario {
    const char *name;
    int num_clients;
    struct sim_client clients[SIM_MOST_CLIENTS];
    double storage_cores;
    double quota_s;          /* the cores are a quota with this period; 0: they are slower cores */
    double disk_bytes_per_s; /* 0: files are in memory */
    const struct sim_phase *phases;
    size_t num_phases;
    /* Other programs slow either node down or not, for so long on average; 0: never. */
    double pace_s;
    /* True costs over the model's; 0 stands for 1. */
    double storage_factor, compute_factor, byte_factor;
    /* Each item's CPU time is off by up to so much, and the link from interval to interval, unless
     * is_link_steady. */
    double noise;
    bool is_link_steady;
    double external_price;               /* of storage CPU, in place of the server's own; 0: none */
    bool has_index, believes_index;      /* of the JPEGs: is there; the plan is told so */
    bool has_transport;                  /* samples take CPU time beside their ops */
    uint64_t seed;                       /* of noise and paces; 0: the test's */
    size_t num_items;                    /* of each client's epoch; 0: endless */
    const struct sluice_rates *believed; /* by the plan, to begin with; NULL: the truth */
    bool is_fixed;                       /* the first plan stays */
    const struct sluice_tuning *tuning;  /* borrowed; NULL: the default */
};

#define SIM_MOST_REPLANS 400

/* Of client 0. */
struct sim_record {
    size_t num_replans;
    double replan_s[SIM_MOST_REPLANS];
    struct sluice_plan_forecast first, last;
    size_t counts[SLUICE_MAX_CHOICES];
    struct {
        size_t all, files;
    } asked[8];       /* by phase, from 4 s after its beginning on */
    size_t num_alone; /* items asked for with nothing else under way */
};

struct sim;

struct sim *sim_create(const struct sim_scenario *scenario); /* aborts without memory */
void sim_destroy(struct sim *sim);

/* Goes on for so long, or to the end of the epochs; returns the time it is then. */
double sim_run(struct sim *sim, double seconds);

/* Goes on for so long; time_s[j] gets what a sample of client j took. */
void sim_measure(struct sim *sim, double seconds, double time_s[SIM_MOST_CLIENTS]);

void sim_leave(struct sim *sim, int client); /* asks for nothing more */
const struct sim_record *sim_record(const struct sim *sim);
struct sluice_controller *sim_plan(const struct sim *sim, int client);
double sim_price(const struct sim *sim);

/* Samples that client 0 could have done since the last sim_measure() began, knowing all paces. */
double sim_could_do(const struct sim *sim);

/* Seconds a sample takes a client at best with so many storage cores to itself, by the LP over
 * true costs, without noise. */
double sim_best_s(const struct sim_scenario *scenario, const struct sim_client *client,
                  double storage_cores);
/* The least sum of sim_best_s() over clients that part the cores. */
double sim_joint_optimum(const struct sim_scenario *scenario, int num_clients);
/* How long client 0's epoch takes with foresight of all phases. */
double sim_oracle_s(const struct sim_scenario *scenario);

/* The simulated dataset, for tests that drive a plan by hand: num_items items of it. */
struct sluice_plan_epoch sim_epoch(size_t num_items);
void sim_true_costs(const struct sim_scenario *scenario, size_t index,
                    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES]);
struct sluice_transport_cost sim_transport(void);

#endif
