#include "support/sim.h"

#include "base/rng.h"
#include "image/codecs/coding.h"
#include "plan/planner_lp.h"
#include "storage_server/work/cpu_market.h"
#include "storage_server/work/fair_queue.h"
#include "support/choices.h"
#include "support/test.h"

#include <math.h>

#define PIPELINE "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet"
#define FORMS (1u << SLUICE_FORM_JPEG_CROP | 1u << SLUICE_FORM_U8_PACKED)
#define NUM_FILES 400
#define NUM_ITEMS 400000 /* more than any client gets through */
#define MOST_OPEN 1024   /* items of a client, asked for and not done */
#define MOST_ROWS 16384
#define LOOK_S 0.05 /* the server looks at its queue */
#define LATENCY_S 0.001
#define PACE_SPREAD 0.35 /* in natural logarithms */

/* --- the dataset --- */

static struct {
    struct sluice_pipeline *pipeline;
    struct sluice_manifest *manifest;
    uint32_t ids[NUM_FILES];
    struct sluice_sampler_item items[NUM_ITEMS];
} set;

static void free_set(void)
{
    sluice_manifest_destroy(set.manifest);
    sluice_pipeline_destroy(set.pipeline);
}

/* Photographs of some 30 to 250 kB. */
static void make_set(void)
{
    static char paths[NUM_FILES][16];
    static struct sluice_manifest_entry entries[NUM_FILES];
    static const char *const classes[] = {"c"};
    if (set.manifest)
        return;
    struct sluice_rng rng = sluice_rng_init(7, 0, 0, 0);
    for (uint32_t i = 0; i < NUM_FILES; i++) {
        snprintf(paths[i], sizeof(paths[i]), "c/%04u.jpg", i);
        const uint32_t width = 300 + sluice_rng_below(&rng, 400);
        const uint32_t height = 250 + sluice_rng_below(&rng, 300);
        entries[i] = (struct sluice_manifest_entry){
            .path = paths[i],
            .bytes = (uint64_t)width * height * (2 + sluice_rng_below(&rng, 5)) / 8,
            .width = width,
            .height = height,
            .coding = SLUICE_CODING_JPEG_420,
        };
        set.ids[i] = i;
    }
    for (uint32_t i = 0; i < NUM_ITEMS; i++)
        set.items[i] = (struct sluice_sampler_item){.position = sluice_rng_below(&rng, NUM_FILES),
                                                    .draw_epoch = i / NUM_FILES};
    if (sluice_manifest_create(entries, NUM_FILES, classes, 1, &set.manifest, NULL) != SLUICE_OK ||
        sluice_pipeline_parse(PIPELINE, &set.pipeline, NULL) != SLUICE_OK)
        abort();
    atexit(free_set);
}

struct sluice_plan_epoch sim_epoch(size_t num_items)
{
    make_set();
    return (struct sluice_plan_epoch){
        .pipeline = set.pipeline,
        .manifest = set.manifest,
        .ids = set.ids,
        .seed = 1,
        .items = set.items,
        .num_items = num_items,
    };
}

/* --- costs --- */

struct sluice_transport_cost sim_transport(void)
{
    return (struct sluice_transport_cost){
        .storage_s_per_sample = 20e-6,
        .storage_s_per_job = 50e-6,
        .storage_s_per_byte = 0.3e-9,
        .compute_s_per_sample = 80e-6,
        .compute_s_per_byte = 0.2e-9,
    };
}

static double or_one(double factor)
{
    return factor > 0 ? factor : 1;
}

