#include "base/c_locale.h"
#include "base/clock.h"
#include "base/cond.h"
#include "compute_client/fetch/replicas_state.h"
#include "compute_client/fetch/tuning.h"
#include "compute_client/loader/tuning.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time between two checks of slow items. */
#define LEAST_LOOK_NS 2000000ull

/* Timed work: items that are due, silent servers, hedging, and deadlines. */

struct outlook {
    size_t num_refusing, num_untried;
};

static struct outlook look_at(const struct replicas *s, const struct shard *shard)
{
    struct outlook seen = {0};
    for (size_t i = 0; i < s->num_replicas; i++) {
        const struct replica *replica = s->replicas[i];
        if (!replica || replica->is_removed || &s->shards[replica->shard] != shard)
            continue;
        seen.num_refusing += replica->is_refusing;
        seen.num_untried += !replica->has_failed;
    }
    return seen;
}

void replicas_see_away(struct replicas *s, struct shard *shard, uint64_t now)
{
    const bool is_away =
        shard->num_there == 0 && shard->num_replicas > 0 && look_at(s, shard).num_untried == 0;
    if (is_away == shard->is_away)
        return;
    shard->is_away = is_away;
    s->num_shards_away += is_away ? 1 : (size_t)-1;
    if (!s->shows_outages)
        return;
    if (is_away && s->num_shards_away == 1) {
        sluice_live_add(&s->live->outages, 1);
        sluice_live_set(&s->live->lost_since_ns, now);
    } else if (s->num_shards_away == 0) {
        sluice_live_set(&s->live->lost_since_ns, 0);
    }
}

/* Under the lock: fails the source if no replica serves the shard and none will.  Returns the time
 * of that failure. */
static uint64_t check_patience(struct replicas *s, struct shard *shard, uint64_t now)
{
    if (shard->num_there > 0 || shard->num_waiting == 0)
        return UINT64_MAX;
    const struct outlook seen = look_at(s, shard);
    if (shard->num_replicas == 0 && shard->failing_since_ns == 0) {
        shard->failing_since_ns = now;
        shard->status = SLUICE_E_IO;
        snprintf(shard->cause.text, sizeof(shard->cause.text), "no server is left");
    }
    if (shard->failing_since_ns == 0 || (s->retry_for_s <= 0 && seen.num_untried > 0))
        return UINT64_MAX; /* an event will tell more */
    const uint64_t end_ns = shard->failing_since_ns + (uint64_t)(s->retry_for_s * 1e9);
    const bool is_refused = shard->num_replicas > 0 && seen.num_refusing == shard->num_replicas;
    if (!is_refused && now < end_ns)
        return end_ns;
    s->is_failing = true;
    s->failure = shard->status;
    snprintf(s->failure_text, sizeof(s->failure_text), "%s", shard->cause.text);
    const size_t len = strlen(s->failure_text);
    if (!is_refused && s->retry_for_s > 0)
        sluice_snprintf(s->failure_text + len, sizeof(s->failure_text) - len, " (tried for %.0f s)",
                        s->retry_for_s);
    return UINT64_MAX;
}

/* Under the lock, which it gives up for a moment. */
static uint64_t tell_again(struct replicas *s, uint64_t now)
{
    struct sluice_again_log line;
    if (sluice_again_take(&s->again, s->num_failing, now, &line)) {
        const size_t count = s->num_failing;
        char place[sizeof(s->again_place)];
        memcpy(place, s->again_place, sizeof(place));
        pthread_mutex_unlock(&s->lock);
        sluice_again_tell(&line, place, count);
        pthread_mutex_lock(&s->lock);
    }
    const uint64_t due_ns = sluice_again_due_ns(&s->again);
    return due_ns ? due_ns : UINT64_MAX;
}

/* --- silence --- */

/* Under the lock: whether another replica of the shard is there and not suspected. */
static bool has_another(const struct replicas *s, const struct replica *than)
{
    for (size_t i = 0; i < s->num_replicas; i++) {
        const struct replica *replica = s->replicas[i];
        if (replica && replica != than && replica->shard == than->shard && replica->is_there &&
            !replica->doubted_ns)
            return true;
    }
    return false;
}

/* The longest silence of the replica without suspicion. */
static uint64_t silence_ns(const struct replica *replica, const struct sluice_fetcher_pulse *pulse)
{
    double usual_s = sluice_replica_load_usual_silence_s(&replica->load);
    if (!(usual_s > 0)) /* it has not answered yet */
        usual_s = (double)pulse->largest_bytes / TUNING_SLOWEST_LINK_BYTES_PER_S;
    return (TUNING_FAILOVER_NS + (uint64_t)(usual_s * 1e9)) << replica->alarms;
}

/* Under the lock: requests from other replicas all items that this one alone owes. */
static void ask_others(struct replicas *s, const struct replica *replica, uint64_t now)
{
    uint64_t count = 0;
    for (size_t i = 0; i < s->max_items; i++) {
        struct replicas_item *item = &s->items[i];
        if (item->state == ITEM_ASKED && item->num_at == 1 && item->at[0] == replica->index &&
            !item->goes_alone)
            count += replicas_ask_another(s, item, HUGE_VAL, now);
    }
    s->stats.failed_over += count;
    if (s->live)
        sluice_live_add(&s->live->failed_over, count);
}

