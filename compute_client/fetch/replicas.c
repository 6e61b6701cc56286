#include "compute_client/fetch/replicas.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "compute_client/fetch/replicas_state.h"
#include "compute_client/fetch/tuning.h"
#include "compute_client/loader/tuning.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct replicas *replicas_of(struct sluice_source *source)
{
    return SLUICE_CONTAINER_OF(source, struct replicas, source);
}

/* --- what is handed on --- */

/* Replaces the cores and price of one server by those of all.  Under the lock. */
static void say_of_whole(const struct replicas *s, struct sluice_source_result *result)
{
    double cores = 0, price = 0, priced = 0;
    for (size_t i = 0; i < s->num_replicas; i++) {
        const struct replica *replica = s->replicas[i];
        if (!replica || !replica->is_there)
            continue;
        cores += replica->cores;
        if (replica->price > 0) {
            const double weight = replica->cores > 0 ? replica->cores : 1;
            price += weight * replica->price;
            priced += weight;
        }
    }
    result->storage_cores = cores;
    result->storage_price = priced > 0 ? price / priced : 0;
}

/* Called and left under the lock, with the result of an item that is free by now. */
static void deliver(struct replicas *s, struct sluice_source_result *result)
{
    if (s->is_failing) {
        sluice_source_result_clear(result);
        return;
    }
    say_of_whole(s, result);
    s->num_events++;
    pthread_mutex_unlock(&s->lock);
    s->events.on_result(s->events.ctx, result);
    pthread_mutex_lock(&s->lock);
    if (--s->num_events == 0)
        pthread_cond_broadcast(&s->quiet);
}

/* Under the lock, for an item that has failed at a replica: whether it is requested again, or is
 * under way at another one.  False: the failure is the item's answer. */
static bool asks_again(struct replicas *s, struct replicas_item *item,
                       const struct replica *replica, const struct sluice_source_result *result,
                       uint64_t now)
{
    item->avoid = replica->index;
    item->asks_raw = item->asks_raw || result->is_overdue;
    if (item->num_at > 0)
        return true; /* another one may do better */
    replicas_acquit(s, item);
    uint64_t wait = 0;
    if (!sluice_retry_failed(&item->retry, now, &wait))
        return false;
    s->num_failing += !item->has_failed;
    item->has_failed = true;
    s->stats.fetchers.repeated++;
    if (s->live)
        sluice_live_add(&s->live->repeated, 1);
    sluice_again_note(&s->again, result->status, result->error);
    snprintf(s->again_place, sizeof(s->again_place), "%s", sluice_client_target(replica->client));
    replicas_wait(s, item, now + wait);
    pthread_cond_signal(&s->changed);
    return true;
}

/* --- a fetcher's events --- */

static void on_result(void *ctx, struct sluice_source_result *result)
{
    struct replica *replica = ctx;
    struct replicas *s = replica->all;
    const uint64_t now = sluice_clock_ns();
    pthread_mutex_lock(&s->lock);
    struct shard *shard = &s->shards[replica->shard];
    if (result->storage_cores > 0)
        replica->cores = result->storage_cores;
    replica->price = result->storage_price;
    replicas_trust(replica, now);
    const bool may_pass = result->status != SLUICE_OK && sluice_retry_is_worth(result->status);
    replica->failures = may_pass ? replica->failures + 1 : 0;
    replica->failed_ns = may_pass ? now : 0;
    struct replicas_item *item = replicas_find(s, result->ticket, replica);
    const bool is_second = item && item->num_at == 2 && item->at[1] == replica->index;
    if (item) {
        replicas_leave(s, item, replica, true, now);
        shard->may_go_alone += item->is_suspect;
    }
    if (!item || (may_pass && asks_again(s, item, replica, result, now))) {
        pthread_mutex_unlock(&s->lock);
        const size_t payload_bytes = result->payload_bytes;
        sluice_source_result_clear(result);
        if (payload_bytes)
            sluice_fetcher_consumed(replica->fetcher, payload_bytes);
        return;
    }
    while (item->num_at > 0)
        replicas_cancel(s, item, s->replicas[item->at[0]], now);
    s->stats.hedges_won += is_second && item->is_hedged;
    shard->failing_since_ns = 0;
    result->ticket = item->ask.ticket;
    result->origin = replica->index;
    result->backlog_ns += item->first_asked_ns - item->accepted_ns;
    replica->held_bytes += result->payload_bytes;
    replicas_free(s, item);
    if (shard->num_waiting > 0)
        (void)replicas_ask(s, shard, now);
    deliver(s, result);
    pthread_mutex_unlock(&s->lock);
}

