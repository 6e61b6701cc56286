#include "compute_client/loader/batch/prefetcher_state.h"

#include "base/clock.h"
#include "compute_client/loader/source/retry.h"
#include "compute_client/loader/tuning.h"
#include "op/form.h"
#include "op/geometry.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* While memory is short, a worker checks for a stop at this interval. */
#define LOOK_NS 100000000u

/* One row of a batch: a worker's job runs the remaining ops on its sample, and the row is reported
 * done. */

/* --- its end --- */

static void tell_chooser(const struct row *row, sluice_status status)
{
    const struct sluice_epoch *epoch = &row->prefetcher->epoch;
    const struct sluice_row_seen seen = {
        .index = epoch->first_item + row->item,
        .asked = row->choice,
        .got = {.split = (uint8_t)row->ops_done,
                .form = (uint8_t)row->result.form,
                .on_gpu = row->is_for_gpu},
        .status = status,
        .payload_bytes = row->result.payload_bytes,
        .requested_ns = row->requested_ns,
        .arrived_ns = row->arrived_ns,
        .started_ns = row->started_ns ? row->started_ns : row->done_ns,
        .done_ns = row->done_ns,
        .storage_ns = row->result.storage_ns,
        .storage_queue_ns = row->result.storage_queue_ns,
        .backlog_ns = row->result.backlog_ns,
        .disk_ns = row->result.disk_ns,
        .disk_busy_ns = row->result.disk_busy_ns,
        .read_bytes = row->result.read_bytes
                          ? row->result.read_bytes
                          : sluice_manifest_at(epoch->manifest, row->sample_id).bytes,
        .storage_price = row->result.storage_price,
        .storage_cores = row->result.storage_cores,
        .storage_cpu_ns = row->result.storage_cpu_ns,
        .compute_cpu_ns = row->cpu_ns,
    };
    epoch->chooser.on_row(epoch->chooser.ctx, &seen);
}

/* Under the lock: a thread touches its row no more. */
static void leave_row(struct sluice_prefetcher *prefetcher)
{
    if (--prefetcher->num_rows_working == 0)
        pthread_cond_signal(&prefetcher->idle);
}

/* Ends a row of an epoch that ended before it. */
static void drop_row(struct row *row)
{
    struct sluice_prefetcher *prefetcher = row->prefetcher;
    sluice_source_result_clear(&row->result);
    pthread_mutex_lock(&prefetcher->lock);
    leave_row(prefetcher);
    pthread_mutex_unlock(&prefetcher->lock);
}

void prefetcher_count_row(struct sluice_prefetcher *prefetcher, const struct row *row)
{
    struct sluice_live *live = prefetcher->options.live;
    const unsigned form = row->result.form;
    prefetcher->stats.choices[row->ops_done][form]++;
    prefetcher->stats.on_gpu[form] += row->is_for_gpu;
    prefetcher->stats.reduced += row->ops_done < row->choice.split;
    if (live) {
        sluice_live_add(&live->choices[row->ops_done][form], 1);
        sluice_live_add(&live->on_gpu[form], row->is_for_gpu);
    }
}

void prefetcher_forget_file(struct row *row)
{
    sluice_source_result_clear(&row->result);
    sluice_gpu_prepared_clear(&row->prepared);
}

/* Bytes that the row keeps until its batch is made, without those in the slot's staging buffer. */
static size_t kept_bytes(const struct row *row)
{
    return row->result.sample.data->len + (row->prepared.data ? row->prepared.bytes : 0);
}

