#ifndef SLUICE_OP_FEATURES_H
#define SLUICE_OP_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

/* Facts about a sample in one epoch that are known before it is fetched, and the features derived
 * from them.  A cost is a weighted sum of features.  Each form has default weights (op/form.h); the
 * plan fits weights to measurements (plan/choice_cost.h).
 *
 * Threads: pure functions. */

struct sluice_sample_facts {
    uint64_t file_bytes;
    uint32_t width, height; /* at least 1; guessed from the file's bytes where not known */
    uint8_t coding;         /* image/codecs/coding.h */
    bool is_size_guessed;
    /* Side of a square of as many pixels as it ends as; 0: the image's own size. */
    uint32_t output_size;
    /* The part of the image that the ops read: all of it unless they begin with a crop. */
    struct {
        uint32_t top, left, height, width;
    } crop;
    /* Pixels that the resizes of several views read, each its own; 0: one view. */
    uint64_t view_pixels;
};

enum sluice_choice_feature {
    SLUICE_CHOICE_PER_SAMPLE,
    SLUICE_CHOICE_PER_FILE_BYTE,
    SLUICE_CHOICE_PER_PIXEL,         /* of the whole image */
    SLUICE_CHOICE_PER_BYTE_TO_CROP,  /* file bytes down to the last MCU row of the crop */
    SLUICE_CHOICE_PER_CROP_BYTE,     /* file bytes by the share of the image that its MCUs are */
    SLUICE_CHOICE_PER_CROP_PIXEL,    /* before it is resized */
    SLUICE_CHOICE_PER_CHROMA_SAMPLE, /* of the crop, without luma */
    SLUICE_CHOICE_PER_CROP_ROW,      /* pixels of the resized width */
    SLUICE_CHOICE_PER_OUTPUT_PIXEL,
    /* Detail left in the output: its pixels times the cube root of (the file's bytes per pixel
     * times the factor by which the crop is scaled down). */
    SLUICE_CHOICE_PER_DETAIL,
    /* Pixels that the resizes of several views read, minus those of the crop. */
    SLUICE_CHOICE_PER_VIEW_PIXEL,
    SLUICE_NUM_CHOICE_FEATURES,
};

enum sluice_file_class {
    SLUICE_CLASS_WINDOW, /* JPEGs that image/jpeg/window.h covers, and unknown files */
    SLUICE_CLASS_JPEG,   /* other JPEGs: progressive, four components, unusual sampling */
    SLUICE_CLASS_PNG,    /* PNGs, and other formats: all pixels, whatever the crop */
    SLUICE_NUM_FILE_CLASSES,
};

const char *sluice_file_class_name(enum sluice_file_class file_class);
const char *sluice_choice_feature_name(enum sluice_choice_feature feature);

enum sluice_file_class sluice_file_class_of(const struct sluice_sample_facts *facts);
void sluice_choice_features(const struct sluice_sample_facts *facts,
                            double feature[SLUICE_NUM_CHOICE_FEATURES]);

/* Seconds of one core, or bytes, per unit of each feature. */
struct sluice_choice_weights {
    double per[SLUICE_NUM_CHOICE_FEATURES];
};

/* SLUICE_PER(SAMPLE, 20e-6): one of the weights, in an initializer. */
#define SLUICE_PER(feature, weight) [SLUICE_CHOICE_PER_##feature] = (weight)

/* Seconds for a pixel that a resize reads. */
#define SLUICE_RESIZE_S_PER_PIXEL 0.29e-9

/* The sum of the features by the weights. */
double sluice_choice_predict(const struct sluice_choice_weights *weights,
                             const double feature[SLUICE_NUM_CHOICE_FEATURES]);

/* The cost of decoding and resizing a window of a JPEG's MCUs, by file class. */
extern const struct sluice_choice_weights sluice_decode_window_cost[SLUICE_NUM_FILE_CLASSES];

/* MCU rows under the crop of a JPEG that the window decoder covers, its columns of MCUs, and the
 * bytes of its headers and these rows, estimated as if all rows had the same size. */
struct sluice_mcu_rows {
    double rows, columns, bytes;
};
struct sluice_mcu_rows sluice_mcu_rows_of(const struct sluice_sample_facts *facts);

#endif
