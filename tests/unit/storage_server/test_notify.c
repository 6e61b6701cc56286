#include "storage_server/observe/notify.h"

#include "support/capture.h"
#include "support/test.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A manager's socket, as a file or ("@...") as an abstract name. */
static int listen_at(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, name, strlen(name));
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    const socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CU_ASSERT_EQUAL_FATAL(bind(fd, (const struct sockaddr *)&address, len), 0);
    return fd;
}

/* The next datagram; "" if there is none. */
static const char *heard(int fd)
{
    static char text[600];
    const ssize_t len = recv(fd, text, sizeof(text) - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    return text;
}

static void set_watchdog(const char *usec, pid_t pid)
{
    char text[24];
    snprintf(text, sizeof(text), "%ld", (long)pid);
    CU_ASSERT_EQUAL_FATAL(setenv("WATCHDOG_USEC", usec, 1), 0);
    CU_ASSERT_EQUAL_FATAL(setenv("WATCHDOG_PID", text, 1), 0);
}

static void check_manager(const char *name)
{
    const int manager = listen_at(name);
    CU_ASSERT_EQUAL_FATAL(setenv("NOTIFY_SOCKET", name, 1), 0);
    set_watchdog("3000000", getpid());
    struct sluice_notify notify;
    sluice_notify_open(&notify);
    CU_ASSERT_EQUAL(notify.interval_ms, 1500);
    CU_ASSERT_PTR_NULL(getenv("NOTIFY_SOCKET"));
    CU_ASSERT_PTR_NULL(getenv("WATCHDOG_USEC"));
    sluice_notify_ready(&notify, "10.0.0.1:50051");
    CU_ASSERT_STRING_EQUAL(heard(manager), "READY=1\nSTATUS=listening on 10.0.0.1:50051");
    sluice_notify_alive(&notify);
    CU_ASSERT_STRING_EQUAL(heard(manager), "WATCHDOG=1");
    sluice_notify_stopping(&notify);
    CU_ASSERT_PTR_NOT_NULL(strstr(heard(manager), "STOPPING=1\n"));
    sluice_notify_close(&notify);
    sluice_notify_close(&notify);
    close(manager);
}

TEST(the_manager_hears_all)
{
    char path[100];
    CU_ASSERT_FATAL(snprintf(path, sizeof(path), "%s/socket", sluice_test_dir()) < 100);
    check_manager(path);
    snprintf(path, sizeof(path), "@sluice-test-%ld", (long)getpid());
    check_manager(path);
}

TEST(without_a_watchdog_nobody_waits_for_a_sign_of_life)
{
    char name[60];
    snprintf(name, sizeof(name), "@sluice-test-%ld", (long)getpid());
    const int manager = listen_at(name);
    static const char *const usecs[] = {NULL, "3000000", "0", "soon"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(usecs); i++) {
        CU_ASSERT_EQUAL_FATAL(setenv("NOTIFY_SOCKET", name, 1), 0);
        if (usecs[i]) /* a time for another process, or none */
            set_watchdog(usecs[i], i == 1 ? getpid() + 1 : getpid());
        struct sluice_notify notify;
        sluice_notify_open(&notify);
        CU_ASSERT_EQUAL(notify.interval_ms, -1);
        sluice_notify_alive(&notify);
        CU_ASSERT_STRING_EQUAL(heard(manager), "");
        sluice_notify_close(&notify);
    }
    close(manager);
}

TEST(without_a_manager_nothing_happens)
{
    struct sluice_notify notify;
    sluice_notify_open(&notify);
    CU_ASSERT_EQUAL(notify.fd, -1);
    sluice_notify_ready(&notify, "10.0.0.1:50051");
    sluice_notify_stopping(&notify);
    sluice_notify_close(&notify);
}

TEST(a_manager_that_is_not_there_is_told)
{
    static const char *const names[] = {"/no/such/socket", "relative", ""};
    static struct sluice_test_output output;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(names); i++) {
        CU_ASSERT_EQUAL_FATAL(setenv("NOTIFY_SOCKET", names[i], 1), 0);
        struct sluice_notify notify;
        sluice_test_capture_begin();
        sluice_notify_open(&notify);
        sluice_test_capture_end(&output);
        CU_ASSERT_EQUAL(notify.fd, -1);
        CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "NOTIFY_SOCKET"));
        sluice_notify_ready(&notify, "10.0.0.1:50051");
        sluice_notify_close(&notify);
    }
}
