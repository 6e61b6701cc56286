#ifndef SLUICE_STORAGE_SERVER_OBSERVE_NOTIFY_H
#define SLUICE_STORAGE_SERVER_OBSERVE_NOTIFY_H

/* Notifies the service manager (systemd) that the program is ready, alive or stopping, by text
 * datagrams to the socket that $NOTIFY_SOCKET names (sd_notify(3)).  libsystemd would add four more
 * libraries to the process for this.
 *
 * Without the variable it does nothing.  A datagram that cannot be sent is not an error, because the
 * manager has its own timeout.
 *
 * Threads: one. */

struct sluice_notify {
    int fd;          /* -1: nobody listens */
    int interval_ms; /* between two calls of alive; -1: never */
};

/* Connects; call it before the sandbox is entered.  Removes the variables from the environment. */
void sluice_notify_open(struct sluice_notify *notify);
void sluice_notify_close(struct sluice_notify *notify); /* twice is fine */

void sluice_notify_ready(const struct sluice_notify *notify, const char *address);
void sluice_notify_alive(const struct sluice_notify *notify); /* only if there is an interval */
void sluice_notify_stopping(const struct sluice_notify *notify);

#endif
