#include "train/train.h"
#include "train/tuning.h"

#include "base/rng.h"

#include "support/test.h"
#include "train_support.h"

#include "sluice/lend.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
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

enum { NUM_STEPS = 300, STEPS_OF_LOSS = 10, MAX_STEPS = 3000, NUM_WAITS = 1000 };

struct course {
    unsigned num_steps;
    double losses[MAX_STEPS / STEPS_OF_LOSS];
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

/* Whether enough was waited for. */
typedef bool enough_fn(void *data);

/* Steps of all kinds: num_steps, or NUM_STEPS and as many as it takes. */
static struct course run_course(const struct sluice_train_gate *gate, enough_fn *is_enough,
                                unsigned num_steps)
{
    struct sluice_train_options options = options_of("resnet18");
    if (gate)
        options.gate = *gate;
    struct sluice_trainer *trainer = train_test_create(&options);
    struct course course = {.failure = ""};
    unsigned i = 0;
    while (i < MAX_STEPS && (is_enough ? i < NUM_STEPS || !is_enough(gate->data) : i < num_steps)) {
        for (unsigned k = 0; k < STEPS_OF_LOSS; k++, i++) {
            step(trainer, i, i % 23 == 22 ? SHORT : N, i % 3 == 2);
            if (i % 50 == 49)
                evaluate(trainer);
        }
        course.losses[i / STEPS_OF_LOSS - 1] = loss_of(trainer);
        if (i == NUM_STEPS / 2)
            spoil(trainer, &course);
    }
    course.num_steps = i;
    course.params = params_of(trainer, &course.count);
    sluice_trainer_destroy(trainer);
    return course;
}

/* Runs the course with the gate, and without it for as many steps. */
static void check_course(const struct sluice_train_gate *gate, enough_fn *is_enough)
{
    struct course stopped = run_course(gate, is_enough, 0);
    struct course plain = run_course(NULL, NULL, stopped.num_steps);
    const size_t num_losses = stopped.num_steps / STEPS_OF_LOSS;
    CU_ASSERT(is_enough(gate->data));
    CU_ASSERT(
        train_test_same_bits(plain.losses, stopped.losses, num_losses * sizeof(*plain.losses)));
    CU_ASSERT_STRING_EQUAL(plain.failure, stopped.failure);
    CU_ASSERT_EQUAL_FATAL(plain.count, stopped.count);
    CU_ASSERT(
        train_test_same_bits(plain.params, stopped.params, plain.count * sizeof(*plain.params)));
    for (size_t i = 0; i < num_losses; i++)
        CU_ASSERT(isfinite(plain.losses[i]));
    free(plain.params);
    free(stopped.params);
}

static bool has_waited_enough(void *data)
{
    return atomic_load(&((struct test_gate *)data)->num_waits) >= NUM_WAITS;
}

TEST(waiting_at_the_gate_changes_no_bit)
{
    struct test_gate gate = {.is_slow = true, .rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0)};
    const struct sluice_train_gate of_test = {add_point, &gate};
    check_course(&of_test, has_waited_enough);
    printf("%u waits ", atomic_load(&gate.num_waits));
}

/* A process that borrows the GPU, forked before this one knows CUDA. */
static struct {
    int to, from;
} helper;

static struct sluice_borrower *borrow(const char *path)
{
    const struct sluice_borrower_options options = {.path = path};
    struct sluice_borrower *borrower = NULL;
    while (sluice_borrower_open(&options, &borrower, NULL))
        usleep(1000);
    return borrower;
}

/* Until it is killed. */
static void borrow_for_ever(const char *path, uint64_t seed)
{
    struct sluice_rng rng = sluice_rng_init(seed, 0, 0, 0);
    struct sluice_borrower *borrower = borrow(path);
    for (;;) {
        uint32_t ticket;
        if (sluice_borrower_take(borrower, -1, &ticket, NULL))
            _exit(1);
        usleep(sluice_rng_below(&rng, 300));
        sluice_borrower_give(borrower, ticket);
        usleep(sluice_rng_below(&rng, 300));
    }
}

/* Two borrowers at a time, each killed wherever it is, until a command comes. */
static void borrow_and_die(int commands, const char *path)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 1, 0);
    struct pollfd command = {.fd = commands, .events = POLLIN};
    pid_t borrowers[2] = {0};
    for (unsigned i = 0; poll(&command, 1, 0) == 0; i++) {
        pid_t *borrower = &borrowers[i % 2];
        if (*borrower > 0 && kill(*borrower, SIGKILL) == 0)
            waitpid(*borrower, NULL, 0);
        *borrower = fork();
        if (*borrower == 0)
            borrow_for_ever(path, i);
        usleep(sluice_rng_below(&rng, 20000));
    }
    for (int i = 0; i < 2; i++) {
        if (borrowers[i] > 0 && kill(borrowers[i], SIGKILL) == 0)
            waitpid(borrowers[i], NULL, 0);
    }
}

