/* Indexes of JPEGs, from bytes and beside a file: nothing is read or written out of bounds, what is
 * parsed is written as it was, and an index of the file itself changes no pixel. */

#include "base/buf.h"
#include "base/hash.h"
#include "image/codecs/codec.h"
#include "image/jpeg/crop.h"
#include "image/jpeg/index.h"
#include "image/jpeg/window.h"

#include "fuzz.h"

#define MAX_PIXELS (64 * 1024)

static struct sluice_jpeg_window *window;

static bool decode(const uint8_t *data, size_t size, const struct sluice_box *box,
                   const struct sluice_jpeg_index *index, struct sluice_rgb *rgb)
{
    return sluice_jpeg_window_decode(window, &sluice_jpeg_window_kernels_c, data, size, box, index,
                                     NULL, rgb, NULL) == SLUICE_OK;
}

/* Makes the hashes those of the file, as if all were in order. */
static void approve(struct sluice_jpeg_index *index, const struct sluice_jpeg *jpeg,
                    const uint8_t *file, size_t len)
{
    index->file_len = len;
    index->head_hash = sluice_hash64(file, (size_t)(jpeg->scan - file));
    for (uint32_t row = 0; row < index->mcus_down; row++) {
        const size_t first = (size_t)row * index->points_across;
        const uint32_t from = index->points[first].offset;
        uint32_t to = index->scan_end;
        if (row + 1 < index->mcus_down) {
            const struct sluice_jpeg_index_point *next =
                &index->points[first + index->points_across];
            to = next->offset + (next->bit == 0 ? 0 : file[next->offset] == 0xFF ? 2 : 1);
        }
        if (to <= index->scan_end)
            index->row_hashes[row] = (uint32_t)sluice_hash64(file + from, to - from);
    }
}

/* The parts are within the file and in order, and what they leave out is not looked at, which here
 * is memory of its own: a part that does not do fails. */
static void check_parts(struct sluice_jpeg_index *index, const uint8_t *file, size_t len,
                        const struct sluice_box *box)
{
    struct sluice_file_part parts[SLUICE_JPEG_INDEX_MAX_PARTS];
    const unsigned num_parts = sluice_jpeg_index_parts(index, box, parts);
    uint8_t *holed[2];
    for (int k = 0; k < 2; k++) {
        size_t end = 0;
        holed[k] = malloc(len);
        if (!holed[k] || num_parts < 1 || num_parts > SLUICE_JPEG_INDEX_MAX_PARTS)
            abort();
        memset(holed[k], k ? 0xFF : 0x55, len);
        for (unsigned i = 0; i < num_parts; i++) {
            if (parts[i].from < end || parts[i].to < parts[i].from || parts[i].to > len)
                abort();
            end = parts[i].to;
            memcpy(holed[k] + parts[i].from, file + parts[i].from, end - parts[i].from);
        }
    }
    struct sluice_rgb rgb[2] = {{0}};
    struct sluice_buf *cut[2] = {0};
    bool is_decoded[2], is_cut[2];
    index->is_partial = true;
    for (int k = 0; k < 2; k++) {
        const struct sluice_jpeg_crop_options options = {
            .allow_larger = true, .restart_interval = box->left % 12, .index = index};
        is_decoded[k] = decode(holed[k], len, box, index, &rgb[k]);
        is_cut[k] =
            sluice_jpeg_crop(holed[k], len, box, &options, NULL, &cut[k], NULL, NULL) == SLUICE_OK;
    }
    if (is_decoded[0] != is_decoded[1] || is_cut[0] != is_cut[1] ||
        (is_decoded[0] &&
         memcmp(rgb[0].pixels->data, rgb[1].pixels->data, rgb[0].pixels->len) != 0) ||
        (is_cut[0] &&
         (cut[0]->len != cut[1]->len || memcmp(cut[0]->data, cut[1]->data, cut[0]->len) != 0)))
        abort();
    for (int k = 0; k < 2; k++) {
        sluice_buf_unref(rgb[k].pixels);
        sluice_buf_unref(cut[k]);
        free(holed[k]);
    }
    index->is_partial = false;
}

/* An index that the input made up, seal and hashes included. */
static void check_made_up(const uint8_t *entry, size_t entry_len, const uint8_t *file,
                          size_t file_len, const struct sluice_jpeg *jpeg,
                          const struct sluice_box *box)
{
    struct sluice_jpeg_index index;
    uint8_t *sealed = malloc(entry_len + 8);
    FUZZ_CHECK(sealed);
    memcpy(sealed, entry, entry_len);
    const uint64_t seal = sluice_hash64(entry, entry_len);
    for (unsigned i = 0; i < 8; i++)
        sealed[entry_len + i] = (uint8_t)(seal >> 8 * i);
    if (sluice_jpeg_index_parse(sealed, entry_len + 8, &index, NULL) == SLUICE_OK) {
        struct sluice_buf *again;
        struct sluice_rgb rgb = {0};
        struct sluice_jpeg_index second;
        if (sluice_jpeg_index_write(&index, &again, NULL) != SLUICE_OK ||
            sluice_jpeg_index_parse(again->data, again->len, &second, NULL) != SLUICE_OK)
            abort();
        sluice_jpeg_index_clear(&second);
        sluice_buf_unref(again);
        if (index.scan_end + 2 <= file_len)
            approve(&index, jpeg, file, file_len);
        if (decode(file, file_len, box, &index, &rgb))
            sluice_buf_unref(rgb.pixels);
        if (index.file_len == file_len && box->left + box->width <= index.width &&
            box->top + box->height <= index.height)
            check_parts(&index, file, file_len, box);
        sluice_jpeg_index_clear(&index);
    }
    free(sealed);
}

static void check_own(const uint8_t *file, size_t len, uint32_t step, const struct sluice_box *box)
{
    struct sluice_jpeg_index index;
    struct sluice_rgb with = {0}, without = {0};
    if (sluice_jpeg_index_build(file, len, 0, step, &index, NULL) != SLUICE_OK)
        return;
    const bool is_read = decode(file, len, box, NULL, &without);
    if (decode(file, len, box, &index, &with) != is_read ||
        (is_read && memcmp(with.pixels->data, without.pixels->data, with.pixels->len) != 0))
        abort();
    check_parts(&index, file, len, box);
    sluice_buf_unref(with.pixels);
    sluice_buf_unref(without.pixels);
    sluice_jpeg_index_clear(&index);
}

/* Two bytes for the entry's length, one for the step, four for the box, entry, file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sluice_jpeg jpeg;
    if (size < 7)
        return 0;
    const size_t entry_len = (size_t)data[0] << 8 | data[1];
    const uint8_t *choice = data + 3, *entry = data + 7;
    if (entry_len > size - 7)
        return 0;
    const uint8_t *file = entry + entry_len;
    const size_t len = size - 7 - entry_len;
    if (!window && sluice_jpeg_window_create(&window, NULL) != SLUICE_OK)
        abort();
    if (sluice_jpeg_parse(file, len, &jpeg, NULL) != SLUICE_OK ||
        (uint64_t)jpeg.width * jpeg.height > MAX_PIXELS)
        return 0;
    struct sluice_box box = {.left = choice[0] * jpeg.width / 256,
                             .top = choice[1] * jpeg.height / 256};
    box.width = 1 + choice[2] * (jpeg.width - box.left - 1) / 255;
    box.height = 1 + choice[3] * (jpeg.height - box.top - 1) / 255;
    check_own(file, len, data[2], &box);
    check_made_up(entry, entry_len, file, len, &jpeg, &box);
    return 0;
}
