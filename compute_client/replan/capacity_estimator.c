#include "compute_client/replan/capacity_estimator.h"

#include <math.h>
#include <stdlib.h>

static void set_rates(double per_s[SLUICE_NUM_RESOURCES], const struct sluice_rates *rates)
{
    per_s[SLUICE_DISK] = rates->disk_bytes_per_s > 0 ? rates->disk_bytes_per_s : INFINITY;
    per_s[SLUICE_NETWORK] = rates->link_bytes_per_s;
    per_s[SLUICE_STORAGE_CPU] = rates->storage_cores;
    per_s[SLUICE_COMPUTE_CPU] = rates->compute_cores;
    per_s[SLUICE_GPU] = rates->gpu_samples_per_s;
}

struct sluice_capacity_estimator
sluice_capacity_estimator_init(const struct sluice_rates *believed, const struct sluice_rates *most,
                               const struct sluice_transport_cost *transport,
                               const struct sluice_tuning *tuning)
{
    struct sluice_capacity_estimator estimator = {
        .tuning = tuning,
        .transport = *transport,
        .latency_ns = UINT64_MAX,
        .shared_cores = believed->shared_cores,
        .most_shared_cores = most->shared_cores,
    };
    set_rates(estimator.per_s, believed);
    set_rates(estimator.most_per_s, most);
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        if (estimator.per_s[r] > estimator.most_per_s[r]) /* NaN stays, for others to refuse */
            estimator.per_s[r] = estimator.most_per_s[r];
    }
    return estimator;
}

void sluice_capacity_estimator_begin(struct sluice_capacity_estimator *estimator, uint64_t now_ns)
{
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        estimator->last_ns[r] = now_ns;
    estimator->latency_ns = UINT64_MAX;
}

/* --- seeing --- */

static int by_end(const void *a, const void *b)
{
    const struct sluice_wait_span *x = a, *y = b;
    return x->to_ns < y->to_ns ? -1 : x->to_ns > y->to_ns;
}

/* How much of the length_ns before the last span's end the spans cover.  They may be of another
 * clock than the interval's, as long as they share it. */
static double covered(struct sluice_wait_span *spans, size_t num_spans, uint64_t length_ns)
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
    return sluice_choice_is_preprocessed(row->asked);
}

