#include "record.h"

#include "base/buf.h"
#include "op/form.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void record_init(struct record *r)
{
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
}

void record_clear(struct record *r)
{
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
}

static void on_result(void *ctx, struct sluice_source_result *result)
{
    struct record *r = ctx;
    pthread_mutex_lock(&r->lock);
    const uint64_t t = result->ticket;
    if (t >= RECORD_MAX_ITEMS)
        abort(); /* CUnit's asserts are for the main thread */
    r->num_wrong += r->has_failed;
    r->answers[t]++;
    r->status[t] = result->status;
    r->origin[t] = result->origin;
    r->ops_done[t] = result->sample.ops_done;
    r->is_jpeg_crop[t] = sluice_sample_form(&result->sample) == SLUICE_FORM_JPEG_CROP;
    r->images[t] = result->sample.image;
    r->cores = result->storage_cores;
    memcpy(r->error[t], result->error, sizeof(result->error));
    if (r->num_answers < RECORD_MAX_ITEMS)
        r->order[r->num_answers] = t;
    r->num_answers++;
    r->num_good += result->status == SLUICE_OK;
    r->from[result->origin]++;
    if (result->status == SLUICE_OK && (sluice_source_gather(result, NULL, NULL) != SLUICE_OK ||
                                        result->sample.key.sample_id != t % RECORD_SAMPLES ||
                                        result->payload_bytes != result->sample.data->len))
        r->num_wrong++;
    if (r->keeps_payload)
        r->kept_bytes += result->payload_bytes;
    struct sluice_source *source = r->source;
    const bool is_consumed = !r->keeps_payload && result->payload_bytes;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    sluice_source_result_clear(result);
    if (is_consumed)
        source->consumed(source, result->origin, result->payload_bytes);
}

static void on_failed(void *ctx, sluice_status status, const char *text)
{
    struct record *r = ctx;
    pthread_mutex_lock(&r->lock);
    r->num_wrong += r->has_failed;
    r->has_failed = true;
    r->failure = status;
    snprintf(r->failure_text, sizeof(r->failure_text), "%s", text);
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

struct sluice_source_events record_events(struct record *r)
{
    return (struct sluice_source_events){.on_result = on_result, .on_failed = on_failed, .ctx = r};
}

sluice_status record_ask(struct record *r, uint64_t first, size_t count, unsigned split,
                         uint64_t file_bytes)
{
    struct sluice_source_item *items = calloc(count, sizeof(*items));
    if (!items)
        abort();
    for (size_t i = 0; i < count; i++) {
        items[i] = (struct sluice_source_item){
            .ticket = first + i,
            .key = {.seed = 1, .epoch = 2, .sample_id = (first + i) % RECORD_SAMPLES},
            .path = "",
            .file_bytes = file_bytes,
            .split = split,
            .form = split == 0  ? SLUICE_FORM_RAW
                    : split < 4 ? SLUICE_FORM_U8
                                : SLUICE_FORM_F32,
        };
    }
    const sluice_status status = r->source->request(r->source, items, count);
    free(items);
    return status;
}

bool record_wait_answers(struct record *r, size_t count)
{
    pthread_mutex_lock(&r->lock);
    while (r->num_answers < count && !r->has_failed)
        pthread_cond_wait(&r->changed, &r->lock);
    const bool is_there = r->num_answers >= count;
    pthread_mutex_unlock(&r->lock);
    return is_there;
}

void record_wait_failed(struct record *r)
{
    pthread_mutex_lock(&r->lock);
    while (!r->has_failed)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

bool record_has_each_once(const struct record *r, size_t count)
{
    bool has_each = true;
    for (size_t i = 0; i < RECORD_MAX_ITEMS; i++)
        has_each &= r->answers[i] == (i < count ? 1 : 0);
    return has_each;
}
