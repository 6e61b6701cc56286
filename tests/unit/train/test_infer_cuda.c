#include "train/infer.h"
#include "train/train.h"

#include "support/test.h"
#include "train_support.h"

#include <math.h>

/* Inference on a GPU, against the trainer's evaluation. */

enum { N = 8, SIZE = 64, CLASSES = 10, ROW = SIZE * SIZE * 3 };

static uint8_t pixels[N * ROW];
static uint32_t labels[N];
static struct sluice_err err;

static struct sluice_infer_options options_of(const char *model, enum sluice_precision precision)
{
    return (struct sluice_infer_options){
        .device = "cuda",
        .model = model,
        .num_classes = CLASSES,
        .height = SIZE,
        .width = SIZE,
        .batch_size = N,
        .precision = precision,
        .engine_cache = sluice_test_path("engines"),
    };
}

static void require(sluice_status status)
{
    train_test_require(status, &err);
}

/* A trainer of the same engines whose running statistics are of some batches. */
static struct sluice_trainer *create_trainer(const struct sluice_infer_options *o)
{
    const struct sluice_train_options options = {
        .device = o->device,
        .model = o->model,
        .num_classes = o->num_classes,
        .height = o->height,
        .width = o->width,
        .batch_size = o->batch_size,
        .lr = 1e-3,
        .seed = 3,
        .table = train_test_table,
        .precision = o->precision,
        .engine_cache = o->engine_cache,
        .dropout = -1,
    };
    struct sluice_trainer *trainer = train_test_create(&options);
    for (uint64_t i = 0; i < 4; i++) {
        train_test_fill_batch(N, SIZE, CLASSES, 1000 * i, pixels, labels);
        const struct sluice_train_batch batch = {.pixels = pixels, .labels = labels, .n = N};
        require(sluice_trainer_step(trainer, &batch, &err));
    }
    struct sluice_train_totals totals;
    require(sluice_trainer_collect(trainer, &totals, &err));
    return trainer;
}

/* A model in its own memory, with the image of a file in pinned memory. */
struct model {
    struct sluice_infer *infer;
    uint8_t *image;
};

