#include "train/cuda/train_cuda_state.h"

/* The limits of kernels_cuda.h for a layer. */
static sluice_status check_layer(const struct sluice_layer *layer, unsigned i,
                                 struct sluice_err *err)
{
    const bool is_pool = layer->kind == SLUICE_LAYER_MAXPOOL || layer->kind == SLUICE_LAYER_AVGPOOL;
    if ((is_pool || layer->kind == SLUICE_LAYER_BATCHNORM) && layer->in.c % 8 != 0)
        return sluice_fail(
            err, SLUICE_E_INVALID,
            "device cuda: layer %u of the model has %u channels, not a multiple of 8", i,
            layer->in.c);
    return SLUICE_OK;
}

static struct sluice_program_options options_of(const struct cuda_trainer *cuda, unsigned n)
{
    return (struct sluice_program_options){
        .batch_size = n,
        .element_bytes = cuda->type == SLUICE_CUDA_BF16 ? sizeof(uint16_t) : sizeof(float),
        .input_channels = cuda_input_channels(cuda),
        .is_inference = cuda->is_inference,
    };
}

/* Bytes of a batch's arena without workspaces, and of slots that are not made yet; SIZE_MAX: no
 * memory to reckon with. */
static size_t bytes_of(const struct cuda_trainer *cuda, unsigned n)
{
    struct sluice_program program;
    struct sluice_err ignored;
    const struct sluice_program_options options = options_of(cuda, n);
    size_t bytes = SIZE_MAX;
    if (sluice_program_build(&cuda->base.net, &options, &program, &ignored))
        return bytes;
    if (!sluice_program_place(&program, &ignored))
        bytes = program.arena_bytes;
    sluice_program_clear(&program);
    if (bytes < SIZE_MAX && !cuda->slots[0].pixels)
        bytes += NUM_SLOTS * n * sluice_shape_elements(cuda->base.net.layers[0].in);
    return bytes;
}

/* Refuses a batch whose `needed` bytes the GPU lacks. */
static sluice_status check_memory(const struct cuda_trainer *cuda, size_t needed, size_t workspaces,
                                  struct sluice_err *err)
{
    size_t available, total;
    const sluice_status status =
        cuda_check(cudaMemGetInfo(&available, &total), "cudaMemGetInfo", err);
    if (status || needed <= available)
        return status;
    unsigned fits = 0, too_large = cuda->base.options.batch_size;
    while (fits + 1 < too_large) {
        const unsigned middle = fits + (too_large - fits) / 2;
        const size_t bytes = bytes_of(cuda, middle);
        if (bytes <= available && workspaces <= available - bytes)
            fits = middle;
        else
            too_large = middle;
    }
    return sluice_fail(err, SLUICE_E_NO_MEMORY,
                       "device cuda: a batch of %u needs %zu MB, and %zu MB are free; the largest "
                       "batch that fits is %u",
                       cuda->base.options.batch_size, needed >> 20, available >> 20, fits);
}

sluice_status cuda_check_batch(struct cuda_trainer *cuda, struct sluice_err *err)
{
    return check_memory(cuda, bytes_of(cuda, cuda->base.options.batch_size), 0, err);
}

sluice_status cuda_plan_arena(struct cuda_trainer *cuda, struct sluice_err *err)
{
    const struct sluice_net *net = &cuda->base.net;
    const struct sluice_program_options options = options_of(cuda, cuda->base.options.batch_size);
    sluice_status status = SLUICE_OK;
    for (unsigned i = 0; !status && i < net->num_layers; i++)
        status = check_layer(&net->layers[i], i, err);
    if (!status)
        status = sluice_program_build(net, &options, &cuda->program, err);
    struct conv_set *convs = NULL; /* says how large workspaces are */
    if (!status)
        status = cuda_get_convs(cuda, options.batch_size, &convs, err);
    return status ? status : sluice_program_place(&cuda->program, err);
}

sluice_status cuda_make_arena(struct cuda_trainer *cuda, struct sluice_err *err)
{
    sluice_status status = cuda_plan_arena(cuda, err);
    const size_t bytes = cuda->program.arena_bytes;
    if (!status)
        status =
            check_memory(cuda, bytes, bytes - bytes_of(cuda, cuda->base.options.batch_size), err);
    return status ? status : cuda_alloc(cuda, bytes, &cuda->arena, err);
}

/* The arena is the last block that was allocated. */
void cuda_clear_arena(struct cuda_trainer *cuda)
{
    if (cuda->arena) {
        cudaFree(cuda->owned[--cuda->num_owned]);
        cuda->owned_bytes -= cuda->program.arena_bytes;
    }
    cuda->arena = NULL;
    sluice_program_clear(&cuda->program);
}
