/* Indexes are made, written and read back; whatever is not the file's own is of no effect.
 * tests/property/test_region.c and test_jpeg_crop.c compare what is made with one and without. */

#include "image/jpeg/index.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/rng.h"
#include "image/codecs/internal.h"
#include "image/jpeg/crop.h"
#include "image/jpeg/window.h"

#include "image_support.h"
#include "support/test.h"

static struct sluice_jpeg_window *window;

static struct sluice_buf *encode(const struct sluice_jpeg_encode_options *options)
{
    return image_test_jpeg(150, 100, options);
}

TEST(an_index_is_written_and_read_back)
{
    struct sluice_buf *file = encode(&(struct sluice_jpeg_encode_options){.quality = 90});
    for (uint32_t step = 0; step < 12; step++) {
        struct sluice_jpeg_index index = image_test_index(file, step), again = {0};
        struct sluice_buf *entry;
        CU_ASSERT_EQUAL(index.points_across, step ? (10 + step - 1) / step : 1);
        REQUIRE_OK(sluice_jpeg_index_write(&index, &entry, NULL));
        CU_ASSERT(entry->len <= 100 + 7 * (4 + (size_t)index.points_across * 12));
        REQUIRE_OK(sluice_jpeg_index_parse(entry->data, entry->len, &again, NULL));
        CU_ASSERT_EQUAL(again.mtime_ns, 12345);
        CU_ASSERT_EQUAL(again.file_len, file->len);
        CU_ASSERT_EQUAL(again.head_hash, index.head_hash);
        CU_ASSERT_EQUAL(again.scan_start, index.scan_start);
        CU_ASSERT_EQUAL(again.scan_end, index.scan_end);
        CU_ASSERT_EQUAL(again.points_across, index.points_across);
        CU_ASSERT(again.width == 150 && again.height == 100 && again.mcu_width == 16 &&
                  again.mcu_height == 16 && again.mcus_across == 10 && again.mcus_down == 7);
        CU_ASSERT(memcmp(again.row_hashes, index.row_hashes, 7 * sizeof(uint32_t)) == 0);
        for (size_t i = 0; i < 7 * (size_t)index.points_across; i++) {
            CU_ASSERT_EQUAL(again.points[i].offset, index.points[i].offset);
            CU_ASSERT_EQUAL(again.points[i].bit, index.points[i].bit);
            CU_ASSERT(memcmp(again.points[i].dc, index.points[i].dc, sizeof(again.points[i].dc)) ==
                      0);
        }
        sluice_buf_unref(entry);
        sluice_jpeg_index_clear(&again);
        sluice_jpeg_index_clear(&index);
    }
    sluice_buf_unref(file);
}

TEST(damaged_entries_are_refused)
{
    struct sluice_buf *file = encode(&(struct sluice_jpeg_encode_options){.restart_rows = 2});
    struct sluice_jpeg_index index = image_test_index(file, 4), untouched = {.mcus_down = 77};
    struct sluice_buf *entry;
    REQUIRE_OK(sluice_jpeg_index_write(&index, &entry, NULL));
    for (size_t i = 0; i < entry->len; i++) {
        CU_ASSERT_EQUAL(sluice_jpeg_index_parse(entry->data, i, &untouched, NULL),
                        SLUICE_E_CORRUPT);
        entry->data[i] ^= 1;
        CU_ASSERT_EQUAL(sluice_jpeg_index_parse(entry->data, entry->len, &untouched, NULL),
                        SLUICE_E_CORRUPT);
        entry->data[i] ^= 1;
    }
    CU_ASSERT_EQUAL(untouched.mcus_down, 77);
    sluice_buf_unref(entry);
    sluice_jpeg_index_clear(&index);
    sluice_buf_unref(file);
}

static bool decodes_like(const struct sluice_buf *file, const struct sluice_jpeg_index *index,
                         const struct sluice_rgb *want, const struct sluice_box *box)
{
    struct sluice_rgb rgb = {0};
    const sluice_status status =
        sluice_jpeg_window_decode(window, sluice_jpeg_window_kernels_for(sluice_cpu_level()),
                                  file->data, file->len, box, index, NULL, &rgb, NULL);
    const bool is_same = status == SLUICE_OK && rgb.pixels->len == want->pixels->len &&
                         memcmp(rgb.pixels->data, want->pixels->data, rgb.pixels->len) == 0;
    sluice_buf_unref(rgb.pixels);
    return is_same;
}

