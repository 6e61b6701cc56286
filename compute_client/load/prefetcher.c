#include "compute_client/load/prefetcher.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "compute_client/load/prefetcher_state.h"
#include "compute_client/load/retry.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most items in one request to the source. */
#define MAX_PER_REQUEST 64
/* Samples that are named when too many failed: so many fit a line. */
#define MAX_NAMES 4

static size_t items_left(const struct sluice_prefetcher *prefetcher)
{
    return prefetcher->epoch.num_items - prefetcher->epoch.first_item;
}

static struct slot *slot_of(struct sluice_prefetcher *prefetcher, size_t batch)
{
    return &prefetcher->slots[batch % prefetcher->options.num_slots];
}

static struct row *row_of(struct sluice_prefetcher *prefetcher, size_t item)
{
    const size_t batch = item / prefetcher->options.batch_size;
    return &slot_of(prefetcher, batch)->rows[item % prefetcher->options.batch_size];
}

/* --- the source's events --- */

static void on_result(void *ctx, struct sluice_source_result *result)
{
    struct sluice_prefetcher *prefetcher = ctx;
    struct row *row = row_of(prefetcher, (size_t)result->ticket);

    row->arrived_ns = sluice_clock_ns();
    row->result = *result;
    row->ops_done = result->sample.ops_done;
    result->sample = (struct sluice_sample){0};
    result->message = NULL;
    const bool is_good = row->result.status == SLUICE_OK;
    pthread_mutex_lock(&prefetcher->lock);
    prefetcher->num_away--;
    prefetcher->num_rows_working++;
    prefetcher->under_way.storage_s -= row->expected.storage_s;
    prefetcher->under_way.bytes -= row->expected.bytes;
    if (is_good) {
        prefetcher->charged_bytes += row->result.payload_bytes - row->charged;
        row->charged = row->result.payload_bytes;
    }
    pthread_cond_signal(&prefetcher->room);
    pthread_mutex_unlock(&prefetcher->lock);
    if (!is_good) {
        memcpy(row->error, row->result.error, sizeof(row->error) - 1);
        prefetcher_complete_row(row, row->result.status);
        return;
    }
    const sluice_status status = sluice_worker_pool_try_submit(prefetcher->workers, &row->job);
    assert(status != SLUICE_E_AGAIN); /* the queue holds every row there is */
    if (status != SLUICE_OK)
        sluice_source_result_clear(&row->result);
}

static void fail(struct sluice_prefetcher *prefetcher, sluice_status status, const char *text)
{
    pthread_mutex_lock(&prefetcher->lock);
    if (!prefetcher->has_failed) {
        prefetcher->has_failed = true;
        prefetcher->failure = status;
        snprintf(prefetcher->failure_text, sizeof(prefetcher->failure_text), "%s", text);
    }
    pthread_cond_broadcast(&prefetcher->ready);
    pthread_cond_broadcast(&prefetcher->room);
    pthread_mutex_unlock(&prefetcher->lock);
}

static void on_failed(void *ctx, sluice_status status, const char *text)
{
    fail(ctx, status, text);
}

struct sluice_source_events sluice_prefetcher_events(struct sluice_prefetcher *prefetcher)
{
    return (struct sluice_source_events){
        .on_result = on_result,
        .on_failed = on_failed,
        .ctx = prefetcher,
    };
}

size_t sluice_prefetcher_max_items(const struct sluice_prefetcher *prefetcher)
{
    return (size_t)prefetcher->options.num_slots * prefetcher->options.batch_size;
}

/* --- prefetching --- */

static const struct sluice_sampler_item *next_drawn(const struct sluice_prefetcher *prefetcher)
{
    return &prefetcher->epoch.items[prefetcher->epoch.first_item + prefetcher->next_item];
}

