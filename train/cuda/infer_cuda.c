#include "train/cuda/train_cuda_state.h"
#include "train/infer_internal.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Inference by the trainer's engines, arena and stages: its state without parameters of its own, slots
 * or anything of a backward pass.  The block has weights | arena | input. */

#define NUM_RUNS 5 /* of which the fastest counts, after one more */

struct cuda_infer {
    struct sluice_infer base;
    struct cuda_trainer cuda; /* its net is the base's */
    struct conv_set *convs;
    float *rows;        /* the input on the device */
    size_t rows_offset; /* from the arena on */
    /* `arrived` takes turns for all groups: a stream waits for what is recorded by then. */
    cudaEvent_t forked, arrived, begin, end;
    bool is_warm; /* ran once: libraries have loaded what they need */
};

/* --- a run --- */

/* Queues the copy of the bytes [begin, end) of an image. */
static sluice_status queue_copy(struct cuda_infer *c, const void *image, size_t begin, size_t end,
                                struct sluice_err *err)
{
    if (end == begin)
        return SLUICE_OK;
    return cuda_check(cudaMemcpyAsync(c->base.block->memory + begin, (const uint8_t *)image + begin,
                                      end - begin, cudaMemcpyHostToDevice, c->cuda.copies),
                      "copying weights", err);
}

/* The stream begins behind what the compute stream has. */
static sluice_status fork_copies(struct cuda_infer *c, struct sluice_err *err)
{
    const sluice_status status =
        cuda_check(cudaEventRecord(c->forked, c->cuda.compute), "cudaEventRecord", err);
    return status ? status
                  : cuda_check(cudaStreamWaitEvent(c->cuda.copies, c->forked, 0),
                               "cudaStreamWaitEvent", err);
}

/* The compute stream waits for the copies that are queued. */
static sluice_status join_copies(struct cuda_infer *c, struct sluice_err *err)
{
    const sluice_status status =
        cuda_check(cudaEventRecord(c->arrived, c->cuda.copies), "cudaEventRecord", err);
    return status ? status
                  : cuda_check(cudaStreamWaitEvent(c->cuda.compute, c->arrived, 0),
                               "cudaStreamWaitEvent", err);
}

/* Stages [from, to), behind the input where from is 0, before the logits' copy where `to` is the end. */
static sluice_status queue_stages(struct cuda_infer *c, unsigned from, unsigned to,
                                  struct sluice_err *err)
{
    struct cuda_trainer *cuda = &c->cuda;
    const struct sluice_net *net = &c->base.net;
    const unsigned n = c->base.options.batch_size;
    sluice_status status = SLUICE_OK;
    if (from == 0)
        status = cuda_check(
            sluice_cuda_input_rows(cuda->compute, cuda->type, c->rows, cuda_buffer(cuda, 0), n,
                                   (size_t)net->height * net->width, cuda_input_channels(cuda)),
            "the input", err);
    if (!status)
        status = cuda_forward(cuda, c->convs, from, to, false, err);
    if (status || to < cuda->program.num_stages)
        return status;
    return cuda_check(cudaMemcpyAsync(c->base.logits, cuda_buffer(cuda, cuda->program.logits),
                                      sizeof(float) * n * net->num_classes, cudaMemcpyDeviceToHost,
                                      cuda->compute),
                      "copying logits", err);
}

static sluice_status queue_input(struct cuda_infer *c, cudaStream_t stream, struct sluice_err *err)
{
    const size_t bytes = sizeof(float) * c->base.options.batch_size *
                         sluice_shape_elements(c->base.net.layers[0].in);
    return cuda_check(
        cudaMemcpyAsync(c->rows, c->base.input, bytes, cudaMemcpyHostToDevice, stream),
        "copying the input", err);
}

/* Copies and kernels in the order in which they are needed: the host waits in a copy from memory that
 * is not pinned, and the stages before run meanwhile. */
