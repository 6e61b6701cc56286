#ifndef SLUICE_COMPUTE_CLIENT_LOAD_CHOICE_H
#define SLUICE_COMPUTE_CLIENT_LOAD_CHOICE_H

#include "base/error.h"
#include "datasets/manifest.h"
#include "pipeline/pipeline.h"
#include "plan/choices.h"
#include "plan/sophon.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which split and form each sample is asked for, by mode.
 *
 * Threads: pure functions. */

enum sluice_mode {
    SLUICE_MODE_LOCAL,
    SLUICE_MODE_NOOFF,
    SLUICE_MODE_ALLOFF,
    SLUICE_MODE_PILOFF,
    SLUICE_MODE_SOPHON,
    SLUICE_MODE_AUTO,
    SLUICE_NUM_MODES,
};

const char *sluice_mode_name(enum sluice_mode mode); /* "remote_auto" */
/* False if no mode is called that ("remote_smartoff" is SOPHON's). */
bool sluice_mode_parse(const char *text, enum sluice_mode *mode);
/* Whether a plan says what is asked for: SOPHON's, or remote_auto's. */
bool sluice_mode_is_planned(enum sluice_mode mode);

/* The same choice for all: every mode that is not planned. */
struct sluice_choice sluice_choice_fixed(enum sluice_mode mode,
                                         const struct sluice_pipeline *pipeline);

/* Asks for JPEG crops in place of whole files, where the pipeline can use one; a server sends
 * the file where it is no JPEG or a crop would not be smaller. */
struct sluice_choice sluice_choice_cut(const struct sluice_pipeline *pipeline,
                                       struct sluice_choice choice);

/* Asks for packed pixels in place of plain ones, and in place of a file for those of the box
 * that its crop needs, which stand at split 1; a server sends what is smaller where packing saves
 * nothing. */
struct sluice_choice sluice_choice_packed(const struct sluice_pipeline *pipeline,
                                          struct sluice_choice choice);

/* Bytes that a reply of this choice is expected to carry; file_bytes where that depends on the
 * image. */
size_t sluice_choice_bytes(const struct sluice_pipeline *pipeline, struct sluice_choice choice,
                           size_t file_bytes);

/* SOPHON's plan for choices[0 .. num_samples), from the profile in `folder`, which must have
 * num_samples rows, or num_total of which the first are taken.  SLUICE_E_INVALID if the profile has
 * other rows, or is of another pipeline. */
struct sluice_choice_request {
    const char *folder;
    struct sluice_rates rates;
    size_t num_samples, num_total;
};
SLUICE_MUST_USE sluice_status sluice_choice_plan(const struct sluice_choice_request *request,
                                                 const struct sluice_pipeline *pipeline,
                                                 struct sluice_choice *choices,
                                                 struct sluice_err *err);

#endif
