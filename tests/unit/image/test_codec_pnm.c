#include "format_support.h"

#include "support/test.h"

TEST(every_cut_is_corrupt)
{
    test_every_cut("max510.ppm", 3, 0);
    test_every_cut("comments.ppm", 3, 0);
}

TEST(damage_is_a_status)
{
    test_every_byte_wrong("max2.pgm");
}

TEST(sizes_beyond_any_number_are_refused)
{
    static const char *const files[] = {"P6 4294967297 1 255 abc", "P6 99999999999 1 255 abc",
                                        "P6 0 1 255 abc", "P6 9999999999 9999999999 255 abc",
                                        "P6 1 1 65536 abc"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(files); i++) {
        struct sluice_err err;
        const sluice_status status =
            test_decode_format((const uint8_t *)files[i], strlen(files[i]), &err);
        CU_ASSERT(status == SLUICE_E_CORRUPT || status == SLUICE_E_UNSUPPORTED);
    }
}
