#include "compute_client/run/options.h"

#include "base/cgroup.h"
#include "base/cli.h"
#include "datasets/jpeg_index_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_PORT "50051"

static const char *const arch_choices[] = {"alexnet", "resnet18", "small_cnn", NULL};
static const char *const device_choices[] = {"auto", "none", "cpu", "cuda", NULL};
static const char *const mode_choices[] = {
    "local",         "remote_nooff",    "remote_alloff", "remote_piloff",
    "remote_sophon", "remote_smartoff", "remote_auto",   NULL,
};
static const char *const planner_choices[] = {"lp", "greedy", NULL};
static const char *const form_choices[] = {"auto", "raw", "jpeg_crop", "u8_packed", NULL};
static const char *const on_error_choices[] = {"fail", "skip", "substitute", NULL};

/* "host", "host:port", "[v6]", "[v6]:port". */
static bool make_target(const char *host, char *target, size_t capacity)
{
    const char *bracket = strrchr(host, ']');
    const char *colon = strrchr(bracket ? bracket : host, ':');
    const int len = snprintf(target, capacity, "%s%s", host, colon ? "" : ":" DEFAULT_PORT);
    return host[0] && len > 0 && (size_t)len < capacity && (!colon || colon[1]);
}

bool sluice_options_parse(int argc, char **argv, struct sluice_options *options, int *exit_code)
{
    struct sluice_options o = {
        .arch = "resnet18",
        .device = "auto",
        .host = "127.0.0.1:" DEFAULT_PORT,
        .batch_size = 256,
        .workers = (uint64_t)ceil(sluice_cgroup_cores()),
        .epochs = 1,
        .print_freq = 10,
        .image_size = 224,
        .repeat = 1,
        .jpeg_index = "auto",
        .prefetch_bytes = 1u << 30,
        .lr_step = 30,
        .lr = 0.1,
        .momentum = 0.9,
        .weight_decay = 1e-4,
        .lr_gamma = 0.1,
        .dropout = -1,
        .retry_for_s = 60,
        .has_val = true,
        .allow_tf32 = true,
        .has_digest = true,
        .has_replan = true,
    };
    const char *mode = "remote_auto", *form = "auto";
    const char *on_error = "skip", *planner = "lp";
    bool has_start_epoch = false;
    const struct sluice_option table[] = {
        {.name = "arch",
         .short_name = 'a',
         .type = SLUICE_OPTION_CHOICE,
         .value = &o.arch,
         .choices = arch_choices,
         .help = "The model."},
        {.name = "batch-size",
         .short_name = 'b',
         .type = SLUICE_OPTION_UINT,
         .value = &o.batch_size,
         .arg = "N",
         .min = 1,
         .max = 65536,
         .help = "Samples in a batch."},
        {.name = "workers",
         .short_name = 'j',
         .type = SLUICE_OPTION_UINT,
         .value = &o.workers,
         .arg = "N",
         .min = 1,
         .max = 1024,
         .help = "Threads that run the ops left to this node."},
        {.name = "epochs",
         .type = SLUICE_OPTION_UINT,
         .value = &o.epochs,
         .arg = "N",
         .min = 1,
         .max = 1000000,
         .help = "The epoch to stop before."},
        {.name = "start-epoch",
         .type = SLUICE_OPTION_UINT,
         .value = &o.start_epoch,
         .arg = "N",
         .min = 0,
         .max = 1000000,
         .is_given = &has_start_epoch,
         .help = "The first epoch; with --resume the checkpoint knows it."},
        {.name = "seed",
         .type = SLUICE_OPTION_UINT,
         .value = &o.seed,
         .arg = "N",
         .help = "Of the shuffle, of crops and flips, of weights and dropout."},
        {.name = "lr",
         .alias = "learning-rate",
         .type = SLUICE_OPTION_DOUBLE,
         .value = &o.lr,
         .arg = "X",
         .min = 0,
         .max = 1e6,
         .help = "Initial learning rate."},
        {.name = "momentum",
         .type = SLUICE_OPTION_DOUBLE,
         .value = &o.momentum,
         .arg = "X",
         .min = 0,
         .max = 1,
         .help = "Of the SGD."},
        {.name = "weight-decay",
         .alias = "wd",
         .type = SLUICE_OPTION_DOUBLE,
         .value = &o.weight_decay,
         .arg = "X",
         .min = 0,
         .max = 1e6,
         .help = "Of the SGD."},
        {.name = "lr-step",
         .type = SLUICE_OPTION_UINT,
         .value = &o.lr_step,
         .arg = "N",
         .min = 1,
         .max = 1000000,
         .help = "Epochs between two decays of the learning rate."},
        {.name = "lr-gamma",
         .type = SLUICE_OPTION_DOUBLE,
         .value = &o.lr_gamma,
         .arg = "X",
         .min = 0,
         .max = 1,
         .help = "Factor of one decay."},
        {.name = "dropout",
         .type = SLUICE_OPTION_DOUBLE,
         .value = &o.dropout,
         .arg = "P",
         .min = -1,
         .max = 0.99,
         .help = "Share of units that dropout drops; below 0: as the model defines it."},
        {.name = "print-freq",
         .short_name = 'p',
         .type = SLUICE_OPTION_UINT,
         .value = &o.print_freq,
         .arg = "N",
         .help = "Batches between two progress lines; 0: none."},
        {.name = "batch-log",
         .type = SLUICE_OPTION_STRING,
         .value = &o.batch_log,
         .arg = "FILE",
         .help = "Writes what the trainer waited for before each batch, as CSV."},
        {.name = "image-size",
         .type = SLUICE_OPTION_UINT,
         .value = &o.image_size,
         .arg = "N",
         .min = 8,
         .max = 4096,
         .help = "Side of the square images that the model gets."},
        {.name = "num-classes",
         .type = SLUICE_OPTION_UINT,
         .value = &o.num_classes,
         .arg = "N",
         .min = 0,
         .max = 1000000,
         .help = "Outputs of the model; 0: as many as the dataset has classes."},
        {.name = "device",
         .type = SLUICE_OPTION_CHOICE,
         .value = &o.device,
         .choices = device_choices,
         .help = "Where the model learns; none: batches are only consumed; auto: the first of "
                 "cuda, cpu, none that there is."},
        {.name = "consume-rate",
         .type = SLUICE_OPTION_DOUBLE,
         .value = &o.consume_rate,
         .arg = "N",
         .min = 0,
         .max = 1e9,
         .help = "Samples a second that --device none takes; 0: as fast as they come."},
        {.name = "train-threads",
         .type = SLUICE_OPTION_UINT,
         .value = &o.train_threads,
         .arg = "N",
         .min = 0,
         .max = 1024,
         .help = "Threads of --device cpu; 0: one for each CPU."},
        {.name = "tf32",
         .type = SLUICE_OPTION_FLAG,
         .value = &o.allow_tf32,
         .help = "Device cuda: multiplies with 10-bit mantissas, which is faster."},
        {.name = "evaluate",
         .short_name = 'e',
         .type = SLUICE_OPTION_FLAG,
         .value = &o.is_evaluate,
         .help = "Only evaluates, on the val subset."},
        {.name = "val",
         .type = SLUICE_OPTION_FLAG,
         .value = &o.has_val,
         .help = "Evaluates after each epoch if there are a val subset and a device."},
        {.name = "resume",
         .type = SLUICE_OPTION_STRING,
         .value = &o.resume,
         .arg = "FILE",
         .help = "Goes on from this checkpoint."},
        {.name = "checkpoint",
         .type = SLUICE_OPTION_STRING,
         .value = &o.checkpoint,
         .arg = "FILE",
         .help = "Writes a checkpoint after each epoch and when stopped."},
        {.name = "dataset-mode",
         .type = SLUICE_OPTION_CHOICE,
         .value = &mode,
         .choices = mode_choices,
         .help = "Where the preprocessing runs."},
        {.name = "host",
         .type = SLUICE_OPTION_STRING,
         .value = &o.host,
         .arg = "HOST[:PORT]",
         .help = "The storage server; port " DEFAULT_PORT " unless given."},
        {.name = "jpeg-index",
         .type = SLUICE_OPTION_STRING,
         .value = &o.jpeg_index,
         .arg = "auto|off|FILE",
         .help = "Index of the JPEGs, by which fewer rows are decoded, for --dataset-mode local; "
                 "auto: DIR/" SLUICE_JPEG_INDEX_FILE " if it is there."},
        {.name = "remote-form",
         .type = SLUICE_OPTION_CHOICE,
         .value = &form,
         .choices = form_choices,
         .help =
             "raw: plain files and pixels; jpeg_crop: for files, JPEGs of the MCUs that the "
             "crop needs; u8_packed: for pixels, losslessly packed ones (in remote_nooff "
             "those of the crop); auto: what the plan finds best in remote_auto, raw elsewhere."},
        {.name = "remote-cpus",
         .type = SLUICE_OPTION_UINT,
         .value = &o.remote_cpus,
         .arg = "N",
         .min = 0,
         .max = 65536,
         .help = "Cores of the storage node to plan with; 0: as many as it says."},
        {.name = "net-bw",
         .type = SLUICE_OPTION_RATE,
         .value = &o.net_bw,
         .arg = "MBIT",
         .help = "Bandwidth of the link to plan with; none: it is measured."},
        {.name = "gpu-rate",
         .type = SLUICE_OPTION_DOUBLE,
         .value = &o.gpu_rate,
         .arg = "N",
         .min = 0,
         .max = 1e9,
         .help = "Samples a second that the trainer takes, to plan with; 0: as it is seen to."},
        {.name = "pcie-bw",
         .type = SLUICE_OPTION_RATE,
         .value = &o.pcie_bw,
         .arg = "MBIT",
         .help = "Bandwidth to the device, to plan with; none: as it is measured with device cuda, "
                 "else it is never the limit."},
        {.name = "planner",
         .type = SLUICE_OPTION_CHOICE,
         .value = &planner,
         .choices = planner_choices,
         .help = "For remote_auto; lp: the least time over all resources; greedy: SOPHON's rule, "
                 "which needs a profile."},
        {.name = "replan",
         .type = SLUICE_OPTION_FLAG,
         .value = &o.has_replan,
         .help = "Lets the plan of remote_auto follow what the machines are seen to do."},
        {.name = "profile-folder",
         .type = SLUICE_OPTION_STRING,
         .value = &o.profile_folder,
         .arg = "DIR",
         .help = "The profile to plan from (prep_sizes.csv, prep_times.csv); remote_auto begins "
                 "without one from what is known of any machine."},
        {.name = "profiling",
         .type = SLUICE_OPTION_FLAG,
         .value = &o.is_profiling,
         .help = "Runs one epoch without offload and measures it, then asks for its samples in "
                 "every form and measures either side."},
        {.name = "profile-samples",
         .type = SLUICE_OPTION_UINT,
         .value = &o.profile_samples,
         .arg = "N",
         .help = "With --profiling: measures so many samples, spread evenly, and tells the others' "
                 "rows from them; 0: all."},
        {.name = "write-profile-folder",
         .type = SLUICE_OPTION_STRING,
         .value = &o.write_profile_folder,
         .arg = "DIR",
         .help = "Where --profiling writes."},
        {.name = "prefetch-bytes",
         .type = SLUICE_OPTION_BYTES,
         .value = &o.prefetch_bytes,
         .arg = "BYTES",
         .min = 1 << 16,
         .max = 1e12,
         .help = "Memory for what is read ahead, at most: half for samples on their way, half for "
                 "batches.  More than a quarter is used only if the trainer takes more in 0.25 s."},
        {.name = "retry-for",
         .type = SLUICE_OPTION_DOUBLE,
         .value = &o.retry_for_s,
         .arg = "SECONDS",
         .min = 0,
         .max = 1e6,
         .help = "How long to wait for a server that is gone."},
        {.name = "on-error",
         .type = SLUICE_OPTION_CHOICE,
         .value = &on_error,
         .choices = on_error_choices,
         .help = "What becomes of a sample that cannot be read."},
        {.name = "digest",
         .type = SLUICE_OPTION_FLAG,
         .value = &o.has_digest,
         .help = "Hashes every sample into the epoch's digest."},
        {.name = "pipeline",
         .type = SLUICE_OPTION_STRING,
         .value = &o.pipeline,
         .arg = "TEXT",
         .help = "Preprocessing of the training subset; unless given, it is made from "
                 "--image-size."},
        {.name = "val-pipeline",
         .type = SLUICE_OPTION_STRING,
         .value = &o.val_pipeline,
         .arg = "TEXT",
         .help = "The same for the val subset."},
        {.name = "repeat",
         .type = SLUICE_OPTION_UINT,
         .value = &o.repeat,
         .arg = "N",
         .min = 1,
         .max = 1000000,
         .help = "Times that each training sample comes in an epoch, with draws of its own."},
        {.name = "limit-samples",
         .type = SLUICE_OPTION_UINT,
         .value = &o.limit_samples,
         .arg = "N",
         .help = "Takes the first N samples of each subset; 0: all."},
    };
    const struct sluice_cli cli = {
        .program = "offload_train",
        .summary = "Trains on images that a storage server preprocesses, as far as that pays.",
        .positional = "[DIR]",
        .options = table,
        .num_options = SLUICE_ARRAY_LEN(table),
        .epilog = "DIR is the dataset, for --dataset-mode local; in the remote modes the server "
                  "lists its samples.",
    };
    const struct sluice_cli_result result = sluice_cli_parse(&cli, argc, argv);
    if (result.should_exit) {
        *exit_code = result.exit_code;
        return false;
    }
    o.is_json = result.is_json;
    o.dir = result.num_positional ? result.positional[0] : NULL;
    *exit_code = 0;
    if (!sluice_mode_parse(mode, &o.mode))
        *exit_code = sluice_cli_usage_error(&cli, "--dataset-mode: no mode is called %s", mode);
    o.on_error = strcmp(on_error, "fail") == 0   ? SLUICE_ON_ERROR_FAIL
                 : strcmp(on_error, "skip") == 0 ? SLUICE_ON_ERROR_SKIP
                                                 : SLUICE_ON_ERROR_SUBSTITUTE;
    if (*exit_code == 0 && !make_target(o.host, o.target, sizeof(o.target)))
        *exit_code = sluice_cli_usage_error(&cli, "--host: \"%s\" is no HOST[:PORT]", o.host);
    if (*exit_code == 0 && o.mode == SLUICE_MODE_LOCAL && !o.dir)
        *exit_code = sluice_cli_usage_error(&cli, "--dataset-mode local needs DIR, the dataset");
    if (*exit_code == 0 && o.is_profiling && !o.write_profile_folder)
        *exit_code = sluice_cli_usage_error(
            &cli, "--profiling needs --write-profile-folder DIR, where the profile goes");
    if (*exit_code == 0 && o.write_profile_folder && !o.is_profiling)
        *exit_code = sluice_cli_usage_error(
            &cli, "--write-profile-folder is for --profiling, which is not given");
    if (*exit_code == 0 && o.profile_samples && !o.is_profiling)
        *exit_code = sluice_cli_usage_error(
            &cli, "--profile-samples is for --profiling, which is not given");
    if (*exit_code == 0 && o.is_profiling && (o.repeat != 1 || o.is_evaluate || o.resume))
        *exit_code = sluice_cli_usage_error(
            &cli, "--profiling measures each training sample once: it goes with none of "
                  "--repeat, --evaluate and --resume");
    /* Profiling is without offload whatever the mode: the modes that plan need no plan for it. */
    if (*exit_code == 0 && o.is_profiling && o.mode != SLUICE_MODE_LOCAL)
        o.mode = SLUICE_MODE_NOOFF;
    const bool is_cut =
        strcmp(form, "jpeg_crop") == 0 || (strcmp(form, "auto") == 0 && o.mode == SLUICE_MODE_AUTO);
    o.has_any_form = strcmp(form, "auto") == 0 && o.mode == SLUICE_MODE_AUTO;
    /* A profile is of whole files. */
    o.remote_form = o.is_profiling                   ? SLUICE_FORM_RAW
                    : is_cut                         ? SLUICE_FORM_JPEG_CROP
                    : strcmp(form, "u8_packed") == 0 ? SLUICE_FORM_U8_PACKED
                                                     : SLUICE_FORM_RAW;
    o.is_greedy = strcmp(planner, "greedy") == 0;
    const bool needs_profile =
        o.mode == SLUICE_MODE_SOPHON || (o.mode == SLUICE_MODE_AUTO && o.is_greedy);
    if (*exit_code == 0 && needs_profile && !o.is_evaluate && !o.profile_folder)
        *exit_code =
            sluice_cli_usage_error(&cli,
                                   "--dataset-mode %s%s needs --profile-folder DIR; make one with "
                                   "--profiling --write-profile-folder DIR",
                                   mode, o.mode == SLUICE_MODE_AUTO ? " --planner greedy" : "");
    if (*exit_code == 0 && o.resume && has_start_epoch)
        *exit_code = sluice_cli_usage_error(
            &cli, "--start-epoch: the checkpoint of --resume knows the epoch");
    if (*exit_code == 0 && !o.resume && o.start_epoch >= o.epochs)
        *exit_code =
            sluice_cli_usage_error(&cli, "--start-epoch %llu: --epochs %llu ends before it",
                                   (unsigned long long)o.start_epoch, (unsigned long long)o.epochs);
    if (*exit_code != 0)
        return false;
    *options = o;
    return true;
}
