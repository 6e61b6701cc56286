#ifndef SLUICE_COMPUTE_CLIENT_API_LOADER_STATE_H
#define SLUICE_COMPUTE_CLIENT_API_LOADER_STATE_H

#include "base/buf.h"
#include "cli/cli_set.h"
#include "compute_client/api/report.h"
#include "compute_client/fetch/servers.h"
#include "compute_client/loader/batch/live.h"
#include "compute_client/loader/batch/prefetcher.h"
#include "compute_client/loader/order/mix.h"
#include "compute_client/loader/order/state.h"
#include "compute_client/options/loader_options.h"
#include "compute_client/replan/replan.h"
#include "gpu/place.h"
#include "sluice/lend.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

/* Private to the files behind struct sluice_loader.
 *
 *     loader.c          its beginning and end
 *     loader_stop.c     a stop, which reaches whatever waits
 *     loader_open.c     pipelines, data, prefetcher, sources
 *     loader_gpu.c      a GPU as the place of its batches, and lending it
 *     loader_choose.c   the plan: each sample's choice
 *     loader_epoch.c    an epoch, batch by batch, and the place in it
 *     loader_sizes.c    outputs whose size follows from the image, and aspect buckets
 *     loader_stats.c    statistics of an epoch, and counters
 *     loader_profile.c  the files of the setting profiling
 *     profile_forms.c   its measurements after the epoch
 *     profile_phase.c   one run over samples for these
 *
 * Threads: as sluice.h says. */

/* One subset of the dataset, with its pipeline and its source. */
struct part {
    const char *name;
    struct sluice_pipeline *pipeline;
    struct sluice_row_format format;
    struct sluice_row_layout layout; /* with buckets that of the first one */
    uint32_t *ids;
    size_t num_ids, num_total; /* after and before --limit-samples */
    unsigned num_buckets;      /* of the pipeline; 0: all rows have one size */
    uint8_t *bucket_of;        /* by position; NULL without buckets */
    /* Sizes of decoded images, by sample id, if those of results follow from them and the list does
     * not say them; else NULL. */
    struct sluice_size *sizes;
    uint64_t num_batches; /* of epoch 0, with buckets */
    size_t batch_bytes;   /* of the largest batch, if images end in sizes of their own */
    struct sluice_choice *choices;
    struct sluice_source *source;
};

/* An epoch that has ended. */
struct ended {
    bool has, is_whole;
    struct sluice_epoch_stats stats;
    struct sluice_plan_stats plan;
    struct sluice_epoch_report report; /* points to these */
    uint64_t ended_ns;
    struct sluice_lend_counters lend_from, lent; /* at the end of the one before; since then */
};

struct sluice_loader {
    pthread_mutex_t lock;           /* what follows, for other threads */
    struct sluice_servers *servers; /* NULL: mode local */
    struct sluice_prefetcher *prefetcher;
    atomic_bool is_stopped; /* set under the lock; a walk over the folder reads it without */
    struct sluice_loader_pass shown;
    struct ended ended[2];                 /* by part */
    struct sluice_lend_counters lend_told; /* what was lent until the last report */

    pid_t owner;
    struct sluice_options options;
    struct sluice_cli_texts texts; /* the options point to them */
    struct sluice_order_options order;
    struct sluice_host_memory memory;
    bool has_memory;                 /* the caller has set `memory` */
    struct sluice_gpu_place *place;  /* until the prefetcher takes it; NULL: none */
    double place_upload_bytes_per_s; /* to it; INFINITY: never the limit */
    bool has_place;
    int device;               /* where batches are; -1: in the host's memory */
    struct sluice_lend *lend; /* NULL: the GPU is not lent */
    bool is_open;
    bool is_planned[2]; /* by part */

    struct sluice_server_info info;
    struct sluice_manifest *manifest;
    char dataset_id[33];
    struct sluice_dataset_info dataset;
    struct part train, val;
    struct sluice_mix mix;
    struct sluice_sampler_range ranges[SLUICE_MAX_MIX_RANGES]; /* of train, by the mix */
    size_t num_ranges;
    uint32_t *shard_ends; /* of train, with shuffle-shards; owned */
    size_t num_shards;
    struct sluice_buf_pool *pool;
    struct sluice_replan *replan; /* NULL: the parts' choices hold for all epochs */
    struct sluice_cost_table profile;
    struct sluice_live live;
    struct sluice_tracer *tracer; /* NULL: nothing is traced */

    /* The epoch under way, or the last one. */
    bool is_running;
    bool has_lost_source;
    struct part *part;
    struct sluice_state start;         /* where it began */
    struct sluice_state now;           /* after the last batch that next() returned */
    struct sluice_sampler_item *items; /* this rank's, from the start on */
    size_t num_items;
    uint64_t num_batches;               /* of `items` */
    struct sluice_bucket_order buckets; /* with buckets: the batches, without their items */
    uint64_t total;      /* items of the whole epoch for all ranks; or of the external order */
    uint32_t num_padded; /* the last num_padded of the items repeat others */
    uint64_t started_ns, started_cpu_ns;
    uint64_t lost_streams, hash_errors; /* before it */
    uint64_t given_ns;                  /* when next() returned a batch; 0: next() runs */
};

