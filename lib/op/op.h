#ifndef SLUICE_OP_OP_H
#define SLUICE_OP_OP_H

#include "base/rng.h"
#include "image/kernel_call.h"
#include "image/resize.h"
#include "op/sample.h"

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
#define SLUICE_MAX_CHOSEN 32     /* ops that a choice may run on a sample */
#define SLUICE_MAX_NODES 256u    /* ops of a pipeline, those in parentheses included */
#define SLUICE_MAX_DEPTH 8u      /* of parentheses */
#define SLUICE_MAX_DRAWN_OPS 64u /* that run on one sample */

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
    SLUICE_PARAM_DRAWN,  /* struct sluice_number: "A", "A-B", "A-B/N", "C~A-B", ...: docs/RECIPES.md
                          */
    SLUICE_PARAM_WORD,   /* uint32_t: the number of the word among `words` */
    SLUICE_PARAM_EPOCHS, /* struct sluice_epochs: "epoch>=N", "epoch<N" or "A<=epoch<B" */
    SLUICE_PARAM_COLOR,  /* uint8_t[3]: "V" or "R/G/B", each 0 to 255 */
    SLUICE_PARAM_SIZES,  /* struct sluice_size: "SIZE", then its width is 0, or "HEIGHTxWIDTH" */
    SLUICE_PARAM_SIDES,  /* struct sluice_sides: "P", "X/Y" or "LEFT/TOP/RIGHT/BOTTOM", in pixels */
};

struct sluice_range {
    double min, max;
};

/* A number that each sample draws: `about`, plus one of [min, max]; with has_sign it is subtracted
 * in half of the samples.  It is uniform, or one of `steps` numbers at equal distances, or with a
 * deviation > 0 normal with this mean, clipped to [min, max]. */
struct sluice_number {
    double about, min, max;
    uint32_t steps; /* 0: any */
    bool has_sign;
    double mean, deviation;
};

/* Pixels at each side of an image, each 0 to SLUICE_MAX_OP_SIZE. */
struct sluice_sides {
    uint32_t left, top, right, bottom;
};

/* Epochs [from, end), not empty. */
struct sluice_epochs {
    uint32_t from, end;
};

/* Where versions of Pillow differ: whose pixels a pipeline makes (docs/NUMERICS.md). */
enum sluice_numerics {
    SLUICE_NUMERICS_PILLOW12, /* Pillow 9.4 to 12 */
    SLUICE_NUMERICS_PILLOW13,
};
struct sluice_decode_params {
    uint32_t numerics; /* enum sluice_numerics */
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
    size_t offset;       /* of the value in the op's params */
    const char *form;    /* the value in messages: "SIZE", "MIN-MAX" */
    const char *example; /* the value in --help; NULL: not shown there */
    double min, max;     /* of a number and of each bound of a range; min < 0: signed */
    bool has_preset;     /* otherwise the text must have a value */
    struct sluice_range
        preset;               /* of a number, a word and a color: min; of a drawn one: its bounds */
    const char *const *words; /* of a word: NULL-terminated */
    bool is_quiet; /* the canonical text leaves a word, a size, a number or a color out if it is the
                      preset */
};

struct sluice_op;

/* --- draws --- */

/* Pixels around an image: one color, its outer pixels again, or the image mirrored about its outer
 * pixels or about its edge, as NumPy's pad() has it.  torchvision's RandomCrop pads twice: every
 * image by `around`, and what is too small even so once more. */
enum sluice_padding_mode {
    SLUICE_PADDING_CONSTANT,
    SLUICE_PADDING_EDGE,
    SLUICE_PADDING_REFLECT,
    SLUICE_PADDING_SYMMETRIC,
};
struct sluice_padding {
    enum sluice_padding_mode mode;
    uint8_t color[3]; /* of CONSTANT */
    /* With CONSTANT these are not used. */
    uint32_t around;
    struct sluice_size in; /* of the image */
};

/* The words of a mode, by the enum. */
extern const char *const sluice_padding_modes[];

