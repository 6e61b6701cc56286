#ifndef SLUICE_DATASETS_JPEG_INDEX_JPEG_INDEX_FILE_H
#define SLUICE_DATASETS_JPEG_INDEX_JPEG_INDEX_FILE_H

#include "base/error.h"
#include "base/roots.h"

#include <stddef.h>
#include <stdint.h>

/* The indexes of a dataset's JPEGs (image/jpeg/index.h) in one file, found by path.
 *
 * All numbers are little endian:
 *
 *     "SLUICEJX", version (4 bytes), step (4), number of entries (8), offset of the table (8),
 *     length of the file (8), XXH3-64 of the table (8), XXH3-64 of all before (8)
 *     entries, as sluice_jpeg_index_write() makes them
 *     table: for each entry XXH3-64 of its path (8), offset << 24 | length (8); by rising hash
 *
 * Opening checks the header and the table; each entry has a hash of its own.  If two paths have the
 * same hash, one gets the other's entry, which is then refused as that of another file.
 *
 * The file is read, not mapped: a failing disk or a file truncated meanwhile is an error of one
 * entry, where a mapping would end the process with SIGBUS.
 *
 * Threads: find and add from any thread, the rest from one. */

struct sluice_buf;
struct sluice_buf_pool;

/* Next to SLUICE_MANIFEST_FILE. */
#define SLUICE_JPEG_INDEX_FILE "sluice-jpeg-index.bin"

struct sluice_jpeg_index_file;

/* SLUICE_E_NOT_FOUND: the file does not exist.  SLUICE_E_CORRUPT: not an index file, truncated or
 * damaged.  Error texts name the path. */
SLUICE_MUST_USE sluice_status sluice_jpeg_index_file_open(const char *path,
                                                          struct sluice_jpeg_index_file **file,
                                                          struct sluice_err *err);
void sluice_jpeg_index_file_close(struct sluice_jpeg_index_file *file); /* NULL is allowed */

/* For a program's option.  "off": no index, *file is NULL; "auto": root/SLUICE_JPEG_INDEX_FILE if
 * it exists; else the path of a file that must exist.  If an existing file cannot be used, a
 * warning names it and *file is NULL. */
SLUICE_MUST_USE sluice_status sluice_jpeg_index_file_choose(const char *choice, const char *root,
                                                            struct sluice_jpeg_index_file **file,
                                                            struct sluice_err *err);

/* The indexes of several roots (base/roots.h) as one, in which paths begin with the root's name:
 * takes files[i] of names[i] (NULL: it has none), whatever it returns.  *file is NULL if none has
 * one. */
SLUICE_MUST_USE sluice_status sluice_jpeg_index_file_join(
    const char *const *names, struct sluice_jpeg_index_file *const *files, size_t num_files,
    struct sluice_jpeg_index_file **file, struct sluice_err *err);

/* The index of these folders: choose() for each, joined if they have names. */
SLUICE_MUST_USE sluice_status
sluice_jpeg_index_file_choose_for(const char *choice, const struct sluice_roots *roots,
                                  struct sluice_jpeg_index_file **file, struct sluice_err *err);

/* The interval of the points in one file's index. */
uint32_t sluice_jpeg_index_file_step(const struct sluice_jpeg_index_file *file);

/* A new buffer with the entry for a path relative to the dataset's root, for
 * sluice_jpeg_index_parse().  SLUICE_E_NOT_FOUND; SLUICE_E_IO. */
SLUICE_MUST_USE sluice_status sluice_jpeg_index_file_find(const struct sluice_jpeg_index_file *file,
                                                          const char *path,
                                                          struct sluice_buf_pool *pool,
                                                          struct sluice_buf **entry,
                                                          struct sluice_err *err);

/* An index file that is being written, under a temporary name until commit renames it to `path`. */
struct sluice_jpeg_index_writer;
SLUICE_MUST_USE sluice_status
sluice_jpeg_index_writer_create(const char *path, uint32_t step, size_t max_entries,
                                struct sluice_jpeg_index_writer **writer, struct sluice_err *err);

/* Call it once for each path.  SLUICE_E_UNSUPPORTED: an entry of more than 16 MiB. */
SLUICE_MUST_USE sluice_status sluice_jpeg_index_writer_add(struct sluice_jpeg_index_writer *writer,
                                                           const char *path,
                                                           const struct sluice_buf *entry,
                                                           struct sluice_err *err);

/* Replaces `path` atomically and durably.  *bytes is the file's length. */
SLUICE_MUST_USE sluice_status sluice_jpeg_index_writer_commit(
    struct sluice_jpeg_index_writer *writer, uint64_t *bytes, struct sluice_err *err);
/* Without a commit nothing is left behind.  NULL is allowed. */
void sluice_jpeg_index_writer_destroy(struct sluice_jpeg_index_writer *writer);

#endif
