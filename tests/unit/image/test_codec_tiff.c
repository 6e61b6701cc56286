#include "format_support.h"

#include "support/test.h"

TEST(every_cut_is_corrupt)
{
    test_every_cut("rgb_tiff_lzw.tif", 4, 0);
    test_every_cut("tiles_deflate_be.tif", 4, 4); /* where the next directory would be */
    test_every_cut("made16_2_4_extra1_be.tif", 4, 4);
}

TEST(damage_is_a_status)
{
    test_every_byte_wrong("rgb_packbits.tif");
    test_every_byte_wrong("tiles_deflate_be.tif");
    test_every_byte_wrong("made4_3_le.tif");
    test_every_byte_wrong("ycbcr_jpeg.tif");
}

/* Of the entry of this tag in a little-endian file. */
static uint8_t *value_of(uint8_t *bytes, unsigned tag)
{
    uint8_t *entry = bytes + (bytes[4] | bytes[5] << 8) + 2;
    while ((unsigned)(entry[0] | entry[1] << 8) != tag)
        entry += 12;
    return entry + 8;
}

TEST(parts_larger_than_the_picture_justifies_are_refused)
{
    size_t len;
    uint8_t *bytes = test_read_format("tiles_deflate_le.tif", &len);
    struct sluice_err err;
    CHECK_OK(test_decode_format(bytes, len, &err));
    memcpy(value_of(bytes, 322), "\xF0\x7F", 2); /* tiles of 32,752 x 32,752 pixels */
    memcpy(value_of(bytes, 323), "\xF0\x7F", 2);
    const sluice_status status = test_decode_format(bytes, len, &err);
    CU_ASSERT(status == SLUICE_E_UNSUPPORTED || status == SLUICE_E_CORRUPT);
    free(bytes);
}

TEST(what_is_not_read_is_named)
{
    size_t len;
    uint8_t *bytes = test_read_format("unread_group4.tif", &len);
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "compression 4",
                test_decode_format(bytes, len, sluice_test_err()));
    free(bytes);
}

int main(void)
{
    if (!sluice_image_format_is_decoded(SLUICE_IMAGE_TIFF))
        sluice_test_skip("built without libtiff");
    return sluice_test_main();
}
