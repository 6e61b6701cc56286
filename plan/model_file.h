#ifndef SLUICE_PLAN_MODEL_FILE_H
#define SLUICE_PLAN_MODEL_FILE_H

#include "op/pipeline.h"
#include "plan/choice_cost.h"
#include "plan/transport_cost.h"

/* cost_model.json of a profile's folder: the fitted model, and the machines at the time of the
 * fit.
 *
 *     {"sluice_cost_model": 1, "samples": 200, "link_bytes_per_s": 1.2e9, "storage_cores": 4,
 *      "compute_cores": 8, "pipeline": "decode,..", "fingerprint": "0123456789abcdef",
 *      "output_size": 224, "dataset": "00112233445566778899aabbccddeeff", "jpeg_index": false,
 *      "disk": {"sample": .., "file_byte": ..},
 *      "transport": {"storage_sample": .., "storage_job": .., "storage_byte": ..,
 *                    "compute_sample": .., "compute_job": .., "compute_byte": ..,
 *                    "receive_sample": .., "receive_byte": ..,
 *                    "batch_sample": .., "batch_byte": ..},
 *      "weights": {"window": {"raw@0": {"storage_cpu": {"sample": ..}, "compute_cpu": {..}}, ..}}}
 *
 * A missing weight is 0.  A choice with +gpu has weights for "gpu" as well; if it has no weights in
 * the file, they are the defaults (sluice_choice_model_set_gpu()).  A missing "transport" means the
 * default one, a missing "jpeg_index" false.  "pipeline" is the canonical text of the ops that were
 * profiled, and "dataset" the id of the dataset (datasets/manifest/manifest.h); files of older
 * versions lack both (cost_folder.h).
 *
 * Threads: pure, except for the file. */

#define SLUICE_MODEL_FILE "cost_model.json"

struct sluice_model_file {
    struct sluice_choice_model model;
    struct sluice_transport_cost transport;
    uint64_t num_samples;    /* that the model was fitted to */
    double link_bytes_per_s; /* 0: not measured, like the next two */
    double storage_cores, compute_cores;
    char dataset_id[33]; /* of the profiled dataset; "": unknown.  Only written; read the origin */
};

/* Writes the file atomically; the folder must exist. */
SLUICE_MUST_USE sluice_status sluice_model_file_write(const char *folder,
                                                      const struct sluice_pipeline *pipeline,
                                                      const struct sluice_model_file *file,
                                                      struct sluice_err *err);

/* Reads the weights of these choices, and ignores those of others.  SLUICE_E_NOT_FOUND: the folder
 * has no such file.  SLUICE_E_UNSUPPORTED: another version.  SLUICE_E_CORRUPT: not such a file, or
 * a number in it is negative or not finite.  *file is untouched on failure. */
SLUICE_MUST_USE sluice_status sluice_model_file_read(const char *folder,
                                                     const struct sluice_choices *choices,
                                                     struct sluice_model_file *file,
                                                     struct sluice_err *err);

/* The pipeline and dataset that a file names.  An empty text: it names none; without a pipeline
 * the next two fields are 0. */
struct sluice_model_origin {
    char pipeline[1024];
    uint64_t fingerprint;
    uint32_t output_size;
    char dataset_id[33];
};
/* The same errors. */
SLUICE_MUST_USE sluice_status sluice_model_file_read_origin(const char *folder,
                                                            struct sluice_model_origin *origin,
                                                            struct sluice_err *err);

#endif
