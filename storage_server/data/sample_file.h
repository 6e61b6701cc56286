#ifndef SLUICE_STORAGE_SERVER_DATA_SAMPLE_FILE_H
#define SLUICE_STORAGE_SERVER_DATA_SAMPLE_FILE_H

#include "base/error.h"
#include "op/pipeline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the part of a sample's file that its ops need: only the headers and the rows under the crop
 * if a JPEG has a current index, otherwise the whole file.
 *
 * Threads: any; may block on the disk. */

struct sluice_buf;
struct sluice_buf_pool;
struct sluice_file_reading;
struct sluice_sample_list;
struct sluice_store;

/* Borrows all of it. */
struct sluice_sample_want {
    struct sluice_store *store;
    struct sluice_buf_pool *buffers;
    const struct sluice_sample_list *list;
    size_t sample; /* index into its manifest, whose row the file is compared with (freshness.h) */
    const char *path; /* relative to the root */
    struct sluice_draw_key key;
    const struct sluice_pipeline *pipeline; /* NULL if no ops are to run */
    unsigned split;                         /* ops to run */
    enum sluice_form form;                  /* of the reply */
    const void *owner; /* may be NULL; cancelling it ends a read over a network (store->cancel) */
};

/* *sample is a file at split 0, which the caller clears; *seen gets the counts of the reading.
 * `is_again`: reads the whole file, because the parts read before were not enough
 * (sluice_indexed_file_has_holes() after the ops had run).  Statuses of the store and of
 * freshness.h. */
SLUICE_MUST_USE sluice_status sluice_sample_file_read(const struct sluice_sample_want *want,
                                                      bool is_again, struct sluice_sample *sample,
                                                      struct sluice_file_reading *seen,
                                                      struct sluice_err *err);

/* Reads the whole file, whatever the want's ops and form. */
SLUICE_MUST_USE sluice_status sluice_sample_file_read_whole(const struct sluice_sample_want *want,
                                                            struct sluice_buf **file,
                                                            struct sluice_err *err);

#endif
