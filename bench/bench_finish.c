/* sluice_finish() on a batch of rows of 224 x 224, against a plain loop that does the same: CPU
 * time of one thread for one row.  docs/BENCHMARKING.md
 *
 * The plain loop takes a pixel after the other and loads its three values from a table of the type
 * that is written.  Both write to the same memory, in turns; what they write is compared. */

#include "base/clock.h"
#include "base/cpu.h"
#include "base/rng.h"
#include "bench/bench.h"
#include "cli/cli.h"
#include "image/lookup.h"
#include "sluice/sluice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE 224
#define PLANE ((size_t)SIDE * SIDE)

struct work {
    size_t num_rows;
    const uint8_t *pixels;
    void *out;
    float table[3][256];
    enum sluice_dtype dtype;
    enum sluice_layout layout;
};

static void finish(struct work *work)
{
    struct sluice_err err = {0};
    if (sluice_finish(work->pixels, work->num_rows, SIDE, SIDE, (const float(*)[256])work->table,
                      work->dtype, work->layout, work->out, &err))
        bench_die("%s", err.text);
}

static void plain_32(const struct work *work)
{
    const bool is_planar = work->layout == SLUICE_NCHW;
    const size_t step = is_planar ? 1 : 3, to_next = is_planar ? PLANE : 1;
    for (size_t n = 0; n < work->num_rows; n++) {
        const uint8_t *in = work->pixels + n * PLANE * 3;
        float *to = (float *)work->out + n * PLANE * 3;
        for (size_t i = 0; i < PLANE; i++) {
            to[i * step] = work->table[0][in[3 * i]];
            to[i * step + to_next] = work->table[1][in[3 * i + 1]];
            to[i * step + 2 * to_next] = work->table[2][in[3 * i + 2]];
        }
    }
}

static void plain_16(const struct work *work)
{
    uint16_t table[3][256];
    for (int i = 0; i < 3 * 256; i++) {
        const float value = work->table[i / 256][i % 256];
        table[i / 256][i % 256] =
            work->dtype == SLUICE_F16 ? sluice_f16_bits(value) : sluice_bf16_bits(value);
    }
    const bool is_planar = work->layout == SLUICE_NCHW;
    const size_t step = is_planar ? 1 : 3, to_next = is_planar ? PLANE : 1;
    for (size_t n = 0; n < work->num_rows; n++) {
        const uint8_t *in = work->pixels + n * PLANE * 3;
        uint16_t *to = (uint16_t *)work->out + n * PLANE * 3;
        for (size_t i = 0; i < PLANE; i++) {
            to[i * step] = table[0][in[3 * i]];
            to[i * step + to_next] = table[1][in[3 * i + 1]];
            to[i * step + 2 * to_next] = table[2][in[3 * i + 2]];
        }
    }
}

static void plain(struct work *work)
{
    if (work->dtype == SLUICE_F32)
        plain_32(work);
    else
        plain_16(work);
}

static double time_us(struct work *work, void (*run)(struct work *work))
{
    const uint64_t start_ns = sluice_thread_cpu_ns();
    run(work);
    return (double)(sluice_thread_cpu_ns() - start_ns) * 1e-3 / (double)work->num_rows;
}

static void *new_memory(size_t len)
{
    void *memory = aligned_alloc(64, (len + 63) & ~(size_t)63);
    if (!memory)
        bench_die("no memory");
    memset(memory, 1, len);
    return memory;
}

static void measure(struct bench_report *report, struct work *work, size_t repeats)
{
    static const char *const dtypes[] = {"f32", "f16", "bf16"}, *const layouts[] = {"nchw", "nhwc"};
    const size_t row_bytes = PLANE * 3 * (work->dtype == SLUICE_F32 ? 4 : 2);
    plain(work);
    void *expected = new_memory(row_bytes * work->num_rows);
    memcpy(expected, work->out, row_bytes * work->num_rows);
    memset(work->out, 1, row_bytes * work->num_rows);
    finish(work);
    if (memcmp(expected, work->out, row_bytes * work->num_rows) != 0)
        bench_die("the plain loop gives other values");
    free(expected);

    double *us = calloc(repeats, sizeof(*us)), *reference_us = calloc(repeats, sizeof(*us)),
           *ratios = calloc(repeats, sizeof(*us));
    if (!us || !reference_us || !ratios)
        bench_die("no memory");
    for (size_t r = 0; r < repeats; r++) {
        reference_us[r] = time_us(work, plain);
        us[r] = time_us(work, finish);
        ratios[r] = reference_us[r] / us[r];
    }
    char name[64];
    snprintf(name, sizeof(name), "finish %s %s", dtypes[work->dtype], layouts[work->layout]);
    bench_row_begin(report, name);
    bench_row_number(report, "us", 2, bench_quantile(us, repeats, 0.5));
    bench_row_number(report, "bytes", 0, (double)row_bytes);
    bench_row_number(report, "reference_us", 2, bench_quantile(reference_us, repeats, 0.5));
    bench_row_number(report, "ratio", 2, bench_quantile(ratios, repeats, 0.5));
    bench_row_number(report, "p10_us", 2, bench_quantile(us, repeats, 0.1));
    bench_row_number(report, "p90_us", 2, bench_quantile(us, repeats, 0.9));
    bench_row_text(report, "level", sluice_cpu_level_name(sluice_cpu_level()));
    bench_row_end(report);
    free(us);
    free(reference_us);
    free(ratios);
}

int main(int argc, char **argv)
{
    uint64_t repeats = 15, num_rows = 256;
    const struct sluice_option options[] = {
        {.name = "repeats",
         SLUICE_VALUE_UINT(repeats, "N"),
         .help = "Runs of each, taking turns; medians are shown.",
         SLUICE_RANGE(1, 10000)},
        {.name = "rows",
         SLUICE_VALUE_UINT(num_rows, "N"),
         .help = "Rows of a batch.",
         SLUICE_RANGE(1, 10000)},
    };
    const struct sluice_cli cli = {
        .program = "bench_finish",
        .summary = "Time sluice_finish() against a plain loop; SLUICE_CPU sets the CPU level.",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
    };
    const struct sluice_cli_result args = sluice_cli_parse(&cli, argc, argv);
    if (args.should_exit)
        return args.exit_code;
    bench_print_machine();
    bench_pin(0);

    const size_t num_bytes = num_rows * PLANE * 3;
    uint8_t *pixels = new_memory(num_bytes);
    struct work work = {.num_rows = num_rows, .pixels = pixels, .out = new_memory(num_bytes * 4)};
    struct sluice_rng rng = sluice_rng_init(1, 0, 0, 0);
    for (size_t i = 0; i < num_bytes; i++)
        pixels[i] = (uint8_t)sluice_rng_u32(&rng);
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};
    for (int i = 0; i < 3 * 256; i++)
        work.table[i / 256][i % 256] = ((float)(i % 256) / 255.0f - mean[i / 256]) / std[i / 256];
    struct bench_report report = {.is_json = args.is_json};
    for (work.dtype = SLUICE_F32; work.dtype <= SLUICE_BF16; work.dtype++) {
        for (work.layout = SLUICE_NCHW; work.layout <= SLUICE_NHWC; work.layout++)
            measure(&report, &work, repeats);
    }
    free(pixels);
    free(work.out);
    return 0;
}
