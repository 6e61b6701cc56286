#ifndef SLUICE_DATASETS_TOOLS_PACK_H
#define SLUICE_DATASETS_TOOLS_PACK_H

#include "base/error.h"
#include "datasets/manifest/manifest.h"

#include <stddef.h>
#include <stdint.h>

/* Makes tars of a dataset in a folder, and a folder of tars.
 *
 * The promise: the same samples with the same labels in the same order, so that both have one
 * digest; and the same folder gives the same bytes.
 *
 * Threads: each call from one thread. */

struct sluice_pack_summary {
    size_t num_samples, num_shards;
    uint64_t bytes; /* of the tars, or of the images */
};

/* Writes OUT/shard-000000.tar, ... (in the folders of their splits if some are of val), cut behind
 * the sample with which a tar reaches shard_bytes, with KEY.cls behind the images of a key, as in
 * shard_list.h, the values of fields (pack_fields.h), and
 * OUT/sluice-classes.txt.  OUT is made if need be.
 *
 * SLUICE_E_INVALID: OUT is not empty, or images of one key have different labels or
 * values;
 * SLUICE_E_UNSUPPORTED: samples that are members of tars, or splits that are not their folders;
 * SLUICE_E_STALE: a file is not what the manifest says; what reading or writing says.  What was
 * written stays. */
SLUICE_MUST_USE sluice_status sluice_pack(const char *root, const struct sluice_manifest *manifest,
                                          const char *out, uint64_t shard_bytes,
                                          struct sluice_pack_summary *summary,
                                          struct sluice_err *err);

/* Writes the images of a manifest, members of tars and plain files, to OUT at the paths that they
 * have without their tars, with OUT/labels.csv and OUT/sluice-classes.txt, which give them the same
 * labels, and fields as columns.  Where that is another order of the samples, a
 * warning says so.
 *
 * SLUICE_E_INVALID: two samples have one path without their tars; nothing is written then;
 * SLUICE_E_UNSUPPORTED: a value has a NUL byte, or a field has the name of a column.  Else as
 * above. */
SLUICE_MUST_USE sluice_status sluice_unpack(const char *root,
                                            const struct sluice_manifest *manifest, const char *out,
                                            struct sluice_pack_summary *summary,
                                            struct sluice_err *err);

#endif
