#ifndef SLUICE_OP_OP_H
#define SLUICE_OP_OP_H

#include "base/rng.h"
#include "image/kernel_call.h"
#include "image/resize.h"
#include "op/sample.h"

/* The interface of an op.  An op is one file, op_<name>.c, that ends in one struct sluice_op_type,
 * and one row in the registry (op.c).  Other code uses the op's kind and properties, never its
 * name:
 *
 *   parser, canonical text, fingerprint, --help   params
 *   draws on any node                             draw
 *   running, fusion, cuts of files, the GPU       kind, and the record that draw fills in
 *   the plan                                      kind
 *
 * Threads: ops are constant once registered, and so is an op's params once parsed. */

#define SLUICE_MAX_OP_SIZE 8192u   /* the largest side that a text may name */
#define SLUICE_MAX_AREA (1u << 28) /* the most pixels that a text may name */
#define SLUICE_MAX_IMAGE_SIDE 65535u
#define SLUICE_MAX_CHOSEN 32     /* ops that a choice may run on a sample */
#define SLUICE_MAX_NODES 256u    /* ops of a pipeline, those in parentheses included */
#define SLUICE_MAX_DEPTH 8u      /* of parentheses */
#define SLUICE_MAX_DRAWN_OPS 64u /* that run on one sample */

/* Groups of draws: 0, SLUICE_SHARED_DRAWS + N for ":draws=N", and in between one for each view. */
#define SLUICE_SHARED_DRAWS 0x100u
#define SLUICE_MAX_DRAWS 255u /* of ":draws=N" */

/* --- parameters --- */

enum sluice_param_kind {
    SLUICE_PARAM_SIZE,   /* uint32_t: pixels, 1 to SLUICE_MAX_OP_SIZE */
    SLUICE_PARAM_NUMBER, /* double */
    SLUICE_PARAM_RANGE,  /* struct sluice_range: "MIN-MAX" */
    SLUICE_PARAM_RATIOS, /* struct sluice_range whose bounds may be fractions: "3/4-4/3" */
    SLUICE_PARAM_SCALE,  /* struct sluice_scale: "R:G:B/R:G:B" or "imagenet" */
    SLUICE_PARAM_DRAWN,  /* struct sluice_number: "A", "A-B", "A-B/N", "C~A-B", ...: docs/RECIPES.md
                          */
    SLUICE_PARAM_WORD,   /* uint32_t: the number of the word among `words` */
    SLUICE_PARAM_EPOCHS, /* struct sluice_epochs: "epoch>=N", "epoch<N" or "A<=epoch<B" */
    SLUICE_PARAM_COLOR,  /* uint8_t[3]: "V" or "R/G/B", each 0 to 255 */
    SLUICE_PARAM_SIZES,  /* struct sluice_size: "SIZE", then its width is 0, or "HEIGHTxWIDTH" */
    SLUICE_PARAM_SIDES,  /* struct sluice_sides: "P", "X/Y" or "LEFT/TOP/RIGHT/BOTTOM", in pixels */
    SLUICE_PARAM_BUCKETS, /* struct sluice_buckets: "HEIGHTxWIDTH/HEIGHTxWIDTH/..." */
    SLUICE_PARAM_PIXELS,  /* uint32_t: an area in pixels, 1 to SLUICE_MAX_AREA */
};

struct sluice_range {
    double min, max;
};

/* A number drawn for each sample: `about` plus a draw from [min, max].  With has_sign half of the
 * samples subtract the draw instead.  The draw is uniform, or one of `steps` evenly spaced numbers.
 * With deviation > 0 it is normal with this mean, clipped to [min, max]. */
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

/* The sizes that an op fits images to, each once. */
#define SLUICE_MAX_BUCKETS 64u
struct sluice_buckets {
    unsigned num;
    struct sluice_size sizes[SLUICE_MAX_BUCKETS];
};

