/* What a batch takes, what it refuses, and that a refusal leaves no trace. */

#include "gpu/batch.h"

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "jpeg_support.h"
#include "support/test.h"

static const struct sluice_gpu_limits limits = {
    .max_samples = 3,
    .num_views = 1,
    .views = {{32, 32}},
    .max_file_bytes = 1 << 20,
    .max_pixels = 1 << 18,
};

static void batch_create(struct sluice_gpu_batch *batch, const struct sluice_gpu_limits *wanted)
{
    struct sluice_gpu_sizes capacity;
    REQUIRE_OK(sluice_gpu_limits_check(wanted, &capacity, NULL));
    void *upload = aligned_alloc(16, (capacity.upload_bytes + 15) / 16 * 16);
    CU_ASSERT_PTR_NOT_NULL_FATAL(upload);
    sluice_gpu_batch_init(batch, wanted, &capacity, upload);
}

static struct sluice_gpu_request whole(const struct sluice_gpu_batch *batch, uint32_t width,
                                       uint32_t height)
{
    return sluice_gpu_request_whole(batch, &(struct sluice_box){0, 0, width, height}, false, 0);
}

/* Adds all of a file; what it says on failure is not empty, and nothing is left of it. */
static sluice_status add(struct sluice_gpu_batch *batch, const struct sluice_buf *file,
                         const struct sluice_gpu_request *request)
{
    struct sluice_err err = {{0}};
    const struct sluice_gpu_batch before = *batch;
    const sluice_status status =
        sluice_gpu_batch_add(batch, file->data, file->len, NULL, request, &err);
    CU_ASSERT_EQUAL(status == SLUICE_OK, err.text[0] == 0);
    CU_ASSERT_EQUAL(batch->num_samples, before.num_samples + (status == SLUICE_OK));
    CU_ASSERT(status == SLUICE_OK || memcmp(&batch->used, &before.used, sizeof(before.used)) == 0);
    return status;
}

static sluice_status status_of(const struct sluice_buf *file)
{
    struct sluice_gpu_batch batch;
    batch_create(&batch, &limits);
    const struct sluice_gpu_request request = whole(&batch, 40, 30);
    const sluice_status status = add(&batch, file, &request);
    free(batch.upload);
    return status;
}

