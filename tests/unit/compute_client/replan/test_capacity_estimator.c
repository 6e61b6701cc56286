#include "compute_client/replan/rate_watch.h"

#include "support/test.h"

#include <math.h>
#include <string.h>

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

/* One sample each 2 ms for a second, of 100 kB, 1 ms of storage CPU and 1 ms of compute CPU, which
 * waited for so long at each station. */
struct waits {
    uint64_t queue_ns, off_cpu_ns, link_ns, worker_ns;
    double storage_price;
};

static void fill(struct sluice_row_seen *rows, uint64_t start_ns, struct waits waits)
{
    for (size_t i = 0; i < NUM_ROWS; i++) {
        const uint64_t requested = start_ns + (uint64_t)i * 2 * MS;
        const uint64_t storage = waits.queue_ns + 1 * MS + waits.off_cpu_ns;
        const uint64_t arrived = requested + storage + 1 * MS + waits.link_ns;
        rows[i] = (struct sluice_row_seen){
            .index = i,
            .asked = {.split = 0, .form = SLUICE_FORM_JPEG_CROP},
            .got = {.split = 0, .form = SLUICE_FORM_JPEG_CROP},
            .payload_bytes = 100000,
            .requested_ns = requested,
            .storage_ns = storage,
            .storage_queue_ns = waits.queue_ns,
            .storage_cpu_ns = 1 * MS,
            .storage_price = waits.storage_price,
            .arrived_ns = arrived,
            .started_ns = arrived + waits.worker_ns,
            .done_ns = arrived + waits.worker_ns + 1 * MS,
            .compute_cpu_ns = 1 * MS,
        };
    }
}

/* A second of such rows after a moment without any wait, which shows the round trip. */
static struct sluice_rate_sight see(struct sluice_rate_watch *watch, struct waits waits)
{
    static struct sluice_row_seen rows[NUM_ROWS];
    static struct sluice_rate_span spans[NUM_ROWS];
    const uint64_t start_ns = 1000000 * MS;
    fill(rows, start_ns - 2000 * MS, (struct waits){0});
    (void)sluice_rate_watch_see(watch, rows, NUM_ROWS, &no_trainer, spans);
    fill(rows, start_ns, waits);
    /* Each resource was done with a row before them 2 ms earlier. */
    sluice_rate_watch_restart(watch, rows[0].arrived_ns - 2 * MS);
    watch->last_ns[SLUICE_STORAGE_CPU] = start_ns + rows[0].storage_ns - 2 * MS;
    watch->last_ns[SLUICE_COMPUTE_CPU] = rows[0].done_ns - 2 * MS;
    /* The order does not matter. */
    const struct sluice_row_seen first = rows[0];
    rows[0] = rows[NUM_ROWS - 1];
    rows[NUM_ROWS - 1] = first;
    return sluice_rate_watch_see(watch, rows, NUM_ROWS, &no_trainer, spans);
}

static void what_was_used_is_counted_in_units_of_each(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    const struct sluice_rate_sight sight = see(&watch, (struct waits){0});
    CU_ASSERT_DOUBLE_EQUAL(sight.seconds, 1, 1e-9);
    CU_ASSERT_EQUAL(sight.num_rows, NUM_ROWS);
    CU_ASSERT_DOUBLE_EQUAL(sight.used_per_s[SLUICE_NETWORK], 50e6, 1);
    CU_ASSERT_DOUBLE_EQUAL(sight.used_per_s[SLUICE_STORAGE_CPU], 0.5, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(sight.used_per_s[SLUICE_COMPUTE_CPU], 0.5, 1e-9);
    SLUICE_EACH_RESOURCE (k, SLUICE_WATCHED)
        CU_ASSERT_EQUAL(sight.waiting[k], 0);
}

static void each_wait_names_its_own_resource(void)
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
        struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
        const struct sluice_rate_sight sight = see(&watch, cases[c].waits);
        SLUICE_EACH_RESOURCE (k, SLUICE_WATCHED)
            CU_ASSERT_EQUAL(sight.waiting[k] > 0.9, k == (int)cases[c].limit);
        const struct sluice_rate_watch before = watch;
        for (int i = 0; i < 8; i++)
            sluice_rate_watch_learn(&watch, &sight);
        SLUICE_EACH_RESOURCE (k, SLUICE_WATCHED) {
            if (k == (int)cases[c].limit)
                CU_ASSERT_DOUBLE_EQUAL(watch.per_s[k], cases[c].rate, 0.1 * cases[c].rate)
            else
                CU_ASSERT_EQUAL(watch.per_s[k], before.per_s[k]);
        }
    }
}

