/* Decodes and resizes on request, for scripts that compare the pixels with another
 * library's.  Reads lines, writes for each "ok WIDTH HEIGHT\n" and the pixels, or
 * "error NAME: TEXT\n":
 *
 *     decode FILE
 *     encode H_SAMP V_SAMP RESTART_ROWS KIND FILE OUT
 *         KIND: baseline, progressive, gray, cmyk or ycck; answered with no pixels
 *     resize LEFT TOP WIDTH HEIGHT OUT_WIDTH OUT_HEIGHT FLIP FILE */

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "image/resize.h"

#include "support/test.h"

static struct sluice_codec *codec;
static struct sluice_resizer *resizer;

static void answer(const uint8_t *pixels, uint32_t width, uint32_t height)
{
    printf("ok %u %u\n", width, height);
    if (pixels)
        fwrite(pixels, 3, (size_t)width * height, stdout);
    fflush(stdout);
}

static void answer_error(sluice_status status, const struct sluice_err *err)
{
    printf("error %s: %s\n", sluice_status_name(status), err->text);
    fflush(stdout);
}

static sluice_status decode(const char *path, struct sluice_rgb *rgb, struct sluice_err *err)
{
    size_t len;
    uint8_t *bytes = sluice_test_read_file(path, &len);
    const sluice_status status = sluice_codec_decode(codec, bytes, len, 0, NULL, rgb, err);
    free(bytes);
    return status;
}

static sluice_status resize(const struct sluice_rgb *rgb, const unsigned *n, uint8_t **out,
                            struct sluice_err *err)
{
    if (n[0] + n[2] > rgb->width || n[1] + n[3] > rgb->height)
        return sluice_fail(err, SLUICE_E_INVALID, "the box is outside of the image");
    const size_t stride = (size_t)rgb->width * 3;
    const struct sluice_image_view view = {
        .pixels = rgb->pixels->data + n[1] * stride + n[0] * (size_t)3,
        .stride = stride,
        .width = n[2],
        .height = n[3],
    };
    *out = malloc((size_t)n[4] * n[5] * 3);
    return sluice_resize_rgb(resizer, &view, n[4], n[5], n[6] != 0, *out, err);
}

static sluice_status encode(const struct sluice_rgb *rgb,
                            const struct sluice_jpeg_encode_options *options, const char *path,
                            struct sluice_err *err)
{
    struct sluice_buf *file;
    const sluice_status status =
        sluice_jpeg_encode(rgb->pixels->data, rgb->width, rgb->height, options, &file, err);
    if (status != SLUICE_OK)
        return status;
    sluice_test_write_file(path, file->data, file->len);
    sluice_buf_unref(file);
    return SLUICE_OK;
}

int main(void)
{
    struct sluice_err err = {{0}};
    if (sluice_codec_create(&codec, &err) != SLUICE_OK ||
        sluice_resizer_create(&resizer, &err) != SLUICE_OK)
        return 1;
    char line[4096];
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = 0;
        unsigned n[7];
        char kind[32], in_path[1024], out_path[1024];
        int path_at = 0;
        struct sluice_rgb rgb = {0};
        err.text[0] = 0;
        sluice_status status;
        if (strncmp(line, "decode ", 7) == 0) {
            status = decode(line + 7, &rgb, &err);
            if (status == SLUICE_OK)
                answer(rgb.pixels->data, rgb.width, rgb.height);
        } else if (sscanf(line, "encode %u %u %u %31s %1023s %1023s", &n[0], &n[1], &n[2], kind,
                          in_path, out_path) == 6) {
            const struct sluice_jpeg_encode_options options = {
                .h_samp = (int)n[0],
                .v_samp = (int)n[1],
                .restart_rows = n[2],
                .is_progressive = strcmp(kind, "progressive") == 0,
                .is_gray = strcmp(kind, "gray") == 0,
                .is_cmyk = strcmp(kind, "cmyk") == 0,
                .is_ycck = strcmp(kind, "ycck") == 0,
            };
            status = decode(in_path, &rgb, &err);
            if (status == SLUICE_OK)
                status = encode(&rgb, &options, out_path, &err);
            if (status == SLUICE_OK)
                answer(NULL, 0, 0);
        } else if (sscanf(line, "resize %u %u %u %u %u %u %u %n", &n[0], &n[1], &n[2], &n[3], &n[4],
                          &n[5], &n[6], &path_at) == 7 &&
                   path_at > 0) {
            uint8_t *out = NULL;
            status = decode(line + path_at, &rgb, &err);
            if (status == SLUICE_OK)
                status = resize(&rgb, n, &out, &err);
            if (status == SLUICE_OK)
                answer(out, n[4], n[5]);
            free(out);
        } else {
            status = sluice_fail(&err, SLUICE_E_INVALID, "what is \"%s\"?", line);
        }
        if (status != SLUICE_OK)
            answer_error(status, &err);
        sluice_buf_unref(rgb.pixels);
    }
    sluice_codec_destroy(codec);
    sluice_resizer_destroy(resizer);
    return 0;
}
