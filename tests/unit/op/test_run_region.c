#include "op/form.h"
#include "op/pipeline.h"

#include "base/buf.h"
#include "base/cpu.h"
#include "image/codecs/codec.h"
#include "image/jpeg/index.h"
#include "image/resize.h"
#include "run_support.h"
#include "support/test.h"

static struct sluice_buf *make_jpeg(uint32_t width, uint32_t height)
{
    uint8_t *pixels = malloc((size_t)width * height * 3);
    for (size_t i = 0; i < (size_t)width * height * 3; i++)
        pixels[i] = (uint8_t)(i / 3 % width + i % 7 * 5);
    struct sluice_buf *file = NULL;
    REQUIRE_OK(sluice_jpeg_encode(pixels, width, height, &(struct sluice_jpeg_encode_options){0},
                                  &file, NULL));
    free(pixels);
    return file;
}

/* One whose crop is a small part. */
static struct sluice_sample cut_sample(const struct sluice_pipeline *p,
                                       struct sluice_scratch *scratch, struct sluice_buf *file)
{
    for (uint64_t id = 0; id < 100; id++) {
        struct sluice_sample sample = run_test_sample(file, id);
        const struct sluice_draws draws = sluice_pipeline_draws(p, &sample.key, 400, 300);
        if (draws.width < 200 && draws.height < 150 && draws.left > 64 && draws.top > 64 &&
            sluice_pipeline_crop_jpeg(p, scratch, &sample, false, 0, NULL) == SLUICE_OK)
            return sample;
        sluice_sample_clear(&sample);
    }
    CU_FAIL_FATAL("no draw gave a small crop");
    return (struct sluice_sample){0};
}

TEST(a_cut_file_is_decoded_with_its_crop_only)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = make_jpeg(400, 300);
    struct sluice_sample sample = cut_sample(p, scratch, file);
    CU_ASSERT(sluice_sample_form(&sample) == SLUICE_FORM_JPEG_CROP &&
              sample.kind == SLUICE_KIND_FILE && sample.ops_done == 0);
    CHECK_OK(sluice_pipeline_check_sample(p, &sample, 0, NULL));
    CHECK_OK(sluice_pipeline_run(p, scratch, &sample, 0, NULL));
    CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, 1, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_pipeline_crop_jpeg(p, scratch, &sample, false, 0, NULL),
                    SLUICE_E_INVALID);
    CU_ASSERT(sluice_sample_form(&sample) == SLUICE_FORM_JPEG_CROP);
    CHECK_OK(sluice_pipeline_run(p, scratch, &sample, 2, NULL));
    CU_ASSERT(!sample.coding && sample.ops_done == 2 && sample.width == 24);
    sluice_sample_clear(&sample);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}

/* The first row is of no use to a crop below it, and may even be damaged. */
TEST(an_index_spares_the_rows_above)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = make_jpeg(400, 300);
    struct sluice_jpeg_index index = {0};
    REQUIRE_OK(sluice_jpeg_index_build(file->data, file->len, 0, 0, &index, NULL));
    struct sluice_sample want = cut_sample(p, scratch, file);
    struct sluice_sample cut = run_test_sample(file, want.key.sample_id), u8 = cut, want_u8 = cut;
    u8.data = sluice_buf_ref(file);
    want_u8.data = sluice_buf_ref(file);
    REQUIRE_OK(sluice_pipeline_run(p, scratch, &want_u8, 2, NULL));
    memset(file->data + index.points[0].offset, 0xAA,
           index.points[1].offset - index.points[0].offset);

    sluice_scratch_set_jpeg_index(scratch, &index);
    REQUIRE_OK(sluice_pipeline_crop_jpeg(p, scratch, &cut, false, 0, NULL));
    CU_ASSERT(cut.data->len == want.data->len &&
              memcmp(cut.data->data, want.data->data, cut.data->len) == 0);
    /* Without SIMD the decoder is libjpeg-turbo, which knows of no index. */
    if (sluice_cpu_level() != SLUICE_CPU_C) {
        REQUIRE_OK(sluice_pipeline_run(p, scratch, &u8, 2, NULL));
        CU_ASSERT(u8.data->len == want_u8.data->len &&
                  memcmp(u8.data->data, want_u8.data->data, u8.data->len) == 0);
    }
    sluice_sample_clear(&u8);

    sluice_scratch_set_jpeg_index(scratch, NULL);
    u8 = run_test_sample(file, want.key.sample_id);
    CU_ASSERT(sluice_pipeline_run(p, scratch, &u8, 2, NULL) != SLUICE_OK ||
              memcmp(u8.data->data, want_u8.data->data, u8.data->len) != 0);
    sluice_sample_clear(&u8);
    sluice_sample_clear(&cut);
    sluice_sample_clear(&want);
    sluice_sample_clear(&want_u8);
    sluice_jpeg_index_clear(&index);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}

