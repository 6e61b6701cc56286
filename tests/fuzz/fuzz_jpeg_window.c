/* The window decoder against libjpeg-turbo: whatever it takes, libjpeg-turbo takes and
 * decodes to the same pixels, with every table of kernels and with an index. */

#include "base/buf.h"
#include "image/codecs/internal.h"
#include "image/jpeg/index.h"
#include "image/jpeg/window.h"

#include "fuzz.h"

#define MAX_PIXELS (64 * 1024)

static struct sluice_codec *codec;
static struct sluice_jpeg_window *window;

static void check_level(enum sluice_cpu_level level, const uint8_t *data, size_t size,
                        const struct sluice_box *box, const struct sluice_jpeg_index *index,
                        sluice_status want, const struct sluice_rgb *all)
{
    struct sluice_rgb part = {0};
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_jpeg_window_decode(
        window, sluice_jpeg_window_kernels_for(level), data, size, box, index, NULL, &part, &err);
    if (status != SLUICE_OK) {
        if (part.pixels || !err.text[0])
            abort();
        return;
    }
    if (want != SLUICE_OK || part.width != box->width || part.height != box->height)
        abort();
    for (uint32_t y = 0; y < box->height; y++) {
        const size_t from = ((size_t)(box->top + y) * all->width + box->left) * 3;
        FUZZ_CHECK(memcmp(part.pixels->data + (size_t)y * box->width * 3, all->pixels->data + from,
                          (size_t)box->width * 3) == 0);
    }
    sluice_buf_unref(part.pixels);
}

/* The first four bytes choose the box, the rest is the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    if (!codec && (sluice_codec_create(&codec, NULL) != SLUICE_OK ||
                   sluice_jpeg_window_create(&window, NULL) != SLUICE_OK))
        abort();
    const uint8_t *choice = data;
    data += 4;
    size -= 4;
    struct sluice_image_info info;
    if (sluice_image_probe(data, size, &info, NULL) != SLUICE_OK ||
        info.format != SLUICE_IMAGE_JPEG || (uint64_t)info.width * info.height > MAX_PIXELS)
        return 0;
    struct sluice_box box = {.left = choice[0] * info.width / 256,
                             .top = choice[1] * info.height / 256};
    box.width = 1 + choice[2] * (info.width - box.left - 1) / 255;
    box.height = 1 + choice[3] * (info.height - box.top - 1) / 255;

    struct sluice_rgb all = {0};
    const sluice_status want = sluice_jpeg_decode(codec, data, size, MAX_PIXELS, NULL, &all, NULL);
    for (enum sluice_cpu_level level = SLUICE_CPU_C; level <= SLUICE_CPU_NEON; level++) {
        if (level <= sluice_cpu_detected())
            check_level(level, data, size, &box, NULL, want, &all);
    }
    struct sluice_jpeg_index index = {0};
    if (sluice_jpeg_index_build(data, size, 0, choice[0] % 8, &index, NULL) == SLUICE_OK)
        check_level(sluice_cpu_level(), data, size, &box, &index, want, &all);
    sluice_jpeg_index_clear(&index);
    sluice_buf_unref(all.pixels);
    return 0;
}
