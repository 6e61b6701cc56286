#ifndef SLUICE_TESTS_UNIT_TRAIN_SUPPORT_H
#define SLUICE_TESTS_UNIT_TRAIN_SUPPORT_H

#include "train/train.h"

#include <stddef.h>
#include <stdint.h>

/* Batches by formula, the same as tests/golden/make_train_reference.py makes. */

extern float train_test_table[3][256]; /* (v / 255 - mean) / std */

void train_test_fill_table(void);

/* Pixel i is the top byte of a hash of i + offset; label s is (s * 7 + 3) % num_classes. */
void train_test_fill_batch(unsigned n, unsigned size, unsigned num_classes, uint64_t offset,
                           uint8_t *pixels, uint32_t *labels);

/* A trainer of the device, or the end of the program: skipped where the build or the machine has
 * no such device. */
struct sluice_trainer *train_test_create(const struct sluice_train_options *options);

/* Bit for bit, so that a NaN equals itself and -0 is not 0. */
int train_test_same_bits(const void *a, const void *b, size_t len);

/* Ends the test, printing the error, unless status is SLUICE_OK. */
void train_test_require(sluice_status status, const struct sluice_err *err);

#endif
