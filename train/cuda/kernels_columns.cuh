#ifndef SLUICE_TRAIN_CUDA_KERNELS_COLUMNS_CUH
#define SLUICE_TRAIN_CUDA_KERNELS_COLUMNS_CUH

#include "train/cuda/kernels_device.cuh"

/* Walks over matrices of rows x num_c values, whose columns are channels.  A thread stays at one
 * pack of columns, so that it keeps what belongs to its channels in registers.
 *
 * An Op says what is done with a pack: channels(op, col) loads what belongs to the columns of pack
 * `col` of a row, load_pack(i) reads pack i of the matrix (row by row), and add() or run() uses it.
 * Op::UNROLL packs are read before the first is used. */

constexpr unsigned COLUMN_THREADS = 256, COLUMN_BLOCKS = 2; /* COLUMN_BLOCKS on a multiprocessor */
/* 512 bytes, what a warp loads at once: wider tiles have more partial sums. */
constexpr unsigned MOST_COLUMNS = 32;
constexpr unsigned MAX_SUM_BLOCKS = 512;
/* Rows of a thread in a map: enough to pay for loading the channels. */
constexpr unsigned MAP_ROWS = 16;

/* A block has a tile of `cols` packs of a row, and reads `lanes` rows at once. */
struct columns {
    size_t rows;
    uint32_t packs, tiles, cols, lanes;
    uint32_t thread_rows; /* of a map */
};

static inline columns columns_of(size_t rows, size_t num_c, int width)
{
    columns m;
    m.rows = rows;
    m.packs = (uint32_t)(num_c / width);
    m.tiles = (uint32_t)ceil_div(m.packs, MOST_COLUMNS);
    m.cols = (uint32_t)ceil_div(m.packs, m.tiles);
    m.lanes = COLUMN_THREADS / m.cols;
    m.thread_rows = MAP_ROWS;
    return m;
}

template <int V>
__device__ void load_channels(const float *__restrict__ from, uint32_t col, float (&to)[V])
{
    constexpr int N = V < 4 ? V : 4;
#pragma unroll
    for (int k = 0; k < V; k += N) {
        const pack<float, N> part = load<N>(from, ((size_t)col * V + k) / N);
#pragma unroll
        for (int l = 0; l < N; l++)
            to[k + l] = part.at(l);
    }
}

/* Without the bounds of IS_FULL the loads are not bound to conditions, which would let the compiler
 * put each of them right before its use. */
template <bool IS_FULL, typename Op>
__device__ void add_packs(const Op &op, const typename Op::channels &channels, size_t i,
                          size_t stride, size_t end, float2 (&sums)[Op::V])
{
    typename Op::loaded x[Op::UNROLL];
#pragma unroll
    for (int u = 0; u < Op::UNROLL; u++) {
        if (IS_FULL || i + u * stride < end)
            x[u] = op.load_pack(i + u * stride);
    }
#pragma unroll
    for (int u = 0; u < Op::UNROLL; u++) {
        if (IS_FULL || i + u * stride < end)
            op.add(i + u * stride, x[u], channels, sums);
    }
}

/* The first of two stages: two sums for each column over the rows of a block.  One wave of blocks
 * walks through the matrix, so that few partial sums are left.  A thread adds some hundred rows in
 * float32; from there on sums are double. */
template <typename Op>
__global__ void __launch_bounds__(COLUMN_THREADS, COLUMN_BLOCKS)
    column_sums_kernel(const Op op, const columns m, double2 *__restrict__ partials)
{
    constexpr int V = Op::V;
    __shared__ float2 shared[COLUMN_THREADS * V];
    const uint32_t lane = threadIdx.x / m.cols;
    const uint32_t col = blockIdx.y * m.cols + threadIdx.x % m.cols;
    float2 sums[V] = {};
    if (lane < m.lanes && col < m.packs) {
        const typename Op::channels channels(op, col);
        const size_t stride = (size_t)gridDim.x * m.lanes * m.packs, end = m.rows * m.packs;
        size_t i = ((size_t)blockIdx.x * m.lanes + lane) * m.packs + col;
        for (; i + (Op::UNROLL - 1) * stride < end; i += Op::UNROLL * stride)
            add_packs<true>(op, channels, i, stride, end, sums);
        add_packs<false>(op, channels, i, stride, end, sums);
    }
#pragma unroll
    for (int k = 0; k < V; k++)
        shared[threadIdx.x * V + k] = sums[k];
    __syncthreads();
    const uint32_t c = blockIdx.y * m.cols * V + threadIdx.x;
    if (threadIdx.x >= m.cols * V || c >= m.packs * V)
        return;
    double2 total = {0, 0};
    for (uint32_t j = 0; j < m.lanes; j++) {
        const float2 part = shared[j * m.cols * V + threadIdx.x];
        total.x += part.x;
        total.y += part.y;
    }
    partials[(size_t)blockIdx.x * m.packs * V + c] = total;
}

