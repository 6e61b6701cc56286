/* nvJPEG by its C API beside our decoder: images a second of the same JPEG files, from the host's
 * memory to pixels on the device.  nvJPEG's batched API decodes, by its kernels and by the device's
 * own decoders (NVJPEG_BACKEND_HARDWARE) where it has some; ours also resizes, to rows of a batch.
 */

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/bench_images.h"
#include "cli/cli.h"
#include "gpu/decoder.h"

#include <cuda_runtime_api.h>
#include <nvjpeg.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void must_nvjpeg(nvjpegStatus_t status, const char *what)
{
    if (status != NVJPEG_STATUS_SUCCESS)
        bench_die("%s: nvJPEG's status %d", what, (int)status);
}

/* The files that are decoded, batch after batch. */
struct files {
    const struct bench_image *all;
    size_t *numbers; /* of all: those that are decoded */
    size_t batch, num_batches;
    uint64_t max_pixels, max_bytes; /* of a batch */
    double mean_bytes;
};

/* The i-th image of a run's batch. */
static const struct bench_image *image_of(const struct files *files, size_t run, size_t i)
{
    return &files->all[files->numbers[run % files->num_batches * files->batch + i]];
}

/* Those JPEGs that `is_taken` takes, as many as fill batches. */
static struct files choose(const struct bench_image *images, size_t num_images, size_t batch,
                           bool (*is_taken)(const struct bench_image *, void *), void *ctx)
{
    struct files files = {
        .all = images, .numbers = bench_alloc(num_images, sizeof(size_t)), .batch = batch};
    uint64_t pixels = 0, bytes = 0, all_bytes = 0;
    size_t num = 0;
    for (size_t i = 0; i < num_images; i++) {
        const struct bench_image *image = &images[i];
        if (image->info.format != SLUICE_IMAGE_JPEG || !is_taken(image, ctx))
            continue;
        files.numbers[num++] = i;
        /* In whole MCUs, of 32 pixels at most. */
        pixels += (uint64_t)(image->info.width + 32) * (image->info.height + 32);
        bytes += image->file->len;
        if (num % batch != 0)
            continue;
        files.num_batches++;
        files.max_pixels = pixels > files.max_pixels ? pixels : files.max_pixels;
        files.max_bytes = bytes > files.max_bytes ? bytes : files.max_bytes;
        all_bytes += bytes;
        pixels = bytes = 0;
    }
    files.mean_bytes = (double)all_bytes / (double)batch / (double)files.num_batches;
    return files;
}

/* A row of the table, by the microseconds of each run's batch. */
static void report_row(const char *name, const struct files *files, double *us, size_t num_runs,
                       const char *makes, struct bench_report *report)
{
    const double median = bench_quantile(us, num_runs, 0.5) / (double)files->batch;
    bench_row_begin(report, name);
    bench_row_number(report, "us", 3, median);
    bench_row_number(report, "per_s", 0, 1e6 / median);
    bench_row_number(report, "least_per_s", 0, 1e6 * (double)files->batch / us[num_runs - 1]);
    bench_row_number(report, "most_per_s", 0, 1e6 * (double)files->batch / us[0]);
    bench_row_number(report, "bytes", 0, files->mean_bytes);
    bench_row_number(report, "files", 0, (double)(files->batch * files->num_batches));
    bench_row_text(report, "makes", makes);
    bench_row_end(report);
}

static void report_nothing(const char *name, const char *why, struct bench_report *report)
{
    static const char *const keys[] = {"us",         "per_s", "least_per_s",
                                       "most_per_s", "bytes", "files"};
    bench_row_begin(report, name);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(keys); i++)
        bench_row_number(report, keys[i], 0, NAN);
    bench_row_text(report, "makes", why);
    bench_row_end(report);
}

/* --- nvJPEG --- */

struct nvjpeg {
    bool is_hardware;
    nvjpegHandle_t handle;
    nvjpegJpegState_t state;
    nvjpegJpegStream_t stream; /* of one file's markers */
    cudaStream_t work;
};

