/* Crops: four bytes choose a box, and the restart interval; the rest is a file.  Whoever cuts, and
 * whatever the bytes, a crop that is made gives the pixels of the whole file inside its box, and
 * has the restart markers that it says it has. */

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "image/jpeg/crop.h"
#include "image/jpeg/entropy.h"

#include "fuzz.h"

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

#define MAX_PIXELS (64 * 1024)

static struct sluice_codec *codec;

static void check_crop(const uint8_t *data, size_t size, const struct sluice_box *box,
                       const struct sluice_jpeg_crop_options *options)
{
    struct sluice_buf *crop = NULL;
    struct sluice_jpeg_crop_box window, told;
    struct sluice_err err = {{0}};
    if (sluice_jpeg_crop(data, size, box, options, NULL, &crop, &window, &err) != SLUICE_OK) {
        REQUIRE(err.text[0] && !crop);
        return;
    }
    struct sluice_jpeg jpeg;
    if (options->restart_interval > 0 &&
        sluice_jpeg_parse(crop->data, crop->len, &jpeg, NULL) == SLUICE_OK) {
        struct sluice_jpeg_scan scan;
        REQUIRE(jpeg.restart_interval == options->restart_interval);
        REQUIRE(sluice_jpeg_scan_read(&jpeg, NULL, &scan, NULL) == SLUICE_OK);
        REQUIRE(scan.num_segments ==
                (jpeg.mcus_across * jpeg.mcus_down - 1) / jpeg.restart_interval + 1);
        sluice_jpeg_scan_clear(&scan);
    }
    struct sluice_rgb all, part;
    REQUIRE(sluice_jpeg_crop_window(crop->data, crop->len, &told, NULL) == SLUICE_OK);
    REQUIRE(memcmp(&told, &window, sizeof(told)) == 0);
    REQUIRE(sluice_codec_decode(codec, data, size, MAX_PIXELS, NULL, &all, NULL) == SLUICE_OK);
    REQUIRE(sluice_codec_decode(codec, crop->data, crop->len, MAX_PIXELS, NULL, &part, NULL) ==
            SLUICE_OK);
    REQUIRE(all.width == window.full_width && all.height == window.full_height);
    REQUIRE(part.width == window.width && part.height == window.height);
    REQUIRE(box->left >= window.left && box->left + box->width <= window.left + window.width);
    REQUIRE(box->top >= window.top && box->top + box->height <= window.top + window.height);
    for (uint32_t y = box->top; y < box->top + box->height; y++) {
        const size_t from = (size_t)y * all.width + box->left;
        const size_t to = (size_t)(y - window.top) * part.width + (box->left - window.left);
        REQUIRE(memcmp(all.pixels->data + 3 * from, part.pixels->data + 3 * to,
                       3 * (size_t)box->width) == 0);
    }
    sluice_buf_unref(all.pixels);
    sluice_buf_unref(part.pixels);
    sluice_buf_unref(crop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!codec && sluice_codec_create(&codec, NULL) != SLUICE_OK)
        abort();
    struct sluice_jpeg_crop_box window;
    if (sluice_jpeg_crop_window(data, size, &window, NULL) == SLUICE_OK)
        REQUIRE(window.left + window.width <= window.full_width &&
                window.top + window.height <= window.full_height);
    struct sluice_image_info info;
    if (size < 4 || sluice_image_probe(data + 4, size - 4, &info, NULL) != SLUICE_OK)
        return 0;
    struct sluice_box box = {
        .left = info.width * data[0] / 256,
        .top = info.height * data[1] / 256,
    };
    box.width = 1 + (info.width - box.left - 1) * data[2] / 256;
    box.height = 1 + (info.height - box.top - 1) * data[3] / 256;
    /* None for half of the inputs; a few MCUs, or many. */
    const uint32_t interval =
        data[0] & 1 ? 1 + (data[1] & 15) + (data[2] & 1 ? data[3] * 8u : 0) : 0;
    for (int i = 0; i < 4; i++) {
        const struct sluice_jpeg_crop_options options = {
            .allow_larger = true,
            .max_pixels = MAX_PIXELS,
            .optimal_huffman = i & 1,
            .restart_interval = interval,
            .route = i & 2 ? SLUICE_JPEG_CROP_BY_LIBJPEG : SLUICE_JPEG_CROP_BY_OURS,
        };
        check_crop(data + 4, size - 4, &box, &options);
    }
    return 0;
}
