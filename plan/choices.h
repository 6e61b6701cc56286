#ifndef SLUICE_PLAN_CHOICES_H
#define SLUICE_PLAN_CHOICES_H

#include "op/pipeline.h"
#include "plan/menu.h"
#include "plan/mode.h"

#include <stdbool.h>
#include <stdint.h>

/* A choice of how to request a sample: a split, the form in which it crosses the network, and
 * whether the compute node's GPU decodes it.  Its name in files, reports and logs is "form@split",
 * with "+gpu" if the GPU decodes it.
 *
 * The choices of a pipeline are, in this order: the plain form of every split (the file, then
 * pixels, then floats); jpeg_crop@0 if files can be cropped undecoded; u8_packed at the u8 split;
 * jpeg_rows@0 if they can and the pipeline does not turn images upright.  For the default pipeline:
 *
 *     raw@0 u8@1 u8@2 u8@3 f32@4 f32@5 jpeg_crop@0 u8_packed@3 jpeg_rows@0
 *
 * If the compute node has a GPU that decodes, and files can be cropped undecoded, jpeg_crop@0+gpu,
 * raw@0+gpu and jpeg_rows@0+gpu follow.
 *
 * Threads: pure functions; values. */

#define SLUICE_MAX_CHOICES SLUICE_MENU_CHOICES

struct sluice_choice {
    uint8_t split;
    uint8_t form; /* enum sluice_form */
    /* Decoded by the GPU, which takes JPEG crops, and rows with their index; the compute node crops
     * whole files for it. */
    bool on_gpu;
};

/* The facts of a choice that its cost depends on, in addition to those of the sample. */
struct sluice_choice_traits {
    struct sluice_known_size image;
    bool needs_box_alone; /* of the file's image: sluice_pipeline_file_box() says which */
    bool leaves_flip;     /* to the compute node */
    /* Seconds for each output pixel of the ops that keep the image's size, before and after the
     * split: sluice_pipeline_mean_ns(). */
    double op_s_before, op_s_after;
};

struct sluice_choices {
    unsigned num;
    struct sluice_choice at[SLUICE_MAX_CHOICES];
    struct sluice_choice_traits traits[SLUICE_MAX_CHOICES];
    /* Facts of the pipeline. */
    unsigned num_ops, u8_split;
    uint32_t output_size;
};

/* The choices of this pipeline without +gpu, with the traits of epoch 0. */
struct sluice_choices sluice_choices_of(const struct sluice_pipeline *pipeline);

/* Sets op_s_before and op_s_after to those of this epoch of the training (op `when`). */
void sluice_choices_set_schedule(struct sluice_choices *choices,
                                 const struct sluice_pipeline *pipeline, uint32_t schedule);

/* Adds the choices with +gpu to choices without them; does nothing if the pipeline's files cannot
 * be cropped undecoded.  has_cut: the server can send JPEG crops as the GPU needs them. */
void sluice_choices_add_gpu(struct sluice_choices *choices, const struct sluice_pipeline *pipeline,
                            bool has_cut);

/* "u8@3", "raw@0+gpu"; a static string. */
const char *sluice_choice_name(struct sluice_choice choice);

/* The plain form of what a sample is at a split: raw, u8 or f32. */
struct sluice_choice sluice_choice_at(const struct sluice_pipeline *pipeline, unsigned split);
/* Whether it is the plain form of its split, and CPUs decode. */
bool sluice_choice_is_plain(struct sluice_choice choice);
/* Whether a server offers the choice that has `forms` (bits 1 << enum sluice_form) in addition to
 * the plain ones. */
bool sluice_choice_is_offered(struct sluice_choice choice, uint32_t forms);
/* Whether the storage node preprocesses the sample; else it sends bytes as it reads them. */
bool sluice_choice_is_preprocessed(struct sluice_choice choice);
/* The same split and form where CPUs decode. */
struct sluice_choice sluice_choice_cpu_twin(struct sluice_choice choice);

/* The place of a choice in the list, by itself or by its name; -1: it is not in the list. */
int sluice_choices_find(const struct sluice_choices *choices, struct sluice_choice choice);
int sluice_choices_find_name(const struct sluice_choices *choices, const char *name);

/* The place of the plain form of a split. */
unsigned sluice_choices_find_split(const struct sluice_choices *choices, unsigned split);
/* The place of the one choice of a mode that is not planned: the file, pixels (piloff) or the
 * tensor (alloff). */
unsigned sluice_choices_of_mode(const struct sluice_choices *choices, enum sluice_mode mode);

/* Those choices of a list that may be taken. */
struct sluice_offer {
    uint8_t at[SLUICE_MAX_CHOICES]; /* places in the list, rising */
    unsigned num;
    bool has_gpu; /* some may be taken that are the GPU's, whether they are in `at` or not */
};

/* has: by place, whether a choice may be taken.  Without with_gpu those of the GPU are left out. */
struct sluice_offer sluice_choices_offer(const struct sluice_choices *choices, const bool *has,
                                         bool with_gpu);

#endif
