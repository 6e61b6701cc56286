#ifndef SLUICE_BASE_FILE_H
#define SLUICE_BASE_FILE_H

#include "base/buf.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

/* Whole files, for configuration, plans, manifests and checkpoints.  The paths
 * are the operator's own: a server that takes paths from outside confines them
 * first.
 *
 * Threads: any.  Statuses other than SLUICE_E_IO are named at each function; every
 * text names the path. */

#define SLUICE_MAX_PATH_BYTES 4096 /* with the 0 at its end; as many as Linux takes */

/* "FOLDER/NAME"; SLUICE_E_INVALID if that is longer. */
SLUICE_MUST_USE sluice_status sluice_path_in(const char *folder, const char *name,
                                             char path[SLUICE_MAX_PATH_BYTES],
                                             struct sluice_err *err);

/* Reads a regular file into a new buffer drawn from `pool` (NULL: none).
 * SLUICE_E_NOT_FOUND; SLUICE_E_INVALID: not a regular file; SLUICE_E_UNSUPPORTED:
 * larger than max_bytes; SLUICE_E_IO: also if it changes while it is read. */
SLUICE_MUST_USE sluice_status sluice_file_read(const char *path, size_t max_bytes,
                                               struct sluice_buf_pool *pool,
                                               struct sluice_buf **buf, struct sluice_err *err);

/* As sluice_file_read(); *st (may be NULL) gets the file's state when it was opened. */
SLUICE_MUST_USE sluice_status sluice_file_read_stat(const char *path, size_t max_bytes,
                                                    struct sluice_buf_pool *pool,
                                                    struct sluice_buf **buf, struct stat *st,
                                                    struct sluice_err *err);

/* Reads the bytes [offset, offset + len) of a regular file; *st as above.  Statuses as above;
 * SLUICE_E_UNSUPPORTED: len is larger than max_bytes; SLUICE_E_STALE: the file ends before. */
SLUICE_MUST_USE sluice_status sluice_file_read_range(const char *path, uint64_t offset,
                                                     uint64_t len, size_t max_bytes,
                                                     struct sluice_buf_pool *pool,
                                                     struct sluice_buf **buf, struct stat *st,
                                                     struct sluice_err *err);

/* Calls pread() until `len` bytes are read or the file ends.  Returns the bytes read; -1: errno is
 * set. */
ssize_t sluice_pread_fully(int fd, void *to, size_t len, uint64_t offset);

/* Calls write() until all is written.  False: errno is set. */
bool sluice_write_fully(int fd, const void *data, size_t len);

/* The time of the last change of the content, in ns since 1970. */
int64_t sluice_file_mtime_ns(const struct stat *st);

/* The bytes [from, to) of a file. */
struct sluice_file_part {
    size_t from, to;
};

/* Turns of readers.  take() blocks until it is the caller's turn and returns the most bytes that it
 * may read; give() ends the turn. */
struct sluice_file_turns {
    size_t (*take)(void *ctx);
    void (*give)(void *ctx);
    void *ctx;
};

/* Reads parts of the `len` bytes of an open file that begin at base_offset (0: the file's own
 * begin) to their places in a new buffer of `len` bytes; parts count from base_offset, and the
 * bytes between them are undefined.  Each read takes a turn of `turns`; NULL: no turns.  The
 * error text does not name the file.  SLUICE_E_INVALID: a part is not within these bytes. */
SLUICE_MUST_USE sluice_status sluice_file_read_parts(
    int fd, uint64_t base_offset, size_t len, const struct sluice_file_part *parts,
    size_t num_parts, const struct sluice_file_turns *turns, struct sluice_buf_pool *pool,
    struct sluice_buf **buf, struct sluice_err *err);

/* Replaces the file `path` atomically and durably: writes a temporary file next to it, syncs it and
 * renames it to `path`.  A reader sees the old file or the new one.  After a failure the old file
 * is in place and no temporary file is left; but if only the sync of the folder failed, the new
 * file is in place.  A symbolic link is replaced, not followed.  The mode is 0666 less the umask.
 * A device or pipe (/dev/null, /dev/stdout) is written to, not replaced. */
SLUICE_MUST_USE sluice_status sluice_file_write_atomic(const char *path, const void *data,
                                                       size_t len, struct sluice_err *err);

/* Checks that sluice_file_write_atomic() can write `path`: a new file can be created in the folder,
 * and `path` is a regular file or absent (else SLUICE_E_INVALID).  Removes this path's temporary
 * files of killed processes of this machine. */
SLUICE_MUST_USE sluice_status sluice_file_try_atomic(const char *path, struct sluice_err *err);

/* As sluice_file_write_atomic(), for text of any length that `print` writes to the stream. */
SLUICE_MUST_USE sluice_status sluice_file_print_atomic(const char *path,
                                                       void (*print)(FILE *out, const void *ctx),
                                                       const void *ctx, struct sluice_err *err);

/* Whether the folder contains an entry whose name does not begin with a dot.  False if it cannot be
 * opened: the error shows when it is written to.  True if it cannot be read to its end. */
bool sluice_folder_has_files(const char *path);

/* Opens /dev/null as each of the descriptors 0, 1 and 2 that is closed.  Call it first in main():
 * otherwise a file or socket that is opened later gets that number, and output is printed into it.
 * Not for a library: the descriptors belong to its host. */
void sluice_open_standard_descriptors(void);

/* Creates the folder and all missing folders above it. */
SLUICE_MUST_USE sluice_status sluice_mkdirs(const char *path, struct sluice_err *err);

#endif
