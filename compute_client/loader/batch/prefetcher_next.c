#include "compute_client/loader/batch/prefetcher_state.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "compute_client/loader/batch/stall.h"
#include "compute_client/loader/order/digest.h"
#include "compute_client/loader/source/retry.h"
#include "sluice/lend.h"

#include <stdio.h>
#include <string.h>

/* The trainer's side: the next batch, in order, settled, accounted for and handed out. */

/* Samples that are named when too many failed: they fit a line. */
#define MAX_NAMES 4

/* Attributes the wait [from, to) for the batch to what its last row waited for, and then to the
 * device that makes it. */
static void attribute_wait(struct sluice_prefetcher *prefetcher, struct sluice_held *batch,
                           const struct slot *slot, uint64_t from, uint64_t to)
{
    const struct row *row = slot->last;
    const struct sluice_sample_times times = {
        .requested_ns = row->requested_ns,
        .arrived_ns = row->arrived_ns,
        .done_ns = row->done_ns,
        .made_ns = prefetcher->num_lanes > 0 ? slot->made_ns : row->done_ns,
        .lane_ns = prefetcher->num_lanes > 0 ? slot->lane_ns : 0,
        .gpu_ns = prefetcher->num_lanes > 0 ? slot->gpu_ns : 0,
        .backlog_ns = row->result.backlog_ns,
        .disk_ns = row->result.disk_ns,
        .storage_ns = row->result.storage_ns,
        .queue_ns = row->result.storage_queue_ns,
        .is_local = prefetcher->epoch.source->is_local,
    };
    sluice_stall_attribute(&times, from, to, batch->stall_ns);
    for (int i = 0; i < SLUICE_NUM_RESOURCES; i++) {
        prefetcher->stats.stall_ns[i] += batch->stall_ns[i];
        if (prefetcher->options.live)
            sluice_live_add(&prefetcher->options.live->stall_ns[i], batch->stall_ns[i]);
    }
}

/* Fails if more samples than allowed failed with one status: "41 not found, 3 corrupt; ...". */
static sluice_status check_max_errors(struct sluice_prefetcher *prefetcher, struct sluice_err *err)
{
    const struct sluice_epoch *epoch = &prefetcher->epoch;
    const struct sluice_epoch_stats *stats = &prefetcher->stats;
    bool is_over = false, is_over_by_data = false;
    char counts[200] = "", names[300] = "";
    for (size_t status = 0; status < SLUICE_NUM_STATUS; status++) {
        if (prefetcher->errors[status] == 0)
            continue;
        if (prefetcher->errors[status] > epoch->max_errors) {
            is_over = true;
            is_over_by_data |= !sluice_retry_is_worth((sluice_status)status);
        }
        const size_t used = strlen(counts);
        snprintf(counts + used, sizeof(counts) - used, "%s%llu %s", used ? ", " : "",
                 (unsigned long long)prefetcher->errors[status],
                 sluice_status_name((sluice_status)status));
    }
    if (!epoch->has_max_errors || !is_over)
        return SLUICE_OK;
    prefetcher->has_lost_source = !is_over_by_data;
    for (size_t i = 0; i < stats->num_named && i < MAX_NAMES; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof(names) - used, "%s%.60s", used ? ", " : "",
                 sluice_manifest_at(epoch->manifest, stats->named[i].sample_id).path);
    }
    return sluice_fail(err, SLUICE_E_INVALID,
                       "too many samples failed: %s, where %llu of a kind may; the first: %s",
                       counts, (unsigned long long)epoch->max_errors, names);
}

/* Counts and logs the batch's bad rows.  Fails if one of them, or their number, ends the epoch. */
static sluice_status note_errors(struct sluice_prefetcher *prefetcher, struct slot *slot,
                                 struct sluice_err *err)
{
    struct sluice_epoch_stats *stats = &prefetcher->stats;
    for (unsigned i = 0; i < slot->batch.n; i++) {
        const struct row *row = &slot->rows[i];
        const sluice_status status = slot->batch.status[i];
        if (status == SLUICE_OK)
            continue;
        const char *path = sluice_manifest_at(prefetcher->epoch.manifest, row->sample_id).path;
        if (prefetcher->options.on_error == SLUICE_ON_ERROR_FAIL)
            return sluice_fail(err, status, "sample %u (%s) is %s: %s", row->sample_id, path,
                               sluice_status_name(status), row->error);
        stats->errors++;
        prefetcher->errors[status]++;
        if (prefetcher->options.live) {
            sluice_live_add(&prefetcher->options.live->errors, 1);
            sluice_live_add(&prefetcher->options.live->failed[status], 1);
        }
        if (stats->num_named < SLUICE_MAX_NAMED_ERRORS) {
            struct sluice_prefetcher_error *named = &stats->named[stats->num_named++];
            named->sample_id = row->sample_id;
            named->status = status;
            memcpy(named->text, row->error, sizeof(named->text));
        }
        sluice_log(SLUICE_LOG_WARN, "sample %u (%s) is %s: %s", row->sample_id, path,
                   sluice_status_name(status), row->error);
    }
    return check_max_errors(prefetcher, err);
}

