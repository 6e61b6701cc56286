#include "image/jpeg/window_kernels.h"

const struct sluice_jpeg_window_kernels *sluice_jpeg_window_kernels_for(enum sluice_cpu_level level)
{
#ifdef SLUICE_HAVE_X86_KERNELS
    if (level == SLUICE_CPU_AVX512)
        return &sluice_jpeg_window_kernels_avx512;
    if (level == SLUICE_CPU_AVX2)
        return &sluice_jpeg_window_kernels_avx2;
#elif defined(SLUICE_HAVE_NEON_KERNELS)
    if (level == SLUICE_CPU_NEON)
        return &sluice_jpeg_window_kernels_neon;
#else
    (void)level;
#endif
    return &sluice_jpeg_window_kernels_c;
}
