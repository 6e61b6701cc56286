#ifndef SLUICE_OP_FORM_WORDS_H
#define SLUICE_OP_FORM_WORDS_H

#include "sluice/sluice.h"

#include <stddef.h>
#include <stdint.h>

/* Forms in words, for programs that see no more of them (op/form.c): the shares of many samples in
 * each, the most frequent first.
 *
 * Threads: pure functions. */

/* Forms that a process can know: those of enum sluice_form, and those that it registers
 * (op/form.h). */
#define SLUICE_MAX_FORMS 8

enum sluice_form_style {
    SLUICE_FORMS_SHORT, /* "crop 93% raw 7%" */
    SLUICE_FORMS_LONG,  /* "93% JPEG crops, 7% files" */
};

/* "JPEG crops", "files", ...: of a form, for a person. */
const char *sluice_form_words(enum sluice_form form);

/* Shares of count[] samples by form.  Leaves out shares below half a percent, and those that do not
 * fit.  "" without samples. */
void sluice_form_shares(const uint64_t count[SLUICE_MAX_FORMS], enum sluice_form_style style,
                        char *out, size_t size);

/* Adds to the short style what share of them a GPU decoded, "crop 93% raw 7% +gpu 98%", by the same
 * rule. */
void sluice_form_add_gpu(uint64_t on_gpu, uint64_t total, char *out, size_t size);

#endif
