/* What sluice_jpeg_crop() promises beside the pixels, which tests/property/test_jpeg_crop.c
 * compares. */

#include "image/jpeg/crop.h"

#include "base/buf.h"
#include "base/hash.h"
#include "image/jpeg/entropy.h"
#include "image/jpeg/index.h"

#include "jpeg_support.h"
#include "support/test.h"

static const struct sluice_jpeg_crop_options larger = {.allow_larger = true};

static struct sluice_buf *small_file(const struct sluice_jpeg_encode_options *options)
{
    static const struct sluice_jpeg_encode_options defaults = {0};
    return jpeg_test_file(96, 80, 3, options ? options : &defaults);
}

static sluice_status crop(const struct sluice_buf *file, const struct sluice_box *box,
                          const struct sluice_jpeg_crop_options *options, struct sluice_buf **out)
{
    return sluice_jpeg_crop(file->data, file->len, box, options, NULL, out, NULL, NULL);
}

/* A file with bytes put in behind its first `at`. */
static struct sluice_buf *insert(const struct sluice_buf *file, size_t at, const void *bytes,
                                 size_t len)
{
    struct sluice_buf *longer = NULL;
    REQUIRE_OK(sluice_buf_create(NULL, file->len + len, &longer, NULL));
    memcpy(longer->data, file->data, at);
    memcpy(longer->data + at, bytes, len);
    memcpy(longer->data + at + len, file->data + at, file->len - at);
    longer->len = file->len + len;
    return longer;
}

static bool contains(const struct sluice_buf *buf, const char *text)
{
    return memmem(buf->data, buf->len, text, strlen(text)) != NULL;
}

TEST(the_box_must_be_inside)
{
    struct sluice_buf *file = small_file(NULL), *out = NULL;
    struct sluice_jpeg_crop_box window = {.left = 12345};
    static const struct sluice_box boxes[] = {
        {0, 0, 0, 8},  {0, 0, 8, 0},  {96, 0, 1, 1},          {0, 80, 1, 1},
        {90, 0, 7, 8}, {0, 80, 8, 1}, {1, 0, UINT32_MAX, 80}, {UINT32_MAX, 0, 2, 2},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(boxes); i++) {
        for (int route = SLUICE_JPEG_CROP_BY_ANY; route <= SLUICE_JPEG_CROP_BY_LIBJPEG; route++) {
            const struct sluice_jpeg_crop_options options = {
                .allow_larger = true, .route = (enum sluice_jpeg_crop_route)route};
            struct sluice_err err = {{0}};
            CU_ASSERT_EQUAL(sluice_jpeg_crop(file->data, file->len, &boxes[i], &options, NULL, &out,
                                             &window, &err),
                            SLUICE_E_INVALID);
            CU_ASSERT(err.text[0] != 0 && !out && window.left == 12345);
        }
    }
    sluice_buf_unref(file);
}

TEST(what_would_not_be_smaller_is_not_made)
{
    struct sluice_buf *file = small_file(NULL), *out = NULL;
    const struct sluice_box all = {0, 0, 96, 80}, part = {40, 40, 4, 4};
    CU_ASSERT_EQUAL(crop(file, &all, NULL, &out), SLUICE_E_AGAIN);
    CHECK_OK(crop(file, &part, NULL, &out));
    CU_ASSERT(out->len < file->len);
    sluice_buf_unref(out);
    /* A crop of a crop has nothing left to drop. */
    struct sluice_buf *again = NULL, *none = NULL;
    REQUIRE_OK(crop(file, &all, &larger, &out));
    CU_ASSERT_EQUAL(crop(out, &all, NULL, &none), SLUICE_E_AGAIN);
    REQUIRE_OK(crop(out, &all, &larger, &again));
    CU_ASSERT_EQUAL(again->len, out->len);
    sluice_buf_unref(again);
    sluice_buf_unref(out);
    struct sluice_buf *tiny = jpeg_test_file(8, 8, 3, &(struct sluice_jpeg_encode_options){0});
    const struct sluice_box pixel = {7, 7, 1, 1};
    CU_ASSERT_EQUAL(crop(tiny, &pixel, NULL, &none), SLUICE_E_AGAIN);
    CU_ASSERT_PTR_NULL(none);
    sluice_buf_unref(tiny);
    sluice_buf_unref(file);
}

