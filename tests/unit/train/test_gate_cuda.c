#include "train/train.h"
#include "train/tuning.h"

#include "base/rng.h"

#include "support/test.h"
#include "train_support.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdatomic.h>
#include <unistd.h>

/* The CUDA trainer before a gate: where it stops, and that stopping changes nothing else. */

enum { N = 16, SHORT = N - 5, SIZE = 64, CLASSES = 10, ROW = SIZE * SIZE * 3 };

static uint8_t pixels[N * ROW];
static uint32_t labels[N];
static struct sluice_err err;

static struct sluice_train_options options_of(const char *model)
{
    struct sluice_train_options options = {
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
        .batch_ops = sluice_batch_ops_none(),
        .table = train_test_table,
        .is_deterministic = true,
        .dropout = -1,
    };
    options.batch_ops.mix.mixup_alpha = 1;
    return options;
}

static struct sluice_train_batch batch_of(uint64_t offset, unsigned n, bool is_mixed)
{
    static const uint64_t ids[N] = {4, 8, 15, 16, 23, 42};
    static const uint32_t epochs[N];
    static const struct sluice_train_key key = {.index = 3, .ids = ids, .draw_epochs = epochs};
    train_test_fill_batch(n, SIZE, CLASSES, offset, pixels, labels);
    return (struct sluice_train_batch){
        .pixels = pixels, .labels = labels, .n = n, .key = is_mixed ? &key : NULL};
}

static void step(struct sluice_trainer *trainer, uint64_t offset, unsigned n, bool is_mixed)
{
    const struct sluice_train_batch batch = batch_of(offset, n, is_mixed);
    train_test_require(sluice_trainer_step(trainer, &batch, &err), &err);
}

static void evaluate(struct sluice_trainer *trainer)
{
    const struct sluice_train_batch batch = batch_of(7, N, false);
    train_test_require(sluice_trainer_evaluate(trainer, &batch, &err), &err);
}

static double loss_of(struct sluice_trainer *trainer)
{
    struct sluice_train_totals totals;
    train_test_require(sluice_trainer_collect(trainer, &totals, &err), &err);
    return totals.loss_sum;
}

static float *params_of(struct sluice_trainer *trainer, size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < sluice_trainer_num_params(trainer); i++)
        *count += sluice_trainer_param_count(trainer, i);
    float *values = calloc(*count + 1, sizeof(*values));
    CU_ASSERT_PTR_NOT_NULL_FATAL(values);
    float *at = values;
    for (size_t i = 0; i < sluice_trainer_num_params(trainer); i++) {
        train_test_require(sluice_trainer_get_param(trainer, i, at, &err), &err);
        at += sluice_trainer_param_count(trainer, i);
    }
    return values;
}

/* A gate that counts its points, apart from those that a graph captures, and may be closed for a
 * random time whenever the stream reaches one. */
struct test_gate {
    unsigned num_direct, num_captured;
    unsigned fails_at; /* counts down to the one point that fails; 0: none does */
    bool is_slow;
    struct sluice_rng rng; /* of the host's function, one at a time */
    _Atomic unsigned num_waits;
};

static void CUDART_CB wait_a_little(void *data)
{
    struct test_gate *gate = data;
    if (sluice_rng_below(&gate->rng, 4) > 0)
        return;
    usleep(sluice_rng_below(&gate->rng, 200));
    atomic_fetch_add_explicit(&gate->num_waits, 1, memory_order_relaxed);
}

static sluice_status add_point(void *data, void *stream, struct sluice_err *point_err)
{
    struct test_gate *gate = data;
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cudaError_t error = stream ? cudaStreamIsCapturing(stream, &capture) : cudaErrorInvalidValue;
    *(capture == cudaStreamCaptureStatusActive ? &gate->num_captured : &gate->num_direct) += 1;
    if (gate->fails_at > 0 && --gate->fails_at == 0)
        return sluice_fail(point_err, SLUICE_E_INTERNAL, "the gate fails");
    if (!error && gate->is_slow)
        error = cudaLaunchHostFunc(stream, wait_a_little, gate);
    return error ? sluice_fail(point_err, SLUICE_E_INTERNAL, "%s", cudaGetErrorString(error))
                 : SLUICE_OK;
}

/* Points since the last call. */
static void check_points(struct test_gate *gate, unsigned direct, unsigned captured)
{
    CU_ASSERT_EQUAL(gate->num_direct, direct);
    CU_ASSERT_EQUAL(gate->num_captured, captured);
    gate->num_direct = gate->num_captured = 0;
}

