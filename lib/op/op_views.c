#include "op/op.h"

/* views: several images of one sample, each by ops of its own.  pipeline_parse.c reads them, and
 * run_views.c runs them. */

const struct sluice_op_type sluice_op_views = {
    .name = "views",
    .help = "several images of each sample, each by the ops in its brackets, which end in a fixed "
            "size; 2x: with draws of its own each time; only to_tensor may follow",
    .example = "(2x[random_resized_crop=224,hflip],8x[random_resized_crop=96,hflip])",
    .column = "Views",
    .kind = SLUICE_OP_VIEWS,
};
