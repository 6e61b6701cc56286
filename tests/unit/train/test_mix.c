#include "train/mix.h"

#include "base/hash.h"
#include "op/batch_draws.h"
#include "support/test.h"
#include "train_support.h"

#include <math.h>

enum { MAX_ROWS = 8, SIZE = 24, CLASSES = 5, ROW = SIZE * SIZE * 3 };

static uint8_t pixels[MAX_ROWS * ROW];
static uint32_t labels[MAX_ROWS];
static uint64_t ids[MAX_ROWS];
static uint32_t draw_epochs[MAX_ROWS];
static float quantiles[SLUICE_NUM_QUANTILES];
static struct sluice_mix_row rows[MAX_ROWS];
static float got[MAX_ROWS * ROW], want[MAX_ROWS * ROW], normalised[MAX_ROWS * ROW];

static const uint64_t seed = 0x8000000000000003u;
static struct sluice_size size = {SIZE, SIZE};

/* Everything, with timm's pairs. */
static struct sluice_batch_ops all_ops(void)
{
    struct sluice_batch_ops ops = sluice_batch_ops_none();
    ops.mix.mixup_alpha = 0.8;
    ops.mix.cutmix_alpha = 1;
    ops.mix.p = 0.8;
    ops.label_smoothing = 0.1;
    ops.erasing.p = 0.5;
    ops.fill_values[0] = 0.5f;
    ops.fill_values[2] = -1;
    return ops;
}

/* As tests/golden/make_batch_ops.py has it. */
static struct sluice_train_batch make_batch(unsigned n, uint64_t index,
                                            struct sluice_train_key *key)
{
    train_test_fill_table();
    train_test_fill_batch(n, SIZE, CLASSES, index, pixels, labels);
    for (unsigned i = 0; i < n; i++) {
        ids[i] = ((uint64_t)1 << 35) + 100 + i;
        draw_epochs[i] = 2 + i % 2;
    }
    *key = (struct sluice_train_key){
        .epoch = 2, .rank = 1, .index = index, .ids = ids, .draw_epochs = draw_epochs};
    return (struct sluice_train_batch){.pixels = pixels, .labels = labels, .n = n, .key = key};
}

static struct sluice_mix_batch draw(const struct sluice_batch_ops *ops,
                                    const struct sluice_train_batch *batch)
{
    struct sluice_mix_batch drawn;
    struct sluice_err err = {0};
    train_test_require(sluice_mix_draw(ops, seed, batch, size, CLASSES, &drawn, rows, &err), &err);
    return drawn;
}

static void fill_box(const struct sluice_batch_ops *ops, const struct sluice_draw_key *key,
                     const struct sluice_box *box, float *row)
{
    static float noise[ROW];
    const size_t count = (size_t)box->width * box->height;
    sluice_fill_drawn(key, quantiles, noise, ops->fill == SLUICE_FILL_PIXEL ? 3 * count : 3);
    for (size_t c = 0; c < 3; c++) {
        for (size_t i = 0; i < count; i++) {
            const size_t y = box->top + i / box->width, x = box->left + i % box->width;
            row[(y * size.width + x) * 3 + c] =
                ops->fill == SLUICE_FILL_VALUES    ? ops->fill_values[c]
                : ops->fill == SLUICE_FILL_CHANNEL ? noise[c]
                                                   : noise[c * count + i];
        }
    }
}

/* The steps of sluice.torch on a whole batch, one after the other. */
static struct sluice_mix formula(const struct sluice_batch_ops *ops,
                                 const struct sluice_train_batch *batch)
{
    for (size_t i = 0; i < (size_t)batch->n * ROW; i++)
        normalised[i] = train_test_table[i % 3][batch->pixels[i]];
    for (unsigned n = 0; n < batch->n; n++) {
        const struct sluice_draw_key key = {
            .seed = seed, .epoch = draw_epochs[n], .sample_id = ids[n]};
        struct sluice_box box;
        if (sluice_draw_erasing(&ops->erasing, &key, size, &box))
            fill_box(ops, &key, &box, normalised + (size_t)n * ROW);
    }
    const struct sluice_train_key *key = batch->key;
    const struct sluice_mix mix =
        sluice_draw_mix(&ops->mix, seed, key->epoch, key->index, key->rank, size);
    const float own = (float)mix.lambda, other = (float)(1 - mix.lambda);
    for (unsigned n = 0; n < batch->n; n++) {
        const unsigned partner = ops->is_rolled ? (n + batch->n - 1) % batch->n : batch->n - 1 - n;
        for (size_t i = 0; i < ROW; i++) {
            const size_t y = i / 3 / size.width, x = i / 3 % size.width;
            const float a = normalised[(size_t)n * ROW + i],
                        b = normalised[(size_t)partner * ROW + i];
            const bool is_cut = mix.is_cutmix && y >= mix.box.top && x >= mix.box.left &&
                                y < mix.box.top + mix.box.height &&
                                x < mix.box.left + mix.box.width;
            const float product = a * own, more = b * other;
            want[(size_t)n * ROW + i] = is_cut                           ? b
                                        : mix.is_mixed && !mix.is_cutmix ? product + more
                                                                         : a;
        }
    }
    return mix;
}

