/* The lookup of lib/image behind the public header: a table for each call, then image after image.
 */

#include "base/checked.h"
#include "base/cpu.h"
#include "base/error.h"
#include "compute_client/api/tuning.h"
#include "image/kernels/kernels.h"
#include "image/lookup.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* A number of at most six decimals, as means and deviations are given. */
static float to_decimal(double value)
{
    return (float)(round(value * 1e6) / 1e6);
}

/* Kernels compute float32 values faster than they load them, but the caller only has the table: of
 * (v / 255 - mean) / std its ends tell both constants.  A wrong guess costs nothing but the time,
 * as sluice_lookup_set_formula() tries every value. */
static void guess_formula(struct sluice_lookup *lookup, const float table[3][256])
{
    float mean[3], std[3];
    for (int c = 0; c < 3; c++) {
        const double first = table[c][0], last = table[c][255];
        if (!isfinite(first) || !isfinite(last) || last <= first)
            return;
        const double deviation = 1 / (last - first);
        mean[c] = to_decimal(-first * deviation);
        std[c] = to_decimal(deviation);
        if (std[c] == 0)
            return;
    }
    (void)sluice_lookup_set_formula(lookup, mean, std);
}

/* Where kernels would compute: not the scalar ones, and AVX-512 has permutes for planes. */
static bool wants_formula(const struct sluice_lookup *lookup, enum sluice_cpu_level level)
{
    return lookup->type == SLUICE_LOOKUP_F32 && level != SLUICE_CPU_C &&
           (level != SLUICE_CPU_AVX512 || lookup->layout == SLUICE_LOOKUP_NHWC);
}

/* Sizes of all that is written, or false if one does not fit. */
static bool multiply_sizes(size_t num_rows, size_t height, size_t width, size_t value_bytes,
                           size_t *plane, size_t *row_bytes)
{
    size_t row_values, all;
    return sluice_mul_size(height, width, plane) && sluice_mul_size(*plane, 3, &row_values) &&
           sluice_mul_size(row_values, value_bytes, row_bytes) &&
           sluice_mul_size(*row_bytes, num_rows, &all) && all <= PTRDIFF_MAX;
}

sluice_status sluice_finish(const uint8_t *pixels, size_t num_rows, size_t height, size_t width,
                            const float table[3][256], enum sluice_dtype dtype,
                            enum sluice_layout layout, void *out, struct sluice_err *err)
{
    if (dtype != SLUICE_F32 && dtype != SLUICE_F16 && dtype != SLUICE_BF16)
        return sluice_fail(err, SLUICE_E_INVALID, "%d is not a dtype", (int)dtype);
    if (layout != SLUICE_NCHW && layout != SLUICE_NHWC)
        return sluice_fail(err, SLUICE_E_INVALID, "%d is not a layout", (int)layout);
    if (!num_rows || !height || !width)
        return sluice_fail(err, SLUICE_E_INVALID, "%zu rows of %zu x %zu pixels: nothing to finish",
                           num_rows, height, width);
    const size_t value_bytes = dtype == SLUICE_F32 ? sizeof(float) : sizeof(uint16_t);
    size_t plane, row_bytes;
    if (!multiply_sizes(num_rows, height, width, value_bytes, &plane, &row_bytes))
        return sluice_fail(err, SLUICE_E_INVALID, "%zu rows of %zu x %zu pixels are too many bytes",
                           num_rows, height, width);
    if ((uintptr_t)out % value_bytes)
        return sluice_fail(err, SLUICE_E_INVALID, "the output is not aligned to its %zu bytes",
                           value_bytes);

    struct sluice_lookup lookup;
    sluice_lookup_init(&lookup, table,
                       dtype == SLUICE_F32   ? SLUICE_LOOKUP_F32
                       : dtype == SLUICE_F16 ? SLUICE_LOOKUP_F16
                                             : SLUICE_LOOKUP_BF16,
                       layout == SLUICE_NCHW ? SLUICE_LOOKUP_CHW : SLUICE_LOOKUP_NHWC);
    const enum sluice_cpu_level level = sluice_cpu_level();
    if (wants_formula(&lookup, level) && plane * num_rows >= SLUICE_FINISH_FORMULA_PIXELS)
        guess_formula(&lookup, table);
    lookup.is_far = row_bytes * num_rows >= SLUICE_FINISH_FAR_BYTES;
    const struct sluice_kernels *kernels = sluice_kernels_for(level);
    uint8_t *to = out;
    for (size_t row = 0; row < num_rows; row++)
        kernels->look_up(&lookup, pixels + row * plane * 3, plane, to + row * row_bytes, plane);
    return SLUICE_OK;
}
