#include "train/cuda/kernels_cuda.h"

#include "base/rng.h"
#include "kernels_support.h"
#include "support/test.h"
#include "train/mix.h"

#include <math.h>

/* Each kernel against a plain loop here, for both types; batch norm, biases and pools are in
 * test_kernels_norm_cuda.c and test_kernels_pool_cuda.c. */

#define FOR_TYPES(type)                                                                            \
    for (enum sluice_cuda_type type = SLUICE_CUDA_F32; type < KERNELS_NUM_TYPES; type++)

/* Sizes of flat arrays: less than a pack, a pack and a bit, many blocks. */
static const size_t counts[] = {1, 3, 8, 13, 1027, 70001};

static float table[3][256];

static void fill_table(void)
{
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++)
            table[c][v] = ((float)v / 255.0f - 0.4f - 0.05f * (float)c) / 0.22f;
    }
}

/* The same for the same salt. */
static uint8_t *make_pixels(size_t count, uint32_t salt)
{
    uint8_t *pixels = malloc(count);
    for (size_t i = 0; i < count; i++)
        pixels[i] = (uint8_t)(((uint32_t)i * 2654435761u + salt * 40503u) >> 21);
    return pixels;
}

static void *flag(uint32_t value)
{
    return kernels_to_device(&value, sizeof(value));
}

static void check_input(enum sluice_cuda_type type, size_t num_pixels, uint32_t num_c)
{
    uint8_t *pixels = make_pixels(3 * num_pixels, num_c);
    float *wanted = calloc(num_pixels * num_c, sizeof(*wanted));
    for (size_t i = 0; i < num_pixels; i++) {
        for (size_t c = 0; c < 3; c++)
            wanted[i * num_c + c] = kernels_round(type, table[c][pixels[3 * i + c]]);
    }
    void *out = kernels_tensor(type, NULL, num_pixels * num_c);
    kernels_require(sluice_cuda_input(NULL, type, kernels_to_device(pixels, 3 * num_pixels),
                                      kernels_to_device(table, sizeof(table)), out, num_pixels,
                                      num_c, flag(0)));
    kernels_require(sluice_cuda_input(NULL, type, kernels_to_device(NULL, 3 * num_pixels),
                                      kernels_to_device(table, sizeof(table)), out, num_pixels,
                                      num_c, flag(1))); /* writes nothing */
    float *got = kernels_values(type, out, num_pixels * num_c);
    kernels_check_same(got, wanted, num_pixels * num_c);
    free(pixels), free(wanted), free(got);
    kernels_end();
}

TEST(input_looks_each_channel_up_in_its_table)
{
    fill_table();
    FOR_TYPES(type)
    {
        for (uint32_t num_c = 4; num_c <= 8; num_c += 4) {
            check_input(type, 1, num_c);
            check_input(type, 7 * 5 * 3, num_c);
            check_input(type, 1500007, num_c); /* more than all threads take at once */
        }
    }
}

static void check_input_rows(enum sluice_cuda_type type, size_t num_samples, size_t num_pixels,
                             uint32_t num_c)
{
    float *rows = kernels_make(num_samples * 3 * num_pixels, num_c);
    float *wanted = calloc(num_samples * num_pixels * num_c, sizeof(*wanted));
    for (size_t i = 0; i < num_samples * num_pixels; i++) {
        for (size_t c = 0; c < 3; c++) {
            float *value = &rows[(i / num_pixels * 3 + c) * num_pixels + i % num_pixels];
            *value *= 1.00390625f; /* so that bf16 rounds */
            wanted[i * num_c + c] = kernels_round(type, *value);
        }
    }
    void *out = kernels_tensor(type, NULL, num_samples * num_pixels * num_c);
    kernels_require(sluice_cuda_input_rows(
        NULL, type, kernels_to_device(rows, num_samples * 3 * num_pixels * sizeof(*rows)), out,
        num_samples, num_pixels, num_c));
    float *got = kernels_values(type, out, num_samples * num_pixels * num_c);
    kernels_check_same(got, wanted, num_samples * num_pixels * num_c);
    free(rows), free(wanted), free(got);
    kernels_end();
}