static inline struct part *loader_part(struct sluice_loader *loader, enum sluice_part part)
{
    return part == SLUICE_VAL ? &loader->val : &loader->train;
}
static inline const struct part *loader_const_part(const struct sluice_loader *loader,
                                                   enum sluice_part part)
{
    return part == SLUICE_VAL ? &loader->val : &loader->train;
}

/* Register the servers and the prefetcher, so that a stop reaches them. */
void loader_set_servers(struct sluice_loader *loader, struct sluice_servers *servers);
void loader_set_prefetcher(struct sluice_loader *loader, struct sluice_prefetcher *prefetcher);
bool loader_is_stopped(struct sluice_loader *loader);

/* Opens the GPU if the settings ask for one and one can be used.  After the pipelines are made. */
SLUICE_MUST_USE sluice_status loader_open_gpu(struct sluice_loader *loader, struct sluice_err *err);
/* Whether the GPU can run the ops of the part's pipeline up to u8. */
bool loader_decodes_on_gpu(const struct sluice_loader *loader, const struct part *part);
/* The choices of the part's samples; with a GPU that decodes also those with +gpu, of which JPEG
 * crops only if the server puts restart markers where the GPU needs them. */
struct sluice_choices loader_choices_of(const struct sluice_loader *loader,
                                        const struct part *part);

/* Call these in this order, before the first epoch. */
SLUICE_MUST_USE sluice_status loader_make_pipelines(struct sluice_loader *loader,
                                                    struct sluice_err *err);
SLUICE_MUST_USE sluice_status loader_open_data(struct sluice_loader *loader,
                                               struct sluice_err *err);
/* For val alone, or for both parts. */
SLUICE_MUST_USE sluice_status loader_choose(struct sluice_loader *loader, bool for_training,
                                            struct sluice_err *err);
/* Uses loader->memory for batches.  epoch_items: of a training epoch, of all ranks. */
SLUICE_MUST_USE sluice_status loader_make_prefetcher(struct sluice_loader *loader,
                                                     uint64_t epoch_items, struct sluice_err *err);

/* Creates the part's source on the first call. */
SLUICE_MUST_USE sluice_status loader_make_source(struct sluice_loader *loader, struct part *part,
                                                 struct sluice_err *err);

/* Finds the bucket of each sample of the parts whose pipelines have buckets, or the bytes of the
 * largest batch of those whose images end in sizes of their own. */
SLUICE_MUST_USE sluice_status loader_find_sizes(struct sluice_loader *loader,
                                                struct sluice_err *err);
/* Whether each batch of loader->part with these items keeps within batch_bytes. */
SLUICE_MUST_USE sluice_status loader_check_batches(const struct sluice_loader *loader,
                                                   const struct sluice_sampler_item *items,
                                                   size_t num_items, struct sluice_err *err);
/* This rank's batches of an epoch with buckets, from the cursor on; items[0 .. count) is the
 * sampler's order.  Clear the result. */
SLUICE_MUST_USE sluice_status loader_order_buckets(const struct sluice_loader *loader,
                                                   enum sluice_part part, uint64_t epoch,
                                                   const struct sluice_sampler_item *items,
                                                   size_t count, uint64_t cursor,
                                                   struct sluice_bucket_order *order,
                                                   struct sluice_err *err);
/* Counts the batches of epoch 0 of a part with buckets. */
SLUICE_MUST_USE sluice_status loader_count_batches(struct sluice_loader *loader,
                                                   enum sluice_part part, struct sluice_err *err);

/* The place at the beginning of an epoch, in the loader's own order. */
struct sluice_state loader_state_at(const struct sluice_loader *loader, enum sluice_part part,
                                    uint64_t epoch);

/* Begin and end the statistics of an epoch; end fills loader->ended[]. */
void loader_stats_begin(struct sluice_loader *loader);
void loader_stats_end(struct sluice_loader *loader, const struct sluice_epoch_stats *stats,
                      bool is_whole);

/* The pass that sluice_loader_pass() returns from now on, without its number. */
void loader_show(struct sluice_loader *loader, const struct sluice_loader_pass *pass);

/* Reduces the epoch's items to those that will be profiled. */
void loader_profile_pick(struct sluice_loader *loader);
/* Before the epoch that fills loader->profile. */
SLUICE_MUST_USE sluice_status loader_profile_begin(struct sluice_loader *loader,
                                                   struct sluice_err *err);
/* Shows that epoch as the first part of the profile. */
void loader_profile_show(struct sluice_loader *loader, uint64_t num_samples);

#endif
