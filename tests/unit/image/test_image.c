#include "image/image.h"

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "image/image_internal.h"

#include "image_support.h"
#include "support/test.h"

TEST(probe_reads_jpeg_headers)
{
    uint8_t *pixels = image_test_picture(50, 40);
    for (int h = 1; h <= 4; h *= 2) {
        for (int v = 1; v <= 2; v++) {
            const struct sluice_jpeg_encode_options options = {
                .h_samp = h, .v_samp = v, .is_progressive = h == 2};
            struct sluice_buf *file;
            REQUIRE_OK(sluice_jpeg_encode(pixels, 50, 40, &options, &file, NULL));
            struct sluice_image_info info;
            CHECK_OK(sluice_image_probe(file->data, file->len, &info, NULL));
            CU_ASSERT_EQUAL(info.format, SLUICE_IMAGE_JPEG);
            CU_ASSERT_EQUAL(info.width, 50);
            CU_ASSERT_EQUAL(info.height, 40);
            CU_ASSERT_EQUAL(info.num_components, 3);
            CU_ASSERT_EQUAL(info.h_samp, h);
            CU_ASSERT_EQUAL(info.v_samp, v);
            CU_ASSERT_EQUAL(info.is_progressive, h == 2);
            sluice_buf_unref(file);
        }
    }
    free(pixels);

    static const struct {
        enum image_test_kind kind;
        unsigned num_components;
    } others[] = {{IMAGE_TEST_GRAY, 1}, {IMAGE_TEST_CMYK, 4}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++) {
        struct sluice_buf *file = image_test_file(others[i].kind, 9, 7);
        struct sluice_image_info info;
        CHECK_OK(sluice_image_probe(file->data, file->len, &info, NULL));
        CU_ASSERT_EQUAL(info.num_components, others[i].num_components);
        CU_ASSERT_EQUAL(info.h_samp, 1);
        sluice_buf_unref(file);
    }
}

TEST(probe_reads_png_headers)
{
    struct sluice_buf *file = image_test_file(IMAGE_TEST_PNG, 31, 12);
    struct sluice_image_info info;
    CHECK_OK(sluice_image_probe(file->data, file->len, &info, NULL));
    CU_ASSERT_EQUAL(info.format, SLUICE_IMAGE_PNG);
    CU_ASSERT_EQUAL(info.width, 31);
    CU_ASSERT_EQUAL(info.height, 12);
    CU_ASSERT_EQUAL(info.num_components, 3);
    CU_ASSERT_FALSE(info.is_progressive);
    static const uint8_t components[7] = {1, 0, 3, 1, 2, 0, 4};
    for (unsigned type = 0; type < 8; type++) {
        file->data[25] = (uint8_t)type;
        file->data[28] = 1; /* interlaced */
        const sluice_status status = sluice_image_probe(file->data, file->len, &info, NULL);
        if (type < 7 && components[type]) {
            CHECK_OK(status);
            CU_ASSERT_EQUAL(info.num_components, components[type]);
            CU_ASSERT(info.is_progressive);
        } else {
            CU_ASSERT_EQUAL(status, SLUICE_E_CORRUPT);
        }
    }
    sluice_buf_unref(file);
}

TEST(probe_needs_the_whole_header_and_no_more)
{
    for (int kind = 0; kind < IMAGE_TEST_NUM_KINDS; kind++) {
        struct sluice_buf *file = image_test_file((enum image_test_kind)kind, 20, 20);
        bool was_ok = false;
        for (size_t len = 0; len <= file->len; len++) {
            uint8_t *bytes = malloc(len + !len); /* of this size, for asan */
            memcpy(bytes, file->data, len);
            struct sluice_image_info info = {.width = 5};
            struct sluice_err err = {{0}};
            const sluice_status status = sluice_image_probe(bytes, len, &info, &err);
            CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_CORRUPT);
            CU_ASSERT_EQUAL(info.width, status == SLUICE_OK ? 20 : 5);
            CU_ASSERT(!was_ok || status == SLUICE_OK);
            was_ok = status == SLUICE_OK;
            free(bytes);
        }
        CU_ASSERT(was_ok);
        sluice_buf_unref(file);
    }
}

TEST(sizes_have_a_side_and_an_area)
{
    CHECK_OK(sluice_image_check_size(65535, 2, 131070, NULL));
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "131069",
                sluice_image_check_size(65535, 2, 131069, sluice_test_err()));
    CU_ASSERT_EQUAL(sluice_image_check_size(1, 65536, UINT64_MAX, sluice_test_err()),
                    SLUICE_E_UNSUPPORTED);
    CU_ASSERT_EQUAL(sluice_image_check_size(UINT32_MAX, UINT32_MAX, UINT64_MAX, sluice_test_err()),
                    SLUICE_E_UNSUPPORTED);
}

