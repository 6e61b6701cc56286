#include "plan/nnls.h"

#include <math.h>

void sluice_nnls_solve(const struct sluice_nnls *problem, double *w)
{
    const size_t n = problem->num;
    for (unsigned sweep = 0; sweep < problem->max_sweeps; sweep++) {
        double moved = 0;
        for (size_t f = 0; f < n; f++) {
            const double *row = &problem->a[f * n];
            double gradient = problem->b[f] + problem->pull * (problem->prior[f] - w[f]);
            for (size_t g = 0; g < n; g++)
                gradient -= row[g] * w[g];
            const double next = w[f] + gradient / (row[f] + problem->pull);
            const double kept = fmax(next, problem->low ? problem->low[f] : 0);
            moved += fabs(kept - w[f]);
            w[f] = kept;
        }
        if (moved < problem->tolerance)
            break;
    }
}
