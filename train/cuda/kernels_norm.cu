#include "train/cuda/kernels_columns.cuh"

/* Batch norm, and biases: what has an argument for each channel. */

namespace
{

/* The packs at one place of two tensors. */
template <typename T> struct norm_packs {
    pack<T, WIDTH<T>> x, add;
};

/* Forward and backward pass must get the same bits: the backward pass computes the output again to
 * see where the relu was 0. */
__device__ float normalise(float value, float mean, float scale, float bias)
{
    return __fmaf_rn(value - mean, scale, bias);
}

template <int V>
__device__ void load_scales(const struct sluice_cuda_norm &norm, uint32_t col, float (&scale)[V])
{
    float weight[V];
    load_channels(norm.inverse_deviation, col, scale);
    load_channels(norm.weight, col, weight);
#pragma unroll
    for (int k = 0; k < V; k++)
        scale[k] = __fmul_rn(scale[k], weight[k]);
}

/* Sums of x - pivot and of its square, the pivot being the channel's first value: the variance of
 * values far from 0 does not cancel. */
template <typename T> struct moments_op {
    static constexpr int V = WIDTH<T>, UNROLL = 8;
    using loaded = pack<T, V>;
    const T *in;
    struct channels {
        float pivot[V];
        __device__ channels(const moments_op &op, uint32_t col)
        {
            const loaded first = load<V>(op.in, col);
#pragma unroll
            for (int k = 0; k < V; k++)
                pivot[k] = first.at(k);
        }
    };
    __device__ loaded load_pack(size_t i) const
    {
        return load<V>(in, i);
    }
    __device__ void add(size_t, const loaded &x, const channels &c, float2 (&sums)[V]) const
    {
#pragma unroll
        for (int k = 0; k < V; k++) {
            const float value = x.at(k) - c.pivot[k];
            sums[k].x += value;
            sums[k].y = __fmaf_rn(value, value, sums[k].y);
        }
    }
};

template <typename T> struct moments_finish {
    struct sluice_cuda_norm norm;
    const T *in;
    double rows;
    __device__ void operator()(size_t c, double2 sums) const
    {
        const double shifted = sums.x / rows, mean = load<1>(in, c).at(0) + shifted;
        double variance = sums.y / rows - shifted * shifted;
        variance = variance < 0 ? 0 : variance; /* NaN stays */
        const double unbias = rows > 1 ? rows / (rows - 1) : 1, kept = 1 - norm.momentum;
        norm.mean[c] = (float)mean;
        norm.inverse_deviation[c] = (float)(1 / sqrt(variance + norm.epsilon));
        norm.running_mean[c] = (float)(kept * norm.running_mean[c] + norm.momentum * mean);
        norm.running_var[c] =
            (float)(kept * norm.running_var[c] + norm.momentum * unbias * variance);
    }
};

__global__ void running_kernel(const struct sluice_cuda_norm norm)
{
    const size_t c = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    if (c >= norm.num_c)
        return;
    norm.mean[c] = norm.running_mean[c];
    norm.inverse_deviation[c] = (float)(1 / sqrt((double)norm.running_var[c] + norm.epsilon));
}

template <typename T, bool ADDS> struct normalise_op {
    static constexpr int V = WIDTH<T>, UNROLL = ADDS ? 4 : 8;
    using loaded = norm_packs<T>;
    struct sluice_cuda_norm norm;
    const T *in, *added;
    T *out;
    struct channels {
        float mean[V], scale[V], bias[V];
        __device__ channels(const normalise_op &op, uint32_t col)
        {
            load_channels(op.norm.mean, col, mean);
            load_channels(op.norm.bias, col, bias);
            load_scales(op.norm, col, scale);
        }
    };
    __device__ loaded load_pack(size_t i) const
    {
        loaded x;
        x.x = load<V>(in, i);
        if (ADDS)
            x.add = load<V>(added, i);
        return x;
    }
    __device__ void run(size_t i, const loaded &x, const channels &c) const
    {
        float values[V];
#pragma unroll
        for (int k = 0; k < V; k++) {
            float y = normalise(x.x.at(k), c.mean[k], c.scale[k], c.bias[k]);
            if (ADDS)
                y += x.add.at(k);
            values[k] = at_least_0(y, norm.relu);
        }
        store(out, i, values);
    }
};

/* Where d is 0: nowhere, where the output computed from `in` is not positive, or where `out` is. */
enum mask { MASK_NONE, MASK_IN, MASK_OUT };

/* Reads the tensors of both passes backwards; d is the gradient behind add and relu. */
template <typename T, int MASK, bool MORE> struct norm_diffs {
    static constexpr int V = WIDTH<T>, NUM_LOADS = 2 + MORE + (MASK == MASK_OUT);
    struct loaded {
        pack<T, V> x, diff, more, out;
    };
    struct sluice_cuda_norm norm;
    const T *in, *out, *diff_out, *diff_more;
    struct channels {
        float mean[V], scale[V], bias[V];
        __device__ channels(const norm_diffs &op, uint32_t col)
        {
            load_channels(op.norm.mean, col, mean);
            load_scales(op.norm, col, scale);
            if (MASK == MASK_IN)
                load_channels(op.norm.bias, col, bias);
        }
    };
    __device__ loaded load_pack(size_t i) const
    {
        loaded x;
        x.x = load<V>(in, i);
        x.diff = load<V>(diff_out, i);
        if (MORE)
            x.more = load<V>(diff_more, i);
        if (MASK == MASK_OUT)
            x.out = load<V>(out, i);
        return x;
    }
    __device__ float diff_of(const loaded &x, const channels &c, int k) const
    {
        float diff = x.diff.at(k);
        if (MORE)
            diff = rounded<T>(diff + x.more.at(k));
        float output = 1;
        if (MASK == MASK_IN)
            output = normalise(x.x.at(k), c.mean[k], c.scale[k], c.bias[k]);
        if (MASK == MASK_OUT)
            output = x.out.at(k);
        return output <= 0 ? 0 : diff;
    }
};

/* Sums of d and of d * (x - mean); writes d. */
template <typename T, int MASK, bool MORE> struct norm_sums_op : norm_diffs<T, MASK, MORE> {
    using base = norm_diffs<T, MASK, MORE>;
    using typename base::channels, typename base::loaded;
    static constexpr int V = base::V, UNROLL = base::NUM_LOADS == 2 ? 4 : 2;
    T *diff_add;
    __device__ void add(size_t i, const loaded &x, const channels &c, float2 (&sums)[V]) const
    {
        float diffs[V];
#pragma unroll
        for (int k = 0; k < V; k++) {
            diffs[k] = this->diff_of(x, c, k);
            sums[k].x += diffs[k];
            sums[k].y = __fmaf_rn(diffs[k], x.x.at(k) - c.mean[k], sums[k].y);
        }
        if (diff_add)
            store(diff_add, i, diffs);
    }
};

struct norm_sums_finish {
    const float *inverse_deviation;
    float *diff_weight, *diff_bias;
    __device__ void operator()(size_t c, double2 sums) const
    {
        diff_bias[c] = (float)sums.x;
        diff_weight[c] = (float)(sums.y * inverse_deviation[c]);
    }
};

/* dx = scale * (d - mean(d) - x^ * mean(d * x^)), x^ the normalised input; the means are the sums
 * of the first pass, by rows. */
template <typename T, int MASK, bool MORE> struct norm_diff_op : norm_diffs<T, MASK, MORE> {
    using base = norm_diffs<T, MASK, MORE>;
    using typename base::loaded;
    static constexpr int V = base::V, UNROLL = base::NUM_LOADS == 2 ? 4 : 2;
    T *diff_in;
    const float *diff_weight, *diff_bias;
    float per_row;
    struct channels : base::channels {
        float mean_diff[V], slope[V];
        __device__ channels(const norm_diff_op &op, uint32_t col) : base::channels(op, col)
        {
            float inverse[V];
            load_channels(op.norm.inverse_deviation, col, inverse);
            load_channels(op.diff_bias, col, mean_diff);
            load_channels(op.diff_weight, col, slope);
#pragma unroll
            for (int k = 0; k < V; k++) {
                mean_diff[k] *= op.per_row;
                slope[k] *= inverse[k] * op.per_row;
            }
        }
    };
    __device__ void run(size_t i, const loaded &x, const channels &c) const
    {
        float values[V];
#pragma unroll
        for (int k = 0; k < V; k++) {
            const float centred = x.x.at(k) - c.mean[k];
            const float rest = this->diff_of(x, c, k) - c.mean_diff[k];
            values[k] = c.scale[k] * __fmaf_rn(-centred, c.slope[k], rest);
        }
        store(diff_in, i, values);
    }
};

template <typename T, int W> struct bias_op {
    static constexpr int V = W, UNROLL = 4;
    using loaded = pack<T, V>;
    T *values;
    const float *bias;
    bool relu;
    struct channels {
        float bias[V];
        __device__ channels(const bias_op &op, uint32_t col)
        {
            load_channels(op.bias, col, bias);
        }
    };
    __device__ loaded load_pack(size_t i) const
    {
        return load<V>((const T *)values, i);
    }
    __device__ void run(size_t i, const loaded &x, const channels &c) const
    {
        float out[V];
#pragma unroll
        for (int k = 0; k < V; k++)
            out[k] = at_least_0(x.at(k) + c.bias[k], relu);
        store(values, i, out);
    }
};

template <typename T, int W, bool IS_MASKED> struct bias_sums_op {
    static constexpr int V = W, UNROLL = 4;
    struct loaded {
        pack<T, V> diff, value;
    };
    T *diffs;
    const T *values;
    struct channels {
        __device__ channels(const bias_sums_op &, uint32_t)
        {
        }
    };
    __device__ loaded load_pack(size_t i) const
    {
        loaded x;
        x.diff = load<V>((const T *)diffs, i);
        if (IS_MASKED)
            x.value = load<V>(values, i);
        return x;
    }
    __device__ void add(size_t i, const loaded &x, const channels &, float2 (&sums)[V]) const
    {
        float out[V];
#pragma unroll
        for (int k = 0; k < V; k++) {
            const bool is_off = IS_MASKED && x.value.at(k) <= 0;
            out[k] = is_off ? 0 : x.diff.at(k);
            sums[k].x += out[k];
        }
        if (IS_MASKED)
            store(diffs, i, out);
    }
};

struct bias_finish {
    float *diff_bias;
    __device__ void operator()(size_t c, double2 sums) const
    {
        diff_bias[c] = (float)sums.x;
    }
};

template <typename T>
cudaError_t normalise_all(cudaStream_t stream, const struct sluice_cuda_norm &norm, size_t rows,
                          const void *in, const void *add, void *out)
{
    const T *const i = (const T *)in, *const a = (const T *)add;
    if (add)
        return column_map(stream, normalise_op<T, true>{norm, i, a, (T *)out}, rows, norm.num_c);
    return column_map(stream, normalise_op<T, false>{norm, i, NULL, (T *)out}, rows, norm.num_c);
}

struct norm_gradients {
    void *diff_add, *diff_in;
    float *diff_weight, *diff_bias;
};

template <typename T, int MASK, bool MORE>
cudaError_t norm_backward(cudaStream_t stream, const norm_diffs<T, MASK, MORE> &diffs, size_t rows,
                          const norm_gradients &to)
{
    const struct sluice_cuda_norm &norm = diffs.norm;
    const cudaError_t error =
        column_sums(stream, norm_sums_op<T, MASK, MORE>{diffs, (T *)to.diff_add},
                    norm_sums_finish{norm.inverse_deviation, to.diff_weight, to.diff_bias}, rows,
                    norm.num_c, norm.scratch);
    if (error)
        return error;
    const auto second = [&](const auto &from, auto op) {
        return column_map(stream,
                          decltype(op){from, (T *)to.diff_in, to.diff_weight, to.diff_bias,
                                       (float)(1 / (double)rows)},
                          rows, norm.num_c);
    };
    if (to.diff_add) /* d is there */
        return second(norm_diffs<T, MASK_NONE, false>{norm, diffs.in, NULL, (T *)to.diff_add, NULL},
                      norm_diff_op<T, MASK_NONE, false>());
    return second(diffs, norm_diff_op<T, MASK, MORE>());
}

void check_norm(const struct sluice_cuda_norm *norm)
{
    assert(norm->num_c > 0 && norm->num_c % 8 == 0);
    assert(is_aligned(norm->weight) && is_aligned(norm->bias));
    assert(is_aligned(norm->mean) && is_aligned(norm->inverse_deviation));
    (void)norm;
}

} // namespace

