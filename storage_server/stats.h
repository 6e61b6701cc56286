#ifndef SLUICE_STORAGE_SERVER_STATS_H
#define SLUICE_STORAGE_SERVER_STATS_H

#include "base/error.h"
#include "datasets/indexed_file.h"
#include "wire/wire.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* What the server did, in numbers: the Stats call and the JSON line show the same.
 *
 * Threads: any. */

struct sluice_stats {
    pthread_mutex_t lock;
    struct sluice_wire_stats counted; /* only what is counted here; the rest stays 0 */

    uint64_t started_ns; /* constant from here */
};

void sluice_stats_init(struct sluice_stats *stats, uint64_t now_ns);
void sluice_stats_clear(struct sluice_stats *stats);

/* One sample was answered, with or without a payload.  `is_reduced`: with fewer ops
 * than the request asked for. */
void sluice_stats_count(struct sluice_stats *stats, const struct sluice_wire_sample_reply *reply,
                        bool is_reduced);

/* A call of the DataTransfer service was answered at `split`. */
void sluice_stats_count_transfer(struct sluice_stats *stats, sluice_status status, unsigned split,
                                 enum sluice_form form, uint64_t bytes);

/* A file was read for a sample. */
struct sluice_file_reading {
    uint64_t file_bytes, read_bytes;
    enum sluice_index_use use;
    bool is_again; /* read in full, as the parts were not enough */
};
void sluice_stats_count_file(struct sluice_stats *stats, const struct sluice_file_reading *reading);

void sluice_stats_stream_opened(struct sluice_stats *stats);
void sluice_stats_stream_closed(struct sluice_stats *stats);

/* The counters so far and the uptime, without what the pools, the store and rpc count. */
struct sluice_wire_stats sluice_stats_read(struct sluice_stats *stats, uint64_t now_ns);

/* One line of JSON, no newline in it; free() it.
 * {"uptime_s":..,"samples":..,"payload_bytes":..,"wire_bytes":..,"choices":{"raw@0":21},
 *  "choice_bytes":{"raw@0":..},"errors":{"corrupt":1},"reduced":..,"queue_depth":..,
 *  "queue_peak":..,"prep_workers":..,"prep_cores":..,"busy_cores":..,"cpu_price":..,
 *  "streams":..,"refused_paths":..,
 *  "files":{"reads":..,"bytes":..,"read_bytes":..},"cpu_s":..,"process_cpu_s":..,
 *  "jpeg_index":{"hits":..,"stale":..,"missing":..,"again":..}}
 * Choices and errors that did not occur are left out. */
SLUICE_MUST_USE sluice_status sluice_stats_json(const struct sluice_wire_stats *stats, char **json,
                                                struct sluice_err *err);

#endif