static sluice_status queue_run(struct cuda_infer *c, const void *arg, struct sluice_err *err)
{
    const struct sluice_infer_plan_options *o = arg;
    sluice_status status = SLUICE_OK;
    if (o->num_groups == 0) {
        status = queue_input(c, c->cuda.compute, err);
        return status ? status : queue_stages(c, 0, c->cuda.program.num_stages, err);
    }
    status = fork_copies(c, err);
    if (!status)
        status = queue_input(c, c->cuda.copies, err);
    for (unsigned g = 0, copied = 0, done = 0; !status && g < o->num_groups; g++) {
        const unsigned end = o->last_stages[g] + 1;
        status =
            queue_copy(c, o->image, c->base.stage_offsets[copied], c->base.stage_offsets[end], err);
        copied = end;
        if (status || !(o->is_pipelined || g + 1 == o->num_groups))
            continue;
        status = join_copies(c, err);
        if (!status)
            status = queue_stages(c, done, end, err);
        done = end;
    }
    return status;
}

/* --- graphs --- */

typedef sluice_status (*queue_fn)(struct cuda_infer *c, const void *arg, struct sluice_err *err);

static sluice_status capture(struct cuda_infer *c, queue_fn queue, const void *arg,
                             cudaGraphExec_t *exec, struct sluice_err *err)
{
    cudaGraph_t graph = NULL;
    sluice_status status =
        cuda_check(cudaStreamBeginCapture(c->cuda.compute, cudaStreamCaptureModeThreadLocal),
                   "cudaStreamBeginCapture", err);
    if (status)
        return status;
    status = queue(c, arg, err);
    const cudaError_t ended = cudaStreamEndCapture(c->cuda.compute, &graph); /* in any case */
    if (!status)
        status = cuda_check(ended, "cudaStreamEndCapture", err);
    if (!status)
        status = cuda_check(cudaGraphInstantiate(exec, graph, 0), "cudaGraphInstantiate", err);
    if (graph)
        cudaGraphDestroy(graph);
    return status ? status
                  : cuda_check(cudaGraphUpload(*exec, c->cuda.compute), "cudaGraphUpload", err);
}

static sluice_status warm_up(struct cuda_infer *c, struct sluice_err *err)
{
    static const struct sluice_infer_plan_options resident = {.num_groups = 0};
    sluice_status status = c->is_warm ? SLUICE_OK : queue_run(c, &resident, err);
    if (!status)
        status = cuda_check(cudaStreamSynchronize(c->cuda.compute), "the first run", err);
    c->is_warm = !status;
    return status;
}

static sluice_status check_pinned(const struct cuda_infer *c, const uint8_t *image,
                                  struct sluice_err *err)
{
    const size_t bytes = sluice_infer_weight_bytes(&c->base);
    for (int i = 0; i < 2; i++) {
        struct cudaPointerAttributes of;
        const sluice_status status = cuda_check(
            cudaPointerGetAttributes(&of, i ? image + bytes - 1 : image), "the image", err);
        if (status)
            return status;
        if (of.type != cudaMemoryTypeHost)
            return sluice_fail(err, SLUICE_E_INVALID, "image: its memory is not pinned");
    }
    return SLUICE_OK;
}

static sluice_status cuda_make_plan(struct sluice_infer_plan *plan, struct sluice_err *err)
{
    struct cuda_infer *c = (struct cuda_infer *)plan->infer;
    sluice_status status = warm_up(c, err);
    if (status || plan->options.is_eager)
        return status;
    if (plan->options.num_groups > 0)
        status = check_pinned(c, plan->options.image, err);
    cudaGraphExec_t exec = NULL;
    if (!status)
        status = capture(c, queue_run, &plan->options, &exec, err);
    plan->graph = exec;
    return status;
}

static void cuda_clear_plan(struct sluice_infer_plan *plan)
{
    if (plan->graph)
        cudaGraphExecDestroy(plan->graph);
}

