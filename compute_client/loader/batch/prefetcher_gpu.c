#include "compute_client/loader/batch/prefetcher_state.h"

#include "base/buf.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* Batches on a device: a thread for each lane of the place takes the next slot whose rows are
 * complete, in order, with a block for it, and makes the batch there.
 *
 *     decode and upload all rows - finish - what the device found faulty: the CPU makes it, upload,
 *     finish - if rows moved, as bad ones are skipped or replaced: all once more, each in its place
 *
 * Workers have prepared what the device needs of each file (prefetcher_row.c).
 *
 * Blocks are taken in the order of the batches, so a lane that waits for one waits for the trainer
 * alone. */

/* The resources of a lane for the slot that it makes. */
struct taken {
    struct sluice_gpu_block *block;
    struct sluice_gpu_staging *staging; /* NULL: what is prepared is apart */
};

static sluice_status gpu_failed(const struct sluice_err *cause, sluice_status status,
                                struct sluice_err *err)
{
    return sluice_fail(err, status, "the GPU cannot make a batch: %s", cause->text);
}

/* Adds one view of a good row, which goes to row `to` of the block.  The device makes all views of
 * a file with the first. */
static sluice_status add_view(struct lane *lane, const struct row *row, unsigned to, unsigned view,
                              struct sluice_err *err)
{
    const struct sluice_rows *batch = &row->slot->batch;
    const struct sluice_row_layout *layout = batch->layout;
    struct sluice_err cause = {0};
    sluice_status status = SLUICE_OK;
    if (row->is_for_gpu && view == 0) {
        status = sluice_gpu_lane_decode(lane->gpu, &row->prepared, to, &cause);
    } else if (!row->is_for_gpu) {
        const size_t from = sluice_row_place(layout, batch->capacity, row->index, view);
        status =
            sluice_gpu_lane_upload(lane->gpu, sluice_row_place(layout, batch->capacity, to, view),
                                   batch->pixels + from, layout->views[view].bytes, &cause);
    }
    return status == SLUICE_OK ? status : gpu_failed(&cause, status, err);
}

/* Adds those of the rows from[0 .. num_rows) that are good; row i goes to row i of the block.  from
 * NULL: each row stays where it is. */
static sluice_status add_rows(struct lane *lane, const struct slot *slot, const uint32_t *from,
                              unsigned num_rows, struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    /* View by view, so that uploads are adjacent. */
    for (unsigned view = 0; view < slot->batch.layout->num_views; view++) {
        for (unsigned i = 0; status == SLUICE_OK && i < num_rows; i++) {
            const unsigned row = from ? from[i] : i;
            if (slot->batch.status[row] == SLUICE_OK)
                status = add_view(lane, &slot->rows[row], i, view, err);
        }
    }
    return status;
}

/* sluice_gpu_lane_finish(), timed. */
static sluice_status wait_for_gpu(struct lane *lane, const struct slot *slot,
                                  sluice_status *statuses, struct sluice_hash128 *hashes,
                                  struct sluice_gpu_work *work, struct sluice_err *err)
{
    const uint64_t from = sluice_clock_ns();
    const sluice_status status =
        sluice_gpu_lane_finish(lane->gpu, slot->batch.labels, statuses, hashes, work, err);
    lane->gpu_ns += sluice_clock_ns() - from;
    return status;
}

/* Waits for the rows that were added. */
static sluice_status finish(struct lane *lane, const struct slot *slot, sluice_status *statuses,
                            struct sluice_hash128 *hashes, struct sluice_gpu_work *sum,
                            struct sluice_err *err)
{
    struct sluice_err cause = {0};
    struct sluice_gpu_work work = {0};
    const sluice_status status = wait_for_gpu(lane, slot, statuses, hashes, &work, &cause);
    sum->decoded += work.decoded;
    sum->upload_bytes += work.upload_bytes;
    sum->device_s += work.device_s;
    return status == SLUICE_OK ? status : gpu_failed(&cause, status, err);
}

/* Makes on the CPU the rows that the device did not, and marks them in the slot. */
static sluice_status make_rest(struct lane *lane, struct slot *slot, struct sluice_gpu_work *sum,
                               struct sluice_err *err)
{
    bool has_more = false;
    for (unsigned i = 0; i < slot->batch.n; i++) {
        struct row *row = &slot->rows[i];
        if (!row->is_for_gpu || slot->batch.status[i] == SLUICE_OK)
            continue;
        row->is_for_gpu = false;
        slot->batch.status[i] = prefetcher_make_row(row, lane->maker);
        if (slot->batch.status[i] != SLUICE_OK)
            continue;
        pthread_mutex_lock(&lane->prefetcher->lock);
        prefetcher_count_row(lane->prefetcher, row);
        pthread_mutex_unlock(&lane->prefetcher->lock);
        for (unsigned view = 0; view < slot->batch.layout->num_views; view++) {
            const sluice_status status = add_view(lane, row, i, view, err);
            if (status != SLUICE_OK)
                return status;
        }
        has_more = true;
    }
    return has_more ? finish(lane, slot, slot->batch.status, NULL, sum, err) : SLUICE_OK;
}