/* Under the lock: the trainer waits for a batch from now on, or no longer. */
static void show_wait(const struct sluice_prefetcher *prefetcher, uint64_t since_ns)
{
    if (prefetcher->options.live)
        sluice_live_set(&prefetcher->options.live->waits_since_ns, since_ns);
}

void prefetcher_give_memory_back(struct sluice_prefetcher *prefetcher, struct slot *slot)
{
    if (slot->batch.pixels)
        sluice_batch_memory_give(&prefetcher->memory, slot->batch.pixels);
    slot->batch.pixels = NULL;
}

/* Under the lock: the slot of batch num_released may be filled again. */
static void free_slot(struct sluice_prefetcher *prefetcher)
{
    struct slot *slot = prefetcher_slot_of(prefetcher, prefetcher->num_released);
    slot->num_missing = 1; /* not ready until it is filled */
    slot->is_made = false;
    prefetcher_give_memory_back(prefetcher, slot);
    if (slot->block) {
        sluice_gpu_block_give(slot->block);
        slot->block = NULL;
        prefetcher_see_block(prefetcher);
    }
    prefetcher->current = NULL;
    prefetcher->num_released++;
    sluice_prefetch_depth_see(&prefetcher->depth, prefetcher->options.batch_size,
                              sluice_clock_ns());
    pthread_cond_signal(&prefetcher->room);
}

void *prefetcher_take_back(void *ctx, const struct sluice_held *held)
{
    struct sluice_prefetcher *prefetcher = ctx;
    void *unneeded = NULL;
    pthread_mutex_lock(&prefetcher->lock);
    if (held->block) {
        prefetcher->num_lent--;
        prefetcher_see_block(prefetcher);
    } else if (held == prefetcher->current) {
        sluice_batch_memory_give(&prefetcher->memory, held->pixels);
        free_slot(prefetcher);
    } else if (!sluice_batch_memory_return(&prefetcher->memory, held->pixels)) {
        unneeded = held->pixels;
    }
    pthread_mutex_unlock(&prefetcher->lock);
    return unneeded;
}

sluice_status prefetcher_lend_current(struct sluice_prefetcher *prefetcher, struct sluice_err *err)
{
    const struct sluice_prefetcher_options *options = &prefetcher->options;
    void *made = NULL;
    for (;;) {
        sluice_status status = SLUICE_OK;
        pthread_mutex_lock(&prefetcher->lock);
        if (made && prefetcher->current)
            status = sluice_batch_memory_add(&prefetcher->memory, made, err);
        if (made && prefetcher->current && status == SLUICE_OK)
            made = NULL;
        const bool is_done = status != SLUICE_OK || !prefetcher->current ||
                             sluice_batch_memory_lend(&prefetcher->memory);
        if (is_done && status == SLUICE_OK && prefetcher->current)
            free_slot(prefetcher);
        pthread_mutex_unlock(&prefetcher->lock);
        if (is_done) {
            if (made) /* not needed: the batch was released meanwhile */
                options->free(options->memory_ctx, made, prefetcher->memory.options.bytes);
            return status;
        }
        status = options->alloc(options->memory_ctx, prefetcher->memory.options.bytes, &made, err);
        if (status != SLUICE_OK)
            return status;
    }
}

/* Under the lock.  A slot in which no row has begun also has num_missing > 0: free_slot() sets it.
 */
static bool is_ready(const struct sluice_prefetcher *prefetcher, const struct slot *slot)
{
    return prefetcher->num_lanes > 0 ? slot->is_made : slot->num_missing == 0;
}

/* Under the lock: the next batch is complete and has no block, because the trainer holds all. */
static bool lacks_release(const struct sluice_prefetcher *prefetcher)
{
    return prefetcher->lacks_block && prefetcher->num_begun == prefetcher->num_taken;
}

/* Under the lock: nothing is left to wait for. */
static bool is_over(const struct sluice_prefetcher *prefetcher, const struct slot *slot)
{
    return is_ready(prefetcher, slot) || prefetcher->is_stopped || prefetcher->has_failed ||
           lacks_release(prefetcher);
}

