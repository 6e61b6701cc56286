#ifndef SLUICE_STORAGE_SERVER_OBSERVE_LAST_WORDS_H
#define SLUICE_STORAGE_SERVER_OBSERVE_LAST_WORDS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Ends the process at a deadline even if other threads hang: in a read that never returns, in a
 * wait for such a thread, or in a write to an output that nobody reads.
 *
 * Threads: open and close on one; the rest from any. */

struct sluice_last_words;

/* Starts a thread that waits for the deadline and then calls `speak`, which writes the last lines
 * and returns the exit code of the process.  If it does not return within LAST_WORDS_NS, the
 * process ends by SIGALRM. */
SLUICE_MUST_USE sluice_status sluice_last_words_open(int (*speak)(void *ctx), void *ctx,
                                                     struct sluice_last_words **words,
                                                     struct sluice_err *err);
/* Cancels it, because the process ends in time.  NULL is allowed. */
void sluice_last_words_close(struct sluice_last_words *words);

/* Sets the deadline; the earliest one counts. */
void sluice_last_words_at(struct sluice_last_words *words, uint64_t deadline_ns);

/* Writes a line, or the part of it that the descriptor takes without waiting.  False: not all of
 * it. */
bool sluice_write_line_now(int fd, const char *text);

#endif
