#include "image/kernels/x86/blur_avx2.h"
#include "image/kernels/x86/pixels_avx2.h"
#include "image/kernels/x86/warp_avx2.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* Two lookups of 128 bytes each, by the index's lower seven bits; its top bit chooses. */
static void map_bytes(const uint8_t *in, size_t n, const uint8_t table[256], uint8_t *out)
{
    __m512i tables[4];
    for (int t = 0; t < 4; t++)
        tables[t] = _mm512_loadu_si512(table + 64 * t);
    for (size_t i = 0; i < n; i += 64) {
        const __mmask64 mask = n - i >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << (n - i)) - 1;
        const __m512i index = _mm512_maskz_loadu_epi8(mask, in + i);
        const __m512i low = _mm512_permutex2var_epi8(tables[0], index, tables[1]);
        const __m512i high = _mm512_permutex2var_epi8(tables[2], index, tables[3]);
        _mm512_mask_storeu_epi8(out + i, mask,
                                _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high));
    }
}

#define SLUICE_MAP_BYTES
#define SLUICE_MAPS_FAST /* so fast that making planes for it pays */
#define SLUICE_HAS_PIXELS
#define SLUICE_SPLIT sluice_split_avx2
#define SLUICE_JOIN sluice_join_avx2
#define SLUICE_LUMA_SUM sluice_luma_sum_avx2
#define SLUICE_GRAY sluice_gray_avx2
#define SLUICE_SATURATE sluice_saturate_avx2
#define SLUICE_SHIFT_HUE sluice_shift_hue_avx2
#define SLUICE_SHARPEN_ROW sluice_sharpen_row_avx2
#define SLUICE_BLUR_DOWN sluice_blur_down_avx2
#define SLUICE_TRANSPOSE sluice_transpose_avx2
#define SLUICE_WALK sluice_walk_avx2
#define SLUICE_WARP sluice_warp_avx2
#define SLUICE_COLOR_KERNELS sluice_color_kernels_avx512
#include "image/kernels/color_loops.inc"