/* Makes the batch with each sample in its row; failed samples get a status. */
static sluice_status make_rows(struct lane *lane, struct slot *slot, struct sluice_gpu_work *sum,
                               struct sluice_err *err)
{
    struct sluice_rows *batch = &slot->batch;
    sluice_status status = add_rows(lane, slot, NULL, batch->n, err);
    struct sluice_hash128 *hashes = lane->prefetcher->options.has_digest ? batch->hashes : NULL;
    if (status == SLUICE_OK)
        status = finish(lane, slot, batch->status, hashes, sum, err);
    return status == SLUICE_OK ? make_rest(lane, slot, sum, err) : status;
}

/* Makes the batch once more where bad rows are left out or replaced: sluice_rows_settle() for the
 * rows on the device. */
static sluice_status settle(struct lane *lane, struct slot *slot, struct sluice_gpu_work *sum,
                            struct sluice_err *err)
{
    struct sluice_rows *batch = &slot->batch;
    const enum sluice_on_error on_error = lane->prefetcher->options.on_error;
    if (on_error == SLUICE_ON_ERROR_FAIL)
        return SLUICE_OK;
    const unsigned num_rows = sluice_rows_plan(batch, on_error, batch->from);
    unsigned first_moved = 0;
    while (first_moved < num_rows && batch->from[first_moved] == first_moved)
        first_moved++;
    if (first_moved == num_rows)
        return SLUICE_OK;
    sluice_status *statuses = calloc(num_rows, sizeof(*statuses));
    if (!statuses)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a batch");
    sluice_gpu_lane_begin_again(lane->gpu);
    sluice_status status = add_rows(lane, slot, batch->from, num_rows, err);
    struct sluice_err cause = {0};
    struct sluice_gpu_work work = {0};
    if (status == SLUICE_OK)
        status = wait_for_gpu(lane, slot, statuses, NULL, &work, &cause);
    for (unsigned i = 0; status == SLUICE_OK && i < num_rows; i++)
        status = statuses[i];
    sum->upload_bytes += work.upload_bytes;
    sum->device_s += work.device_s;
    free(statuses);
    return status == SLUICE_OK ? status : gpu_failed(&cause, status, err);
}

static sluice_status make(struct lane *lane, struct slot *slot, const struct taken *taken,
                          struct sluice_err *err)
{
    const struct sluice_chooser *chooser = &lane->prefetcher->epoch.chooser;
    struct sluice_gpu_work work = {0};
    sluice_gpu_lane_begin(lane->gpu, taken->block, taken->staging);
    if (sluice_gpu_place_has_any_size(lane->prefetcher->options.gpu)) {
        const struct sluice_row_view *view = &slot->layout.views[0];
        sluice_gpu_lane_set_size(lane->gpu,
                                 &(struct sluice_gpu_view_size){view->width, view->height},
                                 slot->layout.is_bucket);
    }
    sluice_status status = make_rows(lane, slot, &work, err);
    if (status == SLUICE_OK)
        status = settle(lane, slot, &work, err);
    if (status == SLUICE_OK && work.decoded > 0 && chooser->on_decoded)
        chooser->on_decoded(chooser->ctx, work.decoded, work.device_s);
    return status;
}

/* Hands the slot to next(), or the block back. */
static void leave_slot(struct lane *lane, struct slot *slot, struct sluice_gpu_block *block,
                       bool is_made, uint64_t begun_ns)
{
    struct sluice_prefetcher *prefetcher = lane->prefetcher;
    pthread_mutex_lock(&prefetcher->lock);
    for (unsigned i = 0; is_made && i < slot->batch.n; i++) {
        if (slot->rows[i].is_for_gpu)
            prefetcher_count_row(prefetcher, &slot->rows[i]);
    }
    prefetcher_give_memory_back(prefetcher, slot);
    slot->made_ns = sluice_clock_ns();
    slot->lane_ns = slot->made_ns - begun_ns;
    slot->gpu_ns = lane->gpu_ns;
    slot->block = block;
    slot->is_made = is_made;
    prefetcher->kept_bytes -= slot->kept_bytes;
    slot->kept_bytes = 0;
    prefetcher->num_making--;
    pthread_cond_signal(&prefetcher->room);
    pthread_cond_signal(&prefetcher->ready);
    pthread_cond_signal(&prefetcher->idle);
    pthread_mutex_unlock(&prefetcher->lock);
}

