#include "train/lockstep.h"

#include "base/clock.h"
#include "base/rng.h"

#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORLD_SIZE 4

static uint64_t far_away(void)
{
    return sluice_clock_ns() + 300000000000u;
}

static const char *key_of(const char *test)
{
    static char key[64];
    snprintf(key, sizeof(key), "lockstep-%s-%d", test, (int)getpid());
    return key;
}

struct rank {
    const char *key;
    unsigned rank, world_size;
    uint64_t stops_after, stops_at_most; /* steps; by itself, and if nobody stops */
    uint64_t steps;
    bool was_over;
    bool is_wrong;              /* a step began after is_over() */
    pthread_barrier_t *barrier; /* NULL: ranks run free */
    sluice_status status;
    struct sluice_err err;
    pthread_t thread;
};

/* As a training loop does; the barrier is a step that waits for all ranks. */
static void *rank_main(void *ctx)
{
    struct rank *r = ctx;
    struct sluice_lockstep lockstep = {0};
    r->status =
        sluice_lockstep_init(&lockstep, r->key, r->rank, r->world_size, far_away(), &r->err);
    if (r->status)
        return NULL;
    while (r->steps < r->stops_at_most) {
        if (r->steps == r->stops_after)
            sluice_lockstep_stop(&lockstep);
        r->was_over = sluice_lockstep_is_over(&lockstep);
        if (!sluice_lockstep_begin(&lockstep))
            break;
        r->is_wrong |= r->was_over;
        r->steps++;
        if (r->barrier)
            pthread_barrier_wait(r->barrier);
    }
    r->was_over = sluice_lockstep_is_over(&lockstep);
    sluice_lockstep_clear(&lockstep);
    sluice_lockstep_clear(&lockstep);
    return NULL;
}

static void run_ranks(struct rank ranks[WORLD_SIZE], pthread_barrier_t *barrier)
{
    const char *key = key_of("ranks");
    for (unsigned i = 0; i < WORLD_SIZE; i++) {
        ranks[i].rank = i;
        ranks[i].world_size = WORLD_SIZE;
        ranks[i].key = key;
        ranks[i].barrier = barrier;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    for (unsigned i = 0; i < WORLD_SIZE; i++) {
        pthread_join(ranks[i].thread, NULL);
        CU_ASSERT_EQUAL_FATAL(ranks[i].status, SLUICE_OK);
        CU_ASSERT_FALSE(ranks[i].is_wrong);
    }
}

/* Steps that end only if all ranks take them: one that stops alone would hang the test. */
TEST(ranks_that_wait_for_each_other_stop_after_the_same_step)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (unsigned round = 0; round < 50; round++) {
        pthread_barrier_t barrier;
        pthread_barrier_init(&barrier, NULL, WORLD_SIZE);
        struct rank ranks[WORLD_SIZE] = {0};
        for (unsigned i = 0; i < WORLD_SIZE; i++) {
            ranks[i].stops_after =
                sluice_rng_below(&rng, 3) ? UINT64_MAX : sluice_rng_below(&rng, 100);
            ranks[i].stops_at_most = UINT64_MAX;
        }
        ranks[round % WORLD_SIZE].stops_after = sluice_rng_below(&rng, 100);
        run_ranks(ranks, &barrier);
        pthread_barrier_destroy(&barrier);
        for (unsigned i = 0; i < WORLD_SIZE; i++) {
            CU_ASSERT_TRUE(ranks[i].was_over);
            CU_ASSERT_EQUAL(ranks[i].steps, ranks[0].steps);
            CU_ASSERT(ranks[0].steps <= ranks[i].stops_after ||
                      ranks[0].steps - ranks[i].stops_after <= 1);
        }
    }
}

/* Ranks that do not wait end alike, too. */
TEST(ranks_that_are_behind_catch_up)
{
    for (unsigned round = 0; round < 50; round++) {
        struct rank ranks[WORLD_SIZE] = {0};
        for (unsigned i = 0; i < WORLD_SIZE; i++) {
            ranks[i].stops_after = i == round % WORLD_SIZE ? 200 : UINT64_MAX;
            ranks[i].stops_at_most = UINT64_MAX;
        }
        run_ranks(ranks, NULL);
        for (unsigned i = 0; i < WORLD_SIZE; i++)
            CU_ASSERT_EQUAL(ranks[i].steps, ranks[0].steps);
        CU_ASSERT(ranks[0].steps >= 200);
    }
}

TEST(without_a_stop_all_steps_begin)
{
    struct rank ranks[WORLD_SIZE] = {0};
    for (unsigned i = 0; i < WORLD_SIZE; i++) {
        ranks[i].stops_after = UINT64_MAX;
        ranks[i].stops_at_most = 100;
    }
    run_ranks(ranks, NULL);
    for (unsigned i = 0; i < WORLD_SIZE; i++) {
        CU_ASSERT_EQUAL(ranks[i].steps, 100);
        CU_ASSERT_FALSE(ranks[i].was_over);
    }
}

TEST(processes_share_the_word)
{
    fflush(NULL);
    const char *key = key_of("processes");
    const pid_t pid = fork();
    CU_ASSERT_FATAL(pid >= 0);
    struct sluice_lockstep lockstep = {0};
    if (pid == 0) { /* stops after 5 steps */
        if (sluice_lockstep_init(&lockstep, key, 1, 2, far_away(), NULL) != SLUICE_OK)
            _exit(1);
        for (int i = 0; i < 5; i++) {
            if (!sluice_lockstep_begin(&lockstep))
                _exit(2);
        }
        sluice_lockstep_stop(&lockstep);
        _exit(sluice_lockstep_is_over(&lockstep) && !sluice_lockstep_begin(&lockstep) ? 0 : 3);
    }
    CHECK_OK(sluice_lockstep_init(&lockstep, key, 0, 2, far_away(), sluice_test_err()));
    int state = -1;
    waitpid(pid, &state, 0);
    CU_ASSERT(WIFEXITED(state) && WEXITSTATUS(state) == 0);
    for (int i = 0; i < 5; i++) {
        CU_ASSERT_FALSE(sluice_lockstep_is_over(&lockstep));
        CU_ASSERT_TRUE(sluice_lockstep_begin(&lockstep));
    }
    CU_ASSERT_TRUE(sluice_lockstep_is_over(&lockstep));
    CU_ASSERT_FALSE(sluice_lockstep_begin(&lockstep));
    sluice_lockstep_clear(&lockstep);
}
