#ifndef SLUICE_COMPUTE_CLIENT_RUN_REPORT_H
#define SLUICE_COMPUTE_CLIENT_RUN_REPORT_H

#include "base/error.h"
#include "compute_client/load/choice.h"
#include "compute_client/load/loader.h"
#include "compute_client/replan/replan.h"
#include "datasets/manifest.h"
#include "train/train.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What an epoch says when it is done: one line for a person, or one JSON object.
 *
 * Threads: pure functions. */

struct sluice_epoch_report {
    uint64_t epoch;
    uint64_t first_sample; /* > 0: the rest of an epoch that was broken off */
    enum sluice_mode mode;
    bool is_evaluation; /* the epoch itself went over the val subset */
    double seconds;
    const struct sluice_epoch_stats *stats;
    const struct sluice_manifest *manifest;
    bool has_loss; /* the device learns */
    struct sluice_train_totals totals;
    double lr;
    uint64_t retries;                     /* lost streams that were opened again */
    const struct sluice_plan_stats *plan; /* NULL: it does not change */
    double cpu_s;                         /* of the process in the epoch */
    bool has_val;                         /* an evaluation followed */
    struct sluice_train_totals val;
    double val_seconds;
    uint64_t val_errors;
};

/* One line: docs/OPERATIONS.md has its keys. */
SLUICE_MUST_USE sluice_status sluice_report_json(const struct sluice_epoch_report *report,
                                                 FILE *out, struct sluice_err *err);

/* One line without the line's end. */
void sluice_report_text(const struct sluice_epoch_report *report, char *text, size_t capacity);

#endif