static sluice_status cuda_run(struct sluice_infer_plan *plan, struct sluice_err *err)
{
    struct cuda_infer *c = (struct cuda_infer *)plan->infer;
    sluice_status status = plan->graph ? cuda_check(cudaGraphLaunch(plan->graph, c->cuda.compute),
                                                    "cudaGraphLaunch", err)
                                       : queue_run(c, &plan->options, err);
    if (status)
        cudaStreamSynchronize(c->cuda.copies); /* they read memory of the caller's */
    const cudaError_t waited = cudaStreamSynchronize(c->cuda.compute);
    return status ? status : cuda_check(waited, "inference", err);
}

static sluice_status cuda_copy(struct sluice_infer *infer, const void *image,
                               struct sluice_err *err)
{
    struct cuda_infer *c = (struct cuda_infer *)infer;
    const sluice_status status = queue_copy(c, image, 0, sluice_infer_weight_bytes(infer), err);
    const cudaError_t waited = cudaStreamSynchronize(c->cuda.copies);
    return status ? status : cuda_check(waited, "copying weights", err);
}

/* --- costs --- */

/* Captures what `queue` queues, and takes the least time of it. */
static sluice_status time_graph(struct cuda_infer *c, queue_fn queue, const void *arg,
                                double *seconds, struct sluice_err *err)
{
    cudaGraphExec_t exec = NULL;
    sluice_status status = capture(c, queue, arg, &exec, err);
    float best = FLT_MAX;
    for (int i = 0; !status && i <= NUM_RUNS; i++) {
        float ms = 0;
        status = cuda_check(cudaEventRecord(c->begin, c->cuda.compute), "cudaEventRecord", err);
        if (!status)
            status = cuda_check(cudaGraphLaunch(exec, c->cuda.compute), "cudaGraphLaunch", err);
        if (!status)
            status = cuda_check(cudaEventRecord(c->end, c->cuda.compute), "cudaEventRecord", err);
        const cudaError_t waited = cudaStreamSynchronize(c->cuda.compute);
        if (!status)
            status = cuda_check(waited, "a graph that is timed", err);
        if (!status)
            status = cuda_check(cudaEventElapsedTime(&ms, c->begin, c->end), "cudaEventElapsedTime",
                                err);
        if (i > 0 && ms < best)
            best = ms;
    }
    if (exec)
        cudaGraphExecDestroy(exec);
    *seconds = (double)best * 1e-3;
    return status;
}

/* `arg`: an event before each stage and one behind the last. */
static sluice_status queue_marked(struct cuda_infer *c, const void *arg, struct sluice_err *err)
{
    const cudaEvent_t *events = arg;
    const unsigned num_stages = c->cuda.program.num_stages;
    sluice_status status = SLUICE_OK;
    for (unsigned s = 0; !status && s <= num_stages; s++) {
        status = cuda_check(
            cudaEventRecordWithFlags(events[s], c->cuda.compute, cudaEventRecordExternal),
            "cudaEventRecord", err);
        if (!status && s < num_stages)
            status = queue_stages(c, s, s + 1, err);
    }
    return status;
}

/* A plan's copies alone. */
static sluice_status queue_copies(struct cuda_infer *c, const void *arg, struct sluice_err *err)
{
    const struct sluice_infer_plan_options *o = arg;
    sluice_status status = fork_copies(c, err);
    for (unsigned g = 0, from = 0; !status && g < o->num_groups; from = o->last_stages[g++] + 1)
        status = queue_copy(c, o->image, c->base.stage_offsets[from],
                            c->base.stage_offsets[o->last_stages[g] + 1], err);
    return status ? status : join_copies(c, err);
}

/* Events lengthen a run, so that the stages' times are scaled to the sum `total`. */
static sluice_status time_stages(struct cuda_infer *c, cudaEvent_t *events, double total,
                                 double *stage_seconds, struct sluice_err *err)
{
    const unsigned num_stages = c->cuda.program.num_stages;
    double ignored, sum = 0;
    sluice_status status = SLUICE_OK;
    for (unsigned s = 0; !status && s <= num_stages; s++)
        status = cuda_check(cudaEventCreate(&events[s]), "cudaEventCreate", err);
    if (!status)
        status = time_graph(c, queue_marked, events, &ignored, err);
    for (unsigned s = 0; !status && s < num_stages; s++) {
        float ms = 0;
        status = cuda_check(cudaEventElapsedTime(&ms, events[s], events[s + 1]),
                            "cudaEventElapsedTime", err);
        stage_seconds[s] = ms;
        sum += ms;
    }
    for (unsigned s = 0; !status && s < num_stages; s++)
        stage_seconds[s] *= sum > 0 ? total / sum : 0;
    return status;
}

