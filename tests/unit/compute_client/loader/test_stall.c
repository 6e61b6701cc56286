#include "compute_client/loader/batch/stall.h"

#include "base/rng.h"
#include "support/test.h"

/* Asked for at 1000, here at 2000, done at 2200. */
static struct sluice_sample_times times(uint64_t backlog, uint64_t storage, uint64_t disk)
{
    return (struct sluice_sample_times){
        .requested_ns = 1000,
        .arrived_ns = 2000,
        .done_ns = 2200,
        .made_ns = 2200,
        .backlog_ns = backlog,
        .storage_ns = storage,
        .disk_ns = disk,
    };
}

static void expect(const struct sluice_sample_times *t, uint64_t from, uint64_t to,
                   const uint64_t expected[SLUICE_NUM_RESOURCES])
{
    uint64_t ns[SLUICE_NUM_RESOURCES] = {0};
    sluice_stall_attribute(t, from, to, ns);
    for (int i = 0; i < SLUICE_NUM_RESOURCES; i++)
        CU_ASSERT_EQUAL(ns[i], expected[i]);
}

#define D SLUICE_DISK
#define S SLUICE_STORAGE_CPU
#define N SLUICE_NETWORK
#define C SLUICE_COMPUTE_CPU
#define G SLUICE_STALL_GPU

TEST(a_whole_wait_is_split_as_the_sample_spent_it)
{
    const struct sluice_sample_times t = times(0, 300, 100);
    expect(&t, 1000, 2200,
           (uint64_t[SLUICE_NUM_RESOURCES]){[S] = 300, [D] = 100, [N] = 600, [C] = 200});
}

TEST(a_wait_that_begins_late_leaves_out_what_was_over)
{
    const struct sluice_sample_times t = times(0, 300, 100);
    expect(&t, 1350, 2100, (uint64_t[SLUICE_NUM_RESOURCES]){[D] = 50, [N] = 600, [C] = 100});
    expect(&t, 2150, 2200, (uint64_t[SLUICE_NUM_RESOURCES]){[C] = 50});
}

TEST(a_backlog_waited_for_the_same_as_the_sample_after_it)
{
    /* 500 of the 1000 behind others; 400 of the rest for a worker: so 800 in all. */
    const struct sluice_sample_times t = times(500, 400, 0);
    expect(&t, 1000, 2000, (uint64_t[SLUICE_NUM_RESOURCES]){[S] = 800, [N] = 200});
    const struct sluice_sample_times local = times(900, 0, 100);
    expect(&local, 1000, 2000, (uint64_t[SLUICE_NUM_RESOURCES]){[D] = 1000});
}

TEST(a_wait_for_a_worker_was_for_what_workers_do)
{
    /* 600 in the queue, 300 on the disk and 100 of work. */
    struct sluice_sample_times t = times(0, 700, 300);
    t.queue_ns = 600;
    expect(&t, 1000, 2000, (uint64_t[SLUICE_NUM_RESOURCES]){[S] = 250, [D] = 750});
    t = times(0, 700, 0);
    t.queue_ns = 700;
    expect(&t, 1000, 2000, (uint64_t[SLUICE_NUM_RESOURCES]){[S] = 700, [N] = 300});
    t = times(500, 400, 100);
    t.queue_ns = 400;
    expect(&t, 1000, 2000, (uint64_t[SLUICE_NUM_RESOURCES]){[D] = 1000});
}

TEST(time_before_the_request_goes_to_where_the_sample_spent_most)
{
    const struct sluice_sample_times t = times(0, 700, 0);
    expect(&t, 0, 2000, (uint64_t[SLUICE_NUM_RESOURCES]){[S] = 1700, [N] = 300});
    expect(&t, 2200, 2300, (uint64_t[SLUICE_NUM_RESOURCES]){[S] = 100});
}

