/* Packed pixels.  Whatever the bytes, unpacking ends in pixels of the announced size or in a
 * status with words; the pixels, packed and unpacked again, are the same. */

#include "base/buf.h"
#include "image/pack/pack.h"

#include "fuzz.h"

static void check_packs(struct sluice_packer *packer, const struct sluice_rgb *rgb)
{
    struct sluice_buf *packed = NULL;
    const sluice_status status =
        sluice_pack_rgb(packer, rgb->pixels->data, rgb->width, rgb->height, 0, NULL, &packed, NULL);
    if (status == SLUICE_E_AGAIN)
        return;
    struct sluice_rgb again = {0};
    if (status != SLUICE_OK || packed->len >= rgb->pixels->len ||
        sluice_unpack_rgb(packer, packed->data, packed->len, 0, NULL, &again, NULL) != SLUICE_OK ||
        again.width != rgb->width || again.height != rgb->height ||
        memcmp(again.pixels->data, rgb->pixels->data, rgb->pixels->len) != 0)
        abort();
    sluice_buf_unref(again.pixels);
    sluice_buf_unref(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sluice_packer *packer;
    if (!packer && sluice_packer_create(&packer, NULL) != SLUICE_OK)
        abort();
    struct sluice_rgb rgb = {0};
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_unpack_rgb(packer, data, size, 64 * 1024, NULL, &rgb, &err);
    if (status == SLUICE_OK) {
        if (err.text[0] || !rgb.width || !rgb.height ||
            rgb.pixels->len != (size_t)rgb.width * rgb.height * 3)
            abort();
        check_packs(packer, &rgb);
    } else if (!err.text[0] || rgb.pixels) {
        abort();
    }
    sluice_buf_unref(rgb.pixels);
    return 0;
}
