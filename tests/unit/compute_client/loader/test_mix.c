#include "compute_client/loader/order/mix.h"

#include "base/hash.h"
#include "support/test.h"

static struct sluice_mix parse(const char *text)
{
    struct sluice_mix mix;
    struct sluice_err err = {0};
    if (sluice_mix_parse(text, &mix, &err) != SLUICE_OK)
        CU_FAIL_FATAL(err.text);
    CHECK_OK(sluice_mix_check(text, NULL));
    return mix;
}

TEST(the_text_has_one_form)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"a=1", ""},
        {"b=0.50,a=2", "a=2,b=0.5"},
        {"a=1.0,b=.25,a-b=0", "a-b=0,b=0.25"},
        {"a=0.1", "a=0.1"},
        {"x_1=1e3", "x_1=1000"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        const struct sluice_mix mix = parse(cases[i][0]);
        CU_ASSERT_STRING_EQUAL(mix.text, cases[i][1]);
        const struct sluice_mix again = parse(mix.text);
        CU_ASSERT_STRING_EQUAL(again.text, mix.text);
        CU_ASSERT_EQUAL(again.num, mix.num);
        for (size_t k = 0; k < mix.num; k++)
            CU_ASSERT_EQUAL(again.of[k].weight, mix.of[k].weight);
    }
}

TEST(says_what_is_wrong)
{
    static const char *const cases[][2] = {
        {"a", "'a' is no NAME=WEIGHT"},
        {"a=1,", "nothing follows the last comma"},
        {"a=1,,b=2", "'' is no NAME=WEIGHT"},
        {",", "'' is no NAME=WEIGHT"},
        {"a/b=1", "'a/b=1' is no NAME=WEIGHT"},
        {"=1", "'=1' is no NAME=WEIGHT"},
        {"a=", "a: "},
        {"a=x", "a: 'x'"},
        {"a=-0.5", "a: a weight is 0 to"},
        {"a=1000001", "a: a weight is 0 to"},
        {"a=nan", "a: "},
        {"a=1,b=2,a=1", "a has two weights"},
        {"abcdefghijklmnopqrstuvwxyz0123456=1", "at most 32 letters"},
        {"a=2,b=2,c=2,d=2,e=2,f=2,g=2,h=2,i=2,j=2,k=2,l=2,m=2,n=2,o=2,p=2,q=2", "more than 16"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_mix mix = {.num = 77};
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_mix_parse(cases[i][0], &mix, &err), SLUICE_E_INVALID);
        if (!strstr(err.text, cases[i][1]))
            CU_FAIL(err.text);
        CU_ASSERT_EQUAL(mix.num, 77);
    }
    char text[600] = "";
    for (int i = 0; i < 16; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%sabcdefghij%c=0.123456789",
                 i ? "," : "", 'a' + i);
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_mix_check(text, &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "more than 255 characters"));
}

static struct sluice_manifest *make_manifest(void)
{
    static const char *const paths[] = {"a-b/1.jpg", "a/1.jpg", "a/2.jpg", "a/3.jpg",
                                        "a0/1.jpg",  "b/1.jpg", "b/2.jpg", "c.jpg"};
    struct sluice_manifest_entry entries[SLUICE_ARRAY_LEN(paths)];
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(paths); i++)
        entries[i] = (struct sluice_manifest_entry){.path = paths[i], .bytes = 1};
    struct sluice_manifest *manifest = NULL;
    REQUIRE_OK(sluice_manifest_create(entries, SLUICE_ARRAY_LEN(paths), (const char *const[]){""},
                                      1, &manifest, NULL));
    return manifest;
}

TEST(a_range_is_what_lies_under_a_name)
{
    struct sluice_manifest *manifest = make_manifest();
    static const uint32_t all[] = {0, 1, 2, 3, 4, 5, 6, 7}, some[] = {0, 2, 3, 7};
    static const struct {
        const char *mix;
        bool is_some;
        size_t num;
        struct {
            uint32_t num_samples;
            double weight;
        } of[5];
    } cases[] = {
        {"", false, 0, {{0, 0}}},
        {"a=1", false, 0, {{0, 0}}},
        {"a=0.5", false, 3, {{1, 1}, {3, 0.5}, {4, 1}}},
        {"b=2,a=0.5", false, 5, {{1, 1}, {3, 0.5}, {1, 1}, {2, 2}, {1, 1}}},
        {"a-b=3,a=0", false, 3, {{1, 3}, {3, 0}, {4, 1}}},
        {"a=0.5,b=2", true, 4, {{1, 1}, {2, 0.5}, {0, 2}, {1, 1}}},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        const struct sluice_mix mix = parse(cases[i].mix);
        struct sluice_sampler_range ranges[SLUICE_MAX_MIX_RANGES];
        size_t num = 77;
        REQUIRE_OK(sluice_mix_ranges(&mix, manifest, cases[i].is_some ? some : all,
                                     cases[i].is_some ? 4 : 8, ranges, &num, NULL));
        CU_ASSERT_EQUAL_FATAL(num, cases[i].num);
        for (size_t k = 0; k < num; k++) {
            CU_ASSERT_EQUAL(ranges[k].num_samples, cases[i].of[k].num_samples);
            CU_ASSERT_EQUAL(ranges[k].weight, cases[i].of[k].weight);
        }
        if (strcmp(cases[i].mix, "a=0.5") == 0)
            CU_ASSERT_EQUAL(ranges[1].stream, (uint32_t)sluice_hash64("a", 1));
    }
    const struct sluice_mix mix = parse("c=2");
    struct sluice_sampler_range ranges[SLUICE_MAX_MIX_RANGES];
    size_t num = 77;
    CHECK_FAILS(SLUICE_E_INVALID, "no path of the dataset begins with c/",
                sluice_mix_ranges(&mix, manifest, all, 8, ranges, &num, sluice_test_err()));
    CU_ASSERT_EQUAL(num, 77);
    sluice_manifest_destroy(manifest);
}