TEST(input_rows_are_transposed_and_rounded)
{
    FOR_TYPES(type)
    {
        for (uint32_t num_c = 4; num_c <= 8; num_c += 4) {
            check_input_rows(type, 1, 1, num_c);
            check_input_rows(type, 3, 7 * 5, num_c);
            check_input_rows(type, 11, 250 * 251, num_c);
        }
    }
}

TEST(a_copy_is_made_unless_the_flag_is_set)
{
    uint32_t from[2500], old[2500];
    for (size_t i = 0; i < 2500; i++) {
        from[i] = (uint32_t)i * 2654435761u;
        old[i] = ~from[i];
    }
    for (uint32_t value = 0; value < 3; value++) {
        void *to = kernels_to_device(old, sizeof(old));
        kernels_require(sluice_cuda_copy_unless(NULL, to, kernels_to_device(from, sizeof(from)),
                                                sizeof(from) - 4, flag(value)));
        uint32_t *got = kernels_from_device(to, sizeof(old));
        CU_ASSERT_EQUAL(memcmp(got, value ? old : from, sizeof(from) - 4), 0);
        CU_ASSERT_EQUAL(got[2499], old[2499]);
        free(got);
    }
    kernels_end();
}

enum { ROWS = 7, SIZE = 20, CLASSES = 300, MIX_COUNT = ROWS * SIZE * SIZE * 3 };

struct mixed {
    uint8_t *pixels;
    float *quantiles;
    uint32_t labels[ROWS];
    struct sluice_mix_row rows[ROWS];
    struct sluice_cuda_step step, *device_step;
};

static void draw_mixed(struct mixed *m, uint64_t index)
{
    static const uint32_t draw_epochs[ROWS];
    uint64_t ids[ROWS];
    for (unsigned n = 0; n < ROWS; n++) {
        ids[n] = ((uint64_t)n << 33) + n;
        m->labels[n] = (n * 7 + 3) % CLASSES;
    }
    struct sluice_batch_ops ops = sluice_batch_ops_none();
    ops.mix.mixup_alpha = ops.mix.cutmix_alpha = 1;
    ops.mix.p = 0.8;
    ops.label_smoothing = 0.1;
    ops.erasing.p = 0.5;
    ops.fill = (enum sluice_fill)(index % 3);
    ops.is_rolled = index / 3 % 2;
    const struct sluice_train_key key = {.index = index, .ids = ids, .draw_epochs = draw_epochs};
    const struct sluice_train_batch batch = {
        .pixels = m->pixels, .labels = m->labels, .n = ROWS, .key = &key};
    struct sluice_err err = {0};
    m->step = (struct sluice_cuda_step){.step = index};
    REQUIRE_OK(sluice_mix_draw(&ops, 9, &batch, (struct sluice_size){SIZE, SIZE}, CLASSES,
                               &m->step.mix, m->rows, &err));
    m->device_step = kernels_to_device(&m->step, sizeof(m->step));
}

static void check_mixed_input(enum sluice_cuda_type type, const struct mixed *m, uint32_t num_c)
{
    static float values[MIX_COUNT], wanted[MIX_COUNT / 3 * 8];
    sluice_mix_input(&m->step.mix, m->rows, m->pixels, (const float(*)[256])table, m->quantiles,
                     values);
    memset(wanted, 0, sizeof(wanted));
    for (size_t i = 0; i < MIX_COUNT; i++)
        wanted[i / 3 * num_c + i % 3] = kernels_round(type, values[i]);
    const size_t count = (size_t)MIX_COUNT / 3 * num_c;
    void *out = kernels_tensor(type, NULL, count);
    kernels_require(sluice_cuda_mix_input(
        NULL, type, m->device_step, kernels_to_device(m->rows, sizeof(m->rows)),
        kernels_to_device(m->pixels, MIX_COUNT), kernels_to_device(table, sizeof(table)),
        kernels_to_device(m->quantiles, SLUICE_NUM_QUANTILES * sizeof(float)), out, ROWS, num_c,
        flag(0)));
    kernels_require(sluice_cuda_mix_input(
        NULL, type, m->device_step, kernels_to_device(m->rows, sizeof(m->rows)),
        kernels_to_device(NULL, MIX_COUNT), kernels_to_device(table, sizeof(table)),
        kernels_to_device(m->quantiles, SLUICE_NUM_QUANTILES * sizeof(float)), out, ROWS, num_c,
        flag(1))); /* writes nothing */
    float *got = kernels_values(type, out, count);
    kernels_check_same(got, wanted, count);
    free(got);
}

