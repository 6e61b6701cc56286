#include "train/train.h"

#include "support/test.h"
#include "train_support.h"

#include <cuda_runtime_api.h>
#include <math.h>

/* What test_train_device and test_train_reference do not ask of a GPU. */

enum { N = 16, SIZE = 64, CLASSES = 10, ROW = SIZE * SIZE * 3 };

static uint8_t pixels[N * ROW];
static uint32_t labels[N];

static struct sluice_train_options options_of(const char *model)
{
    return (struct sluice_train_options){
        .device = "cuda",
        .model = model,
        .num_classes = CLASSES,
        .height = SIZE,
        .width = SIZE,
        .batch_size = N,
        .lr = 0.01,
        .momentum = 0.9,
        .weight_decay = 1e-4,
        .seed = 3,
        .table = train_test_table,
        .precision = SLUICE_PRECISION_FP32,
        .dropout = -1,
    };
}

static void step(struct sluice_trainer *trainer, uint64_t offset, unsigned n)
{
    struct sluice_err err = {{0}};
    train_test_fill_batch(n, SIZE, CLASSES, offset, pixels, labels);
    const struct sluice_train_batch batch = {.pixels = pixels, .labels = labels, .n = n};
    train_test_require(sluice_trainer_step(trainer, &batch, &err), &err);
}

static double mean_loss(struct sluice_trainer *trainer)
{
    struct sluice_err err = {{0}};
    struct sluice_train_totals totals;
    train_test_require(sluice_trainer_collect(trainer, &totals, &err), &err);
    return totals.loss_sum / (double)totals.samples;
}

static float *params_of(struct sluice_trainer *trainer, size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < sluice_trainer_num_params(trainer); i++)
        *count += sluice_trainer_param_count(trainer, i);
    float *values = calloc(*count + 1, sizeof(*values));
    size_t start = 0;
    for (size_t i = 0; i < sluice_trainer_num_params(trainer); i++) {
        struct sluice_err err = {{0}};
        train_test_require(sluice_trainer_get_param(trainer, i, values + start, &err), &err);
        start += sluice_trainer_param_count(trainer, i);
    }
    return values;
}

/* The same step twice, the second time with the batch's memory overwritten at once. */
TEST(the_batch_is_the_callers_again_after_a_step)
{
    const struct sluice_train_options options = options_of("small_cnn");
    double losses[2][6];
    for (int k = 0; k < 2; k++) {
        struct sluice_trainer *trainer = train_test_create(&options);
        struct sluice_err err = {{0}};
        void *pinned = NULL;
        train_test_require(sluice_trainer_host_alloc(trainer, sizeof(pixels), &pinned, &err), &err);
        CU_ASSERT_EQUAL((uintptr_t)pinned % 64, 0);
        for (uint64_t i = 0; i < 6; i++) {
            train_test_fill_batch(N, SIZE, CLASSES, i * 1000, pinned, labels);
            const struct sluice_train_batch batch = {.pixels = pinned, .labels = labels, .n = N};
            train_test_require(sluice_trainer_step(trainer, &batch, &err), &err);
            if (k == 1) {
                memset(pinned, 255, sizeof(pixels));
                memset(labels, 0, sizeof(labels));
            } else {
                losses[k][i] = mean_loss(trainer); /* waits for the step */
            }
        }
        if (k == 1)
            losses[k][0] = mean_loss(trainer);
        sluice_trainer_host_free(trainer, pinned);
        sluice_trainer_destroy(trainer);
    }
    double mean = 0;
    for (int i = 0; i < 6; i++)
        mean += losses[0][i] / 6;
    CU_ASSERT_DOUBLE_EQUAL(losses[1][0], mean, 1e-6);
}

/* Two blocks of rows on the device, which take turns, filled on a stream of their own. */
struct device_rows {
    cudaStream_t stream;
    uint8_t *blocks[2];
    cudaEvent_t read[2];
    unsigned next;
};

static void make_rows(struct device_rows *rows)
{
    *rows = (struct device_rows){0};
    CU_ASSERT_EQUAL_FATAL(cudaStreamCreateWithFlags(&rows->stream, cudaStreamNonBlocking), 0);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(cudaMalloc((void **)&rows->blocks[i], sizeof(pixels)), 0);
        CU_ASSERT_EQUAL_FATAL(cudaEventCreate(&rows->read[i]), 0);
    }
}

static void clear_rows(struct device_rows *rows)
{
    CU_ASSERT_EQUAL(cudaStreamSynchronize(rows->stream), 0);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(cudaEventDestroy(rows->read[i]), 0);
        CU_ASSERT_EQUAL(cudaFree(rows->blocks[i]), 0);
    }
    CU_ASSERT_EQUAL(cudaStreamDestroy(rows->stream), 0);
}

