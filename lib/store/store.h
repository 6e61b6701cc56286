#ifndef SLUICE_STORE_STORE_H
#define SLUICE_STORE_STORE_H

#include "base/error.h"
#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The interface of a store, which provides files: a folder, a bucket of an object store, or a web
 * server.
 *
 * The promises: no path reads anything outside the root.  A read returns the complete bytes of one
 * version of the object; an object that changes, or a truncated body, is an error.
 *
 *     store_file.c     a folder
 *     store_remote.c   shared by object stores and web servers
 *         s3.c             buckets: URLs, signatures, listings (s3_list.c), credentials
 *         web.c            a list file, and objects next to it (web_list.c)
 *         http.c           the transfers, by libcurl
 *     store_cache.c    a cache of remote objects on a local disk
 *     store_roots.c    several of these as one, by the first part of a path
 *
 * Threads: open and destroy on one thread; all else from any.  Reads, list and describe block. */

struct sluice_buf;
struct sluice_buf_pool;
struct sluice_store;

#define SLUICE_STORE_MAX_PARTS 3

/* 1 PiB: no store has larger objects, and sums of sizes do not overflow. */
#define SLUICE_STORE_MAX_OBJECT_BYTES (UINT64_C(1) << 50)

struct sluice_object {
    const char *key; /* path relative to the root */
    uint64_t bytes;
    /* Above 0: a file's time of change in ns since 1970.  Below 0: a hash of a remote object's
     * ETag.  0: unknown. */
    int64_t version;
};

/* Any status but SLUICE_OK ends the list, which returns that status. */
typedef sluice_status sluice_object_fn(void *ctx, const struct sluice_object *object,
                                       struct sluice_err *err);

struct sluice_store_limits {
    uint64_t max_object_bytes; /* that one read returns */
    uint64_t merge_gap_bytes;  /* read parts with a smaller gap as one */
    unsigned parallel_reads;   /* concurrent reads that the store serves well */
    bool is_remote;            /* reads wait for a network, not for a disk */
};

/* Chooses the parts to read of an opened object of this length and version: up to
 * SLUICE_STORE_MAX_PARTS, by rising offset.  For a range, `len` is its length and offsets count
 * from its beginning.  Any status but SLUICE_OK: nothing is read, and the reader gets that status.
 */
typedef sluice_status sluice_store_choose_fn(void *ctx, uint64_t len, int64_t version,
                                             struct sluice_file_part *parts, unsigned *num_parts,
                                             struct sluice_err *err);

/* An object to read, or a range of one (a member of a shard). */
struct sluice_store_read {
    const char *key; /* path relative to the root */
    /* The range.  offset 0: the whole object; `bytes` is then its length if `version` is a remote
     * object's, and otherwise ignored. */
    uint64_t offset, bytes;
    bool is_range; /* a range also from offset 0 */
    /* The version as listed.  A remote object's: another version is SLUICE_E_STALE.  A file's: the
     * store requests the remote object's version once and keeps to it; if the object has another
     * version later, that read is SLUICE_E_STALE and the next one requests the version again.  0:
     * requests the version for each read.  Folders ignore it. */
    int64_t version;
    sluice_store_choose_fn *choose; /* NULL: all of it.  Called once, or not at all if the file is
                                       refused */
    void *ctx;                      /* choose's */
    struct sluice_buf_pool *pool;   /* where the new buffer comes from; may be NULL */
    const void *owner;              /* for cancel; may be NULL */
};

/* A sample by which the dataset's folder is recognised. */
struct sluice_store_known {
    const char *path;
    uint64_t offset, bytes; /* as in sluice_store_read; but without offset the file's length */
};

struct sluice_store {
    /* Calls `fn` for every object whose key begins with `prefix`, in bytewise order of keys, even
     * if the object store lists them unordered.  Includes hidden files; excludes links in a folder.
     * `fn` must copy the key to keep it. */
    sluice_status (*list)(struct sluice_store *store, const char *prefix, sluice_object_fn *fn,
                          void *ctx, struct sluice_err *err);

    /* Length and version; object->key is `key`.  Statuses as below. */
    sluice_status (*describe)(struct sluice_store *store, const char *key,
                              struct sluice_object *object, struct sluice_err *err);

    /* Reads into a new buffer with the length of the object or the range; bytes outside the chosen
     * parts are undefined.  The text of err does not contain the path.
     *
     * SLUICE_E_INVALID: the path leaves the root, by itself or over a link (counted as refused);
     * SLUICE_E_NOT_FOUND: the root exists and the file does not; SLUICE_E_UNSUPPORTED: not a
     * regular file, or the file or range is larger than the limit; SLUICE_E_STALE: it changed while
     * it was read or since it was listed, or ends before the range does; SLUICE_E_NO_MEMORY;
     * SLUICE_E_CORRUPT: empty; SLUICE_E_IO: an error of the system or the network; SLUICE_E_CLOSED:
     * cancelled. */
    sluice_status (*read)(struct sluice_store *store, const struct sluice_store_read *read,
                          struct sluice_buf **file, struct sluice_err *err);

    /* Cancels the owner's reads that wait for a network.  Reads of a disk go on. */
    void (*cancel)(struct sluice_store *store, const void *owner);

    void (*limits)(struct sluice_store *store, struct sluice_store_limits *limits);

    /* Checks that the root still exists.  SLUICE_E_IO has the reason.  If another folder has the
     * root's path, contains `known`, and `known` can no longer be opened in the old folder, the new
     * folder becomes the root (a file system was mounted again).  One thread at a time for each
     * root.  NULL if roots cannot move. */
    sluice_status (*look)(struct sluice_store *store, const struct sluice_store_known *known,
                          struct sluice_err *err);

    /* The part of `path` beneath the root: `path` itself if it is relative, what follows the root
     * if it is absolute.  NULL, counted as refused, if it is absolute and outside the root, or has
     * a part "..".  Uses only the text. */
    const char *(*relative)(struct sluice_store *store, const char *path);

    uint64_t (*refused)(struct sluice_store *store); /* paths refused so far */
    void (*destroy)(struct sluice_store *store);
};

struct sluice_store_file_options {
    const char *root;
    uint64_t max_file_bytes;
    struct sluice_file_turns turns; /* for reads of the disk; take is NULL: no turns */
    /* Whether the bytes [from, to) of a file are in memory, so that reading them takes no turn.
     * NULL: unknown. */
    bool (*is_cached)(int fd, uint64_t from, uint64_t to);
    bool avoid_openat2; /* as on systems without it (Linux before 5.6) */
};

/* Files of a folder.  Links are followed while they stay beneath it.
 * SLUICE_E_NOT_FOUND or SLUICE_E_IO name the root.  Destroy with store->destroy. */
SLUICE_MUST_USE sluice_status
sluice_store_file_open(const struct sluice_store_file_options *options, struct sluice_store **store,
                       struct sluice_err *err);

#endif
