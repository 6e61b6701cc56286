#include "image/codecs/coding.h"

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "support/test.h"

static uint8_t coding_of_jpeg(const struct sluice_jpeg_encode_options *options)
{
    uint8_t rgb[32 * 32 * 3];
    for (size_t i = 0; i < sizeof(rgb); i++)
        rgb[i] = (uint8_t)(i * 37);
    struct sluice_buf *file = NULL;
    struct sluice_image_info info;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_jpeg_encode(rgb, 32, 32, options, &file, &err));
    REQUIRE_OK(sluice_image_probe(file->data, file->len, &info, &err));
    sluice_buf_unref(file);
    return sluice_coding_of(&info);
}

TEST(tells_how_a_file_is_coded)
{
    static const struct {
        struct sluice_jpeg_encode_options options;
        uint8_t coding;
    } cases[] = {
        {{.h_samp = 1, .v_samp = 1}, SLUICE_CODING_JPEG_444},
        {{.h_samp = 2, .v_samp = 1}, SLUICE_CODING_JPEG_422},
        {{.h_samp = 2, .v_samp = 2}, SLUICE_CODING_JPEG_420},
        {{.h_samp = 1, .v_samp = 2}, SLUICE_CODING_JPEG_440},
        {{.h_samp = 4, .v_samp = 1}, SLUICE_CODING_JPEG_OTHER},
        {{.is_gray = true}, SLUICE_CODING_JPEG_GRAY},
        {{.is_cmyk = true}, SLUICE_CODING_JPEG_OTHER},
        {{.is_progressive = true}, SLUICE_CODING_JPEG_420 | SLUICE_CODING_PROGRESSIVE},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++)
        CU_ASSERT_EQUAL(coding_of_jpeg(&cases[i].options), cases[i].coding);
    const struct sluice_image_info png = {.format = SLUICE_IMAGE_PNG, .num_components = 3};
    CU_ASSERT_EQUAL(sluice_coding_of(&png), SLUICE_CODING_PNG);
}

TEST(every_name_leads_back)
{
    for (unsigned kind = 1; kind < SLUICE_NUM_CODINGS; kind++) {
        for (unsigned flag = 0; flag <= SLUICE_CODING_PROGRESSIVE;
             flag += SLUICE_CODING_PROGRESSIVE) {
            const uint8_t coding = (uint8_t)(kind | flag);
            CU_ASSERT_EQUAL(sluice_coding_parse(sluice_coding_name(coding)), coding);
            CU_ASSERT_EQUAL(sluice_coding_kind(coding), kind);
            CU_ASSERT_EQUAL(sluice_coding_is_progressive(coding), flag != 0);
        }
    }
}

TEST(what_this_version_does_not_know_is_unknown)
{
    CU_ASSERT_STRING_EQUAL(sluice_coding_name(SLUICE_CODING_UNKNOWN), "-");
    CU_ASSERT_STRING_EQUAL(sluice_coding_name(0x7F), "-");
    CU_ASSERT_EQUAL(sluice_coding_kind(0xFF), SLUICE_CODING_UNKNOWN);
    CU_ASSERT_EQUAL(sluice_coding_parse("-"), SLUICE_CODING_UNKNOWN);
    CU_ASSERT_EQUAL(sluice_coding_parse("jpeg-xl"), SLUICE_CODING_UNKNOWN);
}
