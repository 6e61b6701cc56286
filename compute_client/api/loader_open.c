#include "compute_client/api/loader_state.h"

#include "base/log.h"
#include "compute_client/loader/order/shard_ends.h"
#include "compute_client/loader/source/local_source.h"
#include "datasets/manifest/drift.h"
#include "datasets/manifest/join.h"
#include "image/codecs/codec.h"
#include "op/form.h"
#include "op/geometry.h"
#include "op/op.h"
#include "op/recipe.h"

#include <assert.h>
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
/* Bytes of a message in addition to the largest payload: fields of replies, and small replies. */
#define MESSAGE_MARGIN_BYTES ((size_t)2 << 20)
/* An upper bound, whatever limits the server reports. */
#define MAX_MESSAGE_BYTES ((uint64_t)512 << 20)

/* --- pipelines and data --- */

/* Writes op fit_bucket with the sizes that a pipeline's buckets end in. */
static void write_buckets(const struct sluice_pipeline *train, char *text, size_t room)
{
    size_t len = (size_t)snprintf(text, room, "fit_bucket=");
    for (unsigned i = 0; i < sluice_pipeline_num_buckets(train) && len < room; i++) {
        const struct sluice_size size = sluice_pipeline_bucket_size(train, i);
        len += (size_t)snprintf(text + len, room - len, "%s%ux%u", i > 0 ? "/" : "", size.height,
                                size.width);
    }
}

/* Torchvision's usual evaluation at the size of training, with ImageNet's margin: 256 for 224.  Of
 * two sides the longer decides, so that the crop lies within every image.  decode and what follows
 * the pixels are as in training.  Where images end in sizes of their own, all ops are. */
static sluice_status make_val_pipeline(const char *given, const struct sluice_pipeline *train,
                                       struct sluice_pipeline **pipeline, struct sluice_err *err)
{
    const struct sluice_size size = sluice_pipeline_view_size(train, 0);
    const unsigned longer = size.width > size.height ? size.width : size.height;
    const unsigned resized = (longer * 8 + 3) / 7;
    const char *spec = sluice_pipeline_spec(train);
    if (!given && sluice_pipeline_most_u8_bytes(train) == 0)
        return sluice_recipe_parse(spec, true, pipeline, err);
    const char *tail = strstr(spec, ",to_tensor");
    char *text = NULL, ops[SLUICE_MAX_BUCKETS * 24];
    snprintf(ops, sizeof(ops), "resize=%u,center_crop=%ux%u",
             resized < SLUICE_MAX_OP_SIZE ? resized : SLUICE_MAX_OP_SIZE, size.height, size.width);
    if (sluice_pipeline_draws_bucket(train))
        sluice_pipeline_print_base(train, ops, sizeof(ops));
    else if (sluice_pipeline_num_buckets(train) > 0)
        write_buckets(train, ops, sizeof(ops));
    if (!given &&
        asprintf(&text, "%.*s,%s%s", (int)strcspn(spec, ","), spec, ops, tail ? tail : "") < 0)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a pipeline");
    const sluice_status status = sluice_recipe_parse(given ? given : text, true, pipeline, err);
    free(text);
    return status;
}

static sluice_status check_geometry(const struct sluice_pipeline *pipeline, const char *flag,
                                    struct sluice_err *err)
{
    struct sluice_err cause = {0};
    const sluice_status status = sluice_pipeline_check_geometry(pipeline, &cause);
    return status == SLUICE_OK ? status
                               : sluice_fail(err, status, "--geometry and --%s \"%s\": %s", flag,
                                             sluice_pipeline_spec(pipeline), cause.text);
}

static sluice_status add_buckets(const char *buckets, struct sluice_pipeline **pipeline,
                                 struct sluice_err *err)
{
    struct sluice_err cause = {0};
    const sluice_status status = sluice_recipe_add_buckets(buckets, pipeline, &cause);
    return status == SLUICE_OK ? status
                               : sluice_fail(err, status, "--buckets %s: %s", buckets, cause.text);
}

