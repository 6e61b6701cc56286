#include "store/http_flight.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/text.h"
#include "store/tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MS UINT64_C(1000000) /* ns */

/* A second request, with its own body until it has come first.  Of the owner thread alone. */
struct hedge {
    struct sluice_http_flight flight;
    struct sluice_http_transfer transfer;
    uint8_t data[];
};

/* Ends the second request of a flight, if there is one. */
static void drop_hedge(struct sluice_http *http, struct sluice_http_flight *flight)
{
    struct sluice_http_flight *hedge = flight->hedge;
    flight->hedge = NULL;
    if (!hedge)
        return;
    sluice_http_end_try(http, hedge);
    free(SLUICE_CONTAINER_OF(hedge, struct hedge, flight));
}

/* The flight is the caller's again. */
static void end_flight(struct sluice_http *http, struct sluice_http_flight *flight,
                       sluice_status status)
{
    struct sluice_http_waiting *waiting = flight->waiting;
    drop_hedge(http, flight);
    sluice_http_end_try(http, flight);
    flight->transfer->status = status;
    if (status == SLUICE_E_CLOSED)
        sluice_fail(&flight->transfer->err, status, "cancelled");
    else if (status == SLUICE_E_NO_MEMORY)
        sluice_fail(&flight->transfer->err, status, "no memory for a transfer");
    pthread_mutex_lock(&http->lock);
    struct sluice_http_flight **at = &http->flights;
    while (*at != flight)
        at = &(*at)->next;
    *at = flight->next;
    if (--waiting->num_left == 0)
        pthread_cond_signal(&waiting->done);
    pthread_mutex_unlock(&http->lock);
}

/* --- a second request for one that takes long --- */

static size_t body_bytes(const struct sluice_http_transfer *t)
{
    return t->has_range ? (size_t)(t->to - t->from) : t->room;
}

static bool may_hedge(const struct sluice_http_transfer *t)
{
    return !t->is_head && !t->body && body_bytes(t) <= STORE_MAX_HEDGED_BYTES;
}

/* Without memory no second request is sent. */
static void start_hedge(struct sluice_http *http, struct sluice_http_flight *flight,
                        uint64_t now_ns)
{
    const struct sluice_http_transfer *t = flight->transfer;
    struct hedge *hedge = malloc(sizeof(*hedge) + body_bytes(t));
    flight->has_hedged = true;
    if (!hedge)
        return;
    hedge->transfer = *t;
    hedge->transfer.data = hedge->data;
    hedge->flight = (struct sluice_http_flight){
        .transfer = &hedge->transfer,
        .until_ns = flight->until_ns,
        .hedged = flight,
        .tries = sluice_http_is_strong(t), /* asks for the version that the first one began with */
    };
    flight->hedge = &hedge->flight;
    if (sluice_http_start_try(http, &hedge->flight, now_ns))
        sluice_hedging_spend(&http->hedging);
    else
        drop_hedge(http, flight);
}

/* When the flight is to be sent again; UINT64_MAX: it is not. */
static uint64_t hedge_at_ns(const struct sluice_http *http, const struct sluice_http_flight *flight)
{
    const uint64_t after_ns = sluice_hedging_after_ns(&http->hedging);
    if (flight->state != SLUICE_HTTP_RUNNING || !flight->sent_ns || flight->has_hedged ||
        after_ns > UINT64_MAX / 2 || !may_hedge(flight->transfer))
        return UINT64_MAX;
    return flight->sent_ns + after_ns;
}

/* The second request has come first: what it has is the flight's. */
static void take_hedge(const struct sluice_http_flight *hedge)
{
    const struct sluice_http_transfer *from = hedge->transfer;
    struct sluice_http_transfer *to = hedge->hedged->transfer;
    memcpy(to->data, from->data, from->len);
    to->code = from->code;
    to->is_longer = from->is_longer;
    to->len = from->len;
    to->total = from->total;
    memcpy(to->tag, from->tag, sizeof(to->tag));
    to->is_etag = from->is_etag;
}

