#include "rpc/rpc.h"
#include "support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void codes_have_their_names(void)
{
    CU_ASSERT_STRING_EQUAL(sluice_rpc_code_name(SLUICE_RPC_OK), "OK");
    CU_ASSERT_STRING_EQUAL(sluice_rpc_code_name(SLUICE_RPC_UNAVAILABLE), "UNAVAILABLE");
    for (int a = 0; a <= 16; a++) {
        for (int b = 0; b < a; b++)
            CU_ASSERT(strcmp(sluice_rpc_code_name((enum sluice_rpc_code)a),
                             sluice_rpc_code_name((enum sluice_rpc_code)b)) != 0);
    }
    CU_ASSERT_STRING_EQUAL(sluice_rpc_code_name((enum sluice_rpc_code)99), "no such code");
}

static void only_ok_is_ok(void)
{
    CU_ASSERT_EQUAL(sluice_rpc_code_to_status(SLUICE_RPC_OK), SLUICE_OK);
    for (int code = 1; code < 40; code++)
        CU_ASSERT_NOT_EQUAL(sluice_rpc_code_to_status((enum sluice_rpc_code)code), SLUICE_OK);
    for (int status = SLUICE_E_INVALID; status < SLUICE_NUM_STATUS; status++)
        CU_ASSERT_NOT_EQUAL(sluice_rpc_code_from_status((sluice_status)status), SLUICE_RPC_OK);
}

static void what_is_worth_a_retry_is_io(void)
{
    CU_ASSERT_EQUAL(sluice_rpc_code_to_status(SLUICE_RPC_UNAVAILABLE), SLUICE_E_IO);
    CU_ASSERT_EQUAL(sluice_rpc_code_to_status(SLUICE_RPC_DEADLINE_EXCEEDED), SLUICE_E_IO);
    CU_ASSERT_EQUAL(sluice_rpc_code_to_status(SLUICE_RPC_CANCELLED), SLUICE_E_IO);
    CU_ASSERT_EQUAL(sluice_rpc_code_to_status(SLUICE_RPC_FAILED_PRECONDITION), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_rpc_code_to_status(SLUICE_RPC_INVALID_ARGUMENT), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_rpc_code_to_status((enum sluice_rpc_code)99), SLUICE_E_INTERNAL);
}

static void a_status_keeps_its_meaning_there_and_back(void)
{
    for (int status = SLUICE_OK; status < SLUICE_NUM_STATUS; status++) {
        const sluice_status back =
            sluice_rpc_code_to_status(sluice_rpc_code_from_status((sluice_status)status));
        const bool is_lost = status == SLUICE_E_AGAIN || status == SLUICE_E_CLOSED;
        /* A call as a whole is never stale; a sample is, and has a status of its own. */
        const sluice_status kept =
            status == SLUICE_E_STALE ? SLUICE_E_INVALID : (sluice_status)status;
        CU_ASSERT_EQUAL(back, is_lost ? SLUICE_E_IO : kept);
    }
}

static void a_users_choice_for_grpc_stays(void)
{
    setenv("GRPC_EXPERIMENTS", "tcp_rcv_lowat", 1);
    sluice_rpc_process_init();
    CU_ASSERT_STRING_EQUAL(getenv("GRPC_EXPERIMENTS"), "tcp_rcv_lowat");
}

int main(void)
{
    sluice_rpc_process_init();
    static const struct sluice_test tests[] = {
        SLUICE_TEST(codes_have_their_names),
        SLUICE_TEST(only_ok_is_ok),
        SLUICE_TEST(what_is_worth_a_retry_is_io),
        SLUICE_TEST(a_status_keeps_its_meaning_there_and_back),
        SLUICE_TEST(a_users_choice_for_grpc_stays),
    };
    return sluice_test_run("rpc", tests, SLUICE_TEST_COUNT(tests));
}
