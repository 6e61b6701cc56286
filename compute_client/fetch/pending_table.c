#include "compute_client/fetch/pending_table.h"

#include <assert.h>
#include <stdlib.h>

#define NONE UINT32_MAX

static uint32_t index_of(const struct sluice_pending_table *table,
                         const struct sluice_pending *pending)
{
    return (uint32_t)(pending - table->rows);
}

static void append(struct sluice_pending_table *table, struct sluice_pending_list *list,
                   uint32_t index)
{
    struct sluice_pending *pending = &table->rows[index];
    pending->prev = list->tail;
    pending->next = NONE;
    if (list->tail == NONE)
        list->head = index;
    else
        table->rows[list->tail].next = index;
    list->tail = index;
}

static void unlink_from(struct sluice_pending_table *table, struct sluice_pending_list *list,
                        const struct sluice_pending *pending)
{
    if (pending->prev == NONE)
        list->head = pending->next;
    else
        table->rows[pending->prev].next = pending->next;
    if (pending->next == NONE)
        list->tail = pending->prev;
    else
        table->rows[pending->next].prev = pending->prev;
}

static void make_free(struct sluice_pending_table *table, uint32_t index)
{
    table->rows[index].state = SLUICE_PENDING_FREE;
    table->rows[index].request_id = 0;
    table->rows[index].next = table->free_head;
    table->free_head = index;
}

sluice_status sluice_pending_init(struct sluice_pending_table *table, size_t max_items,
                                  struct sluice_err *err)
{
    assert(max_items > 0 && max_items < (1u << SLUICE_PENDING_INDEX_BITS));
    struct sluice_pending *rows = calloc(max_items, sizeof(*rows));
    if (!rows)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu requests", max_items);
    *table = (struct sluice_pending_table){
        .rows = rows,
        .max_items = max_items,
        .free_head = NONE,
        .unsent = {NONE, NONE},
        .sent = {NONE, NONE},
    };
    for (size_t i = max_items; i-- > 0;)
        make_free(table, (uint32_t)i);
    return SLUICE_OK;
}

void sluice_pending_clear(struct sluice_pending_table *table)
{
    free(table->rows);
    *table = (struct sluice_pending_table){0};
}

void sluice_pending_accept(struct sluice_pending_table *table,
                           const struct sluice_source_item *item, uint64_t bytes, uint64_t now_ns)
{
    const uint32_t index = table->free_head;
    assert(index != NONE);
    table->free_head = table->rows[index].next;
    table->rows[index] = (struct sluice_pending){
        .state = SLUICE_PENDING_UNSENT,
        .item = *item,
        .bytes = bytes,
        .accepted_ns = now_ns,
    };
    if (bytes > table->most_bytes)
        table->most_bytes = bytes;
    append(table, &table->unsent, index);
}

struct sluice_pending *sluice_pending_send(struct sluice_pending_table *table, uint64_t now_ns)
{
    const uint32_t index = table->unsent.head;
    if (index == NONE)
        return NULL;
    struct sluice_pending *pending = &table->rows[index];
    unlink_from(table, &table->unsent, pending);
    append(table, &table->sent, index);
    pending->state = SLUICE_PENDING_SENT;
    pending->sent_ns = now_ns;
    pending->request_id = ++table->sends << SLUICE_PENDING_INDEX_BITS | index;
    table->num_sent++;
    table->sent_bytes += pending->bytes;
    return pending;
}

struct sluice_pending *sluice_pending_find(struct sluice_pending_table *table, uint64_t request_id)
{
    const size_t index = request_id & ((1u << SLUICE_PENDING_INDEX_BITS) - 1);
    if (index >= table->max_items)
        return NULL;
    struct sluice_pending *pending = &table->rows[index];
    return pending->state == SLUICE_PENDING_SENT && pending->request_id == request_id ? pending
                                                                                      : NULL;
}

struct sluice_pending *sluice_pending_oldest(struct sluice_pending_table *table)
{
    return table->sent.head == NONE ? NULL : &table->rows[table->sent.head];
}

void sluice_pending_pass(struct sluice_pending_table *table, const struct sluice_pending *pending,
                         uint64_t now_ns)
{
    table->num_replies++;
    /* Beside the request and the reply in hand, this many may stand before it. */
    const uint64_t ahead = table->num_sent > 2 ? table->num_sent - 2 : 0;
    for (uint32_t i = pending->prev; i != NONE && !table->rows[i].is_passed;
         i = table->rows[i].prev) {
        table->rows[i].is_passed = true;
        table->rows[i].late_at = table->num_replies + ahead;
    }
    for (uint32_t i = table->sent.head; i != NONE; i = table->rows[i].next) {
        struct sluice_pending *row = &table->rows[i];
        if (!row->is_passed || row->late_at > table->num_replies)
            break;
        if (!row->late_ns)
            row->late_ns = now_ns;
    }
}

void sluice_pending_finish(struct sluice_pending_table *table, struct sluice_pending *pending)
{
    unlink_from(table, &table->sent, pending);
    table->num_sent--;
    table->sent_bytes -= pending->bytes;
    make_free(table, index_of(table, pending));
}

static void take_unsent(struct sluice_pending_table *table, struct sluice_pending *pending)
{
    unlink_from(table, &table->unsent, pending);
    make_free(table, index_of(table, pending));
}

bool sluice_pending_take(struct sluice_pending_table *table, uint64_t *ticket, bool *was_sent)
{
    *was_sent = table->sent.head != NONE;
    const uint32_t index = *was_sent ? table->sent.head : table->unsent.head;
    if (index == NONE)
        return false;
    struct sluice_pending *pending = &table->rows[index];
    *ticket = pending->item.ticket;
    if (*was_sent)
        sluice_pending_finish(table, pending);
    else
        take_unsent(table, pending);
    return true;
}

static struct sluice_pending *find_ticket(struct sluice_pending_table *table,
                                          const struct sluice_pending_list *list, uint64_t ticket)
{
    for (uint32_t i = list->head; i != NONE; i = table->rows[i].next) {
        if (table->rows[i].item.ticket == ticket)
            return &table->rows[i];
    }
    return NULL;
}

bool sluice_pending_cancel(struct sluice_pending_table *table, uint64_t ticket)
{
    struct sluice_pending *pending = find_ticket(table, &table->sent, ticket);
    if (pending) {
        sluice_pending_finish(table, pending);
        return true;
    }
    pending = find_ticket(table, &table->unsent, ticket);
    if (pending)
        take_unsent(table, pending);
    return pending != NULL;
}

bool sluice_pending_has_unsent(const struct sluice_pending_table *table)
{
    return table->unsent.head != NONE;
}
