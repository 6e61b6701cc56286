#include "plan/choices.h"

#include "image/image.h"

#include <assert.h>
#include <string.h>

_Static_assert(SLUICE_MAX_OPS == 8, "the names have another split");

#define NAMES(form, place)                                                                         \
    {                                                                                              \
        form "@0" place, form "@1" place, form "@2" place, form "@3" place, form "@4" place,       \
            form "@5" place, form "@6" place, form "@7" place, form "@8" place                     \
    }
#define NAMES_AT(place)                                                                            \
    {                                                                                              \
        [SLUICE_FORM_RAW] = NAMES("raw", place),                                                   \
        [SLUICE_FORM_JPEG_CROP] = NAMES("jpeg_crop", place),                                       \
        [SLUICE_FORM_U8] = NAMES("u8", place),                                                     \
        [SLUICE_FORM_U8_PACKED] = NAMES("u8_packed", place),                                       \
        [SLUICE_FORM_F32] = NAMES("f32", place),                                                   \
        [SLUICE_FORM_JPEG_ROWS] = NAMES("jpeg_rows", place),                                       \
    }

const char *sluice_choice_name(struct sluice_choice choice)
{
    static const char *const names[2][SLUICE_NUM_FORMS][SLUICE_MAX_OPS + 1] = {NAMES_AT(""),
                                                                               NAMES_AT("+gpu")};
    assert(choice.form < SLUICE_NUM_FORMS && choice.split <= SLUICE_MAX_OPS);
    return names[choice.on_gpu][choice.form][choice.split];
}

struct sluice_choice sluice_choice_at(const struct sluice_pipeline *pipeline, unsigned split)
{
    enum sluice_form form = SLUICE_FORM_RAW;
    if (sluice_pipeline_kind(pipeline, split) == SLUICE_KIND_U8)
        form = SLUICE_FORM_U8;
    else if (sluice_pipeline_kind(pipeline, split) == SLUICE_KIND_F32)
        form = SLUICE_FORM_F32;
    return (struct sluice_choice){.split = (uint8_t)split, .form = (uint8_t)form};
}

static bool has_plain_form(struct sluice_choice choice)
{
    return choice.form == SLUICE_FORM_RAW || choice.form == SLUICE_FORM_U8 ||
           choice.form == SLUICE_FORM_F32;
}

bool sluice_choice_is_plain(struct sluice_choice choice)
{
    return has_plain_form(choice) && !choice.on_gpu;
}

bool sluice_choice_is_offered(struct sluice_choice choice, uint32_t forms)
{
    return has_plain_form(choice) || (forms >> choice.form & 1);
}

bool sluice_choice_is_preprocessed(struct sluice_choice choice)
{
    return choice.form != SLUICE_FORM_RAW && choice.form != SLUICE_FORM_JPEG_ROWS;
}

struct sluice_choice sluice_choice_cpu_twin(struct sluice_choice choice)
{
    choice.on_gpu = false;
    return choice;
}

/* Whether a split's payload has the kind and the size of the next one's, whatever the image. */
static bool is_as_large_as_next(const struct sluice_pipeline *pipeline, unsigned split)
{
    if (split == 0 || split == sluice_pipeline_num_ops(pipeline) ||
        sluice_pipeline_kind(pipeline, split) != sluice_pipeline_kind(pipeline, split + 1))
        return false;
    const struct sluice_known_size here = sluice_pipeline_known_size(pipeline, split);
    const struct sluice_known_size next = sluice_pipeline_known_size(pipeline, split + 1);
    return here.square == next.square && here.shorter == next.shorter;
}

/* Drops so many splits, the last ones first: floats come after pixels. */
static void drop_splits(const struct sluice_pipeline *pipeline, unsigned num_to_drop,
                        bool is_dropped[SLUICE_MAX_OPS + 1])
{
    for (unsigned split = sluice_pipeline_num_ops(pipeline); num_to_drop > 0 && split-- > 1;) {
        is_dropped[split] = is_as_large_as_next(pipeline, split);
        num_to_drop -= is_dropped[split];
    }
    assert(num_to_drop == 0);
}

