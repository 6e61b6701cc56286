/* JPEG crops to rows of a batch on the device, and their hashes, with the time of each kernel and
 * what it moves, beside the CPU's decoder and resize of the same crops; every row and every hash is
 * compared with the CPU's first. */

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "bench/bench.h"
#include "bench/bench_images.h"
#include "cli/cli.h"
#include "gpu/decode_cuda.h"
#include "gpu/decoder.h"
#include "image/codecs/codec.h"
#include "image/jpeg/crop.h"
#include "image/resize.h"
#include "op/pipeline.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How the device finds where to begin. */
struct work {
    const char *name;
    bool is_indexed;   /* by the whole file's index; else by markers in a crop that is cut: */
    uint32_t interval; /* MCUs; 0: each row */
};

struct crop {
    struct sluice_buf *file;
    struct sluice_jpeg_index *index; /* or NULL */
    struct sluice_gpu_request request;
    uint64_t cpu_ns;
};

/* Batch after batch, of what a training run would fetch. */
struct crops {
    struct crop *crops;
    size_t batch, num_batches;
    double mean_bytes;
};

static struct sluice_err err;

static void must(sluice_status status)
{
    bench_check(status, &err);
}

static void must_cuda(cudaError_t error)
{
    if (error != cudaSuccess)
        bench_die("%s", cudaGetErrorString(error));
}

/* Makes the crop a cut file, and the box one in it; or the whole file.  False: that cannot be. */
static bool cut(const struct bench_image *image, const struct work *work, struct sluice_box *box,
                struct crop *crop)
{
    if (work->is_indexed) {
        crop->index = bench_alloc(1, sizeof(*crop->index));
        if (sluice_jpeg_index_build(image->file->data, image->file->len, 0,
                                    SLUICE_JPEG_INDEX_AUTO_STEP, crop->index, NULL) == SLUICE_OK) {
            crop->file = sluice_buf_ref(image->file);
            return true;
        }
        free(crop->index);
        crop->index = NULL;
        return false;
    }
    const struct sluice_jpeg_crop_options options = {.restart_interval = work->interval,
                                                     .allow_larger = true};
    struct sluice_jpeg_crop_box window;
    if (sluice_jpeg_crop(image->file->data, image->file->len, box, &options, NULL, &crop->file,
                         &window, NULL) != SLUICE_OK)
        return false;
    box->left -= window.left;
    box->top -= window.top;
    return true;
}

/* The next crop from image `i` on that is a baseline JPEG; a file that cannot be cut is passed
 * over. */
static void cut_next(const struct bench_image *images, size_t num_images, size_t *i,
                     const struct sluice_pipeline *pipeline, const struct work *work,
                     struct crop *crop)
{
    for (size_t tries = 0; tries < num_images; tries++) {
        const size_t number = (*i)++;
        const struct bench_image *image = &images[number % num_images];
        if (image->info.format != SLUICE_IMAGE_JPEG)
            continue;
        const struct sluice_draw_key key = {.epoch = (uint32_t)(number / num_images),
                                            .sample_id = number % num_images};
        const struct sluice_draws draws =
            sluice_pipeline_draws(pipeline, &key, image->info.width, image->info.height);
        struct sluice_box box = {draws.left, draws.top, draws.width, draws.height};
        if (!cut(image, work, &box, crop))
            continue;
        const uint32_t size = sluice_pipeline_view_size(pipeline, 0).width;
        crop->request = (struct sluice_gpu_request){
            .box = box,
            .part = {box.width, box.height, size, size, {0, 0, size, size}},
            .is_flipped = draws.flip,
        };
        return;
    }
    bench_die("no file can be cut");
}

static void cut_all(struct crops *all, const struct bench_image *images, size_t num_images,
                    const struct sluice_pipeline *pipeline, const struct work *work)
{
    const size_t num = all->batch * all->num_batches;
    size_t next = 0;
    all->mean_bytes = 0;
    all->crops = bench_alloc(num, sizeof(*all->crops));
    for (size_t i = 0; i < num; i++) {
        cut_next(images, num_images, &next, pipeline, work, &all->crops[i]);
        all->crops[i].request.row = (uint32_t)(i % all->batch);
        all->mean_bytes += (double)all->crops[i].file->len / (double)num;
    }
}

