#define SLUICE_COLOR_KERNELS sluice_color_kernels_avx512
#include "image/kernels/color_loops.inc"