TEST(metadata_are_dropped_and_colours_kept)
{
    struct sluice_buf *file = small_file(&(struct sluice_jpeg_encode_options){.is_ycck = true});
    static const char comment[] = "\xFF\xFE\0\x10Kilroy was he";
    struct sluice_buf *talking = insert(file, 2, comment, sizeof(comment));
    const struct sluice_box box = {10, 10, 30, 30};
    for (int route = SLUICE_JPEG_CROP_BY_OURS; route <= SLUICE_JPEG_CROP_BY_LIBJPEG; route++) {
        const struct sluice_jpeg_crop_options options = {
            .allow_larger = true, .route = (enum sluice_jpeg_crop_route)route};
        struct sluice_buf *out = NULL;
        struct sluice_jpeg jpeg;
        REQUIRE_OK(crop(talking, &box, &options, &out));
        CU_ASSERT(contains(talking, "Kilroy") && !contains(out, "Kilroy"));
        REQUIRE_OK(sluice_jpeg_parse(out->data, out->len, &jpeg, NULL));
        CU_ASSERT(jpeg.has_adobe && jpeg.adobe_transform == 2 && jpeg.num_components == 4);
        sluice_buf_unref(out);
    }
    sluice_buf_unref(talking);
    sluice_buf_unref(file);
}

/* Without JFIF and Adobe the component ids decide: "RGB" are no YCbCr.  With JFIF they do not, so
 * it is kept then, and only then. */
static void check_rgb_ids(bool has_jfif)
{
    struct sluice_buf *file =
        small_file(&(struct sluice_jpeg_encode_options){.h_samp = 1, .v_samp = 1});
    struct sluice_codec *codec = NULL;
    REQUIRE_OK(sluice_codec_create(&codec, NULL));
    if (!has_jfif)
        memcpy(memmem(file->data, file->len, "JFIF", 4), "XXXX", 4);
    uint8_t *frame = memmem(file->data, file->len, "\xFF\xC0", 2);
    uint8_t *scan = memmem(file->data, file->len, "\xFF\xDA", 2);
    for (int c = 0; c < 3; c++)
        frame[10 + 3 * c] = scan[5 + 2 * c] = (uint8_t) "RGB"[c];
    struct sluice_rgb all, part;
    REQUIRE_OK(sluice_codec_decode(codec, file->data, file->len, 0, NULL, &all, NULL));
    for (int route = SLUICE_JPEG_CROP_BY_OURS; route <= SLUICE_JPEG_CROP_BY_LIBJPEG; route++) {
        const struct sluice_jpeg_crop_options options = {
            .allow_larger = true, .route = (enum sluice_jpeg_crop_route)route};
        const struct sluice_box box = {8, 16, 40, 40};
        struct sluice_buf *out = NULL;
        REQUIRE_OK(crop(file, &box, &options, &out));
        CU_ASSERT(route != SLUICE_JPEG_CROP_BY_OURS || contains(out, "JFIF") == has_jfif);
        REQUIRE_OK(sluice_codec_decode(codec, out->data, out->len, 0, NULL, &part, NULL));
        for (uint32_t y = 0; y < 40; y++)
            CU_ASSERT(memcmp(all.pixels->data + ((16 + y) * 96 + 8) * 3,
                             part.pixels->data + y * 40 * 3, (size_t)40 * 3) == 0);
        sluice_buf_unref(part.pixels);
        sluice_buf_unref(out);
    }
    sluice_buf_unref(all.pixels);
    sluice_codec_destroy(codec);
    sluice_buf_unref(file);
}

