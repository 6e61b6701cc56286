#include "wire/list_block.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define LEVEL 1 /* fastest: a level more saves a tenth and takes half as long again */

#define MAX_RAW_BYTES                                                                              \
    (SLUICE_LIST_BLOCK_BYTES + row_bytes(true) + SLUICE_LIST_PATH_BYTES + SLUICE_LIST_TARGET_BYTES)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "columns are copied as they are");
_Static_assert(SLUICE_LIST_BLOCK_ROWS <= SLUICE_LIST_BLOCK_BYTES / SLUICE_LIST_ROW_BYTES,
               "columns alone leave room for paths");

/* The offsets of the columns of a block. */
struct columns {
    uint8_t *bytes, *labels, *widths, *heights, *shared, *more, *codings, *vals;
    uint8_t *targets; /* their bytes; NULL: none */
    uint8_t *paths;
};

/* Bytes of one row over all columns. */
static size_t row_bytes(bool has_targets)
{
    return SLUICE_LIST_ROW_BYTES + (has_targets ? 4 : 0);
}

static struct columns columns_of(uint8_t *raw, size_t num_rows, bool has_targets)
{
    struct columns c;
    c.bytes = raw;
    c.labels = c.bytes + 8 * num_rows;
    c.widths = c.labels + 4 * num_rows;
    c.heights = c.widths + 4 * num_rows;
    c.shared = c.heights + 4 * num_rows;
    c.more = c.shared + 2 * num_rows;
    c.codings = c.more + 2 * num_rows;
    c.vals = c.codings + num_rows;
    c.targets = has_targets ? c.vals + num_rows : NULL;
    c.paths = raw + row_bytes(has_targets) * num_rows;
    return c;
}

void sluice_list_block_clear(struct sluice_list_block *block)
{
    free(block->frame);
    *block = (struct sluice_list_block){0};
}

static size_t shared_with(const char *before, const char *path)
{
    size_t len = 0;
    while (before[len] && before[len] == path[len])
        len++;
    return len;
}

/* How many rows make a block, and its bytes. */
static sluice_status measure(const struct sluice_list_row *rows, size_t num_rows, size_t *count,
                             size_t *raw_bytes, struct sluice_err *err)
{
    const char *before = "";
    *count = *raw_bytes = 0;
    while (*count < num_rows && *count < SLUICE_LIST_BLOCK_ROWS &&
           *raw_bytes < SLUICE_LIST_BLOCK_BYTES) {
        const char *path = rows[*count].path;
        const size_t len = strlen(path);
        if (len >= SLUICE_LIST_PATH_BYTES)
            return sluice_fail(err, SLUICE_E_INVALID, "a path of %zu bytes", len);
        if (rows[*count].target_bytes > SLUICE_LIST_TARGET_BYTES)
            return sluice_fail(err, SLUICE_E_INVALID, "a target of %u bytes",
                               rows[*count].target_bytes);
        *raw_bytes +=
            row_bytes(rows[0].target) + len - shared_with(before, path) + rows[*count].target_bytes;
        before = path;
        ++*count;
    }
    return SLUICE_OK;
}

static void put_rows(const struct sluice_list_row *rows, size_t count, uint8_t *raw)
{
    const struct columns c = columns_of(raw, count, rows[0].target);
    uint8_t *paths = c.paths;
    const char *before = "";
    for (size_t i = 0; i < count; i++) {
        const struct sluice_list_row *row = &rows[i];
        const uint16_t shared = (uint16_t)shared_with(before, row->path);
        const uint16_t more = (uint16_t)strlen(row->path + shared);
        memcpy(c.bytes + 8 * i, &row->bytes, 8);
        memcpy(c.labels + 4 * i, &row->label, 4);
        memcpy(c.widths + 4 * i, &row->width, 4);
        memcpy(c.heights + 4 * i, &row->height, 4);
        memcpy(c.shared + 2 * i, &shared, 2);
        memcpy(c.more + 2 * i, &more, 2);
        c.codings[i] = row->coding;
        c.vals[i] = row->is_val;
        memcpy(paths, row->path + shared, more);
        paths += more;
        before = row->path;
        if (c.targets)
            memcpy(c.targets + 4 * i, &row->target_bytes, 4);
    }
    for (size_t i = 0; c.targets && i < count; i++) {
        memcpy(paths, rows[i].target, rows[i].target_bytes);
        paths += rows[i].target_bytes;
    }
}

