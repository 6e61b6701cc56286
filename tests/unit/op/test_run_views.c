#include "run_support.h"

#include "image/codecs/codec.h"
#include "op/form.h"
#include "support/test.h"

static struct sluice_buf *make_jpeg(uint32_t width, uint32_t height)
{
    uint8_t *pixels = malloc((size_t)width * height * 3);
    for (size_t i = 0; i < (size_t)width * height * 3; i++)
        pixels[i] = (uint8_t)(i / 3 % width + i / 3 / width * 2 + i % 7 * 5);
    const struct sluice_jpeg_encode_options options = {.quality = 90};
    struct sluice_buf *file = NULL;
    REQUIRE_OK(sluice_jpeg_encode(pixels, width, height, &options, &file, NULL));
    free(pixels);
    return file;
}

/* Checks the pixels of all views against the pipeline of each view alone. */
static void check_views(const struct sluice_pipeline *p, struct sluice_scratch *scratch,
                        struct sluice_buf *file, uint64_t id, const uint8_t *pixels)
{
    for (unsigned v = 0; v < sluice_pipeline_num_views(p); v++) {
        const struct sluice_pipeline *view = sluice_pipeline_view(p, v);
        struct sluice_sample sample = run_test_sample(file, id);
        REQUIRE_OK(
            sluice_pipeline_run(view, scratch, &sample, sluice_pipeline_num_ops(view), NULL));
        const struct sluice_size size = sluice_pipeline_view_size(p, v);
        CU_ASSERT(sample.width == size.width && sample.height == size.height);
        CU_ASSERT_FATAL(sample.data->len == (size_t)size.width * size.height * 3);
        CU_ASSERT(memcmp(sample.data->data, pixels, sample.data->len) == 0);
        pixels += sample.data->len;
        sluice_sample_clear(&sample);
    }
}

TEST(each_view_is_what_its_pipeline_gives_alone)
{
    static const char *const specs[] = {
        "decode,views(2x[random_resized_crop=24,hflip],3x[random_resized_crop=12:scale=0.05-0.3:"
        "filter=bicubic,hflip,color_jitter=0.4:p=0.8,tv_blur=0.1-2:kernel=5:p=0.5])",
        "decode,views([resize=30,center_crop=20],[center_crop=200],[random_crop=30:padding=4])",
        "decode,views([resize=20x24],[random_resized_crop=9])",
        "decode,random_resized_crop=30,hflip=1,views([invert],[hflip=0],2x[random_crop=20],[hflip]"
        ")",
        "decode,exif_transpose,views(2x[random_resized_crop=17:filter=nearest],[center_crop=20])",
        "decode=pillow13,views(2x[random_resized_crop=17:filter=bicubic])",
    };
    struct sluice_buf *const files[] = {run_test_file(70, 50), make_jpeg(150, 170)};
    const struct sluice_scratch_options timed = {.measure_ops = true};
    struct sluice_scratch *scratches[] = {run_test_scratch(NULL), run_test_scratch(&timed)};
    for (size_t s = 0; s < SLUICE_ARRAY_LEN(specs); s++) {
        struct sluice_pipeline *p = run_test_parse(specs[s]);
        const size_t len = sluice_pipeline_u8_bytes(p);
        uint8_t *pixels = malloc(len);
        for (uint64_t id = 0; id < 12; id++) {
            struct sluice_buf *file = files[id % 2];
            struct sluice_scratch *scratch = scratches[id / 2 % 2];
            struct sluice_sample sample = run_test_sample(file, id);
            REQUIRE_OK(sluice_pipeline_finish_u8(p, scratch, &sample, pixels, len, NULL));
            check_views(p, scratches[0], file, id, pixels);
        }
        free(pixels);
        sluice_pipeline_destroy(p);
    }
    for (size_t i = 0; i < 2; i++) {
        sluice_scratch_destroy(scratches[i]);
        sluice_buf_unref(files[i]);
    }
}

