#include "storage_server/work/fair_queue.h"

#include "base/compiler.h"

#include <assert.h>

/* Places.  With fewer than this none is kept free for new hosts or flows. */
#define MANY_PLACES 16

struct sluice_fair_queue sluice_fair_queue_init(size_t capacity)
{
    assert(capacity >= 1);
    return (struct sluice_fair_queue){.capacity = capacity, .expected_ns = 1000000};
}

void sluice_flow_init(struct sluice_flow *flow, struct sluice_flow_host *host)
{
    *flow = (struct sluice_flow){.host = host};
    flow->end = &flow->first;
}

/* --- one level --- */

static bool is_active(const struct sluice_fair_share *share)
{
    return share->depth || share->num_running;
}

static void link_first(struct sluice_fair_level *level, struct sluice_fair_share *share)
{
    share->next = level->waiting;
    share->link = &level->waiting;
    if (share->next)
        share->next->link = &share->next;
    level->waiting = share;
}

static void unlink_share(struct sluice_fair_share *share)
{
    *share->link = share->next;
    if (share->next)
        share->next->link = share->link;
}

static void add_waiting(struct sluice_fair_level *level, struct sluice_fair_share *share)
{
    if (!is_active(share))
        level->num_active++;
    if (!share->depth) {
        if (share->served_ns < level->served_ns)
            share->served_ns = level->served_ns;
        link_first(level, share);
    }
    share->depth++;
}

/* The last of equals in the list, which has waited the longest. */
static struct sluice_fair_share *find_least(const struct sluice_fair_level *level)
{
    struct sluice_fair_share *least = level->waiting;
    for (struct sluice_fair_share *s = least ? least->next : NULL; s; s = s->next) {
        if (s->served_ns <= least->served_ns)
            least = s;
    }
    return least;
}

static void start_one(struct sluice_fair_level *level, struct sluice_fair_share *share,
                      uint64_t cost_ns)
{
    unlink_share(share);
    if (--share->depth)
        link_first(level, share); /* to the front: it has just been served */
    if (level->served_ns < share->served_ns)
        level->served_ns = share->served_ns;
    share->num_running++;
    share->served_ns += cost_ns;
}

static void end_one(struct sluice_fair_level *level, struct sluice_fair_share *share,
                    uint64_t cost_ns, uint64_t spent_ns)
{
    assert(share->num_running);
    share->served_ns += spent_ns - cost_ns; /* modulo 2^64: never below what it had before */
    share->num_running--;
    if (!is_active(share))
        level->num_active--;
}

static void remove_waiting(struct sluice_fair_level *level, struct sluice_fair_share *share,
                           size_t count)
{
    if (!count)
        return;
    share->depth -= count;
    if (!share->depth)
        unlink_share(share);
    if (!is_active(share))
        level->num_active--;
}

/* --- both --- */

/* The most of `places` that each of num_shares may hold. */
static size_t part_of(size_t places, unsigned num_shares)
{
    const size_t kept = places < MANY_PLACES ? 0 : places / 4;
    const size_t part = (places - kept) / num_shares;
    return part ? part : 1;
}

bool sluice_fair_queue_push(struct sluice_fair_queue *queue, struct sluice_flow *flow,
                            struct sluice_job *job)
{
    struct sluice_flow_host *host = flow->host;
    const bool is_new = !is_active(&flow->share);
    const size_t of_host =
        part_of(queue->capacity, queue->hosts.num_active + !is_active(&host->share));
    const size_t of_flow = part_of(of_host, host->flows.num_active + is_new);
    if (queue->depth == queue->capacity || host->share.depth >= of_host ||
        flow->share.depth >= of_flow)
        return false;
    if (is_new && !flow->expected_ns)
        flow->expected_ns = queue->expected_ns;
    add_waiting(&queue->hosts, &host->share);
    add_waiting(&host->flows, &flow->share);
    job->next = NULL;
    *flow->end = job;
    flow->end = &job->next;
    queue->depth++;
    return true;
}

struct sluice_job *sluice_fair_queue_pop(struct sluice_fair_queue *queue, struct sluice_flow **flow,
                                         uint64_t *cost_ns)
{
    struct sluice_fair_share *least = find_least(&queue->hosts);
    if (!least)
        return NULL;
    struct sluice_flow_host *host = SLUICE_CONTAINER_OF(least, struct sluice_flow_host, share);
    struct sluice_flow *found =
        SLUICE_CONTAINER_OF(find_least(&host->flows), struct sluice_flow, share);
    struct sluice_job *job = found->first;
    found->first = job->next;
    if (!found->first)
        found->end = &found->first;
    queue->depth--;
    start_one(&queue->hosts, &host->share, found->expected_ns);
    start_one(&host->flows, &found->share, found->expected_ns);
    *flow = found;
    *cost_ns = found->expected_ns;
    return job;
}

void sluice_fair_queue_done(struct sluice_fair_queue *queue, struct sluice_flow *flow,
                            uint64_t cost_ns, uint64_t spent_ns)
{
    end_one(&queue->hosts, &flow->host->share, cost_ns, spent_ns);
    end_one(&flow->host->flows, &flow->share, cost_ns, spent_ns);
    flow->expected_ns = flow->expected_ns - flow->expected_ns / 8 + spent_ns / 8;
    queue->expected_ns = queue->expected_ns - queue->expected_ns / 8 + spent_ns / 8;
}

struct sluice_job *
sluice_fair_queue_remove(struct sluice_fair_queue *queue, struct sluice_flow *flow,
                         bool (*is_meant)(const struct sluice_job *job, const void *ctx),
                         const void *ctx, size_t *count)
{
    struct sluice_job *removed = NULL, **end = &removed, **link = &flow->first;
    size_t num_removed = 0;
    while (*link) {
        struct sluice_job *job = *link;
        if (!is_meant(job, ctx)) {
            link = &job->next;
            continue;
        }
        *link = job->next;
        job->next = NULL;
        *end = job;
        end = &job->next;
        num_removed++;
    }
    flow->end = link;
    queue->depth -= num_removed;
    remove_waiting(&queue->hosts, &flow->host->share, num_removed);
    remove_waiting(&flow->host->flows, &flow->share, num_removed);
    *count = num_removed;
    return removed;
}