/* Epochs [from, end), not empty. */
struct sluice_epochs {
    uint32_t from, end;
};
#define SLUICE_ALL_EPOCHS UINT32_MAX /* as the end: every epoch from `from` on */

/* The entry of an op's parameter `epochs`, which is a member of its params. */
#define SLUICE_EPOCHS_PARAM(params)                                                                \
    {                                                                                              \
        .name = "epochs", .kind = SLUICE_PARAM_EPOCHS, .offset = offsetof(params, epochs),         \
        .form = "epoch>=N, epoch<N or A<=epoch<B", .has_preset = true, .is_quiet = true            \
    }

/* The version of Pillow whose pixels a pipeline reproduces, where versions differ
 * (docs/NUMERICS.md). */
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

/* A parameter in an op's text.  The first one is written "=VALUE" after the op's name; the others
 * follow as ":name=VALUE" in any order. */
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
    bool is_quiet; /* the canonical text leaves a word, a size, a number, a color or epochs out if
                      it is the preset, which of epochs is all of them */
};

struct sluice_op;

/* --- draws --- */

/* Pixels added around an image: one color, its outer pixels repeated, or the image mirrored about
 * its outer pixels or about its edge, as in NumPy's pad().  torchvision's RandomCrop pads every
 * image by `around`, and pads a second time if the image is still too small. */
enum sluice_padding_mode {
    SLUICE_PADDING_CONSTANT,
    SLUICE_PADDING_EDGE,
    SLUICE_PADDING_REFLECT,
    SLUICE_PADDING_SYMMETRIC,
};
struct sluice_padding {
    enum sluice_padding_mode mode;
    uint8_t color[3]; /* of CONSTANT */
    /* Not used with CONSTANT. */
    uint32_t around;
    struct sluice_size in; /* of the image */
};

/* The names of the modes, by enum sluice_padding_mode. */
extern const char *const sluice_padding_modes[];

/* The entries of an op's parameters `mode` and `fill`, which are members of its params. */
#define SLUICE_PADDING_PARAMS(params)                                                              \
    {.name = "mode",                                                                               \
     .kind = SLUICE_PARAM_WORD,                                                                    \
     .offset = offsetof(params, mode),                                                             \
     .form = "constant, edge, reflect or symmetric",                                               \
     .has_preset = true,                                                                           \
     .words = sluice_padding_modes,                                                                \
     .is_quiet = true},                                                                            \
    {                                                                                              \
        .name = "fill", .kind = SLUICE_PARAM_COLOR, .offset = offsetof(params, fill),              \
        .form = "V or R/G/B", .has_preset = true, .is_quiet = true                                 \
    }

/* The part of an image that an op of kind SLUICE_OP_RESAMPLE keeps, and where it goes:
 *
 *     input --from--> box --to--> resized --keep--> part --at left, top--> out, padded elsewhere
 */
struct sluice_resample {
    struct sluice_box from; /* of the input; filter taps do not reach outside it */
    struct sluice_size to;  /* the box's size after the resize; the same as before: copied */
    struct sluice_box keep; /* of the resized box */
    struct sluice_size out;
    uint32_t left, top; /* of the kept part in the result */
    struct sluice_padding padding;
    enum sluice_resize_filter filter;
};

/* The weighted mean of an image and of the results of its branches.  The weights sum to 1. */
#define SLUICE_MAX_BRANCHES 8u
struct sluice_blend {
    unsigned num;                           /* of branches */
    uint8_t num_ops[SLUICE_MAX_BRANCHES];   /* of each branch; they follow the blend */
    float weights[SLUICE_MAX_BRANCHES + 1]; /* of the image, then of the branches */
};

/* The record that an op drew for one sample.  The op's kind selects the member. */
union sluice_drawn {
    struct sluice_blend blend;       /* SLUICE_OP_BLEND */
    struct sluice_resample resample; /* SLUICE_OP_RESAMPLE */
    bool is_mirrored;                /* SLUICE_OP_MIRROR */
    double values[10];               /* SLUICE_OP_TABLE, SLUICE_OP_PIXELS: the op's own */
};

