#include "store/s3_profile.h"

#include "support/test.h"

static struct sluice_s3_profile profile;

static sluice_status parse(const char *text, const char *name, bool is_config,
                           struct sluice_err *err)
{
    return sluice_s3_profile_parse(text, strlen(text), name, is_config, &profile, err);
}

static void clear(void)
{
    memset(&profile, 0, sizeof(profile));
}

TEST(reads_the_profile_of_a_name)
{
    static const char credentials[] = "# keys\n[default]\naws_access_key_id=AK1\n"
                                      "aws_secret_access_key = a/b+c= \r\n\n"
                                      "[ work ]\naws_access_key_id = AK2\n";
    clear();
    CHECK_OK(parse(credentials, "default", false, NULL));
    CU_ASSERT(profile.is_found);
    CU_ASSERT_STRING_EQUAL(profile.key_id, "AK1");
    CU_ASSERT_STRING_EQUAL(profile.secret, "a/b+c=");
    clear();
    CHECK_OK(parse(credentials, "work", false, NULL));
    CU_ASSERT_STRING_EQUAL(profile.key_id, "AK2");
    CU_ASSERT_STRING_EQUAL(profile.secret, "");
    clear();
    CHECK_OK(parse(credentials, "other", false, NULL));
    CU_ASSERT(!profile.is_found);
}

TEST(sections_of_config_say_profile_and_what_is_there_stays)
{
    static const char config[] = "[default]\nregion = eu-west-1\ns3 =\n  addressing_style = path\n"
                                 "  region = nested\n[work]\nregion = wrong\n"
                                 "[profile work]\nregion = eu-west-3\nsource_profile = default\n"
                                 "[profilework]\nregion = wrong\n";
    clear();
    CHECK_OK(parse(config, "work", true, NULL));
    CU_ASSERT_STRING_EQUAL(profile.region, "eu-west-3");
    CU_ASSERT_STRING_EQUAL(profile.other, "source_profile");
    CHECK_OK(parse(config, "default", true, NULL));
    CU_ASSERT_STRING_EQUAL(profile.region, "eu-west-3");
    clear();
    CHECK_OK(parse(config, "default", true, NULL));
    CU_ASSERT_STRING_EQUAL(profile.region, "eu-west-1");
    CU_ASSERT_STRING_EQUAL(profile.other, "");
}

TEST(errors_name_the_line_and_not_what_it_says)
{
    static const char *const bad[] = {"[default]\n[secret\n", "[default]\nsecret\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sluice_err err = {0};
        clear();
        CU_ASSERT_EQUAL(parse(bad[i], "default", false, &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "line 2"));
        CU_ASSERT_PTR_NULL(strstr(err.text, "secret"));
    }
    struct sluice_err err = {0};
    char text[600] = "[default]\nregion=";
    memset(text + strlen(text), 'x', 100);
    CU_ASSERT_EQUAL(parse(text, "default", false, &err), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_s3_profile_parse("a=\0b", 4, "default", false, &profile, NULL),
                    SLUICE_E_INVALID);
}
