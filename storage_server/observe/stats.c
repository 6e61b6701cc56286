#include "storage_server/observe/stats.h"

#include "base/c_locale.h"

#include <jansson.h>
#include <stdio.h>

void sluice_stats_init(struct sluice_stats *stats, uint64_t now_ns)
{
    *stats = (struct sluice_stats){.started_ns = now_ns};
    pthread_mutex_init(&stats->lock, NULL);
}

void sluice_stats_clear(struct sluice_stats *stats)
{
    pthread_mutex_destroy(&stats->lock);
}

/* Under the lock. */
static void count(struct sluice_wire_stats *c, sluice_status status, unsigned split,
                  enum sluice_form form, uint64_t bytes)
{
    if (status != SLUICE_OK) {
        c->errors[status]++;
        return;
    }
    c->choices[split][form].samples++;
    c->choices[split][form].bytes += bytes;
    c->samples++;
    c->payload_bytes += bytes;
}

/* Under the lock. */
static void count_times(struct sluice_service_stats *service,
                        const struct sluice_wire_sample_reply *reply, uint64_t service_ns)
{
    sluice_histogram_add(&service->service, service_ns);
    if (reply->status != SLUICE_OK)
        return;
    const uint64_t work_us = reply->work_us > reply->disk_us ? reply->work_us - reply->disk_us : 0;
    const uint64_t us[] = {reply->backlog_us, reply->queue_us, reply->disk_us, work_us};
    uint64_t sum_ns = 0;
    for (int stage = 0; stage < SLUICE_STAGE_SEND; stage++) {
        sum_ns += us[stage] * 1000;
        sluice_histogram_add(&service->stages[stage], us[stage] * 1000);
    }
    sluice_histogram_add(&service->stages[SLUICE_STAGE_SEND],
                         service_ns > sum_ns ? service_ns - sum_ns : 0);
}

void sluice_stats_count(struct sluice_stats *stats, const struct sluice_wire_sample_reply *reply,
                        bool is_reduced, uint64_t service_ns)
{
    pthread_mutex_lock(&stats->lock);
    count_times(&stats->service, reply, service_ns);
    count(&stats->counted, reply->status, reply->ops_done, reply->form,
          reply->payload ? reply->payload->len : 0);
    if (is_reduced && reply->status == SLUICE_OK)
        stats->counted.reduced++;
    stats->counted.cpu_s += (double)reply->cpu_us * 1e-6;
    pthread_mutex_unlock(&stats->lock);
}

void sluice_stats_count_damaged(struct sluice_stats *stats)
{
    pthread_mutex_lock(&stats->lock);
    stats->service.damaged_requests++;
    pthread_mutex_unlock(&stats->lock);
}

void sluice_stats_count_transfer(struct sluice_stats *stats, sluice_status status, unsigned split,
                                 enum sluice_form form, uint64_t bytes)
{
    pthread_mutex_lock(&stats->lock);
    count(&stats->counted, status, split, form, bytes);
    pthread_mutex_unlock(&stats->lock);
}

void sluice_stats_count_file(struct sluice_stats *stats, const struct sluice_file_reading *reading)
{
    struct sluice_wire_stats *c = &stats->counted;
    pthread_mutex_lock(&stats->lock);
    c->files.reads += !reading->is_again;
    c->files.bytes += reading->is_again ? 0 : reading->file_bytes;
    c->files.read_bytes += reading->read_bytes;
    c->jpeg_index.hits += reading->use == SLUICE_INDEX_HIT;
    c->jpeg_index.stale += reading->use == SLUICE_INDEX_STALE;
    c->jpeg_index.missing += reading->use == SLUICE_INDEX_MISSING;
    c->jpeg_index.again += reading->is_again;
    pthread_mutex_unlock(&stats->lock);
}

void sluice_stats_stream_opened(struct sluice_stats *stats)
{
    pthread_mutex_lock(&stats->lock);
    stats->counted.streams++;
    pthread_mutex_unlock(&stats->lock);
}

void sluice_stats_stream_closed(struct sluice_stats *stats)
{
    pthread_mutex_lock(&stats->lock);
    stats->counted.streams--;
    pthread_mutex_unlock(&stats->lock);
}

struct sluice_wire_stats sluice_stats_read(struct sluice_stats *stats, uint64_t now_ns)
{
    pthread_mutex_lock(&stats->lock);
    struct sluice_wire_stats read = stats->counted;
    pthread_mutex_unlock(&stats->lock);
    read.uptime_s = (double)(now_ns - stats->started_ns) * 1e-9;
    return read;
}