TEST(component_ids_that_mean_rgb_are_kept)
{
    check_rgb_ids(false);
    check_rgb_ids(true);
    struct sluice_buf *file = small_file(NULL), *out = NULL;
    REQUIRE_OK(crop(file, &(struct sluice_box){8, 16, 40, 40}, &larger, &out));
    CU_ASSERT(contains(file, "JFIF") && !contains(out, "JFIF"));
    sluice_buf_unref(out);
    sluice_buf_unref(file);
}

TEST(optimal_tables_are_smaller)
{
    static const struct sluice_jpeg_crop_options optimal = {.optimal_huffman = true};
    struct sluice_buf *file = small_file(NULL), *fast_crop = NULL, *optimal_crop = NULL;
    const struct sluice_box box = {16, 16, 40, 40}, all = {0, 0, 96, 80};
    REQUIRE_OK(crop(file, &box, NULL, &fast_crop));
    REQUIRE_OK(crop(file, &box, &optimal, &optimal_crop));
    CU_ASSERT(optimal_crop->len < fast_crop->len);
    sluice_buf_unref(optimal_crop);
    /* Even the whole image gains. */
    REQUIRE_OK(crop(file, &all, &optimal, &optimal_crop));
    CU_ASSERT(optimal_crop->len < file->len);
    sluice_buf_unref(optimal_crop);
    sluice_buf_unref(fast_crop);
    sluice_buf_unref(file);
}

/* So that the client's readers need not look for them; whatever the file has, and whoever cuts. */
TEST(each_row_is_a_segment)
{
    const struct sluice_box box = {20, 18, 50, 40};
    for (unsigned rows = 0; rows < 3; rows++) {
        struct sluice_buf *file =
            small_file(&(struct sluice_jpeg_encode_options){.quality = 90, .restart_rows = rows});
        for (unsigned i = 0; i < 4; i++) {
            const struct sluice_jpeg_crop_options options = {
                .allow_larger = true,
                .optimal_huffman = i & 1,
                .route = i & 2 ? SLUICE_JPEG_CROP_BY_LIBJPEG : SLUICE_JPEG_CROP_BY_OURS,
            };
            struct sluice_buf *out = NULL;
            struct sluice_jpeg jpeg;
            struct sluice_jpeg_scan scan = {0};
            REQUIRE_OK(crop(file, &box, &options, &out));
            REQUIRE_OK(sluice_jpeg_parse(out->data, out->len, &jpeg, NULL));
            REQUIRE_OK(sluice_jpeg_scan_read(&jpeg, NULL, &scan, NULL));
            CU_ASSERT_EQUAL(jpeg.restart_interval, jpeg.mcus_across);
            CU_ASSERT_EQUAL(scan.num_segments, jpeg.mcus_down);
            sluice_jpeg_scan_clear(&scan);
            sluice_buf_unref(out);
        }
        sluice_buf_unref(file);
    }
}

/* Without a restart interval a crop has the bytes that it has had since before there was one; the
 * hashes are of then. */
