/* The first picture of a TIFF; the one door to libtiff. */

#include "base/buf.h"
#include "base/c_locale.h"
#include "image/codecs/internal.h"
#include "image/codecs/tiff_directory.h"
#include "image/orientation.h"

#include <stdlib.h>
#include <string.h>

static sluice_status find_directory(const uint8_t *bytes, size_t len,
                                    struct sluice_tiff_directory *directory, struct sluice_err *err)
{
    if (!sluice_tiff_directory_find(bytes, len, directory) || directory->is_cut)
        return sluice_fail(err, SLUICE_E_CORRUPT, "TIFF cut before its tags, at %zu bytes", len);
    return SLUICE_OK;
}

/* The size alone, and for this the library is not needed: that of the picture as it is to be seen,
 * for Pillow turns TIFFs by their orientation whether asked to or not. */
static sluice_status probe(const uint8_t *bytes, size_t len, struct sluice_image_info *info,
                           struct sluice_err *err)
{
    struct sluice_tiff_directory directory;
    const sluice_status status = find_directory(bytes, len, &directory, err);
    if (status != SLUICE_OK)
        return status;
    const uint32_t width = sluice_tiff_directory_get(&directory, SLUICE_TIFF_WIDTH, 0);
    const uint32_t height = sluice_tiff_directory_get(&directory, SLUICE_TIFF_HEIGHT, 0);
    const uint32_t num_components = sluice_tiff_directory_get(&directory, SLUICE_TIFF_SAMPLES, 1);
    if (width == 0 || height == 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "TIFF of %u x %u pixels", width, height);
    const bool is_turned =
        sluice_orientation_swaps(sluice_tiff_directory_get(&directory, SLUICE_TIFF_ORIENTATION, 1));
    *info = (struct sluice_image_info){
        .format = SLUICE_IMAGE_TIFF,
        .width = is_turned ? height : width,
        .height = is_turned ? width : height,
        .num_components = (uint8_t)(num_components < 255 ? num_components : 255),
        .h_samp = 1,
        .v_samp = 1,
    };
    return SLUICE_OK;
}

#ifdef SLUICE_HAVE_TIFF

#include "image/codecs/decode_budget.h"

#include <stdarg.h>
#include <stdio.h>

#include <tiffio.h>

/* The colours that rows hold. */
enum row_kind {
    ROW_GRAY, /* and what stands behind it, alpha, is dropped */
    ROW_INDEX,
    ROW_RGB,
    ROW_RGBA_PREMULTIPLIED,
    ROW_CMYK,
};

struct tiff_job {
    const uint8_t *bytes;
    size_t len, pos;
    TIFF *tiff;
    char text[128]; /* of libtiff's first error */
    uint32_t width, height;
    unsigned bits, num_samples;
    enum row_kind kind;
    bool is_planar;
    uint8_t lut[256][3];
    struct sluice_decode_budget budget;
    uint8_t *part; /* a strip or tile as libtiff gives it */
};

static int note_error(TIFF *tiff, void *ctx, const char *module, const char *format, va_list args)
{
    (void)tiff, (void)module;
    struct tiff_job *job = ctx;
    if (job->text[0] == '\0')
        sluice_vsnprintf(job->text, sizeof(job->text), format, args);
    return 1;
}

static int ignore_warning(TIFF *tiff, void *ctx, const char *module, const char *format,
                          va_list args)
{
    (void)tiff, (void)ctx, (void)module, (void)format, (void)args;
    return 1;
}

static tmsize_t read_bytes(thandle_t ctx, void *out, tmsize_t size)
{
    struct tiff_job *job = ctx;
    const size_t left = job->pos < job->len ? job->len - job->pos : 0;
    const size_t count = (size_t)size < left ? (size_t)size : left;
    memcpy(out, job->bytes + (left ? job->pos : 0), count);
    job->pos += count;
    return (tmsize_t)count;
}

static tmsize_t write_nothing(thandle_t ctx, void *in, tmsize_t size)
{
    (void)ctx, (void)in, (void)size;
    return 0;
}

