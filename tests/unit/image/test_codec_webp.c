#include "format_support.h"

#include "support/test.h"

TEST(every_cut_is_corrupt)
{
    test_every_cut("lossy.webp", 15, 0);
    test_every_cut("lossless_alpha.webp", 15, 0);
    test_every_cut("animated_moved.webp", 15, 0);
}

TEST(damage_is_a_status)
{
    test_every_byte_wrong("odd.webp");
    test_every_byte_wrong("animated_moved.webp");
}

TEST(two_sizes_in_one_file_are_corrupt)
{
    size_t len;
    uint8_t *bytes = test_read_format("lossy_alpha.webp", &len); /* has a canvas and a picture */
    struct sluice_err err;
    CU_ASSERT_EQUAL_FATAL(memcmp(bytes + 12, "VP8X", 4), 0);
    bytes[24]++;
    CU_ASSERT_EQUAL(test_decode_format(bytes, len, &err), SLUICE_E_CORRUPT);
    free(bytes);
}

int main(void)
{
    if (!sluice_image_format_is_decoded(SLUICE_IMAGE_WEBP))
        sluice_test_skip("built without libwebp");
    return sluice_test_main();
}
