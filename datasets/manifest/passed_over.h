#ifndef SLUICE_DATASETS_MANIFEST_PASSED_OVER_H
#define SLUICE_DATASETS_MANIFEST_PASSED_OVER_H

#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The files that a walk over a dataset's folder met and did not list, counted by suffix, so that
 * nothing is left out without a word.
 *
 * A file may be an image if it has the suffix of an image format, or none and lies in a folder
 * (a README or LICENSE at the top has none either).  Everything else (.txt, .csv, ...) is a side
 * file.
 *
 * Threads: one at a time. */

#define SLUICE_PASSED_SUFFIXES 32 /* that are told apart */
#define SLUICE_PASSED_NAMES 3     /* of images, to name in a message */

struct sluice_passed_suffix {
    char text[16]; /* ".avif", in lower case; "": none */
    bool is_image; /* or may be one */
    uint64_t num_files;
};

struct sluice_passed_over {
    struct sluice_passed_suffix suffixes[SLUICE_PASSED_SUFFIXES];
    size_t num_suffixes;
    uint64_t num_rest; /* files of yet other suffixes */

    uint64_t num_shards;  /* tars and MDS shards that nobody looked into */
    uint64_t num_damaged; /* shards of which a part is listed (shard_list.h) */

    /* Counts of files that may be images and are not read, for any reason, and the first by path.
     */
    uint64_t num_images;
    char images[SLUICE_PASSED_NAMES][SLUICE_MAX_PATH_BYTES]; /* "": there are not as many */
};

/* A file whose suffix is not read; `path` is relative to the root. */
void sluice_passed_over_add(struct sluice_passed_over *passed, const char *path);

/* Whether the suffix is that of an image format that is not read. */
bool sluice_passed_over_is_image(const char *path);

/* Takes back one that turned out to be read after all, and that is no image by its suffix. */
void sluice_passed_over_take_back(struct sluice_passed_over *passed, const char *path);

/* An image that is not read for another reason than its suffix, such as where it lies. */
void sluice_passed_over_add_image(struct sluice_passed_over *passed, const char *path);

/* Whether `name` ends with this suffix (".jpg"), in upper or lower case. */
bool sluice_has_suffix(const char *name, const char *suffix);

/* How many files have the suffix of an image, or may be one without any. */
uint64_t sluice_passed_over_num_unread(const struct sluice_passed_over *passed);

/* "12 .heic, 3 .avif, 1 without suffix, 2 .txt": images first, of each kind the most frequent
 * first.  "" if the suffix of no file is one that is not read.  Returns the length; what has no
 * room is cut. */
size_t sluice_passed_over_text(const struct sluice_passed_over *passed, char *out, size_t room);

#endif
