/* The lossless crop on the storage side beside libjpeg-turbo's decode of the same files,
 * and the bytes of both, for the boxes that a training pipeline draws. */

#include "base/buf.h"
#include "base/clock.h"
#include "bench/bench.h"
#include "bench/bench_images.h"
#include "cli/cli.h"
#include "image/codecs/internal.h"
#include "image/jpeg/crop.h"
#include "image/jpeg/index.h"
#include "op/pipeline.h"

#include <math.h>
#include <stdlib.h>

struct jpeg {
    const struct sluice_buf *file;
    uint32_t width, height;
    struct sluice_jpeg_index rows, steps; /* one point a row, and one every 8 MCUs; or {0} */
};

static size_t index_bytes[2]; /* of all JPEGs */

static size_t entry_bytes(const struct sluice_jpeg_index *index)
{
    struct sluice_buf *entry;
    struct sluice_err err = {{0}};
    if (sluice_jpeg_index_write(index, &entry, &err) != SLUICE_OK)
        bench_die("%s", err.text);
    const size_t len = entry->len;
    sluice_buf_unref(entry);
    return len;
}

/* Those of the images that are JPEGs, indexed where that can be. */
static struct jpeg *index_jpegs(const struct bench_image *images, size_t num_images,
                                size_t *num_jpegs)
{
    struct sluice_err err = {{0}};
    struct jpeg *jpegs = calloc(num_images, sizeof(*jpegs));
    if (!jpegs)
        bench_die("no memory");
    *num_jpegs = 0;
    for (size_t i = 0; i < num_images; i++) {
        const struct bench_image *image = &images[i];
        if (image->info.format != SLUICE_IMAGE_JPEG)
            continue;
        struct jpeg *jpeg = &jpegs[(*num_jpegs)++];
        *jpeg = (struct jpeg){
            .file = image->file, .width = image->info.width, .height = image->info.height};
        if (sluice_jpeg_index_build(image->file->data, image->file->len, 0, 0, &jpeg->rows, NULL))
            continue;
        if (sluice_jpeg_index_build(image->file->data, image->file->len, 0, 8, &jpeg->steps, &err))
            bench_die("%s", err.text);
        index_bytes[0] += entry_bytes(&jpeg->rows);
        index_bytes[1] += entry_bytes(&jpeg->steps);
    }
    return jpegs;
}

/* The ways to send an image, and its bytes in each. */
struct work {
    const char *name;
    enum { DECODE, BOX, CROP } what;
    enum { NO_INDEX, ROWS, STEPS } index;
    struct sluice_jpeg_crop_options options;
};

struct context {
    struct sluice_codec *codec;
    struct sluice_buf_pool *pool;
    const struct work *work;
};

/* A damaged file costs what it costs; the file goes then, as where nothing is gained. */
static double run(const struct context *context, const struct jpeg *jpeg,
                  const struct sluice_box *box)
{
    double bytes = (double)jpeg->file->len;
    const struct work *work = context->work;
    const struct sluice_jpeg_index *index = work->index == ROWS    ? &jpeg->rows
                                            : work->index == STEPS ? &jpeg->steps
                                                                   : NULL;
    if (index && index->mcus_down == 0)
        index = NULL;
    if (work->what == CROP) {
        struct sluice_buf *crop;
        struct sluice_jpeg_crop_options options = work->options;
        options.index = index;
        if (sluice_jpeg_crop(jpeg->file->data, jpeg->file->len, box, &options, context->pool, &crop,
                             NULL, NULL) == SLUICE_OK) {
            bytes = (double)crop->len;
            sluice_buf_unref(crop);
        }
    } else if (work->what == BOX) {
        struct sluice_rgb rgb;
        sluice_codec_set_index(context->codec, index);
        if (sluice_codec_decode_region(context->codec, jpeg->file->data, jpeg->file->len, box, 0,
                                       context->pool, &rgb, NULL) == SLUICE_OK)
            sluice_buf_unref(rgb.pixels);
    } else {
        struct sluice_rgb rgb;
        if (sluice_jpeg_decode(context->codec, jpeg->file->data, jpeg->file->len,
                               SLUICE_IMAGE_MAX_PIXELS, context->pool, &rgb, NULL) == SLUICE_OK)
            sluice_buf_unref(rgb.pixels);
    }
    return bytes;
}

