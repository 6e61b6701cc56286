#include "train/cpu/plain.h"

#include "support/test.h"

#include <math.h>

enum { C = 3, IN_H = 7, IN_W = 5, OUT_H = 3, OUT_W = 2 };

static const struct sluice_layer pool = {
    .kind = SLUICE_LAYER_AVGPOOL, .in = {C, IN_H, IN_W}, .out = {C, OUT_H, OUT_W}};

static void fill(float *values, size_t count, uint32_t factor)
{
    for (uint32_t i = 0; i < count; i++)
        values[i] = (float)(i * factor % 101) / 16 - 3;
}

/* torch's bins: of output o the inputs [floor(o * in / out), ceil((o + 1) * in / out)). */
static bool covers(int o, int i, int num_in, int num_out)
{
    return i >= o * num_in / num_out && (double)i < ceil((o + 1) * (double)num_in / num_out);
}

TEST(pools_over_bins_that_overlap)
{
    float in[C * IN_H * IN_W], out[C * OUT_H * OUT_W];
    fill(in, SLUICE_ARRAY_LEN(in), 37);
    sluice_plain_avgpool(&pool, in, out);
    for (int o = 0; o < C * OUT_H * OUT_W; o++) {
        const int c = o / (OUT_H * OUT_W), y = o / OUT_W % OUT_H, x = o % OUT_W;
        double sum = 0, count = 0;
        for (int i = 0; i < IN_H * IN_W; i++) {
            if (covers(y, i / IN_W, IN_H, OUT_H) && covers(x, i % IN_W, IN_W, OUT_W)) {
                sum += in[i * C + c];
                count++;
            }
        }
        CU_ASSERT_DOUBLE_EQUAL(out[o], sum / count, 1e-6);
    }
}

/* <pool(a), b> = <a, pool_backward(b)>. */
TEST(backward_is_the_adjoint_of_forward)
{
    float a[C * IN_H * IN_W], b[C * OUT_H * OUT_W], pooled[C * OUT_H * OUT_W];
    float back[C * IN_H * IN_W];
    fill(a, SLUICE_ARRAY_LEN(a), 29);
    fill(b, SLUICE_ARRAY_LEN(b), 53);
    fill(back, SLUICE_ARRAY_LEN(back), 11); /* it is overwritten */
    sluice_plain_avgpool(&pool, a, pooled);
    sluice_plain_avgpool_backward(&pool, b, back);
    double forward = 0, backward = 0;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(b); i++)
        forward += (double)pooled[i] * b[i];
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(a); i++)
        backward += (double)a[i] * back[i];
    CU_ASSERT_DOUBLE_EQUAL(forward, backward, 1e-3);
}

TEST(evaluates_batchnorm_by_running_statistics)
{
    const float weight[2] = {2, 0.5f}, bias[2] = {1, -1}, mean[2] = {3, -2}, var[2] = {4, 0};
    const float in[4] = {5, 1, 3, -2};
    float scale[2], shift[2], out[4];
    sluice_plain_fold_batchnorm(weight, bias, mean, var, 2, scale, shift);
    sluice_plain_affine(in, scale, shift, 2, 2, out);
    for (int i = 0; i < 4; i++) {
        const int c = i % 2;
        const double want = (in[i] - mean[c]) / sqrt(var[c] + 1e-5) * weight[c] + bias[c];
        CU_ASSERT_DOUBLE_EQUAL(out[i], want, 1e-3);
    }
}

TEST(keeps_the_unbiased_variance)
{
    const float mean = 10, variance = 6;
    float running_mean = 0, running_var = 1;
    sluice_plain_update_running(&mean, &variance, 4, 1, &running_mean, &running_var);
    CU_ASSERT_DOUBLE_EQUAL(running_mean, 1, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(running_var, 0.9 + 0.1 * 8, 1e-6);
    const float none = 0;
    sluice_plain_update_running(&mean, &none, 1, 1, &running_mean, &running_var);
    CU_ASSERT_DOUBLE_EQUAL(running_var, 0.9 * 1.7, 1e-6);
}

TEST(counts_ties_for_the_lower_class)
{
    const float logits[6] = {1, 2, 2, 2, 2, 2};
    struct sluice_train_totals totals = {0};
    sluice_plain_loss(logits, 6, 1, 1, NULL, &totals);
    CU_ASSERT_EQUAL(totals.top1, 1);
    sluice_plain_loss(logits, 6, 2, 1, NULL, &totals);
    CU_ASSERT_EQUAL(totals.top1, 1);
    CU_ASSERT_EQUAL(totals.top5, 2);
    sluice_plain_loss(logits, 6, 0, 1, NULL, &totals);
    CU_ASSERT_EQUAL(totals.top5, 2);
}

/* Central differences. */
TEST(gives_the_gradient_of_the_loss)
{
    float logits[4] = {0.5f, -1, 2, 0.25f}, diff[4];
    struct sluice_train_totals totals = {0};
    sluice_plain_loss(logits, 4, 2, 0.5, diff, &totals);
    for (int c = 0; c < 4; c++) {
        struct sluice_train_totals above = {0}, below = {0};
        logits[c] += 0x1p-8f;
        sluice_plain_loss(logits, 4, 2, 0, NULL, &above);
        logits[c] -= 0x1p-7f;
        sluice_plain_loss(logits, 4, 2, 0, NULL, &below);
        logits[c] += 0x1p-8f;
        CU_ASSERT_DOUBLE_EQUAL(diff[c], 0.5 * (above.loss_sum - below.loss_sum) * 0x1p7, 1e-4);
    }
}
