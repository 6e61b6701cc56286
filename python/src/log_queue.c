#include "log_queue.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WAITING = 10000 }; /* lines; some 1 MB */

static _Atomic(struct log_line *) newest; /* the older ones follow */
static atomic_uint num_waiting, num_lost;
static atomic_bool is_open, is_closed; /* lines come here; none will come any more */
static _Atomic(enum sluice_log_level) level = SLUICE_LOG_INFO;
static sem_t arrived; /* posted when the queue is no longer empty, or closed */

static void make_arrived(void)
{
    sem_init(&arrived, 0, 0);
}

static void write_line(void *ctx, enum sluice_log_level its_level, const char *text)
{
    (void)ctx;
    const size_t bytes = strlen(text) + 1;
    struct log_line *line =
        atomic_load(&num_waiting) < MAX_WAITING ? malloc(sizeof(*line) + bytes) : NULL;
    if (!line) {
        atomic_fetch_add(&num_lost, 1);
        return;
    }
    line->level = its_level;
    memcpy(line->text, text, bytes);
    atomic_fetch_add(&num_waiting, 1);
    struct log_line *before = atomic_load(&newest);
    do
        line->next = before;
    while (!atomic_compare_exchange_weak(&newest, &before, line));
    if (!before)
        sem_post(&arrived);
}

static void apply(void)
{
    sluice_set_log(atomic_load(&is_open) ? write_line : NULL, NULL, atomic_load(&level));
}

void log_queue_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_arrived);
    atomic_store(&is_closed, false);
    if (!atomic_exchange(&is_open, true))
        apply();
}

void log_queue_set_level(enum sluice_log_level least)
{
    atomic_store(&level, least);
    apply();
}

struct log_line *log_queue_take(bool *is_end)
{
    while (sem_wait(&arrived) != 0 && errno == EINTR)
        ;
    *is_end = atomic_load(&is_closed); /* before the lines are taken: none comes after it */
    struct log_line *oldest = NULL;
    for (struct log_line *line = atomic_exchange(&newest, NULL), *next; line; line = next) {
        next = line->next;
        line->next = oldest;
        oldest = line;
        atomic_fetch_sub(&num_waiting, 1);
    }
    return oldest;
}

unsigned log_queue_num_lost(void)
{
    return atomic_exchange(&num_lost, 0);
}

void log_queue_close(void)
{
    if (!atomic_exchange(&is_open, false))
        return;
    apply(); /* waits for lines on their way */
    atomic_store(&is_closed, true);
    sem_post(&arrived);
}

void log_queue_forget(void)
{
    for (struct log_line *line = atomic_exchange(&newest, NULL), *next; line; line = next) {
        next = line->next;
        free(line);
    }
    atomic_store(&num_waiting, 0);
    atomic_store(&num_lost, 0);
}
