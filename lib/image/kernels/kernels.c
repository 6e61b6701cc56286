#include "image/kernels/kernels.h"

#include <math.h>

uint32_t sluice_max_taps(uint32_t num_in, uint32_t num_out)
{
    const double scale = (double)num_in / num_out;
    return (uint32_t)ceil(scale < 1.0 ? 1.0 : scale) * 2 + 1;
}

const struct sluice_kernels *sluice_kernels_for(enum sluice_cpu_level level)
{
#ifdef SLUICE_HAVE_X86_KERNELS
    if (level == SLUICE_CPU_AVX512)
        return &sluice_kernels_avx512;
    if (level == SLUICE_CPU_AVX2)
        return &sluice_kernels_avx2;
#elif defined(SLUICE_HAVE_NEON_KERNELS)
    if (level == SLUICE_CPU_NEON)
        return &sluice_kernels_neon;
#else
    (void)level;
#endif
    return &sluice_kernels_c;
}
