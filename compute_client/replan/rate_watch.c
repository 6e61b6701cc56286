#include "compute_client/replan/rate_watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A wait as short as this is the scheduling of threads and the batching of messages. */
#define MARGIN_NS 5000000u
/* While a price divides the storage node's cores a queue is its concern, and they are believed to
 * do more with each look. */
#define PRICED_STEP 0.1
#define MOST_OF_HEARD 1.5 /* what other threads do beside those cores is in what is believed */

/* What was waited for nearly all of the time was the limit; what was waited for less than half of
 * it was not. */
#define LIMITED 0.9
#define IDLE 0.5

/* A resource does what is believed of it from this share on. */
#define FULL 0.9

/* The first step up, doubled with each that follows, and the largest. */
#define FIRST_STEP 0.05
#define MAX_STEP 0.4

/* Steps that led nowhere are held off for twice as many looks each time, up to so many. */
#define MAX_HOLDING 16
/* Where hardly anything waits for it any more, it may well have become faster: a look counts for so
 * many, and a step is large enough to be worth other prices. */
#define FREE 0.2
#define FREE_LOOKS 2
#define FREE_SIZE 2
/* Steps that no plan has followed yet, as they were too small to be worth another, go on up to so
 * many times what the plan is for; if that is worth none either, more is not. */
#define MAX_UNPLANNED 4.0
/* Steps that were right: this much and still no wait. */
#define RISEN 1.5

/* Small differences between what is believed and what is seen are noise for the most part, large
 * ones are not, and what follows a step up is what it was tried for; what is seen moves it at most
 * by this factor at a time. */
#define SMALL_CHANGE 0.2 /* in natural logarithms */
#define SMALL_WEIGHT 0.25
#define LARGE_WEIGHT 0.7
#define MAX_FACTOR 4.0

/* What is remembered of the disk: so many rows, and this share of it or more at each look. */
#define FORGOTTEN_ROWS 128.0
#define KEPT_READS 0.4
/* More than that comes from memory. */
#define FROM_MEMORY_PER_S 1e11

/* A link that is never empty hides its latency; for so long it is taken to be what it was. */
#define LATENCY_OLD_NS 10000000000u
#define LATENCY_SLACK_NS 1000000u
#define SLOWER 0.75
#define SLOWER_NS 1000000000u

static void set_rates(double per_s[SLUICE_NUM_RESOURCES], const struct sluice_rates *rates)
{
    per_s[SLUICE_DISK] = rates->disk_bytes_per_s > 0 ? rates->disk_bytes_per_s : INFINITY;
    per_s[SLUICE_NETWORK] = rates->link_bytes_per_s;
    per_s[SLUICE_STORAGE_CPU] = rates->storage_cores;
    per_s[SLUICE_COMPUTE_CPU] = rates->compute_cores;
    per_s[SLUICE_GPU] = rates->gpu_samples_per_s;
}

struct sluice_rate_watch sluice_rate_watch_init(const struct sluice_rates *believed,
                                                const struct sluice_rates *most)
{
    struct sluice_rate_watch watch = {.least_link_ns = UINT64_MAX};
    set_rates(watch.per_s, believed);
    set_rates(watch.most_per_s, most);
    for (int k = 0; k < SLUICE_NUM_RESOURCES; k++) {
        if (watch.per_s[k] > watch.most_per_s[k])
            watch.per_s[k] = watch.most_per_s[k];
    }
    sluice_rate_watch_plan(&watch);
    return watch;
}

void sluice_rate_watch_plan(struct sluice_rate_watch *watch)
{
    memcpy(watch->planned_per_s, watch->per_s, sizeof(watch->planned_per_s));
}

void sluice_rate_watch_restart(struct sluice_rate_watch *watch, uint64_t now_ns)
{
    for (int k = 0; k < SLUICE_NUM_RESOURCES; k++)
        watch->last_ns[k] = now_ns;
    watch->least_at_ns = now_ns;
}

bool sluice_rate_watch_hear_cores(struct sluice_rate_watch *watch, double cores)
{
    const double before = watch->heard_cores;
    if (!(cores > 0) || cores == before)
        return false;
    watch->heard_cores = cores;
    if (!(before > 0))
        return false;
    double *per_s = &watch->per_s[SLUICE_STORAGE_CPU];
    *per_s = fmin(*per_s * cores / before, watch->most_per_s[SLUICE_STORAGE_CPU]);
    watch->steps[SLUICE_STORAGE_CPU] = (struct sluice_rate_steps){0};
    return true;
}