size_t sluice_cuda_scratch(size_t num_c)
{
    const size_t most = (size_t)MAX_SUM_BLOCKS * MOST_COLUMNS * WIDTH<bf16>;
    return (num_c > most ? num_c : most) * sizeof(double2);
}

cudaError_t sluice_cuda_norm_train(cudaStream_t stream, enum sluice_cuda_type type,
                                   const struct sluice_cuda_norm *norm, size_t rows, const void *in,
                                   const void *add, void *out)
{
    check_norm(norm);
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        const T *const from = (const T *)in;
        const cudaError_t error =
            column_sums(stream, moments_op<T>{from}, moments_finish<T>{*norm, from, (double)rows},
                        rows, norm->num_c, norm->scratch);
        return error ? error : normalise_all<T>(stream, *norm, rows, in, add, out);
    });
}

cudaError_t sluice_cuda_norm_evaluate(cudaStream_t stream, enum sluice_cuda_type type,
                                      const struct sluice_cuda_norm *norm, size_t rows,
                                      const void *in, const void *add, void *out)
{
    check_norm(norm);
    if (norm->running_var)
        running_kernel<<<(unsigned)ceil_div(norm->num_c, BLOCK), BLOCK, 0, stream>>>(*norm);
    return with_type(type, [&](auto t) {
        return normalise_all<decltype(t)>(stream, *norm, rows, in, add, out);
    });
}

