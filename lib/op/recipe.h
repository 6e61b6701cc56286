#ifndef SLUICE_OP_RECIPE_H
#define SLUICE_OP_RECIPE_H

#include "op/batch_ops.h"
#include "op/pipeline.h"

/* Pipelines on command lines and in settings: text, or "@FILE", a recipe in JSON (docs/RECIPES.md):
 *
 *     {"train": ["decode", "random_resized_crop=224", "hflip"], "val": "decode,center_crop=224"}
 *
 * Each pipeline is a text or a list of texts of ops.  A file that holds one pipeline alone uses it
 * for both.  "mix" and "erasing" are batch ops with the arguments of sluice.torch.Mix and
 * sluice.torch.RandomErasing.  Only for command lines and settings: parse a peer's text with
 * sluice_pipeline_parse().
 *
 * Threads: pure functions, except that they read the file. */

bool sluice_is_recipe(const char *text); /* begins with '@' */

/* Parses a text, or the "val" or "train" pipeline of the file.  SLUICE_E_NOT_FOUND: the file has no
 * "val"; SLUICE_E_INVALID, SLUICE_E_IO name the file. */
SLUICE_MUST_USE sluice_status sluice_recipe_parse(const char *text, bool is_val,
                                                  struct sluice_pipeline **pipeline,
                                                  struct sluice_err *err);

/* Reads the batch ops of "@FILE" into *ops, which holds the defaults at first.  SLUICE_E_INVALID,
 * SLUICE_E_IO name the file. */
SLUICE_MUST_USE sluice_status sluice_recipe_batch_ops(const char *text,
                                                      struct sluice_batch_ops *ops,
                                                      struct sluice_err *err);

/* Replaces *pipeline, which it destroys, with one that has fit_bucket right after decode and
 * exif_transpose.  `buckets` is fit_bucket's value with commas between the sizes, such as
 * "1024x1024,896x1152:crop=random".  SLUICE_E_INVALID: the pipeline has fit_bucket already, or then
 * gives all images one size. */
SLUICE_MUST_USE sluice_status sluice_recipe_add_buckets(const char *buckets,
                                                        struct sluice_pipeline **pipeline,
                                                        struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_recipe_check_buckets(const char *buckets,
                                                          struct sluice_err *err);

/* Checks an option's value: whether it can be parsed. */
SLUICE_MUST_USE sluice_status sluice_recipe_check(const char *text, struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_recipe_check_val(const char *text, struct sluice_err *err);

#endif
