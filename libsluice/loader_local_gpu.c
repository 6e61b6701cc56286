#include "libsluice/loader_state.h"

#include "base/cgroup.h"
#include "base/log.h"
#include "plan/choice_cost.h"
#include "plan/planner_lp.h"

#include <math.h>
#include <stdlib.h>

/* What the GPU decodes of a folder's samples: a plan of two choices for each, the CPU's and the
 * GPU's, over the disk, this node's CPUs, PCIe and the GPU.  There is no server and no network. */

enum { ON_CPU, ON_GPU, NUM_PLACES };

struct places {
    const struct sluice_loader *loader;
    const struct part *part;
    struct sluice_choice_model model;
    unsigned choice[NUM_PLACES]; /* of the model's */
    unsigned num_offered;
    double step_s;
};

static const struct sluice_menu *make_menus(void *context, uint64_t first, size_t count,
                                            struct sluice_menu *menus)
{
    const struct places *places = context;
    const struct part *part = places->part;
    for (size_t i = 0; i < count; i++) {
        const uint32_t id = part->ids[first + i];
        const struct sluice_draw_key key = {.seed = places->loader->options.seed, .sample_id = id};
        const struct sluice_manifest_entry entry = sluice_manifest_at(places->loader->manifest, id);
        const struct sluice_sample_facts facts =
            sluice_sample_facts_of(part->pipeline, &entry, &key);
        double all[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        double cost[NUM_PLACES][SLUICE_NUM_RESOURCES];
        sluice_choice_model_costs(&places->model, &facts, all);
        for (unsigned k = 0; k < places->num_offered; k++) {
            for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
                cost[k][r] = all[places->choice[k]][r];
            cost[k][SLUICE_STORAGE_CPU] = cost[k][SLUICE_NETWORK] = cost[k][SLUICE_RECEIVE] = 0;
            cost[k][SLUICE_GPU] += places->step_s;
        }
        sluice_menu_set(&menus[i], places->num_offered,
                        (const double(*)[SLUICE_NUM_RESOURCES])cost);
    }
    return menus;
}

static struct sluice_rates rates_of(const struct sluice_loader *loader)
{
    const struct sluice_options *o = &loader->options;
    const double upload = o->pcie_bw > 0        ? o->pcie_bw
                          : loader->device >= 0 ? loader->place_upload_bytes_per_s
                                                : INFINITY;
    return (struct sluice_rates){
        .link_bytes_per_s = INFINITY,
        .storage_cores = INFINITY,
        .compute_cores = fmin((double)o->workers, sluice_cgroup_cores()),
        .gpu_samples_per_s = o->gpu_rate > 0       ? o->gpu_rate
                             : o->consume_rate > 0 ? o->consume_rate
                                                   : INFINITY,
        .pcie_bytes_per_s = upload > 0 ? upload : INFINITY,
    };
}

/* The place of each sample.  Where the training step is the limit, nothing is won by decoding
 * beside it. */
static sluice_status solve(struct places *places, const struct sluice_rates *rates, uint8_t *place,
                           struct sluice_lp_result *result, struct sluice_err *err)
{
    const struct sluice_capacities capacities = sluice_capacities_of(rates);
    const struct sluice_menu_source source = {
        .num_samples = places->part->num_ids,
        .get = make_menus,
        .context = places,
    };
    places->num_offered = ON_CPU + 1;
    sluice_status status = sluice_plan_lp(&source, &capacities, place, result, err);
    if (status != SLUICE_OK || result->slowest == SLUICE_GPU)
        return status;
    places->num_offered = NUM_PLACES;
    return sluice_plan_lp(&source, &capacities, place, result, err);
}

sluice_status loader_plan_local_gpu(struct sluice_loader *loader, struct part *part,
                                    struct sluice_err *err)
{
    const struct sluice_choices choices = loader_choices_of(loader, part);
    const int on_gpu = sluice_choices_find(
        &choices, (struct sluice_choice){.form = SLUICE_FORM_RAW, .on_gpu = true});
    if (part->num_ids == 0 || on_gpu < 0)
        return SLUICE_OK;
    struct places places = {
        .loader = loader,
        .part = part,
        .model = sluice_choice_model_default(&choices),
        .choice = {[ON_CPU] = sluice_choices_find_split(&choices, 0), [ON_GPU] = (unsigned)on_gpu},
    };
    const struct sluice_rates rates = rates_of(loader);
    places.step_s = sluice_rates_step_s(&rates);
    uint8_t *place = malloc(part->num_ids);
    if (!place)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a plan of %zu samples",
                           part->num_ids);
    struct sluice_lp_result result;
    const sluice_status status = solve(&places, &rates, place, &result, err);
    size_t num = 0;
    for (size_t i = 0; status == SLUICE_OK && i < part->num_ids; i++) {
        part->choices[i].on_gpu = place[i] == ON_GPU;
        num += part->choices[i].on_gpu;
    }
    free(place);
    if (status == SLUICE_OK)
        sluice_log(SLUICE_LOG_INFO, "plan: %.0f%% are for the GPU to decode; limited by %s",
                   100 * (double)num / (double)part->num_ids,
                   result.slowest == SLUICE_GPU && num == 0
                       ? "the trainer"
                       : sluice_resource_words(result.slowest));
    return status;
}
