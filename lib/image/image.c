#include "image/image.h"

#include "base/buf.h"
#include "base/checked.h"
#include "image/image_internal.h"

#include <string.h>

static const uint8_t png_signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

static bool starts_with(const uint8_t *bytes, size_t len, const void *magic, size_t magic_len)
{
    return len >= magic_len && memcmp(bytes, magic, magic_len) == 0;
}

/* Guesses the format of a file that is not decoded, for the message. */
static const char *guess_format(const uint8_t *bytes, size_t len)
{
    static const struct {
        const char *magic;
        uint8_t len, offset;
        const char *name;
    } known[] = {
        {"WEBP", 4, 8, "a WebP"},        {"II+\0", 4, 0, "a BigTIFF"},
        {"MM\0+", 4, 0, "a BigTIFF"},    {"ftypheic", 8, 4, "a HEIF"},
        {"ftypavif", 8, 4, "an AVIF"},   {"\0\0\0\x0CjP  ", 8, 0, "a JPEG 2000"},
        {"\xFF\x0A", 2, 0, "a JPEG XL"}, {"\0\0\0\x0CJXL ", 8, 0, "a JPEG XL"},
        {"\x1F\x8B", 2, 0, "a gzip"},    {"PK\3\4", 4, 0, "a ZIP"},
        {"%PDF", 4, 0, "a PDF"},         {"<!DOCTYPE", 9, 0, "an HTML"},
        {"<html", 5, 0, "an HTML"},      {"<?xml", 5, 0, "an XML"},
        {"<svg", 4, 0, "an SVG"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(known); i++) {
        if (len >= known[i].offset && starts_with(bytes + known[i].offset, len - known[i].offset,
                                                  known[i].magic, known[i].len))
            return known[i].name;
    }
    return NULL;
}

/* Luma's sampling factor over chroma's where that is a whole number. */
static uint8_t sampling_ratio(unsigned luma, unsigned chroma)
{
    return chroma > 0 && luma % chroma == 0 ? (uint8_t)(luma / chroma) : 1;
}

static sluice_status read_sof(const uint8_t *segment, size_t len, unsigned marker,
                              struct sluice_image_info *info, struct sluice_err *err)
{
    /* SOF0..2: Huffman; SOF9 and 10: arithmetic.  The rest is lossless or hierarchical. */
    if (marker != 0xC0 && marker != 0xC1 && marker != 0xC2 && marker != 0xC9 && marker != 0xCA)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG of an unsupported process (SOF%u)",
                           marker - 0xC0);
    const sluice_status status = sluice_jpeg_check_frame(segment, len, err);
    if (status != SLUICE_OK)
        return status;
    const unsigned num_components = segment[5];
    *info = (struct sluice_image_info){
        .format = SLUICE_IMAGE_JPEG,
        .width = sluice_be16(segment + 3),
        .height = sluice_be16(segment + 1),
        .num_components = (uint8_t)num_components,
        .h_samp = 1,
        .v_samp = 1,
        .is_progressive = marker == 0xC2 || marker == 0xCA,
    };
    if (num_components > 1) {
        info->h_samp = sampling_ratio(segment[7] >> 4, segment[10] >> 4);
        info->v_samp = sampling_ratio(segment[7] & 15, segment[10] & 15);
    }
    return SLUICE_OK;
}

static bool is_frame_header(unsigned marker)
{
    return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

/* Looks for the frame header. */
static sluice_status probe_jpeg(const uint8_t *bytes, size_t len, struct sluice_image_info *info,
                                struct sluice_err *err)
{
    size_t pos = 2;
    struct sluice_jpeg_segment segment;
    while (sluice_jpeg_next_segment(bytes, len, &pos, &segment)) {
        if (segment.marker < 0xC0)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG with the unknown marker 0x%02x",
                               segment.marker);
        if (segment.body && segment.marker == 0xDA)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG scan before any frame header");
        if (!segment.is_whole)
            break;
        if (is_frame_header(segment.marker))
            return read_sof(segment.body, segment.len, segment.marker, info, err);
    }
    return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG cut before its frame header, at %zu bytes",
                       len);
}

