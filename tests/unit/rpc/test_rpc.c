#include "rpc/rpc.h"

#include "rpc/grpc_library.h"
#include "support/test.h"

#include <sys/wait.h>
#include <unistd.h>

TEST(codes_have_their_names)
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

TEST(only_ok_is_ok)
{
    CHECK_OK(sluice_rpc_code_to_status(SLUICE_RPC_OK));
    for (int code = 1; code < 40; code++)
        CU_ASSERT_NOT_EQUAL(sluice_rpc_code_to_status((enum sluice_rpc_code)code), SLUICE_OK);
    for (int status = SLUICE_E_INVALID; status < SLUICE_NUM_STATUS; status++)
        CU_ASSERT_NOT_EQUAL(sluice_rpc_code_from_status((sluice_status)status), SLUICE_RPC_OK);
}

TEST(what_is_worth_a_retry_is_io)
{
    CU_ASSERT_EQUAL(sluice_rpc_code_to_status(SLUICE_RPC_UNAVAILABLE), SLUICE_E_IO);
    CU_ASSERT_EQUAL(sluice_rpc_code_to_status(SLUICE_RPC_DEADLINE_EXCEEDED), SLUICE_E_IO);
    CU_ASSERT_EQUAL(sluice_rpc_code_to_status(SLUICE_RPC_CANCELLED), SLUICE_E_IO);
    CU_ASSERT_EQUAL(sluice_rpc_code_to_status(SLUICE_RPC_FAILED_PRECONDITION), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_rpc_code_to_status(SLUICE_RPC_INVALID_ARGUMENT), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_rpc_code_to_status((enum sluice_rpc_code)99), SLUICE_E_INTERNAL);
}

TEST(a_status_keeps_its_meaning_there_and_back)
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

TEST(why_nobody_was_reached_is_said_in_our_words)
{
    /* As gRPC 1.51 wrote them. */
    static const struct {
        enum sluice_rpc_code code;
        const char *text, *word;
    } cases[] = {
        {SLUICE_RPC_UNAVAILABLE,
         "DNS resolution failed for storage:50051: C-ares status is not ARES_SUCCESS qtype=AAAA "
         "name=storage is_balancer=0: Domain name not found",
         "does not resolve"},
        {SLUICE_RPC_UNAVAILABLE,
         "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to "
         "connect to remote host: Connection refused",
         "is offload_server running"},
        {SLUICE_RPC_UNAVAILABLE,
         "failed to connect to all addresses; last error: UNKNOWN: ipv4:255.255.255.255:5005: "
         "Network is unreachable",
         "no route"},
        {SLUICE_RPC_UNAVAILABLE,
         "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:127.0.0.1:8080: Failed "
         "parsing HTTP/2",
         "another program"},
        {SLUICE_RPC_UNAVAILABLE,
         "failed to connect to all addresses; last error: INTERNAL: ipv4:127.0.0.1:8080: Trying to "
         "connect an http1.x server",
         "another program"},
        {SLUICE_RPC_UNAVAILABLE,
         "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:127.0.0.1:443: Socket "
         "closed",
         "TLS"},
        {SLUICE_RPC_UNAVAILABLE,
         "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:127.0.0.1:443: "
         "recvmsg:Connection reset by peer",
         "no more connections"},
        {SLUICE_RPC_UNAVAILABLE,
         "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:36559: tcp "
         "handshaker shutdown",
         "no answer"},
        {SLUICE_RPC_DEADLINE_EXCEEDED, "Deadline Exceeded", "no answer"},
        {SLUICE_RPC_UNIMPLEMENTED, "Received http2 header with status: 404", "another program"},
        {SLUICE_RPC_UNAVAILABLE, "Received http2 header with status: 502", "proxy"},
        {SLUICE_RPC_UNIMPLEMENTED, "", "another program"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        const char *why = sluice_rpc_why_unreachable(cases[i].code, cases[i].text);
        CU_ASSERT_PTR_NOT_NULL_FATAL(why);
        CU_ASSERT_PTR_NOT_NULL(strstr(why, cases[i].word));
    }
    CU_ASSERT_PTR_NULL(sluice_rpc_why_unreachable(SLUICE_RPC_OK, "Connection refused"));
    CU_ASSERT_PTR_NULL(
        sluice_rpc_why_unreachable(SLUICE_RPC_UNAVAILABLE, "the server is stopping"));
    CU_ASSERT_PTR_NULL(sluice_rpc_why_unreachable(SLUICE_RPC_INVALID_ARGUMENT, "op 3 is unknown"));
}

/* In a process of its own, as gRPC starts once. */
static int start_grpc(const char *experiments)
{
    if (experiments)
        setenv("GRPC_EXPERIMENTS", experiments, 1);
    else
        unsetenv("GRPC_EXPERIMENTS");
    rpc_library_init();
    const char *now = getenv("GRPC_EXPERIMENTS");
    return experiments ? !now || strcmp(now, experiments) != 0 : now != NULL;
}

TEST(the_environment_stays_as_it_is)
{
    static const char *const cases[] = {NULL, "tcp_rcv_lowat"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        const pid_t child = fork();
        if (child == 0)
            _exit(start_grpc(cases[i]));
        int status = -1;
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        CU_ASSERT_EQUAL(status, 0);
    }
}
