#include "lend/driver.h"

#include "base/clock.h"
#include "lend/channel.h"
#include "support/test.h"

#include <dlfcn.h>

/* fake_cuda.c is the libcuda.so.1 that is found: "fake"; one without the wait: "old"; none: "none". */

#define DEVICE_OFFSET UINT64_C(0x100000000000)

static struct fake {
    const char *fails;
    int is_blind;
    int is_deaf;
    int num_retained, depth;
    void *registered;
    size_t registered_bytes;
    unsigned register_flags, wait_flags, num_waits;
    void *wait_stream;
    uint64_t wait_address;
    uint32_t wait_value;
} * fake;

static void find_fake(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CU_ASSERT_PTR_NOT_NULL_FATAL(library);
    fake = dlsym(library, "fake_cuda");
    CU_ASSERT_PTR_NOT_NULL_FATAL(fake);
    *fake = (struct fake){.fails = NULL};
}

static void check_nothing_is_left(void)
{
    CU_ASSERT_EQUAL(fake->num_retained, 0);
    CU_ASSERT_EQUAL(fake->depth, 0);
    CU_ASSERT_PTR_NULL(fake->registered);
}

TEST_OF("fake", a_point_waits_for_the_mask_to_be_0)
{
    find_fake();
    struct sluice_lend_page *page = NULL;
    struct sluice_lend_driver *driver;
    int memfd;
    REQUIRE_OK(sluice_lend_page_create(&page, &memfd, sluice_test_err()));
    REQUIRE_OK(sluice_lend_driver_open(0, page, &driver, sluice_test_err()));
    CU_ASSERT_PTR_EQUAL(fake->registered, page);
    CU_ASSERT_EQUAL(fake->registered_bytes, SLUICE_LEND_PAGE_BYTES);
    CU_ASSERT_EQUAL(fake->register_flags, 1 | 2); /* PORTABLE, DEVICEMAP */
    int stream;
    CHECK_OK(sluice_lend_driver_point(driver, &stream, sluice_test_err()));
    CU_ASSERT_PTR_EQUAL(fake->wait_stream, &stream);
    CU_ASSERT_EQUAL(fake->wait_address, (uintptr_t)&page->mask + DEVICE_OFFSET);
    CU_ASSERT_EQUAL(fake->wait_value, 0);
    CU_ASSERT_EQUAL(fake->wait_flags, 1); /* EQ */
    CU_ASSERT_EQUAL(fake->depth, 0);
    CHECK_OK(sluice_lend_driver_point(driver, &stream, sluice_test_err()));
    CU_ASSERT_EQUAL(fake->num_waits, 2);
    fake->fails = "cuStreamWaitValue32_v2";
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "the stream cannot wait: FAKE_NOT_SUPPORTED",
                sluice_lend_driver_point(driver, &stream, sluice_test_err()));
    CU_ASSERT_EQUAL(fake->depth, 0);
    sluice_lend_driver_close(driver);
    sluice_lend_driver_close(NULL);
    check_nothing_is_left();
    sluice_lend_page_clear(page, memfd);
}

TEST_OF("fake", an_owner_with_a_device_adds_waits)
{
    find_fake();
    struct sluice_lend *lend;
    REQUIRE_OK(sluice_lend_open(
        &(struct sluice_lend_options){.path = sluice_test_path("device"), .device = 0}, &lend,
        sluice_test_err()));
    CHECK_OK(sluice_lend_point(lend, &lend, sluice_test_err()));
    CU_ASSERT_EQUAL(fake->num_waits, 1);
    CU_ASSERT_PTR_EQUAL(fake->wait_stream, &lend);
    sluice_lend_close(lend);
    check_nothing_is_left();
    CHECK_FAILS(SLUICE_E_INVALID, "CUDA device 1: FAKE_ERROR",
                sluice_lend_open(
                    &(struct sluice_lend_options){.path = sluice_test_path("device"), .device = 1},
                    &lend, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_IO, "/nowhere",
                sluice_lend_open(&(struct sluice_lend_options){.path = "/nowhere/x", .device = 0},
                                 &lend, sluice_test_err()));
    check_nothing_is_left();
}

TEST_OF("fake", what_fails_at_open_is_named_and_undone)
{
    find_fake();
    static struct sluice_lend_page page;
    const struct {
        const char *fails;
        sluice_status status;
    } cases[] = {
        {"cuDeviceGet", SLUICE_E_INVALID},
        {"cuDevicePrimaryCtxRetain", SLUICE_E_INVALID},
        {"cuCtxPushCurrent_v2", SLUICE_E_UNSUPPORTED},
        {"cuMemHostRegister_v2", SLUICE_E_UNSUPPORTED},
        {"cuMemHostGetDevicePointer_v2", SLUICE_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_lend_driver *driver = NULL;
        fake->fails = cases[i].fails;
        CHECK_FAILS(cases[i].status, "CUDA device 0",
                    sluice_lend_driver_open(0, &page, &driver, sluice_test_err()));
        CHECK_SAYS("FAKE_NOT_SUPPORTED");
        CU_ASSERT_PTR_NULL(driver);
        check_nothing_is_left();
    }
}

TEST_OF("fake", the_probe_sees_a_stream_wait_and_go_on)
{
    find_fake();
    CHECK_OK(sluice_lend_probe(0, sluice_test_err()));
    CU_ASSERT_EQUAL(fake->num_waits, 1);
    check_nothing_is_left();
    fake->is_blind = 1;
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "does not wait for the page: it goes on",
                sluice_lend_probe(0, sluice_test_err()));
    fake->is_blind = 0;
    fake->fails = "cuStreamWaitValue32_v2";
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "the stream cannot wait",
                sluice_lend_probe(0, sluice_test_err()));
    fake->fails = "cuStreamQuery";
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "FAKE_NOT_SUPPORTED",
                sluice_lend_probe(0, sluice_test_err()));
    fake->fails = NULL;
    check_nothing_is_left();
}

/* The probe's clock, so that a stream that never goes on does not take seconds here. */
static uint64_t late_ns;
uint64_t __real_sluice_clock_ns(void);
uint64_t __wrap_sluice_clock_ns(void);
uint64_t __wrap_sluice_clock_ns(void)
{
    return __real_sluice_clock_ns() + (late_ns ? late_ns += 1000000 : 0);
}

TEST_OF("fake", the_probe_gives_up_a_stream_that_does_not_go_on)
{
    find_fake();
    fake->is_deaf = 1;
    late_ns = 1;
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "does not go on", sluice_lend_probe(0, sluice_test_err()));
    late_ns = 0;
    check_nothing_is_left();
}

TEST_OF("old", a_driver_without_the_function_is_named)
{
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "no cuStreamWaitValue32_v2",
                sluice_lend_probe(0, sluice_test_err()));
}

TEST_OF("none", a_machine_without_a_driver_is_told_so)
{
    if (dlopen("libcuda.so.1", RTLD_NOW))
        sluice_test_skip("this machine has CUDA's driver");
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "needs the CUDA driver: libcuda.so.1",
                sluice_lend_probe(0, sluice_test_err()));
    struct sluice_lend *lend;
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "needs the CUDA driver",
                sluice_lend_open(
                    &(struct sluice_lend_options){.path = sluice_test_path("none"), .device = 0},
                    &lend, sluice_test_err()));
}

int main(int argc, char **argv)
{
    return sluice_test_main_with(argc > 1 ? argv[1] : "none");
}