TEST(a_file_box_is_what_the_crop_draws_where_only_that_is_looked_at)
{
    static const struct {
        const char *spec;
        unsigned end;
        enum sluice_form form;
        bool is_box;
    } cases[] = {
        {TRAIN, 0, SLUICE_FORM_JPEG_CROP, true},
        {TRAIN, 0, SLUICE_FORM_JPEG_ROWS, true},
        {TRAIN, 0, SLUICE_FORM_RAW, false},
        {TRAIN, 1, SLUICE_FORM_U8, false},
        {TRAIN, 1, SLUICE_FORM_U8_PACKED, true},
        {TRAIN, 2, SLUICE_FORM_U8, true},
        {TRAIN, 3, SLUICE_FORM_U8_PACKED, true},
        {TRAIN, 5, SLUICE_FORM_F32, true},
        {"decode,resize=32,center_crop=24", 2, SLUICE_FORM_U8, false},
        {"decode,resize=24,center_crop=32", 3, SLUICE_FORM_U8, false},
        {"decode", 0, SLUICE_FORM_JPEG_CROP, false},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_pipeline *p = run_test_parse(cases[i].spec);
        const struct sluice_draw_key key = {.seed = 5, .sample_id = i};
        struct sluice_box box = {.left = 12345};
        CU_ASSERT_EQUAL(
            sluice_pipeline_file_box(p, &key, 400, 300, cases[i].end, cases[i].form, &box),
            cases[i].is_box);
        const struct sluice_draws draws = sluice_pipeline_draws(p, &key, 400, 300);
        CU_ASSERT(cases[i].is_box ? box.left == draws.left && box.top == draws.top &&
                                        box.width == draws.width && box.height == draws.height
                                  : box.left == 12345);
        sluice_pipeline_destroy(p);
    }
}

TEST(a_file_box_is_what_a_crop_keeps_of_a_resize)
{
    struct sluice_pipeline *p = run_test_parse("decode,resize=30,center_crop=20,hflip,to_tensor");
    const struct sluice_draw_key key = {.seed = 5};
    struct sluice_box box;
    for (unsigned end = 3; end <= 5; end++) {
        /* To 40 x 30: columns 10 to 29 and rows 5 to 24, of ten pixels each and five on either
         * side. */
        CU_ASSERT(sluice_pipeline_file_box(p, &key, 400, 300, end,
                                           end < 5 ? SLUICE_FORM_U8 : SLUICE_FORM_F32, &box));
        CU_ASSERT(box.left == 95 && box.width == 210 && box.top == 45 && box.height == 210);
    }
    CU_ASSERT(!sluice_pipeline_file_box(p, &key, 1, 60000, 3, SLUICE_FORM_U8, &box));
    sluice_pipeline_destroy(p);
}

/* As op by op: damage is found before a size that is too large. */
TEST(a_crop_of_a_resize_fails_as_its_ops_do)
{
    struct sluice_pipeline *p = run_test_parse("decode,resize=30,center_crop=20");
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *files[] = {run_test_file(1, 3000), run_test_file(200, 300)};
    for (int i = 0; i < 2; i++) {
        struct sluice_sample sample = run_test_sample(files[i], 0);
        const sluice_status want = i == 0 ? SLUICE_E_UNSUPPORTED : SLUICE_OK;
        CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, 3, NULL), want);
        CU_ASSERT_EQUAL(sample.ops_done, i == 0 ? 1 : 3);
        sluice_sample_clear(&sample);
        files[i]->len /= 2;
        sample = run_test_sample(files[i], 0);
        CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, 3, NULL), SLUICE_E_CORRUPT);
        CU_ASSERT_EQUAL(sample.ops_done, 0);
        sluice_sample_clear(&sample);
        sluice_buf_unref(files[i]);
    }
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}

