#include "compute_client/options/options.h"

#include "base/host_port.h"
#include "base/parse.h"
#include "compute_client/fetch/host_text.h"
#include "compute_client/options/connection.h"
#include "compute_client/options/loader_options.h"
#include "metrics/metrics_server.h"
#include "op/form.h"
#include "op/form_words.h"
#include "op/recipe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(SLUICE_TARGET_BYTES == SLUICE_HOST_ITEMS_BYTES, "what read_hosts() writes");

enum sluice_on_error sluice_options_on_error(const struct sluice_options *options)
{
    if (strcmp(options->on_error, "fail") == 0)
        return SLUICE_ON_ERROR_FAIL;
    return strcmp(options->on_error, "skip") == 0 ? SLUICE_ON_ERROR_SKIP
                                                  : SLUICE_ON_ERROR_SUBSTITUTE;
}

/* The form that may be requested in addition to the plain ones. */
static enum sluice_form parse_remote_form(const char *word, const struct sluice_options *o)
{
    if (strcmp(word, "auto") == 0 && o->mode == SLUICE_MODE_AUTO)
        word = "jpeg_crop";
    const enum sluice_form form = sluice_form_find(word);
    /* A profile is of whole files, as "none" is. */
    return o->is_profiling || form == SLUICE_MAX_FORMS ? sluice_form_plain(SLUICE_KIND_FILE) : form;
}

/* "7", "1%", "0.5%". */
static bool parse_max_errors(const char *word, struct sluice_options *o)
{
    char number[32];
    const size_t len = strlen(word);
    if (len == 0 || len >= sizeof(number))
        return false;
    memcpy(number, word, len + 1);
    o->is_max_errors_share = number[len - 1] == '%';
    if (o->is_max_errors_share) {
        number[len - 1] = '\0';
        if (sluice_parse_double(number, &o->max_errors, NULL) != SLUICE_OK)
            return false;
        o->max_errors /= 100;
        return o->max_errors >= 0 && o->max_errors <= 1;
    }
    uint64_t count;
    if (sluice_parse_uint(number, &count, NULL) != SLUICE_OK || count > UINT32_MAX)
        return false;
    o->max_errors = (double)count;
    return true;
}

uint64_t sluice_options_max_errors(const struct sluice_options *options, uint64_t num_samples)
{
    const double most = options->is_max_errors_share
                            /* 7 % of 100 are 7, whatever binary fractions make of it. */
                            ? ceil(options->max_errors * (double)num_samples - 1e-9)
                            : options->max_errors;
    return most > 0 ? (uint64_t)most : 0;
}

/* "1000" batches; "300s", "5m", "1.5h". */
static bool parse_checkpoint_every(const char *word, struct sluice_options *o)
{
    if (sluice_parse_uint(word, &o->checkpoint_batches, NULL) == SLUICE_OK)
        return o->checkpoint_batches > 0;
    const bool has_unit = strspn(word, "0123456789.") < strlen(word);
    return has_unit && sluice_parse_time(word, 1, &o->checkpoint_s, NULL) == SLUICE_OK &&
           o->checkpoint_s > 0 && o->checkpoint_s <= 1e6;
}

/* Refuses an argument that stands for a folder and is likely to be something else. */
static sluice_status check_dir(const char *dir, struct sluice_err *err)
{
    struct sluice_host_port address;
    struct stat info;
    enum sluice_mode mode;
    if (stat(dir, &info) == 0)
        return SLUICE_OK;
    if (sluice_mode_parse(dir, &mode))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "'%s' is a mode and no folder; did you mean --dataset-mode %s?", dir,
                           dir);
    if (sluice_host_port_parse(dir, -1, &address, NULL) == SLUICE_OK)
        return sluice_fail(err, SLUICE_E_INVALID, "'%s' is no folder; did you mean --host %s?", dir,
                           dir);
    return SLUICE_OK;
}

