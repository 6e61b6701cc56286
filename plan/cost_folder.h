#ifndef SLUICE_PLAN_COST_FOLDER_H
#define SLUICE_PLAN_COST_FOLDER_H

#include "base/error.h"
#include "pipeline/pipeline.h"

/* Of which pipeline a profile's folder is: what its cost_model.json says.  Where there is none, or
 * one of before that does not say, a prep_sizes.csv with the columns of the default pipeline is of
 * that one, at the size that its rows have.
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

#endif