/* Overwrites the rows as soon as an event on the trainer's stream says that they were read. */
static void step_on_device_rows(struct sluice_trainer *trainer, struct device_rows *rows,
                                unsigned n, bool is_training)
{
    struct sluice_err err = {{0}};
    const unsigned block = rows->next++ % 2;
    CU_ASSERT_EQUAL(cudaMemcpyAsync(rows->blocks[block], pixels, sizeof(pixels),
                                    cudaMemcpyHostToDevice, rows->stream),
                    0);
    CU_ASSERT_EQUAL(cudaStreamSynchronize(rows->stream), 0);
    const struct sluice_train_batch batch = {
        .pixels = rows->blocks[block], .labels = labels, .n = n, .is_on_device = true};
    train_test_require(is_training ? sluice_trainer_step(trainer, &batch, &err)
                                   : sluice_trainer_evaluate(trainer, &batch, &err),
                       &err);
    memset(labels, 0, sizeof(labels));
    cudaStream_t compute = sluice_trainer_stream(trainer);
    CU_ASSERT_EQUAL(cudaEventRecord(rows->read[block], compute), 0);
    CU_ASSERT_EQUAL(cudaStreamWaitEvent(rows->stream, rows->read[block], 0), 0);
    CU_ASSERT_EQUAL(cudaMemsetAsync(rows->blocks[block], 255, sizeof(pixels), rows->stream), 0);
}

enum where { HOST, DEVICE, IN_TURNS };

/* Eight steps, of which the third is short and the sixth an evaluation. */
static float *run_on(const char *model, enum where where, double *loss, size_t *count)
{
    const struct sluice_train_options options = options_of(model);
    struct sluice_trainer *trainer = train_test_create(&options);
    int device = -1;
    CU_ASSERT_EQUAL(cudaGetDevice(&device), 0);
    CU_ASSERT_EQUAL(sluice_trainer_device(trainer), device);
    struct device_rows rows;
    make_rows(&rows);
    for (uint64_t i = 0; i < 8; i++) {
        const bool is_training = i != 5;
        const unsigned n = i == 2 ? N - 3 : N;
        train_test_fill_batch(N, SIZE, CLASSES, i * 1000, pixels, labels);
        if (where == DEVICE || (where == IN_TURNS && i % 3)) {
            step_on_device_rows(trainer, &rows, n, is_training);
            continue;
        }
        struct sluice_err err = {{0}};
        const struct sluice_train_batch batch = {.pixels = pixels, .labels = labels, .n = n};
        train_test_require(is_training ? sluice_trainer_step(trainer, &batch, &err)
                                       : sluice_trainer_evaluate(trainer, &batch, &err),
                           &err);
    }
    *loss = mean_loss(trainer);
    float *values = params_of(trainer, count);
    clear_rows(&rows);
    sluice_trainer_destroy(trainer);
    return values;
}

TEST(rows_on_the_device_train_as_the_hosts_do)
{
    static const char *const models[] = {"alexnet", "resnet18", "small_cnn"};
    for (size_t m = 0; m < SLUICE_ARRAY_LEN(models); m++) {
        double wanted_loss;
        size_t count;
        float *wanted = run_on(models[m], HOST, &wanted_loss, &count);
        CU_ASSERT(isfinite(wanted_loss));
        for (enum where where = DEVICE; where <= IN_TURNS; where++) {
            double loss;
            float *values = run_on(models[m], where, &loss, &count);
            CU_ASSERT_EQUAL(loss, wanted_loss);
            CU_ASSERT(train_test_same_bits(values, wanted, count * sizeof(*values)));
            free(values);
        }
        free(wanted);
    }
}

TEST(the_upload_is_measured_and_leaves_training_as_it_was)
{
    const struct sluice_train_options options = options_of("small_cnn");
    double loss[2];
    for (int k = 0; k < 2; k++) {
        struct sluice_trainer *trainer = train_test_create(&options);
        struct sluice_err err = {{0}};
        if (k == 1) {
            double bytes_per_s = 0;
            train_test_require(sluice_trainer_measure_upload(trainer, &bytes_per_s, &err), &err);
            printf("%.2f GB/s\n", bytes_per_s * 1e-9);
            CU_ASSERT(bytes_per_s > 10e6 && bytes_per_s < 1e13);
        }
        step(trainer, 0, N);
        loss[k] = mean_loss(trainer);
        sluice_trainer_destroy(trainer);
    }
    CU_ASSERT_EQUAL(loss[0], loss[1]);
}

/* The second trainer has an engine cache of its own, which another timing may have filled otherwise:
 * the checkpoint brings the first one's engines. */
