#include "image/kernels/color_kernels.h"

const struct sluice_color_kernels *sluice_color_kernels_for(enum sluice_cpu_level level)
{
#ifdef SLUICE_HAVE_X86_KERNELS
    if (level == SLUICE_CPU_AVX512)
        return &sluice_color_kernels_avx512;
    if (level == SLUICE_CPU_AVX2)
        return &sluice_color_kernels_avx2;
#else
    (void)level;
#endif
    return &sluice_color_kernels_c;
}
