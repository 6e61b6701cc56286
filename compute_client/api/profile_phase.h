#ifndef SLUICE_COMPUTE_CLIENT_API_PROFILE_PHASE_H
#define SLUICE_COMPUTE_CLIENT_API_PROFILE_PHASE_H

#include "compute_client/api/loader_state.h"
#include "plan/transport_cost.h"

#include <pthread.h>

/* A phase of a profile: some samples, each in one choice or in two by turns, between two readings
 * of the CPU time of both processes.  profile_forms.c runs them.
 *
 * Threads: the loader's. */

/* Most items in a phase.  A phase has an item for each row of the loader, because then memory is
 * not in a cache, as in an epoch; but at most this number, so that all choices are measured under
 * the same conditions.  If there are few samples, each is requested at most MAX_REPEAT times. */
#define MAX_PHASE_ITEMS 1024
#define MAX_REPEAT 4

/* The choices of a phase, by turns, as indices in the list of choices. */
struct mix {
    uint8_t choices[2];
    uint8_t num_choices;
    bool is_rare; /* slow, and rarely in a plan: each sample is measured once */
};

struct mixes {
    struct mix at[SLUICE_MAX_CHOICES + 1];
    unsigned num;
};

/* The sums of all measurements of a sample in one choice. */
struct cell {
    double storage_s, compute_s;
    uint64_t bytes;
    unsigned count;
};

struct measuring {
    struct sluice_loader *loader;
    bool is_remote;
    struct sluice_choices choices;
    struct mixes mixes;
    double storage_cores, compute_cores;
    uint32_t *positions; /* of the samples that are measured */
    size_t num_positions;
    struct cell (*cells)[SLUICE_MAX_CHOICES]; /* by index in positions */
    struct sluice_sampler_item *items;        /* of a phase */

    /* The phase under way: over positions[first .. first + count), repeated as needed. */
    const struct mix *mix;
    size_t first, count;
    struct sluice_transport_seen *seen;
    double decode_s;      /* GPU time of all phases */
    pthread_mutex_t lock; /* for seen, decode_s and cells */

    /* For the progress display. */
    unsigned round, num_rounds; /* the current one, from 0; the expected number */
    uint64_t items_shown;       /* of the phases that have begun */
};

/* Lists the phases: whole files first, then the choices that plans use most. */
void profile_find_mixes(struct measuring *measuring);

/* Items of a phase over `count` samples. */
size_t profile_phase_items(const struct sluice_loader *loader, const struct mix *mix, size_t count);

/* Runs a phase over measuring->count samples.  *seen gets the CPU time of both processes less that
 * of the ops on its samples. */
SLUICE_MUST_USE sluice_status profile_run_phase(struct measuring *measuring, const struct mix *mix,
                                                size_t num_items,
                                                struct sluice_transport_seen *seen,
                                                bool *is_stopped, struct sluice_err *err);

#endif
