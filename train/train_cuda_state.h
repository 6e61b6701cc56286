#ifndef SLUICE_TRAIN_TRAIN_CUDA_STATE_H
#define SLUICE_TRAIN_TRAIN_CUDA_STATE_H

#include "train/trainer_internal.h"

#include "train/kernels_cuda.h"

#include <cublas_v2.h>
#include <cudnn.h>

/* Shared by the files of the CUDA trainer; nobody else includes this.
 *
 *     train_cuda.c         device, streams, and the order of a step
 *     train_cuda_memory.c  parameters, tensors, staging slots
 *     train_cuda_plan.c    cuDNN's descriptors and algorithms for a batch size
 *     train_cuda_layers.c  each layer forwards and backwards
 *     train_cuda_sums.c    loss and hits on their way to the host
 *
 * All of it runs on the thread that drives the trainer. */

/* The number of batch sizes whose plans are kept.  The last batch of an epoch is short, and batches
 * with skipped samples have other sizes. */
#define MAX_PLANS 4

#define NUM_SLOTS 2

#define NUM_SNAPSHOTS 4

enum pass { PASS_FORWARD, PASS_BACKWARD_DATA, PASS_BACKWARD_FILTER, NUM_PASSES };

/* An algorithm for a pass; `algo` is of the pass's own enum. */
struct conv_pass {
    int algo;
    cudnnMathType_t math;
    size_t workspace;
    bool is_deterministic;
};

/* The properties of an algorithm of cuDNN; its results for the three passes have this in common. */
struct cuda_candidate {
    int algo;
    cudnnStatus_t status;
    size_t memory;
    cudnnDeterminism_t determinism;
    cudnnMathType_t math;
};

/* All NULL for layers other than convolutions. */
struct conv_plan {
    cudnnTensorDescriptor_t in, out;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t conv;
    struct conv_pass passes[NUM_PASSES];
};

/* For batches of n. */
struct plan {
    unsigned n;
    uint64_t last_use;
    unsigned num_layers;
    struct conv_plan layers[];
};

/* Device memory of a batch.  Pixels are uploaded from the caller's memory, which is pinned, unless
 * they are on the device: then they are read in place.  Labels are few, and may be in pageable
 * memory, from which a copy would block the host: they are copied to `pinned_labels` first, which
 * is free again at `uploaded`, that is before the step returns. */
struct slot {
    uint8_t *pixels;
    uint32_t *labels;
    uint32_t *pinned_labels;
    struct sluice_mix_row *rows, *pinned_rows; /* with batch ops, as the labels */
    cudaEvent_t uploaded, consumed;
};

/* The open portion's sums after a step's loss, copied to pinned memory. */
struct snapshot {
    cudaEvent_t copied;
    /* Since the last collect, with this step. */
    uint64_t samples, steps;
    bool ends_portion;
};

struct cuda_trainer {
    struct sluice_trainer base;
    cudaStream_t copies, compute;
    cudaEvent_t done;
    cudnnHandle_t cudnn;
    cublasHandle_t cublas;

    struct plan *plans[MAX_PLANS];
    uint64_t uses;
    struct slot slots[NUM_SLOTS];
    unsigned next_slot;

    /* Every parameter at its offset; the trained ones come first, in trained_count floats. */
    float *values, *momenta, *grads;
    size_t *offsets;
    size_t trained_count;

    float *table;
    float *quantiles; /* of batch ops; NULL without */
    /* For sums over columns. */
    double *scratch;
    /* Workspace of the convolutions, one after the other. */
    void *workspace;
    size_t workspace_bytes;

    /* By tensor index, for batch_size samples; several may share one array.  Tensor 0 has no
     * gradient. */
    float **tensors;
    float **diffs;
    unsigned *num_readers;
    bool *has_diff; /* see cuda_backward_layer() */
    /* By layer index: MAXPOOL, where the maximum was. */
    uint8_t **which;
    /* By layer index: BATCHNORM, of the batch. */
    float **means;
    float **inverse_deviations;

    /* On the device: by sample of the batch; of the open portion. */
    struct sluice_cuda_sums *sample_sums, *sums;