static void check_mixed_loss(enum sluice_cuda_type type, const struct mixed *m, const float *logits)
{
    static float diff[ROWS * CLASSES];
    static double wanted[ROWS * CLASSES];
    static const struct sluice_cuda_sums zero;
    const uint32_t good = 0;
    const size_t count = (size_t)ROWS * CLASSES;
    struct sluice_cuda_sums *sums = kernels_to_device(&zero, sizeof(zero));
    void *diff_out = kernels_tensor(type, NULL, count);
    kernels_require(sluice_cuda_mix_loss(
        NULL, type, m->device_step, kernels_to_device(logits, count * sizeof(float)),
        kernels_to_device(m->labels, sizeof(m->labels)), ROWS, CLASSES, diff_out,
        kernels_to_device(NULL, ROWS * sizeof(zero)), sums, kernels_to_device(&good, 4)));
    struct sluice_train_totals totals = {0};
    for (uint32_t n = 0; n < ROWS; n++)
        sluice_mix_loss(&m->step.mix, n, m->labels, logits + (size_t)n * CLASSES, CLASSES,
                        1.0 / ROWS, diff + (size_t)n * CLASSES, &totals);
    for (size_t i = 0; i < count; i++)
        wanted[i] = diff[i];
    struct sluice_cuda_sums *got_sums = kernels_from_device(sums, sizeof(zero));
    CU_ASSERT_DOUBLE_EQUAL(got_sums->loss, totals.loss_sum, 1e-9);
    CU_ASSERT_EQUAL(got_sums->top1, totals.top1);
    CU_ASSERT_EQUAL(got_sums->top5, totals.top5);
    float *got = kernels_values(type, diff_out, count);
    kernels_check(type, got, wanted, count, 1e-7);
    free(got_sums), free(got);
}

/* Every kind and fill of a mixed batch, from its draws on. */
TEST(mixed_batches_are_those_of_the_host)
{
    unsigned num_of_kind[3] = {0};
    struct mixed m = {.pixels = make_pixels(MIX_COUNT, 5),
                      .quantiles = malloc(SLUICE_NUM_QUANTILES * sizeof(float))};
    sluice_normal_quantiles(m.quantiles);
    fill_table();
    float *logits = kernels_make((size_t)ROWS * CLASSES, 31);
    FOR_TYPES(type)
    {
        for (uint64_t index = 0; index < 24; index++) {
            draw_mixed(&m, index);
            num_of_kind[m.step.mix.kind]++;
            check_mixed_input(type, &m, index % 2 ? 4 : 8);
            check_mixed_loss(type, &m, logits);
            kernels_end();
        }
    }
    free(m.pixels), free(m.quantiles), free(logits);
    CU_ASSERT(num_of_kind[0] > 0 && num_of_kind[1] > 0 && num_of_kind[2] > 0);
}

static void check_relu(enum sluice_cuda_type type, size_t count)
{
    float *values = kernels_make(count, 3), *diffs = kernels_make(count, 4);
    float *wanted = malloc(count * sizeof(float)), *wanted_diffs = malloc(count * sizeof(float));
    values[count / 2] = NAN;
    for (size_t i = 0; i < count; i++) {
        wanted[i] = values[i] < 0 ? 0 : values[i];
        wanted_diffs[i] = wanted[i] <= 0 ? 0 : diffs[i];
    }
    void *device = kernels_tensor(type, values, count);
    void *device_diffs = kernels_tensor(type, diffs, count);
    kernels_require(sluice_cuda_relu(NULL, type, device, count));
    kernels_require(sluice_cuda_relu_backward(NULL, type, device_diffs, device, count));
    float *got = kernels_values(type, device, count);
    float *got_diffs = kernels_values(type, device_diffs, count);
    kernels_check_same(got, wanted, count);
    kernels_check_same(got_diffs, wanted_diffs, count);
    free(values), free(diffs), free(wanted), free(wanted_diffs), free(got), free(got_diffs);
    kernels_end();
}

