#ifndef SLUICE_STORAGE_SERVER_SERVICES_LIST_H
#define SLUICE_STORAGE_SERVER_SERVICES_LIST_H

/* ListSamples: the rows of the server's list, or of a subset of it, in messages of a bounded size.
 *
 * Threads: any. */

struct sluice_memory_budget;
struct sluice_rpc_method;
struct sluice_sample_lists;

/* Borrows both. */
struct sluice_list_service {
    struct sluice_sample_lists *lists;
    struct sluice_memory_budget *memory;
};

/* Adds the method to the server's table, and returns the table's end.  Borrows the service. */
struct sluice_rpc_method *sluice_list_methods(struct sluice_list_service *service,
                                              struct sluice_rpc_method *end);

#endif
