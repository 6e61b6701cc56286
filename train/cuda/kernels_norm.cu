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
        const double shifted = sums.x / rows, mean = to_float(in[c]) + shifted;
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
    static constexpr int V = WIDTH<T>, UNROLL = 4;
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

/* The values that both passes of the backward pass read, and d, the gradient behind add and relu. */
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
cudaError_t normalise_all(cudaStream_t stream, const struct sluice_cuda_norm *norm, size_t rows,
                          const void *in, const void *add, void *out)
{
    if (add)
        return column_map(stream,
                          normalise_op<T, true>{*norm, (const T *)in, (const T *)add, (T *)out},
                          rows, norm->num_c);
    return column_map(stream, normalise_op<T, false>{*norm, (const T *)in, NULL, (T *)out}, rows,
                      norm->num_c);
}

template <typename T>
cudaError_t norm_train(cudaStream_t stream, const struct sluice_cuda_norm *norm, size_t rows,
                       const void *in, const void *add, void *out)
{
    const cudaError_t error = column_sums(stream, moments_op<T>{(const T *)in},
                                          moments_finish<T>{*norm, (const T *)in, (double)rows},
                                          rows, norm->num_c, norm->scratch);
    return error ? error : normalise_all<T>(stream, norm, rows, in, add, out);
}

struct norm_gradients {
    void *diff_add, *diff_in;
    float *diff_weight, *diff_bias;
};

template <typename T, int MASK, bool MORE>
cudaError_t norm_backward_as(cudaStream_t stream, const norm_diffs<T, MASK, MORE> &diffs,
                             size_t rows, const norm_gradients &to)
{
    const struct sluice_cuda_norm &norm = diffs.norm;
    const cudaError_t error =
        column_sums(stream, norm_sums_op<T, MASK, MORE>{diffs, (T *)to.diff_add},
                    norm_sums_finish{norm.inverse_deviation, to.diff_weight, to.diff_bias}, rows,
                    norm.num_c, norm.scratch);
    if (error)
        return error;
    const float per_row = (float)(1 / (double)rows);
    if (to.diff_add) /* d is there */
        return column_map(
            stream,
            norm_diff_op<T, MASK_NONE, false>{{norm, diffs.in, NULL, (const T *)to.diff_add, NULL},
                                              (T *)to.diff_in,
                                              to.diff_weight,
                                              to.diff_bias,
                                              per_row},
            rows, norm.num_c);
    return column_map(
        stream,
        norm_diff_op<T, MASK, MORE>{diffs, (T *)to.diff_in, to.diff_weight, to.diff_bias, per_row},
        rows, norm.num_c);
}

template <typename T, int MASK>
cudaError_t norm_backward_masked(cudaStream_t stream, const struct sluice_cuda_norm &norm,
                                 size_t rows, const void *in, const void *out, const void *diff_out,
                                 const void *diff_more, const norm_gradients &to)
{
    const T *const i = (const T *)in, *const o = (const T *)out, *const d = (const T *)diff_out;
    if (!diff_more)
        return norm_backward_as(stream, norm_diffs<T, MASK, false>{norm, i, o, d, NULL}, rows, to);
    return norm_backward_as(stream, norm_diffs<T, MASK, true>{norm, i, o, d, (const T *)diff_more},
                            rows, to);
}

template <typename T>
cudaError_t norm_backward(cudaStream_t stream, const struct sluice_cuda_norm *norm, size_t rows,
                          const void *in, const void *out, const void *diff_out,
                          const void *diff_more, const norm_gradients &to)
{
    if (!norm->relu)
        return norm_backward_masked<T, MASK_NONE>(stream, *norm, rows, in, NULL, diff_out,
                                                  diff_more, to);
    if (!out)
        return norm_backward_masked<T, MASK_IN>(stream, *norm, rows, in, NULL, diff_out, diff_more,
                                                to);
    return norm_backward_masked<T, MASK_OUT>(stream, *norm, rows, in, out, diff_out, diff_more, to);
}

template <typename T>
cudaError_t bias(cudaStream_t stream, void *values, const float *bias, size_t rows, size_t num_c,
                 bool relu)
{
    if (num_c % WIDTH<T> == 0)
        return column_map(stream, bias_op<T, WIDTH<T>>{(T *)values, bias, relu}, rows, num_c);
    return column_map(stream, bias_op<T, 1>{(T *)values, bias, relu}, rows, num_c);
}

template <typename T, int V>
cudaError_t bias_sums(cudaStream_t stream, void *diffs, const void *values, size_t rows,
                      size_t num_c, float *diff_bias, double *scratch)
{
    const bias_finish finish{diff_bias};
    if (values)
        return column_sums(stream, bias_sums_op<T, V, true>{(T *)diffs, (const T *)values}, finish,
                           rows, num_c, scratch);
    return column_sums(stream, bias_sums_op<T, V, false>{(T *)diffs, NULL}, finish, rows, num_c,
                       scratch);
}

template <typename T>
cudaError_t bias_backward(cudaStream_t stream, void *diffs, const void *values, size_t rows,
                          size_t num_c, float *diff_bias, double *scratch)
{
    if (num_c % WIDTH<T> == 0)
        return bias_sums<T, WIDTH<T>>(stream, diffs, values, rows, num_c, diff_bias, scratch);
    return bias_sums<T, 1>(stream, diffs, values, rows, num_c, diff_bias, scratch);
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
    return FOR_TYPE(type, norm_train, stream, norm, rows, in, add, out);
}

cudaError_t sluice_cuda_norm_evaluate(cudaStream_t stream, enum sluice_cuda_type type,
                                      const struct sluice_cuda_norm *norm, size_t rows,
                                      const void *in, const void *add, void *out)
{
    check_norm(norm);
    running_kernel<<<(unsigned)ceil_div(norm->num_c, BLOCK), BLOCK, 0, stream>>>(*norm);
    return FOR_TYPE(type, normalise_all, stream, norm, rows, in, add, out);
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
    return FOR_TYPE(type, norm_backward, stream, norm, rows, in, out, diff_out, diff_more, to);
}

cudaError_t sluice_cuda_bias(cudaStream_t stream, enum sluice_cuda_type type, void *values,
                             const float *bias_of, size_t count, size_t num_c, bool relu)
{
    return FOR_TYPE(type, bias, stream, values, bias_of, count / num_c, num_c, relu);
}

cudaError_t sluice_cuda_bias_backward(cudaStream_t stream, enum sluice_cuda_type type, void *diffs,
                                      const void *values, size_t rows, size_t num_c,
                                      float *diff_bias, double *scratch)
{
    return FOR_TYPE(type, bias_backward, stream, diffs, values, rows, num_c, diff_bias, scratch);
}