TEST(relu_passes_gradients_where_its_output_is_positive)
{
    FOR_TYPES(type)
    {
        for (size_t i = 0; i < SLUICE_ARRAY_LEN(counts); i++)
            check_relu(type, counts[i]);
    }
}

TEST(add_rounds_the_sum)
{
    FOR_TYPES(type)
    {
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(counts); k++) {
            const size_t count = counts[k];
            float *to = kernels_make_scaled(type, count, 5, 0.37, 0);
            float *from = kernels_make_scaled(type, count, 6, 1.3, 0.1);
            float *wanted = malloc(count * sizeof(*wanted));
            for (size_t i = 0; i < count; i++)
                wanted[i] = kernels_round(type, to[i] + from[i]);
            void *device = kernels_tensor(type, to, count);
            kernels_require(
                sluice_cuda_add(NULL, type, device, kernels_tensor(type, from, count), count));
            float *got = kernels_values(type, device, count);
            kernels_check_same(got, wanted, count);
            free(to), free(from), free(wanted), free(got);
            kernels_end();
        }
    }
}

/* As sluice_net_dropout_mask() has it: word k of block i / 4 decides value i. */
static float dropout_mask(uint64_t seed, uint64_t step, uint32_t layer, double p, size_t i)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)(i / 4), (uint32_t)step, (uint32_t)(step >> 32),
                                 0x44000000u | layer};
    uint32_t words[4];
    sluice_philox4x32_10(key, counter, words);
    return words[i % 4] < (uint32_t)(p * 0x1p32) ? 0.0f : (float)(1 / (1 - p));
}

TEST(dropout_drops_what_the_net_says)
{
    const uint64_t seed = 0x123456789abcdef0u;
    const struct sluice_cuda_step step = {.step = (1ull << 32) + 5};
    FOR_TYPES(type)
    {
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(counts); k++) {
            const size_t count = counts[k];
            float *values = kernels_make_scaled(type, count, 7, 1, 0.3);
            float *wanted = malloc(count * sizeof(*wanted));
            for (size_t i = 0; i < count; i++)
                wanted[i] =
                    kernels_round(type, values[i] * dropout_mask(seed, step.step, 14, 0.3, i));
            void *device = kernels_tensor(type, values, count);
            kernels_require(sluice_cuda_dropout(NULL, type, device, count, seed,
                                                kernels_to_device(&step, sizeof(step)), 14, 0.3));
            float *got = kernels_values(type, device, count);
            kernels_check_same(got, wanted, count);
            free(values), free(wanted), free(got);
            kernels_end();
        }
    }
}

TEST(conversions_round_to_nearest_even)
{
    /* Ties, the largest numbers, denormals, infinities. */
    static const float special[] = {1.00390625f, 1.01171875f, -1.00390625f, 3.4028235e38f,
                                    1e-40f,      -0.0f,       INFINITY,     -INFINITY,
                                    NAN,         0x1p-133f,   0x1.8p-134f};
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(counts); k++) {
        const size_t count = counts[k];
        float *values = kernels_make_scaled(SLUICE_CUDA_F32, count, 8, 0.37, 0.123);
        for (size_t i = 0; i < count && i < SLUICE_ARRAY_LEN(special); i++)
            values[count - 1 - i] = special[i];
        float *wanted = malloc(count * sizeof(*wanted));
        for (size_t i = 0; i < count; i++)
            wanted[i] = kernels_round(SLUICE_CUDA_BF16, values[i]);
        void *rounded = kernels_tensor(SLUICE_CUDA_BF16, NULL, count);
        float *back = kernels_to_device(NULL, count * sizeof(float));
        kernels_require(sluice_cuda_from_float(
            NULL, kernels_to_device(values, count * sizeof(float)), rounded, count));
        kernels_require(sluice_cuda_to_float(NULL, rounded, back, count));
        float *got = kernels_values(SLUICE_CUDA_BF16, rounded, count);
        float *got_back = kernels_from_device(back, count * sizeof(float));
        kernels_check_same(got, wanted, count);
        kernels_check_same(got_back, wanted, count);
        free(values), free(wanted), free(got), free(got_back);
        kernels_end();
    }
}

