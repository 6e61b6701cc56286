#ifndef SLUICE_PLAN_FORM_TABLE_H
#define SLUICE_PLAN_FORM_TABLE_H

#include "base/error.h"
#include "plan/choices.h"
#include "plan/sample_facts.h"

#include <stddef.h>
#include <stdint.h>

/* Measurements of samples in the forms in which they can be requested, and their file,
 * prep_forms.csv, next to prep_sizes.csv and prep_times.csv: a line that names the version, one
 * that names the columns, and a line for each sample and choice, with ';' between fields:
 *
 *   index;epoch;file_bytes;width;height;coding;top;left;crop_height;crop_width;output_size;
 *   choice;bytes;storage_s;compute_s[;view_pixels]
 *
 * index is the sample's place in the training subset; coding and choice are names
 * (image/codecs/coding.h, choices.h); "-" stands for values that were not measured.
 * view_pixels is there if the pipeline has several views (sluice_sample_facts); a file of views that
 * lacks it, as of earlier versions, counts as one of a single view.
 *
 * Threads: a table belongs to one thread at a time. */

#define SLUICE_FORM_TABLE_FILE "prep_forms.csv"

struct sluice_form_row {
    uint64_t index;
    uint32_t epoch;
    struct sluice_sample_facts facts;
    uint8_t choice;              /* its place among the pipeline's choices */
    uint64_t bytes;              /* of payload */
    double storage_s, compute_s; /* of one core; NAN: not measured */
};

struct sluice_form_table {
    struct sluice_form_row *rows; /* owned */
    size_t num_rows, capacity;
};

void sluice_form_table_clear(struct sluice_form_table *table); /* idempotent; fine on {0} */

SLUICE_MUST_USE sluice_status sluice_form_table_add(struct sluice_form_table *table,
                                                    const struct sluice_form_row *row,
                                                    struct sluice_err *err);

/* Writes FOLDER/prep_forms.csv atomically; the folder must exist. */
SLUICE_MUST_USE sluice_status sluice_form_table_write(const char *folder,
                                                      const struct sluice_choices *choices,
                                                      const struct sluice_form_table *table,
                                                      struct sluice_err *err);

/* SLUICE_E_NOT_FOUND: the file is missing; SLUICE_E_CORRUPT names line and column.  *table is
 * untouched on failure. */
SLUICE_MUST_USE sluice_status sluice_form_table_read(const char *folder,
                                                     const struct sluice_choices *choices,
                                                     struct sluice_form_table *table,
                                                     struct sluice_err *err);

#endif
