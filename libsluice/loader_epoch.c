#include "libsluice/loader_state.h"

#include "compute_client/load/sampler.h"

#include <stdlib.h>
#include <string.h>

static struct sluice_sampler_item *alloc_items(size_t count, struct sluice_err *err)
{
    struct sluice_sampler_item *items = malloc((count + 1) * sizeof(*items));
    if (!items)
        (void)sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an epoch of %zu samples", count);
    return items;
}

/* This rank's rows, by the loader's own sampler. */
static sluice_status draw(struct sluice_loader *loader, const struct loader_pass *pass,
                          struct sluice_err *err)
{
    const struct sluice_options *o = loader->options;
    const struct sluice_order_options order = sluice_options_order(o);
    const struct sluice_sampler sampler = {
        .seed = o->seed,
        .num_samples = (uint32_t)pass->part->num_ids,
        .repeat = pass->is_training ? (uint32_t)o->repeat : 1,
        .is_shuffled = pass->is_training && o->is_shuffled,
    };
    size_t total = 0;
    sluice_status status = sluice_sampler_count(&sampler, pass->epoch, &total, err);
    if (status == SLUICE_OK)
        status = sluice_order_check_cursor(&order, total, pass->cursor, err);
    if (status != SLUICE_OK)
        return status;
    const size_t count = (size_t)sluice_order_num_items(&order, total, pass->cursor);
    struct sluice_sampler_item *all = alloc_items(total, err);
    loader->items = all ? alloc_items(count, err) : NULL;
    if (loader->items) {
        sluice_sampler_fill(&sampler, (uint32_t)pass->epoch, all);
        sluice_order_fill(&order, all, total, pass->cursor, loader->items);
        loader->num_items = count;
        loader->total = total;
        loader->num_padded = sluice_order_num_padded(&order, total, pass->cursor);
    }
    free(all);
    return loader->items ? SLUICE_OK : SLUICE_E_NO_MEMORY;
}

/* The caller's own order: the rest of it is this rank's. */
static sluice_status take_order(struct sluice_loader *loader, const struct loader_pass *pass,
                                struct sluice_err *err)
{
    const size_t num_ids = pass->part->num_ids;
    if (pass->cursor > pass->num_order || pass->num_order > UINT32_MAX)
        return sluice_fail(err, SLUICE_E_INVALID, "the state stands at %llu of an order of %zu",
                           (unsigned long long)pass->cursor, pass->num_order);
    for (size_t i = 0; i < pass->num_order; i++) {
        if (pass->order[i] >= num_ids)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "place %zu of the order is %llu: %s has samples 0 to %zu", i,
                               (unsigned long long)pass->order[i], pass->part->name, num_ids - 1);
    }
    const size_t count = pass->num_order - (size_t)pass->cursor;
    loader->items = alloc_items(count, err);
    if (!loader->items)
        return SLUICE_E_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        loader->items[i] = (struct sluice_sampler_item){
            .position = (uint32_t)pass->order[(size_t)pass->cursor + i],
            .draw_epoch = (uint32_t)pass->epoch,
        };
    loader->num_items = count;
    loader->total = pass->num_order;
    loader->num_padded = 0;
    return SLUICE_OK;
}

sluice_status loader_begin(struct sluice_loader *loader, const struct loader_pass *pass,
                           struct sluice_err *err)
{
    const struct sluice_options *o = loader->options;
    struct part *part = pass->part;
    free(loader->items);
    loader->items = NULL;
    loader->num_items = 0;
    sluice_status status = pass->order ? take_order(loader, pass, err) : draw(loader, pass, err);
    if (status == SLUICE_OK && pass->is_training && o->is_profiling)
        loader->num_items = loader_profile_pick(loader, loader->items, loader->num_items);
    if (status == SLUICE_OK)
        status = loader_make_source(loader, part, err);
    if (status != SLUICE_OK)
        return status;
    const size_t count = loader->num_items;
    struct sluice_chooser chooser = sluice_chooser_fixed(part->choices);
    if (pass->is_training && loader->replan && count > 0) {
        const struct sluice_plan_epoch epoch = {
            .pipeline = part->pipeline,
            .manifest = loader->manifest,
            .ids = part->ids,
            .seed = o->seed,
            .items = loader->items,
            .num_items = count,
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
        .profile = pass->is_training && o->is_profiling ? &loader->profile : NULL,
        .has_max_errors = true,
        .max_errors = sluice_options_max_errors(o, loader->total / o->world_size),
    };
    memcpy(epoch.errors_before, pass->errors, sizeof(epoch.errors_before));
    return sluice_prefetcher_start(loader->prefetcher, &epoch, err);
}
