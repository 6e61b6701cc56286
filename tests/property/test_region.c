#include "base/buf.h"
#include "base/rng.h"
#include "image/codecs/codec.h"
#include "image/codecs/internal.h"
#include "image/jpeg/index.h"
#include "image/jpeg/window.h"
#include "image_support.h"
#include "support/test.h"

#include <ftw.h>

/* Decoding a box is decoding everything and cutting the box out: the same pixels of the
 * same files, and the same refusals of the rest. */

static struct sluice_codec *codec;
static struct sluice_jpeg_window *window;
static struct sluice_rng rng;

static const struct sluice_jpeg_encode_options codings[] = {
    {.quality = 85, .h_samp = 2, .v_samp = 2},
    {.quality = 85, .h_samp = 2, .v_samp = 1},
    {.quality = 85, .h_samp = 1, .v_samp = 2},
    {.quality = 85, .h_samp = 1, .v_samp = 1},
    {.quality = 85, .h_samp = 4, .v_samp = 1},
    {.quality = 85, .h_samp = 1, .v_samp = 4},
    {.quality = 85, .h_samp = 4, .v_samp = 2},
    {.quality = 85, .h_samp = 2, .v_samp = 4},
    {.quality = 85, .h_samp = 3, .v_samp = 1},
    {.quality = 85, .h_samp = 1, .v_samp = 3},
    {.quality = 85, .is_gray = true},
    {.quality = 97, .h_samp = 2, .v_samp = 2, .restart_rows = 1, .optimize = true},
    {.quality = 30, .h_samp = 2, .v_samp = 1, .restart_rows = 2},
    {.quality = 100, .h_samp = 1, .v_samp = 1, .optimize = true},
    {.quality = 1, .h_samp = 1, .v_samp = 2, .restart_rows = 1},
    {.quality = 85, .is_gray = true, .restart_rows = 1},
    {.quality = 85, .h_samp = 2, .v_samp = 2, .is_progressive = true},
    {.quality = 85, .is_cmyk = true},
    {.quality = 85, .is_ycck = true, .h_samp = 2, .v_samp = 2},
};
enum { FIRST_GOOD_TO_DAMAGE = 0, NUM_TO_DAMAGE = 16 };

/* Slopes and strong noise, so that a wrong neighbour shows. */
static uint8_t *make_picture(uint32_t width, uint32_t height)
{
    uint8_t *pixels = malloc((size_t)width * height * 3);
    const uint32_t slope = sluice_rng_below(&rng, 7) + 1, noise = sluice_rng_below(&rng, 90) + 1;
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            for (uint32_t c = 0; c < 3; c++)
                pixels[((size_t)y * width + x) * 3 + c] =
                    (uint8_t)(x * slope * (c + 1) + y * (4 - c) + sluice_rng_below(&rng, noise));
        }
    }
    return pixels;
}

static struct sluice_buf *make_file(uint32_t width, uint32_t height,
                                    const struct sluice_jpeg_encode_options *options)
{
    uint8_t *pixels = make_picture(width, height);
    struct sluice_buf *file = NULL;
    REQUIRE_OK(sluice_jpeg_encode(pixels, width, height, options, &file, NULL));
    free(pixels);
    return file;
}

/* One of four kinds: anywhere, a pixel, a full row or column of pixels, at the edges. */
static struct sluice_box random_box(uint32_t width, uint32_t height)
{
    struct sluice_box box = {.width = 1 + sluice_rng_below(&rng, width),
                             .height = 1 + sluice_rng_below(&rng, height)};
    switch (sluice_rng_below(&rng, 4)) {
    case 0:
        box.width = box.height = 1;
        break;
    case 1:
        if (sluice_rng_below(&rng, 2))
            box.width = width;
        else
            box.height = height;
        break;
    default:
        break;
    }
    box.left = sluice_rng_below(&rng, width - box.width + 1);
    box.top = sluice_rng_below(&rng, height - box.height + 1);
    if (sluice_rng_below(&rng, 4) == 0)
        box.left = width - box.width;
    if (sluice_rng_below(&rng, 4) == 0)
        box.top = height - box.height;
    return box;
}

