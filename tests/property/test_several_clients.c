/* Several clients of one storage node, in simulated time: their plans as they run, the server's
 * price and its fair queue, against the best that could be made of the links and the shared cores.
 */
#include "compute_client/replan/auto_plan.h"
#include "storage_server/cpu_price.h"
#include "storage_server/fair_queue.h"

#include "base/compiler.h"
#include "base/rng.h"
#include "image/coding.h"
#include "plan/form_menu.h"
#include "support/choices.h"
#include "support/test.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define PIPELINE "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet"
#define FORMS (1u << SLUICE_FORM_JPEG_CROP | 1u << SLUICE_FORM_U8_PACKED)
#define NUM_FILES 300
#define NUM_ITEMS 400000 /* more than any client gets through */
#define PLAN_ITEMS 256
#define MOST_CLIENTS 8
#define MOST_OPEN 2048 /* items of a client, asked for and not done */
#define TICK_S 0.25
#define MIN_ROWS 16
#define LOOK_S 0.05 /* the server looks at its queue */
#define LATENCY_S 0.0005
#define NOISE 0.3 /* each item's CPU time is off by up to so much */

static struct sluice_pipeline *pipeline;
static struct sluice_manifest *manifest;
static uint32_t ids[NUM_FILES];
static struct sluice_sampler_item items[NUM_ITEMS];

static void make_dataset(void)
{
    static char paths[NUM_FILES][16];
    static struct sluice_manifest_entry entries[NUM_FILES];
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (uint32_t i = 0; i < NUM_FILES; i++) {
        snprintf(paths[i], sizeof(paths[i]), "a/%06u.jpg", i);
        entries[i] = (struct sluice_manifest_entry){
            .path = paths[i],
            .bytes = (uint64_t)(110e3 * exp2(2.4 * (sluice_rng_double(&rng) - 0.5))),
            .width = 500,
            .height = 375,
            .coding = SLUICE_CODING_JPEG_420,
        };
        ids[i] = i;
    }
    for (uint32_t i = 0; i < NUM_ITEMS; i++)
        items[i] = (struct sluice_sampler_item){.position = i * 77 % NUM_FILES,
                                                .draw_epoch = i / NUM_FILES};
    const char *const classes[] = {"a"};
    if (sluice_manifest_create(entries, NUM_FILES, classes, 1, &manifest, NULL) != SLUICE_OK ||
        sluice_pipeline_parse(PIPELINE, &pipeline, NULL) != SLUICE_OK)
        abort();
}

static void costs_of(size_t index, double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES])
{
    static struct sluice_choice_model model;
    if (!(model.disk_s_per_sample > 0))
        model = sluice_test_model();
    const struct sluice_draw_key key = {
        .seed = 1, .epoch = items[index].draw_epoch, .sample_id = ids[items[index].position]};
    const struct sluice_sample_facts facts =
        sluice_sample_facts_of(pipeline, &manifest->entries[key.sample_id], &key);
    sluice_choice_model_costs(&model, &facts, cost);
}

/* --- what could be reached --- */

struct node {
    double link_bytes_per_s, compute_cores;
};

#define OPTIMUM_ITEMS 900

/* The time of a sample with so many storage cores to itself. */
static double best_s(const struct node *node, double storage_cores)
{
    static struct sluice_menu menus[OPTIMUM_ITEMS];
    static bool is_made;
    for (size_t i = 0; i < OPTIMUM_ITEMS && !is_made; i++) {
        double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        costs_of(i, cost);
        sluice_menu_set(&menus[i], SLUICE_MAX_CHOICES, (const double(*)[SLUICE_NUM_RESOURCES])cost);
    }
    is_made = true;
    struct sluice_capacities capacities = {.external_cost_s = {0}};
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        capacities.per_s[r] = INFINITY;
    capacities.per_s[SLUICE_STORAGE_CPU] = storage_cores;
    capacities.per_s[SLUICE_NETWORK] = node->link_bytes_per_s;
    capacities.per_s[SLUICE_COMPUTE_CPU] = node->compute_cores;
    const struct sluice_menu_source source = sluice_menu_array(menus, OPTIMUM_ITEMS);
    struct sluice_lp_result result;
    CU_ASSERT_EQUAL_FATAL(sluice_plan_lp(&source, &capacities, NULL, &result, NULL), SLUICE_OK);
    return result.dual_s / OPTIMUM_ITEMS;
}

