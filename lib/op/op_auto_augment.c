#include "op/warp_op.h"

#include "base/c_locale.h"

#include <math.h>

/* auto_augment: one of 25 pairs of ops, each op with a probability and a magnitude of its own
 * (AutoAugment, Cubuk et al., 2019): torchvision's AutoAugment of a policy, or timm's
 * auto_augment_transform("POLICY-mstdS"). */

struct params {
    uint32_t policy;
    double mstd;
    struct sluice_warp_params warp;
};

/* The last four are timm's, which differ in what a magnitude means; those with an r in posterize.
 */
enum { IMAGENET, CIFAR10, SVHN, ORIGINAL, ORIGINALR, V0, V0R };
static const char *const policies[] = {"imagenet",  "cifar10", "svhn", "original",
                                       "originalr", "v0",      "v0r",  NULL};

static const struct sluice_op_param param_list[] = {
    {.name = "policy",
     .kind = SLUICE_PARAM_WORD,
     .offset = offsetof(struct params, policy),
     .form = "imagenet, cifar10, svhn, original, originalr, v0 or v0r",
     .example = "imagenet",
     .words = policies},
    {.name = "mstd",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, mstd),
     .form = "S",
     .max = 10,
     .has_preset = true,
     .is_quiet = true},
    SLUICE_WARP_PARAMS(struct params),
    {0},
};

static bool is_timms(const struct params *p)
{
    return p->policy >= ORIGINAL;
}

static const char *prepare(void *params)
{
    const struct params *p = params;
    if (p->mstd > 0 && !is_timms(p))
        return "mstd is of timm's policies, from original on";
    return p->mstd > 0 && p->mstd < 0.1 ? "mstd is 0 or at least 0.1" : NULL;
}

enum kind {
    AUTO_CONTRAST,
    BRIGHTNESS,
    COLOR,
    CONTRAST,
    EQUALIZE,
    INVERT,
    POSTERIZE,
    ROTATE,
    SHARPNESS,
    SHEAR_X,
    SHEAR_Y,
    SOLARIZE,
    SOLARIZE_ADD,
    TRANSLATE_X,
    TRANSLATE_Y
};

struct entry {
    uint8_t kind, tenths; /* of the probability */
    uint8_t level;        /* of 0 to 9, or timm's of 0 to 10; 0 where the op has none */
};

#define NUM_PAIRS 25