static sluice_status time_copies(struct cuda_infer *c, const void *image, unsigned *stages,
                                 struct sluice_infer_costs *costs, struct sluice_err *err)
{
    const unsigned num_stages = c->cuda.program.num_stages, last = num_stages - 1;
    unsigned num_copies = 0;
    for (unsigned s = 0; s < num_stages; s++) {
        stages[s] = s;
        num_copies += sluice_infer_stage_bytes(&c->base, s) > 0;
    }
    const struct sluice_infer_plan_options whole = {.image = image,
                                                    .last_stages = &last,
                                                    .num_groups = 1},
                                           by_stage = {.image = image,
                                                       .last_stages = stages,
                                                       .num_groups = num_stages};
    double one = 0, many = 0;
    sluice_status status = time_graph(c, queue_copies, &whole, &one, err);
    if (!status)
        status = time_graph(c, queue_copies, &by_stage, &many, err);
    const double each = num_copies > 1 && many > one ? (many - one) / (num_copies - 1) : 0;
    costs->copy_seconds = each;
    costs->bytes_per_s =
        one > each ? (double)sluice_infer_weight_bytes(&c->base) / (one - each) : INFINITY;
    return status;
}

static sluice_status cuda_measure(struct sluice_infer *infer, const void *image,
                                  struct sluice_infer_costs *costs, struct sluice_err *err)
{
    static const struct sluice_infer_plan_options resident = {.num_groups = 0};
    struct cuda_infer *c = (struct cuda_infer *)infer;
    const unsigned num_stages = c->cuda.program.num_stages;
    cudaEvent_t *events = calloc(num_stages + 1, sizeof(cudaEvent_t));
    unsigned *stages = calloc(num_stages, sizeof(*stages));
    double total = 0;
    sluice_status status = SLUICE_OK;
    if (!events || !stages)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a model");
    if (!status)
        status = check_pinned(c, image, err);
    if (!status)
        status = warm_up(c, err);
    if (!status)
        status = time_copies(c, image, stages, costs, err); /* the weights are there then */
    if (!status)
        status = time_graph(c, queue_run, &resident, &total, err);
    if (!status)
        status = time_stages(c, events, total, costs->stage_seconds, err);
    for (unsigned s = 0; events && s <= num_stages; s++) {
        if (events[s])
            cudaEventDestroy(events[s]);
    }
    free(events);
    free(stages);
    return status;
}

/* --- a model --- */

static sluice_status cuda_infer_init(struct sluice_infer *infer, struct sluice_err *err)
{
    struct cuda_infer *c = (struct cuda_infer *)infer;
    struct cuda_trainer *cuda = &c->cuda;
    const size_t n = infer->options.batch_size;
    const size_t input_bytes = sizeof(float) * n * sluice_shape_elements(infer->net.layers[0].in);
    const unsigned untimed = cudaEventDisableTiming;
    void *input = NULL, *logits = NULL;
    cuda->is_inference = true;
    cuda->base.net = infer->net;
    cuda->base.options = (struct sluice_train_options){
        .device = "cuda",
        .model = infer->net.model,
        .batch_size = infer->options.batch_size,
        .precision = infer->options.precision,
        .gpu = infer->options.gpu,
        .engine_cache = infer->options.engine_cache,
    };
    sluice_status status = cuda_open(cuda, err);
    infer->options.precision = cuda->base.options.precision;
    if (!status)
        status = cuda_check(cudaEventCreateWithFlags(&c->forked, untimed), "cudaEventCreate", err);
    if (!status)
        status = cuda_check(cudaEventCreateWithFlags(&c->arrived, untimed), "cudaEventCreate", err);
    if (!status)
        status = cuda_check(cudaEventCreate(&c->begin), "cudaEventCreate", err);
    if (!status)
        status = cuda_check(cudaEventCreate(&c->end), "cudaEventCreate", err);
    if (!status)
        status = cuda_host_alloc(&cuda->base, input_bytes, &input, err);
    infer->input = input;
    if (!status)
        status =
            cuda_host_alloc(&cuda->base, sizeof(float) * n * infer->net.num_classes, &logits, err);
    infer->logits = logits;
    if (!status)
        status = cuda_open_engines(cuda, err);
    if (!status)
        status = cuda_plan_arena(cuda, err);
    if (!status)
        status = cuda_get_convs(cuda, infer->options.batch_size, &c->convs, err);
    c->rows_offset = (cuda->program.arena_bytes + 255) / 256 * 256;
    infer->work_bytes = c->rows_offset + input_bytes;
    return status;
}

