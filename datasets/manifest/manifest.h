#ifndef SLUICE_DATASETS_MANIFEST_MANIFEST_H
#define SLUICE_DATASETS_MANIFEST_MANIFEST_H

#include "base/error.h"
#include "base/hash.h"
#include "datasets/list/target_values.h"
#include "datasets/manifest/passed_over.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The samples of a dataset: every image under a root, in one order that all nodes
 * agree on.
 *
 * Classes are as torchvision's ImageFolder has them: the folders in the root, also those that are
 * links, sorted by name; an image beside them is no sample; one without samples keeps its label, as
 * with allow_empty=True.  A root in which no folder holds an image has one class, "".
 *
 * Folders in the root that are called as splits are (split_name.h) are these splits, in each of
 * which the same holds, with the classes of train and val together, where no other folder in the
 * root holds an image.  What is of split test is no sample.  Where another one does, they are
 * classes if none has class folders in it; otherwise there is no list.
 *
 * A folder may hold other labels: sluice-classes.txt (class_list.h) fixes the numbers, a table
 * (labels.h) gives labels to the images.  Tars, MDS shards and LitData's chunks are shards of a
 * dataset where their members are listed (shard_list.h), which a scan does where it finds no other
 * image.
 *
 * A sample is a regular file whose name ends in .jpg, .jpeg, .png, .webp, .tif, .tiff, .bmp,
 * .gif, .ppm or .pgm in any case (ImageFolder does not look at .gif).  Links are followed as long
 * as they stay beneath the root, are relative, and do not lead to a folder that they lie in. Names
 * that begin with a dot are passed over, except for class folders that hold images, as is
 * lost+found at the top.  Samples are ordered by path, bytewise; a sample's id is its place in that
 * order.
 *
 * Threads: immutable once made. */

enum sluice_subset { SLUICE_SUBSET_TRAIN, SLUICE_SUBSET_VAL };

struct sluice_manifest_entry {
    const char *path; /* relative to the root, '/' between parts; owned by the manifest */
    uint64_t offset;  /* of the member of a shard (shard.h), in it; 0: the sample is a whole file */
    uint64_t bytes;
    int64_t mtime_ns; /* when the file or shard was last changed, since 1970; 0: not known */
    uint32_t label;   /* index of the class */
    enum sluice_subset subset; /* TRAIN unless it is of split val (split_name.h) */
    bool has_hash;             /* of the content, if indexed */
    struct sluice_hash128 hash;
    uint32_t width, height; /* 0: not known */
    uint8_t coding;         /* image/codecs/coding.h; the format by the name alone unless indexed */
    uint32_t target_bytes;
    const void *target; /* of target_type, a vector at a multiple of 4; NULL: none */
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
    const uint8_t *marks;        /* SLUICE_MARK_... */
    const char *targets;         /* one after the other */
    const uint64_t *target_ends; /* in `targets`; NULL: all are vectors */
};

#define SLUICE_MARK_VAL 1u  /* of subset val */
#define SLUICE_MARK_HASH 2u /* has a hash */

struct sluice_manifest {
    size_t num_entries; /* sluice_manifest_at() */
    const char **classes;
    size_t num_classes;
    struct sluice_target_type target_type;  /* of all samples, or of none */
    struct sluice_passed_over *passed_over; /* by the walk that made this; NULL: none did */
    char *passed_text;      /* what a file says of that, as sluice_passed_over_text(); or NULL */
    uint64_t passed_unread; /* the same, as sluice_passed_over_num_unread() */
    struct sluice_manifest_entry *rows; /* private to those who build one; NULL: columns */
    void *storage;                      /* private: the memory behind the strings */
    struct sluice_manifest_columns columns;
    struct sluice_hash128 id; /* private: of columns */
    void *map;                /* private: the memory behind columns */
    size_t map_bytes;
    bool is_file_mapped; /* private: its pages may be dropped, and come back from the file */
};

/* Sample i of num_entries.  By value: what is not looked at is not read. */
static inline struct sluice_manifest_entry
sluice_manifest_at(const struct sluice_manifest *manifest, size_t i)
{
    if (manifest->rows)
        return manifest->rows[i];
    const struct sluice_manifest_columns *columns = &manifest->columns;
    const uint8_t marks = columns->marks[i];
    const size_t vector_bytes = manifest->target_type.dim * sizeof(float);
    const uint64_t *ends = columns->target_ends;
    const uint64_t target = ends && i > 0 ? ends[i - 1] : i * vector_bytes;
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
        .target_bytes = (uint32_t)(ends ? ends[i] - target : vector_bytes),
        .target = columns->targets ? columns->targets + target : NULL,
    };
}

/* Walks the root without following links out of it; where it finds no sample it lists the members
 * of shards.  What is no sample by its name or kind is
 * passed over, with a line in the log where that may surprise.  Whatever cannot be read is an error
 * that names it, so a list is whole or there is none: SLUICE_E_IO, SLUICE_E_NO_MEMORY,
 * SLUICE_E_UNSUPPORTED (nested too deep).  An empty result is SLUICE_E_NOT_FOUND.  SLUICE_E_CLOSED:
 * `is_cancelled` (may be NULL), which any thread may set, was true on the way. */
