#ifndef SLUICE_PYTHON_CUDA_MEMORY_H
#define SLUICE_PYTHON_CUDA_MEMORY_H

/* Page-locked memory for batches, so that uploads run beside everything else.  Of the CUDA driver,
 * which is looked for when it is first asked for: the package needs no CUDA to be built. */

#include <sluice/sluice.h>

/* Of a device's primary context, which PyTorch uses, too; for every device's uploads.  *memory
 * stays until the process ends.  SLUICE_E_NOT_FOUND: there is no driver or no such device.  Any
 * thread. */
SLUICE_MUST_USE sluice_status sluice_cuda_memory(int device,
                                                 const struct sluice_host_memory **memory,
                                                 struct sluice_err *err);

#endif
