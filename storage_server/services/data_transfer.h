#ifndef SLUICE_STORAGE_SERVER_SERVICES_DATA_TRANSFER_H
#define SLUICE_STORAGE_SERVER_SERVICES_DATA_TRANSFER_H

#include <stdatomic.h>
#include <stdint.h>

/* The service of the original Python implementation, for its clients: one image per call, by path,
 * with new random draws each time.  protos/data_transfer.proto.
 *
 * Threads: any. */

struct sluice_buf_pool;
struct sluice_client_table;
struct sluice_memory_budget;
struct sluice_rpc_method;
struct sluice_sample_lists;
struct sluice_stats;
struct sluice_store;
struct sluice_watchdog;
struct sluice_workers;

/* Borrows all of it. */
struct sluice_transfer_service {
    struct sluice_sample_lists *lists;
    struct sluice_store *store;
    struct sluice_buf_pool *buffers;
    struct sluice_workers *workers;
    struct sluice_watchdog *watchdog; /* of the workers */
    struct sluice_memory_budget *memory;
    struct sluice_client_table *clients;
    struct sluice_stats *stats;
    uint64_t seed;                  /* of the random draws */
    atomic_uint_fast64_t num_draws; /* relaxed: the numbers need only differ */
    atomic_uint_fast64_t num_open;  /* calls whose job is not done */
};

/* Adds the methods to the server's table, and returns the table's end.  Borrows the service. */
struct sluice_rpc_method *sluice_transfer_methods(struct sluice_transfer_service *service,
                                                  struct sluice_rpc_method *end);

#endif