void prefetcher_complete_row(struct row *row, sluice_status status)
{
    struct sluice_prefetcher *prefetcher = row->prefetcher;
    struct slot *slot = row->slot;
    const size_t payload_bytes = row->result.payload_bytes;
    const uint32_t origin = row->result.origin;

    if (!row->is_for_gpu)
        sluice_source_result_clear(&row->result);
    row->done_ns = sluice_clock_ns();
    slot->batch.status[row->index] = status;
    if (prefetcher->epoch.chooser.on_row)
        tell_chooser(row, status);

    /* Before num_missing is decremented: when it reaches 0, the epoch may end and the source may be
     * destroyed. */
    struct sluice_source *source = prefetcher->epoch.source;
    if (payload_bytes)
        source->consumed(source, origin, payload_bytes);

    pthread_mutex_lock(&prefetcher->lock);
    prefetcher->num_unfinished--;
    prefetcher->under_way.compute_s -= row->expected.compute_s;
    prefetcher->charged_bytes -= row->charged;
    row->charged = 0;
    prefetcher->stats.payload_bytes += payload_bytes;
    prefetcher->num_rows_ready++;
    if (prefetcher->options.live)
        sluice_live_add(&prefetcher->options.live->rows, 1);
    if (row->is_for_gpu) {
        slot->kept_bytes += kept_bytes(row);
        prefetcher->kept_bytes += kept_bytes(row);
    } else if (status == SLUICE_OK) {
        prefetcher_count_row(prefetcher, row);
    }
    prefetcher_see_room(prefetcher);
    if (--slot->num_missing == 0) {
        slot->last = row;
        pthread_cond_signal(&prefetcher->ready);
        pthread_cond_broadcast(&prefetcher->makeable);
    }
    leave_row(prefetcher);
    pthread_mutex_unlock(&prefetcher->lock);
}

/* --- its job --- */

void prefetcher_worker_stop(void *ctx, void *state)
{
    (void)ctx;
    struct maker *maker = state;
    sluice_scratch_destroy(maker->scratch);
    sluice_op_meter_clear(&maker->meter);
    sluice_hasher_destroy(maker->hasher);
    sluice_jpeg_stretch_clear(&maker->stretch);
    free(maker->works);
    free(maker);
}

sluice_status prefetcher_worker_start(void *ctx, unsigned index, void **state)
{
    (void)index;
    const struct sluice_prefetcher *prefetcher = ctx;
    const struct sluice_scratch_options options = {
        .pool = prefetcher->options.pool,
        .max_image_pixels = prefetcher->options.max_image_pixels,
    };
    struct maker *maker = calloc(1, sizeof(*maker));
    if (!maker)
        return SLUICE_E_NO_MEMORY;
    sluice_status status = sluice_scratch_create(&options, &maker->scratch, NULL);
    maker->hasher = sluice_hasher_create();
    if (prefetcher->options.gpu)
        maker->works = malloc(SLUICE_MAX_VIEWS * sizeof(*maker->works));
    if (!maker->hasher || (prefetcher->options.gpu && !maker->works))
        status = SLUICE_E_NO_MEMORY;
    if (status == SLUICE_OK && prefetcher->options.measures_ops)
        status = sluice_op_meter_init(&maker->meter, prefetcher->options.pool,
                                      prefetcher->options.max_image_pixels, NULL);
    if (status != SLUICE_OK) {
        prefetcher_worker_stop(ctx, maker);
        return status;
    }
    *state = maker;
    return SLUICE_OK;
}

/* Measures the ops of the row's sample, and writes its views to their places. */
static sluice_status profile_row(struct row *row, struct maker *maker, uint8_t *const *places,
                                 struct sluice_err *err)
{
    struct sluice_prefetcher *prefetcher = row->prefetcher;
    struct sluice_sample_cost *cost = &prefetcher->epoch.profile->rows[row->position];
    cost->op_s[0] = (double)row->result.disk_busy_ns * 1e-9;
    return sluice_op_meter_measure(&maker->meter, prefetcher->epoch.pipeline, &row->result.sample,
                                   places, row->slot->layout.bytes, cost, err);
}

/* Reads the header of a row's file, which stands at split 0. */
static sluice_status open_file(struct row *row, struct maker *maker, struct sluice_err *err)
{
    const struct sluice_prefetcher *prefetcher = row->prefetcher;
    const sluice_status status = sluice_source_gather(&row->result, prefetcher->options.pool, err);
    return status ? status
                  : sluice_sample_open(prefetcher->epoch.pipeline, maker->scratch,
                                       &row->result.sample, err);
}

/* Whether draws that depend on the image's size were made for its true size. */
static sluice_status check_listed_size(const struct row *row, struct sluice_err *err)
{
    const struct sluice_epoch *epoch = &row->prefetcher->epoch;
    const struct sluice_file_image *image = &row->result.sample.image;
    if (!sluice_pipeline_draws_by_boxes(epoch->pipeline))
        return SLUICE_OK;
    const struct sluice_size size = prefetcher_image_size(epoch, row->sample_id);
    if (image->width != size.width || image->height != size.height)
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "the image has %u x %u pixels, and by the list %u x %u: index the "
                           "dataset again",
                           image->width, image->height, size.width, size.height);
    return SLUICE_OK;
}

