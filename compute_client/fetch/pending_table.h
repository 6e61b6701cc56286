#ifndef SLUICE_COMPUTE_CLIENT_FETCH_PENDING_TABLE_H
#define SLUICE_COMPUTE_CLIENT_FETCH_PENDING_TABLE_H

#include "base/error.h"
#include "compute_client/loader/source/source.h"

#include <stddef.h>
#include <stdint.h>

/* The requests of a fetcher that have no answer yet.
 *
 *     accept --> UNSENT --send--> SENT --finish--> FREE
 *
 * Each request has its own id, so a late or repeated reply matches none.
 *
 * The list of sent requests is in the order of sending.  A request is passed when one that was sent
 * later is answered first.  If its reply was ready by then, at most the replies of the other
 * requests under way are before it; once that number of replies has come, it was not ready, and is
 * late.  In the list, late requests come first, then other passed ones, then the rest.
 *
 * Threads: the fetcher's lock guards all of it. */

/* request_id = number of the request << INDEX_BITS | index in the table. */
#define SLUICE_PENDING_INDEX_BITS 20

enum sluice_pending_state { SLUICE_PENDING_FREE, SLUICE_PENDING_UNSENT, SLUICE_PENDING_SENT };

struct sluice_pending {
    enum sluice_pending_state state;
    uint64_t request_id; /* SENT only */
    struct sluice_source_item item;
    uint64_t bytes;                /* that its payload may have */
    uint32_t prev, next;           /* in the free (next only), the unsent or the sent list */
    uint64_t accepted_ns, sent_ns; /* sent_ns: SENT */
    bool is_passed;                /* SENT */
    uint64_t late_at;              /* passed: late once the table has had this number of replies */
    uint64_t late_ns;              /* SENT: since when it is late; 0: it is not */
};

struct sluice_pending_list {
    uint32_t head, tail;
};

struct sluice_pending_table {
    struct sluice_pending *rows;
    size_t max_items;
    uint32_t free_head;
    struct sluice_pending_list unsent, sent;
    size_t num_sent;
    uint64_t sent_bytes, most_bytes; /* of those sent; of the largest ever */
    uint64_t sends;
    uint64_t num_replies; /* to sent requests */
};

/* max_items < 2^SLUICE_PENDING_INDEX_BITS. */
SLUICE_MUST_USE sluice_status sluice_pending_init(struct sluice_pending_table *table,
                                                  size_t max_items, struct sluice_err *err);
void sluice_pending_clear(struct sluice_pending_table *table);

/* Appends a request to the unsent ones.  The caller respects max_items. */
void sluice_pending_accept(struct sluice_pending_table *table,
                           const struct sluice_source_item *item, uint64_t bytes, uint64_t now_ns);

/* Moves the first unsent request to the sent ones, under a new request id; NULL: there is none. */
struct sluice_pending *sluice_pending_send(struct sluice_pending_table *table, uint64_t now_ns);

/* The sent request with this id, or NULL. */
struct sluice_pending *sluice_pending_find(struct sluice_pending_table *table, uint64_t request_id);

/* The request that was sent first, or NULL. */
struct sluice_pending *sluice_pending_oldest(struct sluice_pending_table *table);

/* Records a reply to a request that is still in the sent list: those that were sent before it are
 * passed. */
void sluice_pending_pass(struct sluice_pending_table *table, const struct sluice_pending *pending,
                         uint64_t now_ns);

/* A sent request is answered. */
void sluice_pending_finish(struct sluice_pending_table *table, struct sluice_pending *pending);

/* Removes the first sent request, or else the first unsent one.  False: the table is empty. */
bool sluice_pending_take(struct sluice_pending_table *table, uint64_t *ticket, bool *was_sent);

/* Removes the request with this ticket.  False: not found. */
bool sluice_pending_cancel(struct sluice_pending_table *table, uint64_t ticket);

bool sluice_pending_has_unsent(const struct sluice_pending_table *table);

#endif
