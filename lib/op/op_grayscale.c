#include "image/color.h"
#include "op/op.h"

/* grayscale: three times Pillow's luma, as torchvision's Grayscale(3). */

static void apply(const union sluice_drawn *drawn, struct sluice_size size, const uint8_t *in,
                  uint8_t *out, void *memory)
{
    (void)drawn, (void)memory;
    sluice_gray_rgb(in, (size_t)size.width * size.height, out);
}

static void call(const union sluice_drawn *drawn, struct sluice_kernel_call *call)
{
    (void)drawn;
    call->kernel = SLUICE_KERNEL_GRAY;
}

const struct sluice_op_type sluice_op_grayscale = {
    .name = "grayscale",
    .help = "the luma in all three channels",
    .column = "RandomGrayscale",
    .kind = SLUICE_OP_PIXELS,
    .ns_per_pixel = 0.2,
    .apply = apply,
    .call = call,
};
