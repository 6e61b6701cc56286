#ifndef SLUICE_COMPUTE_CLIENT_OPTIONS_OPTIONS_H
#define SLUICE_COMPUTE_CLIENT_OPTIONS_OPTIONS_H

#include "base/roots.h"
#include "cli/cli.h"
#include "op/batch_ops.h"
#include "plan/mode.h"
#include "sluice/lend.h"
#include "sluice/sluice.h"

#include <stdbool.h>
#include <stdint.h>

/* The command line of offload_train, and the settings of a loader, which are a part of it, checked.
 *
 * Threads: at start, on the main thread. */

/* The server of a run without --host. */
#define SLUICE_DEFAULT_HOST "127.0.0.1:50051"

#define SLUICE_TARGET_BYTES 308

/* Variables that --gpus sets for its ranks, in addition to RANK, LOCAL_RANK and WORLD_SIZE: the key
 * by which ranks find each other, which a user may set, too; and the process that started them. */
#define SLUICE_RENDEZVOUS_VARIABLE "SLUICE_RENDEZVOUS"
#define SLUICE_LAUNCHER_VARIABLE "SLUICE_LAUNCHER"

struct sluice_options {
    struct sluice_option_strings given_dirs; /* the dataset, for mode local */
    struct sluice_roots dirs;                /* the same, parsed; num is 0: none */
    const char *arch;                        /* "alexnet", ... */
    const char *device;                      /* "auto", "none", "cpu", "cuda" */
    const char *precision;                   /* "bf16", "tf32", "fp32"; NULL: the device's */
    const char *engine_cache;                /* a file; NULL: train.h's */
    uint64_t gpu;                            /* of --device cuda, of CUDA's count */
    struct sluice_option_strings hosts;      /* one text for each shard, as given or by default */
    char target[SLUICE_TARGET_BYTES];        /* of these, for lines of the log */
    bool hedges;                             /* a late item is asked of another replica, too */
    bool has_tls;                            /* the connections are encrypted */
    const char *ca, *cert, *key;             /* PEM files; NULL: none */
    const char *server_name;                 /* of the servers' certificates; NULL: each host's */
    const char *token_file;
    enum sluice_mode mode;
    const char *mode_name;        /* as typed: an older name stays what it is in the JSON */
    bool has_host;                /* was given */
    bool is_mode_derived;         /* local, as DIR was given and neither a host nor a mode */
    const char *mix;              /* load/mix.h; NULL: none */
    const char *gpu_decode;       /* "off", "auto", "on" */
    uint64_t gpu_device;          /* of CUDA's count */
    uint64_t gpu_memory;          /* 0: as much as serves */
    const char *jpeg_index;       /* "auto", "off" or a file; for mode local */
    bool should_verify;           /* for mode local: hash the content of every file */
    bool is_strict;               /* for mode local: an image that is passed over is an error */
    enum sluice_form remote_form; /* jpeg_crop, u8_packed or jpeg_rows; raw: plain forms */
    bool has_any_form;            /* remote_auto may request every form that the server has */
    bool is_greedy;               /* remote_auto plans by SOPHON's greedy rule */
    bool has_replan;              /* remote_auto updates its plan by what it measures */
    const char *on_error;         /* "fail", "skip", "substitute" */

    uint64_t batch_size, workers, epochs, start_epoch, seed, print_freq;
    uint64_t max_output_pixels; /* of images that end in sizes of their own */
    uint64_t image_size, num_classes, repeat, repeat_within_batch, shuffle_shards, limit_samples,
        train_threads;
    uint64_t rank, world_size;
    uint64_t gpus;          /* ranks to start on this host, each with a GPU; 0: not given */
    bool is_launched;       /* this process is one of them */
    const char *rendezvous; /* the key by which the ranks find each other; NULL: none */
    bool has_geometry;      /* batches say where their pixels come from */
    bool drops_tail;        /* a partial global batch at an epoch's end is left out */
    uint64_t remote_cpus;   /* 0: as many as the server reports */
    uint64_t prefetch_bytes;
    const char *lr_schedule; /* "constant", "cosine", "step" */
    uint64_t lr_step, warmup_epochs;
    double lr, momentum, weight_decay, lr_gamma, warmup_lr, min_lr, dropout;
    struct sluice_batch_ops batch_ops; /* of training; by --pipeline @FILE and flags */
    double net_bw;                     /* bytes per second; 0: measured */
    double gpu_rate, pcie_bw;          /* for the plan; 0: as measured, and never the bottleneck */
    double consume_rate, retry_for_s, sample_timeout_s;

    const char *buckets; /* fit_bucket's sizes, with commas; NULL: as the pipeline says */
    const char *pipeline, *val_pipeline; /* NULL: from image_size */
    uint64_t profile_samples;            /* 0: all */
    const char *profile_folder, *write_profile_folder;
    const char *init, *resume, *checkpoint, *batch_log;
    const char *trace;   /* a file; NULL: nothing is traced */
    double trace_sample; /* share of the samples */
    const char *metrics; /* "127.0.0.1:9464"; NULL: none are served */
    const char *lend;    /* a unix socket's path; NULL: the GPU is not lent */
    enum sluice_lend_when lend_when;
    double lend_share;                       /* of SLUICE_LEND_SHARE */
    struct sluice_option_strings lend_allow; /* as given, and as numbers: */
    uint32_t lend_uids[SLUICE_MAX_STRINGS];
    double lend_at_most_s;
    uint64_t checkpoint_batches; /* 0: not by batches */
    double checkpoint_s;         /* 0: not by time */
    double max_errors;           /* samples, or a share of an epoch's samples */
    bool is_max_errors_share;
    bool has_print_freq; /* given: lines by batches, not by time */
    bool is_profiling, is_evaluate, is_shuffled, has_val, has_digest;
    bool is_deterministic; /* cuDNN's algorithms are not measured */
    bool is_json;
};

/* --max-errors of an epoch of num_samples; a share is rounded up. */
uint64_t sluice_options_max_errors(const struct sluice_options *options, uint64_t num_samples);

/* The same before the words among them are read. */
struct sluice_given_options {
    struct sluice_options options; /* without the fields that the words below decide */
    const char *mode, *remote_form, *on_error, *planner, *max_errors, *checkpoint_every, *tail,
        *lend_share;
    double mixup, cutmix, label_smoothing, erasing;
    bool has_mixup, has_cutmix, has_label_smoothing, has_erasing;
    const char *gpu_text; /* of the loader's GPU, unless has_gpu_device; NULL: 0 */
    bool has_start_epoch, has_mode, has_image_size, has_rank, has_world_size, has_trace_sample,
        has_lr, has_lr_step, has_lr_gamma, has_warmup_lr, has_min_lr, has_gpu, has_gpu_device,
        has_tf32, has_lend_share, has_lend_allow, has_lend_at_most;
};

/* Parses the words, and checks options that exclude or need each other. */
SLUICE_MUST_USE sluice_status sluice_options_check(struct sluice_given_options *given,
                                                   struct sluice_err *err);
/* The same, and what offload_train needs before it begins. */
SLUICE_MUST_USE sluice_status sluice_options_check_run(struct sluice_given_options *given,
                                                       struct sluice_err *err);

#endif