int main(int argc, char **argv)
{
    uint64_t epochs = 3, repeats = 3;
    const struct sluice_option table[] = {
        {.name = "epochs",
         SLUICE_VALUE_UINT(epochs, "N"),
         .help = "boxes drawn for each image",
         SLUICE_RANGE(1, 1000)},
        {.name = "repeats",
         SLUICE_VALUE_UINT(repeats, "N"),
         .help = "runs of each, of which the quickest counts",
         SLUICE_RANGE(1, 1000)},
    };
    const struct sluice_cli cli = {
        .program = "bench_jpeg_crop",
        .summary = "Lossless JPEG crops beside a full decode of the same files.",
        .positional = "DIR",
        .options = table,
        .num_options = SLUICE_ARRAY_LEN(table),
    };
    const struct sluice_cli_result args = sluice_cli_parse(&cli, argc, argv);
    if (args.should_exit)
        return args.exit_code;
    bench_pin(0);
    bench_print_machine();
    size_t num_images, num_jpegs;
    struct bench_image *images = bench_images_load(args.positional[0], 0, &num_images);
    struct jpeg *jpegs = index_jpegs(images, num_images, &num_jpegs);
    if (num_jpegs == 0)
        bench_die("%s has no JPEG files", args.positional[0]);

    static const struct work works[] = {
        {.name = "decode by libjpeg-turbo", .what = DECODE},
        {.name = "decode the box", .what = BOX},
        {.name = "decode the box, index of rows", .what = BOX, .index = ROWS},
        {.name = "decode the box, index of 8 MCUs", .what = BOX, .index = STEPS},
        {.name = "crop", .what = CROP},
        {.name = "crop, index of rows", .what = CROP, .index = ROWS},
        {.name = "crop, index of 8 MCUs", .what = CROP, .index = STEPS},
        {.name = "crop, restart every 16 MCUs", .what = CROP, .options = {.restart_interval = 16}},
        {.name = "crop, restart every 8 MCUs", .what = CROP, .options = {.restart_interval = 8}},
        {.name = "crop, restart every 4 MCUs", .what = CROP, .options = {.restart_interval = 4}},
        {.name = "crop, restart every 16 MCUs, index of 8",
         .what = CROP,
         .index = STEPS,
         .options = {.restart_interval = 16}},
        {.name = "crop, restart every 8 MCUs, index of 8",
         .what = CROP,
         .index = STEPS,
         .options = {.restart_interval = 8}},
        {.name = "crop, restart every 4 MCUs, index of 8",
         .what = CROP,
         .index = STEPS,
         .options = {.restart_interval = 4}},
        {.name = "crop, optimal tables", .what = CROP, .options = {.optimal_huffman = true}},
        {.name = "crop by libjpeg-turbo",
         .what = CROP,
         .options = {.route = SLUICE_JPEG_CROP_BY_LIBJPEG}},
    };
    enum { NUM_WORKS = SLUICE_ARRAY_LEN(works) };
    const size_t num_runs = num_jpegs * epochs;
    double *us[NUM_WORKS], *bytes[NUM_WORKS];
    for (size_t w = 0; w < NUM_WORKS; w++) {
        us[w] = calloc(num_runs, sizeof(double));
        bytes[w] = calloc(num_runs, sizeof(double));
        if (!us[w] || !bytes[w])
            bench_die("no memory");
    }

    struct sluice_err err = {{0}};
    struct sluice_pipeline *pipeline;
    struct context context = {0};
    if (sluice_pipeline_parse("decode,random_resized_crop=224,hflip", &pipeline, &err) ||
        sluice_codec_create(&context.codec, &err) ||
        sluice_buf_pool_create((size_t)256 << 20, &context.pool, &err))
        bench_die("%s", err.text);
    for (size_t i = 0; i < num_runs; i++) {
        const struct jpeg *jpeg = &jpegs[i % num_jpegs];
        const struct sluice_draw_key key = {.epoch = (uint32_t)(i / num_jpegs),
                                            .sample_id = i % num_jpegs};
        const struct sluice_draws draws =
            sluice_pipeline_draws(pipeline, &key, jpeg->width, jpeg->height);
        const struct sluice_box box = {draws.left, draws.top, draws.width, draws.height};
        for (size_t w = 0; w < NUM_WORKS; w++) {
            context.work = &works[w];
            us[w][i] = INFINITY;
            for (uint64_t r = 0; r < repeats; r++) {
                const uint64_t start_ns = sluice_thread_cpu_ns();
                bytes[w][i] = run(&context, jpeg, &box);
                const double took = (double)(sluice_thread_cpu_ns() - start_ns) * 1e-3;
                us[w][i] = took < us[w][i] ? took : us[w][i];
            }
        }
    }

    struct bench_report report = {.is_json = args.is_json};
    const double reference_mean = bench_mean(us[0], num_runs);
    const double reference = bench_quantile(us[0], num_runs, 0.5);
    const double file_bytes = bench_mean(bytes[0], num_runs);
    for (size_t w = 0; w < NUM_WORKS; w++) {
        const double mean = bench_mean(us[w], num_runs);
        const double median = bench_quantile(us[w], num_runs, 0.5);
        bench_row_begin(&report, works[w].name);
        bench_row_number(&report, "us", 1, median);
        bench_row_number(&report, "us_mean", 1, mean);
        bench_row_number(&report, "us_p90", 1, bench_quantile(us[w], num_runs, 0.9));
        bench_row_number(&report, "bytes", 0, bench_mean(bytes[w], num_runs));
        bench_row_number(&report, "bytes_ratio", 3, bench_mean(bytes[w], num_runs) / file_bytes);
        bench_row_number(&report, "index_bytes", 0,
                         works[w].index == NO_INDEX
                             ? 0
                             : (double)index_bytes[works[w].index - ROWS] / (double)num_jpegs);
        bench_row_number(&report, "reference_us", 1, reference);
        bench_row_number(&report, "ratio", 3, median / reference);
        bench_row_number(&report, "ratio_mean", 3, mean / reference_mean);
        bench_row_end(&report);
        free(us[w]);
        free(bytes[w]);
    }
    for (size_t i = 0; i < num_jpegs; i++) {
        sluice_jpeg_index_clear(&jpegs[i].rows);
        sluice_jpeg_index_clear(&jpegs[i].steps);
    }
    free(jpegs);
    bench_images_free(images, num_images);
    sluice_codec_destroy(context.codec);
    sluice_buf_pool_destroy(context.pool);
    sluice_pipeline_destroy(pipeline);
    return 0;
}
