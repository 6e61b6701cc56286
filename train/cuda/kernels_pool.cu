#include "train/cuda/kernels_device.cuh"

/* Pooling.  A block takes a part of one row of an image, so that only the place in the row has to
 * be divided out thread by thread. */

namespace
{

constexpr unsigned ROW_BLOCK = 512; /* threads at most */
constexpr int STRIDE = 2;           /* of maximum pooling */

/* Blocks for rows of `units` threads each. */
struct row_grid {
    unsigned threads, chunks, blocks;
};

row_grid rows_of(size_t rows, size_t units)
{
    row_grid grid;
    grid.chunks = (unsigned)ceil_div(units, ROW_BLOCK);
    grid.threads = (unsigned)ceil_div(ceil_div(units, grid.chunks), 32) * 32;
    grid.blocks = (unsigned)(rows * grid.chunks);
    return grid;
}

/* Operations on words of a pack: one float32, or two bf16 side by side. */
template <typename T> struct word_ops;

template <> struct word_ops<float> {
    static constexpr uint32_t ONE = 1;
    static __device__ uint32_t max(uint32_t a, uint32_t b)
    {
        float result;
        asm("max.NaN.f32 %0, %1, %2;"
            : "=f"(result)
            : "f"(__uint_as_float(a)), "f"(__uint_as_float(b)));
        return __float_as_uint(result);
    }
    /* All ones where `value` is the maximum `max` or a NaN. */
    static __device__ uint32_t is_max(uint32_t value, uint32_t max)
    {
        const float v = __uint_as_float(value);
        return v == __uint_as_float(max) || isnan(v) ? ~0u : 0;
    }
    /* The low bytes of four words. */
    static __device__ void store_places(uint8_t *which, size_t i, const uint32_t (&places)[4])
    {
        ((uint32_t *)which)[i] = places[0] | places[1] << 8 | places[2] << 16 | places[3] << 24;
    }
};

template <> struct word_ops<bf16> {
    static constexpr uint32_t ONE = 0x00010001u;
    static __device__ __nv_bfloat162 pair(uint32_t word)
    {
        return *reinterpret_cast<const __nv_bfloat162 *>(&word);
    }
    static __device__ uint32_t max(uint32_t a, uint32_t b)
    {
        const __nv_bfloat162 result = __hmax2_nan(pair(a), pair(b));
        return *reinterpret_cast<const uint32_t *>(&result);
    }
    static __device__ uint32_t is_max(uint32_t value, uint32_t max)
    {
        return __heq2_mask(pair(value), pair(max)) | __hneu2_mask(pair(value), pair(value));
    }
    static __device__ void store_places(uint8_t *which, size_t i, const uint32_t (&places)[4])
    {
        ((uint2 *)which)[i] = {__byte_perm(places[0], places[1], 0x6420),
                               __byte_perm(places[2], places[3], 0x6420)};
    }
};

/* A thread has a pack of an output.  A place beyond the border is read as the nearest one inside,
 * which is in the window too: that changes neither the maximum nor which is the first. */
template <typename T, int K>
__global__ void __launch_bounds__(ROW_BLOCK)
    maxpool_kernel(const struct sluice_cuda_window w, unsigned chunks, const T *__restrict__ in,
                   T *__restrict__ out, uint8_t *__restrict__ which)
{
    using ops = word_ops<T>;
    constexpr int V = WIDTH<T>;
    const uint32_t row = blockIdx.x / chunks, packs = w.c / V;
    const uint32_t unit = blockIdx.x % chunks * blockDim.x + threadIdx.x;
    if (unit >= w.out_w * packs)
        return;
    const uint32_t n = row / w.out_h, c = unit % packs;
    const int y0 = (int)(row % w.out_h * STRIDE) - (int)w.pad;
    const int x0 = (int)(unit / packs * STRIDE) - (int)w.pad;
    const T *const image = in + (size_t)n * w.in_h * w.in_w * w.c;
    pack<T, V> x[K * K];
    uint32_t place[K * K];
#pragma unroll
    for (int t = 0; t < K * K; t++) {
        const int y = min(max(y0 + t / K, 0), (int)w.in_h - 1);
        const int column = min(max(x0 + t % K, 0), (int)w.in_w - 1);
        place[t] = (uint32_t)((y - y0) * K + column - x0) * ops::ONE;
        x[t] = load<V>(image, (size_t)((uint32_t)y * w.in_w + (uint32_t)column) * packs + c);
    }
    uint32_t best[4], places[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        best[k] = x[0].words[k];
        places[k] = place[0];
#pragma unroll
        for (int t = 1; t < K * K; t++) {
            const uint32_t larger = ops::max(best[k], x[t].words[k]);
            const uint32_t keeps = ops::is_max(best[k], larger);
            places[k] = (keeps & places[k]) | (~keeps & place[t]);
            best[k] = larger;
        }
    }
    const size_t o = (size_t)row * w.out_w * packs + unit;
    reinterpret_cast<pack<T, V> *>(out)[o] = {{best[0], best[1], best[2], best[3]}};
    ops::store_places(which, o, places);
}

/* The windows over tile t of STRIDE x STRIDE input pixels, in one direction: they begin with window
 * t + FIRST, in which the tile is at place PAD - STRIDE * FIRST. */
template <int K, int PAD> struct windows {
    static constexpr int FIRST = (PAD - K + 1) / STRIDE, LAST = (PAD + 1) / STRIDE;
    static constexpr int NUM = LAST - FIRST + 1;
};

/* Adds a window's gradients to the pixels of the tile that were its maxima.  (y, x): the tile's
 * place in the window. */
template <int K, int V, typename T>
__device__ void gather(int y, int x, const pack<T, V> &diff, const pack<float, V / 4> &places,
                       float (&sums)[STRIDE * STRIDE][V])
{
#pragma unroll
    for (int e = 0; e < V; e++) {
        const int place = (int)(places.words[e / 4] >> (8 * (e % 4)) & 0xFF);
        const float value = diff.at(e);
#pragma unroll
        for (int p = 0; p < STRIDE * STRIDE; p++) {
            const int j = y + p / STRIDE, k = x + p % STRIDE;
            if (j >= 0 && k >= 0 && j < K && k < K && place == j * K + k)
                sums[p][e] += value;
        }
    }
}

/* A thread has a pack of each pixel of a tile, and gathers from the windows over it, in a fixed
 * order: scattering with atomics would add in any order. */
template <typename T, int K, int PAD>
__global__ void __launch_bounds__(ROW_BLOCK)
    maxpool_backward_kernel(const struct sluice_cuda_window w, unsigned chunks,
                            const T *__restrict__ diff_out, const uint8_t *__restrict__ which,
                            T *__restrict__ diff_in)
{
    using over = windows<K, PAD>;
    constexpr int V = WIDTH<T>, NUM = over::NUM;
    const uint32_t row = blockIdx.x / chunks, packs = w.c / V;
    const uint32_t unit = blockIdx.x % chunks * blockDim.x + threadIdx.x;
    const uint32_t tile_rows = (w.in_h + STRIDE - 1) / STRIDE, c = unit % packs;
    const uint32_t n = row / tile_rows, y = row % tile_rows, x = unit / packs;
    if (x * STRIDE >= w.in_w)
        return;
    const T *const diffs = diff_out + (size_t)n * w.out_h * w.out_w * w.c;
    const float *const places = (const float *)(which + (size_t)n * w.out_h * w.out_w * w.c);
    pack<T, V> diff[NUM * NUM];
    pack<float, V / 4> place[NUM * NUM]; /* V bytes */
#pragma unroll
    for (int t = 0; t < NUM * NUM; t++) {
        const uint32_t oy = y + (uint32_t)(over::FIRST + t / NUM);
        const uint32_t ox = x + (uint32_t)(over::FIRST + t % NUM);
        /* Beyond the border (below 0 is huge) no place matches. */
        const bool is_inside = oy < w.out_h && ox < w.out_w;
        const size_t o = is_inside ? (size_t)(oy * w.out_w + ox) * packs + c : c;
        diff[t] = load<V>(diffs, o);
        place[t] = load<V / 4>(places, o);
#pragma unroll
        for (int k = 0; k < V / 4; k++)
            place[t].words[k] = is_inside ? place[t].words[k] : ~0u;
    }
    float sums[STRIDE * STRIDE][V] = {};
#pragma unroll
    for (int t = 0; t < NUM * NUM; t++)
        gather<K>(PAD - STRIDE * (over::FIRST + t / NUM), PAD - STRIDE * (over::FIRST + t % NUM),
                  diff[t], place[t], sums);
#pragma unroll
    for (uint32_t p = 0; p < STRIDE * STRIDE; p++) {
        const uint32_t py = y * STRIDE + p / STRIDE, px = x * STRIDE + p % STRIDE;
        if (py < w.in_h && px < w.in_w)
            store(diff_in, (((size_t)n * w.in_h + py) * w.in_w + px) * packs + c, sums[p]);
    }
}

__device__ void bin(uint32_t i, uint32_t in, uint32_t out, uint32_t *start, uint32_t *end)
{
    *start = i * in / out; /* sides are at most 2^13 */
    *end = ((i + 1) * in + out - 1) / out;
}

/* A channel's pack at one place of an N x C x H x W tensor of `plane` places: V values `plane`
 * apart. */
template <typename T, int V>
__device__ void store_planes(T *to, size_t first, uint32_t plane, const float (&values)[V])
{
    if (plane == 1) {
        store(to, first / V, values);
        return;
    }
#pragma unroll
    for (int k = 0; k < V; k++)
        store(to, first + (size_t)k * plane, {values[k]});
}

template <int V, typename T>
__device__ void add_planes(const T *from, size_t first, uint32_t plane, float share,
                           float (&sums)[V])
{
    if (plane == 1) {
        const pack<T, V> x = load<V>(from, first / V);
#pragma unroll
        for (int k = 0; k < V; k++)
            sums[k] += x.at(k) * share;
        return;
    }
#pragma unroll
    for (int k = 0; k < V; k++)
        sums[k] += load<1>(from, first + (size_t)k * plane).at(0) * share;
}

/* A thread has a pack of an output. */
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    avgpool_kernel(const struct sluice_cuda_window w, uint32_t count, const T *__restrict__ in,
                   T *__restrict__ out)
{
    constexpr int V = WIDTH<T>;
    constexpr uint32_t TURN = 8; /* pixels that are loaded before the first is used */
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= count)
        return;
    const uint32_t packs = w.c / V, plane = w.out_h * w.out_w, c = i % packs;
    const uint32_t place = i / packs % plane;
    const size_t n = i / packs / plane;
    uint32_t y0, y1, x0, x1;
    bin(place / w.out_w, w.in_h, w.out_h, &y0, &y1);
    bin(place % w.out_w, w.in_w, w.out_w, &x0, &x1);
    const float share = 1 / (float)((y1 - y0) * (x1 - x0));
    float sums[V] = {};
    for (uint32_t y = y0; y < y1; y++) {
        const size_t row = (n * w.in_h + y) * w.in_w;
        for (uint32_t start = x0; start < x1; start += TURN) {
            pack<T, V> x[TURN];
#pragma unroll
            for (uint32_t t = 0; t < TURN; t++) {
                if (start + t < x1)
                    x[t] = load<V>(in, (row + start + t) * packs + c);
            }
#pragma unroll
            for (uint32_t t = 0; t < TURN; t++) {
#pragma unroll
                for (int k = 0; k < V; k++)
                    sums[k] += start + t < x1 ? x[t].at(k) : 0;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < V; k++)
        sums[k] *= share;
    store_planes(out, (n * w.c + (size_t)c * V) * plane + place, plane, sums);
}

/* A thread has a pack of an input. */
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    avgpool_backward_kernel(const struct sluice_cuda_window w, uint32_t count,
                            const T *__restrict__ diff_out, T *__restrict__ diff_in)
{
    constexpr int V = WIDTH<T>;
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= count)
        return;
    const uint32_t packs = w.c / V, plane = w.out_h * w.out_w, in_plane = w.in_h * w.in_w;
    const uint32_t c = i % packs, place = i / packs % in_plane;
    const size_t first = ((size_t)(i / packs / in_plane) * w.c + (size_t)c * V) * plane;
    /* The bins that hold row y are those that y's own bin in the other direction covers. */
    uint32_t oy0, oy1, ox0, ox1;
    bin(place / w.in_w, w.out_h, w.in_h, &oy0, &oy1);
    bin(place % w.in_w, w.out_w, w.in_w, &ox0, &ox1);
    float sums[V] = {};
    for (uint32_t oy = oy0; oy < oy1; oy++) {
        for (uint32_t ox = ox0; ox < ox1; ox++) {
            uint32_t y0, y1, x0, x1;
            bin(oy, w.in_h, w.out_h, &y0, &y1);
            bin(ox, w.in_w, w.out_w, &x0, &x1);
            add_planes<V>(diff_out, first + oy * w.out_w + ox, plane,
                          1 / (float)((y1 - y0) * (x1 - x0)), sums);
        }
    }
    store(diff_in, i, sums);
}

bool can_pool(const struct sluice_cuda_window &w)
{
    return w.c % 8 == 0 && w.stride == STRIDE && w.kernel >= 2 && w.kernel <= 3 &&
           w.pad <= w.kernel - 2;
}

} // namespace

