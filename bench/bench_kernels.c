/* The inner loops of lib/image, one CPU level beside another: CPU time for the work of one image of
 * 224 x 224, against the scalar loops that define the result.  docs/BENCHMARKING.md */

#include "base/clock.h"
#include "base/cpu.h"
#include "base/rng.h"
#include "bench/bench.h"
#include "cli/cli.h"
#include "image/kernels/kernels.h"
#include "image/lookup.h"
#include "image/resize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE 224
#define MAX_IN 2048
#define ROW_BYTES ((SIDE * 3 + 63) / 64 * 64) /* as the resizer keeps rows between the passes */
/* Outputs go round in this much memory: a batch's row is never in cache when it is written. */
#define COLD_BYTES (48u << 20)

struct work {
    uint8_t *in;  /* MAX_IN rows of MAX_IN pixels; `across` and `down` use a few of them, in turn */
    uint8_t *out; /* COLD_BYTES */
    size_t out_at;                                /* where the next image goes */
    uint32_t in_size;                             /* of the pass */
    struct sluice_taps taps[SLUICE_CPU_NEON + 1]; /* by level */
    struct sluice_resizer *resizers[SLUICE_CPU_NEON + 1];
    struct sluice_lookup lookup;
    const struct sluice_kernels *kernels;
    enum sluice_cpu_level level;
};

static void *new_memory(size_t len)
{
    void *memory = aligned_alloc(64, (len + 63) & ~(size_t)63);
    if (!memory)
        bench_die("no memory");
    memset(memory, 1, len);
    return memory;
}

static struct sluice_taps make_taps(const struct sluice_kernels *kernels, enum sluice_pass pass,
                                    uint32_t in_size)
{
    struct sluice_taps taps = {
        .num_in = in_size, .num_out = SIDE, .stride = (sluice_max_taps(in_size, SIDE) + 3) & ~3u};
    taps.spans = new_memory(SIDE * sizeof(*taps.spans));
    taps.coeffs = new_memory(SIDE * taps.stride * sizeof(*taps.coeffs));
    taps.plan = new_memory(kernels->plan_len(pass, SIDE, taps.stride) + 64);
    kernels->weigh(&taps, false);
    kernels->make_plan(pass, &taps);
    return taps;
}

static uint8_t *next_out(struct work *work, size_t len)
{
    if (work->out_at + len > COLD_BYTES)
        work->out_at = 0;
    uint8_t *out = work->out + work->out_at;
    work->out_at += (len + 4095) & ~(size_t)4095;
    return out;
}

static void resize_across(struct work *work)
{
    uint8_t *out = next_out(work, (size_t)work->in_size * SIDE * 3);
    for (uint32_t y = 0; y < work->in_size; y += 8) {
        const uint32_t left = work->in_size - y;
        work->kernels->resize_rows(&work->taps[work->level], work->in, (size_t)MAX_IN * 3,
                                   left < 8 ? left : 8, out + (size_t)y * SIDE * 3,
                                   (size_t)SIDE * 3);
    }
}

static void resize_down(struct work *work)
{
    uint8_t *out = next_out(work, (size_t)SIDE * SIDE * 3);
    const struct sluice_taps *taps = &work->taps[work->level];
    for (uint32_t y = 0; y < SIDE; y++) {
        const uint8_t *rows[64];
        for (uint32_t k = 0; k < (taps->spans[y].count + 3) / 4 * 4; k++)
            rows[k] = work->in + (taps->spans[y].first + k) % 16 * ROW_BYTES;
        work->kernels->blend_rows(taps, y, rows, out + (size_t)y * SIDE * 3, (size_t)SIDE * 3);
    }
}

/* A square crop to SIDE x SIDE: weights, both passes, the flip that is folded into them. */
static void resize_whole(struct work *work)
{
    const struct sluice_image_view view = {work->in, (size_t)work->in_size * 3, work->in_size,
                                           work->in_size};
    if (sluice_resize_rgb(work->resizers[work->level], &view, SIDE, SIDE, true,
                          next_out(work, (size_t)SIDE * SIDE * 3), NULL) != SLUICE_OK)
        bench_die("no memory");
}

/* Weights and plans of both passes. */
static void prepare(struct work *work)
{
    const struct sluice_taps *taps = &work->taps[work->level];
    work->kernels->weigh(taps, true);
    work->kernels->make_plan(SLUICE_PASS_DOWN, taps);
    work->kernels->weigh(taps, true);
    work->kernels->make_plan(SLUICE_PASS_ACROSS, taps);
}

static void flip(struct work *work)
{
    uint8_t *out = next_out(work, (size_t)SIDE * SIDE * 3);
    for (size_t y = 0; y < SIDE; y++)
        work->kernels->flip_row(work->in + y * SIDE * 3, SIDE, out + y * SIDE * 3);
}

