#include "train/cuda/train_cuda_state.h"

#include <stdlib.h>
#include <string.h>

/* The order of a step.  The host only queues work:
 *
 *     copy stream       |upload 0 | upload 1 |            | upload 2 |
 *     compute stream              |--- step 0 ---|--- step 1 ---|--- step 2 ---|
 *     slot                 0          1           0 once step 0 has read it
 *
 *     a step            input | forward | loss | backward | descent | sums to the host
 *                               `----------- one CUDA graph -----------'
 *
 * A step returns when its upload is done, so the host runs ahead by two batches at most.  Rows that
 * are on the device stay where they are: a slot holds their labels alone.
 *
 * The graph is of full batches; batches of other sizes run stage by stage, in the same memory.  What
 * changes from step to step lies in cuda->block, which the graph's kernels read.
 *
 * A loss that is not finite sets a flag on the device.  From then on the weights, the block and the
 * input stay as they are, until find_nonfinite() has run the batch again, stage by stage. */

/* Brings the batch by the next slot, and puts the step's block where kernels read it, unless the
 * flag is set. */
static sluice_status take_slot(struct cuda_trainer *cuda, const struct sluice_train_batch *batch,
                               struct slot **slot, struct sluice_err *err)
{
    *slot = &cuda->slots[cuda->next_slot];
    cuda->next_slot = (cuda->next_slot + 1) % NUM_SLOTS;
    sluice_status status = cuda_upload(cuda, batch, *slot, err);
    if (!status)
        status = cuda_stop_before(cuda, CUDA_ITEM_INPUT, err);
    return status ? status
                  : cuda_check(sluice_cuda_copy_unless(cuda->compute, cuda->block.memory,
                                                       (*slot)->block.memory, cuda->block_bytes,
                                                       cuda->is_bad),
                               "the step's block", err);
}

/* The batch's input, unless the flag is set.  Pixels are on the device. */
static sluice_status make_input(struct cuda_trainer *cuda, const struct sluice_train_batch *batch,
                                const struct slot *slot, struct sluice_err *err)
{
    const uint8_t *pixels = batch->is_on_device ? batch->pixels : slot->pixels;
    void *out = cuda_buffer(cuda, 0);
    const struct sluice_shape shape = cuda->base.net.layers[0].in;
    const size_t num_pixels = (size_t)batch->n * shape.h * shape.w;
    const uint32_t num_c = cuda_input_channels(cuda);
    return cuda_check(batch->key ? sluice_cuda_mix_input(cuda->compute, cuda->type,
                                                         slot->block.step, slot->block.rows, pixels,
                                                         cuda->table, cuda->quantiles, out,
                                                         batch->n, num_c, cuda->is_bad)
                                 : sluice_cuda_input(cuda->compute, cuda->type, pixels, cuda->table,
                                                     out, num_pixels, num_c, cuda->is_bad),
                      "the input", err);
}

static sluice_status queue_loss(struct cuda_trainer *cuda, unsigned n, bool is_training,
                                bool is_mixed, struct sluice_err *err)
{
    const struct sluice_stage *last = &cuda->program.stages[cuda->program.num_stages - 1];
    const float *logits = cuda_buffer(cuda, cuda->program.logits);
    void *diff = is_training ? cuda_buffer(cuda, last->diff_out) : NULL;
    const uint32_t num_classes = cuda->base.net.num_classes;
    const sluice_status status = cuda_stop_before(cuda, cuda_item_loss(cuda), err);
    if (status)
        return status;
    return cuda_check(
        is_mixed ? sluice_cuda_mix_loss(cuda->compute, cuda->type, cuda->block.step, logits,
                                        cuda->block.labels, n, num_classes, diff, cuda->sample_sums,
                                        cuda->sums, cuda->is_bad)
                 : sluice_cuda_loss(cuda->compute, cuda->type, logits, cuda->block.labels, n,
                                    num_classes, diff, cuda->sample_sums, cuda->sums, cuda->is_bad),
        "the loss", err);
}