/* The ways to a box of a JPEG, each of which may decline, but not err.  How often each
 * did not decline: */
enum way { WAY_LIBJPEG, WAY_WINDOW, WAY_WINDOW_C, WAY_INDEX, NUM_WAYS };
static unsigned num_accepted[NUM_WAYS];

static bool decode_by(enum way way, const uint8_t *bytes, size_t len, const struct sluice_box *box,
                      struct sluice_rgb *part)
{
    struct sluice_image_info info;
    if (way == WAY_LIBJPEG)
        return sluice_image_probe(bytes, len, &info, NULL) == SLUICE_OK &&
               info.format == SLUICE_IMAGE_JPEG &&
               sluice_jpeg_decode_region(&info, bytes, len, box, NULL, part);
    struct sluice_jpeg_index index = {0};
    const uint32_t step = sluice_rng_below(&rng, 5);
    if (way == WAY_INDEX && sluice_jpeg_index_build(bytes, len, 0, step, &index, NULL) != SLUICE_OK)
        return false;
    const enum sluice_cpu_level level = way == WAY_WINDOW_C ? SLUICE_CPU_C : sluice_cpu_level();
    const sluice_status status =
        sluice_jpeg_window_decode(window, sluice_jpeg_window_kernels_for(level), bytes, len, box,
                                  way == WAY_INDEX ? &index : NULL, NULL, part, NULL);
    sluice_jpeg_index_clear(&index);
    return status == SLUICE_OK;
}

static bool check_ways(const uint8_t *bytes, size_t len, const struct sluice_rgb *all,
                       sluice_status want, const struct sluice_box *box)
{
    for (enum way way = 0; way < NUM_WAYS; way++) {
        /* The scalar kernels take their time over a photograph; they are compared with the
         * others on their own, too. */
        if (way == WAY_WINDOW_C && len > 20000 && sluice_rng_below(&rng, 8) > 0)
            continue;
        struct sluice_rgb part = {0};
        /* Making an index takes longer than all the rest. */
        if (way == WAY_INDEX && sluice_rng_below(&rng, 4) != 0)
            continue;
        if (!decode_by(way, bytes, len, box, &part))
            continue;
        num_accepted[way]++;
        const bool is_equal = want == SLUICE_OK && image_test_is_part(&part, all, box);
        sluice_buf_unref(part.pixels);
        if (!is_equal) {
            printf("\nway %d: ", way);
            return false;
        }
    }
    return true;
}

/* libjpeg's own decode of the whole file is what all is compared with. */
static sluice_status decode_reference(const uint8_t *bytes, size_t len, struct sluice_rgb *all)
{
    struct sluice_image_info info;
    const sluice_status status = sluice_image_probe(bytes, len, &info, NULL);
    if (status == SLUICE_OK && info.format == SLUICE_IMAGE_JPEG)
        return sluice_jpeg_decode(codec, bytes, len, SLUICE_IMAGE_MAX_PIXELS, NULL, all, NULL);
    return sluice_codec_decode(codec, bytes, len, 0, NULL, all, NULL);
}

/* `all` is what the whole file gave (no pixels: it was refused with `want`). */
static bool check_box(const uint8_t *bytes, size_t len, const struct sluice_rgb *all,
                      sluice_status want, const struct sluice_box *box)
{
    struct sluice_rgb part = {0};
    struct sluice_err err = {{0}};
    const sluice_status status =
        sluice_codec_decode_region(codec, bytes, len, box, 0, NULL, &part, &err);
    bool is_equal = status == want && check_ways(bytes, len, all, want, box);
    if (is_equal && status == SLUICE_OK)
        is_equal = image_test_is_part(&part, all, box);
    if (!is_equal)
        printf("\nbox %u x %u at (%u, %u) of %u x %u: status %d, not %d, or other pixels %s\n",
               box->width, box->height, box->left, box->top, all->width, all->height, status, want,
               err.text);
    sluice_buf_unref(part.pixels);
    return is_equal;
}

