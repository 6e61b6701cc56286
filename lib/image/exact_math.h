#ifndef SLUICE_IMAGE_EXACT_MATH_H
#define SLUICE_IMAGE_EXACT_MATH_H

#include <stdint.h>

/* The few functions between a random word and the box of a crop or the angle of a rotation, and
 * those of a filter's weights, the same to the last bit on every machine.
 *
 * A libm may round exp and log as it likes, and does from version to version;
 * two nodes with two libms would then cut two different crops.  These use only
 * +, -, * and / in double, which IEEE 754 defines exactly.  exp and log stay within
 * 1 ulp of the true value (tests/unit/op/test_exact_math.c).
 *
 * Threads: pure functions. */

double sluice_exact_exp(double x); /* |x| <= 700 */
double sluice_exact_log(double x); /* x > 0, finite and normal */

/* |x| <= 1000, in radians: the true value rounded, but where it lies within 2^-40 ulp of the middle
 * between two doubles. */
double sluice_exact_sin(double x);
double sluice_exact_cos(double x);
double sluice_exact_tan(double x);

/* To the nearest integer, halves to the even one: Python's round().  |x| < 2^51. */
int64_t sluice_round_half_even(double x);

#endif
