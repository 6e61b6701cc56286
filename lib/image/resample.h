#ifndef SLUICE_IMAGE_RESAMPLE_H
#define SLUICE_IMAGE_RESAMPLE_H

#include "image/kernels/kernels.h"
#include "image/resize_part.h"

/* Image.resize() of Pillow with the filters other than bilinear, bit for bit: two passes of weights
 * in fixed point, as for bilinear (image/resize.h); nearest copies.  The kernels of x86 take these
 * weights, too; elsewhere the passes are here.
 * Sines are the true value rounded (image/exact_math.h), where Pillow has its libm's.
 *
 * Threads: pure functions. */

/* The inputs that make output `o`. */
struct sluice_tap_span sluice_resample_span(enum sluice_resize_filter filter, uint32_t num_in,
                                            uint32_t num_out, uint32_t o);

/* An upper bound of the taps of one output; not for nearest, as the next. */
uint32_t sluice_resample_max_taps(enum sluice_resize_filter filter, uint32_t num_in,
                                  uint32_t num_out);

/* As struct sluice_kernels.weigh, for another filter; its weights can be negative.  0: no memory.
 */
uint32_t sluice_resample_weigh(enum sluice_resize_filter filter, const struct sluice_taps *taps,
                               bool is_mirrored);

/* As sluice_resize_rgb_part(), for a part whose filter is not bilinear; `in` is the box of the
 * input that it depends on, which the view holds. */
SLUICE_MUST_USE sluice_status sluice_resample_rgb_part(const struct sluice_resize_part *part,
                                                       const struct sluice_box *in,
                                                       const struct sluice_image_view *view,
                                                       bool flip, uint8_t *out,
                                                       struct sluice_err *err);

#endif