static sluice_status probe_png(const uint8_t *bytes, size_t len, struct sluice_image_info *info,
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

/* The format of a file, by its first bytes. */
enum kind { OTHER, JPEG, PNG, WEBP, GIF, TIFF, PGM, PPM, BMP };

static enum kind kind_of(const uint8_t *bytes, size_t len)
{
    if (starts_with(bytes, len, "\xFF\xD8\xFF", 3))
        return JPEG;
    if (starts_with(bytes, len, png_signature, sizeof(png_signature)))
        return PNG;
    if (starts_with(bytes, len, "RIFF", 4) && len >= 15 && memcmp(bytes + 8, "WEBPVP8", 7) == 0)
        return WEBP;
    if (starts_with(bytes, len, "GIF87a", 6) || starts_with(bytes, len, "GIF89a", 6))
        return GIF;
    if (starts_with(bytes, len, "II*\0", 4) || starts_with(bytes, len, "MM\0*", 4))
        return TIFF;
    if (len >= 3 && bytes[0] == 'P' && (bytes[1] == '5' || bytes[1] == '6') &&
        (bytes[2] == ' ' || (bytes[2] >= '\t' && bytes[2] <= '\r')))
        return bytes[1] == '5' ? PGM : PPM;
    return starts_with(bytes, len, "BM", 2) ? BMP : OTHER;
}

static const char *const suffixes[] = {
    [OTHER] = NULL,  [JPEG] = ".jpg", [PNG] = ".png", [WEBP] = ".webp", [GIF] = ".gif",
    [TIFF] = ".tif", [PGM] = ".pgm",  [PPM] = ".ppm", [BMP] = ".bmp",
};

const char *sluice_image_suffix(const uint8_t *bytes, size_t len)
{
    return suffixes[kind_of(bytes, len)];
}

const char *sluice_image_suffix_at(unsigned i)
{
    _Static_assert(OTHER == 0, "what has no suffix comes first");
    return i + 1 < sizeof(suffixes) / sizeof(suffixes[0]) ? suffixes[i + 1] : NULL;
}

sluice_status sluice_image_probe(const uint8_t *bytes, size_t len, struct sluice_image_info *info,
                                 struct sluice_err *err)
{
    if (len == 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "the file is empty");
    switch (kind_of(bytes, len)) {
    case JPEG:
        return probe_jpeg(bytes, len, info, err);
    case PNG:
        return probe_png(bytes, len, info, err);
    case WEBP:
        return sluice_webp_probe(bytes, len, info, err);
    case GIF:
        return sluice_gif_probe(bytes, len, info, err);
    case TIFF:
        return sluice_tiff_probe(bytes, len, info, err);
    case PGM:
    case PPM:
        return sluice_pnm_probe(bytes, len, info, err);
    case BMP:
        return sluice_bmp_probe(bytes, len, info, err);
    case OTHER:
        break;
    }
    if (len < 3 && memcmp(bytes, "\xFF\xD8", len) == 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG cut at %zu bytes", len);
    if (len < 8 && memcmp(bytes, png_signature, len) == 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "PNG cut at %zu bytes", len);
    const char *guess = guess_format(bytes, len);
    if (guess)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s file, a format that is not read", guess);
    return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                       "no image of a known format (begins with %02x %02x)", bytes[0],
                       len > 1 ? bytes[1] : 0);
}

bool sluice_image_format_is_decoded(enum sluice_image_format format)
{
#ifndef SLUICE_HAVE_WEBP
    if (format == SLUICE_IMAGE_WEBP)
        return false;
#endif
#ifndef SLUICE_HAVE_TIFF
    if (format == SLUICE_IMAGE_TIFF)
        return false;
#endif
    (void)format;
    return true;
}