/* The expected payload of the next item, for the choice that was made for it. */
static size_t expected_bytes(const struct sluice_prefetcher *prefetcher)
{
    const struct sluice_epoch *epoch = &prefetcher->epoch;
    const uint32_t sample_id = epoch->ids[next_drawn(prefetcher)->position];
    return sluice_choice_bytes(epoch->pipeline, prefetcher->ask.choice,
                               (size_t)epoch->manifest->entries[sample_id].bytes);
}

/* Under the lock: whether the next item may be requested. */
static bool has_room(const struct sluice_prefetcher *prefetcher)
{
    const size_t depth = sluice_prefetch_depth_items(&prefetcher->depth);
    if (prefetcher->next_item >= prefetcher->num_released * prefetcher->options.batch_size + depth)
        return false;
    if (prefetcher->num_away > 0 && prefetcher->num_away >= prefetcher->ask.max_away)
        return false;
    if (prefetcher->num_unfinished > 0 &&
        prefetcher->num_unfinished >= prefetcher->ask.max_unfinished)
        return false;
    const double bytes =
        (double)prefetcher->options.payload_bytes * (double)depth / (double)prefetcher->depth.most;
    return prefetcher->charged_bytes == 0 ||
           (double)(prefetcher->charged_bytes + expected_bytes(prefetcher)) <= bytes;
}

/* Under the lock: prepares the next item's row, and returns the request for it. */
static struct sluice_source_item begin_row(struct sluice_prefetcher *prefetcher, uint64_t now)
{
    const struct sluice_epoch *epoch = &prefetcher->epoch;
    const size_t item = prefetcher->next_item;
    const struct sluice_sampler_item *drawn = next_drawn(prefetcher);
    struct row *row = row_of(prefetcher, item);

    if (row->index == 0) {
        const size_t left = items_left(prefetcher) - item;
        struct slot *slot = row->slot;
        slot->batch.n =
            left < prefetcher->options.batch_size ? (unsigned)left : prefetcher->options.batch_size;
        slot->num_missing = slot->batch.n;
        slot->last = NULL;
    }
    row->position = drawn->position;
    row->sample_id = epoch->ids[drawn->position];
    row->choice = prefetcher->ask.choice;
    row->requested_ns = now;
    row->started_ns = row->cpu_ns = 0;
    row->result = (struct sluice_source_result){0};
    row->charged = expected_bytes(prefetcher);
    row->expected = prefetcher->ask.expected;
    row->error[0] = '\0';
    row->slot->batch.labels[row->index] = epoch->manifest->entries[row->sample_id].label;
    row->slot->batch.ids[row->index] = row->sample_id;
    row->slot->batch.draw_epochs[row->index] = drawn->draw_epoch;
    prefetcher->charged_bytes += row->charged;
    prefetcher->num_away++;
    prefetcher->num_unfinished++;
    prefetcher->under_way.storage_s += row->expected.storage_s;
    prefetcher->under_way.bytes += row->expected.bytes;
    prefetcher->under_way.compute_s += row->expected.compute_s;
    prefetcher->seen_under_way = prefetcher->under_way;
    prefetcher->next_item++;
    prefetcher->has_ask = false;
    return (struct sluice_source_item){
        .ticket = item,
        .key = {.seed = epoch->seed, .epoch = drawn->draw_epoch, .sample_id = row->sample_id},
        .path = epoch->manifest->entries[row->sample_id].path,
        .file_bytes = epoch->manifest->entries[row->sample_id].bytes,
        .split = row->choice.split,
        .form = (enum sluice_form)row->choice.form,
        .storage_worth = prefetcher->ask.storage_worth,
    };
}

/* Under the lock. */
static bool has_more(const struct sluice_prefetcher *prefetcher)
{
    return prefetcher->is_running && !prefetcher->is_stopped && !prefetcher->has_failed &&
           prefetcher->next_item < items_left(prefetcher);
}

/* Gets the next item to request.  With `waits`, waits until the bounds allow one.  False: none may
 * be requested now, or the epoch has no more. */
