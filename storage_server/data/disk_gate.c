#include "storage_server/data/disk_gate.h"

#include "base/clock.h"
#include "base/log.h"
#include "storage_server/data/disk_watch.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define MS 1000000ull

/* Bytes of one piece.  A read of others that comes during one of ours waits for it. */
#define PIECE (32u << 10)
/* The time after a read of others in which they are expected to read again: a program that reads
 * twice a second has priority for each of its reads. */
#define HOLD_NS (1000 * MS)
/* The longest that a piece waits for others: PIECE / PATIENCE_NS is the least rate of ours. */
#define PATIENCE_NS (20 * MS)
/* Between two polls while we wait for the others' reads. */
#define WAIT_NS (MS / 5)
/* Between two polls while nobody waits for them. */
#define POLL_INTERVAL_NS (20 * MS)
/* Between two moments of quiet, for an exact poll.  Such a moment costs about the time of one read,
 * so it comes QUIET_INTERVALS read times after the last one, within these bounds: 2 % of the disk's
 * time. */
#define LEAST_QUIET_NS (100 * MS)
#define MOST_QUIET_NS (1000 * MS)
#define QUIET_INTERVALS 50

struct sluice_disk_gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned num_reading;
    bool is_polite;   /* others read: one at a time */
    bool wants_quiet; /* the next one goes alone, for an exact poll */
    bool has_told;
    uint64_t others_ns; /* when they were last seen */
    uint64_t poll_ns, quiet_ns, quiet_interval_ns;
    /* The wait for quiet: when it began, and how many reads were under way then. */
    uint64_t drain_ns;
    unsigned num_drained;

    struct sluice_disk_watch *watch; /* for the one who reads alone, else under the lock */
};

sluice_status sluice_disk_gate_open(const char *root, const char *folder,
                                    struct sluice_disk_gate **out, struct sluice_err *err)
{
    struct sluice_disk_gate *gate = calloc(1, sizeof(*gate));
    if (!gate)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to watch a disk");
    const sluice_status status = sluice_disk_watch_open(root, folder, &gate->watch, err);
    if (status != SLUICE_OK) {
        free(gate);
        return status;
    }
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->changed, NULL);
    gate->quiet_interval_ns = LEAST_QUIET_NS;
    gate->poll_ns = gate->quiet_ns = sluice_clock_ns();
    *out = gate;
    return SLUICE_OK;
}

void sluice_disk_gate_close(struct sluice_disk_gate *gate)
{
    if (!gate)
        return;
    sluice_disk_watch_close(gate->watch);
    pthread_cond_destroy(&gate->changed);
    pthread_mutex_destroy(&gate->lock);
    free(gate);
}

/* While none of ours reads: waits until the disk has no read in flight.  Those are others' (or the
 * kernel's read-ahead for us, which ends soon).  Only the counters tell when they are done, so this
 * polls.  True: others have read, or still do. */
static bool wait_for_others(struct sluice_disk_gate *gate)
{
    const uint64_t start_ns = sluice_clock_ns();
    const struct timespec pause = {.tv_nsec = WAIT_NS};
    bool has_others = false;
    for (;;) {
        const struct sluice_disk_activity seen = sluice_disk_watch_poll(gate->watch, true);
        has_others |= seen.has_others;
        if (seen.in_flight == 0)
            return has_others;
        if (sluice_clock_ns() - start_ns >= PATIENCE_NS)
            return true;
        (void)nanosleep(&pause, NULL);
    }
}

/* Under the lock: after a poll, how the next reads go. */
static void decide(struct sluice_disk_gate *gate, bool has_others)
{
    const uint64_t now_ns = sluice_clock_ns();
    gate->poll_ns = now_ns;
    if (has_others) {
        gate->others_ns = now_ns;
        gate->is_polite = true;
        if (!gate->has_told)
            sluice_log(SLUICE_LOG_INFO, "other programs read the disk: their reads come first");
        gate->has_told = true;
    } else if (gate->is_polite && now_ns - gate->others_ns >= HOLD_NS) {
        gate->is_polite = false;
    }
}

/* Under the lock, as soon as it is quiet: when to be quiet again. */
static void set_interval(struct sluice_disk_gate *gate)
{
    const uint64_t num_reads = gate->num_drained ? gate->num_drained : 1;
    const uint64_t cost_ns = (sluice_clock_ns() - gate->drain_ns) / num_reads;
    const uint64_t interval_ns = QUIET_INTERVALS * cost_ns;
    gate->quiet_interval_ns = interval_ns < LEAST_QUIET_NS  ? LEAST_QUIET_NS
                              : interval_ns > MOST_QUIET_NS ? MOST_QUIET_NS
                                                            : interval_ns;
}

size_t sluice_disk_gate_take(struct sluice_disk_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    if (!gate->is_polite && !gate->wants_quiet) {
        const uint64_t now_ns = sluice_clock_ns();
        gate->wants_quiet = now_ns - gate->quiet_ns >= gate->quiet_interval_ns;
        gate->drain_ns = now_ns;
        gate->num_drained = gate->num_reading;
        if (!gate->wants_quiet && now_ns - gate->poll_ns >= POLL_INTERVAL_NS)
            decide(gate, sluice_disk_watch_poll(gate->watch, false).has_others);
    }
    while ((gate->is_polite || gate->wants_quiet) && gate->num_reading)
        pthread_cond_wait(&gate->changed, &gate->lock);
    gate->num_reading++;
    if (gate->is_polite || gate->wants_quiet) {
        if (!gate->is_polite)
            set_interval(gate);
        pthread_mutex_unlock(&gate->lock);
        const bool has_others = wait_for_others(gate);
        pthread_mutex_lock(&gate->lock);
        gate->wants_quiet = false;
        gate->quiet_ns = sluice_clock_ns();
        decide(gate, has_others);
        if (!gate->is_polite)
            pthread_cond_broadcast(&gate->changed);
    }
    const size_t piece = gate->is_polite ? PIECE : SIZE_MAX;
    pthread_mutex_unlock(&gate->lock);
    return piece;
}

void sluice_disk_gate_give(struct sluice_disk_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    if (--gate->num_reading == 0)
        pthread_cond_signal(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}
