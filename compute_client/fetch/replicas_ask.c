#include "base/clock.h"
#include "compute_client/fetch/replicas_state.h"
#include "compute_client/fetch/tuning.h"
#include "op/form.h"

#include <assert.h>
#include <limits.h>

/* Chooses the server of each item. */

/* --- the table of items --- */

static uint32_t index_of(const struct replicas *s, const struct replicas_item *item)
{
    return (uint32_t)(item - s->items);
}

/* The fetcher's ticket: the row, and its generation. */
static uint64_t ticket_of(const struct replicas *s, const struct replicas_item *item)
{
    return (uint64_t)item->generation << 32 | index_of(s, item);
}

static void unlink_waiting(struct replicas *s, struct replicas_item *item)
{
    struct shard *shard = &s->shards[item->shard];
    if (item->prev == REPLICAS_NOBODY)
        shard->head = item->next;
    else
        s->items[item->prev].next = item->next;
    if (item->next == REPLICAS_NOBODY)
        shard->tail = item->prev;
    else
        s->items[item->next].prev = item->prev;
    shard->num_waiting--;
}

void replicas_wait(struct replicas *s, struct replicas_item *item, uint64_t due_ns)
{
    struct shard *shard = &s->shards[item->shard];
    assert(item->state != ITEM_WAITING && item->num_at == 0);
    s->num_asked -= item->state == ITEM_ASKED;
    item->state = ITEM_WAITING;
    item->due_ns = due_ns;
    uint32_t after = shard->tail;
    while (after != REPLICAS_NOBODY && s->items[after].ask.ticket > item->ask.ticket)
        after = s->items[after].prev;
    item->prev = after;
    item->next = after == REPLICAS_NOBODY ? shard->head : s->items[after].next;
    if (item->prev == REPLICAS_NOBODY)
        shard->head = index_of(s, item);
    else
        s->items[item->prev].next = index_of(s, item);
    if (item->next == REPLICAS_NOBODY)
        shard->tail = index_of(s, item);
    else
        s->items[item->next].prev = index_of(s, item);
    shard->num_waiting++;
}

void replicas_accept(struct replicas *s, const struct sluice_source_item *ask, uint64_t now)
{
    const uint32_t index = s->free_head;
    assert(index != REPLICAS_NOBODY);
    struct replicas_item *item = &s->items[index];
    s->free_head = item->next;
    *item = (struct replicas_item){
        .generation = item->generation + 1,
        .ask = *ask,
        .accepted_ns = now,
        .avoid = REPLICAS_NOBODY,
        .retry = sluice_retry_init(s->retry_for_s, now + index),
    };
    if (s->places) {
        const struct sluice_manifest_place *place = &s->places[ask->key.sample_id];
        item->shard = place->part;
        item->ask.has_listed_id = true;
        item->ask.listed_id = place->row;
    }
    s->num_accepted++;
    replicas_wait(s, item, 0);
}

void replicas_free(struct replicas *s, struct replicas_item *item)
{
    assert(item->state != ITEM_WAITING && item->num_at == 0);
    s->num_asked -= item->state == ITEM_ASKED;
    s->num_failing -= item->has_failed;
    replicas_acquit(s, item);
    item->state = ITEM_FREE;
    item->next = s->free_head;
    s->free_head = index_of(s, item);
}

bool replicas_is_asked_of(const struct replicas_item *item, const struct replica *replica)
{
    for (unsigned i = 0; i < item->num_at; i++) {
        if (item->at[i] == replica->index)
            return true;
    }
    return false;
}

struct replicas_item *replicas_find(struct replicas *s, uint64_t ticket,
                                    const struct replica *replica)
{
    const uint64_t index = ticket & UINT32_MAX;
    assert(index < s->max_items);
    struct replicas_item *item = &s->items[index];
    return item->state == ITEM_ASKED && ticket == ticket_of(s, item) &&
                   replicas_is_asked_of(item, replica)
               ? item
               : NULL;
}

void replicas_leave(struct replicas *s, struct replicas_item *item, struct replica *replica,
                    bool has_answered, uint64_t now)
{
    const unsigned at = item->at[0] == replica->index ? 0 : 1;
    assert(at < item->num_at && item->at[at] == replica->index);
    if (has_answered) {
        sluice_replica_load_answered(&replica->load, item->asked_ns[at], now);
        s->trips_s[s->num_trips++ % TUNING_TRIPS] = (float)(now - item->asked_ns[at]) * 1e-9f;
    } else {
        sluice_replica_load_forgot(&replica->load);
    }
    if (at == 0) {
        item->at[0] = item->at[1];
        item->asked_ns[0] = item->asked_ns[1];
    }
    if (--item->num_at == 0 && item->goes_alone) {
        item->goes_alone = false;
        s->shards[item->shard].num_alone--;
    }
}

void replicas_cancel(struct replicas *s, struct replicas_item *item, struct replica *replica,
                     uint64_t now)
{
    (void)sluice_fetcher_cancel(replica->fetcher, ticket_of(s, item));
    replicas_leave(s, item, replica, false, now);
}

