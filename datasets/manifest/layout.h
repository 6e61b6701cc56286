#ifndef SLUICE_DATASETS_MANIFEST_LAYOUT_H
#define SLUICE_DATASETS_MANIFEST_LAYOUT_H

#include "datasets/manifest/builder.h"

#include <stdbool.h>
#include <stddef.h>

/* Finds the folders of a dataset that are its classes; manifest.h has the rules.
 *
 * Threads: pure functions. */

/* The most levels of folders beneath the root; deeper ones are refused. */
#define SLUICE_LAYOUT_MAX_DEPTH 32

/* A folder in the root, or in a folder of the root with the name of a split (split_name.h). */
struct sluice_layout_folder {
    char *path;       /* relative to the root: "cat", "train/cat" */
    bool holds_image; /* it, or a folder in it, has a file that ImageFolder takes as an image */
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

/* Whether a file of this name makes its folder a class: a file that we read, or that torchvision's
 * ImageFolder takes as an image (its IMG_EXTENSIONS). */
bool sluice_layout_is_image(const char *name);

/* Whether a file of this name is read, by its suffix in upper or lower case. */
bool sluice_layout_is_read(const char *name);
#define SLUICE_LAYOUT_READ ".jpg, .jpeg, .png, .webp, .tif, .tiff, .bmp, .gif, .ppm and .pgm"

/* The coding that the suffix implies (image/codecs/coding.h): the format, except for JPEGs. */
uint8_t sluice_layout_coding(const char *name);

/* Whether a folder of this name in the place of a class is passed over unless it holds an image. */
bool sluice_layout_is_hidden(const char *name);

/* The source of the classes and subsets of samples. */
struct sluice_layout_source {
    const char *root; /* for messages */
    const struct sluice_layout_folder *folders;
    size_t num_folders;
    bool classes_are_folders; /* no folder is a split */
    bool has_lists;           /* split lists, not folders, say the split of each sample */
};

/* Sets the classes, and the subset and label of every entry.  Entries must be ordered by path.  A
 * member of a shard counts as if the shard were unpacked in its folder.  Entries next to class
 * folders are removed and go to `passed`; entries in a folder of split test get the subset
 * SLUICE_SPLIT_TEST.  Logs results that may surprise.  SLUICE_E_NO_MEMORY; SLUICE_E_INVALID: a
 * folder of images is next to splits with class folders. */
SLUICE_MUST_USE sluice_status sluice_layout_assign(struct sluice_manifest_builder *builder,
                                                   const struct sluice_layout_source *source,
                                                   struct sluice_passed_over *passed,
                                                   struct sluice_err *err);

/* The same without classes, for samples whose labels come from another source: removes no entry and
 * sets only subsets.  SLUICE_E_INVALID: as above, or a folder of images is next to two splits. */
SLUICE_MUST_USE sluice_status
sluice_layout_assign_subsets(struct sluice_manifest_builder *builder,
                             const struct sluice_layout_source *source, struct sluice_err *err);

/* Takes out the entries of SLUICE_SPLIT_TEST, with a line in the log, for `name`, that counts them.
 * SLUICE_E_NOT_FOUND: all are. */
SLUICE_MUST_USE sluice_status sluice_layout_leave_out_test(struct sluice_manifest *manifest,
                                                           const char *name,
                                                           struct sluice_err *err);

/* Whether every sample is in a folder with the name of train or val. */
bool sluice_layout_is_of_splits(const struct sluice_manifest *manifest);

/* Compares names of classes as Python does, by code points. */
int sluice_layout_compare_names(const char *a, const char *b);

#endif
