#ifndef SLUICE_PLAN_COST_FOLDER_H
#define SLUICE_PLAN_COST_FOLDER_H

#include "base/error.h"
#include "datasets/manifest/manifest.h"
#include "op/pipeline.h"
#include "plan/sample_cost.h"

/* Finds the pipeline and dataset that a profile's folder belongs to, from its cost_model.json.  If
 * that file is missing, or is of an older version that does not name a pipeline, a prep_sizes.csv
 * with the columns of the default pipeline belongs to the default pipeline, at the size of its
 * rows.
 *
 * Threads: pure, except for reading the files. */

#define SLUICE_DEFAULT_PIPELINE                                                                    \
    "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet"

/* Returns the profile's pipeline as a new one.  SLUICE_E_NOT_FOUND: there is no profile.
 * SLUICE_E_INVALID: its columns are of another pipeline than the default, and no file names that
 * pipeline.  Or an error of reading the two files. */
SLUICE_MUST_USE sluice_status sluice_cost_folder_pipeline(const char *folder,
                                                          struct sluice_pipeline **pipeline,
                                                          struct sluice_err *err);

/* SLUICE_E_INVALID: the profile is of another pipeline or size; the error names the folder, and
 * both pipelines by text and fingerprint.  Other errors as above. */
SLUICE_MUST_USE sluice_status sluice_cost_folder_check(const char *folder,
                                                       const struct sluice_pipeline *pipeline,
                                                       struct sluice_err *err);

/* Checks that the bytes of each stage are those that the pipeline makes; skips samples that were
 * not decoded.  Tables of the original implementation, which measures pickled objects, may have
 * slightly more.  SLUICE_E_INVALID names the row and the op; `name`: the file or folder, for the
 * error. */
SLUICE_MUST_USE sluice_status sluice_cost_folder_check_sizes(const char *name,
                                                             const struct sluice_pipeline *pipeline,
                                                             const struct sluice_cost_table *table,
                                                             struct sluice_err *err);

/* The use that a profile is read for.  All is borrowed. */
struct sluice_cost_folder_use {
    const struct sluice_pipeline *pipeline;
    /* The training subset: its ids, of which the first num_used are used.  NULL: unknown. */
    const struct sluice_manifest *manifest;
    const uint32_t *ids;
    size_t num_used, num_total;
};

/* Reads the folder's table, which has a row for each sample, or for each used one.
 * SLUICE_E_INVALID: the table is of another pipeline or size, of another dataset (the error gives
 * both ids), has another number of rows, or impossible sizes.  If the folder does not name its
 * dataset, the lengths of files must be those of the rows; checks that are not possible are
 * logged. */
SLUICE_MUST_USE sluice_status sluice_cost_folder_read(const char *folder,
                                                      const struct sluice_cost_folder_use *use,
                                                      struct sluice_cost_table *table,
                                                      struct sluice_err *err);

#endif
