#include "storage_server/observe/metrics.h"

#include "storage_server/work/workers.h"

#include <stdio.h>

static void put_choices(struct sluice_exposition *page, const struct sluice_wire_stats *stats,
                        const char *name, bool is_bytes, const char *help)
{
    sluice_exposition_family(page, name, SLUICE_COUNTER, help);
    for (unsigned split = 0; split < SLUICE_WIRE_MAX_SPLITS; split++) {
        char split_text[16];
        snprintf(split_text, sizeof(split_text), "%u", split);
        for (int form = 0; form < SLUICE_MAX_FORMS; form++) {
            if (stats->choices[split][form].samples == 0)
                continue;
            const struct sluice_label labels[] = {
                {"split", split_text}, {"form", sluice_form_name((enum sluice_form)form)}};
            sluice_exposition_count(page, labels, 2,
                                    is_bytes ? stats->choices[split][form].bytes
                                             : stats->choices[split][form].samples);
        }
    }
}

static void put_samples(struct sluice_exposition *page, const struct sluice_wire_stats *stats)
{
    put_choices(page, stats, "sluice_samples_total", false, "Samples answered, by split and form.");
    put_choices(page, stats, "sluice_payload_bytes_total", true,
                "Payload sent, by split and form.");
    sluice_exposition_counter(page, "sluice_wire_bytes_total", stats->wire_bytes,
                              "Messages sent, payload and fields, in bytes.");
    sluice_exposition_counter(page, "sluice_reduced_total", stats->reduced,
                              "Samples answered with fewer ops than asked for.");
    sluice_exposition_counter(page, "sluice_refused_paths_total", stats->refused_paths,
                              "Requests for paths outside the root.");
    sluice_exposition_family(page, "sluice_errors_total", SLUICE_COUNTER,
                             "Samples answered without a payload, by status.");
    for (int status = 1; status < SLUICE_WIRE_NUM_STATUS; status++) {
        const struct sluice_label label = {"status", sluice_status_name((sluice_status)status)};
        sluice_exposition_count(page, &label, 1, stats->errors[status]);
    }
}

static void put_times(struct sluice_exposition *page, const struct sluice_service_stats *service)
{
    static const char *const stages[SLUICE_NUM_STAGES] = {
        [SLUICE_STAGE_BACKLOG] = "backlog", [SLUICE_STAGE_QUEUE] = "queue",
        [SLUICE_STAGE_DISK] = "disk",       [SLUICE_STAGE_WORK] = "work",
        [SLUICE_STAGE_SEND] = "send",
    };
    sluice_exposition_family(page, "sluice_service_seconds", SLUICE_HISTOGRAM,
                             "From the arrival of a sample's request until its reply is sent.");
    sluice_exposition_histogram(page, NULL, 0, &service->service);
    sluice_exposition_family(
        page, "sluice_service_stage_seconds", SLUICE_HISTOGRAM,
        "The same of samples without an error, by stage: backlog (behind others of its stream), "
        "queue (for a worker), disk, work, send (for others in the message, or for credit).");
    for (int stage = 0; stage < SLUICE_NUM_STAGES; stage++) {
        const struct sluice_label label = {"stage", stages[stage]};
        sluice_exposition_histogram(page, &label, 1, &service->stages[stage]);
    }
}

static void put_cpu(struct sluice_exposition *page, const struct sluice_server_counts *counts)
{
    const struct sluice_wire_stats *stats = &counts->stats;
    sluice_exposition_gauge(page, "sluice_uptime_seconds", stats->uptime_s,
                            "Since the server began to serve.");
    sluice_exposition_gauge(page, "sluice_prep_cores", stats->prep_cores,
                            "Cores that preprocessing may use.");
    sluice_exposition_gauge(page, "sluice_prep_workers", stats->prep_workers,
                            "The same in whole cores, at least 1.");
    /* Not busy_cores times uptime_s: a counter must not fall, be it by a rounding error. */
    sluice_exposition_seconds(page, "sluice_busy_core_seconds_total",
                              (double)counts->groups[SLUICE_GROUP_PREP].busy_ns / 1e9,
                              "CPU time of preprocessing.");
    sluice_exposition_gauge(page, "sluice_cpu_price", stats->cpu_price,
                            "What a core is worth to the clients, in seconds of a million "
                            "samples.");
    sluice_exposition_seconds(page, "sluice_cpu_seconds_total", stats->cpu_s,
                              "CPU time of jobs: reading, ops and replies.");
    sluice_exposition_seconds(page, "sluice_process_cpu_seconds_total", stats->process_cpu_s,
                              "CPU time of the whole server.");
}

