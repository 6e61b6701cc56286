#include "train/mix.h"
#include "train/train.h"

#include "support/test.h"
#include "train_support.h"

#include <math.h>

/* A device that learns, on small nets.
 *
 *     test_train_device [cpu|cuda] */

static const char *device = "cpu";

enum { SIZE = 16, BATCH = 6, CLASSES = 5 };

static uint8_t pixels[BATCH * SIZE * SIZE * 3];
static uint32_t labels[BATCH];
static const struct sluice_train_batch batch = {.pixels = pixels, .labels = labels, .n = BATCH};
static struct sluice_err err;

static struct sluice_train_options small_options(void)
{
    return (struct sluice_train_options){
        .device = device,
        .model = "small_cnn",
        .num_classes = CLASSES,
        .height = SIZE,
        .width = SIZE,
        .batch_size = BATCH,
        .lr = 0.05,
        .momentum = 0.9,
        .weight_decay = 0.01,
        .seed = 3,
        .table = train_test_table,
        .num_threads = 1,
        .precision = SLUICE_PRECISION_FP32,
        .dropout = -1,
    };
}

static struct sluice_trainer *create(const struct sluice_train_options *options)
{
    memset(&err, 0, sizeof(err));
    train_test_fill_batch(BATCH, SIZE, CLASSES, 0, pixels, labels);
    return train_test_create(options);
}

static void step(struct sluice_trainer *trainer)
{
    train_test_require(sluice_trainer_step(trainer, &batch, &err), &err);
}

static struct sluice_train_totals collect(struct sluice_trainer *trainer)
{
    struct sluice_train_totals totals = {0};
    train_test_require(sluice_trainer_collect(trainer, &totals, &err), &err);
    return totals;
}

/* The mean loss of `batch` in training mode; with lr 0 a step changes no parameter. */
static double training_loss(struct sluice_trainer *trainer)
{
    step(trainer);
    return collect(trainer).loss_sum / BATCH;
}

static double evaluation_loss(struct sluice_trainer *trainer)
{
    train_test_require(sluice_trainer_evaluate(trainer, &batch, &err), &err);
    return collect(trainer).loss_sum / BATCH;
}

static float *get(struct sluice_trainer *trainer, size_t param)
{
    float *values = malloc(sluice_trainer_param_count(trainer, param) * sizeof(*values));
    train_test_require(sluice_trainer_get_param(trainer, param, values, &err), &err);
    return values;
}

static int is_trained(struct sluice_trainer *trainer, size_t param)
{
    return !strstr(sluice_trainer_param_name(trainer, param), "running_");
}

static size_t find(struct sluice_trainer *trainer, const char *name)
{
    for (size_t i = 0; i < sluice_trainer_num_params(trainer); i++) {
        if (strcmp(sluice_trainer_param_name(trainer, i), name) == 0)
            return i;
    }
    CU_FAIL_FATAL("no such parameter");
    return 0;
}

static void params_equal(struct sluice_trainer *a, struct sluice_trainer *b, int should)
{
    int differs = 0;
    for (size_t i = 0; i < sluice_trainer_num_params(a); i++) {
        float *x = get(a, i), *y = get(b, i);
        differs |= !train_test_same_bits(x, y, sluice_trainer_param_count(a, i) * sizeof(*x));
        free(x);
        free(y);
    }
    CU_ASSERT_EQUAL(!differs, should);
}

/* Along its own gradient g, at unit length, the loss climbs by |g|: for each parameter. */
TEST(gradients_are_the_losss_slopes)
{
    struct sluice_train_options options = small_options();
    options.lr = options.weight_decay = 0;
    struct sluice_trainer *trainer = create(&options);
    for (size_t param = 0; param < sluice_trainer_num_params(trainer); param++) {
        if (!is_trained(trainer, param))
            continue;
        step(trainer);
        const size_t count = sluice_trainer_param_count(trainer, param);
        float *grad = malloc(count * sizeof(*grad));
        train_test_require(sluice_trainer_get_grad(trainer, param, grad, &err), &err);
        float *values = get(trainer, param);
        double norm = 0;
        for (size_t i = 0; i < count; i++)
            norm += (double)grad[i] * grad[i];
        norm = sqrt(norm);
        CU_ASSERT(norm > 1e-4);
        collect(trainer);

        const double epsilon = 2e-3;
        double loss[2];
        float *moved = malloc(count * sizeof(*moved));
        for (int side = 0; side < 2; side++) {
            for (size_t i = 0; i < count; i++)
                moved[i] = (float)(values[i] + (side ? -epsilon : epsilon) * grad[i] / norm);
            train_test_require(sluice_trainer_set_param(trainer, param, moved, &err), &err);
            loss[side] = training_loss(trainer);
        }
        train_test_require(sluice_trainer_set_param(trainer, param, values, &err), &err);
        const double slope = (loss[0] - loss[1]) / (2 * epsilon);
        if (fabs(slope / norm - 1) > 0.02)
            printf("%s: slope %g, gradient %g\n", sluice_trainer_param_name(trainer, param), slope,
                   norm);
        CU_ASSERT_DOUBLE_EQUAL(slope / norm, 1, 0.02);
        free(grad);
        free(values);
        free(moved);
    }
    sluice_trainer_destroy(trainer);
}

