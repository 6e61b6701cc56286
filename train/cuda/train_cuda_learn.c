#include "train/cuda/train_cuda_state.h"

#include "train/tuning.h"

#include <stdlib.h>

/* The second half of a step: gradients, their mean over the ranks, and SGD.
 *
 *     compute stream   | backward of bucket 0 | of bucket 1 | of bucket 2 |         | SGD |
 *     summing stream                          |--- mean 0 ---|--- mean 1 ---|- mean 2 -|
 *
 * A bucket is a range of stages whose gradients, of SLUICE_TRAIN_BUCKET_BYTES or more, are averaged while the
 * next stages run backwards.  Alone there is one bucket and no mean. */

/* Extends [*from, *to) by the parameter's place, if it is trained and (not) a filter. */
static void extend(const struct cuda_trainer *cuda, int param, bool is_filter, size_t *from,
                   size_t *to)
{
    if (param < 0 || !cuda->base.net.params[param].is_trained)
        return;
    const size_t offset = cuda->offsets[param];
    const size_t end = offset + cuda_stored_count(cuda, (unsigned)param);
    if ((offset < cuda->filter_count) != is_filter)
        return;
    if (*to == 0 || offset < *from)
        *from = offset;
    if (end > *to)
        *to = end;
}

static struct bucket bucket_of(const struct cuda_trainer *cuda, unsigned from, unsigned to)
{
    struct bucket bucket = {.from = from, .to = to};
    for (unsigned s = from; s < to; s++) {
        const struct sluice_layer *layer = &cuda->base.net.layers[cuda->program.stages[s].layer];
        const int params[] = {layer->weight, layer->bias};
        for (size_t i = 0; i < SLUICE_ARRAY_LEN(params); i++) {
            extend(cuda, params[i], true, &bucket.filters[0], &bucket.filters[1]);
            extend(cuda, params[i], false, &bucket.others[0], &bucket.others[1]);
        }
    }
    return bucket;
}

static size_t count_of(const struct bucket *bucket)
{
    return bucket->filters[1] - bucket->filters[0] + bucket->others[1] - bucket->others[0];
}

sluice_status cuda_make_buckets(struct cuda_trainer *cuda, struct sluice_err *err)
{
    const size_t least = cuda->ranks ? SLUICE_TRAIN_BUCKET_BYTES : SIZE_MAX;
    cuda->buckets = calloc(cuda->program.num_stages, sizeof(*cuda->buckets));
    if (!cuda->buckets)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a trainer");
    unsigned to = cuda->program.num_stages;
    for (unsigned s = to; s > 0; s--) {
        const struct bucket bucket = bucket_of(cuda, s - 1, to);
        if (s - 1 > 0 && count_of(&bucket) * sizeof(float) < least)
            continue;
        cuda->buckets[cuda->num_buckets++] = bucket;
        to = s - 1;
    }
    if (!cuda->ranks)
        return SLUICE_OK;
    sluice_status status = cuda_check(
        cudaStreamCreateWithFlags(&cuda->summing, cudaStreamNonBlocking), "cudaStreamCreate", err);
    if (!status)
        status = cuda_check(cudaEventCreateWithFlags(&cuda->has_grads, cudaEventDisableTiming),
                            "cudaEventCreate", err);
    if (!status)
        status = cuda_check(cudaEventCreateWithFlags(&cuda->has_means, cudaEventDisableTiming),
                            "cudaEventCreate", err);
    return status;
}

void cuda_clear_buckets(struct cuda_trainer *cuda)
{
    if (cuda->has_grads)
        cudaEventDestroy(cuda->has_grads);
    if (cuda->has_means)
        cudaEventDestroy(cuda->has_means);
    if (cuda->summing)
        cudaStreamDestroy(cuda->summing);
    free(cuda->buckets);
    sluice_ranks_close(cuda->ranks);
}

/* The stream goes on behind what is queued on the other one. */
static sluice_status follow(cudaStream_t stream, cudaStream_t other, cudaEvent_t event,
                            struct sluice_err *err)
{
    const sluice_status status = cuda_check(cudaEventRecord(event, other), "cudaEventRecord", err);
    return status ? status
                  : cuda_check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent", err);
}

/* The gradients of a bucket whose stages are queued: to float32, and to the ranks' mean. */
static sluice_status finish_bucket(struct cuda_trainer *cuda, const struct bucket *bucket,
                                   struct sluice_err *err)
{
    cudaStream_t stream = cuda->ranks ? cuda->summing : cuda->compute;
    const size_t filters = bucket->filters[0], others = bucket->others[0];
    const size_t num_filters = bucket->filters[1] - filters;
    sluice_status status = SLUICE_OK;
    if (cuda->ranks)
        status = follow(stream, cuda->compute, cuda->has_grads, err);
    if (!status && cuda->filter_grads && num_filters > 0)
        status = cuda_check(sluice_cuda_to_float(stream, cuda->filter_grads + filters,
                                                 cuda->grads + filters, num_filters),
                            "gradients", err);
    if (status || !cuda->ranks)
        return status;
    const struct sluice_ranks_part parts[] = {
        {cuda->grads + filters, num_filters},
        {cuda->grads + others, bucket->others[1] - others},
    };
    return sluice_ranks_average(cuda->ranks, stream, parts, SLUICE_ARRAY_LEN(parts), err);
}

/* A rank whose loss is not finite keeps all ranks from learning. */
static sluice_status join_ranks(struct cuda_trainer *cuda, struct sluice_err *err)
{
    const sluice_status status = sluice_ranks_max(cuda->ranks, cuda->summing, cuda->is_bad, err);
    return status ? status : follow(cuda->compute, cuda->summing, cuda->has_means, err);
}

/* With `convs` NULL this rank has no rows: its gradients are 0. */
sluice_status cuda_learn(struct cuda_trainer *cuda, const struct conv_set *convs,
                         struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    if (!convs) {
        status = cuda_check(
            cudaMemsetAsync(cuda->grads, 0, cuda->trained_count * sizeof(float), cuda->compute),
            "cudaMemset", err);
        if (!status && cuda->filter_grads)
            status = cuda_check(cudaMemsetAsync(cuda->filter_grads, 0,
                                                cuda->filter_count * sizeof(*cuda->filter_grads),
                                                cuda->compute),
                                "cudaMemset", err);
    }
    for (unsigned b = 0; !status && b < cuda->num_buckets; b++) {
        const struct bucket *bucket = &cuda->buckets[b];
        if (convs)
            status = cuda_backward(cuda, convs, bucket->from, bucket->to, err);
        if (!status)
            status = finish_bucket(cuda, bucket, err);
    }
    if (!status && cuda->ranks)
        status = join_ranks(cuda, err);
    if (!status)
        status = cuda_stop_before(cuda, cuda_item_sgd(cuda), err);
    if (!status)
        status = cuda_check(sluice_cuda_sgd(cuda->compute, cuda->values, cuda->momenta, cuda->grads,
                                            cuda->copies16, cuda->trained_count, cuda->block.step,
                                            (float)cuda->base.options.momentum,
                                            (float)cuda->base.options.weight_decay, cuda->is_bad),
                            "descending", err);
    return status;
}