static void drop_all(struct crops *all)
{
    for (size_t i = 0; i < all->batch * all->num_batches; i++) {
        sluice_buf_unref(all->crops[i].file);
        sluice_jpeg_index_destroy(all->crops[i].index);
    }
    free(all->crops);
}

static void write_crops(const struct crops *all, const char *folder)
{
    for (size_t i = 0; i < all->batch * all->num_batches; i++) {
        char *path;
        if (asprintf(&path, "%s/%05zu.jpg", folder, i) < 0)
            bench_die("no memory");
        FILE *file = fopen(path, "wb");
        const struct sluice_buf *crop = all->crops[i].file;
        if (!file || fwrite(crop->data, 1, crop->len, file) != crop->len || fclose(file) != 0)
            bench_die("cannot write %s", path);
        free(path);
    }
}

/* The CPU's row, and its time. */
static void decode_on_cpu(struct sluice_codec *codec, struct sluice_resizer *resizer,
                          struct sluice_buf_pool *pool, struct crop *crop, uint8_t *row)
{
    const uint64_t start_ns = sluice_thread_cpu_ns();
    struct sluice_rgb rgb;
    must(sluice_codec_decode_region(codec, crop->file->data, crop->file->len, &crop->request.box, 0,
                                    pool, &rgb, &err));
    const struct sluice_image_view view = {
        .pixels = rgb.pixels->data,
        .stride = (size_t)rgb.width * 3,
        .width = rgb.width,
        .height = rgb.height,
    };
    must(sluice_resize_rgb_part(resizer, &crop->request.part, &view, crop->request.is_flipped, row,
                                &err));
    sluice_buf_unref(rgb.pixels);
    crop->cpu_ns = sluice_thread_cpu_ns() - start_ns;
}

struct bench {
    struct sluice_gpu_decoder *decoder;
    cudaStream_t stream;
    uint8_t *device_rows, *rows;
    sluice_status *statuses;
    uint32_t *numbers; /* of the samples that the device took, in their order */
    uint64_t *ends;    /* of these, in the batch's memory */
    struct sluice_codec *codec;
    struct sluice_resizer *resizer;
    struct sluice_buf_pool *pool;
    size_t row_bytes;
    struct sluice_gpu_hash_item *items; /* page-locked, as the hashes */
    struct sluice_gpu_hash *hashes;
    cudaEvent_t hash_start, hash_end;
    double memory_bytes_per_s; /* of the device, as it says */
};

/* The decoder's, and the hash. */
enum { HASH = SLUICE_GPU_NUM_STAGES, NUM_STAGES };

static const char *stage_name(unsigned stage)
{
    return stage == HASH ? "hash" : sluice_gpu_stage_names[stage];
}

/* Writes the samples of a batch; returns how many the device takes. */
static size_t fill(struct bench *bench, const struct crops *all, size_t number)
{
    struct sluice_gpu_batch *batch = sluice_gpu_decoder_batch(bench->decoder);
    size_t num_added = 0;
    sluice_gpu_batch_use(batch, batch->upload, sluice_gpu_index_bytes(&batch->limits));
    for (size_t i = 0; i < all->batch; i++) {
        const struct crop *crop = &all->crops[number * all->batch + i];
        const sluice_status status = sluice_gpu_batch_add(batch, crop->file->data, crop->file->len,
                                                          crop->index, &crop->request, &err);
        if (status == SLUICE_E_AGAIN)
            bench_die("a batch has no room for its samples");
        if (status != SLUICE_OK)
            continue;
        bench->ends[num_added] = batch->used.upload_bytes;
        bench->numbers[num_added++] = (uint32_t)i;
    }
    err = (struct sluice_err){{0}};
    return num_added;
}