TEST(a_box_is_within_or_not)
{
    static const struct {
        struct sluice_box box;
        bool is_within;
    } boxes[] = {
        {{0, 0, 10, 20}, true},  {{9, 19, 1, 1}, true},
        {{0, 0, 11, 20}, false}, {{1, 0, 10, 20}, false},
        {{0, 1, 10, 20}, false}, {{0, 0, 0, 1}, false},
        {{0, 0, 1, 0}, false},   {{UINT32_MAX, 0, 2, 1}, false},
        {{10, 0, 1, 1}, false},  {{0, UINT32_MAX, 1, UINT32_MAX}, false},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(boxes); i++)
        CU_ASSERT_EQUAL(sluice_box_is_within(&boxes[i].box, 10, 20), boxes[i].is_within);
}

TEST(a_writer_keeps_what_it_has)
{
    struct sluice_image_writer writer = {0};
    for (size_t i = 0; i < 100000; i += 1000) {
        REQUIRE_OK(sluice_image_writer_reserve(&writer, 1000, NULL));
        CU_ASSERT(writer.file->capacity - writer.file->len >= 1000);
        CU_ASSERT_EQUAL(writer.file->len, i);
        memset(writer.file->data + i, (int)(i / 1000), 1000);
        writer.file->len += 1000;
    }
    for (size_t i = 0; i < 100000; i += 999)
        CU_ASSERT_EQUAL(writer.file->data[i], i / 1000);
    CU_ASSERT_EQUAL(sluice_image_writer_reserve(&writer, SIZE_MAX, NULL), SLUICE_E_NO_MEMORY);
    CU_ASSERT_EQUAL(writer.file->len, 100000);
    sluice_buf_unref(writer.file);
}

TEST(a_frame_header_has_what_decoders_ask_of_it)
{
    static const struct {
        uint8_t body[15];
        size_t len;
        sluice_status status;
    } cases[] = {
        {{8, 0, 9, 0, 7, 1, 1, 0x11, 0}, 9, SLUICE_OK},
        {{8, 255, 255, 255, 255, 3, 1, 0x44, 0, 2, 0x14, 1, 3, 0x41, 1}, 15, SLUICE_OK},
        {{8, 0, 9, 0, 7}, 5, SLUICE_E_CORRUPT},
        {{12, 0, 9, 0, 7, 1, 1, 0x11, 0}, 9, SLUICE_E_UNSUPPORTED},
        {{8, 0, 0, 0, 7, 1, 1, 0x11, 0}, 9, SLUICE_E_CORRUPT},
        {{8, 0, 9, 0, 0, 1, 1, 0x11, 0}, 9, SLUICE_E_CORRUPT},
        {{8, 0, 9, 0, 7, 2, 1, 0x11, 0, 2, 0x11, 0}, 12, SLUICE_E_UNSUPPORTED},
        {{8, 0, 9, 0, 7, 3, 1, 0x11, 0, 2, 0x11, 0}, 12, SLUICE_E_CORRUPT},
        {{8, 0, 9, 0, 7, 1, 1, 0x11, 0, 0}, 10, SLUICE_E_CORRUPT},
        {{8, 0, 9, 0, 7, 1, 1, 0x10, 0}, 9, SLUICE_E_CORRUPT},
        {{8, 0, 9, 0, 7, 1, 1, 0x51, 0}, 9, SLUICE_E_CORRUPT},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++)
        CU_ASSERT_EQUAL(sluice_jpeg_check_frame(cases[i].body, cases[i].len, NULL),
                        cases[i].status);
}

TEST(the_suffix_is_by_the_first_bytes)
{
    static const struct {
        const char *begin;
        size_t len;
        const char *suffix;
    } known[] = {
        {"\xFF\xD8\xFF", 3, ".jpg"},
        {"\x89PNG\r\n\x1a\n", 8, ".png"},
        {"RIFF\0\0\0\0WEBPVP8 ", 16, ".webp"},
        {"GIF89a", 6, ".gif"},
        {"II*\0", 4, ".tif"},
        {"MM\0*", 4, ".tif"},
        {"P5\n", 3, ".pgm"},
        {"P6 ", 3, ".ppm"},
        {"BM", 2, ".bmp"},
        {"RIFF\0\0\0\0WAVEfmt ", 16, NULL},
        {"P4\n", 3, NULL},
        {"\xFF\xD8", 2, NULL},
        {"", 0, NULL},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(known); i++) {
        const char *suffix = sluice_image_suffix((const uint8_t *)known[i].begin, known[i].len);
        CU_ASSERT_FATAL((suffix == NULL) == (known[i].suffix == NULL));
        if (suffix)
            CU_ASSERT_STRING_EQUAL(suffix, known[i].suffix);
    }
}
