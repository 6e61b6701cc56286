#include "storage_server/fetch/stream.h"

#include "base/clock.h"

#define NEVER UINT64_MAX

/* Returns a chain of the streams whose replies have been held back for hold_ns.  *next_ns: the time
 * at which the next other stream is due; NEVER: no other holds replies.  Under the fetch's lock. */
static struct sluice_fetch_stream *find_due(struct sluice_fetch *fetch, uint64_t *next_ns)
{
    struct sluice_fetch_stream *due = NULL;
    const uint64_t now = sluice_clock_ns();
    *next_ns = NEVER;
    for (struct sluice_fetch_stream *s = fetch->streams; s; s = s->next) {
        pthread_mutex_lock(&s->lock);
        const bool is_held = s->is_held;
        const uint64_t until_ns = s->ready_since_ns + fetch->options.hold_ns;
        const bool is_due = is_held && now >= until_ns;
        pthread_mutex_unlock(&s->lock);
        if (is_held && !is_due && until_ns < *next_ns)
            *next_ns = until_ns;
        if (is_due) {
            s->due_next = due;
            due = sluice_fetch_stream_ref(s);
        }
    }
    return due;
}

static void call_back(struct sluice_fetch *fetch, struct sluice_fetch_stream *due)
{
    while (due) {
        struct sluice_fetch_stream *s = due;
        due = s->due_next;
        fetch->advance(s);
        sluice_fetch_stream_unref(s);
    }
}

static void *holder_main(void *ctx)
{
    struct sluice_fetch *fetch = ctx;
    pthread_mutex_lock(&fetch->lock);
    while (!fetch->holder.is_stopping) {
        if (!fetch->is_holding) {
            pthread_cond_wait(&fetch->holder.changed, &fetch->lock);
            continue;
        }
        uint64_t next_ns;
        struct sluice_fetch_stream *due = find_due(fetch, &next_ns);
        fetch->is_holding = next_ns != NEVER;
        pthread_mutex_unlock(&fetch->lock);
        call_back(fetch, due);
        pthread_mutex_lock(&fetch->lock);
        if (next_ns != NEVER) /* whoever begins to hold replies meanwhile is due later */
            (void)sluice_side_thread_sleep(&fetch->holder, next_ns);
    }
    pthread_mutex_unlock(&fetch->lock);
    return NULL;
}

void sluice_fetch_hold(struct sluice_fetch *fetch)
{
    pthread_mutex_lock(&fetch->lock);
    if (!fetch->is_holding) {
        fetch->is_holding = true;
        pthread_cond_signal(&fetch->holder.changed);
    }
    pthread_mutex_unlock(&fetch->lock);
}

sluice_status sluice_fetch_hold_open(struct sluice_fetch *fetch, struct sluice_err *err)
{
    return sluice_side_thread_open(&fetch->holder, &fetch->lock, holder_main, fetch,
                                   "the timer of held replies", err);
}

void sluice_fetch_hold_close(struct sluice_fetch *fetch)
{
    sluice_side_thread_clear(&fetch->holder);
}
