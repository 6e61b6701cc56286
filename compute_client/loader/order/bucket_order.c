#include "compute_client/loader/order/bucket_order.h"

#include "base/rng.h"
#include "op/op.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The op number that places are drawn under; sampler.c has the others. */
#define PLACE_OP 0xFFFCu

/* A global batch: items [first, first + count) of its bucket. */
struct global {
    uint32_t first, count;
    uint8_t bucket;
};

struct work {
    const struct sluice_bucket_options *options;
    struct sluice_sampler_item *sorted;      /* bucket after bucket, each in the sampler's order */
    uint64_t begins[SLUICE_MAX_BUCKETS + 1]; /* in `sorted` */
    struct global *batches;
    size_t num;
};

static uint64_t global_size(const struct sluice_bucket_options *options)
{
    return (uint64_t)options->order.batch_size * options->order.world_size;
}

static uint64_t num_of_bucket(const struct work *work, unsigned bucket)
{
    return work->begins[bucket + 1] - work->begins[bucket];
}

/* A counting sort of the items by bucket; counts the batches. */
static sluice_status sort(struct work *work, const struct sluice_sampler_item *items, size_t count,
                          struct sluice_err *err)
{
    const struct sluice_bucket_options *o = work->options;
    uint64_t at[SLUICE_MAX_BUCKETS];
    for (size_t i = 0; i < count; i++)
        work->begins[o->bucket_of[items[i].position] + 1]++;
    size_t most = 0;
    for (unsigned k = 0; k < o->num_buckets; k++) {
        most += work->begins[k + 1] / global_size(o) + 1;
        at[k] = work->begins[k];
        work->begins[k + 1] += work->begins[k];
    }
    assert(work->begins[o->num_buckets] == count);
    work->sorted = malloc((count + 1) * sizeof(*work->sorted));
    work->batches = malloc(most * sizeof(*work->batches));
    if (!work->sorted || !work->batches)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the order of %zu samples",
                           count);
    for (size_t i = 0; i < count; i++)
        work->sorted[at[o->bucket_of[items[i].position]]++] = items[i];
    return SLUICE_OK;
}

/* Full batches, in the order in which they are filled. */
static void list_full(struct work *work, const struct sluice_sampler_item *items, size_t count)
{
    const struct sluice_bucket_options *o = work->options;
    const uint32_t size = (uint32_t)global_size(o);
    uint32_t filled[SLUICE_MAX_BUCKETS] = {0};
    for (size_t i = 0; i < count; i++) {
        const uint8_t bucket = o->bucket_of[items[i].position];
        if (++filled[bucket] % size == 0)
            work->batches[work->num++] = (struct global){filled[bucket] - size, size, bucket};
    }
}

/* Inserts each partial batch before one of those that are there, or after all. */
static void list_partial(struct work *work, uint32_t epoch)
{
    const struct sluice_bucket_options *o = work->options;
    struct sluice_rng rng = sluice_rng_init(o->seed, epoch, 0, PLACE_OP);
    for (unsigned k = 0; k < o->num_buckets && o->order.tail == SLUICE_TAIL_PAD; k++) {
        const uint32_t rest = (uint32_t)(num_of_bucket(work, k) % global_size(o));
        if (rest == 0)
            continue;
        assert(work->num < UINT32_MAX);
        const size_t place =
            o->is_shuffled ? sluice_rng_below(&rng, (uint32_t)work->num + 1) : work->num;
        memmove(work->batches + place + 1, work->batches + place,
                (work->num - place) * sizeof(*work->batches));
        work->batches[place] =
            (struct global){(uint32_t)(num_of_bucket(work, k) - rest), rest, (uint8_t)k};
        work->num++;
    }
}

/* Rows of each rank, of which the last ranks' are padded. */
static uint32_t rows_of(const struct work *work, const struct global *batch)
{
    const uint32_t ranks = work->options->order.world_size;
    return (uint32_t)(((uint64_t)batch->count + ranks - 1) / ranks);
}

