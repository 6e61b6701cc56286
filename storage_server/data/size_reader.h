#ifndef SLUICE_STORAGE_SERVER_DATA_SIZE_READER_H
#define SLUICE_STORAGE_SERVER_DATA_SIZE_READER_H

#include "base/error.h"
#include "datasets/manifest/image_sizes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sizes of the images of the server's list, for clients that ask for them: those that the list
 * does not say are read from the headers of the files, once for all clients, by threads that end
 * with it.
 *
 * Threads: create and destroy on one, get from any.  The lock is a leaf. */

struct sluice_sample_list;
struct sluice_size_reader;
struct sluice_store;

/* Borrows all of it. */
struct sluice_size_reader_options {
    struct sluice_store *store;
    unsigned num_threads;  /* that read at a time */
    bool parses_no_images; /* only the decoders may (--isolate-decoders): get() fails */
};

SLUICE_MUST_USE sluice_status
sluice_size_reader_create(const struct sluice_size_reader_options *options,
                          struct sluice_size_reader **reader, struct sluice_err *err);
/* Ends reads over a network, and waits for those of a disk.  NULL is allowed. */
void sluice_size_reader_destroy(struct sluice_size_reader *reader);

/* Copies the sizes of rows [first, ...) of the list, at most `most`, as far as they are known; starts
 * to read those that are not.  Never waits.  is_upright: with orientations.  SLUICE_E_INVALID: the
 * server may not read headers; SLUICE_E_IO, SLUICE_E_NO_MEMORY: the reading failed since the last
 * call, and the next call goes on with it. */
SLUICE_MUST_USE sluice_status sluice_size_reader_get(struct sluice_size_reader *reader,
                                                     struct sluice_sample_list *list,
                                                     bool is_upright, size_t first, size_t most,
                                                     struct sluice_image_size *sizes, size_t *num,
                                                     struct sluice_err *err);

#endif