TEST(crops_without_restart_interval_stay_the_same)
{
    static const struct {
        const char *name;
        uint64_t hash;
    } files[] = {
        {"gray.jpg", 0x4196d3b0514dee4},     {"narrow.jpg", 0x1d2dac1f7d6bb75c},
        {"odd.jpg", 0x44aeee781b38cdde},     {"restart_2x2.jpg", 0x751cdb37440e720e},
        {"ycc_1x1.jpg", 0x51ba9b385472436f}, {"ycc_1x2.jpg", 0xa200ec1de75fd63d},
        {"ycc_2x2.jpg", 0x751cdb37440e720e}, {"ycc_4x1.jpg", 0x41fc50c91c140336},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(files); i++) {
        char path[1024];
        snprintf(path, sizeof(path), "%s/tests/golden/image/%s", sluice_test_source_dir(),
                 files[i].name);
        size_t len, crops_len = 0;
        uint8_t *bytes = sluice_test_read_file(path, &len), crops[1 << 14];
        struct sluice_image_info info;
        REQUIRE_OK(sluice_image_probe(bytes, len, &info, NULL));
        for (unsigned n = 0; n < 4; n++) {
            const struct sluice_box box = {.left = n & 1 ? info.width / 2 : 0,
                                           .top = n & 2 ? info.height / 2 : 0,
                                           .width = (info.width + 1) / 2,
                                           .height = (info.height + 1) / 2};
            const struct sluice_jpeg_crop_options options = {.optimal_huffman = n % 3 == 0,
                                                             .allow_larger = true,
                                                             .route = SLUICE_JPEG_CROP_BY_OURS};
            struct sluice_buf *out = NULL;
            REQUIRE_OK(sluice_jpeg_crop(bytes, len, &box, &options, NULL, &out, NULL, NULL));
            CU_ASSERT_FATAL(crops_len + out->len <= sizeof(crops));
            memcpy(crops + crops_len, out->data, out->len);
            crops_len += out->len;
            sluice_buf_unref(out);
        }
        const uint64_t hash = sluice_hash64(crops, crops_len);
        CU_ASSERT_EQUAL(hash, files[i].hash);
        if (hash != files[i].hash)
            printf("\n%s: %#llx\n", files[i].name, (unsigned long long)hash);
        free(bytes);
    }
}

/* --- restart intervals --- */

static bool is_same_box(const struct sluice_rgb *a, const struct sluice_jpeg_crop_box *a_window,
                        const struct sluice_rgb *b, const struct sluice_jpeg_crop_box *b_window,
                        const struct sluice_box *box)
{
    for (uint32_t y = box->top; y < box->top + box->height; y++) {
        const size_t from = (size_t)(y - a_window->top) * a->width + (box->left - a_window->left);
        const size_t to = (size_t)(y - b_window->top) * b->width + (box->left - b_window->left);
        if (memcmp(a->pixels->data + 3 * from, b->pixels->data + 3 * to, (size_t)box->width * 3) !=
            0)
            return false;
    }
    return true;
}

/* What is checked at each interval. */
struct restart_check {
    struct sluice_codec *codec;
    const struct sluice_buf *file;
    struct sluice_rgb all; /* its pixels */
    struct sluice_box box;
    struct sluice_jpeg_crop_options options;
};

/* The crop has a segment for each so many MCUs, and libjpeg-turbo finds in it, without a warning,
 * the pixels of the file. */
static void check_interval(const struct restart_check *check, uint32_t interval)
{
    struct sluice_jpeg_crop_options options = check->options;
    options.restart_interval = interval;
    struct sluice_buf *out = NULL;
    struct sluice_jpeg_crop_box window;
    REQUIRE_OK(sluice_jpeg_crop(check->file->data, check->file->len, &check->box, &options, NULL,
                                &out, &window, NULL));
    struct sluice_jpeg jpeg;
    struct sluice_jpeg_scan scan = {0};
    REQUIRE_OK(sluice_jpeg_parse(out->data, out->len, &jpeg, NULL));
    REQUIRE_OK(sluice_jpeg_scan_read(&jpeg, NULL, &scan, NULL));
    CU_ASSERT_EQUAL(jpeg.restart_interval, interval ? interval : jpeg.mcus_across);
    CU_ASSERT_EQUAL(scan.num_segments,
                    (jpeg.mcus_across * jpeg.mcus_down - 1) / jpeg.restart_interval + 1);
    sluice_jpeg_scan_clear(&scan);
    struct jpeg_test_coefficients coefficients;
    CU_ASSERT_FATAL(jpeg_test_read_coefficients(out->data, out->len, &coefficients));
    CU_ASSERT_EQUAL(coefficients.num_warnings, 0);
    jpeg_test_free_coefficients(&coefficients);
    const struct sluice_jpeg_crop_box whole = {0};
    struct sluice_rgb part;
    REQUIRE_OK(sluice_codec_decode(check->codec, out->data, out->len, 0, NULL, &part, NULL));
    const bool is_same = is_same_box(&check->all, &whole, &part, &window, &check->box);
    CU_ASSERT(is_same);
    if (!is_same)
        printf("\ninterval %u, box %u x %u at %u, %u\n", interval, check->box.width,
               check->box.height, check->box.left, check->box.top);
    sluice_buf_unref(part.pixels);
    sluice_buf_unref(out);
}