static void a_worker_that_is_off_the_cpu_is_not_a_slow_link(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    const struct sluice_rate_sight sight =
        see(&watch, (struct waits){.queue_ns = 50 * MS, .off_cpu_ns = 50 * MS});
    CU_ASSERT_EQUAL(sight.waiting[SLUICE_NETWORK], 0);
    CU_ASSERT(sight.waiting[SLUICE_STORAGE_CPU] > 0.9);
}

static void short_waits_are_no_limit(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    const struct sluice_rate_sight sight =
        see(&watch, (struct waits){.queue_ns = 4 * MS, .link_ns = 4 * MS, .worker_ns = 4 * MS});
    SLUICE_EACH_RESOURCE (k, SLUICE_WATCHED)
        CU_ASSERT_EQUAL(sight.waiting[k], 0);
}

static void while_a_price_divides_the_storage_cores_a_wait_for_them_is_no_limit(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    watch.per_s[SLUICE_STORAGE_CPU] = 0.5;
    /* Without a price this wait would say that half a core is all there is. */
    for (int i = 0; i < 100; i++) {
        const double before = watch.per_s[SLUICE_STORAGE_CPU];
        const struct sluice_rate_sight sight =
            see(&watch, (struct waits){.queue_ns = 60 * MS, .storage_price = 0.5});
        CU_ASSERT(sight.is_priced);
        sluice_rate_watch_learn(&watch, &sight);
        CU_ASSERT(watch.per_s[SLUICE_STORAGE_CPU] > before || before == most.storage_cores);
    }
    CU_ASSERT_EQUAL(watch.per_s[SLUICE_STORAGE_CPU], most.storage_cores);
    CU_ASSERT(!see(&watch, (struct waits){.storage_price = 0.001}).is_priced);
    /* It is by what the storage node says that there are no more. */
    sluice_rate_watch_hear_cores(&watch, 0.4);
    for (int i = 0; i < 20; i++) {
        struct sluice_rate_sight sight = see(&watch, (struct waits){.storage_price = 0.5});
        sight.used_per_s[SLUICE_STORAGE_CPU] = 0.3;
        sluice_rate_watch_learn(&watch, &sight);
    }
    CU_ASSERT_DOUBLE_EQUAL(watch.per_s[SLUICE_STORAGE_CPU], 0.6, 1e-9);
}

static struct sluice_rate_sight sight_of(enum sluice_resource k, double used, double waiting)
{
    struct sluice_rate_sight sight = {.seconds = 0.25, .num_rows = 100};
    sight.used_per_s[k] = used;
    sight.waiting[k] = waiting;
    return sight;
}

static void a_large_drop_is_believed_within_four_looks_and_noise_hardly(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    const struct sluice_rate_sight drop = sight_of(SLUICE_NETWORK, 10e6, 1);
    for (int i = 0; i < 4; i++)
        sluice_rate_watch_learn(&watch, &drop);
    CU_ASSERT_DOUBLE_EQUAL(watch.per_s[SLUICE_NETWORK], 10e6, 1e6);
    watch = sluice_rate_watch_init(&believed, &most);
    for (int i = 0; i < 100; i++) {
        const struct sluice_rate_sight noise = sight_of(SLUICE_NETWORK, i % 2 ? 110e6 : 90e6, 1);
        sluice_rate_watch_learn(&watch, &noise);
        CU_ASSERT_DOUBLE_EQUAL(watch.per_s[SLUICE_NETWORK], 100e6, 5e6);
    }
    /* One outlier moves it by a factor of four at most. */
    watch = sluice_rate_watch_init(&believed, &most);
    const struct sluice_rate_sight outlier = sight_of(SLUICE_NETWORK, 1, 1);
    sluice_rate_watch_learn(&watch, &outlier);
    CU_ASSERT_DOUBLE_EQUAL(watch.per_s[SLUICE_NETWORK], 25e6, 1);
}