static sluice_status take_dirs(struct sluice_options *o, struct sluice_err *err)
{
    struct sluice_err why = {0};
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < o->given_dirs.num_items; i++)
        status = o->given_dirs.items[i][0]
                     ? check_dir(o->given_dirs.items[i], err)
                     : sluice_fail(err, SLUICE_E_INVALID, "DIR: an empty name");
    if (status != SLUICE_OK || o->given_dirs.num_items == 0)
        return status;
    if (sluice_roots_parse(o->given_dirs.items, o->given_dirs.num_items, &o->dirs, &why) !=
        SLUICE_OK)
        return sluice_fail(err, SLUICE_E_INVALID, "DIR: %s", why.text);
    if (o->dirs.at[0].name[0] && strcmp(o->jpeg_index, "auto") != 0 &&
        strcmp(o->jpeg_index, "off") != 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--jpeg-index FILE is for one DIR without a name; those with names have "
                           "theirs beside their files");
    return SLUICE_OK;
}

/* The mode as it was typed, if that is the one that runs. */
static const char *find_mode_name(const struct sluice_given_options *given)
{
    enum sluice_mode mode;
    const bool is_typed = sluice_mode_parse(given->mode, &mode) && mode == given->options.mode;
    return is_typed ? given->mode : sluice_mode_name(given->options.mode);
}

static sluice_status read_hosts(struct sluice_options *o, struct sluice_err *err)
{
    struct sluice_host_items items = {0};
    struct sluice_err cause = {0};
    if (o->hosts.num_items == 0)
        o->hosts.items[o->hosts.num_items++] = SLUICE_DEFAULT_HOST;
    const sluice_status status =
        sluice_host_items_parse(o->hosts.items, o->hosts.num_items, &items, &cause);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "--host: %s", cause.text);
    sluice_host_items_format(&items, o->target);
    const bool is_one = items.num == 1 && !items.at[0].is_dns;
    sluice_host_items_clear(&items);
    if (o->hedges && is_one)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--hedge: %s is one server; it is for replicas: --host A,B", o->target);
    return SLUICE_OK;
}

/* Parses the words that the table stores as text.  Returns 0, or the exit code of a usage error. */
static sluice_status interpret(struct sluice_given_options *given, struct sluice_err *err)
{
    struct sluice_options *o = &given->options;
    if (!sluice_mode_parse(given->mode, &o->mode))
        return sluice_fail(err, SLUICE_E_INVALID, "--dataset-mode: no mode is called %s",
                           given->mode);
    o->is_mode_derived = o->dirs.num > 0 && !o->has_host && !given->has_mode;
    if (o->is_mode_derived)
        o->mode = SLUICE_MODE_LOCAL;
    const sluice_status status = read_hosts(o, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_host_port address;
    struct sluice_err cause = {0};
    if (o->metrics && sluice_metrics_listen_parse(o->metrics, &address, &cause) != SLUICE_OK)
        return sluice_fail(err, SLUICE_E_INVALID, "--metrics: %s", cause.text);
    if (o->mode == SLUICE_MODE_LOCAL && o->dirs.num == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "--dataset-mode local needs DIR, the dataset");
    /* Profiling offloads nothing, whatever the mode, so modes with a plan need no plan for it. */
    if (o->is_profiling && o->mode != SLUICE_MODE_LOCAL)
        o->mode = SLUICE_MODE_NOOFF;
    o->on_error = given->on_error;
    o->has_any_form = strcmp(given->remote_form, "auto") == 0 && o->mode == SLUICE_MODE_AUTO;
    o->remote_form = parse_remote_form(given->remote_form, o);
    o->mode_name = find_mode_name(given);
    o->is_greedy = strcmp(sluice_mode_canonical(given->planner), "remote_sophon") == 0;
    if (!parse_max_errors(given->max_errors, o))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--max-errors: \"%s\" is neither a number of samples nor 0%% to 100%%",
                           given->max_errors);
    if (given->checkpoint_every && !parse_checkpoint_every(given->checkpoint_every, o))
        return sluice_fail(
            err, SLUICE_E_INVALID,
            "--checkpoint-every: \"%s\" is neither a number of batches nor a time (300s, 5m, 1h)",
            given->checkpoint_every);
    if (given->has_trace_sample && !o->trace)
        return sluice_fail(err, SLUICE_E_INVALID, "--trace-sample is for --trace FILE");
    if (given->checkpoint_every && !o->checkpoint)
        return sluice_fail(err, SLUICE_E_INVALID, "--checkpoint-every needs --checkpoint FILE");
    return SLUICE_OK;
}