/* Under the lock.  Nothing else is looked at while no epoch is under way, as start() prepares one.
 */
static bool can_begin(const struct sluice_prefetcher *prefetcher)
{
    if (!prefetcher->is_running || prefetcher->is_stopped || prefetcher->has_failed)
        return false;
    const size_t next = prefetcher->num_begun;
    return next < prefetcher->num_batches &&
           next < prefetcher->num_released + prefetcher->options.num_slots &&
           prefetcher->slots[next % prefetcher->options.num_slots].num_missing == 0;
}

/* Waits for the next slot that is complete, and a block for it.  NULL: the end. */
static struct slot *take_slot(struct lane *lane, struct taken *taken)
{
    struct sluice_prefetcher *prefetcher = lane->prefetcher;
    struct slot *slot = NULL;
    pthread_mutex_lock(&prefetcher->lock);
    while (!prefetcher->is_ending) {
        taken->block =
            can_begin(prefetcher) ? sluice_gpu_place_take(prefetcher->options.gpu) : NULL;
        if (taken->block)
            break;
        if (can_begin(prefetcher)) {
            prefetcher->lacks_block = true;
            pthread_cond_signal(&prefetcher->ready);
        }
        pthread_cond_wait(&prefetcher->makeable, &prefetcher->lock);
    }
    if (!prefetcher->is_ending) {
        slot = prefetcher_slot_of(prefetcher, prefetcher->num_begun++);
        taken->staging = slot->staging;
        slot->staging = NULL;
        prefetcher->num_making++;
        pthread_cond_signal(&prefetcher->room);
        if (can_begin(prefetcher))
            pthread_cond_signal(&prefetcher->makeable);
    }
    pthread_mutex_unlock(&prefetcher->lock);
    return slot;
}

static void *lane_main(void *ctx)
{
    struct lane *lane = ctx;
    struct taken taken = {NULL, NULL};
    struct slot *slot;
    while ((slot = take_slot(lane, &taken)) != NULL) {
        struct sluice_err err = {0};
        const uint64_t begun_ns = sluice_clock_ns();
        lane->gpu_ns = 0;
        const sluice_status status = make(lane, slot, &taken, &err);
        if (status != SLUICE_OK) {
            sluice_gpu_lane_drop(lane->gpu);
            prefetcher_fail(lane->prefetcher, status, err.text, false);
        }
        for (unsigned i = 0; i < slot->batch.n; i++)
            prefetcher_forget_file(&slot->rows[i]);
        leave_slot(lane, slot, taken.block, status == SLUICE_OK, begun_ns);
    }
    return NULL;
}

void prefetcher_see_block(struct sluice_prefetcher *prefetcher)
{
    prefetcher->lacks_block = false;
    pthread_cond_broadcast(&prefetcher->makeable);
}

sluice_status prefetcher_start_lanes(struct sluice_prefetcher *prefetcher, struct sluice_err *err)
{
    const unsigned num_lanes = sluice_gpu_place_num_lanes(prefetcher->options.gpu);
    prefetcher->lanes = calloc(num_lanes, sizeof(*prefetcher->lanes));
    if (!prefetcher->lanes)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %u lanes", num_lanes);
    prefetcher->num_lanes = num_lanes;
    for (unsigned i = 0; i < num_lanes; i++) {
        struct lane *lane = &prefetcher->lanes[i];
        lane->prefetcher = prefetcher;
        lane->gpu = sluice_gpu_place_lane(prefetcher->options.gpu, i);
        void *maker = NULL;
        const sluice_status status = prefetcher_worker_start(prefetcher, i, &maker);
        if (status != SLUICE_OK)
            return sluice_fail(err, status, "no memory for a thread of the GPU");
        lane->maker = maker;
        const int failed = pthread_create(&lane->thread, NULL, lane_main, lane);
        if (failed)
            return sluice_fail(err, SLUICE_E_IO, "cannot start a thread of the GPU: %s",
                               strerror(failed));
        lane->is_started = true;
    }
    return SLUICE_OK;
}

void prefetcher_stop_lanes(struct sluice_prefetcher *prefetcher)
{
    pthread_mutex_lock(&prefetcher->lock);
    prefetcher->is_ending = true;
    pthread_cond_broadcast(&prefetcher->makeable);
    pthread_mutex_unlock(&prefetcher->lock);
    for (unsigned i = 0; i < prefetcher->num_lanes; i++) {
        struct lane *lane = &prefetcher->lanes[i];
        if (lane->is_started)
            pthread_join(lane->thread, NULL);
        if (lane->maker)
            prefetcher_worker_stop(prefetcher, lane->maker);
    }
    free(prefetcher->lanes);
    prefetcher->lanes = NULL;
}
