#include "train/cuda/train_cuda_state.h"

#include "base/log.h"
#include "host/cache_folder.h"
#include "train/tuning.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Engines for full batches are timed once: cuDNN's own order is often right, but not always.  Those
 * for other sizes are cuDNN's first. */

#define NUM_RUNS 3

/* Device memory for the arrays of the convolution that is timed. */
struct bench {
    uint8_t *memory;
    size_t array_bytes; /* of each of x, w, y */
    cudaEvent_t begin, end;
};

static struct sluice_conv_problem problem_of(const struct cuda_trainer *cuda,
                                             const struct sluice_stage *stage, unsigned n,
                                             enum sluice_conv_pass pass, bool is_fused)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[stage->layer];
    const bool has_bias = is_fused && pass == SLUICE_CONV_FORWARD && layer->bias >= 0;
    struct sluice_conv_problem problem = {
        .pass = pass,
        .type = cuda->type,
        .filter_type = cuda->type,
        .is_tf32 = cuda->is_tf32,
        .has_bias = has_bias,
        .has_relu = has_bias && stage->has_relu,
        .n = n,
        .in = layer->in,
        .out = layer->out,
        .kernel = layer->kernel,
        .stride = layer->stride,
        .pad = layer->pad,
    };
    if (layer->in.c == 3)
        problem.in.c = cuda_input_channels(cuda);
    return problem;
}

/* Cache */

static sluice_status cache_path(const struct cuda_trainer *cuda, char path[SLUICE_MAX_PATH_BYTES],
                                struct sluice_err *err)
{
    if (cuda->base.options.engine_cache) {
        snprintf(path, SLUICE_MAX_PATH_BYTES, "%s", cuda->base.options.engine_cache);
        return SLUICE_OK;
    }
    char folder[SLUICE_MAX_PATH_BYTES];
    if (!sluice_cache_folder(folder))
        return sluice_fail(err, SLUICE_E_INVALID, "neither XDG_CACHE_HOME nor HOME names a folder");
    const sluice_status status = sluice_mkdirs(folder, err);
    return status ? status : sluice_path_in(folder, "engines", path, err);
}

sluice_status cuda_open_engines(struct cuda_trainer *cuda, struct sluice_err *err)
{
    struct cudaDeviceProp properties;
    sluice_status status = cuda_check(cudaGetDeviceProperties(&properties, cuda->base.options.gpu),
                                      "cudaGetDeviceProperties", err);
    if (status)
        return status;
    snprintf(cuda->engines.owner, sizeof(cuda->engines.owner), "cudnn %zu, %.60s",
             cudnnGetVersion(), properties.name);
    char path[SLUICE_MAX_PATH_BYTES];
    struct sluice_err inner = {{0}};
    if (cuda->base.options.is_deterministic)
        return SLUICE_OK;
    if (cache_path(cuda, path, &inner) || sluice_engine_cache_read(&cuda->engines, path, &inner))
        sluice_log(SLUICE_LOG_WARN, "engine cache: %s; engines are timed anew", inner.text);
    return SLUICE_OK;
}

void cuda_save_engines(struct cuda_trainer *cuda)
{
    char path[SLUICE_MAX_PATH_BYTES];
    struct sluice_err inner = {{0}};
    if (!cuda->engines.is_changed || cuda->base.options.is_deterministic)
        return;
    if (cache_path(cuda, path, &inner) || sluice_engine_cache_write(&cuda->engines, path, &inner))
        sluice_log(SLUICE_LOG_WARN, "engine cache: %s; the next start times engines again",
                   inner.text);
}

/* Timing */

static void close_bench(struct bench *bench)
{
    if (bench->memory)
        cudaFree(bench->memory);
    if (bench->begin)
        cudaEventDestroy(bench->begin);
    if (bench->end)
        cudaEventDestroy(bench->end);
    memset(bench, 0, sizeof(*bench));
}

