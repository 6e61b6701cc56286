#include "plan/mode.h"

#include "support/test.h"

TEST(every_mode_is_read_by_its_name)
{
    for (int m = 0; m < SLUICE_NUM_MODES; m++) {
        enum sluice_mode mode = SLUICE_NUM_MODES;
        CU_ASSERT_TRUE(sluice_mode_parse(sluice_mode_name((enum sluice_mode)m), &mode));
        CU_ASSERT_EQUAL((int)mode, m);
    }
    CU_ASSERT_PTR_NULL(sluice_mode_names[SLUICE_NUM_MODES]);
}

TEST(the_part_after_remote_is_a_name_too)
{
    for (int m = SLUICE_MODE_NOOFF; m < SLUICE_NUM_MODES; m++) {
        enum sluice_mode mode = SLUICE_NUM_MODES;
        CU_ASSERT_TRUE(
            sluice_mode_parse(sluice_mode_name((enum sluice_mode)m) + strlen("remote_"), &mode));
        CU_ASSERT_EQUAL((int)mode, m);
    }
}

TEST(older_names_are_read)
{
    static const struct {
        const char *alias, *name;
    } cases[] = {
        {"no-off", "remote_nooff"},    {"all-off", "remote_alloff"},
        {"smartoff", "remote_sophon"}, {"remote_smartoff", "remote_sophon"},
        {"greedy", "remote_sophon"},   {"resize-off", "remote_piloff"},
        {"lp", "remote_auto"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++)
        CU_ASSERT_STRING_EQUAL(sluice_mode_canonical(cases[i].alias), cases[i].name);
    for (size_t i = 0; sluice_mode_aliases[i]; i++) {
        enum sluice_mode mode;
        CU_ASSERT_TRUE(sluice_mode_parse(sluice_mode_aliases[i], &mode));
    }
}

TEST(other_words_are_no_mode)
{
    static const char *const others[] = {"", "remote", "remote_", "AUTO", "autos", "remote_local"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++) {
        enum sluice_mode mode = SLUICE_NUM_MODES;
        CU_ASSERT_FALSE(sluice_mode_parse(others[i], &mode));
        CU_ASSERT_EQUAL((int)mode, SLUICE_NUM_MODES);
        CU_ASSERT_PTR_EQUAL(sluice_mode_canonical(others[i]), others[i]);
    }
}

TEST(plans_decide_in_sophon_and_auto)
{
    for (int m = 0; m < SLUICE_NUM_MODES; m++)
        CU_ASSERT_EQUAL(sluice_mode_is_planned((enum sluice_mode)m),
                        m == SLUICE_MODE_SOPHON || m == SLUICE_MODE_AUTO);
}
