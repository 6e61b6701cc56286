#include "bench/bench_train_parts.h"

#include "bench/bench.h"
#include "train/cuda/kernels_cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The CUDA trainer's kernels at the models' shapes, beside a copy on the device of as many bytes.
 * A graph of launches is replayed, each on the next part of large buffers, so that the L2 cache
 * holds nothing of it. */

enum { BATCH = 256, LAUNCHES = 16, ROUNDS = 7, NUM_BUFFERS = 6 };

#define BUFFER_BYTES ((size_t)1700 << 20) /* vgg's first tensor in bf16, and some */

static const enum sluice_cuda_type bf16 = SLUICE_CUDA_BF16;

struct bench {
    cudaStream_t stream;
    uint8_t *buffers[NUM_BUFFERS];
    float *arrays[8]; /* of channels */
    double *scratch;
    struct sluice_cuda_step *step;
    struct sluice_cuda_sums *sums;
    struct sluice_mix_row *rows;
    uint32_t *is_bad, *labels;
    float *table, *quantiles;
    double copy_rate; /* bytes read and written, per second */
    struct bench_report report;
};

/* A part's arguments. */
struct shape {
    size_t rows;
    uint32_t num_c, side, out_side, kernel, pad;
};

struct part {
    const char *name;
    cudaError_t (*run)(const struct bench *b, const struct shape *s, uint8_t *const *at);
    double bytes_per_value; /* of rows x num_c values */
};

static void must(cudaError_t error)
{
    if (error != cudaSuccess)
        bench_die("%s", cudaGetErrorString(error));
}

static void *allocate(size_t bytes)
{
    void *memory = NULL;
    must(cudaMalloc(&memory, bytes));
    must(cudaMemset(memory, 0, bytes));
    return memory;
}

static struct sluice_cuda_norm norm_of(const struct bench *b, const struct shape *s)
{
    return (struct sluice_cuda_norm){
        .num_c = s->num_c,
        .weight = b->arrays[0],
        .bias = b->arrays[1],
        .running_mean = b->arrays[2],
        .running_var = b->arrays[3],
        .mean = b->arrays[4],
        .inverse_deviation = b->arrays[5],
        .epsilon = 1e-5,
        .momentum = 0.1,
        .relu = true,
        .scratch = b->scratch,
    };
}

static struct sluice_cuda_window window_of(const struct shape *s)
{
    return (struct sluice_cuda_window){.c = s->num_c,
                                       .in_h = s->side,
                                       .in_w = s->side,
                                       .out_h = s->out_side,
                                       .out_w = s->out_side,
                                       .kernel = s->kernel,
                                       .stride = 2,
                                       .pad = s->pad};
}

static cudaError_t norm_train(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    const struct sluice_cuda_norm norm = norm_of(b, s);
    return sluice_cuda_norm_train(b->stream, bf16, &norm, s->rows, at[0], NULL, at[1]);
}

static cudaError_t norm_train_add(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    const struct sluice_cuda_norm norm = norm_of(b, s);
    return sluice_cuda_norm_train(b->stream, bf16, &norm, s->rows, at[0], at[2], at[1]);
}

static cudaError_t norm_evaluate(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    const struct sluice_cuda_norm norm = norm_of(b, s);
    return sluice_cuda_norm_evaluate(b->stream, bf16, &norm, s->rows, at[0], NULL, at[1]);
}

static cudaError_t norm_backward(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    const struct sluice_cuda_norm norm = norm_of(b, s);
    return sluice_cuda_norm_backward(b->stream, bf16, &norm, s->rows, at[0], NULL, at[1], NULL,
                                     NULL, at[2], b->arrays[6], b->arrays[7]);
}

/* At the end of a block: the output decides, both gradients are added, and go on as diff_add. */
static cudaError_t norm_backward_add(const struct bench *b, const struct shape *s,
                                     uint8_t *const *at)
{
    const struct sluice_cuda_norm norm = norm_of(b, s);
    return sluice_cuda_norm_backward(b->stream, bf16, &norm, s->rows, at[0], at[1], at[2], at[3],
                                     at[4], at[5], b->arrays[6], b->arrays[7]);
}

static cudaError_t maxpool(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    const struct sluice_cuda_window window = window_of(s);
    return sluice_cuda_maxpool(b->stream, bf16, &window, BATCH, at[0], at[1], at[2]);
}

