#ifndef SLUICE_PLAN_TABLE_FILL_H
#define SLUICE_PLAN_TABLE_FILL_H

#include "base/error.h"
#include "plan/sample_cost.h"
#include "plan/sample_facts.h"

#include <stdbool.h>

/* Fills the rows of a table that were not measured.  Bytes follow from the facts; op times from a
 * fit (choice_fit.h) of each op to the measured rows, without samples that could not be decoded.
 * facts and is_measured have a value for each row.
 *
 * Threads: pure. */
void sluice_cost_table_fill(struct sluice_cost_table *table, const struct sluice_pipeline *pipeline,
                            const struct sluice_sample_facts *facts, const bool *is_measured);

#endif