/* The part of an image that an op of kind SLUICE_OP_RESAMPLE keeps, and where it goes:
 *
 *     input --from--> box --to--> resized --keep--> part --at left, top--> out, padded elsewhere
 */
struct sluice_resample {
    struct sluice_box from; /* of the input; filter taps do not reach outside it */
    struct sluice_size to;  /* the box's size after the resize; its own: copied */
    struct sluice_box keep; /* of the resized box */
    struct sluice_size out;
    uint32_t left, top; /* of the kept part in the result */
    struct sluice_padding padding;
    enum sluice_resize_filter filter;
};

/* The mean of an image and of what branches make of it, by weights whose sum is 1. */
#define SLUICE_MAX_BRANCHES 8u
struct sluice_blend {
    unsigned num;                           /* of branches */
    uint8_t num_ops[SLUICE_MAX_BRANCHES];   /* of each; in a list of drawn ops they follow */
    float weights[SLUICE_MAX_BRANCHES + 1]; /* of the image, then of the branches */
};

/* The record that an op drew for one sample: its kind says which member. */
union sluice_drawn {
    struct sluice_blend blend;       /* SLUICE_OP_BLEND */
    struct sluice_resample resample; /* SLUICE_OP_RESAMPLE */
    bool is_mirrored;                /* SLUICE_OP_MIRROR */
    double values[10];               /* SLUICE_OP_TABLE, SLUICE_OP_PIXELS: the op's own */
};

/* Draws a number of a SLUICE_PARAM_DRAWN; one that is always the same takes no draw. */
double sluice_draw_number(struct sluice_rng *rng, const struct sluice_number *number);
/* The same of whole numbers: where it is uniform min and max may both come. */
double sluice_draw_whole(struct sluice_rng *rng, const struct sluice_number *number);

/* One of a choice's ops by their weights, of those that are not taken (NULL: of all); at least one
 * is not. */
uint8_t sluice_draw_child(const struct sluice_op *children, unsigned num_children,
                          const bool *is_taken, struct sluice_rng *rng);

/* All of them in an order that is drawn (Fisher-Yates); returns num_children. */
unsigned sluice_draw_order(unsigned num_children, struct sluice_rng *rng,
                           uint8_t chosen[SLUICE_MAX_CHOSEN]);

/* `choose` and `num_chosen` of a choice that runs all of its ops in order. */
unsigned sluice_choose_all(const void *params, const struct sluice_op *children,
                           unsigned num_children, struct sluice_rng *rng,
                           uint8_t chosen[SLUICE_MAX_CHOSEN]);
unsigned sluice_num_children(const void *params, unsigned num_children);

/* N(0, 1) by Box and Muller's transform, the same on every machine. */
double sluice_draw_normal(struct sluice_rng *rng);

/* --- pixels --- */

/* The pixels' statistics that a table may depend on. */
enum sluice_statistics {
    SLUICE_STATISTICS_NONE,
    SLUICE_STATISTICS_HISTOGRAM,
    SLUICE_STATISTICS_RANGE,
    SLUICE_STATISTICS_LUMA
};

struct sluice_pixel_statistics {
    uint64_t num_pixels;
    uint32_t histogram[3][256]; /* with SLUICE_STATISTICS_HISTOGRAM */
    uint8_t low[3], high[3];    /* with SLUICE_STATISTICS_RANGE: the values that pixels have */
    uint64_t
        luma_sum; /* with SLUICE_STATISTICS_LUMA: of (19595 R + 38470 G + 7471 B + 2^15) >> 16 */
};

/* The words of an op's filter, by enum sluice_resize_filter; the last is bilinear or bicubic, drawn
 * for each sample. */
extern const char *const sluice_resize_filters[];
enum sluice_resize_filter sluice_draw_filter(struct sluice_rng *rng, uint32_t word);

/* The known size of a result that is always this large. */
static inline struct sluice_known_size sluice_known_exactly(struct sluice_size size)
{
    return (struct sluice_known_size){.width = size.width, .height = size.height};
}

