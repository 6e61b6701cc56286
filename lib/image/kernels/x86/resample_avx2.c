#include "image/kernels/x86/resample_avx2.h"

#include "image/kernels/kernels.h"

#include <immintrin.h>
#include <string.h>

#define LOADED_BYTES 8 /* for two pixels, of which 6 are theirs */

void sluice_weigh_pixels_avx2(const uint8_t *pixels, const int32_t *weights, size_t count,
                              uint8_t *out)
{
    const __m128i spread = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i twice = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    __m256i pairs = _mm256_setzero_si256();
    size_t k = 0;
    for (; 3 * k + LOADED_BYTES <= 3 * count; k += 2) {
        const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(pixels + 3 * k));
        const __m128i both = _mm_loadl_epi64((const __m128i *)(const void *)(weights + k));
        const __m256i values = _mm256_cvtepu8_epi32(_mm_shuffle_epi8(bytes, spread));
        const __m256i factors = _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(both), twice);
        pairs = _mm256_add_epi32(pairs, _mm256_mullo_epi32(values, factors));
    }
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    for (; k < count; k++) {
        const __m128i value =
            _mm_setr_epi32(pixels[3 * k], pixels[3 * k + 1], pixels[3 * k + 2], 0);
        sum = _mm_add_epi32(sum, _mm_mullo_epi32(value, _mm_set1_epi32(weights[k])));
    }
    sum = _mm_add_epi32(sum, _mm_set1_epi32(1 << (SLUICE_RESIZE_BITS - 1)));
    const __m128i words = _mm_packs_epi32(_mm_srai_epi32(sum, SLUICE_RESIZE_BITS), sum);
    const int clipped = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    memcpy(out, &clipped, 3);
}
