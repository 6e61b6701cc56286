/* CUDA's errors as ours; none of it needs a device. */

#include "gpu/cuda_error.h"

#include "support/test.h"

TEST(each_kind_of_error_has_its_status)
{
    static const struct {
        cudaError_t error;
        sluice_status status;
    } cases[] = {
        {cudaSuccess, SLUICE_OK},
        {cudaErrorMemoryAllocation, SLUICE_E_NO_MEMORY},
        {cudaErrorNoDevice, SLUICE_E_UNSUPPORTED},
        {cudaErrorInsufficientDriver, SLUICE_E_UNSUPPORTED},
        {cudaErrorNoKernelImageForDevice, SLUICE_E_UNSUPPORTED},
        {cudaErrorIllegalAddress, SLUICE_E_INTERNAL},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_err err = {{0}};
        CU_ASSERT_EQUAL(sluice_cuda_check(cases[i].error, "who", "what", &err), cases[i].status);
        CU_ASSERT_EQUAL(strncmp(err.text, "who: what: ", 11) == 0, cases[i].error != cudaSuccess);
        CU_ASSERT_EQUAL(strstr(err.text, cudaGetErrorString(cases[i].error)) != NULL,
                        cases[i].error != cudaSuccess);
    }
}
