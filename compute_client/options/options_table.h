#ifndef SLUICE_COMPUTE_CLIENT_OPTIONS_OPTIONS_TABLE_H
#define SLUICE_COMPUTE_CLIENT_OPTIONS_OPTIONS_TABLE_H

#include "cli/cli.h"
#include "cli/cli_set.h"
#include "compute_client/options/options.h"

/* The mode of a run without --host. */
#define SLUICE_DEFAULT_HOST "127.0.0.1:50051"

/* The command line of offload_train, as the table has it.
 *
 * Threads: at start, on the main thread. */

struct sluice_given_options {
    struct sluice_options options; /* without the fields that what is below decides */
    const char *mode, *remote_form, *on_error, *planner, *max_errors, *checkpoint_every, *tail;
    double mixup, cutmix, label_smoothing, erasing;
    bool has_mixup, has_cutmix, has_label_smoothing, has_erasing;
    bool has_start_epoch, has_mode, has_image_size, has_rank, has_world_size, has_trace_sample,
        has_lr;
};

/* Parses argv over the defaults into *out and checks it, unless the result says to exit. */
struct sluice_cli_result sluice_options_read(int argc, char **argv,
                                             struct sluice_given_options *out);

/* The given options that a loader takes; `options` has all that were read. */
void sluice_options_for_loader(const struct sluice_cli_result *parsed,
                               const struct sluice_given_options *options,
                               struct sluice_loader_settings *settings);

/* The same from settings (sluice.h): "dir" is a DIR, and what is about training or
 * about offload_train's own output is refused.  `texts` takes copies that *options points to.  Any
 * thread. */
SLUICE_MUST_USE sluice_status sluice_options_set(const struct sluice_setting *settings,
                                                 size_t num_settings,
                                                 struct sluice_cli_texts *texts,
                                                 struct sluice_options *options,
                                                 struct sluice_err *err);

/* Parses the words, and checks options that exclude or need each other (options.c). */
SLUICE_MUST_USE sluice_status sluice_options_check(struct sluice_given_options *given,
                                                   struct sluice_err *err);
/* The same, and what offload_train needs before it begins (options.c). */
SLUICE_MUST_USE sluice_status sluice_options_check_run(struct sluice_given_options *given,
                                                       struct sluice_err *err);

#endif
