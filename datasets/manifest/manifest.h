#ifndef SLUICE_DATASETS_MANIFEST_MANIFEST_H
#define SLUICE_DATASETS_MANIFEST_MANIFEST_H

#include "base/error.h"
#include "base/hash.h"
#include "datasets/list/field_source.h"
#include "datasets/list/fields.h"
#include "datasets/manifest/passed_over.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The samples of a dataset: every image under a root, in one order that all nodes
 * agree on.
 *
 * Classes follow torchvision's ImageFolder: they are the folders in the root, links included,
 * sorted by name.  An image next to class folders is not a sample.  A class without samples keeps
 * its label, as with allow_empty=True.  A root in which no folder holds an image has one class, "".
 *
 * Folders in the root with the name of a split (split_name.h) are splits if no other folder in the
 * root holds an image.  The rule above then holds in each of them; train and val share the classes,
 * and images of split test are not samples.  If another folder holds an image, the folders with
 * names of splits are classes; if one of them has class folders, the root is refused.
 *
 * Labels may also come from files of the root: sluice-classes.txt (class_list.h) fixes the numbers
 * of the classes, a table (labels.h) gives labels to the images.  Tars, MDS shards and LitData's
 * chunks are shards of a dataset if their members are listed (shard_list.h); a scan lists them if
 * it finds no other image.
 *
 * A sample is a regular file whose name ends in .jpg, .jpeg, .png, .webp, .tif, .tiff, .bmp,
 * .gif, .ppm or .pgm in any case (ImageFolder ignores .gif).  Links are followed if they are
 * relative, stay beneath the root, and do not lead to a folder that contains them.  Names that
 * begin with a dot are passed over, except class folders that hold images; so is lost+found at the
 * top.  Samples are ordered by path, bytewise; a sample's id is its place in that order.
 *
 * Threads: immutable once made. */

enum sluice_subset { SLUICE_SUBSET_TRAIN, SLUICE_SUBSET_VAL };

struct sluice_manifest_entry {
    const char *path; /* relative to the root, '/' between parts; owned by the manifest */
    uint64_t offset;  /* of a member within its shard (shard.h); 0: the sample is a whole file */
    uint64_t bytes;
    int64_t mtime_ns;          /* when the file or shard was last changed, since 1970; 0: unknown */
    uint32_t label;            /* index of the class */
    enum sluice_subset subset; /* TRAIN unless it is of split val (split_name.h) */
    bool has_hash;             /* of the content, if indexed */
    struct sluice_hash128 hash;
    uint32_t width, height; /* 0: unknown */
    uint8_t coding;         /* image/codecs/coding.h; from the name alone unless indexed */
    uint32_t values_bytes;
    const void *values; /* of all fields (fields.h), aligned to 4 bytes if the manifest has several,
                           or vectors, boxes or keypoints; NULL: the manifest has no fields */
};

/* Private: the columns of a file that is mapped (manifest/binary.h). */
struct sluice_manifest_columns {
    const char *paths;           /* one after the other, each with its NUL */
    const uint64_t *path_starts; /* in `paths` */
    const uint64_t *bytes;
    const uint64_t *offsets;             /* NULL: all 0 */
    const int64_t *mtimes_ns;            /* NULL: all 0 */
    const struct sluice_hash128 *hashes; /* NULL: none */
    const uint32_t *labels;
    const uint32_t (*sizes)[2]; /* width, height */
    const uint8_t *codings;
    const uint8_t *marks;       /* SLUICE_MARK_... */
    const char *values;         /* of samples, one after the other */
    const uint64_t *value_ends; /* in `values`; NULL: all are vectors */
};

#define SLUICE_MARK_VAL 1u  /* of subset val */
#define SLUICE_MARK_HASH 2u /* has a hash */

