/* Rows of a JPEG, from bytes and out of a file: nothing is read or written out of bounds, and what
 * was packed from a file changes no pixel. */

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "image/jpeg/crop.h"
#include "image/jpeg/rows.h"
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

static struct sluice_box box_of(const uint8_t choice[4], uint32_t width, uint32_t height)
{
    struct sluice_box box = {.left = choice[0] * width / 256, .top = choice[1] * height / 256};
    box.width = 1 + choice[2] * (width - box.left - 1) / 255;
    box.height = 1 + choice[3] * (height - box.top - 1) / 255;
    return box;
}

/* Copied, so that what lies behind it is not looked at. */
static uint8_t *copy(const uint8_t *bytes, size_t len)
{
    uint8_t *copied = malloc(len ? len : 1);
    FUZZ_CHECK(copied);
    memcpy(copied, bytes, len);
    return copied;
}

static void check_opened(const uint8_t choice[4], const uint8_t *bytes, size_t len)
{
    struct sluice_jpeg_index index;
    size_t file_len;
    uint8_t *packed = copy(bytes, len);
    if (sluice_jpeg_rows_open(packed, len, &file_len, &index, NULL) == SLUICE_OK) {
        if (file_len >= len || !index.is_partial || index.file_len != file_len ||
            (uint64_t)index.mcus_down * index.points_across * 16 >
                len + SLUICE_JPEG_ROWS_MAX_POINT_BYTES)
            abort();
        uint8_t *file = copy(packed, file_len);
        if ((uint64_t)index.width * index.height <= MAX_PIXELS) {
            const struct sluice_box box = box_of(choice, index.width, index.height);
            const struct sluice_jpeg_crop_options options = {
                .allow_larger = true, .restart_interval = choice[0] % 12, .index = &index};
            struct sluice_rgb rgb = {0};
            struct sluice_buf *cut = NULL;
            if (decode(file, file_len, &box, &index, &rgb))
                sluice_buf_unref(rgb.pixels);
            if (sluice_jpeg_crop(file, file_len, &box, &options, NULL, &cut, NULL, NULL) ==
                SLUICE_OK)
                sluice_buf_unref(cut);
        }
        free(file);
        sluice_jpeg_index_clear(&index);
    }
    free(packed);
}

static void check_packed(const uint8_t choice[4], uint32_t step, const uint8_t *bytes, size_t len)
{
    struct sluice_jpeg_index index, opened;
    if (sluice_jpeg_index_build(bytes, len, 0, step, &index, NULL) != SLUICE_OK)
        return;
    const struct sluice_box box = box_of(choice, index.width, index.height);
    struct sluice_buf *file;
    FUZZ_CHECK(sluice_buf_create(NULL, len, &file, NULL) == SLUICE_OK);
    memcpy(file->data, bytes, len);
    file->len = len;
    if (sluice_jpeg_rows_pack(&index, &box, NULL, &file, NULL) == SLUICE_OK) {
        struct sluice_rgb want = {0}, rgb = {0};
        size_t file_len;
        FUZZ_CHECK(sluice_jpeg_rows_open(file->data, file->len, &file_len, &opened, NULL) ==
                   SLUICE_OK);
        const bool is_read = decode(bytes, len, &box, NULL, &want);
        if (decode(file->data, file_len, &box, &opened, &rgb) != is_read ||
            (is_read && memcmp(want.pixels->data, rgb.pixels->data, want.pixels->len) != 0))
            abort();
        sluice_buf_unref(want.pixels);
        sluice_buf_unref(rgb.pixels);
        sluice_jpeg_index_clear(&opened);
    } else if (file->len != len || memcmp(file->data, bytes, len) != 0) {
        abort();
    }
    sluice_buf_unref(file);
    sluice_jpeg_index_clear(&index);
}

/* What it is: 255: rows, else a file and the step of its index; four bytes for the box; the rest.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sluice_jpeg jpeg;
    if (size < 5)
        return 0;
    if (!window && sluice_jpeg_window_create(&window, NULL) != SLUICE_OK)
        abort();
    if (data[0] == 255)
        check_opened(data + 1, data + 5, size - 5);
    else if (sluice_jpeg_parse(data + 5, size - 5, &jpeg, NULL) == SLUICE_OK &&
             (uint64_t)jpeg.width * jpeg.height <= MAX_PIXELS)
        check_packed(data + 1, data[0], data + 5, size - 5);
    return 0;
}
