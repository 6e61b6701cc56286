#include "op/batch_ops.h"

#include "support/test.h"

#include <math.h>

TEST(none_does_nothing)
{
    struct sluice_batch_ops ops = sluice_batch_ops_none(), zeros = {.is_rolled = false};
    CHECK_OK(sluice_batch_ops_check(&ops, NULL));
    CU_ASSERT(!sluice_has_batch_ops(&ops) && !sluice_has_batch_ops(&zeros));
    double *const numbers[] = {&ops.mix.mixup_alpha, &ops.mix.cutmix_alpha, &ops.label_smoothing,
                               &ops.erasing.p};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(numbers); i++) {
        *numbers[i] = 0.1;
        CU_ASSERT(sluice_has_batch_ops(&ops));
        *numbers[i] = 0;
    }
}

TEST(numbers_out_of_range_are_refused)
{
    struct sluice_batch_ops ops = sluice_batch_ops_none();
    const struct {
        double *number, wrong;
    } cases[] = {
        {&ops.mix.mixup_alpha, -1},
        {&ops.mix.cutmix_alpha, 1001},
        {&ops.mix.p, 1.5},
        {&ops.mix.cutmix_p, -0.1},
        {&ops.label_smoothing, 1},
        {&ops.erasing.p, NAN},
        {&ops.erasing.min_scale, 0},
        {&ops.erasing.max_scale, 1.1},
        {&ops.erasing.max_scale, 0.01},
        {&ops.erasing.min_ratio, 0},
        {&ops.erasing.max_ratio, INFINITY},
        {&ops.erasing.max_ratio, 0.1},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        const double before = *cases[i].number;
        *cases[i].number = cases[i].wrong;
        CU_ASSERT_EQUAL(sluice_batch_ops_check(&ops, NULL), SLUICE_E_INVALID);
        *cases[i].number = before;
    }
    CHECK_OK(sluice_batch_ops_check(&ops, NULL));
}

/* The distribution function of what the table says for p is p. */
TEST(quantiles_are_those_of_the_normal_distribution)
{
    static float table[SLUICE_NUM_QUANTILES];
    sluice_normal_quantiles(table);
    for (int i = 0; i < SLUICE_NUM_QUANTILES; i++) {
        const double p = (i + 0.5) / SLUICE_NUM_QUANTILES;
        CU_ASSERT_DOUBLE_EQUAL_FATAL(erfc(-table[i] / sqrt(2)) / 2, p, 2.1e-7);
        CU_ASSERT_FATAL(table[i] * 0x1p20f == nearbyintf(table[i] * 0x1p20f));
    }
}