TEST(limits_that_are_0_or_huge_are_invalid)
{
    struct sluice_gpu_sizes capacity = {.blocks = 7};
    for (unsigned i = 0; i < 8; i++) {
        struct sluice_gpu_limits bad = limits;
        bad.max_samples = i == 0 ? 0 : i == 1 ? UINT32_MAX : bad.max_samples;
        bad.views[0].width = i == 2 ? 0 : i == 3 ? 65536 : bad.views[0].width;
        bad.max_file_bytes = i == 4 ? 0 : i == 5 ? UINT64_MAX : bad.max_file_bytes;
        bad.max_pixels = i == 6 ? 0 : i == 7 ? UINT64_MAX : bad.max_pixels;
        CU_ASSERT_EQUAL(sluice_gpu_limits_check(&bad, &capacity, NULL), SLUICE_E_INVALID);
    }
    /* Each will do, but not all of them. */
    const struct sluice_gpu_limits together = {
        .max_samples = 1 << 20,
        .num_views = 1,
        .views = {{65535, 65535}},
        .max_file_bytes = 1,
        .max_pixels = 1,
    };
    CU_ASSERT_EQUAL(sluice_gpu_limits_check(&together, &capacity, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(capacity.blocks, 7);
}

TEST(refuses_what_the_device_does_not_decode)
{
    static const struct {
        struct sluice_jpeg_encode_options options;
        sluice_status status;
    } cases[] = {
        {{.quality = 90}, SLUICE_OK},
        {{.h_samp = 4, .v_samp = 1}, SLUICE_OK},
        {{.is_gray = true}, SLUICE_OK},
        {{.is_progressive = true}, SLUICE_E_UNSUPPORTED},
        {{.is_cmyk = true}, SLUICE_E_UNSUPPORTED},
        {{.is_ycck = true}, SLUICE_E_UNSUPPORTED},
        {{.h_samp = 3, .v_samp = 1}, SLUICE_E_UNSUPPORTED},
        {{.h_samp = 4, .v_samp = 2}, SLUICE_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_buf *file = jpeg_test_file(40, 30, i, &cases[i].options);
        CU_ASSERT_EQUAL(status_of(file), cases[i].status);
        sluice_buf_unref(file);
    }
    uint8_t pixels[40 * 30 * 3] = {0};
    struct sluice_buf *png;
    REQUIRE_OK(sluice_png_encode(pixels, 40, 30, 1, &png, NULL));
    CU_ASSERT_EQUAL(status_of(png), SLUICE_E_UNSUPPORTED);
    sluice_buf_unref(png);
}

/* Where the frame header of a file begins, after its marker; it has one. */
static uint8_t *find_frame(struct sluice_buf *file)
{
    for (size_t i = 2; i + 4 < file->len;
         i += 2 + (size_t)(file->data[i + 2] * 256 + file->data[i + 3])) {
        if (file->data[i] == 0xFF && file->data[i + 1] == 0xC0)
            return file->data + i + 2;
    }
    abort();
}

TEST(refuses_12_bits_and_arithmetic_coding)
{
    struct sluice_buf *file = jpeg_test_file(40, 30, 1, &(struct sluice_jpeg_encode_options){0});
    uint8_t *frame = find_frame(file);
    frame[2] = 12;
    CU_ASSERT_EQUAL(status_of(file), SLUICE_E_UNSUPPORTED);
    frame[2] = 8;
    frame[-1] = 0xC9;
    CU_ASSERT_EQUAL(status_of(file), SLUICE_E_UNSUPPORTED);
    frame[-1] = 0xC0;
    CHECK_OK(status_of(file));
    sluice_buf_unref(file);
}

/* A file of a few bytes cannot ask for more memory or time than its limits. */
TEST(a_size_that_is_a_lie_finds_no_room)
{
    struct sluice_buf *file = jpeg_test_file(40, 30, 1, &(struct sluice_jpeg_encode_options){0});
    uint8_t *frame = find_frame(file);
    frame[3] = frame[5] = 0x7F;
    struct sluice_gpu_batch batch;
    batch_create(&batch, &limits);
    const struct sluice_gpu_request request = whole(&batch, 0x7F00, 0x7F00);
    CU_ASSERT_EQUAL(add(&batch, file, &request), SLUICE_E_UNSUPPORTED);
    free(batch.upload);
    sluice_buf_unref(file);
}

TEST(a_full_batch_says_again)
{
    struct sluice_buf *file = jpeg_test_file(40, 30, 1, &(struct sluice_jpeg_encode_options){0});
    struct sluice_gpu_batch batch;
    batch_create(&batch, &limits);
    const struct sluice_gpu_request request = whole(&batch, 40, 30);
    for (uint32_t i = 0; i < limits.max_samples; i++)
        CHECK_OK(add(&batch, file, &request));
    CU_ASSERT_EQUAL(add(&batch, file, &request), SLUICE_E_AGAIN);
    sluice_gpu_batch_clear(&batch);
    CHECK_OK(add(&batch, file, &request));
    free(batch.upload);

    /* Pixels for two of them. */
    struct sluice_gpu_limits small = limits;
    small.max_pixels = 2 * 48 * 32;
    batch_create(&batch, &small);
    CHECK_OK(add(&batch, file, &request));
    CHECK_OK(add(&batch, file, &request));
    sluice_status status = add(&batch, file, &request);
    CU_ASSERT(status == SLUICE_E_AGAIN || status == SLUICE_OK); /* 4:2:0 takes half of the room */
    while (status == SLUICE_OK)
        status = add(&batch, file, &request);
    CU_ASSERT_EQUAL(status, SLUICE_E_AGAIN);
    free(batch.upload);

    /* Bytes for none: no batch will have room. */
    small = limits;
    small.max_file_bytes = 8;
    small.max_samples = 1;
    struct sluice_buf *large =
        jpeg_test_file(300, 300, 1, &(struct sluice_jpeg_encode_options){.quality = 100});
    const struct sluice_gpu_request all = whole(&batch, 300, 300);
    batch_create(&batch, &small);
    CU_ASSERT_EQUAL(add(&batch, large, &all), SLUICE_E_UNSUPPORTED);
    free(batch.upload);
    sluice_buf_unref(large);
    sluice_buf_unref(file);
}

TEST(a_request_that_is_wrong_is_invalid)
{
    struct sluice_buf *file = jpeg_test_file(40, 30, 1, &(struct sluice_jpeg_encode_options){0});
    struct sluice_gpu_batch batch;
    batch_create(&batch, &limits);
    const struct sluice_gpu_request good = whole(&batch, 40, 30);
    for (unsigned i = 0; i < 9; i++) {
        struct sluice_gpu_request request = good;
        switch (i) {
        case 0:
            request.box.left = 1;
            break;
        case 1:
            request.box.height--;
            break;
        case 2:
            request.part.in_width = 0;
            break;
        case 3:
            request.part.out.width = 31;
            break;
        case 4:
            request.part.out.left = 1;
            break;
        case 5:
            request.part.out_width = UINT32_MAX;
            break;
        case 6:
            request.row = limits.max_samples;
            break;
        case 7:
            request.part.in_height = UINT32_MAX;
            break;
        default:
            request.box.top = UINT32_MAX;
            break;
        }
        CU_ASSERT_EQUAL(add(&batch, file, &request), SLUICE_E_INVALID);
    }
    CHECK_OK(add(&batch, file, &good));
    free(batch.upload);
    sluice_buf_unref(file);
}

/* The sample of a batch by its number, and its segments. */
static const struct sluice_gpu_sample *sample_of(const struct sluice_gpu_batch *batch,
                                                 uint32_t number)
{
    const struct sluice_gpu_index *index =
        (const struct sluice_gpu_index *)(const void *)batch->upload;
    return (const struct sluice_gpu_sample *)(const void *)(batch->upload + index[number].at);
}

static const struct sluice_gpu_segment *segments_of(const struct sluice_gpu_sample *sample)
{
    return (const struct sluice_gpu_segment *)(const void *)((const uint8_t *)sample +
                                                             sample->segments_at);
}

/* 20 x 10 MCUs of 8 x 8, a marker after each 3: of the box's rows, the segments that meet it. */
TEST(only_segments_that_the_box_needs_are_taken)
{
    const struct sluice_jpeg_encode_options options = {.h_samp = 1, .v_samp = 1};
    struct sluice_buf *plain = jpeg_test_file(160, 80, 1, &options);
    struct sluice_buf *file = jpeg_test_with_restarts(plain, 3);
    struct sluice_gpu_batch batch;
    batch_create(&batch, &limits);
    const struct sluice_box box = {.left = 33, .top = 17, .width = 30, .height = 20};
    const struct sluice_gpu_request request = sluice_gpu_request_whole(&batch, &box, false, 2);
    REQUIRE_OK(add(&batch, file, &request));
    const struct sluice_gpu_sample *sample = sample_of(&batch, 0);
    /* Columns 4 .. 7 of rows 2 .. 4. */
    static const struct {
        uint32_t first_mcu, num_mcus;
    } want[] = {{42, 3}, {45, 3}, {63, 3}, {66, 2}, {84, 3}, {87, 1}};
    CU_ASSERT_EQUAL_FATAL(sample->num_segments, SLUICE_ARRAY_LEN(want));
    for (uint32_t i = 0; i < sample->num_segments; i++) {
        CU_ASSERT_EQUAL(segments_of(sample)[i].first_mcu, want[i].first_mcu);
        CU_ASSERT_EQUAL(segments_of(sample)[i].num_mcus, want[i].num_mcus);
    }
    CU_ASSERT_EQUAL(sample->num_blocks, 3 * 4 * 3);
    CU_ASSERT_EQUAL(batch.used.blocks, sample->num_blocks);
    CU_ASSERT_EQUAL(sample->row, 2);
    sluice_gpu_batch_clear(&batch);

    /* Without markers there is one segment, up to the box's last MCU. */
    REQUIRE_OK(add(&batch, plain, &request));
    sample = sample_of(&batch, 0);
    CU_ASSERT_EQUAL_FATAL(sample->num_segments, 1);
    CU_ASSERT_EQUAL(segments_of(sample)->first_mcu, 0);
    CU_ASSERT_EQUAL(segments_of(sample)->num_mcus, 88);
    free(batch.upload);
    sluice_buf_unref(file);
    sluice_buf_unref(plain);
}

static struct sluice_jpeg_index index_of(const struct sluice_buf *file, uint32_t step)
{
    struct sluice_jpeg_index index;
    REQUIRE_OK(sluice_jpeg_index_build(file->data, file->len, 0, step, &index, NULL));
    return index;
}

static sluice_status add_indexed(struct sluice_gpu_batch *batch, const struct sluice_buf *file,
                                 const struct sluice_jpeg_index *index,
                                 const struct sluice_gpu_request *request)
{
    return sluice_gpu_batch_add(batch, file->data, file->len, index, request, NULL);
}

/* 20 x 10 MCUs of 8 x 8, points at columns 0, 6, 12 and 18: of the box's rows, the parts that meet
 * it, each with its own predictors and no bits of the next. */
TEST(points_of_an_index_are_segments)
{
    const struct sluice_jpeg_encode_options options = {.h_samp = 1, .v_samp = 1};
    struct sluice_buf *file = jpeg_test_file(160, 80, 1, &options);
    struct sluice_jpeg_index index = index_of(file, 6);
    struct sluice_gpu_batch batch;
    batch_create(&batch, &limits);
    const struct sluice_box box = {.left = 57, .top = 17, .width = 60, .height = 20};
    const struct sluice_gpu_request request = sluice_gpu_request_whole(&batch, &box, false, 2);
    REQUIRE_OK(add_indexed(&batch, file, &index, &request));
    const struct sluice_gpu_sample *sample = sample_of(&batch, 0);
    /* Columns 7 .. 14 of rows 2 .. 4. */
    static const struct {
        uint32_t first_mcu, num_mcus, point;
    } want[] = {{46, 6, 9}, {52, 3, 10}, {66, 6, 13}, {72, 3, 14}, {86, 6, 17}, {92, 3, 18}};
    CU_ASSERT_EQUAL_FATAL(sample->num_segments, SLUICE_ARRAY_LEN(want));
    const struct sluice_gpu_segment *segments = segments_of(sample);
    for (uint32_t i = 0; i < sample->num_segments; i++) {
        const struct sluice_jpeg_index_point *point = &index.points[want[i].point];
        CU_ASSERT_EQUAL(segments[i].first_mcu, want[i].first_mcu);
        CU_ASSERT_EQUAL(segments[i].num_mcus, want[i].num_mcus);
        CU_ASSERT_EQUAL(segments[i].skip % 8, point->bit);
        for (unsigned c = 0; c < 3; c++)
            CU_ASSERT_EQUAL(segments[i].dc[c], point->dc[c]);
        if (i % 2 == 0)
            CU_ASSERT_EQUAL(segments[i].first_word * 32 + segments[i].num_bits,
                            segments[i + 1].first_word * 32 + segments[i + 1].skip);
    }
    CU_ASSERT(batch.used.upload_bytes < file->len); /* two columns of the index are not copied */
    sluice_jpeg_index_clear(&index);
    sluice_gpu_batch_destroy(&batch);
    free(batch.upload);
    sluice_buf_unref(file);
}

TEST(an_index_serves_its_own_file_alone)
{
    const struct sluice_jpeg_encode_options options = {.quality = 95};
    struct sluice_buf *file = jpeg_test_file(160, 80, 1, &options);
    struct sluice_buf *other = jpeg_test_file(160, 96, 2, &options);
    struct sluice_buf *marked = jpeg_test_with_restarts(file, 3);
    struct sluice_buf *wide = jpeg_test_file(4000, 16, 3, &options);
    struct sluice_jpeg_index index = index_of(file, 2), of_marked = index_of(marked, 2),
                             of_wide = index_of(wide, 0);
    CU_ASSERT(sluice_gpu_index_serves(&index, file->data, file->len));
    CU_ASSERT_FALSE(sluice_gpu_index_serves(NULL, file->data, file->len));
    CU_ASSERT_FALSE(sluice_gpu_index_serves(&index, other->data, other->len));
    CU_ASSERT_FALSE(sluice_gpu_index_serves(&index, file->data, file->len - 1));
    CU_ASSERT_FALSE(sluice_gpu_index_serves(&of_marked, marked->data, marked->len));
    CU_ASSERT_FALSE(sluice_gpu_index_serves(&of_wide, wide->data, wide->len));

    /* What does not serve has no effect, unless all that was read is what it says. */
    struct sluice_gpu_batch batch;
    batch_create(&batch, &limits);
    const struct sluice_gpu_request request = whole(&batch, 160, 80);
    for (int is_partial = 0; is_partial < 2; is_partial++) {
        const sluice_status want = is_partial ? SLUICE_E_UNSUPPORTED : SLUICE_OK;
        sluice_gpu_batch_clear(&batch);
        index.is_partial = of_marked.is_partial = is_partial;
        CHECK_OK(add_indexed(&batch, file, &index, &request));
        CU_ASSERT_EQUAL(add_indexed(&batch, marked, &of_marked, &request), want);
        CU_ASSERT_EQUAL(add_indexed(&batch, file, &of_marked, &request), want);
    }
    sluice_jpeg_index_clear(&index);
    sluice_jpeg_index_clear(&of_marked);
    sluice_jpeg_index_clear(&of_wide);
    sluice_gpu_batch_destroy(&batch);
    free(batch.upload);
    sluice_buf_unref(file);
    sluice_buf_unref(other);
    sluice_buf_unref(marked);
    sluice_buf_unref(wide);
}

TEST(refuses_a_segment_that_is_too_long)
{
    const struct sluice_jpeg_encode_options options = {.quality = 95};
    struct sluice_buf *plain = jpeg_test_file(160, 80, 1, &options);
    struct sluice_buf *file = jpeg_test_with_restarts(plain, 1);
    struct sluice_gpu_limits short_ones = limits;
    short_ones.max_segment_bytes = 1000;
    struct sluice_gpu_batch batch;
    batch_create(&batch, &short_ones);
    const struct sluice_gpu_request request = whole(&batch, 160, 80);
    CU_ASSERT_EQUAL(add(&batch, plain, &request), SLUICE_E_UNSUPPORTED);
    CHECK_OK(add(&batch, file, &request));
    batch.limits.max_segment_bytes = plain->len / 15; /* 5 rows of 10 MCUs */
    for (uint32_t step = 0; step < 2; step++) {
        struct sluice_jpeg_index index = index_of(plain, step);
        CU_ASSERT_EQUAL(add_indexed(&batch, plain, &index, &request),
                        step ? SLUICE_OK : SLUICE_E_UNSUPPORTED);
        sluice_jpeg_index_clear(&index);
    }
    sluice_gpu_batch_destroy(&batch);
    free(batch.upload);
    sluice_buf_unref(file);
    sluice_buf_unref(plain);
}

/* A file that is cut anywhere is refused, and so is one with markers out of order. */
TEST(refuses_cut_files_and_false_markers)
{
    const struct sluice_jpeg_encode_options options = {.quality = 60};
    struct sluice_buf *plain = jpeg_test_file(40, 30, 1, &options);
    struct sluice_buf *file = jpeg_test_with_restarts(plain, 1);
    const size_t len = file->len;
    for (file->len = 0; file->len < len; file->len++)
        CU_ASSERT_NOT_EQUAL(status_of(file), SLUICE_OK);
    CHECK_OK(status_of(file));
    for (size_t i = 0; i + 1 < len; i++) {
        if (file->data[i] != 0xFF || (file->data[i + 1] & 0xF8) != 0xD0)
            continue;
        file->data[i + 1] ^= 1;
        CU_ASSERT_EQUAL(status_of(file), SLUICE_E_CORRUPT);
        file->data[i + 1] ^= 1;
    }
    sluice_buf_unref(file);
    sluice_buf_unref(plain);
}

TEST(arrays_of_the_device_do_not_meet)
{
    struct sluice_gpu_limits odd = limits;
    odd.max_samples = 3;
    odd.max_pixels = 64 * 5;
    odd.views[0].width = 7;
    struct sluice_gpu_sizes sizes;
    REQUIRE_OK(sluice_gpu_limits_check(&odd, &sizes, NULL));
    const struct sluice_gpu_parts parts = sluice_gpu_parts_of(&odd, &sizes);
    const uint64_t starts[] = {parts.upload, parts.coefficients, parts.samples, parts.weights,
                               parts.pixels, parts.faults,       parts.end};
    const uint64_t lens[] = {sizes.upload_bytes, sizes.blocks * 128, sizes.blocks * 64,
                             sizes.weights * 4,  sizes.pixels * 4,   odd.max_samples * 4};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(lens); i++) {
        CU_ASSERT_EQUAL(starts[i] % 256, 0);
        CU_ASSERT(starts[i] + lens[i] <= starts[i + 1]);
        CU_ASSERT(starts[i] + lens[i] + 256 > starts[i + 1]);
    }
}
