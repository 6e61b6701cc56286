#include "compute_client/replan/capacity_estimator.h"

#include "support/choices.h"
#include "support/test.h"

#include <math.h>

#define MS 1000000u
#define NUM_ROWS 500

static const struct sluice_rates believed = {
    .link_bytes_per_s = 100e6,
    .storage_cores = 4,
    .compute_cores = 8,
    .gpu_samples_per_s = INFINITY,
};
static const struct sluice_rates most = {
    .link_bytes_per_s = INFINITY,
    .storage_cores = 4,
    .compute_cores = 8,
    .gpu_samples_per_s = INFINITY,
};
static const struct sluice_trainer_seen no_trainer;
static const struct sluice_transport_cost no_transport;

static struct sluice_capacity_estimator create(const struct sluice_rates *rates,
                                               const struct sluice_rates *limits)
{
    return sluice_capacity_estimator_init(rates, limits, &no_transport, sluice_tuning_default());
}

/* One sample each 2 ms for a second, of 100 kB, 1 ms of storage CPU and 1 ms of compute CPU, which
 * waited for so long at each station. */
struct waits {
    uint64_t queue_ns, off_cpu_ns, link_ns, worker_ns;
    bool on_gpu;
};

static void fill(struct sluice_row_seen *rows, uint64_t start_ns, struct waits waits)
{
    for (size_t i = 0; i < NUM_ROWS; i++) {
        const uint64_t requested = start_ns + (uint64_t)i * 2 * MS;
        const uint64_t storage = waits.queue_ns + 1 * MS + waits.off_cpu_ns;
        const uint64_t arrived = requested + storage + 1 * MS + waits.link_ns;
        rows[i] = (struct sluice_row_seen){
            .index = i,
            .asked = {.split = 0, .form = SLUICE_FORM_JPEG_CROP, .on_gpu = waits.on_gpu},
            .got = {.split = 0, .form = SLUICE_FORM_JPEG_CROP},
            .payload_bytes = 100000,
            .requested_ns = requested,
            .storage_ns = storage,
            .storage_queue_ns = waits.queue_ns,
            .storage_cpu_ns = 1 * MS,
            .arrived_ns = arrived,
            .started_ns = arrived + waits.worker_ns,
            .done_ns = arrived + waits.worker_ns + 1 * MS,
            .compute_cpu_ns = 1 * MS,
        };
    }
}

/* A second of such rows in an epoch whose first rows waited for nothing, which shows the latency.
 */
static struct sluice_interval see(struct sluice_capacity_estimator *estimator, struct waits waits)
{
    static struct sluice_row_seen rows[NUM_ROWS];
    static struct sluice_wait_span spans[NUM_ROWS];
    const uint64_t start_ns = 1000000 * MS;
    sluice_capacity_estimator_begin(estimator, start_ns - 2000 * MS);
    fill(rows, start_ns - 2000 * MS, (struct waits){0});
    (void)sluice_capacity_estimator_see(estimator, rows, NUM_ROWS, &no_trainer, spans);
    fill(rows, start_ns, waits);
    /* Each resource was done with a row before them 2 ms earlier. */
    estimator->last_ns[SLUICE_NETWORK] = rows[0].arrived_ns - 2 * MS;
    estimator->last_ns[SLUICE_STORAGE_CPU] = start_ns + rows[0].storage_ns - 2 * MS;
    estimator->last_ns[SLUICE_COMPUTE_CPU] = rows[0].done_ns - 2 * MS;
    /* The order does not matter. */
    const struct sluice_row_seen first = rows[0];
    rows[0] = rows[NUM_ROWS - 1];
    rows[NUM_ROWS - 1] = first;
    return sluice_capacity_estimator_see(estimator, rows, NUM_ROWS, &no_trainer, spans);
}

