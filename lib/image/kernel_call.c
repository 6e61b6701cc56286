#include "image/kernel_call.h"

#include <stddef.h>
#include <string.h>

#define BYTES_WITH(member)                                                                         \
    (offsetof(struct sluice_kernel_call, with) +                                                   \
     sizeof(((struct sluice_kernel_call *)0)->with.member))

static size_t bytes_of(uint32_t kernel)
{
    switch (kernel) {
    case SLUICE_KERNEL_TABLE:
        return BYTES_WITH(table);
    case SLUICE_KERNEL_CONTRAST:
    case SLUICE_KERNEL_SATURATE:
    case SLUICE_KERNEL_SHARPEN:
        return BYTES_WITH(factor);
    case SLUICE_KERNEL_HUE:
        return BYTES_WITH(shift);
    case SLUICE_KERNEL_PERMUTE:
        return BYTES_WITH(order);
    case SLUICE_KERNEL_BOX_BLUR:
        return BYTES_WITH(box);
    case SLUICE_KERNEL_GAUSSIAN:
        return BYTES_WITH(gaussian);
    case SLUICE_KERNEL_WARP:
        return BYTES_WITH(warp);
    default:
        return offsetof(struct sluice_kernel_call, with);
    }
}

bool sluice_kernel_calls_add(struct sluice_kernel_calls *calls,
                             const struct sluice_kernel_call *call)
{
    const size_t used = bytes_of(call->kernel), bytes = (used + 7) / 8 * 8;
    if (bytes > sizeof(calls->bytes) - calls->num_bytes)
        return false;
    uint8_t *to = (uint8_t *)calls->bytes + calls->num_bytes;
    memcpy(to, call, used);
    memset(to + used, 0, bytes - used);
    const uint32_t stride = (uint32_t)bytes;
    memcpy(to + offsetof(struct sluice_kernel_call, bytes), &stride, sizeof(stride));
    calls->num_bytes += stride;
    return true;
}
