#include "compute_client/run/run_state.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/quit.h"
#include "cli/cli.h"
#include "plan/mode.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static sluice_status profile(struct run *run, struct place *place, bool *is_stopped,
                             struct sluice_err *err)
{
    bool has_lost_source = false;
    sluice_status status = run_one_epoch(run, place, is_stopped, &has_lost_source, err);
    if (status != SLUICE_OK || *is_stopped)
        return status;
    run_show(run, "profile", "");
    status = sluice_loader_write_profile(run->loader, err);
    run_show_end(run);
    return status;
}

/* After a stop or a loss. */
static void tell_how_to_go_on(const struct run *run, const struct place *place)
{
    const char *checkpoint = run->options->checkpoint;
    const bool is_saved = place->epoch == run->saved.epoch && place->batch == run->saved.batch;
    if (run->is_follower)
        return;
    if (run->learns && !checkpoint)
        sluice_log(SLUICE_LOG_WARN, "what was learnt is lost: no --checkpoint was given");
    else if (checkpoint && is_saved)
        sluice_log(SLUICE_LOG_INFO, "%s is of epoch %llu, batch %llu: --resume %s goes on there",
                   checkpoint, (unsigned long long)place->epoch, (unsigned long long)place->batch,
                   checkpoint);
}

static sluice_status train(struct run *run, struct place *place, bool *is_stopped,
                           struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    if (place->epoch >= o->epochs)
        sluice_log(SLUICE_LOG_WARN, "nothing to do: %llu epochs are done, and --epochs is %llu",
                   (unsigned long long)place->epoch, (unsigned long long)o->epochs);
    sluice_status status = SLUICE_OK;
    bool has_lost_source = false;
    while (status == SLUICE_OK && !*is_stopped && place->epoch < o->epochs) {
        *is_stopped = run_should_stop(run);
        if (!*is_stopped)
            status = run_one_epoch(run, place, is_stopped, &has_lost_source, err);
    }
    if (*is_stopped || has_lost_source) {
        run_save(run, place);
        tell_how_to_go_on(run, place);
    }
    return status;
}

/* Logs where samples come from, if the command line does not say so. */
static void tell_where_from(const struct sluice_options *o)
{
    char dirs[SLUICE_ROOTS_TEXT];
    sluice_roots_format(&o->dirs, dirs);
    if (o->is_mode_derived)
        sluice_log(SLUICE_LOG_INFO,
                   "%s is read here, without a server (--dataset-mode local): no --host is given",
                   dirs);
    else if (o->mode != SLUICE_MODE_LOCAL && o->dirs.num > 0)
        sluice_log(SLUICE_LOG_INFO, "%s is not read: the server at %s lists its samples (mode %s)",
                   dirs, o->target, sluice_mode_name(o->mode));
    else if (o->mode == SLUICE_MODE_LOCAL && o->has_host)
        sluice_log(SLUICE_LOG_INFO, "no server is asked, whatever --host says: mode local reads %s",
                   dirs);
}

static sluice_status check_parts(struct run *run, struct sluice_err *err)
{
    const uint64_t *num_samples = run->dataset->num_samples;
    if (run->options->is_evaluate && num_samples[SLUICE_VAL] == 0)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "--evaluate: the dataset has no val subset");
    if (!run->options->is_evaluate && num_samples[SLUICE_TRAIN] == 0)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "the dataset has no training samples");
    return SLUICE_OK;
}

