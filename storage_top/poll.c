#include "storage_top/poll.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/text.h"
#include "compute_client/fetch/client.h"
#include "storage_top/tuning.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct asker {
    struct top_poll *poll;
    const char *target;
    struct sluice_client *client;
    pthread_t thread;
    bool has_thread;

    /* Under the poll's lock. */
    struct sluice_wire_stats before, now; /* the last two answers, owned */
    unsigned attempts, answers;
    uint64_t answered_ns;
    bool is_away;
    struct sluice_err why;
};

struct top_poll {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_stopped;

    uint64_t interval_ns; /* constant from here */
    size_t num_askers;
    struct asker askers[TOP_MAX_SERVERS];
};

const char *top_state_name(enum top_state state)
{
    static const char *const names[] = {[TOP_ASKING] = "asking",
                                        [TOP_OK] = "ok",
                                        [TOP_NOT_SERVING] = "not serving",
                                        [TOP_AWAY] = "away"};
    return names[state];
}

void top_servers_clear(struct top_server *servers, size_t num_servers)
{
    for (size_t i = 0; i < num_servers; i++) {
        free(servers[i].clients);
        servers[i] = (struct top_server){0};
    }
}

static double rate(uint64_t before, uint64_t now, double seconds)
{
    return now >= before ? (double)(now - before) / seconds : NAN;
}

static const struct top_rates unknown = {NAN, NAN, NAN};

struct top_rates top_rates_between(const struct sluice_wire_stats *before,
                                   const struct sluice_wire_stats *now)
{
    const double seconds = now->uptime_s - before->uptime_s;
    if (!(before->uptime_s > 0) || !(seconds > 0))
        return unknown;
    const double busy_s = now->busy_cores * now->uptime_s - before->busy_cores * before->uptime_s;
    return (struct top_rates){
        .cores = busy_s > 0 ? busy_s / seconds : 0,
        .bytes_per_s = rate(before->wire_bytes, now->wire_bytes, seconds),
        .samples_per_s = rate(before->samples, now->samples, seconds),
    };
}

static const struct sluice_wire_client *find(const struct sluice_wire_stats *stats,
                                             const struct sluice_wire_client *wanted)
{
    for (size_t i = 0; i < stats->num_clients; i++) {
        const struct sluice_wire_client *client = &stats->clients[i];
        if (strcmp(client->name, wanted->name) == 0 &&
            strcmp(client->address, wanted->address) == 0)
            return client;
    }
    return NULL;
}

static struct top_rates client_rates(const struct sluice_wire_stats *before,
                                     const struct sluice_wire_stats *now,
                                     const struct sluice_wire_client *client)
{
    static const struct sluice_wire_client none;
    const double seconds = now->uptime_s - before->uptime_s;
    if (!(before->uptime_s > 0) || !(seconds > 0))
        return unknown;
    const struct sluice_wire_client *was = find(before, client);
    if (!was)
        was = &none; /* it came in between */
    return (struct top_rates){
        .cores = NAN,
        .bytes_per_s = rate(was->payload_bytes, client->payload_bytes, seconds),
        .samples_per_s = rate(was->samples, client->samples, seconds),
    };
}

/* --- a server's thread --- */

static void note_answer(struct asker *asker, sluice_status status, struct sluice_wire_stats *stats,
                        const struct sluice_err *err)
{
    struct top_poll *poll = asker->poll;
    pthread_mutex_lock(&poll->lock);
    asker->attempts++;
    asker->is_away = status != SLUICE_OK;
    if (status == SLUICE_OK) {
        sluice_wire_stats_clear(&asker->before);
        asker->before = asker->now;
        asker->now = *stats;
        asker->answered_ns = sluice_clock_ns();
        asker->answers++;
    } else {
        asker->why = *err;
    }
    pthread_cond_broadcast(&poll->changed);
    pthread_mutex_unlock(&poll->lock);
}

/* False: it ends. */
static bool wait_until(struct top_poll *poll, uint64_t until_ns)
{
    bool has_time = true;
    pthread_mutex_lock(&poll->lock);
    while (has_time && !poll->is_stopped)
        has_time = sluice_cond_wait_until(&poll->changed, &poll->lock, until_ns);
    const bool is_stopped = poll->is_stopped;
    pthread_mutex_unlock(&poll->lock);
    return !is_stopped;
}

static void *ask(void *ctx)
{
    struct asker *asker = ctx;
    uint64_t next_ns = sluice_clock_ns();
    do {
        struct sluice_wire_stats stats = {0};
        struct sluice_err err = {0};
        const sluice_status status =
            sluice_client_stats(asker->client, TUNING_ANSWER_MS, &stats, &err);
        note_answer(asker, status, &stats, &err);
        const uint64_t now_ns = sluice_clock_ns();
        next_ns += asker->poll->interval_ns;
        if (next_ns < now_ns)
            next_ns = now_ns;
    } while (wait_until(asker->poll, next_ns));
    return NULL;
}