/* When the row waited for the resource; false: it did not, or hardly. */
static bool span_of(const struct sluice_capacity_estimator *estimator,
                    enum sluice_resource resource, const struct sluice_row_seen *row,
                    struct sluice_wait_span *span)
{
    switch (resource) {
    case SLUICE_DISK: /* a read takes no longer than it must, however short */
        span->from_ns = row->requested_ns + row->backlog_ns + row->storage_queue_ns;
        span->to_ns = span->from_ns + row->disk_ns;
        return row->disk_ns > 0;
    case SLUICE_NETWORK:
        span->to_ns = row->arrived_ns;
        span->from_ns = row->arrived_ns - link_ns(row) + estimator->latency_ns;
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
    span->from_ns += (uint64_t)(estimator->tuning->wait_margin_s * 1e9);
    return span->from_ns < span->to_ns;
}

/* When the resource was done with the row, and its work for the row; false: none. */
static bool work_of(const struct sluice_capacity_estimator *estimator,
                    enum sluice_resource resource, const struct sluice_row_seen *row,
                    uint64_t *done_ns, double *units)
{
    const struct sluice_transport_cost *transport = &estimator->transport;
    const double bytes = (double)row->payload_bytes;
    switch (resource) {
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
        if (row->asked.on_gpu) /* as if a whole file were not cut for it */
            *units += transport->batch_s_per_sample + transport->batch_s_per_byte * bytes;
        return true;
    }
}

/* Sums over all good rows; the price and the cores are those of the last that arrived. */
static void see_rows(struct sluice_capacity_estimator *estimator,
                     const struct sluice_row_seen *rows, size_t num_rows,
                     struct sluice_interval *interval)
{
    uint64_t last_ns = 0;
    for (size_t i = 0; i < num_rows; i++) {
        const struct sluice_row_seen *row = &rows[i];
        if (row->arrived_ns >= last_ns) {
            last_ns = row->arrived_ns;
            interval->storage_cores = row->storage_cores;
            interval->storage_price = row->storage_price;
        }
        if (row->status != SLUICE_OK)
            continue;
        interval->num_rows++;
        if (link_ns(row) < estimator->latency_ns)
            estimator->latency_ns = link_ns(row);
    }
}

/* A worker that reads does not use a core: if the disk is the bottleneck and jobs read longer than
 * they work, the queue of the workers is no evidence about the cores. */
static void see_reads(const struct sluice_capacity_estimator *estimator,
                      const struct sluice_row_seen *rows, size_t num_rows,
                      struct sluice_interval *interval)
{
    uint64_t busy_ns = 0, held_ns = 0, worked_ns = 0;
    for (size_t i = 0; i < num_rows; i++) {
        const struct sluice_row_seen *row = &rows[i];
        if (row->status != SLUICE_OK)
            continue;
        interval->read_bytes += (double)row->read_bytes;
        busy_ns += row->disk_busy_ns;
        if (is_preprocessed(row)) {
            held_ns += row->disk_ns;
            worked_ns += row->storage_ns - row->storage_queue_ns;
        }
    }
    interval->read_s = fmax(interval->read_s, (double)busy_ns * 1e-9);
    if (interval->waited[SLUICE_DISK] >= estimator->tuning->limited_share && held_ns > worked_ns)
        interval->waited[SLUICE_STORAGE_CPU] = 0;
}

static void see_shared(const struct sluice_capacity_estimator *estimator,
                       struct sluice_interval *interval)
{
    if (!(interval->seconds > 0))
        return;
    const struct sluice_transport_cost *transport = &estimator->transport;
    interval->shared_used =
        interval->used_per_s[SLUICE_STORAGE_CPU] + interval->used_per_s[SLUICE_COMPUTE_CPU] +
        transport->receive_s_per_sample * (double)interval->num_rows / interval->seconds +
        transport->receive_s_per_byte * interval->used_per_s[SLUICE_NETWORK];
}

/* Samples per second of the trainer's own time; 0: unknown. */
static double trained_per_s(const struct sluice_trainer_seen *trainer)
{
    if (trainer->busy_ns == 0)
        return 0;
    const double busy_s = 1e-9 * (double)trainer->busy_ns;
    const double decoding = trainer->decode_s / (busy_s + 1e-9 * (double)trainer->waited_ns);
    return (double)trainer->samples / (busy_s * fmax(1 - decoding, TUNING_LEAST_TRAINER_SHARE));
}

struct sluice_interval sluice_capacity_estimator_see(struct sluice_capacity_estimator *estimator,
                                                     const struct sluice_row_seen *rows,
                                                     size_t num_rows,
                                                     const struct sluice_trainer_seen *trainer,
                                                     struct sluice_wait_span *spans)
{
    struct sluice_interval interval = {0};
    interval.used_per_s[SLUICE_GPU] = trained_per_s(trainer);
    see_rows(estimator, rows, num_rows, &interval);
    SLUICE_EACH_RESOURCE (r, SLUICE_ESTIMATED & ~(1u << SLUICE_GPU)) {
        uint64_t end_ns = estimator->last_ns[r];
        double used = 0;
        size_t num_spans = 0;
        for (size_t i = 0; i < num_rows; i++) {
            uint64_t done_ns;
            double units;
            if (rows[i].status != SLUICE_OK ||
                !work_of(estimator, (enum sluice_resource)r, &rows[i], &done_ns, &units))
                continue;
            used += units;
            end_ns = done_ns > end_ns ? done_ns : end_ns;
            if (span_of(estimator, (enum sluice_resource)r, &rows[i], &spans[num_spans]))
                num_spans++;
        }
        const uint64_t length_ns = end_ns - estimator->last_ns[r];
        if (length_ns == 0)
            continue;
        estimator->last_ns[r] = end_ns;
        interval.used_per_s[r] = used * 1e9 / (double)length_ns;
        interval.waited[r] = covered(spans, num_spans, length_ns);
        if (r == SLUICE_NETWORK)
            interval.seconds = (double)length_ns * 1e-9;
        if (r == SLUICE_DISK && interval.waited[r] >= estimator->tuning->limited_share)
            interval.read_s = interval.waited[r] * (double)length_ns * 1e-9;
    }
    see_reads(estimator, rows, num_rows, &interval);
    see_shared(estimator, &interval);
    interval.shared_busy = trainer->shared_busy;
    return interval;
}

/* --- learning --- */

/* EWMA of logarithms, so that a rise and a fall by the same factor weigh the same. */
static double blend(const struct sluice_capacity_estimator *estimator, double believed, double seen)
{
    const struct sluice_tuning *tuning = estimator->tuning;
    if (!isfinite(believed) || !(believed > 0))
        return seen;
    const double change = fmin(fmax(seen / believed, 1 / tuning->max_factor), tuning->max_factor);
    return believed * pow(change, tuning->ewma_weight);
}

static void set(struct sluice_capacity_estimator *estimator, int resource, double per_s)
{
    estimator->per_s[resource] = fmin(per_s, estimator->most_per_s[resource]);
}

static void learn(struct sluice_capacity_estimator *estimator, int r,
                  const struct sluice_interval *interval)
{
    const struct sluice_tuning *tuning = estimator->tuning;
    const double used = interval->used_per_s[r], waited = interval->waited[r];
    const double per_s = estimator->per_s[r];
    if (used > 0 && waited >= tuning->limited_share)
        set(estimator, r, blend(estimator, per_s, used / waited));
    else if (used > per_s)
        set(estimator, r, used);
    else if (used >= tuning->limited_share * per_s && waited <= 1 - tuning->limited_share)
        set(estimator, r, per_s * (1 + tuning->growth));
}

/* False: the interval does not show the capacity of the cores, because their number has changed or
 * a price divides them. */
static bool learn_cores(struct sluice_capacity_estimator *estimator,
                        const struct sluice_interval *interval)
{
    const double cores = interval->storage_cores, before = estimator->heard_cores;
    if (!(cores > 0))
        return true;
    estimator->heard_cores = cores;
    if (interval->storage_price > 0) {
        set(estimator, SLUICE_STORAGE_CPU, cores);
        return false;
    }
    if (!(before > 0) || cores == before)
        return true;
    set(estimator, SLUICE_STORAGE_CPU, estimator->per_s[SLUICE_STORAGE_CPU] * cores / before);
    return false;
}

/* True: the cores that both nodes share were the bottleneck, so no other resource showed its
 * capacity. */
static bool learn_shared(struct sluice_capacity_estimator *estimator,
                         const struct sluice_interval *interval)
{
    const struct sluice_tuning *tuning = estimator->tuning;
    const double cores = estimator->shared_cores, used = interval->shared_used;
    if (!(cores > 0) || !(used > 0))
        return false;
    const bool is_limit = interval->shared_busy >= tuning->limited_share &&
                          used >= TUNING_LEAST_SHARED_PART * estimator->most_shared_cores;
    double seen = cores;
    if (is_limit)
        seen = blend(estimator, cores, used);
    else if (used >= tuning->limited_share * cores)
        seen = fmax(used, cores * (1 + tuning->growth));
    estimator->shared_cores = fmin(seen, estimator->most_shared_cores);
    return is_limit;
}

/* Over the last few intervals, more of them where each had only a few rows. */
static void learn_disk(struct sluice_capacity_estimator *estimator,
                       const struct sluice_interval *interval)
{
    const struct sluice_tuning *tuning = estimator->tuning;
    if (!(interval->read_bytes > 0))
        return;
    const double kept = fmax(1 - (double)interval->num_rows / tuning->disk_rows, tuning->disk_kept);
    estimator->read_bytes = kept * estimator->read_bytes + interval->read_bytes;
    estimator->read_s = kept * estimator->read_s + interval->read_s;
    const double per_s = estimator->read_bytes / estimator->read_s;
    set(estimator, SLUICE_DISK, per_s < tuning->memory_bytes_per_s ? per_s : INFINITY);
}

void sluice_capacity_estimator_learn(struct sluice_capacity_estimator *estimator,
                                     const struct sluice_interval *interval)
{
    learn_disk(estimator, interval);
    const bool shows_cores = learn_cores(estimator, interval);
    if (interval->seconds > 0 && !learn_shared(estimator, interval)) {
        learn(estimator, SLUICE_COMPUTE_CPU, interval);
        if (!estimator->is_local && isfinite(estimator->per_s[SLUICE_NETWORK]))
            learn(estimator, SLUICE_NETWORK, interval);
        if (!estimator->is_local && shows_cores)
            learn(estimator, SLUICE_STORAGE_CPU, interval);
    }
    const double trained = interval->used_per_s[SLUICE_GPU];
    if (trained > 0)
        set(estimator, SLUICE_GPU, blend(estimator, estimator->per_s[SLUICE_GPU], trained));
}

void sluice_capacity_estimator_learn_trainer(struct sluice_capacity_estimator *estimator,
                                             const struct sluice_trainer_seen *rest, double part)
{
    const double seen = trained_per_s(rest);
    if (!(seen > 0))
        return;
    const double per_s = estimator->per_s[SLUICE_GPU];
    const double believed = isfinite(per_s) && per_s > 0 ? per_s : seen;
    set(estimator, SLUICE_GPU, believed * pow(seen / believed, part));
}

struct sluice_rates
sluice_capacity_estimator_rates(const struct sluice_capacity_estimator *estimator)
{
    return (struct sluice_rates){
        .disk_bytes_per_s = estimator->per_s[SLUICE_DISK],
        .link_bytes_per_s = estimator->per_s[SLUICE_NETWORK],
        .storage_cores = estimator->per_s[SLUICE_STORAGE_CPU],
        .compute_cores = estimator->per_s[SLUICE_COMPUTE_CPU],
        .gpu_samples_per_s = estimator->per_s[SLUICE_GPU],
        .shared_cores = estimator->shared_cores,
    };
}