static void more_use_than_believed_is_a_lower_bound_up_to_the_most(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    struct sluice_rate_sight sight = sight_of(SLUICE_NETWORK, 130e6, 0.2);
    sluice_rate_watch_learn(&watch, &sight);
    CU_ASSERT_EQUAL(watch.per_s[SLUICE_NETWORK], 130e6);
    sight = sight_of(SLUICE_STORAGE_CPU, 5, 0.2);
    sluice_rate_watch_learn(&watch, &sight);
    CU_ASSERT_EQUAL(watch.per_s[SLUICE_STORAGE_CPU], 4);
    const struct sluice_rates more = {
        .link_bytes_per_s = 1, .storage_cores = 1, .compute_cores = 1, .gpu_samples_per_s = 1};
    watch = sluice_rate_watch_init(&believed, &more); /* also of what is believed at first */
    CU_ASSERT_EQUAL(watch.per_s[SLUICE_NETWORK], 1);
}

static void what_is_fully_used_without_a_wait_goes_up_by_growing_steps(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    double last = watch.per_s[SLUICE_NETWORK], last_step = 0;
    for (int i = 0; i < 8; i++) {
        const struct sluice_rate_sight sight = sight_of(SLUICE_NETWORK, last, 0.1);
        sluice_rate_watch_learn(&watch, &sight);
        const double step = watch.per_s[SLUICE_NETWORK] / last - 1;
        CU_ASSERT(step > 0.04 && step <= 0.4 + 1e-9);
        CU_ASSERT(step >= last_step - 1e-9);
        last_step = step;
        last = watch.per_s[SLUICE_NETWORK];
    }
    CU_ASSERT(last > 400e6); /* ten times in a few seconds */
    /* With something left of it that a plan is for, or with waits now and then, it stays. */
    sluice_rate_watch_plan(&watch);
    struct sluice_rate_sight sight = sight_of(SLUICE_NETWORK, 0.8 * last, 0.1);
    sluice_rate_watch_learn(&watch, &sight);
    CU_ASSERT_EQUAL(watch.per_s[SLUICE_NETWORK], last);
    /* With waits now and then, no further than what it did while there were. */
    for (int i = 0; i < 10; i++) {
        sight = sight_of(SLUICE_NETWORK, last, 0.8);
        sluice_rate_watch_learn(&watch, &sight);
    }
    CU_ASSERT_DOUBLE_EQUAL(watch.per_s[SLUICE_NETWORK], last / 0.8, 1);
}

/* A step may be too small for other prices to be worth their change.  Then no plan makes use of it,
 * and that is no sign that the resource could not do more. */
static void steps_go_on_until_a_plan_makes_use_of_them_or_would_not(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    const struct sluice_rate_sight sight = sight_of(SLUICE_NETWORK, 98e6, 0);
    for (int i = 0; i < 20; i++)
        sluice_rate_watch_learn(&watch, &sight);
    const double untried = watch.per_s[SLUICE_NETWORK];
    CU_ASSERT(untried >= 400e6 && untried < 600e6);
    /* A plan for that which leaves the link in peace shows nothing of it. */
    sluice_rate_watch_plan(&watch);
    sluice_rate_watch_learn(&watch, &sight);
    CU_ASSERT_EQUAL(watch.per_s[SLUICE_NETWORK], untried);
    /* One that uses it does. */
    const struct sluice_rate_sight used = sight_of(SLUICE_NETWORK, untried, 0);
    sluice_rate_watch_learn(&watch, &used);
    CU_ASSERT(watch.per_s[SLUICE_NETWORK] > 1.04 * untried);
}