TEST(what_was_used_is_counted_in_units_of_each)
{
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    const struct sluice_interval interval = see(&estimator, (struct waits){0});
    CU_ASSERT_DOUBLE_EQUAL(interval.seconds, 1, 1e-9);
    CU_ASSERT_EQUAL(interval.num_rows, NUM_ROWS);
    CU_ASSERT_DOUBLE_EQUAL(interval.used_per_s[SLUICE_NETWORK], 50e6, 1);
    CU_ASSERT_DOUBLE_EQUAL(interval.used_per_s[SLUICE_STORAGE_CPU], 0.5, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(interval.used_per_s[SLUICE_COMPUTE_CPU], 0.5, 1e-9);
    SLUICE_EACH_RESOURCE (k, SLUICE_ESTIMATED)
        CU_ASSERT_EQUAL(interval.waited[k], 0);
}

TEST(each_wait_names_its_own_resource)
{
    const struct {
        struct waits waits;
        enum sluice_resource limit;
        double rate;
    } cases[] = {
        {{.link_ns = 100 * MS}, SLUICE_NETWORK, 50e6},
        {{.queue_ns = 100 * MS}, SLUICE_STORAGE_CPU, 0.5},
        {{.worker_ns = 100 * MS}, SLUICE_COMPUTE_CPU, 0.5},
    };
    for (size_t c = 0; c < 3; c++) {
        struct sluice_capacity_estimator estimator = create(&believed, &most);
        const struct sluice_interval interval = see(&estimator, cases[c].waits);
        SLUICE_EACH_RESOURCE (k, SLUICE_ESTIMATED)
            CU_ASSERT_EQUAL(interval.waited[k] > 0.9, k == (int)cases[c].limit);
        const struct sluice_capacity_estimator before = estimator;
        for (int i = 0; i < 8; i++)
            sluice_capacity_estimator_learn(&estimator, &interval);
        SLUICE_EACH_RESOURCE (k, SLUICE_ESTIMATED) {
            if (k == (int)cases[c].limit)
                CU_ASSERT_DOUBLE_EQUAL(estimator.per_s[k], cases[c].rate, 0.1 * cases[c].rate)
            else
                CU_ASSERT_EQUAL(estimator.per_s[k], before.per_s[k]);
        }
    }
}

TEST(a_worker_that_is_off_the_cpu_is_not_a_slow_link)
{
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    const struct sluice_interval interval =
        see(&estimator, (struct waits){.queue_ns = 50 * MS, .off_cpu_ns = 50 * MS});
    CU_ASSERT_EQUAL(interval.waited[SLUICE_NETWORK], 0);
    CU_ASSERT(interval.waited[SLUICE_STORAGE_CPU] > 0.9);
}

TEST(short_waits_are_no_limit)
{
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    const struct sluice_interval interval =
        see(&estimator, (struct waits){.queue_ns = 4 * MS, .link_ns = 4 * MS, .worker_ns = 4 * MS});
    SLUICE_EACH_RESOURCE (k, SLUICE_ESTIMATED)
        CU_ASSERT_EQUAL(interval.waited[k], 0);
}

static struct sluice_interval interval_of(enum sluice_resource k, double used, double waiting)
{
    struct sluice_interval interval = {.seconds = 0.25, .num_rows = 100};
    interval.used_per_s[k] = used;
    interval.waited[k] = waiting;
    return interval;
}

TEST(a_limit_moves_its_estimate_as_an_ewma_of_logarithms)
{
    const struct sluice_tuning *tuning = sluice_tuning_default();
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    const double *link = &estimator.per_s[SLUICE_NETWORK];
    /* Up and down weigh the same. */
    const struct sluice_interval up = interval_of(SLUICE_NETWORK, 200e6, 1);
    sluice_capacity_estimator_learn(&estimator, &up);
    CU_ASSERT_DOUBLE_EQUAL(*link, 100e6 * pow(2, tuning->ewma_weight), 1);
    estimator = create(&believed, &most);
    const struct sluice_interval down = interval_of(SLUICE_NETWORK, 50e6, 1);
    sluice_capacity_estimator_learn(&estimator, &down);
    CU_ASSERT_DOUBLE_EQUAL(*link, 100e6 / pow(2, tuning->ewma_weight), 1);
    /* What was waited for during a part counts as that part. */
    estimator = create(&believed, &most);
    const struct sluice_interval part = interval_of(SLUICE_NETWORK, 95e6, 0.95);
    sluice_capacity_estimator_learn(&estimator, &part);
    CU_ASSERT_DOUBLE_EQUAL(*link, 100e6, 1);
    for (int i = 0; i < 100; i++) {
        const struct sluice_interval noise = interval_of(SLUICE_NETWORK, i % 2 ? 110e6 : 90e6, 1);
        sluice_capacity_estimator_learn(&estimator, &noise);
        CU_ASSERT_DOUBLE_EQUAL(*link, 100e6, 6e6);
    }
}

TEST(an_outlier_moves_an_estimate_by_max_factor_and_a_fall_is_soon_believed)
{
    const struct sluice_tuning *tuning = sluice_tuning_default();
    const double most_step = pow(tuning->max_factor, tuning->ewma_weight);
    const double outliers[] = {1, 1e12};
    for (int k = 0; k < 2; k++) {
        struct sluice_capacity_estimator estimator = create(&believed, &most);
        const struct sluice_interval outlier = interval_of(SLUICE_NETWORK, outliers[k], 1);
        sluice_capacity_estimator_learn(&estimator, &outlier);
        CU_ASSERT_DOUBLE_EQUAL(estimator.per_s[SLUICE_NETWORK],
                               k ? 100e6 * most_step : 100e6 / most_step, 1);
    }
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    for (int i = 0; i < 6; i++) {
        const struct sluice_interval fall = interval_of(SLUICE_NETWORK, 10e6, 1);
        sluice_capacity_estimator_learn(&estimator, &fall);
    }
    CU_ASSERT_DOUBLE_EQUAL(estimator.per_s[SLUICE_NETWORK], 10e6, 1e6);
}

TEST(what_is_fully_used_without_a_wait_grows)
{
    const struct sluice_tuning *tuning = sluice_tuning_default();
    const enum sluice_resource resources[] = {SLUICE_NETWORK, SLUICE_STORAGE_CPU,
                                              SLUICE_COMPUTE_CPU};
    for (size_t k = 0; k < 3; k++) {
        const enum sluice_resource r = resources[k];
        struct sluice_capacity_estimator estimator = create(&believed, &most);
        double *per_s = &estimator.per_s[r];
        *per_s /= 8;
        /* Not with something left of it, nor with waits now and then. */
        const double before = *per_s;
        const struct sluice_interval some_left = interval_of(r, 0.85 * before, 0);
        sluice_capacity_estimator_learn(&estimator, &some_left);
        const struct sluice_interval some_waits = interval_of(r, before, 0.5);
        sluice_capacity_estimator_learn(&estimator, &some_waits);
        CU_ASSERT_EQUAL(*per_s, before);
        const struct sluice_interval used = interval_of(r, 0.95 * before, 0.05);
        sluice_capacity_estimator_learn(&estimator, &used);
        CU_ASSERT_DOUBLE_EQUAL(*per_s, before * (1 + tuning->growth), 1e-6 * before);
        /* It goes on, up to the most there is. */
        for (int i = 0; i < 40; i++) {
            const struct sluice_interval all = interval_of(r, *per_s, 0);
            sluice_capacity_estimator_learn(&estimator, &all);
        }
        if (isfinite(estimator.most_per_s[r]))
            CU_ASSERT_EQUAL(*per_s, estimator.most_per_s[r])
        else
            CU_ASSERT(*per_s > 1000 * before)
    }
}

TEST(the_latency_is_the_least_of_the_epoch)
{
    static struct sluice_row_seen rows[NUM_ROWS];
    static struct sluice_wait_span spans[NUM_ROWS];
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    (void)see(&estimator, (struct waits){0});
    CU_ASSERT_EQUAL(estimator.latency_ns, 1 * MS);
    /* A way that became longer looks like a slow link ... */
    struct sluice_interval interval = see(&estimator, (struct waits){.link_ns = 50 * MS});
    CU_ASSERT_EQUAL(estimator.latency_ns, 1 * MS);
    CU_ASSERT(interval.waited[SLUICE_NETWORK] > 0.9);
    /* ... until the next epoch begins, and with it an empty link. */
    sluice_capacity_estimator_begin(&estimator, 5000000 * (uint64_t)MS);
    CU_ASSERT_EQUAL(estimator.latency_ns, UINT64_MAX);
    fill(rows, 5000000 * (uint64_t)MS, (struct waits){.link_ns = 50 * MS});
    interval = sluice_capacity_estimator_see(&estimator, rows, NUM_ROWS, &no_trainer, spans);
    CU_ASSERT_EQUAL(estimator.latency_ns, 51 * MS);
    CU_ASSERT_EQUAL(interval.waited[SLUICE_NETWORK], 0);
    /* One that is shorter is seen at once. */
    fill(rows, 5002000 * (uint64_t)MS, (struct waits){.link_ns = 20 * MS});
    (void)sluice_capacity_estimator_see(&estimator, rows, NUM_ROWS, &no_trainer, spans);
    CU_ASSERT_EQUAL(estimator.latency_ns, 21 * MS);
}

TEST(cores_and_price_are_those_that_arrived_last)
{
    const struct sluice_row_seen rows[] = {
        {.arrived_ns = 5, .storage_price = 1, .storage_cores = 2},
        {.arrived_ns = 9, .storage_price = 3, .storage_cores = 4, .status = SLUICE_E_CORRUPT},
        {.arrived_ns = 7, .storage_price = 2, .storage_cores = 3},
    };
    struct sluice_wait_span spans[3];
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    const struct sluice_interval interval =
        sluice_capacity_estimator_see(&estimator, rows, 3, &no_trainer, spans);
    CU_ASSERT_EQUAL(interval.storage_cores, 4);
    CU_ASSERT_EQUAL(interval.storage_price, 3);
}

static void hear_cores(struct sluice_capacity_estimator *estimator, double cores, double price)
{
    /* All waited for half a core. */
    struct sluice_interval interval = interval_of(SLUICE_STORAGE_CPU, 0.5, 1);
    interval.storage_cores = cores;
    interval.storage_price = price;
    sluice_capacity_estimator_learn(estimator, &interval);
}

TEST(the_estimate_changes_as_much_as_the_cores_that_are_heard_of)
{
    struct sluice_rates shared = believed, free = most;
    shared.storage_cores = 0.5; /* others have the rest */
    free.storage_cores = 6;
    struct sluice_capacity_estimator estimator = create(&shared, &free);
    const double *per_s = &estimator.per_s[SLUICE_STORAGE_CPU];
    hear_cores(&estimator, 0, 0);
    hear_cores(&estimator, 4, 0); /* nothing to compare it with */
    CU_ASSERT_EQUAL(*per_s, 0.5);
    hear_cores(&estimator, 16, 0); /* what was waited for was before that */
    CU_ASSERT_EQUAL(*per_s, 2);
    hear_cores(&estimator, 4, 0);
    CU_ASSERT_EQUAL(*per_s, 0.5);
    hear_cores(&estimator, 0, 0); /* says nothing of it any more */
    CU_ASSERT_EQUAL(*per_s, 0.5);
    hear_cores(&estimator, 400, 0);
    CU_ASSERT_EQUAL(*per_s, 6);
    /* The other resources are as before. */
    CU_ASSERT_EQUAL(estimator.per_s[SLUICE_NETWORK], believed.link_bytes_per_s);
    CU_ASSERT_EQUAL(estimator.per_s[SLUICE_COMPUTE_CPU], believed.compute_cores);
}

TEST(while_there_is_a_price_all_cores_that_are_heard_of_are_believed)
{
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    const double *per_s = &estimator.per_s[SLUICE_STORAGE_CPU];
    estimator.per_s[SLUICE_STORAGE_CPU] = 0.5;
    hear_cores(&estimator, 3, 0.5);
    CU_ASSERT_EQUAL(*per_s, 3);
    hear_cores(&estimator, 2, 0.5);
    CU_ASSERT_EQUAL(*per_s, 2);
    hear_cores(&estimator, 400, 0.5);
    CU_ASSERT_EQUAL(*per_s, most.storage_cores);
    hear_cores(&estimator, 2, 0.5);
    /* Without one a wait says what there is. */
    for (int i = 0; i < 12; i++)
        hear_cores(&estimator, 2, 0);
    CU_ASSERT_DOUBLE_EQUAL(*per_s, 0.5, 0.01);
}

TEST(more_use_than_believed_is_a_lower_bound_up_to_the_most)
{
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    struct sluice_interval interval = interval_of(SLUICE_NETWORK, 130e6, 0.2);
    sluice_capacity_estimator_learn(&estimator, &interval);
    CU_ASSERT_EQUAL(estimator.per_s[SLUICE_NETWORK], 130e6);
    interval = interval_of(SLUICE_STORAGE_CPU, 5, 0.2);
    sluice_capacity_estimator_learn(&estimator, &interval);
    CU_ASSERT_EQUAL(estimator.per_s[SLUICE_STORAGE_CPU], 4);
    const struct sluice_rates more = {
        .link_bytes_per_s = 1, .storage_cores = 1, .compute_cores = 1, .gpu_samples_per_s = 1};
    estimator = create(&believed, &more); /* also of what is believed at first */
    CU_ASSERT_EQUAL(estimator.per_s[SLUICE_NETWORK], 1);
}

TEST(the_trainers_rate_is_its_samples_over_its_time)
{
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    const struct sluice_trainer_seen seen = {.samples = 512, .busy_ns = 256 * MS};
    const struct sluice_interval interval =
        sluice_capacity_estimator_see(&estimator, NULL, 0, &seen, NULL);
    CU_ASSERT_EQUAL(interval.seconds, 0);
    sluice_capacity_estimator_learn(&estimator, &interval);
    CU_ASSERT_DOUBLE_EQUAL(sluice_capacity_estimator_rates(&estimator).gpu_samples_per_s, 2000,
                           1e-6);
    CU_ASSERT_EQUAL(sluice_capacity_estimator_rates(&estimator).link_bytes_per_s, 100e6);
}

/* Of a second, half was training and decoding both, and a fifth of all was decoding: a fifth of the
 * trainer's time was not its own. */
TEST(decoding_beside_the_trainer_is_not_its_own_time)
{
    static const struct {
        double decode_s, per_s;
    } cases[] = {{0, 1000}, {0.2, 1250}, {0.5, 2000}, {7, 10000}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_capacity_estimator estimator = create(&believed, &most);
        const struct sluice_trainer_seen seen = {.samples = 500,
                                                 .busy_ns = 500 * MS,
                                                 .waited_ns = 500 * MS,
                                                 .decode_s = cases[i].decode_s};
        const struct sluice_interval interval =
            sluice_capacity_estimator_see(&estimator, NULL, 0, &seen, NULL);
        CU_ASSERT_DOUBLE_EQUAL(interval.used_per_s[SLUICE_GPU], cases[i].per_s, 1e-6);
        sluice_capacity_estimator_learn_trainer(&estimator, &seen, 1);
        CU_ASSERT_DOUBLE_EQUAL(estimator.per_s[SLUICE_GPU], cases[i].per_s, 1e-6);
    }
}

static double trainer_rate(const struct sluice_capacity_estimator *estimator)
{
    return sluice_capacity_estimator_rates(estimator).gpu_samples_per_s;
}

TEST(the_rest_of_an_epoch_counts_by_its_part)
{
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    const struct sluice_trainer_seen slow = {.samples = 100, .busy_ns = 1000 * MS};
    const struct sluice_trainer_seen quick = {.samples = 100, .busy_ns = 250 * MS};
    sluice_capacity_estimator_learn_trainer(&estimator, &no_trainer, 1);
    CU_ASSERT_TRUE(isinf(trainer_rate(&estimator)));
    sluice_capacity_estimator_learn_trainer(&estimator, &slow, 0.5); /* nothing was known */
    CU_ASSERT_DOUBLE_EQUAL(trainer_rate(&estimator), 100, 1e-9);
    sluice_capacity_estimator_learn_trainer(&estimator, &quick, 0);
    CU_ASSERT_DOUBLE_EQUAL(trainer_rate(&estimator), 100, 1e-9);
    sluice_capacity_estimator_learn_trainer(&estimator, &quick, 0.5);
    CU_ASSERT_DOUBLE_EQUAL(trainer_rate(&estimator), 200, 1e-9);
    sluice_capacity_estimator_learn_trainer(&estimator, &quick, 1);
    CU_ASSERT_DOUBLE_EQUAL(trainer_rate(&estimator), 400, 1e-9);
}

/* Rows of 120 kB files which the disk was busy with for so long each, of which they waited so long
 * for it. */
static struct sluice_interval see_reads(struct sluice_capacity_estimator *estimator,
                                        struct waits waits, uint64_t busy_ns, uint64_t wait_ns)
{
    static struct sluice_row_seen rows[NUM_ROWS];
    static struct sluice_wait_span spans[NUM_ROWS];
    fill(rows, 1000000 * MS, waits);
    for (size_t i = 0; i < NUM_ROWS; i++) {
        rows[i].read_bytes = 120000;
        rows[i].disk_busy_ns = busy_ns;
        rows[i].disk_ns = wait_ns;
        rows[i].arrived_ns += wait_ns;
        rows[i].started_ns += wait_ns;
        rows[i].done_ns += wait_ns;
    }
    sluice_capacity_estimator_begin(estimator, 1000000 * MS);
    estimator->last_ns[SLUICE_DISK] = 1000000 * MS + waits.queue_ns + wait_ns - 2 * MS;
    return sluice_capacity_estimator_see(estimator, rows, NUM_ROWS, &no_trainer, spans);
}

TEST(the_disk_does_what_was_read_over_what_it_was_busy)
{
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    CU_ASSERT_EQUAL(sluice_capacity_estimator_rates(&estimator).disk_bytes_per_s, INFINITY);
    /* A quarter of the time, as nobody wants more. */
    struct sluice_interval interval = see_reads(&estimator, (struct waits){0}, MS / 2, MS / 2);
    CU_ASSERT_DOUBLE_EQUAL(interval.used_per_s[SLUICE_DISK], 60e6, 1);
    CU_ASSERT_DOUBLE_EQUAL(interval.waited[SLUICE_DISK], 0.25, 0.01);
    sluice_capacity_estimator_learn(&estimator, &interval);
    CU_ASSERT_DOUBLE_EQUAL(sluice_capacity_estimator_rates(&estimator).disk_bytes_per_s, 240e6,
                           1e3);
    /* All of it. */
    interval = see_reads(&estimator, (struct waits){0}, 2 * MS, 6 * MS);
    CU_ASSERT(interval.waited[SLUICE_DISK] > 0.99);
    for (int i = 0; i < 4; i++)
        sluice_capacity_estimator_learn(&estimator, &interval);
    CU_ASSERT_DOUBLE_EQUAL(estimator.per_s[SLUICE_DISK], 60e6, 2e6);
}

TEST(of_a_disk_that_others_have_too_a_part_is_left)
{
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    const struct sluice_interval interval =
        see_reads(&estimator, (struct waits){0}, MS / 2, 8 * MS);
    for (int i = 0; i < 4; i++)
        sluice_capacity_estimator_learn(&estimator, &interval);
    CU_ASSERT_DOUBLE_EQUAL(estimator.per_s[SLUICE_DISK], 60e6, 1e6);
}

TEST(files_in_memory_cost_the_disk_nothing)
{
    struct sluice_rates slow = believed;
    slow.disk_bytes_per_s = 50e6; /* when it was profiled */
    struct sluice_capacity_estimator estimator = create(&slow, &most);
    CU_ASSERT_EQUAL(estimator.per_s[SLUICE_DISK], 50e6);
    struct sluice_interval interval = see_reads(&estimator, (struct waits){0}, 2 * MS, 2 * MS);
    sluice_capacity_estimator_learn(&estimator, &interval);
    CU_ASSERT_DOUBLE_EQUAL(estimator.per_s[SLUICE_DISK], 60e6, 1e6);
    interval = see_reads(&estimator, (struct waits){0}, 0, 0);
    CU_ASSERT_EQUAL(interval.waited[SLUICE_DISK], 0);
    for (int i = 0; i < 12; i++)
        sluice_capacity_estimator_learn(&estimator, &interval);
    CU_ASSERT_EQUAL(estimator.per_s[SLUICE_DISK], INFINITY);
}

TEST(a_queue_for_workers_that_read_says_nothing_of_the_cores)
{
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    const struct waits queued = {.queue_ns = 100 * MS};
    /* The disk is the limit, and holds the workers for longer than their work. */
    struct sluice_interval interval = see_reads(&estimator, queued, 2 * MS, 4 * MS);
    CU_ASSERT_EQUAL(interval.waited[SLUICE_STORAGE_CPU], 0);
    /* It holds them for less; and it is not the limit. */
    interval = see_reads(&estimator, queued, MS / 2, MS / 2);
    CU_ASSERT(interval.waited[SLUICE_STORAGE_CPU] > 0.9);
    interval = see_reads(&estimator, (struct waits){.queue_ns = 100 * MS, .off_cpu_ns = 5 * MS},
                         2 * MS, 4 * MS);
    CU_ASSERT(interval.waited[SLUICE_STORAGE_CPU] > 0.9);
}

/* A busy CPU delays the network and the workers; only what both did of the shared cores counts. */
TEST(while_shared_cores_are_busy_they_alone_are_the_limit)
{
    struct sluice_rates shared = believed, limits = most;
    shared.shared_cores = limits.shared_cores = 2;
    struct sluice_capacity_estimator estimator = create(&shared, &limits);
    struct sluice_interval interval =
        see(&estimator, (struct waits){.link_ns = 100 * MS, .worker_ns = 100 * MS});
    CU_ASSERT_DOUBLE_EQUAL(interval.shared_used, 1, 1e-9);
    const struct sluice_capacity_estimator before = estimator;
    interval.shared_busy = 0.95;
    for (int i = 0; i < 8; i++)
        sluice_capacity_estimator_learn(&estimator, &interval);
    CU_ASSERT_DOUBLE_EQUAL(estimator.shared_cores, 1, 0.1);
    SLUICE_EACH_RESOURCE (k, SLUICE_ESTIMATED)
        CU_ASSERT_EQUAL(estimator.per_s[k], before.per_s[k]);
    CU_ASSERT_EQUAL(sluice_capacity_estimator_rates(&estimator).shared_cores,
                    estimator.shared_cores);

    /* With time to spare the link's wait is the link's, and the cores are believed in again. */
    interval.shared_busy = 0.5;
    for (int i = 0; i < 8; i++)
        sluice_capacity_estimator_learn(&estimator, &interval);
    CU_ASSERT_DOUBLE_EQUAL(estimator.per_s[SLUICE_NETWORK], 50e6, 5e6);
    CU_ASSERT(estimator.shared_cores > 1);
    for (int i = 0; i < 1000; i++) {
        interval.shared_used = estimator.shared_cores;
        sluice_capacity_estimator_learn(&estimator, &interval);
    }
    CU_ASSERT_EQUAL(estimator.shared_cores, 2); /* no more than there are */
}

TEST(cores_that_others_keep_busy_hide_no_slow_link)
{
    struct sluice_rates shared = believed, limits = most;
    shared.shared_cores = limits.shared_cores = 16;
    struct sluice_capacity_estimator estimator = create(&shared, &limits);
    struct sluice_interval interval = see(&estimator, (struct waits){.link_ns = 100 * MS});
    interval.shared_busy = 1; /* 1 core of 16 is ours */
    sluice_capacity_estimator_learn(&estimator, &interval);
    CU_ASSERT(estimator.per_s[SLUICE_NETWORK] < believed.link_bytes_per_s);
    CU_ASSERT_EQUAL(estimator.shared_cores, 16);
}

TEST(a_link_within_the_machine_stays_unlimited)
{
    struct sluice_rates shared = believed, limits = most;
    shared.shared_cores = limits.shared_cores = 16;
    shared.link_bytes_per_s = INFINITY;
    struct sluice_capacity_estimator estimator = create(&shared, &limits);
    const struct sluice_interval interval = see(&estimator, (struct waits){.link_ns = 100 * MS});
    sluice_capacity_estimator_learn(&estimator, &interval);
    CU_ASSERT(isinf(estimator.per_s[SLUICE_NETWORK]));
}

TEST(two_machines_share_nothing)
{
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    struct sluice_interval interval = see(&estimator, (struct waits){.link_ns = 100 * MS});
    interval.shared_busy = 1;
    sluice_capacity_estimator_learn(&estimator, &interval);
    CU_ASSERT(estimator.per_s[SLUICE_NETWORK] < believed.link_bytes_per_s);
    CU_ASSERT_EQUAL(estimator.shared_cores, 0);
}

TEST(failed_rows_and_nothing_at_all_say_nothing)
{
    static struct sluice_row_seen rows[NUM_ROWS];
    static struct sluice_wait_span spans[NUM_ROWS];
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    fill(rows, 1000 * MS, (struct waits){.link_ns = 100 * MS});
    for (size_t i = 0; i < NUM_ROWS; i++)
        rows[i].status = SLUICE_E_CORRUPT;
    const struct sluice_capacity_estimator before = estimator;
    const struct sluice_interval failed =
        sluice_capacity_estimator_see(&estimator, rows, NUM_ROWS, &no_trainer, spans);
    sluice_capacity_estimator_learn(&estimator, &failed);
    const struct sluice_interval none =
        sluice_capacity_estimator_see(&estimator, NULL, 0, &no_trainer, NULL);
    sluice_capacity_estimator_learn(&estimator, &none);
    SLUICE_EACH_RESOURCE (k, SLUICE_ESTIMATED) {
        CU_ASSERT_EQUAL(estimator.per_s[k], before.per_s[k]);
        CU_ASSERT_EQUAL(estimator.last_ns[k], before.last_ns[k]);
    }
    CU_ASSERT_EQUAL(estimator.latency_ns, before.latency_ns);
}

TEST(transport_counts_as_done_by_the_cores)
{
    struct sluice_capacity_estimator estimator = create(&believed, &most);
    estimator.transport = (struct sluice_transport_cost){
        .storage_s_per_sample = 1, /* reading: the rows say it */
        .storage_s_per_job = 0.2e-3,
        .storage_s_per_byte = 1e-9,
        .compute_s_per_sample = 0.4e-3,
        .compute_s_per_byte = 2e-9,
        .batch_s_per_sample = 0.1e-3,
        .batch_s_per_byte = 1e-9,
    };
    struct sluice_interval interval = see(&estimator, (struct waits){.on_gpu = true});
    CU_ASSERT_DOUBLE_EQUAL(interval.used_per_s[SLUICE_COMPUTE_CPU], 0.5 * 1.8, 1e-9);
    interval = see(&estimator, (struct waits){0});
    CU_ASSERT_DOUBLE_EQUAL(interval.used_per_s[SLUICE_STORAGE_CPU], 0.5 * 1.3, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(interval.used_per_s[SLUICE_COMPUTE_CPU], 0.5 * 1.6, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(interval.used_per_s[SLUICE_NETWORK], 50e6, 1);
}