/* The sample's own index, in place of the scratch's; it goes with the sample. */
TEST(a_sample_brings_its_own_index)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = make_jpeg(400, 300);
    struct sluice_jpeg_index *index = calloc(1, sizeof(*index));
    CU_ASSERT_PTR_NOT_NULL_FATAL(index);
    REQUIRE_OK(sluice_jpeg_index_build(file->data, file->len, 0, 0, index, NULL));
    struct sluice_sample want = cut_sample(p, scratch, file);
    struct sluice_sample cut = run_test_sample(file, want.key.sample_id);
    memset(file->data + index->points[0].offset, 0xAA,
           index->points[1].offset - index->points[0].offset);
    index->is_partial = true;
    cut.jpeg_index = index;
    REQUIRE_OK(sluice_pipeline_crop_jpeg(p, scratch, &cut, false, 0, NULL));
    CU_ASSERT(cut.data->len == want.data->len &&
              memcmp(cut.data->data, want.data->data, cut.data->len) == 0);
    /* The cut file is another than the index was made for. */
    CHECK_OK(sluice_pipeline_run(p, scratch, &cut, 2, NULL));
    CU_ASSERT_PTR_EQUAL(cut.jpeg_index, index);
    sluice_sample_clear(&cut);
    CU_ASSERT_PTR_NULL(cut.jpeg_index);
    sluice_sample_clear(&want);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}

TEST(files_are_cut_wherever_the_ops_begin_with_a_crop)
{
    static const struct {
        const char *spec;
        unsigned crop_end; /* the first split that a cut file can be run to; 0: none is cut */
    } cases[] = {
        {TRAIN, 2},
        {"decode,center_crop=24", 2},
        {"decode,resize=30,center_crop=24", 3},
        {"decode,resize=24,center_crop=24,hflip=1", 3},
        {"decode,resize=20,center_crop=24", 0}, /* pads what was resized */
        {"decode,resize=30,hflip,center_crop=24", 0},
        {"decode,hflip,random_resized_crop=24", 0},
        {"decode,resize=30", 0},
        {"decode", 0},
    };
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = make_jpeg(400, 300);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_pipeline *p = run_test_parse(cases[i].spec);
        struct sluice_sample sample = run_test_sample(file, 1);
        CU_ASSERT_EQUAL(sluice_pipeline_can_crop_jpeg(p), cases[i].crop_end > 0);
        CU_ASSERT_EQUAL(sluice_pipeline_crop_jpeg(p, scratch, &sample, false, 0, NULL),
                        cases[i].crop_end ? SLUICE_OK : SLUICE_E_INVALID);
        for (unsigned end = 1; end < cases[i].crop_end; end++)
            CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, end, NULL), SLUICE_E_INVALID);
        if (cases[i].crop_end) {
            CHECK_OK(sluice_pipeline_run(p, scratch, &sample, cases[i].crop_end, NULL));
            CU_ASSERT(sample.width == 24 && sample.ops_done == cases[i].crop_end);
        }
        sluice_sample_clear(&sample);
        sluice_pipeline_destroy(p);
    }
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
}

TEST(what_cannot_be_cut_stays_as_it_is)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN),
                           *val = run_test_parse("decode,hflip,center_crop=24");
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *png = run_test_file(40, 30), *jpeg = make_jpeg(400, 300);
    CU_ASSERT(sluice_pipeline_can_crop_jpeg(p) && !sluice_pipeline_can_crop_jpeg(val));
    const struct {
        const struct sluice_pipeline *pipeline;
        struct sluice_buf *file;
        size_t len;
        sluice_status status;
    } cases[] = {
        {p, png, png->len, SLUICE_E_UNSUPPORTED},
        {val, jpeg, jpeg->len, SLUICE_E_INVALID},
        {p, jpeg, jpeg->len - 1, SLUICE_E_UNSUPPORTED},
        {p, jpeg, 30, SLUICE_E_CORRUPT},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_sample sample = run_test_sample(cases[i].file, 1);
        const size_t whole_len = cases[i].file->len;
        struct sluice_err err = {{0}};
        cases[i].file->len = cases[i].len;
        CU_ASSERT_EQUAL(
            sluice_pipeline_crop_jpeg(cases[i].pipeline, scratch, &sample, false, 0, &err),
            cases[i].status);
        CU_ASSERT(err.text[0] != 0);
        CU_ASSERT(sample.data == cases[i].file && !sample.coding && sample.ops_done == 0);
        cases[i].file->len = whole_len;
        sluice_sample_clear(&sample);
    }
    sluice_buf_unref(png);
    sluice_buf_unref(jpeg);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
    sluice_pipeline_destroy(val);
}