TEST(a_run_from_a_checkpoint_goes_on_as_if_never_stopped)
{
    static const struct {
        const char *model;
        enum sluice_precision precision;
    } cases[] = {{"alexnet", SLUICE_PRECISION_FP32},
                 {"resnet18", SLUICE_PRECISION_FP32},
                 {"resnet18", SLUICE_PRECISION_BF16},
                 {"resnet50", SLUICE_PRECISION_BF16}};
    const char *path = sluice_test_path("checkpoint");
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(cases); k++) {
        struct sluice_train_options options = options_of(cases[k].model);
        options.precision = cases[k].precision;
        struct sluice_trainer *first = train_test_create(&options);
        struct sluice_err err = {{0}};
        step(first, 0, N);
        step(first, 1, N - 3);
        train_test_require(sluice_trainer_save(first, path, "{}", &err), &err);
        step(first, 2, N);
        step(first, 3, N);

        options.engine_cache = sluice_test_path("engines");
        struct sluice_trainer *second = train_test_create(&options);
        char *extra = NULL;
        train_test_require(sluice_trainer_load(second, path, &extra, &err), &err);
        CU_ASSERT_STRING_EQUAL(extra, "{}");
        free(extra);
        step(second, 2, N);
        step(second, 3, N);

        size_t count;
        float *a = params_of(first, &count), *b = params_of(second, &count);
        CU_ASSERT(train_test_same_bits(a, b, count * sizeof(*a)));
        free(a), free(b);
        sluice_trainer_destroy(first);
        sluice_trainer_destroy(second);
    }
}

/* small_cnn's last stage has one pixel at image size 16, and one sample then is one value. */
TEST(a_single_value_can_be_normalised)
{
    struct sluice_train_options options = options_of("small_cnn");
    options.height = options.width = 16;
    options.batch_size = 1;
    struct sluice_trainer *trainer = train_test_create(&options);
    train_test_fill_batch(1, 16, CLASSES, 0, pixels, labels);
    const struct sluice_train_batch batch = {.pixels = pixels, .labels = labels, .n = 1};
    struct sluice_err err = {{0}};
    for (int i = 0; i < 3; i++)
        train_test_require(sluice_trainer_step(trainer, &batch, &err), &err);
    train_test_require(sluice_trainer_evaluate(trainer, &batch, &err), &err);
    CU_ASSERT(isfinite(mean_loss(trainer)));
    size_t count;
    float *values = params_of(trainer, &count);
    unsigned num_bad = 0;
    for (size_t i = 0; i < count; i++)
        num_bad += !isfinite(values[i]);
    CU_ASSERT_EQUAL(num_bad, 0);
    free(values);
    sluice_trainer_destroy(trainer);
}

TEST(a_batch_beyond_the_devices_memory_is_an_error)
{
    struct sluice_train_options options = options_of("alexnet");
    options.height = options.width = 1024;
    options.batch_size = 1000000;
    struct sluice_trainer *trainer = NULL;
    CHECK_FAILS(SLUICE_E_NO_MEMORY, "the largest batch that fits is",
                sluice_trainer_create(&options, &trainer, sluice_test_err()));
    const struct sluice_train_options small = options_of("alexnet");
    trainer = train_test_create(&small); /* and leaves nothing behind */
    step(trainer, 0, N);
    CU_ASSERT(isfinite(mean_loss(trainer)));
    sluice_trainer_destroy(trainer);
}

static uint64_t hash_of_run(const struct sluice_train_options *options)
{
    struct sluice_trainer *trainer = train_test_create(options);
    for (uint64_t i = 0; i < 4; i++)
        step(trainer, i, i == 2 ? N - 5 : N);
    size_t count;
    float *values = params_of(trainer, &count);
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof(bits));
        hash = (hash ^ bits) * 0x9E3779B97F4A7C15u;
    }
    free(values);
    sluice_trainer_destroy(trainer);
    return hash;
}

TEST(engines_without_timing_give_the_same_run_twice)
{
    struct sluice_train_options options = options_of("resnet18");
    options.precision = SLUICE_PRECISION_BF16;
    options.is_deterministic = true;
    CU_ASSERT_EQUAL(hash_of_run(&options), hash_of_run(&options));
}

TEST(training_learns)
{
    for (int p = SLUICE_PRECISION_BF16; p <= SLUICE_PRECISION_FP32; p++) {
        struct sluice_train_options options = options_of("resnet18");
        options.precision = (enum sluice_precision)p;
        struct sluice_trainer *trainer = train_test_create(&options);
        step(trainer, 0, N);
        const double first = mean_loss(trainer);
        for (int i = 0; i < 30; i++)
            step(trainer, 0, N);
        mean_loss(trainer);
        step(trainer, 0, N);
        const double last = mean_loss(trainer);
        printf("%s: %.3f to %.3f ", sluice_precision_name(options.precision), first, last);
        CU_ASSERT(last < first / 4);
        sluice_trainer_destroy(trainer);
    }
}

TEST(a_gpu_that_is_not_there_is_refused)
{
    struct sluice_train_options options = options_of("small_cnn");
    options.gpu = 1000;
    struct sluice_trainer *trainer = NULL;
    CHECK_FAILS(SLUICE_E_INVALID, "gpu 1000",
                sluice_trainer_create(&options, &trainer, sluice_test_err()));
}

int main(void)
{
    train_test_fill_table();
    const struct sluice_train_options options = options_of("small_cnn");
    sluice_trainer_destroy(train_test_create(&options)); /* or the end: skipped */
    return sluice_test_main();
}
