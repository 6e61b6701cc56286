#include "host/pass_fds.h"

#include "support/test.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static void open_pair(int ends[2])
{
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

/* The lowest free descriptor: the same before and after if none is lost in between. */
static int next_fd(void)
{
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
}

static ssize_t send_to(int to, size_t num_fds)
{
    int fds[2] = {-1, -1};
    for (size_t i = 0; i < num_fds; i++)
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    char text[] = "with fds";
    const struct iovec parts[] = {{text, 5}, {text + 5, 3}};
    const ssize_t sent = sluice_send_fds(to, parts, 2, fds, num_fds, 0);
    for (size_t i = 0; i < num_fds; i++)
        close(fds[i]);
    return sent;
}

TEST(descriptors_come_with_the_message_and_exec_closes_them)
{
    int ends[2];
    open_pair(ends);
    for (size_t num = 0; num <= SLUICE_MOST_PASSED_FDS; num++) {
        char text[16] = "";
        int fds[2] = {-1, -1};
        CU_ASSERT_EQUAL(send_to(ends[0], num), 8);
        CU_ASSERT_EQUAL(
            sluice_receive_fds(ends[1], &(struct iovec){text, sizeof(text)}, 1, fds, num, 0), 8);
        CU_ASSERT_EQUAL(memcmp(text, "with fds", 8), 0);
        for (size_t i = 0; i < num; i++) {
            CU_ASSERT_EQUAL(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
            close(fds[i]);
        }
    }
    close(ends[0]);
    close(ends[1]);
}

TEST(another_number_of_them_is_none_and_none_stays_open)
{
    int ends[2];
    open_pair(ends);
    for (size_t sent = 0; sent <= 2; sent++)
        for (size_t wanted = 0; wanted <= 2; wanted++) {
            if (sent == wanted)
                continue;
            const int before = next_fd();
            char text[16];
            int fds[2] = {7, 7};
            CU_ASSERT_EQUAL(send_to(ends[0], sent), 8);
            CU_ASSERT_EQUAL(
                sluice_receive_fds(ends[1], &(struct iovec){text, sizeof(text)}, 1, fds, wanted, 0),
                8);
            for (size_t i = 0; i < 2; i++)
                CU_ASSERT_EQUAL(fds[i], i < wanted ? -1 : 7);
            CU_ASSERT_EQUAL(next_fd(), before);
        }
    close(ends[0]);
    close(ends[1]);
}

TEST(a_peer_that_is_gone_is_an_error_without_a_signal)
{
    int ends[2];
    open_pair(ends);
    close(ends[1]);
    CU_ASSERT_EQUAL(send_to(ends[0], 1), -1);
    int fd = 7;
    char text[16];
    CU_ASSERT_EQUAL(sluice_receive_fds(ends[0], &(struct iovec){text, sizeof(text)}, 1, &fd, 1, 0),
                    0);
    CU_ASSERT_EQUAL(fd, -1);
    close(ends[0]);
}