static uint8_t *image_of(const struct sluice_infer *infer, int byte)
{
    const size_t bytes = (sluice_infer_weight_bytes(infer) + 4095) / 4096 * 4096;
    uint8_t *image = aligned_alloc(4096, bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(image);
    memset(image, byte, bytes);
    return image;
}

static struct model create(const struct sluice_infer_options *options, const char *path)
{
    struct model m = {.infer = NULL};
    require(sluice_infer_create(options, &m.infer, &err));
    m.image = image_of(m.infer, 0);
    require(sluice_infer_load(m.infer, path, m.image, &err));
    require(sluice_infer_pin(m.infer, m.image, sluice_infer_weight_bytes(m.infer), &err));
    return m;
}

static void destroy(struct model *m)
{
    sluice_infer_unpin(m->infer, m->image);
    sluice_infer_destroy(m->infer);
    free(m->image);
}

/* The batch of `offset`, also in `pixels`. */
static void fill_input(struct sluice_infer *infer, uint64_t offset)
{
    float *input = sluice_infer_input(infer);
    train_test_fill_batch(N, SIZE, CLASSES, offset, pixels, labels);
    for (size_t row = 0; row < N; row++) {
        for (size_t i = 0; i < SIZE * SIZE; i++) {
            for (size_t c = 0; c < 3; c++)
                input[row * ROW + c * SIZE * SIZE + i] =
                    train_test_table[c][pixels[row * ROW + 3 * i + c]];
        }
    }
}

/* Logits of a run, which overwrites what is not a number before. */
static void run(struct sluice_infer_plan *plan, struct sluice_infer *infer,
                float logits[N * CLASSES])
{
    memset((float *)sluice_infer_logits(infer), 0xFF, sizeof(float[N * CLASSES]));
    require(sluice_infer_run(plan, &err));
    memcpy(logits, sluice_infer_logits(infer), sizeof(float[N * CLASSES]));
}

static struct sluice_infer_plan *plan_of(const struct model *m,
                                         const struct sluice_infer_plan_options *options)
{
    struct sluice_infer_plan *plan = NULL;
    require(sluice_infer_plan_create(m->infer, options, &plan, &err));
    return plan;
}

static struct sluice_infer_plan *resident_plan(const struct model *m)
{
    const struct sluice_infer_plan_options nothing = {.num_groups = 0};
    return plan_of(m, &nothing);
}

/* Cross-entropy of the batch; *hits: rows whose label has the largest logit. */
static double loss_of(const float *logits, unsigned *hits)
{
    double sum = 0;
    *hits = 0;
    for (size_t row = 0; row < N; row++) {
        const float *of = logits + row * CLASSES;
        unsigned largest = 0;
        double total = 0;
        for (unsigned c = 0; c < CLASSES; c++)
            largest = of[c] > of[largest] ? c : largest;
        for (unsigned c = 0; c < CLASSES; c++)
            total += exp((double)of[c] - of[largest]);
        sum += log(total) + of[largest] - of[labels[row]];
        *hits += labels[row] == largest;
    }
    return sum;
}

/* Every class of every row is a label once. */
static void check_logits(struct sluice_trainer *trainer, const float *logits)
{
    const struct sluice_train_batch batch = {.pixels = pixels, .labels = labels, .n = N};
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t row = 0; row < N; row++)
            labels[row] = (k + 3 * row) % CLASSES;
        struct sluice_train_totals totals;
        require(sluice_trainer_evaluate(trainer, &batch, &err));
        require(sluice_trainer_collect(trainer, &totals, &err));
        unsigned hits;
        CU_ASSERT_DOUBLE_EQUAL(loss_of(logits, &hits), totals.loss_sum, 1e-5);
        CU_ASSERT_EQUAL(hits, totals.top1);
    }
}

/* With poison in the place of the weights before each run. */
static void check_plans(const struct model *m, const float *wanted)
{
    static const unsigned sizes[] = {1, 2, 7, 1000}; /* stages in a group */
    const unsigned num_stages = sluice_infer_num_stages(m->infer);
    unsigned *last = calloc(num_stages, sizeof(*last));
    uint8_t *poison = image_of(m->infer, 0xFF);
    for (unsigned k = 0; k < 4 * SLUICE_ARRAY_LEN(sizes); k++) {
        const unsigned size = sizes[k / 4];
        struct sluice_infer_plan_options options = {
            .image = m->image, .last_stages = last, .is_pipelined = k & 1, .is_eager = k & 2};
        for (unsigned end = size; end < num_stages + size; end += size)
            last[options.num_groups++] = end < num_stages ? end - 1 : num_stages - 1;
        struct sluice_infer_plan *plan = plan_of(m, &options);
        for (int again = 0; again < 2; again++) {
            float logits[N * CLASSES];
            require(sluice_infer_copy(m->infer, poison, &err));
            run(plan, m->infer, logits);
            CU_ASSERT(train_test_same_bits(logits, wanted, sizeof(logits)));
        }
        sluice_infer_plan_destroy(plan);
    }
    free(poison);
    free(last);
}

