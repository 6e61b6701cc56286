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

/* The splits and forms that a sample of a cost table may be asked for, and the
 * plan over all resources among them.
 *
 * Costs are either a model's (choice_cost.h), or the rows' own; those do not know of cut files and
 * packed pixels, which then cost as much more or less than the row's decoding as they do by the
 * default model; decoding on the GPU costs what it does by that model.  A sample that was never
 * decoded is asked for as its file.
 *
 * Threads: pure functions; a menu is read-only once made. */

struct sluice_choice_model;
struct sluice_sample_facts;

struct sluice_form_menu {
    const struct sluice_cost_table *table; /* borrowed */
    struct sluice_choices choices;
    bool has_choice[SLUICE_MAX_CHOICES]; /* which the server offers */
    /* Borrowed, and of these choices; NULL: costs are the rows' own. */
    const struct sluice_choice_model *model;
    /* Borrowed; of every row.  NULL: those of a typical crop. */
    const struct sluice_sample_facts *facts;
    /* Borrowed.  Added to what the ops take, as is, by rows, what turning floats back into pixels
     * takes; NULL: a plan counts the ops alone, as SOPHON does. */
    const struct sluice_transport_cost *transport;
    /* The storage node has an index of its JPEGs, whatever the model says of that.  A row's time of
     * the disk is that of the whole file; a part takes as much of it as by the usual model. */
    bool has_jpeg_index;
    /* By which the GPU's time to decode is multiplied; 0 counts as 1. */
    double decode_factor;
};

/* The plain forms alone, at the rows' own costs, the ops alone. */
struct sluice_form_menu sluice_form_menu_init(const struct sluice_cost_table *table,
                                              const struct sluice_choices *choices);

struct sluice_choice_forecast {
    double busy_s[SLUICE_NUM_RESOURCES]; /* for one epoch */
    double primal_s;                     /* the slowest of them */
    enum sluice_resource slowest;
    uint64_t wire_bytes;
    uint64_t choices[SLUICE_MAX_CHOICES];
};

/* The mean time that the GPU takes to decode a sample, of those that it can decode; 0: none. */
double sluice_form_menu_decode_s(const struct sluice_form_menu *menu);

/* The forecast of a plan by the model.  Cannot fail. */
struct sluice_choice_forecast sluice_form_menu_forecast(const struct sluice_form_menu *menu,
                                                        const struct sluice_rates *rates,
                                                        const uint8_t *choice);

/* The time of an epoch in addition to that of its slowest resource: its first batch is waited for
 * by the GPU, its last one is trained on when all else is done, so it is one batch of the faster of
 * the two sides. batch_size > 0; 0 without a GPU that takes time. */
double sluice_choice_forecast_fill_s(const struct sluice_choice_forecast *forecast,
                                     uint64_t num_samples, uint64_t batch_size);

/* Fills choice[0 .. num_rows) by sluice_plan_lp(); *bound_s is what no plan among these choices
 * can go below (its duals, applied to the table's own numbers).  Where the training step is the
 * limit and CPUs keep up with it, they decode all.  Memory in addition to `choice` is at most 56
 * MB. SLUICE_E_INVALID, with the reason in err, if a rate is not positive; SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_form_menu_plan(const struct sluice_form_menu *menu,
                                                    const struct sluice_rates *rates,
                                                    uint8_t *choice, double *bound_s,
                                                    struct sluice_err *err);

#endif
