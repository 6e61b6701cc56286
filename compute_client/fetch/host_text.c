#include "compute_client/fetch/host_text.h"

#include "base/text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DNS_PREFIX "dns:"

void sluice_host_item_format(const struct sluice_host_item *item, char out[SLUICE_HOST_ITEM_BYTES])
{
    char address[SLUICE_HOST_PORT_BYTES];
    sluice_host_port_format(&item->address, "127.0.0.1", address);
    snprintf(out, SLUICE_HOST_ITEM_BYTES, "%s%s", item->is_dns ? DNS_PREFIX : "", address);
}

void sluice_host_items_clear(struct sluice_host_items *items)
{
    free(items->at);
    *items = (struct sluice_host_items){0};
}

void sluice_host_items_format(const struct sluice_host_items *items,
                              char out[SLUICE_HOST_ITEMS_BYTES])
{
    assert(items->num > 0);
    char first[SLUICE_HOST_ITEM_BYTES];
    sluice_host_item_format(&items->at[0], first);
    if (items->num == 1)
        snprintf(out, SLUICE_HOST_ITEMS_BYTES, "%s", first);
    else
        snprintf(out, SLUICE_HOST_ITEMS_BYTES, "%s and %zu more", first, items->num - 1);
}

static sluice_status parse_item(const char *text, uint32_t shard, struct sluice_host_item *item,
                                struct sluice_err *err)
{
    *item =
        (struct sluice_host_item){.shard = shard, .is_dns = sluice_starts_with(text, DNS_PREFIX)};
    const char *address = item->is_dns ? text + strlen(DNS_PREFIX) : text;
    const sluice_status status =
        sluice_host_port_parse(address, SLUICE_DEFAULT_PORT, &item->address, err);
    if (status != SLUICE_OK)
        return status;
    if (item->address.port == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "'%s': no server is at port 0", text);
    if (item->is_dns && !item->address.host[0])
        return sluice_fail(err, SLUICE_E_INVALID, "'%s': no name stands after dns:", text);
    return SLUICE_OK;
}

static bool is_same(const struct sluice_host_item *a, const struct sluice_host_item *b)
{
    return a->is_dns == b->is_dns && a->address.port == b->address.port &&
           strcmp(a->address.host, b->address.host) == 0;
}

static sluice_status add_item(struct sluice_host_items *items, const char *text, uint32_t shard,
                              struct sluice_err *err)
{
    struct sluice_host_item item;
    const sluice_status status = parse_item(text, shard, &item, err);
    if (status != SLUICE_OK)
        return status;
    for (size_t i = 0; i < items->num; i++) {
        if (is_same(&items->at[i], &item))
            return sluice_fail(err, SLUICE_E_INVALID, "'%s' is given twice", text);
    }
    if (items->num == SLUICE_MAX_SERVERS)
        return sluice_fail(err, SLUICE_E_INVALID, "more than %d servers", SLUICE_MAX_SERVERS);
    struct sluice_host_item *grown = realloc(items->at, (items->num + 1) * sizeof(*grown));
    if (!grown)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu servers", items->num + 1);
    items->at = grown;
    items->at[items->num++] = item;
    return SLUICE_OK;
}

static sluice_status add_shard(struct sluice_host_items *items, const char *text, uint32_t shard,
                               struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (const char *rest = text; status == SLUICE_OK && rest;) {
        char item[SLUICE_HOST_ITEM_BYTES];
        const size_t len = strcspn(rest, ",");
        if (len == 0 && (text[0] || shard > 0))
            return sluice_fail(err, SLUICE_E_INVALID,
                               "'%s': a name is missing, before or after a comma", text);
        if (len >= sizeof(item))
            return sluice_fail(err, SLUICE_E_INVALID, "'%.40s...': a name of %zu characters", rest,
                               len);
        memcpy(item, rest, len);
        item[len] = '\0';
        status = add_item(items, item, shard, err);
        rest = rest[len] ? rest + len + 1 : NULL;
    }
    return status;
}

sluice_status sluice_host_items_parse(const char *const *texts, size_t num_texts,
                                      struct sluice_host_items *items, struct sluice_err *err)
{
    struct sluice_host_items found = {0};
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < num_texts; i++)
        status = add_shard(&found, texts[i], (uint32_t)i, err);
    if (status == SLUICE_OK)
        *items = found;
    else
        sluice_host_items_clear(&found);
    return status;
}
