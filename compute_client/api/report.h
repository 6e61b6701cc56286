#ifndef SLUICE_COMPUTE_CLIENT_API_REPORT_H
#define SLUICE_COMPUTE_CLIENT_API_REPORT_H

#include "base/error.h"
#include "compute_client/loader/batch/prefetcher.h"
#include "compute_client/loader/choose/choice.h"
#include "compute_client/replan/replan.h"
#include "datasets/manifest/manifest.h"
#include "sluice/lend.h"

#include <stdbool.h>
#include <stdint.h>

/* The report at the end of an epoch: two lines for a person, or one JSON object.
 *
 * Threads: pure functions. */

struct sluice_epoch_report {
    uint64_t epoch;
    /* > 0: the epoch was resumed at this sample. */
    uint64_t first_sample;
    enum sluice_mode mode;
    const char *mode_name; /* for the JSON; NULL: that of `mode` */
    /* The epoch itself is an evaluation of the val subset. */
    bool is_evaluation;
    double seconds;
    const struct sluice_epoch_stats *stats;
    const struct sluice_manifest *manifest;
    /* The device trains, so there is a loss. */
    bool has_loss;
    struct sluice_learned totals;
    /* Streams that were lost and opened again. */
    uint64_t retries;
    /* Replies that were damaged on the network and requested again. */
    uint64_t hash_errors;
    /* NULL: no running plan. */
    const struct sluice_plan_stats *plan;
    /* To other processes, in the epoch and the evaluation that followed; NULL: the GPU is not lent. */
    const struct sluice_lend_counters *lent;
    /* CPU time of the process in the epoch. */
    double cpu_s;
    /* An evaluation followed. */
    bool has_val;
    struct sluice_learned val;
    double val_seconds;
    uint64_t val_errors;
};

/* One line of JSON, without a newline, to free(); docs/operations/trainer.md has its keys. */
SLUICE_MUST_USE sluice_status sluice_report_json(const struct sluice_epoch_report *report,
                                                 char **json, struct sluice_err *err);

/* For a person: two lines, without newlines, of at most SLUICE_REPORT_COLUMNS.  Less important
 * facts are left out to fit. */
#define SLUICE_REPORT_COLUMNS 80
struct sluice_report_summary {
    char line[2][SLUICE_REPORT_COLUMNS + 1];
};
struct sluice_report_summary sluice_report_summary(const struct sluice_epoch_report *report);

/* All facts in one line without a newline, for the debug log. */
void sluice_report_text(const struct sluice_epoch_report *report, char *text, size_t capacity);

#endif