/* Places that match no pixel take as long. */
static cudaError_t maxpool_backward(const struct bench *b, const struct shape *s,
                                    uint8_t *const *at)
{
    const struct sluice_cuda_window window = window_of(s);
    return sluice_cuda_maxpool_backward(b->stream, bf16, &window, BATCH, at[1], at[2], at[0]);
}

static cudaError_t avgpool(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    const struct sluice_cuda_window window = window_of(s);
    return sluice_cuda_avgpool(b->stream, bf16, &window, BATCH, at[0], at[1]);
}

static cudaError_t avgpool_backward(const struct bench *b, const struct shape *s,
                                    uint8_t *const *at)
{
    const struct sluice_cuda_window window = window_of(s);
    return sluice_cuda_avgpool_backward(b->stream, bf16, &window, BATCH, at[1], at[0]);
}

static cudaError_t input(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    return sluice_cuda_input(b->stream, bf16, at[0], b->table, at[1], s->rows, s->num_c, b->is_bad);
}

static cudaError_t mix_input(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    return sluice_cuda_mix_input(b->stream, bf16, b->step, b->rows, at[0], b->table, b->quantiles,
                                 at[1], BATCH, s->num_c, b->is_bad);
}

static cudaError_t bias(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    return sluice_cuda_bias(b->stream, bf16, at[0], b->arrays[1], s->rows * s->num_c, s->num_c,
                            true);
}

static cudaError_t bias_backward(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    return sluice_cuda_bias_backward(b->stream, bf16, at[0], at[1], s->rows, s->num_c, b->arrays[6],
                                     b->scratch);
}

static cudaError_t relu(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    return sluice_cuda_relu(b->stream, bf16, at[0], s->rows * s->num_c);
}

static cudaError_t add(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    return sluice_cuda_add(b->stream, bf16, at[0], at[1], s->rows * s->num_c);
}

static cudaError_t dropout(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    return sluice_cuda_dropout(b->stream, bf16, at[0], s->rows * s->num_c, 1, b->step, 2, 0.5);
}

static cudaError_t nonfinite(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    return sluice_cuda_flag_nonfinite(b->stream, bf16, at[0], s->rows * s->num_c, b->is_bad + 1);
}

static cudaError_t to_float(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    return sluice_cuda_to_float(b->stream, at[0], (float *)at[1], s->rows * s->num_c);
}

static cudaError_t from_float(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    return sluice_cuda_from_float(b->stream, (const float *)at[0], at[1], s->rows * s->num_c);
}

static cudaError_t sgd(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    return sluice_cuda_sgd(b->stream, (float *)at[0], (float *)at[1], (const float *)at[2], at[3],
                           s->rows * s->num_c, b->step, 0.9f, 1e-4f, b->is_bad);
}

static cudaError_t loss(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    return sluice_cuda_loss(b->stream, bf16, (const float *)at[0], b->labels, s->rows, s->num_c,
                            at[1], b->sums + 1, b->sums, b->is_bad);
}

static cudaError_t copy(const struct bench *b, const struct shape *s, uint8_t *const *at)
{
    return cudaMemcpyAsync(at[1], at[0], s->rows * s->num_c * 2, cudaMemcpyDeviceToDevice,
                           b->stream);
}

/* Seconds of one launch: the median of the rounds. */
static double measure(const struct bench *b, const struct part *part, const struct shape *s)
{
    /* At most 4 bytes for a value. */
    const size_t bytes = (s->rows * s->num_c * 4 + 255) / 256 * 256;
    const size_t num_places = BUFFER_BYTES / bytes > 0 ? BUFFER_BYTES / bytes : 1;
    double seconds[ROUNDS];
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t start, end;
    must(cudaEventCreate(&start));
    must(cudaEventCreate(&end));
    must(cudaStreamBeginCapture(b->stream, cudaStreamCaptureModeGlobal));
    for (size_t i = 0; i < LAUNCHES; i++) {
        uint8_t *at[NUM_BUFFERS];
        for (size_t k = 0; k < NUM_BUFFERS; k++)
            at[k] = b->buffers[k] + i % num_places * bytes;
        must(part->run(b, s, at));
    }
    must(cudaStreamEndCapture(b->stream, &graph));
    must(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = -1; round < ROUNDS; round++) { /* the first one warms up */
        float ms = 0;
        must(cudaEventRecord(start, b->stream));
        must(cudaGraphLaunch(exec, b->stream));
        must(cudaEventRecord(end, b->stream));
        must(cudaEventSynchronize(end));
        must(cudaEventElapsedTime(&ms, start, end));
        if (round >= 0)
            seconds[round] = ms / 1e3 / LAUNCHES;
    }
    must(cudaGraphExecDestroy(exec));
    must(cudaGraphDestroy(graph));
    must(cudaEventDestroy(start));
    must(cudaEventDestroy(end));
    return bench_quantile(seconds, ROUNDS, 0.5);
}