static void on_there(void *ctx, const struct sluice_server_info *info)
{
    struct replica *replica = ctx;
    struct replicas *s = replica->all;
    const uint64_t now = sluice_clock_ns();
    pthread_mutex_lock(&s->lock);
    struct shard *shard = &s->shards[replica->shard];
    assert(replica->load.num_owed == 0);
    replica->load = (struct sluice_replica_load){0};
    replica->has_failed = replica->is_refusing = false;
    replica->doubted_ns = 0;
    replica->failures = 0;
    if (replica->is_removed) { /* just now: it is about to be closed */
        pthread_mutex_unlock(&s->lock);
        return;
    }
    replica->cores = info->prep_cores;
    replicas_set_there(s, replica, true);
    replicas_see_away(s, shard, now);
    (void)replicas_ask(s, shard, now);
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Called and left under the lock: its answer ends servers. */
static void answer_blamed(struct replicas *s, struct replicas_item *item)
{
    struct sluice_source_result result = {
        .ticket = item->ask.ticket,
        .status = SLUICE_E_INTERNAL,
        .backlog_ns = item->first_asked_ns - item->accepted_ns,
    };
    snprintf(result.error, sizeof(result.error), "its answer ended the connection %u times",
             item->num_blamed);
    s->shards[item->shard].failing_since_ns = 0;
    replicas_free(s, item);
    deliver(s, &result);
}

/* Called and left under the lock: the replica was lost with this request. */
static void take_back(struct replicas *s, struct replica *replica,
                      const struct sluice_fetcher_owed *owed, bool is_alone, uint64_t now)
{
    struct replicas_item *item = replicas_find(s, owed->ticket, replica);
    if (!item)
        return;
    replicas_leave(s, item, replica, false, now);
    if (owed->was_sent)
        replicas_suspect(s, item);
    item->num_blamed += owed->was_sent && is_alone;
    item->asks_raw = item->asks_raw || item->num_blamed >= TUNING_BLAMES_BEFORE_RAW;
    if (item->num_at > 0)
        return;
    if (item->num_blamed >= TUNING_BLAMES_BEFORE_END) {
        answer_blamed(s, item);
        return;
    }
    const bool has_another = s->shards[item->shard].num_replicas > 1;
    s->stats.failed_over += has_another;
    if (s->live)
        sluice_live_add(&s->live->failed_over, has_another);
    replicas_wait(s, item, 0);
}

/* Logs how the replica was lost. */
static void tell_lost(struct replica *replica, const struct sluice_fetcher_loss *loss)
{
    struct replicas *s = replica->all;
    pthread_mutex_lock(&s->lock);
    const bool has_another = s->shards[replica->shard].num_replicas > 1;
    pthread_mutex_unlock(&s->lock);
    if (loss->is_silent) {
        sluice_log(SLUICE_LOG_WARN, "%s; another stream is opened", loss->text);
    } else if (loss->away_ns) {
        char cause[sizeof(struct sluice_err) + 8];
        snprintf(cause, sizeof(cause), "lost %s", loss->text);
        sluice_client_tell_lost(replica->client, loss->away_ns, cause, has_another);
    } else if (loss->is_refusal && has_another && strcmp(replica->refusal.text, loss->text) != 0) {
        snprintf(replica->refusal.text, sizeof(replica->refusal.text), "%s", loss->text);
        sluice_log(SLUICE_LOG_WARN, "%s; it is not used until it fits", loss->text);
    }
}

static void on_lost(void *ctx, const struct sluice_fetcher_loss *loss)
{
    struct replica *replica = ctx;
    struct replicas *s = replica->all;
    const uint64_t now = sluice_clock_ns();
    tell_lost(replica, loss); /* before the source fails for it */
    pthread_mutex_lock(&s->lock);
    struct shard *shard = &s->shards[replica->shard];
    replicas_set_there(s, replica, false);
    replica->has_failed = replica->has_failed || !loss->is_silent;
    replica->is_refusing = loss->is_refusal;
    shard->status = loss->status;
    snprintf(shard->cause.text, sizeof(shard->cause.text), "%s", loss->text);
    size_t num_sent = 0;
    for (size_t i = 0; i < loss->num_owed; i++)
        num_sent += loss->owed[i].was_sent;
    for (size_t i = 0; i < loss->num_owed; i++)
        take_back(s, replica, &loss->owed[i], num_sent == 1, now);
    replicas_see_away(s, shard, now);
    (void)replicas_ask(s, shard, now);
    /* Time counts from when somebody waits. */
    if (shard->num_waiting == 0)
        shard->failing_since_ns = 0;
    else if (shard->num_there == 0 && shard->failing_since_ns == 0 && !loss->is_silent)
        shard->failing_since_ns = now;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* --- struct sluice_source --- */

static sluice_status replicas_request(struct sluice_source *source,
                                      const struct sluice_source_item *items, size_t num_items)
{
    struct replicas *s = replicas_of(source);
    const uint64_t now = sluice_clock_ns();
    pthread_mutex_lock(&s->lock);
    if (s->is_closed || s->is_failing) {
        pthread_mutex_unlock(&s->lock);
        return SLUICE_E_CLOSED;
    }
    bool must_watch = s->num_asked == 0 && replicas_has_choice(s);
    for (size_t i = 0; i < num_items; i++)
        replicas_accept(s, &items[i], now);
    for (uint32_t i = 0; i < s->num_shards; i++) {
        (void)replicas_ask(s, &s->shards[i], now);
        must_watch = must_watch || (s->shards[i].num_there == 0 && s->shards[i].num_waiting > 0);
    }
    if (must_watch)
        pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return SLUICE_OK;
}

static void add_stats(struct sluice_fetcher_stats *sum, const struct sluice_fetcher_stats *more)
{
    sum->wire_bytes += more->wire_bytes;
    sum->lost_streams += more->lost_streams;
    sum->repeated += more->repeated;
    sum->dropped += more->dropped;
    sum->hash_errors += more->hash_errors;
}

/* Under the lock: frees a replica that was removed, if none of its bytes is held. */
static void drop_replica(struct replicas *s, struct replica *replica)
{
    if (!replica->is_closed || replica->held_bytes > 0)
        return;
    s->replicas[replica->index] = NULL;
    sluice_fetcher_destroy(replica->fetcher);
    free(replica);
}

static void replicas_consumed(struct sluice_source *source, uint32_t origin, size_t payload_bytes)
{
    struct replicas *s = replicas_of(source);
    pthread_mutex_lock(&s->lock);
    assert(origin < s->num_replicas);
    struct replica *replica = s->replicas[origin];
    assert(replica && replica->held_bytes >= payload_bytes);
    replica->held_bytes -= payload_bytes;
    sluice_fetcher_consumed(replica->fetcher, payload_bytes);
    drop_replica(s, replica);
    pthread_mutex_unlock(&s->lock);
}

static uint64_t replicas_wire_bytes(struct sluice_source *source)
{
    return sluice_replicas_stats(source).fetchers.wire_bytes;
}

static void replicas_close(struct sluice_source *source)
{
    struct replicas *s = replicas_of(source);
    pthread_mutex_lock(&s->lock);
    s->is_closed = true;
    pthread_cond_broadcast(&s->changed);
    replicas_begin_close(s);
    pthread_mutex_unlock(&s->lock);
    if (s->is_watch_started)
        pthread_join(s->watch, NULL);
    s->is_watch_started = false;
    for (size_t i = 0; i < s->num_replicas; i++) {
        if (s->replicas[i])
            sluice_fetcher_close(s->replicas[i]->fetcher);
    }
}

static void replicas_destroy(struct sluice_source *source)
{
    struct replicas *s = replicas_of(source);
    replicas_close(source);
    for (size_t i = 0; i < s->num_replicas; i++) {
        if (s->replicas[i])
            sluice_fetcher_destroy(s->replicas[i]->fetcher);
        free(s->replicas[i]);
    }
    if (s->shows_outages && s->num_shards_away > 0)
        sluice_live_set(&s->live->lost_since_ns, 0);
    pthread_cond_destroy(&s->quiet);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s->replicas);
    free(s->shards);
    free(s->items);
    free(s);
}

/* --- servers that come and go --- */

/* The share of each of `count` replicas. */
static uint64_t window_of(const struct replicas *s, size_t count)
{
    const uint64_t share = s->options.window_bytes / (count ? count : 1);
    return share ? share : 1; /* one reply may begin */
}

/* Under the lock. */
static size_t count_used(const struct replicas *s)
{
    size_t count = 0;
    for (uint32_t i = 0; i < s->num_shards; i++)
        count += s->shards[i].num_replicas;
    return count;
}

/* Under the lock: divides the window evenly among the replicas in use. */
static void share_window(struct replicas *s)
{
    const uint64_t share = window_of(s, count_used(s));
    for (size_t i = 0; i < s->num_replicas; i++) {
        if (s->replicas[i] && !s->replicas[i]->is_removed)
            sluice_fetcher_set_window(s->replicas[i]->fetcher, share);
    }
}

/* Under the lock: a free index.  False: no memory. */
static bool find_index(struct replicas *s, uint32_t *index)
{
    for (size_t i = 0; i < s->num_replicas; i++) {
        if (!s->replicas[i]) {
            *index = (uint32_t)i;
            return true;
        }
    }
    if (!sluice_array_reserve(&s->replicas, &s->max_replicas, s->num_replicas + 1, sizeof(void *)))
        return false;
    *index = (uint32_t)s->num_replicas;
    s->replicas[s->num_replicas++] = NULL;
    return true;
}

/* Under the lock: adds a replica, which makes them `count`. */
static sluice_status add_replica(struct replicas *s, const struct sluice_replica *given,
                                 size_t count, struct sluice_err *err)
{
    if (given->shard >= s->num_shards)
        return sluice_fail(err, SLUICE_E_INVALID, "a replica of shard %u; there are %u",
                           given->shard, s->num_shards);
    struct replica *replica = calloc(1, sizeof(*replica));
    uint32_t index = 0;
    if (!replica || !find_index(s, &index)) {
        free(replica);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for one more server");
    }
    replica->all = s;
    replica->index = index;
    replica->shard = given->shard;
    replica->client = given->client;
    struct sluice_fetcher_options options = s->options;
    options.client = given->client;
    options.dataset_id = given->dataset_id;
    options.events = (struct sluice_fetcher_events){
        .on_there = on_there, .on_lost = on_lost, .on_result = on_result, .ctx = replica};
    options.window_bytes = window_of(s, count);
    const sluice_status status = sluice_fetcher_create(&options, &replica->fetcher, err);
    if (status != SLUICE_OK) {
        free(replica);
        return status;
    }
    s->replicas[index] = replica;
    s->shards[replica->shard].num_replicas++;
    return SLUICE_OK;
}

sluice_status sluice_replicas_add(struct sluice_source *source, const struct sluice_replica *given,
                                  struct sluice_err *err)
{
    struct replicas *s = replicas_of(source);
    pthread_mutex_lock(&s->lock);
    sluice_status status = SLUICE_OK;
    if (!s->is_closed) {
        status = add_replica(s, given, count_used(s) + 1, err);
        share_window(s);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static struct replica *find_replica(const struct replicas *s, const struct sluice_client *client)
{
    for (size_t i = 0; i < s->num_replicas; i++) {
        if (s->replicas[i] && s->replicas[i]->client == client && !s->replicas[i]->is_removed)
            return s->replicas[i];
    }
    return NULL;
}

void sluice_replicas_remove(struct sluice_source *source, const struct sluice_client *client)
{
    struct replicas *s = replicas_of(source);
    pthread_mutex_lock(&s->lock);
    struct replica *replica = find_replica(s, client);
    if (!replica || s->is_closed) {
        pthread_mutex_unlock(&s->lock);
        return;
    }
    struct shard *shard = &s->shards[replica->shard];
    replica->is_removed = true;
    shard->num_replicas--;
    replicas_set_there(s, replica, false);
    pthread_mutex_unlock(&s->lock);
    sluice_fetcher_close(replica->fetcher);

    const uint64_t now = sluice_clock_ns();
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; replica->load.num_owed > 0 && i < s->max_items; i++) {
        struct replicas_item *item = &s->items[i];
        if (item->state != ITEM_ASKED || !replicas_is_asked_of(item, replica))
            continue;
        replicas_leave(s, item, replica, false, now);
        if (item->num_at == 0)
            replicas_wait(s, item, 0);
    }
    const struct sluice_fetcher_stats stats = sluice_fetcher_stats(replica->fetcher);
    add_stats(&s->stats.fetchers, &stats);
    replica->is_closed = true;
    share_window(s);
    replicas_see_away(s, shard, now);
    (void)replicas_ask(s, shard, now);
    drop_replica(s, replica);
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* --- the whole --- */

static sluice_status make_tables(struct replicas *s, struct sluice_err *err)
{
    s->items = calloc(s->max_items, sizeof(*s->items));
    s->shards = calloc(s->num_shards, sizeof(*s->shards));
    if (!s->items || !s->shards)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu requests", s->max_items);
    for (size_t i = 0; i < s->max_items; i++)
        s->items[i].next = i + 1 < s->max_items ? (uint32_t)i + 1 : REPLICAS_NOBODY;
    for (uint32_t i = 0; i < s->num_shards; i++) {
        s->shards[i].head = s->shards[i].tail = REPLICAS_NOBODY;
        s->shards[i].suspects_at = REPLICAS_NOBODY;
        s->shards[i].may_go_alone = 1;
    }
    return SLUICE_OK;
}

static sluice_status check_options(const struct sluice_replicas_options *o, struct sluice_err *err)
{
    if (o->fetcher.max_items == 0 || o->fetcher.max_items >= UINT32_MAX ||
        o->fetcher.window_bytes == 0 || o->num_shards == 0 || o->num_replicas == 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%zu servers of %u shards for %zu items and a window of %llu",
                           o->num_replicas, o->num_shards, o->fetcher.max_items,
                           (unsigned long long)o->fetcher.window_bytes);
    for (uint32_t shard = 0; shard < o->num_shards; shard++) {
        bool has_replica = false;
        for (size_t i = 0; i < o->num_replicas; i++)
            has_replica = has_replica || o->replicas[i].shard == shard;
        if (!has_replica)
            return sluice_fail(err, SLUICE_E_INVALID, "shard %u has no server", shard);
    }
    return SLUICE_OK;
}

sluice_status sluice_replicas_create(const struct sluice_replicas_options *options,
                                     struct sluice_source **source, struct sluice_err *err)
{
    sluice_status status = check_options(options, err);
    if (status != SLUICE_OK)
        return status;
    struct replicas *s = calloc(1, sizeof(*s));
    if (!s)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu servers",
                           options->num_replicas);
    s->source = (struct sluice_source){
        .request = replicas_request,
        .consumed = replicas_consumed,
        .wire_bytes = replicas_wire_bytes,
        .close = replicas_close,
        .destroy = replicas_destroy,
    };
    pthread_mutex_init(&s->lock, NULL);
    sluice_cond_init(&s->changed);
    pthread_cond_init(&s->quiet, NULL);
    s->max_items = options->fetcher.max_items;
    s->num_shards = options->num_shards;
    s->places = options->places;
    s->options = options->fetcher;
    s->retry_for_s = sluice_client_retry_for_s(options->replicas[0].client);
    s->hedges = options->hedges;
    s->events = options->events;
    s->live = options->fetcher.live;
    s->shows_outages = s->live && options->shows_outages;
    status = make_tables(s, err);
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; status == SLUICE_OK && i < options->num_replicas; i++)
        status = add_replica(s, &options->replicas[i], options->num_replicas, err);
    pthread_mutex_unlock(&s->lock);
    if (status == SLUICE_OK) {
        const int failed = pthread_create(&s->watch, NULL, replicas_watch_main, s);
        s->is_watch_started = !failed;
        if (failed)
            status = sluice_fail(err, SLUICE_E_IO, "cannot start the thread of %zu servers: %s",
                                 options->num_replicas, strerror(failed));
    }
    if (status != SLUICE_OK) {
        replicas_destroy(&s->source);
        return status;
    }
    *source = &s->source;
    return SLUICE_OK;
}

struct sluice_replicas_stats sluice_replicas_stats(struct sluice_source *source)
{
    struct replicas *s = replicas_of(source);
    pthread_mutex_lock(&s->lock);
    struct sluice_replicas_stats stats = s->stats;
    for (size_t i = 0; i < s->num_replicas; i++) {
        if (!s->replicas[i] || s->replicas[i]->is_closed)
            continue;
        const struct sluice_fetcher_stats more = sluice_fetcher_stats(s->replicas[i]->fetcher);
        add_stats(&stats.fetchers, &more);
    }
    pthread_mutex_unlock(&s->lock);
    return stats;
}
