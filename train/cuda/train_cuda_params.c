#include "train/cuda/train_cuda_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Parameters lie one behind the other, so that one kernel takes the step of all:
 *
 *     | filters of convolutions | other trained ones | running statistics |
 *     values, momenta and grads in float32; copies16: all values in bf16, if layers read bf16
 *
 * cuDNN writes filters' gradients in the activations' type only; in bf16 they go to filter_grads,
 * and one kernel converts them. */

/* Elements between the starts of parameters: 16 bytes in bf16, and more. */
#define OFFSET_ALIGNMENT 64

/* Input channels of a filter in memory. */
static uint32_t stored_channels(const struct cuda_trainer *cuda, const struct sluice_param *info)
{
    return info->dims[1] == 3 ? cuda_input_channels(cuda) : info->dims[1];
}

size_t cuda_stored_count(const struct cuda_trainer *cuda, unsigned param)
{
    const struct sluice_param *info = &cuda->base.net.params[param];
    if (info->num_dims != 4)
        return info->count;
    return info->count / info->dims[1] * stored_channels(cuda, info);
}

float *cuda_array(const struct cuda_trainer *cuda, enum sluice_array array, int param)
{
    float *const arrays[] = {
        [SLUICE_ARRAY_VALUE] = cuda->values,
        [SLUICE_ARRAY_MOMENTUM] = cuda->momenta,
        [SLUICE_ARRAY_GRAD] = cuda->grads,
    };
    return arrays[array] + cuda->offsets[param];
}

void *cuda_weight(const struct cuda_trainer *cuda, int param)
{
    if (cuda->copies16)
        return cuda->copies16 + cuda->offsets16[param];
    return cuda->values + cuda->offsets[param];
}

/* Places the parameters of one of the three groups. */
static void place_group(struct cuda_trainer *cuda, int group, size_t *count)
{
    const struct sluice_net *net = &cuda->base.net;
    for (unsigned i = 0; i < net->num_params; i++) {
        const struct sluice_param *info = &net->params[i];
        const int of = !info->is_trained ? 2 : info->num_dims == 4 ? 0 : 1;
        if (of != group)
            continue;
        cuda->offsets[i] = *count;
        const size_t stored = cuda_stored_count(cuda, i);
        *count += (stored + OFFSET_ALIGNMENT - 1) / OFFSET_ALIGNMENT * OFFSET_ALIGNMENT;
    }
}

static sluice_status make_statistics(struct cuda_trainer *cuda, struct sluice_err *err)
{
    const struct sluice_net *net = &cuda->base.net;
    sluice_status status = SLUICE_OK;
    size_t largest_c = net->num_classes;
    for (unsigned i = 0; !status && i < net->num_layers; i++) {
        const struct sluice_layer *layer = &net->layers[i];
        if (layer->out.c > largest_c)
            largest_c = layer->out.c;
        if (layer->kind != SLUICE_LAYER_BATCHNORM)
            continue;
        status = cuda_alloc(cuda, layer->in.c * sizeof(float), &cuda->means[i], err);
        if (!status)
            status =
                cuda_alloc(cuda, layer->in.c * sizeof(float), &cuda->inverse_deviations[i], err);
    }
    return status ? status : cuda_alloc(cuda, sluice_cuda_scratch(largest_c), &cuda->scratch, err);
}

static sluice_status init_values(struct cuda_trainer *cuda, struct sluice_err *err)
{
    const struct sluice_net *net = &cuda->base.net;
    size_t largest = 1;
    for (unsigned i = 0; i < net->num_params; i++) {
        if (net->params[i].count > largest)
            largest = net->params[i].count;
    }
    float *initial = malloc(largest * sizeof(*initial));
    if (!initial)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the initial weights");
    sluice_status status = SLUICE_OK;
    for (unsigned i = 0; !status && i < net->num_params; i++) {
        sluice_net_init_param(net, i, cuda->base.options.seed, initial);
        status = cuda_write(&cuda->base, SLUICE_ARRAY_VALUE, i, initial, err);
    }
    free(initial);
    return status;
}

