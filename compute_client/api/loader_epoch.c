#include "compute_client/api/loader_state.h"

#include "base/clock.h"
#include "base/hash.h"
#include "compute_client/loader/order/sampler.h"
#include "lib/base/process.h"

#include <stdlib.h>
#include <string.h>

/* --- the items of an epoch --- */

static struct sluice_sampler_item *alloc_items(size_t count, struct sluice_err *err)
{
    struct sluice_sampler_item *items = malloc((count + 1) * sizeof(*items));
    if (!items)
        (void)sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an epoch of %zu samples", count);
    return items;
}

static struct sluice_sampler sampler_of(const struct sluice_loader *loader, enum sluice_part part)
{
    const struct sluice_options *o = &loader->options;
    const bool is_training = part == SLUICE_TRAIN;
    return (struct sluice_sampler){
        .seed = o->seed,
        .num_samples = (uint32_t)(is_training ? &loader->train : &loader->val)->num_ids,
        .repeat = is_training ? (uint32_t)o->repeat : 1,
        .copies = is_training ? (uint32_t)o->repeat_within_batch : 1,
        .is_shuffled = is_training && o->is_shuffled,
        .ranges = loader->ranges,
        .num_ranges = is_training ? loader->num_ranges : 0,
        .shard_ends = loader->shard_ends,
        .num_shards = loader->num_shards,
        .num_mixed = is_training ? (uint32_t)o->shuffle_shards : 0,
    };
}

/* Items of an epoch of the loader's own order, of all ranks.  0 also if there are too many, which
 * draw() says. */
static uint64_t total_of(const struct sluice_loader *loader, enum sluice_part part)
{
    const struct sluice_sampler sampler = sampler_of(loader, part);
    size_t count = 0;
    return sluice_sampler_count(&sampler, 0, &count, NULL) == SLUICE_OK ? count : 0;
}

uint64_t sluice_loader_num_batches(const struct sluice_loader *loader, enum sluice_part part)
{
    const struct part *of = loader_const_part(loader, part);
    if (of->num_buckets > 0)
        return of->num_batches;
    return sluice_order_num_batches(&loader->order, total_of(loader, part), 0);
}

/* The sampler's order of an epoch, which the caller frees. */
static sluice_status sample(const struct sluice_loader *loader, enum sluice_part part,
                            uint64_t epoch, struct sluice_sampler_item **items, size_t *total,
                            struct sluice_err *err)
{
    const struct sluice_sampler sampler = sampler_of(loader, part);
    sluice_status status = sluice_sampler_count(&sampler, epoch, total, err);
    if (status != SLUICE_OK)
        return status;
    *items = alloc_items(*total, err);
    if (!*items)
        return SLUICE_E_NO_MEMORY;
    status = sluice_sampler_fill(&sampler, (uint32_t)epoch, *items, err);
    if (status != SLUICE_OK)
        free(*items);
    return status;
}

sluice_status loader_count_batches(struct sluice_loader *loader, enum sluice_part part,
                                   struct sluice_err *err)
{
    struct part *of = loader_part(loader, part);
    struct sluice_bucket_order order;
    struct sluice_sampler_item *all;
    size_t total;
    if (of->num_buckets == 0 || of->num_ids == 0)
        return SLUICE_OK;
    sluice_status status = sample(loader, part, 0, &all, &total, err);
    if (status != SLUICE_OK)
        return status;
    status = loader_order_buckets(loader, part, 0, all, total, 0, &order, err);
    free(all);
    if (status != SLUICE_OK)
        return status;
    of->num_batches = order.num_batches;
    sluice_bucket_order_clear(&order);
    return SLUICE_OK;
}