/* Draws a SLUICE_PARAM_DRAWN number.  A constant takes no draw. */
double sluice_draw_number(struct sluice_rng *rng, const struct sluice_number *number);
/* As sluice_draw_number(), for whole numbers.  A uniform draw includes both min and max. */
double sluice_draw_whole(struct sluice_rng *rng, const struct sluice_number *number);

/* Draws one child of a choice by weight, among those not taken (NULL: among all).  At least one
 * child is not taken. */
uint8_t sluice_draw_child(const struct sluice_op *children, unsigned num_children,
                          const bool *is_taken, struct sluice_rng *rng);

/* Draws a random order of all children (Fisher-Yates) and returns num_children. */
unsigned sluice_draw_order(unsigned num_children, struct sluice_rng *rng,
                           uint8_t chosen[SLUICE_MAX_CHOSEN]);

/* choose() and num_chosen() for a choice that runs all of its ops in order. */
unsigned sluice_choose_all(const void *params, const struct sluice_op *children,
                           unsigned num_children, struct sluice_rng *rng,
                           uint8_t chosen[SLUICE_MAX_CHOSEN]);
unsigned sluice_num_children(const void *params, unsigned num_children);

/* choose() and num_chosen() for a choice that runs one op, drawn by weight. */
unsigned sluice_choose_one(const void *params, const struct sluice_op *children,
                           unsigned num_children, struct sluice_rng *rng,
                           uint8_t chosen[SLUICE_MAX_CHOSEN]);
unsigned sluice_num_one(const void *params, unsigned num_children);

/* Draws from N(0, 1) by the Box-Muller transform.  The result is the same on every machine. */
double sluice_draw_normal(struct sluice_rng *rng);

/* --- pixels --- */

/* Statistics of the pixels that a table may depend on. */
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

/* The names of an op's filters, by enum sluice_resize_filter.  The last name means bilinear or
 * bicubic, drawn for each sample. */
extern const char *const sluice_resize_filters[];
enum sluice_resize_filter sluice_draw_filter(struct sluice_rng *rng, uint32_t word);

/* The known size of a result that always has this size. */
static inline struct sluice_known_size sluice_known_exactly(struct sluice_size size)
{
    return (struct sluice_known_size){.width = size.width, .height = size.height};
}

