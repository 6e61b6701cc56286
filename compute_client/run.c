#include "compute_client/run.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/quit.h"
#include "compute_client/client.h"
#include "compute_client/fetcher.h"
#include "compute_client/loader.h"
#include "compute_client/local_source.h"
#include "compute_client/report.h"
#include "compute_client/sampler.h"
#include "compute_client/train/train.h"

#include <jansson.h>

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_SLOTS 3
#define MAX_SLOTS 64
#define MAX_ITEMS ((1u << 20) - 1)

/* A window below this would hold a single large file back for a round trip. */
#define MIN_WINDOW_BYTES (8u << 20)

/* Enough that a second of a fast link's start-up does not count; 0.5 s at 500 Mbit/s. */
#define PROBE_BYTES (32u << 20)

/* One subset of the dataset, and the way its samples come. */
struct part {
    const char *name;
    struct sluice_pipeline *pipeline;
    uint32_t *ids;
    size_t num_ids, num_total; /* after and before --limit-samples */
    struct sluice_choice *choices;
    struct sluice_source *source;
};

struct run {
    const struct sluice_options *options;
    struct sluice_client *client; /* NULL: local */
    struct sluice_server_info info;
    struct sluice_manifest *manifest;
    char dataset_id[33];
    struct part train, val;
    struct sluice_buf_pool *pool;
    struct sluice_trainer *trainer;
    bool learns;
    struct sluice_loader *loader;
    struct sluice_cost_table profile;

    pthread_t watcher;
    bool has_watcher;
    _Atomic uint64_t epoch_now, batches_now, samples_now; /* for SIGUSR1; each by itself */
    pthread_mutex_t lock;                                 /* client and loader, for the watcher */
    bool is_stopping;
};

/* Where a run stands, as its checkpoint says. */
struct place {
    uint64_t epoch, batch; /* the next */
};

/* --- signals --- */

static void *watcher_main(void *ctx)
{
    struct run *run = ctx;
    for (;;) {
        const enum sluice_quit_event event = sluice_quit_wait(-1);
        if (event == SLUICE_QUIT_STOP) {
            /* Under the lock, which stands outside of theirs, so that they live. */
            pthread_mutex_lock(&run->lock);
            run->is_stopping = true;
            if (run->client)
                sluice_client_stop(run->client);
            if (run->loader)
                sluice_loader_stop(run->loader);
            pthread_mutex_unlock(&run->lock);
            return NULL;
        }
        if (event == SLUICE_QUIT_REPORT)
            sluice_log(SLUICE_LOG_INFO, "in epoch %llu after batch %llu, %llu samples so far",
                       (unsigned long long)run->epoch_now, (unsigned long long)run->batches_now,
                       (unsigned long long)run->samples_now);
    }
}

static sluice_status start_watcher(struct run *run, struct sluice_err *err)
{
    const int failed = pthread_create(&run->watcher, NULL, watcher_main, run);
    if (failed)
        return sluice_fail(err, SLUICE_E_IO, "cannot start a thread: %s", strerror(failed));
    run->has_watcher = true;
    return SLUICE_OK;
}

static void set_client(struct run *run, struct sluice_client *client)
{
    pthread_mutex_lock(&run->lock);
    run->client = client;
    if (run->is_stopping)
        sluice_client_stop(client);
    pthread_mutex_unlock(&run->lock);
}

static void set_loader(struct run *run, struct sluice_loader *loader)
{
    pthread_mutex_lock(&run->lock);
    run->loader = loader;
    if (run->is_stopping)
        sluice_loader_stop(loader);
    pthread_mutex_unlock(&run->lock);
}

/* --- pipelines and data --- */

