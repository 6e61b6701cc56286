#include "train/grouping.h"

#include <math.h>
#include <stdlib.h>

/* Stages between two cuts, summed from the first stage on. */
struct search {
    size_t num_cuts; /* cut c lies before stage first[c]; cut num_cuts is the end */
    unsigned first[SLUICE_GROUPING_MAX_STAGES + 1];
    double copied[SLUICE_GROUPING_MAX_STAGES + 1];   /* seconds of copying all before the cut */
    double executed[SLUICE_GROUPING_MAX_STAGES + 1]; /* and of executing it */
    double overhead_s;
    double best_s;
    size_t best_groups;
    size_t num_nodes;
    /* [number of groups][cut]: where the last of these groups begins. */
    uint16_t *begins;
};

double sluice_grouping_seconds(const struct sluice_grouping_stage *stages,
                               const unsigned *last_stages, size_t num_groups,
                               const struct sluice_grouping_costs *costs)
{
    double copied = 0, executed = 0;
    size_t stage = 0;
    for (size_t g = 0; g < num_groups; g++) {
        double bytes = 0, seconds = 0;
        for (; stage <= last_stages[g]; stage++) {
            bytes += (double)stages[stage].bytes;
            seconds += stages[stage].seconds;
        }
        copied += costs->overhead_s + bytes / costs->bytes_per_s;
        executed = fmax(executed, copied) + seconds;
    }
    return executed;
}

static void find_cuts(struct search *search, const struct sluice_grouping_stage *stages,
                      size_t num_stages, const struct sluice_grouping_costs *costs)
{
    uint64_t since_cut = 0;
    double bytes = 0, seconds = 0;
    for (size_t s = 0; s < num_stages; s++) {
        bytes += (double)stages[s].bytes;
        seconds += stages[s].seconds;
        /* No overflow: what is below min_bytes is small, or the cut comes. */
        since_cut =
            stages[s].bytes > UINT64_MAX - since_cut ? UINT64_MAX : since_cut + stages[s].bytes;
        if (since_cut >= costs->min_bytes || s + 1 == num_stages) {
            const size_t cut = ++search->num_cuts;
            search->first[cut] = (unsigned)s + 1;
            search->copied[cut] = bytes / costs->bytes_per_s;
            search->executed[cut] = seconds;
            since_cut = 0;
        }
    }
}

/* Tries the next groups of the partial grouping that has `num_groups` groups up to `cut`, and whose
 * execution ends at `end_s`.  `ends` has the best ends with one group more, by cut. */
static void visit(struct search *search, size_t num_groups, size_t cut, double end_s, double *ends)
{
    const size_t last = search->num_cuts;
    const double overhead_s = (double)(num_groups + 1) * search->overhead_s;
    const double *copied = search->copied, *executed = search->executed;
    search->num_nodes++;
    const double bound = fmax(end_s + executed[last] - executed[cut],
                              overhead_s + copied[last] + executed[last] - executed[last - 1]);
    if (bound >= search->best_s)
        return;
    size_t next = cut + 1;
    while (next < last && overhead_s + copied[next + 1] <= end_s)
        next++;
    for (; next <= last; next++) {
        const double end = fmax(end_s, overhead_s + copied[next]) + executed[next] - executed[cut];
        if (end >= (next == last ? search->best_s : ends[next]))
            continue;
        ends[next] = end;
        search->begins[num_groups * (last + 1) + next] = (uint16_t)cut;
        if (next == last) {
            search->best_s = end;
            search->best_groups = num_groups + 1;
        }
    }
}