TEST(a_step_has_its_points_from_the_third_full_batch_on)
{
    static const struct {
        const char *model;
        unsigned least; /* small_cnn has fewer items than a step may have points */
    } cases[] = {{"small_cnn", 4},
                 {"resnet18", SLUICE_TRAIN_POINTS / 2},
                 {"resnet50", SLUICE_TRAIN_POINTS / 2}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_train_options options = options_of(cases[i].model);
        struct test_gate gate = {0};
        options.gate = (struct sluice_train_gate){add_point, &gate};
        struct sluice_trainer *trainer = train_test_create(&options);
        CU_ASSERT_EQUAL(gate.num_direct, 0);
        step(trainer, 0, N, false);
        check_points(&gate, 1, 0);
        step(trainer, 1, SHORT, false);
        check_points(&gate, 1, 0);
        step(trainer, 2, N, true); /* is measured */
        check_points(&gate, 1, 0);
        evaluate(trainer);
        check_points(&gate, 1, 0);

        step(trainer, 3, N, false); /* the graph has all but the first */
        const unsigned num_points = 1 + gate.num_captured;
        printf("%s: %u points ", cases[i].model, num_points);
        CU_ASSERT(num_points >= cases[i].least && num_points <= SLUICE_TRAIN_POINTS + 1);
        check_points(&gate, 1, num_points - 1);
        step(trainer, 4, N, false);
        check_points(&gate, 1, 0);
        step(trainer, 5, N, true); /* another graph */
        check_points(&gate, 1, num_points - 1);
        step(trainer, 6, SHORT, false);
        check_points(&gate, num_points, 0);

        evaluate(trainer); /* some points are in the backward pass, some are not */
        CU_ASSERT(gate.num_direct > 1 && gate.num_direct < num_points);
        CU_ASSERT(isfinite(loss_of(trainer)));
        sluice_trainer_destroy(trainer);
    }
}

enum { NUM_STEPS = 300, STEPS_OF_LOSS = 10 };

struct course {
    double losses[NUM_STEPS / STEPS_OF_LOSS];
    char failure[sizeof(((struct sluice_err *)NULL)->text)];
    float *params;
    size_t count;
};

/* A step whose loss is not finite, and what is said of it. */
static void spoil(struct sluice_trainer *trainer, struct course *course)
{
    const size_t last = sluice_trainer_num_params(trainer) - 1;
    float before[CLASSES], bad[CLASSES];
    CU_ASSERT_EQUAL_FATAL(sluice_trainer_param_count(trainer, last), CLASSES);
    CU_ASSERT_STRING_EQUAL(sluice_trainer_param_name(trainer, last), "fc.bias");
    train_test_require(sluice_trainer_get_param(trainer, last, before, &err), &err);
    for (int i = 0; i < CLASSES; i++)
        bad[i] = NAN;
    train_test_require(sluice_trainer_set_param(trainer, last, bad, &err), &err);
    step(trainer, 0, N, false);
    struct sluice_train_totals totals;
    CHECK_FAILS(SLUICE_E_INTERNAL, "parameter fc.bias",
                sluice_trainer_collect(trainer, &totals, sluice_test_err()));
    train_test_require(sluice_trainer_set_param(trainer, last, before, &err), &err);
    snprintf(course->failure, sizeof(course->failure), "%s", sluice_test_err()->text);
}

static struct course run_course(struct test_gate *gate)
{
    struct sluice_train_options options = options_of("resnet18");
    if (gate)
        options.gate = (struct sluice_train_gate){add_point, gate};
    struct sluice_trainer *trainer = train_test_create(&options);
    struct course course = {.failure = ""};
    for (uint64_t i = 0; i < NUM_STEPS; i++) {
        step(trainer, i, i % 23 == 22 ? SHORT : N, i % 3 == 2);
        if (i % 50 == 49)
            evaluate(trainer);
        if (i % STEPS_OF_LOSS == STEPS_OF_LOSS - 1)
            course.losses[i / STEPS_OF_LOSS] = loss_of(trainer);
        if (i == NUM_STEPS / 2 + STEPS_OF_LOSS - 1)
            spoil(trainer, &course);
    }
    course.params = params_of(trainer, &course.count);
    sluice_trainer_destroy(trainer);
    return course;
}