static sluice_status make_pipelines(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *options = run->options;
    const unsigned size = (unsigned)options->image_size;
    char text[256];
    snprintf(text, sizeof(text),
             "decode,random_resized_crop=%u,hflip=0.5,to_tensor,normalize=imagenet", size);
    sluice_status status = sluice_pipeline_parse(options->pipeline ? options->pipeline : text,
                                                 &run->train.pipeline, err);
    if (status != SLUICE_OK)
        return status;
    /* ImageNet's usual margin: 256 for 224. */
    snprintf(text, sizeof(text), "decode,resize=%u,center_crop=%u,to_tensor,normalize=imagenet",
             (size * 8 + 3) / 7, size);
    status = sluice_pipeline_parse(options->val_pipeline ? options->val_pipeline : text,
                                   &run->val.pipeline, err);
    if (status != SLUICE_OK)
        return status;
    const size_t row_bytes = sluice_pipeline_u8_bytes(run->train.pipeline);
    if (row_bytes == 0 || row_bytes != sluice_pipeline_u8_bytes(run->val.pipeline))
        return sluice_fail(
            err, SLUICE_E_INVALID, "both pipelines must crop to one size: \"%s\" and \"%s\"",
            sluice_pipeline_spec(run->train.pipeline), sluice_pipeline_spec(run->val.pipeline));
    if (options->is_profiling &&
        sluice_pipeline_num_ops(run->train.pipeline) + 1 != SLUICE_PROFILE_STAGES)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--profiling knows pipelines of %d ops, and this one has %u",
                           SLUICE_PROFILE_STAGES - 1, sluice_pipeline_num_ops(run->train.pipeline));
    return SLUICE_OK;
}