    /* A ring of snapshots on their way to the host. */
    struct snapshot snapshots[NUM_SNAPSHOTS];
    struct sluice_cuda_sums *pinned;
    unsigned first_snapshot, num_snapshots;
    /* The results of the last snapshot that arrived. */
    struct sluice_cuda_sums portion;
    uint64_t known_samples, known_steps;

    void **owned;
    size_t num_owned, max_owned;
};

/* Convert an error of CUDA or cuDNN to a status; `what` names the call or the operation. */
SLUICE_MUST_USE sluice_status cuda_check(cudaError_t error, const char *what,
                                         struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_check_cudnn(cudnnStatus_t error, const char *what,
                                               struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_check_cublas(cublasStatus_t error, const char *what,
                                                struct sluice_err *err);

/* Waits until everything queued is computed.  The thread sleeps (it does not spin): the CPUs have
 * samples to prepare. */
SLUICE_MUST_USE sluice_status cuda_wait(struct cuda_trainer *cuda, struct sluice_err *err);

/* The arrays by parameter, tensor and layer, which cuda_clear_tables() frees. */
SLUICE_MUST_USE sluice_status cuda_make_tables(struct cuda_trainer *cuda, struct sluice_err *err);
void cuda_clear_tables(struct cuda_trainer *cuda);
/* Once, in this order, on an open device, with tables.  What they allocate is freed with the trainer. */
SLUICE_MUST_USE sluice_status cuda_make_params(struct cuda_trainer *cuda, struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_make_tensors(struct cuda_trainer *cuda, struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_make_slots(struct cuda_trainer *cuda, struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_make_sums(struct cuda_trainer *cuda, struct sluice_err *err);
void cuda_clear_sums(struct cuda_trainer *cuda); /* idle */

/* Behind the loss of a step of n samples. */
SLUICE_MUST_USE sluice_status cuda_queue_snapshot(struct cuda_trainer *cuda, unsigned n,
                                                  struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_progress(struct sluice_trainer *trainer,
                                            struct sluice_train_totals *totals,
                                            struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_collect(struct sluice_trainer *trainer, struct sluice_err *err);

/* sluice_trainer_measure_upload(), into the first slot. */
SLUICE_MUST_USE sluice_status cuda_measure_upload(struct sluice_trainer *trainer,
                                                  double *bytes_per_s, struct sluice_err *err);

/* The parameter's place on the device. */
float *cuda_array(const struct cuda_trainer *cuda, enum sluice_array array, unsigned param);
/* A parameter to or from the host, convolutions' filters as O x I x H x W there. */
SLUICE_MUST_USE sluice_status cuda_read(struct sluice_trainer *trainer, enum sluice_array array,
                                        unsigned param, float *out, struct sluice_err *err);
SLUICE_MUST_USE sluice_status cuda_write(struct sluice_trainer *trainer, enum sluice_array array,
                                         unsigned param, const float *in, struct sluice_err *err);

/* The plan for batches of n; the trainer keeps it, and the MAX_PLANS used last. */
SLUICE_MUST_USE sluice_status cuda_get_plan(struct cuda_trainer *cuda, unsigned n,
                                            struct plan **out, struct sluice_err *err);
void cuda_plan_destroy(struct plan *plan); /* NULL is fine */

/* The first usable candidate, in cuDNN's order of expected time.  Deterministic candidates come
 * before all others, so that the same run gives the same weights again.  SLUICE_E_UNSUPPORTED: no
 * candidate is usable.  Pure. */
SLUICE_MUST_USE sluice_status cuda_pick(const struct cuda_candidate *candidates, int count,
                                        bool allow_tf32, struct conv_pass *out,
                                        struct sluice_err *err);

/* Queues layer i for plan->n samples: tensors[i + 1] from its inputs. */
SLUICE_MUST_USE sluice_status cuda_forward_layer(struct cuda_trainer *cuda, struct plan *plan,
                                                 unsigned i, bool is_training,
                                                 struct sluice_err *err);
/* The gradients of its inputs and parameters from diffs[i + 1].
 * has_diff[t]: a later reader of tensor t has written its gradient; other readers add to it. */
SLUICE_MUST_USE sluice_status cuda_backward_layer(struct cuda_trainer *cuda, struct plan *plan,
                                                  unsigned i, bool *has_diff,
                                                  struct sluice_err *err);

#endif
