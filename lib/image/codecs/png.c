/* The one door to libpng. */

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "image/codecs/decode_budget.h"
#include "image/codecs/internal.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

/* libpng reports an error by calling error_fn, which must not return: it jumps back
 * to the function that called libpng.  What must survive the jump lives in a job
 * struct, never in a local variable. */
struct png_errors {
    jmp_buf on_error;
    char text[128];
};

static void png_jump_out(png_structp png, png_const_charp message)
{
    struct png_errors *errors = png_get_error_ptr(png);
    snprintf(errors->text, sizeof(errors->text), "%s", message);
    longjmp(errors->on_error, 1);
}

static void png_ignore_warning(png_structp png, png_const_charp message)
{
    (void)png, (void)message;
}

/* The CRC of PNG, one nibble at a time: it only runs over what precedes the pixels. */
static uint32_t crc32_of(const uint8_t *bytes, size_t len)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

/* Pillow checks the CRC of every chunk before the pixels and of none after, so
 * libpng is told to check none and this does it. */
static sluice_status check_header_chunks(const uint8_t *bytes, size_t len, struct sluice_err *err)
{
    size_t pos = 8;
    for (;;) {
        if (len - pos < 12)
            return sluice_fail(err, SLUICE_E_CORRUPT, "PNG cut before its pixels, at %zu bytes",
                               len);
        const size_t chunk_len = sluice_be32(bytes + pos);
        const uint8_t *type = bytes + pos + 4;
        if (memcmp(type, "IDAT", 4) == 0)
            return SLUICE_OK;
        if (chunk_len > len - pos - 12)
            return sluice_fail(err, SLUICE_E_CORRUPT, "PNG cut before its pixels, at %zu bytes",
                               len);
        if (crc32_of(type, 4 + chunk_len) != sluice_be32(type + 4 + chunk_len))
            return sluice_fail(err, SLUICE_E_CORRUPT, "PNG with a wrong CRC before its pixels");
        pos += 12 + chunk_len;
    }
}

struct png_decode_job {
    struct png_errors errors;
    png_structp png;
    png_infop info;
    const uint8_t *bytes;
    size_t left;
    struct sluice_decode_budget budget;
    struct sluice_buf_pool *pool;
    struct sluice_buf *pixels; /* owned until the job has succeeded */
    bool is_mask;              /* one number for each pixel, as stored */
};

/* So that 16 kB, of which deflate makes 17 MB at most, are a reason to look at the clock. */
#define PIXELS_PER_BYTE 16

static void spend(struct png_decode_job *job, uint64_t num_pixels)
{
    if (sluice_decode_budget_spend(&job->budget, num_pixels))
        png_error(job->png, "too slow");
}

static void read_bytes(png_structp png, png_bytep out, size_t len)
{
    struct png_decode_job *job = png_get_io_ptr(png);
    if (len > job->left)
        png_error(png, "premature end of file");
    /* Pixels behind the last row are unpacked too, to be dropped. */
    spend(job, (uint64_t)len * PIXELS_PER_BYTE);
    memcpy(out, job->bytes, len);
    job->bytes += len;
    job->left -= len;
}

/* The format of a row as libpng leaves it at the start of the output row. */
enum row_kind {
    ROW_RGB,
    ROW_GRAY,
    ROW_GRAY16, /* big endian */
    ROW_INDEX,
};

/* Widens a row to RGB in place, from the right end so that no pixel is
 * overwritten before it is read. */
static void widen_row(uint8_t *row, uint32_t width, enum row_kind kind, const uint8_t (*lut)[3])
{
    if (kind == ROW_RGB)
        return;
    for (size_t x = width; x-- > 0;) {
        unsigned value = row[x];
        if (kind == ROW_GRAY16) {
            const unsigned wide = sluice_be16(row + 2 * x);
            value = wide < 255 ? wide : 255; /* clipped, not scaled, as Pillow does */
        }
        memcpy(row + 3 * x, lut[value], 3);
    }
}

/* A table from the row's values to RGB.  Palette entries that the file does not
 * define are gray, as in Pillow. */
static void fill_lut(struct png_decode_job *job, enum row_kind kind, unsigned depth,
                     uint8_t lut[256][3])
{
    const unsigned scale = kind == ROW_GRAY && depth < 8 ? 255u / ((1u << depth) - 1) : 1;
    for (unsigned i = 0; i < 256; i++)
        memset(lut[i], (int)(i * scale & 255), 3);
    png_colorp palette;
    int num_colors;
    if (kind == ROW_INDEX && png_get_PLTE(job->png, job->info, &palette, &num_colors)) {
        for (int i = 0; i < num_colors && i < 256; i++) {
            lut[i][0] = palette[i].red;
            lut[i][1] = palette[i].green;
            lut[i][2] = palette[i].blue;
        }
    }
}

