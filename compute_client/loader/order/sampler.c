#include "compute_client/loader/order/sampler.h"

#include "base/array.h"
#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The op numbers that the shuffles draw under.  No op of a pipeline has them, since ops are
 * numbered from 0 and are few; so a shuffle shares no random numbers with a crop or a flip. */
#define SHUFFLE_OP 0xFFFFu /* of an epoch */
#define RANGE_OP 0xFFFEu   /* of a range's walk */
#define SHARD_OP 0xFFFDu   /* of an epoch's shards */

/* Steps of the shuffle that share a random stream.  A stream has 2^18 words, far more than they
 * use. */
#define STEPS_PER_STREAM 4096

/* A Fisher-Yates shuffle of `count` things swaps i with next_place(i), for i from count - 1 down to
 * 1. */
struct shuffle {
    uint64_t seed;
    uint32_t epoch, op, step;
    struct sluice_rng rng;
};

static uint32_t next_place(struct shuffle *shuffle, uint32_t i)
{
    if (shuffle->step % STEPS_PER_STREAM == 0)
        shuffle->rng = sluice_rng_init(shuffle->seed, shuffle->epoch,
                                       shuffle->step / STEPS_PER_STREAM, shuffle->op);
    shuffle->step++;
    return sluice_rng_below(&shuffle->rng, i + 1);
}

static uint32_t copies_of(const struct sluice_sampler *sampler)
{
    return sampler->copies > 1 ? sampler->copies : 1;
}

/* --- ranges --- */

/* Items of a range in an epoch; more than 2^32 count as 2^32. */
static uint64_t items_of(const struct sluice_sampler *sampler,
                         const struct sluice_sampler_range *range)
{
    const double items = round(range->weight * sampler->repeat * range->num_samples);
    return items < 0x1p32 ? (uint64_t)items : UINT64_C(1) << 32;
}

static sluice_status count_ranges(const struct sluice_sampler *sampler, uint64_t last_epoch,
                                  uint64_t *count, struct sluice_err *err)
{
    uint64_t total = 0, samples = 0;
    for (size_t i = 0; i < sampler->num_ranges; i++) {
        const struct sluice_sampler_range *range = &sampler->ranges[i];
        const uint64_t items = items_of(sampler, range);
        uint64_t steps;
        total += items;
        samples += range->num_samples;
        if (items > 0 && (__builtin_mul_overflow(last_epoch + 1, items, &steps) ||
                          (steps - 1) / range->num_samples > UINT32_MAX / copies_of(sampler)))
            return sluice_fail(err, SLUICE_E_INVALID, "epoch %llu with a weight of %g is too many",
                               (unsigned long long)last_epoch, range->weight);
    }
    assert(samples == sampler->num_samples);
    (void)samples;
    if (total > UINT32_MAX)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%u samples with these weights, repeated %u times, are too many",
                           sampler->num_samples, sampler->repeat);
    *count = total;
    return SLUICE_OK;
}

/* One range while its items are made. */
struct walk {
    const struct sluice_sampler_range *range;
    uint32_t begin;     /* its first position */
    uint32_t *order;    /* of the walk's passes; NULL: not needed yet */
    uint8_t *is_chosen; /* of a pass of which a part is taken */
};

static sluice_status make_order(const struct sluice_sampler *sampler, struct walk *walk,
                                struct sluice_err *err)
{
    const uint32_t n = walk->range->num_samples;
    struct shuffle shuffle = {
        .seed = sampler->seed, .epoch = walk->range->stream, .op = RANGE_OP, .step = 0};
    walk->order = malloc(n * sizeof(*walk->order));
    walk->is_chosen = calloc(n, 1);
    if (!walk->order || !walk->is_chosen)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the order of %u samples", n);
    for (uint32_t i = 0; i < n; i++)
        walk->order[i] = i;
    for (uint32_t i = n - 1; i > 0; i--) {
        const uint32_t k = next_place(&shuffle, i), position = walk->order[i];
        walk->order[i] = walk->order[k];
        walk->order[k] = position;
    }
    return SLUICE_OK;
}

