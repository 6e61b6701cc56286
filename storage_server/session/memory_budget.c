#include "storage_server/session/memory_budget.h"

#include "base/clock.h"
#include "base/cond.h"
#include "storage_server/session/session.h"
#include "storage_server/side_thread.h"
#include "storage_server/tuning.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct sluice_memory_holder {
    struct sluice_memory_budget *budget; /* constant, as are the next three */
    struct sluice_session *session;      /* a reference */
    void (*on_room)(void *ctx);
    void *ctx;
    uint64_t used; /* this and the rest under the lock */
    bool is_open;
    bool is_waiting;
    uint64_t waits_for;
    uint64_t round; /* in which it was looked at last */
    struct sluice_memory_holder *next_waiting, **link_waiting;
};

struct sluice_memory_budget {
    pthread_mutex_t lock;
    unsigned num_holders;
    struct sluice_memory_holder *first_waiting, **end_waiting;
    unsigned num_waiting;
    uint64_t round; /* of call_waiters() */
    uint64_t used, peak, refused;
    uint64_t most_resident;
    bool is_over;    /* the process is larger than it should be */
    bool is_awake;   /* the thread was told that there may be room: `thread.changed` */
    bool is_watched; /* the thread looks at the process's size at intervals */
    bool is_destroyed;

    struct sluice_memory_options options; /* constant from here */
    struct sluice_side_thread thread;
};

/* Under the lock: whether the holder may take these bytes. */
static bool fits(const struct sluice_memory_budget *budget,
                 const struct sluice_memory_holder *holder, uint64_t bytes,
                 enum sluice_memory_use use)
{
    if (budget->thread.is_stopping) /* nobody waits any more */
        return true;
    const uint64_t all = budget->options.bytes, used = budget->used;
    const uint64_t free_bytes = used < all ? all - used : 0;
    if (bytes > free_bytes || (budget->is_over && used))
        return false;
    const uint64_t of_client = holder->session->memory_used;
    if (!of_client)
        return true;
    const bool is_request = use == SLUICE_MEMORY_REQUEST;
    const uint64_t most = (is_request ? MEMORY_REQUEST_SHARE : MEMORY_SHARE) * free_bytes;
    if (of_client >= most || bytes > most - of_client)
        return false;
    return is_request || !holder->used || holder->used + bytes <= MEMORY_SHARE * (most - of_client);
}

/* --- the thread --- */

/* Under the lock. */
static void wake(struct sluice_memory_budget *budget)
{
    if (!budget->is_awake) {
        budget->is_awake = true;
        pthread_cond_signal(&budget->thread.changed);
    }
}

/* Under the lock. */
static void unlink_waiting(struct sluice_memory_budget *budget, struct sluice_memory_holder *holder)
{
    *holder->link_waiting = holder->next_waiting;
    if (holder->next_waiting)
        holder->next_waiting->link_waiting = holder->link_waiting;
    else
        budget->end_waiting = holder->link_waiting;
    holder->is_waiting = false;
    budget->num_waiting--;
}

/* Under the lock, which is released during each call: calls those for whom there is room, the
 * oldest first, each once.  Each then takes what it wants, so the next one sees what is left. */
static void call_waiters(struct sluice_memory_budget *budget)
{
    const uint64_t round = ++budget->round; /* who waits again meanwhile is of this round, too */
    struct sluice_memory_holder *h = budget->first_waiting;
    while (h) {
        const bool is_due = h->round != round && fits(budget, h, h->waits_for, SLUICE_MEMORY_REPLY);
        h->round = round;
        if (!is_due) {
            h = h->next_waiting;
            continue;
        }
        unlink_waiting(budget, h);
        void (*on_room)(void *ctx) = h->on_room;
        void *ctx = h->ctx;
        pthread_mutex_unlock(&budget->lock);
        on_room(ctx);
        pthread_mutex_lock(&budget->lock);
        h = budget->first_waiting; /* the list may have changed */
    }
}

