/* Weights with AVX2: of four outputs at a time, in doubles.  Compiled for it; only called where
 * base/cpu.h found it. */

#include "base/compiler.h"
#include "image/kernels/kernels.h"

#include <immintrin.h>
#include <stdbool.h>

/* Tap k of four outputs, one a lane; zero from their counts on.  All as kernels_c.c has it. */
static SLUICE_ALWAYS_INLINE __m256d triangles(uint32_t k, __m128i first, __m128i count,
                                              __m256d center, __m256d inverse)
{
    const __m256d one = _mm256_set1_pd(1.0);
    const __m128i tap = _mm_set1_epi32((int)k);
    const __m256d from_center = _mm256_add_pd(
        _mm256_sub_pd(_mm256_cvtepi32_pd(_mm_add_epi32(tap, first)), center), _mm256_set1_pd(0.5));
    const __m256d x = _mm256_andnot_pd(_mm256_set1_pd(-0.0), _mm256_mul_pd(from_center, inverse));
    const __m256d is_tap = _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm_cmplt_epi32(tap, count)));
    const __m256d is_near = _mm256_and_pd(_mm256_cmp_pd(x, one, _CMP_LT_OQ), is_tap);
    return _mm256_and_pd(_mm256_sub_pd(one, x), is_near);
}

uint32_t sluice_weigh_avx2(const struct sluice_taps *taps, bool is_mirrored)
{
    const double scale_of_all = (double)taps->num_in / taps->num_out;
    const double support_of_all = scale_of_all < 1.0 ? 1.0 : scale_of_all;
    const __m256d scale = _mm256_set1_pd(scale_of_all), support = _mm256_set1_pd(support_of_all);
    const __m256d inverse = _mm256_set1_pd(1.0 / support_of_all);
    const __m256d half = _mm256_set1_pd(0.5), unit = _mm256_set1_pd(1 << SLUICE_RESIZE_BITS);
    const __m128i num_in = _mm_set1_epi32((int)taps->num_in);
    uint32_t max_count = 1;
    for (uint32_t i = 0; i < taps->num_out; i += 4) {
        const __m128i output = _mm_add_epi32(_mm_set1_epi32((int)i), _mm_setr_epi32(0, 1, 2, 3));
        const __m256d center =
            _mm256_mul_pd(_mm256_add_pd(_mm256_cvtepi32_pd(output), half), scale);
        const __m128i first =
            _mm_max_epi32(_mm256_cvttpd_epi32(_mm256_add_pd(_mm256_sub_pd(center, support), half)),
                          _mm_setzero_si128());
        const __m128i end = _mm_min_epi32(
            _mm256_cvttpd_epi32(_mm256_add_pd(_mm256_add_pd(center, support), half)), num_in);
        const __m128i count = _mm_sub_epi32(end, first);
        uint32_t firsts[4], counts[4];
        _mm_storeu_si128((__m128i *)(void *)firsts, first);
        _mm_storeu_si128((__m128i *)(void *)counts, count);

        const uint32_t num = taps->num_out - i < 4 ? taps->num_out - i : 4;
        uint32_t most = 1;
        for (uint32_t j = 0; j < num; j++)
            most = counts[j] > most ? counts[j] : most;
        max_count = most > max_count ? most : max_count;
        __m256d sum = _mm256_setzero_pd();
        for (uint32_t k = 0; k < most; k++)
            sum = _mm256_add_pd(sum, triangles(k, first, count, center, inverse));
        /* Where the sum is zero, so are the weights: divided by one they stay so. */
        const __m256d is_zero = _mm256_cmp_pd(sum, _mm256_setzero_pd(), _CMP_EQ_OQ);
        const __m256d divisor = _mm256_blendv_pd(sum, _mm256_set1_pd(1.0), is_zero);
        for (uint32_t k = 0; k < taps->stride; k += 4) {
            /* Taps, an output in each element. */
            __m128i four[4] = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128(),
                               _mm_setzero_si128()};
            for (uint32_t t = 0; t < 4 && k + t < most; t++) {
                const __m256d weight = triangles(k + t, first, count, center, inverse);
                four[t] = _mm256_cvttpd_epi32(
                    _mm256_add_pd(half, _mm256_mul_pd(_mm256_div_pd(weight, divisor), unit)));
            }
            const __m128i low_01 = _mm_unpacklo_epi32(four[0], four[1]);
            const __m128i low_23 = _mm_unpacklo_epi32(four[2], four[3]);
            const __m128i high_01 = _mm_unpackhi_epi32(four[0], four[1]);
            const __m128i high_23 = _mm_unpackhi_epi32(four[2], four[3]);
            const __m128i of_output[4] = {
                _mm_unpacklo_epi64(low_01, low_23), _mm_unpackhi_epi64(low_01, low_23),
                _mm_unpacklo_epi64(high_01, high_23), _mm_unpackhi_epi64(high_01, high_23)};
            for (uint32_t j = 0; j < num; j++) {
                const uint32_t o = is_mirrored ? taps->num_out - 1 - (i + j) : i + j;
                _mm_storeu_si128((__m128i *)(void *)(taps->coeffs + (size_t)o * taps->stride + k),
                                 of_output[j]);
            }
        }
        for (uint32_t j = 0; j < num; j++) {
            const uint32_t o = is_mirrored ? taps->num_out - 1 - (i + j) : i + j;
            taps->spans[o] = (struct sluice_tap_span){firsts[j], counts[j]};
        }
    }
    return max_count;
}