/* A crop's SLUICE_PARAM_SIZES: one number is both sides. */
static inline struct sluice_size sluice_crop_size(struct sluice_size given)
{
    return given.width ? given : (struct sluice_size){given.height, given.height};
}
/* For prepare(): "224x224" has the canonical text "224". */
static inline void sluice_crop_size_prepare(struct sluice_size *given)
{
    if (given->width == given->height)
        given->width = 0;
}

/* --- the op --- */

struct sluice_op_type {
    const char *name;
    const char *help;    /* one line for --help */
    const char *example; /* for --help, after the name; NULL: the examples of its parameters */
    const char *column;  /* in cost tables: the original's name of the stage, or torchvision's */
    const char *label;   /* in reports; NULL: the name */
    enum sluice_op_kind kind;
    bool is_random;   /* draws random numbers */
    bool is_identity; /* a table that changes nothing */
    bool takes_whole; /* a resample whose `from` is always the whole input */
    bool is_copy;     /* a resample that never resizes: `to` is the size of `from` */
    /* A copy that may lie partly outside an image that is large enough.  NULL: it does not. */
    bool (*has_padding)(const void *params);
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

    /* Nanoseconds of one core for each pixel, for the plan: an AMD EPYC (Zen 4) with AVX2, by
     * bench_ops.  ns_of: where it depends on a parameter, such as the filter; NULL: it does not. */
    double ns_per_pixel;
    double (*ns_of)(const void *params);

    /* For --draws, where the drawn values are not those of parameters; NULL: they are. */
    const char *drawn_name;
    unsigned num_drawn;

    /* SLUICE_OP_TABLE: the result for each value of each channel. */
    enum sluice_statistics statistics;
    void (*table)(const union sluice_drawn *drawn, const struct sluice_pixel_statistics *statistics,
                  uint8_t table[3][256]);

    /* SLUICE_OP_PIXELS: from `in` to `out`, both width x height x 3 without gaps.  `memory` has
     * memory_bytes(size) bytes, aligned for anything; memory_bytes NULL: none. */
    void (*apply)(const union sluice_drawn *drawn, struct sluice_size size, const uint8_t *in,
                  uint8_t *out, void *memory);
    size_t (*memory_bytes)(struct sluice_size size);

    /* The same as a call of a kernel, for SLUICE_OP_PIXELS and tables that depend on statistics:
     * sets call->kernel and what it takes.  NULL: the CPU runs every pipeline that has
     * this op. */
    void (*call)(const union sluice_drawn *drawn, struct sluice_kernel_call *call);

    /* SLUICE_OP_CHOICE: the ops in the parentheses that run, in this order; returns how many, at
     * most SLUICE_MAX_CHOSEN. */
    unsigned (*choose)(const void *params, const struct sluice_op *children, unsigned num_children,
                       struct sluice_rng *rng, uint8_t chosen[SLUICE_MAX_CHOSEN]);
    /* SLUICE_OP_BLEND: the branches, and their ops one after the other in chosen[]. */
    void (*blend)(const void *params, const struct sluice_op *children, unsigned num_children,
                  struct sluice_rng *rng, struct sluice_blend *blend,
                  uint8_t chosen[SLUICE_MAX_DRAWN_OPS]);
    double (*mean_chosen)(const void *params); /* of SLUICE_OP_BLEND: ops in all branches */
    /* Whether it runs in this epoch of the training (sluice_draw_key.schedule).  NULL: in all. */
    bool (*runs_in)(const void *params, uint32_t epoch);
    /* A choice without parentheses, or a blend: writes the text of its ops. */
    void (*expand)(const void *params, char *text, size_t room);
    /* How many of them run, at most; and NULL, or what is wrong with this number of them.  May be
     * NULL. */
    unsigned (*num_chosen)(const void *params, unsigned num_children);
    const char *(*check_children)(const void *params, unsigned num_children);
    /* The known size of the result, from the known size of the input; NULL: the same. */
    struct sluice_known_size (*known_size)(const void *params, struct sluice_known_size in);
};