static toff_t seek(thandle_t ctx, toff_t offset, int whence)
{
    struct tiff_job *job = ctx;
    const toff_t from = whence == SEEK_CUR ? job->pos : whence == SEEK_END ? job->len : 0;
    job->pos = (size_t)(from + offset);
    return job->pos;
}

static int close_nothing(thandle_t ctx)
{
    (void)ctx;
    return 0;
}

static toff_t size_of(thandle_t ctx)
{
    const struct tiff_job *job = ctx;
    return job->len;
}

static int map(thandle_t ctx, void **base, toff_t *size)
{
    struct tiff_job *job = ctx;
    *base = (void *)(uintptr_t)job->bytes; /* libtiff only reads it */
    *size = job->len;
    return 1;
}

static void unmap(thandle_t ctx, void *base, toff_t size)
{
    (void)ctx, (void)base, (void)size;
}

static sluice_status fail_job(const struct tiff_job *job, struct sluice_err *err)
{
    if (job->budget.is_spent)
        return sluice_decode_budget_fail(&job->budget, err);
    return sluice_fail(err, SLUICE_E_CORRUPT, "TIFF: %s",
                       job->text[0] ? job->text : "damaged or cut");
}

/* The meaning of the values in a row of single numbers. */
static sluice_status fill_lut(struct tiff_job *job, bool is_white_zero, struct sluice_err *err)
{
    const unsigned num_values = job->bits < 8 ? 1u << job->bits : 256;
    for (unsigned i = 0; i < 256; i++) {
        const unsigned gray = job->kind == ROW_GRAY ? i * 255 / (num_values - 1) : i;
        memset(job->lut[i], (int)((is_white_zero ? ~gray : gray) & 255), 3);
    }
    if (job->kind != ROW_INDEX)
        return SLUICE_OK;
    const uint16_t *maps[3];
    if (!TIFFGetField(job->tiff, TIFFTAG_COLORMAP, &maps[0], &maps[1], &maps[2]))
        return sluice_fail(err, SLUICE_E_CORRUPT, "TIFF without its palette");
    for (unsigned i = 0; i < num_values; i++) {
        for (int c = 0; c < 3; c++)
            job->lut[i][c] = (uint8_t)(maps[c][i] >> 8);
    }
    return SLUICE_OK;
}