/* --- how a try ended --- */

static bool is_worth_a_retry(CURLcode code, long http)
{
    switch (code) {
    case CURLE_OK:
        return http == 408 || http == 429 || (http >= 500 && http != 501);
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return true;
    default:
        return false;
    }
}

/* Puts the flight off to its next try.  False: no try is left. */
static bool retry(struct sluice_http *http, struct sluice_http_flight *flight)
{
    if (flight->tries >= STORE_MAX_TRIES || http->retries_saved < 1)
        return false;
    uint32_t most_ms = STORE_BACKOFF_MS << (flight->tries - 1);
    if (most_ms > STORE_MAX_BACKOFF_MS)
        most_ms = STORE_MAX_BACKOFF_MS;
    const uint64_t next_ns =
        sluice_clock_ns() + sluice_rng_below(&http->rng, most_ms * 1000 + 1) * UINT64_C(1000);
    if (next_ns >= flight->until_ns)
        return false;
    http->retries_saved -= 1;
    sluice_http_end_try(http, flight);
    flight->not_before_ns = next_ns;
    flight->state = SLUICE_HTTP_WAITING;
    return true;
}

static sluice_status status_of(const struct sluice_http_transfer *t)
{
    if (t->code == 200 || t->code == 206)
        return SLUICE_OK;
    return t->code == 404                     ? SLUICE_E_NOT_FOUND
           : t->code == 412 || t->code == 416 ? SLUICE_E_STALE
                                              : SLUICE_E_IO;
}

static void tell(struct sluice_http_flight *flight, CURLcode code)
{
    struct sluice_http_transfer *t = flight->transfer;
    const char *why = flight->reason[0] ? flight->reason : curl_easy_strerror(code);
    char tries[32] = "";
    if (flight->tries > 1)
        snprintf(tries, sizeof(tries), " (%u tries)", flight->tries);
    if (flight->is_other_range && flight->body_to)
        sluice_fail(
            &t->err, SLUICE_E_IO, "asked for bytes %llu-%llu, and got a 206 with bytes %llu-%llu%s",
            (unsigned long long)t->from, (unsigned long long)t->to - 1,
            (unsigned long long)flight->body_from, (unsigned long long)flight->body_to - 1, tries);
    else if (flight->is_other_range)
        sluice_fail(&t->err, SLUICE_E_IO, "a 206 without the range that was asked for%s", tries);
    else if (code != CURLE_OK)
        sluice_fail(&t->err, SLUICE_E_IO, "%s%s", why, tries);
    else if (t->code == 412)
        sluice_fail(&t->err, SLUICE_E_STALE, "the object changed while it was read");
    else if (t->code == 416)
        sluice_fail(&t->err, SLUICE_E_STALE, "the object is shorter than it was");
    else
        sluice_fail(&t->err, SLUICE_E_IO, "HTTP %ld%s", t->code, tries);
}

/* libcurl is done with the flight. */
static void finish_try(struct sluice_http *http, struct sluice_http_flight *flight, CURLcode code)
{
    struct sluice_http_transfer *t = flight->transfer;
    const bool is_ours = code == CURLE_WRITE_ERROR && (flight->is_complete || t->is_longer);
    if (is_ours)
        code = CURLE_OK;
    if (flight->hedged) {
        struct sluice_http_flight *first = flight->hedged;
        const bool is_good = code == CURLE_OK && status_of(t) == SLUICE_OK;
        if (!is_good) {
            drop_hedge(http, first); /* the first one decides */
            return;
        }
        take_hedge(flight);
        flight = first;
        t = first->transfer;
    }
    drop_hedge(http, flight);
    if (code == CURLE_OK && status_of(t) == SLUICE_OK && flight->sent_ns && may_hedge(t))
        sluice_hedging_note(&http->hedging, sluice_clock_ns() - flight->sent_ns);
    if ((flight->is_other_range || is_worth_a_retry(code, t->code)) && retry(http, flight))
        return;
    sluice_status status = code == CURLE_OK ? status_of(t) : SLUICE_E_IO;
    if (status != SLUICE_OK)
        tell(flight, code);
    end_flight(http, flight, status);
}