struct sluice_manifest {
    size_t num_entries; /* sluice_manifest_at() */
    const char **classes;
    size_t num_classes;
    struct sluice_fields fields;            /* of all samples */
    struct sluice_passed_over *passed_over; /* by the walk that made it; NULL: not made by a walk */
    char *passed_text;      /* sluice_passed_over_text() from a manifest file; or NULL */
    uint64_t passed_unread; /* sluice_passed_over_num_unread() from a manifest file */
    struct sluice_manifest_entry *rows; /* private to builders; NULL: columns are used */
    void *storage;                      /* private: the memory behind the strings */
    struct sluice_manifest_columns columns;
    struct sluice_hash128 id; /* private: of columns */
    void *map;                /* private: the memory behind columns */
    size_t map_bytes;
    bool is_file_mapped; /* private: its pages may be dropped and read again from the file */
};

/* Sample i of num_entries.  By value and inline, so that unused columns are not read. */
static inline struct sluice_manifest_entry
sluice_manifest_at(const struct sluice_manifest *manifest, size_t i)
{
    if (manifest->rows)
        return manifest->rows[i];
    const struct sluice_manifest_columns *columns = &manifest->columns;
    const uint8_t marks = columns->marks[i];
    const size_t vector_bytes = manifest->fields.of[0].type.dim * sizeof(float);
    const uint64_t *ends = columns->value_ends;
    const uint64_t value = !ends ? i * vector_bytes : i > 0 ? ends[i - 1] : 0;
    return (struct sluice_manifest_entry){
        .path = columns->paths + columns->path_starts[i],
        .offset = columns->offsets ? columns->offsets[i] : 0,
        .bytes = columns->bytes[i],
        .mtime_ns = columns->mtimes_ns ? columns->mtimes_ns[i] : 0,
        .label = columns->labels[i],
        .subset = marks & SLUICE_MARK_VAL ? SLUICE_SUBSET_VAL : SLUICE_SUBSET_TRAIN,
        .has_hash = marks & SLUICE_MARK_HASH,
        .hash = columns->hashes ? columns->hashes[i] : (struct sluice_hash128){0, 0},
        .width = columns->sizes[i][0],
        .height = columns->sizes[i][1],
        .coding = columns->codings[i],
        .values_bytes = (uint32_t)(ends ? ends[i] - value : vector_bytes),
        .values = columns->values ? columns->values + value : NULL,
    };
}

/* Walks the root without following links out of it.  If it finds no sample, it lists the members of
 * shards.  Files that are not samples by name or kind are passed over, with a line in the log where
 * that may surprise.  A list is complete or fails: anything that cannot be read is an error that
 * names it: SLUICE_E_IO, SLUICE_E_NO_MEMORY, SLUICE_E_UNSUPPORTED (nested too deep).  An empty
 * result is SLUICE_E_NOT_FOUND.  SLUICE_E_CLOSED: `is_cancelled` (may be NULL), which any thread
 * may set, became true. */
SLUICE_MUST_USE sluice_status sluice_manifest_scan(const char *root,
                                                   const atomic_bool *is_cancelled,
                                                   struct sluice_manifest **manifest,
                                                   struct sluice_err *err);

/* Further options of the walk. */
struct sluice_manifest_options {
    bool with_shards;      /* lists the members of shards; else counts shards (passed_over.h) */
    const char *shards;    /* lists only these shards (shard_set.h); NULL: all */
    unsigned num_threads;  /* to stat files and read shards; 0: one for each CPU */
    const char *label_key; /* as in sluice_shard_options (shard_list.h); may be NULL */
    const char *labels;    /* a table, as sluice_labels_read() takes it; NULL: the root's, if any */
    const char *train_list, *val_list; /* files of paths (split_lists.h), which alone are samples;
                                          NULL: no such list */
    const char *classes;      /* a list of classes; NULL: the root's sluice-classes.txt, if any */
    bool classes_are_folders; /* no folder is a split, whatever it is called */
    struct sluice_field_sources fields;
    const char *const *annotations; /* of fields "boxes" and "keypoints" (annotations.h) */
    size_t num_annotations;
    const atomic_bool *is_cancelled; /* as sluice_manifest_scan()'s */
};

struct sluice_manifest_summary {
    size_t num_shards, num_damaged_shards; /* shard_list.h */
    bool has_relative_boxes;               /* sluice_annotations_are_relative() */
    unsigned boxes_field;                  /* of the annotations */
};

/* As sluice_manifest_scan(), with options.  Further statuses: SLUICE_E_INVALID: a table, a list or
 * a .cls is wrong, or an image lacks a label that others have or a requested value; err names file
 * and line, or the image.  `summary` may be NULL. */
