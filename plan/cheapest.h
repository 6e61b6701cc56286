#ifndef SLUICE_PLAN_CHEAPEST_H
#define SLUICE_PLAN_CHEAPEST_H

#include "plan/menu.h"

#include <stddef.h>
#include <stdint.h>

/* Finds the cheapest choice of each menu for given weights of the loads: the inner loop of the
 * linear program (plan/planner_lp.c).
 *
 * Threads: pure functions. */

/* A sum of eight products in float is off by at most 12 half-units of 2^-24, and the last four
 * bits are not compared (six if there are more than 16 choices), so the choice that is taken costs
 * at most 56 of these half-units (152: 9.1e-6) more than the cheapest. */
#define SLUICE_FEW_CHOICES 16
#define SLUICE_SLACK_OF_FEW 4e-6
#define SLUICE_SLACK_OF_MANY 1e-5

/* Sets choice[0 .. num_menus) for menus that are `stride` bytes apart; weights are 0 to 1. */
void sluice_choose_cheapest(const struct sluice_menu *menus, size_t stride, size_t num_menus,
                            const float weight[SLUICE_NUM_LOADS], uint8_t *choice);

#endif