sluice_status sluice_list_block_pack(const struct sluice_list_row *rows, size_t num_rows,
                                     struct sluice_list_block *block, struct sluice_err *err)
{
    size_t count, raw_bytes;
    const sluice_status status = measure(rows, num_rows, &count, &raw_bytes, err);
    if (status != SLUICE_OK)
        return status;
    const size_t room = ZSTD_compressBound(raw_bytes);
    uint8_t *raw = malloc(raw_bytes + 1), *frame = malloc(room);
    size_t len = 0;
    if (raw && frame) {
        put_rows(rows, count, raw);
        len = ZSTD_compress(frame, room, raw, raw_bytes, LEVEL);
    }
    free(raw);
    if (!raw || !frame || ZSTD_isError(len)) {
        free(frame);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to pack %zu rows", count);
    }
    *block = (struct sluice_list_block){
        .frame = frame,
        .len = len,
        .num_rows = (uint32_t)count,
        .raw_bytes = (uint32_t)raw_bytes,
        .has_targets = rows[0].target != NULL,
    };
    return SLUICE_OK;
}

/* Where the targets begin in raw[0 .. raw_bytes), which they end; NULL: not in it. */
static const uint8_t *targets_in(const struct columns *c, const uint8_t *raw, size_t raw_bytes,
                                 size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t len;
        memcpy(&len, c->targets + 4 * i, 4);
        bytes += len;
    }
    const size_t room = raw_bytes - (size_t)(c->paths - raw);
    return bytes <= room ? raw + raw_bytes - bytes : NULL;
}

static sluice_status take_rows(uint8_t *raw, const struct sluice_list_block *block,
                               sluice_status (*take)(void *ctx, const struct sluice_list_row *row,
                                                     struct sluice_err *err),
                               void *ctx, struct sluice_err *err)
{
    const size_t count = block->num_rows, raw_bytes = block->raw_bytes;
    const struct columns c = columns_of(raw, count, block->has_targets);
    const uint8_t *targets = c.targets ? targets_in(&c, raw, raw_bytes, count) : NULL;
    const uint8_t *paths = c.paths, *end = targets ? targets : raw + raw_bytes;
    if (c.targets && !targets)
        return sluice_fail(err, SLUICE_E_CORRUPT, "packed targets are longer than their rows say");
    char path[SLUICE_LIST_PATH_BYTES];
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        struct sluice_list_row row = {.path = path, .coding = c.codings[i], .is_val = c.vals[i]};
        uint16_t shared, more;
        memcpy(&row.bytes, c.bytes + 8 * i, 8);
        memcpy(&row.label, c.labels + 4 * i, 4);
        memcpy(&row.width, c.widths + 4 * i, 4);
        memcpy(&row.height, c.heights + 4 * i, 4);
        memcpy(&shared, c.shared + 2 * i, 2);
        memcpy(&more, c.more + 2 * i, 2);
        if (shared > len || more > end - paths || shared + more >= (int)sizeof(path) ||
            shared + more == 0 || memchr(paths, '\0', more))
            return sluice_fail(err, SLUICE_E_CORRUPT, "a packed path is damaged");
        memcpy(path + shared, paths, more);
        paths += more;
        len = (size_t)shared + more;
        path[len] = '\0';
        if (targets) {
            row.target = targets;
            memcpy(&row.target_bytes, c.targets + 4 * i, 4);
            targets += row.target_bytes;
        }
        const sluice_status status = take(ctx, &row, err);
        if (status != SLUICE_OK)
            return status;
    }
    if (paths != end)
        return sluice_fail(err, SLUICE_E_CORRUPT, "packed paths are longer than their rows say");
    return SLUICE_OK;
}

sluice_status sluice_list_block_unpack(const struct sluice_list_block *block,
                                       sluice_status (*take)(void *ctx,
                                                             const struct sluice_list_row *row,
                                                             struct sluice_err *err),
                                       void *ctx, struct sluice_err *err)
{
    const size_t count = block->num_rows, raw_bytes = block->raw_bytes;
    if (count == 0 || count > SLUICE_LIST_BLOCK_ROWS || raw_bytes > MAX_RAW_BYTES ||
        raw_bytes < count * row_bytes(block->has_targets))
        return sluice_fail(err, SLUICE_E_CORRUPT, "packed rows: %zu of %zu bytes", count,
                           raw_bytes);
    uint8_t *raw = malloc(raw_bytes);
    if (!raw)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu packed rows", count);
    const size_t got = ZSTD_decompress(raw, raw_bytes, block->frame, block->len);
    const sluice_status status =
        ZSTD_isError(got) || got != raw_bytes
            ? sluice_fail(err, SLUICE_E_CORRUPT, "packed rows: zstd: %s",
                          ZSTD_isError(got) ? ZSTD_getErrorName(got) : "too short")
            : take_rows(raw, block, take, ctx, err);
    free(raw);
    return status;
}
