#include "image/codecs/codec.h"

#include "base/buf.h"
#include "base/rng.h"

#include "image_support.h"
#include "support/test.h"

static struct sluice_codec *codec;

/* Stands before the real one (linked with --wrap): counts, and fails on request. */
static unsigned num_bufs;
static bool has_no_memory;

sluice_status __real_sluice_buf_create(struct sluice_buf_pool *pool, size_t capacity,
                                       struct sluice_buf **buf, struct sluice_err *err);
sluice_status __wrap_sluice_buf_create(struct sluice_buf_pool *pool, size_t capacity,
                                       struct sluice_buf **buf, struct sluice_err *err);
sluice_status __wrap_sluice_buf_create(struct sluice_buf_pool *pool, size_t capacity,
                                       struct sluice_buf **buf, struct sluice_err *err)
{
    num_bufs++;
    if (has_no_memory)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "none left");
    return __real_sluice_buf_create(pool, capacity, buf, err);
}

static sluice_status decode(const uint8_t *bytes, size_t len, struct sluice_rgb *rgb,
                            struct sluice_err *err)
{
    err->text[0] = 0;
    return sluice_codec_decode(codec, bytes, len, 0, NULL, rgb, err);
}

/* The status of a decode that must fail, checking that it says why and touches nothing. */
static sluice_status failing_decode(const uint8_t *bytes, size_t len, uint64_t max_pixels,
                                    struct sluice_err *err)
{
    struct sluice_rgb rgb = {.width = 77, .height = 78, .pixels = (struct sluice_buf *)&rgb};
    err->text[0] = 0;
    const sluice_status status =
        sluice_codec_decode(codec, bytes, len, max_pixels, NULL, &rgb, err);
    CU_ASSERT_NOT_EQUAL(status, SLUICE_OK);
    CU_ASSERT(strlen(err->text) > 0);
    CU_ASSERT(rgb.width == 77 && rgb.height == 78 && rgb.pixels == (struct sluice_buf *)&rgb);
    return status;
}

/* SOI, one frame header with the given fields, EOI. */
static size_t put_jpeg_header(uint8_t *out, unsigned sof, unsigned precision, unsigned width,
                              unsigned height, unsigned num_components)
{
    size_t n = 0;
    const uint8_t head[] = {0xFF,
                            0xD8,
                            0xFF,
                            (uint8_t)sof,
                            0,
                            (uint8_t)(8 + 3 * num_components),
                            (uint8_t)precision,
                            (uint8_t)(height >> 8),
                            (uint8_t)height,
                            (uint8_t)(width >> 8),
                            (uint8_t)width,
                            (uint8_t)num_components};
    memcpy(out, head, sizeof(head));
    n += sizeof(head);
    for (unsigned c = 0; c < num_components; c++) {
        out[n++] = (uint8_t)(c + 1);
        out[n++] = 0x11;
        out[n++] = 0;
    }
    out[n++] = 0xFF;
    out[n++] = 0xD9;
    return n;
}

static void put_be32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> (24 - 8 * i));
}

TEST(other_formats_are_named)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *word;
    } files[] = {
        {"RIFF....WEBPVP9 ", 16, "WebP"},
        {"BM..................", 20, "BMP"},
        {"....ftypheic....", 16, "HEIF"},
        {"<!DOCTYPE html>.", 16, "HTML"},
        {"%PDF-1.7........", 16, "PDF"},
        {"hello, this is te", 16, "68 65"},
        {"x", 1, "78"},
        {"\xFF\xD8\0\0", 4, "ff d8"},
        {"\x89PNG\r\n\x1a\r....", 12, "89 50"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(files); i++) {
        struct sluice_err err = {{0}};
        CU_ASSERT_EQUAL(failing_decode((const uint8_t *)files[i].bytes, files[i].len, 0, &err),
                        SLUICE_E_UNSUPPORTED);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, files[i].word));
    }
    struct sluice_err err;
    CU_ASSERT_EQUAL(failing_decode((const uint8_t *)"", 0, 0, &err), SLUICE_E_CORRUPT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "empty"));
}

