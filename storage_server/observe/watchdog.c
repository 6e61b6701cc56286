#include "storage_server/observe/watchdog.h"

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/log.h"
#include "storage_server/data/root_watch.h"
#include "storage_server/services/health.h"
#include "storage_server/side_thread.h"
#include "storage_server/tuning.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lines of the log that one look may write; the next look writes more. */
#define MAX_LINES 8

enum { NUM_GROUPS = 2 };
static const char *const group_names[NUM_GROUPS] = {"prep", "io"};

struct sluice_watchdog {
    pthread_mutex_t lock;
    struct sluice_watched *watched;
    unsigned num_stuck[NUM_GROUPS], num_late[NUM_GROUPS];
    uint64_t num_timeouts;         /* since the start */
    uint64_t begun_ns[NUM_GROUPS]; /* when a worker last took a job, or the queue was emptied */

    struct sluice_watchdog_options options; /* constant from here */
    struct sluice_side_thread thread;
};

/* The findings of a check, used after the lock is released. */
struct findings {
    struct sluice_late_answer *answers;
    char lines[MAX_LINES][400];
    unsigned num_lines;
    unsigned num_stuck[NUM_GROUPS], num_late[NUM_GROUPS];
    uint64_t begun_ns[NUM_GROUPS];
};

static double to_s(uint64_t ns)
{
    return (double)ns * 1e-9;
}

/* Under the lock. */
static void look_at(struct sluice_watchdog *dog, struct sluice_watched *watched, uint64_t now_ns,
                    struct findings *found)
{
    const uint64_t timeout_ns = dog->options.timeout_ns, age_ns = now_ns - watched->since_ns;
    if (!watched->is_told && age_ns >= timeout_ns / 2 && found->num_lines < MAX_LINES) {
        watched->is_told = true;
        dog->num_stuck[watched->group]++;
        sluice_snprintf(
            found->lines[found->num_lines++], sizeof(found->lines[0]),
            "a worker (%s) hangs: it has been %s %.200s for %.3g s; health is NOT_SERVING "
            "until it is back",
            group_names[watched->group],
            atomic_load_explicit(&watched->is_reading, memory_order_relaxed) ? "reading"
                                                                             : "preprocessing",
            watched->path, to_s(age_ns));
    }
    if (watched->is_told && !watched->is_late && age_ns >= timeout_ns) {
        char text[100];
        sluice_snprintf(text, sizeof(text), "not %s within %.3g s",
                        atomic_load_explicit(&watched->is_reading, memory_order_relaxed)
                            ? "read"
                            : "preprocessed",
                        to_s(timeout_ns));
        struct sluice_late_answer *answer = watched->answer(watched, text);
        if (answer) {
            watched->is_late = true;
            dog->num_late[watched->group]++;
            dog->num_timeouts++;
            answer->next = found->answers;
            found->answers = answer;
        }
    }
}

/* Nobody is left to take a job: who waits would wait for ever. */
static void empty_queues(struct sluice_watchdog *dog, const struct findings *found, uint64_t now_ns)
{
    for (int group = 0; group < NUM_GROUPS; group++) {
        const struct sluice_worker_pool_stats pool =
            sluice_workers_stats(dog->options.workers, (enum sluice_worker_group)group);
        if (found->num_late[group] < pool.num_workers || !pool.queue_depth ||
            now_ns - found->begun_ns[group] < dog->options.timeout_ns)
            continue;
        const size_t count =
            sluice_workers_expire(dog->options.workers, (enum sluice_worker_group)group);
        sluice_log(SLUICE_LOG_ERROR, "all %u workers (%s) hang: %zu requests that wait fail",
                   pool.num_workers, group_names[group], count);
        pthread_mutex_lock(&dog->lock);
        dog->begun_ns[group] = now_ns;
        pthread_mutex_unlock(&dog->lock);
    }
}

static void act(struct sluice_watchdog *dog, struct findings *found, uint64_t now_ns)
{
    for (unsigned i = 0; i < found->num_lines; i++)
        sluice_log(SLUICE_LOG_ERROR, "%s", found->lines[i]);
    while (found->answers) {
        struct sluice_late_answer *answer = found->answers;
        found->answers = answer->next;
        answer->give(answer);
    }
    for (int group = 0; group < NUM_GROUPS; group++) {
        struct sluice_err err = {0};
        if (sluice_workers_stand_in(dog->options.workers, (enum sluice_worker_group)group,
                                    found->num_stuck[group], &err) != SLUICE_OK)
            sluice_log(SLUICE_LOG_DEBUG, "%s", err.text);
    }
    empty_queues(dog, found, now_ns);
    sluice_health_set(dog->options.health, SLUICE_HEALTH_WORKERS,
                      found->num_stuck[0] + found->num_stuck[1] == 0);
    if (dog->options.root)
        sluice_health_set(dog->options.health, SLUICE_HEALTH_ROOT,
                          sluice_root_watch_is_here(dog->options.root, now_ns));
}

