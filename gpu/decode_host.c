#include "gpu/decode_host.h"

#include "gpu/decode_kernels.h"
#include "gpu/hash_kernels.h"
#include "gpu/pixel_kernels.h"
#include "gpu/resize_kernels.h"

#include <stdlib.h>

/* At least one byte, so that NULL is always a failure. */
static void *alloc(uint64_t count, size_t size, bool is_zeroed)
{
    count += !count;
    return is_zeroed ? calloc(count, size) : malloc(count * size);
}

static const struct sluice_gpu_index *sums_of(const struct sluice_gpu_memory *memory)
{
    return (const struct sluice_gpu_index *)(const void *)memory->upload + memory->num_samples;
}

/* View `number` of all samples'. */
static const struct sluice_gpu_view *view_at(const struct sluice_gpu_memory *memory,
                                             uint32_t number)
{
    return sluice_gpu_view_of(sluice_gpu_sample_of(memory, number / memory->num_views),
                              number % memory->num_views);
}

static void decode(const struct sluice_gpu_memory *memory, struct sluice_gpu_decode_shared *shared)
{
    for (uint32_t i = 0; i < sums_of(memory)->decode_tasks; i++) {
        uint32_t number, task = i;
        SLUICE_GPU_FIND(memory, task, decode_tasks, number);
        const struct sluice_gpu_sample *sample = sluice_gpu_sample_of(memory, number);
        sluice_gpu_decode_prepare(shared, sample, 0, 1);
        sluice_gpu_decode_fill(shared, sample, 0, 1);
        for (uint32_t t = 0; t < SLUICE_GPU_SEGMENTS_IN_TASK; t++) {
            const uint32_t segment = task * SLUICE_GPU_SEGMENTS_IN_TASK + t;
            if (segment < sample->num_segments &&
                !sluice_gpu_decode_segment(memory, sample, shared, segment, t))
                memory->faults[number] = 1;
        }
    }
}

static void transform(const struct sluice_gpu_memory *memory,
                      struct sluice_gpu_transform_shared *shared)
{
    for (uint32_t i = 0; i < sums_of(memory)->transform_tasks; i++) {
        uint32_t number, task = i;
        SLUICE_GPU_FIND(memory, task, transform_tasks, number);
        const struct sluice_gpu_sample *sample = sluice_gpu_sample_of(memory, number);
        for (uint32_t t = 0; t < SLUICE_GPU_BLOCKS_IN_TASK * 8; t++) {
            const struct sluice_gpu_line line = sluice_gpu_transform_line(sample, task, t);
            if (line.plane && !sluice_gpu_transform_columns(memory, shared, &line))
                memory->faults[number] = 1;
        }
        for (uint32_t t = 0; t < SLUICE_GPU_BLOCKS_IN_TASK * 8; t++) {
            const struct sluice_gpu_line line = sluice_gpu_transform_line(sample, task, t);
            if (line.plane && !sluice_gpu_transform_rows(memory, shared, &line))
                memory->faults[number] = 1;
        }
    }
}

static void weigh(const struct sluice_gpu_memory *memory)
{
    for (uint32_t i = 0; i < memory->num_samples * memory->num_views; i++) {
        const struct sluice_gpu_view *view = view_at(memory, i);
        for (uint32_t o = 0; o < view->across.count; o++)
            sluice_gpu_weigh(memory, &view->across, (int)view->is_flipped, o);
        for (uint32_t o = 0; o < view->down.count; o++)
            sluice_gpu_weigh(memory, &view->down, 0, o);
    }
}

static void across(const struct sluice_gpu_memory *memory, struct sluice_gpu_across_shared *shared)
{
    for (uint32_t i = 0; i < sums_of(memory)->across_tasks; i++) {
        uint32_t number, task = i;
        SLUICE_GPU_FIND(memory, task, across_tasks, number);
        const struct sluice_gpu_sample *sample = sluice_gpu_sample_of(memory, number);
        const struct sluice_gpu_view *view = sluice_gpu_across_view(sample, &task);
        const struct sluice_gpu_across work = sluice_gpu_across_task(memory, sample, view, task);
        for (uint32_t t = 0; t < SLUICE_GPU_ACROSS_THREADS; t++)
            sluice_gpu_across_chroma(memory, sample, view, &work, shared, t);
        for (uint32_t t = 0; t < SLUICE_GPU_ACROSS_THREADS; t++)
            sluice_gpu_across_load(memory, sample, view, &work, shared, t);
        for (uint32_t t = 0; t < SLUICE_GPU_ACROSS_THREADS; t++)
            sluice_gpu_across_weights(memory, view, &work, shared, t);
        for (uint32_t t = 0; t < SLUICE_GPU_ACROSS_THREADS; t++)
            sluice_gpu_across_sum(memory, view, &work, shared, t);
    }
}