static void run_part(struct bench *b, const struct part *part, const struct shape *s)
{
    char name[64];
    const double bytes = part->bytes_per_value * (double)s->rows * s->num_c;
    const double seconds = measure(b, part, s);
    snprintf(name, sizeof(name), "%s %zu x %u", part->name, s->rows, s->num_c);
    bench_row_begin(&b->report, name);
    bench_row_number(&b->report, "us", 1, seconds * 1e6);
    bench_row_number(&b->report, "bytes", 0, bytes);
    bench_row_number(&b->report, "reference_us", 1, bytes / b->copy_rate * 1e6);
    bench_row_number(&b->report, "ratio", 2, bytes / b->copy_rate / seconds);
    bench_row_number(&b->report, "gb_per_s", 0, bytes / seconds / 1e9);
    bench_row_end(&b->report);
}

/* resnet50's batch norms; of the wide ones the first is in each block's branch, too. */
static void run_norms(struct bench *b)
{
    static const struct part parts[] = {{"norm_train", norm_train, 6},
                                        {"norm_train add", norm_train_add, 8},
                                        {"norm_evaluate", norm_evaluate, 4},
                                        {"norm_backward", norm_backward, 10},
                                        {"norm_backward add", norm_backward_add, 16}};
    static const struct shape shapes[] = {
        {.rows = 3211264, .num_c = 64}, {.rows = 802816, .num_c = 64},
        {.rows = 802816, .num_c = 256}, {.rows = 200704, .num_c = 128},
        {.rows = 200704, .num_c = 512}, {.rows = 50176, .num_c = 256},
        {.rows = 50176, .num_c = 1024}, {.rows = 12544, .num_c = 512},
        {.rows = 12544, .num_c = 2048}};
    for (size_t p = 0; p < SLUICE_ARRAY_LEN(parts); p++) {
        for (size_t i = 0; i < SLUICE_ARRAY_LEN(shapes); i++)
            run_part(b, &parts[p], &shapes[i]);
    }
}

static void run_pools(struct bench *b)
{
    static const struct shape maxpools[] = {
        {0, 64, 112, 56, 3, 1}, /* resnet */
        {0, 64, 224, 112, 2, 0}, {0, 128, 112, 56, 2, 0}, {0, 256, 56, 28, 2, 0},
        {0, 512, 28, 14, 2, 0},  {0, 512, 14, 7, 2, 0},                          /* vgg */
        {0, 64, 55, 27, 3, 0},   {0, 192, 27, 13, 3, 0},  {0, 256, 13, 6, 3, 0}, /* alexnet */
    };
    static const struct shape avgpools[] = {
        {0, 2048, 7, 1, 0, 0}, {0, 512, 7, 7, 0, 0}, {0, 256, 6, 6, 0, 0}};
    for (int is_backward = 0; is_backward < 2; is_backward++) {
        for (size_t i = 0; i < SLUICE_ARRAY_LEN(maxpools); i++) {
            struct shape s = maxpools[i];
            s.rows = (size_t)BATCH * s.side * s.side;
            const double share = (double)(s.out_side * s.out_side) / (s.side * s.side);
            const struct part part = {is_backward ? "maxpool_backward" : "maxpool",
                                      is_backward ? maxpool_backward : maxpool, 2 + 3 * share};
            run_part(b, &part, &s);
        }
        for (size_t i = 0; i < SLUICE_ARRAY_LEN(avgpools); i++) {
            struct shape s = avgpools[i];
            s.rows = (size_t)BATCH * s.side * s.side;
            const double share = (double)(s.out_side * s.out_side) / (s.side * s.side);
            const struct part part = {is_backward ? "avgpool_backward" : "avgpool",
                                      is_backward ? avgpool_backward : avgpool, 2 + 2 * share};
            run_part(b, &part, &s);
        }
    }
}

