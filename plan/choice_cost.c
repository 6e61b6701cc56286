#include "plan/choice_cost.h"

#include "datasets/jpeg_index/indexed_file.h"
#include "image/codecs/coding.h"
#include "op/form.h"

#include <math.h>
#include <string.h>

const char *sluice_modelled_name(enum sluice_resource resource)
{
    if (!sluice_resource_is_in(SLUICE_MODELLED, (int)resource))
        return NULL;
    return resource == SLUICE_NETWORK ? "bytes" : sluice_resource_name(resource);
}

/* --- what is read --- */

static bool is_indexed(const struct sluice_choice_model *model,
                       const struct sluice_sample_facts *facts)
{
    return model->has_jpeg_index && sluice_file_class_of(facts) == SLUICE_CLASS_WINDOW;
}

double sluice_choice_read_bytes(const struct sluice_choice_model *model,
                                const struct sluice_sample_facts *facts, unsigned choice)
{
    const double bytes = (double)facts->file_bytes;
    if (!is_indexed(model, facts) || !model->choices.traits[choice].needs_box_alone)
        return bytes;
    const double read = sluice_mcu_rows_of(facts).bytes;
    return read * 100 < bytes * SLUICE_INDEXED_MAX_PARTIAL_PERCENT ? read : bytes;
}

/* --- the default --- */

/* Steps that the choices are sums of.  Seconds of one core of an AMD EPYC (Zen 4) with AVX-512,
 * and bytes, fitted to what `offload_train --profiling` measured, a core for each node: files as
 * cameras and the web have them by 5 crops each of 200 photographs of ImageNet and 2 of 42 of 1024
 * pixels, progressive ones and PNGs by 2 crops each of 67 that were coded anew; to_float to what
 * `offload_profile run` measured.
 *
 * ALL_TO_PIXELS, take_over, flip, from_float and the forms' own weights (form_<name>.c), but for
 * cuts of files of other classes, are fitted to profiles of another hour: 2 crops each of the same
 * photographs, of each sample and choice the median over 6 and 2 profiles (ImageNet) and 3 and 2
 * (1024 pixels).  Those seconds are divided by how much longer TO_PIXELS took in them than it does
 * here, 1.18 on the storage node and 1.24 on the other, and either set of photographs has the same
 * say.  All had 224 output pixels a side, so what does not vary with the file is shared out between
 * PER_SAMPLE and OUTPUT_PIXEL by judgement.
 *
 * The ratios travel better than the times. */
enum step {
    TO_PIXELS,       /* a file to what the crop needs of it, resized */
    WHOLE,           /* a file to all of its pixels */
    WHOLE_TO_PIXELS, /* from there */
    NUM_STEPS,
};

#define ALL_TO_PIXELS                                                                              \
    {                                                                                              \
        {                                                                                          \
            SLUICE_PER(SAMPLE, 10e-6), SLUICE_PER(OUTPUT_PIXEL, 0.42e-9),                          \
                SLUICE_PER(PIXEL, 0.33e-9), SLUICE_PER(CROP_PIXEL, SLUICE_RESIZE_S_PER_PIXEL),     \
                SLUICE_PER(VIEW_PIXEL, SLUICE_RESIZE_S_PER_PIXEL)                                  \
        }                                                                                          \
    }

