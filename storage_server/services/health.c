#include "storage_server/services/health.h"

#include "rpc/rpc_call.h"
#include "wire/wire.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct watcher {
    struct sluice_rpc_call *call; /* a reference */
    bool is_known;                /* asks for a service there is */
    struct watcher *next;
    struct watcher *told_next; /* sluice_health_set()'s own */
    unsigned refs;             /* under the lock: the list's and sluice_health_set()'s */
};

struct sluice_health {
    pthread_mutex_t lock;
    bool is_stopping;
    unsigned causes; /* a bit for each that there is */
    struct watcher *watchers;

    bool has_data_transfer; /* constant */
};

sluice_status sluice_health_create(bool has_data_transfer, struct sluice_health **health,
                                   struct sluice_err *err)
{
    struct sluice_health *h = calloc(1, sizeof(*h));
    if (!h)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the health service");
    pthread_mutex_init(&h->lock, NULL);
    h->has_data_transfer = has_data_transfer;
    *health = h;
    return SLUICE_OK;
}

void sluice_health_destroy(struct sluice_health *health)
{
    if (!health)
        return;
    pthread_mutex_destroy(&health->lock);
    free(health);
}

static void send_status(struct sluice_rpc_call *call, enum sluice_serving_status status)
{
    struct sluice_message message = {0};
    if (sluice_wire_put_health_reply((int)status, &message, NULL) != SLUICE_OK) {
        sluice_message_clear(&message);
        sluice_rpc_call_finish(call, SLUICE_RPC_RESOURCE_EXHAUSTED, "no memory");
        return;
    }
    sluice_rpc_call_send(call, &message);
}

static void end_watch(struct watcher *watcher)
{
    sluice_rpc_call_finish(watcher->call, SLUICE_RPC_UNAVAILABLE, "the server is stopping");
}

static void free_watcher(struct watcher *watcher)
{
    sluice_rpc_call_unref(watcher->call);
    free(watcher);
}

/* Frees a watcher that is in no list any more. */
static void drop_watcher(struct sluice_health *health, struct watcher *watcher)
{
    pthread_mutex_lock(&health->lock);
    const bool is_last = --watcher->refs == 0;
    pthread_mutex_unlock(&health->lock);
    if (is_last)
        free_watcher(watcher);
}

/* Under the lock. */
static enum sluice_serving_status current_status(const struct sluice_health *health)
{
    return health->is_stopping || health->causes ? SLUICE_NOT_SERVING : SLUICE_SERVING;
}

bool sluice_health_read(struct sluice_health *health, char *reason, size_t room)
{
    pthread_mutex_lock(&health->lock);
    const unsigned causes = health->causes;
    const bool is_stopping = health->is_stopping;
    pthread_mutex_unlock(&health->lock);
    if (!is_stopping && !causes)
        return true;
    const char *const texts[] = {
        is_stopping ? "the server is stopping" : NULL,
        causes & 1u << SLUICE_HEALTH_ROOT ? "the root is gone" : NULL,
        causes & 1u << SLUICE_HEALTH_WORKERS ? "a worker hangs" : NULL,
    };
    size_t len = 0;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts) && len < room; i++) {
        if (texts[i])
            len += (size_t)snprintf(reason + len, room - len, "%s%s", len ? "; " : "", texts[i]);
    }
    return false;
}

bool sluice_health_has(struct sluice_health *health, enum sluice_health_cause cause)
{
    pthread_mutex_lock(&health->lock);
    const bool has = health->causes & 1u << cause;
    pthread_mutex_unlock(&health->lock);
    return has;
}

void sluice_health_set(struct sluice_health *health, enum sluice_health_cause cause, bool is_well)
{
    struct watcher *told = NULL;
    pthread_mutex_lock(&health->lock);
    const enum sluice_serving_status before = current_status(health);
    health->causes &= ~(1u << cause);
    health->causes |= is_well ? 0 : 1u << cause;
    const enum sluice_serving_status status = current_status(health);
    for (struct watcher *watcher = health->watchers; status != before && watcher;
         watcher = watcher->next) {
        watcher->refs++;
        watcher->told_next = told;
        told = watcher;
    }
    pthread_mutex_unlock(&health->lock);
    while (told) {
        struct watcher *watcher = told;
        told = watcher->told_next;
        if (watcher->is_known)
            send_status(watcher->call, status);
        drop_watcher(health, watcher);
    }
}