/* "always", "idle", "0.3". */
static bool parse_lend_share(const char *word, struct sluice_options *o)
{
    o->lend_when = SLUICE_LEND_ALWAYS;
    if (strcmp(word, "always") == 0)
        return true;
    o->lend_when = strcmp(word, "idle") == 0 ? SLUICE_LEND_IDLE : SLUICE_LEND_SHARE;
    return o->lend_when == SLUICE_LEND_IDLE ||
           (sluice_parse_double(word, &o->lend_share, NULL) == SLUICE_OK && o->lend_share > 0 &&
            o->lend_share < 1);
}

/* UINT32_MAX stands for "no change" in chown() and setreuid(). */
static sluice_status read_uids(struct sluice_options *o, struct sluice_err *err)
{
    for (size_t i = 0; i < o->lend_allow.num_items; i++) {
        const char *text = o->lend_allow.items[i];
        uint64_t uid;
        if (sluice_parse_uint(text, &uid, NULL) != SLUICE_OK || uid >= UINT32_MAX)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "--lend-allow: \"%s\" is no user's number (id -u NAME prints it)",
                               text);
        o->lend_uids[i] = (uint32_t)uid;
    }
    return SLUICE_OK;
}

/* After the rank is known. */
static sluice_status check_lend(struct sluice_given_options *given, struct sluice_err *err)
{
    struct sluice_options *o = &given->options;
    const char *needs = given->has_lend_share     ? "share"
                        : given->has_lend_allow   ? "allow"
                        : given->has_lend_at_most ? "at-most"
                                                  : NULL;
    if (!o->lend)
        return needs ? sluice_fail(err, SLUICE_E_INVALID, "--lend-%s is for --lend PATH", needs)
                     : SLUICE_OK;
    if (o->gpus > 1 || o->world_size > 1)
        return sluice_fail(
            err, SLUICE_E_INVALID,
            "--lend: this run has %llu ranks, and only a run of one process lends its "
            "GPU: ranks that stop at different layers wait for each other",
            (unsigned long long)(o->gpus > 1 ? o->gpus : o->world_size));
    if (!parse_lend_share(given->lend_share, o))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--lend-share: \"%s\" is neither always nor idle nor a part of the time "
                           "between 0 and 1",
                           given->lend_share);
    return read_uids(o, err);
}

/* Options that exclude or need each other. */
static sluice_status check_profiling(const struct sluice_options *o, struct sluice_err *err)
{
    if (o->is_profiling && !o->write_profile_folder)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--profiling needs --write-profile-folder DIR, where the profile goes");
    if (o->write_profile_folder && !o->is_profiling)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--write-profile-folder is for --profiling, which is not given");
    if (o->profile_samples && !o->is_profiling)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--profile-samples is for --profiling, which is not given");
    if (o->is_profiling &&
        (o->repeat != 1 || o->repeat_within_batch != 1 || o->mix || o->is_evaluate || o->resume))
        return sluice_fail(
            err, SLUICE_E_INVALID,
            "--profiling measures each training sample once: it goes with none of --repeat, "
            "--repeat-within-batch, --mix, --evaluate and --resume");
    return SLUICE_OK;
}

/* An empty file name, as from an unset variable of a script ("$CKPT"), is an error. */
static sluice_status check_files(const struct sluice_options *o, struct sluice_err *err)
{
    const struct {
        const char *option, *file;
    } given[] = {
        {"checkpoint", o->checkpoint},
        {"init", o->init},
        {"resume", o->resume},
        {"engine-cache", o->engine_cache},
        {"batch-log", o->batch_log},
        {"lend", o->lend},
        {"trace", o->trace},
        {"profile-folder", o->profile_folder},
        {"write-profile-folder", o->write_profile_folder},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(given); i++) {
        if (given[i].file && !given[i].file[0])
            return sluice_fail(err, SLUICE_E_INVALID, "--%s: an empty name", given[i].option);
    }
    return SLUICE_OK;
}