/* All of a step behind its input. */
static sluice_status queue_step(struct cuda_trainer *cuda, const struct conv_set *convs,
                                bool is_training, bool is_mixed, struct sluice_err *err)
{
    const unsigned num_stages = cuda->program.num_stages;
    sluice_status status = cuda_forward(cuda, convs, 0, num_stages, is_training, err);
    if (!status)
        status = queue_loss(cuda, convs->n, is_training, is_mixed, err);
    if (!status && is_training)
        status = cuda_learn(cuda, convs, err);
    return status;
}

static sluice_status capture(struct cuda_trainer *cuda, const struct conv_set *convs, bool is_mixed,
                             struct sluice_err *err)
{
    cudaGraph_t graph = NULL;
    sluice_status status = cuda_choose_points(cuda, err);
    if (!status)
        status = cuda_check(cudaStreamBeginCapture(cuda->compute, cudaStreamCaptureModeThreadLocal),
                            "cudaStreamBeginCapture", err);
    if (status)
        return status;
    status = queue_step(cuda, convs, true, is_mixed, err);
    const cudaError_t ended = cudaStreamEndCapture(cuda->compute, &graph); /* in any case */
    if (!status)
        status = cuda_check(ended, "cudaStreamEndCapture", err);
    if (!status)
        status = cuda_check(cudaGraphInstantiate(&cuda->graphs[is_mixed], graph, 0),
                            "cudaGraphInstantiate", err);
    if (graph)
        cudaGraphDestroy(graph);
    return status;
}

/* A full batch is captured the second time, or with a gate the third: at the first, libraries load
 * what they need; at the second its items are measured, to choose the points that the graph has. */
static sluice_status queue_training(struct cuda_trainer *cuda, const struct conv_set *convs,
                                    bool is_mixed, struct sluice_err *err)
{
    const bool is_full = convs->n == cuda->base.options.batch_size;
    sluice_status status = SLUICE_OK;
    if (is_full && cuda->is_warm && !cuda->is_measuring && !cuda->graphs[is_mixed])
        status = capture(cuda, convs, is_mixed, err);
    if (status)
        return status;
    if (is_full && cuda->graphs[is_mixed])
        return cuda_check(cudaGraphLaunch(cuda->graphs[is_mixed], cuda->compute), "cudaGraphLaunch",
                          err);
    cuda->is_warm |= is_full;
    status = queue_step(cuda, convs, true, is_mixed, err);
    return status ? status : cuda_end_step(cuda, err);
}

static sluice_status run(struct cuda_trainer *cuda, const struct sluice_train_batch *batch,
                         bool is_training, struct sluice_err *err)
{
    struct conv_set *convs = NULL;
    struct slot *slot = NULL;
    sluice_status status = cuda_get_convs(cuda, batch->n, &convs, err);
    if (status)
        return status;
    cuda->last_n = batch->n;
    cuda->last_is_training = is_training;
    if (is_training)
        status = cuda_begin_step(cuda, batch->n, err);
    if (!status)
        status = take_slot(cuda, batch, &slot, err);
    if (!status)
        status = make_input(cuda, batch, slot, err);
    if (!status)
        status = cuda_check(cudaEventRecord(slot->consumed, cuda->compute), "cudaEventRecord", err);
    if (!status)
        status = is_training ? queue_training(cuda, convs, batch->key != NULL, err)
                             : queue_step(cuda, convs, false, batch->key != NULL, err);
    if (!status)
        status = cuda_queue_snapshot(cuda, batch->n, err);
    if (!status)
        return cuda_check(cudaEventSynchronize(slot->uploaded), "upload", err);
    cudaStreamSynchronize(cuda->copies); /* one may have begun, and the memory is not ours */
    return status;
}

/* A step of the other ranks in which this one has no rows. */
static sluice_status take_part(struct cuda_trainer *cuda, const struct sluice_train_batch *batch,
                               struct sluice_err *err)
{
    struct slot *slot = NULL;
    sluice_status status = take_slot(cuda, batch, &slot, err);
    if (!status)
        status = cuda_check(cudaEventRecord(slot->consumed, cuda->compute), "cudaEventRecord", err);
    if (!status)
        status = cuda_learn(cuda, NULL, err);
    if (!status)
        status = cuda_check(cudaEventSynchronize(slot->uploaded), "upload", err);
    return status;
}

static sluice_status cuda_step(struct sluice_trainer *trainer,
                               const struct sluice_train_batch *batch, struct sluice_err *err)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    return batch->n > 0 ? run(cuda, batch, true, err) : take_part(cuda, batch, err);
}