/* Under the lock, which is released meanwhile. */
static void measure(struct sluice_memory_budget *budget)
{
    const struct sluice_memory_options *o = &budget->options;
    if (!o->resident)
        return;
    const uint64_t most = budget->most_resident;
    pthread_mutex_unlock(&budget->lock);
    uint64_t bytes = o->resident();
    if (bytes > most - most / 8 && o->trim) {
        o->trim(o->ctx);
        bytes = o->resident();
    }
    pthread_mutex_lock(&budget->lock);
    budget->is_over = bytes > budget->most_resident;
}

/* Under the lock: whether enough is held to read the process's size. */
static bool is_much(const struct sluice_memory_budget *budget)
{
    return budget->used > budget->options.bytes / MEMORY_UNWATCHED_PART;
}

static void *thread_main(void *ctx)
{
    struct sluice_memory_budget *budget = ctx;
    uint64_t measured_ns = 0;
    pthread_setname_np(pthread_self(), "memory");
    pthread_mutex_lock(&budget->lock);
    while (!budget->thread.is_stopping) {
        const uint64_t due_ns = measured_ns + MEMORY_MEASURE_NS;
        budget->is_watched = is_much(budget) || budget->is_over;
        if (!budget->is_awake && budget->is_watched)
            (void)sluice_cond_wait_until(&budget->thread.changed, &budget->lock, due_ns);
        else if (!budget->is_awake)
            pthread_cond_wait(&budget->thread.changed, &budget->lock);
        budget->is_awake = false;
        if (sluice_clock_ns() >= due_ns && (is_much(budget) || budget->is_over)) {
            measure(budget);
            measured_ns = sluice_clock_ns();
        }
        call_waiters(budget);
    }
    call_waiters(budget);
    pthread_mutex_unlock(&budget->lock);
    return NULL;
}

/* --- the whole --- */

sluice_status sluice_memory_budget_create(const struct sluice_memory_options *options,
                                          struct sluice_memory_budget **budget,
                                          struct sluice_err *err)
{
    struct sluice_memory_budget *b = calloc(1, sizeof(*b));
    if (!b)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a budget of memory");
    pthread_mutex_init(&b->lock, NULL);
    b->options = *options;
    b->most_resident = options->most_resident;
    b->end_waiting = &b->first_waiting;
    const sluice_status status = sluice_side_thread_open(&b->thread, &b->lock, thread_main, b,
                                                         "the thread of the memory budget", err);
    if (status == SLUICE_OK)
        *budget = b;
    else
        sluice_memory_budget_destroy(b);
    return status;
}

void sluice_memory_budget_close(struct sluice_memory_budget *budget)
{
    if (budget)
        sluice_side_thread_stop(&budget->thread);
}

static void free_budget(struct sluice_memory_budget *budget)
{
    sluice_side_thread_clear(&budget->thread);
    pthread_mutex_destroy(&budget->lock);
    free(budget);
}

void sluice_memory_budget_destroy(struct sluice_memory_budget *budget)
{
    if (!budget)
        return;
    sluice_memory_budget_close(budget);
    pthread_mutex_lock(&budget->lock);
    budget->is_destroyed = true;
    const bool is_last = !budget->num_holders;
    pthread_mutex_unlock(&budget->lock);
    if (is_last)
        free_budget(budget);
}

/* --- holders --- */

struct sluice_memory_holder *sluice_memory_open(struct sluice_memory_budget *budget,
                                                struct sluice_session *session,
                                                void (*on_room)(void *ctx), void *ctx)
{
    struct sluice_memory_holder *holder = malloc(sizeof(*holder));
    if (!holder)
        return NULL;
    *holder = (struct sluice_memory_holder){
        .budget = budget,
        .session = sluice_session_ref(session),
        .on_room = on_room,
        .ctx = ctx,
        .is_open = true,
    };
    pthread_mutex_lock(&budget->lock);
    budget->num_holders++;
    pthread_mutex_unlock(&budget->lock);
    return holder;
}

/* Releases the lock.  Frees the holder if it is closed and holds nothing. */
static void unlock_and_free_unused(struct sluice_memory_holder *holder)
{
    struct sluice_memory_budget *budget = holder->budget;
    const bool is_unused = !holder->is_open && !holder->used;
    budget->num_holders -= is_unused;
    const bool is_last = is_unused && budget->is_destroyed && !budget->num_holders;
    pthread_mutex_unlock(&budget->lock);
    if (is_unused) {
        sluice_session_unref(holder->session);
        free(holder);
    }
    if (is_last)
        free_budget(budget);
}

