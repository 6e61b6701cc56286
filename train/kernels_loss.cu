#include "train/kernels_device.cuh"

namespace
{

template <typename T, typename Combine>
__device__ T reduce(T value, T *shared, Combine combine) /* every thread gets the result */
{
    shared[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            shared[threadIdx.x] = combine(shared[threadIdx.x], shared[threadIdx.x + half]);
        __syncthreads();
    }
    const T result = shared[0];
    __syncthreads(); /* the caller may use `shared` again */
    return result;
}

/* One block for one sample. */
__global__ void loss_kernel(const float *__restrict__ logits, const uint32_t *__restrict__ labels,
                            uint32_t num_classes, double weight, float *__restrict__ diff,
                            struct sluice_cuda_sums *__restrict__ samples)
{
    __shared__ double doubles[BLOCK];
    __shared__ uint32_t counts[BLOCK];
    const size_t start = (size_t)blockIdx.x * num_classes;
    const uint32_t label = labels[blockIdx.x];
    const float own = logits[start + label];
    double max = own;
    uint32_t rank = 0;
    for (uint32_t c = threadIdx.x; c < num_classes; c += blockDim.x) {
        const float logit = logits[start + c];
        max = fmax(max, (double)logit);
        rank += logit > own || (logit == own && c < label);
    }
    max = reduce(max, doubles, [](double a, double b) { return fmax(a, b); });
    rank = reduce(rank, counts, [](uint32_t a, uint32_t b) { return a + b; });
    double sum = 0;
    for (uint32_t c = threadIdx.x; c < num_classes; c += blockDim.x)
        sum += exp(logits[start + c] - max);
    sum = reduce(sum, doubles, [](double a, double b) { return a + b; });
    if (threadIdx.x == 0)
        samples[blockIdx.x] = {log(sum) + max - own, rank < 1, rank < 5};
    if (diff) {
        for (uint32_t c = threadIdx.x; c < num_classes; c += blockDim.x)
            diff[start + c] = (float)((exp(logits[start + c] - max) / sum - (c == label)) * weight);
    }
}

__global__ void mix_loss_kernel(struct sluice_mix_batch batch, const float *__restrict__ logits,
                                const uint32_t *__restrict__ labels, uint32_t num_classes,
                                double weight, float *__restrict__ diff,
                                struct sluice_cuda_sums *__restrict__ samples)
{
    __shared__ double doubles[BLOCK];
    __shared__ uint32_t counts[BLOCK];
    const size_t start = (size_t)blockIdx.x * num_classes;
    const uint32_t own = labels[blockIdx.x], other = labels[sluice_mix_partner(&batch, blockIdx.x)];
    const uint32_t hit = batch.own >= batch.other ? own : other;
    const float hit_logit = logits[start + hit];
    double max = hit_logit;
    uint32_t rank = 0;
    for (uint32_t c = threadIdx.x; c < num_classes; c += blockDim.x) {
        const float logit = logits[start + c];
        max = fmax(max, (double)logit);
        rank += logit > hit_logit || (logit == hit_logit && c < hit);
    }
    const auto plus = [](auto a, auto b) { return a + b; };
    max = reduce(max, doubles, [](double a, double b) { return fmax(a, b); });
    rank = reduce(rank, counts, plus);
    double sum = 0, target_sum = 0, products = 0;
    for (uint32_t c = threadIdx.x; c < num_classes; c += blockDim.x) {
        const double target = sluice_mix_target(&batch, own, other, c);
        sum += exp(logits[start + c] - max);
        target_sum += target;
        products += target * logits[start + c];
    }
    sum = reduce(sum, doubles, plus);
    target_sum = reduce(target_sum, doubles, plus);
    products = reduce(products, doubles, plus);
    if (threadIdx.x == 0)
        samples[blockIdx.x] = {target_sum * (log(sum) + max) - products, rank < 1, rank < 5};
    for (uint32_t c = threadIdx.x; c < num_classes; c += blockDim.x) {
        const double target = sluice_mix_target(&batch, own, other, c);
        diff[start + c] =
            (float)((exp(logits[start + c] - max) / sum * target_sum - target) * weight);
    }
}

__global__ void sum_kernel(const struct sluice_cuda_sums *samples, size_t num_samples,
                           struct sluice_cuda_sums *sums)
{
    __shared__ double doubles[BLOCK];
    __shared__ unsigned long long counts[BLOCK];
    double loss = 0;
    unsigned long long top1 = 0, top5 = 0;
    for (size_t i = threadIdx.x; i < num_samples; i += blockDim.x) {
        loss += samples[i].loss;
        top1 += samples[i].top1;
        top5 += samples[i].top5;
    }
    const auto plus = [](auto a, auto b) { return a + b; };
    loss = reduce(loss, doubles, plus);
    top1 = reduce(top1, counts, plus);
    top5 = reduce(top5, counts, plus);
    if (threadIdx.x == 0) {
        sums->loss += loss;
        sums->top1 += top1;
        sums->top5 += top5;
    }
}

} // namespace

cudaError_t sluice_cuda_loss(cudaStream_t stream, const float *logits, const uint32_t *labels,
                             size_t num_samples, uint32_t num_classes, float *diff,
                             struct sluice_cuda_sums *scratch, struct sluice_cuda_sums *sums)
{
    loss_kernel<<<(unsigned)num_samples, BLOCK, 0, stream>>>(
        logits, labels, num_classes, 1.0 / (double)num_samples, diff, scratch);
    sum_kernel<<<1, BLOCK, 0, stream>>>(scratch, num_samples, sums);
    return cudaGetLastError();
}

cudaError_t sluice_cuda_mix_loss(cudaStream_t stream, const struct sluice_mix_batch *batch,
                                 const float *logits, const uint32_t *labels, uint32_t num_classes,
                                 float *diff, struct sluice_cuda_sums *scratch,
                                 struct sluice_cuda_sums *sums)
{
    mix_loss_kernel<<<batch->n, BLOCK, 0, stream>>>(*batch, logits, labels, num_classes,
                                                    1.0 / batch->n, diff, scratch);
    sum_kernel<<<1, BLOCK, 0, stream>>>(scratch, batch->n, sums);
    return cudaGetLastError();
}
