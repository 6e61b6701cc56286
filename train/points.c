#include "train/points.h"

/* Halvings of the distance: more than a double's 53 bits. */
#define NUM_HALVINGS 60

/* Greedy: a point as soon as `distance` seconds have passed since the last. */
static unsigned place(const double *seconds, unsigned num_items, double distance, bool *is_point)
{
    unsigned num_points = 0;
    double passed = 0;
    for (unsigned i = 0; i < num_items; i++) {
        is_point[i] = i == 0 || (passed > 0 && passed >= distance);
        if (is_point[i]) {
            num_points++;
            passed = 0;
        }
        passed += seconds[i];
    }
    return num_points;
}

/* Bisection for the least distance that gives `wanted` points at most: a shorter one never gives
 * fewer. */
unsigned sluice_points_choose(const double *seconds, unsigned num_items, unsigned wanted,
                              bool *is_point)
{
    double step = 0;
    for (unsigned i = 0; i < num_items; i++)
        step += seconds[i];
    double least = 0, distance = step / wanted;
    for (int k = 0; k < NUM_HALVINGS; k++) {
        const double middle = least + (distance - least) / 2;
        if (place(seconds, num_items, middle, is_point) <= wanted)
            distance = middle;
        else
            least = middle;
    }
    return place(seconds, num_items, distance, is_point);
}
