#ifndef SLUICE_PLAN_SOPHON_H
#define SLUICE_PLAN_SOPHON_H

#include "base/error.h"
#include "plan/resource.h"
#include "plan/sample_cost.h"

#include <stddef.h>
#include <stdint.h>

/* Decides the split of each sample: the number of ops that the storage node runs.
 *
 * sluice_plan_sophon is the rule of SOPHON (HotStorage'24), exactly:
 *
 *   - a sample's best stage is the one with the fewest bytes; of equal ones, the earliest;
 *   - its efficiency is bytes saved (file - best stage) over the summed op time
 *     up to that stage, 0 where nothing is saved;
 *   - in falling efficiency (of equal ones, the lower index first) samples are
 *     taken while total_net / net_bw >= storage_time / remote_cpus still holds
 *     with that sample taken, where total_net is the bytes of all samples then and
 *     storage_time the summed op time of those taken; the first that breaks this,
 *     or saves nothing, ends it and is not taken.
 *
 * Op time up to stage k is op_s[1] + ... + op_s[k]: reading the file is spent
 * on the storage node in every plan.
 *
 * Pure: no I/O, clock, randomness or threads.  Equal input gives the equal plan
 * on every machine.  O(n log n). */

/* Fills split[0 .. table->num_rows) with values in [0, table->num_stages).
 * SLUICE_E_INVALID, with the reason in err and split untouched, if a rate is not
 * positive; SLUICE_E_NO_MEMORY for the order. */
SLUICE_MUST_USE sluice_status sluice_plan_sophon(const struct sluice_cost_table *table,
                                                 const struct sluice_rates *rates, uint8_t *split,
                                                 struct sluice_err *err);

#endif
