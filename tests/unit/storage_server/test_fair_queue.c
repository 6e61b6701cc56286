#include "storage_server/work/fair_queue.h"

#include "base/rng.h"
#include "support/test.h"

TEST(within_a_flow_the_first_comes_first)
{
    struct sluice_fair_queue queue = sluice_fair_queue_init(10);
    struct sluice_flow_host host = {0};
    struct sluice_flow flow, *served;
    struct sluice_job jobs[10];
    uint64_t cost_ns;
    sluice_flow_init(&flow, &host);
    for (int i = 0; i < 10; i++)
        CU_ASSERT(sluice_fair_queue_push(&queue, &flow, &jobs[i]));
    CU_ASSERT_FALSE(sluice_fair_queue_push(&queue, &flow, &jobs[0]));
    for (int i = 0; i < 10; i++) {
        CU_ASSERT_PTR_EQUAL(sluice_fair_queue_pop(&queue, &served, &cost_ns), &jobs[i]);
        CU_ASSERT_PTR_EQUAL(served, &flow);
        sluice_fair_queue_done(&queue, served, cost_ns, 5);
    }
    CU_ASSERT_PTR_NULL(sluice_fair_queue_pop(&queue, &served, &cost_ns));
    CU_ASSERT_EQUAL(queue.hosts.num_active, 0);
    CU_ASSERT_EQUAL(host.flows.num_active, 0);
}

/* Workers in simulated time: flow f always has jobs waiting, each of which costs cost[f] on
 * average.  Counts what each flow had when `end_ns` is over. */
#define NUM_WORKERS 3
#define MOST_FLOWS 4

struct simulated_job {
    struct sluice_job job;
    int flow;
};

struct simulation {
    struct sluice_fair_queue queue;
    struct sluice_flow flows[MOST_FLOWS];
    struct sluice_flow_host hosts[MOST_FLOWS];
    struct simulated_job jobs[MOST_FLOWS][40];
    struct {
        struct sluice_flow *flow;
        struct simulated_job *job;
        uint64_t cost_ns, spent_ns, end_ns;
    } running[NUM_WORKERS];
    uint64_t now_ns, had_ns[MOST_FLOWS];
};

static void start(struct simulation *s, int worker, const uint64_t cost_ns[],
                  struct sluice_rng *rng)
{
    struct sluice_job *job =
        sluice_fair_queue_pop(&s->queue, &s->running[worker].flow, &s->running[worker].cost_ns);
    s->running[worker].job = job ? SLUICE_CONTAINER_OF(job, struct simulated_job, job) : NULL;
    s->running[worker].end_ns = UINT64_MAX;
    if (!job)
        return;
    const uint64_t cost = cost_ns[s->running[worker].job->flow];
    s->running[worker].spent_ns = cost / 2 + sluice_rng_below(rng, (uint32_t)cost);
    s->running[worker].end_ns = s->now_ns + s->running[worker].spent_ns;
}

/* Until end_ns; a job that is done is pushed again, so a flow keeps as many as it began with. */
static void simulate(struct simulation *s, const uint64_t cost_ns[], uint64_t end_ns)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int w = 0; w < NUM_WORKERS; w++)
        start(s, w, cost_ns, &rng);
    for (;;) {
        int w = 0;
        for (int i = 1; i < NUM_WORKERS; i++)
            w = s->running[i].end_ns < s->running[w].end_ns ? i : w;
        if (s->running[w].end_ns >= end_ns)
            return;
        s->now_ns = s->running[w].end_ns;
        struct simulated_job *job = s->running[w].job;
        s->had_ns[job->flow] += s->running[w].spent_ns;
        sluice_fair_queue_done(&s->queue, s->running[w].flow, s->running[w].cost_ns,
                               s->running[w].spent_ns);
        CU_ASSERT(sluice_fair_queue_push(&s->queue, &s->flows[job->flow], &job->job));
        for (int i = 0; i < NUM_WORKERS; i++) {
            if (i == w || !s->running[i].job)
                start(s, i, cost_ns, &rng);
        }
    }
}

/* host[f]: the host of flow f; NULL: one for each. */
static void begin(struct simulation *s, int num_flows, const int num_jobs[], const int host[])
{
    *s = (struct simulation){.queue = sluice_fair_queue_init(1000)};
    for (int f = 0; f < num_flows; f++) {
        sluice_flow_init(&s->flows[f], &s->hosts[host ? host[f] : f]);
        for (int i = 0; i < num_jobs[f]; i++) {
            s->jobs[f][i].flow = f;
            CU_ASSERT_FATAL(sluice_fair_queue_push(&s->queue, &s->flows[f], &s->jobs[f][i].job));
        }
    }
}

