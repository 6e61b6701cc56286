#include "plan/choices.h"

#include "support/choices.h"
#include "support/test.h"

/* "raw@0 u8@1 ..." */
static const char *names_of(const char *spec)
{
    static char text[256];
    const struct sluice_choices choices = sluice_test_choices_of(spec);
    size_t len = 0;
    text[0] = '\0';
    for (unsigned c = 0; c < choices.num; c++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", c ? " " : "",
                                sluice_choice_name(choices.at[c]));
    return text;
}

TEST(the_default_pipeline_has_the_names_that_files_know)
{
    CU_ASSERT_STRING_EQUAL(names_of(SLUICE_TEST_PIPELINE),
                           "raw@0 u8@1 u8@2 u8@3 f32@4 f32@5 jpeg_crop@0 u8_packed@3 jpeg_rows@0");
    const struct sluice_choices *choices = sluice_test_choices();
    CU_ASSERT(choices->num_ops == 5 && choices->u8_split == 3 && choices->output_size == 224);
}

TEST(other_pipelines_have_what_they_can_be_asked_for)
{
    static const struct {
        const char *spec, *names;
    } cases[] = {
        {"decode,random_resized_crop=128,to_tensor",
         "raw@0 u8@1 u8@2 f32@3 jpeg_crop@0 u8_packed@2 jpeg_rows@0"},
        {"decode,random_resized_crop=128", "raw@0 u8@1 u8@2 jpeg_crop@0 u8_packed@2 jpeg_rows@0"},
        {"decode", "raw@0 u8@1 u8_packed@1"},
        {"decode,exif_transpose,random_resized_crop=64", /* only the file tells of its rows */
         "raw@0 u8@1 u8@2 u8@3 jpeg_crop@0 u8_packed@3"},
        {"decode,hflip,random_resized_crop=64,to_tensor", "raw@0 u8@1 u8@2 u8@3 f32@4 u8_packed@3"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++)
        CU_ASSERT_STRING_EQUAL(names_of(cases[i].spec), cases[i].names);
}

TEST(a_gpu_adds_its_choices_where_files_can_be_cut)
{
    const struct sluice_choices *choices = sluice_test_gpu_choices();
    CU_ASSERT_EQUAL(choices->num, sluice_test_choices()->num + 3);
    CU_ASSERT_EQUAL(memcmp(choices->at, sluice_test_choices()->at,
                           SLUICE_TEST_CHOICES * sizeof(choices->at[0])),
                    0);
    CU_ASSERT_STRING_EQUAL(sluice_choice_name(choices->at[SLUICE_TEST_CUT_ON_GPU]),
                           "jpeg_crop@0+gpu");
    CU_ASSERT_STRING_EQUAL(sluice_choice_name(choices->at[SLUICE_TEST_RAW_ON_GPU]), "raw@0+gpu");
    CU_ASSERT_STRING_EQUAL(sluice_choice_name(choices->at[SLUICE_TEST_ROWS_ON_GPU]),
                           "jpeg_rows@0+gpu");
    CU_ASSERT(choices->traits[SLUICE_TEST_CUT_ON_GPU].needs_box_alone);
    CU_ASSERT(choices->traits[SLUICE_TEST_ROWS_ON_GPU].needs_box_alone);
    CU_ASSERT(!choices->traits[SLUICE_TEST_RAW_ON_GPU].needs_box_alone);
    for (unsigned c = 0; c < choices->num; c++) {
        const struct sluice_choice choice = choices->at[c];
        const bool on_gpu = c >= SLUICE_TEST_CHOICES;
        CU_ASSERT_EQUAL(choice.on_gpu, on_gpu);
        CU_ASSERT_EQUAL(sluice_choices_find(choices, choice), (int)c);
        CU_ASSERT_EQUAL(sluice_choices_find_name(choices, sluice_choice_name(choice)), (int)c);
        CU_ASSERT(!on_gpu || !sluice_choice_is_plain(choice));
        const int twin = sluice_choices_find(choices, sluice_choice_cpu_twin(choice));
        CU_ASSERT_EQUAL(twin, !on_gpu                        ? (int)c
                              : c == SLUICE_TEST_RAW_ON_GPU  ? 0
                              : c == SLUICE_TEST_ROWS_ON_GPU ? SLUICE_TEST_JPEG_ROWS
                                                             : SLUICE_TEST_JPEG_CROP);
        /* Files and their rows are read, the rest is made. */
        CU_ASSERT_EQUAL(sluice_choice_is_preprocessed(choice),
                        twin != 0 && twin != SLUICE_TEST_JPEG_ROWS);
        /* Whole files need nothing of the server. */
        CU_ASSERT_EQUAL(sluice_choice_is_offered(choice, 0),
                        sluice_choice_is_plain(choice) || c == SLUICE_TEST_RAW_ON_GPU);
        CU_ASSERT(sluice_choice_is_offered(choice, 1u << choice.form));
    }
    CU_ASSERT_EQUAL(sluice_choices_find_split(choices, 0), 0);

    struct sluice_pipeline *uncut = NULL;
    REQUIRE_OK(sluice_pipeline_parse("decode", &uncut, NULL));
    struct sluice_choices none = sluice_choices_of(uncut);
    const unsigned num = none.num;
    sluice_choices_add_gpu(&none, uncut, true);
    CU_ASSERT_EQUAL(none.num, num);
    sluice_pipeline_destroy(uncut);
}

TEST(no_split_gives_way)
{
    CU_ASSERT_STRING_EQUAL(
        names_of("decode,random_resized_crop=8,resize=7,center_crop=6,hflip,to_tensor,"
                 "normalize=imagenet"),
        "raw@0 u8@1 u8@2 u8@3 u8@4 u8@5 f32@6 f32@7 jpeg_crop@0 u8_packed@5 jpeg_rows@0");
}

TEST(the_longest_pipeline_has_room)
{
    char spec[512] = "decode,random_resized_crop=8";
    for (int i = 2; i < SLUICE_PIPELINE_MAX_OPS - 1; i++)
        strcat(spec, ",hflip");
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse(strcat(spec, ",to_tensor"), &pipeline, NULL));
    struct sluice_choices choices = sluice_choices_of(pipeline);
    CU_ASSERT_EQUAL(choices.num, SLUICE_PIPELINE_MAX_OPS + 1 + 3);
    sluice_choices_add_gpu(&choices, pipeline, true);
    CU_ASSERT_EQUAL(choices.num, SLUICE_PIPELINE_MAX_OPS + 1 + 6);
    CU_ASSERT_STRING_EQUAL(sluice_choice_name(choices.at[32]), "f32@32");
    CU_ASSERT_EQUAL(sluice_choices_find_name(&choices, "u8_packed@31"), 34);
    sluice_pipeline_destroy(pipeline);
}

