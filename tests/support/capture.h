#ifndef SLUICE_TESTS_SUPPORT_CAPTURE_H
#define SLUICE_TESTS_SUPPORT_CAPTURE_H

#include <stdbool.h>
#include <sys/types.h>

/* What code under test writes to stdout and stderr, and code that must run in a
 * process of its own (it dies, gets signals, or remembers its first call).
 *
 * Threads: capture and run from one thread; sluice_test_wait_blocked from any. */

struct sluice_test_output {
    char out[65536]; /* NUL-terminated, cut if longer */
    char err[65536];
};

/* Between the two, this process's stdout and stderr go to files. */
void sluice_test_capture_begin(void);
void sluice_test_capture_end(struct sluice_test_output *output);
/* Whether stderr has this text by now. */
bool sluice_test_capture_has(const char *text);

/* Runs fn(ctx) in a forked child whose exit code is its result; returns waitpid's status. */
int sluice_test_child(int (*fn)(void *ctx), void *ctx, struct sluice_test_output *output);

/* Returns when thread `tid` (gettid()) of this process sleeps in the kernel, as it does in a
 * condition wait. */
void sluice_test_wait_blocked(pid_t tid);

#endif
