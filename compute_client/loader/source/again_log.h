#ifndef SLUICE_COMPUTE_CLIENT_LOADER_SOURCE_AGAIN_LOG_H
#define SLUICE_COMPUTE_CLIENT_LOADER_SOURCE_AGAIN_LOG_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Logs retries of samples, so that a lasting storage error is visible: at most one line every few
 * seconds, with the first failure since the last line.
 *
 * Threads: the source's lock guards it; tell() is called without the lock. */

struct sluice_again_log {
    sluice_status status; /* of the first failure that was not logged; SLUICE_OK: no failure */
    char text[200];
    uint64_t told_ns; /* time of the last line; 0: never */
};

void sluice_again_note(struct sluice_again_log *again, sluice_status status, const char *text);

/* When the next line is due; 0: there is nothing to log. */
uint64_t sluice_again_due_ns(const struct sluice_again_log *again);

/* If a line is due, moves it to *line, for tell().  `count`: samples that have failed and are not
 * answered; with 0 the pending failure is dropped. */
bool sluice_again_take(struct sluice_again_log *again, size_t count, uint64_t now_ns,
                       struct sluice_again_log *line);

/* Logs that `count` samples are requested again from `place`. */
void sluice_again_tell(const struct sluice_again_log *line, const char *place, size_t count);

#endif