/* Commands: h takes the GPU, g gives it back, b borrows until the next command; each is answered. */
static void run_helper(int commands, int answers, const char *path)
{
    struct sluice_borrower *borrower = NULL;
    uint32_t ticket = 0;
    char command;
    while (read(commands, &command, 1) == 1) {
        bool is_good = true;
        if (command == 'h') {
            borrower = borrow(path);
            is_good = sluice_borrower_take(borrower, -1, &ticket, NULL) == SLUICE_OK;
        } else if (command == 'g') {
            is_good = sluice_borrower_give(borrower, ticket);
            sluice_borrower_close(borrower);
        } else if (command == 'b') {
            borrow_and_die(commands, path);
        }
        if (write(answers, is_good ? "+" : "-", 1) != 1)
            break;
    }
    _exit(0);
}

static void start_helper(const char *path)
{
    int commands[2], answers[2];
    if (pipe(commands) || pipe(answers))
        abort();
    const pid_t pid = fork();
    if (pid == 0) {
        close(commands[1]);
        run_helper(commands[0], answers[1], path);
    }
    close(commands[0]);
    close(answers[1]);
    helper.to = commands[1];
    helper.from = answers[0];
}

static void tell_helper(char command)
{
    CU_ASSERT_EQUAL_FATAL(write(helper.to, &command, 1), 1);
}

static void await_helper(void)
{
    char answer = 0;
    CU_ASSERT_EQUAL(read(helper.from, &answer, 1), 1);
    CU_ASSERT_EQUAL(answer, '+');
}

static struct sluice_lend *lend_gpu(void)
{
    const struct sluice_lend_options options = {.path = sluice_test_path("lend"),
                                                .at_most_ms = 60000};
    struct sluice_lend *lend = NULL;
    train_test_require(sluice_lend_open(&options, &lend, &err), &err);
    return lend;
}

static sluice_status lend_point(void *data, void *stream, struct sluice_err *point_err)
{
    return sluice_lend_point(data, stream, point_err);
}

enum kind { FULL, CUT, EVALUATION };

static void take_step(struct sluice_trainer *trainer, enum kind kind)
{
    if (kind == EVALUATION)
        evaluate(trainer);
    else
        step(trainer, 0, kind == CUT ? SHORT : N, false);
}

/* All kinds have run before: libraries load kernels at their first use, and may wait for the GPU. */
TEST(a_step_waits_for_the_borrower)
{
    struct sluice_lend *lend = lend_gpu();
    struct sluice_train_options options = options_of("resnet18");
    options.gate = (struct sluice_train_gate){lend_point, lend};
    struct sluice_trainer *trainer = train_test_create(&options);
    for (int i = 0; i < 4; i++) {
        for (enum kind kind = FULL; kind <= EVALUATION; kind++)
            take_step(trainer, kind);
    }
    CU_ASSERT(isfinite(loss_of(trainer)));
    for (enum kind kind = FULL; kind <= EVALUATION; kind++) {
        tell_helper('h');
        await_helper();
        take_step(trainer, kind);
        CU_ASSERT_EQUAL(cudaStreamQuery(sluice_trainer_stream(trainer)), cudaErrorNotReady);
        cudaGetLastError();
        tell_helper('g');
        await_helper();
        CU_ASSERT(isfinite(loss_of(trainer)));
    }
    sluice_lend_stop(lend);
    sluice_trainer_destroy(trainer);
    sluice_lend_close(lend);
}

static bool has_lent_enough(void *data)
{
    struct sluice_lend_counters counters;
    sluice_lend_counters(data, &counters);
    return counters.requests >= NUM_WAITS;
}

TEST(borrowers_that_are_killed_change_no_bit)
{
    struct sluice_lend *lend = lend_gpu();
    const struct sluice_train_gate gate = {lend_point, lend};
    tell_helper('b');
    check_course(&gate, has_lent_enough);
    tell_helper('.');
    await_helper();
    await_helper();
    struct sluice_lend_counters counters;
    sluice_lend_counters(lend, &counters);
    printf("%llu requests, %llu of which were taken back ", (unsigned long long)counters.requests,
           (unsigned long long)counters.taken_back);
    sluice_lend_close(lend);
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
    start_helper(sluice_test_path("lend"));
    train_test_fill_table();
    const struct sluice_train_options options = options_of("small_cnn");
    sluice_trainer_destroy(train_test_create(&options)); /* or the end: skipped */
    return sluice_test_main();
}