/* The part of Pillow's table of modes with whole numbers of up to 16 bits. */
static sluice_status read_layout(struct tiff_job *job, struct sluice_err *err)
{
    TIFF *tiff = job->tiff;
    uint16_t photometric = PHOTOMETRIC_MINISWHITE, compression = 0, bits = 0, num_samples = 0;
    uint16_t planar = 0, format = 0, num_extra = 0;
    const uint16_t *extra = NULL;
    TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &photometric);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &compression);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &bits);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &num_samples);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_PLANARCONFIG, &planar);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLEFORMAT, &format);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &num_extra, &extra);

    const bool is_jpeg = compression == COMPRESSION_JPEG;
    if (compression != COMPRESSION_NONE && compression != COMPRESSION_LZW && !is_jpeg &&
        compression != COMPRESSION_ADOBE_DEFLATE && compression != COMPRESSION_DEFLATE &&
        compression != COMPRESSION_PACKBITS)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "TIFF with compression %u", compression);
    job->bits = bits;
    job->num_samples = num_samples;
    job->is_planar = planar == PLANARCONFIG_SEPARATE && num_samples > 1;
    const unsigned first_extra = num_extra > 0 ? extra[0] : 0;
    const bool has_alpha = num_extra == 1 && first_extra == EXTRASAMPLE_UNASSALPHA;
    const bool is_single = num_samples == 1 && num_extra == 0;
    const bool is_little = !TIFFIsBigEndian(tiff);
    bool is_known = false;
    switch (photometric) {
    case PHOTOMETRIC_MINISWHITE:
        is_known = is_single &&
                   (bits == 1 || bits == 2 || bits == 4 || bits == 8 || (bits == 16 && is_little));
        break;
    case PHOTOMETRIC_MINISBLACK:
        is_known =
            (is_single && (bits == 1 || bits == 2 || bits == 4 || bits == 8 || bits == 16)) ||
            (num_samples == 2 && has_alpha && bits == 8);
        break;
    case PHOTOMETRIC_PALETTE:
        job->kind = ROW_INDEX;
        is_known = (is_single && (bits == 1 || bits == 2 || bits == 4 || bits == 8)) ||
                   (num_samples == 2 && has_alpha && bits == 8);
        break;
    case PHOTOMETRIC_RGB:
        job->kind = num_extra > 0 && first_extra == EXTRASAMPLE_ASSOCALPHA ? ROW_RGBA_PREMULTIPLIED
                                                                           : ROW_RGB;
        is_known = (bits == 8 && num_samples >= 3 && num_samples <= 6) ||
                   (bits == 16 && num_samples >= 3 && num_samples <= 4);
        is_known =
            is_known && (num_samples == 3u + num_extra || (num_samples == 4 && num_extra == 0));
        for (unsigned i = 1; i < num_extra; i++)
            is_known = is_known && extra[i] == EXTRASAMPLE_UNSPECIFIED;
        break;
    case PHOTOMETRIC_SEPARATED:
        job->kind = ROW_CMYK;
        is_known = num_samples == 4u + num_extra && num_extra <= 2 &&
                   (bits == 8 || (bits == 16 && is_little && num_extra == 0));
        break;
    case PHOTOMETRIC_YCBCR:
        job->kind = ROW_RGB;
        is_known = is_jpeg && bits == 8 && num_samples == 3 && num_extra == 0 && !job->is_planar &&
                   TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
        break;
    default:
        break;
    }
    if (job->is_planar && (job->kind != ROW_RGB || bits != 8))
        is_known = false;
    if (!is_known || format != SAMPLEFORMAT_UINT)
        return sluice_fail(
            err, SLUICE_E_UNSUPPORTED,
            "TIFF of colours %u, format %u, %u samples of %u bits, %u beside colours%s",
            photometric, format, num_samples, bits, num_extra, job->is_planar ? ", planar" : "");
    /* Pillow does not turn 16 bits around. */
    return fill_lut(job, photometric == PHOTOMETRIC_MINISWHITE && bits < 16, err);
}

static unsigned div255(unsigned x)
{
    x += 128;
    return (x + (x >> 8)) >> 8;
}

/* Sample `i` of a row, as 8 bits: the upper ones of 16. */
static unsigned sample_at(const struct tiff_job *job, const uint8_t *row, size_t i)
{
    if (job->bits == 8)
        return row[i];
    uint16_t wide; /* libtiff has turned it to this machine's order */
    memcpy(&wide, row + 2 * i, sizeof(wide));
    return wide >> 8;
}

static unsigned index_at(const struct tiff_job *job, const uint8_t *row, size_t x)
{
    if (job->bits < 8) {
        const size_t bit = x * job->bits;
        return row[bit >> 3] >> (8 - job->bits - (bit & 7)) & ((1u << job->bits) - 1);
    }
    if (job->bits == 8)
        return row[x * job->num_samples];
    uint16_t wide;
    memcpy(&wide, row + 2 * x, sizeof(wide));
    return wide < 255 ? wide : 255; /* clipped, not scaled, as Pillow does */
}

/* One plane of an image of planes, or all samples. */
static void put_row(const struct tiff_job *job, const uint8_t *row, unsigned plane, uint32_t width,
                    uint8_t *rgb)
{
    for (size_t x = 0; x < width; x++) {
        uint8_t *out = rgb + 3 * x;
        const size_t at = x * job->num_samples;
        if (job->is_planar) {
            out[plane] = row[x];
        } else if (job->kind == ROW_GRAY || job->kind == ROW_INDEX) {
            memcpy(out, job->lut[index_at(job, row, x)], 3);
        } else if (job->kind == ROW_CMYK) {
            const unsigned k = 255 - sample_at(job, row, at + 3);
            for (unsigned c = 0; c < 3; c++)
                out[c] = (uint8_t)(k - div255(sample_at(job, row, at + c) * k));
        } else {
            const unsigned alpha =
                job->kind == ROW_RGBA_PREMULTIPLIED ? sample_at(job, row, at + 3) : 255;
            for (unsigned c = 0; c < 3; c++) {
                const unsigned value = sample_at(job, row, at + c);
                const unsigned full = alpha ? value * 255 / alpha : 0;
                out[c] = (uint8_t)(full < 255 ? full : 255);
            }
        }
    }
}