/* Under the lock: suspects a silent server, and cuts it off if it stays silent. */
static void watch_silence(struct replicas *s, struct replica *replica, uint64_t now)
{
    if (!replica || !replica->is_there || !has_another(s, replica))
        return;
    const struct sluice_fetcher_pulse pulse = sluice_fetcher_pulse(replica->fetcher);
    if (replica->doubted_ns && pulse.heard_ns > replica->doubted_ns) {
        replicas_trust(replica, now);
    } else if (!replica->doubted_ns) {
        if (replica->alarms > 0 && now - replica->alarm_ns > TUNING_ALARM_FORGET_NS)
            replica->alarms = 0;
        if (pulse.quiet_since_ns && now > pulse.quiet_since_ns &&
            now - pulse.quiet_since_ns > silence_ns(replica, &pulse))
            replica->doubted_ns = now;
    } else if (now - replica->doubted_ns > TUNING_CUT_NS << replica->alarms) {
        char text[64];
        const uint64_t since_ns =
            pulse.heard_ns ? pulse.heard_ns : replica->doubted_ns - TUNING_FAILOVER_NS;
        sluice_snprintf(text, sizeof(text), "no answer for %.3g s",
                        (double)(now - since_ns) * 1e-9);
        sluice_fetcher_cut(replica->fetcher, text);
    }
    if (replica->doubted_ns)
        ask_others(s, replica, now);
}

/* --- hedging --- */

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* Under the lock: the round trip from which an item is hedged (TUNING_HEDGE_QUANTILE, _FACTOR).  0:
 * unknown. */
static double long_trip_s(const struct replicas *s)
{
    float sorted[TUNING_TRIPS];
    const size_t count = s->num_trips < TUNING_TRIPS ? s->num_trips : TUNING_TRIPS;
    if (count < TUNING_LEAST_TRIPS)
        return 0;
    memcpy(sorted, s->trips_s, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), by_value);
    const double long_s = sorted[(size_t)((double)(count - 1) * TUNING_HEDGE_QUANTILE)];
    const double usual_s = sorted[count / 2];
    return long_s > TUNING_HEDGE_FACTOR * usual_s ? long_s : TUNING_HEDGE_FACTOR * usual_s;
}

/* Under the lock: the item that was asked for first of those that may be hedged; NULL: none. */
static struct replicas_item *oldest_lone(struct replicas *s, uint64_t before_ns)
{
    struct replicas_item *oldest = NULL;
    for (size_t i = 0; i < s->max_items; i++) {
        struct replicas_item *item = &s->items[i];
        if (item->state == ITEM_ASKED && item->num_at == 1 && !item->is_suspect &&
            !item->is_hedged && item->asked_ns[0] < before_ns &&
            (!oldest || item->asked_ns[0] < oldest->asked_ns[0]))
            oldest = item;
    }
    return oldest;
}

/* Under the lock. */
static void hedge(struct replicas *s, double long_s, uint64_t now)
{
    const uint64_t long_ns = (uint64_t)(long_s * 1e9);
    const double most = TUNING_HEDGE_SHARE * (double)s->num_accepted;
    struct replicas_item *item;
    while ((double)(s->stats.hedged + 1) <= most && now > long_ns &&
           (item = oldest_lone(s, now - long_ns))) {
        if (!replicas_ask_another(s, item, long_s, now))
            return;
        item->is_hedged = true;
        s->stats.hedged++;
        if (s->live)
            sluice_live_add(&s->live->hedged, 1);
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Under the lock, while items are under way.  Returns the time of the next check. */
static uint64_t look(struct replicas *s, uint64_t now)
{
    uint64_t look_ns = TUNING_FAILOVER_NS / TUNING_LOOKS_IN_FAILOVER;
    for (size_t i = 0; i < s->num_replicas; i++)
        watch_silence(s, s->replicas[i], now);
    const double long_s = s->hedges ? long_trip_s(s) : 0;
    if (long_s > 0) {
        hedge(s, long_s, now);
        const uint64_t often_ns = (uint64_t)(long_s * 1e9 / 4);
        look_ns = earlier(look_ns, often_ns > LEAST_LOOK_NS ? often_ns : LEAST_LOOK_NS);
    }
    return now + look_ns;
}

/* Called and left under the lock: no event comes after it. */
static void say_failed(struct replicas *s)
{
    while (s->num_events > 0)
        pthread_cond_wait(&s->quiet, &s->lock);
    replicas_begin_close(s);
    pthread_mutex_unlock(&s->lock);
    s->events.on_failed(s->events.ctx, s->failure, s->failure_text);
    pthread_mutex_lock(&s->lock);
}

void *replicas_watch_main(void *ctx)
{
    struct replicas *s = ctx;
    pthread_mutex_lock(&s->lock);
    while (!s->is_closed && !s->is_failing) {
        const uint64_t now = sluice_clock_ns();
        uint64_t until_ns = tell_again(s, now);
        for (uint32_t i = 0; i < s->num_shards && !s->is_failing; i++) {
            until_ns = earlier(until_ns, replicas_ask(s, &s->shards[i], now));
            until_ns = earlier(until_ns, check_patience(s, &s->shards[i], now));
        }
        if (s->num_asked > 0 && replicas_has_choice(s))
            until_ns = earlier(until_ns, look(s, now));
        if (!s->is_closed && !s->is_failing)
            (void)sluice_cond_wait_until(&s->changed, &s->lock, until_ns);
    }
    if (s->is_failing && !s->is_closed)
        say_failed(s);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}