void replicas_suspect(struct replicas *s, struct replicas_item *item)
{
    struct shard *shard = &s->shards[item->shard];
    item->num_lost++;
    if (shard->num_replicas > 1 && item->num_lost < TUNING_LOSSES_BEFORE_SUSPECT)
        return;
    shard->num_suspects += !item->is_suspect;
    item->is_suspect = true;
    shard->may_go_alone = 1;
}

void replicas_acquit(struct replicas *s, struct replicas_item *item)
{
    struct shard *shard = &s->shards[item->shard];
    if (item->is_suspect && --shard->num_suspects == 0) {
        shard->suspects_at = REPLICAS_NOBODY;
        shard->may_go_alone = 1;
    }
    item->is_suspect = false;
    item->num_lost = 0;
}

/* --- the choice --- */

static bool serves(const struct replica *replica, const struct shard *shard,
                   const struct replicas *s)
{
    return replica && replica->is_there && !replica->is_removed &&
           &s->shards[replica->shard] == shard;
}

/* Over the replicas of the shard that have answered; 1: none has. */
static double usual_gap_s(const struct replicas *s, const struct shard *shard)
{
    double sum = 0;
    unsigned count = 0;
    for (size_t i = 0; i < s->num_replicas; i++) {
        if (!serves(s->replicas[i], shard, s) || s->replicas[i]->load.answers <= 0)
            continue;
        sum += sluice_replica_load_gap_s(&s->replicas[i]->load);
        count++;
    }
    return count && sum > 0 ? sum / count : 1;
}

/* Whether the replica is in trouble, so that others are preferred.  A failing one gets a single
 * item at a time, to test it. */
static bool is_in_trouble(const struct replica *replica, uint64_t now)
{
    return replica->doubted_ns ||
           (replica->failures >= TUNING_FAILURES_IN_A_ROW &&
            (replica->load.num_owed > 0 || now - replica->failed_ns < TUNING_REPLICA_WAIT_NS));
}

/* The replica of the shard with the least expected wait, except those that have the item already.
 * A replica in trouble, or where the item failed, is taken only as a last resort.  is_late (late
 * binding) excludes replicas with enough items.  NULL: not found. */
static struct replica *choose(struct replicas *s, const struct shard *shard,
                              const struct replicas_item *item, bool is_late, uint64_t now,
                              double *least_s)
{
    const double usual_s = usual_gap_s(s, shard);
    struct replica *best = NULL;
    unsigned best_rank = UINT_MAX; /* of those that have enough to do, too */
    double best_s = 0;
    for (size_t k = 0; k < s->num_replicas; k++) {
        struct replica *replica = s->replicas[(s->next_first + k) % s->num_replicas];
        if (!serves(replica, shard, s) || replicas_is_asked_of(item, replica) ||
            (shard->num_suspects > 0 && replica->index == shard->suspects_at))
            continue;
        const double wait_s = sluice_replica_load_wait_s(&replica->load, now, usual_s);
        const unsigned rank = 2 * is_in_trouble(replica, now) + (replica->index == item->avoid);
        const bool has_enough =
            is_late && replica->load.num_owed >= sluice_replica_load_most_owed(&replica->load);
        if (rank < best_rank || (rank == best_rank && !has_enough && (!best || wait_s < best_s))) {
            best = has_enough ? NULL : replica;
            best_rank = rank;
            best_s = wait_s;
        }
    }
    s->next_first++;
    *least_s = best_s;
    return best;
}

/* Returns the replica that suspects are sent to.  NULL: it still has other requests. */
static struct replica *place_of_suspects(struct replicas *s, struct shard *shard)
{
    struct replica *place =
        shard->suspects_at == REPLICAS_NOBODY ? NULL : s->replicas[shard->suspects_at];
    if (!serves(place, shard, s)) {
        place = NULL;
        for (size_t i = 0; i < s->num_replicas; i++) {
            struct replica *replica = s->replicas[i];
            if (serves(replica, shard, s) &&
                (!place || replica->load.num_owed < place->load.num_owed))
                place = replica;
        }
        shard->suspects_at = place ? place->index : REPLICAS_NOBODY;
    }
    return place && place->load.num_owed == shard->num_alone ? place : NULL;
}

/* --- asking --- */

/* Assigns the item to the replica, whose fetcher gets it with the next flush(). */
static void put(struct replicas *s, struct replicas_item *item, struct replica *replica,
                uint64_t now)
{
    assert(item->num_at < 2 && replica->num_batch < REPLICAS_MAX_AT_ONCE);
    struct sluice_source_item *ask = &replica->batch[replica->num_batch++];
    *ask = item->ask;
    ask->ticket = ticket_of(s, item);
    if (item->asks_raw) {
        ask->split = 0;
        ask->form = sluice_form_plain(SLUICE_KIND_FILE);
        ask->jpeg_crop_restart = 0;
    }
    if (!item->first_asked_ns)
        item->first_asked_ns = now;
    item->at[item->num_at] = replica->index;
    item->asked_ns[item->num_at++] = now;
    s->num_asked += item->state != ITEM_ASKED;
    item->state = ITEM_ASKED;
    sluice_replica_load_asked(&replica->load, now);
}