/* Memory for `bytes`, which follow from the file's header: no more than the pixels justify. */
static sluice_status reserve_part(struct tiff_job *job, int64_t bytes, struct sluice_err *err)
{
    const uint64_t pixels = (uint64_t)job->width * job->height;
    if (bytes < 1 ||
        (uint64_t)bytes > pixels * SLUICE_TIFF_BYTES_PER_PIXEL + SLUICE_TIFF_OTHER_BYTES)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "TIFF of %u x %u pixels in parts of %lld bytes", job->width, job->height,
                           (long long)bytes);
    job->part = calloc(1, (size_t)bytes);
    if (!job->part)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a part of a TIFF");
    return SLUICE_OK;
}

/* Strip by strip, not row by row: a run of PackBits may go on into the next row. */
static sluice_status read_strips(struct tiff_job *job, uint8_t *rgb, struct sluice_err *err)
{
    uint32_t height = 0;
    TIFFGetFieldDefaulted(job->tiff, TIFFTAG_ROWSPERSTRIP, &height);
    if (height > job->height)
        height = job->height;
    const uint64_t samples = (uint64_t)job->width * (job->is_planar ? 1 : job->num_samples);
    const uint64_t row_bytes = (samples * job->bits + 7) / 8;
    const int64_t strip_bytes = TIFFStripSize64(job->tiff);
    if (height == 0 || strip_bytes < 1 || row_bytes > (uint64_t)strip_bytes / height)
        return fail_job(job, err);
    const sluice_status status = reserve_part(job, strip_bytes, err);
    if (status != SLUICE_OK)
        return status;
    for (unsigned plane = 0; plane < (job->is_planar ? 3u : 1u); plane++) {
        for (uint64_t y = 0; y < job->height; y += height) {
            const uint32_t strip = TIFFComputeStrip(job->tiff, (uint32_t)y, (uint16_t)plane);
            if (sluice_decode_budget_spend(&job->budget, (uint64_t)job->width * height) ||
                TIFFReadEncodedStrip(job->tiff, strip, job->part, -1) < 0)
                return fail_job(job, err);
            for (uint64_t i = 0; i < height && y + i < job->height; i++)
                put_row(job, job->part + i * row_bytes, plane, job->width,
                        rgb + (y + i) * job->width * 3);
        }
    }
    return SLUICE_OK;
}

static sluice_status read_tiles(struct tiff_job *job, uint8_t *rgb, struct sluice_err *err)
{
    uint32_t width = 0, height = 0;
    TIFFGetField(job->tiff, TIFFTAG_TILEWIDTH, &width);
    TIFFGetField(job->tiff, TIFFTAG_TILELENGTH, &height);
    const int64_t tile_bytes = TIFFTileSize64(job->tiff);
    const uint64_t samples = (uint64_t)width * (job->is_planar ? 1 : job->num_samples);
    const uint64_t row_bytes = (samples * job->bits + 7) / 8;
    if (width == 0 || height == 0 || tile_bytes < 1 || row_bytes > (uint64_t)tile_bytes / height)
        return fail_job(job, err);
    const sluice_status status = reserve_part(job, tile_bytes, err);
    if (status != SLUICE_OK)
        return status;
    const unsigned num_planes = job->is_planar ? 3 : 1;
    for (unsigned plane = 0; plane < num_planes; plane++) {
        for (uint64_t y = 0; y < job->height; y += height) {
            for (uint64_t x = 0; x < job->width; x += width) {
                if (sluice_decode_budget_spend(&job->budget, (uint64_t)width * height) ||
                    TIFFReadTile(job->tiff, job->part, (uint32_t)x, (uint32_t)y, 0,
                                 (uint16_t)plane) < 0)
                    return fail_job(job, err);
                const uint32_t used = x + width <= job->width ? width : job->width - (uint32_t)x;
                for (uint64_t i = 0; i < height && y + i < job->height; i++)
                    put_row(job, job->part + i * row_bytes, plane, used,
                            rgb + ((y + i) * job->width + x) * 3);
            }
        }
    }
    return SLUICE_OK;
}