/* The least sum of epoch times: each client gets so many of the cores, and its epoch takes what the
 * linear program says with these.  That is convex in the cores, so giving each part to whoever
 * gains most from it is the optimum, to the size of a part.  (T as a function of the core seconds s
 * of an epoch is convex, piecewise a - c s; with u = s / T cores it is a / (1 + c u).) */
#define NUM_PARTS 24

static double joint_optimum(const struct node *nodes, int n, double cores)
{
    static double table[MOST_CLIENTS][NUM_PARTS + 1];
    for (int j = 0; j < n; j++) {
        for (int k = 0; k <= NUM_PARTS; k++)
            table[j][k] = best_s(&nodes[j], k ? cores * k / NUM_PARTS : 1e-9);
    }
    int parts[MOST_CLIENTS] = {0};
    for (int p = 0; p < NUM_PARTS; p++) {
        int best = 0;
        double most = -1;
        for (int j = 0; j < n; j++) {
            const double gain = table[j][parts[j]] - table[j][parts[j] + 1];
            if (gain > most) {
                most = gain;
                best = j;
            }
        }
        parts[best]++;
    }
    double sum = 0;
    for (int j = 0; j < n; j++)
        sum += table[j][parts[j]];
    return sum;
}

/* --- the simulation --- */

enum stage { STORAGE, LINK, ARRIVAL, COMPUTE };

struct item {
    struct sluice_job job; /* in the server's queue */
    int client;
    enum stage stage;
    double due_s;
    double storage_s, bytes, compute_s;
    struct sluice_expected expected;
    double started_s; /* by a worker */
    uint64_t charged_ns;
    struct sluice_flow *flow;
    struct sluice_row_seen row;
    struct item *next; /* in a station's queue or among the free */
};

/* First come, first served, by `num_servers` at once. */
struct station {
    struct item *first, **end;
    int num_servers, num_busy;
};

struct client {
    const struct node *node;
    bool is_greedy; /* asks for pixels, always, and does not follow the price */
    bool is_gone;   /* asks for nothing more */
    struct sluice_auto_plan *plan;
    double last_tick_s;
    size_t next_item;
    unsigned num_away, num_open;
    struct sluice_expected under_way;
    double asked_s;    /* when it asked last */
    double used_s;     /* of the workers, of late */
    double worth;      /* as it said last */
    uint64_t finished; /* while it counts */
    struct sluice_flow flow;
    struct station link, compute;
    struct item items[MOST_OPEN], *free;
    struct sluice_row_seen rows[8192];
    size_t num_rows;
};

struct world {
    struct client clients[MOST_CLIENTS];
    int n, workers, num_busy;
    double speed; /* of a worker */
    struct sluice_rng rng;
    struct sluice_fair_queue queue;
    struct sluice_cpu_price price;
    double now_s, next_look_s;
    double done_s; /* CPU time of jobs of those who follow the price, since the last look */
    /* Workers at jobs of others and of those, for how long since, and until when. */
    int num_at_work[2];
    double at_work_s[2], at_work_until_s;
    bool was_empty;
    double period_s, period_begin_s, used_s; /* of the quota; 0: none, but slower workers */
    double busy_s;                           /* CPU time of all jobs, since it is measured */
    /* How fast either node's cores are now, each pace for so long on average (0: they stay), and
     * what the first client could have done alone, since it is measured. */
    struct pace {
        double storage, compute;
    } pace;
    double pace_s, could_do, could_do_per_s;
    struct item *heap[MOST_CLIENTS * MOST_OPEN]; /* at work, the first to be done first */
    int heap_size;
};

