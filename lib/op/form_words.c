#include "op/form_words.h"

#include "base/show.h"
#include "op/form.h"

#include <stdio.h>
#include <string.h>

const char *sluice_form_words(enum sluice_form form)
{
    return sluice_form_type(form)->words;
}

void sluice_form_shares(const uint64_t count[SLUICE_MAX_FORMS], enum sluice_form_style style,
                        char *out, size_t size)
{
    uint64_t left[SLUICE_MAX_FORMS], total = 0;
    for (int f = 0; f < SLUICE_MAX_FORMS; f++) {
        left[f] = count[f];
        total += count[f];
    }
    size_t len = 0;
    out[0] = '\0';
    for (;;) {
        int most = 0;
        for (int f = 1; f < SLUICE_MAX_FORMS; f++)
            most = left[f] > left[most] ? f : most;
        if (left[most] == 0 || (double)left[most] < 0.005 * (double)total)
            return;
        char share[SLUICE_SHOW_BYTES];
        sluice_show_share((double)left[most] / (double)total, share);
        const int more = style == SLUICE_FORMS_SHORT
                             ? snprintf(out + len, size - len, "%s%s %s", len ? " " : "",
                                        sluice_form_type((enum sluice_form)most)->brief, share)
                             : snprintf(out + len, size - len, "%s%s %s", len ? ", " : "", share,
                                        sluice_form_type((enum sluice_form)most)->words);
        if (more < 0 || (size_t)more >= size - len) {
            out[len] = '\0'; /* a whole one or none */
            return;
        }
        len += (size_t)more;
        left[most] = 0;
    }
}

void sluice_form_add_gpu(uint64_t on_gpu, uint64_t total, char *out, size_t size)
{
    const size_t len = strlen(out);
    if (on_gpu == 0 || (double)on_gpu < 0.005 * (double)total)
        return;
    char share[SLUICE_SHOW_BYTES];
    sluice_show_share((double)on_gpu / (double)total, share);
    const int more = snprintf(out + len, size - len, "%s+gpu %s", len ? " " : "", share);
    if (more < 0 || (size_t)more >= size - len)
        out[len] = '\0';
}