static void check_random_boxes(const uint8_t *bytes, size_t len, unsigned num_boxes)
{
    struct sluice_rgb all = {0};
    REQUIRE_OK(decode_reference(bytes, len, &all));
    for (unsigned i = 0; i < num_boxes; i++) {
        const struct sluice_box box = random_box(all.width, all.height);
        CU_ASSERT(check_box(bytes, len, &all, SLUICE_OK, &box));
    }
    sluice_buf_unref(all.pixels);
}

TEST(boxes_of_every_coding_equal_the_whole_cut)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(codings); i++) {
        for (unsigned k = 0; k < 8; k++) {
            const uint32_t width = 1 + sluice_rng_below(&rng, k < 3 ? 40 : 200);
            const uint32_t height = 1 + sluice_rng_below(&rng, k < 3 ? 40 : 200);
            struct sluice_buf *file = make_file(width, height, &codings[i]);
            check_random_boxes(file->data, file->len, 12);
            sluice_buf_unref(file);
        }
    }
}

/* Skipping rows is where libjpeg-turbo has had most of its faults: every first row. */
TEST(every_first_row_equals_the_whole_cut)
{
    static const struct {
        uint32_t width, height;
    } sizes[] = {{15, 15}, {33, 47}, {64, 65}};
    for (size_t i = 0; i < NUM_TO_DAMAGE; i++) {
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(sizes); k++) {
            const uint32_t width = sizes[k].width, height = sizes[k].height;
            struct sluice_buf *file = make_file(width, height, &codings[i]);
            struct sluice_rgb all = {0};
            REQUIRE_OK(decode_reference(file->data, file->len, &all));
            for (uint32_t top = 0; top < height; top++) {
                const uint32_t rows = 1 + sluice_rng_below(&rng, height - top);
                const struct sluice_box box = {.top = top, .width = width, .height = rows};
                CU_ASSERT(check_box(file->data, file->len, &all, SLUICE_OK, &box));
            }
            sluice_buf_unref(all.pixels);
            sluice_buf_unref(file);
        }
    }
}

/* And every first column with many last ones, where upsampling looks across. */
TEST(every_span_of_columns_equals_the_whole_cut)
{
    for (size_t i = 0; i < NUM_TO_DAMAGE; i++) {
        const uint32_t width = 49 + sluice_rng_below(&rng, 16), height = 20;
        struct sluice_buf *file = make_file(width, height, &codings[i]);
        struct sluice_rgb all = {0};
        REQUIRE_OK(decode_reference(file->data, file->len, &all));
        for (uint32_t left = 0; left < width; left++) {
            for (uint32_t end = left + 1; end <= width; end += 1 + sluice_rng_below(&rng, 15)) {
                const struct sluice_box box = {
                    .left = left, .top = 3, .width = end - left, .height = 14};
                CU_ASSERT(check_box(file->data, file->len, &all, SLUICE_OK, &box));
            }
        }
        sluice_buf_unref(all.pixels);
        sluice_buf_unref(file);
    }
}

/* Bits turned, bytes set to a marker, bytes lost, ends cut. */
static void damage(struct sluice_buf *file)
{
    static const uint8_t markers[] = {0xD9, 0xD0, 0xD3, 0xD7, 0xDA, 0xC4, 0x01, 0x00, 0xFF, 0xE0};
    const uint32_t num_faults = 1 + sluice_rng_below(&rng, 3);
    for (uint32_t i = 0; i < num_faults; i++) {
        const uint32_t len = (uint32_t)file->len;
        const uint32_t at = sluice_rng_below(&rng, 4)
                                ? len / 3 + sluice_rng_below(&rng, len * 2 / 3)
                                : sluice_rng_below(&rng, len);
        switch (sluice_rng_below(&rng, 5)) {
        case 0:
        case 1:
            file->data[at] ^= (uint8_t)(1u << sluice_rng_below(&rng, 8));
            break;
        case 2:
            file->data[at] = 0xFF;
            if (at + 1 < len)
                file->data[at + 1] = markers[sluice_rng_below(&rng, sizeof(markers))];
            break;
        case 3:
            memmove(file->data + at, file->data + at + 1, len - at - 1);
            file->len--;
            break;
        default:
            if (sluice_rng_below(&rng, 3) == 0)
                file->len = sluice_rng_below(&rng, 2) ? at + 1 : len - 1;
            break;
        }
    }
}