static bool take_next(struct sluice_prefetcher *prefetcher, bool waits,
                      struct sluice_source_item *item)
{
    if (!prefetcher->has_ask && prefetcher->next_item < items_left(prefetcher)) {
        const struct sluice_chooser *chooser = &prefetcher->epoch.chooser;
        prefetcher->ask =
            chooser->choose(chooser->ctx, prefetcher->epoch.first_item + prefetcher->next_item,
                            next_drawn(prefetcher), &prefetcher->seen_under_way);
        prefetcher->has_ask = true;
    }
    pthread_mutex_lock(&prefetcher->lock);
    while (waits && has_more(prefetcher) && !has_room(prefetcher))
        pthread_cond_wait(&prefetcher->room, &prefetcher->lock);
    const bool is_taken = has_more(prefetcher) && has_room(prefetcher);
    if (is_taken)
        *item = begin_row(prefetcher, sluice_clock_ns());
    pthread_mutex_unlock(&prefetcher->lock);
    return is_taken;
}

static void *prefetcher_main(void *ctx)
{
    struct sluice_prefetcher *prefetcher = ctx;
    struct sluice_source *source = prefetcher->epoch.source;
    struct sluice_source_item items[MAX_PER_REQUEST];

    for (;;) {
        size_t count = 0;
        while (count < MAX_PER_REQUEST && take_next(prefetcher, count == 0, &items[count]))
            count++;
        if (count == 0)
            return NULL;
        const sluice_status status = source->request(source, items, count);
        if (status != SLUICE_OK)
            fail(prefetcher, status, "the source of samples is closed");
    }
}

/* --- the trainer's side --- */