TEST(contradicting_headers_are_corrupt)
{
    uint8_t bytes[64];
    struct sluice_err err;
    size_t len = put_jpeg_header(bytes, 0xC0, 8, 0, 10, 3);
    CU_ASSERT_EQUAL(failing_decode(bytes, len, 0, &err), SLUICE_E_CORRUPT);
    len = put_jpeg_header(bytes, 0xC0, 8, 10, 0, 3);
    CU_ASSERT_EQUAL(failing_decode(bytes, len, 0, &err), SLUICE_E_CORRUPT);
    len = put_jpeg_header(bytes, 0xC0, 8, 10, 10, 3);
    bytes[5]++; /* one byte more than three components take */
    CU_ASSERT_EQUAL(failing_decode(bytes, len, 0, &err), SLUICE_E_CORRUPT);
    len = put_jpeg_header(bytes, 0xC0, 8, 10, 10, 3);
    bytes[13] = 0x51; /* a sampling factor of 5 */
    CU_ASSERT_EQUAL(failing_decode(bytes, len, 0, &err), SLUICE_E_CORRUPT);
    bytes[13] = 0x01;
    CU_ASSERT_EQUAL(failing_decode(bytes, len, 0, &err), SLUICE_E_CORRUPT);
    len = put_jpeg_header(bytes, 0xDA, 8, 10, 10, 3); /* a scan comes first */
    CU_ASSERT_EQUAL(failing_decode(bytes, len, 0, &err), SLUICE_E_CORRUPT);

    struct sluice_buf *file = image_test_file(IMAGE_TEST_PNG, 8, 8);
    static const struct {
        unsigned at, value;
    } changes[] = {{11, 14}, {12, 'J'}, {19, 0}, {23, 0}, {24, 3},
                   {25, 5},  {26, 1},   {27, 1}, {28, 2}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(changes); i++) {
        const uint8_t old = file->data[changes[i].at];
        file->data[changes[i].at] = (uint8_t)changes[i].value;
        CU_ASSERT_EQUAL(failing_decode(file->data, file->len, 0, &err), SLUICE_E_CORRUPT);
        file->data[changes[i].at] = old;
    }
    sluice_buf_unref(file);
}

TEST(what_libjpeg_cannot_do_is_unsupported)
{
    static const struct {
        unsigned sof, precision, num_components;
    } headers[] = {{0xC0, 12, 3}, {0xC1, 16, 1}, {0xC3, 8, 3}, {0xC5, 8, 3},
                   {0xCB, 8, 3},  {0xCF, 8, 3},  {0xC0, 8, 2}, {0xC0, 8, 5}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(headers); i++) {
        uint8_t bytes[64];
        struct sluice_err err;
        const size_t len = put_jpeg_header(bytes, headers[i].sof, headers[i].precision, 10, 10,
                                           headers[i].num_components);
        CU_ASSERT_EQUAL(failing_decode(bytes, len, 0, &err), SLUICE_E_UNSUPPORTED);
    }
}

TEST(huge_headers_are_refused_before_any_allocation)
{
    uint8_t bytes[64];
    num_bufs = 0;
    const size_t len = put_jpeg_header(bytes, 0xC0, 8, 60000, 60000, 3);
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "60000 x 60000",
                failing_decode(bytes, len, 0, sluice_test_err()));
    CU_ASSERT_EQUAL(num_bufs, 0);

    struct sluice_buf *file = image_test_file(IMAGE_TEST_PNG, 8, 8);
    num_bufs = 0;
    put_be32(file->data + 16, 60000);
    put_be32(file->data + 20, 60000);
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "60000 x 60000",
                failing_decode(file->data, file->len, 0, sluice_test_err()));
    put_be32(file->data + 16, 65536);
    put_be32(file->data + 20, 1);
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "65536 x 1",
                failing_decode(file->data, file->len, 0, sluice_test_err()));
    CU_ASSERT_EQUAL(num_bufs, 0);
    sluice_buf_unref(file);
}

TEST(max_pixels_is_the_last_size_that_decodes)
{
    for (int kind = 0; kind < IMAGE_TEST_NUM_KINDS; kind++) {
        struct sluice_buf *file = image_test_file((enum image_test_kind)kind, 20, 30);
        struct sluice_err err = {{0}};
        struct sluice_rgb rgb = {0};
        CU_ASSERT_EQUAL(failing_decode(file->data, file->len, 599, &err), SLUICE_E_UNSUPPORTED);
        CHECK_OK(sluice_codec_decode(codec, file->data, file->len, 600, NULL, &rgb, NULL));
        sluice_buf_unref(rgb.pixels);
        sluice_buf_unref(file);
    }
}