static sluice_status check_tls(const struct sluice_options *o, struct sluice_err *err)
{
    const struct sluice_connection_options connection = {.has_tls = o->has_tls,
                                                         .ca = o->ca,
                                                         .cert = o->cert,
                                                         .key = o->key,
                                                         .server_name = o->server_name,
                                                         .token_file = o->token_file};
    return sluice_connection_check(&connection, err);
}

/* --pipeline says the size, so --image-size may only agree. */
static sluice_status check_image_size(const struct sluice_given_options *given,
                                      struct sluice_err *err)
{
    const struct sluice_options *o = &given->options;
    struct sluice_pipeline *pipeline = NULL;
    if (!o->pipeline || !given->has_image_size ||
        sluice_recipe_parse(o->pipeline, false, &pipeline, NULL) != SLUICE_OK)
        return SLUICE_OK;
    const unsigned num_views = sluice_pipeline_num_views(pipeline);
    const struct sluice_size size = sluice_pipeline_view_size(pipeline, 0);
    sluice_pipeline_destroy(pipeline);
    if (num_views > 1)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--image-size %llu: --pipeline has views with sizes of their own; leave "
                           "one out",
                           (unsigned long long)o->image_size);
    if (size.width == 0 || (size.width == o->image_size && size.height == o->image_size))
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID,
                       "--image-size %llu: --pipeline ends at %u x %u (height x width); leave one "
                       "out",
                       (unsigned long long)o->image_size, size.height, size.width);
}

/* A loader finds this out when it plans, as an evaluation needs no plan. */
static sluice_status check_plan(const struct sluice_given_options *given, struct sluice_err *err)
{
    const struct sluice_options *o = &given->options;
    const bool needs_profile =
        o->mode == SLUICE_MODE_SOPHON || (o->mode == SLUICE_MODE_AUTO && o->is_greedy);
    if (needs_profile && !o->is_evaluate && !o->profile_folder)
        return sluice_fail(
            err, SLUICE_E_INVALID,
            "--dataset-mode %s%s needs --profile-folder DIR; make one with --profiling "
            "--write-profile-folder DIR",
            given->mode, o->mode == SLUICE_MODE_AUTO ? " --planner remote_sophon" : "");
    return SLUICE_OK;
}

static sluice_status check_run(const struct sluice_given_options *given, struct sluice_err *err)
{
    const struct sluice_options *o = &given->options;
    if (o->resume && given->has_start_epoch)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--start-epoch: the checkpoint of --resume holds it");
    if (!o->resume && o->start_epoch >= o->epochs)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--start-epoch %llu: --epochs %llu ends before it",
                           (unsigned long long)o->start_epoch, (unsigned long long)o->epochs);
    return SLUICE_OK;
}

struct sluice_order_options sluice_options_order(const struct sluice_options *options)
{
    return (struct sluice_order_options){
        .batch_size = (uint32_t)options->batch_size,
        .rank = (uint32_t)options->rank,
        .world_size = (uint32_t)options->world_size,
        .tail = options->drops_tail ? SLUICE_TAIL_DROP : SLUICE_TAIL_PAD,
    };
}

/* Whose rows: as given, or as the launcher of the process says. */
static sluice_status find_rank(struct sluice_given_options *given, struct sluice_err *err)
{
    struct sluice_options *o = &given->options;
    o->drops_tail = strcmp(given->tail, "drop") == 0;
    if (given->has_rank != given->has_world_size)
        return sluice_fail(err, SLUICE_E_INVALID, "--rank and --world-size go together");
    if (!given->has_rank) {
        struct sluice_rank found;
        const sluice_status status = sluice_rank_from_env(getenv, &found, err);
        if (status != SLUICE_OK)
            return status;
        o->rank = found.rank;
        o->world_size = found.world_size;
    }
    const struct sluice_order_options order = sluice_options_order(o);
    return sluice_order_check(&order, err);
}

