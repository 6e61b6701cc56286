#ifndef SLUICE_STORE_STORE_H
#define SLUICE_STORE_STORE_H

#include "base/error.h"
#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where files come from: a folder, a bucket of an object store, or a web server.
 *
 * The promises: no path, however made, reads anything outside the root.  What a read returns is of
 * one version of the object, all of it: an object that changes, or a body that breaks off, is an
 * error and never a mixture.
 *
 *     store_file.c     a folder
 *     store_remote.c   what object stores and web servers have in common
 *         s3.c             buckets: URLs, signatures, listings (s3_list.c), credentials
 *         web.c            a list file, and objects next to it (web_list.c)
 *         http.c           the transfers, by libcurl
 *     store_cache.c    what a remote one sent, on a local disk
 *     store_roots.c    several of these as one, by the first part of a path
 *
 * Threads: open and destroy on one; all else from any.  Reads, list and describe block. */

struct sluice_buf;
struct sluice_buf_pool;
struct sluice_store;

#define SLUICE_STORE_MAX_PARTS 3

/* 1 PiB: no store has larger objects, and what adds up sizes has room for them. */
#define SLUICE_STORE_MAX_OBJECT_BYTES (UINT64_C(1) << 50)

struct sluice_object {
    const char *key; /* path relative to the root */
    uint64_t bytes;
    /* A file's time of change in ns since 1970, which is above 0.  Of a remote object a hash of its
     * ETag, which is below 0.  0: not known. */
    int64_t version;
};

/* Any status but SLUICE_OK ends the list with it. */
typedef sluice_status sluice_object_fn(void *ctx, const struct sluice_object *object,
                                       struct sluice_err *err);

struct sluice_store_limits {
    uint64_t max_object_bytes; /* that one read returns */
    uint64_t merge_gap_bytes;  /* parts closer than this are better read as one */
    unsigned parallel_reads;   /* that the store serves well at once */
    bool is_remote;            /* reads wait for a network, not for a disk */
};

/* Chooses what is to be read of an object of this length and version, as it was opened: up to
 * SLUICE_STORE_MAX_PARTS parts, by rising offset.  Of a range: `len` is the range's length, and
 * parts count from its begin.  Any other status than SLUICE_OK: nothing is read, and the reader
 * gets that status. */
typedef sluice_status sluice_store_choose_fn(void *ctx, uint64_t len, int64_t version,
                                             struct sluice_file_part *parts, unsigned *num_parts,
                                             struct sluice_err *err);

/* An object to read, or a range of one (a member of a shard). */
struct sluice_store_read {
    const char *key; /* path relative to the root */
    /* The range.  offset 0: the whole object, of so many bytes if `version` is a remote object's;
     * else `bytes` is not looked at. */
    uint64_t offset, bytes;
    bool is_range; /* a range also from offset 0 */
    /* As listed.  A remote object's: one of another version is SLUICE_E_STALE.  A file's: a remote
     * object is asked once for its version, and later reads of this store stick to that; when it
     * has another one is SLUICE_E_STALE, and the next read asks again.  0: it is asked each time. A
     * folder does not look at it. */
    int64_t version;
    sluice_store_choose_fn *choose; /* NULL: all of it.  Called once, or not at all if the file is
                                       refused */
    void *ctx;                      /* choose's */
    struct sluice_buf_pool *pool;   /* where the new buffer comes from; may be NULL */
    const void *owner;              /* for cancel; may be NULL */
};

/* A sample that tells whether a folder is the dataset's. */
struct sluice_store_known {
    const char *path;
    uint64_t offset, bytes; /* as in sluice_store_read; but without offset the file's length */
};

struct sluice_store {
    /* Calls `fn` with every object whose key begins with `prefix`, by the order of their bytes; an
     * object store that lists in no order does so here.  Hidden files are objects, too; of a folder
     * links are left out.  The key is the caller's until `fn` returns. */
    sluice_status (*list)(struct sluice_store *store, const char *prefix, sluice_object_fn *fn,
                          void *ctx, struct sluice_err *err);

    /* Length and version; object->key is `key`.  Statuses as below. */
    sluice_status (*describe)(struct sluice_store *store, const char *key,
                              struct sluice_object *object, struct sluice_err *err);

    /* Reads into a new buffer as long as the object or the range; bytes that were not chosen are
     * undefined.  err says what is wrong without the path: the caller knows it.
     *
     * SLUICE_E_INVALID: the path leaves the root, by itself or over a link (counted as
     * refused); SLUICE_E_NOT_FOUND: the root is there and the file is not;
     * SLUICE_E_UNSUPPORTED: no regular file, or it or the range is larger than the limit;
     * SLUICE_E_STALE: it changed while it was read or since it was listed, or ends before the range
     * does; SLUICE_E_NO_MEMORY; SLUICE_E_CORRUPT: empty; SLUICE_E_IO: the system or the network
     * said no; SLUICE_E_CLOSED: cancelled. */
    sluice_status (*read)(struct sluice_store *store, const struct sluice_store_read *read,
                          struct sluice_buf **file, struct sluice_err *err);

    /* Ends the reads of this owner that wait for a network.  A read of a disk goes on. */
    void (*cancel)(struct sluice_store *store, const void *owner);

    void (*limits)(struct sluice_store *store, struct sluice_store_limits *limits);

    /* Whether the root is where it was.  SLUICE_E_IO says in words what is wrong.  If another
     * folder has taken the root's place, and `known` is there and can no longer be opened where it
     * was, that folder becomes the root (a file system that was mounted again).  One thread at a
     * time for each root.  NULL where roots do not move. */
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
    struct sluice_file_turns turns; /* reads of the disk take turns; take is NULL: they do not */
    /* Whether the bytes [from, to) of a file are in memory, so that reading them takes no turn.
     * NULL: nobody knows. */
    bool (*is_cached)(int fd, uint64_t from, uint64_t to);
    bool avoid_openat2; /* as on systems without it (Linux before 5.6) */
};

/* Files of a folder.  Links are followed while they stay beneath it.
 * SLUICE_E_NOT_FOUND or SLUICE_E_IO name the root.  Destroy with store->destroy. */
SLUICE_MUST_USE sluice_status
sluice_store_file_open(const struct sluice_store_file_options *options, struct sluice_store **store,
                       struct sluice_err *err);

#endif
