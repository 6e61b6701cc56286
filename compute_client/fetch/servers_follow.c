#include "base/clock.h"
#include "base/log.h"
#include "compute_client/fetch/servers_state.h"

#include <stdlib.h>
#include <string.h>

/* Sources, and names that change under them. */

static struct sluice_replica replica_of(const struct sluice_servers *s, const struct server *server)
{
    return (struct sluice_replica){
        .client = server->client,
        .shard = server->item->shard,
        .dataset_id = s->shards[server->item->shard].dataset_id,
    };
}

/* Under `changing`. */
static void take_up(struct sluice_servers *s, const struct sluice_host_item *item,
                    const char *target)
{
    struct server *server = NULL;
    struct sluice_err err = {0};
    sluice_status status = servers_add(s, item, target, &server, &err);
    size_t added = 0;
    while (status == SLUICE_OK && added < s->num_sources) {
        const struct sluice_replica replica = replica_of(s, server);
        status = sluice_replicas_add(s->sources[added], &replica, &err);
        added += status == SLUICE_OK;
    }
    if (status == SLUICE_OK) {
        sluice_log(SLUICE_LOG_INFO, "%s has %s now, too: it is used", item->address.host, target);
        return;
    }
    while (server && added-- > 0)
        sluice_replicas_remove(s->sources[added], server->client);
    if (server)
        servers_remove(s, server);
    sluice_log(SLUICE_LOG_WARN, "%s cannot be used: %s", target, err.text);
}

/* Under `changing`. */
static void give_up(struct sluice_servers *s, struct server *server)
{
    for (size_t i = 0; i < s->num_sources; i++)
        sluice_replicas_remove(s->sources[i], server->client);
    sluice_log(SLUICE_LOG_INFO, "%s has %s no more: it is not used", server->item->address.host,
               server->target);
    servers_remove(s, server);
}

/* Under `changing`. */
static void follow(struct sluice_servers *s, const struct sluice_host_item *item,
                   char (*found)[SLUICE_HOST_PORT_BYTES], size_t num_found)
{
    for (size_t k = 0; k < num_found; k++) {
        if (!servers_has(s, item, found[k]) && s->num < SLUICE_MAX_SERVERS)
            take_up(s, item, found[k]);
    }
    for (size_t i = s->num; i-- > 0;) {
        size_t k = 0;
        while (k < num_found && strcmp(found[k], s->at[i]->target) != 0)
            k++;
        if (s->at[i]->item == item && k == num_found)
            give_up(s, s->at[i]);
    }
}

/* Logs once that a name cannot be looked up, and once that it can again. */
static void tell_lookup(struct sluice_servers *s, size_t item, sluice_status status,
                        const char *text)
{
    bool *is_lost = &s->is_lookup_lost[item];
    const bool was_lost = *is_lost;
    *is_lost = status != SLUICE_OK;
    if (*is_lost && !was_lost)
        sluice_log(SLUICE_LOG_WARN, "%s; its replicas stay those that were found before", text);
    else if (was_lost && !*is_lost)
        sluice_log(SLUICE_LOG_INFO, "%s resolves again", s->items.at[item].address.host);
}

static void *lookup_main(void *ctx)
{
    struct sluice_servers *s = ctx;
    char(*found)[SLUICE_HOST_PORT_BYTES] = calloc(SLUICE_MAX_SERVERS, sizeof(*found));
    if (!found)
        sluice_log(SLUICE_LOG_WARN, "no memory to look names up: their replicas stay as they are");
    while (found && servers_wait_until(s, sluice_clock_ns() + (uint64_t)(s->lookup_s * 1e9))) {
        for (size_t i = 0; i < s->items.num; i++) {
            if (!s->items.at[i].is_dns)
                continue;
            size_t num_found = 0;
            struct sluice_err err = {0};
            const sluice_status status =
                servers_resolve(s, &s->items.at[i], found, &num_found, &err);
            tell_lookup(s, i, status, err.text);
            pthread_mutex_lock(&s->changing);
            if (status == SLUICE_OK && !servers_is_stopped(s))
                follow(s, &s->items.at[i], found, num_found);
            pthread_mutex_unlock(&s->changing);
        }
    }
    free(found);
    return NULL;
}

void sluice_servers_end_lookups(struct sluice_servers *servers)
{
    if (servers->has_lookup)
        pthread_join(servers->lookup, NULL);
    servers->has_lookup = false;
}

/* Under `changing`. */
static sluice_status make_source(struct sluice_servers *s,
                                 const struct sluice_fetcher_options *options,
                                 const struct sluice_source_events *events,
                                 struct sluice_source **source, struct sluice_err *err)
{
    if (s->num_sources == SLUICE_SERVERS_MAX_SOURCES)
        return sluice_fail(err, SLUICE_E_INTERNAL, "more than %d sources",
                           SLUICE_SERVERS_MAX_SOURCES);
    struct sluice_replica replicas[SLUICE_MAX_SERVERS];
    for (size_t i = 0; i < s->num; i++)
        replicas[i] = replica_of(s, s->at[i]);
    struct sluice_replicas_options of_all = {
        .replicas = replicas,
        .num_replicas = s->num,
        .num_shards = (uint32_t)s->num_shards,
        .places = s->places,
        .fetcher = *options,
        .hedges = s->hedges,
        .shows_outages = !s->is_single,
        .events = *events,
    };
    of_all.fetcher.needs_listed_id = s->num_shards > 1;
    const sluice_status status = sluice_replicas_create(&of_all, source, err);
    if (status == SLUICE_OK)
        s->sources[s->num_sources++] = *source;
    return status;
}

sluice_status sluice_servers_source(struct sluice_servers *servers,
                                    const struct sluice_fetcher_options *options,
                                    const struct sluice_source_events *events,
                                    struct sluice_source **source, struct sluice_err *err)
{
    if (servers->has_dns && !servers->has_lookup) {
        const int failed = pthread_create(&servers->lookup, NULL, lookup_main, servers);
        if (failed)
            return sluice_fail(err, SLUICE_E_IO, "cannot start the thread that looks names up: %s",
                               strerror(failed));
        servers->has_lookup = true;
    }
    pthread_mutex_lock(&servers->changing);
    const sluice_status status = make_source(servers, options, events, source, err);
    pthread_mutex_unlock(&servers->changing);
    return status;
}
