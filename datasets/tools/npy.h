#ifndef SLUICE_DATASETS_TOOLS_NPY_H
#define SLUICE_DATASETS_TOOLS_NPY_H

#include "base/error.h"

#include <stddef.h>

/* Writes arrays as numpy's .npy files, format 1.0, C order.
 *
 * Threads: any. */

/* Replaces the file like sluice_file_write_atomic().  `type` is numpy's: "|u1", "<f4"; `len` must
 * be what type and shape (1 to 8 dimensions) say. */
SLUICE_MUST_USE sluice_status sluice_npy_write(const char *path, const char *type,
                                               const size_t *shape, size_t num_dims,
                                               const void *data, size_t len,
                                               struct sluice_err *err);

#endif
