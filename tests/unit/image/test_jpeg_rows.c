/* Rows of JPEGs are packed and opened: what is there decodes to the file's pixels, and nothing else
 * is taken for it. */

#include "image/jpeg/rows.h"

#include "base/buf.h"
#include "base/cpu.h"
#include "base/rng.h"
#include "image/codecs/internal.h"
#include "image/jpeg/crop.h"
#include "image/jpeg/index_bytes.h"
#include "image/jpeg/window.h"

#include "image_support.h"
#include "support/random_jpeg.h"
#include "support/test.h"

static struct sluice_jpeg_window *window;

static struct sluice_buf *copy_of(const struct sluice_buf *file)
{
    struct sluice_buf *copy;
    if (sluice_buf_create(NULL, file->len * 4 + 10000, &copy, NULL) != SLUICE_OK)
        abort();
    memcpy(copy->data, file->data, file->len);
    copy->len = file->len;
    return copy;
}

static bool is_same(const struct sluice_buf *a, const struct sluice_buf *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

static sluice_status decode(const uint8_t *bytes, size_t len, const struct sluice_box *box,
                            const struct sluice_jpeg_index *index, struct sluice_rgb *rgb)
{
    return sluice_jpeg_window_decode(window, sluice_jpeg_window_kernels_for(sluice_cpu_level()),
                                     bytes, len, box, index, NULL, rgb, NULL);
}

static struct sluice_box random_box(struct sluice_rng *rng, uint32_t width, uint32_t height)
{
    struct sluice_box box;
    box.width = 1 + sluice_rng_below(rng, width);
    box.height = 1 + sluice_rng_below(rng, 1 + sluice_rng_below(rng, height));
    box.left = sluice_rng_below(rng, width - box.width + 1);
    box.top = sluice_rng_below(rng, height - box.height + 1);
    return box;
}

/* Decoding and cutting by what was packed against the file.  False: it is not packed. */
static bool compare(struct sluice_rng *rng, const struct sluice_buf *file, uint32_t width,
                    uint32_t height)
{
    struct sluice_jpeg_index index, opened;
    if (sluice_jpeg_index_build(file->data, file->len, 7, sluice_rng_below(rng, 12), &index,
                                NULL) != SLUICE_OK)
        return false;
    const struct sluice_box box = random_box(rng, width, height);
    struct sluice_buf *packed = copy_of(file);
    const sluice_status status = sluice_jpeg_rows_pack(&index, &box, NULL, &packed, NULL);
    CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_UNSUPPORTED || status == SLUICE_E_AGAIN);
    CU_ASSERT(status == SLUICE_OK || is_same(packed, file));
    sluice_jpeg_index_clear(&index);
    size_t len = 0;
    if (status == SLUICE_OK) {
        struct sluice_rgb want, rgb = {0};
        REQUIRE_OK(sluice_jpeg_rows_open(packed->data, packed->len, &len, &opened, NULL));
        CU_ASSERT(len <= file->len && len < packed->len && opened.is_partial);
        const sluice_status want_status = decode(file->data, file->len, &box, NULL, &want);
        CU_ASSERT_EQUAL(decode(packed->data, len, &box, &opened, &rgb), want_status);
        if (want_status == SLUICE_OK && rgb.pixels) {
            CU_ASSERT(is_same(rgb.pixels, want.pixels));
            sluice_buf_unref(want.pixels);
            sluice_buf_unref(rgb.pixels);
        }
        struct sluice_jpeg_crop_options options = {.allow_larger = true,
                                                   .route = SLUICE_JPEG_CROP_BY_OURS};
        struct sluice_buf *want_cut, *cut;
        const sluice_status cut_status =
            sluice_jpeg_crop(file->data, file->len, &box, &options, NULL, &want_cut, NULL, NULL);
        options.index = &opened;
        CU_ASSERT_EQUAL_FATAL(
            sluice_jpeg_crop(packed->data, len, &box, &options, NULL, &cut, NULL, NULL),
            cut_status);
        if (cut_status == SLUICE_OK) {
            CU_ASSERT(is_same(cut, want_cut));
            sluice_buf_unref(cut);
            sluice_buf_unref(want_cut);
        }
        sluice_jpeg_index_clear(&opened);
    }
    sluice_buf_unref(packed);
    return status == SLUICE_OK;
}

