#include "plan/choice_cost.h"

#include "datasets/indexed_file.h"
#include "image/coding.h"
#include "image/jpeg_rows.h"

#include <math.h>
#include <string.h>

const char *sluice_modelled_name(enum sluice_resource resource)
{
    if (!sluice_resource_is_in(SLUICE_MODELLED, (int)resource))
        return NULL;
    return resource == SLUICE_NETWORK ? "bytes" : sluice_resource_name(resource);
}

const char *sluice_file_class_name(enum sluice_file_class file_class)
{
    static const char *const names[SLUICE_NUM_FILE_CLASSES] = {"window", "jpeg", "png"};
    return names[file_class];
}

const char *sluice_choice_feature_name(enum sluice_choice_feature feature)
{
    static const char *const names[SLUICE_NUM_CHOICE_FEATURES] = {
        "sample",     "file_byte",     "pixel",    "byte_to_crop", "crop_byte",
        "crop_pixel", "chroma_sample", "crop_row", "output_pixel", "detail",
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

/* --- features --- */

struct grid {
    uint32_t mcu_width, mcu_height;
    double chroma; /* samples beside luma, for each pixel */
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
    feature[SLUICE_CHOICE_PER_DETAIL] = output * cbrt(bytes / pixels * sqrt(crop_pixels / output));
}

/* --- what is read --- */

/* Before the rows and behind them: the mean over 200 photographs of ImageNet. */
#define HEAD_BYTES 1800.0

static bool is_indexed(const struct sluice_choice_model *model,
                       const struct sluice_sample_facts *facts)
{
    return model->has_jpeg_index && sluice_file_class_of(facts) == SLUICE_CLASS_WINDOW;
}

/* Pixels of the MCU rows under the crop, of one column. */
static double rows_under(const struct sluice_sample_facts *facts)
{
    return covered(facts->crop.top, facts->crop.height, facts->height,
                   grid_of(facts->coding).mcu_height);
}

static double part_bytes(const struct sluice_sample_facts *facts)
{
    const double bytes = (double)facts->file_bytes;
    return HEAD_BYTES + (bytes - HEAD_BYTES) * rows_under(facts) / facts->height;
}

double sluice_choice_read_bytes(const struct sluice_choice_model *model,
                                const struct sluice_sample_facts *facts, unsigned choice)
{
    const double bytes = (double)facts->file_bytes;
    if (!is_indexed(model, facts) || !model->choices.traits[choice].needs_box_alone)
        return bytes;
    const double read = part_bytes(facts);
    return read * 100 < bytes * SLUICE_INDEXED_MAX_PARTIAL_PERCENT ? read : bytes;
}

/* What travels with rows of a file: 7 bytes for each of their points, at most 8 of a row of MCUs
 * (SLUICE_JPEG_INDEX_AUTO_STEP), and 4 for each row. */
static double rows_bytes(const struct sluice_sample_facts *facts)
{
    const struct grid grid = grid_of(facts->coding);
    const double points = fmin(ceil((double)facts->width / grid.mcu_width / 8), 8);
    return part_bytes(facts) + rows_under(facts) / grid.mcu_height * (4 + 7 * points);
}

/* Whether rows come that were asked for. */
static bool has_rows(const struct sluice_choice_model *model,
                     const struct sluice_sample_facts *facts)
{
    return is_indexed(model, facts) &&
           rows_bytes(facts) * 100 <= (double)facts->file_bytes * SLUICE_JPEG_ROWS_MAX_PERCENT;
}

/* --- the default --- */

#define PER_SAMPLE(x) [SLUICE_CHOICE_PER_SAMPLE] = (x)
#define FILE_BYTE(x) [SLUICE_CHOICE_PER_FILE_BYTE] = (x)
#define PIXEL(x) [SLUICE_CHOICE_PER_PIXEL] = (x)
#define BYTE_TO_CROP(x) [SLUICE_CHOICE_PER_BYTE_TO_CROP] = (x)
#define CROP_BYTE(x) [SLUICE_CHOICE_PER_CROP_BYTE] = (x)
#define CROP_PIXEL(x) [SLUICE_CHOICE_PER_CROP_PIXEL] = (x)
#define CHROMA(x) [SLUICE_CHOICE_PER_CHROMA_SAMPLE] = (x)
#define CROP_ROW(x) [SLUICE_CHOICE_PER_CROP_ROW] = (x)
#define OUTPUT_PIXEL(x) [SLUICE_CHOICE_PER_OUTPUT_PIXEL] = (x)
#define DETAIL(x) [SLUICE_CHOICE_PER_DETAIL] = (x)

/* Steps that the choices are sums of.  Seconds of one core of an AMD EPYC (Zen 4) with AVX-512,
 * and bytes, fitted to what `offload_train --profiling` measured, a core for each node: files as
 * cameras and the web have them by 5 crops each of 200 photographs of ImageNet and 2 of 42 of 1024
 * pixels, progressive ones and PNGs by 2 crops each of 67 that were coded anew; to_float to what
 * `offload_profile run` measured.
 *
 * CUT of window files, CUT_FILE_TO_PIXELS, ALL_TO_PIXELS, pack, unpack, take_over, flip and
 * from_float are fitted to profiles of another hour: 2 crops each of the same photographs, of each
 * sample and choice the median over 6 and 2 profiles (ImageNet) and 3 and 2 (1024 pixels).  Those
 * seconds are divided by how much longer TO_PIXELS took in them than it does here, 1.18 on the
 * storage node and 1.24 on the other, and either set of photographs has the same say.  All had 224
 * output pixels a side, so what does not vary with the file is shared out between PER_SAMPLE and
 * OUTPUT_PIXEL by judgement.
 *
 * The ratios travel better than the times. */
enum step {
    TO_PIXELS,       /* a file to what the crop needs of it, resized */
    WHOLE,           /* a file to all of its pixels */
    WHOLE_TO_PIXELS, /* from there */
    CUT,
    CUT_TO_PIXELS,
    CUT_BYTES,
    PACKED_BYTES,
    NUM_STEPS,
};

#define CUT_FILE_TO_PIXELS                                                                         \
    {                                                                                              \
        {                                                                                          \
            PER_SAMPLE(20e-6), OUTPUT_PIXEL(0.48e-9), CROP_BYTE(3.0e-9), CROP_PIXEL(1.17e-9),      \
                CHROMA(0.385e-9)                                                                   \
        }                                                                                          \
    }
#define ALL_TO_PIXELS                                                                              \
    {                                                                                              \
        {                                                                                          \
            PER_SAMPLE(10e-6), OUTPUT_PIXEL(0.42e-9), PIXEL(0.33e-9), CROP_PIXEL(0.29e-9)          \
        }                                                                                          \
    }

static const struct sluice_choice_weights steps[SLUICE_NUM_FILE_CLASSES][NUM_STEPS] =
    {
        [SLUICE_CLASS_WINDOW] =
            {
                [TO_PIXELS] = {{PER_SAMPLE(20e-6), OUTPUT_PIXEL(0.9e-9), PIXEL(0.085e-9),
                                BYTE_TO_CROP(2.1e-9), CROP_BYTE(2.53e-9), CROP_PIXEL(0.98e-9),
                                CHROMA(0.54e-9), CROP_ROW(0.15e-9)}},
                [WHOLE] = {{PER_SAMPLE(10e-6), FILE_BYTE(5.4e-9), PIXEL(1.3e-9)}},
                [WHOLE_TO_PIXELS] = ALL_TO_PIXELS,
                [CUT] = {{PER_SAMPLE(39e-6), BYTE_TO_CROP(2.17e-9), PIXEL(0.1e-9),
                          CROP_PIXEL(0.19e-9)}},
                [CUT_TO_PIXELS] = CUT_FILE_TO_PIXELS,
                [CUT_BYTES] = {{PER_SAMPLE(180), CROP_BYTE(0.965), CHROMA(0.0195)}},
                [PACKED_BYTES] = {{DETAIL(1.49)}},
            },
        [SLUICE_CLASS_JPEG] =
            {
                [TO_PIXELS] = {{PER_SAMPLE(20e-6), OUTPUT_PIXEL(1.3e-9), FILE_BYTE(26e-9),
                                PIXEL(3.9e-9), CROP_PIXEL(0.5e-9)}},
                [WHOLE] = {{PER_SAMPLE(10e-6), FILE_BYTE(26.3e-9), PIXEL(4.0e-9)}},
                [WHOLE_TO_PIXELS] = ALL_TO_PIXELS,
                [CUT] = {{PER_SAMPLE(25e-6), FILE_BYTE(27.2e-9), PIXEL(2.6e-9),
                          CROP_PIXEL(2.3e-9)}},
                [CUT_TO_PIXELS] = CUT_FILE_TO_PIXELS,
                [CUT_BYTES] = {{PER_SAMPLE(180), CROP_BYTE(1.03), CHROMA(0.077)}},
                [PACKED_BYTES] = {{DETAIL(1.58)}},
            },
        [SLUICE_CLASS_PNG] =
            {
                [TO_PIXELS] = {{PER_SAMPLE(20e-6), OUTPUT_PIXEL(1.4e-9), FILE_BYTE(3.8e-9),
                                PIXEL(13.5e-9), CROP_ROW(1.9e-9)}},
                [WHOLE] = {{PER_SAMPLE(10e-6), FILE_BYTE(3.77e-9), PIXEL(14.2e-9)}},
                [WHOLE_TO_PIXELS] = ALL_TO_PIXELS,
                [PACKED_BYTES] = {{DETAIL(0.99)}},
            },
};

static const struct sluice_choice_weights pack = {{PER_SAMPLE(10e-6), OUTPUT_PIXEL(7.2e-9)}};
static const struct sluice_choice_weights unpack = {{PER_SAMPLE(5e-6), OUTPUT_PIXEL(4.8e-9)}};
static const struct sluice_choice_weights take_over = {{PER_SAMPLE(3e-6), OUTPUT_PIXEL(0.39e-9)}};
static const struct sluice_choice_weights flip = {{OUTPUT_PIXEL(0.2e-9)}}; /* of every other */
static const struct sluice_choice_weights to_float = {{OUTPUT_PIXEL(0.4e-9)}};
static const struct sluice_choice_weights from_float = {{OUTPUT_PIXEL(6e-9)}};
/* An estimate, not measured: a look-up and some kB of points, two hashes and a move of the rows;
 * and on the other side these points. */
static const struct sluice_choice_weights take_rows = {{PER_SAMPLE(10e-6), CROP_BYTE(0.2e-9)}};
static const struct sluice_choice_weights open_rows = {{PER_SAMPLE(6e-6)}};
static const struct sluice_choice_weights serve = {{PER_SAMPLE(1e-6)}};

static bool is_whole_image(const struct sluice_choice_traits *traits)
{
    return traits->image.square == 0 && traits->image.shorter == 0;
}

static void add(struct sluice_choice_weights *sum, const struct sluice_choice_weights *step)
{
    for (int f = 0; f < SLUICE_NUM_CHOICE_FEATURES; f++)
        sum->per[f] += step->per[f];
}

static void set_class(const struct sluice_choices *choices,
                      struct sluice_choice_weights (*of)[SLUICE_NUM_RESOURCES],
                      const struct sluice_choice_weights *step)
{
    for (unsigned c = 0; c < choices->num; c++) {
        struct sluice_choice_weights *storage = &of[c][SLUICE_STORAGE_CPU];
        struct sluice_choice_weights *compute = &of[c][SLUICE_COMPUTE_CPU];
        struct sluice_choice_weights *bytes = &of[c][SLUICE_NETWORK];
        switch ((enum sluice_form)choices->at[c].form) {
        case SLUICE_FORM_RAW:
            add(compute, &step[TO_PIXELS]);
            break;
        case SLUICE_FORM_U8:
            add(storage, &step[is_whole_image(&choices->traits[c]) ? WHOLE : TO_PIXELS]);
            add(compute, is_whole_image(&choices->traits[c]) ? &step[WHOLE_TO_PIXELS] : &take_over);
            if (!is_whole_image(&choices->traits[c]) && choices->traits[c].leaves_flip)
                add(compute, &flip);
            break;
        case SLUICE_FORM_F32:
            add(storage, &step[TO_PIXELS]);
            add(storage, &to_float);
            add(compute, &from_float);
            break;
        case SLUICE_FORM_JPEG_CROP:
            add(storage, &step[CUT]);
            add(compute, &step[CUT_TO_PIXELS]);
            add(bytes, &step[CUT_BYTES]);
            break;
        case SLUICE_FORM_U8_PACKED:
            add(storage, &step[TO_PIXELS]);
            add(storage, &pack);
            add(compute, &unpack);
            add(bytes, &step[PACKED_BYTES]);
            break;
        case SLUICE_FORM_JPEG_ROWS: /* decoded as what was cut is, by the index */
            add(storage, &take_rows);
            add(compute, &open_rows);
            add(compute, &step[CUT_TO_PIXELS]);
            break;
        case SLUICE_NUM_FORMS:
            break;
        }
        add(storage, &serve);
    }
}

struct sluice_choice_model sluice_choice_model_default(const struct sluice_choices *choices)
{
    struct sluice_choice_model model = {
        .choices = *choices, .disk_s_per_sample = 20e-6, .disk_s_per_byte = 0.3e-9};
    for (int file_class = 0; file_class < SLUICE_NUM_FILE_CLASSES; file_class++)
        set_class(choices, model.weights[file_class], steps[file_class]);
    sluice_choice_model_set_gpu(&model);
    return model;
}

/* A cut with a restart marker every 8 MCUs against one without them, by one core of an Intel Xeon:
 * 290 us to 250 us, and 0.84 % more bytes, for ImageNet's photographs without an index.  (With one
 * it is 116 us to 58 us, which is about as much more.) */
#define MARKED_CUT_TIME 1.16
#define MARKED_CUT_BYTES 1.0084

/* The kernels' time is what bench_gpu_decode says of an NVIDIA H200, batches of 256 crops of 50 kB
 * and 0.14 megapixels with a marker every 8 MCUs, 7.3 us each: 5.2 for the entropy decoder, 1.9 for
 * what is done to the crop's pixels, 0.2 for those of the output.  What the CPU does for it is
 * transport_cost.h's. */
static const struct sluice_choice_weights decode_on_gpu = {
    {CROP_BYTE(0.104e-9), CROP_PIXEL(13e-12), OUTPUT_PIXEL(4.6e-12)}};

static struct sluice_choice_weights times(double factor, const struct sluice_choice_weights *step)
{
    struct sluice_choice_weights product;
    for (int f = 0; f < SLUICE_NUM_CHOICE_FEATURES; f++)
        product.per[f] = factor * step->per[f];
    return product;
}

void sluice_choice_model_set_gpu(struct sluice_choice_model *model)
{
    const int cut =
        sluice_choices_find(&model->choices, (struct sluice_choice){.form = SLUICE_FORM_JPEG_CROP});
    const int rows =
        sluice_choices_find(&model->choices, (struct sluice_choice){.form = SLUICE_FORM_JPEG_ROWS});
    for (unsigned c = 0; cut >= 0 && c < model->choices.num; c++) {
        if (!model->choices.at[c].on_gpu)
            continue;
        const bool are_rows = model->choices.at[c].form == SLUICE_FORM_JPEG_ROWS;
        for (int k = 0; are_rows && rows >= 0 && k < SLUICE_NUM_FILE_CLASSES; k++) {
            model->weights[k][c][SLUICE_STORAGE_CPU] = model->weights[k][rows][SLUICE_STORAGE_CPU];
            model->weights[k][c][SLUICE_COMPUTE_CPU] = open_rows;
            model->weights[k][c][SLUICE_GPU] = decode_on_gpu;
        }
        if (are_rows)
            continue;
        const bool is_cut_here = model->choices.at[c].form == SLUICE_FORM_RAW;
        for (int k = 0; k < SLUICE_NUM_FILE_CLASSES; k++) {
            struct sluice_choice_weights(*of)[SLUICE_NUM_RESOURCES] = model->weights[k];
            const struct sluice_choice_weights cut_s =
                times(MARKED_CUT_TIME, &of[cut][SLUICE_STORAGE_CPU]);
            of[c][SLUICE_STORAGE_CPU] = is_cut_here ? of[0][SLUICE_STORAGE_CPU] : cut_s;
            of[c][SLUICE_COMPUTE_CPU] = is_cut_here ? cut_s : (struct sluice_choice_weights){{0}};
            if (!is_cut_here)
                of[c][SLUICE_NETWORK] = times(MARKED_CUT_BYTES, &of[cut][SLUICE_NETWORK]);
            of[c][SLUICE_GPU] = decode_on_gpu;
        }
    }
}

/* --- costs --- */

double sluice_choice_predict(const struct sluice_choice_weights *weights,
                             const double feature[SLUICE_NUM_CHOICE_FEATURES])
{
    double sum = 0;
    for (int f = 0; f < SLUICE_NUM_CHOICE_FEATURES; f++)
        sum += weights->per[f] * feature[f];
    return sum;
}

bool sluice_choice_has_exact_bytes(struct sluice_choice choice)
{
    return choice.form == SLUICE_FORM_JPEG_ROWS ||
           sluice_choice_is_plain(sluice_choice_cpu_twin(choice));
}

/* Pixels of the image that a choice's payload holds. */
static double pixels_of(const struct sluice_choices *choices, unsigned choice,
                        const struct sluice_sample_facts *facts,
                        const double feature[SLUICE_NUM_CHOICE_FEATURES])
{
    const struct sluice_known_size known = choices->traits[choice].image;
    if (known.square > 0 && known.square == choices->output_size)
        return feature[SLUICE_CHOICE_PER_OUTPUT_PIXEL];
    return (double)sluice_known_size_pixels(known, facts->width, facts->height);
}

static double bytes_of(const struct sluice_choice_model *model, unsigned choice,
                       const struct sluice_choice_weights *weights,
                       const struct sluice_sample_facts *facts,
                       const double feature[SLUICE_NUM_CHOICE_FEATURES])
{
    const double file = feature[SLUICE_CHOICE_PER_FILE_BYTE];
    const double pixels = 3 * pixels_of(&model->choices, choice, facts, feature);
    switch ((enum sluice_form)model->choices.at[choice].form) {
    case SLUICE_FORM_RAW:
        return file;
    case SLUICE_FORM_U8:
        return pixels;
    case SLUICE_FORM_F32:
        return 4 * pixels;
    /* No form is sent that is larger than what it stands for. */
    case SLUICE_FORM_JPEG_CROP:
        return fmin(sluice_choice_predict(weights, feature), file);
    case SLUICE_FORM_JPEG_ROWS:
        return rows_bytes(facts);
    default:
        return fmin(sluice_choice_predict(weights, feature), pixels);
    }
}

/* A storage node's cut of a progressive file is none; the compute node does not cut such a file,
 * nor does anybody with what the decoder does not know. */
static bool is_gpus(const struct sluice_sample_facts *facts, enum sluice_form form)
{
    return sluice_file_class_of(facts) != SLUICE_CLASS_PNG &&
           sluice_coding_kind(facts->coding) != SLUICE_CODING_JPEG_OTHER &&
           !(form == SLUICE_FORM_RAW && sluice_coding_is_progressive(facts->coding));
}

/* What the GPU gets of a file is a cut with markers, wherever that was made. */
static void place_on_gpu(const struct sluice_choices *choices, unsigned choice,
                         const struct sluice_sample_facts *facts,
                         double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES])
{
    const int twin = sluice_choices_find(choices, sluice_choice_cpu_twin(choices->at[choice]));
    const int cut =
        sluice_choices_find(choices, (struct sluice_choice){.form = SLUICE_FORM_JPEG_CROP});
    if (!is_gpus(facts, (enum sluice_form)choices->at[choice].form))
        memcpy(cost[choice], cost[twin], sizeof(cost[0]));
    else
        cost[choice][SLUICE_PCIE] =
            MARKED_CUT_BYTES * (cost[cut][SLUICE_NETWORK] - SLUICE_REPLY_BYTES);
}

/* The whole file, decoded at the same place. */
static unsigned file_choice(const struct sluice_choices *choices, unsigned choice)
{
    const int c =
        sluice_choices_find(choices, (struct sluice_choice){.form = SLUICE_FORM_RAW,
                                                            .on_gpu = choices->at[choice].on_gpu});
    return c < 0 ? 0 : (unsigned)c;
}

void sluice_choice_model_costs(const struct sluice_choice_model *model,
                               const struct sluice_sample_facts *facts,
                               double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES])
{
    const enum sluice_file_class file_class = sluice_file_class_of(facts);
    double feature[SLUICE_NUM_CHOICE_FEATURES];
    sluice_choice_features(facts, feature);
    for (unsigned c = 0; c < model->choices.num; c++) {
        const struct sluice_choice_weights *weights = model->weights[file_class][c];
        cost[c][SLUICE_DISK] = model->disk_s_per_sample +
                               model->disk_s_per_byte * sluice_choice_read_bytes(model, facts, c);
        cost[c][SLUICE_STORAGE_CPU] = sluice_choice_predict(&weights[SLUICE_STORAGE_CPU], feature);
        cost[c][SLUICE_NETWORK] =
            bytes_of(model, c, &weights[SLUICE_NETWORK], facts, feature) + SLUICE_REPLY_BYTES;
        cost[c][SLUICE_RECEIVE] = 0;
        cost[c][SLUICE_COMPUTE_CPU] = sluice_choice_predict(&weights[SLUICE_COMPUTE_CPU], feature);
        cost[c][SLUICE_PCIE] = 3 * feature[SLUICE_CHOICE_PER_OUTPUT_PIXEL];
        cost[c][SLUICE_GPU] = sluice_choice_predict(&weights[SLUICE_GPU], feature);
    }
    for (unsigned c = 0; c < model->choices.num; c++) {
        if (model->choices.at[c].form == SLUICE_FORM_JPEG_CROP && file_class == SLUICE_CLASS_PNG)
            memcpy(cost[c], cost[0], sizeof(cost[0]));
        else if (model->choices.at[c].form == SLUICE_FORM_JPEG_ROWS && !has_rows(model, facts))
            memcpy(cost[c], cost[file_choice(&model->choices, c)], sizeof(cost[0]));
        else if (model->choices.at[c].on_gpu)
            place_on_gpu(&model->choices, c, facts, cost);
    }
}