/* In float32, operation by operation: m = momentum * m + (g + weight_decay * w); w -= lr * m. */
TEST(a_step_is_torchs_sgd)
{
    const struct sluice_train_options options = small_options();
    struct sluice_trainer *trainer = create(&options);
    const size_t param = find(trainer, "features.3.weight");
    const size_t count = sluice_trainer_param_count(trainer, param);
    float *wanted = get(trainer, param);
    float *grad = malloc(count * sizeof(*grad)), *m = calloc(count, sizeof(*m));
    for (int k = 0; k < 3; k++) {
        const float lr = k < 2 ? 0.05f : 0.005f;
        sluice_trainer_set_lr(trainer, k < 2 ? 0.05 : 0.005);
        step(trainer);
        train_test_require(sluice_trainer_get_grad(trainer, param, grad, &err), &err);
        for (size_t i = 0; i < count; i++) {
            const float decayed = grad[i] + 0.01f * wanted[i];
            m[i] = k ? 0.9f * m[i] + decayed : decayed;
            wanted[i] -= lr * m[i];
        }
        float *values = get(trainer, param);
        double worst = 0;
        for (size_t i = 0; i < count; i++)
            worst = fmax(worst, fabs((double)values[i] - wanted[i]));
        CU_ASSERT(worst <= 1e-7); /* a GPU may fuse multiply and add */
        free(values);
    }
    free(wanted);
    free(grad);
    free(m);
    sluice_trainer_destroy(trainer);
}

TEST(loss_falls_and_accuracy_rises)
{
    struct sluice_train_options options = small_options();
    options.weight_decay = 0;
    struct sluice_trainer *trainer = create(&options);
    const double before = training_loss(trainer);
    for (int i = 0; i < 30; i++)
        step(trainer);
    collect(trainer);
    const double after = evaluation_loss(trainer);
    CU_ASSERT(after < before / 4);
    train_test_require(sluice_trainer_evaluate(trainer, &batch, &err), &err);
    const struct sluice_train_totals totals = collect(trainer);
    CU_ASSERT_EQUAL(totals.top1, BATCH);
    CU_ASSERT_EQUAL(totals.top5, BATCH);
    sluice_trainer_destroy(trainer);
}

/* The running statistics enter, and no parameter or statistic changes. */
TEST(evaluation_uses_running_statistics_and_changes_nothing)
{
    struct sluice_train_options options = small_options();
    options.lr = options.weight_decay = 0;
    options.dropout = 0.9;
    struct sluice_trainer *a = create(&options), *b = create(&options);
    const double first = evaluation_loss(a);
    CU_ASSERT_EQUAL(evaluation_loss(a), first); /* no dropout */
    params_equal(a, b, 1);
    step(a); /* moves the statistics alone */
    collect(a);
    CU_ASSERT(fabs(evaluation_loss(a) - first) > 1e-4);
    const size_t mean = find(a, "features.1.running_mean");
    float *moved = get(a, mean);
    float *start = get(b, mean);
    CU_ASSERT(!train_test_same_bits(moved, start, 32 * sizeof(float)));
    free(moved);
    free(start);
    sluice_trainer_destroy(a);
    sluice_trainer_destroy(b);
}

TEST(dropout_changes_with_the_step)
{
    struct sluice_train_options options = small_options();
    options.lr = options.weight_decay = 0;
    options.dropout = 0.5;
    struct sluice_trainer *trainer = create(&options);
    const double first = training_loss(trainer);
    CU_ASSERT(fabs(training_loss(trainer) - first) > 1e-4);
    sluice_trainer_destroy(trainer);
}

/* A short batch computes what a trainer made for that size computes. */
TEST(a_short_batch_is_a_batch_of_its_size)
{
    struct sluice_train_options options = small_options();
    struct sluice_trainer *large = create(&options);
    options.batch_size = 2;
    struct sluice_trainer *small = create(&options);
    const struct sluice_train_batch two = {.pixels = pixels, .labels = labels, .n = 2};
    double losses[2][3];
    for (int i = 0; i < 3; i++) {
        train_test_require(sluice_trainer_step(large, &two, &err), &err);
        train_test_require(sluice_trainer_step(small, &two, &err), &err);
        losses[0][i] = collect(large).loss_sum;
        losses[1][i] = collect(small).loss_sum;
        CU_ASSERT_DOUBLE_EQUAL(losses[0][i], losses[1][i], 1e-4);
    }
    sluice_trainer_destroy(large);
    sluice_trainer_destroy(small);
}