static uint32_t flag_after(enum sluice_cuda_type type, const float *values, size_t count,
                           uint32_t before)
{
    uint32_t *flag = kernels_to_device(&before, sizeof(before));
    kernels_require(
        sluice_cuda_flag_nonfinite(NULL, type, kernels_tensor(type, values, count), count, flag));
    uint32_t *got = kernels_from_device(flag, sizeof(*flag));
    const uint32_t after = *got;
    free(got);
    kernels_end();
    return after;
}

TEST(flag_is_set_by_one_value_that_is_not_finite)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    FOR_TYPES(type)
    {
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(counts); k++) {
            const size_t count = counts[k], places[] = {0, count / 2, count - 1};
            float *values = kernels_make(count, 9);
            CU_ASSERT_EQUAL(flag_after(type, values, count, 0), 0);
            CU_ASSERT_EQUAL(flag_after(type, values, count, 1), 1);
            for (size_t i = 0; i < SLUICE_ARRAY_LEN(places); i++) {
                const float before = values[places[i]];
                values[places[i]] = bad[i];
                CU_ASSERT_EQUAL(flag_after(type, values, count, 0), 1);
                values[places[i]] = before;
            }
            free(values);
        }
    }
}

/* The sums begin with these: it adds. */
static const struct sluice_cuda_sums sums_before = {100, 10, 20};

static void check_loss(enum sluice_cuda_type type, size_t n, uint32_t num_classes)
{
    const uint32_t good = 0;
    const size_t count = n * num_classes;
    float *logits = kernels_make(count, 11); /* with ties */
    uint32_t *labels = malloc(n * sizeof(*labels));
    struct sluice_cuda_sums wanted = sums_before;
    double *wanted_diff = malloc(count * sizeof(*wanted_diff));
    for (size_t s = 0; s < n; s++) {
        const float *own = logits + s * num_classes;
        labels[s] = (uint32_t)(s * 7 + 3) % num_classes;
        unsigned rank = 0;
        double sum = 0;
        for (uint32_t c = 0; c < num_classes; c++) {
            sum += exp((double)own[c]);
            rank += own[c] > own[labels[s]] || (own[c] == own[labels[s]] && c < labels[s]);
        }
        wanted.loss += log(sum) - own[labels[s]];
        wanted.top1 += rank < 1;
        wanted.top5 += rank < 5;
        for (uint32_t c = 0; c < num_classes; c++)
            wanted_diff[s * num_classes + c] =
                (exp((double)own[c]) / sum - (c == labels[s])) / (double)n;
    }
    void *diff = kernels_tensor(type, NULL, count);
    struct sluice_cuda_sums *sums = kernels_to_device(&sums_before, sizeof(sums_before));
    uint32_t *is_bad = kernels_to_device(&good, sizeof(good));
    kernels_require(sluice_cuda_loss(NULL, type, kernels_to_device(logits, count * sizeof(float)),
                                     kernels_to_device(labels, n * sizeof(*labels)), n, num_classes,
                                     diff, kernels_to_device(NULL, n * sizeof(*sums)), sums,
                                     is_bad));
    struct sluice_cuda_sums *got = kernels_from_device(sums, sizeof(*sums));
    uint32_t *got_bad = kernels_from_device(is_bad, sizeof(*is_bad));
    float *got_diff = kernels_values(type, diff, count);
    CU_ASSERT_DOUBLE_EQUAL(got->loss, wanted.loss, 1e-9 * (double)n);
    CU_ASSERT_EQUAL(got->top1, wanted.top1);
    CU_ASSERT_EQUAL(got->top5, wanted.top5);
    CU_ASSERT_EQUAL(*got_bad, 0);
    kernels_check(type, got_diff, wanted_diff, count, 1e-7 / (double)n);
    free(logits), free(labels), free(wanted_diff), free(got), free(got_bad), free(got_diff);
    kernels_end();
}