TEST(a_box_of_the_rows_is_the_files)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    unsigned num_packed = 0;
    for (int i = 0; i < 2000; i++) {
        const struct random_jpeg jpeg = random_jpeg_make(&rng);
        num_packed += compare(&rng, jpeg.file, jpeg.width, jpeg.height);
        sluice_buf_unref(jpeg.file);
    }
    CU_ASSERT(num_packed > 800);
    num_packed = 0;
    static const enum image_test_kind kinds[] = {IMAGE_TEST_BASELINE, IMAGE_TEST_GRAY,
                                                 IMAGE_TEST_RESTARTS, IMAGE_TEST_PROGRESSIVE};
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(kinds); k++) {
        struct sluice_buf *file = image_test_file(kinds[k], 213, 187);
        for (int i = 0; i < 25; i++)
            num_packed += compare(&rng, file, 213, 187);
        sluice_buf_unref(file);
    }
    CU_ASSERT(num_packed > 50 && num_packed <= 75);
}

static struct sluice_buf *file;
static struct sluice_jpeg_index whole;
static const struct sluice_box middle = {.left = 20, .top = 100, .width = 90, .height = 60};

static void make_file(void)
{
    file = image_test_jpeg(300, 400, &(struct sluice_jpeg_encode_options){.quality = 90});
    REQUIRE_OK(sluice_jpeg_index_build(file->data, file->len, 7, SLUICE_JPEG_INDEX_AUTO_STEP,
                                       &whole, NULL));
}

static void clear_file(void)
{
    sluice_jpeg_index_clear(&whole);
    sluice_buf_unref(file);
}

TEST(only_what_was_indexed_is_packed)
{
    make_file();
    uint32_t first, end, from, to;
    sluice_jpeg_index_rows(&whole, &middle, &first, &end);
    sluice_jpeg_index_range(&whole, first, end, &from, &to);
    CU_ASSERT(first > 0 && end < whole.mcus_down);
    const struct {
        size_t at;
        sluice_status want;
    } cases[] = {
        {30, SLUICE_E_CORRUPT}, /* a quantisation table */
        {whole.scan_start - 1, SLUICE_E_CORRUPT},
        {whole.scan_start + 5, SLUICE_OK}, /* rows above */
        {from - 1, SLUICE_OK},
        {from + 1, SLUICE_E_CORRUPT},
        {to - 4, SLUICE_E_CORRUPT},
        {to + 4, SLUICE_OK},
        {whole.scan_end, SLUICE_E_CORRUPT},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_buf *other = copy_of(file);
        other->data[cases[i].at] ^= 0x55;
        struct sluice_buf *packed = copy_of(other);
        CU_ASSERT_EQUAL(sluice_jpeg_rows_pack(&whole, &middle, NULL, &packed, NULL), cases[i].want);
        CU_ASSERT(cases[i].want == SLUICE_OK || is_same(packed, other));
        sluice_buf_unref(packed);
        sluice_buf_unref(other);
    }
    struct sluice_buf *cut = copy_of(file);
    cut->len--;
    CU_ASSERT_EQUAL(sluice_jpeg_rows_pack(&whole, &middle, NULL, &cut, NULL), SLUICE_E_CORRUPT);
    sluice_buf_unref(cut);
    clear_file();
}

/* All rows, with their points, in a buffer that has room for the file alone. */
TEST(the_points_may_need_more_room_than_the_file_has)
{
    make_file();
    const struct sluice_box all = {.width = 300, .height = 400};
    struct sluice_buf *packed;
    REQUIRE_OK(sluice_buf_create(NULL, file->len, &packed, NULL));
    memcpy(packed->data, file->data, file->len);
    packed->len = packed->capacity = file->len;
    CHECK_OK(sluice_jpeg_rows_pack(&whole, &all, NULL, &packed, NULL));
    CU_ASSERT(packed->len > file->len &&
              packed->len * 100 <= file->len * SLUICE_JPEG_ROWS_MAX_PERCENT);
    struct sluice_jpeg_index opened;
    struct sluice_rgb want, rgb;
    size_t len;
    REQUIRE_OK(sluice_jpeg_rows_open(packed->data, packed->len, &len, &opened, NULL));
    REQUIRE_OK(decode(packed->data, len, &all, &opened, &rgb));
    REQUIRE_OK(decode(file->data, file->len, &all, NULL, &want));
    CU_ASSERT(is_same(rgb.pixels, want.pixels));
    sluice_buf_unref(want.pixels);
    sluice_buf_unref(rgb.pixels);
    sluice_jpeg_index_clear(&opened);
    sluice_buf_unref(packed);
    clear_file();
}

