#ifndef SLUICE_OP_EXACT_MATH_H
#define SLUICE_OP_EXACT_MATH_H

#include <stdint.h>

/* The few functions between a random word and a crop box, the same to the last
 * bit on every machine.
 *
 * A libm may round exp and log as it likes, and does from version to version;
 * two nodes with two libms would then cut two different crops.  These use only
 * +, -, * and / in double, which IEEE 754 defines exactly.  Both stay within
 * 1 ulp of the true value (tests/unit/pipeline/test_exact_math.c).
 *
 * Threads: pure functions. */

double sluice_exact_exp(double x); /* |x| <= 700 */
double sluice_exact_log(double x); /* x > 0, finite and normal */

/* To the nearest integer, halves to the even one: Python's round().  |x| < 2^51. */
int64_t sluice_round_half_even(double x);

#endif
