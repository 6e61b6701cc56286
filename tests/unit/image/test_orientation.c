#include "image/orientation.h"

#include "base/buf.h"
#include "image/codecs/tiff_directory.h"

#include "support/test.h"

/* An image in which each pixel says where it is. */
static struct sluice_rgb make_image(uint32_t width, uint32_t height)
{
    struct sluice_rgb rgb = {.width = width, .height = height};
    REQUIRE_OK(sluice_buf_create(NULL, (size_t)width * height * 3, &rgb.pixels, NULL));
    rgb.pixels->len = (size_t)width * height * 3;
    for (size_t i = 0; i < (size_t)width * height; i++) {
        rgb.pixels->data[3 * i] = (uint8_t)(i % width);
        rgb.pixels->data[3 * i + 1] = (uint8_t)(i / width);
        rgb.pixels->data[3 * i + 2] = 7;
    }
    return rgb;
}

static struct sluice_rgb cut(const struct sluice_rgb *rgb, const struct sluice_box *box)
{
    struct sluice_rgb part = make_image(box->width, box->height);
    for (uint32_t y = 0; y < box->height; y++)
        memcpy(part.pixels->data + (size_t)y * box->width * 3,
               rgb->pixels->data + ((size_t)(box->top + y) * rgb->width + box->left) * 3,
               (size_t)box->width * 3);
    return part;
}

/* Where EXIF 2.3 puts the first row and column of what is seen: of the stored image, which row or
 * column lies at the top, and which at the left. */
TEST(the_first_row_and_column_lie_where_exif_says)
{
    static const struct {
        const char *first_pixel, *next_in_row;
    } expected[9] = {
        [1] = {"top left", "right"},    [2] = {"top right", "left"}, [3] = {"bottom right", "left"},
        [4] = {"bottom left", "right"}, [5] = {"top left", "down"},  [6] = {"bottom left", "up"},
        [7] = {"bottom right", "up"},   [8] = {"top right", "down"},
    };
    const uint32_t width = 5, height = 3;
    for (uint32_t orientation = 1; orientation <= 8; orientation++) {
        struct sluice_rgb rgb = make_image(width, height);
        CHECK_OK(sluice_rgb_orient(&rgb, orientation, NULL, NULL));
        const bool swaps = orientation >= 5;
        CU_ASSERT_EQUAL(sluice_orientation_swaps(orientation), swaps);
        CU_ASSERT_EQUAL(rgb.width, swaps ? height : width);
        CU_ASSERT_EQUAL(rgb.height, swaps ? width : height);
        const char *first = expected[orientation].first_pixel,
                   *next = expected[orientation].next_in_row;
        const uint8_t *pixels = rgb.pixels->data;
        CU_ASSERT_EQUAL(pixels[0], strstr(first, "right") ? width - 1 : 0);
        CU_ASSERT_EQUAL(pixels[1], strstr(first, "bottom") ? height - 1 : 0);
        const int dx = strcmp(next, "right") == 0 ? 1 : strcmp(next, "left") == 0 ? -1 : 0;
        const int dy = strcmp(next, "down") == 0 ? 1 : strcmp(next, "up") == 0 ? -1 : 0;
        CU_ASSERT_EQUAL(pixels[3] - pixels[0], dx);
        CU_ASSERT_EQUAL(pixels[4] - pixels[1], dy);
        sluice_buf_unref(rgb.pixels);
    }
}

TEST(a_stored_box_turned_is_the_box_of_the_turned)
{
    const uint32_t width = 6, height = 4;
    for (uint32_t orientation = 0; orientation <= 9; orientation++) {
        struct sluice_rgb upright = make_image(width, height);
        const struct sluice_rgb stored = make_image(width, height);
        CHECK_OK(sluice_rgb_orient(&upright, orientation, NULL, NULL));
        for (uint32_t i = 0; i < 6 * 6 * 6 * 6; i++) {
            const struct sluice_box box = {i % 6, i / 6 % 6, 1 + i / 36 % 6, 1 + i / 216};
            if (box.left + box.width > upright.width || box.top + box.height > upright.height)
                continue;
            const struct sluice_box from =
                sluice_orientation_stored_box(orientation, &box, width, height);
            CU_ASSERT_FATAL(from.left + from.width <= width && from.top + from.height <= height);
            struct sluice_rgb part = cut(&stored, &from);
            struct sluice_rgb wanted = cut(&upright, &box);
            CHECK_OK(sluice_rgb_orient(&part, orientation, NULL, NULL));
            CU_ASSERT(part.width == box.width && part.height == box.height);
            CU_ASSERT(memcmp(part.pixels->data, wanted.pixels->data, wanted.pixels->len) == 0);
            sluice_buf_unref(part.pixels);
            sluice_buf_unref(wanted.pixels);
        }
        sluice_buf_unref(upright.pixels);
        sluice_buf_unref(stored.pixels);
    }
}

TEST(metadata_that_is_cut_or_odd_means_as_it_is)
{
    uint8_t jpeg[] = {0xFF, 0xD8, 0xFF, 0xE1, 0, 34, 'E', 'x', 'i', 'f', 0,  0, 'M',
                      'M',  0,    '*',  0,    0, 0,  8,   0,   1,   1,   18, 0, 3,
                      0,    0,    0,    1,    0, 6,  0,   0,   0,   0,   0,  0};
    const struct sluice_image_info info = {.format = SLUICE_IMAGE_JPEG};
    CU_ASSERT_EQUAL(sluice_image_orientation(&info, jpeg, sizeof(jpeg)), 6);
    for (size_t len = 2; len < sizeof(jpeg); len++)
        CU_ASSERT_EQUAL(sluice_image_orientation(&info, jpeg, len), 1);
    jpeg[31] = 0;
    CU_ASSERT_EQUAL(sluice_image_orientation(&info, jpeg, sizeof(jpeg)), 1);
    jpeg[31] = 9;
    CU_ASSERT_EQUAL(sluice_image_orientation(&info, jpeg, sizeof(jpeg)), 1);
    jpeg[31] = 8;
    jpeg[19] = 200; /* the directory lies behind the end */
    CU_ASSERT_EQUAL(sluice_image_orientation(&info, jpeg, sizeof(jpeg)), 1);
}