TEST(what_would_be_much_larger_is_left_as_it_is)
{
    make_file();
    struct sluice_jpeg_index dense;
    REQUIRE_OK(sluice_jpeg_index_build(file->data, file->len, 7, 1, &dense, NULL));
    const struct sluice_box all = {.width = 300, .height = 400};
    struct sluice_buf *packed = copy_of(file), *const same = packed;
    CU_ASSERT_EQUAL(sluice_jpeg_rows_pack(&dense, &all, NULL, &packed, NULL), SLUICE_E_AGAIN);
    CU_ASSERT(packed == same && is_same(packed, file));
    CHECK_OK(sluice_jpeg_rows_pack(&dense, &middle, NULL, &packed, NULL));
    CU_ASSERT(packed == same && packed->len < file->len);
    sluice_buf_unref(packed);
    sluice_jpeg_index_clear(&dense);
    clear_file();
}

TEST(rows_that_did_not_come_are_not_found)
{
    make_file();
    struct sluice_buf *packed = copy_of(file);
    REQUIRE_OK(sluice_jpeg_rows_pack(&whole, &middle, NULL, &packed, NULL));
    struct sluice_jpeg_index opened;
    size_t len;
    REQUIRE_OK(sluice_jpeg_rows_open(packed->data, packed->len, &len, &opened, NULL));
    for (uint32_t row = 0; row < whole.mcus_down; row++) {
        const struct sluice_box box = {.top = row * whole.mcu_height + 2, .width = 30, .height = 3};
        const bool is_here = box.top >= middle.top && box.top + 3 <= middle.top + middle.height;
        struct sluice_rgb rgb = {0};
        const sluice_status status = decode(packed->data, len, &box, &opened, &rgb);
        CU_ASSERT(!is_here || status == SLUICE_OK);
        CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_CORRUPT);
        if (status == SLUICE_OK) { /* the margin's rows are there, too */
            struct sluice_rgb want;
            REQUIRE_OK(decode(file->data, file->len, &box, NULL, &want));
            CU_ASSERT(is_same(rgb.pixels, want.pixels));
            sluice_buf_unref(want.pixels);
        }
        CU_ASSERT(is_here || box.top + 40 >= middle.top || status == SLUICE_E_CORRUPT);
        sluice_buf_unref(rgb.pixels);
    }
    sluice_jpeg_index_clear(&opened);
    sluice_buf_unref(packed);
    clear_file();
}

TEST(wide_sampling_goes_as_it_is)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    unsigned num_wide = 0;
    while (num_wide < 10) {
        struct random_jpeg jpeg = random_jpeg_make(&rng);
        struct sluice_jpeg_index index;
        if (jpeg.h == 4 && sluice_jpeg_index_build(jpeg.file->data, jpeg.file->len, 0, 0, &index,
                                                   NULL) == SLUICE_OK) {
            const struct sluice_box box = {.width = 1, .height = 1};
            CU_ASSERT_EQUAL(sluice_jpeg_rows_pack(&index, &box, NULL, &jpeg.file, NULL),
                            SLUICE_E_UNSUPPORTED);
            sluice_jpeg_index_clear(&index);
            num_wide++;
        }
        sluice_buf_unref(jpeg.file);
    }
}

static void expect_refused(const uint8_t *bytes, size_t len)
{
    struct sluice_jpeg_index untouched = {.mcus_down = 77};
    size_t file_len = 55;
    CU_ASSERT_EQUAL(sluice_jpeg_rows_open(bytes, len, &file_len, &untouched, NULL),
                    SLUICE_E_CORRUPT);
    CU_ASSERT(untouched.mcus_down == 77 && file_len == 55);
}

