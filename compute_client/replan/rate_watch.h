#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_RATE_WATCH_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_RATE_WATCH_H

#include "compute_client/load/chooser.h"
#include "plan/sophon.h"
#include "plan/transport_cost.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the disk, the link, the storage node's cores, this node's and the trainer can do, from what
 * they did.
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
 * goes on, or until a plan is made for it; after a fall the first of them is all the way back, as
 * what was away for a while often comes back whole.  So a rate that fell is seen at once, and one
 * that rose within a few steps, though the plan has kept off it.  Steps up that a wait soon takes
 * back are held off for longer and longer.
 *
 * The storage node's cores are shared.  While they have a price (of their server's queue), that
 * divides them: each client believes that it could have all of them, which at that price it does
 * not want (auto_price.h).
 *
 * Each resource is seen at the times when it was done with a row, so that one which lets
 * rows through in fits does not seem to make those before it uneven.
 *
 * The wait for the link is the time away that the storage node does not account for, beyond
 * the link's latency: the least that any row had.  That can only be seen while nothing stands in
 * the link; where no row has come so fast for a while, or the link seems to have become slower,
 * is_latency_old says that it is time to let it run empty, and forget_latency makes room for what
 * is then seen, so that a way that has become longer is not taken for a slow link for good.
 *
 * The disk needs no limit to show what it can do: the storage node tells how long it was busy with
 * each file (0 if that was in memory), so its rate is what was read over what it was busy, or,
 * where it was waited for all of the time, over that time, in which others may have had it too.  A
 * worker that reads does not work, and a queue for workers that read longer than they work, while
 * the disk is the limit, says nothing of the cores.
 *
 * The trainer's rate is its samples over its time between two waits for a batch.
 *
 * Beside the CPU time that rows say they took, the transport of each counts as done by the cores.
 *
 * Pure: the times come with the rows.
 * Threads: one at a time. */

/* What is estimated: bytes a second of files read and of payload, cores, samples a second. */
#define SLUICE_WATCHED                                                                             \
    (1u << SLUICE_DISK | 1u << SLUICE_NETWORK | 1u << SLUICE_STORAGE_CPU |                         \
     1u << SLUICE_COMPUTE_CPU | 1u << SLUICE_GPU)

/* From this price of its cores on, the price divides them. */
#define SLUICE_RATE_WATCH_PRICED 0.05

/* One interval.  It ends with the last row, not when somebody looked. */
struct sluice_rate_sight {
    double seconds; /* until the last row arrived; 0: nothing was seen */
    size_t num_rows;
    bool is_priced; /* a price divides the storage node's cores */
    double used_per_s[SLUICE_NUM_RESOURCES];
    double waiting[SLUICE_NUM_RESOURCES]; /* share of the time that something waited for it */
    double read_bytes, read_s;            /* of files, and what the disk was busy with them */
};

struct sluice_rate_watch {
    double per_s[SLUICE_NUM_RESOURCES]; /* what it is believed to do; INFINITY: never the limit */
    double most_per_s[SLUICE_NUM_RESOURCES];    /* it is not believed to do more */
    double planned_per_s[SLUICE_NUM_RESOURCES]; /* what the plan in force makes use of */
    struct sluice_rate_steps {
        unsigned size;      /* of the next step up, as a power of 2 */
        unsigned held;      /* looks until there may be one */
        unsigned holding;   /* looks to wait if the steps turn out wrong */
        double from_per_s;  /* before the first of them; 0: none is being tried */
        double shown_per_s; /* the most that it was seen to do */
        double fell_per_s;  /* before it fell, as long as nobody tried that again; 0 */
    } steps[SLUICE_NUM_RESOURCES];
    struct sluice_transport_cost transport; /* all 0 unless set */
    bool without_probing; /* no steps up and back */
    double heard_cores;                     /* of the storage node; 0: never */
    double read_bytes, read_s;              /* of files, of late; and for so long */
    uint64_t least_link_ns;                 /* latency; UINT64_MAX: none was seen */
    uint64_t forgotten_ns;                  /* the one before, while another is looked for; 0 */
    uint64_t least_at_ns;                   /* when a row had about that */
    double least_per_s;                     /* what the link was believed to do then, or since */
    uint64_t slower_ns;                     /* since when it is believed to do less; 0: it is not */
    double slower_per_s;                    /* about so much */
    double doubted_per_s;                   /* what it was before that was doubted */
    uint64_t last_ns[SLUICE_NUM_RESOURCES]; /* where the next interval begins, for each */
};

/* Begins with what is believed, and bounds it. */
struct sluice_rate_watch sluice_rate_watch_init(const struct sluice_rates *believed,
                                                const struct sluice_rates *most);

/* There is a plan for what is believed now. */
void sluice_rate_watch_plan(struct sluice_rate_watch *watch);

/* The next interval begins now: an epoch does. */
void sluice_rate_watch_restart(struct sluice_rate_watch *watch, uint64_t now_ns);

/* The storage node may use so many cores now (0: it does not say).  Where it said another number
 * before, what it is believed to do moves as much at once, without waiting for rows to show it, and
 * true is returned: what rows show of this interval is of neither. */
bool sluice_rate_watch_hear_cores(struct sluice_rate_watch *watch, double cores);

/* No row was as fast as the link can be for 10 s, or for a second the link has been believed to do
 * a quarter less than when this was last said.  By then it has got rid of what was too much for it,
 * if that is what it was. */
bool sluice_rate_watch_is_latency_old(struct sluice_rate_watch *watch, uint64_t now_ns);

/* The rows of the next call to sluice_rate_watch_see have one that found the link empty.  If the
 * way has become longer by then, the link is believed to do again what it did before it seemed
 * slower. */
void sluice_rate_watch_forget_latency(struct sluice_rate_watch *watch);

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

/* What the trainer did after the last look of an epoch: `part`, 0 to 1, of its time in that. */
void sluice_rate_watch_learn_trainer(struct sluice_rate_watch *watch,
                                     const struct sluice_trainer_seen *rest, double part);

struct sluice_rates sluice_rate_watch_rates(const struct sluice_rate_watch *watch);

#endif
