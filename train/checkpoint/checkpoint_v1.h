#ifndef SLUICE_TRAIN_CHECKPOINT_CHECKPOINT_V1_H
#define SLUICE_TRAIN_CHECKPOINT_CHECKPOINT_V1_H

#include "train/checkpoint/checkpoint_content.h"

#include <stdbool.h>

/* The checkpoint file of version 0.1, which is read and not written:
 *
 *     magic      8 bytes "SLUICKPT"
 *     version    u32, 1
 *     model      u16 length, bytes
 *     image_size u32, the height if the images are square, else height << 16 | width
 *     classes    u32
 *     seed       u64
 *     steps      u64
 *     extra      u32 length, bytes          the caller's text
 *     tensors    u32 count, then for each:
 *                u8 kind (0 value, 1 momentum), u8 number of dims (1 to 4),
 *                u16 length and bytes of the name, dims as u32, float32 data
 *     checksum   16 bytes, XXH3-128 of all before it (canonical order)
 *
 * Numbers are little-endian, without padding.  A reader checks the checksum first, and every length
 * against the bytes that are left; no bytes may follow the checksum.
 *
 * Threads: pure functions. */

bool sluice_is_checkpoint_v1(const uint8_t *bytes, size_t len);

/* Fills a zeroed checkpoint, which borrows `bytes`; clear it also after a failure.
 * SLUICE_E_CORRUPT says what is wrong, SLUICE_E_UNSUPPORTED that the version is another. */
SLUICE_MUST_USE sluice_status sluice_checkpoint_v1_parse(const uint8_t *bytes, size_t len,
                                                         struct sluice_checkpoint *checkpoint,
                                                         struct sluice_err *err);

#endif