TEST(damaged_files_are_taken_and_refused_alike)
{
    unsigned num_refused = 0, num_taken = 0;
    for (size_t i = FIRST_GOOD_TO_DAMAGE; i < NUM_TO_DAMAGE; i++) {
        struct sluice_buf *good = make_file(40 + sluice_rng_below(&rng, 60),
                                            40 + sluice_rng_below(&rng, 60), &codings[i]);
        for (unsigned k = 0; k < 60; k++) {
            struct sluice_buf *file = NULL;
            REQUIRE_OK(sluice_buf_create(NULL, good->len, &file, NULL));
            memcpy(file->data, good->data, good->len);
            file->len = good->len;
            damage(file);
            struct sluice_image_info info;
            if (sluice_image_probe(file->data, file->len, &info, NULL) == SLUICE_OK &&
                (uint64_t)info.width * info.height < 1000000) {
                struct sluice_rgb all = {0};
                const sluice_status status = decode_reference(file->data, file->len, &all);
                *(status == SLUICE_OK ? &num_taken : &num_refused) += 1;
                for (unsigned b = 0; b < 3; b++) {
                    const struct sluice_box box = random_box(info.width, info.height);
                    CU_ASSERT(check_box(file->data, file->len, &all, status, &box));
                }
                sluice_buf_unref(all.pixels);
            }
            sluice_buf_unref(file);
        }
        sluice_buf_unref(good);
    }
    CU_ASSERT(num_taken > 100);
    CU_ASSERT(num_refused > 100);
}

/* The box is complete long before the end that is missing. */
TEST(a_missing_end_is_refused_for_a_box_at_the_top)
{
    const struct sluice_box box = {.width = 8, .height = 8};
    unsigned num_refused = 0;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(codings); i++) {
        struct sluice_buf *file = make_file(64, 64, &codings[i]);
        struct sluice_rgb all = {0};
        file->len -= 2;
        const sluice_status status = decode_reference(file->data, file->len, &all);
        CU_ASSERT(check_box(file->data, file->len, &all, status, &box));
        num_refused += status == SLUICE_E_CORRUPT;
        sluice_buf_unref(all.pixels);
        sluice_buf_unref(file);
    }
    CU_ASSERT(num_refused > 10);
}

static void check_file(const char *path)
{
    size_t len;
    uint8_t *bytes = sluice_test_read_file(path, &len);
    struct sluice_rgb all = {0};
    const sluice_status status = decode_reference(bytes, len, &all);
    const uint32_t width = all.width ? all.width : 1, height = all.height ? all.height : 1;
    for (unsigned i = 0; i < 3; i++) {
        const struct sluice_box box = random_box(width, height);
        const bool is_equal = status == SLUICE_OK
                                  ? check_box(bytes, len, &all, status, &box)
                                  : sluice_codec_decode_region(codec, bytes, len, &box, 0, NULL,
                                                               &all, NULL) == status;
        CU_ASSERT(is_equal);
        if (!is_equal)
            printf("%s\n", path);
    }
    sluice_buf_unref(all.pixels);
    free(bytes);
}

static unsigned num_files;

static int visit(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)where;
    if (type == FTW_F && !strstr(path, ".txt") && !strstr(path, ".csv")) {
        check_file(path);
        num_files++;
    }
    return 0;
}

