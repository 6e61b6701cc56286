#include "plan/sophon.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One sample's best stage and its efficiency. */
struct candidate {
    size_t index;
    double efficiency; /* bytes saved per second of storage CPU */
    double op_s;       /* storage CPU time up to the stage */
    uint64_t saved;
    uint8_t stage;
};

static struct candidate find_candidate(const struct sluice_sample_cost *row, unsigned num_stages,
                                       size_t index)
{
    struct candidate best = {.index = index};
    for (unsigned stage = 1; stage < num_stages; stage++) {
        if (row->bytes[stage] < row->bytes[best.stage])
            best.stage = (uint8_t)stage;
    }
    for (uint8_t op = 1; op <= best.stage; op++)
        best.op_s += row->op_s[op];
    best.saved = row->bytes[0] - row->bytes[best.stage];
    if (best.saved > 0)
        best.efficiency = best.op_s > 0 ? (double)best.saved / best.op_s : INFINITY;
    return best;
}

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->efficiency != y->efficiency)
        return x->efficiency > y->efficiency ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static sluice_status check_rates(const struct sluice_rates *rates, struct sluice_err *err)
{
    const struct {
        const char *name;
        double value;
    } all[] = {
        {"link_bytes_per_s", rates->link_bytes_per_s},
        {"storage_cores", rates->storage_cores},
        {"compute_cores", rates->compute_cores},
        {"gpu_samples_per_s", rates->gpu_samples_per_s},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(all); i++) {
        if (!(all[i].value > 0))
            return sluice_fail(err, SLUICE_E_INVALID, "the rate %s must be above 0, not %g",
                               all[i].name, all[i].value);
    }
    return SLUICE_OK;
}

sluice_status sluice_plan_sophon(const struct sluice_cost_table *table,
                                 const struct sluice_rates *rates, uint8_t *split,
                                 struct sluice_err *err)
{
    const sluice_status status = check_rates(rates, err);
    if (status != SLUICE_OK)
        return status;
    struct candidate *candidates =
        calloc(table->num_rows ? table->num_rows : 1, sizeof(*candidates));
    if (!candidates)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to order %zu samples",
                           table->num_rows);
    uint64_t net_bytes = 0;
    for (size_t i = 0; i < table->num_rows; i++) {
        candidates[i] = find_candidate(&table->rows[i], table->num_stages, i);
        net_bytes += table->rows[i].bytes[0];
    }
    qsort(candidates, table->num_rows, sizeof(*candidates), compare_candidates);

    memset(split, 0, table->num_rows);
    double storage_s = 0;
    for (size_t i = 0; i < table->num_rows && candidates[i].saved > 0; i++) {
        const uint64_t net_with = net_bytes - candidates[i].saved;
        const double storage_with = storage_s + candidates[i].op_s;
        if (!((double)net_with / rates->link_bytes_per_s >= storage_with / rates->storage_cores))
            break;
        net_bytes = net_with;
        storage_s = storage_with;
        split[candidates[i].index] = candidates[i].stage;
    }
    free(candidates);
    return SLUICE_OK;
}