static void put_queues(struct sluice_exposition *page, const struct sluice_server_counts *counts)
{
    static const char *const names[] = {"prep", "io"};
    sluice_exposition_gauge(page, "sluice_queue_depth", counts->stats.queue_depth,
                            "Jobs that wait for a worker to preprocess them.");
    sluice_exposition_gauge(page, "sluice_queue_peak", counts->stats.queue_peak,
                            "The most such jobs that ever waited.");
    sluice_exposition_family(page, "sluice_waiting_jobs", SLUICE_GAUGE,
                             "Jobs that wait for a worker, by group of workers: prep (with ops to "
                             "run), io (files).");
    for (size_t i = 0; i < 2; i++) {
        const struct sluice_label label = {"group", names[i]};
        sluice_exposition_count(page, &label, 1, counts->groups[i].queue_depth);
    }
    sluice_exposition_family(page, "sluice_workers", SLUICE_GAUGE,
                             "Threads of each group, with those that stand in for hanging ones.");
    for (size_t i = 0; i < 2; i++) {
        const struct sluice_label label = {"group", names[i]};
        sluice_exposition_count(page, &label, 1, counts->groups[i].num_workers);
    }
    sluice_exposition_gauge(page, "sluice_unanswered_requests", (double)counts->unanswered,
                            "Requests that were accepted and are not answered yet.");
    sluice_exposition_gauge(page, "sluice_hanging_workers", counts->hanging,
                            "Workers that have been at one sample for half of --sample-timeout.");
    sluice_exposition_counter(page, "sluice_sample_timeouts_total", counts->timeouts,
                              "Samples answered with an error after --sample-timeout.");
    sluice_exposition_gauge(page, "sluice_serving", counts->is_serving,
                            "1 while the health is SERVING, else 0; /healthz says why.");
    sluice_exposition_gauge(page, "sluice_root_available", counts->has_root,
                            "1 while the root is where it was, else 0.");
}

static void put_files(struct sluice_exposition *page, const struct sluice_wire_stats *stats)
{
    sluice_exposition_counter(page, "sluice_file_reads_total", stats->files.reads,
                              "Files read for samples.");
    sluice_exposition_counter(page, "sluice_file_bytes_total", stats->files.bytes,
                              "Length of the files read.");
    sluice_exposition_counter(page, "sluice_file_read_bytes_total", stats->files.read_bytes,
                              "Bytes of them that were read.");
    const struct {
        const char *use;
        uint64_t count;
    } uses[] = {
        {"hit", stats->jpeg_index.hits},
        {"stale", stats->jpeg_index.stale},
        {"missing", stats->jpeg_index.missing},
        {"again", stats->jpeg_index.again},
    };
    sluice_exposition_family(page, "sluice_jpeg_index_total", SLUICE_COUNTER,
                             "Files for preprocessing, by what the index of JPEGs had for them; "
                             "again: read in full after all.");
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(uses); i++) {
        const struct sluice_label label = {"use", uses[i].use};
        sluice_exposition_count(page, &label, 1, uses[i].count);
    }
}

static void put_dataset(struct sluice_exposition *page, const struct sluice_server_counts *counts)
{
    const struct sluice_label label = {"dataset", counts->dataset.id};
    sluice_exposition_family(page, "sluice_dataset_info", SLUICE_GAUGE,
                             "Always 1; the label is the dataset's id.");
    sluice_exposition_count(page, &label, 1, 1);
    sluice_exposition_gauge(page, "sluice_dataset_samples", (double)counts->dataset.samples,
                            "Samples that are listed.");
    sluice_exposition_gauge(page, "sluice_dataset_classes", (double)counts->dataset.classes,
                            "Classes of these.");
    sluice_exposition_gauge(page, "sluice_dataset_bytes", (double)counts->dataset.bytes,
                            "Length of their files.");
}

