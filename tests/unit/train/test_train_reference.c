#include "train/train.h"

#include "support/test.h"
#include "train_support.h"

#include <math.h>

/* Three steps of four models against PyTorch in float64 (tests/golden/make_train_reference.py).
 *
 *     test_train_reference [cpu|cuda [tf32]]
 *
 * For step 0 the script sees to it that no value is so near to a jump of the gradient (a ReLU's
 * input at zero) that float32 may step over it; three steps on one batch magnify what the first
 * rounded, and meet such jumps.
 *
 * TF32 rounds every factor by up to 2^-11 of it, which does step over jumps: in each layer some
 * ReLU inputs in ten thousand change sign, and the gradient changes by the root of such a share.
 * Emulated in PyTorch (factors rounded to nearest, or cut off), the worst of the models differs by 4e-4 in the loss of step 0 and 1.4e-2 in later
 * ones, 3.6e-2 in a gradient's norm, 0.15 of its norm in a gradient, 0.52 in a sampled element and
 * 0.1 in a parameter after the steps.  The tolerances are four times that. */

struct tolerance {
    /* Absolute, on values near 2.3: of the first step, of later ones and the evaluation. */
    double loss, later_loss;
    /* Of each gradient's L2 norm, relative. */
    double norm;
    /* Of a gradient's element, by the gradient's root mean square. */
    double element;
    /* Of a parameter after the steps, by the largest sampled value. */
    double after;
    /* Of the counts of hits. */
    unsigned hits;
};

static const struct tolerance float32 = {
    .loss = 1e-4, .later_loss = 2e-3, .norm = 1e-4, .element = 5e-4, .after = 2e-2};
static const struct tolerance tf32 = {
    .loss = 1.6e-3, .later_loss = 6e-2, .norm = 0.15, .element = 2, .after = 0.4, .hits = 1};

/* The parameters on the CPU, but for resnet18 and resnet50, whose later steps meet jumps in float32
 * too. */
#define CALM_AFTER_TOLERANCE 2e-4

#define MAX_LINE 256

static const char *device = "cpu";
static FILE *file;
static char line[MAX_LINE];
static struct tolerance tolerance;
static enum sluice_precision precision = SLUICE_PRECISION_FP32;

/* The worst seen, in units of the tolerance; printed, so that a drift is seen before it fails. */
static double worst_loss, worst_norm, worst_grad, worst_after;

static int next_line(void)
{
    return fgets(line, sizeof(line), file) != NULL;
}

static void note(double difference, double limit, double *worst, const char *what)
{
    const double share = difference / limit;
    *worst = fmax(*worst, isfinite(share) ? share : 1e9);
    if (!(share <= 1))
        printf("%s is off by %g, over %g\n", what, difference, limit);
    CU_ASSERT(share <= 1);
}

static int find_param(const struct sluice_trainer *trainer, const char *name)
{
    for (size_t i = 0; i < sluice_trainer_num_params(trainer); i++) {
        if (strcmp(sluice_trainer_param_name(trainer, i), name) == 0)
            return (int)i;
    }
    printf("no parameter %s\n", name);
    CU_FAIL_FATAL("the reference names another parameter");
    return -1;
}

static float *read_array(struct sluice_trainer *trainer, const char *name, int is_grad,
                         size_t *count)
{
    const size_t param = (size_t)find_param(trainer, name);
    *count = sluice_trainer_param_count(trainer, param);
    float *values = malloc(*count * sizeof(*values));
    struct sluice_err err = {{0}};
    const sluice_status status = is_grad ? sluice_trainer_get_grad(trainer, param, values, &err)
                                         : sluice_trainer_get_param(trainer, param, values, &err);
    train_test_require(status, &err);
    return values;
}

/* Sets the parameters whose names end in `suffix`. */
static void fill_params(struct sluice_trainer *trainer, const char *suffix, float value)
{
    unsigned num_filled = 0;
    for (size_t i = 0; i < sluice_trainer_num_params(trainer); i++) {
        const char *name = sluice_trainer_param_name(trainer, i);
        if (strlen(name) < strlen(suffix) ||
            strcmp(name + strlen(name) - strlen(suffix), suffix) != 0)
            continue;
        const size_t count = sluice_trainer_param_count(trainer, i);
        float *values = malloc(count * sizeof(*values));
        for (size_t k = 0; k < count; k++)
            values[k] = value;
        struct sluice_err err = {{0}};
        train_test_require(sluice_trainer_set_param(trainer, i, values, &err), &err);
        free(values);
        num_filled++;
    }
    CU_ASSERT(num_filled > 0);
}

/* The INDEX VALUE lines that follow; limit 0: of a parameter after the steps. */
static void check_samples(const char *name, const float *values, size_t count, unsigned num_samples,
                          double limit, double *worst)
{
    double largest = 0, wanted[16] = {0};
    unsigned long indices[16] = {0};
    CU_ASSERT_FATAL(num_samples <= 16);
    for (unsigned k = 0; k < num_samples; k++) {
        CU_ASSERT_FATAL(next_line() && sscanf(line, "%lu %lf", &indices[k], &wanted[k]) == 2);
        CU_ASSERT_FATAL(indices[k] < count);
        largest = fmax(largest, fabs(wanted[k]));
    }
    for (unsigned k = 0; k < num_samples; k++)
        note(fabs(values[indices[k]] - wanted[k]),
             limit > 0 ? limit : tolerance.after * fmax(largest, 1e-3), worst, name);
}

