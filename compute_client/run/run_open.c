#include "compute_client/run/run_state.h"

#include "base/log.h"
#include "compute_client/load/fetcher.h"
#include "compute_client/load/local_source.h"
#include "datasets/manifest_drift.h"
#include "pipeline/op.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MIN_SLOTS 3
#define MAX_SLOTS 256
#define MAX_ITEMS ((1u << 20) - 1)
/* A slow trainer uses one in this many of the prefetch memory's slots. */
#define USUAL_PART 4

/* Least credit for the server (fetcher.h).  With less, a single large file would wait for a round
 * trip. */
#define MIN_WINDOW_BYTES (8u << 20)

/* A server sends the file in place of pixels or tensors above this (docs/PROTOCOL.md). */
#define MAX_PIXEL_BYTES ((uint64_t)63 << 20)
/* Beside the largest payload: the fields of replies, and small ones that share its message. */
#define MESSAGE_MARGIN_BYTES ((size_t)2 << 20)
/* Whatever the server says of itself and its files. */
#define MAX_MESSAGE_BYTES ((uint64_t)512 << 20)

/* --- pipelines and data --- */

/* Torchvision's usual evaluation at the size of training, with ImageNet's margin: 256 for 224. */
static sluice_status make_val_pipeline(const char *given, unsigned side,
                                       struct sluice_pipeline **pipeline, struct sluice_err *err)
{
    char text[256];
    const unsigned resized = (side * 8 + 3) / 7;
    snprintf(text, sizeof(text), "decode,resize=%u,center_crop=%u,to_tensor,normalize=imagenet",
             resized < SLUICE_MAX_OP_SIZE ? resized : SLUICE_MAX_OP_SIZE, side);
    return sluice_pipeline_parse(given ? given : text, pipeline, err);
}

sluice_status run_make_pipelines(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *options = run->options;
    char text[256];
    snprintf(text, sizeof(text),
             "decode,random_resized_crop=%u,hflip=0.5,to_tensor,normalize=imagenet",
             (unsigned)options->image_size);
    sluice_status status = sluice_pipeline_parse(options->pipeline ? options->pipeline : text,
                                                 &run->train.pipeline, err);
    if (status != SLUICE_OK)
        return status;
    const unsigned side = sluice_pipeline_output_size(run->train.pipeline);
    if (side == 0)
        return sluice_fail(
            err, SLUICE_E_INVALID,
            "--pipeline \"%s\" leaves images of any size: a batch is of one size, which "
            "random_resized_crop or center_crop makes",
            sluice_pipeline_spec(run->train.pipeline));
    status = make_val_pipeline(options->val_pipeline, side, &run->val.pipeline, err);
    if (status != SLUICE_OK)
        return status;
    if (sluice_pipeline_output_size(run->val.pipeline) != side)
        return sluice_fail(
            err, SLUICE_E_INVALID, "both pipelines must crop to one size: \"%s\" and \"%s\"",
            sluice_pipeline_spec(run->train.pipeline), sluice_pipeline_spec(run->val.pipeline));
    return SLUICE_OK;
}

/* The largest message that may come: a sample in any form that it may be asked for, or as the file.
 */
static size_t largest_message(const struct run *run)
{
    const uint64_t pixels = run->info.max_image_pixels; /* 0: not said */
    uint64_t bytes = pixels == 0 || pixels > MAX_PIXEL_BYTES / 3 ? MAX_PIXEL_BYTES : pixels * 3;
    const struct part *parts[] = {&run->train, &run->val};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(parts); i++) {
        if (sluice_pipeline_output_bytes(parts[i]->pipeline) > bytes)
            bytes = sluice_pipeline_output_bytes(parts[i]->pipeline);
    }
    for (size_t i = 0; i < run->manifest->num_entries; i++) {
        if (run->manifest->entries[i].bytes > bytes)
            bytes = run->manifest->entries[i].bytes;
    }
    if (bytes > MAX_MESSAGE_BYTES)
        bytes = MAX_MESSAGE_BYTES;
    return (size_t)bytes + MESSAGE_MARGIN_BYTES;
}

static sluice_status open_remote(struct run *run, struct sluice_err *err)
{
    const struct sluice_client_options options = {
        .target = run->options->target,
        .advice = run->options->has_host
                      ? NULL
                      : "--host HOST[:PORT] names a server, a folder as DIR needs none",
        .retry_for_s = run->options->retry_for_s,
        .live = &run->live,
    };
    struct sluice_client *client = NULL;
    sluice_status status = sluice_client_create(&options, &client, err);
    if (status != SLUICE_OK)
        return status;
    run_set_client(run, client);
    status = sluice_client_hello(client, run->train.pipeline, "", &run->info, err);
    if (status == SLUICE_OK)
        status = sluice_client_list(client, &run->info, &run->manifest, err);
    if (status == SLUICE_OK)
        status = sluice_client_bound_messages(client, largest_message(run), err);
    return status;
}