sluice_status sluice_options_check(struct sluice_given_options *given, struct sluice_err *err)
{
    sluice_status status = take_dirs(&given->options, err);
    if (status == SLUICE_OK)
        status = interpret(given, err);
    if (status == SLUICE_OK)
        status = check_profiling(&given->options, err);
    if (status == SLUICE_OK)
        status = check_files(&given->options, err);
    if (status == SLUICE_OK)
        status = check_tls(&given->options, err);
    if (status == SLUICE_OK)
        status = check_image_size(given, err);
    if (status == SLUICE_OK)
        status = check_run(given, err);
    if (status == SLUICE_OK)
        status = find_rank(given, err);
    return status;
}

/* Rows stay on a GPU where the model trains, or where no trainer reads them. */
static sluice_status check_place(const struct sluice_options *o, struct sluice_err *err)
{
    if (strcmp(o->gpu_decode, "on") == 0 && strcmp(o->device, "cpu") == 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--gpu-decode on: --device cpu trains on rows in the host's memory");
    return SLUICE_OK;
}

static sluice_status check_device(struct sluice_given_options *given, struct sluice_err *err)
{
    struct sluice_options *o = &given->options;
    const bool is_cpu = strcmp(o->device, "cpu") == 0;
    const bool has_gpu = !is_cpu && strcmp(o->device, "none") != 0;
    if (!given->has_tf32 && o->precision && strcmp(o->precision, "fp32") != 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--no-tf32 is --precision fp32, but --precision is %s: leave one out",
                           o->precision);
    if (!given->has_tf32)
        o->precision = "fp32";
    if (is_cpu && o->precision && strcmp(o->precision, "fp32") != 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--precision %s is for --device cuda: --device cpu computes in fp32",
                           o->precision);
    if (!has_gpu && (given->has_gpu || o->engine_cache))
        return sluice_fail(err, SLUICE_E_INVALID, "--%s is for --device cuda, but --device is %s",
                           given->has_gpu ? "gpu" : "engine-cache", o->device);
    return SLUICE_OK;
}

/* A number of the environment, if it is set. */
static sluice_status read_env(const char *name, uint64_t max, const char **text, uint64_t *value,
                              struct sluice_err *err)
{
    const char *found = getenv(name);
    if (!found || !found[0])
        return SLUICE_OK;
    struct sluice_err cause = {0};
    uint64_t number;
    if (sluice_parse_uint(found, &number, &cause) != SLUICE_OK)
        return sluice_fail(err, SLUICE_E_INVALID, "%s of the environment: %s", name, cause.text);
    if (number > max)
        return sluice_fail(err, SLUICE_E_INVALID, "%s of the environment: %s; at most %llu", name,
                           found, (unsigned long long)max);
    *text = found;
    *value = number;
    return SLUICE_OK;
}

static sluice_status check_gpus(const struct sluice_given_options *given, struct sluice_err *err)
{
    const struct sluice_options *o = &given->options;
    if (o->gpus <= 1 || o->is_launched)
        return SLUICE_OK;
    if (given->has_rank)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--gpus %llu starts the ranks: leave --rank and --world-size out",
                           (unsigned long long)o->gpus);
    if (o->world_size > 1)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--gpus %llu: this is rank %llu of %llu of another launcher, by the "
                           "environment; leave --gpus out",
                           (unsigned long long)o->gpus, (unsigned long long)o->rank,
                           (unsigned long long)o->world_size);
    if (given->has_gpu || given->has_gpu_device)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--gpus %llu takes GPUs 0 to %llu: leave --%s out; CUDA_VISIBLE_DEVICES "
                           "selects other ones",
                           (unsigned long long)o->gpus, (unsigned long long)o->gpus - 1,
                           given->has_gpu ? "gpu" : "gpu-device");
    if (strcmp(o->device, "cpu") == 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--gpus is for --device cuda, but --device is cpu");
    if (o->is_profiling)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--profiling is for one process: leave --gpus out");
    return SLUICE_OK;
}