static void *watch_main(void *ctx)
{
    struct sluice_watchdog *dog = ctx;
    const uint64_t timeout_ns = dog->options.timeout_ns;
    const uint64_t interval_ns =
        timeout_ns / 8 < WATCHDOG_INTERVAL_NS ? timeout_ns / 8 : WATCHDOG_INTERVAL_NS;
    pthread_setname_np(pthread_self(), "watchdog");
    pthread_mutex_lock(&dog->lock);
    while (sluice_side_thread_sleep(&dog->thread, sluice_clock_ns() + interval_ns)) {
        struct findings found = {0};
        const uint64_t now_ns = sluice_clock_ns();
        for (struct sluice_watched *watched = dog->watched; watched; watched = watched->next)
            look_at(dog, watched, now_ns, &found);
        memcpy(found.num_stuck, dog->num_stuck, sizeof(found.num_stuck));
        memcpy(found.num_late, dog->num_late, sizeof(found.num_late));
        memcpy(found.begun_ns, dog->begun_ns, sizeof(found.begun_ns));
        pthread_mutex_unlock(&dog->lock);
        act(dog, &found, now_ns);
        pthread_mutex_lock(&dog->lock);
    }
    pthread_mutex_unlock(&dog->lock);
    return NULL;
}

sluice_status sluice_watchdog_create(const struct sluice_watchdog_options *options,
                                     struct sluice_watchdog **watchdog, struct sluice_err *err)
{
    struct sluice_watchdog *dog = calloc(1, sizeof(*dog));
    if (!dog)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the watchdog");
    pthread_mutex_init(&dog->lock, NULL);
    dog->options = *options;
    dog->begun_ns[0] = dog->begun_ns[1] = sluice_clock_ns();
    const sluice_status status =
        sluice_side_thread_open(&dog->thread, &dog->lock, watch_main, dog, "the watchdog", err);
    if (status == SLUICE_OK)
        *watchdog = dog;
    else
        sluice_watchdog_destroy(dog);
    return status;
}

void sluice_watchdog_stop(struct sluice_watchdog *dog)
{
    if (dog)
        sluice_side_thread_stop(&dog->thread);
}

void sluice_watchdog_destroy(struct sluice_watchdog *dog)
{
    if (!dog)
        return;
    sluice_side_thread_clear(&dog->thread);
    assert(!dog->watched);
    pthread_mutex_destroy(&dog->lock);
    free(dog);
}

/* Under the lock: the job that was given up in a read of the same file. */
static const struct sluice_watched *find_late(const struct sluice_watchdog *dog, const char *path)
{
    if (dog->num_late[0] + dog->num_late[1] == 0)
        return NULL;
    for (const struct sluice_watched *watched = dog->watched; watched; watched = watched->next) {
        if (watched->is_late && strcmp(watched->path, path) == 0)
            return watched;
    }
    return NULL;
}

sluice_status sluice_watchdog_begin(struct sluice_watchdog *dog, struct sluice_watched *watched,
                                    struct sluice_err *err)
{
    const uint64_t now_ns = sluice_clock_ns();
    atomic_store_explicit(&watched->is_reading, true, memory_order_relaxed);
    watched->since_ns = now_ns;
    watched->is_told = watched->is_late = false;
    pthread_mutex_lock(&dog->lock);
    dog->begun_ns[watched->group] = now_ns;
    const struct sluice_watched *late = find_late(dog, watched->path);
    const uint64_t age_ns = late ? now_ns - late->since_ns : 0;
    if (!late) {
        watched->next = dog->watched;
        watched->link = &dog->watched;
        if (watched->next)
            watched->next->link = &watched->next;
        dog->watched = watched;
    }
    pthread_mutex_unlock(&dog->lock);
    if (late)
        return sluice_fail(err, SLUICE_E_IO, "an earlier read of it has not returned for %.3g s",
                           to_s(age_ns));
    return SLUICE_OK;
}

void sluice_watchdog_note(struct sluice_watched *watched, bool is_reading)
{
    atomic_store_explicit(&watched->is_reading, is_reading, memory_order_relaxed);
}

bool sluice_watchdog_end(struct sluice_watchdog *dog, struct sluice_watched *watched)
{
    pthread_mutex_lock(&dog->lock);
    *watched->link = watched->next;
    if (watched->next)
        watched->next->link = watched->link;
    dog->num_stuck[watched->group] -= watched->is_told;
    dog->num_late[watched->group] -= watched->is_late;
    pthread_mutex_unlock(&dog->lock);
    if (watched->is_told)
        sluice_log(SLUICE_LOG_INFO, "the worker (%s) that hung at %.200s is back after %.3g s%s",
                   group_names[watched->group], watched->path,
                   to_s(sluice_clock_ns() - watched->since_ns),
                   watched->is_late ? "; its result is dropped" : "");
    return !watched->is_late;
}

unsigned sluice_watchdog_num_stuck(struct sluice_watchdog *dog)
{
    pthread_mutex_lock(&dog->lock);
    const unsigned count = dog->num_stuck[0] + dog->num_stuck[1];
    pthread_mutex_unlock(&dog->lock);
    return count;
}

uint64_t sluice_watchdog_num_timeouts(struct sluice_watchdog *dog)
{
    pthread_mutex_lock(&dog->lock);
    const uint64_t count = dog->num_timeouts;
    pthread_mutex_unlock(&dog->lock);
    return count;
}