/* At each edge and corner, in the middle, and all. */
static const struct sluice_box edge_boxes[] = {
    {0, 0, 30, 25},  {75, 0, 58, 20},  {0, 50, 20, 37}, {100, 60, 33, 27}, {0, 33, 133, 9},
    {45, 0, 11, 87}, {41, 25, 56, 31}, {132, 86, 1, 1}, {0, 0, 133, 87},
};

static void check_intervals(struct restart_check *check, bool is_progressive, unsigned *turn)
{
    static const uint32_t intervals[] = {0,  1,  2,  3,  4,  5,  6,  7,   8,    9,
                                         10, 11, 12, 13, 14, 15, 16, 100, 65535};
    REQUIRE_OK(sluice_codec_decode(check->codec, check->file->data, check->file->len, 0, NULL,
                                   &check->all, NULL));
    struct sluice_jpeg_index index = {0};
    if (!is_progressive)
        REQUIRE_OK(
            sluice_jpeg_index_build(check->file->data, check->file->len, 0, 4, &index, NULL));
    index.is_partial = true; /* so that nothing but the index will do */
    for (size_t b = 0; b < SLUICE_ARRAY_LEN(edge_boxes); b++) {
        for (size_t i = 0; i < SLUICE_ARRAY_LEN(intervals); i++) {
            const unsigned way = (*turn)++ % 5;
            check->box = edge_boxes[b];
            check->options = (struct sluice_jpeg_crop_options){
                .optimal_huffman = way & 1,
                .allow_larger = true,
                .route = way == 4         ? SLUICE_JPEG_CROP_BY_LIBJPEG
                         : is_progressive ? SLUICE_JPEG_CROP_BY_ANY
                                          : SLUICE_JPEG_CROP_BY_OURS,
                .index = way >= 2 && way < 4 && !is_progressive ? &index : NULL,
            };
            check_interval(check, intervals[i]);
        }
    }
    sluice_jpeg_index_clear(&index);
    sluice_buf_unref(check->all.pixels);
}

/* Of every sampling, from files with restart markers of their own and without, with an index and
 * without, by every route; where the boxes and the intervals do not go together with the rows. */
TEST(restart_markers_come_every_so_many_mcus)
{
    struct restart_check check = {0};
    unsigned turn = 0;
    REQUIRE_OK(sluice_codec_create(&check.codec, NULL));
    for (size_t i = 0; i < jpeg_test_num_options; i++) {
        const bool is_progressive = jpeg_test_options[i].is_progressive;
        struct sluice_buf *file = jpeg_test_file(133, 87, i, &jpeg_test_options[i]);
        check.file = file;
        check_intervals(&check, is_progressive, &turn);
        if (!is_progressive) {
            struct sluice_buf *restarting = jpeg_test_with_restarts(file, 1 + (unsigned)i % 7);
            check.file = restarting;
            check_intervals(&check, false, &turn);
            sluice_buf_unref(restarting);
        }
        sluice_buf_unref(file);
    }
    sluice_codec_destroy(check.codec);
}