bool sluice_rate_watch_is_latency_old(struct sluice_rate_watch *watch, uint64_t now_ns)
{
    const double per_s = watch->per_s[SLUICE_NETWORK];
    if (per_s > watch->least_per_s)
        watch->least_per_s = per_s;
    if (per_s >= SLOWER * watch->least_per_s) {
        watch->slower_ns = 0;
    } else if (watch->slower_ns == 0 || fabs(log(per_s / watch->slower_per_s)) > SMALL_CHANGE) {
        watch->slower_ns = now_ns;
        watch->slower_per_s = per_s;
    }
    const bool is_old = now_ns >= watch->least_at_ns + LATENCY_OLD_NS;
    const bool is_slower = watch->slower_ns && now_ns >= watch->slower_ns + SLOWER_NS;
    if (watch->least_link_ns == UINT64_MAX || (!is_old && !is_slower))
        return false;
    watch->least_at_ns = now_ns;
    watch->doubted_per_s = watch->least_per_s;
    watch->least_per_s = per_s;
    watch->slower_ns = 0;
    return true;
}

void sluice_rate_watch_forget_latency(struct sluice_rate_watch *watch)
{
    watch->forgotten_ns = watch->least_link_ns;
    watch->least_link_ns = UINT64_MAX;
}

/* --- seeing --- */

static int by_end(const void *a, const void *b)
{
    const struct sluice_rate_span *x = a, *y = b;
    return x->to_ns < y->to_ns ? -1 : x->to_ns > y->to_ns;
}

/* How much of the length_ns before the last span's end the spans cover.  They may be of another
 * clock than the interval's, as long as they share it. */
static double covered(struct sluice_rate_span *spans, size_t num_spans, uint64_t length_ns)
{
    if (num_spans == 0)
        return 0;
    qsort(spans, num_spans, sizeof(*spans), by_end);
    const uint64_t end = spans[num_spans - 1].to_ns;
    const uint64_t begin = end > length_ns ? end - length_ns : 0;
    uint64_t low = UINT64_MAX, sum = 0;
    for (size_t i = num_spans; i-- > 0;) {
        const uint64_t to = spans[i].to_ns < low ? spans[i].to_ns : low;
        const uint64_t from = spans[i].from_ns > begin ? spans[i].from_ns : begin;
        if (from < to) {
            sum += to - from;
            low = from;
        }
    }
    return (double)sum / (double)length_ns;
}

static uint64_t link_ns(const struct sluice_row_seen *row)
{
    const uint64_t away = row->arrived_ns - row->requested_ns;
    const uint64_t known = row->backlog_ns + row->storage_ns + row->disk_ns;
    return away > known ? away - known : 0;
}

static bool is_preprocessed(const struct sluice_row_seen *row)
{
    return row->asked.form != SLUICE_FORM_RAW;
}

/* When the row waited for the resource; false: never to speak of. */
static bool span_of(const struct sluice_rate_watch *watch, enum sluice_resource watched,
                    const struct sluice_row_seen *row, struct sluice_rate_span *span)
{
    switch (watched) {
    case SLUICE_DISK: /* a read takes no longer than it must, however short */
        span->from_ns = row->requested_ns + row->backlog_ns + row->storage_queue_ns;
        span->to_ns = span->from_ns + row->disk_ns;
        return row->disk_ns > 0;
    case SLUICE_NETWORK:
        span->to_ns = row->arrived_ns;
        span->from_ns = row->arrived_ns - link_ns(row) + watch->least_link_ns;
        break;
    case SLUICE_STORAGE_CPU:
        /* Files come from other threads. */
        if (!is_preprocessed(row))
            return false;
        span->from_ns = row->requested_ns + row->backlog_ns;
        span->to_ns = span->from_ns + row->storage_queue_ns;
        break;
    default:
        span->from_ns = row->arrived_ns;
        span->to_ns = row->started_ns;
        break;
    }
    span->from_ns += MARGIN_NS;
    return span->from_ns < span->to_ns;
}