/* --- the owner thread --- */

/* Takes what has arrived.  False: it is closing, and nothing is left. */
static bool take_arrived(struct sluice_http *http, bool *is_closing)
{
    pthread_mutex_lock(&http->lock);
    while (http->arrived) {
        struct sluice_http_flight *flight = http->arrived;
        http->arrived = flight->next;
        flight->next = http->flights;
        http->flights = flight;
        if (http->retries_saved < STORE_MAX_RETRIES_SAVED)
            http->retries_saved += STORE_RETRY_RATIO;
        if (may_hedge(flight->transfer))
            sluice_hedging_count(&http->hedging);
    }
    *is_closing = http->is_closing;
    const bool has_flights = http->flights != NULL;
    pthread_mutex_unlock(&http->lock);
    return has_flights || !*is_closing;
}

/* Starts and ends what is due.  Returns when the next one is. */
static uint64_t move_flights(struct sluice_http *http, bool is_closing)
{
    const uint64_t now_ns = sluice_clock_ns();
    uint64_t next_ns = UINT64_MAX;
    for (struct sluice_http_flight *flight = http->flights, *next; flight; flight = next) {
        next = flight->next;
        const uint64_t hedge_ns = hedge_at_ns(http, flight);
        const bool is_due =
            flight->state == SLUICE_HTTP_NEW ||
            (flight->state == SLUICE_HTTP_WAITING && flight->not_before_ns <= now_ns);
        if (is_closing || atomic_load_explicit(&flight->is_cancelled, memory_order_relaxed))
            end_flight(http, flight, SLUICE_E_CLOSED);
        else if (is_due && !sluice_http_start_try(http, flight, now_ns))
            end_flight(http, flight, SLUICE_E_NO_MEMORY);
        else if (flight->state == SLUICE_HTTP_WAITING && flight->not_before_ns < next_ns)
            next_ns = flight->not_before_ns;
        else if (hedge_ns <= now_ns)
            start_hedge(http, flight, now_ns);
        else if (hedge_ns < next_ns)
            next_ns = hedge_ns;
    }
    return next_ns;
}

static void read_results(struct sluice_http *http)
{
    int num_left;
    for (CURLMsg *message; (message = curl_multi_info_read(http->multi, &num_left));) {
        char *flight = NULL;
        if (message->msg != CURLMSG_DONE)
            continue;
        const CURLcode code = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &flight);
        finish_try(http, (struct sluice_http_flight *)(void *)flight, code);
    }
}

static void *own(void *ctx)
{
    struct sluice_http *http = ctx;
    bool is_closing;
    pthread_setname_np(pthread_self(), "store-http");
    while (take_arrived(http, &is_closing)) {
        int num_running;
        (void)move_flights(http, is_closing);
        curl_multi_perform(http->multi, &num_running);
        read_results(http);
        const uint64_t next_ns = move_flights(http, is_closing), now_ns = sluice_clock_ns();
        uint64_t wait_ms = 1000;
        if (next_ns != UINT64_MAX && next_ns < now_ns + wait_ms * MS)
            wait_ms = next_ns > now_ns ? (next_ns - now_ns) / MS + 1 : 0;
        curl_multi_poll(http->multi, NULL, 0, (int)wait_ms, NULL);
    }
    return NULL;
}

/* --- the whole --- */

static void init_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

