#ifndef SLUICE_PIPELINE_OP_H
#define SLUICE_PIPELINE_OP_H

#include "image/resize.h"
#include "pipeline/pipeline.h"

/* What an op is to the pipeline: a row of functions and its constants.
 *
 * There are three families.  decode makes the first image; exif_transpose, which is of its family,
 * may follow and says that decode turns it upright.  An image op maps one
 * u8 image to another, whose size follows from the input's size and the draws
 * alone; it writes to memory that the pipeline chooses, so that the last one
 * can write straight into a batch.  A tensor op maps values and ends as one
 * table (op_tensor.c).
 *
 * A new op is one file op_<name>.c, one row in types[] (op.c) and, if
 * its results differ from what the same text gave before, a new numerics version.
 *
 * Threads: ops are constant once parsed. */

/* Part of every fingerprint.  Raise it whenever any op gives other bytes for the
 * same text, seed and image than before. */
#define SLUICE_NUMERICS_VERSION 1

#define SLUICE_MAX_OP_SIZE 8192u /* largest side that an op's text may ask for */
#define SLUICE_MAX_IMAGE_SIDE 65535u

struct sluice_op;
struct sluice_spec_text;

enum sluice_op_family { SLUICE_OP_DECODE, SLUICE_OP_IMAGE, SLUICE_OP_TENSOR };

struct sluice_size {
    uint32_t width, height;
};

/* What an image op works with at one sample. */
struct sluice_op_context {
    const struct sluice_draw_key *key;
    unsigned index; /* of the op in its pipeline: part of the draws' name */
    struct sluice_resizer *resizer;
};

struct sluice_op_type {
    const char *name;
    enum sluice_op_family family;
    /* For --help and messages: what may stand after the name, "" or "=...", and what that does. */
    const char *example, *help;

    /* Reads what stands after the name (`text` stands past a '=' if `has_value`)
     * and fills in the op's constants. */
    sluice_status (*parse)(struct sluice_op *op, struct sluice_spec_text *text, bool has_value,
                           struct sluice_err *err);

    /* The canonical text after the name, "" or "=...". */
    void (*print)(const struct sluice_op *op, char *text, size_t room);

    /* Image ops: the size of the result.  May exceed SLUICE_MAX_IMAGE_SIDE, which the
     * caller checks. */
    struct sluice_size (*out_size)(const struct sluice_op *op, struct sluice_size in);

    /* Image ops: the result, mirrored if `flip`, to out (packed rows, out_size()). */
    sluice_status (*apply)(const struct sluice_op *op, const struct sluice_op_context *context,
                           const struct sluice_image_view *in, bool flip, uint8_t *out,
                           struct sluice_err *err);
};

struct sluice_op {
    const struct sluice_op_type *type;
    uint32_t size; /* random_resized_crop, resize, center_crop */
    double scale_min, scale_max, ratio_min, ratio_max;
    double log_ratio_min, log_ratio_max;
    double probability;     /* hflip */
    double mean[3], std[3]; /* normalize */
};

extern const struct sluice_op_type sluice_op_decode;
extern const struct sluice_op_type sluice_op_exif_transpose;
extern const struct sluice_op_type sluice_op_random_resized_crop;
extern const struct sluice_op_type sluice_op_resize;
extern const struct sluice_op_type sluice_op_center_crop;
extern const struct sluice_op_type sluice_op_hflip;
extern const struct sluice_op_type sluice_op_to_tensor;
extern const struct sluice_op_type sluice_op_normalize;

/* NULL if there is no op of that name. */
const struct sluice_op_type *sluice_op_type_find(const char *name, size_t len);
/* "; did you mean ...? The ops are ...", of a name that there is not. */
void sluice_op_type_suggest(const char *name, size_t len, char *out, size_t room);

/* The draws of random_resized_crop; `flip` stays false. */
struct sluice_draws sluice_crop_draw(const struct sluice_op *op, const struct sluice_draw_key *key,
                                     unsigned index, struct sluice_size in);
/* What center_crop keeps of an image; all of it where that is smaller. */
struct sluice_box sluice_center_box(const struct sluice_op *op, struct sluice_size in);
/* Its result from that box alone, padded and mirrored. */
void sluice_center_place(const struct sluice_op *op, const struct sluice_image_view *box, bool flip,
                         uint8_t *out);
bool sluice_flip_draw(const struct sluice_op *op, const struct sluice_draw_key *key,
                      unsigned index);

/* Copies width x height pixels, mirrored left to right if `flip`. */
void sluice_copy_rgb(const struct sluice_image_view *in, bool flip, uint8_t *out,
                     size_t out_stride);

/* The tables of to_tensor alone and of to_tensor with `normalize` (NULL: without). */
void sluice_tensor_table(const struct sluice_op *normalize, sluice_pipeline_table table);

/* False if two u8 values meet in one float, or out of order: nothing could be taken back. */
bool sluice_tensor_table_is_invertible(const sluice_pipeline_table table);

/* 3 x height x width values back to height x width x 3 u8 (image/lookup.h is the way there).
 * SLUICE_E_CORRUPT: a value that the table does not hold. */
sluice_status sluice_tensor_to_u8(const sluice_pipeline_table table, const float *values,
                                  struct sluice_size size, uint8_t *out, struct sluice_err *err);

/* The op normalize on `len` values of each channel, in torch's float32 arithmetic. */
void sluice_tensor_normalize(const struct sluice_op *normalize, const float *in, size_t len,
                             float *out);

/* Text as the parser walks it.  Positions count from 1. */
struct sluice_spec_text {
    const char *start, *at;
    unsigned op;         /* from 1, for messages */
    const char *op_name; /* borrowed; not NUL-terminated */
    size_t op_name_len;
};

/* SLUICE_E_INVALID with "op 2 (hflip) at character 8: " before the words. */
sluice_status sluice_spec_fail(const struct sluice_spec_text *text, struct sluice_err *err,
                               const char *fmt, ...) SLUICE_PRINTF(3, 4);
bool sluice_spec_accept(struct sluice_spec_text *text, const char *token);
/* "; did you mean ...?" for the word at the position, up to a '=', ':' or ','; known: ends with
 * NULL. */
void sluice_spec_suggest(const struct sluice_spec_text *text, const char *const *known, char *out,
                         size_t room);

/* A whole number in [1, SLUICE_MAX_OP_SIZE]. */
SLUICE_MUST_USE sluice_status sluice_spec_size(struct sluice_spec_text *text, uint32_t *size,
                                               struct sluice_err *err);

/* A plain decimal ("0.08"): 0 or in [0.0001, 1000000]. */
SLUICE_MUST_USE sluice_status sluice_spec_number(struct sluice_spec_text *text, double *number,
                                                 struct sluice_err *err);

/* The shortest plain decimal that reads back as `number`; room >= 32. */
void sluice_print_number(double number, char *text, size_t room);

#endif