static sluice_status run_all(struct run *run, bool *is_stopped, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    struct place place = {.epoch = o->start_epoch};
    run->saved = place; /* what a new run begins with */
    tell_where_from(o);
    sluice_status status = run_try_checkpoints(run, err);
    if (status == SLUICE_OK)
        run_try_lend(run);
    if (status == SLUICE_OK)
        status = sluice_loader_open(run->loader, err);
    if (status == SLUICE_OK)
        status = check_parts(run, err);
    if (status == SLUICE_OK)
        status = run_make_trainer(run, err);
    if (status == SLUICE_OK)
        status = run_set_memory(run, err);
    if (status == SLUICE_OK && o->resume)
        status = run_resume(run, &place, err);
    else if (status == SLUICE_OK && o->init)
        status = sluice_trainer_init_from(run->trainer, o->init, err);
    if (status == SLUICE_OK)
        status = run_open_lend(run, err);
    if (status == SLUICE_OK)
        status = sluice_line_writer_open(NULL, STDOUT_FILENO, "the standard output", NULL,
                                         &run->out, err);
    if (status == SLUICE_OK && o->batch_log)
        status = sluice_batch_log_open(o->batch_log, &run->batch_log, err);
    if (status != SLUICE_OK)
        return status;
    if (o->is_evaluate)
        return run_evaluation(run, place.epoch, is_stopped, err);
    return o->is_profiling ? profile(run, &place, is_stopped, err)
                           : train(run, &place, is_stopped, err);
}

/* Says what went wrong, and what could not be written; returns the exit code. */
static int end_of(struct run *run, sluice_status status, bool is_stopped, struct sluice_err *err)
{
    const int number = sluice_quit_signal();
    /* A call that a stop interrupted has not failed. */
    if (status == SLUICE_E_CLOSED && number) {
        status = SLUICE_OK;
        is_stopped = true;
    }
    int exit_code = sluice_cli_exit_code(status, err);
    struct sluice_err output[2] = {0};
    const sluice_status written[] = {
        sluice_line_writer_close(run->out, &output[0]),
        sluice_batch_log_close(run->batch_log, &output[1]),
        run->unsaved.text[0] ? SLUICE_E_IO : SLUICE_OK,
    };
    const struct sluice_err *const causes[] = {&output[0], &output[1], &run->unsaved};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(written); i++) {
        /* Output that a closed terminal did not take is not an error. */
        const bool is_hung_up = number == SIGHUP && causes[i] == &output[0];
        if (written[i] != SLUICE_OK && !is_hung_up)
            exit_code = sluice_cli_exit_code(written[i], causes[i]);
    }
    /* Without a signal of its own, another rank's stopped it. */
    return exit_code == 0 && is_stopped ? 128 + (number ? number : SIGTERM) : exit_code;
}

/* So that the watcher, which sees to it that this run comes to its end, does not stop it any more.
 */
static struct sluice_loader *take_loader(struct run *run)
{
    pthread_mutex_lock(&run->lock);
    struct sluice_loader *loader = run->loader;
    run->loader = NULL;
    pthread_mutex_unlock(&run->lock);
    return loader;
}

int sluice_run(const struct sluice_options *options, const struct sluice_loader_settings *settings)
{
    struct run run = {
        .own = *options,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .times.lock = PTHREAD_MUTEX_INITIALIZER,
        .started_ns = sluice_clock_ns(),
        .loss_now = NAN,
        .top1_now = NAN,
    };
    run.options = &run.own;
    if (options->is_launched && options->rank > 0)
        run_follow(&run);
    struct sluice_err err = {0};
    sluice_status status =
        sluice_loader_create(settings->items, settings->num_items, &run.loader, &err);
    if (status != SLUICE_OK)
        return sluice_cli_exit_code(status, &err);
    run.dataset = sluice_loader_info(run.loader);
    sluice_cond_init(&run.staged);
    run_show_init(&run);
    bool is_stopped = false;
    status = run_start_watcher(&run, &err);
    if (status == SLUICE_OK)
        status = run_serve_metrics(&run, &err);
    if (status == SLUICE_OK)
        status = run_all(&run, &is_stopped, &err);
    run_stop_lend(&run); /* the rest needs the GPU without borrowers */
    const int exit_code = end_of(&run, status, is_stopped, &err);
    run_enter(&run, CLOSING, exit_code);
    sluice_metrics_server_destroy(run.metrics);
    run_show_clear(&run);
    sluice_loader_close(take_loader(&run));
    sluice_trainer_destroy(run.trainer);
    run_close_lend(&run);
    run_stop_watcher(&run);
    sluice_lockstep_clear(&run.lockstep);
    pthread_cond_destroy(&run.staged);
    pthread_mutex_destroy(&run.times.lock);
    pthread_mutex_destroy(&run.lock);
    return exit_code;
}
