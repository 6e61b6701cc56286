#ifndef SLUICE_DATASETS_SHARDS_SHARD_LIST_H
#define SLUICE_DATASETS_SHARDS_SHARD_LIST_H

#include "base/error.h"
#include "datasets/manifest/builder.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The samples in shards, as rows of a manifest.
 *
 * Tars, by WebDataset's rule (https://github.com/webdataset/webdataset): members whose names are
 * alike up to the first dot of the last part are one sample, of which KEY.cls holds the label, an
 * integer; a .cls of a key without an image is an error.  Members with the suffix of an image are
 * samples here; two of one key are two, with one label.  Other members are counted, and those whose
 * names begin with a dot passed over.  Of two of the same name the later one counts, as for tar(1).
 *
 * Shards of records (records.h), MDS and LitData's: record 17 of 1000 is the sample "0017.jpg" of
 * its shard, by the suffix of what its bytes begin as.  Its image is the column of whole files of
 * images, or, where there is none, the one of bytes; of several each is a sample,
 * "0017.COLUMN.jpg". Its label is the first of the columns `label`, `class`, `cls` and `target`
 * that is there, of integers or of texts, which are names of classes; a shard with other columns of
 * these kinds alone is an error.
 *
 * Threads: called from one; reads several shards at a time. */

/* The label of a row that has none yet. */
#define SLUICE_NO_LABEL UINT32_MAX

struct sluice_columns;
struct sluice_store;

struct sluice_shard_file {
    char *path; /* relative to the root; .tar is a tar, anything else has records */
    uint64_t bytes;
    int64_t mtime_ns;                     /* or the version that a store lists */
    const struct sluice_columns *columns; /* of its records; NULL: the shard says */
};

struct sluice_shard_options {
    const char *root;
    struct sluice_store *store; /* which reads them, by ranges; NULL: they are files in `root` */
    unsigned num_threads;       /* 0: one for each CPU */
    /* Source of the labels.  In tars: a key of the object in KEY.json, which replaces KEY.cls; in
     * records: a column.  "": no labels.  NULL: as above. */
    const char *label_key;
    struct sluice_passed_over *passed; /* counts other members of tars; may be NULL */
    const atomic_bool *is_cancelled;   /* as sluice_manifest_scan()'s; may be NULL */
};

struct sluice_shard_summary {
    size_t num_shards;
    size_t num_damaged;  /* of which only members before the damage are listed */
    size_t num_labelled; /* samples that have a label */
    bool are_names;      /* labels are names of classes, which the builder's manifest has */
};

/* Adds the samples in these shards, in no order.  A damaged or cut shard is an error in the
 * log, with the byte where it is, and so is one that cannot be read; the rest goes on.
 * SLUICE_E_INVALID: a label is no integer; SLUICE_E_UNSUPPORTED: records without a column of
 * images; err names it.  SLUICE_E_CLOSED: it was cancelled.  SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_shards_list(const struct sluice_shard_options *options,
                                                 const struct sluice_shard_file *shards,
                                                 size_t num_shards,
                                                 struct sluice_manifest_builder *builder,
                                                 struct sluice_shard_summary *summary,
                                                 struct sluice_err *err);

/* The length of the key of a member: its name up to the first dot of its last part. */
size_t sluice_shard_key_len(const char *name);

#endif
