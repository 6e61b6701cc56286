#ifndef SLUICE_TRAIN_CUDA_TRAIN_CUDA_STATE_H
#define SLUICE_TRAIN_CUDA_TRAIN_CUDA_STATE_H

#include "train/trainer_internal.h"

#include "train/cuda/conv_cudnn.h"
#include "train/cuda/kernels_cuda.h"
#include "train/cuda/matmul_cublas.h"
#include "train/cuda/ranks_nccl.h"
#include "train/engine_cache.h"
#include "train/program.h"

/* Shared by the files of the CUDA trainer; nobody else includes this.
 *
 *     train_cuda.c          device, streams, and the order of a step
 *     train_cuda_memory.c   device memory and errors
 *     train_cuda_params.c   parameters, momentum and gradients, flat
 *     train_cuda_slots.c    batches on their way to the device
 *     train_cuda_engines.c  cuDNN's engines for a batch size
 *     train_cuda_arena.c    activations, gradients and workspaces
 *     train_cuda_stages.c   each stage forwards and backwards
 *     train_cuda_learn.c    gradients, their mean over ranks, SGD
 *     train_cuda_gate.c     points of a step where it stops at a gate
 *     train_cuda_sums.c     loss and hits on their way to the host
 *     infer_cuda.c          inference, by engines, arena and stages
 *
 * All of it runs on the thread that drives the trainer. */

/* The number of batch sizes whose engines are kept.  The last batch of an epoch is short, and
 * batches with skipped samples have other sizes. */
#define MAX_CONV_SETS 4

#define NUM_SLOTS 2

#define NUM_SNAPSHOTS 4

/* A stage's convolutions for one batch size; NULL for stages of other kinds. */
struct stage_convs {
    struct sluice_conv_plan *plans[SLUICE_NUM_CONV_PASSES];
    /* Forward adds the bias and does the relu; else a kernel does. */
    bool is_fused;
};

/* For batches of n. */
struct conv_set {
    unsigned n;
    uint64_t last_use;
    struct stage_convs *stages; /* by stage */
};

/* A step's inputs besides pixels, in one block of memory so that one copy brings them:
 *
 *     step      struct sluice_cuda_step
 *     labels    batch_size numbers
 *     rows      of a mixed batch, batch_size structs */
struct step_block {
    uint8_t *memory;
    struct sluice_cuda_step *step;
    uint32_t *labels;
    struct sluice_mix_row *rows;
};

/* A batch on its way.  Pixels are uploaded from the caller's memory, which is pinned, unless they
 * are on the device: then they are read in place. */
struct slot {
    uint8_t *pixels;
    struct step_block block, pinned;
    cudaEvent_t uploaded, consumed;
};

/* The open portion's sums after a step's loss, copied to pinned memory. */
struct snapshot {
    cudaEvent_t copied;
    /* Since the last collect, with this step. */
    uint64_t samples, steps;
    bool ends_portion;
};

/* A range of stages, whose gradients are the elements [0] to [1] of both groups of parameters. */
struct bucket {
    unsigned from, to;
    size_t filters[2], others[2];
};

struct cuda_trainer {
    struct sluice_trainer base;
    enum sluice_cuda_type type; /* of activations */
    bool is_tf32;
    bool is_inference; /* nothing that a backward pass or a slot needs is there */
    cudaStream_t copies, compute;
    cudaEvent_t done;
    cudnnHandle_t cudnn;
    struct sluice_matmul matmul;

    struct sluice_program program;
    uint8_t *arena;
    struct sluice_engine_cache engines;
    struct conv_set *sets[MAX_CONV_SETS];
    uint64_t uses;
    /* The step of a full batch behind its input: without and with a mixed loss.  NULL: not yet. */
    cudaGraphExec_t graphs[2];
    bool is_warm; /* a full batch was trained on */

    /* By item of a step (cuda_stop_before()): whether it has a point.  NULL: no gate. */
    bool *is_point;
    /* While points are not chosen: when each item of the second full step began, and its end. */
    cudaEvent_t *item_starts;
    bool is_measuring; /* this step */
    bool has_points;   /* they are chosen */

    struct slot slots[NUM_SLOTS];
    unsigned next_slot;
    /* Where kernels find what slots bring. */
    struct step_block block;
    size_t block_bytes;

    /* Every parameter at its offset: convolutions' filters first, then the other trained ones, then
     * running statistics. */
    float *values, *momenta, *grads;
    uint16_t *copies16;     /* of values, in bf16; NULL: activations are float32 */
    uint16_t *filter_grads; /* of the filters, in bf16, as copies16 */
    size_t *offsets;
    const size_t *offsets16; /* in copies16: the same, but for inference */
    size_t filter_count, trained_count, total_count;
    /* By layer index: BATCHNORM, of the batch. */
    float **means, **inverse_deviations;

