#ifndef SLUICE_COMPUTE_CLIENT_RATE_WATCH_H
#define SLUICE_COMPUTE_CLIENT_RATE_WATCH_H

#include "compute_client/chooser.h"
#include "profiler/planner.h"

#include <stddef.h>
#include <stdint.h>

/* What the link, the storage node's cores, this node's and the trainer can do, from what they did.
 *
 * A resource shows what it can do only while something waits for it.  Each row says
 * when it waited for which:
 *
 *     requested - storage queue - work - link - arrived - worker's queue - started
 *                 ^^^^^^^^^^^^^          ^^^^             ^^^^^^^^^^^^^^
 *
 * Where these waits, of all rows together, cover nearly all of an interval, the
 * resource was the limit, and what it did is its rate.  Elsewhere what it did is only
 * a lower bound; and a resource that does all that is believed of it while little
 * waits for it can do more: its rate goes up by steps that grow as long as this
 * goes on.  So a rate that fell is seen at once, and one that rose within a few
 * steps, though the plan has kept off it.  Steps up that a wait soon takes back are
 * held off for longer and longer.
 *
 * Each resource is seen at the times when it was done with a row, so that one which lets
 * rows through in fits does not seem to make those before it uneven.
 *
 * The wait for the link is the time away that the storage node does not account for, beyond
 * the least that any row has had.  The trainer's rate is its samples over its time between two
 * waits for a batch.
 *
 * Pure: the times come with the rows.
 * Threads: one at a time. */

enum sluice_watched {
    SLUICE_WATCHED_LINK,    /* bytes */
    SLUICE_WATCHED_STORAGE, /* CPU seconds: cores */
    SLUICE_WATCHED_COMPUTE, /* CPU seconds: cores */
    SLUICE_WATCHED_TRAINER, /* samples */
    SLUICE_NUM_WATCHED,
};
const char *sluice_watched_name(enum sluice_watched watched); /* "link", "storage", ... */

/* One interval.  It ends with the last row, not when somebody looked. */
struct sluice_rate_sight {
    double seconds; /* until the last row arrived; 0: nothing was seen */
    size_t num_rows;
    double used_per_s[SLUICE_NUM_WATCHED];
    double waiting[SLUICE_NUM_WATCHED]; /* share of the time that something waited for it */
};

struct sluice_rate_watch {
    double per_s[SLUICE_NUM_WATCHED]; /* what it is believed to do; INFINITY: never the limit */
    double most_per_s[SLUICE_NUM_WATCHED]; /* it is not believed to do more */
    struct sluice_rate_steps {
        unsigned size;     /* of the next step up, as a power of 2 */
        unsigned held;     /* looks until there may be one */
        unsigned holding;  /* looks to wait if the steps turn out wrong */
        double from_per_s; /* before the first of them; 0: none is being tried */
    } steps[SLUICE_NUM_WATCHED];
    uint64_t least_link_ns;               /* of any row; UINT64_MAX: none yet */
    uint64_t last_ns[SLUICE_NUM_WATCHED]; /* where the next interval begins, for each */
};

/* Begins with what is believed, and bounds it (the storage price is of no concern here). */
struct sluice_rate_watch sluice_rate_watch_init(const struct sluice_rates *believed,
                                                const struct sluice_rates *most);

/* The next interval begins now: an epoch does. */
void sluice_rate_watch_restart(struct sluice_rate_watch *watch, uint64_t now_ns);

/* What the trainer did: the samples that it took, and its time beside waiting for them. */
struct sluice_trainer_seen {
    uint64_t samples;
    uint64_t busy_ns;
};

/* Scratch for one row. */
struct sluice_rate_span {
    uint64_t from_ns, to_ns;
};

/* What rows say that arrived since the last call, in any order; `spans` has room for as many. */
struct sluice_rate_sight sluice_rate_watch_see(struct sluice_rate_watch *watch,
                                               const struct sluice_row_seen *rows, size_t num_rows,
                                               const struct sluice_trainer_seen *trainer,
                                               struct sluice_rate_span *spans);

/* Moves what is believed by what was seen. */
void sluice_rate_watch_learn(struct sluice_rate_watch *watch,
                             const struct sluice_rate_sight *sight);

struct sluice_rates sluice_rate_watch_rates(const struct sluice_rate_watch *watch);

#endif
