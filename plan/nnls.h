#ifndef SLUICE_PLAN_NNLS_H
#define SLUICE_PLAN_NNLS_H

#include <stddef.h>

/* Non-negative least squares (Lawson & Hanson's problem), solved by projected coordinate descent:
 * each weight in turn goes to where the sum of squares is least, or to its lower bound, until a
 * sweep moves nothing.  With a ridge that pulls to a prior the minimum is one, and a coordinate has
 * a curvature above 0.
 *
 * Threads: pure functions. */

#define SLUICE_NNLS_MAX 16

struct sluice_nnls {
    size_t num;      /* of weights; at most SLUICE_NNLS_MAX */
    const double *a; /* num x num: the sum of x x' over the measurements */
    const double *b; /* the sum of x y */
    const double *prior;
    double pull;       /* > 0, or every a[f][f] is: the prior's weight */
    const double *low; /* bounds from below; NULL: 0 */
    unsigned max_sweeps;
    double tolerance; /* ends once a sweep moves the weights by less in all */
};

/* The w >= low that minimises w'aw - 2 w'b + pull |w - prior|^2, from w on. */
void sluice_nnls_solve(const struct sluice_nnls *problem, double *w);

#endif
