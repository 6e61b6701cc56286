#include "format_support.h"

#include "support/test.h"

TEST(every_cut_is_corrupt)
{
    test_every_cut("palette4_made.bmp", 2, 3); /* the padding of the last row may be missing */
    test_every_cut("rgb24.bmp", 2, 1);
    test_every_cut("rle8.bmp", 2, 4); /* the ends of the last row and of the picture */
}

TEST(damage_is_a_status)
{
    test_every_byte_wrong("rle4_odd.bmp");
    test_every_byte_wrong("masks565_v4.bmp");
    test_every_byte_wrong("palette1_os2.bmp");
}

TEST(a_huge_header_is_refused_before_any_memory_is_taken)
{
    size_t len;
    uint8_t *bytes = test_read_format("rgb24.bmp", &len);
    bytes[19] = 0xFF; /* 65,281 pixels wide */
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "more than the limit",
                test_decode_format(bytes, len, sluice_test_err()));
    /* Within the limit, and more than the file can hold. */
    bytes[19] = 1;
    bytes[23] = 8;
    CHECK_FAILS(SLUICE_E_CORRUPT, "cut in its pixels",
                test_decode_format(bytes, len, sluice_test_err()));
    free(bytes);
}