/* When the resource was done with the row, and what it did for it; false: nothing. */
static bool work_of(const struct sluice_rate_watch *watch, enum sluice_resource watched,
                    const struct sluice_row_seen *row, uint64_t *done_ns, double *units)
{
    const struct sluice_transport_cost *transport = &watch->transport;
    const double bytes = (double)row->payload_bytes;
    switch (watched) {
    case SLUICE_DISK:
        *done_ns = row->requested_ns + row->backlog_ns + row->storage_queue_ns + row->disk_ns;
        *units = (double)row->read_bytes;
        return true;
    case SLUICE_NETWORK:
        *done_ns = row->arrived_ns;
        *units = (double)row->payload_bytes;
        return true;
    case SLUICE_STORAGE_CPU:
        *done_ns = row->requested_ns + row->backlog_ns + row->disk_ns + row->storage_ns;
        /* Reading the file, which is a part of the transport, is in what the row says. */
        *units = (double)row->storage_cpu_ns * 1e-9 + transport->storage_s_per_byte * bytes;
        if (is_preprocessed(row))
            *units += transport->storage_s_per_job;
        return *units > 0;
    default:
        *done_ns = row->done_ns;
        *units = (double)row->compute_cpu_ns * 1e-9 + transport->compute_s_per_sample +
                 transport->compute_s_per_byte * bytes;
        if (is_preprocessed(row))
            *units += transport->compute_s_per_job;
        return true;
    }
}

/* Whether even the fastest row was on its way for longer than the latency was, beside the time that
 * its bytes take by what the link is believed to do, be that slow. */
static bool is_longer(const struct sluice_rate_watch *watch, const struct sluice_row_seen *rows,
                      size_t num_rows)
{
    const double per_ns = watch->per_s[SLUICE_NETWORK] * 1e-9;
    const double most_ns = 1.5 * (double)watch->forgotten_ns + MARGIN_NS;
    for (size_t i = 0; i < num_rows; i++) {
        if (rows[i].status == SLUICE_OK &&
            (double)link_ns(&rows[i]) - (double)rows[i].payload_bytes / per_ns <= most_ns)
            return false;
    }
    return true;
}

static void see_reads(const struct sluice_row_seen *rows, size_t num_rows,
                      struct sluice_rate_sight *sight)
{
    uint64_t busy_ns = 0, held_ns = 0, worked_ns = 0;
    for (size_t i = 0; i < num_rows; i++) {
        const struct sluice_row_seen *row = &rows[i];
        if (row->status != SLUICE_OK)
            continue;
        sight->read_bytes += (double)row->read_bytes;
        busy_ns += row->disk_busy_ns;
        if (is_preprocessed(row)) {
            held_ns += row->disk_ns;
            worked_ns += row->storage_ns - row->storage_queue_ns;
        }
    }
    sight->read_s = fmax(sight->read_s, (double)busy_ns * 1e-9);
    if (sight->waiting[SLUICE_DISK] >= LIMITED && held_ns > worked_ns)
        sight->waiting[SLUICE_STORAGE_CPU] = 0;
}

struct sluice_rate_sight sluice_rate_watch_see(struct sluice_rate_watch *watch,
                                               const struct sluice_row_seen *rows, size_t num_rows,
                                               const struct sluice_trainer_seen *trainer,
                                               struct sluice_rate_span *spans)
{
    struct sluice_rate_sight sight = {0};
    if (trainer->busy_ns > 0)
        sight.used_per_s[SLUICE_GPU] = (double)trainer->samples * 1e9 / (double)trainer->busy_ns;
    for (size_t i = 0; i < num_rows; i++) {
        if (rows[i].status != SLUICE_OK)
            continue;
        sight.num_rows++;
        sight.is_priced |= rows[i].storage_price > SLUICE_RATE_WATCH_PRICED;
        if (link_ns(&rows[i]) < watch->least_link_ns)
            watch->least_link_ns = link_ns(&rows[i]);
    }
    if (watch->forgotten_ns && watch->least_link_ns != UINT64_MAX) {
        if (is_longer(watch, rows, num_rows))
            watch->per_s[SLUICE_NETWORK] = fmax(watch->per_s[SLUICE_NETWORK], watch->doubted_per_s);
        watch->forgotten_ns = 0;
    }
    for (size_t i = 0; i < num_rows; i++) {
        if (rows[i].status == SLUICE_OK && rows[i].arrived_ns > watch->least_at_ns &&
            link_ns(&rows[i]) <= watch->least_link_ns + watch->least_link_ns / 8 + LATENCY_SLACK_NS)
            watch->least_at_ns = rows[i].arrived_ns;
    }
    SLUICE_EACH_RESOURCE (k, SLUICE_WATCHED & ~(1u << SLUICE_GPU)) {
        uint64_t end_ns = watch->last_ns[k];
        double used = 0;
        size_t num_spans = 0;
        for (size_t i = 0; i < num_rows; i++) {
            uint64_t done_ns;
            double units;
            if (rows[i].status != SLUICE_OK ||
                !work_of(watch, (enum sluice_resource)k, &rows[i], &done_ns, &units))
                continue;
            used += units;
            end_ns = done_ns > end_ns ? done_ns : end_ns;
            if (span_of(watch, (enum sluice_resource)k, &rows[i], &spans[num_spans]))
                num_spans++;
        }
        const uint64_t length_ns = end_ns - watch->last_ns[k];
        if (length_ns == 0)
            continue;
        watch->last_ns[k] = end_ns;
        sight.used_per_s[k] = used * 1e9 / (double)length_ns;
        sight.waiting[k] = covered(spans, num_spans, length_ns);
        if (k == SLUICE_NETWORK)
            sight.seconds = (double)length_ns * 1e-9;
        if (k == SLUICE_DISK && sight.waiting[k] >= LIMITED)
            sight.read_s = sight.waiting[k] * (double)length_ns * 1e-9;
    }
    see_reads(rows, num_rows, &sight);
    return sight;
}

