#include "train/cuda/train_cuda_state.h"

/* Loss and hits of the steps, read without stopping the device.
 *
 *     compute stream   | step 0 |copy| step 1 |copy|zero| step 2 |copy|
 *     pinned memory            s0          s0+s1            s2
 *     host                                   ^ progress: a portion ends
 *
 * The device adds up a portion's sums; a copy of them follows each step's loss into a ring of
 * pinned snapshots, each with an event.  The host takes the snapshots in order, as far as their
 * events have passed, and adds up the portions.  So the totals are the same sums in the same order
 * however far the device was when somebody asked. */

sluice_status cuda_make_sums(struct cuda_trainer *cuda, struct sluice_err *err)
{
    void *pinned = NULL;
    sluice_status status =
        sluice_trainer_host_alloc(&cuda->base, NUM_SNAPSHOTS * sizeof(*cuda->pinned), &pinned, err);
    cuda->pinned = pinned;
    if (!status)
        status = cuda_alloc(cuda, cuda->base.options.batch_size * sizeof(*cuda->sample_sums),
                            &cuda->sample_sums, err);
    if (!status)
        status = cuda_alloc(cuda, sizeof(*cuda->sums), &cuda->sums, err);
    if (!status)
        status = cuda_alloc(cuda, sizeof(*cuda->is_bad), &cuda->is_bad, err);
    if (!status)
        status = cuda_alloc(cuda, sizeof(*cuda->flag), &cuda->flag, err);
    for (int i = 0; !status && i < NUM_SNAPSHOTS; i++)
        status =
            cuda_check(cudaEventCreateWithFlags(&cuda->snapshots[i].copied,
                                                cudaEventDisableTiming | cudaEventBlockingSync),
                       "cudaEventCreate", err);
    return status;
}

void cuda_clear_sums(struct cuda_trainer *cuda)
{
    for (int i = 0; i < NUM_SNAPSHOTS; i++) {
        if (cuda->snapshots[i].copied)
            cudaEventDestroy(cuda->snapshots[i].copied);
    }
    if (cuda->pinned)
        cudaFreeHost(cuda->pinned);
}

static void end_portion(struct cuda_trainer *cuda)
{
    cuda->base.totals.loss_sum += cuda->portion.loss;
    cuda->base.totals.top1 += cuda->portion.top1;
    cuda->base.totals.top5 += cuda->portion.top5;
    cuda->portion = (struct sluice_cuda_sums){0};
}

/* The oldest snapshot, whose event has passed. */
static void take_snapshot(struct cuda_trainer *cuda)
{
    const unsigned place = cuda->first_snapshot;
    const struct snapshot *snapshot = &cuda->snapshots[place];
    cuda->portion = cuda->pinned[place];
    cuda->known_samples = snapshot->samples;
    cuda->known_steps = snapshot->steps;
    if (snapshot->ends_portion)
        end_portion(cuda);
    cuda->first_snapshot = (place + 1) % NUM_SNAPSHOTS;
    cuda->num_snapshots--;
}

static sluice_status wait_snapshot(struct cuda_trainer *cuda, struct sluice_err *err)
{
    const struct snapshot *snapshot = &cuda->snapshots[cuda->first_snapshot];
    const sluice_status status =
        cuda_check(cudaEventSynchronize(snapshot->copied), "computing", err);
    if (!status)
        take_snapshot(cuda);
    return status;
}

sluice_status cuda_queue_snapshot(struct cuda_trainer *cuda, unsigned n, struct sluice_err *err)
{
    /* An upload waits for the step NUM_SLOTS before its own, so the ring is never full of steps
     * that are still to be computed, and this does not wait for long. */
    _Static_assert(NUM_SNAPSHOTS > NUM_SLOTS, "as many as can be under way, and this one");
    sluice_status status = SLUICE_OK;
    if (cuda->num_snapshots == NUM_SNAPSHOTS)
        status = wait_snapshot(cuda, err);
    const unsigned place = (cuda->first_snapshot + cuda->num_snapshots) % NUM_SNAPSHOTS;
    struct snapshot *snapshot = &cuda->snapshots[place];
    if (!status)
        status = cuda_check(cudaMemcpyAsync(&cuda->pinned[place], cuda->sums, sizeof(*cuda->sums),
                                            cudaMemcpyDeviceToHost, cuda->compute),
                            "cudaMemcpy", err);
    if (!status)
        status =
            cuda_check(cudaEventRecord(snapshot->copied, cuda->compute), "cudaEventRecord", err);
    if (status)
        return status;
    snapshot->samples = cuda->base.totals.samples + n;
    snapshot->steps = cuda->base.totals.steps + 1;
    snapshot->ends_portion = false;
    cuda->num_snapshots++;
    return SLUICE_OK;
}

static sluice_status queue_zero(struct cuda_trainer *cuda, struct sluice_err *err)
{
    return cuda_check(cudaMemsetAsync(cuda->sums, 0, sizeof(*cuda->sums), cuda->compute),
                      "cudaMemset", err);
}

sluice_status cuda_progress(struct sluice_trainer *trainer, struct sluice_train_totals *totals,
                            struct sluice_err *err)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    while (cuda->num_snapshots > 0) {
        const cudaError_t error = cudaEventQuery(cuda->snapshots[cuda->first_snapshot].copied);
        if (error == cudaErrorNotReady) {
            cudaGetLastError(); /* or the next launch reports it */
            break;
        }
        const sluice_status status = cuda_check(error, "computing", err);
        if (status)
            return status;
        take_snapshot(cuda);
    }
    *totals = (struct sluice_train_totals){
        .samples = cuda->known_samples,
        .steps = cuda->known_steps,
        .loss_sum = trainer->totals.loss_sum + cuda->portion.loss,
        .top1 = trainer->totals.top1 + cuda->portion.top1,
        .top5 = trainer->totals.top5 + cuda->portion.top5,
    };

    if (cuda->num_snapshots > 0) {
        const unsigned last = cuda->first_snapshot + cuda->num_snapshots - 1;
        cuda->snapshots[last % NUM_SNAPSHOTS].ends_portion = true;
    } else {
        end_portion(cuda);
    }
    return queue_zero(cuda, err);
}

sluice_status cuda_collect(struct sluice_trainer *trainer, struct sluice_err *err)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    sluice_status status = queue_zero(cuda, err);
    if (!status)
        status = cuda_wait(cuda, err);
    while (!status && cuda->num_snapshots > 0)
        status = wait_snapshot(cuda, err);
    if (status)
        return status;
    end_portion(cuda);
    cuda->known_samples = cuda->known_steps = 0;
    return SLUICE_OK;
}