/* More sizes than are kept ready; a sample alone (batchnorm over one value at the end) too. */
TEST(every_batch_size_works)
{
    const struct sluice_train_options options = small_options();
    struct sluice_trainer *trainer = create(&options);
    for (int round = 0; round < 2; round++) {
        for (unsigned n = 1; n <= BATCH; n++) {
            const struct sluice_train_batch some = {.pixels = pixels, .labels = labels, .n = n};
            train_test_require(sluice_trainer_step(trainer, &some, &err), &err);
            const struct sluice_train_totals totals = collect(trainer);
            CU_ASSERT_EQUAL(totals.samples, n);
            CU_ASSERT(isfinite(totals.loss_sum));
        }
    }
    sluice_trainer_destroy(trainer);
}

TEST(a_loss_that_is_not_finite_is_an_error)
{
    struct sluice_train_options options = small_options();
    options.lr = 1e30;
    struct sluice_trainer *trainer = create(&options);
    for (int i = 0; i < 4; i++)
        step(trainer);
    struct sluice_train_totals totals = {.samples = 77};
    free(get(trainer, 0)); /* waits */
    CU_ASSERT_EQUAL(sluice_trainer_progress(trainer, &totals, NULL), SLUICE_E_INTERNAL);
    CU_ASSERT_EQUAL(sluice_trainer_collect(trainer, &totals, &err), SLUICE_E_INTERNAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "not finite"));
    CU_ASSERT_EQUAL(totals.samples, 77);
    sluice_trainer_destroy(trainer);
}

/* The text of a collect that finds a loss that is not finite. */
static const char *failure(struct sluice_trainer *trainer)
{
    struct sluice_train_totals totals;
    memset(&err, 0, sizeof(err));
    CU_ASSERT_EQUAL(sluice_trainer_collect(trainer, &totals, &err), SLUICE_E_INTERNAL);
    return err.text;
}

TEST(a_loss_that_is_not_finite_is_traced_to_its_layer)
{
    if (strcmp(device, "cpu") != 0)
        return;
    static const struct {
        const char *param;
        float value;
        const char *where;
    } cases[] = {
        {"features.3.weight", NAN, "parameter features.3.weight:"},
        {"features.10.bias", INFINITY, "parameter features.10.bias:"},
        {"features.6.weight", 3e38f, "the output of features.6:"},
        {"classifier.weight", 3e38f, "the output of classifier:"},
    };
    const struct sluice_train_options options = small_options();
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_trainer *trainer = create(&options);
        step(trainer);
        step(trainer);
        collect(trainer);
        const size_t param = find(trainer, cases[i].param);
        float *values = get(trainer, param);
        for (size_t k = 0; k < sluice_trainer_param_count(trainer, param); k++)
            values[k] = cases[i].value;
        train_test_require(sluice_trainer_set_param(trainer, param, values, &err), &err);
        free(values);
        step(trainer);
        const char *text = failure(trainer);
        if (!strstr(text, cases[i].where))
            printf("%s ", text);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, cases[i].where));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "not finite after 2 steps"));
        sluice_trainer_destroy(trainer);
    }
}

TEST(an_input_that_is_not_finite_is_found)
{
    if (strcmp(device, "cpu") != 0)
        return;
    float table[3][256];
    memcpy(table, train_test_table, sizeof(table));
    struct sluice_train_options options = small_options();
    options.table = table;
    struct sluice_trainer *trainer = create(&options);
    table[0][pixels[0]] = INFINITY;
    step(trainer);
    CU_ASSERT_PTR_NOT_NULL(strstr(failure(trainer), "it begins in the input:"));
    sluice_trainer_destroy(trainer);
}

TEST(an_evaluation_finds_a_loss_that_is_not_finite)
{
    if (strcmp(device, "cpu") != 0)
        return;
    const struct sluice_train_options options = small_options();
    struct sluice_trainer *trainer = create(&options);
    float bias[CLASSES] = {0, NAN};
    train_test_require(
        sluice_trainer_set_param(trainer, find(trainer, "classifier.bias"), bias, &err), &err);
    train_test_require(sluice_trainer_evaluate(trainer, &batch, &err), &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(failure(trainer), "parameter classifier.bias:"));
    sluice_trainer_destroy(trainer);
}