/* Random numbers, as zeros are multiplied in less time.  Doubled from a first part of the host's. */
static sluice_status fill(struct cuda_trainer *cuda, uint8_t *memory, size_t bytes,
                          struct sluice_err *err)
{
    static uint16_t pattern[1 << 16]; /* of 1 to 2 in bf16, with random low bits in float32 */
    uint32_t state = 1;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(pattern); i++) {
        state = state * 1664525u + 1013904223u;
        pattern[i] = (uint16_t)(0x3f80u | (state >> 16 & 0x807fu));
    }
    size_t filled = bytes < sizeof(pattern) ? bytes : sizeof(pattern);
    sluice_status status =
        cuda_check(cudaMemcpyAsync(memory, pattern, filled, cudaMemcpyHostToDevice, cuda->compute),
                   "cudaMemcpy", err);
    while (!status && filled < bytes) {
        const size_t more = filled < bytes - filled ? filled : bytes - filled;
        status = cuda_check(
            cudaMemcpyAsync(memory + filled, memory, more, cudaMemcpyDeviceToDevice, cuda->compute),
            "cudaMemcpy", err);
        filled += more;
    }
    return status;
}

/* Without memory for it, engines are not timed. */
static sluice_status open_bench(struct cuda_trainer *cuda, unsigned n, struct bench *bench,
                                struct sluice_err *err)
{
    for (unsigned s = 0; s < cuda->program.num_stages; s++) {
        const struct sluice_stage *stage = &cuda->program.stages[s];
        if (stage->kind != SLUICE_LAYER_CONV)
            continue;
        const struct sluice_conv_problem p = problem_of(cuda, stage, n, SLUICE_CONV_FORWARD, false);
        const size_t elements[] = {n * sluice_shape_elements(p.in),
                                   n * sluice_shape_elements(p.out),
                                   (size_t)p.out.c * p.in.c * p.kernel * p.kernel + p.out.c};
        for (size_t i = 0; i < SLUICE_ARRAY_LEN(elements); i++) {
            if (elements[i] * sizeof(float) > bench->array_bytes)
                bench->array_bytes = elements[i] * sizeof(float);
        }
    }
    if (cuda->type == SLUICE_CUDA_BF16)
        bench->array_bytes /= 2;
    bench->array_bytes = (bench->array_bytes + 255) / 256 * 256;
    if (cudaMalloc((void **)&bench->memory, 3 * bench->array_bytes + SLUICE_TRAIN_ENGINE_BYTES)) {
        cudaGetLastError();
        bench->memory = NULL;
        return SLUICE_OK;
    }
    sluice_status status = cuda_check(cudaEventCreate(&bench->begin), "cudaEventCreate", err);
    if (!status)
        status = cuda_check(cudaEventCreate(&bench->end), "cudaEventCreate", err);
    return status ? status : fill(cuda, bench->memory, 3 * bench->array_bytes, err);
}

/* The least of NUM_RUNS times, in ms; FLT_MAX: it does not run. */
static float time_plan(struct cuda_trainer *cuda, const struct bench *bench,
                       const struct sluice_conv_problem *problem,
                       const struct sluice_conv_plan *plan)
{
    uint8_t *at = bench->memory;
    const struct sluice_conv_arrays arrays = {
        .x = at,
        .w = at + bench->array_bytes,
        .y = at + 2 * bench->array_bytes,
        .bias = problem->has_bias ? at : NULL,
        .workspace = at + 3 * bench->array_bytes,
    };
    struct sluice_err ignored;
    float best = FLT_MAX;
    for (int run = 0; run <= NUM_RUNS; run++) {
        float ms;
        if (cudaEventRecord(bench->begin, cuda->compute) ||
            sluice_conv_run(cuda->cudnn, plan, &arrays, &ignored) ||
            cudaEventRecord(bench->end, cuda->compute) || cudaEventSynchronize(bench->end) ||
            cudaEventElapsedTime(&ms, bench->begin, bench->end)) {
            cudaGetLastError();
            return FLT_MAX;
        }
        if (run > 0 && ms < best)
            best = ms;
    }
    return best;
}