TEST(what_a_server_claims_is_taken_up_to_what_fits)
{
    const struct sluice_sample_times all = times(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    expect(&all, 1000, 2000, (uint64_t[SLUICE_NUM_RESOURCES]){[D] = 1000});
    const struct sluice_sample_times backlog = times(UINT64_MAX, 0, 0);
    expect(&backlog, 1000, 2000, (uint64_t[SLUICE_NUM_RESOURCES]){[N] = 1000});
}

TEST(a_local_sample_waits_for_no_network_and_no_storage_cpu)
{
    struct sluice_sample_times t = times(0, 0, 300);
    t.is_local = true;
    expect(&t, 1000, 2200, (uint64_t[SLUICE_NUM_RESOURCES]){[D] = 300, [C] = 900});
    t = times(0, 0, 0); /* from the page cache */
    t.is_local = true;
    expect(&t, 0, 2200, (uint64_t[SLUICE_NUM_RESOURCES]){[C] = 2200});
    t = times(UINT64_MAX, 0, 0);
    t.is_local = true;
    expect(&t, 1000, 2000, (uint64_t[SLUICE_NUM_RESOURCES]){[C] = 1000});
    /* 500 from request to arrival, 450 of them the disk's, and 480 of work: the CPU had most. */
    t = (struct sluice_sample_times){
        .arrived_ns = 500, .done_ns = 980, .made_ns = 980, .disk_ns = 450, .is_local = true};
    expect(&t, 980, 1080, (uint64_t[SLUICE_NUM_RESOURCES]){[C] = 100});
}

/* Done at 2200, made at 3200. */
TEST(a_batch_that_the_gpu_makes_waits_for_the_gpu_and_for_what_prepares_it)
{
    struct sluice_sample_times t = times(0, 300, 100);
    t.made_ns = 3200;
    t.lane_ns = 400;
    t.gpu_ns = 300;
    expect(&t, 1000, 3200,
           (uint64_t[SLUICE_NUM_RESOURCES]){[S] = 300, [D] = 100, [N] = 600, [C] = 450, [G] = 750});
    expect(&t, 2300, 3000, (uint64_t[SLUICE_NUM_RESOURCES]){[C] = 150, [G] = 550});
    /* The GPU had most. */
    expect(&t, 0, 1000, (uint64_t[SLUICE_NUM_RESOURCES]){[G] = 1000});
    t.gpu_ns = 0;
    expect(&t, 2200, 3200, (uint64_t[SLUICE_NUM_RESOURCES]){[C] = 1000});
    t.gpu_ns = UINT64_MAX;
    expect(&t, 2200, 3200, (uint64_t[SLUICE_NUM_RESOURCES]){[G] = 1000});
    t.lane_ns = 0;
    expect(&t, 2200, 3200, (uint64_t[SLUICE_NUM_RESOURCES]){[G] = 1000});
}

TEST(every_resource_has_words_that_a_person_reads)
{
    CU_ASSERT_STRING_EQUAL(sluice_stall_words(SLUICE_STORAGE_CPU), "storage CPU");
    CU_ASSERT_STRING_EQUAL(sluice_stall_words(SLUICE_COMPUTE_CPU), "compute CPU");
    CU_ASSERT_STRING_EQUAL(sluice_stall_words(SLUICE_STALL_GPU), "GPU decoder");
    CU_ASSERT_STRING_EQUAL(sluice_stall_words(SLUICE_GPU), "trainer");
    CU_ASSERT_STRING_EQUAL(sluice_stall_name(SLUICE_STALL_GPU), "gpu");
    CU_ASSERT_STRING_EQUAL(sluice_stall_name(SLUICE_GPU), "trainer");
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        CU_ASSERT_PTR_NULL(strchr(sluice_stall_words((enum sluice_resource)r), '_'));
}

TEST(nothing_is_added_twice_or_lost)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int i = 0; i < 2000; i++) {
        struct sluice_sample_times t = {.requested_ns = sluice_rng_below(&rng, 1000)};
        t.arrived_ns = t.requested_ns + sluice_rng_below(&rng, 1000);
        t.done_ns = t.arrived_ns + sluice_rng_below(&rng, 1000);
        t.made_ns = t.done_ns + sluice_rng_below(&rng, 1000);
        t.lane_ns = sluice_rng_below(&rng, 3) * sluice_rng_below(&rng, 1000);
        t.gpu_ns = sluice_rng_below(&rng, 1000);
        t.backlog_ns = sluice_rng_below(&rng, 1200);
        t.storage_ns = sluice_rng_below(&rng, 1200);
        t.disk_ns = sluice_rng_below(&rng, 1200);
        t.queue_ns = sluice_rng_below(&rng, 1200);
        t.is_local = i % 2;
        const uint64_t from = sluice_rng_below(&rng, 3000),
                       to = from + sluice_rng_below(&rng, 3000);
        uint64_t ns[SLUICE_NUM_RESOURCES] = {0}, sum = 0;
        sluice_stall_attribute(&t, from, to, ns);
        for (int k = 0; k < SLUICE_NUM_RESOURCES; k++)
            sum += ns[k];
        CU_ASSERT_EQUAL(sum, to - from);
        CU_ASSERT_EQUAL(ns[SLUICE_GPU], 0);
    }
}

TEST(the_largest_of_equals_is_the_first)
{
    CU_ASSERT_EQUAL(sluice_stall_largest((uint64_t[SLUICE_NUM_RESOURCES]){0}), SLUICE_DISK);
    CU_ASSERT_EQUAL(sluice_stall_largest((uint64_t[SLUICE_NUM_RESOURCES]){
                        [SLUICE_DISK] = 1, [SLUICE_STORAGE_CPU] = 2, [SLUICE_NETWORK] = 2}),
                    SLUICE_STORAGE_CPU);
    CU_ASSERT_EQUAL(sluice_stall_largest((uint64_t[SLUICE_NUM_RESOURCES]){
                        [SLUICE_DISK] = 1, [SLUICE_STORAGE_CPU] = 2, [SLUICE_GPU] = 3}),
                    SLUICE_GPU);
}