static void what_fell_is_tried_as_a_whole_once_nobody_waits(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    double *link = &watch.per_s[SLUICE_NETWORK];
    const struct sluice_rate_sight limit = sight_of(SLUICE_NETWORK, 100e6, 1);
    const struct sluice_rate_sight fallen = sight_of(SLUICE_NETWORK, 10e6, 1);
    sluice_rate_watch_learn(&watch, &limit);
    for (int i = 0; i < 8; i++)
        sluice_rate_watch_learn(&watch, &fallen);
    CU_ASSERT_DOUBLE_EQUAL(*link, 10e6, 1e6);
    const struct sluice_rate_sight free_again = sight_of(SLUICE_NETWORK, 12e6, 0);
    sluice_rate_watch_learn(&watch, &free_again);
    CU_ASSERT_EQUAL(*link, 100e6);
    /* It was wrong; that is not tried again, only by steps. */
    for (int i = 0; i < 8; i++)
        sluice_rate_watch_learn(&watch, &fallen);
    for (int i = 0; i < 8; i++) {
        const double before = *link;
        const struct sluice_rate_sight used = sight_of(SLUICE_NETWORK, before, 0);
        sluice_rate_watch_learn(&watch, &used);
        CU_ASSERT(*link <= 1.41 * before);
    }
    /* What was believed and never seen is not gone back to. */
    watch = sluice_rate_watch_init(&believed, &most);
    for (int i = 0; i < 8; i++)
        sluice_rate_watch_learn(&watch, &fallen);
    sluice_rate_watch_learn(&watch, &free_again);
    CU_ASSERT(*link < 20e6);
}

static void no_more_storage_cores_are_tried_than_there_are(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    watch.per_s[SLUICE_STORAGE_CPU] = 1.5;
    (void)sluice_rate_watch_hear_cores(&watch, 2);
    for (int i = 0; i < 20; i++) {
        const struct sluice_rate_sight sight =
            sight_of(SLUICE_STORAGE_CPU, fmin(watch.per_s[SLUICE_STORAGE_CPU], 2), 0);
        sluice_rate_watch_learn(&watch, &sight);
    }
    CU_ASSERT_EQUAL(watch.per_s[SLUICE_STORAGE_CPU], 2);
    /* They may be seen to do more, as not all that counts runs on them. */
    const struct sluice_rate_sight sight = sight_of(SLUICE_STORAGE_CPU, 2.2, 0);
    sluice_rate_watch_learn(&watch, &sight);
    CU_ASSERT_EQUAL(watch.per_s[SLUICE_STORAGE_CPU], 2.2);
}

static void steps_up_that_lead_nowhere_become_rare(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    double sum = 0;
    unsigned num_steps = 0;
    for (int i = 0; i < 200; i++) {
        const double before = watch.per_s[SLUICE_NETWORK];
        /* It can do 100 MB/s: asked for more, it lets others wait. */
        const bool is_asked_more = before > 102e6;
        const struct sluice_rate_sight sight =
            sight_of(SLUICE_NETWORK, 100e6, is_asked_more ? 1 : 0);
        sluice_rate_watch_learn(&watch, &sight);
        num_steps += watch.per_s[SLUICE_NETWORK] > before;
        sum += before;
    }
    CU_ASSERT(num_steps >= 5 && num_steps < 40);
    CU_ASSERT_DOUBLE_EQUAL(sum / 200, 100e6, 4e6);
    /* Once it can do more, they lead somewhere. */
    for (int i = 0; i < 40; i++) {
        const struct sluice_rate_sight sight =
            sight_of(SLUICE_NETWORK, watch.per_s[SLUICE_NETWORK], 0);
        sluice_rate_watch_learn(&watch, &sight);
    }
    CU_ASSERT(watch.per_s[SLUICE_NETWORK] > 1000e6);
}

