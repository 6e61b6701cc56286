#include "op/features.h"

#include "image/codecs/coding.h"

#include <math.h>

const char *sluice_file_class_name(enum sluice_file_class file_class)
{
    static const char *const names[SLUICE_NUM_FILE_CLASSES] = {"window", "jpeg", "png"};
    return names[file_class];
}

const char *sluice_choice_feature_name(enum sluice_choice_feature feature)
{
    static const char *const names[SLUICE_NUM_CHOICE_FEATURES] = {
        "sample",        "file_byte", "pixel",        "byte_to_crop", "crop_byte",  "crop_pixel",
        "chroma_sample", "crop_row",  "output_pixel", "detail",       "view_pixel",
    };
    return names[feature];
}

enum sluice_file_class sluice_file_class_of(const struct sluice_sample_facts *facts)
{
    switch (sluice_coding_kind(facts->coding)) {
    case SLUICE_CODING_PNG:
    case SLUICE_CODING_WEBP:
    case SLUICE_CODING_BMP:
    case SLUICE_CODING_GIF:
    case SLUICE_CODING_TIFF:
    case SLUICE_CODING_PNM:
        return SLUICE_CLASS_PNG;
    case SLUICE_CODING_JPEG_OTHER:
        return SLUICE_CLASS_JPEG;
    default:
        return sluice_coding_is_progressive(facts->coding) ? SLUICE_CLASS_JPEG
                                                           : SLUICE_CLASS_WINDOW;
    }
}

struct grid {
    uint32_t mcu_width, mcu_height;
    double chroma; /* chroma samples per pixel */
};

static struct grid grid_of(uint8_t coding)
{
    switch (sluice_coding_kind(coding)) {
    case SLUICE_CODING_JPEG_444:
    case SLUICE_CODING_JPEG_OTHER:
        return (struct grid){8, 8, 2};
    case SLUICE_CODING_JPEG_422:
        return (struct grid){16, 8, 1};
    case SLUICE_CODING_JPEG_440:
        return (struct grid){8, 16, 1};
    case SLUICE_CODING_JPEG_GRAY:
        return (struct grid){8, 8, 0};
    case SLUICE_CODING_PNG:
    case SLUICE_CODING_WEBP:
    case SLUICE_CODING_BMP:
    case SLUICE_CODING_GIF:
    case SLUICE_CODING_TIFF:
    case SLUICE_CODING_PNM:
        return (struct grid){1, 1, 2};
    default: /* what cameras write, and most of ImageNet is */
        return (struct grid){16, 16, 0.5};
    }
}

/* Pixels of the MCUs under [from, from + count), with the margin that smooth upsampling needs
 * where chroma is sampled down. */
static double covered(uint32_t from, uint32_t count, uint32_t size, uint32_t step)
{
    const uint64_t margin = step == 16;
    const uint64_t first = from > margin ? (from - margin) / step * step : 0;
    uint64_t end = ((uint64_t)from + count + margin + step - 1) / step * step;
    end = end < size ? end : size;
    return (double)(end - first);
}

void sluice_choice_features(const struct sluice_sample_facts *facts,
                            double feature[SLUICE_NUM_CHOICE_FEATURES])
{
    const struct grid grid = grid_of(facts->coding);
    const double bytes = (double)facts->file_bytes;
    const double pixels = (double)facts->width * facts->height;
    const double rows =
        covered(0, facts->crop.top + facts->crop.height, facts->height, grid.mcu_height);
    const double window =
        covered(facts->crop.left, facts->crop.width, facts->width, grid.mcu_width) *
        covered(facts->crop.top, facts->crop.height, facts->height, grid.mcu_height);
    const double crop_pixels = (double)facts->crop.width * facts->crop.height;
    const double side = facts->output_size ? facts->output_size : sqrt(crop_pixels);
    const double output = side * side;
    feature[SLUICE_CHOICE_PER_SAMPLE] = 1;
    feature[SLUICE_CHOICE_PER_FILE_BYTE] = bytes;
    feature[SLUICE_CHOICE_PER_PIXEL] = pixels;
    feature[SLUICE_CHOICE_PER_BYTE_TO_CROP] = bytes * rows / facts->height;
    feature[SLUICE_CHOICE_PER_CROP_BYTE] = bytes * window / pixels;
    feature[SLUICE_CHOICE_PER_CROP_PIXEL] = crop_pixels;
    feature[SLUICE_CHOICE_PER_CHROMA_SAMPLE] = crop_pixels * grid.chroma;
    feature[SLUICE_CHOICE_PER_CROP_ROW] = facts->crop.height * side;
    feature[SLUICE_CHOICE_PER_OUTPUT_PIXEL] = output;
    feature[SLUICE_CHOICE_PER_VIEW_PIXEL] =
        facts->view_pixels > 0 ? (double)facts->view_pixels - crop_pixels : 0;
    feature[SLUICE_CHOICE_PER_DETAIL] = output * cbrt(bytes / pixels * sqrt(crop_pixels / output));
}

double sluice_choice_predict(const struct sluice_choice_weights *weights,
                             const double feature[SLUICE_NUM_CHOICE_FEATURES])
{
    double sum = 0;
    for (int f = 0; f < SLUICE_NUM_CHOICE_FEATURES; f++)
        sum += weights->per[f] * feature[f];
    return sum;
}

/* Bytes outside the rows: the mean over 200 photographs of ImageNet. */
#define HEAD_BYTES 1800.0

struct sluice_mcu_rows sluice_mcu_rows_of(const struct sluice_sample_facts *facts)
{
    const struct grid grid = grid_of(facts->coding);
    const double bytes = (double)facts->file_bytes;
    const double pixel_rows =
        covered(facts->crop.top, facts->crop.height, facts->height, grid.mcu_height);
    return (struct sluice_mcu_rows){
        .rows = pixel_rows / grid.mcu_height,
        .columns = (double)facts->width / grid.mcu_width,
        .bytes = HEAD_BYTES + (bytes - HEAD_BYTES) * pixel_rows / facts->height,
    };
}

/* Measured as plan/choice_cost.c describes. */
#define DECODE_WINDOW                                                                              \
    {                                                                                              \
        {                                                                                          \
            SLUICE_PER(SAMPLE, 20e-6), SLUICE_PER(OUTPUT_PIXEL, 0.48e-9),                          \
                SLUICE_PER(CROP_BYTE, 3.0e-9), SLUICE_PER(CROP_PIXEL, 1.17e-9),                    \
                SLUICE_PER(CHROMA_SAMPLE, 0.385e-9),                                               \
                SLUICE_PER(VIEW_PIXEL, SLUICE_RESIZE_S_PER_PIXEL)                                  \
        }                                                                                          \
    }

const struct sluice_choice_weights sluice_decode_window_cost[SLUICE_NUM_FILE_CLASSES] = {
    [SLUICE_CLASS_WINDOW] = DECODE_WINDOW,
    [SLUICE_CLASS_JPEG] = DECODE_WINDOW,
};
