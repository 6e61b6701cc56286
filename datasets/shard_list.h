#ifndef SLUICE_DATASETS_SHARD_LIST_H
#define SLUICE_DATASETS_SHARD_LIST_H

#include "base/error.h"
#include "datasets/manifest_builder.h"

#include <stddef.h>
#include <stdint.h>

/* The samples in tars, as rows of a manifest.
 *
 * WebDataset's rule (https://github.com/webdataset/webdataset): members whose names are alike up to
 * the first dot of the last part are one sample, of which KEY.cls holds the label, an integer.
 * Members with the suffix of an image are samples here; two of one key are two, with one label.
 * Other members, and those whose names begin with a dot, are passed over.  Of two of the same name
 * the later one counts, as for tar(1).
 *
 * Threads: called from one; reads several tars at a time. */

/* The label of a row that has none yet. */
#define SLUICE_NO_LABEL UINT32_MAX

struct sluice_shard_file {
    char *path; /* relative to the root */
    uint64_t bytes;
    int64_t mtime_ns;
};

struct sluice_shard_summary {
    size_t num_shards;
    size_t num_damaged;  /* of which only members before the damage are listed */
    size_t num_labelled; /* samples with a .cls */
};

/* Adds the samples in these tars, in no order.  A damaged or cut tar is an error in the
 * log, with the byte where it is, and so is one that cannot be read; the rest goes on.
 * SLUICE_E_INVALID: a .cls is no integer; err names it.  SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_shards_list(const char *root,
                                                 const struct sluice_shard_file *shards,
                                                 size_t num_shards, unsigned num_threads,
                                                 struct sluice_manifest_builder *builder,
                                                 struct sluice_shard_summary *summary,
                                                 struct sluice_err *err);

/* The length of the key of a member: its name up to the first dot of its last part. */
size_t sluice_shard_key_len(const char *name);

#endif