/* The rows above may be missing altogether with it, and count without it. */
TEST(an_index_spares_the_rows_above)
{
    const struct sluice_box box = {.left = 40, .top = 60, .width = 60, .height = 30};
    struct sluice_buf *file = encode(&(struct sluice_jpeg_encode_options){.quality = 90});
    struct sluice_jpeg_index index = image_test_index(file, 0);
    struct sluice_rgb want = {0};
    REQUIRE_OK(sluice_jpeg_window_decode(window, &sluice_jpeg_window_kernels_c, file->data,
                                         file->len, &box, NULL, NULL, &want, NULL));
    CU_ASSERT_TRUE(decodes_like(file, &index, &want, &box));
    uint32_t from, to;
    sluice_jpeg_index_range(&index, 3, 6, &from, &to);
    CU_ASSERT(from > index.scan_start && to < index.scan_end);
    memset(file->data + index.scan_start, 0xAA, from - index.scan_start);
    memset(file->data + to, 0xAA, index.scan_end - to);
    CU_ASSERT_TRUE(decodes_like(file, &index, &want, &box));
    CU_ASSERT_FALSE(decodes_like(file, NULL, &want, &box));
    sluice_buf_unref(want.pixels);
    sluice_jpeg_index_clear(&index);
    sluice_buf_unref(file);
}

/* Only the parts that the index names, all else filled with what does harm if it is used. */
static struct sluice_buf *read_parts(const struct sluice_buf *file,
                                     const struct sluice_jpeg_index *index,
                                     const struct sluice_box *box)
{
    struct sluice_file_part parts[SLUICE_JPEG_INDEX_MAX_PARTS];
    const unsigned num_parts = sluice_jpeg_index_parts(index, box, parts);
    struct sluice_buf *part;
    REQUIRE_OK(sluice_buf_create(NULL, file->len, &part, NULL));
    CU_ASSERT_FATAL(num_parts >= 1 && num_parts <= SLUICE_JPEG_INDEX_MAX_PARTS);
    part->len = file->len;
    memset(part->data, 0xAA, part->len);
    for (unsigned i = 0; i < num_parts; i++) {
        CU_ASSERT_FATAL(parts[i].from < parts[i].to && parts[i].to <= file->len);
        CU_ASSERT(i == 0 || parts[i].from > parts[i - 1].to);
        memcpy(part->data + parts[i].from, file->data + parts[i].from, parts[i].to - parts[i].from);
    }
    return part;
}

TEST(parts_of_a_file_decode_and_cut_as_the_whole_does)
{
    static const struct sluice_jpeg_encode_options kinds[] = {
        {.quality = 95},
        {.quality = 95, .h_samp = 1, .v_samp = 1},
        {.quality = 95, .h_samp = 2, .v_samp = 1, .restart_rows = 3},
        {.quality = 95, .h_samp = 1, .v_samp = 2},
        {.quality = 95, .is_gray = true},
    };
    const uint32_t width = 300, height = 700;
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    uint8_t *pixels = image_test_picture(width, height);
    for (size_t i = 0; i < (size_t)width * height * 3; i++) /* noise, so that there are gaps */
        pixels[i] = (uint8_t)(pixels[i] / 2 + sluice_rng_below(&rng, 128));
    unsigned num_gaps = 0;
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(kinds); k++) {
        struct sluice_buf *file = NULL;
        REQUIRE_OK(sluice_jpeg_encode(pixels, width, height, &kinds[k], &file, NULL));
        struct sluice_jpeg_index index = image_test_index(file, (uint32_t)k);
        index.is_partial = true;
        for (int i = 0; i < 40; i++) {
            struct sluice_box box = {sluice_rng_below(&rng, width), sluice_rng_below(&rng, height),
                                     0, 0};
            box.width = 1 + sluice_rng_below(&rng, width - box.left);
            box.height = 1 + sluice_rng_below(&rng, height - box.top) / 2;
            struct sluice_buf *part = read_parts(file, &index, &box), *cut = NULL, *want_cut = NULL;
            struct sluice_rgb want = {0};
            num_gaps += memcmp(part->data, file->data, file->len) != 0;
            REQUIRE_OK(sluice_jpeg_window_decode(window, &sluice_jpeg_window_kernels_c, file->data,
                                                 file->len, &box, NULL, NULL, &want, NULL));
            CU_ASSERT_TRUE(decodes_like(part, &index, &want, &box));
            struct sluice_jpeg_crop_options options = {.allow_larger = true};
            REQUIRE_OK(sluice_jpeg_crop(file->data, file->len, &box, &options, NULL, &want_cut,
                                        NULL, NULL));
            options.index = &index;
            REQUIRE_OK(
                sluice_jpeg_crop(part->data, part->len, &box, &options, NULL, &cut, NULL, NULL));
            CU_ASSERT(cut->len == want_cut->len &&
                      memcmp(cut->data, want_cut->data, cut->len) == 0);
            sluice_buf_unref(cut);
            sluice_buf_unref(want_cut);
            sluice_buf_unref(want.pixels);
            sluice_buf_unref(part);
        }
        sluice_jpeg_index_clear(&index);
        sluice_buf_unref(file);
    }
    CU_ASSERT(num_gaps > 50);
    free(pixels);
}