/* Each view is a whole tensor, its channels one after the other. */
TEST(floats_are_the_tensors_of_the_views)
{
    struct sluice_pipeline *p = run_test_parse(
        "decode,views([random_resized_crop=6x9],2x[center_crop=5]),to_tensor,normalize=imagenet");
    const sluice_pipeline_table *table = sluice_pipeline_tail_table(p);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = run_test_file(40, 30);
    uint8_t pixels[(6 * 9 + 2 * 25) * 3], back[sizeof(pixels)];
    float out[sizeof(pixels)];
    struct sluice_sample sample = run_test_sample(file, 3);
    REQUIRE_OK(sluice_pipeline_finish_u8(p, scratch, &sample, pixels, sizeof(pixels), NULL));
    sample = run_test_sample(file, 3);
    REQUIRE_OK(sluice_pipeline_finish(p, scratch, &sample, out, sizeof(out), NULL));
    const size_t planes[] = {54, 25, 25};
    const uint8_t *u8 = pixels;
    const float *f32 = out;
    for (size_t v = 0; v < 3; v++) {
        for (size_t i = 0; i < planes[v]; i++) {
            for (size_t c = 0; c < 3; c++)
                CU_ASSERT_EQUAL(f32[c * planes[v] + i], (*table)[c][u8[3 * i + c]]);
        }
        u8 += 3 * planes[v];
        f32 += 3 * planes[v];
    }
    for (unsigned split = 3; split <= 4; split++) {
        sample = run_test_sample(file, 3);
        REQUIRE_OK(sluice_pipeline_run(p, scratch, &sample, split, NULL));
        CU_ASSERT_EQUAL(sample.data->len, sizeof(out));
        CHECK_OK(sluice_pipeline_finish_u8(p, scratch, &sample, back, sizeof(back), NULL));
        CU_ASSERT(memcmp(back, pixels, sizeof(back)) == 0);
    }
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}

/* The places are those of the views in reverse, with a byte before each. */
TEST(each_view_goes_to_its_own_place_from_any_split)
{
    struct sluice_pipeline *p = run_test_parse(
        "decode,hflip=1,views([random_resized_crop=6x9],2x[center_crop=5]),to_tensor,"
        "normalize=imagenet");
    enum { NUM = 3 };
    static const size_t bytes[NUM] = {54 * 3, 25 * 3, 25 * 3};
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = run_test_file(40, 30);
    uint8_t want[(6 * 9 + 2 * 25) * 3], got[sizeof(want) + NUM], *places[NUM];
    size_t at = sizeof(got);
    for (unsigned v = 0; v < NUM; v++) {
        at -= bytes[v];
        places[v] = got + at--;
    }
    CU_ASSERT_EQUAL_FATAL(at, 0);
    struct sluice_sample sample = run_test_sample(file, 3);
    REQUIRE_OK(sluice_pipeline_finish_u8(p, scratch, &sample, want, sizeof(want), NULL));
    for (unsigned split = 0; split <= sluice_pipeline_num_ops(p); split++) {
        memset(got, 0xEE, sizeof(got));
        sample = run_test_sample(file, 3);
        REQUIRE_OK(sluice_pipeline_run(p, scratch, &sample, split, NULL));
        CHECK_FAILS(SLUICE_E_INVALID, "output of 311 bytes, not 312",
                    sluice_pipeline_finish_views(p, scratch, &sample, places, sizeof(want) - 1,
                                                 sluice_test_err()));
        CHECK_OK(sluice_pipeline_finish_views(p, scratch, &sample, places, sizeof(want), NULL));
        const uint8_t *view = want;
        for (unsigned v = 0; v < NUM; v++) {
            CU_ASSERT_EQUAL(memcmp(places[v], view, bytes[v]), 0);
            CU_ASSERT_EQUAL(places[v][-1], 0xEE);
            view += bytes[v];
        }
    }
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}

