#include "compute_client/options/options_table.h"

#include "compute_client/loader/order/mix.h"
#include "compute_client/options/connection.h"
#include "datasets/jpeg_index/jpeg_index_file.h"
#include "host/cgroup.h"
#include "op/op.h"
#include "op/recipe.h"
#include "train/model_names.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const arch_choices[] = {SLUICE_MODEL_NAMES, NULL};
static const char *const device_choices[] = {"auto", "none", "cpu", "cuda", NULL};
static const char *const schedule_choices[] = {"constant", "cosine", "step", NULL};
static const char *const precision_choices[] = {"bf16", "tf32", "fp32", NULL};
static const char *const planner_choices[] = {"remote_auto", "remote_sophon", NULL};
static const char *const planner_aliases[] = {"auto", "lp", "sophon", "smartoff", "greedy", NULL};
static const char *const form_choices[] = {"auto",      "raw",       "jpeg_crop",
                                           "u8_packed", "jpeg_rows", NULL};
static const char *const tail_choices[] = {"pad", "drop", NULL};
static const char *const gpu_decode_choices[] = {"off", "auto", "on", NULL};
static const char *const on_error_choices[] = {"fail", "skip", "substitute", NULL};

enum { DATA, PLACE, PLANNING, PROFILING, TRAINING, LENDING, OUTPUT };
static const char *const groups[] = {
    [DATA] = "data",         [PLACE] = "where the work runs",
    [PLANNING] = "planning", [PROFILING] = "profiling",
    [TRAINING] = "training", [LENDING] = "lending the GPU",
    [OUTPUT] = "output",     NULL,
};

/* The table points here: sluice_options_parse() sets it, sluice_options_set() a struct of its
 * own. */
static struct sluice_given_options given;

/* On a command line these are the positional arguments. */
static const struct sluice_option dir = {
    .name = "dir",
    .type = SLUICE_OPTION_STRINGS,
    .value = &given.options.given_dirs,
};

