#ifndef SLUICE_STORE_CACHE_FOLDER_H
#define SLUICE_STORE_CACHE_FOLDER_H

#include "store/cache_file.h"

#include <stddef.h>

/* Private to lib/store: the folder of a cache, and the files in it.
 *
 * A file is written under a temporary name and renamed.  A file with its final name is complete,
 * unless the machine lost power, which its length or hash shows.
 *
 * Threads: prepare, open, scan and close on one thread; all else from any. */

struct sluice_cache_folder;

SLUICE_MUST_USE sluice_status sluice_cache_folder_prepare(const char *path, struct sluice_err *err);

/* SLUICE_E_IO: also if another process has it open. */
SLUICE_MUST_USE sluice_status sluice_cache_folder_open(const char *path,
                                                       struct sluice_cache_folder **folder,
                                                       struct sluice_err *err);
void sluice_cache_folder_close(struct sluice_cache_folder *folder); /* NULL is allowed */

/* Calls `keep` for every piece; removes those for which it returns false, and files that are not
 * pieces. */
SLUICE_MUST_USE sluice_status sluice_cache_folder_scan(
    struct sluice_cache_folder *folder, bool (*keep)(void *ctx, const struct sluice_cache_piece *),
    void *ctx, struct sluice_err *err);

/* The disk space of a piece, in bytes. */
uint64_t sluice_cache_folder_footprint(const struct sluice_cache_piece *piece);

/* Reads a piece.  SLUICE_E_NOT_FOUND; SLUICE_E_CORRUPT: damaged, or another object's; SLUICE_E_IO.
 * After a failure `data` is undefined. */
SLUICE_MUST_USE sluice_status sluice_cache_folder_read(struct sluice_cache_folder *folder,
                                                       struct sluice_hash128 identity,
                                                       const struct sluice_cache_piece *piece,
                                                       void *data, struct sluice_err *err);

/* Writes a piece under a temporary name with `number`, which must be unique. */
SLUICE_MUST_USE sluice_status sluice_cache_folder_write(struct sluice_cache_folder *folder,
                                                        struct sluice_hash128 identity,
                                                        const struct sluice_cache_piece *piece,
                                                        const void *data, uint64_t number,
                                                        struct sluice_err *err);
/* Renames a written piece to its final name, or removes it. */
SLUICE_MUST_USE sluice_status sluice_cache_folder_commit(struct sluice_cache_folder *folder,
                                                         const struct sluice_cache_piece *piece,
                                                         uint64_t number, struct sluice_err *err);
void sluice_cache_folder_abandon(struct sluice_cache_folder *folder,
                                 const struct sluice_cache_piece *piece, uint64_t number);

void sluice_cache_folder_remove(struct sluice_cache_folder *folder,
                                const struct sluice_cache_piece *piece);

#endif
