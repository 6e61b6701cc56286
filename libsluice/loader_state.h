#ifndef SLUICE_LIBSLUICE_LOADER_STATE_H
#define SLUICE_LIBSLUICE_LOADER_STATE_H

#include "base/buf.h"
#include "compute_client/load/client.h"
#include "compute_client/load/live.h"
#include "compute_client/load/prefetcher.h"
#include "compute_client/replan/replan.h"
#include "libsluice/options.h"

#include <pthread.h>

/* Private to the files behind struct sluice_loader.
 *
 *     loader_open.c     pipelines, data, prefetcher, sources
 *     loader_choose.c   the plan: each sample's choice
 *     loader_state.c    its beginning and end, and a stop
 *     loader_epoch.c    begins an epoch
 *     loader_profile.c  what --profiling writes
 *     profile_forms.c   what --profiling measures after its epoch
 *
 * Threads: as sluice.h says; loader_stop() from any. */

/* One subset of the dataset, with its pipeline and its source. */
struct part {
    const char *name;
    struct sluice_pipeline *pipeline;
    uint32_t *ids;
    size_t num_ids, num_total; /* after and before --limit-samples */
    struct sluice_choice *choices;
    struct sluice_source *source;
};

/* What somebody who looks on is shown of a pass over samples. */
struct loader_shown {
    char what[64], what_brief[32], detail[48]; /* "epoch 0"; for narrow terminals, "": the same */
    uint64_t first, total; /* samples: those before the first that comes, and all */
    uint64_t more;         /* samples that come after these; for the time that is left */
    bool continues;        /* the pass before: its rates still hold */
};

struct sluice_loader {
    pthread_mutex_t lock; /* client, prefetcher and what follows, for whoever stops them */
    struct sluice_client *client;
    struct sluice_prefetcher *prefetcher;
    bool is_stopped;

    const struct sluice_options *options; /* borrowed */
    struct sluice_host_memory memory;
    /* Shows a part of a profile; NULL: nobody looks on. */
    void (*show)(void *ctx, const struct loader_shown *shown);
    void *show_ctx;

    struct sluice_server_info info;
    struct sluice_manifest *manifest;
    char dataset_id[33];
    struct part train, val;
    struct sluice_buf_pool *pool;
    struct sluice_replan *replan; /* NULL: the parts' choices hold for all epochs */
    struct sluice_cost_table profile;
    struct sluice_live live;

    /* The epoch under way. */
    struct sluice_sampler_item *items; /* this rank's, from the cursor on */
    size_t num_items;
    uint64_t total;      /* of the whole epoch, of all ranks; of an external order: its own */
    uint32_t num_padded; /* repeats at the end of the last batch */
};

void loader_init(struct sluice_loader *loader, const struct sluice_options *options);
/* Closes the sources first, so that no event comes any more.  loader_stop() stays harmless. */
void loader_clear(struct sluice_loader *loader);

/* Register the client and the prefetcher, so that a stop finds them. */
void loader_set_client(struct sluice_loader *loader, struct sluice_client *client);
void loader_set_prefetcher(struct sluice_loader *loader, struct sluice_prefetcher *prefetcher);
/* Every wait ends with SLUICE_E_CLOSED, now and later.  Any thread. */
void loader_stop(struct sluice_loader *loader);
bool loader_is_stopped(struct sluice_loader *loader);

/* Call these in this order, before the first epoch. */
SLUICE_MUST_USE sluice_status loader_make_pipelines(struct sluice_loader *loader,
                                                    struct sluice_err *err);
SLUICE_MUST_USE sluice_status loader_open_data(struct sluice_loader *loader,
                                               struct sluice_err *err);
SLUICE_MUST_USE sluice_status loader_choose(struct sluice_loader *loader, struct sluice_err *err);
/* With the memory that loader->memory says. */
SLUICE_MUST_USE sluice_status loader_make_prefetcher(struct sluice_loader *loader,
                                                     struct sluice_err *err);

/* Creates the part's source on the first call. */
SLUICE_MUST_USE sluice_status loader_make_source(struct sluice_loader *loader, struct part *part,
                                                 struct sluice_err *err);

/* Begins an epoch of the part at a cursor (order.h); `errors` counts the samples before it that
 * failed, by status. */
struct loader_pass {
    struct part *part;
    bool is_training;
    uint64_t epoch, cursor;
    uint64_t errors[SLUICE_NUM_STATUS];
    const uint64_t *order; /* in place of the loader's own; borrowed for the call.  NULL: none */
    size_t num_order;
};
SLUICE_MUST_USE sluice_status loader_begin(struct sluice_loader *loader,
                                           const struct loader_pass *pass, struct sluice_err *err);

/* Keeps those of an epoch's items that are to be profiled; returns their number. */
size_t loader_profile_pick(const struct sluice_loader *loader, struct sluice_sampler_item *items,
                           size_t count);
/* Begins --profiling, before its epoch. */
SLUICE_MUST_USE sluice_status loader_profile_begin(struct sluice_loader *loader,
                                                   struct sluice_err *err);
/* Shows that epoch, as the first part of the profile. */
void loader_profile_show(struct sluice_loader *loader, uint64_t num_samples);
/* After the epoch that filled loader->profile: measures its samples in every form, and writes the
 * profile. */
SLUICE_MUST_USE sluice_status loader_profile_write(struct sluice_loader *loader, bool *is_stopped,
                                                   struct sluice_err *err);

#endif
