#include "train/cuda/kernels_device.cuh"

/* Softmax and cross-entropy. */

namespace
{

struct plus {
    template <typename T> __device__ T operator()(T a, T b) const
    {
        return a + b;
    }
};

struct larger {
    __device__ double operator()(double a, double b) const
    {
        return fmax(a, b);
    }
};

/* Over the threads of a block, each of which gets the result; `combine` commutes. */
template <typename T, typename Combine> __device__ T reduce(T value, Combine combine)
{
    __shared__ T warps[BLOCK / 32];
    for (unsigned offset = 16; offset > 0; offset /= 2)
        value = combine(value, __shfl_xor_sync(~0u, value, offset));
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = warps[0];
    for (unsigned i = 1; i < BLOCK / 32; i++)
        value = combine(value, warps[i]);
    __syncthreads(); /* the next call uses `warps` again */
    return value;
}

/* A sample's labels, and its target for each class. */
struct targets {
    const struct sluice_mix_batch *mix; /* or NULL: the class of the label alone */
    uint32_t own, other;

    __device__ targets(const struct sluice_cuda_step *step, const uint32_t *labels)
    {
        mix = step ? &step->mix : NULL;
        own = labels[blockIdx.x];
        other = mix ? labels[sluice_mix_partner(mix, blockIdx.x)] : own;
    }
    /* A hit counts for the label with the larger part. */
    __device__ uint32_t hit() const
    {
        return !mix || mix->own >= mix->other ? own : other;
    }
    __device__ double of(uint32_t c) const
    {
        return mix ? sluice_mix_target(mix, own, other, c) : c == own;
    }
};

/* One block for one sample. */
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    loss_kernel(const struct sluice_cuda_step *__restrict__ step, const float *__restrict__ logits,
                const uint32_t *__restrict__ labels, uint32_t num_classes, double weight,
                T *__restrict__ diff, struct sluice_cuda_sums *__restrict__ samples)
{
    const size_t start = (size_t)blockIdx.x * num_classes;
    const targets target(step, labels);
    const uint32_t hit = target.hit();
    const float hit_logit = logits[start + hit];
    double max = hit_logit;
    uint32_t rank = 0;
    for (uint32_t c = threadIdx.x; c < num_classes; c += BLOCK) {
        const float logit = logits[start + c];
        max = fmax(max, (double)logit);
        rank += logit > hit_logit || (logit == hit_logit && c < hit);
    }
    max = reduce(max, larger());
    rank = reduce(rank, plus());
    double sum = 0, target_sum = 0, products = 0;
    for (uint32_t c = threadIdx.x; c < num_classes; c += BLOCK) {
        const double part = target.of(c), logit = logits[start + c];
        sum += exp(logit - max);
        target_sum += part;
        products += part > 0 ? part * logit : 0; /* an infinite logit of another class may stand */
    }
    sum = reduce(sum, plus());
    target_sum = reduce(target_sum, plus());
    products = reduce(products, plus());
    if (threadIdx.x == 0)
        samples[blockIdx.x] = {target_sum * (log(sum) + max) - products, rank < 1, rank < 5};
    if (!diff)
        return;
    for (uint32_t c = threadIdx.x; c < num_classes; c += BLOCK) {
        const double share = exp(logits[start + c] - max) / sum;
        const double result = (share * target_sum - target.of(c)) * weight;
        store(diff, start + c, {(float)result});
    }
}

__global__ void __launch_bounds__(BLOCK)
    sum_kernel(const struct sluice_cuda_sums *samples, size_t num_samples,
               struct sluice_cuda_sums *sums, uint32_t *is_bad)
{
    double loss = 0;
    unsigned long long top1 = 0, top5 = 0;
    for (size_t i = threadIdx.x; i < num_samples; i += BLOCK) {
        loss += samples[i].loss;
        top1 += samples[i].top1;
        top5 += samples[i].top5;
    }
    loss = reduce(loss, plus());
    top1 = reduce(top1, plus());
    top5 = reduce(top5, plus());
    if (threadIdx.x == 0) {
        sums->loss += loss;
        sums->top1 += top1;
        sums->top5 += top5;
        if (!isfinite(loss))
            *is_bad = 1;
    }
}

} // namespace

cudaError_t sluice_cuda_loss(cudaStream_t stream, enum sluice_cuda_type type, const float *logits,
                             const uint32_t *labels, size_t num_samples, uint32_t num_classes,
                             void *diff, struct sluice_cuda_sums *scratch,
                             struct sluice_cuda_sums *sums, uint32_t *is_bad)
{
    return sluice_cuda_mix_loss(stream, type, NULL, logits, labels, num_samples, num_classes, diff,
                                scratch, sums, is_bad);
}

cudaError_t sluice_cuda_mix_loss(cudaStream_t stream, enum sluice_cuda_type type,
                                 const struct sluice_cuda_step *step, const float *logits,
                                 const uint32_t *labels, size_t num_samples, uint32_t num_classes,
                                 void *diff, struct sluice_cuda_sums *scratch,
                                 struct sluice_cuda_sums *sums, uint32_t *is_bad)
{
    const double weight = 1.0 / (double)num_samples;
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        loss_kernel<<<(unsigned)num_samples, BLOCK, 0, stream>>>(step, logits, labels, num_classes,
                                                                 weight, (T *)diff, scratch);
        sum_kernel<<<1, BLOCK, 0, stream>>>(scratch, num_samples, sums, is_bad);
        return cudaGetLastError();
    });
}