static void cuda_infer_clear(struct sluice_infer *infer)
{
    struct cuda_infer *c = (struct cuda_infer *)infer;
    const cudaEvent_t events[] = {c->forked, c->arrived, c->begin, c->end};
    cuda_clear(&c->cuda.base); /* first: it waits */
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(events); i++) {
        if (events[i])
            cudaEventDestroy(events[i]);
    }
    if (infer->input)
        cuda_host_free(&c->cuda.base, infer->input);
    if (infer->logits)
        cuda_host_free(&c->cuda.base, infer->logits);
}

static sluice_status cuda_alloc_block(struct sluice_infer *infer, size_t bytes, void **memory,
                                      struct sluice_err *err)
{
    (void)infer;
    void *block = NULL;
    const cudaError_t error = cudaMalloc(&block, bytes);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return sluice_fail(err, SLUICE_E_NO_MEMORY,
                           "device cuda: no memory for %zu MB of weights and activations",
                           bytes >> 20);
    }
    const sluice_status status = cuda_check(error, "cudaMalloc", err);
    if (!status)
        *memory = block;
    return status;
}

static void cuda_free_block(void *memory)
{
    cudaFree(memory);
}

static sluice_status cuda_place(struct sluice_infer *infer, uint8_t *block, struct sluice_err *err)
{
    struct cuda_infer *c = (struct cuda_infer *)infer;
    struct cuda_trainer *cuda = &c->cuda;
    const unsigned num_params = infer->net.num_params;
    size_t *offsets = calloc(2 * (size_t)num_params, sizeof(*offsets));
    if (!offsets)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a model");
    for (unsigned i = 0; i < num_params; i++) { /* SIZE_MAX is not read */
        offsets[i] = infer->values[i] / sizeof(float);
        offsets[num_params + i] = infer->rounded[i] / sizeof(uint16_t);
    }
    cuda->offsets = offsets;
    cuda->offsets16 = offsets + num_params;
    cuda->values = (float *)block;
    if (cuda->type == SLUICE_CUDA_BF16)
        cuda->copies16 = (uint16_t *)block;
    cuda->arena = block + sluice_infer_weight_bytes(infer);
    c->rows = (float *)(cuda->arena + c->rows_offset);
    return SLUICE_OK;
}

static sluice_status cuda_pin(struct sluice_infer *infer, void *memory, size_t bytes,
                              struct sluice_err *err)
{
    (void)infer;
    return cuda_check(cudaHostRegister(memory, bytes, cudaHostRegisterPortable),
                      "pinning memory of images", err);
}

static void cuda_unpin(struct sluice_infer *infer, void *memory)
{
    (void)infer;
    cudaHostUnregister(memory);
}

const struct sluice_infer_ops sluice_infer_cuda_ops = {
    .size = sizeof(struct cuda_infer),
    .init = cuda_infer_init,
    .clear = cuda_infer_clear,
    .alloc_block = cuda_alloc_block,
    .free_block = cuda_free_block,
    .place = cuda_place,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .copy = cuda_copy,
    .measure = cuda_measure,
    .make_plan = cuda_make_plan,
    .clear_plan = cuda_clear_plan,
    .run = cuda_run,
};