static uint64_t ns_of(double s)
{
    return (uint64_t)(s * 1e9);
}

static void heap_push(struct world *w, struct item *item)
{
    int i = w->heap_size++;
    for (; i && w->heap[(i - 1) / 2]->due_s > item->due_s; i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = item;
}

static struct item *heap_pop(struct world *w)
{
    struct item *top = w->heap[0], *last = w->heap[--w->heap_size];
    int i = 0;
    for (;;) {
        int child = 2 * i + 1;
        if (child >= w->heap_size)
            break;
        if (child + 1 < w->heap_size && w->heap[child + 1]->due_s < w->heap[child]->due_s)
            child++;
        if (w->heap[child]->due_s >= last->due_s)
            break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return top;
}

static void begin(struct world *w, struct item *item, enum stage stage, double seconds)
{
    item->stage = stage;
    item->due_s = w->now_s + seconds;
    heap_push(w, item);
}

static double speed_of(const struct node *node)
{
    return node->compute_cores / fmax(1, floor(node->compute_cores));
}

static size_t num_waiting(const struct world *w)
{
    size_t num = 0;
    for (int j = 0; j < w->n; j++)
        num += w->clients[j].is_greedy ? 0 : w->clients[j].flow.depth;
    return num;
}

/* How long a worker takes for so much CPU time.  A quota stops it (there is one only) for the rest
 * of a period once it had its part. */
static double time_of(struct world *w, double cpu_s)
{
    if (!(w->period_s > 0))
        return cpu_s / w->speed;
    double at_s = w->now_s;
    if (at_s >= w->period_begin_s + w->period_s) {
        w->period_begin_s = at_s - fmod(at_s, w->period_s);
        w->used_s = 0;
    }
    const double part_s = w->speed * w->period_s;
    while (w->used_s + cpu_s > part_s) {
        cpu_s -= part_s - w->used_s;
        w->used_s = 0;
        w->period_begin_s += w->period_s;
        at_s = w->period_begin_s;
    }
    w->used_s += cpu_s;
    return at_s + cpu_s - w->now_s;
}

static void count_work(struct world *w)
{
    for (int k = 0; k < 2; k++)
        w->at_work_s[k] += w->num_at_work[k] * (w->now_s - w->at_work_until_s);
    w->at_work_until_s = w->now_s;
}

static void start_storage(struct world *w)
{
    while (w->num_busy < w->workers) {
        struct sluice_flow *flow;
        uint64_t charged_ns;
        struct sluice_job *job = sluice_fair_queue_pop(&w->queue, &flow, &charged_ns);
        if (!job)
            return;
        struct item *item = SLUICE_CONTAINER_OF(job, struct item, job);
        item->flow = flow;
        item->charged_ns = charged_ns;
        item->row.storage_queue_ns = ns_of(w->now_s) - item->row.requested_ns;
        w->num_busy++;
        count_work(w);
        w->num_at_work[!w->clients[item->client].is_greedy]++;
        if (num_waiting(w) == 0)
            w->was_empty = true;
        item->started_s = w->now_s;
        item->storage_s /= w->pace.storage;
        item->row.storage_cpu_ns = ns_of(item->storage_s);
        begin(w, item, STORAGE, time_of(w, item->storage_s));
    }
}

static void start_station(struct world *w, struct station *station, struct client *c,
                          enum stage stage)
{
    while (station->first && station->num_busy < station->num_servers) {
        struct item *item = station->first;
        station->first = item->next;
        if (!station->first)
            station->end = &station->first;
        station->num_busy++;
        if (stage == COMPUTE) {
            item->compute_s /= w->pace.compute;
            item->row.compute_cpu_ns = ns_of(item->compute_s);
            item->row.started_ns = ns_of(w->now_s);
        }
        begin(w, item, stage,
              stage == LINK ? item->bytes / c->node->link_bytes_per_s
                            : item->compute_s / speed_of(c->node));
    }
}

static void enter_station(struct world *w, struct station *station, struct item *item,
                          enum stage stage)
{
    item->next = NULL;
    *station->end = item;
    station->end = &item->next;
    start_station(w, station, &w->clients[item->client], stage);
}

static void tick(struct world *w, struct client *c)
{
    struct sluice_auto_forecast forecast;
    const struct sluice_trainer_seen trainer = {0};
    c->last_tick_s = w->now_s;
    if (sluice_auto_plan_tick(c->plan, ns_of(w->now_s), c->next_item, c->rows, c->num_rows,
                              &trainer, &forecast) &&
        getenv("SLUICE_TEST_VERBOSE"))
        printf("%d %.2f s: %s; %.2f s, was %.2f\n", (int)(c - w->clients), w->now_s,
               forecast.reason, forecast.rest_s, forecast.kept_s);
    c->num_rows = 0;
}

static void ask(struct world *w, struct client *c)
{
    if (w->now_s - c->last_tick_s >= TICK_S && c->num_rows >= MIN_ROWS)
        tick(w, c);
    struct item *item = c->free;
    const size_t index = c->next_item++;
    struct sluice_expected expected = {0};
    const unsigned chosen = c->is_greedy ? 3
                                         : sluice_auto_plan_choose(c->plan, index % NUM_ITEMS,
                                                                   &c->under_way, &expected);
    const struct sluice_choice choice = sluice_test_choices()->at[chosen];
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    costs_of(index, cost);
    c->free = item->next;
    c->num_away++;
    c->num_open++;
    c->under_way.storage_s += expected.storage_s;
    c->under_way.bytes += expected.bytes;
    c->under_way.compute_s += expected.compute_s;
    c->asked_s = w->now_s;
    c->worth = sluice_auto_plan_storage_worth(c->plan);
    const double noise = 1 + NOISE * (2 * sluice_rng_double(&w->rng) - 1);
    *item = (struct item){
        .client = (int)(c - w->clients),
        .expected = expected,
        .storage_s = cost[chosen][SLUICE_STORAGE_CPU] * noise,
        .compute_s = cost[chosen][SLUICE_COMPUTE_CPU] * noise,
        .bytes = cost[chosen][SLUICE_NETWORK],
        .row = {.index = index,
                .asked = choice,
                .got = choice,
                .requested_ns = ns_of(w->now_s),
                .payload_bytes = (size_t)cost[chosen][SLUICE_NETWORK],
                .storage_cpu_ns = ns_of(cost[chosen][SLUICE_STORAGE_CPU] * noise)},
    };
    if (choice.form != SLUICE_FORM_RAW && sluice_fair_queue_push(&w->queue, &c->flow, &item->job)) {
        start_storage(w);
        return;
    }
    item->row.storage_price = w->price.price;
    item->row.storage_cores = w->workers * w->speed;
    enter_station(w, &c->link, item, LINK);
}

static struct sluice_auto_bounds bounds_of(const struct client *c)
{
    return c->is_greedy ? (struct sluice_auto_bounds){512, 512}
                        : sluice_auto_plan_bounds(c->plan, c->num_rows);
}

static bool has_room(const struct client *c)
{
    const struct sluice_auto_bounds bounds = bounds_of(c);
    return (c->num_away == 0 || c->num_away < bounds.max_away) &&
           (c->num_open == 0 || c->num_open < bounds.max_unfinished);
}

static void ask_on(struct world *w, struct client *c)
{
    while (!c->is_gone && c->free && has_room(c))
        ask(w, c);
}

#define PACE_SPREAD 0.35 /* in natural logarithms */

static double next_pace(struct world *w)
{
    return exp(PACE_SPREAD * (2 * sluice_rng_double(&w->rng) - 1));
}

static void change_pace(struct world *w)
{
    if (sluice_rng_double(&w->rng) < LOOK_S / w->pace_s || !(w->could_do_per_s > 0)) {
        w->pace = (struct pace){next_pace(w), next_pace(w)};
        struct node node = *w->clients[0].node;
        node.compute_cores *= w->pace.compute;
        w->could_do_per_s = 1 / best_s(&node, w->workers * w->speed * w->pace.storage);
    }
    w->could_do += LOOK_S * w->could_do_per_s;
}

static void look(struct world *w)
{
    if (w->pace_s > 0)
        change_pace(w);
    count_work(w);
    struct sluice_cpu_load load = {
        .cores = w->workers * w->speed,
        .done_s = w->done_s,
        .busy_s = w->at_work_s[1],
        .others_s = w->at_work_s[0],
        .idle_s = fmax(w->workers * LOOK_S - w->at_work_s[0] - w->at_work_s[1], 0),
        .was_empty = w->was_empty,
    };
    double sum = 0, sum_weight = 0;
    for (int j = 0; j < w->n; j++) {
        const struct client *c = &w->clients[j];
        if (c->is_greedy)
            continue;
        const double weight = c->used_s + 1e-6;
        load.num_followers += w->now_s - c->asked_s < 3;
        if (c->worth > 0 && w->now_s - c->asked_s < 3) {
            sum += weight * log(c->worth);
            sum_weight += weight;
        }
        w->clients[j].used_s *= exp(-LOOK_S / 1);
        load.waiting_s += (double)c->flow.depth * (double)c->flow.expected_ns * 1e-9;
    }
    load.worth = sum_weight > 0 ? exp(sum / sum_weight) : 0;
    sluice_cpu_price_update(&w->price, ns_of(w->now_s), &load);
    w->done_s = w->at_work_s[0] = w->at_work_s[1] = 0;
    w->was_empty = num_waiting(w) == 0;
    if (getenv("SLUICE_TEST_VERBOSE")) {
        printf("%.2f s: price %.4f worth %.4f asked %.3f waits %.3f standing %.3f on %.3f;",
               w->now_s, w->price.price, load.worth, w->price.asked,
               w->price.waiting_s / w->price.cores, w->price.standing_s, w->price.cores);
        for (int j = 0; j < w->n; j++)
            printf(" %zu of %u, %.2f cores;", w->clients[j].flow.depth,
                   bounds_of(&w->clients[j]).max_away,
                   sluice_auto_plan_rates(w->clients[j].plan).storage_cores);
        for (int j = 0; j < w->n; j++)
            printf(" worth %.3f;", w->clients[j].worth);
        puts("");
    }
}

static void finish(struct world *w, struct item *item)
{
    struct client *c = &w->clients[item->client];
    switch (item->stage) {
    case STORAGE: {
        const double held_s = w->now_s - item->started_s;
        sluice_fair_queue_done(&w->queue, item->flow, item->charged_ns, ns_of(item->storage_s));
        w->num_busy--;
        count_work(w);
        w->num_at_work[!c->is_greedy]--;
        w->busy_s += item->storage_s;
        c->used_s += item->storage_s;
        w->done_s += c->is_greedy ? 0 : item->storage_s;
        item->row.storage_price = w->price.price;
        item->row.storage_cores = w->workers * w->speed;
        item->row.storage_ns = item->row.storage_queue_ns + ns_of(held_s);
        enter_station(w, &c->link, item, LINK);
        start_storage(w);
        break;
    }
    case LINK:
        c->link.num_busy--;
        begin(w, item, ARRIVAL, LATENCY_S);
        start_station(w, &c->link, c, LINK);
        break;
    case ARRIVAL:
        item->row.arrived_ns = ns_of(w->now_s);
        c->num_away--;
        c->under_way.storage_s -= item->expected.storage_s;
        c->under_way.bytes -= item->expected.bytes;
        enter_station(w, &c->compute, item, COMPUTE);
        ask_on(w, c);
        break;
    case COMPUTE:
        c->compute.num_busy--;
        c->finished++;
        item->row.done_ns = ns_of(w->now_s);
        if (c->num_rows < SLUICE_ARRAY_LEN(c->rows))
            c->rows[c->num_rows++] = item->row;
        item->next = c->free;
        c->free = item;
        c->num_open--;
        c->under_way.compute_s -= item->expected.compute_s;
        start_station(w, &c->compute, c, COMPUTE);
        ask_on(w, c);
        break;
    }
}

static void simulate(struct world *w, double seconds)
{
    const double end_s = w->now_s + seconds;
    for (;;) {
        const bool is_look = !w->heap_size || w->next_look_s < w->heap[0]->due_s;
        const double next_s = is_look ? w->next_look_s : w->heap[0]->due_s;
        if (next_s > end_s)
            break;
        w->now_s = next_s;
        if (is_look) {
            look(w);
            w->next_look_s += LOOK_S;
        } else {
            finish(w, heap_pop(w));
        }
    }
    w->now_s = end_s;
}

static struct world *create(const struct node *nodes, int n, double cores, double period_s,
                            bool is_greedy_first)
{
    struct world *w = calloc(1, sizeof(*w));
    if (!w)
        abort();
    w->n = n;
    w->workers = (int)fmax(1, floor(cores));
    w->speed = cores / w->workers;
    w->period_s = period_s;
    w->pace = (struct pace){1, 1};
    w->rng = sluice_rng_init(sluice_test_seed(), 1, 0, 0);
    w->queue = sluice_fair_queue_init(2048);
    w->price = sluice_cpu_price_init(0);
    w->next_look_s = LOOK_S;
    for (int j = 0; j < n; j++) {
        struct client *c = &w->clients[j];
        c->node = &nodes[j];
        c->is_greedy = is_greedy_first && j == 0;
        sluice_flow_init(&c->flow);
        c->link.num_servers = 1;
        c->link.end = &c->link.first;
        c->compute.num_servers = (int)fmax(1, floor(nodes[j].compute_cores));
        c->compute.end = &c->compute.first;
        for (int i = 0; i < MOST_OPEN; i++) {
            c->items[i].next = c->free;
            c->free = &c->items[i];
        }
        const struct sluice_auto_plan_options options = {
            .model = sluice_test_model(),
            .forms = FORMS,
            .rates = {.link_bytes_per_s = nodes[j].link_bytes_per_s,
                      .storage_cores = w->workers,
                      .compute_cores = c->compute.num_servers,
                      .gpu_samples_per_s = INFINITY},
            .most = {.link_bytes_per_s = INFINITY,
                     .storage_cores = w->workers,
                     .compute_cores = c->compute.num_servers,
                     .gpu_samples_per_s = INFINITY},
            .sample_items = PLAN_ITEMS,
        };
        const struct sluice_auto_epoch epoch = {
            .pipeline = pipeline,
            .manifest = manifest,
            .ids = ids,
            .seed = 1,
            .items = items,
            .num_items = NUM_ITEMS,
        };
        struct sluice_auto_forecast forecast;
        CU_ASSERT_EQUAL_FATAL(sluice_auto_plan_create(&options, &c->plan, NULL), SLUICE_OK);
        CU_ASSERT_EQUAL_FATAL(sluice_auto_plan_begin(c->plan, &epoch, 0, &forecast, NULL),
                              SLUICE_OK);
    }
    for (int j = 0; j < n; j++)
        ask_on(w, &w->clients[j]);
    return w;
}

static void destroy(struct world *w)
{
    for (int j = 0; j < w->n; j++)
        sluice_auto_plan_destroy(w->clients[j].plan);
    free(w);
}

/* Times of a sample over `seconds` from here. */
static void measure(struct world *w, double seconds, double time_s[MOST_CLIENTS])
{
    for (int j = 0; j < w->n; j++)
        w->clients[j].finished = 0;
    w->busy_s = w->could_do = 0;
    simulate(w, seconds);
    for (int j = 0; j < w->n; j++)
        time_s[j] = seconds / (double)w->clients[j].finished;
}

/* --- the promises --- */

#define MBIT 125e3

static double sum_of(const double *values, int n)
{
    double sum = 0;
    for (int j = 0; j < n; j++)
        sum += values[j];
    return sum;
}

#define SETTLE_S 20
#define MEASURE_S 10

/* The mean over the settings, and each of them: who needs the cores most is not told, but found. */
#define MOST_MEAN 1.025
#define MOST_RATIO 1.05
#define MOST_ALONE 1.03
#define MOST_ALONE_UNSTEADY 1.02
/* No client may be slower by more than this than with an equal part of the cores to itself; the
 * optimum itself takes some from those who need them least. */
#define MOST_OF_FAIR 1.4

static void print(const char *name, const struct world *w, const double *time_s, double ratio)
{
    if (!getenv("SLUICE_TEST_PRINT"))
        return;
    printf("\n%s, %d clients: %.3f of the optimum, price %.3f, busy %.3f;", name, w->n, ratio,
           w->price.price, w->busy_s / MEASURE_S / (w->workers * w->speed));
    const double part = w->workers * w->speed / w->n;
    for (int j = 0; j < w->n; j++)
        printf(" %.2f", time_s[j] / best_s(w->clients[j].node, part));
}

static const struct setting {
    const char *name;
    int n;
    double cores, period_s;
    struct node nodes[MOST_CLIENTS];
} settings[] = {
    {"equal", 2, 1, 0, {{1000 * MBIT, 1}, {1000 * MBIT, 1}}},
    {"unequal links", 2, 1, 0, {{100 * MBIT, 1}, {500 * MBIT, 1}}},
    {"very unequal cores", 2, 1, 0, {{2000 * MBIT, 4}, {2000 * MBIT, 0.5}}},
    {"equal, quota", 2, 0.4, 0.1, {{500 * MBIT, 0.5}, {500 * MBIT, 0.5}}},
    {"unequal links, quota", 2, 0.4, 0.1, {{100 * MBIT, 1}, {400 * MBIT, 1}}},
    {"unequal cores, quota", 2, 0.4, 0.01, {{1000 * MBIT, 0.8}, {1000 * MBIT, 0.3}}},
    {"both unequal",
     4,
     2,
     0,
     {{1000 * MBIT, 2}, {500 * MBIT, 4}, {250 * MBIT, 4}, {2000 * MBIT, 1}}},
    {"unequal links",
     8,
     2,
     0,
     {{1000 * MBIT, 1},
      {100 * MBIT, 1},
      {500 * MBIT, 1},
      {200 * MBIT, 1},
      {4000 * MBIT, 1},
      {100 * MBIT, 1},
      {500 * MBIT, 1},
      {1000 * MBIT, 1}}},
};

static void clients_that_hear_the_price_end_near_the_joint_optimum(void)
{
    double sum = 0;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(settings); i++) {
        const struct setting *setting = &settings[i];
        struct world *w =
            create(setting->nodes, setting->n, setting->cores, setting->period_s, false);
        simulate(w, SETTLE_S);
        double time_s[MOST_CLIENTS] = {0};
        measure(w, MEASURE_S, time_s);
        const double ratio =
            sum_of(time_s, setting->n) / joint_optimum(setting->nodes, setting->n, setting->cores);
        sum += ratio;
        CU_ASSERT(ratio < MOST_RATIO);
        CU_ASSERT(ratio > 0.97); /* else it is no optimum */
        const double part = setting->cores / setting->n;
        for (int j = 0; j < setting->n; j++)
            CU_ASSERT(time_s[j] < MOST_OF_FAIR * best_s(&setting->nodes[j], part));
        print(setting->name, w, time_s, ratio);
        destroy(w);
    }
    const size_t num_settings = SLUICE_ARRAY_LEN(settings);
    CU_ASSERT(sum < MOST_MEAN * (double)num_settings);
}

static void one_alone_hears_no_price(void)
{
    static const struct node alone = {1000 * MBIT, 1};
    struct world *w = create(&alone, 1, 1, 0, false);
    simulate(w, SETTLE_S);
    double time_s[MOST_CLIENTS] = {0};
    measure(w, MEASURE_S, time_s);
    CU_ASSERT_EQUAL(w->price.price, 0);
    CU_ASSERT(time_s[0] < MOST_ALONE * best_s(&alone, 1));
    print("alone", w, time_s, time_s[0] / best_s(&alone, 1));
    destroy(w);
}

/* Other programs slow either node down for a while, for another or for less time than a re-plan
 * needs, so that what was asked for is soon all before one of them: the other is kept at work. */
static void neither_node_stands_still_while_the_other_is_slow(void)
{
    static const struct node alone = {10000 * MBIT, 1};
    static const double paces_s[] = {5, 1, 0.3};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(paces_s); i++) {
        struct world *w = create(&alone, 1, 1, 0, false);
        w->pace_s = paces_s[i];
        simulate(w, SETTLE_S);
        double time_s[MOST_CLIENTS] = {0};
        measure(w, 4 * MEASURE_S, time_s);
        const double ratio = time_s[0] * w->could_do / (4 * MEASURE_S);
        CU_ASSERT(ratio < MOST_ALONE_UNSTEADY);
        CU_ASSERT(ratio > 0.97);
        print("alone, unsteady", w, time_s, ratio);
        destroy(w);
    }
}

