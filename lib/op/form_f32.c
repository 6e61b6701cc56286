#include "op/form.h"

/* f32: values of a tensor, 3 x height x width, little endian. */

const struct sluice_form_type sluice_form_f32 = {
    .form = SLUICE_FORM_F32,
    .name = "f32",
    .brief = "floats",
    .words = "floats",
    .kind = SLUICE_KIND_F32,
    .is_plain = true,
};