    float *table;
    float *quantiles; /* of batch ops; NULL without */
    double *scratch;  /* for sums over columns */

    /* Backward; the ranks and what is behind them are NULL for one rank. */
    struct bucket *buckets;
    unsigned num_buckets;
    struct sluice_ranks *ranks;
    cudaStream_t summing;
    cudaEvent_t has_grads, has_means;

    /* On the device: by sample of the batch; of the open portion. */
    struct sluice_cuda_sums *sample_sums, *sums;
    /* A loss was not finite: nothing is learnt from then on, and the input stays. */
    uint32_t *is_bad;
    uint32_t *flag; /* of find_nonfinite() */
    /* The last step's batch: size, and whether it trained. */
    unsigned last_n;
    bool last_is_training;

    /* A ring of snapshots on their way to the host. */
    struct snapshot snapshots[NUM_SNAPSHOTS];
    struct sluice_cuda_sums *pinned;
    unsigned first_snapshot, num_snapshots;
    /* The results of the last snapshot that arrived. */
    struct sluice_cuda_sums portion;
    uint64_t known_samples, known_steps;

    void **owned;
    size_t num_owned, max_owned;
    size_t owned_bytes;
};

/* Convert an error of CUDA or cuDNN to a status; `what` names the call or the operation. */
SLUICE_MUST_USE sluice_status cuda_check(cudaError_t error, const char *what,
                                         struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_check_cudnn(cudnnStatus_t error, const char *what,
                                               struct sluice_err *err);

/* Waits until everything queued is computed.  The thread sleeps (it does not spin): the CPUs have
 * samples to prepare. */
SLUICE_MUST_USE sluice_status cuda_wait(struct cuda_trainer *cuda, struct sluice_err *err);

/* Zeroed device memory, freed with the trainer. */
SLUICE_MUST_USE sluice_status cuda_alloc(struct cuda_trainer *cuda, size_t bytes, void *memory,
                                         struct sluice_err *err);

/* Opens the GPU of the options, and the libraries; sets the precision. */
SLUICE_MUST_USE sluice_status cuda_open(struct cuda_trainer *cuda, struct sluice_err *err);
void cuda_clear(struct sluice_trainer *trainer); /* also after a failure */

/* Once, in this order, on an open device. */
SLUICE_MUST_USE sluice_status cuda_make_params(struct cuda_trainer *cuda, struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_make_slots(struct cuda_trainer *cuda, struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_make_sums(struct cuda_trainer *cuda, struct sluice_err *err);
/* Before the slots.  SLUICE_E_NO_MEMORY names the largest batch that would fit; so does make_arena. */
SLUICE_MUST_USE sluice_status cuda_check_batch(struct cuda_trainer *cuda, struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_make_arena(struct cuda_trainer *cuda, struct sluice_err *err);
/* Finds the engines of full batches, and places all buffers in an arena that is not there yet. */
SLUICE_MUST_USE sluice_status cuda_plan_arena(struct cuda_trainer *cuda, struct sluice_err *err);
void cuda_clear_arena(struct cuda_trainer *cuda); /* idle, without convolutions */
void cuda_clear_slots(struct cuda_trainer *cuda); /* idle */
void cuda_clear_sums(struct cuda_trainer *cuda);

/* Engines */

/* Convolutions for batches of n; the trainer keeps the MAX_CONV_SETS used last.  The first set is
 * for full batches: it finds the engines, in the cache or by timing, and says how large workspaces
 * must be; later ones take what fits into those. */
SLUICE_MUST_USE sluice_status cuda_get_convs(struct cuda_trainer *cuda, unsigned n,
                                             struct conv_set **out, struct sluice_err *err);
void cuda_clear_convs(struct cuda_trainer *cuda);
/* From the cache's file, and to it if something was added. */
SLUICE_MUST_USE sluice_status cuda_open_engines(struct cuda_trainer *cuda, struct sluice_err *err);
void cuda_save_engines(struct cuda_trainer *cuda);

/* Parameters */

/* The parameter's place on the device. */
float *cuda_array(const struct cuda_trainer *cuda, enum sluice_array array, int param);
/* Its value as layers of the activations' type read it. */
void *cuda_weight(const struct cuda_trainer *cuda, int param);
/* Elements in memory: the first filter has zeros for the input's further channels. */
size_t cuda_stored_count(const struct cuda_trainer *cuda, unsigned param);
/* Channels of the input in memory: 16 bytes, which is what tensor cores' engines take. */
static inline uint32_t cuda_input_channels(const struct cuda_trainer *cuda)
{
    return cuda->type == SLUICE_CUDA_BF16 ? 8 : 4;
}
/* A parameter to or from the host, convolutions' filters as O x I x H x W there. */
SLUICE_MUST_USE sluice_status cuda_read(struct sluice_trainer *trainer, enum sluice_array array,
                                        unsigned param, float *out, struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_write(struct sluice_trainer *trainer, enum sluice_array array,
                                         unsigned param, const float *in, struct sluice_err *err);

/* Slots */

/* Queues the upload of the batch into the slot, of rows on the device the labels alone, and makes
 * the compute stream wait for it. */
SLUICE_MUST_USE sluice_status cuda_upload(struct cuda_trainer *cuda,
                                          const struct sluice_train_batch *batch, struct slot *slot,
                                          struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_host_alloc(struct sluice_trainer *trainer, size_t bytes,
                                              void **memory, struct sluice_err *err);
void cuda_host_free(struct sluice_trainer *trainer, void *memory);
SLUICE_MUST_USE sluice_status cuda_measure_upload(struct sluice_trainer *trainer,
                                                  double *bytes_per_s, struct sluice_err *err);

/* Sums */

/* Behind the loss of a step of n samples. */
SLUICE_MUST_USE sluice_status cuda_queue_snapshot(struct cuda_trainer *cuda, unsigned n,
                                                  struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_progress(struct sluice_trainer *trainer,
                                            struct sluice_train_totals *totals,
                                            struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_collect(struct sluice_trainer *trainer, struct sluice_err *err);

/* Stages */

static inline void *cuda_buffer(const struct cuda_trainer *cuda, uint32_t buffer)
{
    if (buffer == SLUICE_NO_BUFFER)
        return NULL;
    return cuda->arena + cuda->program.buffers[buffer].offset;
}

/* Queue the stages [from, to) for the set's batch size, forwards in this order, backwards in the
 * reverse one.  The input is in the arena's first buffer. */
SLUICE_MUST_USE sluice_status cuda_forward(struct cuda_trainer *cuda, const struct conv_set *convs,
                                           unsigned from, unsigned to, bool is_training,
                                           struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_backward(struct cuda_trainer *cuda, const struct conv_set *convs,
                                            unsigned from, unsigned to, struct sluice_err *err);

/* The gate */

/* The items of a step, in the order in which they run: the input, the stages forwards, the loss, the
 * stages backwards, SGD. */
enum { CUDA_ITEM_INPUT = 0 };
static inline unsigned cuda_item_forward(unsigned stage)
{
    return 1 + stage;
}
static inline unsigned cuda_item_loss(const struct cuda_trainer *cuda)
{
    return 1 + cuda->program.num_stages;
}
static inline unsigned cuda_item_backward(const struct cuda_trainer *cuda, unsigned stage)
{
    return 1 + 2 * cuda->program.num_stages - stage;
}
static inline unsigned cuda_item_sgd(const struct cuda_trainer *cuda)
{
    return 2 + 2 * cuda->program.num_stages;
}

/* Behind the arena. */
SLUICE_MUST_USE sluice_status cuda_make_gate(struct cuda_trainer *cuda, struct sluice_err *err);
/* Each step has one point from then on, until a full one is measured again. */
void cuda_forget_points(struct cuda_trainer *cuda);
void cuda_clear_gate(struct cuda_trainer *cuda);
/* Puts a point on the stream, if there is one before this item. */
SLUICE_MUST_USE sluice_status cuda_stop_before(struct cuda_trainer *cuda, unsigned item,
                                               struct sluice_err *err);
/* Before the first item of a step that trains on n samples, and behind the last one of a step that
 * is not a graph: the second full step is measured. */
SLUICE_MUST_USE sluice_status cuda_begin_step(struct cuda_trainer *cuda, unsigned n,
                                              struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_end_step(struct cuda_trainer *cuda, struct sluice_err *err);
/* By the step that was measured, which it waits for; nothing if they are chosen. */
SLUICE_MUST_USE sluice_status cuda_choose_points(struct cuda_trainer *cuda, struct sluice_err *err);

/* Learning */

/* Behind the arena, with the ranks open. */
SLUICE_MUST_USE sluice_status cuda_make_buckets(struct cuda_trainer *cuda, struct sluice_err *err);
void cuda_clear_buckets(struct cuda_trainer *cuda);
/* Queues everything behind the loss: gradients, their mean over the ranks, SGD.  convs NULL: this
 * rank has no rows, and only takes part in the mean. */
SLUICE_MUST_USE sluice_status cuda_learn(struct cuda_trainer *cuda, const struct conv_set *convs,
                                         struct sluice_err *err);

#endif
