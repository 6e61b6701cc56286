#ifndef SLUICE_STORAGE_SERVER_STORE_H
#define SLUICE_STORAGE_SERVER_STORE_H

#include "base/error.h"
#include "base/file.h"

#include <stdbool.h>
#include <stdint.h>

/* Where the server's files come from.
 *
 * The promise: no path, however made, reads anything outside the root.
 *
 * Threads: read and relative from any thread; both may block on the disk. */

struct sluice_buf;
struct sluice_disk_gate;
struct sluice_buf_pool;

#define SLUICE_STORE_MAX_PARTS 3

/* Chooses what is to be read of a file of this length and time, as it was opened: up to
 * SLUICE_STORE_MAX_PARTS parts, by rising offset.  Of a range: `len` is the range's length, and
 * parts count from its begin.  Any other status than SLUICE_OK: nothing is
 * read, and the reader gets that status. */
typedef sluice_status sluice_store_choose_fn(void *ctx, uint64_t len, int64_t mtime_ns,
                                             struct sluice_file_part *parts, unsigned *num_parts,
                                             struct sluice_err *err);

/* What to read: a file, or a range of one (a member of a shard). */
struct sluice_store_read {
    const char *key;        /* path relative to the root */
    uint64_t offset, bytes; /* the range; offset 0: the whole file, and `bytes` is not looked at */
    sluice_store_choose_fn *choose; /* NULL: all of it.  Called once, or not at all if the file is
                                       refused */
    void *ctx;                      /* choose's */
    struct sluice_buf_pool *pool;   /* where the new buffer comes from; may be NULL */
};

/* A sample that tells whether a folder is the dataset's. */
struct sluice_store_known {
    const char *path;
    uint64_t offset, bytes; /* as in sluice_store_read; but without offset the file's length */
};

struct sluice_store {
    /* Reads into a new buffer as long as the file or the range; bytes that were not chosen are
     * undefined.  err says what is wrong without the path: the caller knows it.
     *
     * SLUICE_E_INVALID: the path leaves the root, by itself or over a link (counted as
     * refused); SLUICE_E_NOT_FOUND: the root is there and the file is not;
     * SLUICE_E_UNSUPPORTED: no regular file, or it or the range is larger than the limit;
     * SLUICE_E_STALE: it changed while it was read, or ends before the range does;
     * SLUICE_E_NO_MEMORY; SLUICE_E_CORRUPT: empty; SLUICE_E_IO: the system said no. */
    sluice_status (*read)(struct sluice_store *store, const struct sluice_store_read *read,
                          struct sluice_buf **file, struct sluice_err *err);

    /* Whether the root is where it was.  SLUICE_E_IO says in words what is wrong.  If another
     * folder has taken the root's place, and `known` is there and can no longer be opened where it
     * was, that folder becomes the root (a file system that was mounted again).  One thread at a
     * time.  May be NULL: then it always is. */
    sluice_status (*look)(struct sluice_store *store, const struct sluice_store_known *known,
                          struct sluice_err *err);

    /* The part of `path` beneath the root: `path` itself if it is relative, what
     * follows the root if it is absolute.  NULL, counted as refused, if it is absolute
     * and elsewhere, or has a part "..".  Looks at the text alone. */
    const char *(*relative)(struct sluice_store *store, const char *path);

    uint64_t (*refused)(struct sluice_store *store); /* paths refused so far */
    void (*destroy)(struct sluice_store *store);
};

struct sluice_store_file_options {
    const char *root;
    uint64_t max_file_bytes;
    struct sluice_disk_gate *gate; /* reads of the disk take turns; borrowed; NULL: they do not */
    bool avoid_openat2;            /* as on systems without it (Linux before 5.6) */
};

/* Files of a folder.  Links are followed while they stay beneath it.
 * SLUICE_E_NOT_FOUND or SLUICE_E_IO name the root.  Destroy with store->destroy. */
SLUICE_MUST_USE sluice_status
sluice_store_file_open(const struct sluice_store_file_options *options, struct sluice_store **store,
                       struct sluice_err *err);

#endif
