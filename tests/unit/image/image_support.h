#ifndef SLUICE_TESTS_IMAGE_SUPPORT_H
#define SLUICE_TESTS_IMAGE_SUPPORT_H

#include "image/codecs/codec.h"
#include "image/jpeg/index.h"

#include <stdbool.h>
#include <stdint.h>

/* Pictures for the image tests. */

/* A smooth picture with edges, height x width x 3 in malloc'ed memory. */
uint8_t *image_test_picture(uint32_t width, uint32_t height);

/* The mean of the absolute differences of two pictures' bytes. */
double image_test_mean_difference(const uint8_t *a, const uint8_t *b, uint32_t width,
                                  uint32_t height);

/* Whether `part` is `all` within the box, in size and in every byte. */
bool image_test_is_part(const struct sluice_rgb *part, const struct sluice_rgb *all,
                        const struct sluice_box *box);

/* A file of each kind that there is code for; the picture above. */
enum image_test_kind {
    IMAGE_TEST_BASELINE,
    IMAGE_TEST_PROGRESSIVE,
    IMAGE_TEST_GRAY,
    IMAGE_TEST_CMYK,
    IMAGE_TEST_RESTARTS,
    IMAGE_TEST_PNG,
    IMAGE_TEST_NUM_KINDS
};
struct sluice_buf *image_test_file(enum image_test_kind kind, uint32_t width, uint32_t height);

/* The same as a JPEG of these options. */
struct sluice_buf *image_test_jpeg(uint32_t width, uint32_t height,
                                   const struct sluice_jpeg_encode_options *options);

/* Its index, with a time of change of 12345. */
struct sluice_jpeg_index image_test_index(const struct sluice_buf *file, uint32_t step);

#endif
