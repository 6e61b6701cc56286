#ifndef SLUICE_GPU_PIXEL_KERNELS_H
#define SLUICE_GPU_PIXEL_KERNELS_H

#include "gpu/color_kernels.h"
#include "gpu/filter_kernels.h"

/* The kernels of colours, blurs and warps on the device (image/kernel_call.h).  One block of
 * threads runs all calls of a sample on its row, in place; a kernel that reads other pixels than it
 * writes goes through the sample's scratch memory.
 *
 * A kernel is one or more phases.  Every thread of the block calls a phase; all have returned from
 * it before any calls the next.  pixels.cu and, as loops, decode_host.c share this source.  Both
 * are compiled without floating-point contraction.
 *
 * C11 and CUDA.  No function reads or writes outside the row and its scratch memory. */

SLUICE_KERNEL_INLINE void sluice_gpu_run_phase(const struct sluice_gpu_pixels *p,
                                               const struct sluice_kernel_call *call,
                                               uint32_t phase)
{
    switch (call->kernel) {
    case SLUICE_KERNEL_TABLE:
    case SLUICE_KERNEL_CONTRAST:
    case SLUICE_KERNEL_AUTOCONTRAST:
    case SLUICE_KERNEL_EQUALIZE:
        sluice_gpu_run_table(p, call, phase);
        break;
    case SLUICE_KERNEL_GRAY:
    case SLUICE_KERNEL_SATURATE:
    case SLUICE_KERNEL_HUE:
    case SLUICE_KERNEL_PERMUTE:
        sluice_gpu_run_points(p, call);
        break;
    case SLUICE_KERNEL_MIRROR:
    case SLUICE_KERNEL_FLIP:
        sluice_gpu_mirror(p, call->kernel == SLUICE_KERNEL_FLIP);
        break;
    case SLUICE_KERNEL_SHARPEN:
        if (phase == 0)
            sluice_gpu_copy_to_scratch(p);
        else
            sluice_gpu_sharpen(p, call->with.factor);
        break;
    case SLUICE_KERNEL_BOX_BLUR:
        sluice_gpu_box_blur(p, call, phase);
        break;
    case SLUICE_KERNEL_GAUSSIAN:
        if (phase == 0)
            sluice_gpu_gaussian_across(p, call);
        else
            sluice_gpu_gaussian_down(p, call);
        break;
    case SLUICE_KERNEL_WARP:
        sluice_gpu_warp(p, call, phase);
        break;
    default:
        break;
    }
}

#endif