TEST(a_sample_from_outside_has_the_pixels_of_all_views)
{
    struct sluice_pipeline *p =
        run_test_parse("decode,views([center_crop=6x9],2x[center_crop=5]),to_tensor");
    const size_t pixels = 54 + 50;
    static const struct {
        unsigned split;
        uint32_t width, height;
        int more; /* bytes */
        bool is_right;
    } cases[] = {
        {2, 9, 6, 0, true},   {2, 9, 6, 1, false}, {2, 9, 6, -1, false}, {2, 9, 6, -150, false},
        {2, 6, 9, 0, false},  {2, 5, 5, 0, false}, {3, 9, 6, 0, true},   {3, 9, 6, -4, false},
        {1, 104, 1, 0, true}, {1, 9, 6, 0, false},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        const bool is_f32 = cases[i].split == 3;
        const size_t len = pixels * (is_f32 ? 12 : 3) + (size_t)cases[i].more;
        struct sluice_sample sample =
            run_test_zeroes(cases[i].split, is_f32 ? SLUICE_KIND_F32 : SLUICE_KIND_U8,
                            cases[i].width, cases[i].height, len);
        CU_ASSERT_EQUAL(sluice_pipeline_check_sample(p, &sample, 0, NULL),
                        cases[i].is_right ? SLUICE_OK : SLUICE_E_CORRUPT);
        sluice_sample_clear(&sample);
    }
    struct sluice_sample sample = run_test_zeroes(2, SLUICE_KIND_U8, 9, 6, pixels * 3);
    CHECK_OK(sluice_pipeline_check_sample(p, &sample, pixels, NULL));
    CU_ASSERT_EQUAL(sluice_pipeline_check_sample(p, &sample, pixels - 1, NULL), SLUICE_E_CORRUPT);
    sample.coding = sluice_form_type(SLUICE_FORM_U8_PACKED);
    CU_ASSERT_EQUAL(sluice_pipeline_check_sample(p, &sample, 0, NULL), SLUICE_E_CORRUPT);
    sluice_sample_clear(&sample);
    sluice_pipeline_destroy(p);
}

/* The view that is too large is named, from a file as from pixels. */
TEST(a_view_over_the_limit_is_an_error_of_its_own)
{
    struct sluice_pipeline *p =
        run_test_parse("decode,views([center_crop=5],[resize=4000,center_crop=8])");
    struct sluice_pipeline *many = run_test_parse("decode,views(3x[center_crop=50])");
    const struct sluice_scratch_options options = {.max_image_pixels = 7000};
    struct sluice_scratch *scratch = run_test_scratch(&options);
    struct sluice_buf *file = run_test_file(90, 70);
    for (unsigned split = 0; split <= 1; split++) {
        struct sluice_err err = {{0}};
        struct sluice_sample sample = run_test_sample(file, 1);
        REQUIRE_OK(sluice_pipeline_run(p, scratch, &sample, split, NULL));
        CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, 2, &err), SLUICE_E_UNSUPPORTED);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "resize would give"));
        sluice_sample_clear(&sample);

        err.text[0] = '\0';
        sample = run_test_sample(file, 1);
        REQUIRE_OK(sluice_pipeline_run(many, scratch, &sample, split, NULL));
        CU_ASSERT_EQUAL(sluice_pipeline_run(many, scratch, &sample, 2, &err), SLUICE_E_UNSUPPORTED);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "views would give 7500 pixels"));
        sluice_sample_clear(&sample);
    }
    sluice_buf_unref(file);
    struct sluice_sample cut = run_test_zeroes(0, SLUICE_KIND_FILE, 0, 0, 100);
    CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &cut, 2, NULL), SLUICE_E_UNSUPPORTED);
    sluice_sample_clear(&cut);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(many);
    sluice_pipeline_destroy(p);
}

/* A crop for other draws lacks pixels of some view. */
TEST(a_file_cut_for_other_views_is_corrupt)
{
    struct sluice_pipeline *p =
        run_test_parse("decode,views(2x[random_resized_crop=8:scale=0.01-0.02])");
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = make_jpeg(600, 500);
    unsigned num_corrupt = 0;
    for (uint64_t id = 0; id < 10; id++) {
        struct sluice_sample sample = run_test_sample(file, id);
        if (sluice_pipeline_crop_jpeg(p, scratch, &sample, false, 0, NULL) == SLUICE_OK) {
            sample.key.sample_id += 1000;
            const sluice_status status = sluice_pipeline_run(p, scratch, &sample, 2, NULL);
            CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_CORRUPT);
            num_corrupt += status == SLUICE_E_CORRUPT;
        }
        sluice_sample_clear(&sample);
    }
    CU_ASSERT(num_corrupt > 0);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}