/* This rank's rows of all[0 .. total), which it frees or keeps. */
static sluice_status take_rows(struct sluice_loader *loader, struct sluice_sampler_item *all,
                               struct sluice_err *err)
{
    const uint64_t cursor = loader->start.cursor, total = loader->total;
    loader->num_items = (size_t)sluice_order_num_items(&loader->order, total, cursor);
    loader->num_padded = sluice_order_num_padded(&loader->order, total, cursor);
    if (loader->order.world_size == 1) { /* what is left of the order, as it is */
        memmove(all, all + cursor, loader->num_items * sizeof(*all));
        loader->items = all;
        return SLUICE_OK;
    }
    loader->items = alloc_items(loader->num_items, err);
    if (loader->items)
        sluice_order_fill(&loader->order, all, total, cursor, loader->items);
    free(all);
    return loader->items ? SLUICE_OK : SLUICE_E_NO_MEMORY;
}

/* This rank's rows, by the loader's own sampler. */
static sluice_status draw(struct sluice_loader *loader, struct sluice_err *err)
{
    const enum sluice_part part = (enum sluice_part)loader->start.part;
    struct sluice_sampler_item *all;
    size_t total;
    sluice_status status = sample(loader, part, loader->start.epoch, &all, &total, err);
    if (status != SLUICE_OK)
        return status;
    loader->total = total;
    if (loader->part->num_buckets == 0) {
        status = sluice_order_check_cursor(&loader->order, total, loader->start.cursor, err);
        if (status == SLUICE_OK)
            return take_rows(loader, all, err);
        free(all);
        return status;
    }
    status = loader_order_buckets(loader, part, loader->start.epoch, all, total,
                                  loader->start.cursor, &loader->buckets, err);
    free(all);
    if (status != SLUICE_OK)
        return status;
    loader->items = loader->buckets.items;
    loader->buckets.items = NULL;
    loader->num_items = loader->buckets.num_items;
    loader->num_padded = 0;
    return SLUICE_OK;
}

/* The caller's order, from the cursor on; all of it is this rank's. */
static sluice_status take_order(struct sluice_loader *loader,
                                const struct sluice_epoch_start *start, struct sluice_err *err)
{
    const size_t num_ids = loader->part->num_ids;
    const uint64_t cursor = loader->start.cursor;
    if (loader->part->num_buckets > 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "an order of the caller's has no buckets, and the pipeline has, by "
                           "fit_bucket or multi_scale: leave the order out");
    if (cursor > start->num_order || start->num_order > UINT32_MAX)
        return sluice_fail(err, SLUICE_E_INVALID, "the state stands at %llu of an order of %zu",
                           (unsigned long long)cursor, start->num_order);
    for (size_t i = 0; i < start->num_order; i++) {
        if (start->order[i] >= num_ids)
            return sluice_fail(
                err, SLUICE_E_INVALID, "place %zu of the order is %llu: %s has samples 0 to %zu", i,
                (unsigned long long)start->order[i], loader->part->name, num_ids - 1);
    }
    const size_t count = start->num_order - (size_t)cursor;
    loader->items = alloc_items(count, err);
    if (!loader->items)
        return SLUICE_E_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        loader->items[i] = (struct sluice_sampler_item){
            .position = (uint32_t)start->order[(size_t)cursor + i],
            .draw_epoch = (uint32_t)loader->start.epoch,
        };
    loader->num_items = count;
    loader->total = start->num_order;
    loader->num_padded = 0;
    return SLUICE_OK;
}

/* --- where it begins --- */

struct sluice_state loader_state_at(const struct sluice_loader *loader, enum sluice_part part,
                                    uint64_t epoch)
{
    struct sluice_state state = {
        .seed = loader->options.seed,
        .epoch = epoch,
        .global_batch = loader->options.batch_size * loader->options.world_size,
        .repeat = part == SLUICE_TRAIN ? loader->options.repeat : 1,
        .copies = part == SLUICE_TRAIN ? (uint32_t)loader->options.repeat_within_batch : 1,
        .num_samples = loader->dataset.num_samples[part],
        .part = (uint32_t)part,
        .pipeline = loader->dataset.pipeline_fingerprint[part],
    };
    memcpy(state.dataset_id, loader->dataset_id, sizeof(state.dataset_id));
    if (part == SLUICE_TRAIN && loader->mix.num > 0) {
        memcpy(state.mix, loader->mix.text, sizeof(state.mix));
        state.num_items = total_of(loader, part);
    }
    if (part == SLUICE_TRAIN && loader->options.is_shuffled)
        state.num_mixed = (uint32_t)loader->options.shuffle_shards;
    state.num_buckets = loader_const_part(loader, part)->num_buckets;
    return state;
}