static bool is_supported(const struct bench_image *image, void *ctx)
{
    struct nvjpeg *nvjpeg = ctx;
    int is_not_supported = 1; /* "is_supported": 0 if it is */
    if (nvjpegJpegStreamParse(nvjpeg->handle, image->file->data, image->file->len, 0, 0,
                              nvjpeg->stream) != NVJPEG_STATUS_SUCCESS)
        return false;
    /* The question is about the hardware. */
    return !nvjpeg->is_hardware ||
           (nvjpegDecodeBatchedSupported(nvjpeg->handle, nvjpeg->stream, &is_not_supported) ==
                NVJPEG_STATUS_SUCCESS &&
            is_not_supported == 0);
}

/* The time of each batch, in microseconds: to pixels, each image in its own size. */
static void run_nvjpeg(struct nvjpeg *nvjpeg, const struct files *files, double *us,
                       size_t num_runs)
{
    uint8_t *pixels;
    must_cuda(cudaMalloc((void **)&pixels, files->max_pixels * 3));
    const unsigned char **data = bench_alloc(files->batch, sizeof(*data));
    size_t *lens = bench_alloc(files->batch, sizeof(*lens));
    nvjpegImage_t *images = bench_alloc(files->batch, sizeof(*images));
    must_nvjpeg(nvjpegDecodeBatchedInitialize(nvjpeg->handle, nvjpeg->state, (int)files->batch, 1,
                                              NVJPEG_OUTPUT_RGBI),
                "nvjpegDecodeBatchedInitialize");
    for (size_t r = 0; r < num_runs + files->num_batches; r++) { /* each batch once unmeasured */
        uint64_t at = 0;
        for (size_t i = 0; i < files->batch; i++) {
            const struct bench_image *image = image_of(files, r, i);
            data[i] = image->file->data;
            lens[i] = image->file->len;
            images[i] = (nvjpegImage_t){.channel = {pixels + at * 3},
                                        .pitch = {(size_t)image->info.width * 3}};
            at += (uint64_t)image->info.width * image->info.height;
        }
        must_cuda(cudaStreamSynchronize(nvjpeg->work));
        const uint64_t begin_ns = sluice_clock_ns();
        must_nvjpeg(
            nvjpegDecodeBatched(nvjpeg->handle, nvjpeg->state, data, lens, images, nvjpeg->work),
            "nvjpegDecodeBatched");
        must_cuda(cudaStreamSynchronize(nvjpeg->work));
        if (r >= files->num_batches)
            us[r - files->num_batches] = (double)(sluice_clock_ns() - begin_ns) * 1e-3;
    }
    must_cuda(cudaFree(pixels));
    free(data);
    free(lens);
    free(images);
}

static void measure_nvjpeg(const char *name, nvjpegBackend_t backend, const struct bench_image *all,
                           size_t num_images, size_t batch, uint64_t repeats,
                           struct bench_report *report)
{
    struct nvjpeg nvjpeg = {.is_hardware = backend == NVJPEG_BACKEND_HARDWARE};
    const nvjpegStatus_t status = nvjpegCreateEx(backend, NULL, NULL, 0, &nvjpeg.handle);
    if (status != NVJPEG_STATUS_SUCCESS) {
        char why[64];
        snprintf(why, sizeof(why), "not there (status %d)", (int)status);
        report_nothing(name, why, report);
        return;
    }
    must_nvjpeg(nvjpegJpegStateCreate(nvjpeg.handle, &nvjpeg.state), "nvjpegJpegStateCreate");
    must_nvjpeg(nvjpegJpegStreamCreate(nvjpeg.handle, &nvjpeg.stream), "nvjpegJpegStreamCreate");
    must_cuda(cudaStreamCreateWithFlags(&nvjpeg.work, cudaStreamNonBlocking));
    unsigned num_engines = 0, num_cores = 0;
    if (nvjpeg.is_hardware && nvjpegGetHardwareDecoderInfo(nvjpeg.handle, &num_engines,
                                                           &num_cores) == NVJPEG_STATUS_SUCCESS)
        fprintf(stderr, "hardware decoders: %u, each of %u cores\n", num_engines, num_cores);
    struct files files = choose(all, num_images, batch, is_supported, &nvjpeg);
    if (files.num_batches > 0) {
        const size_t num_runs = files.num_batches * repeats;
        double *us = bench_alloc(num_runs, sizeof(*us));
        run_nvjpeg(&nvjpeg, &files, us, num_runs);
        report_row(name, &files, us, num_runs, "pixels", report);
        free(us);
    } else {
        report_nothing(name, "takes too few of them", report);
    }
    free(files.numbers);
    must_cuda(cudaStreamDestroy(nvjpeg.work));
    nvjpegJpegStreamDestroy(nvjpeg.stream);
    nvjpegJpegStateDestroy(nvjpeg.state);
    nvjpegDestroy(nvjpeg.handle);
}