sluice_status loader_make_pipelines(struct sluice_loader *loader, struct sluice_err *err)
{
    const struct sluice_options *options = &loader->options;
    char text[256];
    if (options->buckets)
        snprintf(text, sizeof(text), "decode,hflip=0.5,to_tensor,normalize=imagenet");
    else
        snprintf(text, sizeof(text),
                 "decode,random_resized_crop=%u,hflip=0.5,to_tensor,normalize=imagenet",
                 (unsigned)options->image_size);
    sluice_status status = sluice_recipe_parse(options->pipeline ? options->pipeline : text, false,
                                               &loader->train.pipeline, err);
    if (status == SLUICE_OK && options->buckets)
        status = add_buckets(options->buckets, &loader->train.pipeline, err);
    if (status != SLUICE_OK)
        return status;
    status = SLUICE_E_NOT_FOUND; /* a recipe may have no "val" */
    if (!options->val_pipeline && options->pipeline && sluice_is_recipe(options->pipeline))
        status = sluice_recipe_parse(options->pipeline, true, &loader->val.pipeline, err);
    if (status == SLUICE_E_NOT_FOUND)
        status = make_val_pipeline(options->val_pipeline, loader->train.pipeline,
                                   &loader->val.pipeline, err);
    if (status == SLUICE_OK && (sluice_pipeline_draws_by_boxes(loader->train.pipeline) ||
                                sluice_pipeline_draws_by_boxes(loader->val.pipeline)))
        loader->options.has_geometry = true; /* with it come the sizes that the draws need */
    if (status == SLUICE_OK && options->has_geometry)
        status = check_geometry(loader->train.pipeline, "pipeline", err);
    if (status == SLUICE_OK && options->has_geometry)
        status = check_geometry(loader->val.pipeline, "val-pipeline", err);
    if (status != SLUICE_OK)
        return status;
    loader->train.layout = sluice_row_layout_of(loader->train.pipeline, 0);
    loader->val.layout = sluice_row_layout_of(loader->val.pipeline, 0);
    return SLUICE_OK;
}

/* The largest message that may arrive: a sample in any form that can be requested, or as a file. */
static size_t largest_message(const struct sluice_loader *loader)
{
    const uint64_t pixels = loader->info.max_image_pixels; /* 0: not said */
    uint64_t bytes = pixels == 0 || pixels > MAX_PIXEL_BYTES / 3 ? MAX_PIXEL_BYTES : pixels * 3;
    const struct part *parts[] = {&loader->train, &loader->val};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(parts); i++) {
        const size_t most = sluice_pipeline_most_u8_bytes(parts[i]->pipeline) * sizeof(float);
        bytes = most > bytes ? most : bytes;
    }
    for (size_t i = 0; i < loader->manifest->num_entries; i++) {
        const uint64_t of_this = sluice_manifest_at(loader->manifest, i).bytes;
        if (of_this > bytes)
            bytes = of_this;
    }
    if (bytes > MAX_MESSAGE_BYTES)
        bytes = MAX_MESSAGE_BYTES;
    return (size_t)bytes + MESSAGE_MARGIN_BYTES;
}

static sluice_status open_remote(struct sluice_loader *loader, struct sluice_err *err)
{
    const struct sluice_options *o = &loader->options;
    const struct sluice_rpc_client_tls tls = {
        .ca = o->ca, .cert = o->cert, .key = o->key, .server_name = o->server_name};
    const struct sluice_servers_options options = {
        .shards = o->hosts.items,
        .num_shards = o->hosts.num_items,
        .hedges = o->hedges,
        .needs_file_image = o->has_geometry,
        .client =
            {
                .tls = o->has_tls ? &tls : NULL,
                .token_file = o->token_file,
                .advice = o->has_host
                              ? NULL
                              : "--host HOST[:PORT] names a server, a folder as DIR needs none",
                .retry_for_s = o->retry_for_s,
                .live = &loader->live,
            },
    };
    struct sluice_servers *servers = NULL;
    sluice_status status = sluice_servers_create(&options, &servers, err);
    if (status != SLUICE_OK)
        return status;
    loader_set_servers(loader, servers);
    status =
        sluice_servers_open(servers, loader->train.pipeline, &loader->info, &loader->manifest, err);
    if (status != SLUICE_OK)
        return status;
    for (unsigned form = 0; form < sluice_num_forms() && !sluice_codec_uses_index(); form++) {
        if (sluice_form_type((enum sluice_form)form)->needs_index)
            loader->info.forms &=
                ~(1u << form); /* this CPU would ask for the file of all of these */
    }
    return sluice_servers_bound_messages(servers, largest_message(loader), err);
}

