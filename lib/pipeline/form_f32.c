#include "pipeline/form.h"

/* f32: values of a tensor, 3 x height x width, little endian. */

static bool can_carry(const struct sluice_pipeline *pipeline, unsigned split)
{
    return sluice_pipeline_kind(pipeline, split) == SLUICE_KIND_F32;
}

const struct sluice_form_type sluice_form_f32 = {
    .form = SLUICE_FORM_F32,
    .name = "f32",
    .brief = "floats",
    .words = "floats",
    .kind = SLUICE_KIND_F32,
    .is_plain = true,
    .can_carry = can_carry,
};
