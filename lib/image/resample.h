#ifndef SLUICE_IMAGE_RESAMPLE_H
#define SLUICE_IMAGE_RESAMPLE_H

#include "image/kernels/kernels.h"
#include "image/resize_part.h"

/* Image.resize() of Pillow with the filters other than bilinear, bit for bit: two passes of weights
 * in fixed point, as for bilinear (image/resize.h); nearest copies.  Kernels for x86 use these
 * weights, too; on other CPUs the passes run here.  Sines are correctly rounded
 * (image/exact_math.h), whereas Pillow uses its libm's.
 *
 * Threads: pure functions. */

/* The inputs that contribute to output `o`. */
struct sluice_tap_span sluice_resample_span(enum sluice_resize_filter filter, uint32_t num_in,
                                            uint32_t num_out, uint32_t o);

/* An upper bound of the taps of one output.  Not for nearest. */
uint32_t sluice_resample_max_taps(enum sluice_resize_filter filter, uint32_t num_in,
                                  uint32_t num_out);

/* As struct sluice_kernels.weigh, for a filter other than bilinear and nearest; weights can be
 * negative.  0: no memory. */
uint32_t sluice_resample_weigh(enum sluice_resize_filter filter, const struct sluice_taps *taps,
                               bool is_mirrored);

/* As sluice_resize_rgb_part(), for a part whose filter is not bilinear; `in` is the box of the
 * input that the view holds: the one that determines the part. */
SLUICE_MUST_USE sluice_status sluice_resample_rgb_part(const struct sluice_resize_part *part,
                                                       const struct sluice_box *in,
                                                       const struct sluice_image_view *view,
                                                       bool flip, uint8_t *out,
                                                       struct sluice_err *err);

#endif
