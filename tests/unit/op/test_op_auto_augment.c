#include "run_support.h"

#include "op/pixels.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NUM_SAMPLES 20000

struct expected {
    const char *op;
    double times; /* in the mean over samples, of the original's table */
};

/* How often each op comes; `mean` ends with a NULL. */
static void check_ops(const char *text, const struct expected *mean)
{
    struct sluice_pipeline *pipeline = run_test_parse(text);
    unsigned counts[16] = {0}, num_known = 0, num_all = 0;
    for (uint64_t id = 0; id < NUM_SAMPLES; id++) {
        const struct sluice_draw_key key = {.seed = 3, .sample_id = id};
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        const unsigned num =
            sluice_pixels_resolve(&pipeline->ops[1], 1, &key, (struct sluice_size){8, 8}, list);
        CU_ASSERT_FATAL(num <= 2);
        num_all += num;
        for (unsigned i = 0; i < num; i++) {
            for (unsigned k = 0; mean[k].op; k++)
                counts[k] += strcmp(list[i].op->type->name, mean[k].op) == 0;
        }
    }
    for (unsigned k = 0; mean[k].op; k++) {
        const double rate = counts[k] / (double)NUM_SAMPLES;
        num_known += counts[k];
        /* An op comes at most twice: a variance of at most twice the mean. */
        CU_ASSERT(fabs(rate - mean[k].times) < 5 * sqrt(2 * mean[k].times / NUM_SAMPLES));
        if (fabs(rate - mean[k].times) >= 5 * sqrt(2 * mean[k].times / NUM_SAMPLES))
            printf("%s: %s %f, not %f\n", text, mean[k].op, rate, mean[k].times);
    }
    CU_ASSERT_EQUAL(num_known, num_all);
    sluice_pipeline_destroy(pipeline);
}

TEST(ops_come_as_often_as_in_the_original)
{
    static const struct expected imagenet[] = {{"autocontrast", 0.048},
                                               {"color", 0.152},
                                               {"contrast", 0.080},
                                               {"equalize", 0.448},
                                               {"invert", 0.072},
                                               {"posterize", 0.112},
                                               {"rotate", 0.144},
                                               {"sharpness", 0.016},
                                               {"shear_x", 0.024},
                                               {"solarize", 0.144},
                                               {0}};
    static const struct expected cifar10[] = {{"autocontrast", 0.200}, {"brightness", 0.092},
                                              {"color", 0.116},        {"contrast", 0.032},
                                              {"equalize", 0.188},     {"invert", 0.008},
                                              {"posterize", 0.012},    {"rotate", 0.028},
                                              {"sharpness", 0.112},    {"shear_y", 0.028},
                                              {"solarize", 0.076},     {"translate_x", 0.032},
                                              {"translate_y", 0.136},  {0}};
    static const struct expected svhn[] = {{"autocontrast", 0.092},
                                           {"contrast", 0.012},
                                           {"equalize", 0.156},
                                           {"invert", 0.304},
                                           {"rotate", 0.136},
                                           {"shear_x", 0.168},
                                           {"shear_y", 0.244},
                                           {"solarize", 0.088},
                                           {"translate_x", 0.036},
                                           {"translate_y", 0.080},
                                           {0}};
    static const struct expected originalr[] = {{"autocontrast", 0.048},
                                                {"color", 0.152},
                                                {"contrast", 0.080},
                                                {"equalize", 0.448},
                                                {"invert", 0.072},
                                                {"posterize", 0.112},
                                                {"rotate", 0.144},
                                                {"sharpness", 0.016},
                                                {"shear_x", 0.024},
                                                {"solarize", 0.144},
                                                {0}};
    static const struct expected v0[] = {
        {"autocontrast", 0.040}, {"color", 0.200},       {"equalize", 0.320},
        {"invert", 0.016},       {"posterize", 0.048},   {"rotate", 0.184},
        {"shear_x", 0.008},      {"shear_y", 0.104},     {"solarize", 0.184},
        {"solarize_add", 0.056}, {"translate_y", 0.032}, {0}};
    check_ops("decode,auto_augment=imagenet", imagenet);
    check_ops("decode,auto_augment=cifar10", cifar10);
    check_ops("decode,auto_augment=svhn", svhn);
    check_ops("decode,auto_augment=originalr:mstd=1", originalr);
    check_ops("decode,auto_augment=v0", v0);
}

