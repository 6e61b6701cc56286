#ifndef SLUICE_DATASETS_MANIFEST_BINARY_H
#define SLUICE_DATASETS_MANIFEST_BINARY_H

#include "base/error.h"
#include "base/file.h"
#include "datasets/manifest/manifest.h"

#include <stdbool.h>
#include <stddef.h>

/* A manifest as a mapped file: opening ten million samples reads the file once and takes almost no
 * memory of the process, since its pages are in the kernel's page cache.
 *
 * Version 1 holds no fields, or one called "target" that is a vector or bytes; version 2 any
 * others. All numbers are little endian, all sections begin at multiples of 8:
 *
 *     header    "SLUICEMF", version (4 bytes), length of the header (4), number of samples (8), of
 *               classes (8), of files passed over that may be images (8), id of the dataset (16),
 *               hash of what it was made of (16: of a text manifest, that in its last line; of a
 *               server's list, 8 bytes of 0 and its list_hash), what the values are (4; 0: there
 * are
 *               none, 1: vectors, 2: bytes, 3: of named fields) and a number (4; of vectors their
 *               dimension, of fields the bytes of their description), of each section its offset,
 *               length and XXH3-64 (3 * 8), XXH3-64 of all before (8)
 *     columns   bytes (8), offset (8), mtime_ns (8), hash (2 * 8, high word first), label (4),
 *               width and height (2 * 4), coding (1), marks (1: val 1, has a hash 2), where
 *               its values end (8), where its path begins (8); offsets, times and hashes may be
 *               missing, as are the ends where values are vectors
 *     values    of samples, one after the other (fields.h); of named fields their description comes
 *               first (a line for each, with NULs up to a multiple of 8), and ends count from
 *               behind it
 *     strings   paths, classes, and what was passed over, each with its NUL
 *
 * Opening checks the whole file, hashes and values, by read(), so a failing disk is an error and
 * not a signal.  A later failure of a mapped page ends the process (SIGBUS), so a file is only ever
 * replaced by renaming, never truncated or overwritten.
 *
 * Threads: a writer belongs to one thread at a time; the rest from any. */

/* "X.tsv": "X.bin", any other name: with ".bin" at its end. */
SLUICE_MUST_USE sluice_status sluice_manifest_binary_path(const char *text_path,
                                                          char path[SLUICE_MAX_PATH_BYTES],
                                                          struct sluice_err *err);

/* SLUICE_E_NOT_FOUND; SLUICE_E_CORRUPT: not such a file, truncated or damaged;
 * SLUICE_E_UNSUPPORTED: another version; SLUICE_E_STALE: made from another source than *source_hash
 * (NULL: not checked), or of another dataset than *id (NULL: not checked); SLUICE_E_IO.
 * Error texts name the path. */
struct sluice_manifest_expected {
    const struct sluice_hash128 *source_hash, *id;
};
SLUICE_MUST_USE sluice_status sluice_manifest_map(const char *path,
                                                  const struct sluice_manifest_expected *expected,
                                                  struct sluice_manifest **manifest,
                                                  struct sluice_err *err);

/* Writes the binary manifest next to its text manifest `text_path`, which must have been written
 * from `manifest`. */
SLUICE_MUST_USE sluice_status sluice_manifest_write_binary(const struct sluice_manifest *manifest,
                                                           const char *text_path,
                                                           struct sluice_err *err);

/* The hash in the last line of a text manifest.  SLUICE_E_NOT_FOUND: no file, or no such line. */
SLUICE_MUST_USE sluice_status sluice_manifest_text_hash(const char *text_path,
                                                        struct sluice_hash128 *hash,
                                                        struct sluice_err *err);

/* --- row by row --- */

struct sluice_manifest_writer;

struct sluice_manifest_writer_options {
    const char *path; /* replaced at the end, by renaming; NULL: memory, which is then mapped */
    size_t num_entries;
    size_t num_classes; /* labels are less */
    struct sluice_fields fields;
    uint64_t values_bytes; /* of all samples */
    bool has_offsets, has_mtimes, has_hashes;
};

/* Adds the columns of the manifest and the bytes of its values to the options.  All manifests must
 * have the same fields. */
void sluice_manifest_writer_want(struct sluice_manifest_writer_options *options,
                                 const struct sluice_manifest *manifest);

/* Takes about 200 kB of memory, whatever the number of samples. */
SLUICE_MUST_USE sluice_status
sluice_manifest_writer_create(const struct sluice_manifest_writer_options *options,
                              struct sluice_manifest_writer **writer, struct sluice_err *err);

/* Adds the next row.  SLUICE_E_INVALID: its label has no class, its values are not of the fields in
 * the options, its path is empty, too long, not UTF-8 or not after the one before, or there are
 * more rows or bytes of values than in the options.  SLUICE_E_IO. */
SLUICE_MUST_USE sluice_status sluice_manifest_writer_add(struct sluice_manifest_writer *writer,
                                                         const struct sluice_manifest_entry *entry,
                                                         struct sluice_err *err);

/* The dataset id of the rows so far. */
struct sluice_hash128 sluice_manifest_writer_id(const struct sluice_manifest_writer *writer);
/* As sluice_manifest_list_hash(); `classes` has num_classes names. */
uint64_t sluice_manifest_writer_list_hash(const struct sluice_manifest_writer *writer,
                                          const char *const *classes);
size_t sluice_manifest_writer_count(const struct sluice_manifest_writer *writer);

struct sluice_manifest_ending {
    const char *const *classes;               /* num_classes of them */
    const struct sluice_hash128 *source_hash; /* NULL: 0 */
    const char *passed_text;                  /* as in struct sluice_manifest; may be NULL */
    uint64_t passed_unread;
};

/* Call it once all rows are added.  *manifest (may be NULL): the mapped file.  The file is not
 * synced to the disk: after a crash, opening it finds the damage. */
SLUICE_MUST_USE sluice_status sluice_manifest_writer_commit(
    struct sluice_manifest_writer *writer, const struct sluice_manifest_ending *ending,
    struct sluice_manifest **manifest, struct sluice_err *err);
/* Without a commit nothing is left behind.  NULL is allowed. */
void sluice_manifest_writer_destroy(struct sluice_manifest_writer *writer);

#endif