static void what_the_storage_node_says_of_its_cores_counts_at_once(void)
{
    struct sluice_rates shared = believed, free = most;
    shared.storage_cores = 2; /* others have the rest */
    free.storage_cores = 6;
    struct sluice_rate_watch watch = sluice_rate_watch_init(&shared, &free);
    const double *per_s = &watch.per_s[SLUICE_STORAGE_CPU];
    CU_ASSERT_FALSE(sluice_rate_watch_hear_cores(&watch, 0));
    CU_ASSERT_FALSE(sluice_rate_watch_hear_cores(&watch, 4)); /* nothing to compare it with */
    CU_ASSERT_EQUAL(*per_s, 2);
    CU_ASSERT_FALSE(sluice_rate_watch_hear_cores(&watch, 4));
    CU_ASSERT_TRUE(sluice_rate_watch_hear_cores(&watch, 1));
    CU_ASSERT_EQUAL(*per_s, 0.5);
    CU_ASSERT_FALSE(sluice_rate_watch_hear_cores(&watch, 0)); /* says nothing of it any more */
    CU_ASSERT_EQUAL(*per_s, 0.5);
    CU_ASSERT_TRUE(sluice_rate_watch_hear_cores(&watch, 4));
    CU_ASSERT_EQUAL(*per_s, 2);
    CU_ASSERT_TRUE(sluice_rate_watch_hear_cores(&watch, 400));
    CU_ASSERT_EQUAL(*per_s, 6);
    /* The other resources are as before. */
    CU_ASSERT_EQUAL(watch.per_s[SLUICE_NETWORK], believed.link_bytes_per_s);
    CU_ASSERT_EQUAL(watch.per_s[SLUICE_COMPUTE_CPU], believed.compute_cores);
}

static void the_trainers_rate_is_its_samples_over_its_time(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    const struct sluice_trainer_seen seen = {.samples = 512, .busy_ns = 256 * MS};
    const struct sluice_rate_sight sight = sluice_rate_watch_see(&watch, NULL, 0, &seen, NULL);
    CU_ASSERT_EQUAL(sight.seconds, 0);
    sluice_rate_watch_learn(&watch, &sight);
    CU_ASSERT_DOUBLE_EQUAL(sluice_rate_watch_rates(&watch).gpu_samples_per_s, 2000, 1e-6);
    CU_ASSERT_EQUAL(sluice_rate_watch_rates(&watch).link_bytes_per_s, 100e6);
}

static double trainer_rate(const struct sluice_rate_watch *watch)
{
    return sluice_rate_watch_rates(watch).gpu_samples_per_s;
}

static void the_rest_of_an_epoch_counts_by_its_part(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    const struct sluice_trainer_seen slow = {.samples = 100, .busy_ns = 1000 * MS};
    const struct sluice_trainer_seen quick = {.samples = 100, .busy_ns = 250 * MS};
    sluice_rate_watch_learn_trainer(&watch, &no_trainer, 1);
    CU_ASSERT_TRUE(isinf(trainer_rate(&watch)));
    sluice_rate_watch_learn_trainer(&watch, &slow, 0.5); /* nothing was known */
    CU_ASSERT_DOUBLE_EQUAL(trainer_rate(&watch), 100, 1e-9);
    sluice_rate_watch_learn_trainer(&watch, &quick, 0);
    CU_ASSERT_DOUBLE_EQUAL(trainer_rate(&watch), 100, 1e-9);
    sluice_rate_watch_learn_trainer(&watch, &quick, 0.5);
    CU_ASSERT_DOUBLE_EQUAL(trainer_rate(&watch), 200, 1e-9);
    sluice_rate_watch_learn_trainer(&watch, &quick, 1);
    CU_ASSERT_DOUBLE_EQUAL(trainer_rate(&watch), 400, 1e-9);
}

/* Rows of 120 kB files which the disk was busy with for so long each, of which they waited so long
 * for it. */
static struct sluice_rate_sight see_reads(struct sluice_rate_watch *watch, struct waits waits,
                                          uint64_t busy_ns, uint64_t wait_ns)
{
    static struct sluice_row_seen rows[NUM_ROWS];
    static struct sluice_rate_span spans[NUM_ROWS];
    fill(rows, 1000000 * MS, waits);
    for (size_t i = 0; i < NUM_ROWS; i++) {
        rows[i].read_bytes = 120000;
        rows[i].disk_busy_ns = busy_ns;
        rows[i].disk_ns = wait_ns;
        rows[i].arrived_ns += wait_ns;
        rows[i].started_ns += wait_ns;
        rows[i].done_ns += wait_ns;
    }
    sluice_rate_watch_restart(watch, 1000000 * MS);
    watch->last_ns[SLUICE_DISK] = 1000000 * MS + waits.queue_ns + wait_ns - 2 * MS;
    return sluice_rate_watch_see(watch, rows, NUM_ROWS, &no_trainer, spans);
}

