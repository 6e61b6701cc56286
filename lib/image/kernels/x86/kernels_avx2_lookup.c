/* The lookup with AVX2 and FMA.  A gather reads no faster than as many loads, so there is nothing
 * here for a table of any values; but those of float32 that are computed are computed eight at a
 * time. */

#include "image/kernels/kernels.h"
#include "image/lookup.h"

#include <immintrin.h>
#include <stdbool.h>

#define PIXELS_AT_ONCE 8

/* By lane or for all lanes. */
struct formula {
    __m256 mean, scale, scale_rest;
};

static inline __m256 compute(const struct formula *formula, __m256i values)
{
    const __m256 v = _mm256_cvtepi32_ps(values);
    const __m256 rest = _mm256_mul_ps(v, _mm256_set1_ps(SLUICE_LOOKUP_255TH_REST));
    const __m256 x = _mm256_fmadd_ps(v, _mm256_set1_ps(SLUICE_LOOKUP_255TH), rest);
    const __m256 difference = _mm256_sub_ps(x, formula->mean);
    return _mm256_fmadd_ps(difference, formula->scale,
                           _mm256_mul_ps(difference, formula->scale_rest));
}

/* `is_far`: past the caches; `out` is aligned then. */
static inline void store(float *out, __m256 values, bool is_far)
{
    if (is_far)
        _mm256_stream_ps(out, values);
    else
        _mm256_storeu_ps(out, values);
}

/* Returns how many pixels are done. */
static size_t compute_planes(const struct sluice_lookup *lookup, const uint8_t *pixels,
                             size_t num_pixels, float *out, size_t plane)
{
    /* Four pixels in either half; byte 3 i + c to lane i, zeros above it. */
    const __m256i by_channel[3] = {
        _mm256_broadcastsi128_si256(
            _mm_setr_epi8(0, -1, -1, -1, 3, -1, -1, -1, 6, -1, -1, -1, 9, -1, -1, -1)),
        _mm256_broadcastsi128_si256(
            _mm_setr_epi8(1, -1, -1, -1, 4, -1, -1, -1, 7, -1, -1, -1, 10, -1, -1, -1)),
        _mm256_broadcastsi128_si256(
            _mm_setr_epi8(2, -1, -1, -1, 5, -1, -1, -1, 8, -1, -1, -1, 11, -1, -1, -1)),
    };
    struct formula formulas[3];
    bool is_far = lookup->is_far;
    for (unsigned c = 0; c < 3; c++) {
        formulas[c] =
            (struct formula){_mm256_set1_ps(lookup->mean[c]), _mm256_set1_ps(lookup->scale[c]),
                             _mm256_set1_ps(lookup->scale_rest[c])};
        is_far &= (uintptr_t)(out + c * plane) % 32 == 0;
    }
    size_t i = 0;
    /* The second load ends four bytes beyond the eighth pixel. */
    for (; (i + PIXELS_AT_ONCE) * 3 + 4 <= num_pixels * 3; i += PIXELS_AT_ONCE) {
        const uint8_t *in = pixels + 3 * i;
        const __m256i bytes = _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)in)),
            _mm_loadu_si128((const __m128i *)(const void *)(in + 12)), 1);
        for (unsigned c = 0; c < 3; c++)
            store(out + c * plane + i,
                  compute(&formulas[c], _mm256_shuffle_epi8(bytes, by_channel[c])), is_far);
    }
    if (is_far)
        _mm_sfence(); /* such stores keep no order by themselves */
    return i;
}

static size_t compute_pixels(const struct sluice_lookup *lookup, const uint8_t *pixels,
                             size_t num_pixels, float *out)
{
    struct formula formulas[3]; /* of the first, second and third eight values of eight pixels */
    for (unsigned r = 0; r < 3; r++) {
        float mean[8], scale[8], scale_rest[8];
        for (unsigned l = 0; l < 8; l++) {
            const unsigned c = (8 * r + l) % 3;
            mean[l] = lookup->mean[c];
            scale[l] = lookup->scale[c];
            scale_rest[l] = lookup->scale_rest[c];
        }
        formulas[r] = (struct formula){_mm256_loadu_ps(mean), _mm256_loadu_ps(scale),
                                       _mm256_loadu_ps(scale_rest)};
    }
    const bool is_far = lookup->is_far && (uintptr_t)out % 32 == 0;
    size_t i = 0;
    for (; i + PIXELS_AT_ONCE <= num_pixels; i += PIXELS_AT_ONCE) {
        for (size_t r = 0; r < 3; r++) {
            const __m128i bytes =
                _mm_loadl_epi64((const __m128i *)(const void *)(pixels + 3 * i + 8 * r));
            store(out + 3 * i + 8 * r, compute(&formulas[r], _mm256_cvtepu8_epi32(bytes)), is_far);
        }
    }
    if (is_far)
        _mm_sfence();
    return i;
}

void sluice_look_up_avx2(const struct sluice_lookup *lookup, const uint8_t *pixels,
                         size_t num_pixels, void *out, size_t plane)
{
    const bool is_planar = lookup->layout == SLUICE_LOOKUP_CHW;
    size_t done = 0;
    if (lookup->is_computed)
        done = is_planar ? compute_planes(lookup, pixels, num_pixels, out, plane)
                         : compute_pixels(lookup, pixels, num_pixels, out);
    sluice_look_up_c(
        lookup, pixels + 3 * done, num_pixels - done,
        (uint8_t *)out + done * sluice_lookup_value_bytes(lookup) * (is_planar ? 1 : 3), plane);
}
