#include "plan/mixture.h"

#include <math.h>
#include <string.h>

#define NUM_LOADS SLUICE_NUM_LOADS

double sluice_slowest_of(const double busy_s[NUM_LOADS])
{
    double slowest = 0;
    for (int r = 0; r < NUM_LOADS; r++)
        slowest = busy_s[r] > slowest ? busy_s[r] : slowest;
    return slowest;
}

/* min over mixtures of the slowest resource: a matrix game.  With v its value and y = part / v,
 *
 *     maximise  sum y   so that   sum_k load[k][r] y[k] <= 1  for every r,   y >= 0
 *
 * and the multipliers are dual / v.  Eight rows, so a dense tableau; y = 0 is where it starts.
 * Dantzig's rule, Bland's after a while so that it must end. */
#define MAX_PIVOTS 2000
#define PIVOTS_BEFORE_BLAND 500

struct tableau {
    double row[NUM_LOADS + 1][SLUICE_MAX_CUTS + NUM_LOADS + 1]; /* the last: reduced costs */
    unsigned basis[NUM_LOADS];
    unsigned num_cuts, num_columns; /* cuts, then slacks; after the last column the right side */
    bool is_out[SLUICE_MAX_CUTS];   /* a cut that may not be in the mixture */
};

static void tableau_init(struct tableau *t, const struct sluice_cut *cuts, unsigned num_cuts,
                         bool has_estimates, double scale)
{
    memset(t, 0, sizeof(*t));
    t->num_cuts = num_cuts;
    t->num_columns = num_cuts + NUM_LOADS;
    for (int r = 0; r < NUM_LOADS; r++) {
        for (unsigned k = 0; k < num_cuts; k++)
            t->row[r][k] = cuts[k].load_s[r] / scale;
        t->row[r][num_cuts + r] = 1;
        t->row[r][t->num_columns] = 1;
        t->basis[r] = num_cuts + r;
    }
    for (unsigned k = 0; k < num_cuts; k++) {
        t->is_out[k] = !has_estimates && cuts[k].is_estimate;
        t->row[NUM_LOADS][k] = t->is_out[k] ? -1 : 1;
    }
}

/* The column that enters; num_columns: this is the optimum. */
static unsigned entering(const struct tableau *t, bool is_bland)
{
    unsigned in = t->num_columns;
    double steepest = 1e-11;
    for (unsigned k = 0; k < t->num_columns; k++) {
        if (t->row[NUM_LOADS][k] > steepest && !(k < t->num_cuts && t->is_out[k])) {
            in = k;
            if (is_bland)
                break;
            steepest = t->row[NUM_LOADS][k];
        }
    }
    return in;
}

/* The row that leaves; < 0: none bounds the column. */
static int leaving(const struct tableau *t, unsigned in)
{
    int out = -1;
    double least = 0;
    for (int r = 0; r < NUM_LOADS; r++) {
        if (t->row[r][in] <= 1e-12)
            continue;
        const double ratio = t->row[r][t->num_columns] / t->row[r][in];
        if (out < 0 || ratio < least || (ratio == least && t->basis[r] < t->basis[out])) {
            least = ratio;
            out = r;
        }
    }
    return out;
}

static void pivot(struct tableau *t, unsigned in, int out)
{
    const double divisor = t->row[out][in];
    for (unsigned k = 0; k <= t->num_columns; k++)
        t->row[out][k] /= divisor;
    for (int r = 0; r <= NUM_LOADS; r++) {
        const double factor = t->row[r][in];
        if (r == out || factor == 0)
            continue;
        for (unsigned k = 0; k <= t->num_columns; k++)
            t->row[r][k] -= factor * t->row[out][k];
    }
    t->basis[out] = in;
}

/* The solution, scaled so that parts and duals sum to 1 each. */
static void read_mixture(const struct tableau *t, const struct sluice_cut *cuts,
                         struct sluice_mixture *mixture)
{
    double sum_part = 0, sum_dual = 0;
    for (int r = 0; r < NUM_LOADS; r++) {
        const double value = t->row[r][t->num_columns];
        if (t->basis[r] < t->num_cuts && value > 0) {
            mixture->part[t->basis[r]] = value;
            sum_part += value;
        }
        const double multiplier = -t->row[NUM_LOADS][t->num_cuts + r];
        mixture->dual[r] = multiplier > 0 ? multiplier : 0;
        sum_dual += mixture->dual[r];
    }
    double mixed_s[NUM_LOADS] = {0};
    for (unsigned k = 0; k < t->num_cuts; k++) {
        mixture->part[k] /= sum_part;
        for (int r = 0; r < NUM_LOADS; r++)
            mixed_s[r] += mixture->part[k] * cuts[k].load_s[r];
    }
    for (int r = 0; r < NUM_LOADS; r++) {
        mixture->dual[r] /= sum_dual;
        mixture->worst_s = mixed_s[r] > mixture->worst_s ? mixed_s[r] : mixture->worst_s;
    }
}

void sluice_mixture_solve(const struct sluice_cut *cuts, unsigned num_cuts, bool has_estimates,
                          struct sluice_mixture *mixture)
{
    memset(mixture, 0, sizeof(*mixture));
    double scale = INFINITY; /* the best single plan, so that what matters is near 1 */
    for (unsigned k = 0; k < num_cuts; k++) {
        if (!has_estimates && cuts[k].is_estimate)
            continue;
        const double slowest_s = sluice_slowest_of(cuts[k].load_s);
        if (slowest_s == 0) { /* nothing is better than a plan that costs nothing */
            mixture->part[k] = 1;
            memcpy(mixture->dual, cuts[k].dual, sizeof(mixture->dual));
            return;
        }
        scale = slowest_s < scale ? slowest_s : scale;
    }
    struct tableau tableau;
    tableau_init(&tableau, cuts, num_cuts, has_estimates, scale);
    for (int pivots = 0; pivots < MAX_PIVOTS; pivots++) {
        const unsigned in = entering(&tableau, pivots > PIVOTS_BEFORE_BLAND);
        const int out = in < tableau.num_columns ? leaving(&tableau, in) : -1;
        if (out < 0) /* the optimum; or rounding, as every plan loads something */
            break;
        pivot(&tableau, in, out);
    }
    read_mixture(&tableau, cuts, mixture);
}
