#ifndef SLUICE_OP_OP_H
#define SLUICE_OP_OP_H

#include "base/rng.h"
#include "image/resize.h"
#include "op/pipeline.h"

/* The interface of an op.  An op is one file, op_<name>.c, that ends in one struct sluice_op_type,
 * and one row in the registry (op.c).  Everybody else asks for its kind and its properties:
 *
 *   parser, canonical text, fingerprint, --help   params
 *   draws on any node                             draw
 *   running, fusion, cuts of files, the GPU       kind, and the record that draw fills in
 *   the plan                                      kind
 *
 * Threads: ops are constant once registered, and so is an op's params once parsed. */

#define SLUICE_MAX_OP_SIZE 8192u /* largest side that an op's text may ask for */
#define SLUICE_MAX_IMAGE_SIDE 65535u

struct sluice_size {
    uint32_t width, height;
};

/* --- parameters --- */

enum sluice_param_kind {
    SLUICE_PARAM_SIZE,   /* uint32_t: pixels, 1 to SLUICE_MAX_OP_SIZE */
    SLUICE_PARAM_NUMBER, /* double */
    SLUICE_PARAM_RANGE,  /* struct sluice_range: "MIN-MAX" */
    SLUICE_PARAM_RATIOS, /* struct sluice_range, of which a bound may be a fraction: "3/4-4/3" */
    SLUICE_PARAM_SCALE,  /* struct sluice_scale: "R:G:B/R:G:B" or "imagenet" */
};

struct sluice_range {
    double min, max;
};

/* (value - mean) / std, by channel. */
struct sluice_scale {
    double mean[3], std[3];
};

/* The first parameter of an op follows its name, "=VALUE"; others follow as ":name=VALUE" in any
 * order. */
struct sluice_op_param {
    const char *name; /* NULL ends the list */
    enum sluice_param_kind kind;
    size_t offset;              /* of the value in the op's params */
    const char *form;           /* the value in messages: "SIZE", "MIN-MAX" */
    const char *example;        /* the value in --help; NULL: not shown there */
    double min, max;            /* of a number and of each bound of a range */
    bool has_preset;            /* otherwise the text must have a value */
    struct sluice_range preset; /* of a number: min */
};

/* --- draws --- */

/* The part of an image that an op of kind SLUICE_OP_RESAMPLE keeps, and where it goes:
 *
 *     input --from--> box --to--> resized --keep--> part --at left, top--> out, black elsewhere
 */
struct sluice_resample {
    struct sluice_box from; /* of the input; filter taps do not reach outside it */
    struct sluice_size to;  /* the box's size after the resize; its own: copied */
    struct sluice_box keep; /* of the resized box */
    struct sluice_size out;
    uint32_t left, top; /* of the kept part in the result */
};

/* The record that an op drew for one sample: its kind says which member. */
union sluice_drawn {
    struct sluice_resample resample; /* SLUICE_OP_RESAMPLE */
    bool is_mirrored;                /* SLUICE_OP_MIRROR */
    uint8_t table[256];              /* SLUICE_OP_TABLE: the result for each u8 value */
};

/* The known size of a square result. */
static inline struct sluice_known_size sluice_known_square(uint32_t side)
{
    return (struct sluice_known_size){.square = side, .shorter = side};
}

/* --- the op --- */

struct sluice_op_type {
    const char *name;
    const char *help;   /* one line for --help */
    const char *column; /* in cost tables: the original's name of the stage, or torchvision's */
    const char *label;  /* in reports; NULL: the name */
    enum sluice_op_kind kind;
    bool is_random;    /* draws random numbers */
    bool takes_whole;  /* a resample whose `from` is always the whole input */
    bool is_copy;      /* a resample that never resizes: `to` is the size of `from` */
    unsigned numerics; /* raise it when the op gives other bytes for the same text, seed and image;
                          0 is not part of the fingerprint */
    const struct sluice_op_param *params; /* NULL: none */
    size_t params_size;

    /* After the parameters are read: derives values from them.  Returns NULL, or what is wrong with
     * the first parameter.  May be NULL. */
    const char *(*prepare)(void *params);

    /* Fills in the kind's record for an image of this size (both sides at least 1).  `rng` is the
     * op's own for this sample.  NULL for kinds without a record. */
    void (*draw)(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn);

    /* The known size of the result, from the known size of the input; NULL: the same. */
    struct sluice_known_size (*known_size)(const void *params, struct sluice_known_size in);
};

/* An op in a pipeline. */
struct sluice_op {
    const struct sluice_op_type *type;
    void *params;   /* owned; type->params_size bytes, or NULL */
    unsigned index; /* in its pipeline: part of the draws' key */
};

/* --- the registry --- */

/* Adds an op to those that a pipeline may have; `type` is borrowed for good.  Call it before
 * other threads parse pipelines.  SLUICE_E_INVALID: the name is taken, or the registry is full. */
SLUICE_MUST_USE sluice_status sluice_op_register(const struct sluice_op_type *type,
                                                 struct sluice_err *err);
/* NULL: unknown name. */
const struct sluice_op_type *sluice_op_type_find(const char *name, size_t len);
/* "; did you mean ...? The ops are ...", for a name that is not an op's. */
void sluice_op_type_suggest(const char *name, size_t len, char *out, size_t room);

/* --- what the pipeline asks of an op --- */

/* Draws for the sample of `key`. */
void sluice_op_draw(const struct sluice_op *op, const struct sluice_draw_key *key,
                    struct sluice_size in, union sluice_drawn *drawn);

/* The smallest size of an image with these proportions whose shorter side is `shorter`: the other
 * side is truncated, as torchvision's Resize(int) does. */
struct sluice_size sluice_size_with_shorter(uint32_t shorter, struct sluice_size in);

/* Whether `second`, a copy, keeps only pixels of what `first` makes, and `first` fills its result;
 * then *both is the two in one. */
bool sluice_resample_join(const struct sluice_resample *first, const struct sluice_resample *second,
                          struct sluice_resample *both);

/* --- text --- */

/* The text of a pipeline as the parser walks it.  Positions count from 1. */
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

/* Reads what stands after the name of `op`, whose type is set, into its params (op_params.c). */
SLUICE_MUST_USE sluice_status sluice_op_parse(struct sluice_op *op, struct sluice_spec_text *text,
                                              struct sluice_err *err);
/* The canonical text after the name, "" or "=...": every parameter spelled out. */
void sluice_op_print(const struct sluice_op *op, char *text, size_t room);
/* "=224:scale=0.08-1": the examples of its parameters. */
void sluice_op_print_example(const struct sluice_op_type *type, char *text, size_t room);
void sluice_op_clear(struct sluice_op *op); /* idempotent; fine on {0} */

#endif