/* Numbers of the originals' rows, as their functions make them of the table. */
TEST(rows_have_the_originals_numbers)
{
    static const struct {
        const char *policy;
        unsigned row, place;
        const char *op;
    } cases[] = {
        {"imagenet", 0, 0, "posterize=4:rounding=down:p=0.4"},
        {"imagenet", 0, 1, "rotate=~30:filter=bilinear:fill=7:p=0.6"},
        {"imagenet", 3, 1, "posterize=5:rounding=down:p=0.6"},
        {"imagenet", 14, 1, "contrast=1~0.8"},
        {"cifar10", 24, 0, "translate_y=~0.453172205:unit=whole_part:filter=bilinear:fill=7:p=0.7"},
        {"svhn", 0, 0, "shear_x=~0.133333333:filter=bilinear:fill=7:p=0.9"},
        {"svhn", 20, 0, "solarize=198.333333333:p=0.7"},
        {"original", 0, 0, "posterize=7.2:rounding=down:p=0.4"},
        {"original", 6, 0, "solarize=76.8:rounding=down:p=0.6"},
        {"original", 24, 1, "equalize=:p=0.6"},
        {"originalr", 0, 0, "posterize=0.8:rounding=up:p=0.4"},
        {"v0", 12, 0, "posterize=2.4:rounding=down:p=0.4"},
        {"v0", 6, 1, "solarize_add=33:threshold=128:p=0.8"},
        {"v0r", 22, 0, "posterize=3.2:rounding=up:p=0.8"},
        {"v0r", 15, 1, "translate_y=~0.405:unit=part:filter=bilinear:fill=7:p=0.8"},
        {"v0r:mstd=0.5", 15, 0, "rotate=~normal(21,1.5,0,30):filter=bilinear:fill=7"},
        {"v0r:mstd=1", 1, 0, "color=normal(1.72,0.18,0.1,1.9):p=0.4"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char text[100], printed[200], values[128], modifiers[64];
        snprintf(text, sizeof(text), "decode,auto_augment=%s:filter=bilinear:fill=7",
                 cases[i].policy);
        struct sluice_pipeline *pipeline = run_test_parse(text);
        CU_ASSERT_EQUAL_FATAL(pipeline->ops[1].num_children, 25);
        const struct sluice_op *pair = &pipeline->ops[1].children[cases[i].row];
        CU_ASSERT_EQUAL_FATAL(pair->num_children, 2);
        const struct sluice_op *op = &pair->children[cases[i].place];
        sluice_op_print(op, values, sizeof(values));
        sluice_op_print_modifiers(op, modifiers, sizeof(modifiers));
        snprintf(printed, sizeof(printed), "%s=%s%s", op->type->name, values, modifiers);
        CU_ASSERT_STRING_EQUAL(printed, cases[i].op);
        if (strcmp(printed, cases[i].op) != 0)
            printf("%s: %s\n", cases[i].policy, printed);
        sluice_pipeline_destroy(pipeline);
    }
}

TEST(what_is_no_policy_is_refused)
{
    static const char *const texts[] = {
        "decode,auto_augment", "decode,auto_augment=v1", "decode,auto_augment=imagenet:mstd=0.5",
        "decode,auto_augment=v0:mstd=0.05", "decode,auto_augment=v0:mstd=11"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++)
        CU_ASSERT_EQUAL(sluice_pipeline_check(texts[i], NULL), SLUICE_E_INVALID);
}