/* Finds the batch that begins at the cursor. */
static sluice_status find_cursor(const struct work *work, uint64_t cursor,
                                 struct sluice_bucket_order *order, struct sluice_err *err)
{
    uint64_t items = 0;
    for (size_t i = 0; i < work->num; i++) {
        const struct global *batch = &work->batches[i];
        const uint64_t rows = rows_of(work, batch);
        order->num_padded += rows * work->options->order.world_size - batch->count;
        if (items < cursor) {
            order->batches_before++;
            order->rows_before += rows;
            items += batch->count;
        } else {
            order->num_batches++;
            order->num_items += rows;
        }
    }
    if (items != cursor)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%llu samples of the epoch are done, where no batch of a bucket begins",
                           (unsigned long long)cursor);
    return SLUICE_OK;
}

/* The rank's rows of a batch.  Past its bucket's end the bucket begins again. */
static void fill(const struct work *work, const struct global *batch,
                 struct sluice_sampler_item *out)
{
    const struct sluice_order_options *order = &work->options->order;
    const struct sluice_sampler_item *of_bucket = work->sorted + work->begins[batch->bucket];
    const uint64_t num = num_of_bucket(work, batch->bucket), rows = rows_of(work, batch);
    const uint64_t first = batch->first + order->rank * rows;
    for (uint64_t row = 0; row < rows; row++)
        out[row] = of_bucket[(first + row) % num];
}

static uint32_t num_padded(const struct work *work, const struct global *batch)
{
    const uint64_t rows = rows_of(work, batch), begin = work->options->order.rank * rows;
    const uint64_t real = batch->count > begin ? batch->count - begin : 0;
    return (uint32_t)(rows > real ? rows - real : 0);
}

static sluice_status fill_all(const struct work *work, uint64_t cursor,
                              struct sluice_bucket_order *order, struct sluice_err *err)
{
    order->items = malloc((order->num_items + 1) * sizeof(*order->items));
    order->batches = malloc((order->num_batches + 1) * sizeof(*order->batches));
    order->cursors = malloc((order->num_batches + 1) * sizeof(*order->cursors));
    if (!order->items || !order->batches || !order->cursors)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an epoch of %zu samples",
                           order->num_items);
    uint32_t start = 0;
    for (size_t i = 0; i < order->num_batches; i++) {
        const struct global *batch = &work->batches[order->batches_before + i];
        fill(work, batch, order->items + start);
        order->batches[i] =
            (struct sluice_order_batch){start, num_padded(work, batch), batch->bucket};
        order->cursors[i] = cursor;
        start += rows_of(work, batch);
        cursor += batch->count;
    }
    order->batches[order->num_batches] = (struct sluice_order_batch){.start = start};
    order->cursors[order->num_batches] = cursor;
    return SLUICE_OK;
}

sluice_status sluice_bucket_order_make(const struct sluice_bucket_options *options, uint32_t epoch,
                                       const struct sluice_sampler_item *items, size_t count,
                                       uint64_t cursor, struct sluice_bucket_order *order,
                                       struct sluice_err *err)
{
    assert(options->num_buckets >= 1 && options->num_buckets <= SLUICE_MAX_BUCKETS);
    struct work work = {.options = options};
    struct sluice_bucket_order made = {0};
    sluice_status status = sort(&work, items, count, err);
    if (status == SLUICE_OK) {
        list_full(&work, items, count);
        list_partial(&work, epoch);
        status = find_cursor(&work, cursor, &made, err);
    }
    if (status == SLUICE_OK)
        status = fill_all(&work, cursor, &made, err);
    free(work.sorted);
    free(work.batches);
    if (status == SLUICE_OK)
        *order = made;
    else
        sluice_bucket_order_clear(&made);
    return status;
}

void sluice_bucket_order_clear(struct sluice_bucket_order *order)
{
    free(order->items);
    free(order->batches);
    free(order->cursors);
    *order = (struct sluice_bucket_order){0};
}
