#include "train/cpu/plain.h"

#include <math.h>
#include <string.h>

#define BATCHNORM_MOMENTUM 0.1

void sluice_plain_input(const float (*table)[256], const uint8_t *pixels, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += 3) {
        out[i] = table[0][pixels[i]];
        out[i + 1] = table[1][pixels[i + 1]];
        out[i + 2] = table[2][pixels[i + 2]];
    }
}

/* The input rows of output row i, as torch's adaptive pooling has them; they may overlap. */
static void bin(uint32_t i, uint32_t in, uint32_t out, uint32_t *start, uint32_t *end)
{
    *start = (uint32_t)((uint64_t)i * in / out);
    *end = (uint32_t)(((uint64_t)(i + 1) * in + out - 1) / out);
}

void sluice_plain_avgpool(const struct sluice_layer *layer, const float *in, float *out)
{
    const uint32_t num_c = layer->in.c;
    for (uint32_t y = 0; y < layer->out.h; y++) {
        uint32_t y0, y1;
        bin(y, layer->in.h, layer->out.h, &y0, &y1);
        for (uint32_t x = 0; x < layer->out.w; x++) {
            uint32_t x0, x1;
            bin(x, layer->in.w, layer->out.w, &x0, &x1);
            const float scale = 1.0f / (float)((y1 - y0) * (x1 - x0));
            for (uint32_t c = 0; c < num_c; c++) {
                float sum = 0;
                for (uint32_t j = y0; j < y1; j++) {
                    for (uint32_t i = x0; i < x1; i++)
                        sum += in[((size_t)j * layer->in.w + i) * num_c + c];
                }
                out[((size_t)c * layer->out.h + y) * layer->out.w + x] = sum * scale;
            }
        }
    }
}

void sluice_plain_avgpool_backward(const struct sluice_layer *layer, const float *diff_out,
                                   float *diff_in)
{
    const uint32_t num_c = layer->in.c;
    memset(diff_in, 0, sluice_shape_elements(layer->in) * sizeof(float));
    for (uint32_t y = 0; y < layer->out.h; y++) {
        uint32_t y0, y1;
        bin(y, layer->in.h, layer->out.h, &y0, &y1);
        for (uint32_t x = 0; x < layer->out.w; x++) {
            uint32_t x0, x1;
            bin(x, layer->in.w, layer->out.w, &x0, &x1);
            const float scale = 1.0f / (float)((y1 - y0) * (x1 - x0));
            for (uint32_t j = y0; j < y1; j++) {
                for (uint32_t i = x0; i < x1; i++) {
                    for (uint32_t c = 0; c < num_c; c++)
                        diff_in[((size_t)j * layer->in.w + i) * num_c + c] +=
                            diff_out[((size_t)c * layer->out.h + y) * layer->out.w + x] * scale;
                }
            }
        }
    }
}

void sluice_plain_multiply(float *values, const float *by, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] *= by[i];
}

void sluice_plain_add(float *values, const float *by, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] += by[i];
}

void sluice_plain_affine(const float *in, const float *scale, const float *shift, size_t num_pixels,
                         uint32_t num_c, float *out)
{
    for (size_t pixel = 0; pixel < num_pixels; pixel++, in += num_c, out += num_c) {
        for (uint32_t c = 0; c < num_c; c++)
            out[c] = in[c] * scale[c] + shift[c];
    }
}

void sluice_plain_fold_batchnorm(const float *weight, const float *bias, const float *running_mean,
                                 const float *running_var, uint32_t num_c, float *scale,
                                 float *shift)
{
    for (uint32_t c = 0; c < num_c; c++) {
        const double factor =
            weight[c] / sqrt((double)running_var[c] + (double)SLUICE_PLAIN_EPSILON);
        scale[c] = (float)factor;
        shift[c] = (float)(bias[c] - running_mean[c] * factor);
    }
}

void sluice_plain_update_running(const float *mean, const float *variance, size_t num_pixels,
                                 uint32_t num_c, float *running_mean, float *running_var)
{
    const double unbias = num_pixels > 1 ? (double)num_pixels / (double)(num_pixels - 1) : 1;
    for (uint32_t c = 0; c < num_c; c++) {
        running_mean[c] =
            (float)((1 - BATCHNORM_MOMENTUM) * running_mean[c] + BATCHNORM_MOMENTUM * mean[c]);
        running_var[c] = (float)((1 - BATCHNORM_MOMENTUM) * running_var[c] +
                                 BATCHNORM_MOMENTUM * unbias * variance[c]);
    }
}

void sluice_plain_loss(const float *logits, uint32_t num_classes, uint32_t label, double weight,
                       float *diff, struct sluice_train_totals *totals)
{
    double max = logits[0];
    unsigned rank = 0;
    for (uint32_t c = 0; c < num_classes; c++) {
        max = fmax(max, logits[c]);
        rank += logits[c] > logits[label] || (logits[c] == logits[label] && c < label);
    }
    double sum = 0;
    for (uint32_t c = 0; c < num_classes; c++)
        sum += exp(logits[c] - max);
    totals->loss_sum += log(sum) + max - logits[label];
    totals->top1 += rank < 1;
    totals->top5 += rank < 5;
    for (uint32_t c = 0; diff && c < num_classes; c++)
        diff[c] = (float)((exp(logits[c] - max) / sum - (c == label)) * weight);
}

void sluice_plain_descend(float *values, float *momenta, const float *grads, size_t count, float lr,
                          float momentum, float weight_decay)
{
    float *restrict w = values;
    float *restrict m = momenta;
    const float *restrict g = grads;
    for (size_t i = 0; i < count; i++) {
        m[i] = momentum * m[i] + (g[i] + weight_decay * w[i]);
        w[i] -= lr * m[i];
    }
}