static bool has_mirror_after(const struct sluice_pipeline *pipeline, unsigned split)
{
    for (unsigned op = split; op < sluice_pipeline_u8_split(pipeline); op++) {
        if (sluice_pipeline_op_kind(pipeline, op) == SLUICE_OP_MIRROR)
            return true;
    }
    return false;
}

static void add(struct sluice_choices *choices, const struct sluice_pipeline *pipeline,
                struct sluice_choice choice)
{
    const struct sluice_draw_key any = {0};
    struct sluice_box box;
    choices->traits[choices->num] = (struct sluice_choice_traits){
        .image = sluice_pipeline_known_size(pipeline, choice.split),
        .needs_box_alone = sluice_pipeline_file_box(pipeline, &any, 1, 1, choice.split,
                                                    (enum sluice_form)choice.form, &box),
        .leaves_flip = has_mirror_after(pipeline, choice.split),
    };
    choices->at[choices->num++] = choice;
}

struct sluice_choices sluice_choices_of(const struct sluice_pipeline *pipeline)
{
    const unsigned num_ops = sluice_pipeline_num_ops(pipeline);
    const bool can_cut = sluice_pipeline_can_crop_jpeg(pipeline);
    const bool has_rows = sluice_pipeline_can_take_rows(pipeline);
    struct sluice_choices choices = {
        .num_ops = num_ops,
        .u8_split = sluice_pipeline_u8_split(pipeline),
        .output_size = sluice_pipeline_output_size(pipeline),
    };
    const unsigned num_wanted = num_ops + 1 + can_cut + 1 + has_rows;
    bool is_dropped[SLUICE_MAX_OPS + 1] = {false};
    if (num_wanted > SLUICE_CPU_CHOICES)
        drop_splits(pipeline, num_wanted - SLUICE_CPU_CHOICES, is_dropped);
    for (unsigned split = 0; split <= num_ops; split++) {
        if (!is_dropped[split])
            add(&choices, pipeline, sluice_choice_at(pipeline, split));
    }
    if (can_cut)
        add(&choices, pipeline, (struct sluice_choice){.form = SLUICE_FORM_JPEG_CROP});
    add(&choices, pipeline,
        (struct sluice_choice){.split = (uint8_t)choices.u8_split, .form = SLUICE_FORM_U8_PACKED});
    if (has_rows)
        add(&choices, pipeline, (struct sluice_choice){.form = SLUICE_FORM_JPEG_ROWS});
    return choices;
}

void sluice_choices_add_gpu(struct sluice_choices *choices, const struct sluice_pipeline *pipeline,
                            bool has_cut)
{
    if (!sluice_pipeline_can_crop_jpeg(pipeline))
        return;
    if (has_cut)
        add(choices, pipeline,
            (struct sluice_choice){.form = SLUICE_FORM_JPEG_CROP, .on_gpu = true});
    add(choices, pipeline, (struct sluice_choice){.form = SLUICE_FORM_RAW, .on_gpu = true});
    if (sluice_pipeline_can_take_rows(pipeline))
        add(choices, pipeline,
            (struct sluice_choice){.form = SLUICE_FORM_JPEG_ROWS, .on_gpu = true});
}

int sluice_choices_find(const struct sluice_choices *choices, struct sluice_choice choice)
{
    for (unsigned c = 0; c < choices->num; c++) {
        if (choices->at[c].split == choice.split && choices->at[c].form == choice.form &&
            choices->at[c].on_gpu == choice.on_gpu)
            return (int)c;
    }
    return -1;
}

int sluice_choices_find_name(const struct sluice_choices *choices, const char *name)
{
    for (unsigned c = 0; c < choices->num; c++) {
        if (strcmp(name, sluice_choice_name(choices->at[c])) == 0)
            return (int)c;
    }
    return -1;
}

unsigned sluice_choices_find_split(const struct sluice_choices *choices, unsigned split)
{
    assert(split <= choices->num_ops);
    unsigned c = 0;
    while (choices->at[c].split < split)
        c++;
    return c;
}
