#ifndef SLUICE_DATASETS_MANIFEST_BINARY_H
#define SLUICE_DATASETS_MANIFEST_BINARY_H

#include "base/error.h"
#include "base/file.h"
#include "datasets/manifest/manifest.h"

#include <stdbool.h>
#include <stddef.h>

/* A manifest as a file that is mapped: opening ten million samples reads the file once and takes
 * next to no memory of the process's own, since its pages are the kernel's cache of the file.
 *
 * All numbers are little endian, all sections begin at multiples of 8:
 *
 *     header    "SLUICEMF", version (4 bytes), length of the header (4), number of samples (8), of
 *               classes (8), of files passed over that may be images (8), id of the dataset (16),
 *               hash of what it was made of (16: of a text manifest, that in its last line; of a
 *               server's list, 8 bytes of 0 and its list_hash), kind of the targets (4; 0: none, 1:
 *               vectors, 2: bytes) and their dimension (4), of each section its offset, length and
 *               XXH3-64 (3 * 8), XXH3-64 of all before (8)
 *     columns   bytes (8), offset (8), mtime_ns (8), hash (2 * 8, high word first), label (4),
 *               width and height (2 * 4), coding (1), marks (1: val 1, has a hash 2), where
 *               its target ends (8), where its path begins (8); offsets, times and hashes may be
 *               missing, as may the ends where targets are not bytes
 *     targets   one after the other
 *     strings   paths, classes, and what was passed over, each with its NUL
 *
 * Opening checks the whole file, hashes and what they say, by read(): a disk that fails is an
 * error, and no page of it is the process's then.  What goes wrong with a mapped page later ends
 * the process (SIGBUS), so a file is only ever replaced by renaming, never cut or written to.
 *
 * Threads: a writer belongs to one thread at a time; the rest from any. */

/* "X.tsv": "X.bin", any other name: with ".bin" at its end. */
SLUICE_MUST_USE sluice_status sluice_manifest_binary_path(const char *text_path,
                                                          char path[SLUICE_MAX_PATH_BYTES],
                                                          struct sluice_err *err);

/* SLUICE_E_NOT_FOUND; SLUICE_E_CORRUPT: no such file, cut or damaged; SLUICE_E_UNSUPPORTED: of
 * another version; SLUICE_E_STALE: made of something else than *source_hash says (NULL: anything
 * will do), or of another dataset than *id (NULL: the same); SLUICE_E_IO.
 * Error texts name the path. */
struct sluice_manifest_expected {
    const struct sluice_hash128 *source_hash, *id;
};
SLUICE_MUST_USE sluice_status sluice_manifest_map(const char *path,
                                                  const struct sluice_manifest_expected *expected,
                                                  struct sluice_manifest **manifest,
                                                  struct sluice_err *err);

/* Writes the binary manifest that belongs to the text manifest `text_path`, which was written of
 * `manifest` before, beside it. */
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
    struct sluice_target_type target_type;
    uint64_t target_bytes; /* of all targets */
    bool has_offsets, has_mtimes, has_hashes;
};

/* Adds the columns that the manifest has, and as many bytes of targets; all have targets of one
 * type.
 */
void sluice_manifest_writer_want(struct sluice_manifest_writer_options *options,
                                 const struct sluice_manifest *manifest);

/* Memory: some 200 kB, whatever the number of samples. */
SLUICE_MUST_USE sluice_status
sluice_manifest_writer_create(const struct sluice_manifest_writer_options *options,
                              struct sluice_manifest_writer **writer, struct sluice_err *err);

/* The next row.  SLUICE_E_INVALID: no label of a class, a target that is not as was said, or its
 * path is empty, too long, no UTF-8 or not after the one before; more rows or bytes of targets than
 * were said.  SLUICE_E_IO. */
SLUICE_MUST_USE sluice_status sluice_manifest_writer_add(struct sluice_manifest_writer *writer,
                                                         const struct sluice_manifest_entry *entry,
                                                         struct sluice_err *err);

/* The dataset id of the rows so far. */
struct sluice_hash128 sluice_manifest_writer_id(const struct sluice_manifest_writer *writer);
/* As sluice_manifest_list_hash(); `classes` are as many as were said. */
uint64_t sluice_manifest_writer_list_hash(const struct sluice_manifest_writer *writer,
                                          const char *const *classes);
size_t sluice_manifest_writer_count(const struct sluice_manifest_writer *writer);

struct sluice_manifest_ending {
    const char *const *classes;               /* as many as were said */
    const struct sluice_hash128 *source_hash; /* NULL: 0 */
    const char *passed_text;                  /* as in struct sluice_manifest; may be NULL */
    uint64_t passed_unread;
};

/* Once all rows are there.  *manifest (may be NULL): the file, mapped.  It is not synced to the
 * disk: what a crash leaves of it is found to be damaged. */
SLUICE_MUST_USE sluice_status sluice_manifest_writer_commit(
    struct sluice_manifest_writer *writer, const struct sluice_manifest_ending *ending,
    struct sluice_manifest **manifest, struct sluice_err *err);
/* Without a commit nothing is left behind.  NULL is allowed. */
void sluice_manifest_writer_destroy(struct sluice_manifest_writer *writer);

#endif