/* Attributes the wait [from, to) for the batch; `row` is the row that made it ready. */
static void attribute_wait(struct sluice_prefetcher *prefetcher, struct sluice_held *batch,
                           const struct row *row, uint64_t from, uint64_t to)
{
    const struct sluice_sample_times times = {
        .requested_ns = row->requested_ns,
        .arrived_ns = row->arrived_ns,
        .done_ns = row->done_ns,
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
                 epoch->manifest->entries[stats->named[i].sample_id].path);
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
        const char *path = prefetcher->epoch.manifest->entries[row->sample_id].path;
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

/* Under the lock, or when nobody else is left. */
static void give_memory_back(struct sluice_prefetcher *prefetcher, struct slot *slot)
{
    if (slot->batch.pixels)
        sluice_batch_memory_give(&prefetcher->memory, slot->batch.pixels);
    slot->batch.pixels = NULL;
}

/* Under the lock: the slot of batch num_released may be filled again. */
static void free_slot(struct sluice_prefetcher *prefetcher)
{
    struct slot *slot = slot_of(prefetcher, prefetcher->num_released);
    slot->num_missing = 1; /* not ready until it is filled */
    give_memory_back(prefetcher, slot);
    prefetcher->current = NULL;
    prefetcher->num_released++;
    sluice_prefetch_depth_see(&prefetcher->depth, prefetcher->options.batch_size,
                              sluice_clock_ns());
    pthread_cond_signal(&prefetcher->room);
}

/* The release of a batch: sluice_held_home_options. */
static void *take_back(void *ctx, const struct sluice_held *held)
{
    struct sluice_prefetcher *prefetcher = ctx;
    void *unneeded = NULL;
    pthread_mutex_lock(&prefetcher->lock);
    if (held == prefetcher->current) {
        sluice_batch_memory_give(&prefetcher->memory, held->pixels);
        free_slot(prefetcher);
    } else if (!sluice_batch_memory_return(&prefetcher->memory, held->pixels)) {
        unneeded = held->pixels;
    }
    pthread_mutex_unlock(&prefetcher->lock);
    return unneeded;
}

/* Frees the slot of the batch that was returned last, if that is still held: its block is lent, and
 * another one takes the block's place. */
static sluice_status lend_current(struct sluice_prefetcher *prefetcher, struct sluice_err *err)
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

/* Waits until the slot is ready, the epoch is over or the deadline has passed.  False: it has. */
static bool wait_ready(struct sluice_prefetcher *prefetcher, const struct slot *slot,
                       uint64_t from_ns, uint64_t until_ns, bool *has_waited)
{
    bool is_in_time = true;
    *has_waited = false;
    /* A slot in which no row has begun also has num_missing > 0: free_slot() sets it. */
    while (slot->num_missing > 0 && !prefetcher->is_stopped && !prefetcher->has_failed &&
           is_in_time) {
        if (!*has_waited)
            show_wait(prefetcher, from_ns);
        *has_waited = true;
        is_in_time = sluice_cond_wait_until(&prefetcher->ready, &prefetcher->lock, until_ns);
    }
    if (*has_waited)
        show_wait(prefetcher, 0);
    return slot->num_missing == 0 || prefetcher->is_stopped || prefetcher->has_failed;
}

/* Moves the settled batch of the slot into the spare header, and returns that. */
static struct sluice_held *hand_out(struct sluice_prefetcher *prefetcher, struct slot *slot)
{
    struct sluice_held *held = prefetcher->spare;
    const struct sluice_rows *rows = &slot->batch;
    prefetcher->spare = NULL;
    held->num_rows = rows->n;
    for (unsigned i = 0; i < rows->n; i++) {
        held->labels[i] = rows->labels[i];
        held->ids[i] = rows->ids[i];
        held->draw_epochs[i] = rows->draw_epochs[i];
    }
    held->index =
        prefetcher->epoch.first_item / prefetcher->options.batch_size + prefetcher->num_taken - 1;
    memcpy(held->errors, prefetcher->errors, sizeof(held->errors));
    pthread_mutex_lock(&prefetcher->lock);
    held->pixels = rows->pixels;
    slot->batch.pixels = NULL;
    prefetcher->current = held;
    pthread_mutex_unlock(&prefetcher->lock);
    return held;
}

/* So many rows are ready no longer. */
static void see_taken(struct sluice_prefetcher *prefetcher, size_t num_rows)
{
    pthread_mutex_lock(&prefetcher->lock);
    prefetcher->num_rows_ready -= num_rows;
    pthread_mutex_unlock(&prefetcher->lock);
    if (prefetcher->options.live)
        sluice_live_add(&prefetcher->options.live->taken, num_rows);
}

/* Waits for the next batch and settles it; its slot is *ready.  Counts it as taken, even if no row
 * is good. */
static sluice_status take_batch(struct sluice_prefetcher *prefetcher, uint64_t until_ns,
                                struct slot **ready, struct sluice_err *err)
{
    struct slot *slot = slot_of(prefetcher, prefetcher->num_taken);
    const uint64_t from = sluice_clock_ns();
    bool has_waited = false;

    pthread_mutex_lock(&prefetcher->lock);
    const bool is_in_time = wait_ready(prefetcher, slot, from, until_ns, &has_waited);
    const bool is_ready = slot->num_missing == 0;
    const bool is_stopped = prefetcher->is_stopped;
    pthread_mutex_unlock(&prefetcher->lock);

    if (is_stopped)
        return sluice_fail(err, SLUICE_E_CLOSED, "stopped");
    const uint64_t now = sluice_clock_ns();
    if (has_waited)
        prefetcher->waited_ns += now - from;
    if (!is_in_time)
        return sluice_fail(err, SLUICE_E_AGAIN, "no batch is ready yet");
    if (!is_ready) {
        prefetcher->has_lost_source = true;
        return sluice_fail(err, prefetcher->failure, "%s", prefetcher->failure_text);
    }
    const uint64_t waited_ns = prefetcher->waited_ns;
    prefetcher->waited_ns = 0;
    memset(prefetcher->spare->stall_ns, 0, sizeof(prefetcher->spare->stall_ns));
    if (waited_ns > 0)
        attribute_wait(prefetcher, prefetcher->spare, slot->last, now - waited_ns, now);
    const struct sluice_chooser *chooser = &prefetcher->epoch.chooser;
    if (chooser->on_batch)
        chooser->on_batch(chooser->ctx, slot->batch.n, waited_ns, now);
    prefetcher->num_taken++;
    const sluice_status status = note_errors(prefetcher, slot, err);
    if (status != SLUICE_OK) {
        prefetcher->num_taken--; /* it was not delivered */
        return status;
    }
    see_taken(prefetcher, slot->batch.n);
    sluice_rows_settle(&slot->batch, prefetcher->options.on_error);
    *ready = slot;
    return SLUICE_OK;
}

static sluice_status next_held(struct sluice_prefetcher *prefetcher, uint64_t until_ns,
                               struct sluice_held **batch, struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    if (prefetcher->num_taken < prefetcher->num_batches)
        status = lend_current(prefetcher, err);
    if (status == SLUICE_OK && !prefetcher->spare)
        status = sluice_held_create(prefetcher->home, &prefetcher->spare, err);
    if (status != SLUICE_OK)
        return status;
    while (prefetcher->num_taken < prefetcher->num_batches) {
        struct slot *slot = NULL;
        status = take_batch(prefetcher, until_ns, &slot, err);
        if (status != SLUICE_OK)
            return status;
        if (slot->batch.n == 0) {
            pthread_mutex_lock(&prefetcher->lock);
            free_slot(prefetcher);
            pthread_mutex_unlock(&prefetcher->lock);
            continue;
        }
        if (prefetcher->options.has_digest) {
            for (unsigned i = 0; i < slot->batch.n; i++)
                sluice_digest_chain(prefetcher->chain, slot->batch.hashes[i]);
        }
        prefetcher->stats.samples += slot->batch.n;
        if (prefetcher->options.live)
            sluice_live_add(&prefetcher->options.live->samples, slot->batch.n);
        *batch = hand_out(prefetcher, slot);
        return SLUICE_OK;
    }
    *batch = NULL;
    return SLUICE_OK;
}

/* The caller's own time, since next() returned, ends. */
static void end_outside(struct sluice_prefetcher *prefetcher)
{
    if (prefetcher->outside_since_ns)
        prefetcher->stats.stall_ns[SLUICE_GPU] += sluice_clock_ns() - prefetcher->outside_since_ns;
    prefetcher->outside_since_ns = 0;
}

sluice_status sluice_prefetcher_next(struct sluice_prefetcher *prefetcher, int timeout_ms,
                                     struct sluice_held **batch, struct sluice_err *err)
{
    end_outside(prefetcher);
    const uint64_t until_ns =
        timeout_ms < 0 ? UINT64_MAX : sluice_clock_ns() + (uint64_t)timeout_ms * 1000000;
    struct sluice_held *held = NULL;
    const sluice_status status = next_held(prefetcher, until_ns, &held, err);
    if (held || status == SLUICE_E_AGAIN)
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

bool sluice_prefetcher_has_lost_source(const struct sluice_prefetcher *prefetcher)
{
    return prefetcher->has_lost_source;
}

sluice_status sluice_prefetcher_start(struct sluice_prefetcher *prefetcher,
                                      const struct sluice_epoch *epoch, struct sluice_err *err)
{
    assert(!prefetcher->is_running && epoch->first_item % prefetcher->options.batch_size == 0);
    assert(!epoch->profile || prefetcher->options.measures_ops);
    /* A batch of the epoch before may still be held. */
    const sluice_status status = lend_current(prefetcher, err);
    if (status != SLUICE_OK)
        return status;
    prefetcher->epoch = *epoch;
    prefetcher->stats = (struct sluice_epoch_stats){0};
    prefetcher->waited_ns = prefetcher->outside_since_ns = 0;
    memcpy(prefetcher->errors, epoch->errors_before, sizeof(prefetcher->errors));
    prefetcher->has_lost_source = false;
    prefetcher->next_item = prefetcher->num_taken = prefetcher->num_released = 0;
    prefetcher->num_away = prefetcher->num_unfinished = prefetcher->charged_bytes = 0;
    prefetcher->under_way = prefetcher->seen_under_way = (struct sluice_expected){0};
    prefetcher->has_ask = false;
    prefetcher->num_batches = (items_left(prefetcher) + prefetcher->options.batch_size - 1) /
                              prefetcher->options.batch_size;
    prefetcher->wire_bytes_before = epoch->source->wire_bytes(epoch->source);
    for (unsigned i = 0; i < prefetcher->options.num_slots; i++)
        prefetcher->slots[i].num_missing = 1;
    sluice_hasher_reset(prefetcher->chain);
    prefetcher->is_running = true;
    const int failed = pthread_create(&prefetcher->thread, NULL, prefetcher_main, prefetcher);
    if (failed) {
        prefetcher->is_running = false;
        return sluice_fail(err, SLUICE_E_IO, "cannot start the loader's thread: %s",
                           strerror(failed));
    }
    return SLUICE_OK;
}

struct sluice_epoch_stats sluice_prefetcher_finish(struct sluice_prefetcher *prefetcher)
{
    end_outside(prefetcher);
    pthread_mutex_lock(&prefetcher->lock);
    prefetcher->is_running = false;
    pthread_cond_broadcast(&prefetcher->room);
    pthread_mutex_unlock(&prefetcher->lock);
    pthread_join(prefetcher->thread, NULL);

    pthread_mutex_lock(&prefetcher->lock);
    struct sluice_epoch_stats stats = prefetcher->stats;
    pthread_mutex_unlock(&prefetcher->lock);
    struct sluice_source *source = prefetcher->epoch.source;
    stats.wire_bytes = source->wire_bytes(source) - prefetcher->wire_bytes_before;
    if (prefetcher->options.has_digest)
        sluice_hash128_hex(sluice_hasher_digest(prefetcher->chain), stats.digest);
    return stats;
}

/* What an epoch left behind that did not reach its end. */
static void clear_slots(struct sluice_prefetcher *prefetcher)
{
    for (unsigned i = 0; prefetcher->slots && i < prefetcher->options.num_slots; i++) {
        struct slot *slot = &prefetcher->slots[i];
        for (unsigned k = 0; slot->rows && k < prefetcher->options.batch_size; k++)
            sluice_source_result_clear(&slot->rows[k].result);
        give_memory_back(prefetcher, slot);
    }
}

void sluice_prefetcher_abandon(struct sluice_prefetcher *prefetcher)
{
    pthread_mutex_lock(&prefetcher->lock);
    assert(!prefetcher->is_running);
    while (prefetcher->num_rows_working > 0)
        pthread_cond_wait(&prefetcher->idle, &prefetcher->lock);
    clear_slots(prefetcher);
    prefetcher->has_failed = false;
    const size_t num_thrown_away = prefetcher->num_rows_ready;
    pthread_mutex_unlock(&prefetcher->lock);
    see_taken(prefetcher, num_thrown_away);
}

void sluice_prefetcher_stop(struct sluice_prefetcher *prefetcher)
{
    pthread_mutex_lock(&prefetcher->lock);
    prefetcher->is_stopped = true;
    pthread_cond_broadcast(&prefetcher->ready);
    pthread_cond_broadcast(&prefetcher->room);
    pthread_mutex_unlock(&prefetcher->lock);
}

static sluice_status slot_init(struct sluice_prefetcher *prefetcher, size_t index,
                               struct sluice_err *err)
{
    const struct sluice_prefetcher_options *options = &prefetcher->options;
    struct slot *slot = &prefetcher->slots[index];
    slot->rows = calloc(options->batch_size, sizeof(*slot->rows));
    if (!slot->rows)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a batch");
    for (unsigned i = 0; i < options->batch_size; i++) {
        slot->rows[i].job.fn = prefetcher_row_job;
        slot->rows[i].prefetcher = prefetcher;
        slot->rows[i].slot = slot;
        slot->rows[i].index = i;
    }
    return sluice_rows_init(&slot->batch, options->batch_size, options->row_bytes, NULL, err);
}

sluice_status sluice_prefetcher_create(const struct sluice_prefetcher_options *options,
                                       struct sluice_prefetcher **out, struct sluice_err *err)
{
    assert(options->num_slots >= 2 && options->batch_size >= 1 && options->num_workers >= 1);
    assert(options->usual_slots <= options->num_slots && options->usual_slots != 1);
    struct sluice_prefetcher *prefetcher = calloc(1, sizeof(*prefetcher));
    if (!prefetcher)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a loader");
    prefetcher->options = *options;
    pthread_mutex_init(&prefetcher->lock, NULL);
    sluice_cond_init(&prefetcher->ready);
    pthread_cond_init(&prefetcher->room, NULL);
    pthread_cond_init(&prefetcher->idle, NULL);
    const size_t usual_slots = options->usual_slots ? options->usual_slots : options->num_slots;
    const size_t usual_items = usual_slots * options->batch_size;
    prefetcher->depth.least = usual_items;
    prefetcher->depth.most = sluice_prefetcher_max_items(prefetcher);
    sluice_status status = sluice_hasher_create(&prefetcher->chain, err);
    prefetcher->slots = calloc(options->num_slots, sizeof(*prefetcher->slots));
    if (status == SLUICE_OK && !prefetcher->slots)
        status =
            sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %u batches", options->num_slots);
    const struct sluice_batch_memory_options memory = {
        .count = options->num_slots,
        .bytes = options->batch_size * options->row_bytes,
        /* So that the first epoch spends no more on page faults than later ones. */
        .bytes_ahead = options->row_bytes *
                       (options->num_items < usual_items ? options->num_items : usual_items),
        .alloc = options->alloc,
        .free = options->free,
        .ctx = options->memory_ctx,
    };
    const struct sluice_held_home_options home = {
        .batch_size = options->batch_size,
        .bytes = memory.bytes,
        .take_back = take_back,
        .ctx = prefetcher,
        .free = options->free,
        .memory_ctx = options->memory_ctx,
    };
    if (status == SLUICE_OK)
        status = sluice_held_home_create(&home, &prefetcher->home, err);
    if (status == SLUICE_OK)
        status = sluice_batch_memory_init(&prefetcher->memory, &memory, err);
    for (unsigned i = 0; status == SLUICE_OK && i < options->num_slots; i++)
        status = slot_init(prefetcher, i, err);
    if (status == SLUICE_OK) {
        const struct sluice_worker_pool_options workers = {
            .name = "prep",
            .num_workers = options->num_workers,
            .queue_capacity = sluice_prefetcher_max_items(prefetcher),
            .worker_start = prefetcher_worker_start,
            .worker_stop = prefetcher_worker_stop,
            .ctx = prefetcher,
        };
        status = sluice_worker_pool_create(&workers, &prefetcher->workers, err);
    }
    if (status != SLUICE_OK) {
        sluice_prefetcher_destroy(prefetcher);
        return status;
    }
    *out = prefetcher;
    return SLUICE_OK;
}

void sluice_prefetcher_destroy(struct sluice_prefetcher *prefetcher)
{
    if (!prefetcher)
        return;
    sluice_held_home_close(prefetcher->home);
    sluice_held_release(prefetcher->spare);
    sluice_worker_pool_destroy(prefetcher->workers, SLUICE_POOL_ABANDON);
    clear_slots(prefetcher);
    for (unsigned i = 0; prefetcher->slots && i < prefetcher->options.num_slots; i++) {
        sluice_rows_clear(&prefetcher->slots[i].batch);
        free(prefetcher->slots[i].rows);
    }
    sluice_batch_memory_clear(&prefetcher->memory);
    free(prefetcher->slots);
    sluice_hasher_destroy(prefetcher->chain);
    pthread_cond_destroy(&prefetcher->idle);
    pthread_cond_destroy(&prefetcher->room);
    pthread_cond_destroy(&prefetcher->ready);
    pthread_mutex_destroy(&prefetcher->lock);
    free(prefetcher);
}