sluice_status cuda_make_params(struct cuda_trainer *cuda, struct sluice_err *err)
{
    const struct sluice_net *net = &cuda->base.net;
    cuda->offsets = calloc(net->num_params, sizeof(*cuda->offsets));
    cuda->means = calloc(net->num_layers, sizeof(*cuda->means));
    cuda->inverse_deviations = calloc(net->num_layers, sizeof(*cuda->inverse_deviations));
    if (!cuda->offsets || !cuda->means || !cuda->inverse_deviations)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a trainer");
    cuda->offsets16 = cuda->offsets;
    place_group(cuda, 0, &cuda->total_count);
    cuda->filter_count = cuda->total_count;
    place_group(cuda, 1, &cuda->total_count);
    cuda->trained_count = cuda->total_count;
    place_group(cuda, 2, &cuda->total_count);

    const size_t trained_bytes = cuda->trained_count * sizeof(float);
    sluice_status status = cuda_alloc(cuda, cuda->total_count * sizeof(float), &cuda->values, err);
    if (!status)
        status = cuda_alloc(cuda, trained_bytes, &cuda->momenta, err);
    if (!status)
        status = cuda_alloc(cuda, trained_bytes, &cuda->grads, err);
    if (!status && cuda->type == SLUICE_CUDA_BF16)
        status = cuda_alloc(cuda, cuda->total_count * sizeof(uint16_t), &cuda->copies16, err);
    if (!status && cuda->type == SLUICE_CUDA_BF16)
        status = cuda_alloc(cuda, cuda->filter_count * sizeof(uint16_t), &cuda->filter_grads, err);
    if (!status)
        status = make_statistics(cuda, err);
    return status ? status : init_values(cuda, err);
}

/* O x I x H x W and O x H x W x C, whose channels from I on are 0. */
static void transpose_filter(const struct sluice_param *info, uint32_t num_c, float *theirs,
                             float *stored, bool reads)
{
    const size_t pixels = (size_t)info->dims[2] * info->dims[3];
    for (size_t o = 0; o < info->dims[0]; o++) {
        for (size_t p = 0; p < pixels; p++) {
            for (size_t c = 0; c < num_c; c++) {
                float *at = &stored[(o * pixels + p) * num_c + c];
                float *of = &theirs[(o * info->dims[1] + c) * pixels + p];
                if (c >= info->dims[1])
                    *at = 0;
                else if (reads)
                    *of = *at;
                else
                    *at = *of;
            }
        }
    }
}

/* Memory for a filter as it is stored; NULL in *stored for other parameters. */
static sluice_status alloc_stored(const struct cuda_trainer *cuda, unsigned param, float **stored,
                                  struct sluice_err *err)
{
    *stored = NULL;
    if (cuda->base.net.params[param].num_dims != 4)
        return SLUICE_OK;
    *stored = malloc(cuda_stored_count(cuda, param) * sizeof(float));
    return *stored ? SLUICE_OK : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a parameter");
}

sluice_status cuda_read(struct sluice_trainer *trainer, enum sluice_array array, unsigned param,
                        float *out, struct sluice_err *err)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    const struct sluice_param *info = &trainer->net.params[param];
    float *stored;
    sluice_status status = alloc_stored(cuda, param, &stored, err);
    if (!status)
        status = cuda_wait(cuda, err);
    if (!status)
        status = cuda_check(cudaMemcpy(stored ? stored : out, cuda_array(cuda, array, (int)param),
                                       cuda_stored_count(cuda, param) * sizeof(float),
                                       cudaMemcpyDeviceToHost),
                            "cudaMemcpy", err);
    if (!status && stored)
        transpose_filter(info, stored_channels(cuda, info), out, stored, true);
    free(stored);
    return status;
}

sluice_status cuda_write(struct sluice_trainer *trainer, enum sluice_array array, unsigned param,
                         const float *in, struct sluice_err *err)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    const struct sluice_param *info = &trainer->net.params[param];
    const size_t count = cuda_stored_count(cuda, param);
    float *stored;
    sluice_status status = alloc_stored(cuda, param, &stored, err);
    if (!status && stored)
        transpose_filter(info, stored_channels(cuda, info), (float *)in, stored, false);
    if (!status)
        status = cuda_check(cudaMemcpyAsync(cuda_array(cuda, array, (int)param),
                                            stored ? stored : in, count * sizeof(float),
                                            cudaMemcpyHostToDevice, cuda->compute),
                            "cudaMemcpy", err);
    if (!status && array == SLUICE_ARRAY_VALUE && cuda->copies16)
        status =
            cuda_check(sluice_cuda_from_float(cuda->compute, cuda->values + cuda->offsets[param],
                                              cuda->copies16 + cuda->offsets[param], count),
                       "rounding a parameter", err);
    if (!status)
        status = cuda_wait(cuda, err); /* the memory goes */
    free(stored);
    return status;
}
