#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_AUTO_COSTS_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_AUTO_COSTS_H

#include "plan/choice_cost.h"
#include "plan/transport_cost.h"

/* What a sample costs in each choice, as far as the rows that came in say.
 *
 *     cost of the ops by the model  x  factor of the choice and side  +  transport
 *
 * A factor is what the rows of its choice cost over what the model said: the last 1000 or so, or
 * those since the last eight settles or so where these are more, so that however fast rows come a
 * moment in which a machine was slow does not make the factor.  A choice with few rows or none
 * takes after the others of its side: one machine runs them all (bytes of one form say nothing of
 * another's).
 *
 * The disk's part is the bytes that are read of the file (sluice_choice_read_bytes()); what a byte
 * takes is for whoever watches the disk to say (rate_watch.h).  Where only a part of a file is
 * expected to be read, a factor of its own says how far that is right, for all choices together,
 * as an index may be missing or of other files.
 *
 * - Work that the model takes for less than SLUICE_LEAST_LEARNT_S (handing out a file, copying
 *   pixels) is all transport and teaches nothing: its factor would be that of a reading of the
 * clock.
 * - No row counts for more than 4 times what its side's factor lets expect, nor for more than 16
 *   times the model, so that neither a single one nor many in turn carry a factor away.
 *
 * Threads: one at a time; a plain value. */

#define SLUICE_LEAST_LEARNT_S 20e-6

struct sluice_auto_costs {
    struct sluice_choice_model model;
    struct sluice_transport_cost transport;
    struct sluice_cost_correction {
        double seen, expected, rows;
    } corrections[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    struct sluice_cost_correction read; /* bytes of files of which a part is expected to be read */
    double read_factor;
    double side_factor[SLUICE_NUM_RESOURCES];
    double factor[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES]; /* as of the last settle */
};

/* Every factor is 1. */
struct sluice_auto_costs sluice_auto_costs_init(const struct sluice_choice_model *model,
                                                const struct sluice_transport_cost *transport);

/* As sluice_choice_model_costs, corrected and with the transport. */
void sluice_auto_costs_of(const struct sluice_auto_costs *costs,
                          const struct sluice_sample_facts *facts,
                          double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES]);

/* A row of the choice took so much: CPU seconds as the nodes' workers measure them, bytes of
 * payload; and so many bytes of the file were read.  Counts from the next settle on. */
void sluice_auto_costs_learn(struct sluice_auto_costs *costs, unsigned choice,
                             const struct sluice_sample_facts *facts,
                             const double seen[SLUICE_NUM_RESOURCES], double read_bytes);
void sluice_auto_costs_settle(struct sluice_auto_costs *costs);

#endif
