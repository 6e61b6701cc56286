#ifndef SLUICE_OP_TENSOR_H
#define SLUICE_OP_TENSOR_H

#include "op/op.h"

/* From u8 pixels to float32 tensors.  A value of the tensor depends only on one u8 value and its
 * channel, so to_tensor and normalize are one table of 3 x 256 floats, made here in torch's float32
 * arithmetic: every +, - and / rounds to float32.
 *
 * Threads: pure functions. */

/* The table of to_tensor, v / 255, and of a scale after it (NULL: none). */
void sluice_tensor_table(const struct sluice_scale *scale, sluice_pipeline_table table);

/* Whether floats can be converted back to u8: each channel's floats increase with the u8 value. */
bool sluice_tensor_table_is_invertible(const sluice_pipeline_table table);

/* Converts 3 x height x width values back to height x width x 3 u8, the inverse of image/lookup.h.
 * SLUICE_E_CORRUPT: the table does not contain a value. */
SLUICE_MUST_USE sluice_status sluice_tensor_to_u8(const sluice_pipeline_table table,
                                                  const float *values, struct sluice_size size,
                                                  uint8_t *out, struct sluice_err *err);

/* Writes (value - mean) / std for `len` values of each channel. */
void sluice_tensor_normalize(const struct sluice_scale *scale, const float *in, size_t len,
                             float *out);

#endif