TEST(no_memory_is_a_status)
{
    for (int kind = 0; kind < IMAGE_TEST_NUM_KINDS; kind++) {
        struct sluice_buf *file = image_test_file((enum image_test_kind)kind, 20, 30);
        struct sluice_err err = {{0}};
        has_no_memory = true;
        CU_ASSERT_EQUAL(failing_decode(file->data, file->len, 0, &err), SLUICE_E_NO_MEMORY);
        has_no_memory = false;
        sluice_buf_unref(file);
    }
    has_no_memory = true;
    uint8_t pixel[3] = {1, 2, 3};
    struct sluice_buf *file = NULL;
    struct sluice_err err = {{0}};
    CU_ASSERT_EQUAL(
        sluice_jpeg_encode(pixel, 1, 1, &(struct sluice_jpeg_encode_options){0}, &file, &err),
        SLUICE_E_NO_MEMORY);
    CU_ASSERT_EQUAL(sluice_png_encode(pixel, 1, 1, 1, &file, &err), SLUICE_E_NO_MEMORY);
    CU_ASSERT_PTR_NULL(file);
    has_no_memory = false;
}

TEST(every_cut_is_corrupt)
{
    for (int kind = 0; kind < IMAGE_TEST_NUM_KINDS; kind++) {
        struct sluice_buf *file = image_test_file((enum image_test_kind)kind, 21, 19);
        for (size_t len = 0; len < file->len; len++) {
            uint8_t *bytes = malloc(len + !len);
            memcpy(bytes, file->data, len);
            struct sluice_err err;
            const sluice_status status = failing_decode(bytes, len, 0, &err);
            if (status != SLUICE_E_CORRUPT)
                printf("kind %d cut at %zu of %zu: %s\n", kind, len, file->len, err.text);
            CU_ASSERT_EQUAL(status, SLUICE_E_CORRUPT);
            free(bytes);
        }
        sluice_buf_unref(file);
    }
}

TEST(bytes_after_the_end_are_ignored)
{
    for (int kind = 0; kind < IMAGE_TEST_NUM_KINDS; kind++) {
        struct sluice_buf *file = image_test_file((enum image_test_kind)kind, 21, 19);
        uint8_t *longer = calloc(1, file->len + 1000);
        memcpy(longer, file->data, file->len);
        struct sluice_err err;
        struct sluice_rgb plain = {0}, rgb = {0};
        CHECK_OK(decode(file->data, file->len, &plain, &err));
        CHECK_OK(decode(longer, file->len + 1000, &rgb, &err));
        CU_ASSERT_EQUAL(memcmp(plain.pixels->data, rgb.pixels->data, plain.pixels->len), 0);
        sluice_buf_unref(plain.pixels);
        sluice_buf_unref(rgb.pixels);
        sluice_buf_unref(file);
        free(longer);
    }
}

TEST(random_damage_never_does_more_than_fail)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    unsigned num_ok = 0, num_failed = 0;
    for (int i = 0; i < 900; i++) {
        struct sluice_buf *file =
            image_test_file((enum image_test_kind)(i % IMAGE_TEST_NUM_KINDS), 24, 18);
        const unsigned num_flips = 1 + sluice_rng_below(&rng, 4);
        for (unsigned f = 0; f < num_flips; f++)
            file->data[sluice_rng_below(&rng, (uint32_t)file->len)] ^=
                (uint8_t)(1u << sluice_rng_below(&rng, 8));
        uint8_t *bytes = malloc(file->len);
        memcpy(bytes, file->data, file->len);
        struct sluice_rgb rgb = {0};
        struct sluice_err err = {{0}};
        const sluice_status status =
            sluice_codec_decode(codec, bytes, file->len, 100000, NULL, &rgb, &err);
        if (status == SLUICE_OK) {
            CU_ASSERT_EQUAL(rgb.pixels->len, (size_t)rgb.width * rgb.height * 3);
            num_ok++;
        } else {
            CU_ASSERT(status == SLUICE_E_CORRUPT || status == SLUICE_E_UNSUPPORTED);
            CU_ASSERT(strlen(err.text) > 0);
            CU_ASSERT_PTR_NULL(rgb.pixels);
            num_failed++;
        }
        sluice_buf_unref(rgb.pixels);
        sluice_buf_unref(file);
        free(bytes);
    }
    CU_ASSERT(num_ok > 100 && num_failed > 100); /* the damage is neither nothing nor all */
}

