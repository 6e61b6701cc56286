#include "base/cond.h"
#include "base/log.h"
#include "compute_client/fetch/servers_state.h"
#include "compute_client/fetch/tuning.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* --- names --- */

static sluice_status resolve_by_library(void *ctx, const char *name, uint16_t port, size_t most,
                                        char (*found)[SLUICE_HOST_PORT_BYTES], size_t *num_found,
                                        struct sluice_err *err)
{
    (void)ctx;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    const int code = getaddrinfo(name, NULL, &hints, &list);
    if (code != 0)
        return sluice_fail(err, SLUICE_E_IO, "the name %s does not resolve: %s", name,
                           gai_strerror(code));
    int family = AF_INET6;
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        family = a->ai_family == AF_INET ? AF_INET : family;
    *num_found = 0;
    for (const struct addrinfo *a = list; a && *num_found < most; a = a->ai_next) {
        struct sluice_host_port address = {.port = port};
        if (a->ai_family == family &&
            getnameinfo(a->ai_addr, a->ai_addrlen, address.host, sizeof(address.host), NULL, 0,
                        NI_NUMERICHOST) == 0)
            sluice_host_port_format(&address, "", found[(*num_found)++]);
    }
    freeaddrinfo(list);
    return *num_found ? SLUICE_OK
                      : sluice_fail(err, SLUICE_E_IO, "the name %s has no IP address", name);
}

sluice_status servers_resolve(struct sluice_servers *s, const struct sluice_host_item *item,
                              char (*found)[SLUICE_HOST_PORT_BYTES], size_t *num_found,
                              struct sluice_err *err)
{
    *num_found = 0;
    return s->resolve(s->resolve_ctx, item->address.host, item->address.port, SLUICE_MAX_SERVERS,
                      found, num_found, err);
}

bool servers_has(const struct sluice_servers *s, const struct sluice_host_item *item,
                 const char *target)
{
    for (size_t i = 0; i < s->num; i++) {
        if (s->at[i]->item == item && strcmp(s->at[i]->target, target) == 0)
            return true;
    }
    return false;
}

/* --- the set of servers --- */

sluice_status servers_make_client(struct sluice_servers *s, struct server *server,
                                  struct sluice_client **client, struct sluice_err *err)
{
    struct sluice_rpc_client_tls tls = s->tls;
    struct sluice_client_options options = s->client;
    options.target = server->target;
    if (options.tls) {
        if (server->item->is_dns && !tls.server_name)
            tls.server_name = server->item->address.host;
        options.tls = &tls;
    }
    if (!s->is_single) /* the source knows whether anybody is missed */
        options.live = NULL;
    struct sluice_client *made = NULL;
    sluice_status status = sluice_client_create(&options, &made, err);
    if (status == SLUICE_OK && s->max_bytes)
        status = sluice_client_bound_messages(made, s->max_bytes, err);
    if (status == SLUICE_OK)
        *client = made;
    else
        sluice_client_destroy(made);
    return status;
}

static void server_destroy(struct server *server)
{
    if (!server)
        return;
    sluice_client_destroy(server->client);
    free(server);
}

sluice_status servers_add(struct sluice_servers *s, const struct sluice_host_item *item,
                          const char *target, struct server **added, struct sluice_err *err)
{
    if (s->num == SLUICE_MAX_SERVERS)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s is one more server than %d", target,
                           SLUICE_MAX_SERVERS);
    struct server *server = calloc(1, sizeof(*server));
    if (!server)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a server");
    server->item = item;
    snprintf(server->target, sizeof(server->target), "%s", target);
    const sluice_status status = servers_make_client(s, server, &server->client, err);
    if (status != SLUICE_OK) {
        server_destroy(server);
        return status;
    }
    pthread_mutex_lock(&s->lock);
    s->at[s->num++] = server;
    if (s->is_stopped)
        sluice_client_stop(server->client);
    pthread_mutex_unlock(&s->lock);
    if (added)
        *added = server;
    return SLUICE_OK;
}

void servers_remove(struct sluice_servers *s, struct server *server)
{
    pthread_mutex_lock(&s->lock);
    size_t i = 0;
    while (s->at[i] != server)
        i++;
    memmove(&s->at[i], &s->at[i + 1], (s->num - i - 1) * sizeof(struct server *));
    s->num--;
    pthread_mutex_unlock(&s->lock);
    server_destroy(server);
}

/* --- create, destroy, stop --- */

/* Returns a copy that the servers own; NULL: `text` is NULL, or there is no memory. */
static const char *keep(struct sluice_servers *s, const char *text, bool *has_memory)
{
    if (!text)
        return NULL;
    size_t i = 0;
    while (s->texts[i])
        i++;
    assert(i < SLUICE_ARRAY_LEN(s->texts));
    s->texts[i] = strdup(text);
    *has_memory = *has_memory && s->texts[i];
    return s->texts[i];
}

