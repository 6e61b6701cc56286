#ifndef SLUICE_TESTS_SUPPORT_CHOICES_H
#define SLUICE_TESTS_SUPPORT_CHOICES_H

#include "plan/choice_cost.h"

#include <stdlib.h>

/* The choices of the default pipeline.  Choice k < 6 is split k; then come the forms, and those of
 * a GPU that decodes, where it is asked for them.
 *
 * Threads: the first call is made by one thread alone. */

#define SLUICE_TEST_PIPELINE "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet"

enum {
    SLUICE_TEST_SPLITS = 6,
    SLUICE_TEST_JPEG_CROP = 6,
    SLUICE_TEST_U8_PACKED = 7,
    SLUICE_TEST_JPEG_ROWS = 8,
    SLUICE_TEST_CHOICES = 9, /* of CPUs; then those of the GPU */
    SLUICE_TEST_CUT_ON_GPU = 9,
    SLUICE_TEST_RAW_ON_GPU = 10,
    SLUICE_TEST_ROWS_ON_GPU = 11,
    SLUICE_TEST_GPU_CHOICES = 12, /* all of them */
};

static inline struct sluice_choices sluice_test_choices_of(const char *spec)
{
    struct sluice_pipeline *pipeline = NULL;
    if (sluice_pipeline_parse(spec, &pipeline, NULL) != SLUICE_OK)
        abort(); /* tests may ask for it before CUnit runs */
    const struct sluice_choices choices = sluice_choices_of(pipeline);
    sluice_pipeline_destroy(pipeline);
    return choices;
}

static inline const struct sluice_pipeline *sluice_test_pipeline(void)
{
    static struct sluice_pipeline *pipeline; /* for ever */
    if (!pipeline && sluice_pipeline_parse(SLUICE_TEST_PIPELINE, &pipeline, NULL) != SLUICE_OK)
        abort();
    return pipeline;
}

static inline const struct sluice_choices *sluice_test_choices(void)
{
    static struct sluice_choices choices;
    if (choices.num == 0)
        choices = sluice_test_choices_of(SLUICE_TEST_PIPELINE);
    return &choices;
}

static inline const struct sluice_choices *sluice_test_gpu_choices(void)
{
    static struct sluice_choices choices;
    if (choices.num == 0) {
        choices = *sluice_test_choices();
        sluice_choices_add_gpu(&choices, sluice_test_pipeline(), true);
    }
    return &choices;
}

static inline struct sluice_choice_model sluice_test_model(void)
{
    return sluice_choice_model_default(sluice_test_choices());
}

#endif