static sluice_status png_decode_job_run(struct png_decode_job *job, uint32_t width, uint32_t height,
                                        struct sluice_err *err)
{
    if (setjmp(job->errors.on_error)) {
        if (job->budget.is_spent)
            return sluice_decode_budget_fail(&job->budget, err);
        return sluice_fail(err, SLUICE_E_CORRUPT, "PNG: %s", job->errors.text);
    }
    png_structp png = job->png;
    png_set_read_fn(png, job, read_bytes);
    png_set_user_limits(png, SLUICE_IMAGE_MAX_SIDE, SLUICE_IMAGE_MAX_SIDE);
    png_set_crc_action(png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
    /* The zlib header may name a smaller window than the data use, as Pillow does not look. */
    png_set_option(png, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);
    /* Ignore gamma, colour profiles and text. */
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(png, job->info);

    const unsigned depth = png_get_bit_depth(png, job->info);
    const unsigned type = png_get_color_type(png, job->info);
    if (png_get_image_width(png, job->info) != width ||
        png_get_image_height(png, job->info) != height)
        png_error(png, "two headers");
    enum row_kind kind = ROW_RGB;
    if (type == PNG_COLOR_TYPE_PALETTE)
        kind = ROW_INDEX;
    else if (type == PNG_COLOR_TYPE_GRAY && depth == 16)
        kind = ROW_GRAY16;
    else if (!(type & PNG_COLOR_MASK_COLOR))
        kind = ROW_GRAY;
    if (depth < 8)
        png_set_packing(png);
    if (depth == 16 && kind != ROW_GRAY16)
        png_set_strip_16(png); /* the upper byte */
    if (type & PNG_COLOR_MASK_ALPHA)
        png_set_strip_alpha(png);
    const int num_passes = png_set_interlace_handling(png);
    png_read_update_info(png, job->info);

    const size_t stride = (size_t)width * (job->is_mask ? 1 : 3);
    const sluice_status status =
        job->is_mask ? sluice_buf_create(NULL, stride * height, &job->pixels, err)
                     : sluice_image_alloc_rgb(job->pool, width, height, &job->pixels, err);
    if (status != SLUICE_OK)
        return status;
    job->pixels->len = stride * height;
    if (png_get_rowbytes(png, job->info) > stride)
        png_error(png, "unexpected row size");
    uint8_t lut[256][3];
    fill_lut(job, kind, depth, lut);
    for (int pass = 0; pass < num_passes; pass++) {
        for (uint32_t y = 0; y < height; y++) {
            uint8_t *row = job->pixels->data + y * stride;
            spend(job, width);
            png_read_row(png, row, NULL);
            if (pass == num_passes - 1 && !job->is_mask)
                widen_row(row, width, kind, (const uint8_t(*)[3])lut);
        }
    }
    png_read_end(png, NULL); /* a file without IEND is truncated */
    return SLUICE_OK;
}

static sluice_status probe(const uint8_t *bytes, size_t len, struct sluice_image_info *info,
                           struct sluice_err *err)
{
    /* Signature, then IHDR: length, type, 13 bytes, CRC (which the decoder checks). */
    if (len < 8 + 8 + 13 + 4)
        return sluice_fail(err, SLUICE_E_CORRUPT, "PNG cut in its header, at %zu bytes", len);
    if (sluice_be32(bytes + 8) != 13 || memcmp(bytes + 12, "IHDR", 4) != 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "PNG that does not begin with IHDR");
    const uint8_t *ihdr = bytes + 16;
    const uint32_t width = sluice_be32(ihdr), height = sluice_be32(ihdr + 4);
    const unsigned depth = ihdr[8], type = ihdr[9], interlace = ihdr[12];
    if (width == 0 || height == 0 || width > INT32_MAX || height > INT32_MAX)
        return sluice_fail(err, SLUICE_E_CORRUPT, "PNG of %u x %u pixels", width, height);

    /* Bit n: depth n is allowed with this colour type. */
    static const struct {
        uint32_t depths;
        uint8_t num_components;
    } types[7] = {
        [0] = {1u << 1 | 1u << 2 | 1u << 4 | 1u << 8 | 1u << 16, 1},
        [2] = {1u << 8 | 1u << 16, 3},
        [3] = {1u << 1 | 1u << 2 | 1u << 4 | 1u << 8, 1},
        [4] = {1u << 8 | 1u << 16, 2},
        [6] = {1u << 8 | 1u << 16, 4},
    };
    if (type >= SLUICE_ARRAY_LEN(types) || depth > 16 || !(types[type].depths >> depth & 1))
        return sluice_fail(err, SLUICE_E_CORRUPT, "PNG of colour type %u with %u bits", type,
                           depth);
    if (ihdr[10] != 0 || ihdr[11] != 0 || interlace > 1)
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "PNG with compression %u, filter %u, interlace %u", ihdr[10], ihdr[11],
                           interlace);
    *info = (struct sluice_image_info){
        .format = SLUICE_IMAGE_PNG,
        .width = width,
        .height = height,
        .num_components = types[type].num_components,
        .h_samp = 1,
        .v_samp = 1,
        .is_progressive = interlace == 1,
    };
    return SLUICE_OK;
}