/* Steps [from, to) of a pass, by position. */
static struct sluice_sampler_item *take_pass(struct walk *walk, uint32_t pass, uint32_t from,
                                             uint32_t to, struct sluice_sampler_item *items)
{
    const uint32_t n = walk->range->num_samples;
    const bool is_whole = to - from == n;
    assert(is_whole || (walk->order && walk->is_chosen));
    for (uint32_t i = from; i < to && !is_whole; i++)
        walk->is_chosen[walk->order[i]] = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (is_whole || walk->is_chosen[i])
            *items++ = (struct sluice_sampler_item){walk->begin + i, pass};
        if (!is_whole)
            walk->is_chosen[i] = 0;
    }
    return items;
}

/* Fills *items on; it is behind them then. */
static sluice_status fill_range(const struct sluice_sampler *sampler, uint32_t epoch,
                                struct walk *walk, struct sluice_sampler_item **items,
                                struct sluice_err *err)
{
    const uint64_t n = walk->range->num_samples, k = items_of(sampler, walk->range);
    const uint64_t first = epoch * k, end = first + k;
    for (uint64_t at = first; at < end;) {
        const uint64_t pass = at / n, next = (pass + 1) * n < end ? (pass + 1) * n : end;
        if (next - at < n && !walk->order) {
            const sluice_status status = make_order(sampler, walk, err);
            if (status != SLUICE_OK)
                return status;
        }
        *items = take_pass(walk, (uint32_t)pass, (uint32_t)(at - pass * n),
                           (uint32_t)(next - pass * n), *items);
        at = next;
    }
    return SLUICE_OK;
}

static sluice_status fill_ranges(const struct sluice_sampler *sampler, uint32_t epoch,
                                 struct sluice_sampler_item *items, struct sluice_err *err)
{
    uint32_t begin = 0;
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < sampler->num_ranges; i++) {
        struct walk walk = {.range = &sampler->ranges[i], .begin = begin};
        status = fill_range(sampler, epoch, &walk, &items, err);
        free(walk.order);
        free(walk.is_chosen);
        begin += walk.range->num_samples;
    }
    return status;
}

/* --- orders --- */

static void shuffle_items(struct shuffle *shuffle, struct sluice_sampler_item *items,
                          uint32_t count)
{
    for (uint32_t i = count; i-- > 1;) {
        const uint32_t k = next_place(shuffle, i);
        const struct sluice_sampler_item item = items[i];
        items[i] = items[k];
        items[k] = item;
    }
}

/* Items of one shard that follow each other. */
struct run {
    uint32_t begin, count;
};

/* The shard of a position. */
static size_t shard_of(const struct sluice_sampler *sampler, uint32_t position)
{
    size_t shard = 0;
    SLUICE_FIND_FIRST(shard, sampler->num_shards - 1, i, sampler->shard_ends[i] <= position);
    return shard;
}

/* Fills runs[] unless it is NULL; how many there are. */
static uint32_t find_runs(const struct sluice_sampler *sampler,
                          const struct sluice_sampler_item *items, uint32_t count, struct run *runs)
{
    uint32_t num = 0, before = 0, begin = 1, end = 0; /* of the shard, in positions */
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t position = items[i].position;
        if (position < begin || position >= end || position < before) {
            const size_t shard = shard_of(sampler, position);
            begin = shard > 0 ? sampler->shard_ends[shard - 1] : 0;
            end = sampler->shard_ends[shard];
            if (runs)
                runs[num] = (struct run){.begin = i, .count = 0};
            num++;
        }
        if (runs)
            runs[num - 1].count++;
        before = position;
    }
    return num;
}

static void shuffle_runs(const struct sluice_sampler *sampler, uint32_t epoch, struct run *runs,
                         uint32_t num_runs)
{
    struct shuffle shuffle = {.seed = sampler->seed, .epoch = epoch, .op = SHARD_OP};
    for (uint32_t i = num_runs; i-- > 1;) {
        const uint32_t k = next_place(&shuffle, i);
        const struct run run = runs[i];
        runs[i] = runs[k];
        runs[k] = run;
    }
}