/* --- learning --- */

/* from_per_s: before the steps up that led to what is believed; 0: it was no step. */
static double moved(double believed, double seen, double from_per_s)
{
    if (!isfinite(believed) || !(believed > 0))
        return seen;
    const double change = log(seen / believed);
    const bool is_tried = from_per_s > 0;
    const double weight = is_tried ? 1 : fabs(change) < SMALL_CHANGE ? SMALL_WEIGHT : LARGE_WEIGHT;
    const double factor = exp(weight * change);
    const double least = is_tried ? fmin(1 / MAX_FACTOR, from_per_s / believed) : 1 / MAX_FACTOR;
    return believed * fmin(fmax(factor, least), MAX_FACTOR);
}

/* The steps up were wrong, if any were tried. */
static void hold(struct sluice_rate_steps *steps, double per_s)
{
    if (steps->from_per_s > 0 && per_s < RISEN * steps->from_per_s) {
        steps->holding = steps->holding ? 2 * steps->holding : 1;
        if (steps->holding > MAX_HOLDING)
            steps->holding = MAX_HOLDING;
        steps->held = steps->holding;
    }
    steps->from_per_s = 0;
    steps->size = 0;
}

/* What it did before it fell, where nobody waits for it any more.  Whether that is right shows at
 * the next look; it is tried once. */
static bool step_back(struct sluice_rate_steps *steps, double *per_s, double used)
{
    const double back = steps->fell_per_s;
    if (!(back > fmax(*per_s, used)))
        return false;
    if (!(steps->from_per_s > 0))
        steps->from_per_s = *per_s;
    steps->fell_per_s = 0;
    *per_s = back;
    return true;
}

static void step_up(struct sluice_rate_steps *steps, double *per_s, double used, double waiting,
                    double most_per_s)
{
    if (waiting < FREE && steps->size < FREE_SIZE)
        steps->size = FREE_SIZE;
    if (!(steps->from_per_s > 0))
        steps->from_per_s = *per_s;
    const double step = ldexp(FIRST_STEP, (int)steps->size);
    *per_s = fmin(*per_s * (1 + fmin(step, MAX_STEP)), most_per_s);
    if (step < MAX_STEP)
        steps->size++;
    if (used >= RISEN * steps->from_per_s)
        steps->holding = 0;
}