/* Gives the samples that are written their places, which is all that a lane of a loader does. */
static void place(struct bench *bench, size_t num_rows)
{
    struct sluice_gpu_batch *batch = sluice_gpu_decoder_batch(bench->decoder);
    uint64_t at = sluice_gpu_index_bytes(&batch->limits);
    sluice_gpu_batch_use(batch, batch->upload, batch->used.upload_bytes);
    for (size_t i = 0; i < num_rows; at = bench->ends[i++])
        must(sluice_gpu_batch_place(batch, at, bench->ends[i] - at, bench->numbers[i], &err));
}

static void decode(struct bench *bench)
{
    must(sluice_gpu_decoder_start(bench->decoder, bench->device_rows, bench->stream, &err));
    must(sluice_gpu_decoder_wait(bench->decoder, bench->statuses, &err));
}

/* The digest of the rows that were added, as labels 0 .. batch - 1. */
static float hash(struct bench *bench, size_t num_rows)
{
    float ms;
    for (size_t i = 0; i < num_rows; i++)
        bench->items[i] = (struct sluice_gpu_hash_item){bench->numbers[i], bench->numbers[i]};
    must_cuda(cudaEventRecord(bench->hash_start, bench->stream));
    const struct sluice_gpu_row_views views =
        sluice_gpu_row_views_of(&sluice_gpu_decoder_batch(bench->decoder)->limits);
    must_cuda(sluice_gpu_launch_hash(bench->stream, bench->device_rows, &views, bench->items,
                                     (uint32_t)num_rows, bench->hashes));
    must_cuda(cudaEventRecord(bench->hash_end, bench->stream));
    must_cuda(cudaEventSynchronize(bench->hash_end));
    must_cuda(cudaEventElapsedTime(&ms, bench->hash_start, bench->hash_end));
    return ms;
}

static bool is_hash(const struct bench *bench, const uint8_t *row, uint64_t label,
                    const struct sluice_gpu_hash *hash)
{
    uint8_t *input = bench_alloc(1, bench->row_bytes + sizeof(label));
    memcpy(input, row, bench->row_bytes);
    memcpy(input + bench->row_bytes, &label, sizeof(label)); /* little endian */
    const struct sluice_hash128 want = sluice_hash128(input, bench->row_bytes + sizeof(label));
    free(input);
    return want.high == hash->high && want.low == hash->low;
}

