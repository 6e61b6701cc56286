#include "op/form.h"

/* raw: the file as it is stored. */

const struct sluice_form_type sluice_form_raw = {
    .form = SLUICE_FORM_RAW,
    .name = "raw",
    .brief = "raw",
    .words = "files",
    .kind = SLUICE_KIND_FILE,
    .is_plain = true,
};
