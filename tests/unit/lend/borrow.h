#ifndef SLUICE_TESTS_UNIT_LEND_BORROW_H
#define SLUICE_TESTS_UNIT_LEND_BORROW_H

#include "sluice/lend.h"
#include "support/test.h"

/* Connects to the owner at the path, which must accept it. */
static inline struct sluice_borrower *borrow(const char *path)
{
    struct sluice_borrower *borrower;
    REQUIRE_OK(sluice_borrower_open(&(struct sluice_borrower_options){.path = path}, &borrower,
                                    sluice_test_err()));
    return borrower;
}

/* Connects to an owner that must refuse: its status. */
static inline sluice_status try_to_borrow(const char *path)
{
    struct sluice_borrower *borrower = NULL;
    const sluice_status status = sluice_borrower_open(
        &(struct sluice_borrower_options){.path = path}, &borrower, sluice_test_err());
    CU_ASSERT_PTR_NULL(borrower);
    sluice_borrower_close(borrower);
    return status;
}

#endif
