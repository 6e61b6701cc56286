#include "compute_client/load/loader.h"

#include "base/clock.h"
#include "base/log.h"
#include "compute_client/load/loader_state.h"
#include "compute_client/load/retry.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most items in one request to the source. */
#define MAX_PER_REQUEST 64
/* Samples that are named when too many failed: so many fit a line. */
#define MAX_NAMES 4

static size_t items_left(const struct sluice_loader *loader)
{
    return loader->epoch.num_items - loader->epoch.first_item;
}

static struct slot *slot_of(struct sluice_loader *loader, size_t batch)
{
    return &loader->slots[batch % loader->options.num_slots];
}

static struct row *row_of(struct sluice_loader *loader, size_t item)
{
    const size_t batch = item / loader->options.batch_size;
    return &slot_of(loader, batch)->rows[item % loader->options.batch_size];
}

/* --- the source's events --- */

static void on_result(void *ctx, struct sluice_source_result *result)
{
    struct sluice_loader *loader = ctx;
    struct row *row = row_of(loader, (size_t)result->ticket);

    row->arrived_ns = sluice_clock_ns();
    row->result = *result;
    row->ops_done = result->sample.ops_done;
    result->sample = (struct sluice_sample){0};
    result->message = NULL;
    const bool is_good = row->result.status == SLUICE_OK;
    pthread_mutex_lock(&loader->lock);
    loader->num_away--;
    loader->under_way.storage_s -= row->expected.storage_s;
    loader->under_way.bytes -= row->expected.bytes;
    if (is_good) {
        loader->charged_bytes += row->result.payload_bytes - row->charged;
        row->charged = row->result.payload_bytes;
    }
    pthread_cond_signal(&loader->room);
    pthread_mutex_unlock(&loader->lock);
    if (!is_good) {
        memcpy(row->error, row->result.error, sizeof(row->error) - 1);
        loader_complete_row(row, row->result.status);
        return;
    }
    const sluice_status status = sluice_worker_pool_try_submit(loader->workers, &row->job);
    assert(status != SLUICE_E_AGAIN); /* the queue holds every row there is */
    if (status != SLUICE_OK)
        sluice_source_result_clear(&row->result);
}

static void fail(struct sluice_loader *loader, sluice_status status, const char *text)
{
    pthread_mutex_lock(&loader->lock);
    if (!loader->has_failed) {
        loader->has_failed = true;
        loader->failure = status;
        snprintf(loader->failure_text, sizeof(loader->failure_text), "%s", text);
    }
    pthread_cond_broadcast(&loader->ready);
    pthread_cond_broadcast(&loader->room);
    pthread_mutex_unlock(&loader->lock);
}

static void on_failed(void *ctx, sluice_status status, const char *text)
{
    fail(ctx, status, text);
}

struct sluice_source_events sluice_loader_events(struct sluice_loader *loader)
{
    return (struct sluice_source_events){
        .on_result = on_result,
        .on_failed = on_failed,
        .ctx = loader,
    };
}

size_t sluice_loader_max_items(const struct sluice_loader *loader)
{
    return (size_t)loader->options.num_slots * loader->options.batch_size;
}

/* --- prefetching --- */

static const struct sluice_sampler_item *next_drawn(const struct sluice_loader *loader)
{
    return &loader->epoch.items[loader->epoch.first_item + loader->next_item];
}

/* The expected payload of the next item, for the choice that was made for it. */
static size_t expected_bytes(const struct sluice_loader *loader)
{
    const struct sluice_epoch *epoch = &loader->epoch;
    const uint32_t sample_id = epoch->ids[next_drawn(loader)->position];
    return sluice_choice_bytes(epoch->pipeline, loader->ask.choice,
                               (size_t)epoch->manifest->entries[sample_id].bytes);
}

/* Under the lock: whether the next item may be requested. */
static bool has_room(const struct sluice_loader *loader)
{
    const size_t depth = sluice_prefetch_depth_items(&loader->depth);
    if (loader->next_item >= loader->num_released * loader->options.batch_size + depth)
        return false;
    if (loader->num_away > 0 && loader->num_away >= loader->ask.max_away)
        return false;
    if (loader->num_unfinished > 0 && loader->num_unfinished >= loader->ask.max_unfinished)
        return false;
    const double bytes =
        (double)loader->options.payload_bytes * (double)depth / (double)loader->depth.most;
    return loader->charged_bytes == 0 ||
           (double)(loader->charged_bytes + expected_bytes(loader)) <= bytes;
}

