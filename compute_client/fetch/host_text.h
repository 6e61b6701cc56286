#ifndef SLUICE_COMPUTE_CLIENT_FETCH_HOST_TEXT_H
#define SLUICE_COMPUTE_CLIENT_FETCH_HOST_TEXT_H

#include "base/error.h"
#include "base/host_port.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The servers of a dataset, as people write them (servers.h): a text for each shard, in it its
 * replicas between commas, each HOST[:PORT] or dns:NAME[:PORT].
 *
 * Threads: any. */

#define SLUICE_DEFAULT_PORT 50051

/* A sanity limit. */
#define SLUICE_MAX_SERVERS 256

struct sluice_host_item {
    uint32_t shard; /* index of its text */
    bool is_dns;    /* every address of the name is a replica */
    struct sluice_host_port address;
};

/* Its name in the log and in errors: "a:50051", "dns:a:50051". */
#define SLUICE_HOST_ITEM_BYTES (SLUICE_HOST_PORT_BYTES + 4)
void sluice_host_item_format(const struct sluice_host_item *item, char out[SLUICE_HOST_ITEM_BYTES]);

struct sluice_host_items {
    struct sluice_host_item *at; /* in the order of the texts; owned */
    size_t num;
};
void sluice_host_items_clear(struct sluice_host_items *items); /* twice is fine */

/* num_texts >= 1.  *items is {0} before.  SLUICE_E_INVALID names the part that is malformed or
 * repeated. */
SLUICE_MUST_USE sluice_status sluice_host_items_parse(const char *const *texts, size_t num_texts,
                                                      struct sluice_host_items *items,
                                                      struct sluice_err *err);

/* "a:50051", or "a:50051 and 2 more". */
#define SLUICE_HOST_ITEMS_BYTES (SLUICE_HOST_ITEM_BYTES + 32)
void sluice_host_items_format(const struct sluice_host_items *items,
                              char out[SLUICE_HOST_ITEMS_BYTES]);

#endif