TEST(flows_that_always_wait_have_equal_time)
{
    static struct simulation s;
    /* One asks for much, one for jobs of ten times the cost, one for little. */
    static const int num_jobs[] = {40, 8, 5};
    static const uint64_t cost_ns[] = {1000000, 10000000, 1000000};
    begin(&s, 3, num_jobs, NULL);
    simulate(&s, cost_ns, 10000000000);
    for (int f = 0; f < 3; f++) {
        CU_ASSERT(s.had_ns[f] > 9900000000);
        CU_ASSERT(s.had_ns[f] < 10100000000);
    }
}

TEST(a_flow_that_asks_for_less_has_all_it_asks_for)
{
    static struct simulation s;
    /* One job at a time keeps one worker of three busy, whatever the others ask for. */
    static const int num_jobs[] = {40, 40, 40, 1};
    static const uint64_t cost_ns[] = {1000000, 1000000, 1000000, 1000000};
    begin(&s, 4, num_jobs, NULL);
    simulate(&s, cost_ns, 1000000000);
    /* A quarter of 3 s each would be 0.75 s; it waits for the next worker each time. */
    CU_ASSERT(s.had_ns[3] > 600000000);
    for (int f = 0; f < 3; f++)
        CU_ASSERT(s.had_ns[f] > 700000000);
}

TEST(connections_of_one_host_share_one_part)
{
    static struct simulation s;
    static const int num_jobs[] = {40, 40, 40, 40};
    static const uint64_t cost_ns[] = {1000000, 1000000, 1000000, 1000000};
    static const int host[] = {0, 0, 0, 1};
    begin(&s, 4, num_jobs, host);
    simulate(&s, cost_ns, 10000000000);
    for (int f = 0; f < 3; f++) /* of 3 workers' 10 s: a third of a half */
        CU_ASSERT(s.had_ns[f] > 4900000000 && s.had_ns[f] < 5100000000);
    CU_ASSERT(s.had_ns[3] > 14900000000 && s.had_ns[3] < 15100000000);
}

static bool is_odd(const struct sluice_job *job, const void *first)
{
    return (job - (const struct sluice_job *)first) % 2 == 1;
}

TEST(a_removed_job_leaves_no_trace)
{
    struct sluice_fair_queue queue = sluice_fair_queue_init(100);
    struct sluice_flow_host hosts[2] = {0};
    struct sluice_flow flows[2], *served;
    struct sluice_job jobs[10], other;
    uint64_t cost_ns;
    size_t count;
    sluice_flow_init(&flows[0], &hosts[0]);
    sluice_flow_init(&flows[1], &hosts[1]);
    for (int i = 0; i < 10; i++)
        CU_ASSERT(sluice_fair_queue_push(&queue, &flows[0], &jobs[i]));
    CU_ASSERT(sluice_fair_queue_push(&queue, &flows[1], &other));
    struct sluice_job *removed = sluice_fair_queue_remove(&queue, &flows[0], is_odd, jobs, &count);
    CU_ASSERT_EQUAL(count, 5);
    for (int i = 1; i < 10; i += 2, removed = removed->next)
        CU_ASSERT_PTR_EQUAL_FATAL(removed, &jobs[i]);
    CU_ASSERT_PTR_NULL(removed);
    CU_ASSERT_EQUAL(queue.depth, 6);
    CU_ASSERT(sluice_fair_queue_push(&queue, &flows[0], &jobs[1])); /* behind the last */
    int next = 0;
    static const int order[] = {0, 2, 4, 6, 8, 1};
    for (int i = 0; i < 7; i++) {
        struct sluice_job *job = sluice_fair_queue_pop(&queue, &served, &cost_ns);
        CU_ASSERT_PTR_NOT_NULL_FATAL(job);
        if (served == &flows[0])
            CU_ASSERT_PTR_EQUAL(job, &jobs[order[next++]]);
        sluice_fair_queue_done(&queue, served, cost_ns, 1000);
    }
    CU_ASSERT_EQUAL(queue.hosts.num_active, 0);

    /* All of them: neither the flow nor its host counts any longer. */
    CU_ASSERT(sluice_fair_queue_push(&queue, &flows[0], &jobs[1]));
    (void)sluice_fair_queue_remove(&queue, &flows[0], is_odd, jobs, &count);
    CU_ASSERT_EQUAL(count, 1);
    CU_ASSERT_EQUAL(queue.hosts.num_active, 0);
    CU_ASSERT_EQUAL(hosts[0].flows.num_active, 0);
    CU_ASSERT_PTR_NULL(sluice_fair_queue_pop(&queue, &served, &cost_ns));
}

