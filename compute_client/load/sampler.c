#include "compute_client/load/sampler.h"

#include "base/rng.h"

/* The op number that the shuffle draws under.  No op of a pipeline has it, since ops are numbered
 * from 0 and are few; so the shuffle shares no random numbers with a crop or a flip. */
#define SHUFFLE_OP 0xFFFFu

/* Steps of the shuffle that share a random stream.  A stream has 2^18 words, far more than they
 * use. */
#define STEPS_PER_STREAM 4096

sluice_status sluice_sampler_count(const struct sluice_sampler *sampler, uint64_t last_epoch,
                                   size_t *count, struct sluice_err *err)
{
    if (sampler->num_samples == 0 || sampler->repeat == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "an epoch of no samples");
    const uint64_t items = (uint64_t)sampler->num_samples * sampler->repeat;
    uint64_t draw_epochs;
    if (items > UINT32_MAX)
        return sluice_fail(err, SLUICE_E_INVALID, "%u samples repeated %u times are too many",
                           sampler->num_samples, sampler->repeat);
    if (__builtin_mul_overflow(last_epoch + 1, (uint64_t)sampler->repeat, &draw_epochs) ||
        draw_epochs > UINT32_MAX)
        return sluice_fail(err, SLUICE_E_INVALID, "epoch %llu repeated %u times is too many",
                           (unsigned long long)last_epoch, sampler->repeat);
    *count = (size_t)items;
    return SLUICE_OK;
}

void sluice_sampler_fill(const struct sluice_sampler *sampler, uint32_t epoch,
                         struct sluice_sampler_item *items)
{
    const uint32_t count = sampler->num_samples * sampler->repeat;
    for (uint32_t i = 0; i < count; i++) {
        items[i] = (struct sluice_sampler_item){
            .position = i % sampler->num_samples,
            .draw_epoch = epoch * sampler->repeat + i / sampler->num_samples,
        };
    }
    if (!sampler->is_shuffled)
        return;
    struct sluice_rng rng = {.used = 4};
    uint32_t step = 0;
    for (uint32_t i = count - 1; i > 0; i--, step++) {
        if (step % STEPS_PER_STREAM == 0)
            rng = sluice_rng_init(sampler->seed, epoch, step / STEPS_PER_STREAM, SHUFFLE_OP);
        const uint32_t k = sluice_rng_below(&rng, i + 1);
        const struct sluice_sampler_item item = items[i];
        items[i] = items[k];
        items[k] = item;
    }
}
