/* The window decoder where finding its rows is hard: restart intervals that begin and end anywhere,
 * scans that can be scanned in parallel and scans that cannot, faults in
 * mid-stream.  Its pixels are libjpeg-turbo's, with an index of the file and without. */

#include "image/jpeg/window.h"

#include "base/buf.h"
#include "base/rng.h"
#include "image/codecs/internal.h"
#include "image/jpeg/index.h"

#include "image_support.h"
#include "jpeg_support.h"
#include "support/test.h"

static struct sluice_jpeg_window *window;
static struct sluice_codec *codec;
static struct sluice_rng rng;

static sluice_status decode(const struct sluice_buf *file, const struct sluice_box *box,
                            const struct sluice_jpeg_index *index, struct sluice_rgb *rgb)
{
    return sluice_jpeg_window_decode(window, sluice_jpeg_window_kernels_for(sluice_cpu_level()),
                                     file->data, file->len, box, index, NULL, rgb, NULL);
}

static struct sluice_rgb decode_all(const struct sluice_buf *file)
{
    struct sluice_rgb all;
    REQUIRE_OK(sluice_jpeg_decode(codec, file->data, file->len, SLUICE_IMAGE_MAX_PIXELS, NULL, &all,
                                  NULL));
    return all;
}

static void check_box(const struct sluice_buf *file, const struct sluice_rgb *all,
                      const struct sluice_box *box, const struct sluice_jpeg_index *index)
{
    struct sluice_rgb part = {0};
    REQUIRE_OK(decode(file, box, index, &part));
    CU_ASSERT_FATAL(image_test_is_part(&part, all, box));
    sluice_buf_unref(part.pixels);
}

static struct sluice_box random_box(const struct sluice_rgb *all)
{
    struct sluice_box box = {.width = 1 + sluice_rng_below(&rng, all->width),
                             .height = 1 + sluice_rng_below(&rng, all->height)};
    box.left = sluice_rng_below(&rng, all->width - box.width + 1);
    box.top = sluice_rng_below(&rng, all->height - box.height + 1);
    return box;
}

static void check_boxes(const struct sluice_buf *file, unsigned num_boxes)
{
    struct sluice_rgb all = decode_all(file);
    struct sluice_jpeg_index index = {0};
    REQUIRE_OK(
        sluice_jpeg_index_build(file->data, file->len, 0, sluice_rng_below(&rng, 5), &index, NULL));
    const struct sluice_box whole = {.width = all.width, .height = all.height};
    check_box(file, &all, &whole, NULL);
    check_box(file, &all, &whole, &index);
    for (unsigned n = 0; n < num_boxes; n++) {
        const struct sluice_box box = random_box(&all);
        check_box(file, &all, &box, NULL);
        check_box(file, &all, &box, &index);
    }
    sluice_jpeg_index_clear(&index);
    sluice_buf_unref(all.pixels);
}

static const struct sluice_jpeg_encode_options samplings[] = {
    {.quality = 90, .h_samp = 2, .v_samp = 2}, {.quality = 95, .h_samp = 1, .v_samp = 1},
    {.quality = 85, .h_samp = 2, .v_samp = 1}, {.quality = 98, .h_samp = 1, .v_samp = 2},
    {.quality = 90, .is_gray = true},
};

TEST(restart_intervals_need_not_fit_the_rows)
{
    static const unsigned intervals[] = {1, 2, 3, 5, 7, 13, 40, 61, 65535};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(samplings); i++) {
        struct sluice_buf *file = jpeg_test_file(203, 117, i, &samplings[i]);
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(intervals); k++) {
            struct sluice_buf *other = jpeg_test_with_restarts(file, intervals[k]);
            check_boxes(other, 6);
            sluice_buf_unref(other);
        }
        sluice_buf_unref(file);
    }
}

/* A marker lost in mid-row, or doubled. */
TEST(restart_markers_out_of_order_are_declined)
{
    struct sluice_buf *whole = jpeg_test_file(203, 117, 5, &samplings[0]);
    struct sluice_buf *file = jpeg_test_with_restarts(whole, 5);
    const struct sluice_box box = {.left = 100, .top = 60, .width = 50, .height = 40};
    uint8_t *mark = memmem(file->data, file->len, "\xFF\xD2", 2);
    CU_ASSERT_PTR_NOT_NULL_FATAL(mark);
    struct sluice_rgb rgb = {0};
    mark[1] = 0xD3;
    CU_ASSERT_EQUAL(decode(file, &box, NULL, &rgb), SLUICE_E_CORRUPT);
    mark[1] = 0xD2;
    memmove(mark, mark + 2, (size_t)(file->data + file->len - mark - 2));
    file->len -= 2;
    CU_ASSERT_EQUAL(decode(file, &box, NULL, &rgb), SLUICE_E_CORRUPT);
    CU_ASSERT_PTR_NULL(rgb.pixels);
    sluice_buf_unref(file);
    sluice_buf_unref(whole);
}

/* Noise: enough bytes for all readers, who fall into step soon. */
TEST(several_readers_find_the_rows)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(samplings); i++) {
        struct sluice_jpeg_encode_options options = samplings[i];
        for (unsigned n = 0; n < 2; n++) {
            options.optimize = n == 1;
            struct sluice_buf *file = jpeg_test_file(480, 400, 10 + i, &options);
            CU_ASSERT(file->len > 12000);
            check_boxes(file, 12);
            sluice_buf_unref(file);
        }
    }
}