/* The environment of a launcher, ours or another. */
static sluice_status find_launcher(struct sluice_given_options *given, struct sluice_err *err)
{
    struct sluice_options *o = &given->options;
    const char *text = NULL;
    uint64_t launcher = 0;
    sluice_status status = read_env(SLUICE_LAUNCHER_VARIABLE, INT32_MAX, &text, &launcher, err);
    /* The variable alone may come from further up. */
    o->is_launched = text && launcher == (uint64_t)getppid();
    if (status == SLUICE_OK && !given->has_gpu && strcmp(o->device, "cpu") != 0)
        status = read_env("LOCAL_RANK", 1023, &given->gpu_text, &o->gpu, err);
    static const char *const keys[] = {SLUICE_RENDEZVOUS_VARIABLE, "MASTER_PORT"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(keys) && !o->rendezvous; i++) {
        const char *key = getenv(keys[i]);
        if (key && key[0])
            o->rendezvous = key;
    }
    return status == SLUICE_OK ? check_gpus(given, err) : status;
}

/* torchvision's references train alexnet and vgg with 0.01 and resnet with 0.1. */
static double lr_of(const char *arch)
{
    return strcmp(arch, "alexnet") == 0 || strncmp(arch, "vgg", 3) == 0 ? 0.01 : 0.1;
}

/* Options that the schedule would not use are mistakes. */
static sluice_status check_schedule(const struct sluice_given_options *given,
                                    struct sluice_err *err)
{
    const struct sluice_options *o = &given->options;
    const struct {
        const char *option, *schedule;
        bool is_given;
    } parts[] = {
        {"lr-step", "step", given->has_lr_step},
        {"lr-gamma", "step", given->has_lr_gamma},
        {"min-lr", "cosine", given->has_min_lr},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(parts); i++) {
        if (parts[i].is_given && strcmp(parts[i].schedule, o->lr_schedule) != 0)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "--%s is for --lr-schedule %s, but --lr-schedule is %s",
                               parts[i].option, parts[i].schedule, o->lr_schedule);
    }
    if (o->min_lr > o->lr)
        return sluice_fail(err, SLUICE_E_INVALID, "--min-lr %g: --lr %g is less", o->min_lr, o->lr);
    if (given->has_warmup_lr && o->warmup_epochs == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "--warmup-lr is for --warmup-epochs N");
    if (o->warmup_epochs > o->epochs)
        return sluice_fail(err, SLUICE_E_INVALID, "--warmup-epochs %llu: --epochs %llu is less",
                           (unsigned long long)o->warmup_epochs, (unsigned long long)o->epochs);
    return SLUICE_OK;
}

/* The recipe's batch ops; flags count before it. */
static sluice_status find_batch_ops(struct sluice_given_options *given, struct sluice_err *err)
{
    struct sluice_options *o = &given->options;
    struct sluice_batch_ops *ops = &o->batch_ops;
    struct sluice_err cause = {0};
    *ops = sluice_batch_ops_none();
    const sluice_status status =
        o->pipeline ? sluice_recipe_batch_ops(o->pipeline, ops, &cause) : SLUICE_OK;
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "--pipeline: %s", cause.text);
    if (given->has_mixup)
        ops->mix.mixup_alpha = given->mixup;
    if (given->has_cutmix)
        ops->mix.cutmix_alpha = given->cutmix;
    if (given->has_label_smoothing)
        ops->label_smoothing = given->label_smoothing;
    if (given->has_erasing)
        ops->erasing.p = given->erasing;
    return SLUICE_OK;
}

sluice_status sluice_options_check_run(struct sluice_given_options *given, struct sluice_err *err)
{
    if (!given->has_lr)
        given->options.lr = lr_of(given->options.arch);
    sluice_status status = sluice_options_check(given, err);
    if (status == SLUICE_OK)
        status = check_plan(given, err);
    if (status == SLUICE_OK)
        status = find_batch_ops(given, err);
    if (status == SLUICE_OK)
        status = check_device(given, err);
    if (status == SLUICE_OK)
        status = find_launcher(given, err);
    if (status == SLUICE_OK)
        status = check_schedule(given, err);
    if (status == SLUICE_OK)
        status = check_lend(given, err);
    return status == SLUICE_OK ? check_place(&given->options, err) : status;
}
