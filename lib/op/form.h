#ifndef SLUICE_OP_FORM_H
#define SLUICE_OP_FORM_H

#include "base/error.h"
#include "op/features.h"
#include "op/sample.h"
#include "sluice/sluice.h"

#include <stdbool.h>
#include <stdint.h>

/* The interface of a form: how a sample crosses the wire at a split.  A form is one file,
 * form_<name>.c, that ends in one struct sluice_form_type, and one row in the table (form.c).
 * Plain forms are what run() leaves: the file, u8 pixels, float32 values.  The others code a plain
 * one; a sample that stands in one of them points to its type (sample->coding).
 *
 * Threads: pure functions and constants. */

struct sluice_box; /* image/image.h */
struct sluice_rgb;

struct sluice_form_options {
    bool has_optimal_huffman;  /* smaller crops for more CPU */
    uint32_t restart_interval; /* of crops (image/jpeg/crop.h) */
};

/* The cost of a coded form by the features of a sample and the class of its file, used where
 * nothing was measured (seconds of one core of an AMD EPYC, Zen 4: the ratios travel).  NULL:
 * nothing. */
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

    /* Whether samples of the pipeline can come in it, at splits whose data is of its kind; NULL:
     * yes. */
    bool (*suits)(const struct sluice_pipeline *pipeline);
    /* Whether the plan may choose it at this split, where it can be carried; NULL: yes. */
    bool (*is_offered)(const struct sluice_pipeline *pipeline, unsigned split);

    /* --- forms that are not plain --- */

    bool is_work;         /* making it is work for PREP; otherwise a worker of IO does it */
    bool needs_index;     /* made of a file with its index only */
    bool is_window;       /* a file of a part of its image: decoded with the resample only */
    bool retry_as_file;   /* a payload that does not decode is asked for again, as the file */
    unsigned max_percent; /* of a file, what a payload has at most */
    struct sluice_form_cost cost;

    /* Whether making it at this split looks at no more than the box of the image that the resample
     * after decode needs. */
    bool (*takes_box)(const struct sluice_pipeline *pipeline, unsigned split);

    /* SLUICE_E_CORRUPT: a sample of this form cannot have such data.  Whether it can stand in the
     * form at its split was checked.  NULL: open() finds out. */
    sluice_status (*check)(const struct sluice_pipeline *pipeline,
                           const struct sluice_sample *sample, struct sluice_err *err);

    /* Runs ops up to `split` and codes the result.  SLUICE_E_AGAIN: it would not be smaller; any
     * failure leaves the sample as the last whole op made it. */
    sluice_status (*encode)(const struct sluice_pipeline *pipeline, struct sluice_scratch *scratch,
                            struct sluice_sample *sample, unsigned split,
                            const struct sluice_form_options *options, struct sluice_err *err);

    /* Makes the plain form of a sample at the same split, unless the op that comes reads the form
     * itself.  NULL: it always does.  scratch is not NULL for pixels. */
    sluice_status (*open)(const struct sluice_pipeline *pipeline, struct sluice_scratch *scratch,
                          struct sluice_sample *sample, struct sluice_err *err);

    /* Pixels at split 1 where open() leaves them: the box that the resample needs. */
    sluice_status (*read_box)(struct sluice_scratch *scratch, const struct sluice_sample *sample,
                              const struct sluice_box *box, struct sluice_rgb *rgb,
                              struct sluice_err *err);
};

/* Adds a form to those that samples may travel in, gives it a number of its own (type->form) and
 * borrows it for good.  The other end must know it by the same number: register in the same order.
 * Call it before other threads run.  SLUICE_E_INVALID: the name is taken, or the table is full. */
SLUICE_MUST_USE sluice_status sluice_form_register(struct sluice_form_type *type,
                                                   struct sluice_err *err);
unsigned sluice_num_forms(void);

/* The form of this name; SLUICE_MAX_FORMS: unknown name. */
enum sluice_form sluice_form_find(const char *name);

/* One of struct sluice_form_type; form < sluice_num_forms(). */
const struct sluice_form_type *sluice_form_type(enum sluice_form form);

/* The value of sample->coding for a sample in this form: NULL for a plain one. */
const struct sluice_form_type *sluice_form_coding(enum sluice_form form);

/* The plain form of a kind. */
enum sluice_form sluice_form_plain(enum sluice_kind kind);

/* Whether a sample can stand in the form at this split. */
bool sluice_form_can_carry(const struct sluice_form_type *type,
                           const struct sluice_pipeline *pipeline, unsigned split);

/* takes_box() of the form, which plain ones do not have. */
bool sluice_form_takes_box(const struct sluice_form_type *type,
                           const struct sluice_pipeline *pipeline, unsigned split);

/* Whether a sample is the file of a part of its image. */
static inline bool sluice_sample_is_window(const struct sluice_sample *sample)
{
    return sample->coding && sample->coding->is_window;
}

/* The form that a sample is in. */
enum sluice_form sluice_sample_form(const struct sluice_sample *sample);

/* Brings a sample to `split` and into `form`; where that is plain, it is only run.  Statuses as of
 * sluice_pipeline_run() and of the form's encode(). */
SLUICE_MUST_USE sluice_status sluice_sample_encode(const struct sluice_pipeline *pipeline,
                                                   struct sluice_scratch *scratch,
                                                   struct sluice_sample *sample, unsigned split,
                                                   enum sluice_form form,
                                                   const struct sluice_form_options *options,
                                                   struct sluice_err *err);

/* Makes the plain form of a sample, unless the op that comes reads the form itself.
 * SLUICE_E_CORRUPT: not such bytes.  The sample is as it was then. */
SLUICE_MUST_USE sluice_status sluice_sample_open(const struct sluice_pipeline *pipeline,
                                                 struct sluice_scratch *scratch,
                                                 struct sluice_sample *sample,
                                                 struct sluice_err *err);

#endif
