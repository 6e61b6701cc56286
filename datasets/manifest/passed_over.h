#ifndef SLUICE_DATASETS_MANIFEST_PASSED_OVER_H
#define SLUICE_DATASETS_MANIFEST_PASSED_OVER_H

#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Counts, by suffix, the files that a walk over a dataset's folder found and did not list, so that
 * none is left out silently.
 *
 * A file may be an image if it has the suffix of an image format, or if it has no suffix and is in a
 * subfolder (a README or LICENSE at the top has none either).  All other files (.txt, .csv, ...) are
 * side files.
 *
 * Threads: one at a time. */

#define SLUICE_PASSED_SUFFIXES 32 /* counted separately */
#define SLUICE_PASSED_NAMES 3     /* of images, for messages */

struct sluice_passed_suffix {
    char text[16]; /* ".avif", in lower case; "": no suffix */
    bool is_image; /* or may be one */
    uint64_t num_files;
};

struct sluice_passed_over {
    struct sluice_passed_suffix suffixes[SLUICE_PASSED_SUFFIXES];
    size_t num_suffixes;
    uint64_t num_rest; /* files with further suffixes */

    uint64_t num_shards;  /* tars and MDS shards that were not read */
    uint64_t num_damaged; /* shards of which a part is listed (shard_list.h) */

    /* The number of files that may be images and are not read, for any reason, and the first of
     * them by path. */
    uint64_t num_images;
    char images[SLUICE_PASSED_NAMES][SLUICE_MAX_PATH_BYTES]; /* "": fewer files */
};

/* Adds a file whose suffix is not read; `path` is relative to the root. */
void sluice_passed_over_add(struct sluice_passed_over *passed, const char *path);

/* Whether the suffix is that of an image format that is not read. */
bool sluice_passed_over_is_image(const char *path);

/* Takes back a file that is read after all, and whose suffix is not an image's. */
void sluice_passed_over_take_back(struct sluice_passed_over *passed, const char *path);

/* Adds an image that is not read for another reason than its suffix, such as its folder. */
void sluice_passed_over_add_image(struct sluice_passed_over *passed, const char *path);

/* Whether `name` ends with this suffix (".jpg"), in upper or lower case. */
bool sluice_has_suffix(const char *name, const char *suffix);

/* The number of files with the suffix of an image, or without a suffix that may be images. */
uint64_t sluice_passed_over_num_unread(const struct sluice_passed_over *passed);

/* "12 .heic, 3 .avif, 1 without suffix, 2 .txt": images first, of each kind the most frequent
 * first.  "" without such files.  Returns the length; text that does not fit is truncated. */
size_t sluice_passed_over_text(const struct sluice_passed_over *passed, char *out, size_t room);

#endif