static const struct sluice_choice_weights steps[SLUICE_NUM_FILE_CLASSES][NUM_STEPS] =
    {
        [SLUICE_CLASS_WINDOW] =
            {
                [TO_PIXELS] = {{SLUICE_PER(SAMPLE, 20e-6), SLUICE_PER(OUTPUT_PIXEL, 0.9e-9),
                                SLUICE_PER(PIXEL, 0.085e-9), SLUICE_PER(BYTE_TO_CROP, 2.1e-9),
                                SLUICE_PER(CROP_BYTE, 2.53e-9), SLUICE_PER(CROP_PIXEL, 0.98e-9),
                                SLUICE_PER(CHROMA_SAMPLE, 0.54e-9), SLUICE_PER(CROP_ROW, 0.15e-9),
                                SLUICE_PER(VIEW_PIXEL, SLUICE_RESIZE_S_PER_PIXEL)}},
                [WHOLE] = {{SLUICE_PER(SAMPLE, 10e-6), SLUICE_PER(FILE_BYTE, 5.4e-9),
                            SLUICE_PER(PIXEL, 1.3e-9)}},
                [WHOLE_TO_PIXELS] = ALL_TO_PIXELS,
            },
        [SLUICE_CLASS_JPEG] =
            {
                [TO_PIXELS] = {{SLUICE_PER(SAMPLE, 20e-6), SLUICE_PER(OUTPUT_PIXEL, 1.3e-9),
                                SLUICE_PER(FILE_BYTE, 26e-9), SLUICE_PER(PIXEL, 3.9e-9),
                                SLUICE_PER(CROP_PIXEL, 0.5e-9),
                                SLUICE_PER(VIEW_PIXEL, SLUICE_RESIZE_S_PER_PIXEL)}},
                [WHOLE] = {{SLUICE_PER(SAMPLE, 10e-6), SLUICE_PER(FILE_BYTE, 26.3e-9),
                            SLUICE_PER(PIXEL, 4.0e-9)}},
                [WHOLE_TO_PIXELS] = ALL_TO_PIXELS,
            },
        [SLUICE_CLASS_PNG] =
            {
                [TO_PIXELS] = {{SLUICE_PER(SAMPLE, 20e-6), SLUICE_PER(OUTPUT_PIXEL, 1.4e-9),
                                SLUICE_PER(FILE_BYTE, 3.8e-9), SLUICE_PER(PIXEL, 13.5e-9),
                                SLUICE_PER(CROP_ROW, 1.9e-9),
                                SLUICE_PER(VIEW_PIXEL, SLUICE_RESIZE_S_PER_PIXEL)}},
                [WHOLE] = {{SLUICE_PER(SAMPLE, 10e-6), SLUICE_PER(FILE_BYTE, 3.77e-9),
                            SLUICE_PER(PIXEL, 14.2e-9)}},
                [WHOLE_TO_PIXELS] = ALL_TO_PIXELS,
            },
};

static const struct sluice_choice_weights take_over = {
    {SLUICE_PER(SAMPLE, 3e-6), SLUICE_PER(OUTPUT_PIXEL, 0.39e-9)}};
static const struct sluice_choice_weights flip = {
    {SLUICE_PER(OUTPUT_PIXEL, 0.2e-9)}}; /* of every other */
static const struct sluice_choice_weights to_float = {{SLUICE_PER(OUTPUT_PIXEL, 0.4e-9)}};
static const struct sluice_choice_weights from_float = {{SLUICE_PER(OUTPUT_PIXEL, 6e-9)}};
static const struct sluice_choice_weights serve = {{SLUICE_PER(SAMPLE, 1e-6)}};

static bool is_whole_image(const struct sluice_choice_traits *traits)
{
    const struct sluice_known_size *image = &traits->image;
    return image->width == 0 && image->shorter == 0 && image->longer == 0 && image->max_pixels == 0;
}

static void add(struct sluice_choice_weights *sum, const struct sluice_choice_weights *step)
{
    for (int f = 0; f < SLUICE_NUM_CHOICE_FEATURES; f++)
        sum->per[f] += step->per[f];
}

static const struct sluice_form_type *type_of(const struct sluice_choices *choices, unsigned choice)
{
    return sluice_form_type((enum sluice_form)choices->at[choice].form);
}

/* Adds the weights of a class to the sum; of_class NULL: none. */
static void add_class(struct sluice_choice_weights *sum,
                      const struct sluice_choice_weights *of_class, int file_class)
{
    if (of_class)
        add(sum, &of_class[file_class]);
}

/* Adds the work of either CPU for the plain form of a choice's split. */
static void add_plain(const struct sluice_choices *choices, unsigned choice,
                      const struct sluice_choice_weights *step,
                      struct sluice_choice_weights *storage, struct sluice_choice_weights *compute)
{
    const struct sluice_choice_traits *traits = &choices->traits[choice];
    switch (type_of(choices, choice)->kind) {
    case SLUICE_KIND_FILE:
        add(compute, &step[TO_PIXELS]);
        break;
    case SLUICE_KIND_U8:
        add(storage, &step[is_whole_image(traits) ? WHOLE : TO_PIXELS]);
        add(compute, is_whole_image(traits) ? &step[WHOLE_TO_PIXELS] : &take_over);
        if (!is_whole_image(traits) && traits->leaves_flip)
            add(compute, &flip);
        break;
    case SLUICE_KIND_F32:
        add(storage, &step[TO_PIXELS]);
        add(storage, &to_float);
        add(compute, &from_float);
        break;
    }
}

