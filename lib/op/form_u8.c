#include "op/form.h"

/* u8: pixels, height x width x 3. */

const struct sluice_form_type sluice_form_u8 = {
    .form = SLUICE_FORM_U8,
    .name = "u8",
    .brief = "pixels",
    .words = "pixels",
    .kind = SLUICE_KIND_U8,
    .is_plain = true,
};