static sluice_status cuda_evaluate(struct sluice_trainer *trainer,
                                   const struct sluice_train_batch *batch, struct sluice_err *err)
{
    return run((struct cuda_trainer *)trainer, batch, false, err);
}

/* Sets *is_finite to whether the values are. */
static sluice_status check_finite(struct cuda_trainer *cuda, enum sluice_cuda_type type,
                                  const void *values, size_t count, bool *is_finite,
                                  struct sluice_err *err)
{
    uint32_t flag = 0;
    sluice_status status =
        cuda_check(cudaMemsetAsync(cuda->flag, 0, sizeof(flag), cuda->compute), "cudaMemset", err);
    if (!status)
        status =
            cuda_check(sluice_cuda_flag_nonfinite(cuda->compute, type, values, count, cuda->flag),
                       "checking values", err);
    if (!status)
        status = cuda_check(
            cudaMemcpyAsync(&flag, cuda->flag, sizeof(flag), cudaMemcpyDeviceToHost, cuda->compute),
            "cudaMemcpy", err);
    if (!status)
        status = cuda_wait(cuda, err);
    *is_finite = flag == 0;
    return status;
}

/* Checks the parameters that the stage reads, then runs it and checks its output. */
static sluice_status find_in_stage(struct cuda_trainer *cuda, const struct conv_set *convs,
                                   unsigned s, struct sluice_nonfinite *found,
                                   struct sluice_err *err)
{
    const struct sluice_net *net = &cuda->base.net;
    const struct sluice_stage *stage = &cuda->program.stages[s];
    const struct sluice_layer *layer = &net->layers[stage->layer];
    const int params[] = {layer->weight, layer->bias, layer->running_mean, layer->running_var};
    const size_t num_params = cuda->last_is_training ? 2 : SLUICE_ARRAY_LEN(params);
    sluice_status status = SLUICE_OK;
    bool is_finite = true;
    for (size_t k = 0; !status && k < num_params; k++) {
        if (params[k] < 0)
            continue;
        status =
            check_finite(cuda, SLUICE_CUDA_F32, cuda_array(cuda, SLUICE_ARRAY_VALUE, params[k]),
                         cuda_stored_count(cuda, (unsigned)params[k]), &is_finite, err);
        if (!status && !is_finite) {
            sluice_nonfinite_in_param(net, (unsigned)params[k], found);
            return SLUICE_OK;
        }
    }
    if (!status)
        status = cuda_forward(cuda, convs, s, s + 1, cuda->last_is_training, err);
    if (!status)
        status = check_finite(
            cuda, stage->out == cuda->program.logits ? SLUICE_CUDA_F32 : cuda->type,
            cuda_buffer(cuda, stage->out),
            convs->n * sluice_shape_elements(net->layers[stage->last].out), &is_finite, err);
    if (!status && !is_finite)
        sluice_nonfinite_in_output(net, stage->layer, found);
    return status;
}

/* Runs the batch that the flag keeps again, stage by stage, and clears the flag. */
static sluice_status cuda_find_nonfinite(struct sluice_trainer *trainer,
                                         struct sluice_nonfinite *found, struct sluice_err *err)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    struct sluice_cuda_step step;
    struct conv_set *convs = NULL;
    sluice_status status = cuda_wait(cuda, err);
    if (!status)
        status =
            cuda_check(cudaMemcpy(&step, cuda->block.step, sizeof(step), cudaMemcpyDeviceToHost),
                       "cudaMemcpy", err);
    if (!status)
        status = cuda_get_convs(cuda, cuda->last_n, &convs, err);
    if (!status)
        *found = (struct sluice_nonfinite){.steps = step.step};
    for (unsigned s = 0; !status && !found->where[0] && s < cuda->program.num_stages; s++)
        status = find_in_stage(cuda, convs, s, found, err);
    if (!status)
        status = cuda_check(cudaMemset(cuda->is_bad, 0, sizeof(*cuda->is_bad)), "cudaMemset", err);
    return status;
}

