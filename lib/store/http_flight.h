#ifndef SLUICE_STORE_HTTP_FLIGHT_H
#define SLUICE_STORE_HTTP_FLIGHT_H

#include "base/rng.h"
#include "store/hedging.h"
#include "store/http.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>

/* Private to http.c, which schedules transfers, and http_try.c, which sets up a try of a transfer
 * and stores its answer.
 *
 * Threads: the owner thread, except where noted. */

/* A caller that waits for transfers. */
struct sluice_http_waiting {
    pthread_cond_t done;
    size_t num_left; /* under the lock */
};

enum sluice_http_state { SLUICE_HTTP_NEW, SLUICE_HTTP_RUNNING, SLUICE_HTTP_WAITING };

/* A transfer in progress.  The lock guards the list links; only the owner thread removes flights
 * and uses the other fields. */
struct sluice_http_flight {
    struct sluice_http_flight *next;
    struct sluice_http_transfer *transfer;
    struct sluice_http_waiting *waiting;
    const void *owner;
    uint64_t until_ns;
    atomic_bool is_cancelled; /* set by others; relaxed: the wakeup orders it */

    enum sluice_http_state state;
    CURL *easy;
    struct curl_slist *headers;
    uint64_t not_before_ns;
    unsigned tries;
    uint64_t sent_ns; /* of this try; 0: not connected yet */
    /* The flight's hedge; or, in a hedge, the flight that it was sent for. */
    struct sluice_http_flight *hedge, *hedged;
    bool has_hedged;  /* in this try */
    uint64_t skip;    /* bytes of a body that come before the range, from a server without ranges */
    bool is_complete; /* all requested bytes arrived; the rest is not read */
    /* The range of a 206 by its Content-Range, [body_from, body_to); body_to 0: no such header. */
    uint64_t body_from, body_to;
    bool is_other_range; /* Content-Range differs from the request; the body was not used */
    char reason[CURL_ERROR_SIZE];
};

struct sluice_http {
    pthread_mutex_t lock;
    struct sluice_http_flight *arrived; /* not yet seen by the owner thread */
    struct sluice_http_flight *flights; /* read by the owner thread without the lock */
    bool is_closing;

    CURLM *multi; /* constant from here */
    pthread_t thread;
    bool has_thread;
    char *ca_bundle;

    CURL **idle; /* the owner thread's from here: handles for reuse */
    size_t num_idle, max_idle;
    double retries_saved;
    struct sluice_hedging hedging;
    struct sluice_rng rng;
};

/* Begins a try.  False: no memory; end the try even so. */
bool sluice_http_start_try(struct sluice_http *http, struct sluice_http_flight *flight,
                           uint64_t now_ns);
/* Ends a try and frees its handle for others.  Idempotent. */
void sluice_http_end_try(struct sluice_http *http, struct sluice_http_flight *flight);

/* Whether the transfer has a tag that If-Match can name. */
bool sluice_http_is_strong(const struct sluice_http_transfer *transfer);

#endif