static sluice_status shuffle_by_shards(const struct sluice_sampler *sampler, uint32_t epoch,
                                       struct sluice_sampler_item *items, uint32_t count,
                                       struct sluice_err *err)
{
    const uint32_t num_runs = find_runs(sampler, items, count, NULL);
    struct run *runs = malloc(num_runs * sizeof(*runs));
    struct sluice_sampler_item *in_order = malloc(count * sizeof(*in_order));
    if (!runs || !in_order) {
        free(runs);
        free(in_order);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the order of %u samples", count);
    }
    memcpy(in_order, items, count * sizeof(*in_order));
    (void)find_runs(sampler, in_order, count, runs);
    shuffle_runs(sampler, epoch, runs, num_runs);
    struct shuffle shuffle = {.seed = sampler->seed, .epoch = epoch, .op = SHUFFLE_OP};
    for (uint32_t run = 0; run < num_runs;) {
        uint32_t num_items = 0;
        for (uint32_t k = 0; k < sampler->num_mixed && run < num_runs; k++, run++) {
            memcpy(items + num_items, in_order + runs[run].begin,
                   runs[run].count * sizeof(*in_order));
            num_items += runs[run].count;
        }
        shuffle_items(&shuffle, items, num_items);
        items += num_items;
    }
    free(runs);
    free(in_order);
    return SLUICE_OK;
}

/* --- the whole --- */

sluice_status sluice_sampler_count(const struct sluice_sampler *sampler, uint64_t last_epoch,
                                   size_t *count, struct sluice_err *err)
{
    if (sampler->num_samples == 0 || sampler->repeat == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "an epoch of no samples");
    uint64_t items = (uint64_t)sampler->num_samples * sampler->repeat;
    uint64_t draw_epochs;
    if (sampler->num_ranges > 0) {
        const sluice_status status = count_ranges(sampler, last_epoch, &items, err);
        if (status != SLUICE_OK)
            return status;
        if (items == 0)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "an epoch of no samples: the weights leave none of %u",
                               sampler->num_samples);
    }
    if (items > UINT32_MAX)
        return sluice_fail(err, SLUICE_E_INVALID, "%u samples repeated %u times are too many",
                           sampler->num_samples, sampler->repeat);
    if (__builtin_mul_overflow(last_epoch + copies_of(sampler), (uint64_t)sampler->repeat,
                               &draw_epochs) ||
        draw_epochs > UINT32_MAX)
        return sluice_fail(err, SLUICE_E_INVALID, "epoch %llu repeated %u times is too many",
                           (unsigned long long)last_epoch, sampler->repeat);
    *count = (size_t)items;
    return SLUICE_OK;
}

/* Without copies. */
static sluice_status fill_once(const struct sluice_sampler *sampler, uint32_t epoch,
                               struct sluice_sampler_item *items, struct sluice_err *err)
{
    uint32_t count = 0;
    if (sampler->num_ranges > 0) {
        uint64_t of_ranges = 0;
        sluice_status status = count_ranges(sampler, epoch, &of_ranges, err);
        if (status == SLUICE_OK)
            status = fill_ranges(sampler, epoch, items, err);
        if (status != SLUICE_OK)
            return status;
        count = (uint32_t)of_ranges;
    } else {
        count = sampler->num_samples * sampler->repeat;
        for (uint32_t i = 0; i < count; i++) {
            items[i] = (struct sluice_sampler_item){
                .position = i % sampler->num_samples,
                .draw_epoch = epoch * sampler->repeat + i / sampler->num_samples,
            };
        }
    }
    if (!sampler->is_shuffled || count == 0)
        return SLUICE_OK;
    if (sampler->num_mixed > 0)
        return shuffle_by_shards(sampler, epoch, items, count, err);
    struct shuffle shuffle = {.seed = sampler->seed, .epoch = epoch, .op = SHUFFLE_OP};
    shuffle_items(&shuffle, items, count);
    return SLUICE_OK;
}

sluice_status sluice_sampler_fill(const struct sluice_sampler *sampler, uint32_t epoch,
                                  struct sluice_sampler_item *items, struct sluice_err *err)
{
    const uint32_t copies = copies_of(sampler);
    size_t count = 0;
    if (copies == 1)
        return fill_once(sampler, epoch, items, err);
    sluice_status status = sluice_sampler_count(sampler, epoch, &count, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_sampler_item *once = calloc(count, sizeof(*once));
    if (!once)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the order of %zu samples",
                           count);
    status = fill_once(sampler, epoch / copies, once, err);
    const uint64_t first = (uint64_t)(epoch % copies) * count;
    for (size_t i = 0; status == SLUICE_OK && i < count; i++) {
        const struct sluice_sampler_item item = once[(first + i) / copies];
        items[i] = (struct sluice_sampler_item){
            .position = item.position,
            .draw_epoch = item.draw_epoch * copies + (uint32_t)((first + i) % copies),
        };
    }
    free(once);
    return status;
}
