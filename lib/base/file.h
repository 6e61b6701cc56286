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

/* The same; *st (may be NULL) gets what the file was like when it was opened. */
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

/* pread() until `len` bytes are read or the file ends: how many were read; -1: errno says why. */
ssize_t sluice_pread_fully(int fd, void *to, size_t len, uint64_t offset);

/* write() until all is written.  False: errno says why. */
bool sluice_write_fully(int fd, const void *data, size_t len);

/* When the content was last changed: ns since 1970. */
int64_t sluice_file_mtime_ns(const struct stat *st);

/* The bytes [from, to) of a file. */
struct sluice_file_part {
    size_t from, to;
};

/* Readers take turns.  take() blocks until it is the caller's turn and returns how many bytes it
 * may read at most; give() ends the turn. */
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
 * is there and no temporary file is left; but if only the sync of the folder failed, the new file
 * is there.  A symbolic link is replaced, not followed.  The mode is 0666 less the umask.  What is
 * no file but a device or a pipe (/dev/null, /dev/stdout) stays, and is written to. */
SLUICE_MUST_USE sluice_status sluice_file_write_atomic(const char *path, const void *data,
                                                       size_t len, struct sluice_err *err);

/* Whether sluice_file_write_atomic can write there: the folder takes a new file, and `path` is a
 * regular file or absent (SLUICE_E_INVALID).  Removes the temporary files of this path that killed
 * processes of this machine left behind. */
SLUICE_MUST_USE sluice_status sluice_file_try_atomic(const char *path, struct sluice_err *err);

/* The same for text of any length: `print` writes it to the stream. */
SLUICE_MUST_USE sluice_status sluice_file_print_atomic(const char *path,
                                                       void (*print)(FILE *out, const void *ctx),
                                                       const void *ctx, struct sluice_err *err);

/* Whether a folder is there with anything in it whose name does not begin with a dot.  One that
 * cannot be opened has nothing: the error shows when it is written to.  One that cannot be read to
 * its end may have. */
bool sluice_folder_has_files(const char *path);

/* Opens /dev/null as each of the descriptors 0, 1 and 2 that is closed.  Call it first in main():
 * otherwise a file or socket that is opened later gets that number, and output is printed into it.
 * Not for a library: the descriptors belong to its host. */
void sluice_open_standard_descriptors(void);

/* Makes the folder and all missing folders above it. */
SLUICE_MUST_USE sluice_status sluice_mkdirs(const char *path, struct sluice_err *err);

#endif
