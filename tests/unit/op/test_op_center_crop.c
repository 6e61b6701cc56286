#include "run_support.h"

#include "base/buf.h"
#include "support/test.h"

#include <math.h>

/* torchvision's center_crop as its source reads, pixel by pixel: pad, then cut. */
static uint8_t centre_pixel(const uint8_t *pixels, uint32_t width, uint32_t height, uint32_t size,
                            uint32_t x, uint32_t y, unsigned c)
{
    const uint32_t pad_left = size > width ? (size - width) / 2 : 0;
    const uint32_t pad_top = size > height ? (size - height) / 2 : 0;
    const uint32_t padded_width = size > width ? size : width;
    const uint32_t padded_height = size > height ? size : height;
    const long long left = llrint((padded_width - size) / 2.0);
    const long long top = llrint((padded_height - size) / 2.0);
    const long long from_x = x + left - pad_left, from_y = y + top - pad_top;
    if (from_x < 0 || from_y < 0 || from_x >= width || from_y >= height)
        return 0;
    return pixels[((size_t)from_y * width + (size_t)from_x) * 3 + c];
}

/* By a pipeline of center_crop and hflip, from pixels. */
static void crop(const uint8_t *pixels, uint32_t width, uint32_t height, uint32_t size, bool flip,
                 uint8_t *out)
{
    char spec[64];
    snprintf(spec, sizeof(spec), "decode,center_crop=%u,hflip=%d", size, flip);
    struct sluice_pipeline *pipeline = run_test_parse(spec);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    const size_t len = (size_t)width * height * 3;
    struct sluice_sample sample = run_test_zeroes(1, SLUICE_KIND_U8, width, height, len);
    memcpy(sample.data->data, pixels, len);
    memset(out, 0xee, (size_t)size * size * 3);
    CHECK_OK(
        sluice_pipeline_finish_u8(pipeline, scratch, &sample, out, (size_t)size * size * 3, NULL));
    sluice_sample_clear(&sample);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
}

TEST(center_crop_is_pad_and_cut)
{
    enum { MAX = 9 };
    uint8_t pixels[MAX * MAX * 3], out[MAX * MAX * 3];
    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)(i % 255 + 1);
    for (uint32_t width = 1; width <= MAX; width++) {
        for (uint32_t height = 1; height <= MAX; height++) {
            for (uint32_t size = 1; size <= MAX; size++) {
                for (int flip = 0; flip < 2; flip++) {
                    crop(pixels, width, height, size, flip, out);
                    bool is_equal = true;
                    for (uint32_t y = 0; y < size; y++) {
                        for (uint32_t x = 0; x < size; x++) {
                            const uint32_t from = flip ? size - 1 - x : x;
                            for (unsigned c = 0; c < 3; c++)
                                is_equal = is_equal && out[(y * size + x) * 3 + c] ==
                                                           centre_pixel(pixels, width, height, size,
                                                                        from, y, c);
                        }
                    }
                    CU_ASSERT(is_equal);
                }
            }
        }
    }
}

/* FiveCrop of a 10 x 7 image, as torchvision's five_crop() has the boxes. */
TEST(corners_are_those_of_five_crop)
{
    static const struct {
        const char *at;
        uint32_t left, top;
    } corners[] = {
        {":at=top_left", 0, 0},
        {":at=top_right", 6, 0},
        {":at=bottom_left", 0, 4},
        {":at=bottom_right", 6, 4},
        {"", 3, 2},
        {":at=center", 3, 2},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(corners); i++) {
        char spec[64];
        snprintf(spec, sizeof(spec), "decode,center_crop=3x4%s", corners[i].at);
        struct sluice_pipeline *pipeline = run_test_parse(spec);
        const struct sluice_resample r = run_test_draw(pipeline, 1, 0, 10, 7).resample;
        CU_ASSERT(r.from.left == corners[i].left && r.from.top == corners[i].top);
        CU_ASSERT(r.from.width == 4 && r.from.height == 3);
        CU_ASSERT(r.out.width == 4 && r.out.height == 3);
        /* A smaller image is in the middle, whatever the corner. */
        const struct sluice_resample small = run_test_draw(pipeline, 1, 0, 2, 9).resample;
        CU_ASSERT(small.left == 1 && small.from.left == 0 && small.from.width == 2);
        CU_ASSERT_EQUAL(strstr(sluice_pipeline_spec(pipeline), ":at=") != NULL,
                        i < SLUICE_ARRAY_LEN(corners) - 2);
        sluice_pipeline_destroy(pipeline);
    }
    CU_ASSERT_EQUAL(sluice_pipeline_check("decode,center_crop=3:at=left", NULL), SLUICE_E_INVALID);
}