/* The size that a crop's SLUICE_PARAM_SIZES gives: one number stands for both sides. */
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
    bool is_random;      /* draws random numbers */
    bool is_identity;    /* a table that changes nothing */
    bool takes_whole;    /* a resample whose `from` is always the whole input */
    bool is_copy;        /* a resample that never resizes: `to` is the size of `from` */
    bool has_drawn_size; /* a resample whose size depends on draws of the sample */
    /* Whether a resample pads images that are as large as its result.  NULL: it does not. */
    bool (*has_padding)(const void *params);
    unsigned numerics; /* raise it when the op gives other bytes for the same text, seed and image;
                          0 is not part of the fingerprint */
    const struct sluice_op_param *params; /* NULL: none */
    size_t params_size;

    /* Derives values once the parameters are read.  Returns NULL, or a message about the first
     * parameter.  May be NULL. */
    const char *(*prepare)(void *params);

    /* Draws the record for an image of this size (both sides at least 1).  `rng` belongs to this op
     * and sample.  The size of a resample's result depends on `rng` with has_drawn_size alone. 
     * NULL for kinds without a record. */
    void (*draw)(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn);

    /* The op's cost for the plan: nanoseconds of one core per pixel, measured by bench_ops on an
     * AMD EPYC (Zen 4) with AVX2.  If it depends on a parameter, such as the filter, ns_of()
     * returns it; otherwise ns_of is NULL. */
    double ns_per_pixel;
    double (*ns_of)(const void *params);

    /* The name and number of the drawn values in --draws; NULL: they are those of parameters. */
    const char *drawn_name;
    unsigned num_drawn;

    /* SLUICE_OP_TABLE: fills in the result for each value of each channel. */
    enum sluice_statistics statistics;
    void (*table)(const union sluice_drawn *drawn, const struct sluice_pixel_statistics *statistics,
                  uint8_t table[3][256]);

    /* SLUICE_OP_PIXELS: writes `out` from `in`, both width x height x 3 without gaps.  `memory` has
     * memory_bytes(size) bytes, aligned for any type; memory_bytes NULL: 0 bytes. */
    void (*apply)(const union sluice_drawn *drawn, struct sluice_size size, const uint8_t *in,
                  uint8_t *out, void *memory);
    size_t (*memory_bytes)(struct sluice_size size);

    /* SLUICE_OP_PIXELS that move pixels: fills in the 3 x 3 matrix, row by row, that takes a point
     * of the input to its place in the result, both in pixels from the upper left corner of the
     * upper left pixel; all 0: every pixel shows the same point.  NULL: pixels stay in place. */
    void (*map)(const union sluice_drawn *drawn, struct sluice_size size, double matrix[9]);

    /* The op as a kernel call: sets call->kernel and its parameters.  For SLUICE_OP_PIXELS and for
     * tables that depend on statistics.  NULL: pipelines with this op run on the CPU. */
    void (*call)(const union sluice_drawn *drawn, struct sluice_kernel_call *call);

    /* SLUICE_OP_CHOICE: draws the children that run, in order.  Returns their number, at most
     * SLUICE_MAX_CHOSEN. */
    unsigned (*choose)(const void *params, const struct sluice_op *children, unsigned num_children,
                       struct sluice_rng *rng, uint8_t chosen[SLUICE_MAX_CHOSEN]);
    /* SLUICE_OP_BLEND: draws the branches.  chosen[] gets their ops, branch after branch. */
    void (*blend)(const void *params, const struct sluice_op *children, unsigned num_children,
                  struct sluice_rng *rng, struct sluice_blend *blend,
                  uint8_t chosen[SLUICE_MAX_DRAWN_OPS]);
    double (*mean_chosen)(const void *params); /* SLUICE_OP_BLEND: ops in all branches */
    /* The epochs of the training in which the op runs (sluice_draw_key.schedule).  NULL: all. */
    const struct sluice_epochs *(*epochs)(const void *params);
    /* Writes the text of the children of a choice without parentheses, or of a blend. */
    void (*expand)(const void *params, char *text, size_t room);
    /* num_chosen() returns the most children that run.  check_children() returns NULL, or a message
     * about their number.  Both may be NULL. */
    unsigned (*num_chosen)(const void *params, unsigned num_children);
    const char *(*check_children)(const void *params, unsigned num_children);
    /* A resample whose result has one of several sizes: returns them and, for an image of size
     * `in`, which of them it gets, unless that is drawn for the batch.  NULL: other ops. */
    const struct sluice_buckets *(*bucket_of)(const void *params, struct sluice_size in,
                                              unsigned *bucket);
    /* If all images of a batch get the same of these sizes: draws which one, from the numbers of
     * the batch; `runs`: this is one of the op's epochs.  Such an op's draw is NULL: draw_of_batch()
     * draws a sample's record, and print_base() writes the op that gives all images the base.
     * NULL: other ops. */
    unsigned (*draw_bucket)(const void *params, bool runs, struct sluice_rng *rng);
    void (*draw_of_batch)(const void *params, struct sluice_size in, unsigned bucket,
                          struct sluice_rng *rng, struct sluice_resample *resample);
    void (*print_base)(const void *params, char *text, size_t room);
    /* A resample that draws its size: a size that is at least as large as any that it draws for an
     * image of size `in`.  in 0 x 0: for any image; the result is 0 x 0 if that has no limit.
     * Such a size may be the result of a pipeline.  NULL: it may not. */
    struct sluice_size (*largest)(const void *params, struct sluice_size in);
    /* A resample that copies a box which depends on the boxes of the sample's objects: draws it.
     * `boxes` are num_boxes x 4 floats, x1 y1 x2 y2 in pixels of the input.  The box lies within
     * the input.  Such an op's draw is NULL: its record comes from sluice_draw_key.crop. */
    struct sluice_box (*draw_by_boxes)(const void *params, struct sluice_size in,
                                       const float *boxes, size_t num_boxes,
                                       struct sluice_rng *rng);
    /* Returns the known size of the result for a known size of the input.  NULL: the same size. */
    struct sluice_known_size (*known_size)(const void *params, struct sluice_known_size in);
};