/* Every order of image ops, with and without a tail: each split has its plain form. */
TEST(every_split_of_every_pipeline_is_a_choice)
{
    static const char *const ops[] = {"random_resized_crop=9", "resize=12", "center_crop=8",
                                      "hflip"};
    static const char *const tails[] = {"", ",to_tensor", ",to_tensor,normalize=imagenet"};
    unsigned num_pipelines = 0;
    for (unsigned code = 0; code < 625; code++) { /* four places: an op each, or none */
        char spec[256] = "decode";
        unsigned used = 0, digits = code;
        bool is_valid = true;
        for (int place = 0; place < 4; place++, digits /= 5) {
            const unsigned op = digits % 5;
            if (op == 4)
                continue;
            is_valid &= !(used >> op & 1);
            used |= 1u << op;
            strcat(strcat(spec, ","), ops[op]);
        }
        for (size_t t = 0; is_valid && t < SLUICE_ARRAY_LEN(tails); t++) {
            char text[320];
            snprintf(text, sizeof(text), "%s%s", spec, tails[t]);
            struct sluice_pipeline *pipeline = NULL;
            REQUIRE_OK(sluice_pipeline_parse(text, &pipeline, NULL));
            const struct sluice_choices choices = sluice_choices_of(pipeline);
            num_pipelines++;
            struct sluice_choices with_gpu = choices;
            sluice_choices_add_gpu(&with_gpu, pipeline, true);
            CU_ASSERT(with_gpu.num <= SLUICE_MAX_CHOICES);
            /* Packed pixels, whatever op makes the last ones. */
            const struct sluice_choice packed = {.split = (uint8_t)choices.u8_split,
                                                 .form = SLUICE_FORM_U8_PACKED};
            CU_ASSERT(sluice_choices_find(&choices, packed) >= 0);
            for (unsigned split = 0; split <= choices.num_ops; split++) {
                const struct sluice_choice plain = sluice_choice_at(pipeline, split);
                const int c = sluice_choices_find(&choices, plain);
                const unsigned stands = sluice_choices_find_split(&choices, split);
                CU_ASSERT(choices.at[stands].form == plain.form);
                CU_ASSERT_EQUAL(c, (int)stands);
                const struct sluice_known_size own = sluice_pipeline_known_size(pipeline, split);
                CU_ASSERT(split == 0 || (choices.traits[stands].image.width == own.width &&
                                         choices.traits[stands].image.height == own.height &&
                                         choices.traits[stands].image.shorter == own.shorter));
            }
            sluice_pipeline_destroy(pipeline);
        }
    }
    CU_ASSERT(num_pipelines > 3 * 64);
}

