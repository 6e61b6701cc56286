#ifndef SLUICE_IMAGE_EXACT_MATH_H
#define SLUICE_IMAGE_EXACT_MATH_H

#include <stdint.h>

/* Functions for random draws (a crop's box, a rotation's angle) and for filter weights that give
 * the same bits on every machine.
 *
 * libm versions round exp and log differently, so two nodes could cut different crops.  These
 * functions use only +, -, * and / in double, which IEEE 754 defines exactly.  exp and log stay
 * within 1 ulp of the true value (tests/unit/op/test_exact_math.c).
 *
 * Threads: pure functions. */

double sluice_exact_exp(double x); /* |x| <= 700 */
double sluice_exact_log(double x); /* x > 0, finite and normal */

/* |x| <= 1000, in radians: correctly rounded, unless the true value lies within 2^-40 ulp of the
 * middle between two doubles. */
double sluice_exact_sin(double x);
double sluice_exact_cos(double x);
double sluice_exact_tan(double x);

/* To the nearest integer, halves to the even one: Python's round().  |x| < 2^51. */
int64_t sluice_round_half_even(double x);

#endif