cudaError_t sluice_cuda_maxpool(cudaStream_t stream, enum sluice_cuda_type type,
                                const struct sluice_cuda_window *window, size_t num_samples,
                                const void *in, void *out, uint8_t *which)
{
    const struct sluice_cuda_window w = *window;
    if (!can_pool(w))
        return cudaErrorInvalidValue;
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        const row_grid grid = rows_of(num_samples * w.out_h, (size_t)w.out_w * w.c / WIDTH<T>);
        const auto kernel = w.kernel == 2 ? maxpool_kernel<T, 2> : maxpool_kernel<T, 3>;
        kernel<<<grid.blocks, grid.threads, 0, stream>>>(w, grid.chunks, (const T *)in, (T *)out,
                                                         which);
        return cudaGetLastError();
    });
}

cudaError_t sluice_cuda_maxpool_backward(cudaStream_t stream, enum sluice_cuda_type type,
                                         const struct sluice_cuda_window *window,
                                         size_t num_samples, const void *diff_out,
                                         const uint8_t *which, void *diff_in)
{
    const struct sluice_cuda_window w = *window;
    if (!can_pool(w))
        return cudaErrorInvalidValue;
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        const row_grid grid = rows_of(num_samples * ceil_div(w.in_h, STRIDE),
                                      ceil_div(w.in_w, STRIDE) * w.c / WIDTH<T>);
        const auto kernel = w.kernel == 2 ? maxpool_backward_kernel<T, 2, 0>
                            : w.pad == 0  ? maxpool_backward_kernel<T, 3, 0>
                                          : maxpool_backward_kernel<T, 3, 1>;
        kernel<<<grid.blocks, grid.threads, 0, stream>>>(w, grid.chunks, (const T *)diff_out, which,
                                                         (T *)diff_in);
        return cudaGetLastError();
    });
}

