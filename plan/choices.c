#include "plan/choices.h"

#include "image/image.h"
#include "op/form.h"
#include "op/form_words.h"
#include "plan/sample_facts.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static char names[2][SLUICE_MAX_FORMS][SLUICE_PIPELINE_MAX_OPS + 1][24];

static void make_names(void)
{
    for (unsigned on_gpu = 0; on_gpu < 2; on_gpu++) {
        for (unsigned form = 0; form < SLUICE_MAX_FORMS; form++) {
            for (unsigned split = 0; split <= SLUICE_PIPELINE_MAX_OPS; split++)
                snprintf(names[on_gpu][form][split], sizeof(names[0][0][0]), "%s@%u%s",
                         sluice_form_name((enum sluice_form)form), split, on_gpu ? "+gpu" : "");
        }
    }
}

const char *sluice_choice_name(struct sluice_choice choice)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_names);
    assert(choice.form < SLUICE_MAX_FORMS && choice.split <= SLUICE_PIPELINE_MAX_OPS);
    return names[choice.on_gpu][choice.form][choice.split];
}

struct sluice_choice sluice_choice_at(const struct sluice_pipeline *pipeline, unsigned split)
{
    const enum sluice_form form = sluice_form_plain(sluice_pipeline_kind(pipeline, split));
    return (struct sluice_choice){.split = (uint8_t)split, .form = (uint8_t)form};
}

static const struct sluice_form_type *type_of(struct sluice_choice choice)
{
    return sluice_form_type((enum sluice_form)choice.form);
}

bool sluice_choice_is_plain(struct sluice_choice choice)
{
    return type_of(choice)->is_plain && !choice.on_gpu;
}

bool sluice_choice_is_offered(struct sluice_choice choice, uint32_t forms)
{
    return type_of(choice)->is_plain || (forms >> choice.form & 1);
}

bool sluice_choice_is_preprocessed(struct sluice_choice choice)
{
    return choice.split > 0 || type_of(choice)->is_work;
}

struct sluice_choice sluice_choice_cpu_twin(struct sluice_choice choice)
{
    choice.on_gpu = false;
    return choice;
}

static bool has_mirror_after(const struct sluice_pipeline *pipeline, unsigned split)
{
    for (unsigned op = split; op < sluice_pipeline_u8_split(pipeline); op++) {
        if (sluice_pipeline_op_kind(pipeline, op) == SLUICE_OP_MIRROR)
            return true;
    }
    return false;
}

static void price_ops(struct sluice_choices *choices, unsigned choice,
                      const struct sluice_pipeline *pipeline, uint32_t schedule)
{
    const unsigned split = choices->at[choice].split, end = sluice_pipeline_num_ops(pipeline);
    struct sluice_choice_traits *traits = &choices->traits[choice];
    traits->op_s_before = 1e-9 * sluice_pipeline_mean_ns(pipeline, 0, split, schedule);
    traits->op_s_after = 1e-9 * sluice_pipeline_mean_ns(pipeline, split, end, schedule);
}

void sluice_choices_set_schedule(struct sluice_choices *choices,
                                 const struct sluice_pipeline *pipeline, uint32_t schedule)
{
    for (unsigned c = 0; c < choices->num; c++)
        price_ops(choices, c, pipeline, schedule);
}

static void add(struct sluice_choices *choices, const struct sluice_pipeline *pipeline,
                struct sluice_choice choice)
{
    const struct sluice_draw_key any = {0};
    struct sluice_box box;
    assert(choices->num < SLUICE_MAX_CHOICES);
    choices->traits[choices->num] = (struct sluice_choice_traits){
        .image = sluice_pipeline_known_size(pipeline, choice.split),
        .needs_box_alone = sluice_pipeline_file_box(pipeline, &any, 1, 1, choice.split,
                                                    (enum sluice_form)choice.form, &box),
        .leaves_flip = has_mirror_after(pipeline, choice.split),
    };
    choices->at[choices->num] = choice;
    price_ops(choices, choices->num++, pipeline, 0);
}

/* Whether a form that is not plain is a choice of its own at this split. */
static bool is_coded_choice(const struct sluice_pipeline *pipeline, unsigned form, unsigned split)
{
    const struct sluice_form_type *type = sluice_form_type((enum sluice_form)form);
    return !type->is_plain && sluice_form_can_carry(type, pipeline, split) &&
           (!type->is_offered || type->is_offered(pipeline, split));
}

struct sluice_choices sluice_choices_of(const struct sluice_pipeline *pipeline)
{
    const unsigned num_ops = sluice_pipeline_num_ops(pipeline);
    struct sluice_choices choices = {
        .num_ops = num_ops,
        .u8_split = sluice_pipeline_u8_split(pipeline),
        .output_size = sluice_output_side(pipeline),
    };
    for (unsigned split = 0; split <= num_ops; split++)
        add(&choices, pipeline, sluice_choice_at(pipeline, split));
    for (unsigned form = 0; form < sluice_num_forms(); form++) {
        for (unsigned split = 0; split <= num_ops; split++) {
            if (is_coded_choice(pipeline, form, split))
                add(&choices, pipeline,
                    (struct sluice_choice){.split = (uint8_t)split, .form = (uint8_t)form});
        }
    }
    return choices;
}

/* The place among the GPU's choices: JPEG crops, then whole files, then rows. */
static unsigned gpu_order(const struct sluice_form_type *type)
{
    return type->is_window ? 0 : type->is_plain ? 1 : 2;
}

void sluice_choices_add_gpu(struct sluice_choices *choices, const struct sluice_pipeline *pipeline,
                            bool has_cut)
{
    if (!sluice_pipeline_can_crop_jpeg(pipeline))
        return;
    for (unsigned order = has_cut ? 0 : 1; order <= 2; order++) {
        for (unsigned form = 0; form < sluice_num_forms(); form++) {
            const struct sluice_form_type *type = sluice_form_type((enum sluice_form)form);
            if (gpu_order(type) == order && sluice_form_can_carry(type, pipeline, 0))
                add(choices, pipeline,
                    (struct sluice_choice){.form = (uint8_t)form, .on_gpu = true});
        }
    }
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
    return split; /* the plain forms come first */
}

unsigned sluice_choices_of_mode(const struct sluice_choices *choices, enum sluice_mode mode)
{
    const unsigned split = mode == SLUICE_MODE_ALLOFF   ? choices->num_ops
                           : mode == SLUICE_MODE_PILOFF ? choices->u8_split
                                                        : 0;
    return sluice_choices_find_split(choices, split);
}

struct sluice_offer sluice_choices_offer(const struct sluice_choices *choices, const bool *has,
                                         bool with_gpu)
{
    struct sluice_offer offer = {.num = 0};
    for (unsigned c = 0; c < choices->num; c++) {
        const bool on_gpu = choices->at[c].on_gpu;
        offer.has_gpu |= has[c] && on_gpu;
        if (has[c] && (with_gpu || !on_gpu))
            offer.at[offer.num++] = (uint8_t)c;
    }
    return offer;
}
