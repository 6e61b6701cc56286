#ifndef SLUICE_PLAN_COST_FOLDER_H
#define SLUICE_PLAN_COST_FOLDER_H

#include "base/error.h"
#include "datasets/manifest/manifest.h"
#include "op/pipeline.h"
#include "plan/sample_cost.h"

/* Of which pipeline and dataset a profile's folder is: what its cost_model.json says.  Where there
 * is none, or one of before that does not say, a prep_sizes.csv with the columns of the default
 * pipeline is of that one, at the size that its rows have.
 *
 * Threads: pure but for the files. */

#define SLUICE_DEFAULT_PIPELINE                                                                    \
    "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet"

/* A new pipeline.  SLUICE_E_NOT_FOUND: no profile is there; SLUICE_E_INVALID: its columns are of
 * another pipeline, and nothing says of which; or an error of the two files. */
SLUICE_MUST_USE sluice_status sluice_cost_folder_pipeline(const char *folder,
                                                          struct sluice_pipeline **pipeline,
                                                          struct sluice_err *err);

/* SLUICE_E_INVALID names the folder, and both pipelines by text and fingerprint, where the profile
 * is of another pipeline or size than this; else as above. */
SLUICE_MUST_USE sluice_status sluice_cost_folder_check(const char *folder,
                                                       const struct sluice_pipeline *pipeline,
                                                       struct sluice_err *err);

/* Whether the bytes of each stage are those that the pipeline makes; what was not decoded is left
 * out.  The original's, of pickled objects, may be some more.  SLUICE_E_INVALID names the row and
 * the op; `name` is the file or the folder. */
SLUICE_MUST_USE sluice_status sluice_cost_folder_check_sizes(const char *name,
                                                             const struct sluice_pipeline *pipeline,
                                                             const struct sluice_cost_table *table,
                                                             struct sluice_err *err);

/* The use that a profile is read for.  All is borrowed. */
struct sluice_cost_folder_use {
    const struct sluice_pipeline *pipeline;
    /* The training subset: its ids, of which the first num_used are asked for.  NULL: not known. */
    const struct sluice_manifest *manifest;
    const uint32_t *ids;
    size_t num_used, num_total;
};

/* Reads the folder's table; it has a row for each sample, or for each that is used.
 * SLUICE_E_INVALID: it is of another pipeline or size, of another dataset (the error gives both
 * ids), has another number of rows, or sizes that cannot be.  Where the folder does not say of
 * which dataset it is, the files must have the lengths of its rows; what cannot be checked is a
 * line in the log. */
SLUICE_MUST_USE sluice_status sluice_cost_folder_read(const char *folder,
                                                      const struct sluice_cost_folder_use *use,
                                                      struct sluice_cost_table *table,
                                                      struct sluice_err *err);

#endif