TEST(loss_is_cross_entropy_and_counts_hits)
{
    FOR_TYPES(type)
    {
        check_loss(type, 5, 10);
        check_loss(type, 300, 7);
        check_loss(type, 3, 1000);
        check_loss(type, 1, 1);
    }
}

/* The sums of one sample with these three logits and label 1, without a gradient. */
static struct sluice_cuda_sums loss_of(const float *logits, uint32_t *is_bad)
{
    const uint32_t label = 1, zero = 0;
    struct sluice_cuda_sums *sums = kernels_to_device(&(struct sluice_cuda_sums){0}, sizeof(*sums));
    uint32_t *device_bad = kernels_to_device(&zero, sizeof(zero));
    kernels_require(sluice_cuda_loss(NULL, SLUICE_CUDA_BF16,
                                     kernels_to_device(logits, 3 * sizeof(float)),
                                     kernels_to_device(&label, sizeof(label)), 1, 3, NULL,
                                     kernels_to_device(NULL, sizeof(*sums)), sums, device_bad));
    struct sluice_cuda_sums *got = kernels_from_device(sums, sizeof(*sums));
    uint32_t *got_bad = kernels_from_device(device_bad, sizeof(*got_bad));
    const struct sluice_cuda_sums result = *got;
    *is_bad = *got_bad;
    free(got), free(got_bad);
    kernels_end();
    return result;
}

/* exp() of these overflows unless the maximum is taken off first. */
TEST(loss_of_large_logits_is_finite)
{
    const float large[3] = {1000, 999, -1000}, infinite[3] = {1, 2, -INFINITY};
    uint32_t is_bad;
    struct sluice_cuda_sums got = loss_of(large, &is_bad);
    CU_ASSERT_DOUBLE_EQUAL(got.loss, 1 + log1p(exp(-1)), 1e-12);
    CU_ASSERT(got.top1 == 0 && got.top5 == 1 && is_bad == 0);
    got = loss_of(infinite, &is_bad);
    CU_ASSERT_DOUBLE_EQUAL(got.loss, log1p(exp(-1)), 1e-12);
    CU_ASSERT_EQUAL(is_bad, 0);
}

TEST(loss_that_is_not_finite_is_flagged)
{
    const float bad[][3] = {{1, NAN, 2}, {NAN, 1, 2}, {1, 2, INFINITY}, {1, -INFINITY, 2}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(bad); i++) {
        uint32_t is_bad;
        const struct sluice_cuda_sums got = loss_of(bad[i], &is_bad);
        CU_ASSERT(!isfinite(got.loss));
        CU_ASSERT_EQUAL(is_bad, 1);
    }
}

static const float momentum = 0.9f, weight_decay = 3e-4f;

static void sgd_on_host(float *w, float *m, const float *g, size_t count, float lr)
{
    for (size_t i = 0; i < count; i++) {
        m[i] = momentum * m[i] + (g[i] + weight_decay * w[i]);
        w[i] -= lr * m[i];
    }
}