/* Computes the row's geometry, if it is asked for.  A sample with pixels came with the image of its
 * file. */
static sluice_status find_geometry(struct row *row, struct maker *maker, struct sluice_err *err)
{
    const struct sluice_prefetcher *prefetcher = row->prefetcher;
    const struct sluice_pipeline *pipeline = prefetcher->epoch.pipeline;
    const struct sluice_rows *batch = &row->slot->batch;
    struct sluice_sample *sample = &row->result.sample;
    if (!batch->geometry)
        return SLUICE_OK;
    if (sample->ops_done == 0) {
        sluice_status status = open_file(row, maker, err);
        if (status == SLUICE_OK)
            status = sluice_file_image_read(pipeline, sample, &sample->image, err);
        if (status != SLUICE_OK)
            return status;
    }
    const sluice_status status = check_listed_size(row, err);
    if (status != SLUICE_OK)
        return status;
    for (unsigned view = 0; view < sluice_pipeline_num_views(pipeline); view++)
        sluice_pipeline_geometry(pipeline, &sample->key, &sample->image, view,
                                 &batch->geometry[view * batch->capacity + row->index]);
    return SLUICE_OK;
}

/* Whether the image ends in the size that follows from the list's size for it, where images may end
 * in several. */
static sluice_status check_size(struct row *row, struct maker *maker, struct sluice_err *err)
{
    const struct sluice_epoch *epoch = &row->prefetcher->epoch;
    const struct sluice_rows *batch = &row->slot->batch;
    const struct sluice_row_view *view = &row->slot->layout.views[0];
    struct sluice_size want = {view->width, view->height}, size;
    struct sluice_sample *sample = &row->result.sample;
    if (!batch->has_images && !row->slot->layout.is_bucket)
        return SLUICE_OK;
    if (batch->has_images)
        want =
            (struct sluice_size){batch->images[row->index].width, batch->images[row->index].height};
    sluice_status status = sample->ops_done == 0 ? open_file(row, maker, err) : SLUICE_OK;
    if (status == SLUICE_OK)
        status = sluice_pipeline_result_size(epoch->pipeline, sample, &size, err);
    if (status == SLUICE_OK && (size.width != want.width || size.height != want.height))
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "the image ends as %u x %u pixels, and by the list's size for it as "
                           "%u x %u: index the dataset again",
                           size.width, size.height, want.width, want.height);
    return status;
}

/* Whether the file goes to the device as it is: the source has cropped it, or has an index. */
static bool is_ready_for_gpu(const struct sluice_sample *sample)
{
    return sample->coding != NULL || /* a JPEG crop: rows have been opened */
           sluice_gpu_index_serves(sample->jpeg_index, sample->data->data, sample->data->len);
}

/* Writes the parts of the row's file that the device needs, for a request for each view.  False:
 * the CPU must decode it. */
static bool prepare(struct row *row, struct maker *maker, const struct sluice_gpu_request *requests)
{
    struct sluice_prefetcher *prefetcher = row->prefetcher;
    const struct sluice_sample *sample = &row->result.sample;
    const struct sluice_gpu_file file = {
        .bytes = sample->data->data,
        .len = sample->data->len,
        .index = sample->coding ? NULL : sample->jpeg_index,
    };
    struct sluice_err cause = {0};
    const sluice_status status =
        sluice_gpu_prepare(prefetcher->options.gpu, row->staging, &file, requests, &maker->stretch,
                           prefetcher->options.pool, &row->prepared, &cause);
    if (status == SLUICE_E_INVALID) {
        struct sluice_err err = {0};
        (void)sluice_fail(&err, status, "the GPU cannot make a batch: %s", cause.text);
        prefetcher_fail(prefetcher, status, err.text, false);
    }
    return status == SLUICE_OK;
}

/* Prepares the row's sample for the device, if the choice says so.  Without an index the sample is
 * a JPEG crop, made by the source or by this thread.  The CPU decodes files that cannot be cropped
 * or prepared. */
