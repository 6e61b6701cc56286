#include "libsluice/loader_state.h"

#include "base/cli_set.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/pages.h"
#include "compute_client/load/fetcher.h"
#include "compute_client/load/state.h"
#include "libsluice/options_table.h"
#include "libsluice/process.h"
#include "libsluice/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* struct sluice_loader as sluice.h has it, over the files of loader_state.h. */
struct opened {
    struct sluice_loader loader; /* first: the public pointer is to it */
    struct sluice_options options;
    struct sluice_cli_texts texts;
    pid_t owner;
    bool is_open, is_planned;
    struct sluice_dataset_info info;

    /* The epoch under way. */
    bool is_running;
    struct loader_pass pass;   /* its order is not kept */
    struct sluice_state state; /* at its start */
    struct sluice_order_options order;
    uint64_t num_batches; /* from the cursor on */
    uint64_t started_ns, started_cpu_ns;
    uint64_t lost_streams, hash_errors; /* before it */

    char *stats; /* JSON of the last epoch; NULL: none has ended */
};

/* What is behind struct sluice_batch. */
struct held_batch {
    struct sluice_batch batch; /* first */
    struct sluice_held *held;
    struct sluice_state after;
};

static struct opened *of(struct sluice_loader *loader)
{
    return SLUICE_CONTAINER_OF(loader, struct opened, loader);
}

static const struct opened *of_const(const struct sluice_loader *loader)
{
    return SLUICE_CONTAINER_OF(loader, const struct opened, loader);
}

static sluice_status alloc_pages(void *ctx, size_t bytes, void **memory, struct sluice_err *err)
{
    (void)ctx;
    return sluice_pages_alloc(bytes, memory, err);
}

static void free_pages(void *ctx, void *memory, size_t bytes)
{
    (void)ctx;
    (void)bytes;
    free(memory);
}

sluice_status sluice_loader_create(const struct sluice_setting *settings, size_t num_settings,
                                   struct sluice_loader **loader, struct sluice_err *err)
{
    sluice_status status = process_begin(err);
    if (status != SLUICE_OK)
        return status;
    struct opened *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a loader");
    status = sluice_options_set(settings, num_settings, &made->texts, &made->options, err);
    if (status != SLUICE_OK) {
        sluice_cli_texts_clear(&made->texts);
        free(made);
        return status;
    }
    loader_init(&made->loader, &made->options);
    made->owner = getpid();
    made->order = sluice_options_order(&made->options);
    made->loader.memory = (struct sluice_host_memory){.alloc = alloc_pages, .free = free_pages};
    *loader = &made->loader;
    return SLUICE_OK;
}

void sluice_loader_set_memory(struct sluice_loader *loader, const struct sluice_host_memory *memory)
{
    loader->memory = *memory;
}

static void describe(struct opened *opened)
{
    const struct sluice_loader *loader = &opened->loader;
    const struct part *parts[] = {&loader->train, &loader->val};
    struct sluice_dataset_info *info = &opened->info;
    memcpy(info->id, loader->dataset_id, sizeof(info->id));
    for (int part = SLUICE_TRAIN; part <= SLUICE_VAL; part++) {
        info->num_samples[part] = parts[part]->num_ids;
        info->pipeline_fingerprint[part] = sluice_pipeline_fingerprint(parts[part]->pipeline);
    }
    const struct sluice_pipeline *pipeline = loader->train.pipeline;
    info->num_classes = loader->manifest->num_classes;
    info->height = info->width = sluice_pipeline_output_size(pipeline);
    info->mode = opened->options.mode_name;
    info->has_normalization =
        sluice_pipeline_num_ops(pipeline) > sluice_pipeline_u8_split(pipeline);
    if (info->has_normalization)
        memcpy(info->table, *sluice_pipeline_tail_table(pipeline), sizeof(info->table));
}

