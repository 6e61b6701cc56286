#ifndef SLUICE_DATASETS_MANIFEST_LAYOUT_H
#define SLUICE_DATASETS_MANIFEST_LAYOUT_H

#include "datasets/manifest/builder.h"

#include <stdbool.h>
#include <stddef.h>

/* Which folders of a dataset are its classes; manifest.h has the rule.
 *
 * Threads: pure functions. */

/* Folders in folders beneath the root; deeper ones are refused. */
#define SLUICE_LAYOUT_MAX_DEPTH 32

/* A folder in the root, or in a folder of the root that is called as a split is (split_name.h). */
struct sluice_layout_folder {
    char *path;       /* relative to the root: "cat", "train/cat" */
    bool holds_image; /* it, or a folder in it, has a file that ImageFolder would take */
};

/* A list of them. */
struct sluice_layout_folders {
    struct sluice_layout_folder *all;
    size_t num, capacity;
};
/* Adds path[0 .. len), which holds no image yet. */
SLUICE_MUST_USE sluice_status sluice_layout_folders_add(struct sluice_layout_folders *folders,
                                                        const char *path, size_t len,
                                                        struct sluice_err *err);
void sluice_layout_folders_clear(struct sluice_layout_folders *folders);

/* Whether a file of this name makes its folder a class: what is read, and what torchvision's
 * ImageFolder takes for an image (its IMG_EXTENSIONS). */
bool sluice_layout_is_image(const char *name);

/* Whether a file of this name is read, by its suffix, in any case of its letters. */
bool sluice_layout_is_read(const char *name);
#define SLUICE_LAYOUT_READ ".jpg, .jpeg, .png, .webp, .tif, .tiff, .bmp, .gif, .ppm and .pgm"

/* The coding that the suffix implies (image/codecs/coding.h): the format, except for JPEGs. */
uint8_t sluice_layout_coding(const char *name);

/* Whether a name at the place of a class is one that is passed over unless it holds an image. */
bool sluice_layout_is_hidden(const char *name);

/* How classes and subsets of samples are found. */
struct sluice_layout_source {
    const char *root; /* in words */
    const struct sluice_layout_folder *folders;
    size_t num_folders;
    bool classes_are_folders; /* no folder is a split */
    bool has_lists;           /* which samples are of which split is said elsewhere */
};

/* Sets the classes, and subset and label of every entry; the entries are in the order of their
 * paths.  A member of a shard lies where it would if the shard were unpacked in its folder. Entries
 * that lie beside the class folders are taken out and go to `passed`; those in a folder of split
 * test get SLUICE_SPLIT_TEST for a subset.  What may surprise is said in the log.
 * SLUICE_E_NO_MEMORY; SLUICE_E_INVALID: a folder of images stands beside splits with class folders
 * in them. */
SLUICE_MUST_USE sluice_status sluice_layout_assign(struct sluice_manifest_builder *builder,
                                                   const struct sluice_layout_source *source,
                                                   struct sluice_passed_over *passed,
                                                   struct sluice_err *err);

/* The same without classes, for samples whose labels come from elsewhere: none is taken out, and
 * subset alone is set.  SLUICE_E_INVALID: as above, or a folder of images stands beside two splits.
 */
SLUICE_MUST_USE sluice_status
sluice_layout_assign_subsets(struct sluice_manifest_builder *builder,
                             const struct sluice_layout_source *source, struct sluice_err *err);

/* Takes out the entries of SLUICE_SPLIT_TEST, with a line in the log, for `name`, that counts them.
 * SLUICE_E_NOT_FOUND: all are. */
SLUICE_MUST_USE sluice_status sluice_layout_leave_out_test(struct sluice_manifest *manifest,
                                                           const char *name,
                                                           struct sluice_err *err);

/* Whether every sample lies in a folder that is called as train or val is. */
bool sluice_layout_is_of_splits(const struct sluice_manifest *manifest);

/* As Python sorts the names of classes: by code point. */
int sluice_layout_compare_names(const char *a, const char *b);

#endif