TEST(values_that_are_not_finite_are_not_saved)
{
    const struct sluice_train_options options = small_options();
    struct sluice_trainer *trainer = create(&options);
    const char *path = sluice_test_path("finite.ckpt");
    train_test_require(sluice_trainer_save(trainer, path, "good", &err), &err);
    const size_t param = find(trainer, "features.4.running_var");
    float *values = get(trainer, param);
    values[1] = INFINITY;
    train_test_require(sluice_trainer_set_param(trainer, param, values, &err), &err);
    free(values);
    CHECK_FAILS(SLUICE_E_INTERNAL, "features.4.running_var is not finite",
                sluice_trainer_save(trainer, path, "bad", sluice_test_err()));
    char *extra = NULL;
    train_test_require(sluice_trainer_load(trainer, path, &extra, &err), &err);
    CU_ASSERT_STRING_EQUAL(extra, "good");
    free(extra);
    sluice_trainer_destroy(trainer);
}

/* Nor do the steps that follow it, until a collect. */
TEST(a_step_whose_loss_is_not_finite_changes_no_parameter)
{
    if (strcmp(device, "cpu") != 0)
        return;
    const struct sluice_train_options options = small_options();
    struct sluice_trainer *trainer = create(&options), *untouched = create(&options);
    const size_t param = find(trainer, "features.0.weight");
    float *values = get(trainer, param);
    const float good = values[0];
    values[0] = NAN;
    train_test_require(sluice_trainer_set_param(trainer, param, values, &err), &err);
    step(trainer);
    step(trainer);
    CU_ASSERT_PTR_NOT_NULL(strstr(failure(trainer), "after 0 steps"));
    values[0] = good;
    train_test_require(sluice_trainer_set_param(trainer, param, values, &err), &err);
    free(values);
    for (size_t i = 0; i < sluice_trainer_num_params(trainer); i++) {
        if (!is_trained(trainer, i))
            continue;
        float *x = get(trainer, i), *y = get(untouched, i);
        const size_t len = sluice_trainer_param_count(trainer, i) * sizeof(*x);
        CU_ASSERT_TRUE(train_test_same_bits(x, y, len));
        free(x);
        free(y);
    }
    step(trainer); /* a new portion learns again */
    CU_ASSERT(isfinite(collect(trainer).loss_sum));
    sluice_trainer_destroy(trainer);
    sluice_trainer_destroy(untouched);
}

static struct sluice_train_totals progress(struct sluice_trainer *trainer)
{
    struct sluice_train_totals totals = {0};
    train_test_require(sluice_trainer_progress(trainer, &totals, &err), &err);
    return totals;
}

/* Between any two steps or none; the sums are those of portions that are collected and added. */
TEST(progress_changes_no_sum_that_is_collected)
{
    const struct sluice_train_options options = small_options();
    struct sluice_trainer *asked = create(&options), *collected = create(&options);
    struct sluice_train_totals last = {0}, sum = {0};
    progress(asked);
    for (int i = 0; i < 12; i++) {
        const struct sluice_train_batch some = {
            .pixels = pixels, .labels = labels, .n = i % 3 ? BATCH : BATCH - 1};
        train_test_require(sluice_trainer_step(asked, &some, &err), &err);
        train_test_require(sluice_trainer_step(collected, &some, &err), &err);
        if (i % 4 == 1 || i > 8) {
            const struct sluice_train_totals totals = progress(asked);
            CU_ASSERT(totals.samples >= last.samples && totals.steps >= last.steps);
            CU_ASSERT(totals.loss_sum >= last.loss_sum && totals.top5 >= last.top5);
            CU_ASSERT(totals.steps <= (uint64_t)i + 1 && totals.top1 <= totals.samples);
            last = totals;
            const struct sluice_train_totals part = collect(collected);
            sum.samples += part.samples;
            sum.loss_sum += part.loss_sum;
            sum.top1 += part.top1;
            sum.top5 += part.top5;
        }
    }
    const struct sluice_train_totals all = collect(asked);
    CU_ASSERT_EQUAL(all.steps, 12);
    CU_ASSERT_EQUAL(all.samples, sum.samples);
    CU_ASSERT_EQUAL(all.loss_sum, sum.loss_sum);
    CU_ASSERT_EQUAL(all.top1, sum.top1);
    CU_ASSERT_EQUAL(all.top5, sum.top5);
    CU_ASSERT_EQUAL(progress(asked).samples, 0);
    CU_ASSERT_EQUAL(progress(asked).loss_sum, 0);
    sluice_trainer_destroy(asked);
    sluice_trainer_destroy(collected);
}

/* Where progress does not wait, reading a parameter does. */
TEST(progress_knows_every_step_that_is_done)
{
    const struct sluice_train_options options = small_options();
    struct sluice_trainer *trainer = create(&options);
    double loss = 0;
    for (int i = 0; i < 7; i++) {
        step(trainer);
        free(get(trainer, 0));
        const struct sluice_train_totals totals = progress(trainer);
        CU_ASSERT_EQUAL(totals.steps, i + 1);
        CU_ASSERT_EQUAL(totals.samples, (i + 1) * BATCH);
        CU_ASSERT(totals.loss_sum > loss);
        loss = totals.loss_sum;
    }
    CU_ASSERT_EQUAL(collect(trainer).loss_sum, loss);
    sluice_trainer_destroy(trainer);
}

