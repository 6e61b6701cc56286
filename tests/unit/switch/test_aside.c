#include "lend/switch/aside.h"

#include "support/test.h"

#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

TEST(nobody_listens)
{
    const char *path = sluice_test_path("nobody");
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "nobody", switch_aside_put(path, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "nobody", switch_aside_return(path, sluice_test_err()));
    char long_path[300];
    memset(long_path, 'p', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = 0;
    CHECK_FAILS(SLUICE_E_INVALID, "too long", switch_aside_put(long_path, sluice_test_err()));
}

/* This process, which does not use CUDA. */
TEST(a_process_without_cuda_is_not_put_aside)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = sluice_test_path("listener");
    CU_ASSERT_FATAL(strlen(path) < sizeof address.sun_path);
    strcpy(address.sun_path, path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    CU_ASSERT_EQUAL_FATAL(listen(fd, 5), 0);
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) /* with or without a GPU */
        CU_ASSERT_NOT_EQUAL(switch_aside_put(path, NULL), SLUICE_OK)
    else
        CHECK_FAILS(SLUICE_E_UNSUPPORTED, "no CUDA driver",
                    switch_aside_put(path, sluice_test_err()));
    close(fd);
}
