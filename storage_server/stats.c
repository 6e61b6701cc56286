#include "storage_server/stats.h"

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

void sluice_stats_count(struct sluice_stats *stats, const struct sluice_wire_sample_reply *reply,
                        bool is_reduced)
{
    pthread_mutex_lock(&stats->lock);
    count(&stats->counted, reply->status, reply->ops_done, reply->form,
          reply->payload ? reply->payload->len : 0);
    if (is_reduced && reply->status == SLUICE_OK)
        stats->counted.reduced++;
    pthread_mutex_unlock(&stats->lock);
}

void sluice_stats_count_transfer(struct sluice_stats *stats, sluice_status status, unsigned split,
                                 enum sluice_form form, uint64_t bytes)
{
    pthread_mutex_lock(&stats->lock);
    count(&stats->counted, status, split, form, bytes);
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

static json_t *count_json(uint64_t value)
{
    return json_integer((json_int_t)value);
}

sluice_status sluice_stats_json(const struct sluice_wire_stats *stats, char **json,
                                struct sluice_err *err)
{
    json_t *choices = json_object();
    json_t *choice_bytes = json_object();
    json_t *errors = json_object();
    int failed = 0;
    for (unsigned split = 0; split < SLUICE_WIRE_MAX_SPLITS; split++) {
        for (unsigned form = 0; form < SLUICE_NUM_FORMS; form++) {
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
        {"busy_cores", json_real(stats->busy_cores)},
        {"cpu_price", json_real(stats->cpu_price)},
        {"streams", count_json(stats->streams)},
        {"refused_paths", count_json(stats->refused_paths)},
    };
    /* Takes the value also where it fails, and fails on NULL. */
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(members); i++)
        failed |= json_object_set_new(root, members[i].name, members[i].value);

    char *text = failed ? NULL : json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(root);
    if (!text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the counters");
    *json = text;
    return SLUICE_OK;
}