static sluice_status pick_subset(const struct sluice_loader *loader, struct part *part,
                                 enum sluice_subset subset, struct sluice_err *err)
{
    const struct sluice_manifest *manifest = loader->manifest;
    part->ids = calloc(manifest->num_entries, sizeof(*part->ids));
    part->choices = calloc(manifest->num_entries, sizeof(*part->choices));
    if (!part->ids || !part->choices)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu samples",
                           manifest->num_entries);
    for (size_t i = 0; i < manifest->num_entries; i++) {
        if (sluice_manifest_at(manifest, i).subset == subset)
            part->ids[part->num_total++] = (uint32_t)i;
    }
    part->num_ids = part->num_total;
    if (loader->options.limit_samples && loader->options.limit_samples < part->num_ids)
        part->num_ids = (size_t)loader->options.limit_samples;
    return SLUICE_OK;
}

static sluice_status open_folder(struct sluice_loader *loader, const char *dir,
                                 struct sluice_manifest **manifest, struct sluice_err *err)
{
    const struct sluice_options *o = &loader->options;
    struct stat st;
    const char *advice = o->is_mode_derived ? "; a server is named by --host" : "";
    if (stat(dir, &st) != 0)
        return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "DIR %s: %s%s",
                           dir, strerror(errno), advice);
    if (!S_ISDIR(st.st_mode))
        return sluice_fail(err, SLUICE_E_INVALID, "DIR %s is no folder%s", dir, advice);
    sluice_status status = sluice_manifest_open(dir, &loader->is_stopped, manifest, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_check_passed_over(*manifest, dir, o->is_strict,
                                                   &loader->is_stopped, err);
    if (status == SLUICE_OK)
        sluice_manifest_tell_drift(*manifest, dir, NULL, "start again", &loader->is_stopped);
    return status;
}

static sluice_status open_local(struct sluice_loader *loader, struct sluice_err *err)
{
    const struct sluice_roots *dirs = &loader->options.dirs;
    struct sluice_manifest_part parts[SLUICE_MAX_ROOTS];
    struct sluice_manifest *of_dirs[SLUICE_MAX_ROOTS] = {NULL};
    sluice_status status = SLUICE_OK;
    assert(dirs->num > 0);
    for (size_t i = 0; status == SLUICE_OK && i < dirs->num; i++) {
        status = open_folder(loader, dirs->at[i].place, &of_dirs[i], err);
        parts[i] = (struct sluice_manifest_part){of_dirs[i], dirs->at[i].name, dirs->at[i].place};
    }
    if (status == SLUICE_OK && dirs->at[0].name[0])
        status = sluice_manifest_join(parts, dirs->num, &loader->manifest, NULL, err);
    else if (status == SLUICE_OK) {
        loader->manifest = of_dirs[0];
        return SLUICE_OK;
    }
    for (size_t i = 0; i < dirs->num; i++)
        sluice_manifest_destroy(of_dirs[i]);
    return status;
}

sluice_status loader_open_data(struct sluice_loader *loader, struct sluice_err *err)
{
    sluice_status status = loader->options.mode == SLUICE_MODE_LOCAL ? open_local(loader, err)
                                                                     : open_remote(loader, err);
    if (status != SLUICE_OK)
        return status;
    if (loader->manifest->num_entries > UINT32_MAX)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "a dataset of %zu samples",
                           loader->manifest->num_entries);
    sluice_hash128_hex(sluice_manifest_id(loader->manifest), loader->dataset_id);
    status = pick_subset(loader, &loader->train, SLUICE_SUBSET_TRAIN, err);
    if (status == SLUICE_OK)
        status = pick_subset(loader, &loader->val, SLUICE_SUBSET_VAL, err);
    if (status == SLUICE_OK && loader->options.mix)
        status = sluice_mix_parse(loader->options.mix, &loader->mix, err);
    if (status == SLUICE_OK)
        status = sluice_mix_ranges(&loader->mix, loader->manifest, loader->train.ids,
                                   loader->train.num_ids, loader->ranges, &loader->num_ranges, err);
    if (status == SLUICE_OK)
        status = loader_find_sizes(loader, err);
    if (status == SLUICE_OK && loader->options.shuffle_shards > 0 && loader->train.num_ids > 0)
        status = sluice_shard_ends(loader->manifest, loader->train.ids, loader->train.num_ids,
                                   &loader->shard_ends, &loader->num_shards, err);
    return status;
}

/* --- prefetcher, sources --- */

static unsigned slots_in(size_t batches, uint64_t batch_size)
{
    const size_t slots = batches < MIN_SLOTS   ? MIN_SLOTS
                         : batches > MAX_SLOTS ? MAX_SLOTS
                                               : batches;
    return slots * batch_size > MAX_ITEMS ? MIN_SLOTS : (unsigned)slots;
}

