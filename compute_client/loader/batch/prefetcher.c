#include "compute_client/loader/batch/prefetcher.h"

#include "base/clock.h"
#include "base/cond.h"
#include "compute_client/loader/batch/prefetcher_state.h"
#include "compute_client/loader/choose/choice.h"
#include "compute_client/loader/tuning.h"
#include "op/form.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most items in one request to the source. */
#define MAX_PER_REQUEST 64

/* Tickets of items: rows of all batches, as if every batch had batch_size rows. */
static size_t ticket_at(const struct sluice_prefetcher *prefetcher, size_t batch, unsigned row)
{
    return batch * prefetcher->options.batch_size + row;
}

static struct row *row_of(struct sluice_prefetcher *prefetcher, size_t ticket)
{
    const size_t batch = ticket / prefetcher->options.batch_size;
    return &prefetcher_slot_of(prefetcher, batch)->rows[ticket % prefetcher->options.batch_size];
}

static size_t next_ticket(const struct sluice_prefetcher *prefetcher)
{
    return ticket_at(prefetcher, prefetcher->next_batch, prefetcher->next_row);
}

/* Under the lock: whether the slots that are used have room for the next item. */
static bool has_slot(const struct sluice_prefetcher *prefetcher)
{
    return next_ticket(prefetcher) < ticket_at(prefetcher, prefetcher->num_released, 0) +
                                         sluice_prefetch_depth_items(&prefetcher->depth);
}

void prefetcher_see_room(struct sluice_prefetcher *prefetcher)
{
    if (has_slot(prefetcher)) /* else a wake-up for each row would be in vain */
        pthread_cond_signal(&prefetcher->room);
}

