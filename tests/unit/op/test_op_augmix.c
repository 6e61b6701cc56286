#include "run_support.h"

#include "base/rng.h"
#include "op/pixels.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUM_SAMPLES 4000

static unsigned resolve(const struct sluice_pipeline *pipeline, uint64_t id,
                        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS])
{
    const struct sluice_draw_key key = {.seed = 5, .sample_id = id};
    return sluice_pixels_resolve(&pipeline->ops[1], 1, &key, (struct sluice_size){9, 7}, list);
}

/* torchvision's weights: Beta(alpha, alpha) for the image, of the rest a Dirichlet(alpha, ...). */
TEST(weights_are_of_beta_and_dirichlet)
{
    struct sluice_pipeline *pipeline = run_test_parse("decode,augmix=3:width=4:alpha=2");
    double image = 0, square = 0, chain = 0;
    for (uint64_t id = 0; id < NUM_SAMPLES; id++) {
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        resolve(pipeline, id, list);
        const struct sluice_blend *blend = &list[0].drawn.blend;
        CU_ASSERT_EQUAL_FATAL(blend->num, 4);
        double sum = 0;
        for (int i = 0; i <= 4; i++) {
            CU_ASSERT(blend->weights[i] >= 0);
            sum += blend->weights[i];
        }
        CU_ASSERT(fabs(sum - 1) < 1e-6);
        image += blend->weights[0];
        square += (blend->weights[0] - 0.5) * (blend->weights[0] - 0.5);
        chain += blend->weights[3];
    }
    /* Beta(2, 2) has mean 1/2 and variance 1/20; a chain's weight has mean 1/2 x 1/4. */
    CU_ASSERT(fabs(image / NUM_SAMPLES - 0.5) < 5 * sqrt(0.05 / NUM_SAMPLES));
    CU_ASSERT(fabs(square / NUM_SAMPLES - 0.05) < 0.005);
    CU_ASSERT(fabs(chain / NUM_SAMPLES - 0.125) < 5 * sqrt(0.02 / NUM_SAMPLES));
    sluice_pipeline_destroy(pipeline);
}

/* Chains of 1 to 3 ops, each op as often as the others. */
TEST(chains_are_drawn_uniformly)
{
    struct sluice_pipeline *pipeline = run_test_parse("decode,augmix=10");
    const struct sluice_op *ops = pipeline->ops[1].children;
    CU_ASSERT_EQUAL_FATAL(pipeline->ops[1].num_children, 13);
    unsigned lengths[3] = {0}, num_ops = 0, num_equalize = 0, num_posterize = 0, num_black = 0;
    for (uint64_t id = 0; id < NUM_SAMPLES; id++) {
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        const unsigned num = resolve(pipeline, id, list);
        const struct sluice_blend *blend = &list[0].drawn.blend;
        CU_ASSERT_EQUAL_FATAL(num, 1 + sluice_pixels_in_branches(blend));
        for (unsigned b = 0; b < 3; b++) {
            CU_ASSERT_FATAL(blend->num_ops[b] >= 1 && blend->num_ops[b] <= 3);
            lengths[blend->num_ops[b] - 1]++;
        }
        for (unsigned i = 1; i < num; i++) {
            const bool is_posterize = strcmp(list[i].op->type->name, "posterize") == 0;
            num_equalize += list[i].op == &ops[12];
            num_posterize += is_posterize;
            num_black += is_posterize && list[i].drawn.values[0] == 0;
        }
        num_ops += num - 1;
    }
    for (int i = 0; i < 3; i++)
        CU_ASSERT(fabs(lengths[i] / (3.0 * NUM_SAMPLES) - 1.0 / 3) < 0.025);
    const double each = num_ops / 13.0;
    CU_ASSERT(fabs(num_equalize - each) < 5 * sqrt(each));
    CU_ASSERT(fabs(num_posterize - each) < 5 * sqrt(each));
    /* 0 bits at 2 of 10 magnitudes. */
    CU_ASSERT(fabs(num_black - num_posterize / 5.0) < 5 * sqrt(num_posterize / 5.0));
    sluice_pipeline_destroy(pipeline);
}

TEST(the_smallest_severity_changes_little)
{
    struct sluice_pipeline *pipeline = run_test_parse("decode,augmix=1:all_ops=0:depth=2:width=1");
    CU_ASSERT_EQUAL(pipeline->ops[1].num_children, 9);
    for (uint64_t id = 0; id < 200; id++) {
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        CU_ASSERT_EQUAL_FATAL(resolve(pipeline, id, list), 3);
        for (unsigned i = 1; i < 3; i++) {
            if (strcmp(list[i].op->type->name, "solarize") == 0)
                CU_ASSERT_EQUAL(list[i].drawn.values[0], 255);
            if (strcmp(list[i].op->type->name, "posterize") == 0)
                CU_ASSERT_EQUAL(list[i].drawn.values[0], 4);
            if (strcmp(list[i].op->type->name, "translate_x") == 0)
                CU_ASSERT_EQUAL(list[i].drawn.values[2], 0);
        }
    }
    sluice_pipeline_destroy(pipeline);
}

