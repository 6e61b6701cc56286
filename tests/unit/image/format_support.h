#ifndef SLUICE_TEST_FORMAT_SUPPORT_H
#define SLUICE_TEST_FORMAT_SUPPORT_H

#include "image/codecs/codec.h"

/* What the tests of single formats share: the files of tests/golden/formats, whose pixels
 * golden/formats compares with Pillow's. */

uint8_t *test_read_format(const char *name, size_t *len);

/* Decodes bytes in memory of just their length, so that a read beyond is found by a sanitizer.  On
 * success the pixels are as many as the header says. */
sluice_status test_decode_format(const uint8_t *bytes, size_t len, struct sluice_err *err);

/* Every cut of the file: SLUICE_E_CORRUPT or, where fewer than `mark` bytes are left, which tell no
 * format, SLUICE_E_UNSUPPORTED.  The last `spare` bytes may be missing. */
void test_every_cut(const char *name, size_t mark, size_t spare);

/* Every byte with other values: pixels or a status with words. */
void test_every_byte_wrong(const char *name);

#endif