TEST(equal_seeds_give_equal_runs)
{
    struct sluice_train_options options = small_options();
    options.num_threads = 2;
    options.dropout = 0.2;
    struct sluice_trainer *a = create(&options), *b = create(&options);
    options.seed = 4;
    struct sluice_trainer *other = create(&options);
    params_equal(a, other, 0);
    for (int i = 0; i < 3; i++) {
        step(a);
        step(b);
    }
    if (strcmp(device, "cpu") == 0)
        params_equal(a, b, 1);
    sluice_trainer_destroy(a);
    sluice_trainer_destroy(b);
    sluice_trainer_destroy(other);
}

TEST(parameters_come_back_as_they_were_set)
{
    const struct sluice_train_options options = small_options();
    struct sluice_trainer *trainer = create(&options);
    for (size_t i = 0; i < sluice_trainer_num_params(trainer); i++) {
        const size_t count = sluice_trainer_param_count(trainer, i);
        float *in = malloc(count * sizeof(*in));
        for (size_t k = 0; k < count; k++)
            in[k] = (float)(k % 1000) + (float)i / 128;
        train_test_require(sluice_trainer_set_param(trainer, i, in, &err), &err);
        float *out = get(trainer, i);
        CU_ASSERT(train_test_same_bits(in, out, count * sizeof(*in)));
        free(in);
        free(out);
    }
    float unused[1];
    const size_t mean = find(trainer, "features.1.running_mean");
    CU_ASSERT_EQUAL(sluice_trainer_get_grad(trainer, 0, unused, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_trainer_get_grad(trainer, mean, unused, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(
        sluice_trainer_get_param(trainer, sluice_trainer_num_params(trainer), unused, NULL),
        SLUICE_E_INVALID);
    sluice_trainer_destroy(trainer);
}

enum { WIDE = 24 };

/* The parameters of `from`, with the kernels of its convolutions transposed. */
static void copy_transposed(struct sluice_trainer *from, struct sluice_trainer *to)
{
    for (size_t i = 0; i < sluice_trainer_num_params(from); i++) {
        const size_t count = sluice_trainer_param_count(from, i);
        unsigned stage;
        char rest[16];
        const bool is_kernel =
            sscanf(sluice_trainer_param_name(from, i), "features.%u.%15s", &stage, rest) == 2 &&
            stage % 3 == 0 && strcmp(rest, "weight") == 0;
        float *values = malloc(count * sizeof(*values));
        train_test_require(sluice_trainer_get_param(from, i, values, &err), &err);
        for (size_t k = 0; is_kernel && k < count; k += 9) {
            for (size_t y = 0; y < 3; y++) {
                for (size_t x = 0; x < y; x++) {
                    const float kept = values[k + 3 * y + x];
                    values[k + 3 * y + x] = values[k + 3 * x + y];
                    values[k + 3 * x + y] = kept;
                }
            }
        }
        train_test_require(sluice_trainer_set_param(to, i, values, &err), &err);
        free(values);
    }
}

/* Transposed images and kernels make the same sums. */
TEST(images_need_not_be_square)
{
    static uint8_t wide[BATCH * SIZE * WIDE * 3], tall[sizeof(wide)];
    struct sluice_train_options options = small_options();
    options.lr = options.weight_decay = 0;
    options.width = WIDE;
    struct sluice_trainer *of_wide = create(&options);
    options.height = WIDE;
    options.width = SIZE;
    struct sluice_trainer *of_tall = create(&options);
    copy_transposed(of_wide, of_tall);
    for (size_t i = 0; i < sizeof(wide); i++) {
        const size_t n = i / (SIZE * WIDE * 3), y = i / (WIDE * 3) % SIZE, x = i / 3 % WIDE;
        wide[i] = (uint8_t)(i * i % 251 + (x > y ? 4 : 0));
        tall[((n * WIDE + x) * SIZE + y) * 3 + i % 3] = wide[i];
    }
    struct sluice_train_batch rows = {.pixels = wide, .labels = labels, .n = BATCH};
    train_test_require(sluice_trainer_step(of_wide, &rows, &err), &err);
    rows.pixels = tall;
    train_test_require(sluice_trainer_step(of_tall, &rows, &err), &err);
    CU_ASSERT_DOUBLE_EQUAL(collect(of_wide).loss_sum / collect(of_tall).loss_sum, 1, 1e-5);

    train_test_require(sluice_trainer_save(of_wide, sluice_test_path("wide.ckpt"), NULL, &err),
                       &err);
    train_test_require(sluice_trainer_load(of_wide, sluice_test_path("wide.ckpt"), NULL, &err),
                       &err);
    CHECK_FAILS(
        SLUICE_E_INVALID,
        "images of 16 x 24 (height x width) and 5 classes, not from "
        "small_cnn with images of 24 x 16",
        sluice_trainer_load(of_tall, sluice_test_path("wide.ckpt"), NULL, sluice_test_err()));
    sluice_trainer_destroy(of_wide);
    sluice_trainer_destroy(of_tall);
}

/* Parameters, momentum, statistics, step count (dropout) and seed all come back: the run that
 * goes on from the file is the run that was not interrupted, bit for bit on the CPU. */
TEST(a_resumed_run_is_the_uninterrupted_one)
{
    struct sluice_train_options options = small_options();
    options.dropout = 0.25;
    options.num_threads = 2;
    struct sluice_trainer *whole = create(&options);
    for (int i = 0; i < 3; i++)
        step(whole);
    train_test_require(
        sluice_trainer_save(whole, sluice_test_path("half.ckpt"), "{\"epoch\":3}", &err), &err);

    options.seed = 99; /* the file's counts */
    struct sluice_trainer *resumed = create(&options);
    char *extra = NULL;
    train_test_require(sluice_trainer_load(resumed, sluice_test_path("half.ckpt"), &extra, &err),
                       &err);
    CU_ASSERT_STRING_EQUAL(extra, "{\"epoch\":3}");
    free(extra);
    params_equal(whole, resumed, 1);
    collect(whole);
    for (int i = 0; i < 3; i++) {
        step(whole);
        step(resumed);
    }
    if (strcmp(device, "cpu") == 0) {
        CU_ASSERT_EQUAL(collect(whole).loss_sum, collect(resumed).loss_sum);
        size_t whole_len, resumed_len;
        train_test_require(sluice_trainer_save(whole, sluice_test_path("a.ckpt"), NULL, &err),
                           &err);
        train_test_require(sluice_trainer_save(resumed, sluice_test_path("b.ckpt"), NULL, &err),
                           &err);
        uint8_t *a = sluice_test_read_file(sluice_test_path("a.ckpt"), &whole_len);
        uint8_t *b = sluice_test_read_file(sluice_test_path("b.ckpt"), &resumed_len);
        CU_ASSERT_EQUAL_FATAL(whole_len, resumed_len);
        CU_ASSERT_EQUAL(memcmp(a, b, whole_len), 0);
        free(a);
        free(b);
    } else {
        CU_ASSERT_DOUBLE_EQUAL(collect(whole).loss_sum, collect(resumed).loss_sum, 1e-2);
    }
    sluice_trainer_destroy(whole);
    sluice_trainer_destroy(resumed);
}

TEST(a_checkpoint_of_another_model_is_refused_and_changes_nothing)
{
    struct sluice_train_options options = small_options();
    struct sluice_trainer *saved = create(&options);
    step(saved);
    train_test_require(sluice_trainer_save(saved, sluice_test_path("small.ckpt"), "", &err), &err);
    sluice_trainer_destroy(saved);

    options.num_classes = CLASSES + 1;
    struct sluice_trainer *loaded = create(&options), *fresh = create(&options);
    CU_ASSERT_EQUAL(sluice_trainer_load(loaded, sluice_test_path("small.ckpt"), NULL, &err),
                    SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "small.ckpt"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "5 classes"));
    params_equal(loaded, fresh, 1);
    sluice_trainer_destroy(loaded);

    /* The right head over damaged parameters. */
    size_t len;
    uint8_t *bytes = sluice_test_read_file(sluice_test_path("small.ckpt"), &len);
    bytes[len / 2] ^= 1;
    sluice_test_write_file(sluice_test_path("flipped.ckpt"), bytes, len);
    sluice_test_write_file(sluice_test_path("cut.ckpt"), bytes, len / 3);
    free(bytes);
    options.num_classes = CLASSES;
    loaded = create(&options);
    sluice_trainer_destroy(fresh);
    fresh = create(&options);
    CU_ASSERT_EQUAL(sluice_trainer_load(loaded, sluice_test_path("flipped.ckpt"), NULL, &err),
                    SLUICE_E_CORRUPT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "flipped.ckpt"));
    CU_ASSERT_EQUAL(sluice_trainer_load(loaded, sluice_test_path("cut.ckpt"), NULL, NULL),
                    SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(sluice_trainer_load(loaded, sluice_test_path("missing.ckpt"), NULL, NULL),
                    SLUICE_E_NOT_FOUND);
    params_equal(loaded, fresh, 1);
    sluice_trainer_destroy(loaded);
    sluice_trainer_destroy(fresh);
}

/* Every trained parameter's gradient of the last step, one behind the other; free() it. */
static float *gradients(struct sluice_trainer *trainer, size_t *count)
{
    float *all = NULL;
    *count = 0;
    for (size_t i = 0; i < sluice_trainer_num_params(trainer); i++) {
        if (!is_trained(trainer, i))
            continue;
        const size_t more = sluice_trainer_param_count(trainer, i);
        all = realloc(all, (*count + more) * sizeof(*all));
        train_test_require(sluice_trainer_get_grad(trainer, i, all + *count, &err), &err);
        *count += more;
    }
    return all;
}

/* The rows after erasing with 128 and CutMix, made by hand. */
static void cut_by_hand(const struct sluice_mix_batch *drawn, const struct sluice_mix_row *rows,
                        uint8_t *made)
{
    static uint8_t erased[sizeof(pixels)];
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < BATCH * SIZE * SIZE * 3; i++) {
            const uint32_t n = i / (SIZE * SIZE * 3), y = i / (SIZE * 3) % SIZE, x = i / 3 % SIZE;
            const struct sluice_mix_row *row = &rows[n];
            const uint32_t from = (BATCH - 1 - n) * SIZE * SIZE * 3 + i % (SIZE * SIZE * 3);
            const bool is_in = y >= row->top && y < row->top + row->height && x >= row->left &&
                               x < row->left + row->width;
            const bool is_cut = y >= drawn->top && y < drawn->top + drawn->height &&
                                x >= drawn->left && x < drawn->left + drawn->width;
            if (turn == 0)
                erased[i] = is_in ? 128 : pixels[i];
            else
                made[i] = erased[is_cut ? from : i];
        }
    }
}