/* Under the lock: prepares the next item's row, and returns the request for it. */
static struct sluice_source_item begin_row(struct sluice_loader *loader, uint64_t now)
{
    const struct sluice_epoch *epoch = &loader->epoch;
    const size_t item = loader->next_item;
    const struct sluice_sampler_item *drawn = next_drawn(loader);
    struct row *row = row_of(loader, item);

    if (row->index == 0) {
        const size_t left = items_left(loader) - item;
        struct slot *slot = row->slot;
        slot->batch.n =
            left < loader->options.batch_size ? (unsigned)left : loader->options.batch_size;
        slot->num_missing = slot->batch.n;
        slot->last = NULL;
    }
    row->position = drawn->position;
    row->sample_id = epoch->ids[drawn->position];
    row->choice = loader->ask.choice;
    row->requested_ns = now;
    row->started_ns = row->cpu_ns = 0;
    row->result = (struct sluice_source_result){0};
    row->charged = expected_bytes(loader);
    row->expected = loader->ask.expected;
    row->error[0] = '\0';
    row->slot->batch.labels[row->index] = epoch->manifest->entries[row->sample_id].label;
    loader->charged_bytes += row->charged;
    loader->num_away++;
    loader->num_unfinished++;
    loader->under_way.storage_s += row->expected.storage_s;
    loader->under_way.bytes += row->expected.bytes;
    loader->under_way.compute_s += row->expected.compute_s;
    loader->seen_under_way = loader->under_way;
    loader->next_item++;
    loader->has_ask = false;
    return (struct sluice_source_item){
        .ticket = item,
        .key = {.seed = epoch->seed, .epoch = drawn->draw_epoch, .sample_id = row->sample_id},
        .path = epoch->manifest->entries[row->sample_id].path,
        .file_bytes = epoch->manifest->entries[row->sample_id].bytes,
        .split = row->choice.split,
        .form = (enum sluice_form)row->choice.form,
        .storage_worth = loader->ask.storage_worth,
    };
}

/* Under the lock. */
static bool has_more(const struct sluice_loader *loader)
{
    return loader->is_running && !loader->is_stopped && !loader->has_failed &&
           loader->next_item < items_left(loader);
}

/* Gets the next item to request.  With `waits`, waits until the bounds allow one.  False: none may
 * be requested now, or the epoch has no more. */
static bool take_next(struct sluice_loader *loader, bool waits, struct sluice_source_item *item)
{
    if (!loader->has_ask && loader->next_item < items_left(loader)) {
        const struct sluice_chooser *chooser = &loader->epoch.chooser;
        loader->ask = chooser->choose(chooser->ctx, loader->epoch.first_item + loader->next_item,
                                      next_drawn(loader), &loader->seen_under_way);
        loader->has_ask = true;
    }
    pthread_mutex_lock(&loader->lock);
    while (waits && has_more(loader) && !has_room(loader))
        pthread_cond_wait(&loader->room, &loader->lock);
    const bool is_taken = has_more(loader) && has_room(loader);
    if (is_taken)
        *item = begin_row(loader, sluice_clock_ns());
    pthread_mutex_unlock(&loader->lock);
    return is_taken;
}

static void *loader_main(void *ctx)
{
    struct sluice_loader *loader = ctx;
    struct sluice_source *source = loader->epoch.source;
    struct sluice_source_item items[MAX_PER_REQUEST];

    for (;;) {
        size_t count = 0;
        while (count < MAX_PER_REQUEST && take_next(loader, count == 0, &items[count]))
            count++;
        if (count == 0)
            return NULL;
        const sluice_status status = source->request(source, items, count);
        if (status != SLUICE_OK)
            fail(loader, status, "the source of samples is closed");
    }
}

/* --- the trainer's side --- */