static void look_up(struct work *work)
{
    uint8_t *out = next_out(work, (size_t)SIDE * SIDE * 3 * 4);
    work->kernels->look_up(&work->lookup, work->in, (size_t)SIDE * SIDE, out, (size_t)SIDE * SIDE);
}

static const struct kernel_case {
    const char *name;
    void (*run)(struct work *work);
    uint32_t in_size;
    enum sluice_pass pass;
    enum sluice_lookup_type type;
    enum sluice_lookup_layout layout;
    bool is_far, is_formula;
    size_t bytes; /* written for one image */
} cases[] = {
    {.name = "across 160", .run = resize_across, .in_size = 160, .bytes = 160 * SIDE * 3},
    {.name = "across 300", .run = resize_across, .in_size = 300, .bytes = 300 * SIDE * 3},
    {.name = "across 600", .run = resize_across, .in_size = 600, .bytes = 600 * SIDE * 3},
    {.name = "down 160",
     .run = resize_down,
     .in_size = 160,
     .pass = SLUICE_PASS_DOWN,
     .bytes = SIDE * SIDE * 3},
    {.name = "down 300",
     .run = resize_down,
     .in_size = 300,
     .pass = SLUICE_PASS_DOWN,
     .bytes = SIDE * SIDE * 3},
    {.name = "down 600",
     .run = resize_down,
     .in_size = 600,
     .pass = SLUICE_PASS_DOWN,
     .bytes = SIDE * SIDE * 3},
    {.name = "prepare 300", .run = prepare, .in_size = 300, .bytes = 2 * SIDE * 8 * 4},
    {.name = "resize 160", .run = resize_whole, .in_size = 160, .bytes = SIDE * SIDE * 3},
    {.name = "resize 300", .run = resize_whole, .in_size = 300, .bytes = SIDE * SIDE * 3},
    {.name = "resize 600", .run = resize_whole, .in_size = 600, .bytes = SIDE * SIDE * 3},
    {.name = "resize 900", .run = resize_whole, .in_size = 900, .bytes = SIDE * SIDE * 3},
    {.name = "resize 1024", .run = resize_whole, .in_size = 1024, .bytes = SIDE * SIDE * 3},
    {.name = "resize 1500", .run = resize_whole, .in_size = 1500, .bytes = SIDE * SIDE * 3},
    {.name = "resize 2000", .run = resize_whole, .in_size = 2000, .bytes = SIDE * SIDE * 3},
    {.name = "flip", .run = flip, .bytes = SIDE * SIDE * 3},
    {.name = "lookup f32 chw", .run = look_up, .bytes = SIDE * SIDE * 3 * 4},
    {.name = "lookup f32 chw far", .run = look_up, .is_far = true, .bytes = SIDE * SIDE * 3 * 4},
    {.name = "lookup f32 nhwc",
     .run = look_up,
     .layout = SLUICE_LOOKUP_NHWC,
     .bytes = SIDE * SIDE * 3 * 4},
    {.name = "formula f32 chw", .run = look_up, .is_formula = true, .bytes = SIDE * SIDE * 3 * 4},
    {.name = "formula f32 chw far",
     .run = look_up,
     .is_formula = true,
     .is_far = true,
     .bytes = SIDE * SIDE * 3 * 4},
    {.name = "formula f32 nhwc",
     .run = look_up,
     .is_formula = true,
     .layout = SLUICE_LOOKUP_NHWC,
     .bytes = SIDE * SIDE * 3 * 4},
    {.name = "lookup f16 chw",
     .run = look_up,
     .type = SLUICE_LOOKUP_F16,
     .bytes = SIDE * SIDE * 3 * 2},
    {.name = "lookup f16 chw far",
     .run = look_up,
     .type = SLUICE_LOOKUP_F16,
     .is_far = true,
     .bytes = SIDE * SIDE * 3 * 2},
    {.name = "lookup bf16 nhwc",
     .run = look_up,
     .type = SLUICE_LOOKUP_BF16,
     .layout = SLUICE_LOOKUP_NHWC,
     .bytes = SIDE * SIDE * 3 * 2},
};

static double time_us(struct work *work, const struct kernel_case *c, enum sluice_cpu_level level,
                      size_t iterations)
{
    work->level = level;
    work->kernels = sluice_kernels_for(level);
    c->run(work);
    const uint64_t start_ns = sluice_thread_cpu_ns();
    for (size_t i = 0; i < iterations; i++)
        c->run(work);
    return (double)(sluice_thread_cpu_ns() - start_ns) * 1e-3 / (double)iterations;
}