/* The loss is linear in the targets: it and its gradient are sums over those of whole labels. */
TEST(a_step_with_batch_ops_learns_what_is_made_by_hand)
{
    struct sluice_train_options options = small_options();
    options.lr = options.weight_decay = 0;
    struct sluice_trainer *plain = create(&options);
    options.batch_ops = sluice_batch_ops_none();
    options.batch_ops.mix.cutmix_alpha = 1;
    options.batch_ops.label_smoothing = 0.2;
    options.batch_ops.erasing.p = 0.5;
    for (int c = 0; c < 3; c++)
        options.batch_ops.fill_values[c] = train_test_table[c][128];
    struct sluice_trainer *mixed = create(&options);

    static const uint64_t ids[BATCH] = {4, 8, 15, 16, 23, 42};
    static const uint32_t epochs[BATCH];
    const struct sluice_train_key key = {.index = 3, .ids = ids, .draw_epochs = epochs};
    struct sluice_train_batch of_key = batch;
    of_key.key = &key;
    struct sluice_mix_batch drawn;
    struct sluice_mix_row rows[BATCH];
    train_test_require(sluice_mix_draw(&options.batch_ops, options.seed, &of_key,
                                       (struct sluice_size){SIZE, SIZE}, CLASSES, &drawn, rows,
                                       &err),
                       &err);
    CU_ASSERT(drawn.kind == SLUICE_MIX_CUTMIX && drawn.other > 0.1f && drawn.own > 0.1f);

    static uint8_t made[sizeof(pixels)];
    cut_by_hand(&drawn, rows, made);
    double loss = 0;
    size_t count = 0;
    double *wanted = NULL;
    for (uint32_t label = 0; label < CLASSES + 2; label++) { /* then its own, and its partner's */
        uint32_t all[BATCH];
        for (uint32_t n = 0; n < BATCH; n++)
            all[n] = label < CLASSES ? label : labels[label == CLASSES ? n : BATCH - 1 - n];
        const double part = label < CLASSES    ? 0.2 / CLASSES
                            : label == CLASSES ? 0.8 * drawn.own
                                               : 0.8 * drawn.other;
        const struct sluice_train_batch whole = {.pixels = made, .labels = all, .n = BATCH};
        train_test_require(sluice_trainer_step(plain, &whole, &err), &err);
        loss += part * collect(plain).loss_sum;
        float *grad = gradients(plain, &count);
        if (!wanted)
            wanted = calloc(count, sizeof(*wanted));
        for (size_t i = 0; i < count; i++)
            wanted[i] += part * grad[i];
        free(grad);
    }
    train_test_require(sluice_trainer_step(mixed, &of_key, &err), &err);
    CU_ASSERT_DOUBLE_EQUAL(collect(mixed).loss_sum / loss, 1, 1e-5);
    float *grad = gradients(mixed, &count);
    double off = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        off += (grad[i] - wanted[i]) * (grad[i] - wanted[i]);
        norm += wanted[i] * wanted[i];
    }
    CU_ASSERT(sqrt(off / norm) < 1e-4);
    free(grad);
    free(wanted);

    /* Evaluation, and a step without a key, are of the rows as they are. */
    train_test_require(sluice_trainer_step(plain, &batch, &err), &err);
    train_test_require(sluice_trainer_step(mixed, &batch, &err), &err);
    CU_ASSERT_DOUBLE_EQUAL(collect(plain).loss_sum, collect(mixed).loss_sum, 1e-5);
    train_test_require(sluice_trainer_evaluate(mixed, &of_key, &err), &err);
    const double of_rows = collect(mixed).loss_sum;
    CU_ASSERT_DOUBLE_EQUAL(of_rows, BATCH * evaluation_loss(mixed), 1e-5);
    sluice_trainer_destroy(plain);
    sluice_trainer_destroy(mixed);
}