/* Where a row is not as it was indexed, the rest of the file is not there to fall back on. */
TEST(a_part_that_does_not_do_fails)
{
    const struct sluice_box box = {.left = 4, .top = 20, .width = 60, .height = 30};
    struct sluice_buf *file = encode(&(struct sluice_jpeg_encode_options){.quality = 90});
    struct sluice_jpeg_index index = image_test_index(file, 0);
    struct sluice_codec *codec = NULL;
    REQUIRE_OK(sluice_codec_create(&codec, NULL));
    index.row_hashes[2] ^= 1;
    for (int is_partial = 0; is_partial < 2; is_partial++) {
        struct sluice_rgb rgb = {0};
        struct sluice_buf *cut = NULL;
        index.is_partial = is_partial;
        sluice_codec_set_index(codec, &index);
        const sluice_status want = is_partial ? SLUICE_E_CORRUPT : SLUICE_OK;
        CU_ASSERT_EQUAL(
            sluice_codec_decode_region(codec, file->data, file->len, &box, 0, NULL, &rgb, NULL),
            want);
        sluice_buf_unref(rgb.pixels);
        rgb.pixels = NULL;
        CU_ASSERT_EQUAL(sluice_codec_decode(codec, file->data, file->len, 0, NULL, &rgb, NULL),
                        want);
        sluice_buf_unref(rgb.pixels);
        const struct sluice_jpeg_crop_options options = {.allow_larger = true, .index = &index};
        CU_ASSERT_EQUAL(
            sluice_jpeg_crop(file->data, file->len, &box, &options, NULL, &cut, NULL, NULL), want);
        sluice_buf_unref(cut);
    }
    sluice_codec_destroy(codec);
    sluice_jpeg_index_clear(&index);
    sluice_buf_unref(file);
}

TEST(the_chosen_step_keeps_rows_short)
{
    static const struct {
        uint32_t width, step, points;
    } cases[] = {{30, 2, 1}, {500, 8, 4}, {1024, 8, 8}, {1040, 9, 8}, {3000, 24, 8}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        uint8_t *pixels = image_test_picture(cases[i].width, 16);
        struct sluice_buf *file = NULL;
        REQUIRE_OK(sluice_jpeg_encode(pixels, cases[i].width, 16,
                                      &(struct sluice_jpeg_encode_options){0}, &file, NULL));
        struct sluice_jpeg_index index = image_test_index(file, SLUICE_JPEG_INDEX_AUTO_STEP);
        CU_ASSERT_EQUAL(index.step, cases[i].step);
        CU_ASSERT_EQUAL(index.points_across, cases[i].points);
        sluice_jpeg_index_clear(&index);
        sluice_buf_unref(file);
        free(pixels);
    }
}

/* A stale index, and one whose rows do not match at the last moment. */
TEST(an_index_that_is_not_the_files_is_of_no_effect)
{
    const struct sluice_box box = {.left = 4, .top = 20, .width = 60, .height = 70};
    struct sluice_buf *file = encode(&(struct sluice_jpeg_encode_options){.quality = 90});
    struct sluice_buf *other =
        encode(&(struct sluice_jpeg_encode_options){.quality = 30, .restart_rows = 1});
    struct sluice_jpeg_index index = image_test_index(other, 3);
    struct sluice_rgb want = {0};
    REQUIRE_OK(sluice_jpeg_window_decode(window, &sluice_jpeg_window_kernels_c, file->data,
                                         file->len, &box, NULL, NULL, &want, NULL));
    CU_ASSERT_TRUE(decodes_like(file, &index, &want, &box));
    sluice_jpeg_index_clear(&index);
    index = image_test_index(file, 3);
    index.row_hashes[5] ^= 1;
    CU_ASSERT_TRUE(decodes_like(file, &index, &want, &box));
    sluice_jpeg_index_clear(&index);
    sluice_buf_unref(want.pixels);
    sluice_buf_unref(file);
    sluice_buf_unref(other);
}

TEST(what_is_not_covered_or_damaged_has_no_index)
{
    struct sluice_jpeg_index index = {.mcus_down = 77};
    struct sluice_buf *file = encode(&(struct sluice_jpeg_encode_options){.is_progressive = true});
    CU_ASSERT_EQUAL(sluice_jpeg_index_build(file->data, file->len, 0, 0, &index, NULL),
                    SLUICE_E_UNSUPPORTED);
    sluice_buf_unref(file);
    file = encode(&(struct sluice_jpeg_encode_options){0});
    file->data[file->len - 1] = 0;
    CU_ASSERT_NOT_EQUAL(sluice_jpeg_index_build(file->data, file->len, 0, 0, &index, NULL),
                        SLUICE_OK);
    /* The last rows are missing, EOI is not. */
    file->data[file->len - 202] = 0xFF;
    file->data[file->len - 201] = 0xD9;
    CU_ASSERT_EQUAL(sluice_jpeg_index_build(file->data, file->len - 200, 0, 0, &index, NULL),
                    SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(index.mcus_down, 77);
    sluice_buf_unref(file);
}

int main(void)
{
    if (sluice_jpeg_window_create(&window, NULL) != SLUICE_OK)
        return 1;
    const int rc = sluice_test_main();
    sluice_jpeg_window_destroy(window);
    return rc;
}
