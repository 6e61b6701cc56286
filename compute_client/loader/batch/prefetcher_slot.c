#include "compute_client/loader/batch/prefetcher_state.h"

#include "compute_client/loader/choose/choice.h"
#include "compute_client/loader/order/boxed_draws.h"

#include <assert.h>

/* The next batch, before its first item is requested: its rows, and their sizes and places. */

struct sluice_size prefetcher_image_size(const struct sluice_epoch *epoch, uint32_t sample_id)
{
    if (epoch->sizes)
        return epoch->sizes[sample_id];
    const struct sluice_manifest_entry entry = sluice_manifest_at(epoch->manifest, sample_id);
    return (struct sluice_size){entry.width, entry.height};
}

sluice_status prefetcher_draw_key(const struct sluice_epoch *epoch,
                                  const struct sluice_sampler_item *item,
                                  struct sluice_draw_key *key, struct sluice_err *err)
{
    *key = (struct sluice_draw_key){.seed = epoch->seed,
                                    .epoch = item->draw_epoch,
                                    .sample_id = epoch->ids[item->position],
                                    .schedule = epoch->schedule};
    return sluice_boxed_draws(epoch->pipeline, epoch->manifest,
                              prefetcher_image_size(epoch, (uint32_t)key->sample_id), key, err);
}

/* The size in which an item ends. */
static struct sluice_size end_size(const struct sluice_epoch *epoch,
                                   const struct sluice_sampler_item *item)
{
    struct sluice_draw_key key;
    if (prefetcher_draw_key(epoch, item, &key, NULL) != SLUICE_OK)
        key.crop = (struct sluice_box){0}; /* the request fails by the same */
    const struct sluice_size size = prefetcher_image_size(epoch, (uint32_t)key.sample_id);
    return sluice_pipeline_size_at(epoch->pipeline, &key, sluice_pipeline_u8_split(epoch->pipeline),
                                   size.width, size.height);
}

size_t prefetcher_expected_bytes(const struct sluice_prefetcher *prefetcher)
{
    const struct sluice_epoch *epoch = &prefetcher->epoch;
    const struct sluice_choice choice = prefetcher->ask.choice;
    const uint32_t sample_id = epoch->ids[prefetcher_next_drawn(prefetcher)->position];
    if (choice.split < sluice_pipeline_u8_split(epoch->pipeline) ||
        sluice_pipeline_u8_bytes(epoch->pipeline) > 0)
        return sluice_choice_bytes(epoch->pipeline, choice,
                                   (size_t)sluice_manifest_at(epoch->manifest, sample_id).bytes);
    const struct sluice_size size =
        epoch->batches ? sluice_pipeline_bucket_size(epoch->pipeline,
                                                     epoch->batches[prefetcher->next_batch].bucket)
                       : end_size(epoch, prefetcher_next_drawn(prefetcher));
    const bool is_f32 = sluice_pipeline_kind(epoch->pipeline, choice.split) == SLUICE_KIND_F32;
    return (size_t)size.width * size.height * 3 * (is_f32 ? sizeof(float) : 1);
}

/* Puts the images of the next item's batch one after the other. */
static void place_images(const struct sluice_prefetcher *prefetcher, struct sluice_rows *batch)
{
    const struct sluice_sampler_item *items = prefetcher_next_drawn(prefetcher);
    size_t at = 0;
    for (unsigned i = 0; i < batch->n; i++) {
        const struct sluice_size size = end_size(&prefetcher->epoch, &items[i]);
        batch->images[i] = (struct sluice_row_image){at, size.height, size.width};
        at += sluice_row_image_bytes(&batch->images[i]);
    }
    assert(at <= prefetcher->memory.options.bytes);
}

void prefetcher_begin_slot(struct sluice_prefetcher *prefetcher, struct slot *slot)
{
    const struct sluice_epoch *epoch = &prefetcher->epoch;
    unsigned bucket = 0;
    if (epoch->batches) {
        const struct sluice_order_batch *batch = &epoch->batches[prefetcher->next_batch];
        bucket = batch->bucket;
        slot->batch.n = batch[1].start - batch->start;
        slot->batch.num_padded = batch->num_padded;
    } else {
        const size_t left = prefetcher_items_left(prefetcher) - prefetcher->next_item;
        slot->batch.n =
            left < prefetcher->options.batch_size ? (unsigned)left : prefetcher->options.batch_size;
        const size_t after = left - slot->batch.n; /* items of later batches */
        const size_t padded = epoch->num_padded > after ? epoch->num_padded - after : 0;
        slot->batch.num_padded = padded < slot->batch.n ? (unsigned)padded : slot->batch.n;
    }
    slot->layout = sluice_row_layout_of(epoch->pipeline, bucket);
    slot->drawn_bucket = sluice_pipeline_draws_bucket(epoch->pipeline) ? bucket : 0;
    slot->batch.has_images = sluice_row_has_own_size(epoch->pipeline);
    if (slot->batch.has_images)
        place_images(prefetcher, &slot->batch);
    assert(slot->layout.bytes <= prefetcher->options.row_bytes);
    slot->num_missing = slot->batch.n;
    slot->last = NULL;
}