static const struct sluice_option table[] = {
    {.name = "arch",
     .short_name = 'a',
     .group = TRAINING,
     SLUICE_VALUE_CHOICE(given.options.arch, "MODEL"),
     .choices = arch_choices,
     .help = "Model to train."},
    {.name = "batch-size",
     .short_name = 'b',
     .group = TRAINING,
     SLUICE_VALUE_UINT(given.options.batch_size, "N"),
     SLUICE_RANGE(1, 65536),
     .help = "Samples in a batch."},
    {.name = "workers",
     .short_name = 'j',
     .group = PLACE,
     SLUICE_VALUE_UINT(given.options.workers, "N"),
     SLUICE_RANGE(1, 1024),
     .help =
         "Threads of this node that preprocess: they run the steps that the server left undone.",
     .default_text = "one for each CPU that this process may use; with --gpus, shared out"},
    {.name = "epochs",
     .group = TRAINING,
     SLUICE_VALUE_UINT(given.options.epochs, "N"),
     SLUICE_RANGE(1, 1000000),
     .help = "Stop before this epoch, counted from 0: the total number of epochs of a run and its "
             "continuations."},
    {.name = "start-epoch",
     .group = TRAINING,
     SLUICE_VALUE_UINT(given.options.start_epoch, "N"),
     SLUICE_RANGE(0, 1000000),
     .is_given = &given.has_start_epoch,
     .help = "First epoch, counted from 0. Not with --resume: the checkpoint holds it."},
    {.name = "seed",
     .group = TRAINING,
     SLUICE_VALUE_UINT(given.options.seed, "N"),
     .help =
         "Seed of every random choice: shuffling, crops, flips, initial weights, dropout, mixup, "
         "CutMix, erasing."},
    {.name = "lr",
     .alias = "learning-rate",
     .group = TRAINING,
     SLUICE_VALUE_DOUBLE(given.options.lr, "X"),
     SLUICE_RANGE(0, 1e6),
     .is_given = &given.has_lr,
     .help = "Learning rate of SGD, from which --lr-schedule starts.",
     .default_text = "0.01 for alexnet and vgg, 0.1 for the other models"},
    {.name = "momentum",
     .group = TRAINING,
     SLUICE_VALUE_DOUBLE(given.options.momentum, "X"),
     SLUICE_RANGE(0, 1),
     .help = "Momentum of SGD, 0 to 1."},
    {.name = "weight-decay",
     .alias = "wd",
     .group = TRAINING,
     SLUICE_VALUE_DOUBLE(given.options.weight_decay, "X"),
     SLUICE_RANGE(0, 1e6),
     .help = "Weight decay of SGD (L2 penalty)."},
    {.name = "lr-schedule",
     .group = TRAINING,
     SLUICE_VALUE_CHOICE(given.options.lr_schedule, "NAME"),
     .choices = schedule_choices,
     .help = "How the learning rate falls. step: it is multiplied by --lr-gamma after every "
             "--lr-step epochs; cosine: with every batch, to --min-lr at the end of --epochs."},
    {.name = "lr-step",
     .alias = "lr-step-epochs",
     .group = TRAINING,
     SLUICE_VALUE_UINT(given.options.lr_step, "N"),
     SLUICE_RANGE(1, 1000000),
     .is_given = &given.has_lr_step,
     .help = "For --lr-schedule step: epochs between two decays of the learning rate."},
    {.name = "lr-gamma",
     .group = TRAINING,
     SLUICE_VALUE_DOUBLE(given.options.lr_gamma, "X"),
     SLUICE_RANGE(0, 1),
     .is_given = &given.has_lr_gamma,
     .help = "For --lr-schedule step: factor by which each decay multiplies the learning rate."},
    {.name = "min-lr",
     .group = TRAINING,
     SLUICE_VALUE_DOUBLE(given.options.min_lr, "X"),
     SLUICE_RANGE(0, 1e6),
     .is_given = &given.has_min_lr,
     .help = "For --lr-schedule cosine: the learning rate at the end."},
    {.name = "warmup-epochs",
     .group = TRAINING,
     SLUICE_VALUE_UINT(given.options.warmup_epochs, "N"),
     SLUICE_RANGE(0, 1000000),
     .help = "Epochs in which the learning rate rises with every batch, from --warmup-lr to --lr; "
             "they belong to the schedule's epochs."},
    {.name = "warmup-lr",
     .group = TRAINING,
     SLUICE_VALUE_DOUBLE(given.options.warmup_lr, "X"),
     SLUICE_RANGE(0, 1e6),
     .is_given = &given.has_warmup_lr,
     .help = "For --warmup-epochs: the learning rate of the first batch."},
    {.name = "dropout",
     .group = TRAINING,
     SLUICE_VALUE_DOUBLE(given.options.dropout, "P"),
     SLUICE_RANGE(-1, 0.99),
     .help = "Share of units that dropout sets to 0, from 0 to 0.99; below 0: as the model defines "
             "it."},
    {.name = "mixup",
     .group = TRAINING,
     SLUICE_VALUE_DOUBLE(given.mixup, "ALPHA"),
     .is_given = &given.has_mixup,

     SLUICE_RANGE(0, 1000),
     .help = "Mixup: blend each training image and its label with another of the batch, by a part "
             "drawn from Beta(ALPHA, ALPHA); 0: never.",
     .default_text = "as --pipeline @FILE says, else 0"},
    {.name = "cutmix",
     .group = TRAINING,
     SLUICE_VALUE_DOUBLE(given.cutmix, "ALPHA"),
     .is_given = &given.has_cutmix,

     SLUICE_RANGE(0, 1000),
     .help =
         "CutMix: put a box of another image of the batch into each training image, and as much "
         "of its label; 1 less the share of its area is drawn from Beta(ALPHA, ALPHA); 0: never. "
         "With --mixup, too, each batch has one of both, drawn by halves.",
     .default_text = "as --pipeline @FILE says, else 0"},
    {.name = "label-smoothing",
     .group = TRAINING,
     SLUICE_VALUE_DOUBLE(given.label_smoothing, "P"),
     .is_given = &given.has_label_smoothing,

     SLUICE_RANGE(0, 0.99),
     .help = "Part of each training label that all classes share, from 0 to 0.99.",
     .default_text = "as --pipeline @FILE says, else 0"},
    {.name = "erasing",
     .group = TRAINING,
     SLUICE_VALUE_DOUBLE(given.erasing, "P"),
     .is_given = &given.has_erasing,

     SLUICE_RANGE(0, 1),
     .help = "Random erasing: the probability that a box of a training image is set to 0 after "
             "normalize, which is the mean.",
     .default_text = "as --pipeline @FILE says, else 0"},
    {.name = "print-freq",
     .short_name = 'p',
     .group = OUTPUT,
     SLUICE_VALUE_UINT(given.options.print_freq, "N"),
     .is_given = &given.options.has_print_freq,
     .default_text = "a live line on a terminal, a line every 5 s elsewhere",
     .help = "A progress line every N batches; 0: no progress is shown."},
    {.name = "batch-log",
     .group = OUTPUT,
     SLUICE_VALUE_STRING(given.options.batch_log, "FILE"),
     .help = "Write what the trainer waited for before each batch to this CSV file."},
    {.name = "trace",
     .group = OUTPUT,
     SLUICE_VALUE_STRING(given.options.trace, "FILE"),
     .help = "Append the route of samples to this file, as OpenTelemetry's spans in lines of JSON. "
             "The server writes its part with a --trace of its own. The variable TRACEPARENT is "
             "their parent.",
     .default_text = "nothing is traced"},
    {.name = "trace-sample",
     .group = OUTPUT,
     SLUICE_VALUE_DOUBLE(given.options.trace_sample, "SHARE"),
     SLUICE_RANGE(0, 1),
     .is_given = &given.has_trace_sample,
     .help = "For --trace: the share of the samples, from 0 to 1, that are traced. Each run with "
             "the same seed picks the same ones."},
    {.name = "metrics",
     .group = OUTPUT,
     SLUICE_VALUE_STRING(given.options.metrics, "HOST:PORT"),
     .help =
         "Serve the run's counters to Prometheus at http://HOST:PORT/metrics, and the health at "
         "/healthz. :PORT: at every address; PORT: to this machine alone.",
     .default_text = "not served"},
    {.name = "image-size",
     .group = DATA,
     SLUICE_VALUE_UINT(given.options.image_size, "N"),
     .is_given = &given.has_image_size,

     SLUICE_RANGE(8, 4096),
     .help = "Side of the square images that the model gets, in pixels; another shape needs "
             "--pipeline.",
     .default_text = "224, or where --pipeline ends"},
    {.name = "num-classes",
     .group = TRAINING,
     SLUICE_VALUE_UINT(given.options.num_classes, "N"),
     SLUICE_RANGE(0, 1000000),
     .help = "Outputs of the model; 0: as many as the dataset has classes."},
    {.name = "device",
     .group = TRAINING,
     SLUICE_VALUE_CHOICE(given.options.device, "NAME"),
     .choices = device_choices,
     .help = "Where the model trains. none: batches are received and thrown away; auto: the first "
             "that works of cuda, cpu and none."},
    {.name = "consume-rate",
     .group = TRAINING,
     SLUICE_VALUE_DOUBLE(given.options.consume_rate, "N"),
     SLUICE_RANGE(0, 1e9),
     .help = "Samples per second that --device none takes, to stand in for a trainer; 0: as fast "
             "as they come."},
    {.name = "train-threads",
     .group = TRAINING,
     SLUICE_VALUE_UINT(given.options.train_threads, "N"),
     SLUICE_RANGE(0, 1024),
     .help = "Threads of --device cpu; 0: one for each CPU."},
    {.name = "tf32",
     .group = TRAINING,
     SLUICE_VALUE_FLAG(given.has_tf32),
     .help = "The older name of --precision fp32."},
    {.name = "precision",
     .group = TRAINING,
     SLUICE_VALUE_CHOICE(given.options.precision, "NAME"),
     .choices = precision_choices,
     .help = "How --device cuda multiplies; sums, parameters and the loss are float32 with each. "
             "tf32: factors have 10-bit mantissas.",
     .default_text = "bf16 on a GPU that has it, else fp32"},
    {.name = "deterministic",
     .group = TRAINING,
     SLUICE_VALUE_FLAG(given.options.is_deterministic),
     .help = "Take cuDNN's first deterministic algorithm for each layer, without measuring which "
             "is the fastest: a run gives the same bits with any --engine-cache."},
    {.name = "gpu",
     .group = TRAINING,
     SLUICE_VALUE_UINT(given.options.gpu, "N"),
     .max = 1023,
     .is_given = &given.has_gpu,
     .help = "The GPU of --device cuda, by CUDA's number in this process.",
     .default_text = "LOCAL_RANK where torchrun sets it, else 0"},
    {.name = "gpus",
     .group = TRAINING,
     SLUICE_VALUE_UINT(given.options.gpus, "N"),
     SLUICE_RANGE(1, 1024),
     .help = "Train on GPUs 0 to N-1 of this host: N processes of this command, the ranks, average "
             "their gradients in each step, and each takes --batch-size samples of it.",
     .default_text = "1, or the ranks that torchrun, Slurm or Open MPI started"},
    {.name = "engine-cache",
     .group = TRAINING,
     SLUICE_VALUE_STRING(given.options.engine_cache, "FILE"),
     .help = "Keep the algorithms that were measured as the fastest on --device cuda in this file.",
     .default_text = "$XDG_CACHE_HOME/sluice/engines"},
    {.name = "lend",
     .group = LENDING,
     SLUICE_VALUE_STRING(given.options.lend, "PATH"),
     .help = "Lend the GPU to other processes of this machine, which ask at this unix socket: "
             "training stops between its layers while one of them has it. What is trained does not "
             "change. Not with several ranks.",
     .default_text = "not lent"},
    {.name = "lend-share",
     .group = LENDING,
     SLUICE_VALUE_STRING(given.lend_share, "always|idle|SHARE"),
     .is_given = &given.has_lend_share,
     .help =
         "When borrowers get it. always: at once; idle: no longer, in sum, than training waited "
         "for data; SHARE: a part of the time, such as 0.3."},
    {.name = "lend-allow",
     .group = LENDING,
     SLUICE_VALUE_STRINGS(given.options.lend_allow, "UID"),
     .is_given = &given.has_lend_allow,
     .help = "Number of a user whose processes may borrow, too; may be given several times.",
     .default_text = "this user alone"},
    {.name = "lend-at-most",
     .group = LENDING,
     SLUICE_VALUE_SECONDS(given.options.lend_at_most_s, "SECONDS"),
     SLUICE_RANGE(0.001, 3600),
     .is_given = &given.has_lend_at_most,
     .help = "Take the GPU back from a borrower that has had it for so long."},
    {.name = "evaluate",
     .short_name = 'e',
     .group = TRAINING,
     SLUICE_VALUE_FLAG(given.options.is_evaluate),
     .help = "Do not train: evaluate once on the val subset."},
    {.name = "val",
     .group = TRAINING,
     SLUICE_VALUE_FLAG(given.options.has_val),
     .help = "Do not evaluate on the val subset after each epoch, as happens if there are such a "
             "subset and a device."},
    {.name = "init",
     .group = TRAINING,
     SLUICE_VALUE_STRING(given.options.init, "FILE"),
     .help = "Begin with the weights of this file: safetensors with torchvision's names, in F32, "
             "F16 or BF16, or a checkpoint. If it lacks the classifier, the last linear layer, "
             "that begins anew. Not read with --resume, which has weights of its own."},
    {.name = "resume",
     .group = TRAINING,
     SLUICE_VALUE_STRING(given.options.resume, "FILE"),
     .help = "Continue from this checkpoint."},
    {.name = "checkpoint",
     .group = OUTPUT,
     SLUICE_VALUE_STRING(given.options.checkpoint, "FILE"),
     .help = "Write a checkpoint to this file after each epoch, when stopped, and when the server "
             "is gone for longer than --retry-for."},
    {.name = "checkpoint-every",
     .group = OUTPUT,
     SLUICE_VALUE_STRING(given.checkpoint_every, "BATCHES|TIME"),
     .help = "Write the checkpoint during an epoch, too: after so many batches (1000), or after so "
             "much time, with a unit (300s, 5m, 1h). So much work at most is done again after a "
             "crash.",
     .default_text = "after each epoch alone"},
    {.name = "dataset-mode",
     .group = PLACE,
     SLUICE_VALUE_CHOICE(given.mode, "MODE"),
     .choices = sluice_mode_names,
     .aliases = sluice_mode_aliases,
     .is_given = &given.has_mode,
     .default_text = "local for a DIR without --host, else remote_auto",
     .help =
         "Which preprocessing steps run on the storage server. local: no server, DIR is read; "
         "remote_nooff: none; remote_alloff: all; remote_piloff: decode, crop and flip; "
         "remote_sophon: per sample, by SOPHON's plan; remote_auto: per sample, by our plan, which "
         "follows the machines. The word after remote_ is enough."},
    {.name = "host",
     .group = PLACE,
     SLUICE_VALUE_STRINGS(given.options.hosts, "HOST[:PORT],..."),
     .is_given = &given.options.has_host,
     .default_text = SLUICE_DEFAULT_HOST,
     .help = "Address of the storage server; port 50051 if left out, this machine for :PORT. "
             "Several between commas are replicas, which have the same files: each sample comes "
             "from one that is there, and soonest. dns:NAME[:PORT]: every address of the name is a "
             "replica, also those that it gets later. Given several times: shards, each with a "
             "part of the files."},
    {.name = "hedge",
     .group = PLACE,
     SLUICE_VALUE_FLAG(given.options.hedges),
     .help = "With replicas: ask another one, too, for a sample that takes longer than nearly all "
             "others, at most one in a hundred. The first answer counts."},
    SLUICE_CONNECTION_ROWS(given.options, PLACE),
    {.name = "jpeg-index",
     .group = DATA,
     SLUICE_VALUE_STRING(given.options.jpeg_index, "auto|off|FILE"),
     .help = "For --dataset-mode local: index of the JPEGs, with which only the rows that a crop "
             "needs are decoded. auto: DIR/" SLUICE_JPEG_INDEX_FILE " if that exists."},
    {.name = "verify",
     .group = DATA,
     SLUICE_VALUE_FLAG(given.options.should_verify),
     .help = "For --dataset-mode local: compare the content of every file that is read with the "
             "hash that offload_dataset index wrote. Without: length and time, and the content "
             "if the time differs."},
    {.name = "strict",
     .group = DATA,
     SLUICE_VALUE_FLAG(given.options.is_strict),
     .help = "For --dataset-mode local: End with an error if files may be images and are not read, "
             "as .avif, "
             "instead of a warning that counts them."},
    {.name = "remote-form",
     .group = PLACE,
     SLUICE_VALUE_CHOICE(given.remote_form, "FORM"),
     .choices = form_choices,
     .help = "Form in which samples cross the network. raw: whole files and plain pixels; "
             "jpeg_crop: of a file only the JPEG blocks that the crop needs; u8_packed: pixels, "
             "losslessly packed (in remote_nooff those of the crop); jpeg_rows: with an index of "
             "the JPEGs, the rows of a file that the crop needs; auto: remote_auto plans it for "
             "each sample, the other modes use raw."},
    {.name = "gpu-decode",
     .group = PLACE,
     SLUICE_VALUE_CHOICE(given.options.gpu_decode, "WHEN"),
     .choices = gpu_decode_choices,
     .help = "Whether the GPU decodes JPEGs, to the same pixels, and batches are made in its "
             "memory. auto: where there is one that can. What it does not decode, the workers "
             "do.",
     .default_text = "auto with --device cuda, else off"},
    {.name = "gpu-device",
     .group = PLACE,
     SLUICE_VALUE_UINT(given.options.gpu_device, "N"),
     .max = 1023,
     .is_given = &given.has_gpu_device,
     .help = "The GPU of --gpu-decode, by CUDA's number in this process.",
     .default_text = "that of --gpu"},
    {.name = "gpu-memory",
     .group = PLACE,
     SLUICE_VALUE_BYTES(given.options.gpu_memory, "BYTES"),
     .max = 1e12,
     .help = "Upper limit of the GPU's memory for --gpu-decode; 0: what a batch of usual files "
             "needs, and at most a quarter of what is free."},
    {.name = "remote-cpus",
     .group = PLANNING,
     SLUICE_VALUE_UINT(given.options.remote_cpus, "N"),
     SLUICE_RANGE(0, 65536),
     .help = "Cores of the storage node to plan with; 0: as many as the server reports."},
    {.name = "net-bw",
     .group = PLANNING,
     SLUICE_VALUE_RATE(given.options.net_bw, "RATE"),
     .help = "Bandwidth of the link to plan with, in Mbit/s or with a unit (1Gbps, 60MB/s); none: "
             "it is measured."},
    {.name = "gpu-rate",
     .group = PLANNING,
     SLUICE_VALUE_DOUBLE(given.options.gpu_rate, "N"),
     SLUICE_RANGE(0, 1e9),
     .help = "Samples per second that the trainer takes, to plan with; 0: as observed."},
    {.name = "pcie-bw",
     .group = PLANNING,
     SLUICE_VALUE_RATE(given.options.pcie_bw, "RATE"),
     .help = "Bandwidth from memory to the device, to plan with, in Mbit/s or with a unit; none: "
             "measured where batches are made on a GPU and with --device cuda, else never the "
             "limit."},
    {.name = "planner",
     .group = PLANNING,
     SLUICE_VALUE_CHOICE(given.planner, "NAME"),
     .choices = planner_choices,
     .aliases = planner_aliases,
     .help = "Planner of --dataset-mode remote_auto. remote_auto: the shortest epoch over all "
             "resources, a linear program; remote_sophon: SOPHON's rule, which needs "
             "--profile-folder."},
    {.name = "replan",
     .group = PLANNING,
     SLUICE_VALUE_FLAG(given.options.has_replan),
     .help = "Do not follow what the machines and the network are observed to do: keep the first "
             "plan of remote_auto, or of local with --gpu-decode auto."},
    {.name = "profile-folder",
     .group = PLANNING,
     SLUICE_VALUE_STRING(given.options.profile_folder, "DIR"),
     .help = "Folder of the profile to plan from (prep_sizes.csv, prep_times.csv). Without one "
             "remote_auto starts from costs that fit most machines."},
    {.name = "profiling",
     .group = PROFILING,
     SLUICE_VALUE_FLAG(given.options.is_profiling),
     .help = "Run one epoch without offload and measure it; then ask for samples in every form and "
             "measure the cost on both nodes."},
    {.name = "profile-samples",
     .group = PROFILING,
     SLUICE_VALUE_UINT(given.options.profile_samples, "N"),
     .help = "Measure only N samples, spread evenly, and predict the rest from them; 0: all."},
    {.name = "write-profile-folder",
     .group = PROFILING,
     SLUICE_VALUE_STRING(given.options.write_profile_folder, "DIR"),
     .help = "Folder to write the profile to; needed with --profiling."},
    {.name = "prefetch-bytes",
     .group = PLACE,
     SLUICE_VALUE_BYTES(given.options.prefetch_bytes, "BYTES"),
     SLUICE_RANGE(1 << 16, 1e12),
     .help = "Upper limit of the memory for reading ahead, half for samples under way, half for "
             "batches. More than a quarter of it is used only if the trainer takes more within "
             "0.25 s."},
    {.name = "retry-for",
     .group = PLACE,
     SLUICE_VALUE_SECONDS(given.options.retry_for_s, "SECONDS"),
     SLUICE_RANGE(0, 1e6),
     .help =
         "How long to keep trying: to reach a server that is gone, and to get a sample that the "
         "storage fails to read. A sample that fails for longer is an error (--on-error)."},
    {.name = "sample-timeout",
     .group = PLACE,
     SLUICE_VALUE_SECONDS(given.options.sample_timeout_s, "SECONDS"),
     SLUICE_RANGE(0.1, 1e6),
     .help = "How long to wait for a sample before it is asked for again, for up to --retry-for "
             "more: a read may never return. The time that samples need on a slow link does not "
             "count. A read of a local file that takes longer is that sample's error."},
    {.name = "on-error",
     .group = DATA,
     SLUICE_VALUE_CHOICE(given.on_error, "ACTION"),
     .choices = on_error_choices,
     .help = "What to do about a sample that cannot be read. fail: end the run; skip: leave it "
             "out; substitute: put another sample in its place. More than --max-errors end the run "
             "in any case."},
    {.name = "max-errors",
     .group = DATA,
     SLUICE_VALUE_STRING(given.max_errors, "N|N%"),
     .help = "How many samples of an epoch may fail for one reason (missing, broken, ...), with "
             "--on-error skip or substitute: a number, or a part of the epoch's samples, rounded "
             "up to whole samples. With one more the run ends with exit code 1, and the last "
             "checkpoint stays as it is."},
    {.name = "digest",
     .group = OUTPUT,
     SLUICE_VALUE_FLAG(given.options.has_digest),
     .help = "Do not compute the digest, the hash over all samples delivered in an epoch."},
    {.name = "pipeline",
     .group = DATA,
     SLUICE_VALUE_STRING(given.options.pipeline, "TEXT"),
     .check = sluice_recipe_check,
     .list = sluice_op_list,
     .help =
         "Preprocessing steps of the training subset: ops from the list below, with commas "
         "between, such as decode,random_resized_crop=224,hflip,to_tensor,normalize=imagenet; or "
         "@FILE, a recipe in JSON, which may have those of the val subset, and mixup, CutMix and "
         "erasing, too.",
     .default_text = "these steps at --image-size"},
    {.name = "buckets",
     .group = DATA,
     SLUICE_VALUE_STRING(given.options.buckets, "HxW,HxW,..."),
     .check = sluice_recipe_check_buckets,
     .help = "Aspect buckets: height x width of the sizes that training images are fitted to, such "
             "as 1024x1024,896x1152,1152x896; each batch is of one size. Puts op fit_bucket after "
             "decode; :crop=random and :filter= may follow. --pipeline has the other ops then."},
    {.name = "max-output-pixels",
     .group = DATA,
     SLUICE_VALUE_UINT(given.options.max_output_pixels, "N"),
     .min = 1,
     .max = 1u << 30,
     .help = "The most pixels that an image may end with where its size follows from the image, as "
             "with resize or smart_resize alone: batches are lists of images then."},
    {.name = "val-pipeline",
     .group = DATA,
     SLUICE_VALUE_STRING(given.options.val_pipeline, "TEXT"),
     .check = sluice_recipe_check_val,
     .help = "Preprocessing steps of the val subset, of the same ops.",
     .default_text =
         "those of --pipeline @FILE; else resize, center_crop, to_tensor and normalize, "
         "to the size of training"},
    {.name = "repeat",
     .group = DATA,
     SLUICE_VALUE_UINT(given.options.repeat, "N"),
     SLUICE_RANGE(1, 1000000),
     .help =
         "How often each training sample comes in an epoch, each time with another crop and flip."},
    {.name = "repeat-within-batch",
     .group = DATA,
     SLUICE_VALUE_UINT(given.options.repeat_within_batch, "K"),
     SLUICE_RANGE(1, 1000),
     .help =
         "Repeated augmentation: a training sample comes K times in a row, each time with other "
         "draws, in every K-th epoch; an epoch has as many rows as without."},
    {.name = "geometry",
     .group = DATA,
     SLUICE_VALUE_FLAG(given.options.has_geometry),
     .help = "Batches also say where their pixels come from: for each row a matrix from the file's "
             "pixels to the row's, the file's size, the crop and the flip. For programs that load "
             "through libsluice or Python; offload_train itself does not use it."},
    {.name = "mix",
     .group = DATA,
     SLUICE_VALUE_STRING(given.options.mix, "NAME=WEIGHT,..."),
     .check = sluice_mix_check,
     .help = "How much of each root a training epoch takes, for data of several roots: with "
             "a=1,b=0.5 all samples whose paths begin with a/ and half of those under b/, other "
             "ones in each epoch until all have come. Above 1 samples come again, each time with "
             "another crop and flip. 0 leaves a root out.",
     .default_text = "1 for each root"},
    {.name = "rank",
     .group = DATA,
     SLUICE_VALUE_UINT(given.options.rank, "N"),
     SLUICE_RANGE(0, UINT32_MAX),
     .is_given = &given.has_rank,
     .help = "This process's place among --world-size, from 0: it gets its rows of each global "
             "batch of world size x batch size samples.",
     .default_text = "as torchrun, Slurm or Open MPI set it, else 0"},
    {.name = "world-size",
     .group = DATA,
     SLUICE_VALUE_UINT(given.options.world_size, "N"),
     SLUICE_RANGE(1, UINT32_MAX),
     .is_given = &given.has_world_size,
     .help = "Processes that share each epoch's samples.",
     .default_text = "as torchrun, Slurm or Open MPI set it, else 1"},
    {.name = "tail",
     .group = DATA,
     SLUICE_VALUE_CHOICE(given.tail, "ACTION"),
     .choices = tail_choices,
     .help = "What becomes of the last global batch of an epoch if it is partial. pad: samples of "
             "the epoch's beginning come again, so that every rank has as many; drop: it is left "
             "out."},
    {.name = "shuffle-shards",
     .group = DATA,
     SLUICE_VALUE_UINT(given.options.shuffle_shards, "K"),
     .max = UINT32_MAX,
     .help = "Shuffle so that shards (tars, MDS; with files folders) are read K at a time: their "
             "order is drawn for each epoch, and samples are shuffled within K of them. For disks "
             "that seek, and for stores that are far. 0 shuffles all samples."},
    {.name = "shuffle",
     .group = DATA,
     SLUICE_VALUE_FLAG(given.options.is_shuffled),
     .help = "Do not shuffle the training samples: they come in the dataset's order."},
    {.name = "limit-samples",
     .group = DATA,
     SLUICE_VALUE_UINT(given.options.limit_samples, "N"),
     .help = "Use only the first N samples of each subset; 0: all."},
};

