#ifndef SLUICE_STORAGE_SERVER_SESSION_CLIENT_TABLE_H
#define SLUICE_STORAGE_SERVER_SESSION_CLIENT_TABLE_H

#include "rpc/peer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Counts of replies to each client, for the metrics.
 *
 * A client is a name at an address.  The client chooses the name, so nothing but the metrics
 * depends on it.  There are CLIENT_TABLE_ROWS rows.  When all are taken, a new client replaces the
 * least recently served client without a stream, whose counts move to the row of the others; if all
 * clients have streams, the new one counts as one of the others.  So the sum over all rows never
 * falls, and the number of series has a bound.
 *
 * Threads: any. */

#define CLIENT_TABLE_ROWS 64

/* Bytes of a name with its terminating 0; longer names are truncated. */
#define CLIENT_TABLE_NAME 64

/* The name of the row of the others; its address is "". */
#define CLIENT_TABLE_OTHERS "other"

struct sluice_client_row {
    char name[CLIENT_TABLE_NAME]; /* valid UTF-8 */
    char address[SLUICE_PEER_HOST];
    bool has_token; /* the name is its token's */
    uint64_t samples, payload_bytes, errors;
    unsigned streams;
    uint64_t used; /* private: the value of `uses` when it was last served; 0: the row is free */
};

struct sluice_client_table {
    pthread_mutex_t lock; /* a leaf; taken once for each message of replies */
    uint64_t uses;
    struct sluice_client_row rows[CLIENT_TABLE_ROWS + 1]; /* the others last */
};

void sluice_client_table_init(struct sluice_client_table *table);
void sluice_client_table_clear(struct sluice_client_table *table);

/* A stream of the client `name` at `address` (peer.h) begins; "" or NULL: the address is the name.
 * has_token: the name is its token's.  Returns the client's row, which it keeps until as many
 * streams have left. */
size_t sluice_client_table_join(struct sluice_client_table *table, const char *name, bool has_token,
                                const char *address);
void sluice_client_table_leave(struct sluice_client_table *table, size_t row);

/* Adds counts of samples that were sent, and of those answered with an error. */
void sluice_client_table_count(struct sluice_client_table *table, size_t row, uint64_t samples,
                               uint64_t payload_bytes, uint64_t errors);

/* Copies the rows in use and returns their number.  The row of the others is included once it has
 * counts. */
size_t sluice_client_table_read(struct sluice_client_table *table,
                                struct sluice_client_row rows[CLIENT_TABLE_ROWS + 1]);

#endif