/* --- ours --- */

/* Whether a batch of ours takes all of the file. */
static bool is_ours(const struct bench_image *image, void *ctx)
{
    struct sluice_gpu_batch *batch = ctx;
    const struct sluice_box box = {.width = image->info.width, .height = image->info.height};
    const struct sluice_gpu_request request = sluice_gpu_request_whole(batch, &box, false, 0);
    sluice_gpu_batch_clear(batch);
    return sluice_gpu_batch_add(batch, image->file->data, image->file->len, NULL, &request, NULL) ==
           SLUICE_OK;
}

static struct sluice_gpu_limits limits_of(size_t batch, uint32_t size, uint64_t bytes,
                                          uint64_t pixels)
{
    return (struct sluice_gpu_limits){
        .max_samples = (uint32_t)batch,
        .num_views = 1,
        .views = {{size, size}},
        .max_file_bytes = bytes,
        .max_pixels = pixels,
    };
}

static struct files choose_ours(const struct bench_image *images, size_t num_images, size_t batch,
                                uint32_t size)
{
    const struct sluice_gpu_limits limits = limits_of(1, size, 64u << 20, 64u << 20);
    struct sluice_gpu_sizes capacity;
    struct sluice_gpu_batch one;
    must(sluice_gpu_limits_check(&limits, &capacity, &err));
    void *upload = aligned_alloc(16, (capacity.upload_bytes + 15) / 16 * 16);
    if (!upload)
        bench_die("no memory");
    sluice_gpu_batch_init(&one, &limits, &capacity, upload);
    const struct files files = choose(images, num_images, batch, is_ours, &one);
    sluice_gpu_batch_destroy(&one);
    free(upload);
    return files;
}

/* The time of each batch, in microseconds: with what the CPU does to put it together. */
static void run_ours(const struct files *files, uint32_t size, double *us, size_t num_runs)
{
    const struct sluice_gpu_limits limits =
        limits_of(files->batch, size, files->max_bytes, files->max_pixels);
    struct sluice_gpu_decoder *decoder;
    must(sluice_gpu_decoder_create(&limits, NULL, &decoder, &err));
    struct sluice_gpu_batch *batch = sluice_gpu_decoder_batch(decoder);
    sluice_status *statuses = bench_alloc(files->batch, sizeof(*statuses));
    uint8_t *rows;
    cudaStream_t stream;
    must_cuda(cudaMalloc((void **)&rows, files->batch * size * size * 3));
    must_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (size_t r = 0; r < num_runs + files->num_batches; r++) {
        const uint64_t begin_ns = sluice_clock_ns();
        for (size_t i = 0; i < files->batch; i++) {
            const struct bench_image *image = image_of(files, r, i);
            const struct sluice_box box = {.width = image->info.width,
                                           .height = image->info.height};
            const struct sluice_gpu_request request =
                sluice_gpu_request_whole(batch, &box, false, (uint32_t)i);
            must(sluice_gpu_batch_add(batch, image->file->data, image->file->len, NULL, &request,
                                      &err));
        }
        must(sluice_gpu_decoder_start(decoder, rows, stream, &err));
        must(sluice_gpu_decoder_wait(decoder, statuses, &err));
        if (r >= files->num_batches)
            us[r - files->num_batches] = (double)(sluice_clock_ns() - begin_ns) * 1e-3;
        for (size_t i = 0; i < files->batch; i++) {
            if (statuses[i] != SLUICE_OK)
                bench_die("%s: %s", image_of(files, r, i)->path, sluice_status_name(statuses[i]));
        }
    }
    sluice_gpu_decoder_destroy(decoder);
    must_cuda(cudaStreamDestroy(stream));
    must_cuda(cudaFree(rows));
    free(statuses);
}

