#ifndef SLUICE_DATASETS_TOOLS_LISTING_H
#define SLUICE_DATASETS_TOOLS_LISTING_H

#include "base/buf.h"
#include "base/file.h"
#include "cli/cli.h"
#include "datasets/jpeg_index/jpeg_indexer.h"
#include "datasets/list/class_list.h"
#include "datasets/manifest/manifest.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* A root and the list of its samples: what the commands `index` and `verify` share.
 *
 * Threads: samples are read by any, the rest is for one. */

#define SLUICE_LISTING_MAX_FILE_BYTES ((size_t)1 << 31)

struct sluice_store;

/* Zeroed but for the root; cleared at the end. */
struct sluice_listing {
    const char *root; /* borrowed */
    struct sluice_manifest *manifest;
    struct sluice_buf_pool *pool;
    struct sluice_manifest_summary shards; /* of the last list */
};

void sluice_listing_clear(struct sluice_listing *listing);

/* The source of the list, of labels and of fields. */
struct sluice_listing_source {
    const char *shards, *train_list, *val_list, *labels, *label_key, *classes, *target_type;
    struct sluice_option_strings targets, annotations;
    bool classes_are_folders;
    uint64_t num_threads;
};

/* SLUICE_E_INVALID: err names the option that is wrong. */
SLUICE_MUST_USE sluice_status sluice_listing_options(const struct sluice_listing_source *source,
                                                     struct sluice_manifest_options *options,
                                                     struct sluice_err *err);

/* The current content of the root, its shards included. */
SLUICE_MUST_USE sluice_status sluice_listing_list(struct sluice_listing *listing,
                                                  const struct sluice_listing_source *source,
                                                  struct sluice_manifest **manifest,
                                                  struct sluice_err *err);

/* Turns the boxes of --annotations that are in parts of the images (YOLO's) into pixels, by the sizes
 * in the headers of the files, which the list gets where it lacks them.  `store` NULL: the root is a
 * folder.  SLUICE_E_INVALID: no image has a size. */
SLUICE_MUST_USE sluice_status sluice_listing_scale_boxes(const struct sluice_listing *listing,
                                                         struct sluice_manifest *manifest,
                                                         struct sluice_store *store,
                                                         struct sluice_err *err);

/* Reads a sample's file; *st is its state, or its shard's, as it was opened, with the sample's own
 * length. */
SLUICE_MUST_USE sluice_status sluice_listing_read_sample(const struct sluice_listing *listing,
                                                         size_t i, struct stat *st,
                                                         struct sluice_buf **file,
                                                         struct sluice_err *err);

/* If *chosen is NULL, it becomes the default path in `root`, which is written to `room`. */
SLUICE_MUST_USE sluice_status sluice_listing_manifest_path(const char **chosen, const char *root,
                                                           char room[SLUICE_MAX_PATH_BYTES],
                                                           struct sluice_err *err);
/* The JPEG index is next to the manifest. */
SLUICE_MUST_USE sluice_status sluice_listing_jpegs_path(const char *manifest_path,
                                                        char path[SLUICE_MAX_PATH_BYTES],
                                                        struct sluice_err *err);

/* The findings of a command. */
struct sluice_listing_counts {
    uint64_t bad;
    bool is_index;                                   /* `index`; the fields below are valid */
    uint64_t unreadable, kept;                       /* kept: rows that were known */
    const struct sluice_jpeg_indexer_summary *jpegs; /* NULL: no JPEG index was made */
};

void sluice_listing_print(const struct sluice_listing *listing,
                          const struct sluice_listing_counts *counts, bool is_json);

/* --- options --- */

enum { SLUICE_LISTING_WHAT, SLUICE_LISTING_SAMPLES, SLUICE_LISTING_LABELS, SLUICE_LISTING_WORK };

/* The options that say what is a sample. */
#define SLUICE_LISTING_SHARDS_OPTION(target)                                                       \
    {                                                                                              \
        .name = "shards", .group = SLUICE_LISTING_SAMPLES, SLUICE_VALUE_STRING(*(target), "LIST"), \
        .help = "List these shards of DIR alone, .tar or .mds, in bash's braces as WebDataset "    \
                "has them: 'train-{000000..001023}.tar', with :: between lists.",                  \
        .default_text = "all images and shards in DIR"                                             \
    }
#define SLUICE_LISTING_SPLIT_OPTION(split, target)                                                 \
    {                                                                                              \
        .name = split "-list", .group = SLUICE_LISTING_SAMPLES,                                    \
        SLUICE_VALUE_STRING(*(target), "FILE"),                                                    \
        .help = "File with a line for each image of " split ": its path relative to DIR, and "     \
                "maybe a label behind it. Images in neither list are no samples.",                 \
        .default_text = "column split of the table, else the folders train/, val/ and the like"    \
    }

/* The options that say where labels come from. */
#define SLUICE_LISTING_LABELS_OPTION(target)                                                       \
    {                                                                                              \
        .name = "labels", .group = SLUICE_LISTING_LABELS, SLUICE_VALUE_STRING(*(target), "FILE"),  \
        .help = "Table of labels, .csv or .jsonl, with columns file_name (relative to DIR) and "   \
                "label (integers, or names of classes), and maybe split (train, val, test).",      \
        .default_text = "DIR/metadata.jsonl, metadata.csv or labels.csv if it has these columns, " \
                        "in DIR or in its train/, val/ and the like; else .cls in tars and the "   \
                        "label of MDS shards and LitData's chunks, else the folders"               \
    }
#define SLUICE_LISTING_LABEL_KEY_OPTION(target)                                                    \
    {                                                                                              \
        .name = "label-key", .group = SLUICE_LISTING_LABELS,                                       \
        SLUICE_VALUE_STRING(*(target), "NAME"),                                                    \
        .help = "Where the label is: the column of a table, of MDS shards and LitData's chunks, "  \
                "in tars the key in the .json beside an image; an integer, or the name of a "      \
                "class.  '' for no labels.",                                                       \
        .default_text = "in tars .cls; else the first of label, class, cls and target"             \
    }
#define SLUICE_LISTING_CLASSES_OPTION(target)                                                      \
    {                                                                                              \
        .name = "classes", .group = SLUICE_LISTING_LABELS, SLUICE_VALUE_STRING(*(target), "FILE"), \
        .help = "List of classes, one name a line: the first is label 0.",                         \
        .default_text = "DIR/" SLUICE_CLASS_LIST_FILE " if it is there"                            \
    }

#define SLUICE_LISTING_ANNOTATIONS_OPTION(target)                                                  \
    {                                                                                              \
        .name = "annotations", .group = SLUICE_LISTING_LABELS,                                     \
        SLUICE_VALUE_STRINGS(*(target), "FILE|FOLDER"),                                            \
        .help = "Boxes, and keypoints, of the images, as fields of these names: a file of COCO's " \
                "JSON, or several, which name images by the end of their path; or a folder of "    \
                "YOLO's texts with the paths of the images.",                                      \
        .default_text = "none"                                                                     \
    }

#endif
