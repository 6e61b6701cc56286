#ifndef SLUICE_COMPUTE_CLIENT_LOADER_CHOOSE_CHOICE_H
#define SLUICE_COMPUTE_CLIENT_LOADER_CHOOSE_CHOICE_H

#include "base/error.h"
#include "op/pipeline.h"
#include "plan/choices.h"
#include "plan/cost_folder.h"
#include "plan/mode.h"

#include <stdbool.h>
#include <stddef.h>

/* The split and form in which each sample is requested, by mode.
 *
 * Threads: pure functions. */

/* The one choice for all samples in a mode that is not planned. */
struct sluice_choice sluice_choice_fixed(enum sluice_mode mode,
                                         const struct sluice_pipeline *pipeline);

/* Replaces a plain form by `form` where the pipeline can carry it: a whole file by a JPEG crop or
 * by the rows that its crop needs, pixels by packed ones, and a whole file by the packed pixels of
 * the box that its crop needs (split 1).  Where that would not be smaller, the server sends the
 * smaller form.  A plain `form` replaces nothing. */
struct sluice_choice sluice_choice_coded(const struct sluice_pipeline *pipeline,
                                         struct sluice_choice choice, enum sluice_form form);

/* The expected payload bytes of a reply to this choice; file_bytes if they depend on the image. */
size_t sluice_choice_bytes(const struct sluice_pipeline *pipeline, struct sluice_choice choice,
                           size_t file_bytes);

/* SOPHON's plan (plan/sophon.h) for choices[0 .. use.num_used), from the profile in `folder`.
 * SLUICE_E_INVALID if the profile is of another pipeline or dataset (plan/cost_folder.h). */
struct sluice_choice_request {
    const char *folder;
    struct sluice_rates rates;
    struct sluice_cost_folder_use use;
};
SLUICE_MUST_USE sluice_status sluice_choice_plan(const struct sluice_choice_request *request,
                                                 struct sluice_choice *choices,
                                                 struct sluice_err *err);

#endif
