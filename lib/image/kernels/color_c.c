#define SLUICE_COLOR_KERNELS sluice_color_kernels_c
#include "image/kernels/color_loops.inc"