static void measure(struct bench_report *report, struct work *work, const struct kernel_case *c,
                    size_t repeats, size_t iterations)
{
    static const enum sluice_cpu_level all[] = {SLUICE_CPU_C, SLUICE_CPU_AVX2, SLUICE_CPU_AVX512,
                                                SLUICE_CPU_NEON};
    enum sluice_cpu_level levels[SLUICE_ARRAY_LEN(all)];
    size_t num_levels = 0;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(all); i++) {
        /* Those that this machine runs and that have loops of their own. */
        const bool can_run =
            all[i] == SLUICE_CPU_C || all[i] == sluice_cpu_detected() ||
            (all[i] == SLUICE_CPU_AVX2 && sluice_cpu_detected() == SLUICE_CPU_AVX512);
        if (can_run && (all[i] == SLUICE_CPU_C ||
                        sluice_kernels_for(all[i]) != sluice_kernels_for(SLUICE_CPU_C)))
            levels[num_levels++] = all[i];
    }
    work->in_size = c->in_size;
    if (c->in_size) {
        for (size_t l = 0; l < num_levels; l++) {
            if (sluice_resizer_create_at(levels[l], &work->resizers[levels[l]], NULL))
                bench_die("no memory");
            work->taps[levels[l]] = make_taps(sluice_kernels_for(levels[l]), c->pass, c->in_size);
        }
    }
    float table[3][256];
    for (int i = 0; i < 3 * 256; i++)
        table[i / 256][i % 256] = ((float)(i % 256) / 255.0f - 0.45f) / 0.225f;
    sluice_lookup_init(&work->lookup, table, c->type, c->layout);
    work->lookup.is_far = c->is_far;
    if (c->is_formula && !sluice_lookup_set_formula(&work->lookup, (float[3]){0.45f, 0.45f, 0.45f},
                                                    (float[3]){0.225f, 0.225f, 0.225f}))
        bench_die("the formula is not exact");

    double *us = calloc(repeats * num_levels, sizeof(*us)), *ratios = calloc(repeats, sizeof(*us));
    if (!us || !ratios)
        bench_die("no memory");
    for (size_t r = 0; r < repeats; r++) {
        for (size_t l = 0; l < num_levels; l++)
            us[l * repeats + r] = time_us(work, c, levels[l], iterations);
    }
    for (size_t l = num_levels; l-- > 0;) { /* the scalar times last, as sorting mixes them */
        for (size_t r = 0; r < repeats; r++)
            ratios[r] = us[r] / us[l * repeats + r];
        double *reference = calloc(repeats, sizeof(*us));
        if (!reference)
            bench_die("no memory");
        memcpy(reference, us, repeats * sizeof(*us));
        char name[64];
        snprintf(name, sizeof(name), "%s, %s", c->name, sluice_cpu_level_name(levels[l]));
        bench_row_begin(report, name);
        bench_row_number(report, "us", 2, bench_quantile(us + l * repeats, repeats, 0.5));
        bench_row_number(report, "bytes", 0, (double)c->bytes);
        bench_row_number(report, "reference_us", 2, bench_quantile(reference, repeats, 0.5));
        bench_row_number(report, "ratio", 2, bench_quantile(ratios, repeats, 0.5));
        bench_row_number(report, "p10_us", 2, bench_quantile(us + l * repeats, repeats, 0.1));
        bench_row_number(report, "p90_us", 2, bench_quantile(us + l * repeats, repeats, 0.9));
        bench_row_end(report);
        free(reference);
    }
    free(us);
    free(ratios);
    for (size_t l = 0; c->in_size && l < num_levels; l++) {
        free(work->taps[levels[l]].spans);
        free(work->taps[levels[l]].coeffs);
        free(work->taps[levels[l]].plan);
        sluice_resizer_destroy(work->resizers[levels[l]]);
    }
}

int main(int argc, char **argv)
{
    uint64_t repeats = 15, iterations = 20;
    const char *only = "";
    const struct sluice_option options[] = {
        {.name = "repeats",
         SLUICE_VALUE_UINT(repeats, "N"),
         .help = "Runs of each level, taking turns; medians are shown.",
         SLUICE_RANGE(1, 10000)},
        {.name = "iterations",
         SLUICE_VALUE_UINT(iterations, "N"),
         .help = "Images in one run.",
         SLUICE_RANGE(1, 1e6)},
        {.name = "only",
         SLUICE_VALUE_STRING(only, "TEXT"),
         .help = "Only the kernels whose name holds this."},
    };
    const struct sluice_cli cli = {
        .program = "bench_kernels",
        .summary = "Time the loops of the image module at each CPU level against the scalar ones.",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
    };
    const struct sluice_cli_result args = sluice_cli_parse(&cli, argc, argv);
    if (args.should_exit)
        return args.exit_code;
    bench_print_machine();
    bench_pin(0);

    struct work work = {.in = new_memory((size_t)MAX_IN * MAX_IN * 3),
                        .out = new_memory(COLD_BYTES)};
    struct sluice_rng rng = sluice_rng_init(1, 0, 0, 0);
    for (size_t i = 0; i < (size_t)MAX_IN * MAX_IN * 3; i++)
        work.in[i] = (uint8_t)sluice_rng_u32(&rng);
    struct bench_report report = {.is_json = args.is_json};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        if (strstr(cases[i].name, only))
            measure(&report, &work, &cases[i], repeats, iterations);
    }
    free(work.in);
    free(work.out);
    return 0;
}