TEST(an_interval_of_a_row_is_none)
{
    struct sluice_buf *file = small_file(NULL);
    const struct sluice_box box = {20, 18, 50, 40};
    for (int way = 0; way < 4; way++) {
        struct sluice_jpeg_crop_options options = {
            .allow_larger = true,
            .optimal_huffman = way & 1,
            .route = way & 2 ? SLUICE_JPEG_CROP_BY_LIBJPEG : SLUICE_JPEG_CROP_BY_OURS,
        };
        struct sluice_buf *out = NULL, *same = NULL;
        struct sluice_jpeg jpeg;
        REQUIRE_OK(crop(file, &box, &options, &out));
        REQUIRE_OK(sluice_jpeg_parse(out->data, out->len, &jpeg, NULL));
        options.restart_interval = jpeg.mcus_across;
        REQUIRE_OK(crop(file, &box, &options, &same));
        CU_ASSERT(same->len == out->len && memcmp(same->data, out->data, out->len) == 0);
        sluice_buf_unref(same);
        sluice_buf_unref(out);
    }
    sluice_buf_unref(file);
}

TEST(rejects_an_interval_of_more_than_16_bits)
{
    struct sluice_buf *file = small_file(NULL), *out = NULL;
    const struct sluice_box box = {0, 0, 8, 8};
    for (int route = SLUICE_JPEG_CROP_BY_ANY; route <= SLUICE_JPEG_CROP_BY_LIBJPEG; route++) {
        const struct sluice_jpeg_crop_options options = {
            .allow_larger = true,
            .route = (enum sluice_jpeg_crop_route)route,
            .restart_interval = SLUICE_JPEG_MAX_RESTART_INTERVAL + 1};
        CU_ASSERT_EQUAL(crop(file, &box, &options, &out), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NULL(out);
    }
    sluice_buf_unref(file);
}

/* Markers count when it is said that a crop would not be smaller. */
TEST(markers_may_make_a_crop_too_large)
{
    const struct sluice_jpeg_encode_options small = {
        .is_gray = true, .quality = 10, .optimize = true};
    struct sluice_buf *file = small_file(&small), *dense = NULL;
    const struct sluice_box box = {0, 0, 96, 72}; /* all but the last row of MCUs */
    struct sluice_jpeg_crop_options options = {.restart_interval = 1, .allow_larger = true};
    REQUIRE_OK(crop(file, &box, &options, &dense));
    CU_ASSERT_FATAL(dense->len > file->len + 8);
    options.allow_larger = false;
    /* A comment makes the file as long as its crop, and up to 2 bytes shorter or longer. */
    for (long more = -2; more <= 2; more++) {
        const size_t comment = (size_t)((long)(dense->len - file->len) + more);
        uint8_t *bytes = calloc(1, comment);
        CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
        bytes[0] = 0xFF;
        bytes[1] = 0xFE;
        bytes[2] = (uint8_t)((comment - 2) >> 8);
        bytes[3] = (uint8_t)(comment - 2);
        struct sluice_buf *padded = insert(file, 2, bytes, comment), *out = NULL;
        CU_ASSERT_EQUAL(crop(padded, &box, &options, &out), more > 0 ? SLUICE_OK : SLUICE_E_AGAIN);
        if (out)
            CU_ASSERT(out->len == dense->len && memcmp(out->data, dense->data, out->len) == 0);
        sluice_buf_unref(out);
        sluice_buf_unref(padded);
        free(bytes);
    }
    sluice_buf_unref(dense);
    sluice_buf_unref(file);
}

TEST(truncated_and_damaged_files_are_refused)
{
    const struct sluice_box box = {0, 0, 8, 8};
    struct sluice_buf *out = NULL;
    for (int i = 0; i < 3; i++) {
        struct sluice_buf *file = small_file(
            &(struct sluice_jpeg_encode_options){.is_progressive = i == 1, .restart_rows = i == 2});
        const size_t len = file->len;
        for (size_t cut = 0; cut < len; cut += 1 + cut / 64) {
            file->len = cut;
            const sluice_status status = crop(file, &box, &larger, &out);
            CU_ASSERT(status == SLUICE_E_UNSUPPORTED || status == SLUICE_E_CORRUPT);
        }
        file->len = len - 2; /* only the EOI is missing */
        CU_ASSERT_EQUAL(crop(file, &box, &larger, &out), SLUICE_E_UNSUPPORTED);
        file->len = len;
        CHECK_OK(crop(file, &box, &larger, &out));
        sluice_buf_unref(out);
        sluice_buf_unref(file);
    }
}

/* A progressive file without its last scans: whole, but libjpeg would smooth it. */
TEST(an_unfinished_progression_is_refused)
{
    struct sluice_buf *file =
        small_file(&(struct sluice_jpeg_encode_options){.is_progressive = true, .is_gray = true});
    const struct sluice_box box = {0, 0, 8, 8};
    struct sluice_buf *out = NULL;
    uint8_t *first = memmem(file->data, file->len, "\xFF\xDA", 2);
    uint8_t *second =
        memmem(first + 2, (size_t)(file->data + file->len - first) - 2, "\xFF\xDA", 2);
    CU_ASSERT_PTR_NOT_NULL_FATAL(second);
    /* Cut at the table that comes before the second scan. */
    uint8_t *table = memmem(first + 2, (size_t)(second - first) - 2, "\xFF\xC4", 2);
    uint8_t *end = table ? table : second;
    end[0] = 0xFF;
    end[1] = 0xD9;
    file->len = (size_t)(end + 2 - file->data);
    CU_ASSERT_EQUAL(crop(file, &box, &larger, &out), SLUICE_E_UNSUPPORTED);
    CU_ASSERT_PTR_NULL(out);
    sluice_buf_unref(file);
}

TEST(too_many_pixels_are_refused_by_the_header)
{
    const struct sluice_box box = {0, 0, 8, 8};
    for (int i = 0; i < 2; i++) {
        struct sluice_buf *file =
            small_file(&(struct sluice_jpeg_encode_options){.is_progressive = i == 1});
        struct sluice_buf *out = NULL;
        struct sluice_jpeg_crop_options options = {.allow_larger = true, .max_pixels = 96 * 80};
        CHECK_OK(crop(file, &box, &options, &out));
        sluice_buf_unref(out);
        out = NULL;
        options.max_pixels--;
        CU_ASSERT_EQUAL(crop(file, &box, &options, &out), SLUICE_E_UNSUPPORTED);
        CU_ASSERT_PTR_NULL(out);
        sluice_buf_unref(file);
    }
}

/* All DC differences of a flat image are 0 but the first, so its own table has two
 * categories; a box that begins behind a step needs others. */
TEST(categories_that_a_table_lacks_are_appended)
{
    uint8_t *pixels = malloc((size_t)64 * 64 * 3);
    for (size_t i = 0; i < (size_t)64 * 64 * 3; i++)
        pixels[i] = (uint8_t)(i / 3 % 64 * 4);
    struct sluice_buf *file = NULL, *out = NULL;
    REQUIRE_OK(sluice_jpeg_encode(
        pixels, 64, 64,
        &(struct sluice_jpeg_encode_options){.is_gray = true, .optimize = true, .quality = 100},
        &file, NULL));
    free(pixels);
    struct sluice_jpeg before, after;
    REQUIRE_OK(sluice_jpeg_parse(file->data, file->len, &before, NULL));
    const struct sluice_box box = {32, 8, 8, 24};
    REQUIRE_OK(crop(
        file, &box,
        &(struct sluice_jpeg_crop_options){.allow_larger = true, .route = SLUICE_JPEG_CROP_BY_OURS},
        &out));
    REQUIRE_OK(sluice_jpeg_parse(out->data, out->len, &after, NULL));
    CU_ASSERT(before.dc[0].num_symbols < 12);
    CU_ASSERT_EQUAL(after.dc[0].num_symbols, 12);
    /* What was there keeps its code. */
    struct sluice_jpeg_codes old, new;
    sluice_jpeg_codes_init(&old, &before.dc[0]);
    sluice_jpeg_codes_init(&new, &after.dc[0]);
    for (unsigned i = 0; i < before.dc[0].num_symbols; i++) {
        const unsigned symbol = before.dc[0].symbols[i];
        CU_ASSERT_EQUAL(old.code[symbol], new.code[symbol]);
        CU_ASSERT_EQUAL(old.length[symbol], new.length[symbol]);
    }
    struct jpeg_test_coefficients coefficients;
    CU_ASSERT_FATAL(jpeg_test_read_coefficients(out->data, out->len, &coefficients));
    CU_ASSERT_EQUAL(coefficients.num_warnings, 0);
    jpeg_test_free_coefficients(&coefficients);
    sluice_buf_unref(out);
    sluice_buf_unref(file);
}

TEST(a_crop_says_where_it_was)
{
    struct sluice_buf *file =
        small_file(&(struct sluice_jpeg_encode_options){.h_samp = 1, .v_samp = 1});
    struct sluice_buf *out = NULL;
    struct sluice_jpeg_crop_box window = {0}, told = {0};
    const struct sluice_box box = {19, 33, 20, 9};
    REQUIRE_OK(sluice_jpeg_crop(file->data, file->len, &box, &larger, NULL, &out, &window, NULL));
    CU_ASSERT(window.full_width == 96 && window.full_height == 80);
    CU_ASSERT(window.left == 16 && window.top == 32 && window.width == 24 && window.height == 16);
    CHECK_OK(sluice_jpeg_crop_window(out->data, out->len, &told, NULL));
    CU_ASSERT(memcmp(&window, &told, sizeof(told)) == 0);

    told.left = 4711;
    CU_ASSERT_EQUAL(sluice_jpeg_crop_window(file->data, file->len, &told, NULL), SLUICE_E_CORRUPT);
    for (size_t len = 0; len < 60; len++)
        CU_ASSERT_EQUAL(sluice_jpeg_crop_window(out->data, len, &told, NULL), SLUICE_E_CORRUPT);
    /* Too far right, too far down, in too small an image; a version to come. */
    static const struct {
        size_t at;
        uint8_t value;
    } changes[] = {{19, 73}, {21, 65}, {15, 39}, {17, 47}, {13, 2}, {18, 255}, {20, 255}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(changes); i++) {
        const uint8_t was = out->data[changes[i].at];
        out->data[changes[i].at] = changes[i].value;
        struct sluice_err err = {{0}};
        CU_ASSERT_EQUAL(sluice_jpeg_crop_window(out->data, out->len, &told, &err),
                        SLUICE_E_CORRUPT);
        CU_ASSERT(err.text[0] != 0);
        out->data[changes[i].at] = was;
    }
    CU_ASSERT_EQUAL(told.left, 4711);
    sluice_buf_unref(out);
    sluice_buf_unref(file);
}

TEST(buffers_come_from_the_pool)
{
    struct sluice_buf_pool *pool = NULL;
    REQUIRE_OK(sluice_buf_pool_create(1 << 20, &pool, NULL));
    const struct sluice_box box = {16, 16, 40, 40};
    for (int i = 0; i < 2; i++) {
        struct sluice_buf *file =
            small_file(&(struct sluice_jpeg_encode_options){.is_progressive = i == 1});
        struct sluice_buf *out = NULL;
        REQUIRE_OK(sluice_jpeg_crop(file->data, file->len, &box, &larger, pool, &out, NULL, NULL));
        CU_ASSERT_PTR_EQUAL(out->pool, pool);
        sluice_buf_unref(out);
        sluice_buf_unref(file);
    }
    sluice_buf_pool_destroy(pool);
}