static void the_disk_does_what_was_read_over_what_it_was_busy(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    CU_ASSERT_EQUAL(sluice_rate_watch_rates(&watch).disk_bytes_per_s, INFINITY);
    /* A quarter of the time, as nobody wants more. */
    struct sluice_rate_sight sight = see_reads(&watch, (struct waits){0}, MS / 2, MS / 2);
    CU_ASSERT_DOUBLE_EQUAL(sight.used_per_s[SLUICE_DISK], 60e6, 1);
    CU_ASSERT_DOUBLE_EQUAL(sight.waiting[SLUICE_DISK], 0.25, 0.01);
    sluice_rate_watch_learn(&watch, &sight);
    CU_ASSERT_DOUBLE_EQUAL(sluice_rate_watch_rates(&watch).disk_bytes_per_s, 240e6, 1e3);
    /* All of it. */
    sight = see_reads(&watch, (struct waits){0}, 2 * MS, 6 * MS);
    CU_ASSERT(sight.waiting[SLUICE_DISK] > 0.99);
    for (int i = 0; i < 4; i++)
        sluice_rate_watch_learn(&watch, &sight);
    CU_ASSERT_DOUBLE_EQUAL(watch.per_s[SLUICE_DISK], 60e6, 2e6);
}

static void of_a_disk_that_others_have_too_a_part_is_left(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    const struct sluice_rate_sight sight = see_reads(&watch, (struct waits){0}, MS / 2, 8 * MS);
    for (int i = 0; i < 4; i++)
        sluice_rate_watch_learn(&watch, &sight);
    CU_ASSERT_DOUBLE_EQUAL(watch.per_s[SLUICE_DISK], 60e6, 1e6);
}

static void files_in_memory_cost_the_disk_nothing(void)
{
    struct sluice_rates slow = believed;
    slow.disk_bytes_per_s = 50e6; /* when it was profiled */
    struct sluice_rate_watch watch = sluice_rate_watch_init(&slow, &most);
    CU_ASSERT_EQUAL(watch.per_s[SLUICE_DISK], 50e6);
    struct sluice_rate_sight sight = see_reads(&watch, (struct waits){0}, 2 * MS, 2 * MS);
    sluice_rate_watch_learn(&watch, &sight);
    CU_ASSERT_DOUBLE_EQUAL(watch.per_s[SLUICE_DISK], 60e6, 1e6);
    sight = see_reads(&watch, (struct waits){0}, 0, 0);
    CU_ASSERT_EQUAL(sight.waiting[SLUICE_DISK], 0);
    for (int i = 0; i < 12; i++)
        sluice_rate_watch_learn(&watch, &sight);
    CU_ASSERT_EQUAL(watch.per_s[SLUICE_DISK], INFINITY);
}

static void a_queue_for_workers_that_read_says_nothing_of_the_cores(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    const struct waits queued = {.queue_ns = 100 * MS};
    /* The disk is the limit, and holds the workers for longer than their work. */
    struct sluice_rate_sight sight = see_reads(&watch, queued, 2 * MS, 4 * MS);
    CU_ASSERT_EQUAL(sight.waiting[SLUICE_STORAGE_CPU], 0);
    /* It holds them for less; and it is not the limit. */
    sight = see_reads(&watch, queued, MS / 2, MS / 2);
    CU_ASSERT(sight.waiting[SLUICE_STORAGE_CPU] > 0.9);
    sight = see_reads(&watch, (struct waits){.queue_ns = 100 * MS, .off_cpu_ns = 5 * MS}, 2 * MS,
                      4 * MS);
    CU_ASSERT(sight.waiting[SLUICE_STORAGE_CPU] > 0.9);
}