/* An op in a pipeline. */
struct sluice_op {
    const struct sluice_op_type *type;
    void *params;   /* owned; type->params_size bytes, or NULL */
    unsigned index; /* in its pipeline's text, in preorder */
    /* The stream of its draws, with the sample's key: by default group 0 and the index. */
    uint32_t group, place;
    uint32_t draws; /* ops with the same number share their draws; 0: shared with none */
    double p;       /* the probability that it runs, if sluice_op_kind_has_p() */
    double weight;  /* within one_of and k_of; 1 by default */
    struct sluice_op *children; /* of SLUICE_OP_CHOICE and SLUICE_OP_BLEND; owned */
    unsigned num_children;
};

/* Whether ops of this kind keep the image's size, may stand in parentheses and take ":p=P". */
static inline bool sluice_op_kind_has_p(enum sluice_op_kind kind)
{
    return kind == SLUICE_OP_TABLE || kind == SLUICE_OP_PIXELS || kind == SLUICE_OP_CHOICE ||
           kind == SLUICE_OP_BLEND;
}

/* Whether ops of this kind may draw, and take ":draws=N". */
static inline bool sluice_op_kind_draws(enum sluice_op_kind kind)
{
    return kind == SLUICE_OP_RESAMPLE || kind == SLUICE_OP_MIRROR || sluice_op_kind_has_p(kind);
}

/* Whether the op runs in this epoch of the training; and whether it runs in some epochs alone. */
static inline bool sluice_op_runs_in(const struct sluice_op *op, uint32_t epoch)
{
    const struct sluice_epochs *epochs = op->type->epochs ? op->type->epochs(op->params) : NULL;
    return !epochs || (epoch >= epochs->from && epoch < epochs->end);
}
static inline bool sluice_op_has_schedule(const struct sluice_op *op)
{
    const struct sluice_epochs *epochs = op->type->epochs ? op->type->epochs(op->params) : NULL;
    return epochs && (epochs->from > 0 || epochs->end < SLUICE_ALL_EPOCHS);
}

/* Whether the op's kernel is its table, which is the same for every image. */
static inline bool sluice_op_is_plain_table(const struct sluice_op_type *type)
{
    return type->kind == SLUICE_OP_TABLE && type->statistics == SLUICE_STATISTICS_NONE;
}

/* Whether the op and each op in its parentheses have a GPU kernel. */
bool sluice_op_has_kernel(const struct sluice_op *op);

/* --- the registry --- */

/* Adds an op to the registry.  Borrows `type` until the process ends.  Call it before other threads
 * parse pipelines.  SLUICE_E_INVALID: the name is taken, or the registry is full. */
SLUICE_MUST_USE sluice_status sluice_op_register(const struct sluice_op_type *type,
                                                 struct sluice_err *err);
/* NULL: unknown name. */
const struct sluice_op_type *sluice_op_type_find(const char *name, size_t len);
/* Writes "; did you mean ...? The ops are ..." for an unknown name. */
void sluice_op_type_suggest(const char *name, size_t len, char *out, size_t room);
const struct sluice_op_type *sluice_op_type_at(size_t i); /* NULL: past the last */

