#ifndef SLUICE_OP_FORM_H
#define SLUICE_OP_FORM_H

#include "base/error.h"
#include "op/features.h"
#include "op/sample.h"
#include "sluice/sluice.h"

#include <stdbool.h>
#include <stdint.h>

/* The interface of a form: how a sample crosses the wire at a split.  A form is one file,
 * form_<name>.c, that ends in one struct sluice_form_type, and one row in the table (form.c). run()
 * leaves samples in plain forms: the file, u8 pixels, float32 values.  Each other form codes a
 * plain one; sample->coding points to its type.
 *
 * Threads: pure functions and constants. */

struct sluice_box; /* image/image.h */
struct sluice_rgb;

struct sluice_form_options {
    bool has_optimal_huffman;  /* smaller crops for more CPU */
    uint32_t restart_interval; /* of crops (image/jpeg/crop.h) */
};

/* The default cost of a coded form, used until it is measured: weights by file class for the
 * features of a sample. In seconds of one core of an AMD EPYC (Zen 4); other machines have similar
 * ratios.  NULL: no cost. */
struct sluice_form_cost {
    const struct sluice_choice_weights *encode; /* of pixels: after the ops up to the split */
    const struct sluice_choice_weights *open;   /* at the other end, before ... */
    const struct sluice_choice_weights *decode; /* ... all ops that are left */
    const struct sluice_choice_weights *bytes;  /* of payload */
    double (*exact_bytes)(const struct sluice_sample_facts *facts); /* instead of bytes */
};

struct sluice_form_type {
    enum sluice_form form;
    const char *name;      /* in files, reports and logs: "jpeg_crop" */
    const char *brief;     /* in a terminal's live line: "crop" */
    const char *words;     /* for a person: "JPEG crops" */
    enum sluice_kind kind; /* of its data */
    bool is_plain;

    /* Whether samples of the pipeline can have this form at splits of its kind; NULL: yes. */
    bool (*suits)(const struct sluice_pipeline *pipeline);
    /* Whether the plan may choose the form at a split that can carry it; NULL: yes. */
    bool (*is_offered)(const struct sluice_pipeline *pipeline, unsigned split);

    /* --- forms that are not plain --- */

    bool is_work;         /* encoding runs on PREP workers; otherwise on IO workers */
    bool needs_index;     /* made only from a file with its index */
    bool is_window;       /* a file of a part of its image: decoded with the resample only */
    bool retry_as_file;   /* a payload that does not decode is asked for again, as the file */
    unsigned max_percent; /* the largest payload, in percent of the file */
    struct sluice_form_cost cost;

    /* Whether encoding at this split reads only the box of the image that the resample after decode
     * needs. */
    bool (*takes_box)(const struct sluice_pipeline *pipeline, unsigned split);

    /* Checks the data of a sample whose form and split are already checked.  SLUICE_E_CORRUPT: the
     * data is invalid in this form.  NULL: open() checks it. */
    sluice_status (*check)(const struct sluice_pipeline *pipeline,
                           const struct sluice_sample *sample, struct sluice_err *err);

    /* Runs ops up to `split` and codes the result.  SLUICE_E_AGAIN: the result would not be
     * smaller.  On failure the sample stands after the last op that succeeded. */
    sluice_status (*encode)(const struct sluice_pipeline *pipeline, struct sluice_scratch *scratch,
                            struct sluice_sample *sample, unsigned split,
                            const struct sluice_form_options *options, struct sluice_err *err);

    /* Decodes a sample to the plain form at the same split, unless the next op reads the form
     * itself.  NULL: the next op always reads it.  scratch is not NULL for pixels. */
    sluice_status (*open)(const struct sluice_pipeline *pipeline, struct sluice_scratch *scratch,
                          struct sluice_sample *sample, struct sluice_err *err);

    /* Reads the box that the resample needs, at split 1, from pixels that open() left coded. */
    sluice_status (*read_box)(struct sluice_scratch *scratch, const struct sluice_sample *sample,
                              const struct sluice_box *box, struct sluice_rgb *rgb,
                              struct sluice_err *err);
};

/* Adds a form to the table, sets its number (type->form) and borrows it until the process ends.
 * The other end must use the same number: register in the same order there. Call it before other
 * threads run.  SLUICE_E_INVALID: the name is taken, or the table is full. */
SLUICE_MUST_USE sluice_status sluice_form_register(struct sluice_form_type *type,
                                                   struct sluice_err *err);
unsigned sluice_num_forms(void);

/* The form of this name; SLUICE_MAX_FORMS: unknown name. */
enum sluice_form sluice_form_find(const char *name);

/* The type of a form < sluice_num_forms(). */
const struct sluice_form_type *sluice_form_type(enum sluice_form form);

/* The value of sample->coding for a sample in this form: NULL for a plain one. */
const struct sluice_form_type *sluice_form_coding(enum sluice_form form);

/* The plain form of a kind. */
enum sluice_form sluice_form_plain(enum sluice_kind kind);

/* Whether a sample can have this form at this split. */
bool sluice_form_can_carry(const struct sluice_form_type *type,
                           const struct sluice_pipeline *pipeline, unsigned split);

/* takes_box() of the form; false for a plain one. */
bool sluice_form_takes_box(const struct sluice_form_type *type,
                           const struct sluice_pipeline *pipeline, unsigned split);

/* Whether a sample is the file of a part of its image. */
static inline bool sluice_sample_is_window(const struct sluice_sample *sample)
{
    return sample->coding && sample->coding->is_window;
}

/* The form that a sample is in. */
enum sluice_form sluice_sample_form(const struct sluice_sample *sample);

/* Runs a sample to `split` and encodes it in `form`; a plain form needs only the run.  Returns the
 * statuses of sluice_pipeline_run() and of the form's encode(). */
SLUICE_MUST_USE sluice_status sluice_sample_encode(const struct sluice_pipeline *pipeline,
                                                   struct sluice_scratch *scratch,
                                                   struct sluice_sample *sample, unsigned split,
                                                   enum sluice_form form,
                                                   const struct sluice_form_options *options,
                                                   struct sluice_err *err);

/* Decodes a sample to its plain form, unless the next op reads the form itself.  SLUICE_E_CORRUPT:
 * the bytes are invalid in this form; the sample is unchanged. */
SLUICE_MUST_USE sluice_status sluice_sample_open(const struct sluice_pipeline *pipeline,
                                                 struct sluice_scratch *scratch,
                                                 struct sluice_sample *sample,
                                                 struct sluice_err *err);

#endif