static void failed_rows_and_nothing_at_all_say_nothing(void)
{
    static struct sluice_row_seen rows[NUM_ROWS];
    static struct sluice_rate_span spans[NUM_ROWS];
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    fill(rows, 1000 * MS, (struct waits){.link_ns = 100 * MS});
    for (size_t i = 0; i < NUM_ROWS; i++)
        rows[i].status = SLUICE_E_CORRUPT;
    const struct sluice_rate_watch before = watch;
    const struct sluice_rate_sight failed =
        sluice_rate_watch_see(&watch, rows, NUM_ROWS, &no_trainer, spans);
    sluice_rate_watch_learn(&watch, &failed);
    const struct sluice_rate_sight none = sluice_rate_watch_see(&watch, NULL, 0, &no_trainer, NULL);
    sluice_rate_watch_learn(&watch, &none);
    SLUICE_EACH_RESOURCE (k, SLUICE_WATCHED) {
        CU_ASSERT_EQUAL(watch.per_s[k], before.per_s[k]);
        CU_ASSERT_EQUAL(watch.steps[k].size, before.steps[k].size);
        CU_ASSERT_EQUAL(watch.steps[k].held, before.steps[k].held);
        CU_ASSERT_EQUAL(watch.last_ns[k], before.last_ns[k]);
    }
    CU_ASSERT_EQUAL(watch.least_link_ns, before.least_link_ns);
    CU_ASSERT_EQUAL(watch.least_at_ns, before.least_at_ns);
    CU_ASSERT_STRING_EQUAL(sluice_resource_name(SLUICE_STORAGE_CPU), "storage_cpu");
}