static void check_sgd(size_t count, bool has_copies, uint32_t is_bad)
{
    const struct sluice_cuda_step step = {.lr = 0.013f};
    const size_t bytes = count * sizeof(float);
    float *w = kernels_make_scaled(SLUICE_CUDA_F32, count, 12, 0.1, 0);
    float *m = kernels_make_scaled(SLUICE_CUDA_F32, count, 13, 0.3, 0);
    float *g = kernels_make_scaled(SLUICE_CUDA_F32, count, 14, 0.7, 0);
    float *copies = malloc(bytes);
    void *device_w = kernels_to_device(w, bytes), *device_m = kernels_to_device(m, bytes);
    void *device_copies = kernels_tensor(SLUICE_CUDA_BF16, NULL, count);
    kernels_require(sluice_cuda_sgd(NULL, device_w, device_m, kernels_to_device(g, bytes),
                                    has_copies ? device_copies : NULL, count,
                                    kernels_to_device(&step, sizeof(step)), momentum, weight_decay,
                                    kernels_to_device(&is_bad, sizeof(is_bad))));
    float *got_w = kernels_from_device(device_w, bytes);
    float *got_m = kernels_from_device(device_m, bytes);
    float *got_copies = kernels_values(SLUICE_CUDA_BF16, device_copies, count);
    if (!is_bad)
        sgd_on_host(w, m, g, count, step.lr);
    for (size_t i = 0; i < count; i++)
        copies[i] = has_copies && !is_bad ? kernels_round(SLUICE_CUDA_BF16, w[i]) : NAN;
    kernels_check_same(got_w, w, count);
    kernels_check_same(got_m, m, count);
    kernels_check_same(got_copies, copies, count);
    free(w), free(m), free(g), free(copies), free(got_w), free(got_m), free(got_copies);
    kernels_end();
}

TEST(sgd_rounds_as_the_cpu_does)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(counts); i++) {
        check_sgd(counts[i], false, 0);
        check_sgd(counts[i], true, 0);
    }
}

TEST(sgd_does_nothing_after_a_bad_loss)
{
    check_sgd(5003, true, 1);
}

/* A graph that was captured once takes number, learning rate and flag from device memory. */
TEST(replayed_graphs_take_the_next_step)
{
    enum { COUNT = 1003 };
    const uint32_t good = 0;
    float *w = kernels_make(COUNT, 41), *m = kernels_make(COUNT, 42), *g = kernels_make(COUNT, 43);
    float *values = kernels_make(COUNT, 44);
    void *device_w = kernels_to_device(w, COUNT * 4), *device_m = kernels_to_device(m, COUNT * 4);
    void *device_values = kernels_to_device(values, COUNT * 4);
    void *device_g = kernels_to_device(g, COUNT * 4), *is_bad = kernels_to_device(&good, 4);
    struct sluice_cuda_step *step = kernels_to_device(NULL, sizeof(*step));
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    kernels_require(cudaStreamCreate(&stream));
    kernels_require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    kernels_require(
        sluice_cuda_dropout(stream, SLUICE_CUDA_F32, device_values, COUNT, 77, step, 3, 0.5));
    kernels_require(sluice_cuda_sgd(stream, device_w, device_m, device_g, NULL, COUNT, step,
                                    momentum, weight_decay, is_bad));
    kernels_require(cudaStreamEndCapture(stream, &graph));
    kernels_require(cudaGraphInstantiate(&exec, graph, 0));
    for (uint64_t i = 0; i < 3; i++) {
        const struct sluice_cuda_step now = {.step = i, .lr = 0.01f * (float)(i + 1)};
        kernels_require(cudaMemcpyAsync(step, &now, sizeof(now), cudaMemcpyHostToDevice, stream));
        kernels_require(cudaGraphLaunch(exec, stream));
        kernels_require(cudaStreamSynchronize(stream));
        sgd_on_host(w, m, g, COUNT, now.lr);
        for (size_t k = 0; k < COUNT; k++)
            values[k] *= dropout_mask(77, i, 3, 0.5, k);
    }
    float *got_w = kernels_from_device(device_w, COUNT * 4);
    float *got_values = kernels_from_device(device_values, COUNT * 4);
    kernels_check_same(got_w, w, COUNT);
    kernels_check_same(got_values, values, COUNT);
    free(w), free(m), free(g), free(values), free(got_w), free(got_values);
    cudaGraphExecDestroy(exec), cudaGraphDestroy(graph), cudaStreamDestroy(stream);
    kernels_end();
}

int main(void)
{
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error || count < 1)
        sluice_test_skip(cudaGetErrorString(error ? error : cudaErrorNoDevice));
    return sluice_test_main();
}
