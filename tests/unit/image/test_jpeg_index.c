/* Indexes are made, written and read back; whatever is not the file's own is of no effect.
 * tests/property/test_region.c and test_jpeg_crop.c compare what is made with one and without. */

#include "image/jpeg_index.h"

#include "base/buf.h"
#include "base/hash.h"
#include "image/codec_internal.h"
#include "image/jpeg_window.h"

#include "image_support.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

static struct sluice_jpeg_window *window;

static struct sluice_buf *encode(const struct sluice_jpeg_encode_options *options)
{
    uint8_t *pixels = image_test_picture(150, 100);
    struct sluice_buf *file = NULL;
    CU_ASSERT_EQUAL_FATAL(sluice_jpeg_encode(pixels, 150, 100, options, &file, NULL), SLUICE_OK);
    free(pixels);
    return file;
}

static struct sluice_jpeg_index build(const struct sluice_buf *file, uint32_t step)
{
    struct sluice_jpeg_index index = {0};
    CU_ASSERT_EQUAL_FATAL(sluice_jpeg_index_build(file->data, file->len, 12345, step, &index, NULL),
                          SLUICE_OK);
    return index;
}

static void an_index_is_written_and_read_back(void)
{
    struct sluice_buf *file = encode(&(struct sluice_jpeg_encode_options){.quality = 90});
    for (uint32_t step = 0; step < 12; step++) {
        struct sluice_jpeg_index index = build(file, step), again = {0};
        struct sluice_buf *entry;
        CU_ASSERT_EQUAL(index.points_across, step ? (10 + step - 1) / step : 1);
        CU_ASSERT_EQUAL_FATAL(sluice_jpeg_index_write(&index, &entry, NULL), SLUICE_OK);
        CU_ASSERT(entry->len <= 100 + 7 * (4 + (size_t)index.points_across * 12));
        CU_ASSERT_EQUAL_FATAL(sluice_jpeg_index_parse(entry->data, entry->len, &again, NULL),
                              SLUICE_OK);
        CU_ASSERT_EQUAL(again.mtime_ns, 12345);
        CU_ASSERT_EQUAL(again.file_len, file->len);
        CU_ASSERT_EQUAL(again.head_hash, index.head_hash);
        CU_ASSERT_EQUAL(again.scan_start, index.scan_start);
        CU_ASSERT_EQUAL(again.scan_end, index.scan_end);
        CU_ASSERT_EQUAL(again.points_across, index.points_across);
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

static void damaged_entries_are_refused(void)
{
    struct sluice_buf *file = encode(&(struct sluice_jpeg_encode_options){.restart_rows = 2});
    struct sluice_jpeg_index index = build(file, 4), untouched = {.mcus_down = 77};
    struct sluice_buf *entry;
    CU_ASSERT_EQUAL_FATAL(sluice_jpeg_index_write(&index, &entry, NULL), SLUICE_OK);
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

/* Reads the first row's part of the file, or not. */
static bool reads(const struct sluice_jpeg_index *index, const struct sluice_buf *file,
                  uint32_t row)
{
    struct sluice_jpeg jpeg;
    struct sluice_jpeg_stretch stretch = {0};
    CU_ASSERT_EQUAL_FATAL(sluice_jpeg_parse(file->data, file->len, &jpeg, NULL), SLUICE_OK);
    const bool is_read =
        sluice_jpeg_index_fits(index, &jpeg, file->data, file->len) &&
        sluice_jpeg_stretch_read(&stretch, index, &jpeg, file->data, row, 0, 10, NULL);
    sluice_jpeg_stretch_clear(&stretch);
    return is_read;
}

static void what_was_not_indexed_is_not_read(void)
{
    struct sluice_buf *file = encode(&(struct sluice_jpeg_encode_options){.quality = 90});
    struct sluice_jpeg_index index = build(file, 0);
    CU_ASSERT_TRUE(reads(&index, file, 2));
    /* Another byte in the row, in another row, in the headers. */
    const uint32_t in_row = index.points[2].offset + 5;
    file->data[in_row] ^= 2;
    CU_ASSERT_FALSE(reads(&index, file, 2));
    CU_ASSERT_TRUE(reads(&index, file, 4));
    file->data[in_row] ^= 2;
    file->data[30] ^= 1; /* in a quantisation table */
    CU_ASSERT_FALSE(reads(&index, file, 2));
    file->data[30] ^= 1;
    /* The end cut off, or EOI lost. */
    file->len--;
    CU_ASSERT_FALSE(reads(&index, file, 2));
    file->len++;
    CU_ASSERT_TRUE(reads(&index, file, 2));
    file->data[file->len - 1] = 0xD0;
    CU_ASSERT_FALSE(reads(&index, file, 2));
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
static void an_index_spares_the_rows_above(void)
{
    const struct sluice_box box = {.left = 40, .top = 60, .width = 60, .height = 30};
    struct sluice_buf *file = encode(&(struct sluice_jpeg_encode_options){.quality = 90});
    struct sluice_jpeg_index index = build(file, 0);
    struct sluice_rgb want = {0};
    CU_ASSERT_EQUAL_FATAL(sluice_jpeg_window_decode(window, &sluice_jpeg_window_kernels_c,
                                                    file->data, file->len, &box, NULL, NULL, &want,
                                                    NULL),
                          SLUICE_OK);
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

/* A stale index, and one whose rows do not match at the last moment. */
static void an_index_that_is_not_the_files_is_of_no_effect(void)
{
    const struct sluice_box box = {.left = 4, .top = 20, .width = 60, .height = 70};
    struct sluice_buf *file = encode(&(struct sluice_jpeg_encode_options){.quality = 90});
    struct sluice_buf *other =
        encode(&(struct sluice_jpeg_encode_options){.quality = 30, .restart_rows = 1});
    struct sluice_jpeg_index index = build(other, 3);
    struct sluice_rgb want = {0};
    CU_ASSERT_EQUAL_FATAL(sluice_jpeg_window_decode(window, &sluice_jpeg_window_kernels_c,
                                                    file->data, file->len, &box, NULL, NULL, &want,
                                                    NULL),
                          SLUICE_OK);
    CU_ASSERT_TRUE(decodes_like(file, &index, &want, &box));
    sluice_jpeg_index_clear(&index);
    index = build(file, 3);
    index.row_hashes[5] ^= 1;
    CU_ASSERT_TRUE(decodes_like(file, &index, &want, &box));
    sluice_jpeg_index_clear(&index);
    sluice_buf_unref(want.pixels);
    sluice_buf_unref(file);
    sluice_buf_unref(other);
}

static void what_is_not_covered_or_damaged_has_no_index(void)
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
    static const struct sluice_test tests[] = {
        SLUICE_TEST(an_index_is_written_and_read_back),
        SLUICE_TEST(damaged_entries_are_refused),
        SLUICE_TEST(what_was_not_indexed_is_not_read),
        SLUICE_TEST(an_index_spares_the_rows_above),
        SLUICE_TEST(an_index_that_is_not_the_files_is_of_no_effect),
        SLUICE_TEST(what_is_not_covered_or_damaged_has_no_index),
    };
    if (sluice_jpeg_window_create(&window, NULL) != SLUICE_OK)
        return 1;
    const int rc = sluice_test_run("jpeg_index", tests, SLUICE_TEST_COUNT(tests));
    sluice_jpeg_window_destroy(window);
    return rc;
}