sluice_status sluice_http_open(const struct sluice_http_options *options, struct sluice_http **out,
                               struct sluice_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_curl);
    struct sluice_http *http = calloc(1, sizeof(*http));
    if (!http)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for transfers");
    pthread_mutex_init(&http->lock, NULL);
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
        seed = sluice_clock_ns();
    http->rng = sluice_rng_init(seed, 0, 0, 0);
    http->retries_saved = STORE_MAX_RETRIES_SAVED;
    http->hedging = sluice_hedging_init();
    /* And for second requests, which are not to wait behind what is slow. */
    const unsigned num_parallel = options->num_parallel + (options->num_parallel + 7) / 8;
    http->max_idle = num_parallel;
    http->idle = calloc(http->max_idle + 1, sizeof(http->idle[0]));
    http->multi = curl_multi_init();
    http->ca_bundle = options->ca_bundle ? strdup(options->ca_bundle) : NULL;
    if (!http->idle || !http->multi || (options->ca_bundle && !http->ca_bundle)) {
        sluice_http_close(http);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for transfers");
    }
    curl_multi_setopt(http->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    curl_multi_setopt(http->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)num_parallel);
    curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, (long)num_parallel);
    const int failed = pthread_create(&http->thread, NULL, own, http);
    if (failed) {
        sluice_http_close(http);
        return sluice_fail(err, SLUICE_E_IO, "cannot start a thread for transfers: %s",
                           strerror(failed));
    }
    http->has_thread = true;
    *out = http;
    return SLUICE_OK;
}

void sluice_http_close(struct sluice_http *http)
{
    if (!http)
        return;
    if (http->has_thread) {
        pthread_mutex_lock(&http->lock);
        http->is_closing = true;
        pthread_mutex_unlock(&http->lock);
        curl_multi_wakeup(http->multi);
        pthread_join(http->thread, NULL);
    }
    for (size_t i = 0; http->idle && i < http->num_idle; i++)
        curl_easy_cleanup(http->idle[i]);
    if (http->multi)
        curl_multi_cleanup(http->multi);
    pthread_mutex_destroy(&http->lock);
    free(http->idle);
    free(http->ca_bundle);
    free(http);
}

void sluice_http_run(struct sluice_http *http, struct sluice_http_transfer *transfers, size_t count,
                     uint64_t until_ns, const void *owner)
{
    struct sluice_http_waiting waiting = {.num_left = count};
    struct sluice_http_flight *flights = calloc(count ? count : 1, sizeof(*flights));
    if (!flights) {
        for (size_t i = 0; i < count; i++) {
            transfers[i].status = SLUICE_E_NO_MEMORY;
            sluice_fail(&transfers[i].err, SLUICE_E_NO_MEMORY, "no memory for a transfer");
        }
        return;
    }
    pthread_cond_init(&waiting.done, NULL);
    for (size_t i = 0; i < count; i++) {
        struct sluice_http_flight *flight = &flights[i];
        flight->transfer = &transfers[i];
        flight->waiting = &waiting;
        flight->owner = owner;
        flight->until_ns = until_ns;
        atomic_init(&flight->is_cancelled, false);
        transfers[i].total = UINT64_MAX;
        transfers[i].tag[0] = '\0';
        transfers[i].is_etag = false;
    }
    pthread_mutex_lock(&http->lock);
    for (size_t i = 0; i < count; i++) {
        flights[i].next = http->arrived;
        http->arrived = &flights[i];
    }
    pthread_mutex_unlock(&http->lock);
    curl_multi_wakeup(http->multi);
    pthread_mutex_lock(&http->lock);
    while (waiting.num_left > 0)
        pthread_cond_wait(&waiting.done, &http->lock);
    pthread_mutex_unlock(&http->lock);
    pthread_cond_destroy(&waiting.done);
    free(flights);
}

static void cancel_in(struct sluice_http_flight *flights, const void *owner)
{
    for (struct sluice_http_flight *flight = flights; flight; flight = flight->next) {
        if (flight->owner == owner)
            atomic_store_explicit(&flight->is_cancelled, true, memory_order_relaxed);
    }
}

void sluice_http_cancel(struct sluice_http *http, const void *owner)
{
    pthread_mutex_lock(&http->lock);
    cancel_in(http->arrived, owner);
    cancel_in(http->flights, owner);
    pthread_mutex_unlock(&http->lock);
    curl_multi_wakeup(http->multi);
}