TEST(a_cut_file_that_contradicts_the_draws_is_corrupt)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN),
                           *val = run_test_parse("decode,hflip,center_crop=24");
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_scratch *small =
        run_test_scratch(&(struct sluice_scratch_options){.max_image_pixels = 119999});
    struct sluice_buf *file = make_jpeg(400, 300);
    struct sluice_sample sample = cut_sample(p, scratch, file);
    CU_ASSERT_EQUAL(sluice_pipeline_check_sample(val, &sample, 0, NULL), SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(sluice_pipeline_run(p, small, &sample, 2, NULL), SLUICE_E_UNSUPPORTED);
    uint8_t *left = sample.data->data + 18; /* where the window's origin is told */
    const uint8_t was = left[1];
    left[0] = left[1] = 0;
    CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, 2, NULL), SLUICE_E_CORRUPT);
    left[0] = 0xFF;
    CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, 2, NULL), SLUICE_E_CORRUPT);
    left[0] = 0;
    left[1] = was;
    sample.key.sample_id += 1000; /* another box */
    CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, 2, NULL), SLUICE_E_CORRUPT);
    sample.key.sample_id -= 1000;
    sample.data->data[8] = 'X'; /* no segment of ours */
    CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, 2, NULL), SLUICE_E_CORRUPT);
    CU_ASSERT(sluice_sample_form(&sample) == SLUICE_FORM_JPEG_CROP && sample.ops_done == 0);
    sluice_sample_clear(&sample);

    sample = run_test_zeroes(2, SLUICE_KIND_U8, 24, 24, 24 * 24 * 3);
    sample.coding = sluice_form_type(SLUICE_FORM_JPEG_CROP);
    CU_ASSERT_EQUAL(sluice_pipeline_check_sample(p, &sample, 0, NULL), SLUICE_E_CORRUPT);
    sluice_sample_clear(&sample);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_scratch_destroy(small);
    sluice_pipeline_destroy(p);
    sluice_pipeline_destroy(val);
}

