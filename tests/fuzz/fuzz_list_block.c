/* Packed rows of a list: the first 8 bytes are the counts that go with the frame.  Each input is
 * tried as it is, and as the content of a frame that is whole.  The first count's top bit says
 * whether there are targets. */

#include "wire/list_block.h"

#include "fuzz.h"

#include <zstd.h>

#define CHECK(condition) ((condition) ? (void)0 : abort())

static sluice_status take(void *ctx, const struct sluice_list_row *row, struct sluice_err *err)
{
    size_t *count = ctx;
    (void)err;
    const size_t len = strlen(row->path);
    CHECK(len > 0 && len < SLUICE_LIST_PATH_BYTES);
    uint8_t sum = 0; /* reads all of the target */
    for (uint32_t i = 0; i < row->target_bytes; i++)
        sum ^= ((const uint8_t *)row->target)[i];
    CHECK(sum || row->target || row->target_bytes == 0);
    ++*count;
    return SLUICE_OK;
}

static void try_block(const struct sluice_list_block *block)
{
    size_t count = 0;
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_list_block_unpack(block, take, &count, &err);
    if (status == SLUICE_OK)
        CHECK(count == block->num_rows && !err.text[0]);
    else
        CHECK(status == SLUICE_E_CORRUPT && err.text[0] && count <= block->num_rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sluice_list_block block = {0};
    if (size < 8)
        return 0;
    memcpy(&block.num_rows, data, 4);
    memcpy(&block.raw_bytes, data + 4, 4);
    block.has_targets = block.num_rows >> 31;
    block.num_rows &= INT32_MAX;
    uint8_t *copy = malloc(size); /* of its own length, so that a read beyond it shows */
    CHECK(copy);
    memcpy(copy, data + 8, size - 8);
    block.frame = copy;
    block.len = size - 8;
    try_block(&block);
    const size_t room = ZSTD_compressBound(size - 8);
    uint8_t *frame = malloc(room);
    CHECK(frame);
    block.len = ZSTD_compress(frame, room, data + 8, size - 8, 1);
    block.frame = frame;
    block.raw_bytes = (uint32_t)(size - 8);
    try_block(&block);
    free(frame);
    free(copy);
    return 0;
}
