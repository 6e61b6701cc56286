#include "libsluice/loader_state.h"

#include "compute_client/load/sampler.h"

#include <stdlib.h>
#include <string.h>

/* The epoch's items into loader->items. */
static sluice_status draw(struct sluice_loader *loader, const struct loader_pass *pass,
                          struct sluice_err *err)
{
    const struct sluice_options *o = loader->options;
    const struct sluice_sampler sampler = {
        .seed = o->seed,
        .num_samples = (uint32_t)pass->part->num_ids,
        .repeat = pass->is_training ? (uint32_t)o->repeat : 1,
        .is_shuffled = pass->is_training,
    };
    size_t count = 0;
    sluice_status status = sluice_sampler_count(&sampler, pass->epoch, &count, err);
    if (status != SLUICE_OK)
        return status;
    free(loader->items);
    loader->num_items = 0;
    loader->items = malloc(count * sizeof(*loader->items));
    if (!loader->items)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an epoch of %zu samples", count);
    sluice_sampler_fill(&sampler, (uint32_t)pass->epoch, loader->items);
    if (pass->is_training && o->is_profiling)
        count = loader_profile_pick(loader, loader->items, count);
    loader->num_items = count;
    const uint64_t num_batches = (count + o->batch_size - 1) / o->batch_size;
    if (pass->first_batch > num_batches)
        return sluice_fail(err, SLUICE_E_INVALID, "batch %llu of an epoch of %llu",
                           (unsigned long long)pass->first_batch, (unsigned long long)num_batches);
    return SLUICE_OK;
}

sluice_status loader_begin(struct sluice_loader *loader, const struct loader_pass *pass,
                           struct sluice_err *err)
{
    const struct sluice_options *o = loader->options;
    struct part *part = pass->part;
    sluice_status status = draw(loader, pass, err);
    if (status == SLUICE_OK)
        status = loader_make_source(loader, part, err);
    if (status != SLUICE_OK)
        return status;
    const size_t count = loader->num_items;
    const size_t first = (size_t)(pass->first_batch * o->batch_size);
    struct sluice_chooser chooser = sluice_chooser_fixed(part->choices);
    if (pass->is_training && loader->replan && first < count) {
        const struct sluice_plan_epoch epoch = {
            .pipeline = part->pipeline,
            .manifest = loader->manifest,
            .ids = part->ids,
            .seed = o->seed,
            .items = loader->items,
            .num_items = count,
            .first_item = first,
        };
        status = sluice_replan_begin(loader->replan, &epoch, &chooser, err);
        if (status != SLUICE_OK)
            return status;
    }
    struct sluice_epoch epoch = {
        .source = part->source,
        .pipeline = part->pipeline,
        .manifest = loader->manifest,
        .ids = part->ids,
        .chooser = chooser,
        .seed = o->seed,
        .items = loader->items,
        .num_items = count,
        .first_item = first < count ? first : count,
        .profile = pass->is_training && o->is_profiling ? &loader->profile : NULL,
        .has_max_errors = true,
        .max_errors = sluice_options_max_errors(o, count),
    };
    memcpy(epoch.errors_before, pass->errors, sizeof(epoch.errors_before));
    return sluice_prefetcher_start(loader->prefetcher, &epoch, err);
}
