#include "compute_client/load/choice_words.h"

#include "base/show.h"

#include <stdio.h>

static const struct {
    const char *brief, *words;
} names[SLUICE_NUM_FORMS] = {
    [SLUICE_FORM_RAW] = {"raw", "files"},     [SLUICE_FORM_JPEG_CROP] = {"crop", "JPEG crops"},
    [SLUICE_FORM_U8] = {"pixels", "pixels"},  [SLUICE_FORM_U8_PACKED] = {"packed", "packed pixels"},
    [SLUICE_FORM_F32] = {"floats", "floats"},
};

const char *sluice_choice_form_words(enum sluice_form form)
{
    return names[form].words;
}

void sluice_choice_words(const uint64_t count[SLUICE_NUM_FORMS], enum sluice_choice_style style,
                         char *out, size_t size)
{
    uint64_t left[SLUICE_NUM_FORMS], total = 0;
    for (int f = 0; f < SLUICE_NUM_FORMS; f++) {
        left[f] = count[f];
        total += count[f];
    }
    size_t len = 0;
    out[0] = '\0';
    for (;;) {
        int most = 0;
        for (int f = 1; f < SLUICE_NUM_FORMS; f++)
            most = left[f] > left[most] ? f : most;
        if (left[most] == 0 || (double)left[most] < 0.005 * (double)total)
            return;
        char share[SLUICE_SHOW_BYTES];
        sluice_show_share((double)left[most] / (double)total, share);
        const int more = style == SLUICE_CHOICES_SHORT
                             ? snprintf(out + len, size - len, "%s%s %s", len ? " " : "",
                                        names[most].brief, share)
                             : snprintf(out + len, size - len, "%s%s %s", len ? ", " : "", share,
                                        names[most].words);
        if (more < 0 || (size_t)more >= size - len) {
            out[len] = '\0'; /* a whole one or none */
            return;
        }
        len += (size_t)more;
        left[most] = 0;
    }
}
