#ifndef SLUICE_STORAGE_SERVER_OBSERVE_LAST_WORDS_H
#define SLUICE_STORAGE_SERVER_OBSERVE_LAST_WORDS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Ends the process at a deadline, whatever its other threads do: a worker in a read that never
 * returns, a thread that waits for it, an output that nobody reads.
 *
 * Threads: open and close on one; the rest from any. */

struct sluice_last_words;

/* Starts a thread that waits.  `speak` is called on it at the deadline, says what is to be said and
 * returns the exit code of the process; if it does not return soon (LAST_WORDS_NS), the process
 * ends by SIGALRM. */
SLUICE_MUST_USE sluice_status sluice_last_words_open(int (*speak)(void *ctx), void *ctx,
                                                     struct sluice_last_words **words,
                                                     struct sluice_err *err);
/* The process ended in time: nothing is said.  NULL is allowed. */
void sluice_last_words_close(struct sluice_last_words *words);

/* The deadline; the earliest one counts. */
void sluice_last_words_at(struct sluice_last_words *words, uint64_t deadline_ns);

/* Writes a line, or as much of it as the descriptor takes without waiting.  False: not all. */
bool sluice_write_line_now(int fd, const char *text);

#endif