/* And cleared. */
static void expect_in_order(const uint8_t *bytes, size_t len, struct sluice_jpeg_index *index)
{
    const size_t num_points = (size_t)index->mcus_down * index->points_across;
    uint64_t last = (uint64_t)index->scan_start * 8;
    bool is_in_order = index->scan_end + 2 <= len && index->is_partial;
    for (size_t i = 0; i < num_points; i++) {
        const uint64_t bit = (uint64_t)index->points[i].offset * 8 + index->points[i].bit;
        is_in_order = is_in_order && bit >= last;
        last = bit;
    }
    CU_ASSERT(is_in_order && last <= (uint64_t)index->scan_end * 8);
    struct sluice_rgb rgb = {0};
    if (index->width > middle.left + middle.width && index->height > middle.top + middle.height)
        (void)!decode(bytes, len, &middle, index, &rgb);
    sluice_buf_unref(rgb.pixels);
    sluice_jpeg_index_clear(index);
}

TEST(what_was_not_packed_is_refused)
{
    make_file();
    struct sluice_buf *packed = copy_of(file);
    REQUIRE_OK(sluice_jpeg_rows_pack(&whole, &middle, NULL, &packed, NULL));
    size_t len;
    struct sluice_jpeg_index opened;
    REQUIRE_OK(sluice_jpeg_rows_open(packed->data, packed->len, &len, &opened, NULL));
    sluice_jpeg_index_clear(&opened);
    expect_refused(file->data, file->len);
    for (size_t i = 0; i < packed->len; i += i < len ? 97 : 1)
        expect_refused(packed->data, i);
    /* Whatever else the points say, they lie in the scan and in order. */
    for (size_t at = len; at < packed->len; at++) {
        for (int bit = 0; bit < 8; bit++) {
            size_t other_len;
            packed->data[at] ^= (uint8_t)(1 << bit);
            if (sluice_jpeg_rows_open(packed->data, packed->len, &other_len, &opened, NULL) ==
                SLUICE_OK)
                expect_in_order(packed->data, other_len, &opened);
            packed->data[at] ^= (uint8_t)(1 << bit);
        }
    }
    sluice_buf_unref(packed);
    clear_file();
}

/* 8191 x 8191 MCUs with a point each: 1 GB. */
TEST(no_more_is_allocated_than_a_multiple_of_what_came)
{
    uint8_t bytes[100] = {0}, *out = bytes + 10;
    *out++ = 1;
    *out++ = 1;
    *out++ = 1;
    *out++ = 1;
    out = sluice_index_put_fixed(out, 0, 8);
    out = sluice_index_put_varint(out, 2); /* before the scan, the scan */
    out = sluice_index_put_varint(out, 6);
    out = sluice_index_put_varint(out, 65528); /* across, down */
    uint8_t *const down = out;
    out = sluice_index_put_varint(out, 65528);
    uint8_t *const step = out;
    out = sluice_index_put_varint(out, 8191); /* one point a row */
    out = sluice_index_put_varint(out, 0);
    out = sluice_index_put_varint(out, 1);
    out = sluice_index_put_fixed(out, 0, 4);
    for (int i = 0; i < 2; i++) {
        out = sluice_index_put_varint(out, 1);
        out = sluice_index_put_varint(out, 0);
    }
    const size_t entry_len = (size_t)(out - bytes) - 10;
    out = sluice_index_put_fixed(out, entry_len, 4);
    expect_refused(bytes, (size_t)(out - bytes)); /* 8191 points take 128 KiB */
    (void)sluice_index_put_varint(down, 32760);
    struct sluice_jpeg_index opened;
    size_t len;
    CHECK_OK(sluice_jpeg_rows_open(bytes, (size_t)(out - bytes), &len, &opened, NULL));
    CU_ASSERT(len == 10 && opened.mcus_down == 4095 && opened.points_across == 1);
    sluice_jpeg_index_clear(&opened);
    (void)sluice_index_put_varint(step, 8190); /* two points a row */
    expect_refused(bytes, (size_t)(out - bytes));
}

int main(void)
{
    if (sluice_jpeg_window_create(&window, NULL) != SLUICE_OK)
        return EXIT_FAILURE;
    const int result = sluice_test_main();
    sluice_jpeg_window_destroy(window);
    return result;
}