/* The first engine that solves the problem in `workspace` bytes, or the fastest of the first ones if
 * there is a bench.  *plan is NULL if cuDNN has none. */
static sluice_status choose(struct cuda_trainer *cuda, const struct sluice_conv_problem *problem,
                            const struct bench *bench, size_t workspace,
                            struct sluice_engine *chosen, struct sluice_conv_plan **plan,
                            struct sluice_err *err)
{
    struct sluice_engine engines[SLUICE_CONV_MAX_ENGINES];
    struct sluice_err ignored;
    size_t count = 0;
    float best = FLT_MAX;
    *plan = NULL;
    const sluice_status status = sluice_conv_list(cuda->cudnn, problem, engines, &count, err);
    if (status)
        return status;
    for (size_t i = 0, tried = 0;
         i < count && (!*plan || (bench && tried < SLUICE_TRAIN_ENGINES_TIMED)); i++) {
        struct sluice_conv_plan *candidate = NULL;
        if (sluice_conv_plan_create(cuda->cudnn, problem, &engines[i], &candidate, &ignored))
            continue;
        tried++;
        const bool fits = sluice_conv_plan_workspace(candidate) <= workspace;
        const float ms = fits && bench ? time_plan(cuda, bench, problem, candidate) : 0;
        if (!fits || ms >= best) {
            sluice_conv_plan_destroy(candidate);
            continue;
        }
        sluice_conv_plan_destroy(*plan);
        *plan = candidate;
        *chosen = engines[i];
        best = ms;
    }
    return SLUICE_OK;
}

/* Plans one problem; *plan stays NULL if cuDNN has no engine for it.  bench: NULL where engines are
 * not timed. */
static sluice_status plan_problem(struct cuda_trainer *cuda,
                                  const struct sluice_conv_problem *problem,
                                  const struct bench *bench, size_t workspace,
                                  struct sluice_conv_plan **plan, struct sluice_err *err)
{
    char key[SLUICE_ENGINE_KEY_LEN];
    struct sluice_err ignored;
    struct sluice_engine chosen;
    sluice_conv_key(problem, key, sizeof(key));
    const struct sluice_engine *known = sluice_engine_cache_find(&cuda->engines, key);
    if (known && !sluice_conv_plan_create(cuda->cudnn, problem, known, plan, &ignored)) {
        if (sluice_conv_plan_workspace(*plan) <= workspace)
            return SLUICE_OK;
        sluice_conv_plan_destroy(*plan);
        *plan = NULL;
    }
    const sluice_status status = choose(cuda, problem, bench, workspace, &chosen, plan, err);
    if (status || !*plan || !bench)
        return status;
    return sluice_engine_cache_put(&cuda->engines, key, &chosen, err);
}

/* Sets of plans */

static void destroy_set(struct cuda_trainer *cuda, struct conv_set *set)
{
    if (!set)
        return;
    for (unsigned s = 0; set->stages && s < cuda->program.num_stages; s++) {
        for (int pass = 0; pass < SLUICE_NUM_CONV_PASSES; pass++)
            sluice_conv_plan_destroy(set->stages[s].plans[pass]);
    }
    free(set->stages);
    free(set);
}

void cuda_clear_convs(struct cuda_trainer *cuda)
{
    for (int i = 0; i < MAX_CONV_SETS; i++) {
        destroy_set(cuda, cuda->sets[i]);
        cuda->sets[i] = NULL;
    }
}

/* Bytes of workspace for the pass of a set that is not the first. */
static size_t given_workspace(const struct cuda_trainer *cuda, const struct sluice_stage *stage,
                              enum sluice_conv_pass pass)
{
    const uint32_t buffer = stage->workspace[pass != SLUICE_CONV_FORWARD];
    return buffer == SLUICE_NO_BUFFER ? 0 : cuda->program.buffers[buffer].bytes;
}

