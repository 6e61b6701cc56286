#include "threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

struct start {
    void (*run)(void *part);
    void *part;
};

static void *run_start(void *arg)
{
    const struct start *start = arg;
    start->run(start->part);
    return NULL;
}

void run_parts(void *parts, size_t part_bytes, size_t num_parts, void (*run)(void *part))
{
    struct start starts[MAX_PARTS];
    pthread_t threads[MAX_PARTS];
    bool is_started[MAX_PARTS] = {false};
    sigset_t all, before; /* signals are for Python's threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; i < num_parts; i++) {
        starts[i] = (struct start){run, (char *)parts + i * part_bytes};
        is_started[i] = i > 0 && pthread_create(&threads[i], NULL, run_start, &starts[i]) == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (size_t i = 0; i < num_parts; i++) {
        if (!is_started[i])
            (void)run_start(&starts[i]);
    }
    for (size_t i = 0; i < num_parts; i++) {
        if (is_started[i])
            pthread_join(threads[i], NULL);
    }
}
