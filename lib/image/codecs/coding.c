#include "image/codecs/coding.h"

#include <string.h>

static const char *const names[SLUICE_NUM_CODINGS][2] = {
    [SLUICE_CODING_UNKNOWN] = {"-", "-"},
    [SLUICE_CODING_JPEG_444] = {"jpeg-444", "jpeg-444-progressive"},
    [SLUICE_CODING_JPEG_422] = {"jpeg-422", "jpeg-422-progressive"},
    [SLUICE_CODING_JPEG_420] = {"jpeg-420", "jpeg-420-progressive"},
    [SLUICE_CODING_JPEG_440] = {"jpeg-440", "jpeg-440-progressive"},
    [SLUICE_CODING_JPEG_GRAY] = {"jpeg-gray", "jpeg-gray-progressive"},
    [SLUICE_CODING_JPEG_OTHER] = {"jpeg-other", "jpeg-other-progressive"},
    [SLUICE_CODING_PNG] = {"png", "png-progressive"},
    [SLUICE_CODING_WEBP] = {"webp", "webp-progressive"},
    [SLUICE_CODING_BMP] = {"bmp", "bmp-progressive"},
    [SLUICE_CODING_GIF] = {"gif", "gif-progressive"},
    [SLUICE_CODING_TIFF] = {"tiff", "tiff-progressive"},
    [SLUICE_CODING_PNM] = {"pnm", "pnm-progressive"},
};

static enum sluice_coding jpeg_kind(const struct sluice_image_info *info)
{
    if (info->num_components == 1)
        return SLUICE_CODING_JPEG_GRAY;
    if (info->num_components != 3)
        return SLUICE_CODING_JPEG_OTHER;
    switch (info->h_samp << 4 | info->v_samp) {
    case 0x11:
        return SLUICE_CODING_JPEG_444;
    case 0x21:
        return SLUICE_CODING_JPEG_422;
    case 0x22:
        return SLUICE_CODING_JPEG_420;
    case 0x12:
        return SLUICE_CODING_JPEG_440;
    default:
        return SLUICE_CODING_JPEG_OTHER;
    }
}

uint8_t sluice_coding_of(const struct sluice_image_info *info)
{
    static const enum sluice_coding others[] = {
        [SLUICE_IMAGE_PNG] = SLUICE_CODING_PNG,   [SLUICE_IMAGE_WEBP] = SLUICE_CODING_WEBP,
        [SLUICE_IMAGE_BMP] = SLUICE_CODING_BMP,   [SLUICE_IMAGE_GIF] = SLUICE_CODING_GIF,
        [SLUICE_IMAGE_TIFF] = SLUICE_CODING_TIFF, [SLUICE_IMAGE_PNM] = SLUICE_CODING_PNM,
    };
    const enum sluice_coding kind =
        info->format == SLUICE_IMAGE_JPEG ? jpeg_kind(info) : others[info->format];
    return (uint8_t)(kind | (info->is_progressive ? SLUICE_CODING_PROGRESSIVE : 0));
}

enum sluice_coding sluice_coding_kind(uint8_t coding)
{
    const unsigned kind = coding & ~(unsigned)SLUICE_CODING_PROGRESSIVE;
    return kind < SLUICE_NUM_CODINGS ? (enum sluice_coding)kind : SLUICE_CODING_UNKNOWN;
}

bool sluice_coding_is_progressive(uint8_t coding)
{
    return coding & SLUICE_CODING_PROGRESSIVE;
}

const char *sluice_coding_name(uint8_t coding)
{
    return names[sluice_coding_kind(coding)][sluice_coding_is_progressive(coding)];
}

uint8_t sluice_coding_parse(const char *name)
{
    for (unsigned kind = 1; kind < SLUICE_NUM_CODINGS; kind++) {
        if (strcmp(name, names[kind][0]) == 0)
            return (uint8_t)kind;
        if (strcmp(name, names[kind][1]) == 0)
            return (uint8_t)(kind | SLUICE_CODING_PROGRESSIVE);
    }
    return SLUICE_CODING_UNKNOWN;
}