static sluice_status check_given(const struct sluice_cli_result *parsed, struct sluice_err *err)
{
    given.options.is_json = parsed->is_json;
    struct sluice_option_strings *dirs = &given.options.given_dirs;
    dirs->num_items = parsed->num_positional;
    memcpy(dirs->items, parsed->positional, parsed->num_positional * sizeof(dirs->items[0]));
    return sluice_options_check_run(&given, err);
}

static const struct sluice_cli cli = {
    .program = "offload_train",
    .check = check_given,
    .summary = "Trains on images that a storage server preprocesses, as far as that pays.",
    .positional = "[DIR]...",
    .options = table,
    .num_options = SLUICE_ARRAY_LEN(table),
    .groups = groups,
    .epilog = "DIR is the dataset, read without a server unless --host or a remote mode is given: "
              "then the server lists its samples, and DIR is not read. Several, as NAME=DIR each, "
              "are one dataset, in which paths begin with NAME/. Each epoch prints two lines "
              "on standard output, with --json one "
              "JSON object.",
};

static struct sluice_given_options defaults(void)
{
    return (struct sluice_given_options){
        .options =
            {
                .arch = "resnet18",
                .device = "auto",
                .batch_size = 256,
                .workers = (uint64_t)ceil(sluice_cgroup_cores()),
                .epochs = 1,
                .max_output_pixels = 1u << 24,
                .image_size = 224,
                .repeat = 1,
                .repeat_within_batch = 1,
                .gpu_decode = "auto",
                .jpeg_index = "auto",
                .prefetch_bytes = 1u << 30,
                .lr_schedule = "step",
                .lr_step = 30,
                .warmup_lr = 1e-5,
                .momentum = 0.9,
                .weight_decay = 1e-4,
                .lr_gamma = 0.1,
                .dropout = -1,
                .retry_for_s = 60,
                .lend_at_most_s = 1,
                .trace_sample = 0.001,
                .sample_timeout_s = 60,
                .has_val = true,
                .has_digest = true,
                .has_replan = true,
                .is_shuffled = true,
                .world_size = 1,
            },
        .mode = "remote_auto",
        .remote_form = "auto",
        .on_error = "skip",
        .tail = "pad",
        .lend_share = "always",
        .max_errors = "1%",
        .planner = "remote_auto",
        .has_tf32 = true,
    };
}