/* The start of the epoch, from the caller's fields or its state. */
static sluice_status find_start(const struct sluice_loader *loader,
                                const struct sluice_epoch_start *start, struct sluice_state *found,
                                struct sluice_err *err)
{
    struct sluice_state saved = {.part = (uint32_t)start->part, .epoch = start->epoch};
    if (start->state) {
        const sluice_status status = sluice_state_read(start->state, &saved, err);
        if (status != SLUICE_OK)
            return status;
    }
    if (saved.part > SLUICE_VAL)
        return sluice_fail(err, SLUICE_E_INVALID, "%u is no part of a dataset", saved.part);
    struct sluice_state now = loader_state_at(loader, (enum sluice_part)saved.part, saved.epoch);
    uint32_t world_size = (uint32_t)loader->options.world_size;
    if (start->order) {
        now.has_order = true;
        now.mix[0] = '\0'; /* of the loader's own order */
        now.num_mixed = 0;
        now.copies = 1;
        now.num_buckets = 0;
        now.order_hash = sluice_hash128(start->order, start->num_order * sizeof(*start->order)).low;
        now.global_batch = loader->options.batch_size;
        world_size = 1;
    }
    if (start->state) {
        const sluice_status status = sluice_state_check(&saved, &now, world_size, err);
        if (status != SLUICE_OK)
            return status;
        now.cursor = saved.cursor;
        now.batch = saved.batch;
        memcpy(now.errors, saved.errors, sizeof(now.errors));
    }
    *found = now;
    return SLUICE_OK;
}

sluice_status sluice_loader_check_state(const struct sluice_loader *loader, const char *state,
                                        struct sluice_err *err)
{
    struct sluice_state unused;
    const struct sluice_epoch_start start = {.state = state};
    return find_start(loader, &start, &unused, err);
}

/* --- start --- */

/* Training needs a plan for both parts, an evaluation one for val. */
static sluice_status plan(struct sluice_loader *loader, enum sluice_part part,
                          struct sluice_err *err)
{
    const bool for_training = part == SLUICE_TRAIN;
    sluice_status status = SLUICE_OK;
    if (!loader->is_planned[part])
        status = loader_choose(loader, for_training, err);
    if (status == SLUICE_OK)
        loader->is_planned[part] = loader->is_planned[SLUICE_VAL] = true;
    if (status == SLUICE_OK && !loader->prefetcher)
        status = loader_make_prefetcher(loader, total_of(loader, SLUICE_TRAIN), err);
    if (status == SLUICE_OK && for_training && loader->options.is_profiling &&
        !loader->profile.rows)
        status = loader_profile_begin(loader, err);
    return status;
}

/* Batches and rows of the epoch before its start. */
static uint64_t batches_before(const struct sluice_loader *loader)
{
    return loader->part->num_buckets > 0 ? loader->buckets.batches_before
                                         : loader->start.cursor / loader->start.global_batch;
}

static void show(struct sluice_loader *loader)
{
    const uint64_t before = loader->part->num_buckets > 0
                                ? loader->buckets.rows_before
                                : batches_before(loader) * loader->options.batch_size;
    if (loader->start.part == SLUICE_TRAIN && loader->options.is_profiling)
        loader_profile_show(loader, loader->num_items);
    else
        loader_show(loader, &(struct sluice_loader_pass){.first = before,
                                                         .total = before + loader->num_items});
}

