#include "train/cuda/train_cuda_state.h"

#include "train/points.h"
#include "train/tuning.h"

#include <stdlib.h>
#include <string.h>

/* Points of a step: where the compute stream stops at the gate.
 *
 *     full step   first      one point, before the input
 *                 second     the same; an event before each item
 *                 third      about SLUICE_TRAIN_POINTS points by the items' times, captured in the graph
 *
 * Batches of other sizes and evaluations stop before the same items.  The point comes before the
 * item's event, so that waiting is not measured.  Several ranks are refused, so that
 * no point parts a collective. */

static unsigned num_items(const struct cuda_trainer *cuda)
{
    return cuda_item_sgd(cuda) + 1;
}

sluice_status cuda_make_gate(struct cuda_trainer *cuda, struct sluice_err *err)
{
    if (!cuda->base.options.gate.point)
        return SLUICE_OK;
    cuda->is_point = calloc(num_items(cuda), sizeof(*cuda->is_point));
    if (!cuda->is_point)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a trainer");
    cuda->is_point[CUDA_ITEM_INPUT] = true;
    return SLUICE_OK;
}

static void destroy_starts(struct cuda_trainer *cuda)
{
    for (unsigned i = 0; cuda->item_starts && i <= num_items(cuda); i++) {
        if (cuda->item_starts[i])
            cudaEventDestroy(cuda->item_starts[i]);
    }
    free(cuda->item_starts);
    cuda->item_starts = NULL;
}

void cuda_forget_points(struct cuda_trainer *cuda)
{
    if (!cuda->is_point)
        return;
    destroy_starts(cuda);
    memset(cuda->is_point, 0, num_items(cuda) * sizeof(*cuda->is_point));
    cuda->is_point[CUDA_ITEM_INPUT] = true;
    cuda->is_measuring = cuda->has_points = false;
}

void cuda_clear_gate(struct cuda_trainer *cuda)
{
    destroy_starts(cuda);
    free(cuda->is_point);
    cuda->is_point = NULL;
}

sluice_status cuda_stop_before(struct cuda_trainer *cuda, unsigned item, struct sluice_err *err)
{
    const struct sluice_train_gate *gate = &cuda->base.options.gate;
    sluice_status status = SLUICE_OK;
    if (cuda->is_point && cuda->is_point[item])
        status = gate->point(gate->data, cuda->compute, err);
    if (!status && cuda->is_measuring)
        status = cuda_check(cudaEventRecord(cuda->item_starts[item], cuda->compute),
                            "cudaEventRecord", err);
    return status;
}

sluice_status cuda_begin_step(struct cuda_trainer *cuda, unsigned n, struct sluice_err *err)
{
    if (!cuda->is_point || cuda->has_points || cuda->item_starts || !cuda->is_warm ||
        n < cuda->base.options.batch_size)
        return SLUICE_OK;
    cuda->item_starts = calloc(num_items(cuda) + 1, sizeof(cudaEvent_t));
    if (!cuda->item_starts)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a trainer");
    sluice_status status = SLUICE_OK;
    for (unsigned i = 0; !status && i <= num_items(cuda); i++)
        status = cuda_check(cudaEventCreateWithFlags(&cuda->item_starts[i], cudaEventBlockingSync),
                            "cudaEventCreate", err);
    if (status)
        destroy_starts(cuda);
    cuda->is_measuring = !status;
    return status;
}

sluice_status cuda_end_step(struct cuda_trainer *cuda, struct sluice_err *err)
{
    if (!cuda->is_measuring)
        return SLUICE_OK;
    cuda->is_measuring = false;
    return cuda_check(cudaEventRecord(cuda->item_starts[num_items(cuda)], cuda->compute),
                      "cudaEventRecord", err);
}

sluice_status cuda_choose_points(struct cuda_trainer *cuda, struct sluice_err *err)
{
    const unsigned count = num_items(cuda);
    if (!cuda->is_point || cuda->has_points)
        return SLUICE_OK;
    double *seconds = calloc(count, sizeof(*seconds));
    if (!seconds)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a trainer");
    sluice_status status =
        cuda_check(cudaEventSynchronize(cuda->item_starts[count]), "computing", err);
    for (unsigned i = 0; !status && i < count; i++) {
        float ms = 0;
        status =
            cuda_check(cudaEventElapsedTime(&ms, cuda->item_starts[i], cuda->item_starts[i + 1]),
                       "cudaEventElapsedTime", err);
        seconds[i] = (double)ms * 1e-3;
    }
    if (!status) {
        sluice_points_choose(seconds, count, SLUICE_TRAIN_POINTS, cuda->is_point);
        destroy_starts(cuda);
        cuda->has_points = true;
    }
    free(seconds);
    return status;
}