static void learn(struct sluice_rate_watch *watch, int k, const struct sluice_rate_sight *sight)
{
    double *per_s = &watch->per_s[k];
    struct sluice_rate_steps *steps = &watch->steps[k];
    const double used = sight->used_per_s[k];
    if (!(used > 0))
        return;
    steps->shown_per_s = fmax(steps->shown_per_s, used);
    const double planned = fmin(*per_s, watch->planned_per_s[k]);
    const bool is_worth_more = *per_s < MAX_UNPLANNED * fmax(planned, used);
    if (k == SLUICE_STORAGE_CPU && sight->is_priced) {
        const double most = watch->heard_cores > 0 ? MOST_OF_HEARD * watch->heard_cores : INFINITY;
        *per_s = fmin(*per_s * (1 + PRICED_STEP), fmax(most, used));
        hold(steps, *per_s);
    } else if (sight->waiting[k] >= LIMITED) {
        const double before = *per_s;
        *per_s = moved(*per_s, used / sight->waiting[k], steps->from_per_s);
        if (*per_s * RISEN < before && !(steps->from_per_s > 0))
            steps->fell_per_s = fmax(steps->fell_per_s, fmin(before, steps->shown_per_s));
        hold(steps, *per_s);
    } else if (sight->waiting[k] < FREE && used >= FULL * planned &&
               !watch->without_probing && step_back(steps, per_s, used)) {
        return;
    } else if (used > *per_s) {
        *per_s = used;
    } else if (used >= FULL * planned && is_worth_more && steps->held == 0 &&
               !watch->without_probing) {
        /* While somebody waited it did this, or a little less, as short waits are not counted. */
        double most_per_s =
            sight->waiting[k] < IDLE ? INFINITY : fmax(*per_s, used / sight->waiting[k]);
        if (k == SLUICE_STORAGE_CPU && watch->heard_cores > 0) /* there are no more */
            most_per_s = fmin(most_per_s, fmax(*per_s, watch->heard_cores));
        step_up(steps, per_s, used, sight->waiting[k], most_per_s);
    } else if (steps->held > 0) {
        const unsigned looks = sight->waiting[k] < FREE ? FREE_LOOKS : 1;
        steps->held -= looks < steps->held ? looks : steps->held;
    }
    if (*per_s > watch->most_per_s[k])
        *per_s = watch->most_per_s[k];
}

/* Over the last few looks, more of them where each had only a few rows. */
static void learn_disk(struct sluice_rate_watch *watch, const struct sluice_rate_sight *sight)
{
    if (!(sight->read_bytes > 0))
        return;
    const double kept = fmax(1 - (double)sight->num_rows / FORGOTTEN_ROWS, KEPT_READS);
    watch->read_bytes = kept * watch->read_bytes + sight->read_bytes;
    watch->read_s = kept * watch->read_s + sight->read_s;
    const double per_s = watch->read_bytes / watch->read_s;
    watch->per_s[SLUICE_DISK] = watch->read_s > 0 && per_s < FROM_MEMORY_PER_S
                                    ? fmin(per_s, watch->most_per_s[SLUICE_DISK])
                                    : watch->most_per_s[SLUICE_DISK];
}

void sluice_rate_watch_learn(struct sluice_rate_watch *watch, const struct sluice_rate_sight *sight)
{
    learn_disk(watch, sight);
    if (sight->seconds > 0) {
        SLUICE_EACH_RESOURCE (k, 1u << SLUICE_NETWORK | 1u << SLUICE_STORAGE_CPU |
                                     1u << SLUICE_COMPUTE_CPU)
            learn(watch, k, sight);
    }
    double *trainer = &watch->per_s[SLUICE_GPU];
    if (sight->used_per_s[SLUICE_GPU] > 0)
        *trainer =
            fmin(moved(*trainer, sight->used_per_s[SLUICE_GPU], 0), watch->most_per_s[SLUICE_GPU]);
}

void sluice_rate_watch_learn_trainer(struct sluice_rate_watch *watch,
                                     const struct sluice_trainer_seen *rest, double part)
{
    if (rest->samples == 0 || rest->busy_ns == 0)
        return;
    double *trainer = &watch->per_s[SLUICE_GPU];
    const double seen = (double)rest->samples * 1e9 / (double)rest->busy_ns;
    const double believed = isfinite(*trainer) && *trainer > 0 ? *trainer : seen;
    *trainer = fmin(believed * pow(seen / believed, part), watch->most_per_s[SLUICE_GPU]);
}

struct sluice_rates sluice_rate_watch_rates(const struct sluice_rate_watch *watch)
{
    return (struct sluice_rates){
        .disk_bytes_per_s = watch->per_s[SLUICE_DISK],
        .link_bytes_per_s = watch->per_s[SLUICE_NETWORK],
        .storage_cores = watch->per_s[SLUICE_STORAGE_CPU],
        .compute_cores = watch->per_s[SLUICE_COMPUTE_CPU],
        .gpu_samples_per_s = watch->per_s[SLUICE_GPU],
    };
}