TEST(packed_pixels_stand_at_a_u8_split)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = make_jpeg(400, 300);
    struct sluice_sample plain = run_test_sample(file, 3), sample = run_test_sample(file, 3);
    CU_ASSERT_EQUAL(sluice_pipeline_pack(p, scratch, &sample, 0, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_pipeline_pack(p, scratch, &sample, 4, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_pipeline_pack(p, scratch, &sample, 99, NULL), SLUICE_E_INVALID);
    CU_ASSERT(sample.ops_done == 0 && sample.data == file);
    REQUIRE_OK(sluice_pipeline_pack(p, scratch, &sample, 3, NULL));
    CU_ASSERT(sluice_sample_form(&sample) == SLUICE_FORM_U8_PACKED && sample.ops_done == 3 &&
              sample.kind == SLUICE_KIND_U8);
    CU_ASSERT(sample.width == 24 && sample.height == 24 && sample.channels == 3);
    CU_ASSERT(sample.data->len < 24 * 24 * 3);
    CHECK_OK(sluice_pipeline_check_sample(p, &sample, 0, NULL));
    /* Packed it is already. */
    CHECK_OK(sluice_pipeline_pack(p, scratch, &sample, 3, NULL));

    uint8_t pixels[24 * 24 * 3];
    CHECK_OK(sluice_pipeline_finish_u8(p, scratch, &sample, pixels, sizeof(pixels), NULL));
    CHECK_OK(sluice_pipeline_run(p, scratch, &plain, 3, NULL));
    CU_ASSERT(memcmp(pixels, plain.data->data, sizeof(pixels)) == 0);
    sluice_sample_clear(&plain);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}

TEST(a_packed_box_goes_on_with_its_crop)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = make_jpeg(400, 300);
    struct sluice_sample plain = run_test_sample(file, 3), sample = run_test_sample(file, 3);
    REQUIRE_OK(sluice_pipeline_pack(p, scratch, &sample, 1, NULL));
    CU_ASSERT(sluice_sample_form(&sample) == SLUICE_FORM_U8_PACKED && sample.ops_done == 1 &&
              sample.width == 400 && sample.height == 300);
    CU_ASSERT(sample.data->len < file->len);
    CHECK_OK(sluice_pipeline_check_sample(p, &sample, 0, NULL));
    CHECK_OK(sluice_pipeline_run(p, scratch, &sample, 1, NULL));
    CU_ASSERT(sluice_sample_form(&sample) == SLUICE_FORM_U8_PACKED && sample.ops_done == 1);
    CHECK_OK(sluice_pipeline_run(p, scratch, &sample, 5, NULL));
    CHECK_OK(sluice_pipeline_run(p, scratch, &plain, 5, NULL));
    CU_ASSERT(!sample.coding && sample.data->len == plain.data->len);
    CU_ASSERT(memcmp(sample.data->data, plain.data->data, plain.data->len) == 0);
    sluice_sample_clear(&plain);
    sluice_sample_clear(&sample);

    /* Of a decoded image nothing is left to leave out. */
    sample = run_test_sample(file, 3);
    CHECK_OK(sluice_pipeline_run(p, scratch, &sample, 1, NULL));
    CU_ASSERT_EQUAL(sluice_pipeline_pack(p, scratch, &sample, 1, NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_pipeline_pack(p, scratch, &sample, 2, NULL));
    sluice_sample_clear(&sample);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}

TEST(what_packing_does_not_shrink_stays_plain)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *noise = run_test_file(30, 30);
    struct sluice_sample sample = run_test_sample(noise, 1);
    CU_ASSERT_EQUAL(sluice_pipeline_pack(p, scratch, &sample, 1, NULL), SLUICE_E_AGAIN);
    CU_ASSERT(!sample.coding && sample.ops_done == 0 && sample.data == noise);
    CU_ASSERT_EQUAL(sluice_pipeline_pack(p, scratch, &sample, 3, NULL), SLUICE_E_AGAIN);
    CU_ASSERT(!sample.coding && sample.ops_done == 3 && sample.data->len == 24 * 24 * 3);
    sluice_sample_clear(&sample);

    /* A picture that its file holds in fewer bytes. */
    struct sluice_buf *flat = NULL;
    uint8_t *pixels = calloc(1, (size_t)100 * 100 * 3);
    REQUIRE_OK(sluice_png_encode(pixels, 100, 100, 9, &flat, NULL));
    free(pixels);
    sample = run_test_sample(flat, 1);
    CU_ASSERT_EQUAL(sluice_pipeline_pack(p, scratch, &sample, 1, NULL), SLUICE_E_AGAIN);
    CU_ASSERT(!sample.coding && sample.ops_done == 0 && sample.data == flat);
    sluice_sample_clear(&sample);

    /* And a file that cannot be decoded says so. */
    flat->len--;
    sample = run_test_sample(flat, 1);
    CU_ASSERT_EQUAL(sluice_pipeline_pack(p, scratch, &sample, 1, NULL), SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(sluice_pipeline_pack(p, scratch, &sample, 3, NULL), SLUICE_E_CORRUPT);
    CU_ASSERT(!sample.coding && sample.ops_done == 0 && sample.data == flat);
    sluice_sample_clear(&sample);
    sluice_buf_unref(flat);
    sluice_buf_unref(noise);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}

/* A copy of a sample, so that the original can be spoilt again and again. */
static struct sluice_sample copy_of(const struct sluice_sample *sample)
{
    struct sluice_sample copy = *sample;
    REQUIRE_OK(sluice_buf_create(NULL, sample->data->len, &copy.data, NULL));
    memcpy(copy.data->data, sample->data->data, sample->data->len);
    copy.data->len = sample->data->len;
    return copy;
}

TEST(packed_pixels_that_contradict_the_sample_are_corrupt)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN),
                           *free_size = run_test_parse("decode,hflip=0.5,to_tensor");
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = make_jpeg(400, 300);
    struct sluice_sample box = run_test_sample(file, 3), image = run_test_sample(file, 3);
    REQUIRE_OK(sluice_pipeline_pack(p, scratch, &box, 1, NULL));
    REQUIRE_OK(sluice_pipeline_pack(free_size, scratch, &image, 1, NULL));

    for (int i = 0; i < 7; i++) {
        struct sluice_sample sample = copy_of(i < 5 ? &box : &image);
        const struct sluice_pipeline *pipeline = i < 5 ? p : free_size;
        sluice_status want = SLUICE_E_CORRUPT;
        switch (i) {
        case 0:
            sample.key.sample_id++; /* another box */
            break;
        case 1:
            sample.width = 300;
            break;
        case 2:
            sample.data->len--;
            break;
        case 3:
            sample.data->data[0] = 'X';
            break;
        case 4:
            sample.data->data[2]++;
            want = SLUICE_E_UNSUPPORTED;
            break;
        case 5:
            sample.width = 401;
            break;
        default:
            sample.data->data[20] ^= 1;
            break;
        }
        struct sluice_err err = {{0}};
        const sluice_status status = sluice_pipeline_run(pipeline, scratch, &sample, 2, &err);
        /* A smaller box is a limit that was passed. */
        CU_ASSERT(status == want || (i < 2 && status == SLUICE_E_UNSUPPORTED));
        CU_ASSERT(err.text[0] != 0);
        CU_ASSERT(sluice_sample_form(&sample) == SLUICE_FORM_U8_PACKED && sample.ops_done == 1);
        sluice_sample_clear(&sample);
    }

    /* What needs no look at the bytes. */
    const struct {
        unsigned split;
        enum sluice_kind kind;
        uint32_t side;
        size_t len;
        sluice_status want;
    } cases[] = {
        {2, SLUICE_KIND_U8, 24, 24 * 24 * 3 - 1, SLUICE_OK},
        {2, SLUICE_KIND_U8, 24, 24 * 24 * 3, SLUICE_E_CORRUPT},
        {2, SLUICE_KIND_U8, 23, 1000, SLUICE_E_CORRUPT},
        {4, SLUICE_KIND_F32, 24, 24 * 24 * 12, SLUICE_E_CORRUPT},
        {0, SLUICE_KIND_FILE, 0, 100, SLUICE_E_CORRUPT},
        {1, SLUICE_KIND_U8, 65536, 100, SLUICE_E_CORRUPT},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_sample sample = run_test_zeroes(cases[i].split, cases[i].kind, cases[i].side,
                                                      cases[i].side, cases[i].len);
        sample.coding = sluice_form_type(SLUICE_FORM_U8_PACKED);
        CU_ASSERT_EQUAL(sluice_pipeline_check_sample(p, &sample, 0, NULL), cases[i].want);
        sluice_sample_clear(&sample);
    }
    sluice_sample_clear(&box);
    sluice_sample_clear(&image);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
    sluice_pipeline_destroy(free_size);
}