/* Under the lock, which it leaves for a moment: whoever lends the GPU is told, outside of locks. */
static void begin_wait(struct sluice_prefetcher *prefetcher, uint64_t from_ns)
{
    show_wait(prefetcher, from_ns);
    if (!prefetcher->options.lend)
        return;
    pthread_mutex_unlock(&prefetcher->lock);
    sluice_lend_wait_begins(prefetcher->options.lend);
    pthread_mutex_lock(&prefetcher->lock);
}

/* Waits until the slot is ready, the epoch is over or the deadline has passed.  False: it has. */
static bool wait_ready(struct sluice_prefetcher *prefetcher, const struct slot *slot,
                       uint64_t from_ns, uint64_t until_ns, bool *has_waited)
{
    bool is_in_time = true;
    *has_waited = !is_over(prefetcher, slot);
    if (*has_waited)
        begin_wait(prefetcher, from_ns);
    while (!is_over(prefetcher, slot) && is_in_time)
        is_in_time = sluice_cond_wait_until(&prefetcher->ready, &prefetcher->lock, until_ns);
    if (*has_waited)
        show_wait(prefetcher, 0);
    return is_over(prefetcher, slot);
}

/* Moves the settled batch of the slot into the spare header, and returns that. */
static struct sluice_held *hand_out(struct sluice_prefetcher *prefetcher, struct slot *slot)
{
    struct sluice_held *held = prefetcher->spare;
    const struct sluice_rows *rows = &slot->batch;
    prefetcher->spare = NULL;
    held->layout = slot->layout;
    held->has_images = rows->has_images;
    memcpy(held->images, rows->images, rows->n * sizeof(*rows->images));
    held->num_rows = rows->n;
    held->num_padded = rows->num_padded;
    for (unsigned i = 0; i < rows->n; i++) {
        held->labels[i] = rows->labels[i];
        held->ids[i] = rows->ids[i];
        held->draw_epochs[i] = rows->draw_epochs[i];
    }
    for (size_t v = 0; v < rows->num_views; v++)
        memcpy(held->geometry + v * rows->capacity, rows->geometry + v * rows->capacity,
               rows->n * sizeof(*rows->geometry));
    held->index =
        prefetcher->epoch.first_item / prefetcher->options.batch_size + prefetcher->num_taken - 1;
    memcpy(held->errors, prefetcher->errors, sizeof(held->errors));
    pthread_mutex_lock(&prefetcher->lock);
    if (slot->block) {
        held->block = slot->block;
        held->pixels = sluice_gpu_block_rows(slot->block);
        slot->block = NULL;
        prefetcher->num_lent++;
        free_slot(prefetcher);
    } else {
        held->pixels = rows->pixels;
        slot->batch.pixels = NULL;
        prefetcher->current = held;
    }
    pthread_mutex_unlock(&prefetcher->lock);
    return held;
}

void prefetcher_see_taken(struct sluice_prefetcher *prefetcher, size_t num_rows)
{
    pthread_mutex_lock(&prefetcher->lock);
    prefetcher->num_rows_ready -= num_rows;
    pthread_mutex_unlock(&prefetcher->lock);
    if (prefetcher->options.live)
        sluice_live_add(&prefetcher->options.live->taken, num_rows);
}

/* Waits for the next batch, in its slot, and settles it.  Counts it as taken, even if no row is
 * good.  If it waits, the wait began at `from`. */
static sluice_status take_batch(struct sluice_prefetcher *prefetcher, struct slot *slot,
                                uint64_t from, uint64_t until_ns, struct sluice_err *err)
{
    bool has_waited = false;

    pthread_mutex_lock(&prefetcher->lock);
    const bool is_in_time = wait_ready(prefetcher, slot, from, until_ns, &has_waited);
    const bool has_batch = is_ready(prefetcher, slot);
    const bool is_stopped = prefetcher->is_stopped, has_failed = prefetcher->has_failed;
    const unsigned num_lent = prefetcher->num_lent;
    pthread_mutex_unlock(&prefetcher->lock);
    if (has_waited && prefetcher->options.lend)
        sluice_lend_wait_ends(prefetcher->options.lend);

    if (is_stopped)
        return sluice_fail(err, SLUICE_E_CLOSED, "stopped");
    const uint64_t now = sluice_clock_ns();
    if (has_waited)
        prefetcher->waited_ns += now - from;
    if (!is_in_time)
        return sluice_fail(err, SLUICE_E_AGAIN, "no batch is ready yet");
    if (!has_batch && has_failed) {
        prefetcher->has_lost_source = prefetcher->has_failed_source;
        return sluice_fail(err, prefetcher->failure, "%s", prefetcher->failure_text);
    }
    prefetcher->needs_release = !has_batch;
    if (!has_batch)
        return sluice_fail(err, SLUICE_E_NO_MEMORY,
                           "every one of the %u batches on the device is held: release one",
                           num_lent);
    const uint64_t waited_ns = prefetcher->waited_ns;
    prefetcher->waited_ns = 0;
    memset(prefetcher->spare->stall_ns, 0, sizeof(prefetcher->spare->stall_ns));
    if (waited_ns > 0)
        attribute_wait(prefetcher, prefetcher->spare, slot, now - waited_ns, now);
    const struct sluice_chooser *chooser = &prefetcher->epoch.chooser;
    if (chooser->on_batch)
        chooser->on_batch(chooser->ctx, slot->batch.n, waited_ns, now);
    prefetcher->num_taken++;
    const sluice_status status = note_errors(prefetcher, slot, err);
    if (status != SLUICE_OK) {
        prefetcher->num_taken--; /* it was not delivered */
        return status;
    }
    prefetcher_see_taken(prefetcher, slot->batch.n);
    if (prefetcher->options.tracer)
        prefetcher_trace_batch(prefetcher, slot);
    sluice_rows_settle(&slot->batch, prefetcher->options.on_error);
    return SLUICE_OK;
}

