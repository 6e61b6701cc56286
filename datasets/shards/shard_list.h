#ifndef SLUICE_DATASETS_SHARDS_SHARD_LIST_H
#define SLUICE_DATASETS_SHARDS_SHARD_LIST_H

#include "base/error.h"
#include "datasets/manifest/builder.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The samples in shards, as rows of a manifest.
 *
 * Tars follow WebDataset's rule (https://github.com/webdataset/webdataset): the key of a member is
 * its name up to the first dot of the last part, and members with one key are one sample.  KEY.cls
 * holds its label, an integer; a .cls without an image is an error.  Here each member with the
 * suffix of an image is a sample, so two images with one key are two samples with one label.  Other
 * members are counted; members whose names begin with a dot are passed over.  Of two members with
 * the same name the later one counts, as in tar(1).
 *
 * Shards of records (records.h) are MDS and LitData's: record 17 of 1000 is the sample "0017.jpg"
 * of its shard; the suffix follows from the first bytes of the image.  The image is the column of
 * whole image files, or without such a column the one of bytes.  With several such columns each is
 * a sample, "0017.COLUMN.jpg".  The label is the first column of `label`, `class`, `cls` and
 * `target` that exists, with integers or with names of classes; a shard that has only other columns
 * of these kinds is an error.
 *
 * Threads: called from one; reads several shards at a time. */

/* The label of a row without a label. */
#define SLUICE_NO_LABEL UINT32_MAX

struct sluice_columns;
struct sluice_store;

struct sluice_shard_file {
    char *path; /* relative to the root; .tar is a tar, anything else has records */
    uint64_t bytes;
    int64_t mtime_ns;                     /* or the version that a store lists */
    const struct sluice_columns *columns; /* of its records; NULL: read them from the shard */
};

struct sluice_shard_options {
    const char *root;
    struct sluice_store *store; /* which reads them, by ranges; NULL: they are files in `root` */
    unsigned num_threads;       /* 0: one for each CPU */
    /* Source of the labels.  In tars: a key of the object in KEY.json, which replaces KEY.cls; in
     * records: a column.  "": no labels.  NULL: as above. */
    const char *label_key;
    const struct sluice_field_sources *fields; /* members of tars and columns; NULL: none */
    struct sluice_passed_over *passed;         /* counts other members of tars; may be NULL */
    const atomic_bool *is_cancelled;           /* as sluice_manifest_scan()'s; may be NULL */
};

struct sluice_shard_summary {
    size_t num_shards;
    size_t num_damaged;  /* shards of which only members before the damage are listed */
    size_t num_labelled; /* samples that have a label */
    bool are_names;      /* labels are names of classes, which the builder's manifest has */
};

/* Adds the samples of these shards, in no order.  The builder's manifest has the options' fields,
 * as sluice_field_sources_name() makes them; their types are set where shards have values.  Logs an
 * error, with its byte, for each shard that is damaged, truncated or unreadable, and continues with
 * the others.  SLUICE_E_INVALID: a label is not an integer; SLUICE_E_UNSUPPORTED: records without a
 * column of images; err names it. SLUICE_E_CLOSED: it was cancelled.  SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_shards_list(const struct sluice_shard_options *options,
                                                 const struct sluice_shard_file *shards,
                                                 size_t num_shards,
                                                 struct sluice_manifest_builder *builder,
                                                 struct sluice_shard_summary *summary,
                                                 struct sluice_err *err);

/* The length of the key of a member: its name up to the first dot of its last part. */
size_t sluice_shard_key_len(const char *name);

#endif