/* Under the lock: the slot's staging buffer, if one is free by now. */
static struct sluice_gpu_staging *staging_of(struct sluice_prefetcher *prefetcher,
                                             struct slot *slot)
{
    if (!slot->staging && prefetcher->is_running)
        slot->staging = sluice_gpu_place_take_staging(prefetcher->options.gpu);
    return slot->staging;
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
    if (is_good && prefetcher->num_lanes > 0 && row->choice.on_gpu)
        row->staging = staging_of(prefetcher, row->slot);
    prefetcher_see_room(prefetcher);
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

void prefetcher_fail(struct sluice_prefetcher *prefetcher, sluice_status status, const char *text,
                     bool is_source)
{
    assert(status != SLUICE_OK); /* or next() would hand out what is not complete */
    pthread_mutex_lock(&prefetcher->lock);
    if (!prefetcher->has_failed) {
        prefetcher->has_failed = true;
        prefetcher->has_failed_source = is_source;
        prefetcher->failure = status;
        snprintf(prefetcher->failure_text, sizeof(prefetcher->failure_text), "%s", text);
    }
    pthread_cond_broadcast(&prefetcher->ready);
    pthread_cond_broadcast(&prefetcher->room);
    pthread_mutex_unlock(&prefetcher->lock);
}

static void on_failed(void *ctx, sluice_status status, const char *text)
{
    prefetcher_fail(ctx, status, text, true);
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

/* Under the lock: whether the next item may be requested. */
static bool has_room(const struct sluice_prefetcher *prefetcher)
{
    const size_t depth = sluice_prefetch_depth_items(&prefetcher->depth);
    if (!has_slot(prefetcher))
        return false;
    if (prefetcher->num_away > 0 && prefetcher->num_away >= prefetcher->ask.max_away)
        return false;
    if (prefetcher->num_unfinished > 0 &&
        prefetcher->num_unfinished >= prefetcher->ask.max_unfinished)
        return false;
    const double bytes =
        (double)prefetcher->options.payload_bytes * (double)depth / (double)prefetcher->depth.most;
    /* Cut files are let go once their batch is made, so that one has to become complete. */
    const bool is_next = prefetcher->next_batch <= prefetcher->num_begun;
    const size_t taken = prefetcher->charged_bytes + (is_next ? 0 : prefetcher->kept_bytes);
    return taken == 0 || (double)(taken + prefetcher_expected_bytes(prefetcher)) <= bytes;
}

/* The request for a row that is begun. */
static struct sluice_source_item item_of(const struct row *row, size_t ticket)
{
    const struct sluice_prefetcher *prefetcher = row->prefetcher;
    const struct sluice_epoch *epoch = &prefetcher->epoch;
    const enum sluice_form form =
        row->asks_file ? sluice_form_plain(SLUICE_KIND_FILE) : row->choice.form;
    return (struct sluice_source_item){
        .ticket = ticket,
        .key = {.seed = epoch->seed,
                .epoch = row->slot->batch.draw_epochs[row->index],
                .sample_id = row->sample_id,
                .schedule = epoch->schedule,
                .crop = row->crop,
                .bucket = row->slot->drawn_bucket},
        .path = sluice_manifest_at(epoch->manifest, row->sample_id).path,
        .file_bytes = sluice_manifest_at(epoch->manifest, row->sample_id).bytes,
        .split = row->choice.split,
        .form = form,
        .jpeg_crop_restart =
            row->choice.on_gpu && sluice_form_type(form)->is_window ? TUNING_GPU_RESTART : 0,
        .storage_worth = prefetcher->ask.storage_worth,
        .trace = row->trace ? row->trace->context : (struct sluice_trace_context){{0}, 0},
    };
}

bool prefetcher_ask_file(struct row *row)
{
    struct sluice_prefetcher *prefetcher = row->prefetcher;
    struct sluice_source *source = prefetcher->epoch.source;
    sluice_source_result_clear(&row->result);
    if (row->result.payload_bytes)
        source->consumed(source, row->result.origin, row->result.payload_bytes);
    pthread_mutex_lock(&prefetcher->lock);
    const bool is_running = prefetcher->is_running;
    if (is_running) {
        prefetcher->stats.payload_bytes += row->result.payload_bytes;
        /* It is in the sums of what is under way no longer but for its compute CPU. */
        row->expected.storage_s = row->expected.bytes = 0;
        row->asks_file = true;
        row->next_again = prefetcher->again;
        prefetcher->again = row;
        prefetcher->num_away++;
        pthread_cond_signal(&prefetcher->room);
        if (--prefetcher->num_rows_working == 0)
            pthread_cond_signal(&prefetcher->idle);
    }
    pthread_mutex_unlock(&prefetcher->lock);
    return is_running;
}

/* Under the lock: prepares the next item's row, and returns the request for it. */
static struct sluice_source_item begin_row(struct sluice_prefetcher *prefetcher, uint64_t now)
{
    const struct sluice_epoch *epoch = &prefetcher->epoch;
    const size_t item = prefetcher->next_item;
    const struct sluice_sampler_item *drawn = prefetcher_next_drawn(prefetcher);
    const size_t ticket = next_ticket(prefetcher);
    struct row *row = row_of(prefetcher, ticket);

    if (row->index == 0)
        prefetcher_begin_slot(prefetcher, row->slot);
    row->item = item;
    row->position = drawn->position;
    row->sample_id = epoch->ids[drawn->position];
    row->choice = prefetcher->ask.choice;
    row->crop = prefetcher->ask_crop;
    row->requested_ns = now;
    row->started_ns = row->cpu_ns = 0;
    row->result = (struct sluice_source_result){0};
    row->charged = prefetcher_expected_bytes(prefetcher);
    row->expected = prefetcher->ask.expected;
    row->error[0] = '\0';
    row->is_for_gpu = row->asks_file = false;
    free(row->trace);
    row->trace = NULL;
    if (prefetcher->options.tracer)
        prefetcher_begin_trace(row, drawn->draw_epoch);
    row->slot->batch.labels[row->index] = sluice_manifest_at(epoch->manifest, row->sample_id).label;
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
    if (++prefetcher->next_row == row->slot->batch.n) {
        prefetcher->next_batch++;
        prefetcher->next_row = 0;
    }
    prefetcher->has_ask = false;
    return item_of(row, ticket);
}

/* Under the lock. */
static bool has_more(const struct sluice_prefetcher *prefetcher)
{
    return prefetcher->is_running && !prefetcher->is_stopped && !prefetcher->has_failed &&
           prefetcher->next_item < prefetcher_items_left(prefetcher);
}

/* Under the lock: whether there may be more to request: further items, or files for JPEG rows that
 * could not be decoded. */
static bool may_ask(const struct sluice_prefetcher *prefetcher)
{
    return has_more(prefetcher) || (prefetcher->is_running && !prefetcher->is_stopped &&
                                    !prefetcher->has_failed && prefetcher->num_unfinished > 0);
}

/* Under the lock. */
static struct sluice_source_item take_again(struct sluice_prefetcher *prefetcher)
{
    struct row *row = prefetcher->again;
    prefetcher->again = row->next_again;
    return item_of(row, (size_t)row->result.ticket);
}

/* Draws what the next item's ops draw by its boxes. */
static void draw_crop(struct sluice_prefetcher *prefetcher)
{
    struct sluice_err err = {0};
    struct sluice_draw_key key;
    const sluice_status status =
        prefetcher_draw_key(&prefetcher->epoch, prefetcher_next_drawn(prefetcher), &key, &err);
    prefetcher->ask_crop = key.crop;
    if (status != SLUICE_OK)
        prefetcher_fail(prefetcher, status, err.text, false);
}

/* Gets the next item to request.  With `waits`, waits until the bounds allow one.  False: none may
 * be requested now, or the epoch needs no more. */
static bool take_next(struct sluice_prefetcher *prefetcher, bool waits,
                      struct sluice_source_item *item)
{
    if (!prefetcher->has_ask && prefetcher->next_item < prefetcher_items_left(prefetcher)) {
        const struct sluice_chooser *chooser = &prefetcher->epoch.chooser;
        prefetcher->ask =
            chooser->choose(chooser->ctx, prefetcher->epoch.first_item + prefetcher->next_item,
                            prefetcher_next_drawn(prefetcher), &prefetcher->seen_under_way);
        draw_crop(prefetcher);
        prefetcher->has_ask = true;
    }
    pthread_mutex_lock(&prefetcher->lock);
    while (waits && may_ask(prefetcher) && !prefetcher->again &&
           !(has_more(prefetcher) && has_room(prefetcher)))
        pthread_cond_wait(&prefetcher->room, &prefetcher->lock);
    const bool is_again = may_ask(prefetcher) && prefetcher->again;
    const bool is_taken = is_again || (has_more(prefetcher) && has_room(prefetcher));
    if (is_taken)
        *item = is_again ? take_again(prefetcher) : begin_row(prefetcher, sluice_clock_ns());
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
            prefetcher_fail(prefetcher, status, "the source of samples is closed", true);
    }
}

/* --- epochs --- */

static void set_running(struct sluice_prefetcher *prefetcher, bool is_running)
{
    pthread_mutex_lock(&prefetcher->lock);
    prefetcher->is_running = is_running;
    pthread_cond_broadcast(&prefetcher->room);
    pthread_mutex_unlock(&prefetcher->lock);
}

sluice_status sluice_prefetcher_start(struct sluice_prefetcher *prefetcher,
                                      const struct sluice_epoch *epoch, struct sluice_err *err)
{
    assert(!prefetcher->is_running && epoch->first_item % prefetcher->options.batch_size == 0);
    assert(!epoch->profile || prefetcher->options.measures_ops);
    assert(!epoch->batches || (epoch->first_item == 0 && !epoch->profile));
    /* A batch of the epoch before may still be held. */
    const sluice_status status = prefetcher_lend_current(prefetcher, err);
    if (status != SLUICE_OK)
        return status;
    prefetcher->epoch = *epoch;
    if (!sluice_pipeline_has_schedule(epoch->pipeline))
        prefetcher->epoch.schedule = 0; /* older servers take no other */
    prefetcher->stats = (struct sluice_epoch_stats){0};
    prefetcher->waited_ns = prefetcher->outside_since_ns = 0;
    memcpy(prefetcher->errors, epoch->errors_before, sizeof(prefetcher->errors));
    prefetcher->has_lost_source = false;
    prefetcher->needs_release = false;
    prefetcher->next_item = prefetcher->next_batch = prefetcher->next_row = 0;
    prefetcher->num_taken = prefetcher->num_released = 0;
    prefetcher->again = NULL;
    prefetcher->num_begun = prefetcher->kept_bytes = 0;
    prefetcher->num_away = prefetcher->num_unfinished = prefetcher->charged_bytes = 0;
    prefetcher->under_way = prefetcher->seen_under_way = (struct sluice_expected){0};
    prefetcher->has_ask = false;
    prefetcher->num_batches =
        epoch->batches ? epoch->num_batches
                       : (prefetcher_items_left(prefetcher) + prefetcher->options.batch_size - 1) /
                             prefetcher->options.batch_size;
    prefetcher->wire_bytes_before = epoch->source->wire_bytes(epoch->source);
    for (unsigned i = 0; i < prefetcher->options.num_slots; i++)
        prefetcher->slots[i].num_missing = 1;
    sluice_hasher_reset(prefetcher->chain);
    set_running(prefetcher, true);
    const int failed = pthread_create(&prefetcher->thread, NULL, prefetcher_main, prefetcher);
    if (failed) {
        set_running(prefetcher, false);
        return sluice_fail(err, SLUICE_E_IO, "cannot start the loader's thread: %s",
                           strerror(failed));
    }
    return SLUICE_OK;
}

struct sluice_epoch_stats sluice_prefetcher_finish(struct sluice_prefetcher *prefetcher)
{
    prefetcher_end_outside(prefetcher);
    set_running(prefetcher, false);
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

/* Clears the rest of an epoch that did not reach its end.  Under the lock, or when no other thread
 * is left. */
static void clear_slots(struct sluice_prefetcher *prefetcher)
{
    for (unsigned i = 0; prefetcher->slots && i < prefetcher->options.num_slots; i++) {
        struct slot *slot = &prefetcher->slots[i];
        for (unsigned k = 0; slot->rows && k < prefetcher->options.batch_size; k++)
            prefetcher_forget_file(&slot->rows[k]);
        prefetcher_give_memory_back(prefetcher, slot);
        if (slot->staging)
            sluice_gpu_staging_give(slot->staging);
        slot->staging = NULL;
        if (slot->block)
            sluice_gpu_block_give(slot->block);
        slot->block = NULL;
        slot->is_made = false;
        slot->kept_bytes = 0;
    }
    prefetcher_see_block(prefetcher);
}

void sluice_prefetcher_abandon(struct sluice_prefetcher *prefetcher)
{
    pthread_mutex_lock(&prefetcher->lock);
    assert(!prefetcher->is_running);
    while (prefetcher->num_rows_working > 0 || prefetcher->num_making > 0)
        pthread_cond_wait(&prefetcher->idle, &prefetcher->lock);
    clear_slots(prefetcher);
    prefetcher->has_failed = false;
    const size_t num_thrown_away = prefetcher->num_rows_ready;
    pthread_mutex_unlock(&prefetcher->lock);
    prefetcher_see_taken(prefetcher, num_thrown_away);
}

void sluice_prefetcher_stop(struct sluice_prefetcher *prefetcher)
{
    pthread_mutex_lock(&prefetcher->lock);
    prefetcher->is_stopped = true;
    pthread_cond_broadcast(&prefetcher->ready);
    pthread_cond_broadcast(&prefetcher->room);
    pthread_mutex_unlock(&prefetcher->lock);
}

/* --- the whole --- */

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
    sluice_status status =
        sluice_rows_init(&slot->batch, options->batch_size, &slot->layout, NULL, err);
    if (status == SLUICE_OK && options->geometry_views > 0)
        status = sluice_rows_add_geometry(&slot->batch, options->geometry_views, err);
    return status;
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
    pthread_cond_init(&prefetcher->makeable, NULL);
    const size_t usual_slots = options->usual_slots ? options->usual_slots : options->num_slots;
    const size_t usual_items = usual_slots * options->batch_size;
    prefetcher->depth.least = usual_items;
    prefetcher->depth.most = sluice_prefetcher_max_items(prefetcher);
    sluice_status status = SLUICE_OK;
    prefetcher->chain = sluice_hasher_create();
    prefetcher->slots = calloc(options->num_slots, sizeof(*prefetcher->slots));
    if (!prefetcher->chain || !prefetcher->slots)
        status =
            sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %u batches", options->num_slots);
    const struct sluice_batch_memory_options memory = {
        .count = options->num_slots,
        .bytes =
            options->batch_bytes ? options->batch_bytes : options->batch_size * options->row_bytes,
        /* So that the first epoch spends no more on page faults than later ones.  With a device few
         * rows may come here. */
        .bytes_ahead = options->gpu ? 0
                                    : options->row_bytes * (options->num_items < usual_items
                                                                ? options->num_items
                                                                : usual_items),
        .alloc = options->alloc,
        .free = options->free,
        .ctx = options->memory_ctx,
    };
    const struct sluice_held_home_options home = {
        .batch_size = options->batch_size,
        .geometry_views = options->geometry_views,
        .bytes = memory.bytes,
        .take_back = prefetcher_take_back,
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
    if (status == SLUICE_OK && options->gpu)
        status = prefetcher_start_lanes(prefetcher, err);
    if (status != SLUICE_OK) {
        sluice_prefetcher_destroy(prefetcher);
        return status;
    }
    sluice_held_home_take_place(prefetcher->home, options->gpu);
    *out = prefetcher;
    return SLUICE_OK;
}

void sluice_prefetcher_destroy(struct sluice_prefetcher *prefetcher)
{
    if (!prefetcher)
        return;
    sluice_held_home_close(prefetcher->home);
    sluice_held_release(prefetcher->spare);
    prefetcher_stop_lanes(prefetcher);
    sluice_worker_pool_destroy(prefetcher->workers, SLUICE_POOL_ABANDON);
    clear_slots(prefetcher);
    for (unsigned i = 0; prefetcher->slots && i < prefetcher->options.num_slots; i++) {
        sluice_rows_clear(&prefetcher->slots[i].batch);
        for (unsigned k = 0; prefetcher->slots[i].rows && k < prefetcher->options.batch_size; k++)
            free(prefetcher->slots[i].rows[k].trace);
        free(prefetcher->slots[i].rows);
    }
    sluice_batch_memory_clear(&prefetcher->memory);
    free(prefetcher->slots);
    sluice_hasher_destroy(prefetcher->chain);
    sluice_held_home_unref(prefetcher->home);
    pthread_cond_destroy(&prefetcher->makeable);
    pthread_cond_destroy(&prefetcher->idle);
    pthread_cond_destroy(&prefetcher->room);
    pthread_cond_destroy(&prefetcher->ready);
    pthread_mutex_destroy(&prefetcher->lock);
    free(prefetcher);
}