static const struct sluice_option *find(const char *key)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(table); i++) {
        if (strcmp(table[i].name, key) == 0)
            return &table[i];
    }
    return NULL;
}

/* The rest is about training, and what offload_train itself writes and serves. */
static bool is_for_loader(const struct sluice_option *option)
{
    static const char *const others[] = {"batch-size",   "seed",  "digest",
                                         "consume-rate", "trace", "trace-sample"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++) {
        if (strcmp(option->name, others[i]) == 0)
            return true;
    }
    return option->group == DATA || option->group == PLACE || option->group == PLANNING ||
           option->group == PROFILING;
}

static void add_setting(struct sluice_loader_settings *settings, const char *key, const char *value)
{
    assert(settings->num_items < SLUICE_ARRAY_LEN(settings->items));
    settings->items[settings->num_items++] = (struct sluice_setting){key, value};
}

/* The given options that a loader takes. */
static void copy_given(const struct sluice_cli_result *parsed,
                       struct sluice_loader_settings *settings)
{
    const struct sluice_option_strings *hosts = &given.options.hosts;
    settings->num_items = 0;
    for (size_t i = 0; i < parsed->num_positional; i++)
        add_setting(settings, dir.name, parsed->positional[i]);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(table); i++) {
        if (!parsed->given[i] || !is_for_loader(&table[i]))
            continue;
        if (table[i].type != SLUICE_OPTION_STRINGS)
            add_setting(settings, table[i].name, parsed->given[i]);
        for (size_t k = 0; table[i].value == &given.options.hosts && k < hosts->num_items; k++)
            add_setting(settings, table[i].name, hosts->items[k]);
    }
}