static sluice_status next_held(struct sluice_prefetcher *prefetcher, uint64_t from_ns,
                               uint64_t until_ns, struct sluice_held **batch,
                               struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    if (prefetcher->num_taken < prefetcher->num_batches)
        status = prefetcher_lend_current(prefetcher, err);
    if (status == SLUICE_OK && !prefetcher->spare)
        status = sluice_held_create(prefetcher->home, &prefetcher->spare, err);
    if (status != SLUICE_OK)
        return status;
    while (prefetcher->num_taken < prefetcher->num_batches) {
        struct slot *slot = prefetcher_slot_of(prefetcher, prefetcher->num_taken);
        status = take_batch(prefetcher, slot, from_ns, until_ns, err);
        if (status != SLUICE_OK)
            return status;
        if (slot->batch.n == 0) {
            pthread_mutex_lock(&prefetcher->lock);
            free_slot(prefetcher);
            pthread_mutex_unlock(&prefetcher->lock);
            from_ns = sluice_clock_ns();
            continue;
        }
        if (prefetcher->options.has_digest) {
            for (unsigned i = 0; i < slot->batch.n; i++)
                sluice_digest_chain(prefetcher->chain, slot->batch.hashes[i]);
        }
        prefetcher->stats.samples += slot->batch.n;
        prefetcher->stats.padded += slot->batch.num_padded;
        if (prefetcher->options.live)
            sluice_live_add(&prefetcher->options.live->samples, slot->batch.n);
        *batch = hand_out(prefetcher, slot);
        return SLUICE_OK;
    }
    *batch = NULL;
    return SLUICE_OK;
}

void prefetcher_end_outside(struct sluice_prefetcher *prefetcher)
{
    if (prefetcher->outside_since_ns)
        prefetcher->stats.stall_ns[SLUICE_GPU] += sluice_clock_ns() - prefetcher->outside_since_ns;
    prefetcher->outside_since_ns = 0;
}

sluice_status sluice_prefetcher_next(struct sluice_prefetcher *prefetcher, int timeout_ms,
                                     struct sluice_held **batch, struct sluice_err *err)
{
    prefetcher_end_outside(prefetcher);
    prefetcher->needs_release = false;
    /* A wait begins here, not once the lock is taken: one in vain counts at least timeout_ms. */
    const uint64_t from_ns = sluice_clock_ns();
    const uint64_t until_ns =
        timeout_ms < 0 ? UINT64_MAX : from_ns + (uint64_t)timeout_ms * 1000000;
    struct sluice_held *held = NULL;
    const sluice_status status = next_held(prefetcher, from_ns, until_ns, &held, err);
    if (held || status == SLUICE_E_AGAIN || prefetcher->needs_release)
        prefetcher->outside_since_ns = sluice_clock_ns();
    if (status == SLUICE_OK)
        *batch = held;
    return status;
}

size_t sluice_prefetcher_position(const struct sluice_prefetcher *prefetcher)
{
    return prefetcher->num_taken;
}

const uint64_t *sluice_prefetcher_errors(const struct sluice_prefetcher *prefetcher)
{
    return prefetcher->errors;
}

bool sluice_prefetcher_needs_release(const struct sluice_prefetcher *prefetcher)
{
    return prefetcher->needs_release;
}

bool sluice_prefetcher_has_lost_source(const struct sluice_prefetcher *prefetcher)
{
    return prefetcher->has_lost_source;
}