/* An op in a pipeline. */
struct sluice_op {
    const struct sluice_op_type *type;
    void *params;   /* owned; type->params_size bytes, or NULL */
    unsigned index; /* of the op in its pipeline's text, in preorder: part of the draws' key */
    double p;       /* the probability that it runs, if sluice_op_kind_has_p() */
    double weight;  /* within one_of and k_of; 1 if the text says nothing */
    struct sluice_op *children; /* of SLUICE_OP_CHOICE and SLUICE_OP_BLEND; owned */
    unsigned num_children;
};

/* Ops that may stand in parentheses, keep the image's size, and take ":p=P". */
static inline bool sluice_op_kind_has_p(enum sluice_op_kind kind)
{
    return kind == SLUICE_OP_TABLE || kind == SLUICE_OP_PIXELS || kind == SLUICE_OP_CHOICE ||
           kind == SLUICE_OP_BLEND;
}

/* --- the registry --- */

/* Adds an op to those that a pipeline may have; `type` is borrowed for good.  Call it before
 * other threads parse pipelines.  SLUICE_E_INVALID: the name is taken, or the registry is full. */
SLUICE_MUST_USE sluice_status sluice_op_register(const struct sluice_op_type *type,
                                                 struct sluice_err *err);
/* NULL: unknown name. */
const struct sluice_op_type *sluice_op_type_find(const char *name, size_t len);
/* "; did you mean ...? The ops are ...", for a name that is not an op's. */
void sluice_op_type_suggest(const char *name, size_t len, char *out, size_t room);
const struct sluice_op_type *sluice_op_type_at(size_t i); /* NULL: there are no more */

/* --- what the pipeline asks of an op --- */

/* Draws for the sample of `key`; not of SLUICE_OP_CHOICE or SLUICE_OP_BLEND. */
void sluice_op_draw(const struct sluice_op *op, const struct sluice_draw_key *key,
                    struct sluice_size in, union sluice_drawn *drawn);

/* The size of an image with these proportions whose shorter side is `shorter`, or with 0 whose
 * longer side is `longer`; with both the longer side is at most that.  The other side is truncated,
 * as torchvision's Resize does, but to at least one pixel, where that fails. */
struct sluice_size sluice_size_with_sides(uint32_t shorter, uint32_t longer, struct sluice_size in);

/* Whether `second`, a copy, keeps only pixels of what `first` makes, and `first` fills its result;
 * then *both is the two in one. */
bool sluice_resample_join(const struct sluice_resample *first, const struct sluice_resample *second,
                          struct sluice_resample *both);

/* --- text --- */

/* The text of a pipeline as the parser walks it.  Positions count from 1. */
struct sluice_spec_text {
    const char *start, *at;
    unsigned op;         /* from 1, for messages: ops in parentheses count */
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

/* The number that timm makes of an op's magnitude m from 0 to 10, as from + by * m / 10: of one
 * that is normal about `magnitude` with the deviation `mstd`, if that is not 0. */
#define SLUICE_LEVEL_ROOM 128
void sluice_print_level(double magnitude, double mstd, double from, double by,
                        char text[SLUICE_LEVEL_ROOM]);

/* Reads what stands after the name of `op`, whose type is set, into its params (op_params.c): of a
 * choice up to the first op in its parentheses, and then what follows them. */
SLUICE_MUST_USE sluice_status sluice_op_parse(struct sluice_op *op, struct sluice_spec_text *text,
                                              struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_op_parse_modifiers(struct sluice_op *op,
                                                        struct sluice_spec_text *text,
                                                        struct sluice_err *err);
/* The canonical text of the values, without name, "=" and parentheses: "2:replace=1". */
void sluice_op_print(const struct sluice_op *op, char *text, size_t room);
/* ":p=0.5", or "" where it always runs; and the weight. */
void sluice_op_print_modifiers(const struct sluice_op *op, char *text, size_t room);
/* For the options of a command line (cli/cli.h): a line for each op, "name=example: what it does".
 */
void sluice_op_list(char *out, size_t room);
/* "=224:scale=0.08-1": the examples of its parameters. */
void sluice_op_print_example(const struct sluice_op_type *type, char *text, size_t room);
void sluice_op_clear(struct sluice_op *op); /* idempotent; fine on {0} */

#endif
