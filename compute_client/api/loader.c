#include "compute_client/api/loader_state.h"

#include "compute_client/options/options_table.h"
#include "host/pages.h"
#include "lib/base/process.h"
#include "trace/tracer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- create --- */

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
    sluice_status status = sluice_process_begin(err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_loader *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a loader");
    status = sluice_options_set(settings, num_settings, &made->texts, &made->options, err);
    if (status != SLUICE_OK) {
        sluice_cli_texts_clear(&made->texts);
        free(made);
        return status;
    }
    pthread_mutex_init(&made->lock, NULL);
    made->owner = getpid();
    made->order = sluice_options_order(&made->options);
    made->memory = (struct sluice_host_memory){.alloc = alloc_pages, .free = free_pages};
    made->train.name = "train";
    made->val.name = "val";
    made->device = -1;
    *loader = made;
    return SLUICE_OK;
}

void sluice_loader_set_memory(struct sluice_loader *loader, const struct sluice_host_memory *memory)
{
    loader->memory = *memory;
    loader->has_memory = true;
}

/* --- open --- */

static struct sluice_row_format row_format_of(const struct sluice_pipeline *pipeline)
{
    const struct sluice_size size = sluice_pipeline_view_size(pipeline, 0);
    struct sluice_row_format format = {
        .height = size.height,
        .width = size.width,
        .has_normalization = sluice_pipeline_num_ops(pipeline) > sluice_pipeline_u8_split(pipeline),
    };
    if (format.has_normalization)
        memcpy(format.table, *sluice_pipeline_tail_table(pipeline), sizeof(format.table));
    return format;
}

/* The kind of field 0 as a target. */
static enum sluice_target_kind target_kind(const struct sluice_fields *fields)
{
    switch (fields->of[0].type.kind) {
    case SLUICE_FIELD_NONE:
        return SLUICE_TARGETS_NONE;
    case SLUICE_FIELD_VECTOR:
        return SLUICE_TARGETS_VECTOR;
    default:
        return SLUICE_TARGETS_BYTES;
    }
}

static void describe(struct sluice_loader *loader)
{
    struct sluice_dataset_info *info = &loader->dataset;
    memcpy(info->id, loader->dataset_id, sizeof(info->id));
    for (int i = SLUICE_TRAIN; i <= SLUICE_VAL; i++) {
        struct part *part = loader_part(loader, (enum sluice_part)i);
        part->format = row_format_of(part->pipeline);
        info->num_samples[i] = part->num_ids;
        info->pipeline_fingerprint[i] = sluice_pipeline_fingerprint(part->pipeline);
    }
    const struct sluice_row_format *train = &loader->train.format;
    info->num_classes = loader->manifest->num_classes;
    info->target_kind = target_kind(&loader->manifest->fields);
    info->target_dim =
        info->target_kind == SLUICE_TARGETS_VECTOR ? loader->manifest->fields.of[0].type.dim : 0;
    info->height = train->height;
    info->width = train->width;
    info->rank = (uint32_t)loader->options.rank;
    info->world_size = (uint32_t)loader->options.world_size;
    info->mode = loader->options.mode_name;
    info->has_normalization = train->has_normalization;
    memcpy(info->table, train->table, sizeof(info->table));
}

static sluice_status open_tracer(struct sluice_loader *loader, struct sluice_err *err)
{
    const struct sluice_options *o = &loader->options;
    if (!o->trace)
        return SLUICE_OK;
    const struct sluice_tracer_options options = {.path = o->trace,
                                                  .service = "offload_train",
                                                  .sample = o->trace_sample,
                                                  .parent = getenv("TRACEPARENT")};
    return sluice_tracer_open(&options, &loader->tracer, err);
}

sluice_status sluice_loader_open(struct sluice_loader *loader, struct sluice_err *err)
{
    sluice_status status = sluice_process_check(loader->owner, "loader", err);
    if (status == SLUICE_OK && loader->train.pipeline)
        status = sluice_fail(err, SLUICE_E_INVALID, "a loader is opened once: create another");
    if (status == SLUICE_OK)
        status = loader_make_pipelines(loader, err);
    if (status == SLUICE_OK)
        status = open_tracer(loader, err);
    if (status == SLUICE_OK)
        status = loader_open_gpu(loader, err);
    if (status == SLUICE_OK)
        status = loader_open_data(loader, err);
    if (status == SLUICE_OK)
        status = loader_count_batches(loader, SLUICE_TRAIN, err);
    if (status == SLUICE_OK)
        status = loader_count_batches(loader, SLUICE_VAL, err);
    if (status == SLUICE_OK)
        status =
            sluice_buf_pool_create((size_t)loader->options.prefetch_bytes / 2, &loader->pool, err);
    if (status == SLUICE_OK && loader_is_stopped(loader))
        status = sluice_fail(err, SLUICE_E_CLOSED, "stopped");
    if (status != SLUICE_OK)
        return status;
    describe(loader);
    loader->start = loader->now = loader_state_at(loader, SLUICE_TRAIN, 0);
    loader->is_open = true;
    return SLUICE_OK;
}