static struct sluice_buf *encode_flat(uint32_t width, uint32_t height, uint32_t flat_rows,
                                      const struct sluice_jpeg_encode_options *options)
{
    uint8_t *pixels = malloc((size_t)width * height * 3);
    const size_t flat = (size_t)width * flat_rows * 3;
    memset(pixels, 93, flat);
    for (size_t i = flat; i < (size_t)width * height * 3; i++)
        pixels[i] = (uint8_t)sluice_rng_u32(&rng);
    struct sluice_buf *file = NULL;
    REQUIRE_OK(sluice_jpeg_encode(pixels, width, height, options, &file, NULL));
    free(pixels);
    return file;
}

/* Every MCU of a plain picture has the same few bits, and who begins among them stays out of
 * step for good if he reads as many. */
TEST(readers_may_never_meet)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(samplings); i++) {
        struct sluice_buf *file = encode_flat(1200, 1100, 1100, &samplings[i]);
        struct sluice_rgb all = decode_all(file);
        const struct sluice_box boxes[] = {{0, 1090, 1200, 10}, {700, 900, 30, 1}, {3, 3, 40, 700}};
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(boxes); k++)
            check_box(file, &all, &boxes[k], NULL);
        sluice_buf_unref(all.pixels);
        sluice_buf_unref(file);
    }
}

/* Where the rows needed take far fewer bytes than their share of the file, the first reader
 * comes by more MCUs than are wanted in all, and stops for want of room. */
TEST(marks_may_run_out)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(samplings); i++) {
        struct sluice_buf *file = encode_flat(640, 640, 512, &samplings[i]);
        struct sluice_rgb all = decode_all(file);
        for (uint32_t top = 0; top < 600; top += 37) {
            const struct sluice_box box = {.left = top, .top = top, .width = 40, .height = 40};
            check_box(file, &all, &box, NULL);
        }
        sluice_buf_unref(all.pixels);
        sluice_buf_unref(file);
    }
}

/* What is accepted is what libjpeg-turbo makes of it; and most of what lies before the box is
 * noticed, by whichever reader it is met. */
TEST(faults_in_mid_stream_are_noticed_or_harmless)
{
    struct sluice_buf *file = jpeg_test_file(400, 300, 77, &samplings[1]);
    struct sluice_jpeg jpeg;
    REQUIRE_OK(sluice_jpeg_parse(file->data, file->len, &jpeg, NULL));
    const size_t scan = (size_t)(jpeg.scan - file->data);
    const struct sluice_box box = {.left = 150, .top = 200, .width = 200, .height = 90};
    unsigned num_declined = 0, num_same = 0;
    enum { NUM_FAULTS = 120 };
    for (unsigned n = 0; n < NUM_FAULTS; n++) {
        const size_t at = scan + (file->len - scan - 2) * n / NUM_FAULTS;
        const uint8_t saved = file->data[at], bits = (uint8_t)(1 + sluice_rng_below(&rng, 255));
        file->data[at] ^= bits;
        struct sluice_rgb part = {0}, all = {0};
        if (decode(file, &box, NULL, &part) != SLUICE_OK) {
            num_declined++;
        } else {
            REQUIRE_OK(sluice_jpeg_decode(codec, file->data, file->len, SLUICE_IMAGE_MAX_PIXELS,
                                          NULL, &all, NULL));
            CU_ASSERT_FATAL(image_test_is_part(&part, &all, &box));
            num_same++;
        }
        sluice_buf_unref(part.pixels);
        sluice_buf_unref(all.pixels);
        file->data[at] = saved;
    }
    CU_ASSERT(num_declined > 5);
    CU_ASSERT(num_same > 5);
    sluice_buf_unref(file);
}

/* The scan ends before the box does, though EOI follows. */
TEST(scans_that_end_early_are_declined)
{
    struct sluice_buf *file = jpeg_test_file(400, 300, 78, &samplings[0]);
    struct sluice_rgb all = decode_all(file);
    const size_t len = file->len;
    const struct sluice_box box = {.left = 10, .top = 250, .width = 300, .height = 50};
    for (unsigned n = 1; n < 10; n++) {
        file->len = len * n / 10;
        file->data[file->len - 3] = 0; /* no half of a marker */
        file->data[file->len - 2] = 0xFF;
        file->data[file->len - 1] = 0xD9;
        struct sluice_rgb part = {0};
        CU_ASSERT_EQUAL(decode(file, &box, NULL, &part), SLUICE_E_CORRUPT);
        CU_ASSERT_PTR_NULL(part.pixels);
    }
    sluice_buf_unref(all.pixels);
    sluice_buf_unref(file);
}

int main(void)
{
    rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    if (sluice_jpeg_window_create(&window, NULL) != SLUICE_OK ||
        sluice_codec_create(&codec, NULL) != SLUICE_OK)
        return 1;
    const int rc = sluice_test_main();
    sluice_jpeg_window_destroy(window);
    sluice_codec_destroy(codec);
    return rc;
}