static void put_reasons(struct sluice_exposition *page, const char *const *reasons,
                        size_t num_reasons, const uint64_t *values)
{
    for (size_t i = 0; i < num_reasons; i++) {
        const struct sluice_label label = {"reason", reasons[i]};
        sluice_exposition_count(page, &label, 1, values[i]);
    }
}

static void put_connections(struct sluice_exposition *page,
                            const struct sluice_server_counts *counts)
{
    static const char *const connection_reasons[SLUICE_RPC_NUM_REFUSALS] = {
        [SLUICE_RPC_REFUSED_FULL] = "connections",
        [SLUICE_RPC_REFUSED_HOST_FULL] = "host",
        [SLUICE_RPC_REFUSED_PAUSED] = "paused",
        [SLUICE_RPC_REFUSED_NO_DESCRIPTOR] = "descriptors",
    };
    static const char *const call_reasons[SLUICE_NUM_REFUSALS] = {
        [SLUICE_REFUSED_NO_TOKEN] = "no_token",
        [SLUICE_REFUSED_UNKNOWN_TOKEN] = "unknown_token",
        [SLUICE_REFUSED_OTHER_DATA] = "other_data",
        [SLUICE_REFUSED_CONNECTIONS] = "connections",
    };
    if (counts->certificate_end)
        sluice_exposition_gauge(page, "sluice_certificate_expiry_timestamp_seconds",
                                (double)counts->certificate_end,
                                "When the certificate that is served ends, in Unix time; absent "
                                "without TLS.");
    sluice_exposition_gauge(page, "sluice_streams", counts->stats.streams,
                            "Fetch streams that are open.");
    sluice_exposition_gauge(page, "sluice_connections", counts->connections.open,
                            "Connections that are open.");
    sluice_exposition_family(page, "sluice_refused_connections_total", SLUICE_COUNTER,
                             "Connections closed as they came, by reason: connections and host (as "
                             "many as may be are there), paused (one of the host was cut just "
                             "before), descriptors (none is left).");
    put_reasons(page, connection_reasons, SLUICE_RPC_NUM_REFUSALS, counts->connections.refused);
    sluice_exposition_family(page, "sluice_refused_calls_total", SLUICE_COUNTER,
                             "Calls that no token allowed, by reason: no_token, unknown_token, "
                             "other_data (the token is for another root), connections (it has as "
                             "many as it may have).");
    put_reasons(page, call_reasons, SLUICE_NUM_REFUSALS, counts->refused_calls.calls);
    sluice_exposition_counter(page, "sluice_cut_connections_total", counts->connections.cut,
                              "Connections cut because of a flood of HTTP/2 frames.");
    sluice_exposition_counter(page, "sluice_damaged_requests_total",
                              counts->service.damaged_requests,
                              "Messages of requests that came with a wrong hash.");
}

static void put_memory(struct sluice_exposition *page, const struct sluice_server_counts *counts)
{
    sluice_exposition_gauge(page, "sluice_memory_limit_bytes", (double)counts->memory.bytes,
                            "What clients may make the server hold: their part of "
                            "--memory-limit.");
    sluice_exposition_gauge(page, "sluice_memory_used_bytes", (double)counts->memory.used,
                            "What of it is held.");
    sluice_exposition_gauge(page, "sluice_memory_peak_bytes", (double)counts->memory.peak,
                            "The most that was held.");
    sluice_exposition_counter(page, "sluice_memory_refusals_total", counts->memory.refused,
                              "Times that something found no room in it: it waited, or went as "
                              "the file.");
    sluice_exposition_gauge(page, "sluice_memory_waiting_streams", counts->memory.num_waiting,
                            "Streams and calls that wait for room in it.");
    if (counts->resident_bytes)
        sluice_exposition_gauge(page, "sluice_process_resident_bytes",
                                (double)counts->resident_bytes, "Memory of the whole server.");
}