/* The file without its Huffman tables: libjpeg then uses the standard ones, which
 * are what an encoder without optimisation used. */
static size_t drop_huffman_tables(const uint8_t *bytes, size_t len, uint8_t *out)
{
    size_t pos = 2, n = 2;
    memcpy(out, bytes, 2);
    while (bytes[pos + 1] != 0xDA) {
        const size_t segment = 2 + ((size_t)bytes[pos + 2] << 8 | bytes[pos + 3]);
        if (bytes[pos + 1] != 0xC4) {
            memcpy(out + n, bytes + pos, segment);
            n += segment;
        }
        pos += segment;
    }
    memcpy(out + n, bytes + pos, len - pos);
    return n + len - pos;
}

TEST(nothing_of_one_image_reaches_the_next)
{
    uint8_t *pixels = image_test_picture(40, 40);
    struct sluice_buf *standard, *own;
    REQUIRE_OK(sluice_jpeg_encode(pixels, 40, 40, &(struct sluice_jpeg_encode_options){0},
                                  &standard, NULL));
    REQUIRE_OK(sluice_jpeg_encode(
        pixels, 40, 40, &(struct sluice_jpeg_encode_options){.optimize = true, .quality = 30}, &own,
        NULL));
    uint8_t *bare = malloc(standard->len);
    const size_t bare_len = drop_huffman_tables(standard->data, standard->len, bare);
    CU_ASSERT(bare_len < standard->len);

    struct sluice_rgb wanted = {0}, first = {0}, got = {0};
    struct sluice_err err;
    CHECK_OK(decode(standard->data, standard->len, &wanted, &err));
    CHECK_OK(decode(own->data, own->len, &first, &err));
    CHECK_OK(decode(bare, bare_len, &got, &err));
    CU_ASSERT_EQUAL(memcmp(wanted.pixels->data, got.pixels->data, wanted.pixels->len), 0);
    sluice_buf_unref(got.pixels);

    /* Nor after an image that failed in its middle. */
    CU_ASSERT_EQUAL(failing_decode(own->data, own->len / 2, 0, &err), SLUICE_E_CORRUPT);
    CHECK_OK(decode(bare, bare_len, &got, &err));
    CU_ASSERT_EQUAL(memcmp(wanted.pixels->data, got.pixels->data, wanted.pixels->len), 0);
    sluice_buf_unref(got.pixels);
    sluice_buf_unref(wanted.pixels);
    sluice_buf_unref(first.pixels);
    sluice_buf_unref(standard);
    sluice_buf_unref(own);
    free(bare);
    free(pixels);
}

TEST(pixels_come_from_the_pool)
{
    struct sluice_buf_pool *pool;
    REQUIRE_OK(sluice_buf_pool_create(1 << 20, &pool, NULL));
    for (int kind = 0; kind < IMAGE_TEST_NUM_KINDS; kind++) {
        struct sluice_buf *file = image_test_file((enum image_test_kind)kind, 20, 30);
        struct sluice_rgb rgb = {0};
        CHECK_OK(sluice_codec_decode(codec, file->data, file->len, 0, pool, &rgb, NULL));
        CU_ASSERT_PTR_EQUAL(rgb.pixels->pool, pool);
        sluice_buf_unref(rgb.pixels);
        sluice_buf_unref(file);
    }
    sluice_buf_pool_destroy(pool);
}

TEST(destroy_takes_null)
{
    sluice_codec_destroy(NULL);
}

int main(void)
{
    if (sluice_codec_create(&codec, NULL) != SLUICE_OK)
        return 1;
    const int result = sluice_test_main();
    sluice_codec_destroy(codec);
    return result;
}