enum { TABLE_IMAGENET, TABLE_CIFAR10, TABLE_SVHN, TABLE_V0, NUM_TABLES };
/* clang-format off */
static const struct entry tables[NUM_TABLES][NUM_PAIRS][2] = {
    [TABLE_IMAGENET] = {
        {{POSTERIZE, 4, 8}, {ROTATE, 6, 9}},
        {{SOLARIZE, 6, 5}, {AUTO_CONTRAST, 6, 0}},
        {{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}},
        {{POSTERIZE, 6, 7}, {POSTERIZE, 6, 6}},
        {{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}},
        {{EQUALIZE, 4, 0}, {ROTATE, 8, 8}},
        {{SOLARIZE, 6, 3}, {EQUALIZE, 6, 0}},
        {{POSTERIZE, 8, 5}, {EQUALIZE, 10, 0}},
        {{ROTATE, 2, 3}, {SOLARIZE, 6, 8}},
        {{EQUALIZE, 6, 0}, {POSTERIZE, 4, 6}},
        {{ROTATE, 8, 8}, {COLOR, 4, 0}},
        {{ROTATE, 4, 9}, {EQUALIZE, 6, 0}},
        {{EQUALIZE, 0, 0}, {EQUALIZE, 8, 0}},
        {{INVERT, 6, 0}, {EQUALIZE, 10, 0}},
        {{COLOR, 6, 4}, {CONTRAST, 10, 8}},
        {{ROTATE, 8, 8}, {COLOR, 10, 2}},
        {{COLOR, 8, 8}, {SOLARIZE, 8, 7}},
        {{SHARPNESS, 4, 7}, {INVERT, 6, 0}},
        {{SHEAR_X, 6, 5}, {EQUALIZE, 10, 0}},
        {{COLOR, 4, 0}, {EQUALIZE, 6, 0}},
        {{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}},
        {{SOLARIZE, 6, 5}, {AUTO_CONTRAST, 6, 0}},
        {{INVERT, 6, 0}, {EQUALIZE, 10, 0}},
        {{COLOR, 6, 4}, {CONTRAST, 10, 8}},
        {{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}},
    },
    [TABLE_CIFAR10] = {
        {{INVERT, 1, 0}, {CONTRAST, 2, 6}},
        {{ROTATE, 7, 2}, {TRANSLATE_X, 3, 9}},
        {{SHARPNESS, 8, 1}, {SHARPNESS, 9, 3}},
        {{SHEAR_Y, 5, 8}, {TRANSLATE_Y, 7, 9}},
        {{AUTO_CONTRAST, 5, 0}, {EQUALIZE, 9, 0}},
        {{SHEAR_Y, 2, 7}, {POSTERIZE, 3, 7}},
        {{COLOR, 4, 3}, {BRIGHTNESS, 6, 7}},
        {{SHARPNESS, 3, 9}, {BRIGHTNESS, 7, 9}},
        {{EQUALIZE, 6, 0}, {EQUALIZE, 5, 0}},
        {{CONTRAST, 6, 7}, {SHARPNESS, 6, 5}},
        {{COLOR, 7, 7}, {TRANSLATE_X, 5, 8}},
        {{EQUALIZE, 3, 0}, {AUTO_CONTRAST, 4, 0}},
        {{TRANSLATE_Y, 4, 3}, {SHARPNESS, 2, 6}},
        {{BRIGHTNESS, 9, 6}, {COLOR, 2, 8}},
        {{SOLARIZE, 5, 2}, {INVERT, 0, 0}},
        {{EQUALIZE, 2, 0}, {AUTO_CONTRAST, 6, 0}},
        {{EQUALIZE, 2, 0}, {EQUALIZE, 6, 0}},
        {{COLOR, 9, 9}, {EQUALIZE, 6, 0}},
        {{AUTO_CONTRAST, 8, 0}, {SOLARIZE, 2, 8}},
        {{BRIGHTNESS, 1, 3}, {COLOR, 7, 0}},
        {{SOLARIZE, 4, 5}, {AUTO_CONTRAST, 9, 0}},
        {{TRANSLATE_Y, 9, 9}, {TRANSLATE_Y, 7, 9}},
        {{AUTO_CONTRAST, 9, 0}, {SOLARIZE, 8, 3}},
        {{EQUALIZE, 8, 0}, {INVERT, 1, 0}},
        {{TRANSLATE_Y, 7, 9}, {AUTO_CONTRAST, 9, 0}},
    },
    [TABLE_SVHN] = {
        {{SHEAR_X, 9, 4}, {INVERT, 2, 0}},
        {{SHEAR_Y, 9, 8}, {INVERT, 7, 0}},
        {{EQUALIZE, 6, 0}, {SOLARIZE, 6, 6}},
        {{INVERT, 9, 0}, {EQUALIZE, 6, 0}},
        {{EQUALIZE, 6, 0}, {ROTATE, 9, 3}},
        {{SHEAR_X, 9, 4}, {AUTO_CONTRAST, 8, 0}},
        {{SHEAR_Y, 9, 8}, {INVERT, 4, 0}},
        {{SHEAR_Y, 9, 5}, {SOLARIZE, 2, 6}},
        {{INVERT, 9, 0}, {AUTO_CONTRAST, 8, 0}},
        {{EQUALIZE, 6, 0}, {ROTATE, 9, 3}},
        {{SHEAR_X, 9, 4}, {SOLARIZE, 3, 3}},
        {{SHEAR_Y, 8, 8}, {INVERT, 7, 0}},
        {{EQUALIZE, 9, 0}, {TRANSLATE_Y, 6, 6}},
        {{INVERT, 9, 0}, {EQUALIZE, 6, 0}},
        {{CONTRAST, 3, 3}, {ROTATE, 8, 4}},
        {{INVERT, 8, 0}, {TRANSLATE_Y, 0, 2}},
        {{SHEAR_Y, 7, 6}, {SOLARIZE, 4, 8}},
        {{INVERT, 6, 0}, {ROTATE, 8, 4}},
        {{SHEAR_Y, 3, 7}, {TRANSLATE_X, 9, 3}},
        {{SHEAR_X, 1, 6}, {INVERT, 6, 0}},
        {{SOLARIZE, 7, 2}, {TRANSLATE_Y, 6, 7}},
        {{SHEAR_Y, 8, 4}, {INVERT, 8, 0}},
        {{SHEAR_X, 7, 9}, {TRANSLATE_Y, 8, 3}},
        {{SHEAR_Y, 8, 5}, {AUTO_CONTRAST, 7, 0}},
        {{SHEAR_X, 7, 2}, {INVERT, 1, 0}},
    },
    [TABLE_V0] = {
        {{EQUALIZE, 8, 0}, {SHEAR_Y, 8, 4}},
        {{COLOR, 4, 9}, {EQUALIZE, 6, 0}},
        {{COLOR, 4, 1}, {ROTATE, 6, 8}},
        {{SOLARIZE, 8, 3}, {EQUALIZE, 4, 0}},
        {{SOLARIZE, 4, 2}, {SOLARIZE, 6, 2}},
        {{COLOR, 2, 0}, {EQUALIZE, 8, 0}},
        {{EQUALIZE, 4, 0}, {SOLARIZE_ADD, 8, 3}},
        {{SHEAR_X, 2, 9}, {ROTATE, 6, 8}},
        {{COLOR, 6, 1}, {EQUALIZE, 10, 0}},
        {{INVERT, 4, 0}, {ROTATE, 6, 0}},
        {{EQUALIZE, 10, 0}, {SHEAR_Y, 6, 3}},
        {{COLOR, 4, 7}, {EQUALIZE, 6, 0}},
        {{POSTERIZE, 4, 6}, {AUTO_CONTRAST, 4, 0}},
        {{SOLARIZE, 6, 8}, {COLOR, 6, 9}},
        {{SOLARIZE, 2, 4}, {ROTATE, 8, 9}},
        {{ROTATE, 10, 7}, {TRANSLATE_Y, 8, 9}},
        {{SHEAR_X, 0, 0}, {SOLARIZE, 8, 4}},
        {{SHEAR_Y, 8, 0}, {COLOR, 6, 4}},
        {{COLOR, 10, 0}, {ROTATE, 6, 2}},
        {{EQUALIZE, 8, 0}, {EQUALIZE, 0, 0}},
        {{EQUALIZE, 10, 0}, {AUTO_CONTRAST, 6, 0}},
        {{SHEAR_Y, 4, 7}, {SOLARIZE_ADD, 6, 7}},
        {{POSTERIZE, 8, 2}, {SOLARIZE, 6, 10}},
        {{SOLARIZE, 6, 8}, {EQUALIZE, 6, 0}},
        {{COLOR, 8, 6}, {ROTATE, 4, 5}},
    },
};
/* clang-format on */