sluice_status sluice_loader_open(struct sluice_loader *loader, struct sluice_err *err)
{
    struct opened *opened = of(loader);
    sluice_status status = process_check(opened->owner, "loader", err);
    if (status == SLUICE_OK && opened->is_open)
        status = sluice_fail(err, SLUICE_E_INVALID, "the loader is open already");
    if (status == SLUICE_OK)
        status = loader_make_pipelines(loader, err);
    if (status == SLUICE_OK)
        status = loader_open_data(loader, err);
    if (status == SLUICE_OK)
        status =
            sluice_buf_pool_create((size_t)opened->options.prefetch_bytes / 2, &loader->pool, err);
    if (status != SLUICE_OK)
        return status;
    describe(opened);
    opened->is_open = true;
    return SLUICE_OK;
}

const struct sluice_dataset_info *sluice_loader_info(const struct sluice_loader *loader)
{
    return &of_const(loader)->info;
}

const char *sluice_loader_path(const struct sluice_loader *loader, uint64_t sample_id)
{
    const struct sluice_manifest *manifest = loader->manifest;
    return manifest && sample_id < manifest->num_entries ? manifest->entries[sample_id].path : NULL;
}

static struct part *part_of(struct sluice_loader *loader, enum sluice_part part)
{
    return part == SLUICE_VAL ? &loader->val : &loader->train;
}

static uint64_t total_of(const struct opened *opened, enum sluice_part part)
{
    const uint64_t repeat = part == SLUICE_TRAIN ? opened->options.repeat : 1;
    return opened->info.num_samples[part] * repeat;
}

uint64_t sluice_loader_num_batches(const struct sluice_loader *loader, enum sluice_part part)
{
    const struct opened *opened = of_const(loader);
    return sluice_order_num_batches(&opened->order, total_of(opened, part), 0);
}

static uint64_t order_hash(const uint64_t *order, size_t num_order)
{
    return sluice_hash128(order, num_order * sizeof(*order)).low;
}

/* Where the epoch begins, from the caller's words or the state that it gave. */
static sluice_status find_start(struct opened *opened, const struct sluice_epoch_start *start,
                                struct sluice_err *err)
{
    const struct sluice_loader *loader = &opened->loader;
    struct sluice_state now = {
        .seed = opened->options.seed,
        .epoch = start->epoch,
        .global_batch = opened->options.batch_size * opened->options.world_size,
        .repeat = start->part == SLUICE_TRAIN ? opened->options.repeat : 1,
        .part = (uint32_t)start->part,
        .has_order = start->order != NULL,
    };
    uint32_t world_size = (uint32_t)opened->options.world_size;
    if (start->order) {
        now.order_hash = order_hash(start->order, start->num_order);
        now.global_batch = opened->options.batch_size;
        world_size = 1;
    }
    struct sluice_state saved;
    if (start->state) {
        const sluice_status status = sluice_state_read(start->state, &saved, err);
        if (status != SLUICE_OK)
            return status;
        now.part = saved.part;
        now.repeat = saved.part == SLUICE_TRAIN ? opened->options.repeat : 1;
    }
    now.num_samples = opened->info.num_samples[now.part];
    now.pipeline = opened->info.pipeline_fingerprint[now.part];
    memcpy(now.dataset_id, loader->dataset_id, sizeof(now.dataset_id));
    if (start->state) {
        const sluice_status status = sluice_state_check(&saved, &now, world_size, err);
        if (status != SLUICE_OK)
            return status;
        now.epoch = saved.epoch;
        now.cursor = saved.cursor;
        memcpy(now.errors, saved.errors, sizeof(now.errors));
    }
    opened->state = now;
    return SLUICE_OK;
}

static void count_streams(struct opened *opened, uint64_t *lost, uint64_t *hash_errors)
{
    const struct sluice_live *live = &opened->loader.live;
    *lost = sluice_live_get(&live->lost_streams);
    *hash_errors = sluice_live_get(&live->hash_errors);
}

