#ifndef SLUICE_PYTHON_LOG_QUEUE_H
#define SLUICE_PYTHON_LOG_QUEUE_H

/* The library's log lines on their way to Python.  The library writes them from any thread, with
 * locks of its own held and perhaps while Python waits for it, so no line waits for the GIL: they
 * queue here, and one thread takes them.
 *
 * Threads: any may write lines; one takes them.  Without locks, so that a child of fork may go on.
 */

#include <sluice/sluice.h>

#include <stdbool.h>

struct log_line {
    struct log_line *next;
    enum sluice_log_level level;
    char text[];
};

/* Lines go to the queue from now on, instead of to stderr. */
void log_queue_open(void);
/* The least severe lines that are written at all, wherever they go. */
void log_queue_set_level(enum sluice_log_level least);

/* Waits; the lines since the last call, oldest first, to be freed one by one.  NULL: there are
 * none; `*is_end`: there will be none. */
struct log_line *log_queue_take(bool *is_end);

/* How many lines were left out since the last call, because nobody took those before. */
unsigned log_queue_num_lost(void);

/* Lines go to stderr again.  Whoever waits gets what there is, and then the end. */
void log_queue_close(void);

/* In the child of a fork: the lines here are the parent's. */
void log_queue_forget(void);

#endif
