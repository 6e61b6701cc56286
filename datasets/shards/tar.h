#ifndef SLUICE_DATASETS_SHARDS_TAR_H
#define SLUICE_DATASETS_SHARDS_TAR_H

#include "base/error.h"
#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lists the members of a tar and the places of their content, without reading it.
 *
 * Supports v7, ustar (POSIX.1-1988), GNU's long names and sizes, and pax (POSIX.1-2001) with `path`
 * and `size`.  Members other than regular files are reported with their kind.  Whatever a tar
 * holds, the reader stays within it and allocates at most SLUICE_TAR_MAX_EXTENDED bytes.
 *
 * Threads: one at a time for each reader. */

#define SLUICE_TAR_BLOCK 512
#define SLUICE_TAR_MAX_EXTENDED ((size_t)1 << 20) /* bytes of an extended header or long name */

/* Reads to[0 .. len) at `at`: SLUICE_OK, or why not.  It is only asked for what lies within the
 * size of the tar. */
typedef sluice_status sluice_read_at_fn(void *ctx, uint64_t at, void *to, size_t len,
                                        struct sluice_err *err);

struct sluice_tar {
    sluice_read_at_fn *read_at;
    void *ctx;
    uint64_t size; /* of the tar */
    uint64_t at;   /* of the next header; begin with 0 */
};

struct sluice_tar_member {
    char name[SLUICE_MAX_PATH_BYTES];
    uint64_t offset, bytes; /* of the content, within the tar */
    /* The kind of a member that cannot be read in place: "a folder", "a link", "sparse", ...; NULL:
     * a regular file. */
    const char *kind;
};

/* Reads the next member.  *is_end: the tar has ended, and *member is untouched.
 *
 * SLUICE_E_CORRUPT: damaged or truncated; err begins with "byte N: ", the place of the bad header.
 * A tar that ends without a block of zeros is truncated.  Reading cannot continue after damage.
 * Other statuses: those of read_at, and SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_tar_next(struct sluice_tar *tar,
                                              struct sluice_tar_member *member, bool *is_end,
                                              struct sluice_err *err);

/* --- writing --- */

/* The blocks in front of a regular file: ustar, with a pax header before it for a long name.  Of
 * mode 0644, of user and group 0, of 1970: the same name and size give the same bytes.  Returns how
 * many bytes of `to` they take, or 0 if the name or the size does not fit. */
#define SLUICE_TAR_MAX_HEADER (SLUICE_MAX_PATH_BYTES + 4 * SLUICE_TAR_BLOCK)
size_t sluice_tar_header(const char *name, uint64_t bytes, uint8_t to[SLUICE_TAR_MAX_HEADER]);

/* The bytes from the end of a content of that length to the next block. */
size_t sluice_tar_padding(uint64_t bytes);

#endif