static void clear_graphs(struct cuda_trainer *cuda)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cuda->graphs); i++) {
        if (cuda->graphs[i])
            cudaGraphExecDestroy(cuda->graphs[i]);
        cuda->graphs[i] = NULL;
    }
    cuda->is_warm = false;
    cuda_forget_points(cuda);
}

static sluice_status cuda_engines(const struct sluice_trainer *trainer, char **text,
                                  struct sluice_err *err)
{
    return sluice_engine_cache_print(&((const struct cuda_trainer *)trainer)->engines, text, err);
}

/* Plans the step anew if the text has other engines: a resumed run has the bits of one that was not
 * interrupted. */
static sluice_status cuda_use_engines(struct sluice_trainer *trainer, const char *text,
                                      struct sluice_err *err)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    char *before = NULL, *after = NULL;
    sluice_status status = sluice_engine_cache_print(&cuda->engines, &before, err);
    if (!status)
        status = sluice_engine_cache_parse(&cuda->engines, text, err);
    if (!status)
        status = sluice_engine_cache_print(&cuda->engines, &after, err);
    const bool is_same = !status && strcmp(before, after) == 0;
    free(before);
    free(after);
    if (status || is_same)
        return status;
    status = cuda_wait(cuda, err);
    clear_graphs(cuda);
    cuda_clear_convs(cuda);
    cuda_clear_arena(cuda);
    return status ? status : cuda_make_arena(cuda, err);
}

static void cuda_memory(const struct sluice_trainer *trainer, struct sluice_train_memory *memory)
{
    const struct cuda_trainer *cuda = (const struct cuda_trainer *)trainer;
    memory->total = cuda->owned_bytes;
    memory->activations = cuda->program.arena_bytes;
    memory->workspace = SLUICE_MATMUL_WORKSPACE;
    memory->parameters = memory->total - memory->activations - memory->workspace;
}

/* A missing driver is reported as one that is too old. */
static sluice_status no_device(cudaError_t error, struct sluice_err *err)
{
    int driver = 0;
    const char *reason = error ? cudaGetErrorString(error) : "no device";
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
        reason = "no driver is installed";
    return sluice_fail(err, SLUICE_E_UNSUPPORTED, "device cuda: this machine offers none: %s",
                       reason);
}

/* Tensor cores take bf16 and TF32 from compute capability 8.0 on. */
static sluice_status find_precision(struct cuda_trainer *cuda, struct sluice_err *err)
{
    enum sluice_precision *precision = &cuda->base.options.precision;
    int major = 0;
    const sluice_status status = cuda_check(
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, cuda->base.options.gpu),
        "cudaDeviceGetAttribute", err);
    if (status)
        return status;
    if (*precision == SLUICE_PRECISION_DEFAULT)
        *precision = major >= 8 ? SLUICE_PRECISION_BF16 : SLUICE_PRECISION_FP32;
    if (*precision != SLUICE_PRECISION_FP32 && major < 8)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "precision: %s needs a GPU of compute capability 8.0; this one has %d.x",
                           sluice_precision_name(*precision), major);
    return SLUICE_OK;
}

static sluice_status open_device(struct cuda_trainer *cuda, struct sluice_err *err)
{
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error || count < 1)
        return no_device(error, err);
    const int gpu = cuda->base.options.gpu;
    if (gpu >= count)
        return sluice_fail(err, SLUICE_E_INVALID, "gpu %d: this machine has %d, counted from 0",
                           gpu, count);
    sluice_status status = cuda_check(cudaSetDevice(gpu), "cudaSetDevice", err);
    if (!status)
        status = find_precision(cuda, err);
    const enum sluice_precision precision = cuda->base.options.precision;
    cuda->type = precision == SLUICE_PRECISION_BF16 ? SLUICE_CUDA_BF16 : SLUICE_CUDA_F32;
    cuda->is_tf32 = cuda->matmul.is_tf32 = precision == SLUICE_PRECISION_TF32;
    if (!status)
        status = cuda_check(cudaStreamCreateWithFlags(&cuda->copies, cudaStreamNonBlocking),
                            "cudaStreamCreate", err);
    if (!status)
        status = cuda_check(cudaStreamCreateWithFlags(&cuda->compute, cudaStreamNonBlocking),
                            "cudaStreamCreate", err);
    if (!status)
        status = cuda_check(
            cudaEventCreateWithFlags(&cuda->done, cudaEventDisableTiming | cudaEventBlockingSync),
            "cudaEventCreate", err);
    return status;
}

