#ifndef SLUICE_STORAGE_SERVER_DATA_SAMPLE_LIST_H
#define SLUICE_STORAGE_SERVER_DATA_SAMPLE_LIST_H

#include "base/error.h"
#include "base/roots.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The server's list of samples, as an immutable snapshot with a reference count, so that the list
 * can be read again while streams run.
 *
 *     a stream or call     opens with the current list, and keeps its dataset until it ends
 *     a new list of        old streams keep the old list; a new Hello or FetchOpen with the old
 *     another dataset      dataset id is refused, as for any other data
 *     a new list of the    old streams read by the new list: its ids mean the same samples, and its
 *     same dataset         times, hashes and JPEG indexes are current
 *
 * Threads: any.  A list does not change; sluice_sample_lists has a lock, which is a leaf. */

struct sluice_freshness;
struct sluice_jpeg_index_file;
struct sluice_manifest;
struct sluice_store;
struct sluice_subset_rows;

struct sluice_sample_list {
    const struct sluice_manifest *manifest;
    const struct sluice_subset_rows *rows;       /* of the manifest */
    struct sluice_freshness *freshness;          /* of the manifest's files */
    struct sluice_jpeg_index_file *jpeg_indexes; /* NULL: none */
    char dataset_id[33];
    uint64_t list_hash, plain_list_hash; /* sluice_manifest_list_hash() and the like */
    uint64_t dataset_bytes;              /* of all files */
    uint64_t bytes;                      /* of memory, approximately */
    /* By root, for roots with names: its list was made by walking its folders. */
    bool is_walked[SLUICE_MAX_ROOTS];

    /* Private. */
    atomic_uint refs;
    void (*on_gone)(void *ctx, uint64_t bytes);
    void *ctx;
};

/* The source of a list.  Borrows the texts. */
struct sluice_sample_list_source {
    const struct sluice_roots *roots;
    /* By root: the store of a remote root; NULL: a folder. */
    struct sluice_store *stores[SLUICE_MAX_ROOTS];
    /* The list of one root without a name; other roots have theirs next to their files. */
    const char *manifest;   /* a file that must be there; NULL: the root's, or else a scan */
    const char *jpeg_index; /* sluice_jpeg_index_file_choose() */
    bool should_verify;     /* sluice_freshness_create() */
    bool is_strict;         /* sluice_manifest_check_passed_over() */
    bool needs_whole; /* a damaged manifest of the root is an error; it is not replaced by a scan */
};

/* Fills in source->stores from the server's store over source->roots. */
void sluice_sample_list_source_find(struct sluice_sample_list_source *source,
                                    struct sluice_store *store);

/* Reads or scans each root, and joins their lists (manifest/join.h).  *list is new, with one
 * reference. */
SLUICE_MUST_USE sluice_status
sluice_sample_list_read(const struct sluice_sample_list_source *source,
                        struct sluice_sample_list **list, struct sluice_err *err);
/* Takes both, whatever it returns; `jpeg_indexes` may be NULL. */
SLUICE_MUST_USE sluice_status sluice_sample_list_create(struct sluice_manifest *manifest,
                                                        struct sluice_jpeg_index_file *jpeg_indexes,
                                                        bool should_verify,
                                                        struct sluice_sample_list **list,
                                                        struct sluice_err *err);

struct sluice_sample_list *sluice_sample_list_ref(struct sluice_sample_list *list);
void sluice_sample_list_unref(struct sluice_sample_list *list); /* NULL is allowed */

/* The holder of the server's current list. */
struct sluice_sample_lists;

/* Takes the list, whatever it returns. */
SLUICE_MUST_USE sluice_status sluice_sample_lists_create(struct sluice_sample_list *list,
                                                         struct sluice_sample_lists **lists,
                                                         struct sluice_err *err);
void sluice_sample_lists_destroy(struct sluice_sample_lists *lists); /* NULL is allowed */

/* A reference to the current list. */
struct sluice_sample_list *sluice_sample_lists_now(struct sluice_sample_lists *lists);
/* A reference to the current list if it has the same dataset as `held`, otherwise to `held`. */
struct sluice_sample_list *sluice_sample_lists_newest(struct sluice_sample_lists *lists,
                                                      struct sluice_sample_list *held);
/* Takes the new list.  Calls on_gone(ctx, bytes) once nobody holds the old list. */
void sluice_sample_lists_replace(struct sluice_sample_lists *lists, struct sluice_sample_list *list,
                                 void (*on_gone)(void *ctx, uint64_t bytes), void *ctx);

#endif
