#ifndef SLUICE_WIRE_LIST_BLOCK_H
#define SLUICE_WIRE_LIST_BLOCK_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of a list of samples as one compressed block, about 8 bytes a row.
 *
 * A zstd frame of columns, all numbers little endian: bytes (8); label, width, height (4 each); the
 * length of the path's prefix shared with the row before and of the rest (2 each; 0 shared in the
 * first row); coding and is_val (1 each); with targets, the bytes of each (4); then the rests of
 * all paths, and all targets.
 *
 * Threads: pure functions. */

#define SLUICE_LIST_BLOCK_ROWS 16384
#define SLUICE_LIST_BLOCK_BYTES ((size_t)1 << 20)   /* of a block, but for its last row */
#define SLUICE_LIST_ROW_BYTES 26                    /* of columns */
#define SLUICE_LIST_PATH_BYTES 4096                 /* most of a path, with its NUL */
#define SLUICE_LIST_TARGET_BYTES ((size_t)16 << 20) /* most of a target */

struct sluice_list_row {
    const char *path;
    uint64_t bytes;
    uint32_t label, width, height;
    uint8_t coding;
    bool is_val;
    const void *target; /* NULL: none; all rows have one, or none has */
    uint32_t target_bytes;
};

struct sluice_list_block {
    uint8_t *frame; /* owned */
    size_t len;
    uint32_t num_rows, raw_bytes; /* of what is in the frame */
    bool has_targets;
};
void sluice_list_block_clear(struct sluice_list_block *block);

/* Packs the first rows, as many as fit (at least one of at least one); block->num_rows is their
 * number.  SLUICE_E_INVALID: a path or target is too long. */
SLUICE_MUST_USE sluice_status sluice_list_block_pack(const struct sluice_list_row *rows,
                                                     size_t num_rows,
                                                     struct sluice_list_block *block,
                                                     struct sluice_err *err);

/* Calls take(ctx, row) for each row, in order, until it fails.  Path and target are valid during
 * the call.  SLUICE_E_CORRUPT: an invalid block; memory stays within the bounds above. */
SLUICE_MUST_USE sluice_status sluice_list_block_unpack(
    const struct sluice_list_block *block,
    sluice_status (*take)(void *ctx, const struct sluice_list_row *row, struct sluice_err *err),
    void *ctx, struct sluice_err *err);

#endif
