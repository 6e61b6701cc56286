#ifndef SLUICE_STORAGE_SERVER_SERVICES_PROBE_H
#define SLUICE_STORAGE_SERVER_SERVICES_PROBE_H

/* Probe: sends incompressible bytes, from which a client measures the speed of the link.
 *
 * Threads: any. */

struct sluice_buf_pool;
struct sluice_memory_budget;
struct sluice_rpc_method;

/* Borrows all of it. */
struct sluice_probe_service {
    struct sluice_memory_budget *memory;
    struct sluice_buf_pool *buffers;
};

/* Adds the method to the server's table, and returns the table's end.  Borrows the service. */
struct sluice_rpc_method *sluice_probe_methods(struct sluice_probe_service *service,
                                               struct sluice_rpc_method *end);

#endif