struct sluice_service_stats sluice_stats_read_service(struct sluice_stats *stats)
{
    pthread_mutex_lock(&stats->lock);
    const struct sluice_service_stats read = stats->service;
    pthread_mutex_unlock(&stats->lock);
    return read;
}

static json_t *count_json(uint64_t value)
{
    return json_integer((json_int_t)value);
}

struct named_count {
    const char *name;
    uint64_t value;
};

/* NULL: no memory. */
static json_t *counts_json(const struct named_count *counts, size_t num_counts)
{
    json_t *object = json_object();
    int failed = 0;
    for (size_t i = 0; i < num_counts; i++)
        failed |= json_object_set_new(object, counts[i].name, count_json(counts[i].value));
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}

/* NULL: no memory. */
static json_t *cache_json(const struct sluice_store_cache_counts *cache)
{
    const struct named_count counts[] = {
        {"hits", cache->hits},           {"misses", cache->misses},
        {"hit_bytes", cache->hit_bytes}, {"miss_bytes", cache->miss_bytes},
        {"evictions", cache->evictions}, {"errors", cache->errors},
        {"bytes", cache->bytes},
    };
    return counts_json(counts, SLUICE_ARRAY_LEN(counts));
}

sluice_status sluice_stats_json(const struct sluice_wire_stats *stats,
                                const struct sluice_store_cache_counts *cache, char **json,
                                struct sluice_err *err)
{
    json_t *choices = json_object();
    json_t *choice_bytes = json_object();
    json_t *errors = json_object();
    int failed = 0;
    for (unsigned split = 0; split < SLUICE_WIRE_MAX_SPLITS; split++) {
        for (unsigned form = 0; form < SLUICE_MAX_FORMS; form++) {
            if (!stats->choices[split][form].samples)
                continue;
            char name[32];
            snprintf(name, sizeof(name), "%s@%u", sluice_form_name((enum sluice_form)form), split);
            failed |=
                json_object_set_new(choices, name, count_json(stats->choices[split][form].samples));
            failed |= json_object_set_new(choice_bytes, name,
                                          count_json(stats->choices[split][form].bytes));
        }
    }
    for (unsigned status = 1; status < SLUICE_WIRE_NUM_STATUS; status++) {
        if (stats->errors[status])
            failed |= json_object_set_new(errors, sluice_status_name((sluice_status)status),
                                          count_json(stats->errors[status]));
    }

    const struct named_count files[] = {
        {"reads", stats->files.reads},
        {"bytes", stats->files.bytes},
        {"read_bytes", stats->files.read_bytes},
    };
    const struct named_count jpeg_index[] = {
        {"hits", stats->jpeg_index.hits},
        {"stale", stats->jpeg_index.stale},
        {"missing", stats->jpeg_index.missing},
        {"again", stats->jpeg_index.again},
    };
    json_t *root = json_object();
    const struct {
        const char *name;
        json_t *value; /* owned until it is set */
    } members[] = {
        {"uptime_s", json_real(stats->uptime_s)},
        {"samples", count_json(stats->samples)},
        {"payload_bytes", count_json(stats->payload_bytes)},
        {"wire_bytes", count_json(stats->wire_bytes)},
        {"choices", choices},
        {"choice_bytes", choice_bytes},
        {"errors", errors},
        {"reduced", count_json(stats->reduced)},
        {"queue_depth", count_json(stats->queue_depth)},
        {"queue_peak", count_json(stats->queue_peak)},
        {"prep_workers", count_json(stats->prep_workers)},
        {"prep_cores", json_real(stats->prep_cores)},
        {"busy_cores", json_real(stats->busy_cores)},
        {"cpu_price", json_real(stats->cpu_price)},
        {"streams", count_json(stats->streams)},
        {"refused_paths", count_json(stats->refused_paths)},
        {"files", counts_json(files, SLUICE_ARRAY_LEN(files))},
        {"cpu_s", json_real(stats->cpu_s)},
        {"process_cpu_s", json_real(stats->process_cpu_s)},
        {"jpeg_index", counts_json(jpeg_index, SLUICE_ARRAY_LEN(jpeg_index))},
    };
    /* Takes the value also where it fails, and fails on NULL. */
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(members); i++)
        failed |= json_object_set_new(root, members[i].name, members[i].value);
    if (cache)
        failed |= json_object_set_new(root, "cache", cache_json(cache));

    char *text = failed ? NULL
                        : SLUICE_IN_C_LOCALE(json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII |
                                                                  JSON_REAL_PRECISION(9)));
    json_decref(root);
    if (!text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the counters");
    *json = text;
    return SLUICE_OK;
}