/* --- draws and sizes, for the pipeline --- */

/* The random numbers of an op for the sample of `key`, for the turn-th time that it runs on it. */
struct sluice_rng sluice_op_rng(const struct sluice_op *op, const struct sluice_draw_key *key,
                                unsigned turn);

/* Sets group and place of an op and of those in its parentheses: `group` and the index, unless they
 * share their draws. */
void sluice_op_set_places(struct sluice_op *op, uint32_t group);

/* Draws an op's record for the sample of `key`.  Not for SLUICE_OP_CHOICE or SLUICE_OP_BLEND. */
void sluice_op_draw(const struct sluice_op *op, const struct sluice_draw_key *key,
                    struct sluice_size in, union sluice_drawn *drawn);

/* The size of an image with the proportions of `in` and the shorter side `shorter`; if that is 0,
 * the longer side `longer`.  With both, `longer` limits the longer side.  The other side is
 * truncated as in torchvision's Resize, but to at least one pixel, where torchvision fails. */
struct sluice_size sluice_size_with_sides(uint32_t shorter, uint32_t longer, struct sluice_size in);

/* Sets where an image of size `in` goes that is resized to fit into resample->out, in its middle:
 * `to`, `keep`, `left` and `top`, as ImageOps.pad(). */
void sluice_resample_letterbox(struct sluice_resample *resample, struct sluice_size in);

/* Joins two resamples into one.  True: `second`, a copy, keeps only pixels that `first` makes, and
 * `first` pads nothing; *both does the same as the two in order. */
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

/* Returns SLUICE_E_INVALID; the message begins with "op 2 (hflip) at character 8: ". */
sluice_status sluice_spec_fail(const struct sluice_spec_text *text, struct sluice_err *err,
                               const char *fmt, ...) SLUICE_PRINTF(3, 4);
bool sluice_spec_accept(struct sluice_spec_text *text, const char *token);
/* Writes "; did you mean ...?" for the word at the position, which ends at a '=', ':' or ','.
 * `known` is NULL-terminated. */
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

/* A text that expand() writes piece by piece: `room` is expand()'s. */
struct sluice_growing_text {
    char *text;
    size_t len, room;
};
void sluice_append_text(struct sluice_growing_text *to, const char *text);

/* Writes the value that timm derives from an op's magnitude m (0 to 10): from + by * m / 10.  If
 * mstd is not 0, m is normal with the mean `magnitude` and the deviation `mstd`. */
#define SLUICE_LEVEL_ROOM 128
void sluice_print_level(double magnitude, double mstd, double from, double by,
                        char text[SLUICE_LEVEL_ROOM]);

/* Parses the text after the name of `op`, whose type is set, into its params (op_params.c).  For a
 * choice, sluice_op_parse() stops at the first op in its parentheses, and
 * sluice_op_parse_modifiers() parses the text after them. */
SLUICE_MUST_USE sluice_status sluice_op_parse(struct sluice_op *op, struct sluice_spec_text *text,
                                              struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_op_parse_modifiers(struct sluice_op *op,
                                                        struct sluice_spec_text *text,
                                                        struct sluice_err *err);
/* Writes the canonical text of the values, without name, "=" and parentheses: "2:replace=1". */
void sluice_op_print(const struct sluice_op *op, char *text, size_t room);
/* Writes ":p=0.5", or "" if the op always runs, then the weight, and the number of shared draws. */
void sluice_op_print_modifiers(const struct sluice_op *op, char *text, size_t room);
/* Writes a line for each op, "name=example: help", for --help (cli/cli.h). */
void sluice_op_list(char *out, size_t room);
/* Writes the examples of the op's parameters: "=224:scale=0.08-1". */
void sluice_op_print_example(const struct sluice_op_type *type, char *text, size_t room);
void sluice_op_clear(struct sluice_op *op); /* idempotent; fine on {0} */

#endif
