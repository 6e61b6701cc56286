#include "image/codecs/internal.h"

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

static const struct {
    const struct sluice_image_type *type;
    const char *suffix;
} kinds[] = {
    [OTHER] = {NULL, NULL},
    [JPEG] = {&sluice_image_jpeg, ".jpg"},
    [PNG] = {&sluice_image_png, ".png"},
    [WEBP] = {&sluice_image_webp, ".webp"},
    [GIF] = {&sluice_image_gif, ".gif"},
    [TIFF] = {&sluice_image_tiff, ".tif"},
    [PGM] = {&sluice_image_pnm, ".pgm"},
    [PPM] = {&sluice_image_pnm, ".ppm"},
    [BMP] = {&sluice_image_bmp, ".bmp"},
};

const char *sluice_image_suffix(const uint8_t *bytes, size_t len)
{
    return kinds[kind_of(bytes, len)].suffix;
}

const char *sluice_image_suffix_at(unsigned i)
{
    _Static_assert(OTHER == 0, "what has no suffix comes first");
    return i + 1 < SLUICE_ARRAY_LEN(kinds) ? kinds[i + 1].suffix : NULL;
}

sluice_status sluice_image_probe(const uint8_t *bytes, size_t len, struct sluice_image_info *info,
                                 struct sluice_err *err)
{
    if (len == 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "the file is empty");
    const struct sluice_image_type *type = kinds[kind_of(bytes, len)].type;
    if (type)
        return type->probe(bytes, len, info, err);
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