static void check_model(const char *model, enum sluice_precision precision)
{
    const struct sluice_infer_options options = options_of(model, precision);
    struct sluice_trainer *trainer = create_trainer(&options);
    const char *path = sluice_test_path("weights.safetensors");
    require(sluice_trainer_save(trainer, path, "{}", &err));
    struct model m = create(&options, path);
    require(sluice_infer_place(&m.infer, 1, &err));
    struct sluice_infer_plan *resident = resident_plan(&m);
    require(sluice_infer_copy(m.infer, m.image, &err));
    float wanted[N * CLASSES], logits[N * CLASSES];
    for (uint64_t offset = 0; offset < 2; offset++) {
        fill_input(m.infer, 5000 + 777 * offset);
        run(resident, m.infer, wanted);
        check_logits(trainer, wanted);
    }
    float least = wanted[0], most = wanted[0];
    for (size_t i = 0; i < N * CLASSES; i++) {
        least = fminf(least, wanted[i]);
        most = fmaxf(most, wanted[i]);
    }
    printf("%s %s: %g to %g ", model, sluice_precision_name(precision), least, most);
    CU_ASSERT(most - least > 1e-3);

    check_plans(&m, wanted);
    uint8_t *poison = image_of(m.infer, 0xFF);
    require(sluice_infer_copy(m.infer, poison, &err));
    run(resident, m.infer, logits);
    CU_ASSERT(!train_test_same_bits(logits, wanted, sizeof(logits)));
    free(poison);
    sluice_infer_plan_destroy(resident);
    destroy(&m);
    sluice_trainer_destroy(trainer);
}

TEST(logits_are_those_of_evaluation_whatever_the_groups)
{
    for (int p = SLUICE_PRECISION_BF16; p <= SLUICE_PRECISION_FP32; p++) {
        check_model("small_cnn", (enum sluice_precision)p);
        check_model("resnet18", (enum sluice_precision)p);
        check_model("alexnet", (enum sluice_precision)p);
    }
    check_model("resnet152", SLUICE_PRECISION_BF16);
    check_model("vgg16", SLUICE_PRECISION_BF16);
}

/* A file of weights of the model. */
static const char *write_weights(const struct sluice_infer_options *options, const char *name)
{
    struct sluice_trainer *trainer = create_trainer(options);
    const char *path = sluice_test_path(name);
    require(sluice_trainer_save(trainer, path, "{}", &err));
    sluice_trainer_destroy(trainer);
    return path;
}

TEST(rows_do_not_depend_on_other_rows)
{
    const struct sluice_infer_options options = options_of("resnet18", SLUICE_PRECISION_BF16);
    struct model m = create(&options, write_weights(&options, "a.safetensors"));
    require(sluice_infer_place(&m.infer, 1, &err));
    const unsigned last = sluice_infer_num_stages(m.infer) - 1;
    const struct sluice_infer_plan_options of_one = {
        .image = m.image, .last_stages = &last, .num_groups = 1};
    struct sluice_infer_plan *plan = plan_of(&m, &of_one);
    float whole[N * CLASSES], part[N * CLASSES];
    fill_input(m.infer, 5000);
    run(plan, m.infer, whole);
    memset(sluice_infer_input(m.infer) + 3 * ROW, 0xFF, sizeof(float[(N - 3) * ROW]));
    run(plan, m.infer, part);
    CU_ASSERT(train_test_same_bits(part, whole, sizeof(float[3 * CLASSES])));
    sluice_infer_plan_destroy(plan);
    destroy(&m);
}

TEST(models_take_turns_in_one_block)
{
    static const char *const names[] = {"resnet18", "alexnet", "small_cnn"};
    struct model models[3];
    struct sluice_infer *infers[3];
    struct sluice_infer_plan *plans[3];
    float wanted[3][N * CLASSES], logits[N * CLASSES];
    for (int i = 0; i < 3; i++) {
        const struct sluice_infer_options options = options_of(names[i], SLUICE_PRECISION_BF16);
        models[i] = create(&options, write_weights(&options, names[i]));
        infers[i] = models[i].infer;
        fill_input(infers[i], 5000);
    }
    require(sluice_infer_place(infers, 3, &err));
    for (int i = 0; i < 3; i++) {
        const unsigned last[] = {2, sluice_infer_num_stages(infers[i]) - 1};
        const struct sluice_infer_plan_options in_two = {
            .image = models[i].image, .last_stages = last, .num_groups = 2, .is_pipelined = true};
        plans[i] = plan_of(&models[i], &in_two);
        run(plans[i], infers[i], wanted[i]);
    }
    for (int turn = 0; turn < 12; turn++) {
        const int i = (turn * 5 + turn / 4) % 3;
        run(plans[i], infers[i], logits);
        CU_ASSERT(train_test_same_bits(logits, wanted[i], sizeof(logits)));
    }
    for (int i = 0; i < 3; i++) {
        sluice_infer_plan_destroy(plans[i]);
        destroy(&models[i]);
        if (i == 1) { /* the block is there for the last one */
            run(plans[2], infers[2], logits);
            CU_ASSERT(train_test_same_bits(logits, wanted[2], sizeof(logits)));
        }
    }
}

