#ifndef SLUICE_COMPUTE_CLIENT_LOAD_CHOICE_WORDS_H
#define SLUICE_COMPUTE_CLIENT_LOAD_CHOICE_WORDS_H

#include "pipeline/pipeline.h"

#include <stddef.h>
#include <stdint.h>

/* The choices of many samples in words, by their forms, the most frequent first.
 *
 * Threads: pure functions. */

enum sluice_choice_style {
    SLUICE_CHOICES_SHORT, /* "crop 93% raw 7%" */
    SLUICE_CHOICES_LONG,  /* "93% JPEG crops, 7% files" */
};

/* "JPEG crops", "files", ...: of a form, for a person. */
const char *sluice_choice_form_words(enum sluice_form form);

/* Of so many samples in each form; what is below half a percent is left out, and what does not
 * fit.  "" of no samples. */
void sluice_choice_words(const uint64_t count[SLUICE_NUM_FORMS], enum sluice_choice_style style,
                         char *out, size_t size);

#endif
