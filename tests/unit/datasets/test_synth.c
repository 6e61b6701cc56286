#include "datasets/tools/synth.h"

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "support/test.h"

#define NUM_IMAGES 60

TEST(equal_names_give_equal_bytes_that_decode)
{
    const struct sluice_synth_options options = {.seed = 5, .num_classes = 4};
    struct sluice_codec *codec = NULL;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_codec_create(&codec, &err));
    for (uint64_t i = 0; i < 8; i++) {
        struct sluice_buf *a = NULL, *b = NULL;
        const char *suffix_a, *suffix_b;
        REQUIRE_OK(sluice_synth_image(&options, i, &a, &suffix_a, &err));
        REQUIRE_OK(sluice_synth_image(&options, i, &b, &suffix_b, &err));
        CU_ASSERT_STRING_EQUAL(suffix_a, suffix_b);
        CU_ASSERT_EQUAL_FATAL(a->len, b->len);
        CU_ASSERT_EQUAL(memcmp(a->data, b->data, a->len), 0);
        struct sluice_rgb rgb;
        REQUIRE_OK(sluice_codec_decode(codec, a->data, a->len, 0, NULL, &rgb, &err));
        struct sluice_image_info info;
        REQUIRE_OK(sluice_image_probe(a->data, a->len, &info, &err));
        CU_ASSERT_STRING_EQUAL(suffix_a, info.format == SLUICE_IMAGE_PNG ? "png" : "jpg");
        sluice_buf_unref(rgb.pixels);
        sluice_buf_unref(a);
        sluice_buf_unref(b);
    }
    sluice_codec_destroy(codec);
}

TEST(targets_spread_like_imagenet_files)
{
    const struct sluice_synth_options options = {.seed = 1, .num_classes = 10};
    double sum = 0;
    unsigned num_large = 0;
    const unsigned n = 20000;
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t bytes = sluice_synth_target_bytes(&options, i);
        CU_ASSERT(bytes >= 4000 && bytes <= 390000);
        sum += bytes;
        num_large += bytes > 150000;
    }
    CU_ASSERT_DOUBLE_EQUAL(sum / n, 117000, 4000);
    CU_ASSERT_DOUBLE_EQUAL((double)num_large / n, 0.29, 0.02);
}

TEST(files_come_near_their_targets)
{
    const struct sluice_synth_options options = {.seed = 2, .num_classes = 10};
    double sum = 0, aimed = 0;
    for (uint64_t i = 0; i < NUM_IMAGES; i++) {
        struct sluice_buf *file = NULL;
        const char *suffix;
        struct sluice_err err = {0};
        REQUIRE_OK(sluice_synth_image(&options, i, &file, &suffix, &err));
        sum += (double)file->len;
        aimed += sluice_synth_target_bytes(&options, i);
        sluice_buf_unref(file);
    }
    CU_ASSERT_DOUBLE_EQUAL(sum / aimed, 0.96, 0.08);
}

TEST(classes_take_turns)
{
    const struct sluice_synth_options options = {.num_classes = 3};
    for (uint64_t i = 0; i < 9; i++)
        CU_ASSERT_EQUAL(sluice_synth_label(&options, i), i % 3);
    const struct sluice_synth_options none = {0};
    struct sluice_buf *file = NULL;
    const char *suffix;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_synth_image(&none, 0, &file, &suffix, &err), SLUICE_E_INVALID);
}