static const struct node four_equal[] = {
    {1000 * MBIT, 1}, {1000 * MBIT, 1}, {1000 * MBIT, 1}, {1000 * MBIT, 1}};

static void one_that_does_not_hear_it_starves_nobody(void)
{
    struct world *w = create(four_equal, 4, 2, 0, true);
    simulate(w, SETTLE_S);
    double time_s[MOST_CLIENTS] = {0};
    measure(w, MEASURE_S, time_s);
    /* It has at most its part of the cores and what the others leave of theirs. */
    for (int j = 1; j < 4; j++)
        CU_ASSERT(time_s[j] < 1.1 * best_s(&four_equal[j], 2.0 / 4));
    print("one greedy", w, time_s, sum_of(time_s, 4) / joint_optimum(four_equal, 4, 2));
    destroy(w);
}

static void those_who_stay_take_over_what_others_leave(void)
{
    struct world *w = create(four_equal, 4, 1, 0, false);
    simulate(w, SETTLE_S);
    for (int j = 2; j < 4; j++)
        w->clients[j].is_gone = true;
    simulate(w, SETTLE_S);
    double time_s[MOST_CLIENTS] = {0};
    w->n = 2;
    measure(w, MEASURE_S, time_s);
    const double ratio = sum_of(time_s, 2) / joint_optimum(four_equal, 2, 1);
    CU_ASSERT(ratio < MOST_RATIO);
    print("two of four left", w, time_s, ratio);
    w->n = 4;
    for (int j = 0; j < 4; j++)
        w->clients[j].is_gone = true;
    simulate(w, SETTLE_S);
    CU_ASSERT_EQUAL(w->price.price, 0);
    destroy(w);
}

int main(void)
{
    make_dataset();
    static const struct sluice_test tests[] = {
        SLUICE_TEST(clients_that_hear_the_price_end_near_the_joint_optimum),
        SLUICE_TEST(one_alone_hears_no_price),
        SLUICE_TEST(neither_node_stands_still_while_the_other_is_slow),
        SLUICE_TEST(one_that_does_not_hear_it_starves_nobody),
        SLUICE_TEST(those_who_stay_take_over_what_others_leave),
    };
    const int code = sluice_test_run("several_clients", tests, SLUICE_TEST_COUNT(tests));
    sluice_pipeline_destroy(pipeline);
    sluice_manifest_destroy(manifest);
    return code;
}
