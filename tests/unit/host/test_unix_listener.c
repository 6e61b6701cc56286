#include "host/unix_listener.h"

#include "base/process.h"
#include "support/test.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sluice_unix_listener listen_at(const char *path)
{
    struct sluice_unix_listener listener;
    REQUIRE_OK(sluice_unix_listen(path, 0600, 4, &listener, sluice_test_err()));
    return listener;
}

static void end(struct sluice_unix_listener *listener)
{
    sluice_unix_unlink(listener);
    sluice_unix_close(listener);
}

/* connect()'s errno, or 0. */
static int try_to_connect(const char *path)
{
    struct sockaddr_un address;
    REQUIRE_OK(sluice_unix_address(path, &address, NULL));
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    const int error =
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : errno;
    close(fd);
    return error;
}

TEST(connections_are_accepted_and_the_file_goes)
{
    const char *path = sluice_test_path("one");
    struct sluice_unix_listener listener = listen_at(path);
    CU_ASSERT_EQUAL(sluice_unix_accept(&listener), -1);
    CU_ASSERT_EQUAL(errno, EAGAIN);
    CU_ASSERT_EQUAL(try_to_connect(path), 0);
    const int fd = sluice_unix_accept(&listener);
    CU_ASSERT(fd >= 0);
    sluice_process_end_socket(fd);
    end(&listener);
    CU_ASSERT_EQUAL(access(path, F_OK), -1);
    sluice_unix_close(&listener);
}

TEST(the_mode_is_exact_whatever_the_umask)
{
    const mode_t before = umask(0777);
    for (int i = 0; i < 2; i++) {
        const mode_t mode = i ? 0666 : 0600;
        struct sluice_unix_listener listener;
        REQUIRE_OK(
            sluice_unix_listen(sluice_test_path("mode"), mode, 4, &listener, sluice_test_err()));
        struct stat file;
        CU_ASSERT_EQUAL(stat(sluice_test_path("mode"), &file), 0);
        CU_ASSERT_EQUAL(file.st_mode & 07777, mode);
        end(&listener);
    }
    umask(before);
}

TEST(a_dead_process_s_socket_is_replaced)
{
    const char *path = sluice_test_path("stale");
    const pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    if (child == 0) {
        struct sluice_unix_listener listener;
        _exit(sluice_unix_listen(path, 0600, 4, &listener, NULL) == SLUICE_OK ? 0 : 1);
    }
    int status;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_EQUAL(try_to_connect(path), ECONNREFUSED);
    struct sluice_unix_listener listener = listen_at(path);
    CU_ASSERT_EQUAL(try_to_connect(path), 0);
    end(&listener);
}

TEST(a_live_socket_stays)
{
    const char *path = sluice_test_path("live");
    struct sluice_unix_listener first = listen_at(path), second;
    CHECK_FAILS(SLUICE_E_INVALID, "somebody listens there",
                sluice_unix_listen(path, 0600, 4, &second, sluice_test_err()));
    CU_ASSERT_EQUAL(try_to_connect(path), 0);
    end(&first);
}

TEST(what_is_not_a_socket_stays)
{
    const char *path = sluice_test_path("file");
    sluice_test_write_file(path, "text", 4);
    CU_ASSERT_EQUAL(symlink("nowhere", sluice_test_path("link")), 0);
    struct sluice_unix_listener listener;
    CHECK_FAILS(SLUICE_E_INVALID, "no socket",
                sluice_unix_listen(path, 0600, 4, &listener, sluice_test_err()));
    CHECK_FAILS(
        SLUICE_E_INVALID, "no socket",
        sluice_unix_listen(sluice_test_path("link"), 0600, 4, &listener, sluice_test_err()));
    CHECK_FAILS(
        SLUICE_E_IO, "No such file",
        sluice_unix_listen(sluice_test_path("no/folder"), 0600, 4, &listener, sluice_test_err()));
    size_t len;
    uint8_t *text = sluice_test_read_file(path, &len);
    CU_ASSERT_EQUAL(len, 4);
    free(text);
}

TEST(a_file_that_is_another_s_stays)
{
    const char *path = sluice_test_path("other");
    struct sluice_unix_listener first = listen_at(path);
    CU_ASSERT_EQUAL(unlink(path), 0);
    struct sluice_unix_listener second = listen_at(path);
    end(&first);
    CU_ASSERT_EQUAL(try_to_connect(path), 0);
    end(&second);
}

TEST(a_path_has_1_to_107_characters)
{
    char path[109];
    memset(path, 'x', sizeof(path));
    path[108] = 0;
    struct sockaddr_un address;
    CHECK_FAILS(SLUICE_E_INVALID, "1 to 107",
                sluice_unix_address(path, &address, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "1 to 107", sluice_unix_address("", &address, sluice_test_err()));
    path[107] = 0;
    CHECK_OK(sluice_unix_address(path, &address, sluice_test_err()));
    CU_ASSERT_STRING_EQUAL(address.sun_path, path);
}

/* A rival process that listens at the same path, started while this one looks at what a dead process
 * left there. */
static struct {
    const char *path; /* NULL: none is to come */
    int told[2], done[2];
} rival;

static void start_rival(void)
{
    const pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    if (child == 0) {
        const char *path = rival.path;
        rival.path = NULL;
        close(rival.done[1]);
        struct sluice_unix_listener listener;
        char byte = sluice_unix_listen(path, 0600, 4, &listener, NULL) == SLUICE_OK;
        _exit(write(rival.told[1], &byte, 1) == 1 && read(rival.done[0], &byte, 1) == 0 ? 0 : 1);
    }
    rival.path = NULL;
    /* It cannot get further before this process has the socket; if it could, it would by then. */
    struct pollfd item = {.fd = rival.told[0], .events = POLLIN};
    CU_ASSERT_EQUAL(poll(&item, 1, 300), 0);
}

int __real_connect(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    const int result = __real_connect(fd, address, len), error = errno;
    if (rival.path)
        start_rival();
    errno = error;
    return result;
}

TEST(of_two_that_replace_a_dead_socket_at_once_one_listens)
{
    rival.path = sluice_test_path("race");
    CU_ASSERT_EQUAL_FATAL(pipe(rival.told) + pipe(rival.done), 0);
    struct sluice_unix_listener dead = listen_at(rival.path);
    sluice_unix_close(&dead);
    struct sluice_unix_listener listener = listen_at(sluice_test_path("race"));
    char is_listening = 1;
    CU_ASSERT_EQUAL(read(rival.told[0], &is_listening, 1), 1);
    CU_ASSERT_EQUAL(is_listening, 0);
    close(rival.done[1]);
    int status;
    CU_ASSERT(wait(&status) > 0);
    CU_ASSERT_EQUAL(status, 0);
    end(&listener);
}