cudaError_t sluice_cuda_norm_backward(cudaStream_t stream, enum sluice_cuda_type type,
                                      const struct sluice_cuda_norm *norm, size_t rows,
                                      const void *in, const void *out, const void *diff_out,
                                      const void *diff_more, void *diff_add, void *diff_in,
                                      float *diff_weight, float *diff_bias)
{
    check_norm(norm);
    assert(is_aligned(diff_weight) && is_aligned(diff_bias) && diff_add != diff_in);
    const norm_gradients to = {diff_add, diff_in, diff_weight, diff_bias};
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        const auto masked = [&](auto mask) {
            constexpr int MASK = decltype(mask)::value;
            const T *const i = (const T *)in, *const o = (const T *)out;
            const T *const d = (const T *)diff_out, *const m = (const T *)diff_more;
            if (m)
                return norm_backward(stream, norm_diffs<T, MASK, true>{*norm, i, o, d, m}, rows,
                                     to);
            return norm_backward(stream, norm_diffs<T, MASK, false>{*norm, i, o, d, m}, rows, to);
        };
        if (!norm->relu)
            return masked(std::integral_constant<int, MASK_NONE>());
        if (!out)
            return masked(std::integral_constant<int, MASK_IN>());
        return masked(std::integral_constant<int, MASK_OUT>());
    });
}

cudaError_t sluice_cuda_bias(cudaStream_t stream, enum sluice_cuda_type type, void *values,
                             const float *bias, size_t count, size_t num_c, bool relu)
{
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        const size_t rows = count / num_c;
        if (num_c % WIDTH<T> == 0)
            return column_map(stream, bias_op<T, WIDTH<T>>{(T *)values, bias, relu}, rows, num_c);
        return column_map(stream, bias_op<T, 1>{(T *)values, bias, relu}, rows, num_c);
    });
}

cudaError_t sluice_cuda_bias_backward(cudaStream_t stream, enum sluice_cuda_type type, void *diffs,
                                      const void *values, size_t rows, size_t num_c,
                                      float *diff_bias, double *scratch)
{
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        const auto sums = [&](auto op) {
            op.diffs = (T *)diffs;
            op.values = (const T *)values;
            return column_sums(stream, op, bias_finish{diff_bias}, rows, num_c, scratch);
        };
        if (num_c % WIDTH<T> == 0)
            return values ? sums(bias_sums_op<T, WIDTH<T>, true>())
                          : sums(bias_sums_op<T, WIDTH<T>, false>());
        return values ? sums(bias_sums_op<T, 1, true>()) : sums(bias_sums_op<T, 1, false>());
    });
}