static sluice_status begin(struct sluice_loader *loader, struct sluice_err *err)
{
    const struct sluice_options *o = &loader->options;
    struct part *part = loader->part;
    const bool is_training = loader->start.part == SLUICE_TRAIN;
    sluice_status status = loader_make_source(loader, part, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_chooser chooser = sluice_chooser_fixed(part->choices);
    if (is_training && loader->replan && loader->num_items > 0) {
        const struct sluice_plan_epoch epoch = {
            .pipeline = part->pipeline,
            .manifest = loader->manifest,
            .ids = part->ids,
            .seed = o->seed,
            .schedule = (uint32_t)loader->start.epoch,
            .items = loader->items,
            .num_items = loader->num_items,
            .is_brief = loader->start.has_order,
        };
        status = sluice_replan_begin(loader->replan, &epoch, &chooser, err);
        if (status != SLUICE_OK)
            return status;
    }
    struct sluice_epoch epoch = {
        .source = part->source,
        .pipeline = part->pipeline,
        .manifest = loader->manifest,
        .ids = part->ids,
        .sizes = part->sizes,
        .chooser = chooser,
        .seed = o->seed,
        .schedule = (uint32_t)loader->start.epoch,
        .items = loader->items,
        .num_items = loader->num_items,
        .num_padded = loader->num_padded,
        .batches = loader->buckets.batches,
        .num_batches = loader->buckets.num_batches,
        .profile = is_training && o->is_profiling ? &loader->profile : NULL,
        .has_max_errors = true,
        .max_errors = sluice_options_max_errors(o, loader->total / o->world_size),
    };
    memcpy(epoch.errors_before, loader->start.errors, sizeof(epoch.errors_before));
    return sluice_prefetcher_start(loader->prefetcher, &epoch, err);
}

sluice_status sluice_loader_start(struct sluice_loader *loader,
                                  const struct sluice_epoch_start *start, struct sluice_err *err)
{
    sluice_status status = sluice_process_check(loader->owner, "loader", err);
    if (status == SLUICE_OK && !loader->is_open)
        status = sluice_fail(err, SLUICE_E_INVALID, "the loader is not open");
    if (status == SLUICE_OK && loader_is_stopped(loader))
        status = sluice_fail(err, SLUICE_E_CLOSED, "stopped");
    if (status != SLUICE_OK)
        return status;
    sluice_loader_finish(loader);
    struct sluice_state at;
    status = find_start(loader, start, &at, err);
    if (status != SLUICE_OK)
        return status;
    struct part *part = loader_part(loader, (enum sluice_part)at.part);
    if (part->num_ids == 0)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "the dataset has no %s samples", part->name);
    loader->started_cpu_ns = sluice_process_cpu_ns();
    status = plan(loader, (enum sluice_part)at.part, err);
    if (status != SLUICE_OK)
        return status;
    loader->part = part;
    loader->start = loader->now = at;
    loader->has_lost_source = false;
    loader->given_ns = 0;
    free(loader->items);
    loader->items = NULL;
    loader->num_items = 0;
    sluice_bucket_order_clear(&loader->buckets);
    status = start->order ? take_order(loader, start, err) : draw(loader, err);
    if (status == SLUICE_OK)
        status = loader_check_batches(loader, loader->items, loader->num_items, err);
    if (status == SLUICE_OK && at.part == SLUICE_TRAIN && loader->options.is_profiling)
        loader_profile_pick(loader);
    if (status == SLUICE_OK)
        status = begin(loader, err);
    if (status != SLUICE_OK)
        return status;
    loader->num_batches =
        part->num_buckets > 0
            ? loader->buckets.num_batches
            : (loader->num_items + loader->options.batch_size - 1) / loader->options.batch_size;
    loader_stats_begin(loader);
    loader->is_running = true;
    show(loader);
    return SLUICE_OK;
}

/* --- batches --- */

/* The private part of struct sluice_batch. */
struct held_batch {
    struct sluice_batch batch; /* first */
    struct sluice_held *held;
    struct sluice_state after;
    struct sluice_row_layout layout; /* a copy: the loader may be closed */
    unsigned capacity;
};

