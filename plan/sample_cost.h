#ifndef SLUICE_PLAN_SAMPLE_COST_H
#define SLUICE_PLAN_SAMPLE_COST_H

#include "base/error.h"
#include "op/pipeline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The costs of each sample of a profile, and their two files, in the formats of the
 * original implementation:
 *
 *   prep_sizes.csv  ';'-separated: index, raw, decoding, original_shape, RandomResizedCrop,
 *                   RandomHorizontalFlip, ToTensor, Normalize (bytes at each stage;
 *                   original_shape is "(width, height)")
 *   prep_times.csv  ','-separated: index, loader, decoding, RandomResizedCrop,
 *                   RandomHorizontalFlip, ToTensor, Normalize (seconds; `loader` is reading the
 *                   file)
 *
 * These are the columns of the default pipeline.  Other pipelines have a column for each of their
 * ops, in their order, named after torchvision's class (Resize, CenterCrop).
 *
 * Row i is sample i of the training subset.
 *
 * Threads: a table belongs to one thread at a time; reading it is pure. */

/* Stage k is the sample at split k.  The files have room for pipelines of 8 ops. */
#define SLUICE_MAX_STAGES (SLUICE_MAX_OPS + 1)

struct sluice_sample_cost {
    uint64_t bytes[SLUICE_MAX_STAGES]; /* of payload; [0] is the file */
    double op_s[SLUICE_MAX_STAGES];    /* [0]: reading the file; [k]: the op that makes stage k */
    uint32_t width, height;            /* of the decoded image; 0: unknown */
    uint8_t coding;                    /* image/codecs/coding.h; not in the files */
};

struct sluice_cost_table {
    struct sluice_sample_cost *rows; /* owned */
    size_t num_rows;
    unsigned num_stages; /* ops of the pipeline + 1 */
};

void sluice_cost_table_clear(struct sluice_cost_table *table);

/* Allocates room for num_rows rows of this pipeline, all {0}; table->num_rows stays 0.
 * SLUICE_E_INVALID: the pipeline has more ops than a table has room for. */
SLUICE_MUST_USE sluice_status sluice_cost_table_init(struct sluice_cost_table *table,
                                                     const struct sluice_pipeline *pipeline,
                                                     size_t num_rows, struct sluice_err *err);

/* Whether row i is in an evenly spread subset of num_samples of num_rows; num_samples 0: all
 * are. */
bool sluice_cost_table_is_sampled(uint64_t i, uint64_t num_rows, uint64_t num_samples);

/* Reads FOLDER/prep_sizes.csv and FOLDER/prep_times.csv of this pipeline.  An error names file,
 * line and column.  A missing prep_times.csv is SLUICE_E_NOT_FOUND, with a remedy (profile, or
 * model the times).  cost_folder.h checks whether the files are of this pipeline. */
SLUICE_MUST_USE sluice_status sluice_cost_table_read(const char *folder,
                                                     const struct sluice_pipeline *pipeline,
                                                     struct sluice_cost_table *table,
                                                     struct sluice_err *err);

/* Read one of the two files; read_times needs the rows of read_sizes. */
SLUICE_MUST_USE sluice_status sluice_cost_table_read_sizes(const char *path,
                                                           const struct sluice_pipeline *pipeline,
                                                           struct sluice_cost_table *table,
                                                           struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_cost_table_read_times(const char *path,
                                                           const struct sluice_pipeline *pipeline,
                                                           struct sluice_cost_table *table,
                                                           struct sluice_err *err);

/* Fills op_s from bytes and pixels by a linear model (the constants and their
 * origin stand in the .c). */
void sluice_cost_table_model_times(struct sluice_cost_table *table,
                                   const struct sluice_pipeline *pipeline);

/* Writes both files into `folder`, which is created if it is missing; each is written atomically
 * (to a temporary file, then renamed). */
SLUICE_MUST_USE sluice_status sluice_cost_table_write(const char *folder,
                                                      const struct sluice_pipeline *pipeline,
                                                      const struct sluice_cost_table *table,
                                                      struct sluice_err *err);

#endif
