#ifndef SLUICE_TESTS_UNIT_KERNELS_SUPPORT_H
#define SLUICE_TESTS_UNIT_KERNELS_SUPPORT_H

#include "train/cuda/kernels_cuda.h"

/* Shared by the tests of kernels_cuda.h: device memory between guard bytes, and values of both
 * types as floats on the host. */

/* The test ends if a call fails. */
void kernels_require(cudaError_t error);

/* A copy on the device; NULL: filled with bytes 0xFF, which are NaNs.  Between guard bytes, freed
 * by kernels_end(). */
void *kernels_to_device(const void *host, size_t bytes);
/* A copy on the host, to be freed. */
void *kernels_from_device(const void *device, size_t bytes);
/* Frees what kernels_to_device() gave since the last call; fails if a guard byte was written. */
void kernels_end(void);

#define KERNELS_NUM_TYPES 2 /* for loops over enum sluice_cuda_type */

/* To the nearest value of the type, ties to even. */
float kernels_round(enum sluice_cuda_type type, double value);
/* The same for tensors; values NULL: NaNs. */
void *kernels_tensor(enum sluice_cuda_type type, const float *values, size_t count);
float *kernels_values(enum sluice_cuda_type type, const void *tensor, size_t count);

/* In [-1, 1), the same for the same salt; steps of 1/8, so that equal values turn up and both types
 * hold them and their sums exactly. */
float *kernels_make(size_t count, uint32_t salt);
/* scale * those + offset, rounded to the type. */
float *kernels_make_scaled(enum sluice_cuda_type type, size_t count, uint32_t salt, double scale,
                           double offset);

/* Counts the values that are further than `tolerance`, and half a step of the type, from what is
 * wanted; a NaN is near a NaN alone.  One assertion, which prints the first. */
void kernels_check(enum sluice_cuda_type type, const float *got, const double *wanted, size_t count,
                   double tolerance);
/* Equal, or both NaN. */
void kernels_check_same(const float *got, const float *wanted, size_t count);

#endif
