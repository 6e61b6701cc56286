#ifndef SLUICE_OP_RECIPE_H
#define SLUICE_OP_RECIPE_H

#include "op/batch_ops.h"
#include "op/pipeline.h"

/* Pipelines on command lines and in settings: text, or "@FILE", a recipe in JSON (docs/RECIPES.md):
 *
 *     {"train": ["decode", "random_resized_crop=224", "hflip"], "val": "decode,center_crop=224"}
 *
 * A pipeline there is a text, or a list of ops in text.  A file that is only one of these is both.
 * "mix" and "erasing" are what is done to batches, by the arguments of sluice.torch.Mix and
 * sluice.torch.RandomErasing.
 * Only for command lines and settings: a text of a peer goes to sluice_pipeline_parse().
 *
 * Threads: pure but for the file. */

bool sluice_is_recipe(const char *text); /* begins with '@' */

/* The pipeline of a text, or the file's "val" or "train".  SLUICE_E_NOT_FOUND: the file has no
 * "val"; SLUICE_E_INVALID, SLUICE_E_IO name the file. */
SLUICE_MUST_USE sluice_status sluice_recipe_parse(const char *text, bool is_val,
                                                  struct sluice_pipeline **pipeline,
                                                  struct sluice_err *err);

/* The batch ops that the file of "@FILE" has; *ops has the defaults, and takes what the file says.
 * SLUICE_E_INVALID, SLUICE_E_IO name the file. */
SLUICE_MUST_USE sluice_status sluice_recipe_batch_ops(const char *text,
                                                      struct sluice_batch_ops *ops,
                                                      struct sluice_err *err);

/* For an option: whether it can be parsed. */
SLUICE_MUST_USE sluice_status sluice_recipe_check(const char *text, struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_recipe_check_val(const char *text, struct sluice_err *err);

#endif