static const uint8_t table_of[] = {
    [IMAGENET] = TABLE_IMAGENET,
    [CIFAR10] = TABLE_CIFAR10,
    [SVHN] = TABLE_SVHN,
    [ORIGINAL] = TABLE_IMAGENET,
    [ORIGINALR] = TABLE_IMAGENET,
    [V0] = TABLE_V0,
    [V0R] = TABLE_V0,
};

/* torchvision's _augmentation_space(10), but for posterize and solarize: the number at the highest
 * magnitude; and timm's _level_to_arg functions: from + by * level / 10. */
static const struct {
    const char *name, *sign; /* the sign before torchvision's number, and timm's if is_warp */
    double most, from, by;
    bool is_warp;
} forms[] = {
    [AUTO_CONTRAST] = {.name = "autocontrast"},
    [BRIGHTNESS] = {.name = "brightness=", .sign = "1~", .most = 0.9, .from = 0.1, .by = 1.8},
    [COLOR] = {.name = "color=", .sign = "1~", .most = 0.9, .from = 0.1, .by = 1.8},
    [CONTRAST] = {.name = "contrast=", .sign = "1~", .most = 0.9, .from = 0.1, .by = 1.8},
    [EQUALIZE] = {.name = "equalize"},
    [INVERT] = {.name = "invert"},
    [POSTERIZE] = {.name = "posterize=", .sign = "", .by = 4},
    [ROTATE] = {.name = "rotate=", .sign = "~", .most = 30, .by = 30, .is_warp = true},
    [SHARPNESS] = {.name = "sharpness=", .sign = "1~", .most = 0.9, .from = 0.1, .by = 1.8},
    [SHEAR_X] = {.name = "shear_x=", .sign = "~", .most = 0.3, .by = 0.3, .is_warp = true},
    [SHEAR_Y] = {.name = "shear_y=", .sign = "~", .most = 0.3, .by = 0.3, .is_warp = true},
    [SOLARIZE] = {.name = "solarize=", .sign = "", .most = 255, .by = 256},
    [SOLARIZE_ADD] = {.name = "solarize_add=", .sign = "", .by = 110},
    [TRANSLATE_X] =
        {.name = "translate_x=", .sign = "~", .most = 150.0 / 331, .by = 0.45, .is_warp = true},
    [TRANSLATE_Y] =
        {.name = "translate_y=", .sign = "~", .most = 150.0 / 331, .by = 0.45, .is_warp = true},
};