/* For a decoder that knows no ops: what each view needs lies in the crop for all of them. */
TEST(the_kernel_work_of_a_view_gives_its_pixels)
{
    struct sluice_pipeline *p = run_test_parse(
        "decode,views(2x[random_resized_crop=24,hflip],3x[random_resized_crop=12x16:filter=bicubic:"
        "scale=0.05-0.3],[resize=40,center_crop=30,hflip])");
    CU_ASSERT(sluice_pipeline_has_kernels(p));
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = make_jpeg(200, 150);
    struct sluice_codec *codec = NULL;
    struct sluice_resizer *resizer = NULL;
    REQUIRE_OK(sluice_codec_create(&codec, NULL));
    REQUIRE_OK(sluice_resizer_create(&resizer, NULL));
    for (uint64_t id = 0; id < 20; id++) {
        struct sluice_sample sample = run_test_sample(file, id);
        if (id % 2)
            REQUIRE_OK(sluice_pipeline_cut_for_gpu(p, scratch, &sample, 8, NULL));
        uint8_t pixels[30 * 30 * 3 * 6], *at = pixels;
        for (unsigned v = 0; v < sluice_pipeline_num_views(p); v++) {
            struct sluice_kernel_work work;
            struct sluice_rgb rgb;
            CU_ASSERT_FATAL(sluice_pipeline_kernel_work(p, scratch, &sample, v, &work));
            REQUIRE_OK(sluice_codec_decode_region(codec, sample.data->data, sample.data->len,
                                                  &work.box, 1 << 20, NULL, &rgb, NULL));
            const struct sluice_image_view view = {rgb.pixels->data, (size_t)rgb.width * 3,
                                                   rgb.width, rgb.height};
            REQUIRE_OK(
                sluice_resize_rgb_part(resizer, &work.part, &view, work.is_mirrored, at, NULL));
            sluice_buf_unref(rgb.pixels);
            CU_ASSERT_EQUAL(work.calls.num_bytes, 0);
            at += (size_t)work.part.out.width * work.part.out.height * 3;
        }
        CU_ASSERT_EQUAL((size_t)(at - pixels), sluice_pipeline_u8_bytes(p));
        check_views(p, scratch, file, id, pixels);
        sluice_sample_clear(&sample);
    }
    sluice_resizer_destroy(resizer);
    sluice_codec_destroy(codec);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
    static const char *const others[] = {
        "decode,views([random_resized_crop=24],[random_resized_crop=24,augmix])",
        "decode,views([random_resized_crop=24],[resize=20x20])",
        "decode=pillow13,views([random_resized_crop=24])",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++) {
        p = run_test_parse(others[i]);
        CU_ASSERT_FALSE(sluice_pipeline_has_kernels(p));
        sluice_pipeline_destroy(p);
    }
}

TEST(the_time_of_views_is_one_ops)
{
    const struct sluice_scratch_options timed = {.measure_ops = true};
    struct sluice_pipeline *p = run_test_parse(
        "decode,views(4x[random_resized_crop=64,hue=0.1,tv_blur=1,hflip=1]),to_tensor");
    struct sluice_scratch *scratch = run_test_scratch(&timed);
    struct sluice_buf *file = run_test_file(100, 100);
    struct sluice_sample sample = run_test_sample(file, 1);
    REQUIRE_OK(sluice_pipeline_run(p, scratch, &sample, 2, NULL));
    CU_ASSERT(sluice_scratch_op_ns(scratch, 0) > 0 && sluice_scratch_op_ns(scratch, 1) > 0);
    CU_ASSERT_EQUAL(sluice_scratch_op_ns(scratch, 2), 0);
    CU_ASSERT_EQUAL(sluice_scratch_op_ns(scratch, 3), 0);
    sluice_sample_clear(&sample);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}
