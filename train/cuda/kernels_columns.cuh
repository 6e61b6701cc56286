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

/* A block has a tile of `cols` packs of a row, and reads `lanes` rows at once.  The tiles of the
 * same rows follow each other, so that they are read at about the same time. */
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

/* A thread's place in its block and in a row, and the block's among those of its tile. */
struct column_place {
    uint32_t lane, col, block, tile;
    __device__ column_place(const columns &m)
    {
        block = blockIdx.x / m.tiles;
        tile = blockIdx.x % m.tiles;
        lane = threadIdx.x / m.cols;
        col = tile * m.cols + threadIdx.x % m.cols;
    }
    __device__ bool is_used(const columns &m) const
    {
        return lane < m.lanes && col < m.packs;
    }
};

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

/* The first of two stages: two sums for each column over the rows of a block.  One wave of blocks
 * walks through the matrix, so that few partial sums are left.  A thread adds some hundred rows in
 * float32; from there on sums are double. */
template <typename Op>
__global__ void __launch_bounds__(COLUMN_THREADS, COLUMN_BLOCKS)
    column_sums_kernel(const Op op, const columns m, double2 *__restrict__ partials)
{
    constexpr int V = Op::V;
    static_assert(MOST_COLUMNS * V <= COLUMN_THREADS, "a thread for each column of a tile");
    __shared__ float2 shared[COLUMN_THREADS * V];
    const column_place at(m);
    float2 sums[V] = {};
    if (at.is_used(m)) {
        const typename Op::channels channels(op, at.col);
        const size_t lanes = (size_t)(gridDim.x / m.tiles) * m.lanes;
        const size_t stride = lanes * m.packs, end = m.rows * m.packs;
        size_t i = ((size_t)at.block * m.lanes + at.lane) * m.packs + at.col;
        for (; i < end; i += Op::UNROLL * stride)
            take_packs<Op::UNROLL>(
                i, stride, end, [&](size_t k) { return op.load_pack(k); },
                [&](size_t k, const auto &x) { op.add(k, x, channels, sums); });
    }
#pragma unroll
    for (int k = 0; k < V; k++)
        shared[threadIdx.x * V + k] = sums[k];
    __syncthreads();
    const uint32_t c = at.tile * m.cols * V + threadIdx.x;
    if (threadIdx.x >= m.cols * V || c >= m.packs * V)
        return;
    double2 total = {0, 0};
    for (uint32_t j = 0; j < m.lanes; j++) {
        const float2 part = shared[j * m.cols * V + threadIdx.x];
        total.x += part.x;
        total.y += part.y;
    }
    partials[(size_t)at.block * m.packs * V + c] = total;
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
    column_sums_kernel<<<blocks * m.tiles, COLUMN_THREADS, 0, stream>>>(op, m, partials);
    column_finish_kernel<<<(unsigned)ceil_div(num_c, BLOCK / 32), BLOCK, 0, stream>>>(
        finish, blocks, num_c, partials);
    return cudaGetLastError();
}

/* Runs op on every pack.  Blocks take the rows from the last to the first: where column_sums() went
 * before, the last are still in the L2 cache. */
template <typename Op>
__global__ void __launch_bounds__(COLUMN_THREADS, COLUMN_BLOCKS)
    column_map_kernel(const Op op, const columns m)
{
    const column_place at(m);
    if (!at.is_used(m))
        return;
    const typename Op::channels channels(op, at.col);
    const size_t stride = (size_t)m.lanes * m.packs, end = m.rows * m.packs;
    const size_t block = gridDim.x / m.tiles - 1 - at.block;
    size_t i = (block * m.thread_rows * m.lanes + at.lane) * m.packs + at.col;
#pragma unroll 1
    for (uint32_t row = 0; row < m.thread_rows; row += Op::UNROLL, i += Op::UNROLL * stride)
        take_packs<Op::UNROLL>(
            i, stride, end, [&](size_t k) { return op.load_pack(k); },
            [&](size_t k, const auto &x) { op.run(k, x, channels); });
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
    column_map_kernel<<<blocks * m.tiles, COLUMN_THREADS, 0, stream>>>(op, m);
    return cudaGetLastError();
}

#endif
