#ifndef SLUICE_COMPUTE_CLIENT_LOADER_SOURCE_AGAIN_LOG_H
#define SLUICE_COMPUTE_CLIENT_LOADER_SOURCE_AGAIN_LOG_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tells of samples that are asked for again, so that a storage error that lasts is not silent: one
 * line every few seconds at most, with the first failure since the last line.
 *
 * Threads: the source's lock guards it; tell() is called without. */

struct sluice_again_log {
    sluice_status status; /* of the first failure that was not told; SLUICE_OK: none */
    char text[200];
    uint64_t told_ns; /* 0: never */
};

void sluice_again_note(struct sluice_again_log *again, sluice_status status, const char *text);

/* When a line is due; 0: there is nothing to tell. */
uint64_t sluice_again_due_ns(const struct sluice_again_log *again);

/* If a line is due: *line is what to tell, and counts as told.  `count`: of samples that have
 * failed and are not answered; with 0 there is nothing to tell any more. */
bool sluice_again_take(struct sluice_again_log *again, size_t count, uint64_t now_ns,
                       struct sluice_again_log *line);

/* `count` samples are asked for again from `place`. */
void sluice_again_tell(const struct sluice_again_log *line, const char *place, size_t count);

#endif
