#ifndef SLUICE_TRAIN_POINTS_H
#define SLUICE_TRAIN_POINTS_H

#include <stdbool.h>

/* Where a step stops at a gate: before which of its items, such as stages forwards and backwards.
 *
 * Plain C without a device.  Threads: a pure function. */

/* Sets is_point[i] to whether there is a point before item i, which takes seconds[i] (>= 0), and returns
 * the number of points.  One is before the first item.  With `step` the sum of seconds:
 *
 *   - there are at most wanted + 1 points; at least wanted / 2, if more than `wanted` items take time;
 *   - from one point to the next, or to the step's end, it is at most step / wanted and the longest item.
 *
 * num_items and wanted are 1 at least. */
unsigned sluice_points_choose(const double *seconds, unsigned num_items, unsigned wanted,
                              bool *is_point);

#endif
