#include "op/form_words.h"

#include "support/test.h"

static void expect(const uint64_t count[SLUICE_MAX_FORMS], const char *brief, const char *words)
{
    char text[100];
    sluice_form_shares(count, SLUICE_FORMS_SHORT, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, brief);
    sluice_form_shares(count, SLUICE_FORMS_LONG, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, words);
}

TEST(the_most_frequent_form_is_first)
{
    expect((uint64_t[SLUICE_MAX_FORMS]){[SLUICE_FORM_RAW] = 7, [SLUICE_FORM_JPEG_CROP] = 93},
           "crop 93% raw 7%", "93% JPEG crops, 7% files");
    expect(
        (uint64_t[SLUICE_MAX_FORMS]){
            [SLUICE_FORM_U8_PACKED] = 2, [SLUICE_FORM_U8] = 1, [SLUICE_FORM_F32] = 1},
        "packed 50% pixels 25% floats 25%", "50% packed pixels, 25% pixels, 25% floats");
}

TEST(what_hardly_ever_comes_is_left_out_and_never_counted_as_all)
{
    expect((uint64_t[SLUICE_MAX_FORMS]){0}, "", "");
    expect((uint64_t[SLUICE_MAX_FORMS]){[SLUICE_FORM_RAW] = 5}, "raw 100%", "100% files");
    expect((uint64_t[SLUICE_MAX_FORMS]){[SLUICE_FORM_RAW] = 1000, [SLUICE_FORM_U8] = 1}, "raw 99%",
           "99% files");
}

TEST(what_does_not_fit_is_left_out_whole)
{
    const uint64_t count[SLUICE_MAX_FORMS] = {[SLUICE_FORM_RAW] = 7, [SLUICE_FORM_JPEG_CROP] = 93};
    char text[12];
    sluice_form_shares(count, SLUICE_FORMS_SHORT, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "crop 93%");
}

TEST(the_gpus_share_follows_if_it_fits)
{
    char text[26] = "crop 93% raw 7%";
    sluice_form_add_gpu(4, 1000, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "crop 93% raw 7%");
    sluice_form_add_gpu(98, 100, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "crop 93% raw 7% +gpu 98%");
    char small[16] = "crop 93%";
    sluice_form_add_gpu(98, 100, small, sizeof(small));
    CU_ASSERT_STRING_EQUAL(small, "crop 93%");
}

TEST(every_form_has_words)
{
    for (int f = 0; f < SLUICE_NUM_FORMS; f++)
        CU_ASSERT_FATAL(strlen(sluice_form_words((enum sluice_form)f)) > 0);
}
