#ifndef SLUICE_IMAGE_RESIZE_H
#define SLUICE_IMAGE_RESIZE_H

#include "base/cpu.h"
#include "base/error.h"
#include "image/resize_part.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bilinear resize with antialias, bit-exact with Pillow's 8-bit
 * Image.resize(size, BILINEAR) of a crop, which is what torchvision's
 * resized_crop and resize do to a PIL image (method: docs/NUMERICS.md).
 *
 * Threads: a resizer belongs to one thread at a time. */

struct sluice_resizer; /* coefficient tables and the rows between the two passes */

SLUICE_MUST_USE sluice_status sluice_resizer_create(struct sluice_resizer **resizer,
                                                    struct sluice_err *err);

/* Creates a resizer with the kernels of one CPU level, which this machine must support.  For tests
 * that compare levels. */
SLUICE_MUST_USE sluice_status sluice_resizer_create_at(enum sluice_cpu_level level,
                                                       struct sluice_resizer **resizer,
                                                       struct sluice_err *err);

void sluice_resizer_destroy(struct sluice_resizer *resizer); /* NULL is allowed */

/* Resizes the view (already a crop: taps never reach outside it) to
 * out_width x out_height x 3 at `out`, rows packed; mirrored left to right if
 * `flip`.  All sizes 1 .. 65,535.  SLUICE_E_NO_MEMORY for the tables. */
SLUICE_MUST_USE sluice_status sluice_resize_rgb(struct sluice_resizer *resizer,
                                                const struct sluice_image_view *view,
                                                uint32_t out_width, uint32_t out_height, bool flip,
                                                uint8_t *out, struct sluice_err *err);

/* The box of the input that determines the part. */
struct sluice_box sluice_resize_part_input(const struct sluice_resize_part *part);

/* Resizes to the part: out.width x out.height x 3, the same pixels as in the whole result, then
 * mirrored if `flip`.  `view` is sluice_resize_part_input() of the image; SLUICE_E_INVALID: it has
 * another size. */
SLUICE_MUST_USE sluice_status sluice_resize_rgb_part(struct sluice_resizer *resizer,
                                                     const struct sluice_resize_part *part,
                                                     const struct sluice_image_view *view,
                                                     bool flip, uint8_t *out,
                                                     struct sluice_err *err);

#endif