sluice_status sluice_options_set(const struct sluice_setting *settings, size_t num_settings,
                                 struct sluice_cli_texts *texts, struct sluice_options *options,
                                 struct sluice_err *err)
{
    struct sluice_given_options set = defaults();
    const ptrdiff_t offset = sluice_cli_offset(&given, &set);
    set.options.device = "none";
    set.options.gpu_decode = "off";
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < num_settings; i++) {
        const char *key = settings[i].key, *value = settings[i].value;
        const struct sluice_option *option = find(key);
        if (strcmp(key, "dir") == 0)
            status = sluice_cli_set(&dir, 1, offset, texts, key, value, err);
        else if (option && !is_for_loader(option))
            status = sluice_fail(err, SLUICE_E_INVALID,
                                 "%s is for offload_train, and not for a loader", key);
        else
            status = sluice_cli_set(table, SLUICE_ARRAY_LEN(table), offset, texts, key, value, err);
    }
    if (status == SLUICE_OK)
        status = sluice_options_check(&set, err);
    if (status == SLUICE_OK)
        *options = set.options;
    return status;
}

/* The value of --gpu-decode that the loader gets, and its GPU. */
static void place_rows(const struct sluice_cli_result *parsed,
                       struct sluice_loader_settings *settings)
{
    const struct sluice_options *o = &given.options;
    if (given.has_gpu)
        given.gpu_text = parsed->given[find("gpu") - table];
    if (given.gpu_text && !given.has_gpu_device)
        add_setting(settings, "gpu-device", given.gpu_text);
    const char *when = o->gpu_decode;
    if (strcmp(when, "auto") == 0 &&
        (strcmp(o->device, "none") == 0 || strcmp(o->device, "cpu") == 0))
        when = "off";
    struct sluice_setting *item = settings->items;
    const struct sluice_setting *end = item + settings->num_items;
    while (item < end && strcmp(item->key, "gpu-decode") != 0)
        item++;
    if (item == end)
        settings->num_items++;
    *item = (struct sluice_setting){"gpu-decode", when};
}

/* The ranks of --gpus are on one machine, and each has its part of the CPUs. */
static void share_cpus(const struct sluice_cli_result *parsed,
                       struct sluice_loader_settings *settings)
{
    static char text[24];
    struct sluice_options *o = &given.options;
    if (!o->is_launched || parsed->given[find("workers") - table])
        return;
    o->workers = o->workers > o->world_size ? o->workers / o->world_size : 1;
    snprintf(text, sizeof(text), "%llu", (unsigned long long)o->workers);
    add_setting(settings, "workers", text);
}

bool sluice_options_parse(int argc, char **argv, struct sluice_options *options,
                          struct sluice_loader_settings *settings, int *exit_code)
{
    given = defaults();
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit) {
        *exit_code = parsed.exit_code;
        return false;
    }
    copy_given(&parsed, settings);
    place_rows(&parsed, settings);
    share_cpus(&parsed, settings);
    *options = given.options;
    return true;
}