TEST(rows_on_a_device_are_refused_without_one)
{
    const struct sluice_train_options options = small_options();
    struct sluice_trainer *trainer = create(&options);
    struct sluice_train_batch rows = batch;
    rows.is_on_device = true;
    if (sluice_trainer_device(trainer) >= 0) {
        CU_ASSERT_PTR_NOT_NULL(sluice_trainer_stream(trainer));
    } else {
        CU_ASSERT_PTR_NULL(sluice_trainer_stream(trainer));
        CU_ASSERT_EQUAL(sluice_trainer_step(trainer, &rows, &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "rows on a device"));
        CU_ASSERT_EQUAL(sluice_trainer_evaluate(trainer, &rows, NULL), SLUICE_E_INVALID);
        CU_ASSERT_EQUAL(collect(trainer).samples, 0);
    }
    sluice_trainer_destroy(trainer);
}

TEST(refuses_options_that_make_no_sense)
{
    static const char *const words[] = {"lr",    "momentum", "weight_decay", "dropout",
                                        "table", "sides",    "model",        "gpu"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(words); i++) {
        struct sluice_train_options options = small_options();
        options.lr = i == 0 ? -1 : options.lr;
        options.momentum = i == 1 ? NAN : options.momentum;
        options.weight_decay = i == 2 ? INFINITY : options.weight_decay;
        options.dropout = i == 3 ? 1 : options.dropout;
        options.table = i == 4 ? NULL : options.table;
        options.height = i == 5 ? 0 : options.height;
        options.model = i == 6 ? "lenet" : options.model;
        options.gpu = i == 7 ? -1 : options.gpu;
        struct sluice_trainer *trainer = NULL;
        memset(&err, 0, sizeof(err));
        CU_ASSERT_EQUAL(sluice_trainer_create(&options, &trainer, &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, words[i]));
    }
}