static sluice_status open_file(struct tiff_job *job, struct sluice_err *err)
{
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    if (!options)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a TIFF decoder");
    const uint64_t pixels = (uint64_t)job->width * job->height;
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)(pixels * SLUICE_TIFF_BYTES_PER_PIXEL +
                                                            job->len + SLUICE_TIFF_OTHER_BYTES));
    TIFFOpenOptionsSetErrorHandlerExtR(options, note_error, job);
    TIFFOpenOptionsSetWarningHandlerExtR(options, ignore_warning, NULL);
    job->tiff = TIFFClientOpenExt("TIFF", "r", job, read_bytes, write_nothing, seek, close_nothing,
                                  size_of, map, unmap, options);
    TIFFOpenOptionsFree(options);
    return job->tiff ? SLUICE_OK : fail_job(job, err);
}

static sluice_status decode(const struct sluice_image_info *info, const uint8_t *bytes, size_t len,
                            struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
                            struct sluice_err *err)
{
    struct sluice_tiff_directory directory;
    sluice_status status = find_directory(bytes, len, &directory, err);
    if (status != SLUICE_OK)
        return status;
    const uint32_t orientation = sluice_tiff_directory_get(&directory, SLUICE_TIFF_ORIENTATION, 1);
    const bool is_turned = sluice_orientation_swaps(orientation);
    struct tiff_job job = {
        .bytes = bytes,
        .len = len,
        .width = is_turned ? info->height : info->width,
        .height = is_turned ? info->width : info->height,
    };
    struct sluice_rgb stored = {job.width, job.height, NULL};
    sluice_decode_budget_start(&job.budget, (uint64_t)job.width * job.height);
    status = open_file(&job, err);
    uint32_t width = 0, height = 0;
    if (status == SLUICE_OK &&
        (!TIFFGetField(job.tiff, TIFFTAG_IMAGEWIDTH, &width) || width != job.width ||
         !TIFFGetField(job.tiff, TIFFTAG_IMAGELENGTH, &height) || height != job.height))
        status = sluice_fail(err, SLUICE_E_CORRUPT, "TIFF with two sizes in its header");
    if (status == SLUICE_OK)
        status = read_layout(&job, err);
    if (status == SLUICE_OK)
        status = sluice_image_alloc_rgb(pool, job.width, job.height, &stored.pixels, err);
    if (status == SLUICE_OK)
        status = TIFFIsTiled(job.tiff) ? read_tiles(&job, stored.pixels->data, err)
                                       : read_strips(&job, stored.pixels->data, err);
    if (job.tiff)
        TIFFClose(job.tiff);
    free(job.part);
    if (status == SLUICE_OK)
        status = sluice_rgb_orient(&stored, orientation, pool, err);
    if (status == SLUICE_OK)
        *rgb = stored;
    else
        sluice_buf_unref(stored.pixels);
    return status;
}

#else

static sluice_status decode(const struct sluice_image_info *info, const uint8_t *bytes, size_t len,
                            struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
                            struct sluice_err *err)
{
    (void)info, (void)bytes, (void)len, (void)pool, (void)rgb;
    return sluice_fail(err, SLUICE_E_UNSUPPORTED, "a TIFF file, and this build is without libtiff");
}

#endif

const struct sluice_image_type sluice_image_tiff = {.probe = probe, .decode = decode};