/* A third of 216 pixels has whole magnitudes, which truncation would make smaller by one. */
TEST(whole_pixels_stay_whole)
{
    struct sluice_pipeline *pipeline = run_test_parse("decode,augmix=10:depth=8:width=7");
    unsigned seen = 0;
    for (uint64_t id = 0; id < 200; id++) {
        const struct sluice_draw_key key = {.seed = 5, .sample_id = id};
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        const unsigned num =
            sluice_pixels_resolve(&pipeline->ops[1], 1, &key, (struct sluice_size){216, 216}, list);
        for (unsigned i = 1; i < num; i++) {
            if (strcmp(list[i].op->type->name, "translate_x") != 0)
                continue;
            const double pixels = fabs(list[i].drawn.values[2]);
            CU_ASSERT(fmod(pixels, 8) == 0 && pixels <= 72);
            seen |= 1u << (unsigned)(pixels / 8);
        }
    }
    CU_ASSERT_EQUAL(seen, (1u << 10) - 1);
    sluice_pipeline_destroy(pipeline);
}

/* The result is the branches' results one by one, summed up; what follows takes the sum. */
TEST(the_mix_is_of_the_branches)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,invert:p=0.5,augmix=5:filter=bilinear:fill=9,augmix=3:p=0.5,"
                       "solarize=99:p=0.5");
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    const struct sluice_size size = {31, 23};
    enum { BYTES = 31 * 23 * 3 };
    for (uint64_t id = 0; id < 60; id++) {
        struct sluice_sample sample = run_test_zeroes(1, SLUICE_KIND_U8, 31, 23, BYTES);
        sample.key = (struct sluice_draw_key){.seed = 8, .sample_id = id};
        struct sluice_rng rng = sluice_rng_init(1, 2, id, 3);
        for (size_t i = 0; i < BYTES; i++)
            sample.data->data[i] = (uint8_t)sluice_rng_below(&rng, 256);
        static uint8_t now[BYTES], next[BYTES];
        memcpy(now, sample.data->data, BYTES);
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        const unsigned num = sluice_pixels_resolve(&pipeline->ops[1], 4, &sample.key, size, list);
        for (unsigned i = 0; i < num; i++) {
            if (list[i].op->type->kind != SLUICE_OP_BLEND) {
                CU_ASSERT_EQUAL_FATAL(
                    sluice_pixels_run(&list[i], 1, scratch, size, now, next, NULL), SLUICE_OK);
                memcpy(now, next, BYTES);
                continue;
            }
            const struct sluice_blend *blend = &list[i].drawn.blend;
            static float sums[BYTES];
            for (int k = 0; k < BYTES; k++)
                sums[k] = blend->weights[0] * now[k];
            for (unsigned b = 0; b < blend->num; b++) {
                static uint8_t branch[BYTES];
                memcpy(branch, now, BYTES);
                for (unsigned n = 0; n < blend->num_ops[b]; n++) {
                    CU_ASSERT_EQUAL_FATAL(
                        sluice_pixels_run(&list[++i], 1, scratch, size, branch, next, NULL),
                        SLUICE_OK);
                    memcpy(branch, next, BYTES);
                }
                for (int k = 0; k < BYTES; k++) {
                    const float product = blend->weights[b + 1] * branch[k];
                    sums[k] += product;
                }
            }
            for (int k = 0; k < BYTES; k++)
                now[k] = (uint8_t)sums[k];
        }
        CU_ASSERT_EQUAL_FATAL(sluice_pipeline_run(pipeline, scratch, &sample, 5, NULL), SLUICE_OK);
        CU_ASSERT(memcmp(sample.data->data, now, BYTES) == 0);
        sluice_sample_clear(&sample);
    }
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
}

TEST(draws_have_weights_and_branches)
{
    struct sluice_pipeline *pipeline = run_test_parse("decode,augmix=3:width=2:depth=1,grayscale");
    const struct sluice_draw_key key = {.seed = 1};
    char *json = NULL;
    CU_ASSERT_EQUAL_FATAL(sluice_pipeline_write_draws(pipeline, &key, 20, 20, &json, NULL),
                          SLUICE_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "[{\"op\":\"augmix\",\"weights\":["));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "],\"branches\":[[{\"op\":"));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "}],[{\"op\":"));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "}]]},{\"op\":\"grayscale\"}]"));
    free(json);
    sluice_pipeline_destroy(pipeline);
}

TEST(a_gpu_does_not_take_it)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,random_resized_crop=8,one_of(invert,augmix=3)");
    CU_ASSERT(!sluice_pipeline_has_kernels(pipeline));
    sluice_pipeline_destroy(pipeline);
}

TEST(it_has_bounds)
{
    static const char *const texts[] = {"decode,augmix=11",
                                        "decode,augmix=0",
                                        "decode,augmix=3:width=9",
                                        "decode,augmix=3:depth=9",
                                        "decode,augmix=3:depth=0",
                                        "decode,augmix=3:width=8:depth=8",
                                        "decode,augmix=3:alpha=0",
                                        "decode,augmix=3:all_ops=0.5",
                                        "decode,k_of(8:replace=1,augmix=3)"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++) {
        CU_ASSERT_EQUAL(sluice_pipeline_check(texts[i], NULL), SLUICE_E_INVALID);
        if (sluice_pipeline_check(texts[i], NULL) == SLUICE_OK)
            printf("%s\n", texts[i]);
    }
    CU_ASSERT_EQUAL(sluice_pipeline_check("decode,augmix=3:width=7:depth=8", NULL), SLUICE_OK);
}
