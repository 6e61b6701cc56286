/* What --isolate-decoders costs: CPU time per sample of a worker with its decoder process beside a
 * worker that does the same by itself.  The two take turns at each sample, in one process tree;
 * the decoder's time counts as the worker's.
 *
 * docs/BENCHMARKING.md */

#include "base/buf.h"
#include "base/clock.h"
#include "bench/bench.h"
#include "bench/bench_images.h"
#include "cli/cli.h"
#include "op/pipeline.h"
#include "storage_server/isolation/decoder_process.h"
#include "storage_server/work/preparer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define MAX_PIXELS 178956970u /* the default of --max-image-pixels */

struct form {
    const char *name;
    enum sluice_form form;
    unsigned end;
};

static const struct form forms[] = {
    {"u8@3", SLUICE_FORM_RAW, 3},
    {"f32@5", SLUICE_FORM_RAW, 5},
    {"u8@1", SLUICE_FORM_RAW, 1},
    {"u8_packed@3", SLUICE_FORM_U8_PACKED, 3},
    {"jpeg_crop@0", SLUICE_FORM_JPEG_CROP, 0},
};

struct outcome {
    double us;
    size_t bytes;
};

static struct outcome run(struct sluice_preparer *preparer, const struct sluice_pipeline *pipeline,
                          const struct form *form, const struct bench_image *image,
                          struct sluice_draw_key key)
{
    struct sluice_decoder_work work = {.form = form->form, .end = form->end, .path = image->path};
    struct sluice_sample sample = {
        .key = key, .kind = SLUICE_KIND_FILE, .data = sluice_buf_ref(image->file)};
    struct sluice_err err = {{0}};
    const uint64_t start_ns = sluice_thread_cpu_ns();
    const sluice_status status = sluice_preparer_run(preparer, pipeline, &work, &sample, &err);
    const struct outcome outcome = {(double)(sluice_thread_cpu_ns() - start_ns) * 1e-3,
                                    sample.data->len};
    if (work.has_ended)
        bench_die("%s: %s", image->path, err.text);
    (void)status; /* a file that cannot be cut, or gains nothing, stays as it is: both ways */
    sluice_sample_clear(&sample);
    return outcome;
}

int main(int argc, char **argv)
{
    uint64_t repeats = 5;
    bool is_json = false;
    const struct sluice_option table[] = {
        {.name = "repeats",
         SLUICE_VALUE_UINT(repeats, "N"),
         .help = "rounds over all images, of which the median counts",
         SLUICE_RANGE(1, 1000)},
        {.name = "json", SLUICE_VALUE_FLAG(is_json), .help = "one JSON object a line"},
    };
    const struct sluice_cli cli = {
        .program = "bench_decoders",
        .summary = "CPU time of decoder processes beside decoding in the worker itself.",
        .positional = "DIR",
        .options = table,
        .num_options = SLUICE_ARRAY_LEN(table),
    };
    const struct sluice_cli_result args = sluice_cli_parse(&cli, argc, argv);
    if (args.should_exit)
        return args.exit_code;
    struct sluice_err err = {{0}};
    struct sluice_decoders *decoders;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        sluice_decoder_process_open(sluice_decoder_process_serve, &decoders, &err))
        bench_die("%s", err.text);
    bench_print_machine();
    size_t num_images;
    struct bench_image *images = bench_images_load(args.positional[0], 0, &num_images);
    struct sluice_buf_pool *pool;
    struct sluice_preparer *preparers[2]; /* in this process, isolated */
    struct sluice_pipeline *pipeline;
    struct sluice_preparer_options options = {
        .max_image_pixels = MAX_PIXELS,
        .limits = sluice_decoder_limits_for(MAX_PIXELS, 32u << 20, (size_t)4 << 30),
        .timeout_ns = UINT64_C(60000000000),
    };
    if (sluice_buf_pool_create((size_t)256 << 20, &pool, &err) ||
        sluice_pipeline_parse(BENCH_TRAIN, &pipeline, &err))
        bench_die("%s", err.text);
    options.buffers = pool;
    if (sluice_preparer_create(&options, &preparers[0], &err))
        bench_die("%s", err.text);
    options.decoders = decoders;
    if (sluice_preparer_create(&options, &preparers[1], &err))
        bench_die("%s", err.text);

    struct bench_report report = {.is_json = is_json};
    double *us[2];
    for (int way = 0; way < 2; way++) {
        us[way] = calloc(repeats, sizeof(double));
        if (!us[way])
            bench_die("no memory");
    }
    for (size_t f = 0; f < SLUICE_ARRAY_LEN(forms); f++) {
        double bytes = 0;
        for (size_t round = 0; round <= repeats; round++) { /* the first warms up */
            double sums[2] = {0, 0};
            bytes = 0;
            for (int turn = 0; turn < 2; turn++) {
                const int way = turn ^ (int)(round & 1);
                for (size_t i = 0; i < num_images; i++) {
                    const struct sluice_draw_key key = {
                        .seed = 1, .epoch = (uint32_t)round, .sample_id = i};
                    const struct outcome outcome =
                        run(preparers[way], pipeline, &forms[f], &images[i], key);
                    sums[way] += outcome.us;
                    bytes += (double)outcome.bytes / 2;
                }
            }
            for (int way = 0; way < 2 && round > 0; way++)
                us[way][round - 1] = sums[way] / (double)num_images;
        }
        double ratios[1000];
        for (size_t round = 0; round < repeats; round++)
            ratios[round] = us[1][round] / us[0][round];
        bench_row_begin(&report, forms[f].name);
        bench_row_number(&report, "us", 1, bench_quantile(us[1], repeats, 0.5));
        bench_row_number(&report, "reference_us", 1, bench_quantile(us[0], repeats, 0.5));
        bench_row_number(&report, "ratio", 3, bench_quantile(ratios, repeats, 0.5));
        bench_row_number(&report, "bytes", 0, bytes / (double)num_images);
        bench_row_end(&report);
    }
    for (int way = 0; way < 2; way++) {
        sluice_preparer_destroy(preparers[way]);
        free(us[way]);
    }
    sluice_decoders_close(decoders);
    sluice_pipeline_destroy(pipeline);
    bench_images_free(images, num_images);
    sluice_buf_pool_destroy(pool);
    return 0;
}