static void run_others(struct bench *b)
{
    static const struct shape wide = {.rows = 802816, .num_c = 256};
    static const struct shape pixels = {.rows = 12845056, .num_c = 8};
    static const struct shape params = {.rows = 25557032 / 8, .num_c = 8};
    static const struct shape classes = {.rows = BATCH, .num_c = 1000};
    static const struct shape hidden = {.rows = BATCH, .num_c = 4096};
    const struct {
        struct part part;
        const struct shape *shape;
    } parts[] = {
        {{"input", input, 2 + 3.0 / 8}, &pixels},
        {{"mix_input", mix_input, 2 + 6.0 / 8}, &pixels},
        {{"bias", bias, 4}, &wide},
        {{"bias_backward", bias_backward, 6}, &wide},
        {{"relu", relu, 4}, &wide},
        {{"add", add, 6}, &wide},
        {{"flag_nonfinite", nonfinite, 2}, &wide},
        {{"dropout", dropout, 4}, &wide},
        {{"dropout", dropout, 4}, &hidden},
        {{"to_float", to_float, 6}, &params},
        {{"from_float", from_float, 6}, &params},
        {{"sgd", sgd, 22}, &params},
        {{"loss", loss, 6}, &classes},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(parts); i++)
        run_part(b, &parts[i].part, parts[i].shape);
}

/* Numbers in [-2, 2) as bf16, and as float32 of two bf16; of the channels, too. */
static void fill(struct bench *b)
{
    enum { FILL = 1 << 23 };
    uint16_t *values = bench_alloc(FILL, sizeof(*values));
    uint32_t state = 1;
    for (size_t i = 0; i < FILL; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (uint16_t)((state >> 31 << 15) | (0x3F00 + (state >> 16 & 0xFF)));
    }
    for (size_t k = 0; k < NUM_BUFFERS; k++) {
        for (size_t at = 0; at < BUFFER_BYTES; at += FILL * sizeof(*values)) {
            const size_t rest = BUFFER_BYTES - at, all = FILL * sizeof(*values);
            must(cudaMemcpy(b->buffers[k] + at, values, rest < all ? rest : all,
                            cudaMemcpyHostToDevice));
        }
    }
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(b->arrays); k++)
        must(cudaMemcpy(b->arrays[k], values, 4096 * sizeof(float), cudaMemcpyHostToDevice));
    must(cudaMemcpy(b->table, values, 768 * sizeof(float), cudaMemcpyHostToDevice));
    free(values);
}

static void prepare(struct bench *b)
{
    const struct sluice_cuda_step step = {.step = 1,
                                          .lr = 0.01f,
                                          .mix = {.n = BATCH,
                                                  .image_height = 224,
                                                  .image_width = 224,
                                                  .kind = SLUICE_MIX_MIXUP,
                                                  .own = 0.7f,
                                                  .other = 0.3f}};
    must(cudaStreamCreate(&b->stream));
    for (size_t k = 0; k < NUM_BUFFERS; k++)
        b->buffers[k] = allocate(BUFFER_BYTES);
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(b->arrays); k++)
        b->arrays[k] = allocate(4096 * sizeof(float));
    b->scratch = allocate(sluice_cuda_scratch(4096));
    b->step = allocate(sizeof(step));
    must(cudaMemcpy(b->step, &step, sizeof(step), cudaMemcpyHostToDevice));
    b->sums = allocate((BATCH + 1) * sizeof(*b->sums));
    b->rows = allocate(BATCH * sizeof(*b->rows));
    b->is_bad = allocate(2 * sizeof(*b->is_bad));
    b->labels = allocate(BATCH * sizeof(*b->labels));
    b->table = allocate(768 * sizeof(float));
    b->quantiles = allocate(65536 * sizeof(float));
    fill(b);
}

void bench_train_parts(bool is_json)
{
    struct bench b = {.copy_rate = NAN, .report = {.is_json = is_json}};
    struct cudaDeviceProp device;
    must(cudaGetDeviceProperties(&device, 0));
    fprintf(stderr, "%s, %d multiprocessors\n", device.name, device.multiProcessorCount);
    prepare(&b);
    static const struct part copies = {"copy", copy, 4};
    static const struct shape large = {.rows = 3211264, .num_c = 128};
    b.copy_rate = 4.0 * (double)large.rows * large.num_c / measure(&b, &copies, &large);
    run_part(&b, &copies, &large);
    run_norms(&b);
    run_pools(&b);
    run_others(&b);
}
