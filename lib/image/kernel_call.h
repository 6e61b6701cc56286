#ifndef SLUICE_IMAGE_KERNEL_CALL_H
#define SLUICE_IMAGE_KERNEL_CALL_H

#include "image/gaussian.h"

#include <stdbool.h>
#include <stdint.h>

/* Kernel calls as plain data: an op describes to a GPU what to do with a sample's pixels.  The
 * results are those of image/color.h, warp.h and gaussian.h, bit for bit.
 *
 * C11 and CUDA.  Threads: plain data. */

enum sluice_kernel {
    SLUICE_KERNEL_TABLE,        /* replaces each value by table[channel][value] */
    SLUICE_KERNEL_CONTRAST,     /* factor: ImageEnhance.Contrast */
    SLUICE_KERNEL_AUTOCONTRAST, /* ImageOps.autocontrast */
    SLUICE_KERNEL_EQUALIZE,     /* ImageOps.equalize */
    SLUICE_KERNEL_GRAY,
    SLUICE_KERNEL_SATURATE, /* factor */
    SLUICE_KERNEL_HUE,      /* shift */
    SLUICE_KERNEL_PERMUTE,  /* order: channel c becomes order[c] */
    SLUICE_KERNEL_MIRROR,   /* left to right */
    SLUICE_KERNEL_FLIP,     /* top to bottom */
    SLUICE_KERNEL_SHARPEN,  /* factor */
    SLUICE_KERNEL_BOX_BLUR, /* box: three times across and three times down */
    SLUICE_KERNEL_GAUSSIAN, /* gaussian */
    SLUICE_KERNEL_WARP,     /* warp */
    SLUICE_NUM_KERNELS,
};

struct sluice_kernel_call {
    uint32_t kernel; /* enum sluice_kernel */
    uint32_t bytes;  /* to the next call, a multiple of 8: set by sluice_kernel_calls_add() */
    union {
        float factor;
        uint32_t shift;
        uint32_t order[3];
        struct {
            uint32_t radius, inner, edge; /* struct sluice_blur_box */
        } box;
        struct {
            uint32_t radius;
            float weights[SLUICE_GAUSSIAN_MAX_RADIUS + 1];
        } gaussian;
        struct {
            double matrix[6];
            uint32_t filter; /* enum sluice_warp_filter */
            uint32_t fill;   /* red, green, blue from the lowest byte on */
        } warp;
        uint8_t table[3][256];
    } with;
};

/* The calls of one sample, packed one after the other without their unused bytes. */
struct sluice_kernel_calls {
    uint32_t num_bytes;
    double bytes[1024]; /* aligned for any call */
};

/* Appends a call.  False: the calls are full. */
bool sluice_kernel_calls_add(struct sluice_kernel_calls *calls,
                             const struct sluice_kernel_call *call);

#endif