/* Decodes the box and resizes it, as a decoder that is told of no op would. */
static void crop_and_resize(const struct sluice_pipeline *p, const struct sluice_scratch *scratch,
                            const struct sluice_sample *sample, uint8_t *out)
{
    struct sluice_kernel_work work;
    struct sluice_codec *codec = NULL;
    struct sluice_resizer *resizer = NULL;
    struct sluice_rgb rgb;
    CU_ASSERT_FATAL(sluice_pipeline_kernel_work(p, scratch, sample, 0, &work));
    CU_ASSERT_EQUAL(work.calls.num_bytes, 0);
    REQUIRE_OK(sluice_codec_create(&codec, NULL));
    REQUIRE_OK(sluice_resizer_create(&resizer, NULL));
    REQUIRE_OK(sluice_codec_decode_region(codec, sample->data->data, sample->data->len, &work.box,
                                          1 << 20, NULL, &rgb, NULL));
    const struct sluice_box input = sluice_resize_part_input(&work.part);
    CU_ASSERT(input.width == work.box.width && input.height == work.box.height);
    CU_ASSERT(work.part.out.width == 24 && work.part.out.height == 24);
    const struct sluice_image_view view = {rgb.pixels->data, (size_t)rgb.width * 3, rgb.width,
                                           rgb.height};
    CHECK_OK(sluice_resize_rgb_part(resizer, &work.part, &view, work.is_mirrored, out, NULL));
    sluice_buf_unref(rgb.pixels);
    sluice_resizer_destroy(resizer);
    sluice_codec_destroy(codec);
}

