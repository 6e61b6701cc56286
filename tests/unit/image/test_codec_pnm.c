#include "format_support.h"

#include "support/test.h"

#include <string.h>

static void every_cut_is_corrupt(void)
{
    test_every_cut("max510.ppm", 3, 0);
    test_every_cut("comments.ppm", 3, 0);
}

static void damage_is_a_status(void)
{
    test_every_byte_wrong("max2.pgm");
}

static void sizes_beyond_any_number_are_refused(void)
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

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(every_cut_is_corrupt),
        SLUICE_TEST(damage_is_a_status),
        SLUICE_TEST(sizes_beyond_any_number_are_refused),
    };
    return sluice_test_run("codec_pnm", tests, SLUICE_TEST_COUNT(tests));
}