SLUICE_MUST_USE sluice_status sluice_manifest_scan(const char *root,
                                                   const atomic_bool *is_cancelled,
                                                   struct sluice_manifest **manifest,
                                                   struct sluice_err *err);

/* The same, and more of it. */
struct sluice_manifest_options {
    bool with_shards;      /* lists the members of shards; else they are counted (passed_over.h) */
    const char *shards;    /* lists only these (shard_set.h); NULL: whatever is there */
    unsigned num_threads;  /* that look at files and read shards; 0: one for each CPU */
    const char *label_key; /* as in sluice_shard_options (shard_list.h); may be NULL */
    const char *labels;    /* a table, as sluice_labels_read() takes it; NULL: the root's, if any */
    const char *train_list, *val_list; /* files of paths (split_lists.h), which alone are samples;
                                          NULL: no such list */
    const char *classes;      /* a list of classes; NULL: the root's sluice-classes.txt, if any */
    bool classes_are_folders; /* no folder is a split, whatever it is called */
    struct sluice_target_column target; /* of a table, or ".txt": of members of tars */
    const atomic_bool *is_cancelled;    /* as sluice_manifest_scan()'s */
};

struct sluice_manifest_summary {
    size_t num_shards, num_damaged_shards; /* shard_list.h */
};

/* Further statuses: SLUICE_E_INVALID: a table, a list or a .cls is wrong, or an image has no label
 * where others have; err names file and line, or image; the same if an image has no target of those
 * asked for.  `summary` may be NULL. */
SLUICE_MUST_USE sluice_status sluice_manifest_list(const char *root,
                                                   const struct sluice_manifest_options *options,
                                                   struct sluice_manifest **manifest,
                                                   struct sluice_manifest_summary *summary,
                                                   struct sluice_err *err);

/* Builds one from rows that came from elsewhere (the wire): copies all of it.
 * SLUICE_E_INVALID: a label without a class, or paths out of order. */
SLUICE_MUST_USE sluice_status sluice_manifest_create(const struct sluice_manifest_entry *entries,
                                                     size_t num_entries, const char *const *classes,
                                                     size_t num_classes,
                                                     struct sluice_manifest **manifest,
                                                     struct sluice_err *err);
void sluice_manifest_destroy(struct sluice_manifest *manifest); /* NULL is allowed */

/* Bytes of memory that this process cannot do without, about: pages of a mapped file are not
 * counted. */
uint64_t sluice_manifest_memory(const struct sluice_manifest *manifest);

/* Bytes of all targets. */
uint64_t sluice_manifest_target_bytes(const struct sluice_manifest *manifest);

/* The pages of a mapped file are not this process's any more, until they are looked at again.
 * Others may read it meanwhile. */
void sluice_manifest_rest(const struct sluice_manifest *manifest);

/* Binary search: the first row whose path does not come before `begin`, bytewise; num_entries: none
 * is. */
size_t sluice_manifest_find_first(const struct sluice_manifest *manifest, const char *begin);

/* Whether a sample is a member of a shard. */
bool sluice_manifest_has_members(const struct sluice_manifest *manifest);

/* Names the data: XXH3-128 over every path, size and label.  Two nodes with the
 * same id deliver the same samples under the same ids.  Targets are not of it, so that what they
 * say may change beside pixels and labels that stay. */
struct sluice_hash128 sluice_manifest_id(const struct sluice_manifest *manifest);

/* Over what a list of the samples says beside what the id names: subsets, sizes in pixels, codings,
 * targets, and the names of classes.  XXH3-64, never 0. */
uint64_t sluice_manifest_list_hash(const struct sluice_manifest *manifest);

/* The file that `offload_dataset index` writes: ROOT/sluice-manifest.tsv.  Beside it lies the same
 * in binary (manifest/binary.h), which is read in its place where it belongs to it: memory that
 * others share, and a tenth of the time.  Where that is damaged a warning says so. */
#define SLUICE_MANIFEST_FILE "sluice-manifest.tsv"
SLUICE_MUST_USE sluice_status sluice_manifest_write(const struct sluice_manifest *manifest,
                                                    const char *path, struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_manifest_read(const char *path,
                                                   struct sluice_manifest **manifest,
                                                   struct sluice_err *err);

/* Says in one line of the log which files in `root` are no samples because of their suffix: a
 * warning if some may be images, info if all are side files, nothing if there are none.  With
 * is_strict, SLUICE_E_UNSUPPORTED if anything was passed over that may be an image; err names the
 * first.  Tars that were not looked into are a warning of their own, and an error with is_strict,
 * as damaged shards are (SLUICE_E_CORRUPT).  A file says what it was when it was made; with
 * is_strict the folder is walked then, and the headers in its tars are read if the manifest has
 * members, with what that returns. */
SLUICE_MUST_USE sluice_status sluice_manifest_check_passed_over(
    const struct sluice_manifest *manifest, const char *root, bool is_strict,
    const atomic_bool *is_cancelled, struct sluice_err *err);

/* Reads ROOT/sluice-manifest.tsv if it is there and whole, else scans. */
SLUICE_MUST_USE sluice_status sluice_manifest_open(const char *root,
                                                   const atomic_bool *is_cancelled,
                                                   struct sluice_manifest **manifest,
                                                   struct sluice_err *err);

#endif