/* Every row of every batch; returns how many the device made. */
static size_t compare(struct bench *bench, struct crops *all)
{
    size_t num_made = 0;
    uint8_t *want = bench_alloc(1, bench->row_bytes);
    for (size_t b = 0; b < all->num_batches; b++) {
        const size_t num = fill(bench, all, b);
        place(bench, num);
        decode(bench);
        hash(bench, num);
        must_cuda(cudaMemcpy(bench->rows, bench->device_rows, all->batch * bench->row_bytes,
                             cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < num; i++) {
            const size_t row = bench->numbers[i];
            if (bench->statuses[i] != SLUICE_OK)
                continue;
            decode_on_cpu(bench->codec, bench->resizer, bench->pool,
                          &all->crops[b * all->batch + row], want);
            if (memcmp(want, bench->rows + row * bench->row_bytes, bench->row_bytes) != 0)
                bench_die("crop %zu of batch %zu: the device's row is another than the CPU's", row,
                          b);
            if (!is_hash(bench, want, row, &bench->hashes[i]))
                bench_die("crop %zu of batch %zu: the device's hash is another than the CPU's", row,
                          b);
            num_made++;
        }
    }
    free(want);
    return num_made;
}

/* Of each run, in the order of the runs. */
struct measures {
    double *stages[NUM_STAGES]; /* microseconds of a batch */
    double *add_us, *place_us, *device_us, *wall_us;
    double bytes[NUM_STAGES]; /* of a batch, mean */
    size_t num_runs;
};

/* Adds what each stage reads and writes of the device's memory, once: for the upload what crosses
 * the bus. */
static void add_bytes(const struct bench *bench, size_t num_rows, struct measures *all)
{
    const struct sluice_gpu_sizes *used = &sluice_gpu_decoder_batch(bench->decoder)->used;
    const double coefficients = (double)used->blocks * 128, samples = (double)used->blocks * 64;
    const double pixels = (double)used->pixels * 4, weights = (double)used->weights * 4;
    const double rows = (double)(num_rows * bench->row_bytes);
    const double bytes[NUM_STAGES] = {
        [SLUICE_GPU_UPLOAD] = (double)used->upload_bytes,
        [SLUICE_GPU_CLEAR] = coefficients,
        [SLUICE_GPU_WEIGH] = weights,
        [SLUICE_GPU_DECODE] = (double)used->upload_bytes + coefficients,
        [SLUICE_GPU_TRANSFORM] = coefficients + samples,
        [SLUICE_GPU_PASS_ACROSS] = samples + weights + pixels,
        [SLUICE_GPU_PASS_DOWN] = pixels + weights + rows,
        [HASH] = rows,
    };
    for (unsigned s = 0; s < NUM_STAGES; s++)
        all->bytes[s] += bytes[s] / (double)all->num_runs;
}

static void run(struct bench *bench, const struct crops *crops, size_t r, struct measures *all)
{
    const double batch = (double)crops->batch;
    const uint64_t start_ns = sluice_thread_cpu_ns();
    const size_t num_rows = fill(bench, crops, r % crops->num_batches);
    all->add_us[r] = (double)(sluice_thread_cpu_ns() - start_ns) * 1e-3 / batch;
    const uint64_t place_ns = sluice_thread_cpu_ns();
    place(bench, num_rows);
    all->place_us[r] = (double)(sluice_thread_cpu_ns() - place_ns) * 1e-3 / batch;
    add_bytes(bench, num_rows, all);
    const uint64_t begin_ns = sluice_clock_ns();
    decode(bench);
    all->wall_us[r] = (double)(sluice_clock_ns() - begin_ns) * 1e-3 / batch;
    float times_ms[NUM_STAGES];
    must(sluice_gpu_decoder_times(bench->decoder, times_ms, &err));
    times_ms[HASH] = hash(bench, num_rows);
    for (unsigned s = 0; s < NUM_STAGES; s++) {
        all->stages[s][r] = times_ms[s] * 1e3;
        if (s != HASH)
            all->device_us[r] += times_ms[s] * 1e3 / batch;
    }
}

/* A row for each kernel: what it moves, and at which part of the memory's rate. */
static void report_stages(const struct bench *bench, const char *name, const struct measures *all,
                          struct bench_report *report)
{
    for (unsigned s = SLUICE_GPU_CLEAR; s < NUM_STAGES; s++) {
        char row[64];
        const double us = bench_quantile(all->stages[s], all->num_runs, 0.5);
        snprintf(row, sizeof(row), "%s: %s", name, stage_name(s));
        bench_row_begin(report, row);
        bench_row_number(report, "stage_us", 1, us);
        bench_row_number(report, "mb", 2, all->bytes[s] * 1e-6);
        bench_row_number(report, "of_memory", 3,
                         all->bytes[s] / us * 1e6 / bench->memory_bytes_per_s);
        bench_row_end(report);
    }
}

static double reference_us(const struct crops *crops)
{
    const size_t num = crops->batch * crops->num_batches;
    double *cpu_us = bench_alloc(num, sizeof(double));
    size_t num_cpu = 0;
    for (size_t i = 0; i < num; i++) {
        if (crops->crops[i].cpu_ns)
            cpu_us[num_cpu++] = (double)crops->crops[i].cpu_ns * 1e-3;
    }
    const double mean = bench_mean(cpu_us, num_cpu);
    free(cpu_us);
    return mean;
}

static void measure(struct bench *bench, struct crops *crops, const char *name, uint64_t repeats,
                    struct bench_report *report)
{
    const size_t num_made = compare(bench, crops);
    const size_t num_runs = crops->num_batches * repeats;
    struct measures all = {.num_runs = num_runs};
    all.add_us = bench_alloc(num_runs, sizeof(double));
    all.place_us = bench_alloc(num_runs, sizeof(double));
    all.device_us = bench_alloc(num_runs, sizeof(double));
    all.wall_us = bench_alloc(num_runs, sizeof(double));
    for (unsigned s = 0; s < NUM_STAGES; s++)
        all.stages[s] = bench_alloc(num_runs, sizeof(double));
    for (size_t r = 0; r < num_runs; r++)
        run(bench, crops, r, &all);
    const double us = bench_quantile(all.device_us, num_runs, 0.5);
    const double cpu_us = reference_us(crops);
    bench_row_begin(report, name);
    bench_row_number(report, "us", 3, us);
    bench_row_number(report, "per_s", 0, 1e6 / us);
    bench_row_number(report, "wall_us", 3, bench_quantile(all.wall_us, num_runs, 0.5));
    bench_row_number(report, "add_us", 2, bench_quantile(all.add_us, num_runs, 0.5));
    bench_row_number(report, "place_us", 2, bench_quantile(all.place_us, num_runs, 0.5));
    bench_row_number(report, "bytes", 0, crops->mean_bytes);
    bench_row_number(report, "made", 0, (double)num_made);
    for (unsigned s = 0; s < NUM_STAGES; s++)
        bench_row_number(report, stage_name(s), 1, bench_quantile(all.stages[s], num_runs, 0.5));
    bench_row_number(report, "reference_us", 1, cpu_us);
    bench_row_number(report, "ratio", 4, us / cpu_us);
    bench_row_end(report);
    report_stages(bench, name, &all, report);
    for (unsigned s = 0; s < NUM_STAGES; s++)
        free(all.stages[s]);
    free(all.add_us);
    free(all.place_us);
    free(all.device_us);
    free(all.wall_us);
}

/* Both ends of a clock count. */
static double memory_rate(void)
{
    int khz, bits;
    must_cuda(cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, 0));
    must_cuda(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, 0));
    return 2e3 * khz * bits / 8;
}