/* --- all of them --- */

static sluice_status start(struct asker *asker, const struct top_options *options,
                           struct sluice_err *err)
{
    const struct sluice_connection_options *connection = &options->connection;
    const struct sluice_rpc_client_tls tls = {.ca = connection->ca,
                                              .cert = connection->cert,
                                              .key = connection->key,
                                              .server_name = connection->server_name};
    const struct sluice_client_options client = {
        .target = asker->target,
        .tls = connection->has_tls ? &tls : NULL,
        .token_file = connection->token_file,
    };
    const sluice_status status = sluice_client_create(&client, &asker->client, err);
    if (status != SLUICE_OK)
        return status;
    if (pthread_create(&asker->thread, NULL, ask, asker) != 0)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no thread for %s", asker->target);
    asker->has_thread = true;
    return SLUICE_OK;
}

sluice_status top_poll_create(const struct top_options *options, struct top_poll **poll,
                              struct sluice_err *err)
{
    struct top_poll *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu servers",
                           options->num_targets);
    pthread_mutex_init(&made->lock, NULL);
    sluice_cond_init(&made->changed);
    made->interval_ns = (uint64_t)(options->interval_s * 1e9);
    made->num_askers = options->num_targets;
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < made->num_askers; i++) {
        made->askers[i].poll = made;
        made->askers[i].target = options->targets[i];
        status = start(&made->askers[i], options, err);
    }
    if (status == SLUICE_OK)
        *poll = made;
    else
        top_poll_destroy(made);
    return status;
}

void top_poll_destroy(struct top_poll *poll)
{
    if (!poll)
        return;
    pthread_mutex_lock(&poll->lock);
    poll->is_stopped = true;
    pthread_cond_broadcast(&poll->changed);
    pthread_mutex_unlock(&poll->lock);
    for (size_t i = 0; i < poll->num_askers; i++) {
        struct asker *asker = &poll->askers[i];
        if (asker->client)
            sluice_client_stop(asker->client);
        if (asker->has_thread)
            pthread_join(asker->thread, NULL);
        sluice_client_destroy(asker->client);
        sluice_wire_stats_clear(&asker->before);
        sluice_wire_stats_clear(&asker->now);
    }
    pthread_cond_destroy(&poll->changed);
    pthread_mutex_destroy(&poll->lock);
    free(poll);
}

void top_poll_wait(struct top_poll *poll, unsigned attempts, uint64_t until_ns)
{
    bool has_time = true;
    pthread_mutex_lock(&poll->lock);
    for (size_t i = 0; has_time && i < poll->num_askers;) {
        if (poll->askers[i].attempts >= attempts)
            i++;
        else
            has_time = sluice_cond_wait_until(&poll->changed, &poll->lock, until_ns);
    }
    pthread_mutex_unlock(&poll->lock);
}

/* Under the lock. */
static sluice_status read_one(const struct asker *asker, uint64_t now_ns, struct top_server *server,
                              struct sluice_err *err)
{
    const struct sluice_wire_stats *now = &asker->now, *before = &asker->before;
    *server = (struct top_server){
        .target = asker->target,
        .state = asker->is_away        ? TOP_AWAY
                 : !asker->answers     ? TOP_ASKING
                 : now->is_not_serving ? TOP_NOT_SERVING
                                       : TOP_OK,
        .age_s = asker->answers ? (double)(now_ns - asker->answered_ns) * 1e-9 : -1,
        .stats = *now,
        .rates = asker->is_away ? unknown : top_rates_between(before, now),
        .attempts = asker->attempts,
        .answers = asker->answers,
    };
    server->stats.clients = NULL;
    server->stats.num_clients = 0;
    if (asker->is_away)
        (void)sluice_escape_line(server->why, sizeof(server->why), asker->why.text);
    server->clients = calloc(now->num_clients + 1, sizeof(*server->clients));
    if (!server->clients)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the clients of %s",
                           asker->target);
    server->num_clients = now->num_clients;
    for (size_t i = 0; i < now->num_clients; i++) {
        server->clients[i].counts = now->clients[i];
        server->clients[i].rates =
            asker->is_away ? unknown : client_rates(before, now, &now->clients[i]);
    }
    return SLUICE_OK;
}

sluice_status top_poll_read(struct top_poll *poll, struct top_server *servers,
                            struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    const uint64_t now_ns = sluice_clock_ns();
    size_t count = 0;
    pthread_mutex_lock(&poll->lock);
    while (status == SLUICE_OK && count < poll->num_askers) {
        status = read_one(&poll->askers[count], now_ns, &servers[count], err);
        count++;
    }
    pthread_mutex_unlock(&poll->lock);
    if (status != SLUICE_OK)
        top_servers_clear(servers, count);
    return status;
}
