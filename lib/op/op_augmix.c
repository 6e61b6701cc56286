#include "op/batch_draws.h"
#include "op/warp_op.h"

#include "base/c_locale.h"

#include <math.h>

/* augmix: torchvision's AugMix(severity, width, depth, alpha, all_ops) (Hendrycks et al., 2020):
 * the image, and chains of ops on it that are drawn uniformly, mixed by weights from Dirichlet and
 * Beta distributions.  Its mixing is torchvision's; the chains' ops are Pillow's, where torchvision
 * runs those of its tensors. */

struct params {
    uint32_t severity, width, depth; /* depth 0: 1 to 3, drawn for each chain */
    double alpha, all_ops;
    struct sluice_warp_params warp;
};

#define MAX_DEPTH 8

static const struct sluice_op_param param_list[] = {
    {.name = "severity",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, severity),
     .form = "SEVERITY",
     .example = "3",
     .has_preset = true,
     .preset = {.min = 3}},
    {.name = "width",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, width),
     .form = "CHAINS",
     .has_preset = true,
     .preset = {.min = 3}},
    {.name = "depth",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, depth),
     .form = "OPS",
     .has_preset = true,
     .is_quiet = true},
    {.name = "alpha",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, alpha),
     .form = "ALPHA",
     .min = 0.01,
     .max = 1000,
     .has_preset = true,
     .preset = {.min = 1}},
    {.name = "all_ops",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, all_ops),
     .form = "0 or 1",
     .max = 1,
     .has_preset = true,
     .preset = {.min = 1}},
    SLUICE_WARP_PARAMS(struct params),
    {0},
};

static const char *prepare(void *params)
{
    const struct params *p = params;
    if (p->severity > 10)
        return "the severity is from 1 to 10";
    if (p->width > SLUICE_MAX_BRANCHES || p->depth > MAX_DEPTH)
        return "there are at most 8 chains of at most 8 ops";
    return p->all_ops == 0 || p->all_ops == 1 ? NULL : "all_ops is 0 or 1";
}

/* One of the first `severity` of ten numbers from 0 to `most` at equal distances. */
static void append_scaled(struct sluice_growing_text *ops, const struct params *p, const char *name,
                          double most, const char *rest)
{
    char number[64] = "0";
    /* Rounded up, as what is to be whole pixels would be truncated to one less. */
    const double last = ceil(most * (p->severity - 1) / 9 * 1e9) / 1e9;
    if (p->severity > 1)
        sluice_snprintf(number, sizeof(number), "0-%.9f/%u", last, p->severity);
    sluice_append_text(ops, name);
    sluice_append_text(ops, number);
    sluice_append_text(ops, rest);
    sluice_append_text(ops, ",");
}

/* torchvision's _augmentation_space(10, ...), of which the first `severity` magnitudes count. */
static void expand(const void *params, char *text, size_t room)
{
    const struct params *p = params;
    struct sluice_growing_text ops = {.text = text, .room = room};
    char warp[80], moved[120], one[48];
    sluice_warp_print(&p->warp, warp, sizeof(warp));
    sluice_snprintf(moved, sizeof(moved), ":unit=whole_part%s", warp);
    append_scaled(&ops, p, "shear_x=~", 0.3, warp);
    append_scaled(&ops, p, "shear_y=~", 0.3, warp);
    append_scaled(&ops, p, "translate_x=~", 1.0 / 3, moved);
    append_scaled(&ops, p, "translate_y=~", 1.0 / 3, moved);
    append_scaled(&ops, p, "rotate=~", 30, warp);
    if (p->all_ops != 0) {
        append_scaled(&ops, p, "brightness=1~", 0.9, "");
        append_scaled(&ops, p, "color=1~", 0.9, "");
        append_scaled(&ops, p, "contrast=1~", 0.9, "");
        append_scaled(&ops, p, "sharpness=1~", 0.9, "");
    }
    for (int is_solarize = 0; is_solarize < 2; is_solarize++) {
        sluice_append_text(&ops, "one_of(");
        for (unsigned i = 0; i < p->severity; i++) {
            if (is_solarize)
                sluice_snprintf(one, sizeof(one), "%ssolarize=%.9f", i ? "," : "",
                                255 * (1 - i / 9.0));
            else
                sluice_snprintf(one, sizeof(one), "%sposterize=%d", i ? "," : "",
                                4 - (int)round(4 * i / 9.0)); /* never a half */
            sluice_append_text(&ops, one);
        }
        sluice_append_text(&ops, "),");
    }
    sluice_append_text(&ops, "autocontrast,equalize)");
}

static void blend(const void *params, const struct sluice_op *children, unsigned num_children,
                  struct sluice_rng *rng, struct sluice_blend *blend,
                  uint8_t chosen[SLUICE_MAX_DRAWN_OPS])
{
    const struct params *p = params;
    double parts[SLUICE_MAX_BRANCHES];
    const double chains = sluice_draw_beta(rng, p->alpha);
    sluice_draw_dirichlet(rng, p->alpha, p->width, parts);
    blend->num = p->width;
    blend->weights[0] = (float)(1 - chains);
    for (unsigned b = 0; b < p->width; b++) {
        blend->weights[b + 1] = (float)parts[b] * (float)chains;
        blend->num_ops[b] = (uint8_t)(p->depth ? p->depth : 1 + sluice_rng_below(rng, 3));
        for (unsigned i = 0; i < blend->num_ops[b]; i++)
            *chosen++ = sluice_draw_child(children, num_children, NULL, rng);
    }
}

static unsigned num_chosen(const void *params, unsigned num_children)
{
    (void)num_children;
    const struct params *p = params;
    return p->width * (p->depth ? p->depth : 3);
}

static double mean_chosen(const void *params)
{
    const struct params *p = params;
    return p->width * (p->depth ? p->depth : 2.0);
}

/* Mixing, for each image: a Xeon with SSE2. */
static double ns_of(const void *params)
{
    return 0.9 * (1 + ((const struct params *)params)->width);
}

const struct sluice_op_type sluice_op_augmix = {
    .name = "augmix",
    .help = "torchvision's AugMix: the image and :width=3 chains of :depth=N ops (1 to 3, drawn), "
            "mixed; :alpha=1:all_ops=1:filter=bilinear:fill=128",
    .column = "AugMix",
    .kind = SLUICE_OP_BLEND,
    .is_random = true,
    .ns_of = ns_of,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .expand = expand,
    .blend = blend,
    .num_chosen = num_chosen,
    .mean_chosen = mean_chosen,
};