TEST(the_input_is_what_the_steps_one_by_one_give)
{
    sluice_normal_quantiles(quantiles);
    unsigned num_erased = 0, num_of_kind[3] = {0};
    for (uint64_t index = 0; index < 90; index++) {
        size = index < 60 ? (struct sluice_size){SIZE, SIZE}
                          : (struct sluice_size){2 * SIZE, SIZE / 2};
        struct sluice_batch_ops ops = all_ops();
        ops.fill = (enum sluice_fill)(index % 3);
        ops.is_rolled = index / 3 % 2;
        struct sluice_train_key key;
        const struct sluice_train_batch batch =
            make_batch(index % 4 == 3 ? 1 : MAX_ROWS - index % 2, index, &key);
        const struct sluice_mix_batch drawn = draw(&ops, &batch);
        const struct sluice_mix mix = formula(&ops, &batch);
        sluice_mix_input(&drawn, rows, pixels, train_test_table, quantiles, got);
        CU_ASSERT_FATAL(train_test_same_bits(got, want, batch.n * ROW * sizeof(float)));
        CU_ASSERT_EQUAL(drawn.kind, mix.is_mixed ? 1 + mix.is_cutmix : 0);
        num_of_kind[drawn.kind]++;
        for (unsigned n = 0; n < batch.n; n++)
            num_erased += rows[n].height > 0;
    }
    size = (struct sluice_size){SIZE, SIZE};
    CU_ASSERT(num_erased > 50 && num_of_kind[0] > 3 && num_of_kind[1] > 3 && num_of_kind[2] > 3);
}

/* tests/golden/make_mix_losses.py */
TEST(losses_of_a_thousand_batches_are_timms)
{
    enum { N = 6, WIDE = 10 };
    char path[1024];
    snprintf(path, sizeof(path), "%s/tests/golden/mix_losses.txt", sluice_test_source_dir());
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    struct sluice_batch_ops ops = all_ops();
    ops.mix.p = 0.9;
    ops.erasing.p = 0;
    unsigned kind, num_of_kind[3] = {0};
    double loss;
    uint64_t index = 0;
    for (; fscanf(file, "%u %lf", &kind, &loss) == 2; index++) {
        struct sluice_train_key key;
        const struct sluice_train_batch batch = make_batch(N, index, &key);
        for (unsigned i = 0; i < N; i++)
            labels[i] = (uint32_t)(i * 7 + 3 + index) % WIDE;
        struct sluice_mix_batch drawn;
        REQUIRE_OK(sluice_mix_draw(&ops, seed, &batch, size, WIDE, &drawn, rows, NULL));
        CU_ASSERT_EQUAL(drawn.kind, kind);
        num_of_kind[drawn.kind]++;
        struct sluice_train_totals totals = {0};
        for (unsigned i = 0; i < N; i++) {
            float logits[WIDE], diff[WIDE];
            for (unsigned c = 0; c < WIDE; c++)
                logits[c] = ((float)((i * 31 + c * 17 + index * 7) % 23) - 11) / 4;
            sluice_mix_loss(&drawn, i, labels, logits, WIDE, 1, diff, &totals);
        }
        CU_ASSERT_DOUBLE_EQUAL(totals.loss_sum / N, loss, 1e-7);
    }
    CU_ASSERT_EQUAL(index, 1000);
    CU_ASSERT(num_of_kind[0] > 50 && num_of_kind[1] > 300 && num_of_kind[2] > 300);
    fclose(file);
}

/* XXH3-128 of what sluice.torch.RandomErasing and Mix make of the same batches, rows and then
 * targets: printed by tests/golden/make_batch_ops.py. */
static const char *const of_torch[] = {
    "a480fe7b7b27310881b49fe980c2c0bb", "2333b8300011c802ecd5886f912e4472",
    "61bbf311fdbda3dd3da626942838eb72", "88adceac3bca6e2fb6d62b77e3433835",
    "285ba78cacb1e59a7415e0a542e72df6", "5f17613ff3428664c6a590c012948b3d",
};

