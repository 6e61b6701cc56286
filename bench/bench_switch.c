#include "bench/bench.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/cli.h"
#include "host/pages.h"
#include "train/grouping.h"
#include "train/infer.h"
#include "train/model_names.h"

#ifdef SLUICE_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long one inference takes whose weights come from the host, by the ways that PipeSwitch (OSDI '20)
 * compares in its figures 7 and 8, and some more.  The ways take turns in each round. */

#define MB ((uint64_t)1 << 20)

static const struct way {
    const char *name, *help;
    enum { RESIDENT, COPY_ALONE, GROUPS, OPTIMAL } kind;
    uint64_t min_bytes; /* of a group; 0: each stage is one */
    bool is_pipelined, is_eager, is_pageable, allocates;
} ways[] = {
    {.name = "ready",
     .help = "the weights are on the GPU; a CUDA graph, as all but eager ones",
     .kind = RESIDENT},
    {.name = "ready_eager",
     .help = "the same, and the host launches each kernel",
     .kind = RESIDENT,
     .is_eager = true},
    {.name = "copy", .help = "the weights in one copy, and no inference", .kind = COPY_ALONE},
    {.name = "copy_then_run",
     .help = "one copy, then all stages",
     .kind = GROUPS,
     .min_bytes = UINT64_MAX},
    {.name = "by_layer_not_pipelined",
     .help = "a copy for each stage, then all stages",
     .kind = GROUPS},
    {.name = "grouped_not_pipelined",
     .help = "a copy for each 2 MB or more, then all stages",
     .kind = GROUPS,
     .min_bytes = 2 * MB},
    {.name = "by_layer",
     .help = "a stage runs as soon as its copy is there",
     .kind = GROUPS,
     .is_pipelined = true},
    {.name = "grouped_2mb",
     .help = "the same for groups of 2 MB or more",
     .kind = GROUPS,
     .min_bytes = 2 * MB,
     .is_pipelined = true},
    {.name = "grouped_8mb",
     .help = "of 8 MB or more",
     .kind = GROUPS,
     .min_bytes = 8 * MB,
     .is_pipelined = true},
    {.name = "grouped_32mb",
     .help = "of 32 MB or more",
     .kind = GROUPS,
     .min_bytes = 32 * MB,
     .is_pipelined = true},
    {.name = "ours",
     .help = "for optimal groups of 2 MB or more",
     .kind = OPTIMAL,
     .is_pipelined = true},
    {.name = "ours_allocating",
     .help = "each request allocates the model's device memory first, and frees it behind",
     .kind = OPTIMAL,
     .is_pipelined = true,
     .allocates = true},
    {.name = "ours_eager",
     .help = "without a graph",
     .kind = OPTIMAL,
     .is_pipelined = true,
     .is_eager = true},
    {.name = "ours_eager_not_pinned",
     .help = "without a graph, from pages that are not pinned",
     .kind = OPTIMAL,
     .is_pipelined = true,
     .is_eager = true,
     .is_pageable = true},
};
#define NUM_WAYS SLUICE_ARRAY_LEN(ways)