static void append_torchvisions(struct sluice_growing_text *ops, const struct entry *entry)
{
    const double part = entry->level / 9.0;
    char value[32];
    double number = forms[entry->kind].most * part;
    if (entry->kind == SOLARIZE)
        number = 255 * (1 - part);
    else if (entry->kind == POSTERIZE)
        number = 8 - round(4 * part); /* never a half */
    sluice_snprintf(value, sizeof(value), "%.9f", number);
    sluice_append_text(ops, forms[entry->kind].sign);
    sluice_append_text(ops, value);
    if (entry->kind == TRANSLATE_X || entry->kind == TRANSLATE_Y)
        sluice_append_text(ops, ":unit=whole_part");
}

static void append_timms(struct sluice_growing_text *ops, const struct params *p,
                         const struct entry *entry)
{
    char value[SLUICE_LEVEL_ROOM];
    const bool is_increasing = p->policy == ORIGINALR || p->policy == V0R;
    double from = forms[entry->kind].from, by = forms[entry->kind].by;
    if (entry->kind == POSTERIZE) {
        from = p->policy == V0 ? 0 : 4;
        by = is_increasing ? -4 : 4;
    }
    sluice_print_level(entry->level, p->mstd, from, by, value);
    sluice_append_text(ops, forms[entry->kind].is_warp ? "~" : "");
    sluice_append_text(ops, value);
    if (entry->kind == SOLARIZE)
        sluice_append_text(ops, ":rounding=down");
    if (entry->kind == POSTERIZE && is_increasing)
        sluice_append_text(ops, ":rounding=up");
}

static void append_entry(struct sluice_growing_text *ops, const struct params *p,
                         const struct entry *entry, const char *warp)
{
    sluice_append_text(ops, forms[entry->kind].name);
    if (forms[entry->kind].sign && is_timms(p))
        append_timms(ops, p, entry);
    else if (forms[entry->kind].sign)
        append_torchvisions(ops, entry);
    if (forms[entry->kind].is_warp)
        sluice_append_text(ops, warp);
    if (entry->tenths < 10) {
        char probability[16];
        sluice_snprintf(probability, sizeof(probability), ":p=0.%u", entry->tenths);
        sluice_append_text(ops, probability);
    }
}

static void expand(const void *params, char *text, size_t room)
{
    const struct params *p = params;
    struct sluice_growing_text ops = {.text = text, .room = room};
    char warp[80];
    sluice_warp_print(&p->warp, warp, sizeof(warp));
    for (int i = 0; i < NUM_PAIRS; i++) {
        const struct entry *pair = tables[table_of[p->policy]][i];
        sluice_append_text(&ops, i > 0 ? ",sequence(" : "sequence(");
        append_entry(&ops, p, &pair[0], warp);
        sluice_append_text(&ops, ",");
        append_entry(&ops, p, &pair[1], warp);
        sluice_append_text(&ops, ")");
    }
    sluice_append_text(&ops, ")");
}

const struct sluice_op_type sluice_op_auto_augment = {
    .name = "auto_augment",
    .help =
        "torchvision's AutoAugment of imagenet, cifar10 or svhn, or timm's original, originalr, "
        "v0 or v0r with :mstd=0.5: one of 25 pairs of ops; :filter=bilinear:fill=128",
    .column = "AutoAugment",
    .kind = SLUICE_OP_CHOICE,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .expand = expand,
    .choose = sluice_choose_one,
    .num_chosen = sluice_num_one,
};
