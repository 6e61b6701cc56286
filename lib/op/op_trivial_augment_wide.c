#include "op/warp_op.h"

#include "base/c_locale.h"

/* trivial_augment_wide: torchvision's TrivialAugmentWide: one op of 14, at one of 31 magnitudes,
 * with a sign that is drawn. */

struct params {
    struct sluice_warp_params warp;
};

static const struct sluice_op_param param_list[] = {
    SLUICE_WARP_PARAMS(struct params),
    {0},
};

/* torchvision's _augmentation_space(); of 31 magnitudes three give 8 bits, five 7, and so on. */
static void expand(const void *params, char *text, size_t room)
{
    const struct params *p = params;
    char warp[80];
    sluice_warp_print(&p->warp, warp, sizeof(warp));
    sluice_snprintf(text, room,
                    "identity,shear_x=~0-0.99/31%s,shear_y=~0-0.99/31%s,"
                    "translate_x=~0-32/31:unit=pixel%s,translate_y=~0-32/31:unit=pixel%s,"
                    "rotate=~0-135/31%s,brightness=1~0-0.99/31,color=1~0-0.99/31,"
                    "contrast=1~0-0.99/31,sharpness=1~0-0.99/31,"
                    "one_of(posterize=8:weight=3,posterize=7:weight=5,posterize=6:weight=5,"
                    "posterize=5:weight=5,posterize=4:weight=5,posterize=3:weight=5,"
                    "posterize=2:weight=3),solarize=0-255/31,autocontrast,equalize)",
                    warp, warp, warp, warp, warp);
}

const struct sluice_op_type sluice_op_trivial_augment_wide = {
    .name = "trivial_augment_wide",
    .help = "torchvision's TrivialAugmentWide: one op of 14, at one of 31 magnitudes; "
            ":filter=bilinear:fill=128",
    .column = "TrivialAugmentWide",
    .kind = SLUICE_OP_CHOICE,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .expand = expand,
    .choose = sluice_choose_one,
    .num_chosen = sluice_num_one,
};
