#include "op/warp_op.h"

#include "base/c_locale.h"

/* rand_augment_timm: timm's rand_augment_transform("rand-mM-mstdS-nN-pP-incI"): N ops of 15, each
 * may come again and runs with probability P, at a magnitude of 0 to 10 that is normal about M. */

struct params {
    double magnitude, mstd;
    uint32_t num_ops;
    double prob, increasing;
    struct sluice_warp_params warp;
};

#define NUMBER(its_name, its_form, upper, its_preset)                                              \
    {                                                                                              \
        .name = #its_name, .kind = SLUICE_PARAM_NUMBER,                                            \
        .offset = offsetof(struct params, its_name), .form = its_form, .max = upper,               \
        .has_preset = true, .preset = {                                                            \
            .min = its_preset                                                                      \
        }                                                                                          \
    }

static const struct sluice_op_param param_list[] = {
    {.name = "magnitude",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, magnitude),
     .form = "M",
     .example = "9",
     .max = 10},
    NUMBER(mstd, "S", 10, 0),
    {.name = "num_ops",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, num_ops),
     .form = "N",
     .has_preset = true,
     .preset = {.min = 2}},
    NUMBER(prob, "P", 1, 0.5),
    NUMBER(increasing, "1", 1, 0),
    SLUICE_WARP_PARAMS(struct params),
    {0},
};

static const char *prepare(void *params)
{
    const struct params *p = params;
    if (p->increasing != 0 && p->increasing != 1)
        return "increasing is 0 or 1";
    if ((p->magnitude > 0 && p->magnitude < 0.1) || (p->mstd > 0 && p->mstd < 0.1))
        return "magnitude and mstd are 0 or at least 0.1";
    return p->num_ops > SLUICE_MAX_CHOSEN ? "at most 32 ops can be drawn" : NULL;
}

/* timm's _RAND_TRANSFORMS and _RAND_INCREASING_TRANSFORMS, with their _level_to_arg functions. */
static void expand(const void *params, char *text, size_t room)
{
    const struct params *p = params;
    char warp[80], enhance[SLUICE_LEVEL_ROOM], rotate[SLUICE_LEVEL_ROOM], bits[SLUICE_LEVEL_ROOM],
        solarize[SLUICE_LEVEL_ROOM], add[SLUICE_LEVEL_ROOM], shear[SLUICE_LEVEL_ROOM],
        translate[SLUICE_LEVEL_ROOM], prob[32], each[48] = "";
    const bool is_increasing = p->increasing == 1;
    sluice_warp_print(&p->warp, warp, sizeof(warp));
    sluice_print_level(p->magnitude, p->mstd, 0, 30, rotate);
    sluice_print_level(p->magnitude, p->mstd, is_increasing ? 4 : 0, is_increasing ? -4 : 4, bits);
    sluice_print_level(p->magnitude, p->mstd, is_increasing ? 256 : 0, is_increasing ? -256 : 256,
                       solarize);
    sluice_print_level(p->magnitude, p->mstd, 0, 110, add);
    sluice_print_level(p->magnitude, p->mstd, is_increasing ? 0 : 0.1, is_increasing ? 0.9 : 1.8,
                       enhance);
    sluice_print_level(p->magnitude, p->mstd, 0, 0.3, shear);
    sluice_print_level(p->magnitude, p->mstd, 0, 0.45, translate);
    if (p->prob < 1) {
        sluice_print_number(p->prob, prob, sizeof(prob));
        sluice_snprintf(each, sizeof(each), ":p=%s", prob);
    }
    const char *about = is_increasing ? "1~" : "";
    sluice_snprintf(text, room,
                    "autocontrast%s,equalize%s,invert%s,rotate=~%s%s%s,posterize=%s:rounding=%s%s,"
                    "solarize=%s%s%s,solarize_add=%s%s,color=%s%s%s,contrast=%s%s%s,brightness=%s%"
                    "s%s,sharpness=%s%s%s,"
                    "shear_x=~%s%s%s,shear_y=~%s%s%s,translate_x=~%s%s%s,translate_y=~%s%s%s)",
                    each, each, each, rotate, warp, each, bits, is_increasing ? "up" : "down", each,
                    solarize, is_increasing ? "" : ":rounding=down", each, add, each, about,
                    enhance, each, about, enhance, each, about, enhance, each, about, enhance, each,
                    shear, warp, each, shear, warp, each, translate, warp, each, translate, warp,
                    each);
}

static unsigned choose(const void *params, const struct sluice_op *children, unsigned num_children,
                       struct sluice_rng *rng, uint8_t chosen[SLUICE_MAX_CHOSEN])
{
    const struct params *p = params;
    for (unsigned i = 0; i < p->num_ops; i++)
        chosen[i] = sluice_draw_child(children, num_children, NULL, rng);
    return p->num_ops;
}

static unsigned num_chosen(const void *params, unsigned num_children)
{
    (void)num_children;
    return ((const struct params *)params)->num_ops;
}

const struct sluice_op_type sluice_op_rand_augment_timm = {
    .name = "rand_augment_timm",
    .help = "timm's rand-m9, 2 of 15 ops; :mstd=0.5, :increasing=1, :prob=0.5, :filter=random",
    .column = "RandAugment",
    .kind = SLUICE_OP_CHOICE,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .expand = expand,
    .choose = choose,
    .num_chosen = num_chosen,
};