static unsigned most_views(const struct sluice_loader *loader)
{
    const unsigned train = sluice_pipeline_num_views(loader->train.pipeline);
    const unsigned val = sluice_pipeline_num_views(loader->val.pipeline);
    return train > val ? train : val;
}

sluice_status loader_make_prefetcher(struct sluice_loader *loader, uint64_t epoch_items,
                                     struct sluice_err *err)
{
    const struct sluice_options *o = &loader->options;
    const size_t train_bytes = sluice_pipeline_most_u8_bytes(loader->train.pipeline);
    const size_t val_bytes = sluice_pipeline_most_u8_bytes(loader->val.pipeline);
    const size_t row_bytes = train_bytes > val_bytes ? train_bytes : val_bytes;
    const size_t half = (size_t)(o->prefetch_bytes / 2);
    size_t batch_bytes = row_bytes * (size_t)o->batch_size;
    if (loader->train.batch_bytes > batch_bytes)
        batch_bytes = loader->train.batch_bytes;
    if (loader->val.batch_bytes > batch_bytes)
        batch_bytes = loader->val.batch_bytes;
    const unsigned num_slots = slots_in(half / batch_bytes, o->batch_size);
    /* A profile requests its samples many times, so all slots are filled. */
    const size_t num_items =
        o->is_profiling ? (size_t)num_slots * o->batch_size : (size_t)epoch_items;
    const struct sluice_prefetcher_options options = {
        .retry_for_s = o->retry_for_s,
        .num_workers = (unsigned)o->workers,
        .batch_size = (unsigned)o->batch_size,
        .num_slots = num_slots,
        .usual_slots = slots_in(half / USUAL_PART / batch_bytes, o->batch_size),
        .row_bytes = row_bytes,
        .batch_bytes = batch_bytes,
        .num_items = num_items,
        .payload_bytes = half,
        .on_error = sluice_options_on_error(o),
        .has_digest = o->has_digest,
        .geometry_views = o->has_geometry ? most_views(loader) : 0,
        .measures_ops = o->is_profiling,
        .max_image_pixels = loader->info.max_image_pixels,
        .pool = loader->pool,
        .gpu = loader->place,
        .lend = loader->lend,
        .live = &loader->live,
        .tracer = loader->tracer,
        .alloc = loader->memory.alloc,
        .free = loader->memory.free,
        .memory_ctx = loader->memory.ctx,
    };
    struct sluice_prefetcher *prefetcher = NULL;
    const sluice_status status = sluice_prefetcher_create(&options, &prefetcher, err);
    if (status != SLUICE_OK)
        return status;
    if (loader->place)
        sluice_log(SLUICE_LOG_INFO,
                   "%u times %.1f MB of page-locked memory for rows that the CPU makes", num_slots,
                   (double)batch_bytes * 1e-6);
    loader->place = NULL;
    loader_set_prefetcher(loader, prefetcher);
    return SLUICE_OK;
}

sluice_status loader_make_source(struct sluice_loader *loader, struct part *part,
                                 struct sluice_err *err)
{
    if (part->source)
        return SLUICE_OK;
    const struct sluice_options *o = &loader->options;
    if (!loader->servers) {
        const struct sluice_local_source_options options = {
            .roots = &o->dirs,
            .pool = loader->pool,
            .num_threads = (unsigned)o->workers,
            .max_items = sluice_prefetcher_max_items(loader->prefetcher),
            .retry_for_s = o->retry_for_s,
            .sample_timeout_s = o->sample_timeout_s,
            .jpeg_index = o->jpeg_index,
            .manifest = loader->manifest,
            .should_verify = o->should_verify,
            .events = sluice_prefetcher_events(loader->prefetcher),
        };
        return sluice_local_source_create(&options, &part->source, err);
    }
    const uint64_t half = o->prefetch_bytes / 2;
    const struct sluice_fetcher_options options = {
        .pipeline = part->pipeline,
        .max_items = sluice_prefetcher_max_items(loader->prefetcher),
        .window_bytes = half < MIN_WINDOW_BYTES ? MIN_WINDOW_BYTES : half,
        .sample_timeout_s = o->sample_timeout_s,
        .wants_file_image = o->has_geometry,
        .follows_price = o->mode == SLUICE_MODE_AUTO && o->has_replan && !o->is_greedy,
        .max_image_pixels = loader->info.max_image_pixels,
        .live = &loader->live,
    };
    const struct sluice_source_events events = sluice_prefetcher_events(loader->prefetcher);
    return sluice_servers_source(loader->servers, &options, &events, &part->source, err);
}
