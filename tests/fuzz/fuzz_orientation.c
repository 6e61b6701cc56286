/* The orientation in a file's metadata: whatever the bytes, it is one of EXIF's, and a box of the
 * upright image comes from one of the stored image, turned. */

#include "base/buf.h"
#include "image/orientation.h"

#include "fuzz.h"

#define WIDTH 5
#define HEIGHT 3

/* Of an image whose pixels say where they are: the upright box's first pixel is one of the stored
 * box's corners. */
static void check_box(uint32_t orientation, uint32_t draw)
{
    struct sluice_rgb rgb = {.width = WIDTH, .height = HEIGHT};
    FUZZ_CHECK(sluice_buf_create(NULL, (size_t)WIDTH * HEIGHT * 3, &rgb.pixels, NULL) == SLUICE_OK);
    rgb.pixels->len = (size_t)WIDTH * HEIGHT * 3;
    for (uint32_t i = 0; i < WIDTH * HEIGHT; i++) {
        const uint8_t pixel[3] = {(uint8_t)(i % WIDTH), (uint8_t)(i / WIDTH), 0};
        memcpy(rgb.pixels->data + (size_t)i * 3, pixel, 3);
    }
    FUZZ_CHECK(sluice_rgb_orient(&rgb, orientation, NULL, NULL) == SLUICE_OK);
    struct sluice_box box = {.left = draw % rgb.width, .top = (draw >> 8) % rgb.height};
    box.width = 1 + (draw >> 16) % (rgb.width - box.left);
    box.height = 1 + (draw >> 20) % (rgb.height - box.top);
    const struct sluice_box stored =
        sluice_orientation_stored_box(orientation, &box, WIDTH, HEIGHT);
    if (stored.width > WIDTH || stored.left > WIDTH - stored.width || stored.height > HEIGHT ||
        stored.top > HEIGHT - stored.height ||
        (uint64_t)stored.width * stored.height != (uint64_t)box.width * box.height)
        abort();
    const uint8_t *pixel = rgb.pixels->data + ((size_t)box.top * rgb.width + box.left) * 3;
    if ((pixel[0] != stored.left && pixel[0] != stored.left + stored.width - 1) ||
        (pixel[1] != stored.top && pixel[1] != stored.top + stored.height - 1))
        abort();
    sluice_buf_unref(rgb.pixels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sluice_image_info info;
    if (sluice_image_probe(data, size, &info, NULL) != SLUICE_OK)
        return 0;
    const uint32_t orientation = sluice_image_orientation(&info, data, size);
    if (orientation < 1 || orientation > 8)
        abort();
    if (orientation != 1 && info.format != SLUICE_IMAGE_JPEG && info.format != SLUICE_IMAGE_PNG &&
        info.format != SLUICE_IMAGE_WEBP)
        abort();
    /* The same bytes always draw the same box. */
    uint32_t draw = (uint32_t)size * 2654435761u;
    for (size_t i = 0; i < size; i++)
        draw = draw * 31 + data[i];
    check_box(orientation, draw);
    return 0;
}
