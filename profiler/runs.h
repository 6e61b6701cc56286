#ifndef SLUICE_PROFILER_RUNS_H
#define SLUICE_PROFILER_RUNS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* What offload_train --json printed: a line for each epoch, of one run or of many.
 *
 * A line that is no epoch (cut short, a line of a log among them) is passed over: a warning names
 * file, line and reason, and the runs count it.  An epoch has a mode and seconds; what else is
 * missing, null or beyond 1e18 is NAN.
 *
 * Threads: one. */

/* The resources of "stalls", in the order of the route of a sample. */
enum { SLUICE_RUN_STALLS = 6 };
extern const char *const sluice_run_stall_names[SLUICE_RUN_STALLS];  /* as the JSON has them */
extern const char *const sluice_run_stall_titles[SLUICE_RUN_STALLS]; /* as people read them */

struct sluice_run_epoch {
    char mode[48], digest[40], choices[160];
    double epoch, samples, first_sample, errors;
    double seconds, samples_per_s, wire_bytes;
    double loss, top1, val_loss, val_top1;
    double stalls[SLUICE_RUN_STALLS]; /* shares of the epoch, 0 to 1 */
    bool is_evaluation;
    size_t file;   /* which of those read */
    size_t run;    /* which; an evaluation belongs to the run before it */
    double from_s; /* when it began, and ended: epochs and validations of its run before it */
    double to_s;
};

struct sluice_runs {
    struct sluice_run_epoch *items;
    size_t num_items, capacity;
    size_t num_files, num_runs;
    size_t num_passed_over; /* lines */
};

/* Adds what one file holds.  A run ends where the next epoch has another mode or does not follow.
 * SLUICE_E_CORRUPT: there is no epoch in it; the text names the first line and why. */
SLUICE_MUST_USE sluice_status sluice_runs_read(const char *path, struct sluice_runs *runs,
                                               struct sluice_err *err);
void sluice_runs_clear(struct sluice_runs *runs); /* idempotent; fine on {0} */

/* Adds the seconds that an epoch waited for each to waits[]; returns its length, 0 if its stalls
 * are not known. */
double sluice_run_add_waits(const struct sluice_run_epoch *epoch, double waits[SLUICE_RUN_STALLS]);

/* The stall with the largest share; -1: none is known, or none is above nothing. */
int sluice_run_largest_stall(const struct sluice_run_epoch *epoch);

/* What remote_nooff moved for the same samples (an equal digest; where there are no digests, as
 * many samples of an epoch of equal number), against which savings are counted; NAN if it was not
 * run. */
double sluice_runs_baseline_bytes(const struct sluice_runs *runs, size_t item);

/* Whether the epoch may stand beside those of other modes: it delivered what one of another mode
 * did; where no two modes delivered the same, every epoch but evaluations. */
bool sluice_runs_is_comparable(const struct sluice_runs *runs, size_t item);

/* 1: the digest is that of another epoch of equal number and samples.  0: it is that of none of
 * those in its file.  -1: there is nothing to compare with; another file may well be of another
 * seed or size. */
int sluice_runs_digest_is_equal(const struct sluice_runs *runs, size_t item);

#endif
