#include "format_support.h"

#include "base/buf.h"
#include "support/test.h"

uint8_t *test_read_format(const char *name, size_t *len)
{
    char path[1300];
    snprintf(path, sizeof(path), "%s/tests/golden/formats/%s", sluice_test_source_dir(), name);
    return sluice_test_read_file(path, len);
}

sluice_status test_decode_format(const uint8_t *bytes, size_t len, struct sluice_err *err)
{
    static struct sluice_codec *codec;
    if (!codec)
        REQUIRE_OK(sluice_codec_create(&codec, NULL));
    uint8_t *copy = malloc(len + 1);
    memcpy(copy + 1, bytes, len);
    struct sluice_rgb rgb = {0};
    err->text[0] = '\0';
    const sluice_status status =
        sluice_codec_decode(codec, copy + 1, len, 1 << 20, NULL, &rgb, err);
    CU_ASSERT_EQUAL(status == SLUICE_OK, err->text[0] == '\0');
    struct sluice_image_info info = {0};
    if (status == SLUICE_OK) {
        CHECK_OK(sluice_image_probe(copy + 1, len, &info, NULL));
        CU_ASSERT(rgb.width == info.width && rgb.height == info.height);
        CU_ASSERT_EQUAL(rgb.pixels->len, (size_t)rgb.width * rgb.height * 3);
    }
    sluice_buf_unref(rgb.pixels);
    free(copy);
    return status;
}

void test_every_cut(const char *name, size_t mark, size_t spare)
{
    size_t whole;
    uint8_t *bytes = test_read_format(name, &whole);
    struct sluice_err err;
    CHECK_OK(test_decode_format(bytes, whole, &err));
    for (size_t len = 0; len < whole; len++) {
        const sluice_status status = test_decode_format(bytes, len, &err);
        const bool is_right = status == (len + spare >= whole      ? SLUICE_OK
                                         : len == 0 || len >= mark ? SLUICE_E_CORRUPT
                                                                   : SLUICE_E_UNSUPPORTED);
        if (!is_right)
            printf("%s cut at %zu of %zu: %s, %s\n", name, len, whole, sluice_status_name(status),
                   err.text);
        CU_ASSERT(is_right);
    }
    free(bytes);
}

void test_every_byte_wrong(const char *name)
{
    size_t len;
    uint8_t *bytes = test_read_format(name, &len);
    unsigned num_refused = 0;
    for (size_t i = 0; i < len; i++) {
        const uint8_t kept = bytes[i];
        static const uint8_t changes[] = {0x01, 0x80, 0xFF};
        for (size_t c = 0; c < sizeof(changes); c++) {
            bytes[i] = kept ^ changes[c];
            struct sluice_err err;
            const sluice_status status = test_decode_format(bytes, len, &err);
            CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_CORRUPT ||
                      status == SLUICE_E_UNSUPPORTED);
            num_refused += status != SLUICE_OK;
        }
        bytes[i] = kept;
    }
    CU_ASSERT(num_refused > 0);
    free(bytes);
}