static void down(const struct sluice_gpu_memory *memory)
{
    for (uint32_t i = 0; i < memory->num_samples * memory->num_views; i++) {
        const struct sluice_gpu_sample *sample =
            sluice_gpu_sample_of(memory, i / memory->num_views);
        const struct sluice_gpu_view *view = view_at(memory, i);
        for (uint32_t y = 0; y < view->down.count; y++) {
            for (uint32_t x = 0; x < view->across.count; x += SLUICE_GPU_DOWN_PIXELS)
                sluice_gpu_down(memory, sample, view, x, y);
        }
    }
}

/* The threads of a block, which run as a loop. */
#define NUM_THREADS 32

static void run_call(struct sluice_gpu_pixels *pixels, const struct sluice_kernel_call *call)
{
    const uint32_t num_phases = sluice_gpu_num_phases(call->kernel);
    for (uint32_t phase = 0; phase < num_phases; phase++) {
        for (uint32_t t = 0; t < NUM_THREADS; t++) {
            pixels->thread = t;
            sluice_gpu_run_phase(pixels, call, phase);
        }
    }
}

static void run_calls(const struct sluice_gpu_memory *memory,
                      struct sluice_gpu_pixels_shared *shared)
{
    for (uint32_t i = 0; i < memory->num_samples * memory->num_views; i++) {
        const struct sluice_gpu_sample *sample =
            sluice_gpu_sample_of(memory, i / memory->num_views);
        const struct sluice_gpu_view *view = view_at(memory, i);
        struct sluice_gpu_pixels pixels =
            sluice_gpu_pixels_init(memory, sample, view, shared, 0, NUM_THREADS);
        for (uint32_t at = 0; at < view->calls_bytes;) {
            const struct sluice_kernel_call *call = sluice_gpu_call_of(sample, view, at);
            run_call(&pixels, call);
            at += call->bytes;
        }
    }
}

sluice_status sluice_gpu_decode_host(const struct sluice_gpu_batch *batch, uint8_t *rows,
                                     sluice_status *statuses, struct sluice_err *err)
{
    union {
        struct sluice_gpu_decode_shared decode;
        struct sluice_gpu_transform_shared transform;
        struct sluice_gpu_across_shared across;
        struct sluice_gpu_pixels_shared pixels;
    } *shared = malloc(sizeof(*shared));
    struct sluice_gpu_memory memory = {
        .upload = batch->upload,
        .coefficients = alloc(batch->used.blocks, 64 * sizeof(int16_t), true),
        .samples = alloc(batch->used.blocks, 64, false),
        .weights = alloc(batch->used.weights, sizeof(int32_t), false),
        .pixels = alloc(batch->used.pixels, sizeof(uint32_t), false),
        .rows = rows,
        .faults = alloc(batch->num_samples, sizeof(uint32_t), true),
        .capacity = batch->limits.max_samples,
        .num_samples = batch->num_samples,
        .num_views = batch->limits.num_views,
    };
    sluice_status status = SLUICE_OK;
    if (shared && memory.coefficients && memory.samples && memory.weights && memory.pixels &&
        memory.faults) {
        decode(&memory, &shared->decode);
        transform(&memory, &shared->transform);
        weigh(&memory);
        across(&memory, &shared->across);
        down(&memory);
        run_calls(&memory, &shared->pixels);
        for (uint32_t i = 0; i < batch->num_samples; i++)
            statuses[i] = memory.faults[i] ? SLUICE_E_CORRUPT : SLUICE_OK;
    } else {
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to decode a batch");
    }
    free(shared);
    free(memory.coefficients);
    free(memory.samples);
    free(memory.weights);
    free(memory.pixels);
    free(memory.faults);
    return status;
}

static struct sluice_gpu_hash hash(const struct sluice_gpu_hash_input *input,
                                   struct sluice_gpu_hash_shared *shared)
{
    const uint64_t num_blocks = sluice_gpu_hash_num_blocks(input);
    for (uint64_t first = 0; first < num_blocks; first += SLUICE_GPU_HASH_BLOCKS_AT_ONCE) {
        const uint32_t num = sluice_gpu_hash_num_at_once(num_blocks, first);
        sluice_gpu_hash_sum(input, shared, first, num, 0, 1);
        for (uint32_t i = 0; i < 8; i++)
            sluice_gpu_hash_scramble(shared, first, num, i);
    }
    for (uint32_t i = 0; i < 8; i++)
        sluice_gpu_hash_rest(input, shared, i);
    return (struct sluice_gpu_hash){.high = sluice_gpu_hash_merge(input, shared, 1),
                                    .low = sluice_gpu_hash_merge(input, shared, 0)};
}

void sluice_gpu_hash_host(const uint8_t *rows, const struct sluice_gpu_row_views *views,
                          const struct sluice_gpu_hash_item *items, uint32_t num_items,
                          struct sluice_gpu_hash *hashes)
{
    struct sluice_gpu_hash_shared shared = {.accumulators = {0}};
    for (uint32_t i = 0; i < num_items; i++) {
        const struct sluice_gpu_hash_input input = sluice_gpu_hash_input_of(rows, views, &items[i]);
        hashes[i] = hash(&input, &shared);
    }
}
