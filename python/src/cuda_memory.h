#ifndef SLUICE_PYTHON_CUDA_MEMORY_H
#define SLUICE_PYTHON_CUDA_MEMORY_H

/* Page-locked memory for batches, so that uploads run in parallel with all other work.  It comes
 * from the CUDA driver, which is loaded at the first call: building the package needs no CUDA. */

#include <sluice/sluice.h>

/* Memory of a device's primary context, which PyTorch also uses; uploads to every device can use it.
 * *memory stays until the process ends.  SLUICE_E_NOT_FOUND: no driver, or no such device.  Any
 * thread. */
SLUICE_MUST_USE sluice_status sluice_cuda_memory(int device,
                                                 const struct sluice_host_memory **memory,
                                                 struct sluice_err *err);

#endif