TEST(a_crop_a_resize_and_a_flip_are_told_for_another_decoder)
{
    static const char *const specs[] = {
        TRAIN,
        "decode,random_resized_crop=24",
        "decode,resize=30,center_crop=24,hflip=0.5,to_tensor",
        "decode,resize=24,center_crop=24,to_tensor",
        "decode,center_crop=24,hflip,to_tensor",
        "decode,random_resized_crop=24:filter=random,hflip",
    };
    struct sluice_buf *file = make_jpeg(200, 150);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(specs); i++) {
        struct sluice_pipeline *p = run_test_parse(specs[i]);
        CU_ASSERT(sluice_pipeline_has_kernels(p));
        for (uint64_t id = 0; id < 40; id++) {
            uint8_t want[24 * 24 * 3], whole[24 * 24 * 3], cut[24 * 24 * 3];
            struct sluice_sample sample = run_test_sample(file, id);
            crop_and_resize(p, scratch, &sample, whole);
            /* Whatever part of the file it is. */
            REQUIRE_OK(sluice_pipeline_cut_for_gpu(p, scratch, &sample, 8, NULL));
            CU_ASSERT(sluice_sample_form(&sample) == SLUICE_FORM_JPEG_CROP);
            crop_and_resize(p, scratch, &sample, cut);
            sluice_sample_clear(&sample);
            sample = run_test_sample(file, id);
            CHECK_OK(sluice_pipeline_finish_u8(p, scratch, &sample, want, sizeof(want), NULL));
            CU_ASSERT_EQUAL(memcmp(whole, want, sizeof(want)), 0);
            CU_ASSERT_EQUAL(memcmp(cut, want, sizeof(want)), 0);
        }
        sluice_pipeline_destroy(p);
    }
    sluice_scratch_destroy(scratch);
    sluice_buf_unref(file);
}

TEST(what_is_more_than_a_crop_and_a_resize_is_not_told)
{
    static const char *const specs[] = {
        "decode,hflip,center_crop=24,to_tensor",
        "decode,random_resized_crop=40,center_crop=24,to_tensor",
        "decode,resize=20,center_crop=24,to_tensor",
        "decode,resize=24",
        "decode,to_tensor",
        "decode,random_resized_crop=24,rotate=10,center_crop=20",
        "decode=pillow13,random_resized_crop=24,to_tensor",
    };
    struct sluice_buf *file = make_jpeg(200, 150);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_kernel_work work;
    struct sluice_sample sample = run_test_sample(file, 1);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(specs); i++) {
        struct sluice_pipeline *p = run_test_parse(specs[i]);
        CU_ASSERT_FALSE(sluice_pipeline_has_kernels(p));
        CU_ASSERT_FALSE(sluice_pipeline_kernel_work(p, scratch, &sample, 0, &work));
        sluice_pipeline_destroy(p);
    }
    /* Of more pixels than there may be; a crop of more than there is pads; a file that is none has
     * no size. */
    struct sluice_pipeline *train = run_test_parse(TRAIN);
    struct sluice_scratch *little =
        run_test_scratch(&(struct sluice_scratch_options){.max_image_pixels = 100});
    CU_ASSERT(sluice_pipeline_kernel_work(train, scratch, &sample, 0, &work));
    CU_ASSERT_FALSE(sluice_pipeline_kernel_work(train, little, &sample, 0, &work));
    sluice_scratch_destroy(little);
    sluice_pipeline_destroy(train);
    struct sluice_pipeline *padded = run_test_parse("decode,center_crop=160,to_tensor");
    CU_ASSERT(sluice_pipeline_has_kernels(padded));
    CU_ASSERT_FALSE(sluice_pipeline_kernel_work(padded, scratch, &sample, 0, &work));
    struct sluice_pipeline *p = run_test_parse(TRAIN);
    file->data[0] = 0;
    CU_ASSERT_FALSE(sluice_pipeline_kernel_work(p, scratch, &sample, 0, &work));
    sluice_pipeline_destroy(p);
    sluice_pipeline_destroy(padded);
    sluice_sample_clear(&sample);
    sluice_scratch_destroy(scratch);
    sluice_buf_unref(file);
}