TEST(nothing_is_saved_up)
{
    struct sluice_fair_queue queue = sluice_fair_queue_init(200);
    struct sluice_flow_host hosts[2] = {0};
    struct sluice_flow busy, late, *served;
    struct sluice_job jobs[100];
    uint64_t cost_ns;
    sluice_flow_init(&busy, &hosts[0]);
    sluice_flow_init(&late, &hosts[1]);
    for (int i = 0; i < 30; i++)
        CU_ASSERT(sluice_fair_queue_push(&queue, &busy, &jobs[i]));
    for (int i = 0; i < 20; i++) {
        CU_ASSERT_PTR_NOT_NULL(sluice_fair_queue_pop(&queue, &served, &cost_ns));
        sluice_fair_queue_done(&queue, served, cost_ns, 1000000);
    }
    for (int i = 30; i < 60; i++)
        CU_ASSERT(sluice_fair_queue_push(&queue, &late, &jobs[i]));
    /* From here on they take turns, though one has had 20 jobs and the other none. */
    int late_served = 0;
    for (int i = 0; i < 20; i++) {
        CU_ASSERT_PTR_NOT_NULL(sluice_fair_queue_pop(&queue, &served, &cost_ns));
        late_served += served == &late;
        sluice_fair_queue_done(&queue, served, cost_ns, 1000000);
    }
    CU_ASSERT(late_served >= 10 && late_served <= 11);
}

/* Flows in turn take all they are given; the first count of what each holds. */
static void fill(struct sluice_fair_queue *queue, struct sluice_flow flows[4],
                 struct sluice_job jobs[4][64], size_t held[4])
{
    for (int f = 0; f < 4; f++) {
        while (sluice_fair_queue_push(queue, &flows[f], &jobs[f][held[f]]))
            held[f]++;
    }
}

TEST(a_quarter_of_many_places_is_kept_for_new_flows)
{
    struct sluice_fair_queue queue = sluice_fair_queue_init(64);
    struct sluice_flow_host hosts[4] = {0};
    struct sluice_flow flows[4];
    static struct sluice_job jobs[4][64];
    size_t held[4] = {0};
    for (int f = 0; f < 4; f++)
        sluice_flow_init(&flows[f], &hosts[f]);
    fill(&queue, flows, jobs, held);
    CU_ASSERT_EQUAL(held[0], 36); /* alone: three quarters, and of these three quarters */
    CU_ASSERT_EQUAL(held[1], 18); /* half of that */
    CU_ASSERT_EQUAL(held[2], 10); /* as many as are left; its part would be 12 */
    CU_ASSERT_EQUAL(held[3], 0);
    /* What is given back goes to those with less than their part. */
    struct sluice_flow *served;
    uint64_t cost_ns;
    for (int i = 0; i < 8; i++) {
        CU_ASSERT_PTR_NOT_NULL(sluice_fair_queue_pop(&queue, &served, &cost_ns));
        sluice_fair_queue_done(&queue, served, cost_ns, 1000);
        CU_ASSERT_FALSE(sluice_fair_queue_push(&queue, &flows[0], &jobs[0][50]));
        CU_ASSERT(sluice_fair_queue_push(&queue, &flows[3], &jobs[3][held[3]]));
        held[3]++;
    }
}

TEST(flows_of_one_host_leave_places_to_other_hosts)
{
    struct sluice_fair_queue queue = sluice_fair_queue_init(64);
    struct sluice_flow_host hosts[2] = {0};
    struct sluice_flow flows[4];
    static struct sluice_job jobs[4][64];
    size_t held[4] = {0};
    for (int f = 0; f < 4; f++)
        sluice_flow_init(&flows[f], &hosts[f == 3]);
    fill(&queue, flows, jobs, held);
    CU_ASSERT_EQUAL(held[0] + held[1] + held[2], 48);
    CU_ASSERT_EQUAL(held[3], 16);
}
