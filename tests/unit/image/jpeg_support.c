#include "jpeg_support.h"

#include "base/buf.h"
#include "base/rng.h"

#include "support/test.h"

#include <math.h>
#include <setjmp.h>

#include <jpeglib.h>

const struct sluice_jpeg_encode_options jpeg_test_options[] = {
    {.quality = 90, .h_samp = 2, .v_samp = 2},
    {.quality = 95, .h_samp = 1, .v_samp = 1},
    {.quality = 80, .h_samp = 2, .v_samp = 1, .optimize = true},
    {.quality = 75, .h_samp = 1, .v_samp = 2},
    {.quality = 60, .h_samp = 4, .v_samp = 1, .optimize = true},
    {.quality = 99, .h_samp = 4, .v_samp = 2},
    {.quality = 90, .h_samp = 3, .v_samp = 1},
    {.quality = 90, .h_samp = 1, .v_samp = 4},
    {.quality = 100, .is_gray = true},
    {.quality = 30, .is_gray = true, .optimize = true},
    {.quality = 85, .restart_rows = 1},
    {.quality = 85, .h_samp = 1, .v_samp = 1, .restart_rows = 2, .optimize = true},
    {.quality = 90, .is_cmyk = true},
    {.quality = 90, .is_ycck = true},
    {.quality = 10, .optimize = true},
    {.quality = 88, .is_progressive = true},
    {.quality = 88, .is_progressive = true, .is_gray = true},
    {.quality = 88, .is_progressive = true, .h_samp = 1, .v_samp = 1, .restart_rows = 1},
};
const size_t jpeg_test_num_options = sizeof(jpeg_test_options) / sizeof(jpeg_test_options[0]);

uint8_t *jpeg_test_picture(uint32_t width, uint32_t height, uint64_t seed)
{
    struct sluice_rng rng = sluice_rng_init(seed, 0, 0, 0);
    uint8_t *pixels = malloc((size_t)width * height * 3);
    if (!pixels)
        abort();
    const double across = 5 + sluice_rng_double(&rng) * 40;
    const double down = 5 + sluice_rng_double(&rng) * 40;
    const uint32_t noise = 1 + sluice_rng_below(&rng, 60);
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            uint8_t *p = pixels + ((size_t)y * width + x) * 3;
            const uint32_t grain = x / 40 % 2 ? sluice_rng_below(&rng, noise) : 0;
            p[0] = (uint8_t)(110 + 80 * sin(x / across) * cos(y / down) + grain);
            p[1] = (uint8_t)(x * 180 / width + grain);
            p[2] = (uint8_t)((y / 24 + x / 31) % 2 ? 60 + grain : 190);
        }
    }
    return pixels;
}

struct sluice_buf *jpeg_test_file(uint32_t width, uint32_t height, uint64_t seed,
                                  const struct sluice_jpeg_encode_options *options)
{
    uint8_t *pixels = jpeg_test_picture(width, height, seed);
    struct sluice_buf *file = NULL;
    struct sluice_err err = {{0}};
    if (sluice_jpeg_encode(pixels, width, height, options, &file, &err) != SLUICE_OK) {
        fprintf(stderr, "cannot encode: %s\n", err.text);
        exit(1);
    }
    free(pixels);
    return file;
}

struct error_manager {
    struct jpeg_error_mgr base;
    jmp_buf on_error;
};

static void jump_out(j_common_ptr cinfo)
{
    longjmp(((struct error_manager *)cinfo->err)->on_error, 1);
}

static void count_warning(j_common_ptr cinfo, int level)
{
    if (level < 0)
        cinfo->err->num_warnings++;
}

static void copy_component(struct jpeg_decompress_struct *cinfo, int c, jvirt_barray_ptr array,
                           struct jpeg_test_coefficients *out)
{
    jpeg_component_info *info = &cinfo->comp_info[c];
    out->h[c] = (uint32_t)info->h_samp_factor;
    out->v[c] = (uint32_t)info->v_samp_factor;
    for (int i = 0; i < 64; i++)
        out->quant[c][i] = info->quant_table->quantval[i];
    out->wide[c] = info->width_in_blocks;
    out->high[c] = info->height_in_blocks;
    out->blocks[c] = malloc((size_t)info->width_in_blocks * info->height_in_blocks * 128);
    if (!out->blocks[c])
        abort();
    for (JDIMENSION y = 0; y < info->height_in_blocks; y++) {
        JBLOCKARRAY rows = cinfo->mem->access_virt_barray((j_common_ptr)cinfo, array, y, 1, FALSE);
        memcpy(out->blocks[c] + (size_t)y * info->width_in_blocks, rows[0],
               (size_t)info->width_in_blocks * 128);
    }
}

