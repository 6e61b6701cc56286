#include "storage_server/disk_gate.h"

#include "base/clock.h"
#include "base/log.h"
#include "storage_server/disk_watch.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define MS 1000000ull

/* A read of others that comes while one of ours is under way waits for this much. */
#define PIECE (32u << 10)
/* Others that were seen may read again within this time: a program that reads twice a second is
 * one that waits for its reads. */
#define HOLD_NS (1000 * MS)
/* The longest that a piece waits for others: so many bytes a second are had in any case. */
#define PATIENCE_NS (20 * MS)
#define POLL_NS (MS / 5)
/* Between two looks while nobody waits for them, and between two moments of quiet for an exact
 * one.  Such a moment costs the disk about one read's time, which shall be no more than a 50th. */
#define LOOK_PERIOD_NS (20 * MS)
#define LEAST_QUIET_NS (100 * MS)
#define MOST_QUIET_NS (1000 * MS)
#define QUIET_PERIODS 50

struct sluice_disk_gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned num_reading;
    bool is_polite;   /* others read: one at a time */
    bool wants_quiet; /* the next one goes alone, to look */
    bool has_told;
    uint64_t others_ns; /* when they were last seen */
    uint64_t look_ns, quiet_ns, quiet_period_ns;
    uint64_t drain_ns; /* since when new ones wait for quiet, and for how many */
    unsigned num_drained;

    struct sluice_disk_watch *watch; /* of who is alone, or has the lock while nobody is */
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
    gate->quiet_period_ns = LEAST_QUIET_NS;
    gate->look_ns = gate->quiet_ns = sluice_clock_ns();
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

/* Nobody of us reads.  Waits for the reads that the disk has, which are others' (or such as the
 * kernel does ahead for us, which end soon); nothing but its counters tells when they are done.
 * True: others have read, or still do. */
static bool wait_for_others(struct sluice_disk_gate *gate)
{
    const uint64_t start_ns = sluice_clock_ns();
    const struct timespec poll = {.tv_nsec = POLL_NS};
    bool has_others = false;
    for (;;) {
        const struct sluice_disk_sight sight = sluice_disk_watch_look(gate->watch, true);
        has_others |= sight.has_others;
        if (sight.in_flight == 0)
            return has_others;
        if (sluice_clock_ns() - start_ns >= PATIENCE_NS)
            return true;
        (void)nanosleep(&poll, NULL);
    }
}

/* Under the lock: what was seen decides how the next ones go. */
static void decide(struct sluice_disk_gate *gate, bool has_others)
{
    const uint64_t now_ns = sluice_clock_ns();
    gate->look_ns = now_ns;
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

/* Under the lock, as soon as it is quiet. */
static void set_period(struct sluice_disk_gate *gate)
{
    const uint64_t num_reads = gate->num_drained ? gate->num_drained : 1;
    const uint64_t cost_ns = (sluice_clock_ns() - gate->drain_ns) / num_reads;
    const uint64_t period_ns = QUIET_PERIODS * cost_ns;
    gate->quiet_period_ns = period_ns < LEAST_QUIET_NS  ? LEAST_QUIET_NS
                            : period_ns > MOST_QUIET_NS ? MOST_QUIET_NS
                                                        : period_ns;
}

size_t sluice_disk_gate_take(struct sluice_disk_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    if (!gate->is_polite && !gate->wants_quiet) {
        const uint64_t now_ns = sluice_clock_ns();
        gate->wants_quiet = now_ns - gate->quiet_ns >= gate->quiet_period_ns;
        gate->drain_ns = now_ns;
        gate->num_drained = gate->num_reading;
        if (!gate->wants_quiet && now_ns - gate->look_ns >= LOOK_PERIOD_NS)
            decide(gate, sluice_disk_watch_look(gate->watch, false).has_others);
    }
    while ((gate->is_polite || gate->wants_quiet) && gate->num_reading)
        pthread_cond_wait(&gate->changed, &gate->lock);
    gate->num_reading++;
    if (gate->is_polite || gate->wants_quiet) {
        if (!gate->is_polite)
            set_period(gate);
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
