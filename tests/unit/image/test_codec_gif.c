#include "format_support.h"

#include "support/test.h"

TEST(every_cut_is_corrupt)
{
    /* The last code, the block's end and the trailer may be missing. */
    size_t len;
    uint8_t *bytes = test_read_format("interlaced_9.gif", &len);
    struct sluice_err err;
    for (size_t cut = 6; cut < len - 3; cut++)
        CU_ASSERT_EQUAL(test_decode_format(bytes, cut, &err), SLUICE_E_CORRUPT);
    CHECK_OK(test_decode_format(bytes, len - 1, &err));
    CU_ASSERT_EQUAL(test_decode_format(bytes, 5, &err), SLUICE_E_UNSUPPORTED);
    free(bytes);
}

TEST(damage_is_a_status)
{
    test_every_byte_wrong("interlaced_9.gif");
    test_every_byte_wrong("frame_beyond.gif");
}

TEST(a_frame_that_makes_the_screen_too_large_is_refused)
{
    size_t len;
    uint8_t *bytes = test_read_format("one_pixel.gif", &len);
    struct sluice_err err;
    uint8_t *frame = memchr(bytes + 13, ',', len - 13);
    CU_ASSERT_PTR_NOT_NULL_FATAL(frame);
    memset(frame + 1, 0xFF, 4); /* at 65,535, so 65,536 pixels wide and high */
    CU_ASSERT_EQUAL(test_decode_format(bytes, len, &err), SLUICE_E_UNSUPPORTED);
    free(bytes);
}
