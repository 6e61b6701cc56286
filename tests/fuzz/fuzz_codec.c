/* Image files: header and pixels.  Whatever the bytes, a decode ends in pixels of the
 * announced size or in a status with words, and the probe agrees with it. */

#include "base/buf.h"
#include "image/codec.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sluice_codec *codec;
    if (!codec && sluice_codec_create(&codec, NULL) != SLUICE_OK)
        abort();
    struct sluice_image_info info;
    struct sluice_err err = {{0}};
    const sluice_status probe_status = sluice_image_probe(data, size, &info, &err);
    if ((probe_status == SLUICE_OK) != (err.text[0] == 0))
        abort();

    struct sluice_rgb rgb = {0};
    err.text[0] = 0;
    const sluice_status status =
        sluice_codec_decode(codec, data, size, 64 * 1024, NULL, &rgb, &err);
    if (status == SLUICE_OK) {
        if (probe_status != SLUICE_OK || err.text[0] || rgb.width != info.width ||
            rgb.height != info.height || rgb.pixels->len != (size_t)rgb.width * rgb.height * 3)
            abort();
    } else if (!err.text[0] || rgb.pixels) {
        abort();
    }
    sluice_buf_unref(rgb.pixels);
    return 0;
}
