#include "train/train.h"

#include "support/test.h"
#include "train_support.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

/* Two ranks on two GPUs, each a process, against trainers that are alone.  Skipped with fewer. */

enum { N = 8, SIZE = 64, CLASSES = 10, ROW = SIZE * SIZE * 3, SKIPPED = 77 };

static struct sluice_train_options options_of(const char *model, unsigned batch_size)
{
    return (struct sluice_train_options){
        .device = "cuda",
        .model = model,
        .num_classes = CLASSES,
        .height = SIZE,
        .width = SIZE,
        .batch_size = batch_size,
        .lr = 0.01,
        .momentum = 0.9,
        .weight_decay = 1e-4,
        .seed = 3,
        .table = train_test_table,
        .precision = SLUICE_PRECISION_FP32,
        .is_deterministic = true,
        .dropout = 0,
    };
}

/* Rows [first, first + n) of a batch that all ranks know. */
static void step(struct sluice_trainer *trainer, unsigned first, unsigned n)
{
    static uint8_t pixels[2 * N * ROW];
    static uint32_t labels[2 * N];
    struct sluice_err err = {{0}};
    train_test_fill_batch(2 * N, SIZE, CLASSES, 0, pixels, labels);
    const struct sluice_train_batch batch = {
        .pixels = pixels + (size_t)first * ROW, .labels = labels + first, .n = n};
    train_test_require(sluice_trainer_step(trainer, &batch, &err), &err);
}

/* Gradients, or values, of all trained parameters one behind the other. */
static float *read_all(struct sluice_trainer *trainer, bool is_grad, size_t *count)
{
    float *values = NULL;
    *count = 0;
    for (size_t i = 0; i < sluice_trainer_num_params(trainer); i++) {
        struct sluice_err err = {{0}};
        if (strstr(sluice_trainer_param_name(trainer, i), ".running_"))
            continue;
        const size_t more = sluice_trainer_param_count(trainer, i);
        values = realloc(values, (*count + more) * sizeof(*values));
        train_test_require(is_grad ? sluice_trainer_get_grad(trainer, i, values + *count, &err)
                                   : sluice_trainer_get_param(trainer, i, values + *count, &err),
                           &err);
        *count += more;
    }
    return values;
}

/* MODEL.WHAT.RANK */
static const char *path_of(const char *model, const char *what, unsigned rank)
{
    char name[64];
    snprintf(name, sizeof(name), "%s.%s.%u", model, what, rank);
    return sluice_test_path(name);
}

/* A rank: a step on its half, whose mean gradients it writes; then one that rank 1 has no rows for,
 * four of a captured graph, and its values. */
static void run_rank(const char *model, unsigned rank)
{
    int num_gpus = 0;
    if (cudaGetDeviceCount(&num_gpus) || num_gpus < 2)
        _exit(SKIPPED);
    char key[64];
    snprintf(key, sizeof(key), "test_ranks_%d_%s", (int)getppid(), model);
    struct sluice_train_options options = options_of(model, N);
    options.rank = rank;
    options.world_size = 2;
    options.gpu = (int)rank;
    options.rendezvous = key;
    struct sluice_trainer *trainer = train_test_create(&options);
    size_t count;
    step(trainer, rank * N, N);
    float *grads = read_all(trainer, true, &count);
    sluice_test_write_file(path_of(model, "grads", rank), grads, count * sizeof(*grads));
    step(trainer, rank * N, rank == 1 ? 0 : N);
    for (int i = 0; i < 4; i++)
        step(trainer, rank * N, N);
    float *values = read_all(trainer, false, &count);
    sluice_test_write_file(path_of(model, "values", rank), values, count * sizeof(*values));
    free(grads), free(values);
    sluice_trainer_destroy(trainer);
    _exit(0);
}

/* The parent makes no call of CUDA before its children are over. */
static void run_ranks(const char *model)
{
    pid_t children[2];
    path_of(model, "grads", 0); /* makes the folder, which the children share */
    fflush(NULL);
    for (unsigned rank = 0; rank < 2; rank++) {
        children[rank] = fork();
        if (children[rank] == 0)
            run_rank(model, rank);
    }
    bool is_skipped = false;
    for (int i = 0; i < 2; i++) {
        int status = 0;
        waitpid(children[i], &status, 0);
        is_skipped |= WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED;
        CU_ASSERT_TRUE(is_skipped || status == 0);
    }
    if (is_skipped)
        sluice_test_skip("this machine has fewer than two GPUs");
}

static float *read_file(const char *model, const char *what, unsigned rank, size_t count)
{
    float *values = calloc(count, sizeof(*values));
    FILE *file = fopen(path_of(model, what, rank), "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL_FATAL(fread(values, sizeof(*values), count, file), count);
    fclose(file);
    return values;
}

/* |a - b| / |b| */
static double distance(const float *a, const double *b, size_t count)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return sqrt(difference / norm);
}

/* Adds 1/parts of the gradients of a trainer that is alone on the rows. */
static double *add_alone(const char *model, unsigned first, unsigned n, unsigned parts, double *sum,
                         size_t *count)
{
    const struct sluice_train_options options = options_of(model, n);
    struct sluice_trainer *trainer = train_test_create(&options);
    step(trainer, first, n);
    float *grads = read_all(trainer, true, count);
    if (!sum)
        sum = calloc(*count, sizeof(*sum));
    for (size_t i = 0; i < *count; i++)
        sum[i] += (double)grads[i] / parts;
    free(grads);
    sluice_trainer_destroy(trainer);
    return sum;
}

static void compare(const char *model, bool has_statistics)
{
    size_t count;
    double *halves = add_alone(model, 0, N, 2, NULL, &count);
    halves = add_alone(model, N, N, 2, halves, &count);
    float *grads = read_file(model, "grads", 0, count);
    float *other = read_file(model, "grads", 1, count);
    CU_ASSERT(train_test_same_bits(grads, other, count * sizeof(*grads)));
    CU_ASSERT(distance(grads, halves, count) < 1e-6);
    if (!has_statistics) {
        double *whole = add_alone(model, 0, 2 * N, 1, NULL, &count);
        const double off = distance(grads, whole, count);
        printf("%s: %.1e of the whole batch ", model, off);
        CU_ASSERT(off < 1e-5);
        free(whole);
    }
    float *a = read_file(model, "values", 0, count), *b = read_file(model, "values", 1, count);
    CU_ASSERT(train_test_same_bits(a, b, count * sizeof(*a)));
    free(halves), free(grads), free(other), free(a), free(b);
}

TEST(ranks_have_the_mean_of_their_gradients)
{
    static const char *const models[] = {"resnet18", "resnet50", "alexnet", "vgg11"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(models); i++)
        run_ranks(models[i]);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(models); i++) /* batch norms have local statistics */
        compare(models[i], strncmp(models[i], "resnet", 6) == 0);
}