static bool copy_texts(struct sluice_servers *s, const struct sluice_servers_options *options)
{
    bool has_memory = true;
    s->client.token_file = keep(s, options->client.token_file, &has_memory);
    s->client.advice = keep(s, options->client.advice, &has_memory);
    if (options->client.tls) {
        const struct sluice_rpc_client_tls *tls = options->client.tls;
        s->tls = (struct sluice_rpc_client_tls){
            .ca = keep(s, tls->ca, &has_memory),
            .cert = keep(s, tls->cert, &has_memory),
            .key = keep(s, tls->key, &has_memory),
            .server_name = keep(s, tls->server_name, &has_memory),
        };
    }
    s->num_shards = options->num_shards;
    s->shards = calloc(s->num_shards, sizeof(*s->shards));
    for (size_t i = 0; has_memory && s->shards && i < s->num_shards; i++) {
        s->shards[i].text = strdup(options->shards[i]);
        has_memory = s->shards[i].text != NULL;
    }
    return has_memory && s->shards;
}

static sluice_status make_servers(struct sluice_servers *s,
                                  const struct sluice_servers_options *options,
                                  struct sluice_err *err)
{
    sluice_status status =
        sluice_host_items_parse(options->shards, options->num_shards, &s->items, err);
    if (status == SLUICE_OK && !copy_texts(s, options))
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu servers", s->items.num);
    if (status != SLUICE_OK)
        return status;
    sluice_host_items_format(&s->items, s->target);
    for (size_t i = 0; i < s->items.num; i++)
        s->has_dns |= s->items.at[i].is_dns;
    s->is_single = s->items.num == 1 && !s->has_dns;
    for (size_t i = 0; status == SLUICE_OK && i < s->items.num; i++) {
        char target[SLUICE_HOST_PORT_BYTES];
        sluice_host_port_format(&s->items.at[i].address, "127.0.0.1", target);
        if (!s->items.at[i].is_dns)
            status = servers_add(s, &s->items.at[i], target, NULL, err);
    }
    return status;
}

sluice_status sluice_servers_create(const struct sluice_servers_options *options,
                                    struct sluice_servers **servers, struct sluice_err *err)
{
    struct sluice_servers *s = calloc(1, sizeof(*s));
    if (!s)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for servers");
    pthread_mutex_init(&s->changing, NULL);
    pthread_mutex_init(&s->lock, NULL);
    sluice_cond_init(&s->changed);
    s->hedges = options->hedges;
    s->needs_file_image = options->needs_file_image;
    s->client = options->client;
    s->client.tls = options->client.tls ? &s->tls : NULL;
    s->resolve = options->resolve ? options->resolve : resolve_by_library;
    s->resolve_ctx = options->resolve_ctx;
    s->lookup_s = options->lookup_s > 0 ? options->lookup_s : TUNING_LOOKUP_S;
    const sluice_status status = make_servers(s, options, err);
    if (status == SLUICE_OK)
        *servers = s;
    else
        sluice_servers_destroy(s);
    return status;
}

void sluice_servers_destroy(struct sluice_servers *servers)
{
    if (!servers)
        return;
    struct sluice_servers *s = servers;
    assert(!s->has_lookup);
    for (size_t i = 0; i < s->num; i++)
        server_destroy(s->at[i]);
    for (size_t i = 0; s->shards && i < s->num_shards; i++) {
        free(s->shards[i].text);
        sluice_manifest_destroy(s->shards[i].manifest);
    }
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(s->texts); i++)
        free(s->texts[i]);
    free(s->shards);
    free(s->places);
    sluice_host_items_clear(&s->items);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->changing);
    free(s);
}

