#include "base/process.h"

#include "support/test.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether the peer of `fd` sees it hang up while a child lives that was forked before. */
static bool peer_sees_the_end(bool is_own)
{
    int ends[2], go[2], ready[2];
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    CU_ASSERT_EQUAL_FATAL(pipe(go) + pipe(ready), 0);
    if (is_own)
        sluice_process_own_socket(ends[0]);
    const pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    char byte;
    if (child == 0) {
        sluice_process_end_socket(is_own ? ends[0] : -1); /* does nothing more */
        close(go[1]);
        _exit(write(ready[1], "", 1) == 1 && read(go[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(go[0]);
    /* Waits until the child is past fork()'s handlers. */
    CU_ASSERT_EQUAL(read(ready[0], &byte, 1), 1);
    close(ends[0]); /* as the end of this process does: no shutdown() */
    const bool has_ended = recv(ends[1], &byte, 1, MSG_DONTWAIT) == 0;
    close(go[1]);
    int status;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    close(ends[1]);
    close(ready[0]);
    close(ready[1]);
    return has_ended;
}

/* A child that ends with code 7 when `hold` is closed. */
static pid_t start_child(int *hold)
{
    int ends[2];
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    const pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    char byte;
    if (child == 0) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 7 : 1);
    }
    close(ends[0]);
    *hold = ends[1];
    return child;
}

TEST(a_child_ends_by_itself_in_its_time_or_is_killed)
{
    int hold, status = -1;
    pid_t child = start_child(&hold);
    close(hold);
    sluice_process_end_child(child, UINT64_MAX, 0, &status);
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    child = start_child(&hold);
    sluice_process_end_child(child, 0, UINT64_MAX / 2, &status);
    CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    sluice_process_end_child(child, UINT64_MAX, 0, NULL); /* there is none any more */
    close(hold);
}

TEST(a_child_does_not_keep_up_an_own_socket)
{
    CU_ASSERT_FALSE(peer_sees_the_end(false));
    CU_ASSERT(peer_sees_the_end(true));
}

TEST(an_own_socket_ends_once)
{
    int ends[2];
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    sluice_process_own_socket(ends[0]);
    sluice_process_end_socket(ends[0]);
    char byte;
    CU_ASSERT_EQUAL(recv(ends[1], &byte, 1, 0), 0);
    const int other = dup(ends[1]); /* has its number now */
    CU_ASSERT_EQUAL(other, ends[0]);
    sluice_process_end_socket(other);
    close(other);
    close(ends[1]);
    sluice_process_own_socket(-1);
    sluice_process_end_socket(-1);
}

TEST(an_object_of_another_process_is_refused)
{
    CHECK_OK(sluice_process_check(getpid(), "server", sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "the server belongs to process",
                sluice_process_check(getpid() + 1, "server", sluice_test_err()));
}