SLUICE_MUST_USE sluice_status sluice_manifest_list(const char *root,
                                                   const struct sluice_manifest_options *options,
                                                   struct sluice_manifest **manifest,
                                                   struct sluice_manifest_summary *summary,
                                                   struct sluice_err *err);

/* Builds a manifest from rows of another source (the wire); copies all of them.
 * SLUICE_E_INVALID: a label without a class, or paths out of order. */
SLUICE_MUST_USE sluice_status sluice_manifest_create(const struct sluice_manifest_entry *entries,
                                                     size_t num_entries, const char *const *classes,
                                                     size_t num_classes,
                                                     struct sluice_manifest **manifest,
                                                     struct sluice_err *err);
void sluice_manifest_destroy(struct sluice_manifest *manifest); /* NULL is allowed */

/* The bytes of memory of the manifest, approximately, without pages of a mapped file. */
uint64_t sluice_manifest_memory(const struct sluice_manifest *manifest);

/* Bytes of the values of all samples. */
uint64_t sluice_manifest_values_bytes(const struct sluice_manifest *manifest);

/* Drops the pages of a mapped file from this process; they come back when they are read.  Other
 * threads may read the manifest meanwhile. */
void sluice_manifest_rest(const struct sluice_manifest *manifest);

/* Binary search: the first row whose path is not before `begin`, bytewise; num_entries if there is
 * none. */
size_t sluice_manifest_find_first(const struct sluice_manifest *manifest, const char *begin);

/* Whether a sample is a member of a shard. */
bool sluice_manifest_has_members(const struct sluice_manifest *manifest);

/* Names the data: XXH3-128 over every path, size and label.  Two nodes with the
 * same id deliver the same samples under the same ids.  Fields are not part of it, so that they may
 * change while pixels and labels stay. */
struct sluice_hash128 sluice_manifest_id(const struct sluice_manifest *manifest);

/* XXH3-64, never 0, over the parts of a list that the id does not cover: subsets, sizes in pixels,
 * codings, fields, and the names of classes. */
uint64_t sluice_manifest_list_hash(const struct sluice_manifest *manifest);
/* The same of the list that programs take which do not ask for fields: with a target if the fields
 * are plain (fields.h), else without. */
uint64_t sluice_manifest_plain_list_hash(const struct sluice_manifest *manifest);

/* The file that `offload_dataset index` writes: ROOT/sluice-manifest.tsv.  A binary manifest
 * (manifest/binary.h) is next to it.  If it belongs to the text, it is read instead, which takes a
 * tenth of the time and memory that processes share.  If it is damaged, a warning says so. */
#define SLUICE_MANIFEST_FILE "sluice-manifest.tsv"
SLUICE_MUST_USE sluice_status sluice_manifest_write(const struct sluice_manifest *manifest,
                                                    const char *path, struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_manifest_read(const char *path,
                                                   struct sluice_manifest **manifest,
                                                   struct sluice_err *err);

/* Logs in one line which files in `root` were passed over because of their suffix: a warning if
 * some may be images, info if all are side files, nothing if there are no such files.  A separate
 * line warns of tars that were not read.  With is_strict these warnings are errors:
 * SLUICE_E_UNSUPPORTED if a file that may be an image was passed over (err names the first) or a
 * tar was not read, SLUICE_E_CORRUPT for a damaged shard.  A manifest file has the counts of the
 * time when it was made; with is_strict the folder is walked instead, and the headers of its tars
 * are read if the manifest has members, with the statuses of that. */
SLUICE_MUST_USE sluice_status sluice_manifest_check_passed_over(
    const struct sluice_manifest *manifest, const char *root, bool is_strict,
    const atomic_bool *is_cancelled, struct sluice_err *err);

/* Reads ROOT/sluice-manifest.tsv if it exists and is undamaged, otherwise scans. */
SLUICE_MUST_USE sluice_status sluice_manifest_open(const char *root,
                                                   const atomic_bool *is_cancelled,
                                                   struct sluice_manifest **manifest,
                                                   struct sluice_err *err);

#endif