void sluice_memory_close(struct sluice_memory_holder *holder)
{
    if (!holder)
        return;
    pthread_mutex_lock(&holder->budget->lock);
    assert(!holder->is_waiting);
    holder->is_open = false;
    unlock_and_free_unused(holder);
}

bool sluice_memory_take(struct sluice_memory_holder *holder, size_t bytes,
                        enum sluice_memory_use use)
{
    struct sluice_memory_budget *budget = holder->budget;
    pthread_mutex_lock(&budget->lock);
    const bool is_taken = fits(budget, holder, bytes, use);
    if (is_taken) {
        budget->used += bytes;
        holder->session->memory_used += bytes;
        holder->used += bytes;
        if (budget->used > budget->peak)
            budget->peak = budget->used;
        if (!budget->is_watched && is_much(budget))
            wake(budget);
    } else {
        budget->refused++;
    }
    pthread_mutex_unlock(&budget->lock);
    return is_taken;
}

void sluice_memory_give(struct sluice_memory_holder *holder, size_t bytes)
{
    if (!bytes)
        return;
    struct sluice_memory_budget *budget = holder->budget;
    pthread_mutex_lock(&budget->lock);
    assert(holder->used >= bytes);
    budget->used -= bytes;
    holder->session->memory_used -= bytes;
    holder->used -= bytes;
    if (budget->num_waiting)
        wake(budget);
    unlock_and_free_unused(holder);
}

void sluice_memory_give_hook(void *holder, size_t bytes)
{
    sluice_memory_give(holder, bytes);
}

bool sluice_memory_wait(struct sluice_memory_holder *holder, size_t bytes)
{
    struct sluice_memory_budget *budget = holder->budget;
    pthread_mutex_lock(&budget->lock);
    const bool waits = !fits(budget, holder, bytes, SLUICE_MEMORY_REPLY);
    if (waits) {
        assert(!holder->is_waiting && holder->on_room);
        holder->is_waiting = true;
        holder->waits_for = bytes;
        holder->round = budget->round;
        holder->next_waiting = NULL;
        holder->link_waiting = budget->end_waiting;
        *budget->end_waiting = holder;
        budget->end_waiting = &holder->next_waiting;
        budget->num_waiting++;
    }
    pthread_mutex_unlock(&budget->lock);
    return waits;
}

bool sluice_memory_forget(struct sluice_memory_holder *holder)
{
    pthread_mutex_lock(&holder->budget->lock);
    const bool was_waiting = holder->is_waiting;
    if (was_waiting)
        unlink_waiting(holder->budget, holder);
    pthread_mutex_unlock(&holder->budget->lock);
    return was_waiting;
}

void sluice_memory_budget_shift(struct sluice_memory_budget *budget, int64_t bytes)
{
    pthread_mutex_lock(&budget->lock);
    budget->most_resident += (uint64_t)bytes; /* modulo 2^64: also if it is negative */
    pthread_mutex_unlock(&budget->lock);
}

bool sluice_memory_is_beyond(struct sluice_memory_budget *budget)
{
    const struct sluice_memory_options *o = &budget->options;
    if (!o->resident)
        return false;
    pthread_mutex_lock(&budget->lock);
    const uint64_t most = budget->most_resident + o->bytes / MEMORY_BEYOND_PART;
    pthread_mutex_unlock(&budget->lock);
    bool is_beyond = o->resident() > most;
    if (is_beyond && o->trim) {
        o->trim(o->ctx);
        is_beyond = o->resident() > most;
    }
    return is_beyond;
}

bool sluice_memory_could_fit(const struct sluice_memory_budget *budget, uint64_t bytes)
{
    return bytes <= budget->options.bytes;
}

struct sluice_memory_stats sluice_memory_stats(struct sluice_memory_budget *budget)
{
    pthread_mutex_lock(&budget->lock);
    const struct sluice_memory_stats stats = {
        .bytes = budget->options.bytes,
        .used = budget->used,
        .peak = budget->peak,
        .refused = budget->refused,
        .num_waiting = budget->num_waiting,
    };
    pthread_mutex_unlock(&budget->lock);
    return stats;
}
