#ifndef SLUICE_STORAGE_SERVER_SERVICES_SIZES_H
#define SLUICE_STORAGE_SERVER_SERVICES_SIZES_H

/* ListSizes: the sizes of the images of the server's list, as far as they are known
 * (data/size_reader.h); a client asks again for the rest.
 *
 * Threads: any. */

struct sluice_rpc_method;
struct sluice_sample_lists;
struct sluice_size_reader;

/* Borrows both. */
struct sluice_sizes_service {
    struct sluice_sample_lists *lists;
    struct sluice_size_reader *reader;
};

/* Adds the method to the server's table, and returns the table's end. */
struct sluice_rpc_method *sluice_sizes_methods(struct sluice_sizes_service *service,
                                               struct sluice_rpc_method *end);

#endif
