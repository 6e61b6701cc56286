/* The committed images and what Pillow made of them (make_image_goldens.py), at every
 * level of kernels that this machine has. */

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "image/resize.h"

#include "crc32.h"
#include "support/test.h"

static struct sluice_codec *codec;
static struct sluice_resizer *resizer;

static FILE *open_expected(void)
{
    char path[1200];
    snprintf(path, sizeof(path), "%s/tests/golden/image/expected.txt", sluice_test_source_dir());
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    return file;
}

static struct sluice_rgb decode(const char *name)
{
    char path[1300];
    snprintf(path, sizeof(path), "%s/tests/golden/image/%s", sluice_test_source_dir(), name);
    size_t len;
    uint8_t *bytes = sluice_test_read_file(path, &len);
    struct sluice_rgb rgb = {0};
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_codec_decode(codec, bytes, len, 0, NULL, &rgb, &err);
    if (status != SLUICE_OK)
        printf("%s: %s\n", name, err.text);
    CHECK_OK(status);
    struct sluice_image_info info = {0};
    CHECK_OK(sluice_image_probe(bytes, len, &info, NULL));
    CU_ASSERT_EQUAL(info.width, rgb.width);
    CU_ASSERT_EQUAL(info.height, rgb.height);
    free(bytes);
    return rgb;
}

TEST(every_image_decodes_as_pillow_decodes_it)
{
    FILE *expected = open_expected();
    char line[512], name[256];
    unsigned width, height, crc, num_checked = 0;
    while (fgets(line, sizeof(line), expected)) {
        if (sscanf(line, "decode %255s %u %u %x", name, &width, &height, &crc) != 4)
            continue;
        struct sluice_rgb rgb = decode(name);
        if (!rgb.pixels)
            continue;
        CU_ASSERT_EQUAL(rgb.width, width);
        CU_ASSERT_EQUAL(rgb.height, height);
        CU_ASSERT_EQUAL(rgb.pixels->len, (size_t)width * height * 3);
        const bool is_equal = crc32_of(rgb.pixels->data, rgb.pixels->len) == crc;
        if (!is_equal)
            printf("%s: pixels differ from Pillow's\n", name);
        CU_ASSERT(is_equal);
        sluice_buf_unref(rgb.pixels);
        num_checked++;
    }
    fclose(expected);
    CU_ASSERT(num_checked >= 70);
}

/* The resizes of lines that begin with this word. */
static void check_resizes(const char *word, bool is_pillow13, unsigned min_checked)
{
    FILE *expected = open_expected();
    char line[512], name[256];
    unsigned n[7], crc, num_checked = 0;
    struct sluice_rgb source = decode("resize_source.png");
    if (!source.pixels) {
        fclose(expected);
        return; /* decode() has said so */
    }
    const size_t stride = (size_t)source.width * 3;
    while (fgets(line, sizeof(line), expected)) {
        char kind[16];
        if (sscanf(line, "%15s %255s %u %u %u %u %u %u %u %x", kind, name, &n[0], &n[1], &n[2],
                   &n[3], &n[4], &n[5], &n[6], &crc) != 10 ||
            strcmp(kind, word) != 0)
            continue;
        /* The crop alone, so that a tap outside of it is a bad access. */
        uint8_t *crop = malloc((size_t)n[2] * n[3] * 3);
        for (size_t y = 0; y < n[3]; y++)
            memcpy(crop + y * n[2] * 3, source.pixels->data + (n[1] + y) * stride + n[0] * 3u,
                   n[2] * 3u);
        const struct sluice_image_view view = {crop, n[2] * 3u, n[2], n[3]};
        const size_t out_len = (size_t)n[4] * n[5] * 3;
        uint8_t *out = malloc(out_len);
        const struct sluice_resize_part part = {.in_width = n[2],
                                                .in_height = n[3],
                                                .out_width = n[4],
                                                .out_height = n[5],
                                                .out = {.width = n[4], .height = n[5]},
                                                .is_pillow13 = is_pillow13};
        CHECK_OK(is_pillow13 ? sluice_resize_rgb_part(resizer, &part, &view, n[6], out, NULL)
                             : sluice_resize_rgb(resizer, &view, n[4], n[5], n[6], out, NULL));
        const bool is_equal = crc32_of(out, out_len) == crc;
        if (!is_equal)
            printf("differs from Pillow: %s", line);
        CU_ASSERT(is_equal);
        free(out);
        free(crop);
        num_checked++;
    }
    sluice_buf_unref(source.pixels);
    fclose(expected);
    CU_ASSERT(num_checked >= min_checked);
}

TEST(every_resize_gives_pillows_bytes)
{
    check_resizes("resize", false, 140);
}

TEST(every_resize_gives_pillow_13s_bytes)
{
    check_resizes("pillow13", true, 26);
}

int main(void)
{
    if (sluice_codec_create(&codec, NULL) != SLUICE_OK ||
        sluice_resizer_create(&resizer, NULL) != SLUICE_OK)
        return 1;
    const int result = sluice_test_main();
    sluice_codec_destroy(codec);
    sluice_resizer_destroy(resizer);
    return result;
}
