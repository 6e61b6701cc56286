#include "base/clock.h"
#include "base/rng.h"
#include "bench/bench.h"
#include "cli/cli.h"
#include "plan/planner_lp.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

/* Plans made-up samples with twelve choices that differ on all seven resources, and with a GPU that
 * none of them spares: time, memory and gap.  `bytes` is the highest resident memory so far, so the
 * streamed row comes first. */

/* SplitMix64: a menu is made again in every pass, so it must cost little. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

#define NUM_CHOICES 10

/* A photograph of some size, its stages, and forms of them. */
static void make_menu(uint64_t index, struct sluice_menu *menu)
{
    const uint64_t word = mix(index);
    const double u = (double)(word & 0xffff) / 65536, v = (double)(word >> 16 & 0xffff) / 65536;
    const double w = (double)(word >> 32 & 0xffff) / 65536;
    const double file = 20e3 + 200e3 * u * u, pixels = file * (1.2 + 1.6 * v);
    const double crop = 0.15 + 0.6 * w;
    const double decode_s = 6e-9 * file + 1.4e-9 * pixels, resize_s = 2e-9 * pixels * crop;
    const double u8 = 150528, f32 = 4 * u8, tensor_s = 40e-6, all_s = decode_s + resize_s;
    const double disk_s = 0.2e-9 * file + 40e-6;
    const double cost[NUM_CHOICES][SLUICE_NUM_RESOURCES] = {
        {disk_s, 0, file, 96, all_s + tensor_s, u8, 50e-6},
        {disk_s, 3e-9 * file, file * (0.2 + 0.5 * crop), 100, 0.7 * all_s + tensor_s, u8, 50e-6},
        {disk_s, decode_s, 3 * pixels, 98, resize_s + tensor_s, u8, 50e-6},
        {disk_s, all_s, u8, 97, tensor_s, u8, 50e-6},
        {disk_s, all_s + 300e-6, u8 * (0.4 + 0.3 * v), 101, 400e-6 + tensor_s, u8, 50e-6},
        {disk_s, all_s + tensor_s, f32, 99, 0, f32, 45e-6},
        {disk_s * 1.1, 1e-9 * file, file * (0.25 + 0.5 * crop), 104, 0.5 * all_s, u8, 50e-6},
        {disk_s * 0.9, 0, file, 96, 20e-6, file, 90e-6},
        {disk_s * 1.1, 1.2e-9 * file, file * (0.26 + 0.5 * crop), 105, 25e-6, file * crop, 58e-6},
        {disk_s, 0, file, 96, 2e-9 * file, file * crop, 58e-6},
    };
    sluice_menu_set(menu, NUM_CHOICES, cost);
}

static void make_block(void *context, uint64_t first, size_t count, struct sluice_menu *scratch)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        make_menu(first + i, &scratch[i]);
}

static void measure(struct bench_report *report, const char *name,
                    const struct sluice_menu_source *source, double gpu, uint8_t *choice)
{
    const struct sluice_capacities capacities = {
        .per_s = {4, 2, 62.5e6, 62.5e6, 3, 12e9, gpu},
    };
    struct sluice_lp_result result;
    struct sluice_err err = {0};
    const uint64_t start_ns = sluice_thread_cpu_ns();
    if (sluice_plan_lp(source, &capacities, choice, &result, &err) != SLUICE_OK)
        bench_die("%s", err.text);
    const double us = (double)(sluice_thread_cpu_ns() - start_ns) / 1e3;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    bench_row_begin(report, name);
    bench_row_number(report, "us", 0, us);
    bench_row_number(report, "bytes", 0, (double)usage.ru_maxrss * 1024);
    bench_row_number(report, "reference_us", 0, (double)NAN);
    bench_row_number(report, "ratio", 2, (double)NAN);
    bench_row_number(report, "samples", 0, (double)source->num_samples);
    bench_row_number(report, "passes", 0, result.num_passes);
    bench_row_number(report, "primal_s", 3, result.primal_s);
    bench_row_number(report, "dual_s", 3, result.dual_s);
    bench_row_number(report, "gap", 9, result.gap);
    bench_row_end(report);
}

int main(int argc, char **argv)
{
    uint64_t num_samples = 1280000, num_streamed = 100000000;
    const struct sluice_option options[] = {
        {.name = "samples",
         SLUICE_VALUE_UINT(num_samples, "N"),
         SLUICE_RANGE(1, 1e9),
         .help = "Samples planned in memory."},
        {.name = "streamed",
         SLUICE_VALUE_UINT(num_streamed, "N"),
         .max = 1e12,
         .help = "Samples planned in constant memory; 0: none."},
    };
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "Time, memory and gap of the plan over all resources.",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    bench_pin(0);
    bench_print_machine();
    struct bench_report report = {.is_json = parsed.is_json};

    if (num_streamed > 0) {
        const struct sluice_menu_source streamed = {
            .num_samples = num_streamed,
            .num_choices = NUM_CHOICES,
            .stride = sizeof(struct sluice_menu),
            .get = make_block,
        };
        measure(&report, "streamed", &streamed, 1, NULL);
    }
    const size_t stride = sluice_menu_size(NUM_CHOICES);
    char *menus = malloc(num_samples * stride);
    uint8_t *choice = malloc(num_samples);
    if (!menus || !choice)
        bench_die("no memory for %llu samples", (unsigned long long)num_samples);
    for (uint64_t i = 0; i < num_samples; i++)
        make_menu(i, (struct sluice_menu *)(void *)(menus + i * stride));
    const struct sluice_menu_source source = {
        .num_samples = num_samples, .num_choices = NUM_CHOICES, .stride = stride, .array = menus};
    measure(&report, "in memory", &source, 1, choice);
    /* As in training: every choice takes the GPU as long, which is the limit. */
    for (uint64_t i = 0; i < num_samples; i++) {
        struct sluice_menu *menu = (struct sluice_menu *)(void *)(menus + i * stride);
        for (unsigned c = 1; c < NUM_CHOICES; c++)
            menu->share[c / SLUICE_MENU_GROUP][SLUICE_GPU][c % SLUICE_MENU_GROUP] =
                menu->share[0][SLUICE_GPU][0];
    }
    measure(&report, "GPU-bound", &source, 0.01, choice);
    free(choice);
    free(menus);
    return 0;
}