static sluice_status pick_subset(const struct run *run, struct part *part,
                                 enum sluice_subset subset, struct sluice_err *err)
{
    const struct sluice_manifest *manifest = run->manifest;
    part->ids = calloc(manifest->num_entries, sizeof(*part->ids));
    part->choices = calloc(manifest->num_entries, sizeof(*part->choices));
    if (!part->ids || !part->choices)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu samples",
                           manifest->num_entries);
    for (size_t i = 0; i < manifest->num_entries; i++) {
        if (manifest->entries[i].subset == subset)
            part->ids[part->num_total++] = (uint32_t)i;
    }
    part->num_ids = part->num_total;
    if (run->options->limit_samples && run->options->limit_samples < part->num_ids)
        part->num_ids = (size_t)run->options->limit_samples;
    return SLUICE_OK;
}

/* Where samples come from, if the command line leaves that in doubt. */
static void tell_where_from(const struct sluice_options *o)
{
    if (o->is_mode_derived)
        sluice_log(SLUICE_LOG_INFO,
                   "%s is read here, without a server (--dataset-mode local): no --host is given",
                   o->dir);
    else if (o->mode != SLUICE_MODE_LOCAL && o->dir)
        sluice_log(SLUICE_LOG_INFO, "%s is not read: the server at %s lists its samples (mode %s)",
                   o->dir, o->target, sluice_mode_name(o->mode));
    else if (o->mode == SLUICE_MODE_LOCAL && o->has_host)
        sluice_log(SLUICE_LOG_INFO, "no server is asked, whatever --host says: mode local reads %s",
                   o->dir);
}

static sluice_status open_local(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    struct stat st;
    const char *advice = o->is_mode_derived ? "; a server is named by --host" : "";
    if (stat(o->dir, &st) != 0)
        return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "DIR %s: %s%s",
                           o->dir, strerror(errno), advice);
    if (!S_ISDIR(st.st_mode))
        return sluice_fail(err, SLUICE_E_INVALID, "DIR %s is no folder%s", o->dir, advice);
    sluice_status status = sluice_manifest_open(o->dir, &run->manifest, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_check_passed_over(run->manifest, o->dir, o->is_strict, err);
    if (status == SLUICE_OK)
        sluice_manifest_tell_drift(run->manifest, o->dir, NULL, "start again", NULL);
    return status;
}

sluice_status run_open_data(struct run *run, struct sluice_err *err)
{
    tell_where_from(run->options);
    sluice_status status =
        run->options->mode == SLUICE_MODE_LOCAL ? open_local(run, err) : open_remote(run, err);
    if (status != SLUICE_OK)
        return status;
    if (run->manifest->num_entries > UINT32_MAX)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "a dataset of %zu samples",
                           run->manifest->num_entries);
    sluice_hash128_hex(sluice_manifest_id(run->manifest), run->dataset_id);
    status = pick_subset(run, &run->train, SLUICE_SUBSET_TRAIN, err);
    if (status == SLUICE_OK)
        status = pick_subset(run, &run->val, SLUICE_SUBSET_VAL, err);
    if (status != SLUICE_OK)
        return status;
    if (run->options->is_evaluate && run->val.num_ids == 0)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "--evaluate: the dataset has no val subset");
    if (!run->options->is_evaluate && run->train.num_ids == 0)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "the dataset has no training samples");
    return SLUICE_OK;
}

/* --- trainer, prefetcher, sources --- */

sluice_status run_make_trainer(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    struct sluice_train_options options = {
        .model = o->arch,
        .num_classes = (unsigned)(o->num_classes ? o->num_classes : run->manifest->num_classes),
        .image_size = sluice_pipeline_output_size(run->train.pipeline),
        .batch_size = (unsigned)o->batch_size,
        .lr = o->lr,
        .momentum = o->momentum,
        .weight_decay = o->weight_decay,
        .seed = o->seed,
        .table = *sluice_pipeline_tail_table(run->train.pipeline),
        .consume_rate = o->consume_rate,
        .num_threads = (unsigned)o->train_threads,
        .allow_tf32 = o->allow_tf32,
        .dropout = o->dropout,
    };
    if (options.num_classes < run->manifest->num_classes)
        return sluice_fail(err, SLUICE_E_INVALID, "--num-classes %u: the dataset has %zu",
                           options.num_classes, run->manifest->num_classes);
    static const char *const all[] = {"cuda", "cpu", "none"};
    const bool is_auto = strcmp(o->device, "auto") == 0;
    const char *const *devices = is_auto ? all : &o->device;
    const size_t num_devices = is_auto ? SLUICE_ARRAY_LEN(all) : 1;
    for (size_t i = 0; i < num_devices; i++) {
        struct sluice_err cause = {0};
        options.device = devices[i];
        const sluice_status status = sluice_trainer_create(&options, &run->trainer, &cause);
        if (status == SLUICE_OK)
            break;
        /* The next device is tried only if this one is missing, so that no other failure is
         * hidden. */
        if (i + 1 == num_devices || status != SLUICE_E_UNSUPPORTED)
            return sluice_fail(err, status, "%s", cause.text);
        sluice_log(SLUICE_LOG_DEBUG, "%s", cause.text);
    }
    run->learns = strcmp(options.device, "none") != 0;
    if (run->learns && sluice_pipeline_num_ops(run->train.pipeline) ==
                           sluice_pipeline_u8_split(run->train.pipeline))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "a model needs a pipeline that ends in to_tensor or normalize");
    if (!run->learns && (o->checkpoint || o->resume))
        return sluice_fail(err, SLUICE_E_INVALID, "%s: device none has no model",
                           o->checkpoint ? "--checkpoint" : "--resume");
    if (is_auto)
        sluice_log(SLUICE_LOG_INFO, "device %s", options.device);
    return SLUICE_OK;
}