static void list_ways(char *out, size_t room)
{
    for (size_t i = 0, used = 0; i < NUM_WAYS && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s: %s\n", ways[i].name, ways[i].help);
}

static const char epilog[] =
    "A row for each way, with --json an object a line. \"us\": median over the rounds of one "
    "request, from the call until its logits are on the host; \"least\", \"most\"; "
    "\"reference_us\" "
    "and \"ratio\": of ready; \"copies\": their number; \"predicted_us\": by the costs that were "
    "measured, for optimal groups; \"bytes\": of the weights; \"batch\", \"precision\", "
    "\"model\", \"way\".\n\n"
    "Before the rounds each way runs once with poison in the place of the weights, and its logits "
    "are "
    "compared with those of ready, bit for bit.";

struct bench {
    const char *device, *model, *precision, *weights, *input, *logits, *engine_cache;
    uint64_t batch_size, image_size, num_classes, rounds;

    struct sluice_infer *infer;
    unsigned num_stages;
    void *image, *pages, *poison; /* pages: the image, not pinned */
    struct sluice_grouping *optimal;
    struct sluice_infer_plan *plans[NUM_WAYS]; /* NULL: COPY_ALONE */
    unsigned num_copies[NUM_WAYS];
    float *ready; /* logits */
};

static void *new_pages(size_t bytes)
{
    struct sluice_err err = {{0}};
    void *memory = NULL;
    bench_check(sluice_pages_alloc(bytes, &memory, &err), &err);
    return memory;
}

static void open_model(struct bench *b)
{
    struct sluice_err err = {{0}};
    struct sluice_infer_options options = {
        .device = b->device,
        .model = b->model,
        .num_classes = (unsigned)b->num_classes,
        .height = (unsigned)b->image_size,
        .width = (unsigned)b->image_size,
        .batch_size = (unsigned)b->batch_size,
        .engine_cache = b->engine_cache,
    };
    sluice_precision_parse(b->precision, &options.precision);
    bench_check(sluice_infer_create(&options, &b->infer, &err), &err);
    const size_t bytes = sluice_infer_weight_bytes(b->infer);
    b->num_stages = sluice_infer_num_stages(b->infer);
    b->image = new_pages(bytes);
    b->pages = new_pages(bytes);
    b->poison = new_pages(bytes);
    bench_check(sluice_infer_load(b->infer, b->weights, b->image, &err), &err);
    memcpy(b->pages, b->image, bytes);
    memset(b->poison, 0xFF, bytes);
    bench_check(sluice_infer_place(&b->infer, 1, &err), &err);
    bench_check(sluice_infer_pin(b->infer, b->image, bytes, &err), &err);

    float *input = sluice_infer_input(b->infer);
    const size_t count = (size_t)(b->batch_size * 3 * b->image_size * b->image_size);
    for (size_t i = 0; i < count; i++)
        input[i] = (float)((uint32_t)i * 2654435761u >> 24) / 64 - 2;
    if (!b->input)
        return;
    FILE *file = fopen(b->input, "rb");
    if (!file || fread(input, sizeof(*input), count, file) != count || getc(file) != EOF)
        bench_die("%s: not a file of %zu float32 values", b->input, count);
    fclose(file);
}

static void find_optimal(struct bench *b)
{
    struct sluice_err err = {{0}};
    struct sluice_grouping_costs costs;
    b->optimal = bench_alloc(1, sizeof(*b->optimal));
    bench_check(sluice_grouping_measure(b->infer, b->image, 2 * MB, &costs, b->optimal, &err),
                &err);
    fprintf(stderr, "copies: %.2f GB/s and %.2f us each\n", costs.bytes_per_s * 1e-9,
            costs.overhead_s * 1e6);
}

/* Greedily: a group ends with the stage that makes it `min_bytes`. */
static unsigned part(const struct bench *b, uint64_t min_bytes, unsigned *last)
{
    unsigned num_groups = 0;
    uint64_t bytes = 0;
    for (unsigned s = 0; s < b->num_stages; s++) {
        bytes += sluice_infer_stage_bytes(b->infer, s);
        if (bytes < min_bytes && s + 1 < b->num_stages)
            continue;
        last[num_groups++] = s;
        bytes = 0;
    }
    return num_groups;
}

static unsigned count_copies(const struct bench *b, const struct sluice_infer_plan_options *options)
{
    unsigned count = 0;
    for (unsigned g = 0, s = 0; g < options->num_groups; g++) {
        size_t bytes = 0;
        for (; s <= options->last_stages[g]; s++)
            bytes += sluice_infer_stage_bytes(b->infer, s);
        count += bytes > 0;
    }
    return count;
}

static void make_plans(struct bench *b)
{
    struct sluice_err err = {{0}};
    unsigned *last = bench_alloc(b->num_stages, sizeof(*last));
    for (size_t i = 0; i < NUM_WAYS; i++) {
        const struct way *way = &ways[i];
        struct sluice_infer_plan_options options = {.image = way->is_pageable ? b->pages : b->image,
                                                    .last_stages = last,
                                                    .is_pipelined = way->is_pipelined,
                                                    .is_eager = way->is_eager};
        if (way->kind == COPY_ALONE) {
            b->num_copies[i] = 1;
            continue;
        }
        if (way->kind == GROUPS)
            options.num_groups = part(b, way->min_bytes, last);
        if (way->kind == OPTIMAL) {
            options.num_groups = (unsigned)b->optimal->num_groups;
            options.last_stages = b->optimal->last_stages;
        }
        b->num_copies[i] = count_copies(b, &options);
        bench_check(sluice_infer_plan_create(b->infer, &options, &b->plans[i], &err), &err);
    }
    free(last);
}

static void *allocate(const struct bench *b, size_t bytes)
{
    void *memory = NULL;
#ifdef SLUICE_HAVE_CUDA
    if (strcmp(b->device, "cuda") == 0) {
        const cudaError_t error = cudaMalloc(&memory, bytes);
        if (error)
            bench_die("cudaMalloc: %s", cudaGetErrorString(error));
        return memory;
    }
#endif
    (void)b;
    memory = malloc(bytes);
    return memory ? memory : (bench_die("no memory"), NULL);
}

static void release(const struct bench *b, void *memory)
{
#ifdef SLUICE_HAVE_CUDA
    if (strcmp(b->device, "cuda") == 0) {
        cudaFree(memory);
        return;
    }
#endif
    (void)b;
    free(memory);
}

/* Seconds of one request. */
static double run(const struct bench *b, size_t i)
{
    struct sluice_err err = {{0}};
    const uint64_t start = sluice_clock_ns();
    void *memory = ways[i].allocates ? allocate(b, sluice_infer_device_bytes(b->infer)) : NULL;
    if (b->plans[i])
        bench_check(sluice_infer_run(b->plans[i], &err), &err);
    else
        bench_check(sluice_infer_copy(b->infer, b->image, &err), &err);
    if (memory)
        release(b, memory);
    return (double)(sluice_clock_ns() - start) * 1e-9;
}

static void check_way(struct bench *b, size_t i)
{
    struct sluice_err err = {{0}};
    const bool is_resident = ways[i].kind == RESIDENT;
    const size_t bytes = (size_t)(b->batch_size * b->num_classes) * sizeof(float);
    bench_check(sluice_infer_copy(b->infer, is_resident ? b->image : b->poison, &err), &err);
    memset((float *)sluice_infer_logits(b->infer), 0xFF, bytes);
    run(b, i);
    if (ways[i].kind == COPY_ALONE)
        run(b, 0);
    if (i == 0) {
        b->ready = bench_alloc(bytes, 1);
        memcpy(b->ready, sluice_infer_logits(b->infer), bytes);
        if (b->logits)
            bench_check(sluice_file_write_atomic(b->logits, b->ready, bytes, &err), &err);
    }
    if (memcmp(b->ready, sluice_infer_logits(b->infer), bytes) != 0)
        bench_die("%s: its logits are not those of ready", ways[i].name);
}

static void print(const struct bench *b, double *seconds, bool is_json)
{
    struct bench_report report = {.is_json = is_json};
    const size_t rounds = (size_t)b->rounds;
    const double ready = bench_quantile(seconds, rounds, 0.5);
    for (size_t i = 0; i < NUM_WAYS; i++) {
        double *of = seconds + i * rounds;
        const double median = bench_quantile(of, rounds, 0.5);
        const bool is_optimal = ways[i].kind == OPTIMAL;
        char name[64];
        snprintf(name, sizeof(name), "%s %s", b->model, ways[i].name);
        bench_row_begin(&report, name);
        bench_row_number(&report, "us", 1, median * 1e6);
        bench_row_number(&report, "bytes", 0, (double)sluice_infer_weight_bytes(b->infer));
        bench_row_number(&report, "reference_us", 1, i ? ready * 1e6 : NAN);
        bench_row_number(&report, "ratio", 3, i ? median / ready : NAN);
        bench_row_number(&report, "least", 1, bench_quantile(of, rounds, 0) * 1e6);
        bench_row_number(&report, "most", 1, bench_quantile(of, rounds, 1) * 1e6);
        bench_row_number(&report, "copies", 0, b->num_copies[i]);
        bench_row_number(&report, "predicted_us", 1, is_optimal ? b->optimal->seconds * 1e6 : NAN);
        bench_row_number(&report, "batch", 0, (double)b->batch_size);
        bench_row_text(&report, "model", b->model);
        bench_row_text(&report, "precision",
                       sluice_precision_name(sluice_infer_precision(b->infer)));
        bench_row_text(&report, "way", ways[i].name);
        bench_row_end(&report);
    }
}

int main(int argc, char **argv)
{
    static const char *const devices[] = {"none", "cuda", NULL};
    static const char *const models[] = {SLUICE_MODEL_NAMES, NULL};
    static const char *const precisions[] = {"bf16", "tf32", "fp32", NULL};
    struct bench b = {.device = "cuda",
                      .model = "resnet152",
                      .batch_size = 8,
                      .image_size = 224,
                      .num_classes = 1000,
                      .rounds = 30};
    const struct sluice_option table[] = {
        {.name = "device",
         SLUICE_VALUE_CHOICE(b.device, NULL),
         .choices = devices,
         .help = "Where the model runs; none is for tests."},
        {.name = "arch",
         .short_name = 'a',
         SLUICE_VALUE_CHOICE(b.model, NULL),
         .choices = models,
         .help = "The model."},
        {.name = "weights",
         SLUICE_VALUE_STRING(b.weights, "FILE"),
         .help = "Its weights, in the safetensors format.",
         .default_text = "initial ones"},
        {.name = "batch-size",
         .short_name = 'b',
         SLUICE_VALUE_UINT(b.batch_size, "N"),
         SLUICE_RANGE(1, 65536),
         .help = "Rows in a request."},
        {.name = "image-size",
         SLUICE_VALUE_UINT(b.image_size, "N"),
         SLUICE_RANGE(8, 4096),
         .help = "Side of the images."},
        {.name = "num-classes",
         SLUICE_VALUE_UINT(b.num_classes, "N"),
         SLUICE_RANGE(1, 1000000),
         .help = "Outputs of the model."},
        {.name = "precision",
         SLUICE_VALUE_CHOICE(b.precision, NULL),
         .choices = precisions,
         .help = "How products multiply.",
         .default_text = "bf16 on a GPU that has it, else fp32"},
        {.name = "engine-cache",
         SLUICE_VALUE_STRING(b.engine_cache, "FILE"),
         .help = "cuDNN's engines that were timed before.",
         .default_text = "offload_train's"},
        {.name = "rounds",
         SLUICE_VALUE_UINT(b.rounds, "N"),
         SLUICE_RANGE(1, 10000),
         .help = "Requests of each way, in turns; their median counts.",
         .list = list_ways},
        {.name = "input",
         SLUICE_VALUE_STRING(b.input, "FILE"),
         .help = "The request: float32 N x 3 x side x side, without a header.",
         .default_text = "numbers by a formula"},
        {.name = "logits",
         SLUICE_VALUE_STRING(b.logits, "FILE"),
         .help = "Write ready's logits there: float32 N x classes, without a header."},
    };
    const struct sluice_cli cli = {
        .program = "bench_switch",
        .summary = "Measures inferences whose weights come from the host.",
        .options = table,
        .num_options = SLUICE_ARRAY_LEN(table),
        .epilog = epilog,
    };
    const struct sluice_cli_result result = sluice_cli_parse(&cli, argc, argv);
    if (result.should_exit)
        return result.exit_code;
    bench_print_machine();
    open_model(&b);
    find_optimal(&b);
    make_plans(&b);
    for (size_t i = 0; i < NUM_WAYS; i++)
        check_way(&b, i);
    double *seconds = bench_alloc(NUM_WAYS * (size_t)b.rounds, sizeof(*seconds));
    for (uint64_t round = 0; round <= b.rounds; round++) { /* the first one warms up */
        for (size_t i = 0; i < NUM_WAYS; i++) {
            const double taken = run(&b, i);
            if (round > 0)
                seconds[i * b.rounds + round - 1] = taken;
        }
    }
    print(&b, seconds, result.is_json);
    for (size_t i = 0; i < NUM_WAYS; i++)
        sluice_infer_plan_destroy(b.plans[i]);
    sluice_infer_unpin(b.infer, b.image);
    sluice_infer_destroy(b.infer);
    free(b.image);
    free(b.pages);
    free(b.poison);
    free(b.optimal);
    free(b.ready);
    free(seconds);
    return 0;
}
