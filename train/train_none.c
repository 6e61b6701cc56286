#include "train/trainer_internal.h"

#include "base/clock.h"

/* A GPU of consume_rate samples a second that works on one batch at a time.
 *
 *     step:      |--- waits ---|returns
 *     device:    ..batch k-1...|...batch k........|
 *                              ^ done_ns before   ^ done_ns after
 *
 * A step returns when its batch could start, as uploading it would then be possible; the device
 * is idle only while nobody brings it a batch. */
struct none_trainer {
    struct sluice_trainer base;
    uint64_t done_ns; /* when the device has finished all it was given */
};

static sluice_status none_init(struct sluice_trainer *trainer, struct sluice_err *err)
{
    (void)trainer, (void)err;
    return SLUICE_OK;
}

static void none_clear(struct sluice_trainer *trainer)
{
    (void)trainer;
}

static sluice_status none_consume(struct sluice_trainer *trainer,
                                  const struct sluice_train_batch *batch, struct sluice_err *err)
{
    (void)err;
    struct none_trainer *none = (struct none_trainer *)trainer;
    const double rate = trainer->options.consume_rate;
    if (rate <= 0)
        return SLUICE_OK;

    uint64_t start_ns = sluice_clock_ns();
    if (start_ns < none->done_ns) {
        start_ns = none->done_ns; /* not the time of waking, or late wake-ups add up */
        sluice_clock_sleep_until(start_ns);
    }
    none->done_ns = start_ns + (uint64_t)(batch->n / rate * 1e9);
    return SLUICE_OK;
}

static sluice_status none_progress(struct sluice_trainer *trainer,
                                   struct sluice_train_totals *totals, struct sluice_err *err)
{
    (void)err;
    *totals = trainer->totals;
    return SLUICE_OK;
}

static sluice_status none_collect(struct sluice_trainer *trainer, struct sluice_err *err)
{
    (void)err;
    const struct none_trainer *none = (const struct none_trainer *)trainer;
    if (sluice_clock_ns() < none->done_ns)
        sluice_clock_sleep_until(none->done_ns);
    return SLUICE_OK;
}

const struct sluice_trainer_ops sluice_trainer_none_ops = {
    .size = sizeof(struct none_trainer),
    .init = none_init,
    .clear = none_clear,
    .step = none_consume,
    .evaluate = none_consume,
    .progress = none_progress,
    .collect = none_collect,
};