static double clock_mhz(void)
{
    int khz;
    must_cuda(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
    return khz * 1e-3;
}

int main(int argc, char **argv)
{
    uint64_t batch = 256, num_batches = 4, repeats = 20, size = 224;
    const char *folder = NULL, *only = NULL;
    const struct sluice_option table[] = {
        {.name = "batch",
         SLUICE_VALUE_UINT(batch, "N"),
         .help = "samples of a batch",
         SLUICE_RANGE(1, 4096)},
        {.name = "batches",
         SLUICE_VALUE_UINT(num_batches, "N"),
         .help = "different batches",
         SLUICE_RANGE(1, 1000)},
        {.name = "repeats",
         SLUICE_VALUE_UINT(repeats, "N"),
         .help = "runs of each batch; medians are shown",
         SLUICE_RANGE(1, 100000)},
        {.name = "size",
         SLUICE_VALUE_UINT(size, "PIXELS"),
         .help = "width and height of the rows",
         .min = 9, /* hash_kernels.h: more than 232 bytes */
         .max = 2048},
        {.name = "only",
         SLUICE_VALUE_STRING(only, "NAME"),
         .help = "measure one row, 'each 8 MCUs' for example"},
        {.name = "write-crops",
         SLUICE_VALUE_STRING(folder, "DIR"),
         .help = "write the crops without restart markers to a folder, for gpu_nvjpeg"},
    };
    const struct sluice_cli cli = {
        .program = "bench_gpu_decode",
        .summary = "JPEG crops to rows of a batch on the device; microseconds an image (add_us and "
                   "place_us: a worker's and a lane's CPU), and those of a batch for each stage.",
        .positional = "DIR",
        .options = table,
        .num_options = SLUICE_ARRAY_LEN(table),
    };
    const struct sluice_cli_result args = sluice_cli_parse(&cli, argc, argv);
    if (args.should_exit)
        return args.exit_code;
    bench_print_machine();
    struct cudaDeviceProp device;
    must_cuda(cudaGetDeviceProperties(&device, 0));
    fprintf(stderr, "device: %s, %d multiprocessors at %.0f MHz at most, memory of %.0f GB/s\n",
            device.name, device.multiProcessorCount, clock_mhz(), memory_rate() * 1e-9);
    size_t num_images;
    struct bench_image *images = bench_images_load(args.positional[0], 0, &num_images);
    char spec[128];
    snprintf(spec, sizeof(spec), "decode,random_resized_crop=%u,hflip", (unsigned)size);
    struct sluice_pipeline *pipeline;
    must(sluice_pipeline_parse(spec, &pipeline, &err));

    const struct sluice_gpu_limits limits = {
        .max_samples = (uint32_t)batch,
        .num_views = 1,
        .views = {{(uint32_t)size, (uint32_t)size}},
        .max_file_bytes = batch * 400000,
        .max_pixels = batch * 400000,
    };
    struct bench bench = {.row_bytes = size * size * 3, .memory_bytes_per_s = memory_rate()};
    must(sluice_gpu_decoder_create(&limits, NULL, &bench.decoder, &err));
    fprintf(stderr, "memory of the device: %.0f MB\n",
            (double)sluice_gpu_decoder_bytes(bench.decoder) * 1e-6);
    must(sluice_codec_create(&bench.codec, &err));
    must(sluice_resizer_create(&bench.resizer, &err));
    must(sluice_buf_pool_create((size_t)256 << 20, &bench.pool, &err));
    must_cuda(cudaStreamCreateWithFlags(&bench.stream, cudaStreamNonBlocking));
    must_cuda(cudaMalloc((void **)&bench.device_rows, batch * bench.row_bytes));
    must_cuda(cudaMallocHost((void **)&bench.items, batch * sizeof(*bench.items)));
    must_cuda(cudaMallocHost((void **)&bench.hashes, batch * sizeof(*bench.hashes)));
    must_cuda(cudaEventCreate(&bench.hash_start));
    must_cuda(cudaEventCreate(&bench.hash_end));
    bench.rows = bench_alloc(batch, bench.row_bytes);
    bench.statuses = bench_alloc(batch, sizeof(*bench.statuses));
    bench.numbers = bench_alloc(batch, sizeof(*bench.numbers));
    bench.ends = bench_alloc(batch, sizeof(*bench.ends));

    static const struct work works[] = {
        {"a marker each row", false, 0}, {"each 16 MCUs", false, 16}, {"each 8 MCUs", false, 8},
        {"each 4 MCUs", false, 4},       {"each 2 MCUs", false, 2},   {"an index", true, 0},
    };
    struct bench_report report = {.is_json = args.is_json};
    for (size_t w = 0; w < SLUICE_ARRAY_LEN(works); w++) {
        if (only && strcmp(only, works[w].name) != 0)
            continue;
        struct crops all = {.batch = batch, .num_batches = num_batches};
        cut_all(&all, images, num_images, pipeline, &works[w]);
        if (folder && works[w].interval == 0 && !works[w].is_indexed)
            write_crops(&all, folder);
        measure(&bench, &all, works[w].name, repeats, &report);
        drop_all(&all);
    }

    bench_images_free(images, num_images);
    sluice_pipeline_destroy(pipeline);
    sluice_gpu_decoder_destroy(bench.decoder);
    sluice_codec_destroy(bench.codec);
    sluice_resizer_destroy(bench.resizer);
    sluice_buf_pool_destroy(bench.pool);
    must_cuda(cudaFree(bench.device_rows));
    must_cuda(cudaFreeHost(bench.items));
    must_cuda(cudaFreeHost(bench.hashes));
    must_cuda(cudaEventDestroy(bench.hash_start));
    must_cuda(cudaEventDestroy(bench.hash_end));
    must_cuda(cudaStreamDestroy(bench.stream));
    free(bench.rows);
    free(bench.statuses);
    free(bench.numbers);
    free(bench.ends);
    return 0;
}