static sluice_status check(const struct sluice_grouping_stage *stages, size_t num_stages,
                           const struct sluice_grouping_costs *costs, struct sluice_err *err)
{
    if (num_stages == 0 || num_stages > SLUICE_GROUPING_MAX_STAGES)
        return sluice_fail(err, SLUICE_E_INVALID, "%zu stages; 1 to %d can be grouped", num_stages,
                           SLUICE_GROUPING_MAX_STAGES);
    if (!(isfinite(costs->bytes_per_s) && costs->bytes_per_s > 0 && isfinite(costs->overhead_s) &&
          costs->overhead_s >= 0))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the copy's rate or overhead is no number above 0");
    for (size_t s = 0; s < num_stages; s++) {
        if (!(isfinite(stages[s].seconds) && stages[s].seconds >= 0))
            return sluice_fail(err, SLUICE_E_INVALID, "stage %zu takes a time that is no number",
                               s);
    }
    return SLUICE_OK;
}

static void search_all(struct search *search, double *ends)
{
    const size_t last = search->num_cuts;
    double *now = ends, *next = ends + last + 1;
    for (size_t c = 0; c <= last; c++)
        now[c] = c == 0 ? 0 : INFINITY;
    for (size_t num_groups = 0; num_groups < last; num_groups++) {
        for (size_t c = 0; c <= last; c++)
            next[c] = INFINITY;
        for (size_t c = num_groups; c < last; c++) {
            if (now[c] < search->best_s)
                visit(search, num_groups, c, now[c], next);
        }
        double *const swap = now;
        now = next;
        next = swap;
    }
}

sluice_status sluice_grouping_find(const struct sluice_grouping_stage *stages, size_t num_stages,
                                   const struct sluice_grouping_costs *costs,
                                   struct sluice_grouping *grouping, struct sluice_err *err)
{
    sluice_status status = check(stages, num_stages, costs, err);
    if (status != SLUICE_OK)
        return status;
    struct search *search = calloc(1, sizeof *search);
    double *ends = NULL;
    if (search) {
        find_cuts(search, stages, num_stages, costs);
        const size_t room = search->num_cuts + 1;
        search->begins = calloc(room * room, sizeof *search->begins);
        ends = calloc(2 * room, sizeof *ends);
    }
    if (!search || !search->begins || !ends) {
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to group %zu stages", num_stages);
    } else {
        search->overhead_s = costs->overhead_s;
        search->best_s = INFINITY;
        search_all(search, ends);
        *grouping = (struct sluice_grouping){.num_groups = search->best_groups,
                                             .seconds = search->best_s,
                                             .num_nodes = search->num_nodes};
        size_t end = search->num_cuts;
        for (size_t g = search->best_groups; g-- > 0;) {
            grouping->last_stages[g] = search->first[end] - 1;
            end = search->begins[g * (search->num_cuts + 1) + end];
        }
    }
    free(ends);
    if (search)
        free(search->begins);
    free(search);
    return status;
}

sluice_status sluice_grouping_measure(struct sluice_infer *infer, const void *image,
                                      uint64_t min_bytes, struct sluice_grouping_costs *costs,
                                      struct sluice_grouping *grouping, struct sluice_err *err)
{
    const unsigned num_stages = sluice_infer_num_stages(infer);
    struct sluice_grouping_stage *stages = calloc(num_stages, sizeof *stages);
    struct sluice_infer_costs measured = {.stage_seconds = calloc(num_stages, sizeof(double))};
    sluice_status status;
    if (!stages || !measured.stage_seconds)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the stages of a model");
    else
        status = sluice_infer_measure(infer, image, &measured, err);
    if (status == SLUICE_OK) {
        for (unsigned s = 0; s < num_stages; s++)
            stages[s] = (struct sluice_grouping_stage){.bytes = sluice_infer_stage_bytes(infer, s),
                                                       .seconds = measured.stage_seconds[s]};
        *costs = (struct sluice_grouping_costs){.bytes_per_s = measured.bytes_per_s,
                                                .overhead_s = measured.copy_seconds,
                                                .min_bytes = min_bytes};
        status = sluice_grouping_find(stages, num_stages, costs, grouping, err);
    }
    free(measured.stage_seconds);
    free(stages);
    return status;
}