static void measure_ours(const struct bench_image *images, size_t num_images, size_t batch,
                         uint32_t size, uint64_t repeats, struct bench_report *report)
{
    const struct files files = choose_ours(images, num_images, batch, size);
    if (files.num_batches == 0)
        bench_die("fewer files than a batch has, of those that ours decodes: %zu", batch);
    const size_t num_runs = files.num_batches * repeats;
    double *us = bench_alloc(num_runs, sizeof(*us));
    char makes[40];
    snprintf(makes, sizeof(makes), "rows of %u x %u", size, size);
    run_ours(&files, size, us, num_runs);
    report_row("ours", &files, us, num_runs, makes, report);
    free(us);
    free(files.numbers);
}

int main(int argc, char **argv)
{
    uint64_t batch = 256, repeats = 20, size = 224;
    const struct sluice_option table[] = {
        {.name = "batch",
         SLUICE_VALUE_UINT(batch, "N"),
         .help = "images of a batch",
         SLUICE_RANGE(1, 4096)},
        {.name = "repeats",
         SLUICE_VALUE_UINT(repeats, "N"),
         .help = "runs of each batch; medians are shown",
         SLUICE_RANGE(1, 100000)},
        {.name = "size",
         SLUICE_VALUE_UINT(size, "PIXELS"),
         .help = "width and height of the rows that ours makes",
         SLUICE_RANGE(1, 2048)},
    };
    const struct sluice_cli cli = {
        .program = "bench_nvjpeg",
        .summary = "JPEG files to pixels on the device, by nvJPEG and by ours; microseconds an "
                   "image.",
        .positional = "DIR",
        .options = table,
        .num_options = SLUICE_ARRAY_LEN(table),
    };
    const struct sluice_cli_result args = sluice_cli_parse(&cli, argc, argv);
    if (args.should_exit)
        return args.exit_code;
    int num_devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&num_devices);
    if (error != cudaSuccess || num_devices == 0) {
        fprintf(stderr, "skipped: %s\n", cudaGetErrorString(error ? error : cudaErrorNoDevice));
        return 77;
    }
    bench_print_machine();
    struct cudaDeviceProp device;
    must_cuda(cudaGetDeviceProperties(&device, 0));
    int major = 0, minor = 0, patch = 0;
    must_nvjpeg(nvjpegGetProperty(MAJOR_VERSION, &major), "nvjpegGetProperty");
    must_nvjpeg(nvjpegGetProperty(MINOR_VERSION, &minor), "nvjpegGetProperty");
    must_nvjpeg(nvjpegGetProperty(PATCH_LEVEL, &patch), "nvjpegGetProperty");
    fprintf(stderr, "device: %s, nvJPEG %d.%d.%d\n", device.name, major, minor, patch);

    size_t num_images;
    struct bench_image *images = bench_images_load(args.positional[0], 0, &num_images);
    struct bench_report report = {.is_json = args.is_json};
    static const struct {
        const char *name;
        nvjpegBackend_t backend;
    } backends[] = {
        {"nvJPEG, CPU and kernels", NVJPEG_BACKEND_HYBRID},
        {"nvJPEG, kernels", NVJPEG_BACKEND_GPU_HYBRID},
        {"nvJPEG, hardware", NVJPEG_BACKEND_HARDWARE},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(backends); i++)
        measure_nvjpeg(backends[i].name, backends[i].backend, images, num_images, (size_t)batch,
                       repeats, &report);
    measure_ours(images, num_images, (size_t)batch, (uint32_t)size, repeats, &report);
    bench_images_free(images, num_images);
    return 0;
}