TEST(waiting_at_the_gate_changes_no_bit)
{
    struct test_gate gate = {.is_slow = true, .rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0)};
    struct course free_run = run_course(NULL), stopped = run_course(&gate);
    const unsigned num_waits = atomic_load(&gate.num_waits);
    printf("%u waits ", num_waits);
    CU_ASSERT(num_waits >= 1000);
    CU_ASSERT(train_test_same_bits(free_run.losses, stopped.losses, sizeof(free_run.losses)));
    CU_ASSERT_STRING_EQUAL(free_run.failure, stopped.failure);
    CU_ASSERT_EQUAL_FATAL(free_run.count, stopped.count);
    CU_ASSERT(train_test_same_bits(free_run.params, stopped.params,
                                   free_run.count * sizeof(*free_run.params)));
    for (int i = 0; i < NUM_STEPS / STEPS_OF_LOSS; i++)
        CU_ASSERT(isfinite(free_run.losses[i]));
    free(free_run.params);
    free(stopped.params);
}

/* The checkpoint has engines, and the second trainer, which times none, takes them: its graphs and
 * points are made anew. */
TEST(points_are_chosen_again_for_other_engines)
{
    const char *path = sluice_test_path("checkpoint");
    struct sluice_train_options options = options_of("resnet18");
    options.is_deterministic = false;
    options.engine_cache = sluice_test_path("engines");
    struct sluice_trainer *first = train_test_create(&options);
    step(first, 0, N, false);
    train_test_require(sluice_trainer_save(first, path, "{}", &err), &err);

    struct test_gate gate = {0};
    options.is_deterministic = true;
    options.gate = (struct sluice_train_gate){add_point, &gate};
    struct sluice_trainer *second = train_test_create(&options);
    for (uint64_t i = 0; i < 4; i++)
        step(second, 100 + i, N, false);
    CU_ASSERT(gate.num_captured > 1);
    char *extra = NULL;
    train_test_require(sluice_trainer_load(second, path, &extra, &err), &err);
    free(extra);
    gate.num_direct = gate.num_captured = 0;
    for (uint64_t i = 0; i < 4; i++) {
        step(first, 1 + i, N, false);
        step(second, 1 + i, N, false);
        if (i < 2)
            check_points(&gate, 1, 0);
    }
    CU_ASSERT_EQUAL(gate.num_direct, 2);
    CU_ASSERT(gate.num_captured >= SLUICE_TRAIN_POINTS / 2 - 1);
    size_t count;
    float *a = params_of(first, &count), *b = params_of(second, &count);
    CU_ASSERT(train_test_same_bits(a, b, count * sizeof(*a)));
    free(a);
    free(b);
    sluice_trainer_destroy(first);
    sluice_trainer_destroy(second);
}

/* At the first point of a step, and while a graph is captured: both times before the step changed
 * anything, so it can be taken again. */
TEST(a_gate_that_fails_fails_the_step)
{
    struct sluice_train_options options = options_of("resnet18");
    struct test_gate gate = {0};
    struct sluice_trainer *plain = train_test_create(&options);
    options.gate = (struct sluice_train_gate){add_point, &gate};
    struct sluice_trainer *gated = train_test_create(&options);
    for (uint64_t i = 0; i < 4; i++) {
        step(plain, i, N, false);
        const struct sluice_train_batch batch = batch_of(i, N, false);
        gate.fails_at = i == 1 ? 1 : i == 2 ? 7 : 0;
        if (gate.fails_at > 0)
            CHECK_FAILS(SLUICE_E_INTERNAL, "the gate fails",
                        sluice_trainer_step(gated, &batch, sluice_test_err()));
        CU_ASSERT_EQUAL(gate.fails_at, 0);
        step(gated, i, N, false);
    }
    CU_ASSERT_EQUAL(loss_of(plain), loss_of(gated));
    size_t count;
    float *a = params_of(plain, &count), *b = params_of(gated, &count);
    CU_ASSERT(train_test_same_bits(a, b, count * sizeof(*a)));
    free(a);
    free(b);
    sluice_trainer_destroy(plain);
    sluice_trainer_destroy(gated);
}

int main(void)
{
    train_test_fill_table();
    const struct sluice_train_options options = options_of("small_cnn");
    sluice_trainer_destroy(train_test_create(&options)); /* or the end: skipped */
    return sluice_test_main();
}