static sluice_status alloc_pinned(void *ctx, size_t bytes, void **memory, struct sluice_err *err)
{
    return sluice_trainer_host_alloc(ctx, bytes, memory, err);
}

static void free_pinned(void *ctx, void *memory, size_t bytes)
{
    (void)bytes;
    sluice_trainer_host_free(ctx, memory);
}

static unsigned slots_in(size_t batches, uint64_t batch_size)
{
    const size_t slots = batches < MIN_SLOTS   ? MIN_SLOTS
                         : batches > MAX_SLOTS ? MAX_SLOTS
                                               : batches;
    return slots * batch_size > MAX_ITEMS ? MIN_SLOTS : (unsigned)slots;
}

sluice_status run_make_prefetcher(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    const size_t row_bytes = sluice_pipeline_u8_bytes(run->train.pipeline);
    const size_t half = (size_t)(o->prefetch_bytes / 2);
    const size_t batch_bytes = row_bytes * (size_t)o->batch_size;
    const unsigned num_slots = slots_in(half / batch_bytes, o->batch_size);
    /* A profile requests its samples many times, so all slots are filled. */
    const size_t num_items = o->is_profiling ? (size_t)num_slots * o->batch_size
                                             : run->train.num_ids * (size_t)o->repeat;
    const struct sluice_prefetcher_options options = {
        .retry_for_s = o->retry_for_s,
        .num_workers = (unsigned)o->workers,
        .batch_size = (unsigned)o->batch_size,
        .num_slots = num_slots,
        .usual_slots = slots_in(half / USUAL_PART / batch_bytes, o->batch_size),
        .row_bytes = row_bytes,
        .num_items = num_items,
        .payload_bytes = half,
        .on_error = o->on_error,
        .has_digest = o->has_digest,
        .measures_ops = o->is_profiling,
        .max_image_pixels = run->info.max_image_pixels,
        .pool = run->pool,
        .live = &run->live,
        .alloc = alloc_pinned,
        .free = free_pinned,
        .memory_ctx = run->trainer,
    };
    struct sluice_prefetcher *prefetcher = NULL;
    const sluice_status status = sluice_prefetcher_create(&options, &prefetcher, err);
    if (status == SLUICE_OK)
        run_set_prefetcher(run, prefetcher);
    return status;
}

sluice_status run_make_source(struct run *run, struct part *part, struct sluice_err *err)
{
    if (part->source)
        return SLUICE_OK;
    const struct sluice_options *o = run->options;
    if (!run->client) {
        const struct sluice_local_source_options options = {
            .root = o->dir,
            .pool = run->pool,
            .num_threads = (unsigned)o->workers,
            .max_items = sluice_prefetcher_max_items(run->prefetcher),
            .retry_for_s = o->retry_for_s,
            .sample_timeout_s = o->sample_timeout_s,
            .jpeg_index = o->jpeg_index,
            .manifest = run->manifest,
            .should_verify = o->should_verify,
            .events = sluice_prefetcher_events(run->prefetcher),
        };
        return sluice_local_source_create(&options, &part->source, err);
    }
    const uint64_t half = o->prefetch_bytes / 2;
    const struct sluice_fetcher_options options = {
        .client = run->client,
        .pipeline = part->pipeline,
        .dataset_id = run->dataset_id,
        .max_items = sluice_prefetcher_max_items(run->prefetcher),
        .window_bytes = half < MIN_WINDOW_BYTES ? MIN_WINDOW_BYTES : half,
        .sample_timeout_s = o->sample_timeout_s,
        .follows_price = o->mode == SLUICE_MODE_AUTO && o->has_replan && !o->is_greedy,
        .max_image_pixels = run->info.max_image_pixels,
        .live = &run->live,
        .events = sluice_prefetcher_events(run->prefetcher),
    };
    return sluice_fetcher_create(&options, &part->source, err);
}
