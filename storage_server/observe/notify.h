#ifndef SLUICE_STORAGE_SERVER_OBSERVE_NOTIFY_H
#define SLUICE_STORAGE_SERVER_OBSERVE_NOTIFY_H

/* Tells the service manager, which is systemd, that the program is ready, ends, or is alive:
 * datagrams of text to the socket that $NOTIFY_SOCKET names (sd_notify(3)).  libsystemd would bring
 * four more libraries into the process for these.
 *
 * Without the variable nobody listens, and nothing is done.  A datagram that cannot be sent is not
 * an error: the manager has a timeout of its own.
 *
 * Threads: one. */

struct sluice_notify {
    int fd;          /* -1: nobody listens */
    int interval_ms; /* in which alive is to be said again; -1: never */
};

/* Connects; before the sandbox is entered.  Takes the variables out of the environment. */
void sluice_notify_open(struct sluice_notify *notify);
void sluice_notify_close(struct sluice_notify *notify); /* twice is fine */

void sluice_notify_ready(const struct sluice_notify *notify, const char *address);
void sluice_notify_alive(const struct sluice_notify *notify); /* if it has an interval */
void sluice_notify_stopping(const struct sluice_notify *notify);

#endif