static void set_class(const struct sluice_choices *choices, int file_class,
                      struct sluice_choice_weights (*of)[SLUICE_NUM_RESOURCES])
{
    for (unsigned c = 0; c < choices->num; c++) {
        struct sluice_choice_weights *storage = &of[c][SLUICE_STORAGE_CPU];
        struct sluice_choice_weights *compute = &of[c][SLUICE_COMPUTE_CPU];
        const struct sluice_form_type *type = type_of(choices, c);
        if (type->is_plain) {
            add_plain(choices, c, steps[file_class], storage, compute);
        } else {
            if (type->kind != SLUICE_KIND_FILE)
                add(storage, &steps[file_class][TO_PIXELS]);
            add_class(storage, type->cost.encode, file_class);
            add_class(compute, type->cost.open, file_class);
            add_class(compute, type->cost.decode, file_class);
            add_class(&of[c][SLUICE_NETWORK], type->cost.bytes, file_class);
        }
        add(storage, &serve);
        storage->per[SLUICE_CHOICE_PER_OUTPUT_PIXEL] += choices->traits[c].op_s_before;
        compute->per[SLUICE_CHOICE_PER_OUTPUT_PIXEL] += choices->traits[c].op_s_after;
    }
}

struct sluice_choice_model sluice_choice_model_default(const struct sluice_choices *choices)
{
    struct sluice_choice_model model = {
        .choices = *choices, .disk_s_per_sample = 20e-6, .disk_s_per_byte = 0.3e-9};
    for (int file_class = 0; file_class < SLUICE_NUM_FILE_CLASSES; file_class++)
        set_class(choices, file_class, model.weights[file_class]);
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
static const struct sluice_choice_weights decode_on_gpu = {{SLUICE_PER(CROP_BYTE, 0.104e-9),
                                                            SLUICE_PER(CROP_PIXEL, 13e-12),
                                                            SLUICE_PER(OUTPUT_PIXEL, 4.6e-12)}};

/* Ops of colour, blur and geometry on the GPU, against one core: an estimate.  On an NVIDIA H100
 * they slow no recipe down by as much as its rate varies (docs/results/xeon.md). */
#define GPU_OP_TIME 0.02

static struct sluice_choice_weights times(double factor, const struct sluice_choice_weights *step)
{
    struct sluice_choice_weights product;
    for (int f = 0; f < SLUICE_NUM_CHOICE_FEATURES; f++)
        product.per[f] = factor * step->per[f];
    return product;
}

/* The choice of a file that is cut for CPUs; -1: none. */
static int cut_choice(const struct sluice_choices *choices)
{
    for (unsigned c = 0; c < choices->num; c++) {
        if (type_of(choices, c)->is_window && !choices->at[c].on_gpu)
            return (int)c;
    }
    return -1;
}

/* Sets the weights of one class.  Whole files are cut on the compute node, windows on the storage
 * node; other forms are decoded as they come. */
static void set_gpu_class(const struct sluice_choices *choices, unsigned choice, unsigned cut,
                          int file_class, struct sluice_choice_weights (*of)[SLUICE_NUM_RESOURCES])
{
    static const struct sluice_choice_weights none = {{0}};
    const struct sluice_form_type *type = type_of(choices, choice);
    const struct sluice_choice_weights cut_s = times(MARKED_CUT_TIME, &of[cut][SLUICE_STORAGE_CPU]);
    struct sluice_choice_weights *weights = of[choice];
    weights[SLUICE_GPU] = decode_on_gpu;
    weights[SLUICE_GPU].per[SLUICE_CHOICE_PER_OUTPUT_PIXEL] +=
        GPU_OP_TIME * choices->traits[choice].op_s_after;
    if (type->is_window) {
        weights[SLUICE_STORAGE_CPU] = cut_s;
        weights[SLUICE_COMPUTE_CPU] = none;
        weights[SLUICE_NETWORK] = times(MARKED_CUT_BYTES, &of[cut][SLUICE_NETWORK]);
        return;
    }
    const int twin = sluice_choices_find(choices, sluice_choice_cpu_twin(choices->at[choice]));
    weights[SLUICE_STORAGE_CPU] = twin < 0 ? none : of[twin][SLUICE_STORAGE_CPU];
    weights[SLUICE_COMPUTE_CPU] = type->is_plain    ? cut_s
                                  : type->cost.open ? type->cost.open[file_class]
                                                    : none;
}

void sluice_choice_model_set_gpu(struct sluice_choice_model *model)
{
    const int cut = cut_choice(&model->choices);
    for (unsigned c = 0; cut >= 0 && c < model->choices.num; c++) {
        for (int k = 0; model->choices.at[c].on_gpu && k < SLUICE_NUM_FILE_CLASSES; k++)
            set_gpu_class(&model->choices, c, (unsigned)cut, k, model->weights[k]);
    }
}

static void add_to_pixels(struct sluice_choice_weights *weights, double seconds)
{
    double *per = &weights->per[SLUICE_CHOICE_PER_OUTPUT_PIXEL];
    *per = fmax(*per + seconds, 0);
}

void sluice_choice_model_set_schedule(struct sluice_choice_model *model,
                                      const struct sluice_pipeline *pipeline, uint32_t schedule)
{
    const struct sluice_choices before = model->choices;
    sluice_choices_set_schedule(&model->choices, pipeline, schedule);
    for (unsigned c = 0; c < model->choices.num; c++) {
        const struct sluice_choice_traits *from = &before.traits[c],
                                          *to = &model->choices.traits[c];
        const double of_storage = to->op_s_before - from->op_s_before;
        const double of_compute = to->op_s_after - from->op_s_after;
        for (int file_class = 0; file_class < SLUICE_NUM_FILE_CLASSES; file_class++) {
            struct sluice_choice_weights *of = model->weights[file_class][c];
            add_to_pixels(&of[SLUICE_STORAGE_CPU], of_storage);
            if (model->choices.at[c].on_gpu)
                add_to_pixels(&of[SLUICE_GPU], GPU_OP_TIME * of_compute);
            else
                add_to_pixels(&of[SLUICE_COMPUTE_CPU], of_compute);
        }
    }
}

/* --- costs --- */

bool sluice_choice_has_exact_bytes(struct sluice_choice choice)
{
    const struct sluice_form_type *type = sluice_form_type((enum sluice_form)choice.form);
    return type->is_plain || type->cost.exact_bytes;
}

/* Pixels of the image that a choice's payload holds. */
static double pixels_of(const struct sluice_choices *choices, unsigned choice,
                        const struct sluice_sample_facts *facts,
                        const double feature[SLUICE_NUM_CHOICE_FEATURES])
{
    const struct sluice_known_size known = choices->traits[choice].image;
    const uint32_t side = choices->output_size;
    if (side > 0 && known.width == side && known.height == side)
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
    const struct sluice_form_type *type = type_of(&model->choices, choice);
    if (type->cost.exact_bytes)
        return type->cost.exact_bytes(facts);
    const double plain = type->kind == SLUICE_KIND_FILE ? file
                         : type->kind == SLUICE_KIND_U8 ? pixels
                                                        : 4 * pixels;
    /* No form is sent that is larger than what it stands for. */
    return type->is_plain ? plain : fmin(sluice_choice_predict(weights, feature), plain);
}

/* The GPU decodes a JPEG crop.  The crop of a progressive file is not progressive, but only the
 * storage node makes it; nobody crops files of a coding that the decoder lacks. */
static bool is_gpus(const struct sluice_sample_facts *facts, const struct sluice_form_type *type)
{
    return sluice_file_class_of(facts) != SLUICE_CLASS_PNG &&
           sluice_coding_kind(facts->coding) != SLUICE_CODING_JPEG_OTHER &&
           !(type->is_plain && sluice_coding_is_progressive(facts->coding));
}

/* Whether a form that needs the file's index can be sent for this sample. */
static bool is_made(const struct sluice_choice_model *model,
                    const struct sluice_sample_facts *facts, const struct sluice_form_type *type)
{
    return is_indexed(model, facts) &&
           type->cost.exact_bytes(facts) * 100 <= (double)facts->file_bytes * type->max_percent;
}

/* The GPU gets a JPEG crop with markers, made on either node. */
static void place_on_gpu(const struct sluice_choices *choices, unsigned choice,
                         const struct sluice_sample_facts *facts,
                         double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES])
{
    const int twin = sluice_choices_find(choices, sluice_choice_cpu_twin(choices->at[choice]));
    const int cut = cut_choice(choices);
    if (!is_gpus(facts, type_of(choices, choice)))
        memcpy(cost[choice], cost[twin], sizeof(cost[0]));
    else
        cost[choice][SLUICE_PCIE] =
            MARKED_CUT_BYTES * (cost[cut][SLUICE_NETWORK] - SLUICE_REPLY_BYTES);
}

/* The whole file, decoded at the same place. */
static unsigned file_choice(const struct sluice_choices *choices, unsigned choice)
{
    const struct sluice_choice file = {.form = (uint8_t)sluice_form_plain(SLUICE_KIND_FILE),
                                       .on_gpu = choices->at[choice].on_gpu};
    const int c = sluice_choices_find(choices, file);
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
        const struct sluice_form_type *type = type_of(&model->choices, c);
        if (type->is_window && file_class == SLUICE_CLASS_PNG)
            memcpy(cost[c], cost[0], sizeof(cost[0]));
        else if (type->needs_index && !is_made(model, facts, type))
            memcpy(cost[c], cost[file_choice(&model->choices, c)], sizeof(cost[0]));
        else if (model->choices.at[c].on_gpu)
            place_on_gpu(&model->choices, c, facts, cost);
    }
}
