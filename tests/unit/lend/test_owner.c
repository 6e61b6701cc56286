#include "sluice/lend.h"

#include "support/test.h"

#include <unistd.h>

static struct sluice_lend_options options_of(const char *path)
{
    return (struct sluice_lend_options){.path = path, .device = -1};
}

TEST(refuses_its_own_process)
{
    struct sluice_lend *lend;
    const struct sluice_lend_options options = options_of(sluice_test_path("own"));
    REQUIRE_OK(sluice_lend_open(&options, &lend, sluice_test_err()));
    struct sluice_borrower *borrower;
    CHECK_FAILS(SLUICE_E_INVALID, "this process lends",
                sluice_borrower_open(&(struct sluice_borrower_options){.path = options.path},
                                     &borrower, sluice_test_err()));
    CHECK_OK(sluice_lend_point(lend, NULL, sluice_test_err()));
    sluice_lend_close(lend);
    CU_ASSERT_NOT_EQUAL(access(options.path, F_OK), 0);
}
