#ifndef SLUICE_OP_FORM_WORDS_H
#define SLUICE_OP_FORM_WORDS_H

#include "sluice/sluice.h"

#include <stddef.h>
#include <stdint.h>

/* Names of forms for people, and the share of samples in each form, the most frequent first.  For
 * programs that need nothing else of forms (op/form.c implements it).
 *
 * Threads: pure functions. */

/* The most forms of a process: those of enum sluice_form and those that it registers (op/form.h).
 */
#define SLUICE_MAX_FORMS 8

enum sluice_form_style {
    SLUICE_FORMS_SHORT, /* "crop 93% raw 7%" */
    SLUICE_FORMS_LONG,  /* "93% JPEG crops, 7% files" */
};

/* A form's name for a person: "JPEG crops", "files", ... */
const char *sluice_form_words(enum sluice_form form);

/* Writes the shares of count[] samples by form.  Omits shares below half a percent, and those that
 * do not fit.  Writes "" for 0 samples. */
void sluice_form_shares(const uint64_t count[SLUICE_MAX_FORMS], enum sluice_form_style style,
                        char *out, size_t size);

/* Appends the share of samples that a GPU decoded to the short style, "crop 93% raw 7% +gpu 98%",
 * by the same rule. */
void sluice_form_add_gpu(uint64_t on_gpu, uint64_t total, char *out, size_t size);

#endif
