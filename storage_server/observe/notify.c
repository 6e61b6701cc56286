#include "storage_server/observe/notify.h"

#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* "@name" is a name that no file has.  -1: it cannot be connected to. */
static int connect_to(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if ((name[0] != '/' && name[0] != '@') ||
        !sluice_print(address.sun_path, sizeof(address.sun_path), "%s", name)) {
        errno = EINVAL;
        return -1;
    }
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    const socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, len) != 0) {
        const int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* Half of the manager's watchdog timeout; -1: it has none. */
static int watchdog_interval_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!usec || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return -1;
    const unsigned long long ms = strtoull(usec, NULL, 10) / 2000;
    return ms > 0 && ms < INT_MAX ? (int)ms : -1;
}

void sluice_notify_open(struct sluice_notify *notify)
{
    *notify = (struct sluice_notify){.fd = -1, .interval_ms = -1};
    const char *name = getenv("NOTIFY_SOCKET");
    if (name)
        notify->fd = connect_to(name);
    if (name && notify->fd < 0)
        sluice_log(SLUICE_LOG_WARN, "NOTIFY_SOCKET %s: %s", name, strerror(errno));
    if (notify->fd >= 0)
        notify->interval_ms = watchdog_interval_ms();
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
}

void sluice_notify_close(struct sluice_notify *notify)
{
    if (notify->fd >= 0)
        close(notify->fd);
    notify->fd = -1;
}

static void say(const struct sluice_notify *notify, const char *text)
{
    if (notify->fd >= 0)
        (void)send(notify->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void sluice_notify_ready(const struct sluice_notify *notify, const char *address)
{
    char text[512];
    if (sluice_print(text, sizeof(text), "READY=1\nSTATUS=listening on %s", address))
        say(notify, text);
}

void sluice_notify_alive(const struct sluice_notify *notify)
{
    if (notify->interval_ms > 0)
        say(notify, "WATCHDOG=1");
}

void sluice_notify_stopping(const struct sluice_notify *notify)
{
    say(notify, "STOPPING=1\nSTATUS=answering what was accepted");
}
