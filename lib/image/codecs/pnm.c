/* Binary portable pixmaps and graymaps (P6, P5), as Pillow's PpmImagePlugin reads them. */

#include "base/buf.h"
#include "image/codecs/internal.h"

#include <math.h>
#include <string.h>

#define MAX_DIGITS 10u

struct pnm {
    uint32_t width, height, max;
    unsigned num_channels;
    size_t pixels; /* position in the file */
};

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next number and the one space behind it; a comment, from '#' on, ends with its line. */
static sluice_status read_number(const uint8_t *bytes, size_t len, size_t *pos, uint32_t *number,
                                 struct sluice_err *err)
{
    uint64_t value = 0;
    unsigned num_digits = 0;
    while (*pos < len) {
        const uint8_t c = bytes[(*pos)++];
        if (is_space(c)) {
            if (num_digits > 0)
                break;
        } else if (c == '#') {
            while (*pos < len && bytes[*pos] != '\r' && bytes[*pos] != '\n')
                (*pos)++;
            *pos += *pos < len;
        } else if (c < '0' || c > '9' || num_digits == MAX_DIGITS) {
            return sluice_fail(err, SLUICE_E_CORRUPT, "PNM with a header that has no number");
        } else {
            value = value * 10 + (c - '0');
            num_digits++;
        }
    }
    if (*pos >= len)
        return sluice_fail(err, SLUICE_E_CORRUPT, "PNM cut in its header, at %zu bytes", len);
    *number = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
    return SLUICE_OK;
}

static sluice_status read_header(const uint8_t *bytes, size_t len, struct pnm *pnm,
                                 struct sluice_err *err)
{
    *pnm = (struct pnm){.num_channels = bytes[1] == '6' ? 3 : 1};
    size_t pos = 3; /* "P6" and a space */
    sluice_status status = read_number(bytes, len, &pos, &pnm->width, err);
    if (status == SLUICE_OK)
        status = read_number(bytes, len, &pos, &pnm->height, err);
    if (status == SLUICE_OK)
        status = read_number(bytes, len, &pos, &pnm->max, err);
    if (status != SLUICE_OK)
        return status;
    pnm->pixels = pos;
    if (pnm->width == 0 || pnm->height == 0 || pnm->max == 0 || pnm->max > 65535)
        return sluice_fail(err, SLUICE_E_CORRUPT, "PNM of %u x %u pixels with values up to %u",
                           pnm->width, pnm->height, pnm->max);
    return SLUICE_OK;
}

static sluice_status probe(const uint8_t *bytes, size_t len, struct sluice_image_info *info,
                           struct sluice_err *err)
{
    struct pnm pnm;
    const sluice_status status = read_header(bytes, len, &pnm, err);
    if (status != SLUICE_OK)
        return status;
    *info = (struct sluice_image_info){
        .format = SLUICE_IMAGE_PNM,
        .width = pnm.width,
        .height = pnm.height,
        .num_components = (uint8_t)pnm.num_channels,
        .h_samp = 1,
        .v_samp = 1,
    };
    return SLUICE_OK;
}

/* Pillow scales to 8 bits, halves to even; but grays of more than 8 bits to 16, which it then
 * clips. */
static uint8_t scale(const struct pnm *pnm, unsigned value)
{
    if (pnm->max == 255)
        return (uint8_t)value;
    const bool is_wide_gray = pnm->max > 255 && pnm->num_channels == 1;
    const double scaled = rint((double)value / pnm->max * (is_wide_gray ? 65535.0 : 255.0));
    return (uint8_t)(scaled < 255 ? scaled : 255);
}

static sluice_status decode(const struct sluice_image_info *info, const uint8_t *bytes, size_t len,
                            struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
                            struct sluice_err *err)
{
    struct pnm pnm;
    sluice_status status = read_header(bytes, len, &pnm, err);
    if (status != SLUICE_OK)
        return status;
    const size_t num_pixels = (size_t)pnm.width * pnm.height;
    const size_t value_bytes = pnm.max > 255 ? 2 : 1;
    if (len - pnm.pixels < num_pixels * pnm.num_channels * value_bytes)
        return sluice_fail(err, SLUICE_E_CORRUPT, "PNM cut in its pixels, at %zu bytes", len);
    struct sluice_buf *pixels;
    status = sluice_image_alloc_rgb(pool, info->width, info->height, &pixels, err);
    if (status != SLUICE_OK)
        return status;
    const uint8_t *from = bytes + pnm.pixels;
    uint8_t *out = pixels->data;
    for (size_t i = 0; i < num_pixels * pnm.num_channels; i++, from += value_bytes) {
        const uint8_t value = scale(&pnm, value_bytes == 2 ? sluice_be16(from) : *from);
        for (unsigned c = 0; c < (pnm.num_channels == 3 ? 1u : 3u); c++)
            *out++ = value;
    }
    *rgb = (struct sluice_rgb){info->width, info->height, pixels};
    return SLUICE_OK;
}

const struct sluice_image_type sluice_image_pnm = {.probe = probe, .decode = decode};
