#include "storage_server/fetch/stream.h"

#include "base/buf.h"
#include "datasets/jpeg_index/indexed_file.h"
#include "datasets/manifest/manifest.h"
#include "host/disk_clock.h"
#include "image/jpeg/crop.h"
#include "op/form.h"
#include "storage_server/data/sample_file.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/observe/stats.h"
#include "storage_server/work/preparer.h"

#include <stdio.h>
#include <string.h>

/* A larger payload would not fit the 64 MiB messages that our client accepts. */
#define MAX_PAYLOAD_BYTES (63u << 20)

uint32_t sluice_fetch_to_us(uint64_t ns)
{
    const uint64_t us = ns / 1000;
    return us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

/* The end of a long path, which says more than the beginning. */
static void fail_reply(struct sluice_wire_sample_reply *reply, sluice_status status,
                       const char *path, const char *text)
{
    const size_t len = strlen(path), room = 90;
    reply->status = status;
    snprintf(reply->error, sizeof(reply->error), "%s%s: %.100s", len > room ? "..." : "",
             len > room ? path + len - room : path, text);
}

static void set_payload(struct sluice_wire_sample_reply *reply, const struct sluice_sample *sample)
{
    reply->status = SLUICE_OK;
    reply->ops_done = sample->ops_done;
    reply->form = sluice_sample_form(sample);
    reply->width = sample->width;
    reply->height = sample->height;
    reply->channels = sample->channels;
    if (sample->kind != SLUICE_KIND_FILE)
        reply->image = sample->image;
    reply->payload = sluice_buf_ref(sample->data);
}

/* The crop for a client that asks for restart markers at an interval of MCUs. */
static uint32_t restart_interval(const struct sluice_fetch *fetch, uint32_t asked)
{
    const uint32_t least = fetch->options.min_crop_restart, most = SLUICE_JPEG_MAX_RESTART_INTERVAL;
    if (asked == 0 || least == 0)
        return 0;
    return asked < least ? least : asked > most ? most : asked;
}

/* Does the job's work on the sample.  SLUICE_E_AGAIN: the sample goes out as it is now.
 * *has_ended: as of struct sluice_decoder_work. */
static sluice_status preprocess(struct sluice_fetch_job *job, struct sluice_preparer *preparer,
                                const char *path, struct sluice_sample *sample, bool *has_ended,
                                struct sluice_err *err)
{
    struct sluice_fetch_stream *s = job->stream;
    if (job->work == SLUICE_FETCH_ROWS &&
        sample->jpeg_index) /* else the file goes, once it is read whole */
        (void)!sluice_pipeline_take_rows(s->pipeline, s->fetch->options.buffers, sample, NULL);
    if (!sluice_fetch_needs_prep(job))
        return SLUICE_OK;
    if (sluice_fetch_stream_is_over(s)) /* cancelled while the file was read */
        return sluice_fail(err, SLUICE_E_CLOSED, "cancelled");
    const struct sluice_form_type *type = sluice_form_type(job->request.form);
    const unsigned split = sluice_fetch_split(job);
    const bool is_coded = !type->is_plain && sluice_form_can_carry(type, s->pipeline, split);
    struct sluice_decoder_work work = {
        .form = is_coded ? type->form : sluice_form_plain(SLUICE_KIND_FILE),
        .end = split,
        .options = {.has_optimal_huffman = s->fetch->options.has_optimal_crops,
                    .restart_interval = restart_interval(s->fetch, job->request.jpeg_crop_restart)},
        .reads_image = s->wants_file_image && split > 0,
        .path = path,
    };
    const sluice_status status = sluice_preparer_run(preparer, s->pipeline, &work, sample, err);
    *has_ended = work.has_ended;
    /* A JPEG that cannot be cut goes as it is; the client finds what is wrong with it. */
    const bool is_left =
        job->work == SLUICE_FETCH_CUT && !work.has_ended && !sluice_indexed_file_has_holes(sample);
    return status != SLUICE_OK && is_left ? SLUICE_E_AGAIN : status;
}

static uint32_t add_capped(uint32_t sum, uint64_t bytes)
{
    return bytes > UINT32_MAX - sum ? UINT32_MAX : sum + (uint32_t)bytes;
}

static sluice_status read_sample(struct sluice_fetch_job *job,
                                 const struct sluice_sample_want *want, bool is_again,
                                 struct sluice_sample *sample, struct sluice_err *err)
{
    const struct sluice_fetch_options *options = &job->stream->fetch->options;
    struct sluice_disk_read read;
    sluice_watchdog_note(&job->watched, true);
    sluice_disk_clock_start(options->disk, &read);
    struct sluice_file_reading seen = {0};
    const sluice_status status = sluice_sample_file_read(want, is_again, sample, &seen, err);
    if (status == SLUICE_OK)
        sluice_stats_count_file(options->stats, &seen);
    const struct sluice_disk_time time = sluice_disk_clock_stop(options->disk, &read);
    sluice_watchdog_note(&job->watched, false);
    job->reply.disk_us += sluice_fetch_to_us(time.wait_ns);
    job->reply.disk_busy_us += sluice_fetch_to_us(time.busy_ns);
    job->reply.read_bytes = add_capped(job->reply.read_bytes, seen.read_bytes);
    return status;
}

void sluice_fetch_fail(struct sluice_fetch_job *job, sluice_status status, const char *text)
{
    fail_reply(&job->reply, status, sluice_fetch_path(job), text);
}

static struct sluice_sample_want want_of(const struct sluice_fetch_job *job,
                                         const struct sluice_sample_list *list)
{
    const struct sluice_fetch_stream *s = job->stream;
    return (struct sluice_sample_want){
        .store = s->fetch->options.store,
        .buffers = s->fetch->options.buffers,
        .list = list,
        .sample = sluice_wire_listed_id(&job->request),
        .path = sluice_fetch_path(job),
        .key = job->request.key,
        .pipeline = s->pipeline,
        .split = sluice_fetch_split(job),
        .form = job->work == SLUICE_FETCH_FILE ? sluice_form_plain(SLUICE_KIND_FILE)
                                               : job->request.form,
        .owner = s,
    };
}

bool sluice_fetch_read(struct sluice_fetch_job *job)
{
    struct sluice_fetch_stream *s = job->stream;
    struct sluice_sample_list *list = sluice_sample_lists_newest(s->fetch->options.lists, s->list);
    const struct sluice_sample_want want = want_of(job, list);
    struct sluice_err err = {0};
    const sluice_status status = read_sample(job, &want, false, &job->sample, &err);
    job->has_sample = status == SLUICE_OK;
    if (status != SLUICE_OK)
        fail_reply(&job->reply, status, want.path, err.text);
    sluice_sample_list_unref(list);
    return status == SLUICE_OK;
}

void sluice_fetch_answer(struct sluice_fetch_job *job, struct sluice_preparer *preparer)
{
    struct sluice_fetch_stream *s = job->stream;
    const struct sluice_manifest_entry entry =
        sluice_manifest_at(s->list->manifest, sluice_wire_listed_id(&job->request));
    struct sluice_sample_list *list = sluice_sample_lists_newest(s->fetch->options.lists, s->list);
    struct sluice_sample_want want = want_of(job, list);
    struct sluice_err err = {0};
    struct sluice_sample sample = {0};
    bool has_ended = false;
    sluice_status status = SLUICE_OK;
    if (job->has_sample) {
        sample = job->sample;
        job->has_sample = false;
    } else {
        status = read_sample(job, &want, false, &sample, &err);
    }
    if (status == SLUICE_OK)
        status = preprocess(job, preparer, want.path, &sample, &has_ended, &err);
    if (sluice_indexed_file_has_holes(&sample) && !has_ended) {
        const bool has_tried = status == SLUICE_E_AGAIN;
        sluice_sample_clear(&sample);
        err = (struct sluice_err){0};
        status = read_sample(job, &want, true, &sample, &err);
        if (status == SLUICE_OK && !has_tried)
            status = preprocess(job, preparer, want.path, &sample, &has_ended, &err);
    }
    if (status == SLUICE_E_AGAIN)
        status = SLUICE_OK;
    if (status == SLUICE_OK && want.split && sample.data->len > MAX_PAYLOAD_BYTES) {
        sluice_sample_clear(&sample);
        want.split = 0;
        want.form = sluice_form_plain(SLUICE_KIND_FILE);
        status = read_sample(job, &want, true, &sample, &err);
    }
    if (job->reply.read_bytes == entry.bytes)
        job->reply.read_bytes = 0;
    if (status == SLUICE_OK)
        set_payload(&job->reply, &sample);
    else
        fail_reply(&job->reply, status, want.path, err.text);
    sluice_sample_clear(&sample);
    sluice_sample_list_unref(list);
}
