#include "pipeline/form.h"

/* raw: the file as it is stored. */

static bool can_carry(const struct sluice_pipeline *pipeline, unsigned split)
{
    (void)pipeline;
    return split == 0;
}

const struct sluice_form_type sluice_form_raw = {
    .form = SLUICE_FORM_RAW,
    .name = "raw",
    .brief = "raw",
    .words = "files",
    .kind = SLUICE_KIND_FILE,
    .is_plain = true,
    .can_carry = can_carry,
};
