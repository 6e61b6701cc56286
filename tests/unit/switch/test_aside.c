#include "lend/switch/aside.h"

#include "sluice/lend.h"
#include "support/test.h"

#include <dlfcn.h>

TEST(nobody_listens)
{
    const char *path = sluice_test_path("nobody");
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "nobody", switch_aside_put(path, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "nobody", switch_aside_return(path, sluice_test_err()));
    char long_path[300];
    memset(long_path, 'p', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = 0;
    CHECK_FAILS(SLUICE_E_INVALID, "1 to 107 characters",
                switch_aside_put(long_path, sluice_test_err()));
}

/* This process, which lends without CUDA. */
TEST(an_owner_without_cuda_is_not_put_aside)
{
    const char *path = sluice_test_path("owner");
    const struct sluice_lend_options options = {.path = path, .device = -1};
    struct sluice_lend *lend = NULL;
    CHECK_OK(sluice_lend_open(&options, &lend, sluice_test_err()));
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) { /* with or without a GPU */
        const sluice_status status = switch_aside_put(path, sluice_test_err());
        CU_ASSERT_NOT_EQUAL(status, SLUICE_OK);
        CU_ASSERT_NOT_EQUAL(status, SLUICE_E_NOT_FOUND);
    } else {
        CHECK_FAILS(SLUICE_E_UNSUPPORTED, "no CUDA driver",
                    switch_aside_put(path, sluice_test_err()));
    }
    sluice_lend_close(lend);
}
