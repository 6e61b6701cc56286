#ifndef SLUICE_BASE_QUIT_H
#define SLUICE_BASE_QUIT_H

#include "base/error.h"

#include <stdbool.h>

/* Signals as plain events: a handler writes one byte to a pipe, and one thread of the program waits
 * on it where it is safe to act.
 *
 * SIGTERM and SIGINT ask for a clean stop; a second one ends the process at once.  SIGHUP asks for
 * the same stop, or for the action of sluice_quit_on_hangup().  It never counts as the second
 * signal, because a closing terminal or session may send several. SIGUSR1 asks for a report.
 * SIGPIPE and SIGXFSZ are ignored: a write says EPIPE or EFBIG. */

enum sluice_quit_event {
    SLUICE_QUIT_NONE, /* the timeout passed */
    SLUICE_QUIT_STOP,
    SLUICE_QUIT_REPORT,
    SLUICE_QUIT_REREAD, /* reload files that may have changed */
};

/* The action on SIGHUP: SLUICE_QUIT_STOP (the default; a process that was started with SIGHUP
 * ignored, as by nohup, goes on ignoring it) or SLUICE_QUIT_REREAD.  Before sluice_quit_init. */
void sluice_quit_on_hangup(enum sluice_quit_event event);

/* Installs the handlers; once per process, before threads start.  A second call
 * changes nothing and is SLUICE_E_INVALID. */
SLUICE_MUST_USE sluice_status sluice_quit_init(struct sluice_err *err);

/* While `ends` is true, the first SIGTERM or SIGINT ends the process at once, by the signal.  For a
 * start that has nothing to clean up and may wait for other processes.  Any thread. */
void sluice_quit_at_once(bool ends);

/* Waits for the next event; timeout_ms < 0 waits for ever.  A stop is returned
 * once, before any other event that waits.  One thread only, after sluice_quit_init. */
enum sluice_quit_event sluice_quit_wait(int timeout_ms);

/* True once a stop was asked for.  Any thread. */
bool sluice_quit_requested(void);

/* The signal that asked for the stop first; 0: none did.  Any thread. */
int sluice_quit_signal(void);

/* Asks for a stop from inside.  Any thread.  Does not count as the first signal: a later SIGTERM
 * does not end the process at once. */
void sluice_quit_request(void);

#endif