void sim_true_costs(const struct sim_scenario *scenario, size_t index,
                    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES])
{
    static struct sluice_choice_model model;
    if (!(model.disk_s_per_sample > 0))
        model = sluice_test_model();
    make_set();
    model.has_jpeg_index = scenario->has_index;
    const struct sluice_sampler_item *item = &set.items[index % NUM_ITEMS];
    const struct sluice_draw_key key = {
        .seed = 1, .epoch = item->draw_epoch, .sample_id = set.ids[item->position]};
    const struct sluice_manifest_entry entry = sluice_manifest_at(set.manifest, key.sample_id);
    const struct sluice_sample_facts facts = sluice_sample_facts_of(set.pipeline, &entry, &key);
    const struct sluice_transport_cost transport = sim_transport();
    sluice_choice_model_costs(&model, &facts, cost);
    for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++) {
        cost[c][SLUICE_STORAGE_CPU] *= or_one(scenario->storage_factor);
        cost[c][SLUICE_COMPUTE_CPU] *= or_one(scenario->compute_factor);
        if (c == SLUICE_TEST_JPEG_CROP)
            cost[c][SLUICE_NETWORK] *= or_one(scenario->byte_factor);
        if (scenario->has_transport)
            sluice_transport_cost_add(&transport, c != 0, cost[c]);
        cost[c][SLUICE_DISK] = sluice_choice_read_bytes(&model, &facts, c);
    }
}

/* CPU time of a choice that its row does not report: what the transport takes. */
static double storage_beside_s(const struct sim_scenario *scenario, unsigned c, double bytes)
{
    const struct sluice_transport_cost t = sim_transport();
    return scenario->has_transport ? t.storage_s_per_byte * bytes + (c ? t.storage_s_per_job : 0)
                                   : 0;
}

static double compute_beside_s(const struct sim_scenario *scenario, double bytes)
{
    const struct sluice_transport_cost t = sim_transport();
    return scenario->has_transport ? t.compute_s_per_sample + t.compute_s_per_byte * bytes : 0;
}

/* --- what could be reached --- */

#define OPTIMUM_ITEMS 1200

static bool has_same_costs(const struct sim_scenario *a, const struct sim_scenario *b)
{
    return a->storage_factor == b->storage_factor && a->compute_factor == b->compute_factor &&
           a->byte_factor == b->byte_factor && a->has_index == b->has_index &&
           a->has_transport == b->has_transport;
}

static double optimum(const struct sim_scenario *scenario, const struct sluice_rates *rates)
{
    static struct sluice_menu menus[OPTIMUM_ITEMS];
    static struct sim_scenario made_for;
    static bool is_made;
    if (!is_made || !has_same_costs(&made_for, scenario)) {
        for (size_t i = 0; i < OPTIMUM_ITEMS; i++) {
            double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
            sim_true_costs(scenario, i, cost);
            sluice_menu_set(&menus[i], SLUICE_TEST_CHOICES,
                            (const double(*)[SLUICE_NUM_RESOURCES])cost);
        }
        made_for = *scenario;
        is_made = true;
    }
    struct sluice_capacities capacities = {.external_cost_s = {0}};
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        capacities.per_s[r] = INFINITY;
    if (rates->disk_bytes_per_s > 0)
        capacities.per_s[SLUICE_DISK] = rates->disk_bytes_per_s;
    capacities.per_s[SLUICE_STORAGE_CPU] = rates->storage_cores;
    capacities.per_s[SLUICE_NETWORK] = rates->link_bytes_per_s;
    capacities.per_s[SLUICE_COMPUTE_CPU] = rates->compute_cores;
    const struct sluice_menu_source source = sluice_menu_array(menus, OPTIMUM_ITEMS);
    struct sluice_lp_result result;
    if (sluice_plan_lp(&source, &capacities, NULL, &result, NULL) != SLUICE_OK)
        abort();
    return result.dual_s / OPTIMUM_ITEMS;
}

double sim_best_s(const struct sim_scenario *scenario, const struct sim_client *client,
                  double storage_cores)
{
    const struct sluice_rates rates = {
        .link_bytes_per_s = client->link_bytes_per_s,
        .storage_cores = storage_cores,
        .compute_cores = client->compute_cores,
        .disk_bytes_per_s = scenario->disk_bytes_per_s,
    };
    return optimum(scenario, &rates);
}

/* Time as a function of cores is convex, so giving each part of them to whoever gains most from it
 * is the optimum, to the size of a part. */