static sluice_status plan_stage(struct cuda_trainer *cuda, struct sluice_stage *stage, unsigned n,
                                const struct bench *bench, struct stage_convs *convs,
                                struct sluice_err *err)
{
    const bool is_first_set = !cuda->arena;
    sluice_status status = SLUICE_OK;
    for (int pass = 0; !status && pass < SLUICE_NUM_CONV_PASSES; pass++) {
        if (pass != SLUICE_CONV_FORWARD && cuda->is_inference)
            break;
        if (pass == SLUICE_CONV_BACKWARD_DATA && stage->diff_in == SLUICE_NO_BUFFER)
            continue;
        const size_t workspace = is_first_set
                                     ? SLUICE_TRAIN_ENGINE_BYTES
                                     : given_workspace(cuda, stage, (enum sluice_conv_pass)pass);
        for (int fused = pass == SLUICE_CONV_FORWARD; fused >= 0 && !convs->plans[pass]; fused--) {
            const struct sluice_conv_problem problem =
                problem_of(cuda, stage, n, (enum sluice_conv_pass)pass, fused);
            status = plan_problem(cuda, &problem, bench, workspace, &convs->plans[pass], err);
            if (status)
                return status;
            convs->is_fused |= convs->plans[pass] && problem.has_bias;
        }
        if (!convs->plans[pass]) {
            char name[64];
            sluice_stage_name(&cuda->base.net, stage, name, sizeof(name));
            return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                               "device cuda: cuDNN has no deterministic engine for %s, batch %u",
                               name, n);
        }
        if (is_first_set)
            stage->workspace_bytes[pass] = sluice_conv_plan_workspace(convs->plans[pass]);
    }
    return status;
}

static sluice_status make_set(struct cuda_trainer *cuda, unsigned n, struct conv_set **out,
                              struct sluice_err *err)
{
    struct bench bench = {.memory = NULL};
    struct conv_set *set = calloc(1, sizeof(*set));
    if (!set || !(set->stages = calloc(cuda->program.num_stages, sizeof(*set->stages)))) {
        free(set);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a trainer");
    }
    set->n = n;
    sluice_status status = SLUICE_OK;
    if (!cuda->arena && !cuda->base.options.is_deterministic)
        status = open_bench(cuda, n, &bench, err);
    for (unsigned s = 0; !status && s < cuda->program.num_stages; s++) {
        struct sluice_stage *stage = &cuda->program.stages[s];
        if (stage->kind == SLUICE_LAYER_CONV)
            status = plan_stage(cuda, stage, n, bench.memory ? &bench : NULL, &set->stages[s], err);
    }
    close_bench(&bench);
    if (status)
        destroy_set(cuda, set);
    else
        *out = set;
    return status;
}

sluice_status cuda_get_convs(struct cuda_trainer *cuda, unsigned n, struct conv_set **out,
                             struct sluice_err *err)
{
    struct conv_set **place = &cuda->sets[1]; /* the first set, for full batches, stays */
    cuda->uses++;
    for (int i = 0; i < MAX_CONV_SETS; i++) {
        if (cuda->sets[i] && cuda->sets[i]->n == n) {
            cuda->sets[i]->last_use = cuda->uses;
            *out = cuda->sets[i];
            return SLUICE_OK;
        }
        if (i > 0 && (!cuda->sets[i] || (*place && cuda->sets[i]->last_use < (*place)->last_use)))
            place = &cuda->sets[i];
    }
    if (!cuda->sets[0])
        place = &cuda->sets[0];
    struct conv_set *set = NULL;
    sluice_status status = make_set(cuda, n, &set, err);
    if (status)
        return status;
    if (*place) {
        status = cuda_wait(cuda, err); /* the device may use it */
        destroy_set(cuda, *place);
    }
    *place = set;
    set->last_use = cuda->uses;
    *out = set;
    cuda_save_engines(cuda);
    return status;
}
