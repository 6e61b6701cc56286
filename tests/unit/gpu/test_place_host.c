/* The kind of place that test_place.c tests in gpu/place: the host's. */

#include "place_support.h"

#include <string.h>

const bool place_test_is_host = true;

const char *place_test_skip(void)
{
    return NULL;
}

void place_test_read(const struct sluice_gpu_block *block, size_t bytes, uint8_t *rows)
{
    memcpy(rows, sluice_gpu_block_rows(block), bytes);
}

#ifndef SLUICE_HAVE_CUDA
TEST(a_build_without_cuda_says_so)
{
    struct sluice_gpu_place_options options = place_test_options(32, 32);
    struct sluice_gpu_place *place = NULL;
    struct sluice_err err = {{0}};
    options.is_host = false;
    CU_ASSERT_EQUAL(sluice_gpu_place_create(&options, &place, &err), SLUICE_E_UNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(err.text, "this build has no CUDA (SLUICE_CUDA)");
}
#endif