/* The state after this number of batches of the epoch. */
static struct sluice_state state_after(const struct sluice_loader *loader, uint64_t batches,
                                       const uint64_t *errors)
{
    struct sluice_state state = loader->start;
    const uint64_t items = batches * loader->options.batch_size;
    if (state.num_buckets > 0) {
        state.cursor = loader->buckets.cursors[batches];
        state.batch = (uint32_t)(loader->buckets.batches_before + batches);
    } else if (!state.has_order)
        state.cursor =
            sluice_order_cursor(&loader->order, loader->total, loader->start.cursor, batches);
    else
        state.cursor += items < loader->num_items ? items : loader->num_items;
    memcpy(state.errors, errors, sizeof(state.errors));
    return state;
}

/* The caller is done with the batch before. */
static void note_done(struct sluice_loader *loader)
{
    if (!loader->given_ns)
        return;
    sluice_live_add(&loader->live.stall_ns[SLUICE_GPU], sluice_clock_ns() - loader->given_ns);
    sluice_live_add(&loader->live.batches, 1);
    loader->given_ns = 0;
}

/* Ends the prefetcher's epoch, and stores its statistics. */
static void end_epoch(struct sluice_loader *loader, bool is_whole)
{
    note_done(loader);
    const struct sluice_epoch_stats stats = sluice_prefetcher_finish(loader->prefetcher);
    loader->is_running = false;
    if (is_whole) {
        loader->now =
            loader_state_at(loader, (enum sluice_part)loader->start.part, loader->start.epoch + 1);
    } else {
        struct part *part = loader->part;
        part->source->close(part->source);
        sluice_prefetcher_abandon(loader->prefetcher);
        part->source->destroy(part->source);
        part->source = NULL;
    }
    loader_stats_end(loader, &stats, is_whole);
}

static sluice_status wrap(struct sluice_loader *loader, struct sluice_held *held,
                          const struct sluice_batch **batch, struct sluice_err *err)
{
    struct held_batch *made = malloc(sizeof(*made));
    if (!made) {
        sluice_held_release(held);
        end_epoch(loader, false); /* or it would go on without this batch */
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a batch");
    }
    *made = (struct held_batch){
        .batch =
            {
                .pixels = held->pixels,
                .labels = held->labels,
                .ids = held->ids,
                .draw_epochs = held->draw_epochs,
                .num_rows = held->num_rows,
                .height = held->layout.views[0].height,
                .width = held->layout.views[0].width,
                .num_padded = held->num_padded,
                .epoch = loader->start.epoch,
                .index = batches_before(loader) + held->index,
            },
        .held = held,
        .after = state_after(loader, held->index + 1, held->errors),
        .layout = held->layout,
        .capacity = (unsigned)loader->options.batch_size,
    };
    memcpy(made->batch.wait_ns, held->stall_ns, sizeof(made->batch.wait_ns));
    loader->now = made->after;
    loader->given_ns = sluice_clock_ns();
    *batch = &made->batch;
    return SLUICE_OK;
}

sluice_status sluice_loader_next(struct sluice_loader *loader, int timeout_ms,
                                 const struct sluice_batch **batch, struct sluice_err *err)
{
    sluice_status status = sluice_process_check(loader->owner, "loader", err);
    if (status != SLUICE_OK)
        return status;
    if (!loader->is_running && loader_is_stopped(loader))
        return sluice_fail(err, SLUICE_E_CLOSED, "stopped");
    if (!loader->is_running) {
        *batch = NULL;
        return SLUICE_OK;
    }
    note_done(loader);
    struct sluice_held *held = NULL;
    struct sluice_err cause = {0};
    status = sluice_prefetcher_next(loader->prefetcher, timeout_ms, &held, &cause);
    if (status == SLUICE_E_AGAIN || sluice_prefetcher_needs_release(loader->prefetcher))
        return sluice_fail(err, status, "%s", cause.text);
    const unsigned long long number = loader->start.epoch;
    if (status != SLUICE_OK) {
        loader->has_lost_source = sluice_prefetcher_has_lost_source(loader->prefetcher);
        end_epoch(loader, false);
        return sluice_fail(err, status, "%s epoch %llu: %s", loader->part->name, number,
                           cause.text);
    }
    if (held)
        return wrap(loader, held, batch, err);
    end_epoch(loader, true);
    if (loader->num_items > 0 && loader->start.cursor == 0 &&
        loader->ended[loader->start.part].stats.samples == 0)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "%s epoch %llu: none of its %zu samples came",
                           loader->part->name, number, loader->num_items);
    *batch = NULL;
    return SLUICE_OK;
}