void sluice_health_stop(struct sluice_health *health)
{
    pthread_mutex_lock(&health->lock);
    health->is_stopping = true;
    struct watcher *watchers = health->watchers;
    health->watchers = NULL;
    pthread_mutex_unlock(&health->lock);
    while (watchers) {
        struct watcher *watcher = watchers;
        watchers = watcher->next;
        if (watcher->is_known)
            send_status(watcher->call, SLUICE_NOT_SERVING);
        end_watch(watcher);
        drop_watcher(health, watcher);
    }
}

static bool is_known(const struct sluice_health *health, const char *service)
{
    return !service[0] || strcmp(service, "sluice.v1.Offload") == 0 ||
           (health->has_data_transfer && strcmp(service, "DataTransfer") == 0);
}

/* False: the call is finished already. */
static bool get_service(const struct sluice_health *health, struct sluice_rpc_call *call,
                        const struct sluice_message *message, bool *known)
{
    char *service;
    struct sluice_err err = {0};
    const sluice_status status = sluice_wire_get_health_request(message, &service, &err);
    if (status != SLUICE_OK) {
        sluice_rpc_call_finish(call, sluice_rpc_code_of_request(status), err.text);
        return false;
    }
    *known = is_known(health, service);
    free(service);
    return true;
}

static void on_check(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    struct sluice_health *health = ctx;
    bool known;
    if (!get_service(health, call, message, &known))
        return;
    if (!known) {
        sluice_rpc_call_finish(call, SLUICE_RPC_NOT_FOUND, "no such service");
        return;
    }
    pthread_mutex_lock(&health->lock);
    const enum sluice_serving_status status = current_status(health);
    pthread_mutex_unlock(&health->lock);
    send_status(call, status);
    sluice_rpc_call_finish(call, SLUICE_RPC_OK, NULL);
}

static void on_watch(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    struct sluice_health *health = ctx;
    bool known;
    if (sluice_rpc_call_state(call) || !get_service(health, call, message, &known))
        return;

    struct watcher *watcher = malloc(sizeof(*watcher));
    if (!watcher) {
        sluice_rpc_call_finish(call, SLUICE_RPC_RESOURCE_EXHAUSTED, "no memory");
        return;
    }
    *watcher = (struct watcher){.call = sluice_rpc_call_ref(call), .is_known = known, .refs = 1};
    /* Only a mark that this call asked; the list owns the watcher. */
    sluice_rpc_call_set_state(call, watcher);

    /* Said before it is listed, so that a change cannot overtake the first state; and said again
     * if it has changed meanwhile. */
    enum sluice_serving_status said = 0;
    bool is_stopping = false, is_listed = false;
    while (!is_stopping && !is_listed) {
        pthread_mutex_lock(&health->lock);
        const enum sluice_serving_status status =
            known ? current_status(health) : SLUICE_SERVICE_UNKNOWN;
        is_stopping = health->is_stopping;
        is_listed = status == said && !is_stopping;
        if (is_listed) {
            watcher->next = health->watchers;
            health->watchers = watcher;
        }
        pthread_mutex_unlock(&health->lock);
        if (status != said)
            send_status(call, status);
        said = status;
    }
    if (is_stopping) {
        end_watch(watcher);
        free_watcher(watcher);
    }
}

static void on_watch_done(void *ctx, struct sluice_rpc_call *call)
{
    struct sluice_health *health = ctx;
    struct watcher *gone = NULL;
    pthread_mutex_lock(&health->lock);
    for (struct watcher **at = &health->watchers; *at; at = &(*at)->next) {
        if ((*at)->call == call) {
            gone = *at;
            *at = gone->next;
            break;
        }
    }
    pthread_mutex_unlock(&health->lock);
    if (gone)
        drop_watcher(health, gone);
}

struct sluice_rpc_method *sluice_health_methods(struct sluice_health *health,
                                                struct sluice_rpc_method *end)
{
    *end++ = (struct sluice_rpc_method){
        .path = SLUICE_METHOD_HEALTH_CHECK,
        .is_unary = true,
        .ctx = health,
        .on_message = on_check,
    };
    *end++ = (struct sluice_rpc_method){
        .path = SLUICE_METHOD_HEALTH_WATCH,
        .is_unary = true,
        .ctx = health,
        .on_message = on_watch,
        .on_done = on_watch_done,
    };
    return end;
}
