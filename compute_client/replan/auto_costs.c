#include "compute_client/replan/auto_costs.h"

#include <math.h>

/* From one settle to the next a factor keeps so much of what it was, though never less than so many
 * rows; it begins as if this many had shown what the other choices do. */
#define KEPT 0.875
#define CORRECTION_ROWS 1000.0
#define PRIOR_ROWS 24

#define MAX_OVER_SIDE 4.0
#define MAX_OVER_MODEL 16.0

struct sluice_auto_costs sluice_auto_costs_init(const struct sluice_choice_model *model,
                                                const struct sluice_transport_cost *transport)
{
    struct sluice_auto_costs costs = {.model = *model, .transport = *transport};
    sluice_auto_costs_settle(&costs);
    return costs;
}

void sluice_auto_costs_of(const struct sluice_auto_costs *costs,
                          const struct sluice_sample_facts *facts,
                          double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES])
{
    sluice_choice_model_costs(&costs->model, facts, cost);
    for (unsigned c = 0; c < costs->model.choices.num; c++) {
        const double read = sluice_choice_read_bytes(&costs->model, facts, c);
        cost[c][SLUICE_DISK] = fmin(read * costs->read_factor, (double)facts->file_bytes);
        SLUICE_EACH_RESOURCE (s, SLUICE_MODELLED)
            cost[c][s] *= costs->factor[c][s];
        sluice_transport_cost_add(&costs->transport,
                                  costs->model.choices.at[c].form != SLUICE_FORM_RAW, cost[c]);
    }
}

void sluice_auto_costs_learn(struct sluice_auto_costs *costs, unsigned choice,
                             const struct sluice_sample_facts *facts,
                             const double seen[SLUICE_NUM_RESOURCES], double read_bytes)
{
    const double part = sluice_choice_read_bytes(&costs->model, facts, choice);
    if (part < (double)facts->file_bytes) {
        costs->read.seen += fmin(read_bytes, MAX_OVER_MODEL * part);
        costs->read.expected += part;
        costs->read.rows++;
    }
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_choice_model_costs(&costs->model, facts, cost);
    SLUICE_EACH_RESOURCE (s, SLUICE_MODELLED) {
        const double expected = cost[choice][s];
        if (!(expected > (s == SLUICE_NETWORK ? 0 : SLUICE_LEAST_LEARNT_S)))
            continue;
        /* Reading the file is in the storage node's figure, and in the transport's. */
        const double beside = s == SLUICE_STORAGE_CPU ? costs->transport.storage_s_per_sample : 0;
        const double most = fmin(MAX_OVER_SIDE * costs->side_factor[s], MAX_OVER_MODEL) * expected;
        struct sluice_cost_correction *correction = &costs->corrections[choice][s];
        correction->seen += fmin(fmax(seen[s] - beside, 0), most);
        correction->expected += expected;
        correction->rows++;
    }
}

/* As if PRIOR_ROWS more of what was expected had come out at `factor`. */
static double with_prior(const struct sluice_cost_correction *sum, double factor)
{
    if (!(sum->rows > 0))
        return factor;
    const double prior = PRIOR_ROWS * sum->expected / sum->rows;
    return (sum->seen + factor * prior) / (sum->expected + prior);
}

static void forget(struct sluice_cost_correction *sum)
{
    if (!(sum->rows > CORRECTION_ROWS))
        return;
    const double kept = fmax(KEPT, CORRECTION_ROWS / sum->rows);
    sum->seen *= kept;
    sum->expected *= kept;
    sum->rows *= kept;
}

void sluice_auto_costs_settle(struct sluice_auto_costs *costs)
{
    costs->read_factor = with_prior(&costs->read, 1);
    forget(&costs->read);
    SLUICE_EACH_RESOURCE (s, SLUICE_MODELLED) {
        struct sluice_cost_correction all = {0};
        for (unsigned c = 0; c < costs->model.choices.num; c++) {
            all.seen += costs->corrections[c][s].seen;
            all.expected += costs->corrections[c][s].expected;
            all.rows += costs->corrections[c][s].rows;
        }
        costs->side_factor[s] = s == SLUICE_NETWORK ? 1 : with_prior(&all, 1);
        for (unsigned c = 0; c < costs->model.choices.num; c++) {
            costs->factor[c][s] = with_prior(&costs->corrections[c][s], costs->side_factor[s]);
            forget(&costs->corrections[c][s]);
        }
    }
}
