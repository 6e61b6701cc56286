#ifndef SLUICE_PLAN_FORM_MENU_H
#define SLUICE_PLAN_FORM_MENU_H

#include "base/error.h"
#include "plan/choices.h"
#include "plan/menu.h"
#include "plan/planner_lp.h"
#include "plan/sample_cost.h"
#include "plan/sophon.h"
#include "plan/transport_cost.h"

#include <stdbool.h>
#include <stdint.h>

/* The menus of the samples of a cost table: the choices that each may be requested in, their costs,
 * and the plan over all resources.
 *
 * Costs are either a model's (choice_cost.h) or those of the table's rows.  Rows have no costs of
 * JPEG crops and packed pixels: these are scaled from the row's decode cost by the default model's
 * ratio.  Decoding on the GPU then costs what the default model says.  A sample that was never
 * decoded is requested as its file.
 *
 * Threads: pure functions; a menu is read-only once made. */

struct sluice_choice_model;
struct sluice_sample_facts;

struct sluice_form_menu {
    const struct sluice_cost_table *table; /* borrowed */
    struct sluice_choices choices;
    bool has_choice[SLUICE_MAX_CHOICES]; /* the choices that the server offers */
    /* Borrowed; has the same choices.  NULL: costs are those of the rows. */
    const struct sluice_choice_model *model;
    /* Borrowed; one for each row.  NULL: those of a typical crop. */
    const struct sluice_sample_facts *facts;
    /* Borrowed.  Added to the cost of the ops; with costs of rows, turning floats back into pixels
     * is added, too.  NULL: a plan counts the ops alone, as SOPHON does. */
    const struct sluice_transport_cost *transport;
    /* The storage node has an index of its JPEGs; overrides the model.  A row has the disk's time
     * for the whole file; a part of the file takes the share of it that the default model says. */
    bool has_jpeg_index;
    /* Multiplies the GPU's time to decode; 0 counts as 1. */
    double decode_factor;
};

/* A menu of plain forms, with costs of the rows, without transport. */
struct sluice_form_menu sluice_form_menu_init(const struct sluice_cost_table *table,
                                              const struct sluice_choices *choices);

struct sluice_choice_forecast {
    double busy_s[SLUICE_NUM_RESOURCES]; /* for one epoch */
    double primal_s;                     /* busy_s of the slowest resource */
    enum sluice_resource slowest;
    uint64_t wire_bytes;
    uint64_t choices[SLUICE_MAX_CHOICES];
};

/* The GPU's mean time to decode a sample, over the samples that it can decode; 0: none. */
double sluice_form_menu_decode_s(const struct sluice_form_menu *menu);

/* The forecast of a plan. */
struct sluice_choice_forecast sluice_form_menu_forecast(const struct sluice_form_menu *menu,
                                                        const struct sluice_rates *rates,
                                                        const uint8_t *choice);

/* The time of an epoch in addition to that of its slowest resource.  The GPU waits for the first
 * batch, and trains on the last one when all other work is done, so it is the time of one batch on
 * the faster of the two sides.  batch_size > 0; 0 if the GPU takes no time. */
double sluice_choice_forecast_fill_s(const struct sluice_choice_forecast *forecast,
                                     uint64_t num_samples, uint64_t batch_size);

/* Fills choice[0 .. num_rows) by sluice_plan_lp(); *bound_s is a lower bound for every plan among
 * these choices (its duals, applied to the table's numbers).  If the training step is the
 * bottleneck and CPUs keep up with it, CPUs decode all samples.  Takes at most 56 MB of memory in
 * addition to `choice`.  SLUICE_E_INVALID, with the reason in err, if a rate is not positive;
 * SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_form_menu_plan(const struct sluice_form_menu *menu,
                                                    const struct sluice_rates *rates,
                                                    uint8_t *choice, double *bound_s,
                                                    struct sluice_err *err);

#endif
