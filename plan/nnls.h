#ifndef SLUICE_PLAN_NNLS_H
#define SLUICE_PLAN_NNLS_H

#include <stddef.h>

/* Non-negative least squares (Lawson & Hanson's problem), solved by projected coordinate descent:
 * each weight in turn moves to where the sum of squares is least, or to its lower bound, until a
 * sweep moves nothing.  A ridge term that pulls to a prior makes the minimum unique, and the
 * curvature of each coordinate positive.
 *
 * Threads: pure functions. */

#define SLUICE_NNLS_MAX 16

struct sluice_nnls {
    size_t num;      /* of weights; at most SLUICE_NNLS_MAX */
    const double *a; /* num x num: the sum of x x' over the measurements */
    const double *b; /* the sum of x y */
    const double *prior;
    double pull;       /* the prior's weight; > 0, unless every a[f][f] is > 0 */
    const double *low; /* bounds from below; NULL: 0 */
    unsigned max_sweeps;
    double tolerance; /* stops once a sweep moves all weights together by less */
};

/* Finds the w >= low that minimises w'aw - 2 w'b + pull |w - prior|^2, starting from w. */
void sluice_nnls_solve(const struct sluice_nnls *problem, double *w);

#endif
