#include "train/mix.h"

#include "op/batch_draws.h"

#include <math.h>

_Static_assert(SLUICE_FILL_VALUES == 0 && SLUICE_FILL_CHANNEL == 1, "as mix_kernel.h has them");

static sluice_status draw_rows(const struct sluice_batch_ops *ops, uint64_t seed,
                               const struct sluice_train_batch *batch, struct sluice_size size,
                               struct sluice_mix_row *rows, struct sluice_err *err)
{
    const struct sluice_train_key *key = batch->key;
    for (unsigned i = 0; i < batch->n; i++) {
        const struct sluice_draw_key of = {
            .seed = seed, .epoch = key->draw_epochs[i], .sample_id = key->ids[i]};
        struct sluice_box box = {0};
        if (!sluice_draw_erasing(&ops->erasing, &of, size, &box))
            box = (struct sluice_box){0};
        if (ops->fill == SLUICE_FILL_PIXEL &&
            (uint64_t)box.width * box.height * 3 > SLUICE_MAX_FILL)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "erasing: a box of %u x %u pixels; fill \"pixel\" has at most %u "
                               "values",
                               box.width, box.height, SLUICE_MAX_FILL);
        rows[i] = (struct sluice_mix_row){
            .top = box.top,
            .left = box.left,
            .height = box.height,
            .width = box.width,
            .sample_low = (uint32_t)of.sample_id,
            .sample_high = (uint32_t)(of.sample_id >> 32),
            .epoch = of.epoch,
        };
    }
    return SLUICE_OK;
}

sluice_status sluice_mix_draw(const struct sluice_batch_ops *ops, uint64_t seed,
                              const struct sluice_train_batch *batch, struct sluice_size size,
                              uint32_t num_classes, struct sluice_mix_batch *drawn,
                              struct sluice_mix_row *rows, struct sluice_err *err)
{
    const sluice_status status = draw_rows(ops, seed, batch, size, rows, err);
    if (status != SLUICE_OK)
        return status;
    const struct sluice_mix mix = sluice_draw_mix(&ops->mix, seed, batch->key->epoch,
                                                  batch->key->index, batch->key->rank, size);
    const double off = ops->label_smoothing / num_classes;
    *drawn = (struct sluice_mix_batch){
        .n = batch->n,
        .image_height = size.height,
        .image_width = size.width,
        .kind = mix.is_cutmix  ? SLUICE_MIX_CUTMIX
                : mix.is_mixed ? SLUICE_MIX_MIXUP
                               : SLUICE_MIX_NONE,
        .is_rolled = ops->is_rolled,
        .own = (float)mix.lambda,
        .other = (float)(1 - mix.lambda),
        .top = mix.box.top,
        .left = mix.box.left,
        .height = mix.box.height,
        .width = mix.box.width,
        .fill = ops->fill,
        .fill_values = {ops->fill_values[0], ops->fill_values[1], ops->fill_values[2]},
        .seed_low = (uint32_t)seed,
        .seed_high = (uint32_t)(seed >> 32),
        .label_on = (float)(1 - ops->label_smoothing + off),
        .label_off = (float)off,
    };
    return SLUICE_OK;
}

void sluice_mix_input(const struct sluice_mix_batch *drawn, const struct sluice_mix_row *rows,
                      const uint8_t *pixels, const float (*table)[256], const float *quantiles,
                      float *out)
{
    for (uint32_t n = 0; n < drawn->n; n++) {
        for (uint32_t y = 0; y < drawn->image_height; y++) {
            for (uint32_t x = 0; x < drawn->image_width; x++) {
                for (uint32_t c = 0; c < 3; c++)
                    *out++ = sluice_mix_value(drawn, rows, pixels, table[0], quantiles, n, y, x, c);
            }
        }
    }
}

void sluice_mix_loss(const struct sluice_mix_batch *drawn, uint32_t n, const uint32_t *labels,
                     const float *logits, uint32_t num_classes, double weight, float *diff,
                     struct sluice_train_totals *totals)
{
    const uint32_t own = labels[n], other = labels[sluice_mix_partner(drawn, n)];
    const uint32_t hit = drawn->own >= drawn->other ? own : other;
    double max = logits[0];
    unsigned rank = 0;
    for (uint32_t c = 0; c < num_classes; c++) {
        max = fmax(max, logits[c]);
        rank += logits[c] > logits[hit] || (logits[c] == logits[hit] && c < hit);
    }
    double sum = 0, target_sum = 0, products = 0;
    for (uint32_t c = 0; c < num_classes; c++) {
        const double target = sluice_mix_target(drawn, own, other, c);
        sum += exp(logits[c] - max);
        target_sum += target;
        products += target * logits[c];
    }
    totals->loss_sum += target_sum * (log(sum) + max) - products;
    totals->top1 += rank < 1;
    totals->top5 += rank < 5;
    for (uint32_t c = 0; c < num_classes; c++) {
        const double target = sluice_mix_target(drawn, own, other, c);
        diff[c] = (float)((exp(logits[c] - max) / sum * target_sum - target) * weight);
    }
}