static sluice_status open_remote(struct run *run, struct sluice_err *err)
{
    const struct sluice_client_options options = {
        .target = run->options->target,
        .retry_for_s = run->options->retry_for_s,
    };
    struct sluice_client *client = NULL;
    sluice_status status = sluice_client_create(&options, &client, err);
    if (status != SLUICE_OK)
        return status;
    set_client(run, client);
    status = sluice_client_hello(client, run->train.pipeline, "", &run->info, err);
    if (status == SLUICE_OK)
        status = sluice_client_list(client, &run->manifest, err);
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

static sluice_status open_data(struct run *run, struct sluice_err *err)
{
    sluice_status status = run->options->mode == SLUICE_MODE_LOCAL
                               ? sluice_manifest_open(run->options->dir, &run->manifest, err)
                               : open_remote(run, err);
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

/* --- what each sample is asked for --- */

static sluice_status plan(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *options = run->options;
    struct sluice_choice_request request = {
        .folder = options->profile_folder,
        .mode = options->mode,
        .forms = run->info.forms & (options->has_any_form ? ~0u : 1u << options->remote_form),
        .rates = {.link_bytes_per_s = options->net_bw,
                  .storage_cores = (double)(options->remote_cpus ? options->remote_cpus
                                                                 : run->info.prep_workers),
                  .compute_cores = (double)options->workers,
                  .gpu_samples_per_s =
                      options->consume_rate > 0 ? options->consume_rate : INFINITY},
        .num_samples = run->train.num_ids,
        .num_total = run->train.num_total,
    };
    double *link_bytes_per_s = &request.rates.link_bytes_per_s;
    if (*link_bytes_per_s <= 0) {
        const sluice_status status =
            sluice_client_probe(run->client, PROBE_BYTES, link_bytes_per_s, err);
        if (status != SLUICE_OK)
            return status;
        sluice_log(SLUICE_LOG_INFO, "the link to %s moves %.0f Mbit/s",
                   sluice_client_target(run->client), *link_bytes_per_s * 8e-6);
    }
    return sluice_choice_plan(&request, run->train.pipeline, run->train.choices, err);
}

/* The val subset has no profile: what is least on the wire, the file or the pixels. */
static struct sluice_choice least_bytes(const struct sluice_pipeline *pipeline, uint64_t file_bytes)
{
    const bool is_file_less = file_bytes <= sluice_pipeline_u8_bytes(pipeline);
    return sluice_choice_at(pipeline, is_file_less ? 0 : sluice_pipeline_u8_split(pipeline));
}

/* Where the plan says the file, the server may have CPU to spare for a smaller one: the
 * cut costs it less than a third of a decode and halves the bytes.  Packed pixels come as asked
 * for: a file gives way to them only where no plan said so. */
static void choose_form(const struct run *run, const struct part *part)
{
    const enum sluice_form form = run->options->remote_form;
    if (!(run->info.forms >> form & 1))
        return;
    const bool is_planned = sluice_mode_is_planned(run->options->mode);
    for (size_t i = 0; i < part->num_ids; i++) {
        struct sluice_choice *choice = &part->choices[i];
        if (form == SLUICE_FORM_JPEG_CROP)
            *choice = sluice_choice_cut(part->pipeline, *choice);
        else if (form == SLUICE_FORM_U8_PACKED && !(is_planned && choice->split == 0))
            *choice = sluice_choice_packed(part->pipeline, *choice);
    }
}

static sluice_status choose(struct run *run, struct sluice_err *err)
{
    const enum sluice_mode mode = run->options->mode;
    const bool is_planned = sluice_mode_is_planned(mode);
    for (size_t i = 0; i < run->val.num_ids; i++) {
        run->val.choices[i] =
            is_planned
                ? least_bytes(run->val.pipeline, run->manifest->entries[run->val.ids[i]].bytes)
                : sluice_choice_fixed(mode, run->val.pipeline);
    }
    if (is_planned && !run->options->is_evaluate) {
        const sluice_status status = plan(run, err);
        if (status != SLUICE_OK)
            return status;
    } else {
        for (size_t i = 0; i < run->train.num_ids; i++)
            run->train.choices[i] = sluice_choice_fixed(mode, run->train.pipeline);
    }
    if (mode != SLUICE_MODE_AUTO || run->options->is_evaluate) /* whose plan weighs forms */
        choose_form(run, &run->train);
    choose_form(run, &run->val);
    return SLUICE_OK;
}

/* --- trainer, loader, sources --- */

static sluice_status make_trainer(struct run *run, struct sluice_err *err)
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
        /* Only a device that is missing makes way: what else fails would fail unnoticed. */
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

static void free_pinned(void *ctx, void *memory)
{
    sluice_trainer_host_free(ctx, memory);
}

static sluice_status make_loader(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    const size_t row_bytes = sluice_pipeline_u8_bytes(run->train.pipeline);
    const size_t half = (size_t)(o->prefetch_bytes / 2);
    size_t slots = half / (row_bytes * (size_t)o->batch_size);
    slots = slots < MIN_SLOTS ? MIN_SLOTS : slots > MAX_SLOTS ? MAX_SLOTS : slots;
    if (slots * o->batch_size > MAX_ITEMS)
        slots = MIN_SLOTS;
    const struct sluice_loader_options options = {
        .num_workers = (unsigned)o->workers,
        .batch_size = (unsigned)o->batch_size,
        .num_slots = (unsigned)slots,
        .row_bytes = row_bytes,
        .payload_bytes = half,
        .on_error = o->on_error,
        .has_digest = o->has_digest,
        .measures_ops = o->is_profiling,
        .max_image_pixels = run->info.max_image_pixels,
        .pool = run->pool,
        .alloc = alloc_pinned,
        .free = free_pinned,
        .memory_ctx = run->trainer,
    };
    struct sluice_loader *loader = NULL;
    const sluice_status status = sluice_loader_create(&options, &loader, err);
    if (status == SLUICE_OK)
        set_loader(run, loader);
    return status;
}

static sluice_status make_source(struct run *run, struct part *part, struct sluice_err *err)
{
    if (part->source)
        return SLUICE_OK;
    const struct sluice_options *o = run->options;
    if (!run->client) {
        const struct sluice_local_source_options options = {
            .root = o->dir,
            .pool = run->pool,
            .num_threads = (unsigned)o->workers,
            .max_items = sluice_loader_max_items(run->loader),
            .events = sluice_loader_events(run->loader),
        };
        return sluice_local_source_create(&options, &part->source, err);
    }
    const uint64_t half = o->prefetch_bytes / 2;
    const struct sluice_fetcher_options options = {
        .client = run->client,
        .pipeline = part->pipeline,
        .dataset_id = run->dataset_id,
        .pool = run->pool,
        .max_items = sluice_loader_max_items(run->loader),
        .window_bytes = half < MIN_WINDOW_BYTES ? MIN_WINDOW_BYTES : half,
        .max_image_pixels = run->info.max_image_pixels,
        .events = sluice_loader_events(run->loader),
    };
    return sluice_fetcher_create(&options, &part->source, err);
}

/* --- checkpoints --- */

static sluice_status save(struct run *run, struct place place, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    char fingerprint[20];
    snprintf(fingerprint, sizeof(fingerprint), "%016" PRIx64,
             sluice_pipeline_fingerprint(run->train.pipeline));
    json_t *extra = json_pack("{s:I, s:I, s:s, s:I, s:I, s:I, s:s, s:s}", "epoch",
                              (json_int_t)place.epoch, "batch", (json_int_t)place.batch, "arch",
                              o->arch, "batch_size", (json_int_t)o->batch_size, "repeat",
                              (json_int_t)o->repeat, "samples", (json_int_t)run->train.num_ids,
                              "dataset", run->dataset_id, "pipeline", fingerprint);
    char seed[24];
    snprintf(seed, sizeof(seed), "%" PRIu64, o->seed); /* 64 bits do not fit a JSON integer */
    if (extra)
        json_object_set_new(extra, "seed", json_string(seed));
    char *text = extra ? json_dumps(extra, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    json_decref(extra);
    if (!text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a checkpoint");
    const sluice_status status = sluice_trainer_save(run->trainer, o->checkpoint, text, err);
    free(text);
    return status;
}

static sluice_status check_same(const char *path, const char *what, const char *then,
                                const char *now, struct sluice_err *err)
{
    if (then && strcmp(then, now) == 0)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID, "%s was made with %s %s, and this is %s", path, what,
                       then ? then : "unknown", now);
}

static sluice_status check_same_number(const char *path, const char *what, const json_t *extra,
                                       uint64_t now, struct sluice_err *err)
{
    const json_int_t then = json_integer_value(json_object_get(extra, what));
    if (then == (json_int_t)now)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID, "%s was made with %s %lld, and this is %llu", path,
                       what, (long long)then, (unsigned long long)now);
}

/* Whether the run that the checkpoint broke off and this one deliver the same batches. */
static sluice_status check_extra(const struct run *run, const json_t *extra, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    char seed[24], fingerprint[20];
    snprintf(seed, sizeof(seed), "%" PRIu64, o->seed);
    snprintf(fingerprint, sizeof(fingerprint), "%016" PRIx64,
             sluice_pipeline_fingerprint(run->train.pipeline));
    sluice_status status =
        check_same(o->resume, "seed", json_string_value(json_object_get(extra, "seed")), seed, err);
    if (status == SLUICE_OK)
        status =
            check_same(o->resume, "dataset", json_string_value(json_object_get(extra, "dataset")),
                       run->dataset_id, err);
    if (status == SLUICE_OK)
        status =
            check_same(o->resume, "pipeline", json_string_value(json_object_get(extra, "pipeline")),
                       fingerprint, err);
    if (status == SLUICE_OK)
        status = check_same_number(o->resume, "batch_size", extra, o->batch_size, err);
    if (status == SLUICE_OK)
        status = check_same_number(o->resume, "repeat", extra, o->repeat, err);
    if (status == SLUICE_OK)
        status = check_same_number(o->resume, "samples", extra, run->train.num_ids, err);
    return status;
}

static sluice_status resume(struct run *run, struct place *place, struct sluice_err *err)
{
    const char *path = run->options->resume;
    char *text = NULL;
    sluice_status status = sluice_trainer_load(run->trainer, path, &text, err);
    if (status != SLUICE_OK)
        return status;
    json_t *extra = json_loads(text ? text : "", 0, NULL);
    free(text);
    const json_t *epoch = json_object_get(extra, "epoch");
    const json_t *batch = json_object_get(extra, "batch");
    if (!json_is_integer(epoch) || !json_is_integer(batch) || json_integer_value(epoch) < 0 ||
        json_integer_value(batch) < 0) {
        json_decref(extra);
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s does not say where its run stood", path);
    }
    *place = (struct place){
        .epoch = (uint64_t)json_integer_value(epoch),
        .batch = (uint64_t)json_integer_value(batch),
    };
    /* To evaluate, the weights alone matter. */
    if (!run->options->is_evaluate)
        status = check_extra(run, extra, err);
    json_decref(extra);
    if (status == SLUICE_OK)
        sluice_log(SLUICE_LOG_INFO, "%s: going on at epoch %llu, batch %llu", path,
                   (unsigned long long)place->epoch, (unsigned long long)place->batch);
    return status;
}

/* --- epochs --- */

struct pass {
    struct sluice_epoch_stats stats;
    struct sluice_train_totals totals;
    double seconds;
    uint64_t first_batch, batches; /* both counted from the epoch's begin */
    bool is_stopped;
};

static void add_totals(struct sluice_train_totals *sum, const struct sluice_train_totals *more)
{
    sum->samples += more->samples;
    sum->steps += more->steps;
    sum->loss_sum += more->loss_sum;
    sum->top1 += more->top1;
    sum->top5 += more->top5;
}

static sluice_status collect(struct run *run, struct pass *pass, struct sluice_err *err)
{
    struct sluice_train_totals totals = {0};
    const sluice_status status = sluice_trainer_collect(run->trainer, &totals, err);
    if (status == SLUICE_OK)
        add_totals(&pass->totals, &totals);
    return status;
}

static void log_progress(const struct run *run, const struct part *part, uint64_t epoch,
                         uint64_t num_batches, const struct pass *pass, uint64_t samples,
                         double seconds)
{
    char loss[64] = "";
    if (run->learns)
        snprintf(loss, sizeof(loss), ", loss %.4f, top1 %.2f%%",
                 pass->totals.loss_sum / (double)(pass->totals.samples ? pass->totals.samples : 1),
                 100.0 * (double)pass->totals.top1 /
                     (double)(pass->totals.samples ? pass->totals.samples : 1));
    sluice_log(SLUICE_LOG_INFO, "%s epoch %llu [%llu/%llu] %.1f samples/s%s", part->name,
               (unsigned long long)epoch, (unsigned long long)pass->batches,
               (unsigned long long)num_batches, seconds > 0 ? (double)samples / seconds : 0, loss);
}

/* The batches of one epoch through the trainer.  The loader's epoch is finished in any case. */
static sluice_status consume(struct run *run, const struct part *part, uint64_t epoch,
                             uint64_t num_batches, bool is_training, struct pass *pass,
                             struct sluice_err *err)
{
    const uint64_t start = sluice_clock_ns();
    uint64_t trainer_ns = 0, samples = 0;
    sluice_status status = SLUICE_OK;
    for (;;) {
        if (sluice_quit_requested()) {
            pass->is_stopped = true;
            break;
        }
        const struct sluice_batch *batch = NULL;
        struct sluice_err cause = {0};
        status = sluice_loader_next(run->loader, &batch, &cause);
        if (status == SLUICE_E_CLOSED && sluice_quit_requested()) {
            status = SLUICE_OK;
            pass->is_stopped = true;
            break;
        }
        if (status != SLUICE_OK) {
            status = sluice_fail(err, status, "%s", cause.text);
            break;
        }
        if (!batch)
            break;
        const uint64_t step_start = sluice_clock_ns();
        const struct sluice_train_batch rows = {
            .pixels = batch->pixels,
            .labels = batch->labels,
            .n = batch->n,
        };
        samples += batch->n;
        status = is_training ? sluice_trainer_step(run->trainer, &rows, err)
                             : sluice_trainer_evaluate(run->trainer, &rows, err);
        pass->batches = pass->first_batch + sluice_loader_position(run->loader);
        run->epoch_now = epoch;
        run->batches_now = pass->batches;
        run->samples_now += batch->n;
        if (status != SLUICE_OK)
            break;
        sluice_loader_release(run->loader);
        if (run->options->print_freq && pass->batches % run->options->print_freq == 0 &&
            sluice_log_is_enabled(SLUICE_LOG_INFO)) {
            status = collect(run, pass, err);
            if (status != SLUICE_OK)
                break;
            log_progress(run, part, epoch, num_batches, pass, samples,
                         (double)(sluice_clock_ns() - start) * 1e-9);
        }
        trainer_ns += sluice_clock_ns() - step_start;
    }
    const uint64_t collect_start = sluice_clock_ns();
    if (status == SLUICE_OK)
        status = collect(run, pass, err);
    const uint64_t end = sluice_clock_ns();
    pass->stats = sluice_loader_finish(run->loader);
    pass->stats.stall_ns[SLUICE_STALL_TRAINER] = trainer_ns + end - collect_start;
    pass->seconds = (double)(end - start) * 1e-9;
    return status;
}

static sluice_status run_pass(struct run *run, struct part *part, struct place place,
                              bool is_training, struct pass *pass, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    const struct sluice_sampler sampler = {
        .seed = o->seed,
        .num_samples = (uint32_t)part->num_ids,
        .repeat = is_training ? (uint32_t)o->repeat : 1,
        .is_shuffled = is_training,
    };
    size_t count = 0;
    sluice_status status = sluice_sampler_count(&sampler, place.epoch, &count, err);
    if (status != SLUICE_OK)
        return status;
    const uint64_t num_batches = (count + o->batch_size - 1) / o->batch_size;
    if (place.batch > num_batches)
        return sluice_fail(err, SLUICE_E_INVALID, "batch %llu of an epoch of %llu",
                           (unsigned long long)place.batch, (unsigned long long)num_batches);
    struct sluice_sampler_item *items = malloc(count * sizeof(*items));
    if (!items)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an epoch of %zu samples", count);
    sluice_sampler_fill(&sampler, (uint32_t)place.epoch, items);
    const size_t first = (size_t)(place.batch * o->batch_size);
    status = make_source(run, part, err);
    if (status == SLUICE_OK) {
        const struct sluice_epoch epoch = {
            .source = part->source,
            .pipeline = part->pipeline,
            .manifest = run->manifest,
            .ids = part->ids,
            .choices = part->choices,
            .seed = o->seed,
            .items = items,
            .num_items = count,
            .first_item = first < count ? first : count,
            .profile = is_training && o->is_profiling ? &run->profile : NULL,
        };
        pass->first_batch = pass->batches = place.batch;
        status = sluice_loader_start(run->loader, &epoch, err);
    }
    if (status == SLUICE_OK)
        status = consume(run, part, place.epoch, num_batches, is_training, pass, err);
    free(items);
    return status;
}

static double lr_at(const struct sluice_options *options, uint64_t epoch)
{
    double lr = options->lr;
    for (uint64_t i = 0; i < epoch / options->lr_step; i++)
        lr *= options->lr_gamma;
    return lr;
}

static uint64_t lost_streams(const struct run *run, const struct part *part)
{
    return run->client && part->source ? sluice_fetcher_stats(part->source).lost_streams : 0;
}

static sluice_status print_report(const struct run *run, const struct sluice_epoch_report *report,
                                  struct sluice_err *err)
{
    char text[1024];
    sluice_report_text(report, text, sizeof(text));
    if (run->options->is_json) {
        sluice_log(SLUICE_LOG_INFO, "%s", text);
        return sluice_report_json(report, stdout, err);
    }
    if (printf("%s\n", text) < 0 || fflush(stdout) != 0)
        return sluice_fail(err, SLUICE_E_IO, "cannot write to the standard output");
    return SLUICE_OK;
}

static sluice_status evaluate_only(struct run *run, uint64_t epoch, struct sluice_err *err)
{
    struct pass pass = {0};
    const sluice_status status =
        run_pass(run, &run->val, (struct place){.epoch = epoch}, false, &pass, err);
    if (status != SLUICE_OK || pass.is_stopped)
        return status;
    const struct sluice_epoch_report report = {
        .epoch = epoch,
        .mode = run->options->mode,
        .is_evaluation = true,
        .seconds = pass.seconds,
        .stats = &pass.stats,
        .manifest = run->manifest,
        .has_loss = run->learns,
        .totals = pass.totals,
        .retries = lost_streams(run, &run->val),
    };
    return print_report(run, &report, err);
}

/* One epoch, its evaluation, its report and its checkpoint.  *place moves on. */
static sluice_status run_epoch(struct run *run, struct place *place, bool *is_stopped,
                               struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    struct pass train = {0}, val = {0};
    const uint64_t lost_before = lost_streams(run, &run->train);
    const double lr = lr_at(o, place->epoch);
    sluice_trainer_set_lr(run->trainer, lr);
    sluice_status status = run_pass(run, &run->train, *place, true, &train, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_epoch_report report = {
        .epoch = place->epoch,
        .first_sample = place->batch * o->batch_size,
        .mode = o->mode,
        .seconds = train.seconds,
        .stats = &train.stats,
        .manifest = run->manifest,
        .has_loss = run->learns,
        .totals = train.totals,
        .lr = lr,
        .retries = lost_streams(run, &run->train) - lost_before,
    };
    if (train.is_stopped) {
        *is_stopped = true;
        place->batch = train.batches;
        sluice_log(SLUICE_LOG_INFO, "stopped in epoch %llu after batch %llu",
                   (unsigned long long)place->epoch, (unsigned long long)place->batch);
        return o->checkpoint ? save(run, *place, err) : SLUICE_OK;
    }
    if (o->has_val && run->learns && run->val.num_ids > 0 && !o->is_profiling) {
        status = run_pass(run, &run->val, (struct place){.epoch = place->epoch}, false, &val, err);
        if (status != SLUICE_OK)
            return status;
        report.has_val = !val.is_stopped;
        report.val = val.totals;
        report.val_seconds = val.seconds;
        report.val_errors = val.stats.errors;
    }
    *is_stopped = val.is_stopped;
    *place = (struct place){.epoch = place->epoch + 1};
    status = print_report(run, &report, err);
    if (status == SLUICE_OK && o->checkpoint)
        status = save(run, *place, err);
    return status;
}

static sluice_status begin_profile(struct run *run, struct sluice_err *err)
{
    run->profile.rows = calloc(run->train.num_ids, sizeof(*run->profile.rows));
    if (!run->profile.rows)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a profile of %zu samples",
                           run->train.num_ids);
    run->profile.num_rows = run->train.num_ids;
    return SLUICE_OK;
}

static sluice_status run_all(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    struct place place = {.epoch = o->start_epoch};
    sluice_status status = make_pipelines(run, err);
    if (status == SLUICE_OK)
        status = open_data(run, err);
    if (status == SLUICE_OK)
        status = choose(run, err);
    if (status == SLUICE_OK)
        status = make_trainer(run, err);
    if (status == SLUICE_OK && o->resume)
        status = resume(run, &place, err);
    if (status == SLUICE_OK)
        status = sluice_buf_pool_create((size_t)o->prefetch_bytes / 2, &run->pool, err);
    if (status == SLUICE_OK)
        status = make_loader(run, err);
    if (status != SLUICE_OK)
        return status;
    if (o->is_evaluate)
        return evaluate_only(run, place.epoch, err);
    if (o->is_profiling) {
        bool is_stopped = false;
        status = begin_profile(run, err);
        if (status == SLUICE_OK)
            status = run_epoch(run, &place, &is_stopped, err);
        if (status == SLUICE_OK && !is_stopped)
            status = sluice_cost_table_write(o->write_profile_folder, &run->profile, err);
        return status;
    }
    if (place.epoch >= o->epochs)
        sluice_log(SLUICE_LOG_WARN, "nothing to do: %llu epochs are done, and --epochs is %llu",
                   (unsigned long long)place.epoch, (unsigned long long)o->epochs);
    bool is_stopped = false;
    while (status == SLUICE_OK && !is_stopped && place.epoch < o->epochs)
        status = run_epoch(run, &place, &is_stopped, err);
    return status;
}

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
    free(part->choices);
}

sluice_status sluice_run(const struct sluice_options *options, struct sluice_err *err)
{
    struct run run = {
        .options = options,
        .train.name = "train",
        .val.name = "val",
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    sluice_status status = start_watcher(&run, err);
    if (status == SLUICE_OK)
        status = run_all(&run, err);
    /* What a stop interrupted is no failure. */
    if (status == SLUICE_E_CLOSED && sluice_quit_requested())
        status = SLUICE_OK;
    if (run.has_watcher) {
        sluice_quit_request(); /* ends the watcher */
        pthread_join(run.watcher, NULL);
    }
    part_close(&run.train);
    part_close(&run.val);
    sluice_loader_destroy(run.loader);
    part_clear(&run.train);
    part_clear(&run.val);
    sluice_client_destroy(run.client);
    sluice_trainer_destroy(run.trainer);
    sluice_buf_pool_destroy(run.pool);
    sluice_cost_table_clear(&run.profile);
    sluice_manifest_destroy(run.manifest);
    pthread_mutex_destroy(&run.lock);
    return status;
}