bool jpeg_test_read_coefficients(const uint8_t *bytes, size_t len,
                                 struct jpeg_test_coefficients *out)
{
    struct jpeg_decompress_struct cinfo;
    struct error_manager errors;
    memset(out, 0, sizeof(*out));
    cinfo.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = jump_out;
    errors.base.emit_message = count_warning;
    if (setjmp(errors.on_error)) {
        jpeg_destroy_decompress(&cinfo);
        jpeg_test_free_coefficients(out);
        return false;
    }
    jpeg_create_decompress(&cinfo);
    jpeg_mem_src(&cinfo, bytes, len);
    jpeg_read_header(&cinfo, TRUE);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&cinfo);
    out->num_components = (unsigned)cinfo.num_components;
    out->width = cinfo.image_width;
    out->height = cinfo.image_height;
    out->max_h = (uint32_t)cinfo.max_h_samp_factor;
    out->max_v = (uint32_t)cinfo.max_v_samp_factor;
    for (int c = 0; c < cinfo.num_components; c++)
        copy_component(&cinfo, c, arrays[c], out);
    jpeg_finish_decompress(&cinfo);
    out->num_warnings = errors.base.num_warnings;
    jpeg_destroy_decompress(&cinfo);
    return true;
}

void jpeg_test_free_coefficients(struct jpeg_test_coefficients *coefficients)
{
    for (unsigned c = 0; c < 4; c++)
        free(coefficients->blocks[c]);
    memset(coefficients, 0, sizeof(*coefficients));
}

uint8_t *jpeg_test_read_pixels(const uint8_t *bytes, size_t len, uint32_t *width, uint32_t *height)
{
    struct jpeg_decompress_struct cinfo;
    struct error_manager errors;
    uint8_t *volatile pixels = NULL;
    cinfo.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = jump_out;
    errors.base.emit_message = count_warning;
    if (setjmp(errors.on_error)) {
        jpeg_destroy_decompress(&cinfo);
        free(pixels);
        return NULL;
    }
    jpeg_create_decompress(&cinfo);
    jpeg_mem_src(&cinfo, bytes, len);
    jpeg_read_header(&cinfo, TRUE);
    cinfo.out_color_space = JCS_RGB;
    jpeg_start_decompress(&cinfo);
    const size_t stride = (size_t)cinfo.output_width * 3;
    pixels = malloc(stride * cinfo.output_height);
    if (!pixels)
        abort();
    while (cinfo.output_scanline < cinfo.output_height) {
        JSAMPROW row = pixels + cinfo.output_scanline * stride;
        jpeg_read_scanlines(&cinfo, &row, 1);
    }
    *width = cinfo.output_width;
    *height = cinfo.output_height;
    jpeg_finish_decompress(&cinfo);
    const bool is_clean = errors.base.num_warnings == 0;
    jpeg_destroy_decompress(&cinfo);
    if (is_clean)
        return pixels;
    free(pixels);
    return NULL;
}

struct sluice_buf *jpeg_test_with_restarts(const struct sluice_buf *file, unsigned interval)
{
    struct jpeg_decompress_struct in;
    struct jpeg_compress_struct out;
    struct jpeg_error_mgr errors; /* which ends the test if the file is bad */
    in.err = out.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&in);
    jpeg_create_compress(&out);
    jpeg_mem_src(&in, file->data, file->len);
    jpeg_read_header(&in, TRUE);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&in);
    jpeg_copy_critical_parameters(&in, &out);
    out.restart_interval = interval;
    unsigned char *bytes = NULL;
    unsigned long len = 0;
    jpeg_mem_dest(&out, &bytes, &len);
    jpeg_write_coefficients(&out, arrays);
    jpeg_finish_compress(&out);
    jpeg_finish_decompress(&in);
    jpeg_destroy_compress(&out);
    jpeg_destroy_decompress(&in);
    struct sluice_buf *copy = NULL;
    if (sluice_buf_create(NULL, len, &copy, NULL) != SLUICE_OK)
        abort();
    memcpy(copy->data, bytes, len);
    copy->len = len;
    free(bytes);
    return copy;
}