TEST(boxes_of_the_golden_files_equal_the_whole_cut)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/tests/golden/image", sluice_test_source_dir());
    num_files = 0;
    CU_ASSERT_EQUAL(nftw(path, visit, 8, FTW_PHYS), 0);
    CU_ASSERT(num_files > 50);
}

TEST(boxes_of_photographs_equal_the_whole_cut)
{
    static const char *const folders[] = {"imagenet-200", "photos-1024"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(folders); i++) {
        const char *path = sluice_test_data(folders[i]);
        if (!path) {
            printf("no %s here ", folders[i]);
            continue;
        }
        num_files = 0;
        CU_ASSERT_EQUAL(nftw(path, visit, 8, FTW_PHYS), 0);
        CU_ASSERT(num_files > 0);
    }
}

/* Declining everything would pass the tests above. */
TEST(every_way_takes_ordinary_files)
{
    const struct sluice_box box = {.left = 11, .top = 13, .width = 30, .height = 20};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(codings); i++) {
        const struct sluice_jpeg_encode_options *coding = &codings[i];
        const bool is_odd = coding->is_progressive || coding->is_cmyk || coding->is_ycck ||
                            coding->h_samp == 3 || coding->v_samp == 3;
        const bool is_ours = !is_odd && coding->h_samp <= 2 && coding->v_samp <= 2;
        struct sluice_buf *file = make_file(64, 64, coding);
        for (enum way way = 0; way < NUM_WAYS; way++) {
            struct sluice_rgb part = {0};
            const bool is_taken = decode_by(way, file->data, file->len, &box, &part);
            sluice_buf_unref(part.pixels);
            CU_ASSERT_EQUAL(is_taken, way == WAY_LIBJPEG ? !is_odd : is_ours);
        }
        sluice_buf_unref(file);
    }
}

TEST(a_box_outside_the_image_is_invalid)
{
    struct sluice_buf *file = make_file(20, 10, &codings[0]);
    static const struct sluice_box boxes[] = {
        {0, 0, 0, 1},  {0, 0, 1, 0},          {0, 0, 21, 10},        {0, 0, 20, 11},
        {20, 0, 1, 1}, {UINT32_MAX, 0, 2, 1}, {1, 0, UINT32_MAX, 1}, {0, 10, 1, 1},
        {0, 1, 1, 10}, {0, UINT32_MAX, 1, 2}, {0, 2, 1, UINT32_MAX},
    };
    struct sluice_rgb part = {0};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(boxes); i++) {
        CU_ASSERT_EQUAL(sluice_codec_decode_region(codec, file->data, file->len, &boxes[i], 0, NULL,
                                                   &part, NULL),
                        SLUICE_E_INVALID);
        CU_ASSERT_PTR_NULL(part.pixels);
    }
    sluice_buf_unref(file);
}

TEST(the_pixel_limit_counts_the_whole_image)
{
    struct sluice_buf *file = make_file(20, 10, &codings[0]);
    const struct sluice_box box = {.width = 1, .height = 1};
    struct sluice_rgb part = {0};
    CU_ASSERT_EQUAL(
        sluice_codec_decode_region(codec, file->data, file->len, &box, 199, NULL, &part, NULL),
        SLUICE_E_UNSUPPORTED);
    CHECK_OK(
        sluice_codec_decode_region(codec, file->data, file->len, &box, 200, NULL, &part, NULL));
    sluice_buf_unref(part.pixels);
    sluice_buf_unref(file);
}

int main(void)
{
    if (sluice_codec_create(&codec, NULL) != SLUICE_OK ||
        sluice_jpeg_window_create(&window, NULL) != SLUICE_OK)
        return 1;
    rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    const int rc = sluice_test_main();
    printf("boxes taken: libjpeg %u, window %u, window in C %u, indexed %u\n",
           num_accepted[WAY_LIBJPEG], num_accepted[WAY_WINDOW], num_accepted[WAY_WINDOW_C],
           num_accepted[WAY_INDEX]);
    sluice_codec_destroy(codec);
    sluice_jpeg_window_destroy(window);
    return rc;
}