bool sluice_loader_has_lost_source(const struct sluice_loader *loader)
{
    return loader->has_lost_source;
}

const struct sluice_geometry *sluice_batch_geometry(const struct sluice_batch *batch, unsigned view)
{
    const struct held_batch *held = (const struct held_batch *)batch;
    const size_t first = (size_t)view * held->capacity;
    return held->held->geometry && view < held->layout.num_views ? held->held->geometry + first
                                                                 : NULL;
}

struct sluice_view sluice_batch_view(const struct sluice_batch *batch, unsigned view)
{
    const struct held_batch *held = (const struct held_batch *)batch;
    if (view >= held->layout.num_views || held->held->has_images)
        return (struct sluice_view){0};
    return (struct sluice_view){
        .pixels = batch->pixels + sluice_row_place(&held->layout, held->capacity, 0, view),
        .height = held->layout.views[view].height,
        .width = held->layout.views[view].width,
    };
}

struct sluice_view sluice_batch_image(const struct sluice_batch *batch, size_t row)
{
    const struct held_batch *held = (const struct held_batch *)batch;
    if (row >= batch->num_rows || held->layout.num_views > 1)
        return (struct sluice_view){0};
    struct sluice_row_image image = {row * held->layout.bytes, batch->height, batch->width};
    if (held->held->has_images)
        image = held->held->images[row];
    return (struct sluice_view){batch->pixels + image.at, image.height, image.width};
}

void sluice_batch_release(const struct sluice_batch *batch)
{
    if (!batch)
        return;
    struct held_batch *held = (struct held_batch *)(uintptr_t)batch;
    sluice_held_release(held->held);
    free(held);
}

void sluice_batch_release_after(const struct sluice_batch *batch, void *stream)
{
    if (!batch)
        return;
    struct held_batch *held = (struct held_batch *)(uintptr_t)batch;
    sluice_held_release_after(held->held, stream);
    free(held);
}

void sluice_loader_finish(struct sluice_loader *loader)
{
    /* Not in a child's copy, which has none of the threads that would have to end. */
    if (loader->is_running && sluice_process_check(loader->owner, "loader", NULL) == SLUICE_OK)
        end_epoch(loader, false);
}

/* --- the place --- */

void sluice_batch_state(const struct sluice_batch *batch, char state[SLUICE_MAX_STATE])
{
    const struct held_batch *held = (const struct held_batch *)batch;
    sluice_state_write(&held->after, state);
}

void sluice_loader_state(const struct sluice_loader *loader, char state[SLUICE_MAX_STATE])
{
    sluice_state_write(&loader->now, state);
}

sluice_status sluice_state_place(const char *state, struct sluice_place *place,
                                 struct sluice_err *err)
{
    struct sluice_state read;
    const sluice_status status = sluice_state_read(state, &read, err);
    if (status != SLUICE_OK)
        return status;
    *place = (struct sluice_place){
        .part = (enum sluice_part)read.part,
        .epoch = read.epoch,
        .batch = read.num_buckets > 0 ? read.batch
                                      : (read.cursor + read.global_batch - 1) / read.global_batch,
    };
    return SLUICE_OK;
}