sluice_status sluice_loader_start(struct sluice_loader *loader,
                                  const struct sluice_epoch_start *start, struct sluice_err *err)
{
    struct opened *opened = of(loader);
    sluice_status status = process_check(opened->owner, "loader", err);
    if (status == SLUICE_OK && !opened->is_open)
        status = sluice_fail(err, SLUICE_E_INVALID, "the loader is not open");
    if (status == SLUICE_OK && loader_is_stopped(loader))
        status = sluice_fail(err, SLUICE_E_CLOSED, "stopped");
    if (status != SLUICE_OK)
        return status;
    sluice_loader_finish(loader);
    status = find_start(opened, start, err);
    if (status == SLUICE_OK && !opened->is_planned)
        status = loader_choose(loader, err);
    if (status == SLUICE_OK && !opened->is_planned)
        status = loader_make_prefetcher(loader, err);
    if (status != SLUICE_OK)
        return status;
    opened->is_planned = true;
    const struct sluice_state *at = &opened->state;
    opened->pass = (struct loader_pass){
        .part = part_of(loader, (enum sluice_part)at->part),
        .is_training = at->part == SLUICE_TRAIN,
        .epoch = at->epoch,
        .cursor = at->cursor,
        .order = start->order,
        .num_order = start->num_order,
    };
    memcpy(opened->pass.errors, at->errors, sizeof(opened->pass.errors));
    if (opened->pass.part->num_ids == 0)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "the dataset has no %s samples",
                           opened->pass.part->name);
    opened->started_ns = sluice_clock_ns();
    opened->started_cpu_ns = sluice_process_cpu_ns();
    count_streams(opened, &opened->lost_streams, &opened->hash_errors);
    sluice_live_set(&loader->live.epoch, at->epoch);
    status = loader_begin(loader, &opened->pass, err);
    opened->pass.order = NULL;
    opened->is_running = status == SLUICE_OK;
    opened->num_batches =
        (loader->num_items + opened->options.batch_size - 1) / opened->options.batch_size;
    return status;
}

/* The place after so many batches of this epoch. */
static struct sluice_state state_after(const struct opened *opened, uint64_t batches,
                                       const uint64_t *errors)
{
    const struct sluice_loader *loader = &opened->loader;
    struct sluice_state state = opened->state;
    const uint64_t items = batches * opened->options.batch_size;
    if (!state.has_order)
        state.cursor =
            sluice_order_cursor(&opened->order, loader->total, opened->state.cursor, batches);
    else
        state.cursor += items < loader->num_items ? items : loader->num_items;
    memcpy(state.errors, errors, sizeof(state.errors));
    return state;
}

static sluice_status wrap(const struct opened *opened, struct sluice_held *held,
                          const struct sluice_batch **batch, struct sluice_err *err)
{
    struct held_batch *made = malloc(sizeof(*made));
    if (!made) {
        sluice_held_release(held);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a batch");
    }
    const struct sluice_dataset_info *info = &opened->info;
    const bool is_last = held->index + 1 == opened->num_batches;
    const uint32_t padded = is_last ? opened->loader.num_padded : 0;
    *made = (struct held_batch){
        .batch =
            {
                .pixels = held->pixels,
                .labels = held->labels,
                .ids = held->ids,
                .draw_epochs = held->draw_epochs,
                .num_rows = held->num_rows,
                .height = info->height,
                .width = info->width,
                .num_padded = padded < held->num_rows ? padded : held->num_rows,
                .epoch = opened->state.epoch,
                .index = opened->state.cursor / opened->state.global_batch + held->index,
            },
        .held = held,
        .after = state_after(opened, held->index + 1, held->errors),
    };
    *batch = &made->batch;
    return SLUICE_OK;
}

