#include "op/op.h"

#include "op/pipeline.h"
#include "support/test.h"

/* Each kind of parameter, and what is left out of the canonical text. */
TEST(a_pipeline_has_one_text)
{
    static const struct {
        const char *text, *canonical;
    } cases[] = {
        {"decode,pad=4", "decode,pad=4"},
        {"decode,photometric_distort:hue=-0.1--0.02",
         "decode,photometric_distort=0.5:brightness=0.875-1.125:contrast=0.5-1.5:saturation=0.5-1."
         "5:"
         "hue=-0.1--0.02"},
        {"decode,pad=4/4/4/4:fill=0/0/0:mode=constant", "decode,pad=4"},
        {"decode,pad=4/5/4/5:fill=3/3/3", "decode,pad=4/5:fill=3"},
        {"decode,pad=1/2/3/4:mode=edge", "decode,pad=1/2/3/4:mode=edge"},
        {"decode,random_crop=9:fill=1/2/3:padding=2", "decode,random_crop=9:padding=2:fill=1/2/3"},
        {"decode,fit_bucket=2x3/4x5:filter=bilinear:crop=center", "decode,fit_bucket=2x3/4x5"},
        {"decode,smart_resize=4:max_pixels=99:min_pixels=1:filter=bicubic",
         "decode,smart_resize=4:min_pixels=1:max_pixels=99"},
        {"decode,letterbox=9x9:fill=0/0/0", "decode,letterbox=9"},
        {"decode,random_crop=9:fill=0", "decode,random_crop=9:padding=0"},
        {"decode,augmix", "decode,augmix=3:width=3:alpha=1:all_ops=1:filter=nearest:fill=0"},
        {"decode,augmix=5:depth=2:p=0.5",
         "decode,augmix=5:width=3:depth=2:alpha=1:all_ops=1:filter=nearest:fill=0:p=0.5"},
        {"decode,auto_augment=v0:mstd=0", "decode,auto_augment=v0:filter=nearest:fill=0"},
        {"decode,auto_augment=v0:mstd=0.5",
         "decode,auto_augment=v0:mstd=0.5:filter=nearest:fill=0"},
        {"decode,solarize=99:rounding=down,solarize=9:rounding=none",
         "decode,solarize=99:rounding=down,solarize=9"},
        {"decode,resize=256:side=shorter:filter=bilinear", "decode,resize=256"},
        {"decode,resize=256:max=300:filter=box", "decode,resize=256:filter=box:max=300"},
        {"decode,resize=256:side=longer", "decode,resize=256:side=longer"},
        {"decode,resize=20x20", "decode,resize=20x20"},
        {"decode,center_crop=20x20,center_crop=20x30", "decode,center_crop=20,center_crop=20x30"},
        {"decode,random_crop=9x9,random_crop=9x8",
         "decode,random_crop=9:padding=0,random_crop=9x8:padding=0"},
        {"decode,random_resized_crop=8x8,random_resized_crop=8x9",
         "decode,random_resized_crop=8:scale=0.08-1:ratio=0.75-1.3333333333333333,"
         "random_resized_crop=8x9:scale=0.08-1:ratio=0.75-1.3333333333333333"},
        {"decode,rotate=3", "decode,rotate=3:filter=nearest:fill=0"},
        {"decode,posterize=normal(2,1,0,3):p=0.5",
         "decode,posterize=normal(2,1,0,3):rounding=down:p=0.5"},
        {"decode,hue=~0-0.1/3:weight=2", "decode,hue=~0-0.1/3:weight=2"},
        {"decode,random_resized_crop=8:filter=bilinear",
         "decode,random_resized_crop=8:scale=0.08-1:ratio=0.75-1.3333333333333333"},
        {"decode,when(2<=epoch<3,invert)", "decode,when(2<=epoch<3,invert)"},
        {"decode,to_tensor,normalize=0.5:0.5:0.5/1:1:1",
         "decode,to_tensor,normalize=0.5:0.5:0.5/1:1:1"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_pipeline *pipeline = NULL;
        CU_ASSERT_EQUAL_FATAL(sluice_pipeline_parse(cases[i].text, &pipeline, NULL), SLUICE_OK);
        CU_ASSERT_STRING_EQUAL(sluice_pipeline_spec(pipeline), cases[i].canonical);
        sluice_pipeline_destroy(pipeline);
    }
}

TEST(a_level_is_timms)
{
    static const struct {
        double magnitude, mstd, from, by;
        const char *text;
    } cases[] = {
        {9, 0, 0, 30, "27.000000000"},
        {3, 0, 0.1, 1.8, "0.640000000"},
        {6, 0.5, 4, -4, "normal(1.600000000,0.200000000,0.000000000,4.000000000)"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char text[SLUICE_LEVEL_ROOM];
        sluice_print_level(cases[i].magnitude, cases[i].mstd, cases[i].from, cases[i].by, text);
        CU_ASSERT_STRING_EQUAL(text, cases[i].text);
    }
}