cudaError_t sluice_cuda_avgpool(cudaStream_t stream, enum sluice_cuda_type type,
                                const struct sluice_cuda_window *window, size_t num_samples,
                                const void *in, void *out)
{
    const struct sluice_cuda_window w = *window;
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        const size_t count = num_samples * w.out_h * w.out_w * (w.c / WIDTH<T>);
        assert(w.c % 8 == 0 && count < UINT32_MAX - BLOCK);
        avgpool_kernel<<<(unsigned)ceil_div(count, BLOCK), BLOCK, 0, stream>>>(
            w, (uint32_t)count, (const T *)in, (T *)out);
        return cudaGetLastError();
    });
}

cudaError_t sluice_cuda_avgpool_backward(cudaStream_t stream, enum sluice_cuda_type type,
                                         const struct sluice_cuda_window *window,
                                         size_t num_samples, const void *diff_out, void *diff_in)
{
    const struct sluice_cuda_window w = *window;
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        const size_t count = num_samples * w.in_h * w.in_w * (w.c / WIDTH<T>);
        assert(w.c % 8 == 0 && count < UINT32_MAX - BLOCK);
        avgpool_backward_kernel<<<(unsigned)ceil_div(count, BLOCK), BLOCK, 0, stream>>>(
            w, (uint32_t)count, (const T *)diff_out, (T *)diff_in);
        return cudaGetLastError();
    });
}