TEST(batches_are_those_of_sluice_torch)
{
    sluice_normal_quantiles(quantiles);
    for (uint64_t index = 0; index < SLUICE_ARRAY_LEN(of_torch); index++) {
        struct sluice_batch_ops ops = all_ops();
        ops.fill = (enum sluice_fill)(index % 3);
        ops.is_rolled = index / 3 % 2;
        struct sluice_train_key key;
        const struct sluice_train_batch batch = make_batch(MAX_ROWS - index % 2, index, &key);
        const struct sluice_mix_batch drawn = draw(&ops, &batch);
        sluice_mix_input(&drawn, rows, pixels, train_test_table, quantiles, got);
        float targets[MAX_ROWS][CLASSES];
        for (uint32_t n = 0; n < batch.n; n++) {
            for (uint32_t c = 0; c < CLASSES; c++)
                targets[n][c] =
                    sluice_mix_target(&drawn, labels[n], labels[sluice_mix_partner(&drawn, n)], c);
        }
        char hex[33];
        const size_t row_bytes = batch.n * ROW * sizeof(float);
        static uint8_t both[sizeof(got) + sizeof(targets)];
        memcpy(both, got, row_bytes);
        memcpy(both + row_bytes, targets, batch.n * sizeof(targets[0]));
        sluice_hash128_hex(sluice_hash128(both, row_bytes + batch.n * sizeof(targets[0])), hex);
        CU_ASSERT_STRING_EQUAL(hex, of_torch[index]);
    }
}

/* The loss of a row against target probabilities. */
static double cross_entropy(const float *logits, const double *target)
{
    double sum = 0, loss = 0;
    for (int c = 0; c < CLASSES; c++)
        sum += exp((double)logits[c]);
    for (int c = 0; c < CLASSES; c++)
        loss -= target[c] * (logits[c] - log(sum));
    return loss;
}

TEST(the_loss_is_against_both_smoothed_labels)
{
    static const float logits[CLASSES] = {0.5f, -1, 2, 0.25f, 1};
    unsigned num_of_kind[3] = {0};
    for (uint64_t index = 0; index < 40; index++) {
        struct sluice_batch_ops ops = all_ops();
        ops.is_rolled = index % 2;
        struct sluice_train_key key;
        const struct sluice_train_batch batch = make_batch(7, index, &key);
        const struct sluice_mix_batch drawn = draw(&ops, &batch);
        const double lambda =
            sluice_draw_mix(&ops.mix, seed, 2, index, 1, (struct sluice_size){SIZE, SIZE}).lambda;
        num_of_kind[drawn.kind]++;
        for (uint32_t n = 0; n < batch.n; n++) {
            const uint32_t partner = labels[ops.is_rolled ? (n + 6) % 7 : 6 - n];
            double target[CLASSES];
            for (uint32_t c = 0; c < CLASSES; c++)
                target[c] = 0.1 / CLASSES +
                            0.9 * (lambda * (c == labels[n]) + (1 - lambda) * (c == partner));
            float diff[CLASSES];
            struct sluice_train_totals totals = {0};
            sluice_mix_loss(&drawn, n, labels, logits, CLASSES, 2, diff, &totals);
            CU_ASSERT_DOUBLE_EQUAL(totals.loss_sum, cross_entropy(logits, target), 1e-6);
            CU_ASSERT_EQUAL(totals.top1, (lambda >= 0.5 ? labels[n] : partner) == 2);
            CU_ASSERT_EQUAL(totals.top5, 1);
            for (int c = 0; c < CLASSES; c++) {
                float more[CLASSES], less[CLASSES];
                memcpy(more, logits, sizeof(more));
                memcpy(less, logits, sizeof(less));
                more[c] += 0.0625f;
                less[c] -= 0.0625f;
                const double slope =
                    (cross_entropy(more, target) - cross_entropy(less, target)) / 0.125;
                CU_ASSERT_DOUBLE_EQUAL(diff[c], 2 * slope, 2e-3);
            }
        }
    }
    CU_ASSERT(num_of_kind[0] > 0 && num_of_kind[1] > 0 && num_of_kind[2] > 0);
}

TEST(a_box_too_large_for_its_noise_is_refused)
{
    struct sluice_batch_ops ops = all_ops();
    ops.erasing = (struct sluice_erasing_params){
        .p = 1, .min_scale = 0.9, .max_scale = 0.9, .min_ratio = 1, .max_ratio = 1};
    struct sluice_train_key key;
    const struct sluice_train_batch batch = make_batch(1, 0, &key);
    struct sluice_mix_batch drawn;
    struct sluice_err err = {0};
    CHECK_OK(sluice_mix_draw(&ops, seed, &batch, (struct sluice_size){700, 700}, CLASSES, &drawn,
                             rows, &err));
    ops.fill = SLUICE_FILL_PIXEL;
    CU_ASSERT_EQUAL(sluice_mix_draw(&ops, seed, &batch, (struct sluice_size){700, 700}, CLASSES,
                                    &drawn, rows, &err),
                    SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "524288"));
}
