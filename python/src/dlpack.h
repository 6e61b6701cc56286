#ifndef SLUICE_PYTHON_DLPACK_H
#define SLUICE_PYTHON_DLPACK_H

/* The structures of DLPack before version 1, which every consumer takes, in a capsule called
 * "dltensor": https://dmlc.github.io/dlpack/latest/c_api.html */

#include <stddef.h>
#include <stdint.h>

enum { DL_CPU = 1, DL_CUDA = 2 };                              /* DLDeviceType */
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4 }; /* DLDataTypeCode */

struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides; /* strides in elements */
    uint64_t byte_offset;
};

struct dl_managed_tensor {
    struct dl_tensor tensor;
    void *manager;
    void (*deleter)(struct dl_managed_tensor *self);
};

#endif