/* Ends the prefetcher's epoch, and keeps what it came to. */
static void end_epoch(struct opened *opened, bool is_whole)
{
    struct sluice_loader *loader = &opened->loader;
    const struct sluice_epoch_stats stats = sluice_prefetcher_finish(loader->prefetcher);
    const double seconds = (double)(sluice_clock_ns() - opened->started_ns) * 1e-9;
    opened->is_running = false;
    struct part *part = opened->pass.part;
    if (!is_whole) {
        part->source->close(part->source);
        sluice_prefetcher_abandon(loader->prefetcher);
        part->source->destroy(part->source);
        part->source = NULL;
    }
    const bool has_plan = loader->replan && opened->pass.is_training;
    const struct sluice_plan_stats plan =
        has_plan ? sluice_replan_stats(loader->replan) : (struct sluice_plan_stats){0};
    struct sluice_epoch_report report = {
        .epoch = opened->state.epoch,
        .first_sample = opened->state.cursor,
        .mode = opened->options.mode,
        .mode_name = opened->options.mode_name,
        .is_evaluation = !opened->pass.is_training,
        .seconds = seconds,
        .stats = &stats,
        .manifest = loader->manifest,
        .plan = has_plan ? &plan : NULL,
        .cpu_s = (double)(sluice_process_cpu_ns() - opened->started_cpu_ns) * 1e-9,
    };
    count_streams(opened, &report.retries, &report.hash_errors);
    report.retries -= opened->lost_streams;
    report.hash_errors -= opened->hash_errors;
    free(opened->stats);
    opened->stats = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&opened->stats, &len);
    const bool is_made = out && sluice_report_json(&report, out, NULL) == SLUICE_OK;
    if (out && (fclose(out) != 0 || !is_made)) {
        free(opened->stats);
        opened->stats = NULL;
    }
}

sluice_status sluice_loader_next(struct sluice_loader *loader, int timeout_ms,
                                 const struct sluice_batch **batch, struct sluice_err *err)
{
    struct opened *opened = of(loader);
    sluice_status status = process_check(opened->owner, "loader", err);
    if (status != SLUICE_OK)
        return status;
    if (!opened->is_running) {
        *batch = NULL;
        return SLUICE_OK;
    }
    struct sluice_held *held = NULL;
    status = sluice_prefetcher_next(loader->prefetcher, timeout_ms, &held, err);
    if (status == SLUICE_E_AGAIN)
        return status;
    if (status != SLUICE_OK) {
        end_epoch(opened, false);
        return status;
    }
    if (held)
        return wrap(opened, held, batch, err);
    end_epoch(opened, true);
    *batch = NULL;
    return SLUICE_OK;
}

void sluice_batch_release(const struct sluice_batch *batch)
{
    if (!batch)
        return;
    struct held_batch *held = (struct held_batch *)(uintptr_t)batch;
    sluice_held_release(held->held);
    free(held);
}

void sluice_batch_state(const struct sluice_batch *batch, char state[SLUICE_MAX_STATE])
{
    const struct held_batch *held = (const struct held_batch *)batch;
    sluice_state_write(&held->after, state);
}

void sluice_loader_finish(struct sluice_loader *loader)
{
    struct opened *opened = of(loader);
    if (opened->is_running)
        end_epoch(opened, false);
}

void sluice_loader_stop(struct sluice_loader *loader)
{
    loader_stop(loader);
}

void sluice_loader_close(struct sluice_loader *loader)
{
    if (!loader)
        return;
    struct opened *opened = of(loader);
    if (process_check(opened->owner, "loader", NULL) != SLUICE_OK)
        return; /* a child's copy: the threads that it would wait for are not there */
    sluice_loader_finish(loader);
    loader_clear(loader);
    pthread_mutex_destroy(&loader->lock);
    sluice_cli_texts_clear(&opened->texts);
    free(opened->stats);
    free(opened);
}

sluice_status sluice_loader_stats(struct sluice_loader *loader, char **json, struct sluice_err *err)
{
    struct opened *opened = of(loader);
    sluice_status status = process_check(opened->owner, "loader", err);
    if (status != SLUICE_OK)
        return status;
    if (!opened->stats)
        return sluice_fail(err, SLUICE_E_INVALID, "no epoch has ended: there is nothing to tell");
    char *copy = strdup(opened->stats);
    if (!copy)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the epoch's numbers");
    copy[strcspn(copy, "\n")] = '\0';
    *json = copy;
    return SLUICE_OK;
}
