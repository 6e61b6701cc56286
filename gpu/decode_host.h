#ifndef SLUICE_GPU_DECODE_HOST_H
#define SLUICE_GPU_DECODE_HOST_H

#include "gpu/batch.h"

/* Runs the device's decoder (decoder.h) on the CPU, from the same source, for tests.  It is slower
 * than the CPU's own decoder.
 *
 * Threads: pure functions. */

/* Makes each sample's row in `rows` (sluice_gpu_row_views_of(), 16-byte aligned);
 * statuses[i] is that of sample i, as sluice_gpu_decoder_wait() gives it.  SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_gpu_decode_host(const struct sluice_gpu_batch *batch,
                                                     uint8_t *rows, sluice_status *statuses,
                                                     struct sluice_err *err);

/* XXH3-128 of rows and their labels, as hash_kernels.h says.  `rows` is 8-byte aligned and readable
 * up to a multiple of 8 bytes; a row has more than 232 bytes. */
void sluice_gpu_hash_host(const uint8_t *rows, const struct sluice_gpu_row_views *views,
                          const struct sluice_gpu_hash_item *items, uint32_t num_items,
                          struct sluice_gpu_hash *hashes);

#endif