static bool keep_for_gpu(struct row *row, struct maker *maker)
{
    const struct sluice_prefetcher *prefetcher = row->prefetcher;
    const struct sluice_pipeline *pipeline = prefetcher->epoch.pipeline;
    struct sluice_sample *sample = &row->result.sample;
    struct sluice_gpu_request requests[SLUICE_MAX_VIEWS];
    if (prefetcher->num_lanes == 0 || !row->choice.on_gpu || row->ops_done > 0 ||
        sluice_source_gather(&row->result, prefetcher->options.pool, NULL) != SLUICE_OK ||
        sluice_sample_open(pipeline, maker->scratch, sample, NULL) != SLUICE_OK ||
        check_size(row, maker, NULL) != SLUICE_OK)
        return false;
    if (!is_ready_for_gpu(sample) &&
        sluice_pipeline_cut_for_gpu(pipeline, maker->scratch, sample, TUNING_GPU_RESTART, NULL) !=
            SLUICE_OK)
        return false;
    for (unsigned view = 0; view < row->slot->layout.num_views; view++) {
        struct sluice_kernel_work *work = &maker->works[view];
        if (!sluice_pipeline_kernel_work(pipeline, maker->scratch, sample, view, work))
            return false;
        requests[view] = (struct sluice_gpu_request){
            .box = work->box,
            .part = work->part,
            .is_flipped = work->is_mirrored,
            .calls = &work->calls,
            .row = row->index,
        };
    }
    return find_geometry(row, maker, NULL) == SLUICE_OK && prepare(row, maker, requests);
}

/* The bytes of the row's views. */
static size_t bytes_of(const struct row *row)
{
    const struct sluice_rows *batch = &row->slot->batch;
    return batch->has_images ? sluice_row_image_bytes(&batch->images[row->index])
                             : row->slot->layout.bytes;
}

/* The places of the row's views in the batch, once its size is known. */
static void find_places(const struct row *row, uint8_t *pixels, uint8_t *places[SLUICE_MAX_VIEWS])
{
    const struct sluice_rows *batch = &row->slot->batch;
    const struct sluice_row_layout *layout = &row->slot->layout;
    for (unsigned i = 0; i < layout->num_views; i++)
        places[i] =
            pixels + (batch->has_images ? batch->images[row->index].at
                                        : sluice_row_place(layout, batch->capacity, row->index, i));
}

/* Copies pixels that need no more ops directly from the message to their places.  False: the
 * sample needs ops. */
static bool take_finished(struct row *row, uint8_t *const *places)
{
    const struct sluice_prefetcher *prefetcher = row->prefetcher;
    const struct sluice_row_layout *layout = &row->slot->layout;
    struct sluice_source_result *result = &row->result;
    const struct sluice_sample *sample = &result->sample;
    /* The source has checked the number of pixels. */
    if (!result->message || sample->kind != SLUICE_KIND_U8 || sample->coding ||
        sample->ops_done != sluice_pipeline_u8_split(prefetcher->epoch.pipeline) ||
        sluice_cursor_left(&result->arrived) != bytes_of(row))
        return false;
    if (row->slot->batch.has_images)
        return sluice_cursor_read(&result->arrived, places[0], bytes_of(row));
    for (unsigned i = 0; i < layout->num_views; i++) {
        if (!sluice_cursor_read(&result->arrived, places[i], layout->views[i].bytes))
            return false;
    }
    return true;
}

/* Writes the u8 pixels of the row's sample to the batch. */
static sluice_status finish_row(struct row *row, struct maker *maker, uint8_t *pixels,
                                struct sluice_err *err)
{
    struct sluice_prefetcher *prefetcher = row->prefetcher;
    struct sluice_source_result *result = &row->result;
    sluice_status status = find_geometry(row, maker, err);
    if (status == SLUICE_OK)
        status = check_size(row, maker, err);
    if (status != SLUICE_OK)
        return status;
    uint8_t *places[SLUICE_MAX_VIEWS];
    find_places(row, pixels, places);
    if (take_finished(row, places))
        return SLUICE_OK;
    status = sluice_source_gather(result, prefetcher->options.pool, err);
    if (status != SLUICE_OK)
        return status;
    if (prefetcher->epoch.profile && row->ops_done == 0)
        return profile_row(row, maker, places, err);
    return sluice_pipeline_finish_views(prefetcher->epoch.pipeline, maker->scratch, &result->sample,
                                        places, bytes_of(row), err);
}