/* Decodes the image of the header to job->pixels. */
static sluice_status run(struct png_decode_job *job, const struct sluice_image_info *info,
                         const uint8_t *bytes, size_t len, struct sluice_err *err)
{
    sluice_status status = check_header_chunks(bytes, len, err);
    if (status != SLUICE_OK)
        return status;
    job->bytes = bytes;
    job->left = len;
    sluice_decode_budget_start(&job->budget, (uint64_t)info->width * info->height);
    job->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job->errors, png_jump_out,
                                      png_ignore_warning);
    job->info = job->png ? png_create_info_struct(job->png) : NULL;
    if (job->info)
        status = png_decode_job_run(job, info->width, info->height, err);
    else
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a PNG decoder");
    png_destroy_read_struct(&job->png, &job->info, NULL);
    if (status != SLUICE_OK)
        sluice_buf_unref(job->pixels);
    return status;
}

static sluice_status decode(const struct sluice_image_info *info, const uint8_t *bytes, size_t len,
                            struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
                            struct sluice_err *err)
{
    struct png_decode_job job = {.pool = pool};
    const sluice_status status = run(&job, info, bytes, len, err);
    if (status == SLUICE_OK)
        *rgb = (struct sluice_rgb){info->width, info->height, job.pixels};
    return status;
}

sluice_status sluice_png_decode_mask(const uint8_t *bytes, size_t len, struct sluice_buf **values,
                                     struct sluice_err *err)
{
    struct sluice_image_info info;
    sluice_status status = sluice_image_probe(bytes, len, &info, err);
    if (status != SLUICE_OK)
        return status;
    const bool is_png = info.format == SLUICE_IMAGE_PNG;
    if (!is_png || info.num_components != 1 || bytes[24] > 8) /* the depth in IHDR */
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "a mask is a PNG of one channel of at most 8 bits");
    if ((uint64_t)info.width * info.height > SLUICE_IMAGE_MAX_PIXELS)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "a mask of %u x %u pixels is over the limit",
                           info.width, info.height);
    struct png_decode_job job = {.is_mask = true};
    status = run(&job, &info, bytes, len, err);
    if (status == SLUICE_OK)
        *values = job.pixels;
    return status;
}

struct png_encode_job {
    struct png_errors errors;
    png_structp png;
    png_infop info;
    struct sluice_image_writer writer;
    struct sluice_err *err;
};

static void write_bytes(png_structp png, png_bytep bytes, size_t len)
{
    struct png_encode_job *job = png_get_io_ptr(png);
    if (sluice_image_writer_reserve(&job->writer, len, job->err) != SLUICE_OK)
        png_error(png, "no memory");
    memcpy(job->writer.file->data + job->writer.file->len, bytes, len);
    job->writer.file->len += len;
}

static void flush_nothing(png_structp png)
{
    (void)png;
}

static sluice_status png_encode_job_run(struct png_encode_job *job, const uint8_t *rgb,
                                        uint32_t width, uint32_t height, int level)
{
    if (setjmp(job->errors.on_error))
        return sluice_fail(job->err, SLUICE_E_NO_MEMORY, "PNG: %s", job->errors.text);
    png_structp png = job->png;
    png_set_write_fn(png, job, write_bytes, flush_nothing);
    png_set_IHDR(png, job->info, width, height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_compression_level(png, level);
    png_write_info(png, job->info);
    for (uint32_t y = 0; y < height; y++)
        png_write_row(png, rgb + (size_t)y * width * 3);
    png_write_end(png, NULL);
    return SLUICE_OK;
}

sluice_status sluice_png_encode(const uint8_t *rgb, uint32_t width, uint32_t height, int level,
                                struct sluice_buf **file, struct sluice_err *err)
{
    if (width < 1 || height < 1 || width > SLUICE_IMAGE_MAX_SIDE || height > SLUICE_IMAGE_MAX_SIDE)
        return sluice_fail(err, SLUICE_E_INVALID, "cannot write a PNG of %u x %u pixels", width,
                           height);
    if (level < 0 || level > 9)
        return sluice_fail(err, SLUICE_E_INVALID, "PNG level %d is not in 0 .. 9", level);
    struct png_encode_job job = {.err = err};
    job.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &job.errors, png_jump_out,
                                      png_ignore_warning);
    job.info = job.png ? png_create_info_struct(job.png) : NULL;
    sluice_status status;
    if (job.info)
        status = png_encode_job_run(&job, rgb, width, height, level);
    else
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a PNG encoder");
    png_destroy_write_struct(&job.png, &job.info);
    if (status == SLUICE_OK)
        *file = job.writer.file;
    else
        sluice_buf_unref(job.writer.file);
    return status;
}

const struct sluice_image_type sluice_image_png = {.probe = probe, .decode = decode};