/* The second stage: a warp adds the partial sums of a column, and finish(c, sums) makes of them
 * what is wanted. */
template <typename Finish>
__global__ void __launch_bounds__(BLOCK)
    column_finish_kernel(const Finish finish, unsigned num_partials, size_t num_c,
                         const double2 *__restrict__ partials)
{
    const size_t c = ((size_t)blockIdx.x * BLOCK + threadIdx.x) / 32;
    const unsigned lane = threadIdx.x % 32;
    double2 sums = {0, 0};
    if (c < num_c) {
#pragma unroll 4
        for (unsigned i = lane; i < num_partials; i += 32) {
            const double2 part = partials[i * num_c + c];
            sums.x += part.x;
            sums.y += part.y;
        }
    }
    for (unsigned offset = 16; offset > 0; offset /= 2) {
        sums.x += __shfl_xor_sync(~0u, sums.x, offset);
        sums.y += __shfl_xor_sync(~0u, sums.y, offset);
    }
    if (lane == 0 && c < num_c)
        finish(c, sums);
}

template <typename Op, typename Finish>
static cudaError_t column_sums(cudaStream_t stream, const Op &op, const Finish &finish, size_t rows,
                               size_t num_c, double *scratch)
{
    const columns m = columns_of(rows, num_c, Op::V);
    unsigned blocks = num_multiprocessors() * COLUMN_BLOCKS;
    blocks = (blocks < MAX_SUM_BLOCKS ? blocks : MAX_SUM_BLOCKS) / m.tiles;
    const size_t most = ceil_div(rows, m.lanes);
    if (blocks > most)
        blocks = (unsigned)most;
    if (blocks == 0)
        blocks = 1;
    double2 *partials = (double2 *)scratch;
    column_sums_kernel<<<dim3(blocks, m.tiles), COLUMN_THREADS, 0, stream>>>(op, m, partials);
    column_finish_kernel<<<(unsigned)ceil_div(num_c, BLOCK / 32), BLOCK, 0, stream>>>(
        finish, blocks, num_c, partials);
    return cudaGetLastError();
}

template <bool IS_FULL, typename Op>
__device__ void run_packs(const Op &op, const typename Op::channels &channels, size_t i,
                          size_t stride, size_t end)
{
    typename Op::loaded x[Op::UNROLL];
#pragma unroll
    for (int u = 0; u < Op::UNROLL; u++) {
        if (IS_FULL || i + u * stride < end)
            x[u] = op.load_pack(i + u * stride);
    }
#pragma unroll
    for (int u = 0; u < Op::UNROLL; u++) {
        if (IS_FULL || i + u * stride < end)
            op.run(i + u * stride, x[u], channels);
    }
}

/* Runs op on every pack.  Blocks take the rows from the last to the first: where column_sums() went
 * before, the last are still in the L2 cache. */
template <typename Op>
__global__ void __launch_bounds__(COLUMN_THREADS, COLUMN_BLOCKS)
    column_map_kernel(const Op op, const columns m)
{
    const uint32_t lane = threadIdx.x / m.cols;
    const uint32_t col = blockIdx.y * m.cols + threadIdx.x % m.cols;
    if (lane >= m.lanes || col >= m.packs)
        return;
    const typename Op::channels channels(op, col);
    const size_t stride = (size_t)m.lanes * m.packs, end = m.rows * m.packs;
    const size_t block = gridDim.x - 1 - blockIdx.x;
    size_t i = (block * m.thread_rows * m.lanes + lane) * m.packs + col;
#pragma unroll 1
    for (uint32_t row = 0; row < m.thread_rows; row += Op::UNROLL) {
        if (i + (Op::UNROLL - 1) * stride < end)
            run_packs<true>(op, channels, i, stride, end);
        else
            run_packs<false>(op, channels, i, stride, end);
        i += Op::UNROLL * stride;
    }
}

template <typename Op>
static cudaError_t column_map(cudaStream_t stream, const Op &op, size_t rows, size_t num_c)
{
    static_assert(MAP_ROWS % Op::UNROLL == 0, "a thread's rows are whole turns");
    columns m = columns_of(rows, num_c, Op::V);
    /* Fewer rows where there would be fewer than four waves of blocks. */
    const size_t wanted = (size_t)num_multiprocessors() * COLUMN_BLOCKS * 4;
    while (m.thread_rows > Op::UNROLL &&
           ceil_div(rows, (size_t)m.lanes * m.thread_rows) * m.tiles < wanted)
        m.thread_rows /= 2;
    const unsigned blocks = (unsigned)ceil_div(rows, (size_t)m.lanes * m.thread_rows);
    column_map_kernel<<<dim3(blocks, m.tiles), COLUMN_THREADS, 0, stream>>>(op, m);
    return cudaGetLastError();
}

#endif
