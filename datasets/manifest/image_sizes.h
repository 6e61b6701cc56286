#ifndef SLUICE_DATASETS_MANIFEST_IMAGE_SIZES_H
#define SLUICE_DATASETS_MANIFEST_IMAGE_SIZES_H

#include "base/error.h"
#include "base/roots.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The size in pixels of each image of a list, from the list or else from the header of its file.
 *
 * A file that cannot be read or has no valid header has no size: 0 x 0.
 *
 * Threads: get and set from any, also during read; the rest from one. */

struct sluice_image_sizes;
struct sluice_manifest;
struct sluice_store;

struct sluice_image_size {
    uint32_t width, height; /* as stored, 1 to 65,535; 0 and 0: none */
    uint8_t orientation;    /* EXIF's, 1 to 8 (image/orientation.h); 1 unless it is read */
};

/* A table without any size.  is_upright: read() reads orientations, too, which no list has. */
SLUICE_MUST_USE sluice_status sluice_image_sizes_create(size_t num, bool is_upright,
                                                        struct sluice_image_sizes **sizes,
                                                        struct sluice_err *err);
void sluice_image_sizes_destroy(struct sluice_image_sizes *sizes); /* NULL is allowed */

bool sluice_image_sizes_is_upright(const struct sluice_image_sizes *sizes);

/* False: not known yet. */
bool sluice_image_sizes_get(const struct sluice_image_sizes *sizes, size_t i,
                            struct sluice_image_size *size);
void sluice_image_sizes_set(struct sluice_image_sizes *sizes, size_t i,
                            const struct sluice_image_size *size);

/* Whether the list lacks a size that the table has to have. */
bool sluice_image_sizes_are_missing(const struct sluice_manifest *manifest, bool is_upright);

struct sluice_image_sizes_source {
    const struct sluice_manifest *manifest; /* of as many samples as the table has */
    struct sluice_store *store;
    unsigned num_threads;            /* 0: one for each CPU, or of a remote store its limits' */
    const atomic_bool *is_cancelled; /* may be NULL */
    const void *owner;               /* of the reads, for store->cancel; may be NULL */
};

/* Fills in the sizes that are not known yet, with progress in the log, and warns of the files that
 * have none.  Reads the first 32 KiB of a file, and all of it if these do not do.  SLUICE_E_IO: a
 * store over a network fails; SLUICE_E_NO_MEMORY; SLUICE_E_CLOSED: cancelled.  After a failure a
 * further call reads what is still missing. */
SLUICE_MUST_USE sluice_status
sluice_image_sizes_read(struct sluice_image_sizes *sizes,
                        const struct sluice_image_sizes_source *source, struct sluice_err *err);

/* The same for folders of this machine: the roots of the manifest's paths. */
SLUICE_MUST_USE sluice_status sluice_image_sizes_read_folders(
    struct sluice_image_sizes *sizes, const struct sluice_manifest *manifest,
    const struct sluice_roots *roots, const atomic_bool *is_cancelled, struct sluice_err *err);

#endif