static void transport_counts_as_done_by_the_cores(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    watch.transport = (struct sluice_transport_cost){
        .storage_s_per_sample = 1, /* reading: the rows say it */
        .storage_s_per_job = 0.2e-3,
        .storage_s_per_byte = 1e-9,
        .compute_s_per_sample = 0.4e-3,
        .compute_s_per_byte = 2e-9,
    };
    const struct sluice_rate_sight sight = see(&watch, (struct waits){0});
    CU_ASSERT_DOUBLE_EQUAL(sight.used_per_s[SLUICE_STORAGE_CPU], 0.5 * 1.3, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(sight.used_per_s[SLUICE_COMPUTE_CPU], 0.5 * 1.6, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(sight.used_per_s[SLUICE_NETWORK], 50e6, 1);
}

static void a_link_that_seems_slower_for_a_second_asks_for_its_latency_once(void)
{
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    sluice_rate_watch_restart(&watch, 1000 * MS);
    watch.least_link_ns = 1 * MS;
    CU_ASSERT_FALSE(sluice_rate_watch_is_latency_old(&watch, 1000 * MS));
    unsigned num_asked = 0;
    for (unsigned i = 1; i <= 20; i++) {
        watch.per_s[SLUICE_NETWORK] = i <= 3 ? 100e6 / i : 20e6; /* falls, then stays */
        const bool is_asked = sluice_rate_watch_is_latency_old(&watch, (1000 + 250 * i) * MS);
        CU_ASSERT_EQUAL(is_asked, i == 8);
        num_asked += is_asked;
    }
    CU_ASSERT_EQUAL(num_asked, 1);
}

/* 100 kB take 40 ms on a link of 20 Mbit/s: that is no longer way. */
static void a_link_that_is_slow_is_believed_to_be(void)
{
    static struct sluice_row_seen rows[NUM_ROWS];
    static struct sluice_rate_span spans[NUM_ROWS];
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    for (int is_longer = 0; is_longer < 2; is_longer++) {
        fill(rows, 1000 * MS, (struct waits){0});
        (void)sluice_rate_watch_see(&watch, rows, NUM_ROWS, &no_trainer, spans);
        watch.per_s[SLUICE_NETWORK] = 2.5e6;
        watch.doubted_per_s = 100e6;
        sluice_rate_watch_forget_latency(&watch);
        fill(rows, 2000 * MS, (struct waits){.link_ns = is_longer ? 50 * MS : 40 * MS});
        (void)sluice_rate_watch_see(&watch, rows, NUM_ROWS, &no_trainer, spans);
        CU_ASSERT_EQUAL(watch.per_s[SLUICE_NETWORK], is_longer ? 100e6 : 2.5e6);
    }
}

static void a_latency_that_nobody_sees_any_more_is_old_after_a_while(void)
{
    static struct sluice_row_seen rows[NUM_ROWS];
    static struct sluice_rate_span spans[NUM_ROWS];
    const uint64_t second_ns = 1000 * MS;
    struct sluice_rate_watch watch = sluice_rate_watch_init(&believed, &most);
    CU_ASSERT_FALSE(sluice_rate_watch_is_latency_old(&watch, 100 * second_ns)); /* not known */
    uint64_t now_ns = 100 * second_ns;
    for (int i = 0; i < 20; i++, now_ns += second_ns) {
        fill(rows, now_ns, (struct waits){.link_ns = i < 5 ? 0 : 50 * MS});
        (void)sluice_rate_watch_see(&watch, rows, NUM_ROWS, &no_trainer, spans);
        CU_ASSERT_EQUAL(watch.least_link_ns, 1 * MS);
        /* The last of the fast ones came at the end of the 5th second. */
        CU_ASSERT_EQUAL(sluice_rate_watch_is_latency_old(&watch, now_ns + second_ns), i == 14);
    }
    sluice_rate_watch_forget_latency(&watch);
    watch.per_s[SLUICE_NETWORK] = 30e6; /* which was only the longer way */
    (void)sluice_rate_watch_see(&watch, rows, NUM_ROWS, &no_trainer, spans);
    CU_ASSERT_EQUAL(watch.least_link_ns, 51 * MS);
    CU_ASSERT_EQUAL(watch.per_s[SLUICE_NETWORK], 100e6);
    /* One that is shorter again is seen at once. */
    fill(rows, now_ns, (struct waits){.link_ns = 20 * MS});
    (void)sluice_rate_watch_see(&watch, rows, NUM_ROWS, &no_trainer, spans);
    CU_ASSERT_EQUAL(watch.least_link_ns, 21 * MS);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(what_was_used_is_counted_in_units_of_each),
        SLUICE_TEST(each_wait_names_its_own_resource),
        SLUICE_TEST(transport_counts_as_done_by_the_cores),
        SLUICE_TEST(a_link_that_seems_slower_for_a_second_asks_for_its_latency_once),
        SLUICE_TEST(a_link_that_is_slow_is_believed_to_be),
        SLUICE_TEST(a_latency_that_nobody_sees_any_more_is_old_after_a_while),
        SLUICE_TEST(a_worker_that_is_off_the_cpu_is_not_a_slow_link),
        SLUICE_TEST(short_waits_are_no_limit),
        SLUICE_TEST(while_a_price_divides_the_storage_cores_a_wait_for_them_is_no_limit),
        SLUICE_TEST(a_large_drop_is_believed_within_four_looks_and_noise_hardly),
        SLUICE_TEST(more_use_than_believed_is_a_lower_bound_up_to_the_most),
        SLUICE_TEST(what_is_fully_used_without_a_wait_goes_up_by_growing_steps),
        SLUICE_TEST(steps_go_on_until_a_plan_makes_use_of_them_or_would_not),
        SLUICE_TEST(what_fell_is_tried_as_a_whole_once_nobody_waits),
        SLUICE_TEST(no_more_storage_cores_are_tried_than_there_are),
        SLUICE_TEST(steps_up_that_lead_nowhere_become_rare),
        SLUICE_TEST(what_the_storage_node_says_of_its_cores_counts_at_once),
        SLUICE_TEST(the_trainers_rate_is_its_samples_over_its_time),
        SLUICE_TEST(the_rest_of_an_epoch_counts_by_its_part),
        SLUICE_TEST(the_disk_does_what_was_read_over_what_it_was_busy),
        SLUICE_TEST(of_a_disk_that_others_have_too_a_part_is_left),
        SLUICE_TEST(files_in_memory_cost_the_disk_nothing),
        SLUICE_TEST(a_queue_for_workers_that_read_says_nothing_of_the_cores),
        SLUICE_TEST(failed_rows_and_nothing_at_all_say_nothing),
    };
    return sluice_test_run("rate_watch", tests, SLUICE_TEST_COUNT(tests));
}
