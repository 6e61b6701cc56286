#ifndef SLUICE_BASE_LINE_WRITER_H
#define SLUICE_BASE_LINE_WRITER_H

#include "base/error.h"

#include <stdint.h>

/* Writes lines of output and retries after a full disk.
 *
 * Lines that cannot be written are kept, up to 1 MiB, and retried with the next lines and at the
 * end; for that, the file is reopened.  Each line is written once and whole, or counted as lost.
 * While writing fails, a warning says so every 30 s.
 *
 * Waits for a slow reader, unless a stop was requested (base/quit.h); then its lines count as not
 * written.
 *
 * Threads: one at a time. */

struct sluice_line_writer;

/* Writes to the file `path`, which is created or emptied, or, if that is NULL, to the descriptor
 * `fd`, which stays open.  `name` is for messages.  `header` is the file's first line; NULL: none.
 * SLUICE_E_IO names the file. */
SLUICE_MUST_USE sluice_status sluice_line_writer_open(const char *path, int fd, const char *name,
                                                      const char *header,
                                                      struct sluice_line_writer **writer,
                                                      struct sluice_err *err);

/* Adds lines, each with its newline. */
void sluice_line_writer_add(struct sluice_line_writer *writer, const char *lines);

/* Writes what was added. */
void sluice_line_writer_flush(struct sluice_line_writer *writer);

/* Bytes added and not yet written. */
uint64_t sluice_line_writer_waiting(const struct sluice_line_writer *writer);

/* Writes the rest and frees the writer.  Fails if lines were lost; the text has their number and
 * the reason.  NULL is allowed. */
SLUICE_MUST_USE sluice_status sluice_line_writer_close(struct sluice_line_writer *writer,
                                                       struct sluice_err *err);

#endif