const struct sluice_dataset_info *sluice_loader_info(const struct sluice_loader *loader)
{
    return &loader->dataset;
}

const struct sluice_row_format *sluice_loader_row_format(const struct sluice_loader *loader,
                                                         enum sluice_part part)
{
    return &loader_const_part(loader, part)->format;
}

unsigned sluice_loader_num_views(const struct sluice_loader *loader, enum sluice_part part)
{
    return sluice_pipeline_num_views(loader_const_part(loader, part)->pipeline);
}

struct sluice_view sluice_loader_view(const struct sluice_loader *loader, enum sluice_part part,
                                      unsigned view)
{
    const struct sluice_pipeline *pipeline = loader_const_part(loader, part)->pipeline;
    if (view >= sluice_pipeline_num_views(pipeline))
        return (struct sluice_view){0};
    const struct sluice_size size = sluice_pipeline_view_size(pipeline, view);
    return (struct sluice_view){.height = size.height, .width = size.width};
}

const char *sluice_loader_path(const struct sluice_loader *loader, uint64_t sample_id)
{
    const struct sluice_manifest *manifest = loader->manifest;
    return manifest && sample_id < manifest->num_entries
               ? sluice_manifest_at(manifest, sample_id).path
               : NULL;
}

unsigned sluice_loader_num_fields(const struct sluice_loader *loader)
{
    return loader->manifest ? loader->manifest->fields.num : 0;
}

struct sluice_field sluice_loader_field(const struct sluice_loader *loader, unsigned field)
{
    if (field >= sluice_loader_num_fields(loader))
        return (struct sluice_field){.name = NULL};
    const struct sluice_named_field *of = &loader->manifest->fields.of[field];
    return (struct sluice_field){.name = of->name, .kind = of->type.kind, .dim = of->type.dim};
}

const void *sluice_loader_field_value(const struct sluice_loader *loader, unsigned field,
                                      uint64_t sample_id, size_t *bytes)
{
    const struct sluice_manifest *manifest = loader->manifest;
    if (!manifest || sample_id >= manifest->num_entries || field >= manifest->fields.num)
        return NULL;
    const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, sample_id);
    const struct sluice_field_value value =
        sluice_fields_value(&manifest->fields, field, entry.values, entry.values_bytes);
    *bytes = value.bytes;
    return value.at;
}

const void *sluice_loader_target(const struct sluice_loader *loader, uint64_t sample_id,
                                 size_t *bytes)
{
    return sluice_loader_field_value(loader, 0, sample_id, bytes);
}

/* --- close --- */

static void part_close(struct part *part)
{
    if (part->source)
        part->source->close(part->source);
}

static void part_clear(struct part *part)
{
    if (part->source)
        part->source->destroy(part->source);
    sluice_pipeline_destroy(part->pipeline);
    free(part->ids);
    free(part->bucket_of);
    free(part->sizes);
    free(part->choices);
}

void sluice_loader_close(struct sluice_loader *loader)
{
    if (!loader || sluice_process_check(loader->owner, "loader", NULL) != SLUICE_OK)
        return; /* a child's copy: the threads that it would wait for are not there */
    sluice_loader_finish(loader);
    if (loader->servers) { /* a fetcher may be on its way to a server that is gone */
        sluice_servers_stop(loader->servers);
        sluice_servers_end_lookups(loader->servers);
    }
    /* The sources first, so that no event comes any more. */
    part_close(&loader->train);
    part_close(&loader->val);
    sluice_prefetcher_destroy(loader->prefetcher);
    sluice_tracer_close(loader->tracer);
    sluice_gpu_place_destroy(loader->place);
    part_clear(&loader->train);
    part_clear(&loader->val);
    sluice_servers_destroy(loader->servers);
    free(loader->shard_ends);
    sluice_replan_destroy(loader->replan);
    sluice_buf_pool_destroy(loader->pool);
    sluice_cost_table_clear(&loader->profile);
    sluice_manifest_destroy(loader->manifest);
    free(loader->items);
    sluice_bucket_order_clear(&loader->buckets);
    pthread_mutex_destroy(&loader->lock);
    sluice_cli_texts_clear(&loader->texts);
    free(loader);
}