/* False: the run was stopped meanwhile, or the epoch has ended. */
static bool wait_for_memory(struct sluice_prefetcher *prefetcher, uint64_t wait_ns)
{
    bool is_stopped = false;
    while (wait_ns > 0 && !is_stopped) {
        const uint64_t part_ns = wait_ns < LOOK_NS ? wait_ns : LOOK_NS;
        const struct timespec part = {.tv_nsec = (long)part_ns};
        (void)nanosleep(&part, NULL);
        wait_ns -= part_ns;
        pthread_mutex_lock(&prefetcher->lock);
        is_stopped = prefetcher->is_stopped || prefetcher->has_failed || !prefetcher->is_running;
        pthread_mutex_unlock(&prefetcher->lock);
    }
    return !is_stopped;
}

/* finish_row(), again while memory is short: a failed sample stands at a whole op. */
static sluice_status finish_row_patiently(struct row *row, struct maker *maker, uint8_t *pixels,
                                          struct sluice_err *err)
{
    struct sluice_prefetcher *prefetcher = row->prefetcher;
    struct sluice_retry retry =
        sluice_retry_init(prefetcher->options.retry_for_s, row->result.ticket);
    uint64_t wait_ns;
    for (;;) {
        *err = (struct sluice_err){0};
        const sluice_status status = finish_row(row, maker, pixels, err);
        if (status != SLUICE_E_NO_MEMORY ||
            !sluice_retry_failed(&retry, sluice_clock_ns(), &wait_ns) ||
            !wait_for_memory(prefetcher, wait_ns))
            return status;
    }
}

/* The batch's memory, which its first row takes.  NULL: the epoch has ended. */
static uint8_t *batch_pixels(struct row *row)
{
    struct sluice_prefetcher *prefetcher = row->prefetcher;
    struct sluice_rows *batch = &row->slot->batch;
    pthread_mutex_lock(&prefetcher->lock);
    const bool is_running = prefetcher->is_running;
    if (is_running && !batch->pixels)
        batch->pixels = sluice_batch_memory_take(&prefetcher->memory);
    uint8_t *const pixels = batch->pixels;
    pthread_mutex_unlock(&prefetcher->lock);
    return is_running ? pixels : NULL;
}

sluice_status prefetcher_make_row(struct row *row, struct maker *maker)
{
    const struct sluice_prefetcher *prefetcher = row->prefetcher;
    struct sluice_rows *batch = &row->slot->batch;
    uint8_t *pixels = batch_pixels(row);
    if (!pixels)
        return SLUICE_E_CLOSED;
    struct sluice_err err = {0};
    const sluice_status status = finish_row_patiently(row, maker, pixels, &err);
    if (status == SLUICE_OK && prefetcher->options.has_digest)
        batch->hashes[row->index] =
            batch->has_images ? sluice_row_image_digest(&batch->images[row->index], pixels,
                                                        batch->labels[row->index], maker->hasher)
                              : sluice_row_digest(batch->layout, batch->capacity, row->index,
                                                  pixels, batch->labels[row->index], maker->hasher);
    if (status != SLUICE_OK)
        memcpy(row->error, err.text, sizeof(row->error) - 1);
    return status;
}

void prefetcher_row_job(struct sluice_job *job, enum sluice_job_fate fate, void *state)
{
    struct row *row = SLUICE_CONTAINER_OF(job, struct row, job);
    struct sluice_prefetcher *prefetcher = row->prefetcher;
    if (fate == SLUICE_JOB_CANCEL) {
        sluice_source_result_clear(&row->result);
        return;
    }
    struct maker *maker = state;
    const bool is_watched = prefetcher->epoch.chooser.on_row;
    row->started_ns = sluice_clock_ns();
    const uint64_t cpu_start = is_watched ? sluice_thread_cpu_ns() : 0;
    row->is_for_gpu = keep_for_gpu(row, maker);
    const sluice_status status = row->is_for_gpu ? SLUICE_OK : prefetcher_make_row(row, maker);
    /* The form may be at fault, and not the file. */
    const bool may_be_form = sluice_form_type(row->result.form)->retry_as_file && !row->asks_file &&
                             (status == SLUICE_E_CORRUPT || status == SLUICE_E_UNSUPPORTED);
    if (may_be_form && prefetcher_ask_file(row))
        return;
    if (status == SLUICE_E_CLOSED || may_be_form) {
        drop_row(row);
        return;
    }
    if (is_watched)
        row->cpu_ns = sluice_thread_cpu_ns() - cpu_start;
    prefetcher_complete_row(row, status);
}
