#ifndef SLUICE_DATASETS_NPY_H
#define SLUICE_DATASETS_NPY_H

#include "base/error.h"

#include <stddef.h>

/* Arrays as numpy's .npy files, format 1.0, C order.
 *
 * Threads: any. */

/* As sluice_file_write_atomic().  type is numpy's: "|u1", "<f4"; `len` bytes
 * must be what type and shape say (1 to 8 dimensions). */
SLUICE_MUST_USE sluice_status sluice_npy_write(const char *path, const char *type,
                                               const size_t *shape, size_t num_dims,
                                               const void *data, size_t len,
                                               struct sluice_err *err);

#endif