TEST(memory_grows_with_the_batch_by_its_activations)
{
    struct sluice_train_options options = small_options();
    struct sluice_train_memory small, large;
    struct sluice_trainer *trainer = create(&options);
    sluice_trainer_memory(trainer, &small);
    sluice_trainer_destroy(trainer);
    options.batch_size = 2 * BATCH;
    trainer = create(&options);
    sluice_trainer_memory(trainer, &large);
    uint64_t least = 0;
    for (size_t i = 0; i < sluice_trainer_num_params(trainer); i++)
        least += sluice_trainer_param_count(trainer, i) * sizeof(float);
    sluice_trainer_destroy(trainer);
    if (strcmp(device, "cpu") != 0)
        return;
    CU_ASSERT(small.parameters > 2 * least && small.parameters <= 3 * least);
    CU_ASSERT_EQUAL(large.parameters, small.parameters);
    CU_ASSERT(large.activations > small.activations && large.activations <= 2 * small.activations);
    CU_ASSERT_EQUAL(small.total, small.parameters + small.activations + small.workspace);
}

TEST(a_trainer_says_its_precision)
{
    struct sluice_train_options options = small_options();
    struct sluice_trainer *trainer = create(&options);
    CU_ASSERT_EQUAL(sluice_trainer_precision(trainer), SLUICE_PRECISION_FP32);
    sluice_trainer_destroy(trainer);
    options.precision = SLUICE_PRECISION_DEFAULT;
    trainer = create(&options);
    CU_ASSERT_NOT_EQUAL(sluice_trainer_precision(trainer), SLUICE_PRECISION_DEFAULT);
    sluice_trainer_destroy(trainer);
    if (strcmp(device, "cpu") != 0)
        return;
    options.precision = SLUICE_PRECISION_BF16;
    trainer = NULL;
    CHECK_FAILS(SLUICE_E_INVALID, "device cpu computes in fp32, not in bf16",
                sluice_trainer_create(&options, &trainer, sluice_test_err()));
}

int main(int argc, char **argv)
{
    if (argc > 1)
        device = argv[1];
    train_test_fill_table();
    const struct sluice_train_options options = small_options();
    sluice_trainer_destroy(create(&options)); /* or skipped, before any test runs */
    return sluice_test_main();
}