/* Attributes the wait [from, to) for the batch; `row` is the row that made it ready. */
static void attribute_wait(struct sluice_loader *loader, struct sluice_batch *batch,
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
        .is_local = loader->epoch.source->is_local,
    };
    sluice_stall_attribute(&times, from, to, batch->stall_ns);
    for (int i = 0; i < SLUICE_NUM_RESOURCES; i++) {
        loader->stats.stall_ns[i] += batch->stall_ns[i];
        if (loader->options.live)
            sluice_live_add(&loader->options.live->stall_ns[i], batch->stall_ns[i]);
    }
}

/* Fails if more samples than allowed failed with one status: "41 not found, 3 corrupt; ...". */
static sluice_status check_max_errors(struct sluice_loader *loader, struct sluice_err *err)
{
    const struct sluice_epoch *epoch = &loader->epoch;
    const struct sluice_epoch_stats *stats = &loader->stats;
    bool is_over = false, is_over_by_data = false;
    char counts[200] = "", names[300] = "";
    for (size_t status = 0; status < SLUICE_NUM_STATUS; status++) {
        if (loader->errors[status] == 0)
            continue;
        if (loader->errors[status] > epoch->max_errors) {
            is_over = true;
            is_over_by_data |= !sluice_retry_is_worth((sluice_status)status);
        }
        const size_t used = strlen(counts);
        snprintf(counts + used, sizeof(counts) - used, "%s%llu %s", used ? ", " : "",
                 (unsigned long long)loader->errors[status],
                 sluice_status_name((sluice_status)status));
    }
    if (!epoch->has_max_errors || !is_over)
        return SLUICE_OK;
    loader->has_lost_source = !is_over_by_data;
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
static sluice_status note_errors(struct sluice_loader *loader, struct slot *slot,
                                 struct sluice_err *err)
{
    struct sluice_epoch_stats *stats = &loader->stats;
    for (unsigned i = 0; i < slot->batch.n; i++) {
        const struct row *row = &slot->rows[i];
        const sluice_status status = slot->batch.status[i];
        if (status == SLUICE_OK)
            continue;
        const char *path = loader->epoch.manifest->entries[row->sample_id].path;
        if (loader->options.on_error == SLUICE_ON_ERROR_FAIL)
            return sluice_fail(err, status, "sample %u (%s) is %s: %s", row->sample_id, path,
                               sluice_status_name(status), row->error);
        stats->errors++;
        loader->errors[status]++;
        if (loader->options.live) {
            sluice_live_add(&loader->options.live->errors, 1);
            sluice_live_add(&loader->options.live->failed[status], 1);
        }
        if (stats->num_named < SLUICE_LOADER_MAX_NAMED_ERRORS) {
            struct sluice_loader_error *named = &stats->named[stats->num_named++];
            named->sample_id = row->sample_id;
            named->status = status;
            memcpy(named->text, row->error, sizeof(named->text));
        }
        sluice_log(SLUICE_LOG_WARN, "sample %u (%s) is %s: %s", row->sample_id, path,
                   sluice_status_name(status), row->error);
    }
    return check_max_errors(loader, err);
}

/* Under the lock: the trainer waits for a batch from now on, or no longer. */
static void show_wait(const struct sluice_loader *loader, uint64_t since_ns)
{
    if (loader->options.live)
        sluice_live_set(&loader->options.live->waits_since_ns, since_ns);
}

sluice_status sluice_loader_next(struct sluice_loader *loader, const struct sluice_batch **batch,
                                 struct sluice_err *err)
{
    assert(loader->num_taken == loader->num_released); /* one batch at a time */
    while (loader->num_taken < loader->num_batches) {
        struct slot *slot = slot_of(loader, loader->num_taken);
        const uint64_t from = sluice_clock_ns();
        bool has_waited = false;

        pthread_mutex_lock(&loader->lock);
        /* A slot in which no row has begun also has num_missing > 0: release() sets it. */
        while (slot->num_missing > 0 && !loader->is_stopped && !loader->has_failed) {
            if (!has_waited)
                show_wait(loader, from);
            has_waited = true;
            pthread_cond_wait(&loader->ready, &loader->lock);
        }
        if (has_waited)
            show_wait(loader, 0);
        const bool is_ready = slot->num_missing == 0;
        const bool is_stopped = loader->is_stopped;
        pthread_mutex_unlock(&loader->lock);

        if (is_stopped)
            return sluice_fail(err, SLUICE_E_CLOSED, "stopped");
        if (!is_ready) {
            loader->has_lost_source = true;
            return sluice_fail(err, loader->failure, "%s", loader->failure_text);
        }
        const uint64_t now = sluice_clock_ns();
        memset(slot->batch.stall_ns, 0, sizeof(slot->batch.stall_ns));
        if (has_waited)
            attribute_wait(loader, &slot->batch, slot->last, from, now);
        const struct sluice_chooser *chooser = &loader->epoch.chooser;
        if (chooser->on_batch)
            chooser->on_batch(chooser->ctx, slot->batch.n, has_waited ? now - from : 0, now);
        loader->num_taken++;
        const sluice_status status = note_errors(loader, slot, err);
        if (status != SLUICE_OK) {
            loader->num_taken--; /* it was not delivered */
            return status;
        }
        if (loader->options.live)
            sluice_live_add(&loader->options.live->taken, slot->batch.n);
        sluice_batch_settle(&slot->batch, loader->options.on_error);
        if (slot->batch.n == 0) {
            sluice_loader_release(loader);
            continue;
        }
        if (loader->options.has_digest) {
            for (unsigned i = 0; i < slot->batch.n; i++)
                sluice_digest_chain(loader->chain, slot->batch.hashes[i]);
        }
        loader->stats.samples += slot->batch.n;
        if (loader->options.live)
            sluice_live_add(&loader->options.live->samples, slot->batch.n);
        *batch = &slot->batch;
        return SLUICE_OK;
    }
    *batch = NULL;
    return SLUICE_OK;
}

/* Under the lock, or when nobody else is left. */
static void give_memory_back(struct sluice_loader *loader, struct slot *slot)
{
    if (slot->batch.pixels)
        sluice_batch_memory_give(&loader->memory, slot->batch.pixels);
    slot->batch.pixels = NULL;
}

void sluice_loader_release(struct sluice_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    struct slot *slot = slot_of(loader, loader->num_released);
    slot->num_missing = 1; /* not ready until it is filled */
    give_memory_back(loader, slot);
    loader->num_released++;
    sluice_prefetch_depth_see(&loader->depth, loader->options.batch_size, sluice_clock_ns());
    pthread_cond_signal(&loader->room);
    pthread_mutex_unlock(&loader->lock);
}

size_t sluice_loader_position(const struct sluice_loader *loader)
{
    return loader->num_taken;
}

const uint64_t *sluice_loader_errors(const struct sluice_loader *loader)
{
    return loader->errors;
}

bool sluice_loader_has_lost_source(const struct sluice_loader *loader)
{
    return loader->has_lost_source;
}

sluice_status sluice_loader_start(struct sluice_loader *loader, const struct sluice_epoch *epoch,
                                  struct sluice_err *err)
{
    assert(!loader->is_running && epoch->first_item % loader->options.batch_size == 0);
    assert(!epoch->profile || loader->options.measures_ops);
    loader->epoch = *epoch;
    loader->stats = (struct sluice_epoch_stats){0};
    memcpy(loader->errors, epoch->errors_before, sizeof(loader->errors));
    loader->has_lost_source = false;
    loader->next_item = loader->num_taken = loader->num_released = 0;
    loader->num_away = loader->num_unfinished = loader->charged_bytes = 0;
    loader->under_way = loader->seen_under_way = (struct sluice_expected){0};
    loader->has_ask = false;
    loader->num_batches =
        (items_left(loader) + loader->options.batch_size - 1) / loader->options.batch_size;
    loader->wire_bytes_before = epoch->source->wire_bytes(epoch->source);
    for (unsigned i = 0; i < loader->options.num_slots; i++)
        loader->slots[i].num_missing = 1;
    sluice_hasher_reset(loader->chain);
    loader->is_running = true;
    const int failed = pthread_create(&loader->thread, NULL, loader_main, loader);
    if (failed) {
        loader->is_running = false;
        return sluice_fail(err, SLUICE_E_IO, "cannot start the loader's thread: %s",
                           strerror(failed));
    }
    return SLUICE_OK;
}

struct sluice_epoch_stats sluice_loader_finish(struct sluice_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    loader->is_running = false;
    pthread_cond_broadcast(&loader->room);
    pthread_mutex_unlock(&loader->lock);
    pthread_join(loader->thread, NULL);

    pthread_mutex_lock(&loader->lock);
    struct sluice_epoch_stats stats = loader->stats;
    pthread_mutex_unlock(&loader->lock);
    struct sluice_source *source = loader->epoch.source;
    stats.wire_bytes = source->wire_bytes(source) - loader->wire_bytes_before;
    if (loader->options.has_digest)
        sluice_hash128_hex(sluice_hasher_digest(loader->chain), stats.digest);
    return stats;
}

void sluice_loader_stop(struct sluice_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    loader->is_stopped = true;
    pthread_cond_broadcast(&loader->ready);
    pthread_cond_broadcast(&loader->room);
    pthread_mutex_unlock(&loader->lock);
}

static sluice_status slot_init(struct sluice_loader *loader, size_t index, struct sluice_err *err)
{
    const struct sluice_loader_options *options = &loader->options;
    struct slot *slot = &loader->slots[index];
    slot->rows = calloc(options->batch_size, sizeof(*slot->rows));
    if (!slot->rows)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a batch");
    for (unsigned i = 0; i < options->batch_size; i++) {
        slot->rows[i].job.fn = loader_row_job;
        slot->rows[i].loader = loader;
        slot->rows[i].slot = slot;
        slot->rows[i].index = i;
    }
    return sluice_batch_init(&slot->batch, options->batch_size, options->row_bytes, NULL, err);
}

sluice_status sluice_loader_create(const struct sluice_loader_options *options,
                                   struct sluice_loader **out, struct sluice_err *err)
{
    assert(options->num_slots >= 2 && options->batch_size >= 1 && options->num_workers >= 1);
    assert(options->usual_slots <= options->num_slots && options->usual_slots != 1);
    struct sluice_loader *loader = calloc(1, sizeof(*loader));
    if (!loader)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a loader");
    loader->options = *options;
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->ready, NULL);
    pthread_cond_init(&loader->room, NULL);
    const size_t usual_slots = options->usual_slots ? options->usual_slots : options->num_slots;
    const size_t usual_items = usual_slots * options->batch_size;
    loader->depth.least = usual_items;
    loader->depth.most = sluice_loader_max_items(loader);
    sluice_status status = sluice_hasher_create(&loader->chain, err);
    loader->slots = calloc(options->num_slots, sizeof(*loader->slots));
    if (status == SLUICE_OK && !loader->slots)
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
    if (status == SLUICE_OK)
        status = sluice_batch_memory_init(&loader->memory, &memory, err);
    for (unsigned i = 0; status == SLUICE_OK && i < options->num_slots; i++)
        status = slot_init(loader, i, err);
    if (status == SLUICE_OK) {
        const struct sluice_worker_pool_options workers = {
            .name = "prep",
            .num_workers = options->num_workers,
            .queue_capacity = sluice_loader_max_items(loader),
            .worker_start = loader_worker_start,
            .worker_stop = loader_worker_stop,
            .ctx = loader,
        };
        status = sluice_worker_pool_create(&workers, &loader->workers, err);
    }
    if (status != SLUICE_OK) {
        sluice_loader_destroy(loader);
        return status;
    }
    *out = loader;
    return SLUICE_OK;
}

void sluice_loader_destroy(struct sluice_loader *loader)
{
    if (!loader)
        return;
    sluice_worker_pool_destroy(loader->workers, SLUICE_POOL_ABANDON);
    for (unsigned i = 0; loader->slots && i < loader->options.num_slots; i++) {
        struct slot *slot = &loader->slots[i];
        /* Results that an epoch left behind if it did not reach its end. */
        for (unsigned k = 0; slot->rows && k < loader->options.batch_size; k++)
            sluice_source_result_clear(&slot->rows[k].result);
        give_memory_back(loader, slot);
        sluice_batch_clear(&slot->batch);
        free(slot->rows);
    }
    sluice_batch_memory_clear(&loader->memory);
    free(loader->slots);
    sluice_hasher_destroy(loader->chain);
    pthread_cond_destroy(&loader->room);
    pthread_cond_destroy(&loader->ready);
    pthread_mutex_destroy(&loader->lock);
    free(loader);
}