/* False: the replica accepts no requests, as its events report, too.  Its items wait again. */
static bool flush(struct replicas *s, struct replica *replica, uint64_t now)
{
    if (replica->num_batch == 0)
        return true;
    const size_t count = replica->num_batch;
    replica->num_batch = 0;
    if (sluice_fetcher_request(replica->fetcher, replica->batch, count) == SLUICE_OK)
        return true;
    replicas_set_there(s, replica, false);
    for (size_t i = 0; i < count; i++) {
        struct replicas_item *item = replicas_find(s, replica->batch[i].ticket, replica);
        assert(item);
        replicas_leave(s, item, replica, false, now);
        if (item->num_at == 0)
            replicas_wait(s, item, 0);
    }
    return false;
}

static bool flush_all(struct replicas *s, uint64_t now)
{
    bool is_good = true;
    for (size_t i = 0; i < s->num_replicas; i++)
        is_good = (!s->replicas[i] || flush(s, s->replicas[i], now)) && is_good;
    return is_good;
}

/* One pass over the waiting items, which may find that a replica accepts no requests. */
static uint64_t ask_once(struct replicas *s, struct shard *shard, uint64_t now, bool *is_good)
{
    uint64_t next_ns = UINT64_MAX;
    const bool is_late = shard->num_replicas > 1;
    *is_good = true;
    for (uint32_t i = shard->head; i != REPLICAS_NOBODY && *is_good;) {
        struct replicas_item *item = &s->items[i];
        i = item->next;
        if (item->due_ns > now) {
            if (item->due_ns < next_ns)
                next_ns = item->due_ns;
            continue;
        }
        struct replica *replica = NULL;
        double wait_s = 0;
        if (!item->is_suspect)
            replica = choose(s, shard, item, is_late, now, &wait_s);
        else if (shard->num_alone < shard->may_go_alone)
            replica = place_of_suspects(s, shard);
        const bool are_busy =
            !replica && is_late && !item->is_suspect && item->avoid == REPLICAS_NOBODY;
        const bool is_slow_start = !replica && item->is_suspect && shard->num_there == 1;
        if (are_busy || is_slow_start) {
            /* All have enough to do, so an answer is the next event, or the end of a wait. */
            next_ns = next_ns < now + TUNING_BUSY_LOOK_NS ? next_ns : now + TUNING_BUSY_LOOK_NS;
            if (is_slow_start || shard->num_suspects == 0)
                break;
        }
        if (!replica)
            continue;
        unlink_waiting(s, item);
        item->goes_alone = item->is_suspect;
        shard->num_alone += item->is_suspect;
        put(s, item, replica, now);
        if (replica->num_batch == REPLICAS_MAX_AT_ONCE)
            *is_good = flush(s, replica, now);
    }
    *is_good = flush_all(s, now) && *is_good;
    return next_ns;
}

uint64_t replicas_ask(struct replicas *s, struct shard *shard, uint64_t now)
{
    uint64_t next_ns = UINT64_MAX;
    bool is_good = false;
    /* Each pass that is not good is by one replica less. */
    while (!is_good && shard->num_waiting > 0 && shard->num_there > 0)
        next_ns = ask_once(s, shard, now, &is_good);
    return next_ns;
}

bool replicas_ask_another(struct replicas *s, struct replicas_item *item, double max_wait_s,
                          uint64_t now)
{
    double wait_s = 0;
    struct replica *replica = choose(s, &s->shards[item->shard], item, false, now, &wait_s);
    if (!replica || is_in_trouble(replica, now) || wait_s > max_wait_s)
        return false;
    put(s, item, replica, now);
    return flush(s, replica, now);
}

void replicas_trust(struct replica *replica, uint64_t now)
{
    if (!replica->doubted_ns)
        return;
    replica->doubted_ns = 0;
    replica->alarms += replica->alarms < TUNING_MOST_ALARMS;
    replica->alarm_ns = now;
}

bool replicas_has_choice(const struct replicas *s)
{
    uint32_t i = 0;
    while (i < s->num_shards && s->shards[i].num_replicas <= 1)
        i++;
    return i < s->num_shards;
}

void replicas_set_there(struct replicas *s, struct replica *replica, bool is_there)
{
    struct shard *shard = &s->shards[replica->shard];
    if (replica->is_there == is_there)
        return;
    replica->is_there = is_there;
    shard->num_there += is_there ? 1 : (size_t)-1;
}

void replicas_begin_close(struct replicas *s)
{
    for (size_t i = 0; i < s->num_replicas; i++) {
        if (s->replicas[i])
            sluice_fetcher_begin_close(s->replicas[i]->fetcher);
    }
}