static void check_grad(struct sluice_trainer *trainer)
{
    char name[80];
    double norm;
    unsigned num_samples;
    CU_ASSERT_FATAL(sscanf(line, "grad %79s %lf %u", name, &norm, &num_samples) == 3);
    size_t count;
    float *values = read_array(trainer, name, 1, &count);
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (double)values[i] * values[i];
    note(fabs(sqrt(squares) - norm), tolerance.norm * norm, &worst_norm, name);
    check_samples(name, values, count, num_samples, tolerance.element * norm / sqrt((double)count),
                  &worst_grad);
    free(values);
}

static void check_after(struct sluice_trainer *trainer)
{
    char name[80];
    unsigned num_samples;
    CU_ASSERT_FATAL(sscanf(line, "after %79s %u", name, &num_samples) == 2);
    size_t count;
    float *values = read_array(trainer, name, 0, &count);
    check_samples(name, values, count, num_samples, 0, &worst_after);
    free(values);
}

static unsigned apart(uint64_t a, unsigned b)
{
    return (unsigned)(a > b ? a - b : b - a);
}

static void check_totals(struct sluice_trainer *trainer, double loss, double limit, unsigned top1,
                         unsigned top5)
{
    struct sluice_train_totals totals;
    REQUIRE_OK(sluice_trainer_collect(trainer, &totals, NULL));
    note(fabs(totals.loss_sum / (double)totals.samples - loss), limit, &worst_loss, "loss");
    CU_ASSERT(apart(totals.top1, top1) <= tolerance.hits);
    CU_ASSERT(apart(totals.top5, top5) <= tolerance.hits);
}

static void run_case(const char *model)
{
    char name[32] = "";
    struct sluice_train_options options = {
        .device = device,
        .table = train_test_table,
        .precision = precision,
        .num_threads = 1, /* quick beside other tests, and the same on every machine */
    };
    double seed;
    do {
        CU_ASSERT_FATAL(next_line());
        sscanf(line, "case %31s %u %u %u %lf %lf %lf %lf %lf", name, &options.height,
               &options.num_classes, &options.batch_size, &seed, &options.lr, &options.momentum,
               &options.weight_decay, &options.dropout);
    } while (strcmp(name, model) != 0);
    options.width = options.height;
    options.model = model;
    tolerance = precision == SLUICE_PRECISION_TF32 ? tf32 : float32;
    if (strcmp(device, "cpu") == 0 && strncmp(model, "resnet", 6) != 0)
        tolerance.after = CALM_AFTER_TOLERANCE;
    options.seed = (uint64_t)seed;

    struct sluice_trainer *trainer = train_test_create(&options);
    const unsigned n = options.batch_size, size = options.height;
    uint8_t *pixels = malloc((size_t)n * size * size * 3);
    uint32_t *labels = malloc(n * sizeof(*labels));
    train_test_fill_batch(n, size, options.num_classes, 0, pixels, labels);
    const struct sluice_train_batch batch = {.pixels = pixels, .labels = labels, .n = n};

    unsigned num_steps = 0, num_grads = 0, num_afters = 0, num_evaluations = 0;
    double loss = 0;
    while (next_line() && strncmp(line, "case", 4) != 0) {
        unsigned step, top1, top5;
        char suffix[32];
        float value;
        struct sluice_err err = {{0}};
        if (sscanf(line, "loss %u %lf", &step, &loss) == 2) {
            CU_ASSERT_EQUAL(step, num_steps);
            train_test_require(sluice_trainer_step(trainer, &batch, &err), &err);
            num_steps++;
        } else if (sscanf(line, "fill %31s %f", suffix, &value) == 2) {
            fill_params(trainer, suffix, value);
        } else if (sscanf(line, "hits %u %u %u", &step, &top1, &top5) == 3) {
            check_totals(trainer, loss, step ? tolerance.later_loss : tolerance.loss, top1, top5);
        } else if (strncmp(line, "grad ", 5) == 0) {
            check_grad(trainer);
            num_grads++;
        } else if (strncmp(line, "after ", 6) == 0) {
            check_after(trainer);
            num_afters++;
        } else if (sscanf(line, "evaluate %lf %u %u", &loss, &top1, &top5) == 3) {
            train_test_require(sluice_trainer_evaluate(trainer, &batch, &err), &err);
            check_totals(trainer, loss, tolerance.later_loss, top1, top5);
            num_evaluations++;
        } else {
            printf("%s", line);
            CU_FAIL("a line that the reference does not have");
        }
    }
    CU_ASSERT(num_steps == 3 && num_evaluations == 1 && num_grads > 0);
    CU_ASSERT_EQUAL(num_afters, sluice_trainer_num_params(trainer));
    printf("of the tolerance: loss %.3f, norms %.3f, gradients %.3f, parameters %.3f ", worst_loss,
           worst_norm, worst_grad, worst_after);
    worst_loss = worst_norm = worst_grad = worst_after = 0;
    rewind(file);
    free(pixels);
    free(labels);
    sluice_trainer_destroy(trainer);
}

TEST(alexnet_steps_like_pytorch)
{
    run_case("alexnet");
}

TEST(resnet18_steps_like_pytorch)
{
    run_case("resnet18");
}

TEST(resnet50_steps_like_pytorch)
{
    run_case("resnet50");
}

TEST(small_cnn_steps_like_pytorch)
{
    run_case("small_cnn");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        device = argv[1];
    if (argc > 2 && strcmp(argv[2], "tf32") == 0)
        precision = SLUICE_PRECISION_TF32;
    char path[1024];
    snprintf(path, sizeof(path), "%s/tests/golden/train_reference.txt", sluice_test_source_dir());
    file = fopen(path, "r");
    if (!file) {
        perror(path);
        return 1;
    }
    train_test_fill_table();
    const int status = sluice_test_main();
    fclose(file);
    return status;
}
