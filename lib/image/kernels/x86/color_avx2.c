#include "image/kernels/x86/blur_avx2.h"
#include "image/kernels/x86/lines_avx2.h"
#include "image/kernels/x86/pixels_avx2.h"
#include "image/kernels/x86/warp_avx2.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* A table of 256 bytes is 16 of 16, which a byte shuffle looks up: it gives 0 where the index's top
 * bit is set, so one whose upper half is not this table's adds nothing. */
static void map_bytes(const uint8_t *in, size_t n, const uint8_t table[256], uint8_t *out)
{
    __m256i tables[16];
    for (int t = 0; t < 16; t++)
        tables[t] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(table + 16 * t)));
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i index = _mm256_loadu_si256((const __m256i *)(in + i));
        __m256i found = _mm256_setzero_si256();
        for (int t = 0; t < 16; t++) {
            /* 0 .. 15 stays below 16; all else is moved to 128 and above. */
            const __m256i its = _mm256_adds_epu8(index, _mm256_set1_epi8(112));
            found = _mm256_or_si256(found, _mm256_shuffle_epi8(tables[t], its));
            index = _mm256_sub_epi8(index, _mm256_set1_epi8(16));
        }
        _mm256_storeu_si256((__m256i *)(out + i), found);
    }
    for (; i < n; i++)
        out[i] = table[in[i]];
}

#define SLUICE_MAP_BYTES
#define SLUICE_MAP_LINES sluice_map_lines_avx2
#define SLUICE_HAS_PIXELS
#define SLUICE_LUMA_SUM sluice_luma_sum_avx2
#define SLUICE_GRAY sluice_gray_avx2
#define SLUICE_SATURATE sluice_saturate_avx2
#define SLUICE_SHIFT_HUE sluice_shift_hue_avx2
#define SLUICE_SHARPEN_ROW sluice_sharpen_row_avx2
#define SLUICE_BLUR_DOWN sluice_blur_down_avx2
#define SLUICE_TRANSPOSE sluice_transpose_avx2
#define SLUICE_WALK sluice_walk_avx2
#define SLUICE_WARP sluice_warp_avx2
#define SLUICE_COLOR_KERNELS sluice_color_kernels_avx2
#include "image/kernels/color_loops.inc"