TEST(a_choice_is_found_by_pair_and_by_name)
{
    const struct sluice_choices *choices = sluice_test_choices();
    for (unsigned c = 0; c < choices->num; c++) {
        CU_ASSERT_EQUAL(sluice_choices_find(choices, choices->at[c]), (int)c);
        CU_ASSERT_EQUAL(sluice_choices_find_name(choices, sluice_choice_name(choices->at[c])),
                        (int)c);
    }
    CU_ASSERT_EQUAL(sluice_choices_find(
                        choices, (struct sluice_choice){.split = 1, .form = SLUICE_FORM_U8_PACKED}),
                    -1);
    CU_ASSERT_EQUAL(sluice_choices_find_name(choices, "u8@33"), -1);
    CU_ASSERT_STRING_EQUAL(
        sluice_choice_name((struct sluice_choice){.split = 8, .form = SLUICE_FORM_F32}), "f32@8");
}

TEST(traits_are_what_the_pipeline_says)
{
    const struct sluice_choices *choices = sluice_test_choices();
    for (unsigned c = 0; c < choices->num; c++) {
        const struct sluice_choice_traits *traits = &choices->traits[c];
        CU_ASSERT_EQUAL(traits->image.width, choices->at[c].split > 1 ? 224 : 0);
        CU_ASSERT_EQUAL(traits->image.height, traits->image.width);
        CU_ASSERT_EQUAL(traits->needs_box_alone, c > 1);
        CU_ASSERT_EQUAL(traits->leaves_flip, choices->at[c].split < 3);
    }
    const struct sluice_choices other =
        sluice_test_choices_of("decode,resize=256,center_crop=224,to_tensor");
    CU_ASSERT(other.traits[2].image.width == 0 && other.traits[2].image.shorter == 256);
    CU_ASSERT(!other.traits[2].needs_box_alone && other.traits[3].needs_box_alone);
}

TEST(a_fixed_mode_has_one_choice)
{
    static const struct {
        enum sluice_mode mode;
        const char *name;
    } cases[] = {
        {SLUICE_MODE_NOOFF, "raw@0"}, {SLUICE_MODE_PILOFF, "u8@3"}, {SLUICE_MODE_ALLOFF, "f32@5"}};
    const struct sluice_choices *choices = sluice_test_choices();
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++)
        CU_ASSERT_STRING_EQUAL(
            sluice_choice_name(choices->at[sluice_choices_of_mode(choices, cases[i].mode)]),
            cases[i].name);
}

TEST(an_offer_without_the_gpu_says_whether_it_had_more)
{
    const struct sluice_choices *choices = sluice_test_gpu_choices();
    bool has[SLUICE_MAX_CHOICES] = {[1] = true, [3] = true};
    struct sluice_offer offer = sluice_choices_offer(choices, has, true);
    CU_ASSERT(offer.num == 2 && offer.at[0] == 1 && offer.at[1] == 3 && !offer.has_gpu);
    has[SLUICE_TEST_RAW_ON_GPU] = true;
    offer = sluice_choices_offer(choices, has, false);
    CU_ASSERT(offer.num == 2 && offer.at[1] == 3 && offer.has_gpu);
    offer = sluice_choices_offer(choices, has, true);
    CU_ASSERT(offer.num == 3 && offer.at[2] == SLUICE_TEST_RAW_ON_GPU && offer.has_gpu);
}