TEST(only_the_host_copies_from_memory_that_is_not_pinned)
{
    const struct sluice_infer_options options = options_of("small_cnn", SLUICE_PRECISION_BF16);
    struct model m = create(&options, write_weights(&options, "a.safetensors"));
    require(sluice_infer_place(&m.infer, 1, &err));
    const unsigned last[] = {2, sluice_infer_num_stages(m.infer) - 1};
    struct sluice_infer_plan_options in_two = {
        .image = m.image, .last_stages = last, .num_groups = 2, .is_pipelined = true};
    struct sluice_infer_plan *pinned = plan_of(&m, &in_two), *plan = NULL;
    float wanted[N * CLASSES], logits[N * CLASSES];
    fill_input(m.infer, 5000);
    run(pinned, m.infer, wanted);

    uint8_t *pages = image_of(m.infer, 0);
    memcpy(pages, m.image, sluice_infer_weight_bytes(m.infer));
    in_two.image = pages;
    CHECK_FAILS(SLUICE_E_INVALID, "image: its memory is not pinned",
                sluice_infer_plan_create(m.infer, &in_two, &plan, sluice_test_err()));
    in_two.is_eager = true;
    plan = plan_of(&m, &in_two);
    run(plan, m.infer, logits);
    CU_ASSERT(train_test_same_bits(logits, wanted, sizeof(logits)));
    sluice_infer_plan_destroy(plan);
    sluice_infer_plan_destroy(pinned);
    free(pages);
    destroy(&m);
}

TEST(stages_and_copies_have_costs)
{
    const struct sluice_infer_options options = options_of("resnet18", SLUICE_PRECISION_BF16);
    struct model m = create(&options, write_weights(&options, "a.safetensors"));
    require(sluice_infer_place(&m.infer, 1, &err));
    double seconds[256], sum = 0;
    struct sluice_infer_costs costs = {.stage_seconds = seconds};
    const unsigned num_stages = sluice_infer_num_stages(m.infer);
    CU_ASSERT_FATAL(num_stages <= SLUICE_ARRAY_LEN(seconds));
    require(sluice_infer_measure(m.infer, m.image, &costs, &err));
    for (unsigned s = 0; s < num_stages; s++) {
        CU_ASSERT(seconds[s] >= 0);
        sum += seconds[s];
    }
    printf("%g ms, %g GB/s, %g us ", sum * 1e3, costs.bytes_per_s * 1e-9, costs.copy_seconds * 1e6);
    CU_ASSERT(sum > 0 && isfinite(sum));
    CU_ASSERT(costs.bytes_per_s > 0);
    CU_ASSERT(costs.copy_seconds >= 0 && isfinite(costs.copy_seconds));
    destroy(&m);
}

TEST(a_gpu_that_is_not_there_is_refused)
{
    struct sluice_infer_options options = options_of("small_cnn", SLUICE_PRECISION_FP32);
    options.gpu = 1000;
    struct sluice_infer *infer = NULL;
    CHECK_FAILS(SLUICE_E_INVALID, "gpu 1000",
                sluice_infer_create(&options, &infer, sluice_test_err()));
}

int main(void)
{
    train_test_fill_table();
    const struct sluice_infer_options options = options_of("small_cnn", SLUICE_PRECISION_FP32);
    struct sluice_infer *infer = NULL;
    const sluice_status status = sluice_infer_create(&options, &infer, &err);
    sluice_infer_destroy(infer);
    if (status == SLUICE_E_UNSUPPORTED)
        sluice_test_skip(err.text);
    return sluice_test_main(); /* whose first test says any other error */
}