void sluice_servers_stop(struct sluice_servers *servers)
{
    struct sluice_servers *s = servers;
    pthread_mutex_lock(&s->lock);
    s->is_stopped = true;
    for (size_t i = 0; i < s->num; i++)
        sluice_client_stop(s->at[i]->client);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

bool servers_is_stopped(struct sluice_servers *s)
{
    pthread_mutex_lock(&s->lock);
    const bool is = s->is_stopped;
    pthread_mutex_unlock(&s->lock);
    return is;
}

bool servers_wait_until(struct sluice_servers *s, uint64_t until_ns)
{
    bool has_time = true;
    pthread_mutex_lock(&s->lock);
    while (has_time && !s->is_stopped)
        has_time = sluice_cond_wait_until(&s->changed, &s->lock, until_ns);
    const bool goes_on = !s->is_stopped;
    pthread_mutex_unlock(&s->lock);
    return goes_on;
}

const char *sluice_servers_target(const struct sluice_servers *servers)
{
    return servers->target;
}

/* --- calls to several at once --- */

static void *call_main(void *ctx)
{
    struct call *call = ctx;
    call->run(call);
    pthread_mutex_lock(&call->servers->lock);
    call->is_done = true;
    pthread_cond_broadcast(&call->servers->changed);
    pthread_mutex_unlock(&call->servers->lock);
    return NULL;
}

void servers_start_calls(struct call *calls, size_t num)
{
    for (size_t i = 0; i < num; i++) {
        const int failed =
            num > 1 ? pthread_create(&calls[i].thread, NULL, call_main, &calls[i]) : EAGAIN;
        calls[i].has_thread = failed == 0;
        if (failed) /* with few threads left it takes longer */
            (void)call_main(&calls[i]);
    }
}

void servers_join_calls(struct call *calls, size_t num)
{
    for (size_t i = 0; i < num; i++) {
        if (calls[i].has_thread)
            pthread_join(calls[i].thread, NULL);
        calls[i].has_thread = false;
    }
}

struct call *servers_make_calls(struct sluice_servers *s, bool answered_only,
                                void (*run)(struct call *), size_t *num)
{
    struct call *calls = calloc(s->num + 1, sizeof(*calls));
    *num = 0;
    for (size_t i = 0; calls && i < s->num; i++) {
        if (s->at[i]->has_answered || !answered_only)
            calls[(*num)++] = (struct call){.run = run, .servers = s, .server = s->at[i]};
    }
    return calls;
}

/* --- while they are open --- */

sluice_status sluice_servers_bound_messages(struct sluice_servers *servers, size_t max_bytes,
                                            struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    pthread_mutex_lock(&servers->changing);
    servers->max_bytes = max_bytes;
    for (size_t i = 0; status == SLUICE_OK && i < servers->num; i++)
        status = sluice_client_bound_messages(servers->at[i]->client, max_bytes, err);
    pthread_mutex_unlock(&servers->changing);
    return status;
}

/* Under `changing`: all calls to those that answered, done; NULL: no memory. */
static struct call *ask_all(struct sluice_servers *s, void (*run)(struct call *),
                            uint64_t max_bytes, size_t *num, struct sluice_err *err)
{
    struct call *calls = servers_make_calls(s, true, run, num);
    if (!calls) {
        (void)sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu calls", s->num);
        return NULL;
    }
    for (size_t i = 0; i < *num; i++)
        calls[i].max_bytes = max_bytes;
    servers_start_calls(calls, *num);
    servers_join_calls(calls, *num);
    return calls;
}

static void call_probe(struct call *call)
{
    call->status =
        sluice_client_probe(call->server->client, call->max_bytes, &call->probed, &call->err);
}

sluice_status sluice_servers_probe(struct sluice_servers *servers, uint64_t max_bytes,
                                   struct sluice_client_probed *probed, struct sluice_err *err)
{
    size_t num = 0, num_probed = 0;
    struct sluice_client_probed sum = {0};
    sluice_status status = SLUICE_OK;
    pthread_mutex_lock(&servers->changing);
    struct call *calls = ask_all(servers, call_probe, max_bytes, &num, err);
    for (size_t i = 0; calls && i < num; i++) {
        if (calls[i].status == SLUICE_OK) {
            sum.link_bytes_per_s += calls[i].probed.link_bytes_per_s;
            sum.receive_s_per_byte += calls[i].probed.receive_s_per_byte;
            num_probed++;
        } else if (status == SLUICE_OK || calls[i].status == SLUICE_E_CLOSED) {
            status = calls[i].status;
        }
    }
    for (size_t i = 0; calls && i < num; i++) {
        if (calls[i].status == SLUICE_OK)
            continue;
        if (num_probed > 0 && status != SLUICE_E_CLOSED)
            sluice_log(SLUICE_LOG_WARN, "%s; the others' links count", calls[i].err.text);
        else
            (void)sluice_fail(err, status, "%s", calls[i].err.text);
    }
    pthread_mutex_unlock(&servers->changing);
    const bool has_memory = calls != NULL;
    free(calls);
    if (!has_memory)
        return SLUICE_E_NO_MEMORY;
    if (num_probed == 0 || status == SLUICE_E_CLOSED)
        return status;
    sum.receive_s_per_byte /= (double)num_probed;
    *probed = sum;
    return SLUICE_OK;
}

static void call_cpu(struct call *call)
{
    call->status = sluice_client_server_cpu(call->server->client, &call->cpu_s, &call->err);
}

sluice_status sluice_servers_cpu(struct sluice_servers *servers, double *cpu_s,
                                 struct sluice_err *err)
{
    size_t num = 0;
    double sum = 0;
    bool says_each = true;
    pthread_mutex_lock(&servers->changing);
    struct call *calls = ask_all(servers, call_cpu, 0, &num, err);
    sluice_status status = calls ? SLUICE_OK : SLUICE_E_NO_MEMORY;
    for (size_t i = 0; status == SLUICE_OK && i < num; i++) {
        if (calls[i].status != SLUICE_OK)
            status = sluice_fail(err, calls[i].status, "%s", calls[i].err.text);
        says_each = says_each && calls[i].cpu_s > 0;
        sum += calls[i].cpu_s;
    }
    pthread_mutex_unlock(&servers->changing);
    free(calls);
    if (status == SLUICE_OK)
        *cpu_s = says_each ? sum : 0;
    return status;
}
