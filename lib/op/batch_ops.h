#ifndef SLUICE_OP_BATCH_OPS_H
#define SLUICE_OP_BATCH_OPS_H

#include "sluice/sluice.h"

#include <stdbool.h>

/* Batch ops: random erasing, then mixup or CutMix, and label smoothing.  They apply to training
 * batches after normalize.  sluice.torch.RandomErasing and Mix define them (docs/PYTHON.md);
 * op/batch_draws.h draws their numbers.
 *
 * Threads: pure functions. */

/* Mixup (Zhang et al., 2018) and CutMix (Yun et al., 2019), as timm's Mixup and torchvision's MixUp
 * and CutMix draw them. */
struct sluice_mix_params {
    double mixup_alpha, cutmix_alpha; /* 0 to 1000; 0: off */
    double p;                         /* that a batch is mixed at all */
    double cutmix_p;                  /* with both: that it is CutMix */
};

/* Random erasing (Zhong et al., 2017), as timm's RandomErasing with one box, and torchvision's. */
struct sluice_erasing_params {
    double p;
    double min_scale, max_scale; /* of the area, within (0, 1] */
    double min_ratio, max_ratio; /* height to width, 0.001 to 1000, uniform in its logarithm */
};

enum sluice_fill {
    SLUICE_FILL_VALUES,  /* of a row's channels, normalised */
    SLUICE_FILL_CHANNEL, /* a normal number for each channel */
    SLUICE_FILL_PIXEL,   /* one for each value */
};

struct sluice_batch_ops {
    struct sluice_mix_params mix;
    bool is_rolled; /* torchvision's pairs, row i with i - 1; else timm's, i with the i-th last */
    double label_smoothing; /* 0 to below 1 */
    struct sluice_erasing_params erasing;
    enum sluice_fill fill;
    float fill_values[3];
};

/* Batch ops that do nothing; the other numbers have the defaults of sluice.torch. */
struct sluice_batch_ops sluice_batch_ops_none(void);

/* Whether any batch op is on; false for {0}, too. */
bool sluice_has_batch_ops(const struct sluice_batch_ops *ops);

/* SLUICE_E_INVALID says what is out of range. */
SLUICE_MUST_USE sluice_status sluice_mix_params_check(const struct sluice_mix_params *params,
                                                      struct sluice_err *err);
SLUICE_MUST_USE sluice_status
sluice_erasing_params_check(const struct sluice_erasing_params *params, struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_batch_ops_check(const struct sluice_batch_ops *ops,
                                                     struct sluice_err *err);

/* The normal distribution's quantiles at the middles of 65,536 equal parts, in steps of 2^-20
 * (Wichura, AS241, 1988).  Erased boxes are filled with them. */
#define SLUICE_NUM_QUANTILES 65536
void sluice_normal_quantiles(float table[SLUICE_NUM_QUANTILES]);

#endif
