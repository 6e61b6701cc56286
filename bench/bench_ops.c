/* Ops of recipes on an image of 224 x 224 pixels: CPU time of each.  bench/sluice_bench/ops.py puts
 * Pillow beside them.  docs/BENCHMARKING.md */

#include "base/buf.h"
#include "base/clock.h"
#include "base/rng.h"
#include "bench/bench.h"
#include "cli/cli.h"
#include "op/pipeline.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIDE 224

/* Smooth colours with a little noise, as photographs have. */
static struct sluice_buf *make_image(void)
{
    struct sluice_buf *buf = NULL;
    struct sluice_err err = {{0}};
    bench_check(sluice_buf_create(NULL, SIDE * SIDE * 3, &buf, &err), &err);
    buf->len = SIDE * SIDE * 3;
    struct sluice_rng rng = sluice_rng_init(1, 0, 0, 0);
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            for (int c = 0; c < 3; c++)
                buf->data[(y * SIDE + x) * 3 + c] =
                    (uint8_t)(120 + 90 * sin(x / 31.0 + c) * cos(y / (17.0 + 5 * c)) +
                              sluice_rng_below(&rng, 24));
        }
    }
    return buf;
}

/* us of thread CPU of the ops behind decode, the least of the rounds: they differ by cache alone.
 */
static double measure(const char *ops, struct sluice_buf *image, unsigned rounds)
{
    char spec[1024];
    struct sluice_err err = {{0}};
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_scratch *scratch = NULL;
    struct sluice_buf_pool *pool = NULL;
    snprintf(spec, sizeof(spec), "decode,%s", ops);
    bench_check(sluice_pipeline_parse(spec, &pipeline, &err), &err);
    bench_check(sluice_buf_pool_create(8u << 20, &pool, &err), &err);
    const struct sluice_scratch_options options = {.pool = pool};
    bench_check(sluice_scratch_create(&options, &scratch, &err), &err);
    const unsigned end = sluice_pipeline_num_ops(pipeline);
    double total = 0, least = INFINITY;
    const bool is_drawn = strchr(ops, '(') || strstr(ops, "augment") || strstr(ops, "jitter");
    for (unsigned i = 0; i < rounds; i++) {
        struct sluice_sample sample = {
            .key = {.sample_id = i},
            .ops_done = 1,
            .kind = SLUICE_KIND_U8,
            .width = SIDE,
            .height = SIDE,
            .channels = 3,
            .data = sluice_buf_ref(image),
        };
        const uint64_t started = sluice_thread_cpu_ns();
        bench_check(sluice_pipeline_run(pipeline, scratch, &sample, end, &err), &err);
        const double us = (double)(sluice_thread_cpu_ns() - started) * 1e-3;
        total += us;
        least = fmin(least, us);
        sluice_sample_clear(&sample);
    }
    sluice_scratch_destroy(scratch);
    sluice_buf_pool_destroy(pool);
    sluice_pipeline_destroy(pipeline);
    return is_drawn ? total / rounds : least;
}

int main(int argc, char **argv)
{
    static const char *const all[] = {
        "invert",
        "solarize=128",
        "posterize=4",
        "brightness=1.27",
        "contrast=1.27",
        "equalize",
        "autocontrast",
        "color=1.27",
        "sharpness=1.27",
        "grayscale",
        "hue=0.1",
        "pil_blur=1.3",
        "tv_blur=1.3:kernel=23",
        "channel_permute",
        "vflip",
        "shear_x=0.2",
        "shear_x=0.2:filter=bilinear",
        "shear_x=0.2:filter=bicubic",
        "rotate=20",
        "rotate=20:filter=bilinear",
        "rotate=20:filter=bicubic",
        "translate_x=0.1",
        "color_jitter=0.4:contrast=0.4:saturation=0.4:hue=0.1",
        "photometric_distort",
        "randaugment=2",
        "auto_augment=imagenet",
        "augmix=3:filter=bilinear",
        "trivial_augment_wide",
        "rand_augment_timm=9:mstd=0.5:increasing=1:filter=random",
    };
    bool is_json = false;
    uint64_t rounds = 400;
    const char *only = "";
    const struct sluice_option options[] = {
        {.name = "rounds",
         SLUICE_VALUE_UINT(rounds, "N"),
         .help = "Images for each op.",
         SLUICE_RANGE(1, 1e6)},
        {.name = "only",
         SLUICE_VALUE_STRING(only, "TEXT"),
         .help = "Only the ops whose text holds this."},
        {.name = "json", SLUICE_VALUE_FLAG(is_json), .help = "One JSON object a line."},
    };
    const struct sluice_cli cli = {
        .program = "bench_ops",
        .summary = "Time ops of recipes on an image of 224 x 224: the least of the rounds, of "
                   "policies the mean.",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
    };
    const struct sluice_cli_result args = sluice_cli_parse(&cli, argc, argv);
    if (args.should_exit)
        return args.exit_code;
    bench_print_machine();
    bench_pin(0);
    struct bench_report report = {.is_json = is_json};
    struct sluice_buf *image = make_image();
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(all); i++) {
        if (!strstr(all[i], only))
            continue;
        bench_row_begin(&report, all[i]);
        bench_row_number(&report, "us", 1, measure(all[i], image, (unsigned)rounds));
        bench_row_number(&report, "bytes", 0, SIDE * SIDE * 3);
        bench_row_number(&report, "reference_us", 1, NAN); /* ops.py has Pillow's */
        bench_row_number(&report, "ratio", 2, NAN);
        bench_row_end(&report);
    }
    sluice_buf_unref(image);
    return 0;
}