sluice_status cuda_open(struct cuda_trainer *cuda, struct sluice_err *err)
{
    sluice_status status = open_device(cuda, err);
    if (!status)
        status = cuda_check_cudnn(cudnnCreate(&cuda->cudnn), "cudnnCreate", err);
    if (!status)
        status =
            cuda_check_cudnn(cudnnSetStream(cuda->cudnn, cuda->compute), "cudnnSetStream", err);
    if (!status && cublasLtCreate(&cuda->matmul.handle))
        status = sluice_fail(err, SLUICE_E_INTERNAL, "device cuda: cuBLASLt does not start");
    cuda->matmul.stream = cuda->compute;
    if (!status)
        status = cuda_alloc(cuda, SLUICE_MATMUL_WORKSPACE, &cuda->matmul.workspace, err);
    return status;
}

/* The others join before they choose engines: rank 0 has chosen by then, and they read its cache, so
 * that the same run has the same engines in every rank. */
static sluice_status join_ranks(struct cuda_trainer *cuda, bool is_first, struct sluice_err *err)
{
    const struct sluice_train_options *o = &cuda->base.options;
    if (o->world_size <= 1 || (o->rank == 0) != is_first)
        return SLUICE_OK;
    return sluice_ranks_open(o->rendezvous, o->rank, o->world_size, &cuda->ranks, err);
}

void cuda_clear(struct sluice_trainer *trainer)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    if (cuda->copies)
        cudaStreamSynchronize(cuda->copies);
    if (cuda->compute)
        cudaStreamSynchronize(cuda->compute);
    clear_graphs(cuda);
    cuda_clear_gate(cuda);
    cuda_clear_buckets(cuda);
    cuda_clear_convs(cuda);
    sluice_engine_cache_clear(&cuda->engines);
    cuda_clear_slots(cuda);
    cuda_clear_sums(cuda);
    if (cuda->matmul.handle)
        cublasLtDestroy(cuda->matmul.handle);
    if (cuda->cudnn)
        cudnnDestroy(cuda->cudnn);
    for (size_t i = 0; i < cuda->num_owned; i++)
        cudaFree(cuda->owned[i]);
    free(cuda->owned);
    free(cuda->offsets);
    free(cuda->means);
    free(cuda->inverse_deviations);
    sluice_program_clear(&cuda->program);
    if (cuda->done)
        cudaEventDestroy(cuda->done);
    if (cuda->compute)
        cudaStreamDestroy(cuda->compute);
    if (cuda->copies)
        cudaStreamDestroy(cuda->copies);
}

static sluice_status cuda_init(struct sluice_trainer *trainer, struct sluice_err *err)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    sluice_status status = cuda_open(cuda, err);
    trainer->rows_device = trainer->options.gpu;
    trainer->rows_stream = cuda->compute;
    if (!status)
        status = join_ranks(cuda, false, err);
    if (!status)
        status = cuda_open_engines(cuda, err);
    if (!status)
        status = cuda_make_params(cuda, err);
    if (!status)
        status = cuda_check_batch(cuda, err);
    if (!status)
        status = cuda_make_slots(cuda, err);
    if (!status)
        status = cuda_make_sums(cuda, err);
    if (!status)
        status = cuda_make_arena(cuda, err);
    if (!status)
        status = join_ranks(cuda, true, err);
    if (!status)
        status = cuda_make_buckets(cuda, err);
    if (!status)
        status = cuda_make_gate(cuda, err);
    if (!status)
        status = cuda_wait(cuda, err);
    return status;
}

const struct sluice_trainer_ops sluice_trainer_cuda_ops = {
    .size = sizeof(struct cuda_trainer),
    .init = cuda_init,
    .clear = cuda_clear,
    .step = cuda_step,
    .evaluate = cuda_evaluate,
    .progress = cuda_progress,
    .collect = cuda_collect,
    .find_nonfinite = cuda_find_nonfinite,
    .engines = cuda_engines,
    .use_engines = cuda_use_engines,
    .memory = cuda_memory,
    .read = cuda_read,
    .write = cuda_write,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .measure_upload = cuda_measure_upload,
};
