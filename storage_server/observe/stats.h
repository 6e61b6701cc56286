#ifndef SLUICE_STORAGE_SERVER_OBSERVE_STATS_H
#define SLUICE_STORAGE_SERVER_OBSERVE_STATS_H

#include "base/error.h"
#include "datasets/jpeg_index/indexed_file.h"
#include "metrics/histogram.h"
#include "store/store_cache.h"
#include "wire/wire.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Counters of the server: the Stats call and the JSON line show the same.
 *
 * Threads: any. */

/* The stages of a sample on the server, in order; each is measured in time. */
enum sluice_stage {
    SLUICE_STAGE_BACKLOG, /* waits behind other requests of its stream */
    SLUICE_STAGE_QUEUE,   /* waits for a worker */
    SLUICE_STAGE_DISK,    /* the worker reads the file, unless it is in memory */
    SLUICE_STAGE_WORK,    /* the rest of the worker's time */
    SLUICE_STAGE_SEND,    /* waits to be sent: for replies that share its message, for credit */
    SLUICE_NUM_STAGES,
};

/* Counts that only the metrics show. */
struct sluice_service_stats {
    struct sluice_histogram service;                   /* from request to message; errors, too */
    struct sluice_histogram stages[SLUICE_NUM_STAGES]; /* of samples without an error */
    uint64_t damaged_requests;                         /* whose hash was wrong */
};

struct sluice_stats {
    pthread_mutex_t lock;
    struct sluice_wire_stats counted; /* the fields that are not counted here stay 0 */
    struct sluice_service_stats service;

    uint64_t started_ns; /* constant from here */
};

void sluice_stats_init(struct sluice_stats *stats, uint64_t now_ns);
void sluice_stats_clear(struct sluice_stats *stats);

/* Counts an answered sample, with or without a payload, service_ns after its request came.
 * `is_reduced`: with fewer ops than requested.  Fills six histograms, which takes about 40 ns under
 * the lock. */
void sluice_stats_count(struct sluice_stats *stats, const struct sluice_wire_sample_reply *reply,
                        bool is_reduced, uint64_t service_ns);

/* Counts a damaged request. */
void sluice_stats_count_damaged(struct sluice_stats *stats);

/* Counts a call of the DataTransfer service, answered at `split`. */
void sluice_stats_count_transfer(struct sluice_stats *stats, sluice_status status, unsigned split,
                                 enum sluice_form form, uint64_t bytes);

/* Counts a file that was read for a sample. */
struct sluice_file_reading {
    uint64_t file_bytes, read_bytes;
    enum sluice_index_use use;
    bool is_again; /* read in full because the parts were not enough */
};
void sluice_stats_count_file(struct sluice_stats *stats, const struct sluice_file_reading *reading);

void sluice_stats_stream_opened(struct sluice_stats *stats);
void sluice_stats_stream_closed(struct sluice_stats *stats);

/* The counters so far and the uptime, without those of the pools, the store and rpc. */
struct sluice_wire_stats sluice_stats_read(struct sluice_stats *stats, uint64_t now_ns);
struct sluice_service_stats sluice_stats_read_service(struct sluice_stats *stats);

/* One line of JSON without a newline; free() it.  `cache` is NULL without a cache.
 * {"uptime_s":..,"samples":..,"payload_bytes":..,"wire_bytes":..,"choices":{"raw@0":21},
 *  "choice_bytes":{"raw@0":..},"errors":{"corrupt":1},"reduced":..,"queue_depth":..,
 *  "queue_peak":..,"prep_workers":..,"prep_cores":..,"busy_cores":..,"cpu_price":..,
 *  "streams":..,"refused_paths":..,
 *  "files":{"reads":..,"bytes":..,"read_bytes":..},"cpu_s":..,"process_cpu_s":..,
 *  "jpeg_index":{"hits":..,"stale":..,"missing":..,"again":..},
 *  "cache":{"hits":..,"misses":..,"hit_bytes":..,"miss_bytes":..,"evictions":..,"errors":..,
 *  "bytes":..}}
 * Choices and errors that did not occur are left out. */
SLUICE_MUST_USE sluice_status sluice_stats_json(const struct sluice_wire_stats *stats,
                                                const struct sluice_store_cache_counts *cache,
                                                char **json, struct sluice_err *err);

#endif