static void put_decoders(struct sluice_exposition *page, const struct sluice_decoder_counts *counts)
{
    static const char *const causes[SLUICE_NUM_DECODER_ENDS] = {
        [SLUICE_DECODER_CRASHED] = "crashed",
        [SLUICE_DECODER_KILLED] = "killed",
        [SLUICE_DECODER_HUNG] = "hung",
        [SLUICE_DECODER_LIED] = "bad_answer",
    };
    sluice_exposition_gauge(page, "sluice_decoders", (double)counts->running,
                            "Decoder processes (--isolate-decoders).");
    sluice_exposition_family(page, "sluice_decoder_ends_total", SLUICE_COUNTER,
                             "Decoder processes that ended at a sample, by how.");
    for (size_t i = 0; i < SLUICE_NUM_DECODER_ENDS; i++) {
        const struct sluice_label label = {"cause", causes[i]};
        sluice_exposition_count(page, &label, 1, counts->ends[i]);
    }
    sluice_exposition_counter(page, "sluice_decoder_misses_total", counts->missed,
                              "Samples sent as files because a worker had no decoder.");
}

static void put_cache(struct sluice_exposition *page, const struct sluice_store_cache_counts *cache)
{
    const struct sluice_label hit = {"result", "hit"}, miss = {"result", "miss"};
    sluice_exposition_family(page, "sluice_cache_reads_total", SLUICE_COUNTER,
                             "Reads, by whether all of them came from --cache.");
    sluice_exposition_count(page, &hit, 1, cache->hits);
    sluice_exposition_count(page, &miss, 1, cache->misses);
    sluice_exposition_family(page, "sluice_cache_read_bytes_total", SLUICE_COUNTER,
                             "Bytes, by whether they came from --cache or were asked of the "
                             "store.");
    sluice_exposition_count(page, &hit, 1, cache->hit_bytes);
    sluice_exposition_count(page, &miss, 1, cache->miss_bytes);
    sluice_exposition_counter(page, "sluice_cache_evictions_total", cache->evictions,
                              "Pieces of objects that made room for others.");
    sluice_exposition_counter(page, "sluice_cache_errors_total", cache->errors,
                              "Pieces that could not be read or written, or were damaged.");
    sluice_exposition_gauge(page, "sluice_cache_bytes", (double)cache->bytes,
                            "What the files of --cache take.");
    sluice_exposition_gauge(page, "sluice_cache_limit_bytes", (double)cache->max_bytes,
                            "What they may take.");
}

enum client_count { SAMPLES, BYTES, ERRORS, STREAMS };

static void put_clients(struct sluice_exposition *page, const struct sluice_server_counts *counts,
                        enum client_count what, const char *name, const char *help)
{
    sluice_exposition_family(page, name, what == STREAMS ? SLUICE_GAUGE : SLUICE_COUNTER, help);
    for (size_t i = 0; i < counts->num_clients; i++) {
        const struct sluice_client_row *row = &counts->clients[i];
        const struct sluice_label labels[] = {{"client", row->name}, {"address", row->address}};
        const uint64_t values[] = {[SAMPLES] = row->samples,
                                   [BYTES] = row->payload_bytes,
                                   [ERRORS] = row->errors,
                                   [STREAMS] = row->streams};
        sluice_exposition_count(page, labels, 2, values[what]);
    }
}

void sluice_metrics_write(const struct sluice_server_counts *counts, struct sluice_exposition *page)
{
    put_samples(page, &counts->stats);
    put_times(page, &counts->service);
    put_queues(page, counts);
    put_cpu(page, counts);
    put_files(page, &counts->stats);
    put_dataset(page, counts);
    put_connections(page, counts);
    put_memory(page, counts);
    if (counts->has_decoders)
        put_decoders(page, &counts->decoders);
    if (counts->has_cache)
        put_cache(page, &counts->cache);
    put_clients(page, counts, SAMPLES, "sluice_client_samples_total",
                "Samples sent, by client (the name that it gave itself, or its address) and "
                "address; the 64 most recent, the rest is client other.");
    put_clients(page, counts, BYTES, "sluice_client_payload_bytes_total",
                "Payload sent, by client.");
    put_clients(page, counts, ERRORS, "sluice_client_errors_total",
                "Samples answered without a payload, by client.");
    put_clients(page, counts, STREAMS, "sluice_client_streams",
                "Fetch streams that are open, by client.");
}
