#ifndef SLUICE_BASE_PROGRESS_H
#define SLUICE_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* A progress line for long work on stderr: rewritten in place on a terminal and cut to its width, a
 * plain line every few seconds elsewhere, nothing below --log-level info.
 *
 * Threads: one at a time for each progress. */
struct sluice_progress {
    const char *what; /* "downloading"; borrowed until the end */
    uint64_t total;   /* 0: unknown */
    uint64_t started_ns, last_ns;
    bool is_terminal, is_shown;
};
void sluice_progress_start(struct sluice_progress *progress, const char *what, uint64_t total);
/* Cheap enough to call for every item; `extra` (may be NULL) ends the line. */
void sluice_progress_update(struct sluice_progress *progress, uint64_t done, const char *extra);
/* Always logs a final line with the amount done and the time. */
void sluice_progress_end(struct sluice_progress *progress, uint64_t done);

#endif
