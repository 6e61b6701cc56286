#include "storage_server/fair_queue.h"

#include <assert.h>

/* Places.  With fewer than this none is kept free for new flows. */
#define MANY_PLACES 16

struct sluice_fair_queue sluice_fair_queue_init(size_t capacity)
{
    assert(capacity >= 1);
    return (struct sluice_fair_queue){.capacity = capacity, .expected_ns = 1000000};
}

void sluice_flow_init(struct sluice_flow *flow)
{
    *flow = (struct sluice_flow){0};
    flow->end = &flow->first;
}

static bool is_active(const struct sluice_flow *flow)
{
    return flow->depth || flow->num_running;
}

/* The most places that each of num_flows flows may hold. */
static size_t part_of(const struct sluice_fair_queue *queue, unsigned num_flows)
{
    const size_t kept = queue->capacity < MANY_PLACES ? 0 : queue->capacity / 4;
    const size_t part = (queue->capacity - kept) / num_flows;
    return part ? part : 1;
}

bool sluice_fair_queue_push(struct sluice_fair_queue *queue, struct sluice_flow *flow,
                            struct sluice_job *job)
{
    const bool was_active = is_active(flow);
    const unsigned num_flows = queue->num_active + !was_active;
    if (queue->depth == queue->capacity || flow->depth >= part_of(queue, num_flows))
        return false;
    if (!was_active) {
        queue->num_active++;
        if (!flow->expected_ns)
            flow->expected_ns = queue->expected_ns;
    }
    if (!flow->depth) {
        if (flow->served_ns < queue->served_ns)
            flow->served_ns = queue->served_ns;
        flow->next = queue->waiting;
        flow->link = &queue->waiting;
        if (flow->next)
            flow->next->link = &flow->next;
        queue->waiting = flow;
    }
    job->next = NULL;
    *flow->end = job;
    flow->end = &job->next;
    flow->depth++;
    queue->depth++;
    return true;
}

struct sluice_job *sluice_fair_queue_pop(struct sluice_fair_queue *queue, struct sluice_flow **flow,
                                         uint64_t *cost_ns)
{
    struct sluice_flow *least = queue->waiting;
    if (!least)
        return NULL;
    /* Of equals the last in the list, which has waited for the longest. */
    for (struct sluice_flow *f = least->next; f; f = f->next) {
        if (f->served_ns <= least->served_ns)
            least = f;
    }
    struct sluice_job *job = least->first;
    least->first = job->next;
    if (!least->first)
        least->end = &least->first;
    least->depth--;
    queue->depth--;
    *least->link = least->next;
    if (least->next)
        least->next->link = least->link;
    if (least->depth) { /* to the front: it has just been served */
        least->next = queue->waiting;
        least->link = &queue->waiting;
        if (least->next)
            least->next->link = &least->next;
        queue->waiting = least;
    }
    if (queue->served_ns < least->served_ns)
        queue->served_ns = least->served_ns;
    least->num_running++;
    least->served_ns += least->expected_ns;
    *flow = least;
    *cost_ns = least->expected_ns;
    return job;
}

void sluice_fair_queue_done(struct sluice_fair_queue *queue, struct sluice_flow *flow,
                            uint64_t cost_ns, uint64_t spent_ns)
{
    assert(flow->num_running);
    flow->served_ns += spent_ns - cost_ns; /* modulo 2^64: never below what it had before */
    flow->expected_ns = flow->expected_ns - flow->expected_ns / 8 + spent_ns / 8;
    queue->expected_ns = queue->expected_ns - queue->expected_ns / 8 + spent_ns / 8;
    flow->num_running--;
    if (!is_active(flow))
        queue->num_active--;
}
