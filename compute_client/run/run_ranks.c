#include "compute_client/run/run_state.h"

#include "base/clock.h"
#include "base/quit.h"
#include "train/rendezvous.h"

void run_follow(struct run *run)
{
    run->is_follower = true;
    run->own.checkpoint = run->own.batch_log = NULL;
    run->own.has_print_freq = true;
    run->own.print_freq = 0;
}

sluice_status run_join_ranks(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    struct sluice_lockstep lockstep = {0};
    const sluice_status status =
        sluice_lockstep_init(&lockstep, o->rendezvous, (unsigned)o->rank, (unsigned)o->world_size,
                             sluice_clock_ns() + SLUICE_RENDEZVOUS_NS, err);
    if (status != SLUICE_OK)
        return status;
    pthread_mutex_lock(&run->lock);
    run->lockstep = lockstep;
    pthread_mutex_unlock(&run->lock);
    if (o->rank > 0)
        run_follow(run);
    return SLUICE_OK;
}

bool run_should_stop(struct run *run)
{
    if (!run->lockstep.word)
        return sluice_quit_requested();
    /* The end of a run is a request, too, but other ranks may still evaluate. */
    if (sluice_quit_signal())
        sluice_lockstep_stop(&run->lockstep);
    return sluice_lockstep_is_over(&run->lockstep);
}