#define NUM_PARTS 24

double sim_joint_optimum(const struct sim_scenario *scenario, int n)
{
    double table[SIM_MOST_CLIENTS][NUM_PARTS + 1];
    const double cores = scenario->storage_cores;
    for (int j = 0; j < n; j++) {
        for (int k = 0; k <= NUM_PARTS; k++)
            table[j][k] =
                sim_best_s(scenario, &scenario->clients[j], k ? cores * k / NUM_PARTS : 1e-9);
    }
    int parts[SIM_MOST_CLIENTS] = {0};
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

/* What holds in a phase for client 0. */
static struct sluice_rates rates_in(const struct sim_scenario *scenario,
                                    const struct sim_phase *phase)
{
    const struct sim_client *client = &scenario->clients[0];
    struct sluice_rates rates = {
        .link_bytes_per_s = client->link_bytes_per_s,
        .storage_cores = scenario->storage_cores,
        .compute_cores = client->compute_cores,
        .gpu_samples_per_s = INFINITY,
        .disk_bytes_per_s = scenario->disk_bytes_per_s,
    };
    if (phase && phase->link_bytes_per_s > 0)
        rates.link_bytes_per_s = phase->link_bytes_per_s;
    if (phase && phase->storage_cores > 0)
        rates.storage_cores = phase->storage_cores;
    if (phase && phase->disk_bytes_per_s > 0)
        rates.disk_bytes_per_s = phase->disk_bytes_per_s;
    return rates;
}

double sim_oracle_s(const struct sim_scenario *scenario)
{
    double left = (double)scenario->num_items, from_s = 0;
    for (size_t p = 0; p < scenario->num_phases; p++) {
        const struct sluice_rates rates = rates_in(scenario, &scenario->phases[p]);
        const double per_s = 1 / optimum(scenario, &rates);
        const double length_s = scenario->phases[p].until_s - from_s;
        if (left <= per_s * length_s)
            return from_s + left / per_s;
        left -= per_s * length_s;
        from_s = scenario->phases[p].until_s;
    }
    const struct sluice_rates rates = rates_in(scenario, NULL);
    return from_s + left * optimum(scenario, &rates);
}

/* --- the simulation --- */

enum stage { DISK, STORAGE, LINK, ARRIVAL, COMPUTE };

struct item {
    struct sluice_job job; /* in the server's queue */
    int client;
    enum stage stage;
    double due_s;
    double disk_bytes, storage_s, bytes, compute_s, beside_s;
    struct sluice_expected expected;
    double asked_s, started_s; /* by a worker */
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
    struct sim_client node;
    bool is_gone; /* asks for nothing more */
    struct sluice_controller *plan;
    double last_tick_s;
    size_t next_item, num_items;
    unsigned choice;
    bool is_chosen;
    unsigned num_away, num_open;
    struct sluice_expected under_way, expected;
    struct sluice_cpu_market_client market;
    uint64_t finished; /* while it counts */
    double link_noise;
    struct sluice_flow flow;
    struct sluice_flow_host host;
    struct station link, compute;
    struct item items[MOST_OPEN], *free;
    struct sluice_row_seen rows[MOST_ROWS];
    size_t num_rows;
};

struct sim {
    struct sim_scenario scenario;
    struct client *clients; /* num_clients */
    int workers, num_busy;
    double speed; /* of a worker */
    struct sluice_rng rng;
    struct sluice_fair_queue queue;
    struct sluice_cpu_market market;
    struct station disk;
    double now_s, next_look_s, next_noise_s;
    double stolen_s; /* CPU time for raw files that workers have still to make up for */
    double period_begin_s, used_s; /* of the quota */
    struct pace {
        double storage, compute;
    } pace;
    double could_do, could_do_per_s;
    size_t phase;
    struct item **heap; /* at work, the first to be done first */
    int heap_size;
    struct sim_record record;
};

static uint64_t ns_of(double s)
{
    return (uint64_t)(s * 1e9);
}

static void heap_push(struct sim *s, struct item *item)
{
    int i = s->heap_size++;
    for (; i && s->heap[(i - 1) / 2]->due_s > item->due_s; i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = item;
}

static struct item *heap_pop(struct sim *s)
{
    struct item *top = s->heap[0], *last = s->heap[--s->heap_size];
    int i = 0;
    for (;;) {
        int child = 2 * i + 1;
        if (child >= s->heap_size)
            break;
        if (child + 1 < s->heap_size && s->heap[child + 1]->due_s < s->heap[child]->due_s)
            child++;
        if (s->heap[child]->due_s >= last->due_s)
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

static void begin(struct sim *s, struct item *item, enum stage stage, double seconds)
{
    item->stage = stage;
    item->due_s = s->now_s + seconds;
    heap_push(s, item);
}

static double jitter(struct sim *s)
{
    return 1 + s->scenario.noise * (2 * sluice_rng_double(&s->rng) - 1);
}

static const struct sim_phase *phase_of(const struct sim *s)
{
    return s->phase < s->scenario.num_phases ? &s->scenario.phases[s->phase] : NULL;
}

static void set_cores(struct sim *s, double cores)
{
    s->workers = (int)fmax(1, floor(cores));
    s->speed = cores / s->workers;
}

static void enter_phase(struct sim *s)
{
    while (phase_of(s) && s->now_s >= phase_of(s)->until_s)
        s->phase++;
    const struct sluice_rates rates = rates_in(&s->scenario, phase_of(s));
    set_cores(s, rates.storage_cores);
    if (s->scenario.num_phases > 0)
        s->clients[0].node.link_bytes_per_s = rates.link_bytes_per_s;
    s->scenario.disk_bytes_per_s = rates.disk_bytes_per_s;
}

static double speed_of(const struct client *c)
{
    return c->node.compute_cores / fmax(1, floor(c->node.compute_cores));
}

/* How long a worker takes for so much CPU time.  A quota stops it (there is one only) for the rest
 * of a period once it had its part. */
static double time_of(struct sim *s, double cpu_s)
{
    const double period_s = s->scenario.quota_s;
    if (!(period_s > 0))
        return cpu_s / s->speed;
    double at_s = s->now_s;
    if (at_s >= s->period_begin_s + period_s) {
        s->period_begin_s = at_s - fmod(at_s, period_s);
        s->used_s = 0;
    }
    const double part_s = s->speed * period_s;
    while (s->used_s + cpu_s > part_s) {
        cpu_s -= part_s - s->used_s;
        s->used_s = 0;
        s->period_begin_s += period_s;
        at_s = s->period_begin_s;
    }
    s->used_s += cpu_s;
    return at_s + cpu_s - s->now_s;
}

static void start_storage(struct sim *s)
{
    while (s->num_busy < s->workers) {
        struct sluice_flow *flow;
        uint64_t charged_ns;
        struct sluice_job *job = sluice_fair_queue_pop(&s->queue, &flow, &charged_ns);
        if (!job)
            return;
        struct item *item = SLUICE_CONTAINER_OF(job, struct item, job);
        item->flow = flow;
        item->charged_ns = charged_ns;
        item->row.storage_queue_ns = ns_of(s->now_s - item->asked_s) - item->row.disk_ns;
        s->num_busy++;
        sluice_cpu_market_started(&s->market, &s->clients[item->client].market, ns_of(s->now_s));
        item->started_s = s->now_s;
        item->storage_s /= s->pace.storage;
        item->row.storage_cpu_ns = ns_of(fmax(0, item->storage_s - item->beside_s));
        const double stolen_s = s->stolen_s;
        s->stolen_s = 0;
        begin(s, item, STORAGE, time_of(s, item->storage_s + stolen_s));
    }
}

static void start_station(struct sim *s, struct station *station, enum stage stage)
{
    while (station->first && station->num_busy < station->num_servers) {
        struct item *item = station->first;
        struct client *c = &s->clients[item->client];
        station->first = item->next;
        if (!station->first)
            station->end = &station->first;
        station->num_busy++;
        double seconds = 0;
        switch (stage) {
        case DISK:
            seconds = item->disk_bytes / s->scenario.disk_bytes_per_s;
            item->row.disk_busy_ns = ns_of(seconds);
            break;
        case LINK:
            seconds = item->bytes / (c->node.link_bytes_per_s * c->link_noise);
            break;
        default:
            item->compute_s /= s->pace.compute;
            item->row.compute_cpu_ns =
                ns_of(fmax(0, item->compute_s - compute_beside_s(&s->scenario, item->bytes)));
            item->row.started_ns = ns_of(s->now_s);
            seconds = item->compute_s / speed_of(c);
        }
        begin(s, item, stage, seconds);
    }
}

static void enter_station(struct sim *s, struct station *station, struct item *item,
                          enum stage stage)
{
    item->next = NULL;
    *station->end = item;
    station->end = &item->next;
    start_station(s, station, stage);
}

static void note_replan(struct sim *s, const struct sluice_plan_forecast *forecast)
{
    struct sim_record *record = &s->record;
    if (record->num_replans < SIM_MOST_REPLANS)
        record->replan_s[record->num_replans] = s->now_s;
    record->num_replans++;
    record->last = *forecast;
}

static void tick(struct sim *s, struct client *c)
{
    struct sluice_plan_forecast forecast;
    const struct sluice_trainer_seen trainer = {0};
    c->last_tick_s = s->now_s;
    if (sluice_controller_update(c->plan, ns_of(s->now_s), c->next_item, c->rows, c->num_rows,
                                 &trainer, &forecast)) {
        if (c == s->clients)
            note_replan(s, &forecast);
        if (getenv("SLUICE_TEST_VERBOSE"))
            printf("%d %.2f s: %s; %.2f s\n", (int)(c - s->clients), s->now_s, forecast.reason,
                   forecast.rest_s);
    }
    c->num_rows = 0;
}

static void count_choice(struct sim *s, const struct client *c, unsigned chosen, bool is_alone)
{
    if (c != s->clients)
        return;
    s->record.counts[chosen]++;
    s->record.num_alone += is_alone;
    if (s->phase >= SLUICE_ARRAY_LEN(s->record.asked) ||
        (s->phase > 0 && s->now_s < s->scenario.phases[s->phase - 1].until_s + 4))
        return;
    s->record.asked[s->phase].all++;
    s->record.asked[s->phase].files += chosen == 0;
}

/* From the disk on. */
static void serve(struct sim *s, struct item *item)
{
    struct client *c = &s->clients[item->client];
    if (item->row.asked.form != SLUICE_FORM_RAW &&
        sluice_fair_queue_push(&s->queue, &c->flow, &item->job)) {
        sluice_cpu_market_queued(&s->market, &c->market, ns_of(s->now_s));
        start_storage(s);
        return;
    }
    if (item->row.asked.form != SLUICE_FORM_RAW) { /* no room: the file is sent */
        double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        sim_true_costs(&s->scenario, item->row.index, cost);
        item->storage_s = cost[0][SLUICE_STORAGE_CPU];
        item->compute_s = cost[0][SLUICE_COMPUTE_CPU];
        item->bytes = cost[0][SLUICE_NETWORK];
        item->beside_s = storage_beside_s(&s->scenario, 0, item->bytes);
        item->row.got = sluice_test_choices()->at[0];
        item->row.payload_bytes = (size_t)item->bytes;
    }
    s->stolen_s += item->storage_s;
    item->row.storage_ns = ns_of(item->storage_s);
    item->row.storage_cpu_ns = ns_of(fmax(0, item->storage_s - item->beside_s));
    item->row.storage_price =
        s->scenario.external_price > 0 ? s->scenario.external_price : s->market.price.price;
    item->row.storage_cores = s->workers * s->speed;
    enter_station(s, &c->link, item, LINK);
}

static void ask(struct sim *s, struct client *c, unsigned chosen, bool is_alone)
{
    const struct sim_scenario *scenario = &s->scenario;
    struct item *item = c->free;
    const size_t index = c->next_item++;
    const struct sluice_choice choice = sluice_test_choices()->at[chosen];
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sim_true_costs(scenario, index, cost);
    count_choice(s, c, chosen, is_alone);
    c->free = item->next;
    c->num_away++;
    c->num_open++;
    c->under_way.storage_s += c->expected.storage_s;
    c->under_way.bytes += c->expected.bytes;
    c->under_way.compute_s += c->expected.compute_s;
    sluice_cpu_market_asked(&c->market, ns_of(s->now_s));
    const double worth = sluice_controller_storage_worth(c->plan);
    sluice_cpu_market_hear_worth(&c->market, c->node.lie ? c->node.lie(s->now_s, worth) : worth);
    *item = (struct item){
        .client = (int)(c - s->clients),
        .expected = c->expected,
        .asked_s = s->now_s,
        .disk_bytes = cost[chosen][SLUICE_DISK],
        .storage_s = cost[chosen][SLUICE_STORAGE_CPU] * jitter(s),
        .compute_s = cost[chosen][SLUICE_COMPUTE_CPU] * jitter(s),
        .bytes = cost[chosen][SLUICE_NETWORK],
        .beside_s = storage_beside_s(scenario, chosen, cost[chosen][SLUICE_NETWORK]),
        .row = {.index = index,
                .asked = choice,
                .got = choice,
                .requested_ns = ns_of(s->now_s),
                .read_bytes = (uint64_t)cost[chosen][SLUICE_DISK],
                .payload_bytes = (size_t)cost[chosen][SLUICE_NETWORK]},
    };
    if (scenario->disk_bytes_per_s > 0)
        enter_station(s, &s->disk, item, DISK);
    else
        serve(s, item);
}

static void ask_on(struct sim *s, struct client *c)
{
    const struct sluice_tuning *tuning =
        s->scenario.tuning ? s->scenario.tuning : sluice_tuning_default();
    const double interval_s = tuning->interval_s;
    while (!c->is_gone && c->free && c->next_item < c->num_items) {
        if (!c->is_chosen) {
            if (s->now_s - c->last_tick_s >= interval_s &&
                ((double)c->num_rows >= tuning->min_rows ||
                 s->now_s - c->last_tick_s >= tuning->max_intervals * interval_s))
                tick(s, c);
            c->expected = (struct sluice_expected){0};
            c->choice = c->node.is_greedy
                            ? 3
                            : sluice_controller_choose(c->plan, c->next_item % NUM_ITEMS,
                                                       &c->under_way, &c->expected);
            c->is_chosen = true;
        }
        const struct sluice_plan_bounds bounds =
            c->node.is_greedy ? (struct sluice_plan_bounds){512, 512}
                              : sluice_controller_bounds(c->plan, c->num_rows);
        if ((c->num_away > 0 && c->num_away >= bounds.max_away) ||
            (c->num_open > 0 && c->num_open >= bounds.max_unfinished))
            return;
        c->is_chosen = false;
        ask(s, c, c->choice, bounds.max_away == 1);
    }
}

static void change_pace(struct sim *s)
{
    if (sluice_rng_double(&s->rng) < LOOK_S / s->scenario.pace_s || !(s->could_do_per_s > 0)) {
        s->pace.storage = exp(PACE_SPREAD * (2 * sluice_rng_double(&s->rng) - 1));
        s->pace.compute = exp(PACE_SPREAD * (2 * sluice_rng_double(&s->rng) - 1));
        struct sim_client node = s->clients[0].node;
        node.compute_cores *= s->pace.compute;
        s->could_do_per_s =
            1 / sim_best_s(&s->scenario, &node, s->workers * s->speed * s->pace.storage);
    }
    s->could_do += LOOK_S * s->could_do_per_s;
}

static void look(struct sim *s)
{
    enter_phase(s);
    if (s->scenario.pace_s > 0)
        change_pace(s);
    if (s->now_s >= s->next_noise_s) {
        s->next_noise_s += SIM_INTERVAL_S;
        for (int j = 0; j < s->scenario.num_clients; j++)
            s->clients[j].link_noise = s->scenario.is_link_steady ? 1 : jitter(s);
    }
    double waiting_s = 0;
    for (int j = 0; j < s->scenario.num_clients; j++) {
        const struct client *c = &s->clients[j];
        if (c->market.is_priced)
            waiting_s += (double)c->flow.share.depth * (double)c->flow.expected_ns * 1e-9;
    }
    s->market.num_workers = (unsigned)s->workers;
    (void)sluice_cpu_market_update(&s->market, ns_of(s->now_s), s->workers * s->speed, waiting_s);
}

static void finish(struct sim *s, struct item *item)
{
    struct client *c = &s->clients[item->client];
    switch (item->stage) {
    case DISK:
        s->disk.num_busy--;
        item->row.disk_ns = ns_of(s->now_s - item->asked_s);
        start_station(s, &s->disk, DISK);
        serve(s, item);
        break;
    case STORAGE: {
        const double held_s = s->now_s - item->started_s;
        sluice_fair_queue_done(&s->queue, item->flow, item->charged_ns, ns_of(item->storage_s));
        s->num_busy--;
        sluice_cpu_market_done(&s->market, &c->market, ns_of(s->now_s), ns_of(item->storage_s));
        item->row.storage_price =
            s->scenario.external_price > 0 ? s->scenario.external_price : s->market.price.price;
        item->row.storage_cores = s->workers * s->speed;
        item->row.storage_ns = item->row.storage_queue_ns + ns_of(held_s);
        enter_station(s, &c->link, item, LINK);
        start_storage(s);
        break;
    }
    case LINK:
        c->link.num_busy--;
        begin(s, item, ARRIVAL, LATENCY_S + (phase_of(s) ? phase_of(s)->latency_s : 0));
        start_station(s, &c->link, LINK);
        break;
    case ARRIVAL:
        item->row.arrived_ns = ns_of(s->now_s);
        c->num_away--;
        c->under_way.storage_s -= item->expected.storage_s;
        c->under_way.bytes -= item->expected.bytes;
        enter_station(s, &c->compute, item, COMPUTE);
        ask_on(s, c);
        break;
    case COMPUTE:
        c->compute.num_busy--;
        c->finished++;
        item->row.done_ns = ns_of(s->now_s);
        if (c->num_rows < MOST_ROWS)
            c->rows[c->num_rows++] = item->row;
        item->next = c->free;
        c->free = item;
        c->num_open--;
        c->under_way.compute_s -= item->expected.compute_s;
        start_station(s, &c->compute, COMPUTE);
        ask_on(s, c);
        break;
    }
}

double sim_run(struct sim *s, double seconds)
{
    const double end_s = s->now_s + seconds;
    for (;;) {
        const bool is_look = !s->heap_size || s->next_look_s < s->heap[0]->due_s;
        const double next_s = is_look ? s->next_look_s : s->heap[0]->due_s;
        if (!s->heap_size && s->scenario.num_items > 0)
            return s->now_s;
        if (next_s > end_s)
            break;
        s->now_s = next_s;
        if (is_look) {
            look(s);
            s->next_look_s += LOOK_S;
        } else {
            finish(s, heap_pop(s));
        }
    }
    return s->now_s = end_s;
}

void sim_measure(struct sim *s, double seconds, double time_s[SIM_MOST_CLIENTS])
{
    for (int j = 0; j < s->scenario.num_clients; j++)
        s->clients[j].finished = 0;
    s->could_do = 0;
    (void)sim_run(s, seconds);
    for (int j = 0; j < s->scenario.num_clients; j++)
        time_s[j] = seconds / (double)s->clients[j].finished;
}

static void make_client(struct sim *s, int j)
{
    const struct sim_scenario *scenario = &s->scenario;
    struct client *c = &s->clients[j];
    c->node = scenario->clients[j];
    c->link_noise = 1;
    sluice_flow_init(&c->flow, &c->host);
    sluice_cpu_market_join(&s->market, &c->market);
    if (!c->node.is_greedy || c->node.lie)
        sluice_cpu_market_follow(&s->market, &c->market);
    c->link.num_servers = 1;
    c->link.end = &c->link.first;
    c->compute.num_servers = (int)fmax(1, floor(c->node.compute_cores));
    c->compute.end = &c->compute.first;
    for (int i = 0; i < MOST_OPEN; i++) {
        c->items[i].next = c->free;
        c->free = &c->items[i];
    }
    const struct sluice_rates truth = {
        .link_bytes_per_s = c->node.link_bytes_per_s,
        .storage_cores = scenario->num_clients > 1 ? s->workers : s->workers * s->speed,
        .compute_cores = c->node.compute_cores,
        .gpu_samples_per_s = INFINITY,
        .disk_bytes_per_s = scenario->disk_bytes_per_s};
    struct sluice_controller_options options = {
        .model = sluice_test_model(),
        .forms = FORMS,
        .rates = scenario->believed ? *scenario->believed : truth,
        .most = {.link_bytes_per_s = INFINITY,
                 .storage_cores = fmax(4, s->workers),
                 .compute_cores = fmax(1, ceil(c->node.compute_cores)),
                 .gpu_samples_per_s = INFINITY},
        .is_fixed = scenario->is_fixed,
        .tuning = scenario->tuning,
    };
    options.model.has_jpeg_index = scenario->believes_index;
    if (scenario->has_transport)
        options.transport = sim_transport();
    c->num_items = scenario->num_items ? scenario->num_items : SIZE_MAX;
    const struct sluice_plan_epoch epoch =
        sim_epoch(scenario->num_items ? scenario->num_items : NUM_ITEMS);
    struct sluice_plan_forecast forecast;
    if (sluice_controller_create(&options, &c->plan, NULL) != SLUICE_OK ||
        sluice_controller_begin(c->plan, &epoch, 0, &forecast, NULL) != SLUICE_OK)
        abort();
    if (j == 0)
        s->record.first = s->record.last = forecast;
}

struct sim *sim_create(const struct sim_scenario *scenario)
{
    struct sim *s = calloc(1, sizeof(*s));
    if (!s)
        abort();
    const size_t n = (size_t)scenario->num_clients;
    s->clients = calloc(n, sizeof(*s->clients));
    s->heap = calloc(n * MOST_OPEN, sizeof(struct item *));
    if (!s->clients || !s->heap)
        abort();
    make_set();
    s->scenario = *scenario;
    s->pace = (struct pace){1, 1};
    s->rng = sluice_rng_init(scenario->seed ? scenario->seed : sluice_test_seed(), 1, 0, 0);
    s->queue = sluice_fair_queue_init(2048);
    s->market = sluice_cpu_market_init(0, (unsigned)fmax(1, floor(scenario->storage_cores)));
    s->disk = (struct station){.end = &s->disk.first, .num_servers = 1};
    s->next_look_s = LOOK_S;
    s->clients[0].node = scenario->clients[0];
    enter_phase(s);
    for (int j = 0; j < scenario->num_clients; j++)
        make_client(s, j);
    enter_phase(s);
    for (int j = 0; j < scenario->num_clients; j++)
        ask_on(s, &s->clients[j]);
    return s;
}

void sim_destroy(struct sim *s)
{
    for (int j = 0; j < s->scenario.num_clients; j++)
        sluice_controller_destroy(s->clients[j].plan);
    free(s->clients);
    free(s->heap);
    free(s);
}

void sim_leave(struct sim *s, int client)
{
    s->clients[client].is_gone = true;
}

const struct sim_record *sim_record(const struct sim *s)
{
    return &s->record;
}

struct sluice_controller *sim_plan(const struct sim *s, int client)
{
    return s->clients[client].plan;
}

double sim_price(const struct sim *s)
{
    return s->market.price.price;
}

double sim_could_do(const struct sim *s)
{
    return s->could_do;
}
