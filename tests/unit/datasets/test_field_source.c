#include "datasets/list/field_source.h"

#include "support/test.h"

TEST(parses_name_source_and_kind)
{
    static const struct {
        const char *text, *name, *from;
        enum sluice_field_kind kind;
    } cases[] = {
        {"caption", "caption", "caption", SLUICE_FIELD_NONE},
        {".txt", "txt", ".txt", SLUICE_FIELD_NONE},
        {".txt:text", "txt", ".txt", SLUICE_FIELD_TEXT},
        {"boxes=objects:boxes", "boxes", "objects", SLUICE_FIELD_BOXES},
        {".mask.png:mask", "mask.png", ".mask.png", SLUICE_FIELD_MASK},
        {"a:b", "a:b", "a:b", SLUICE_FIELD_NONE},
        {"x=a=b:json", "x", "a=b", SLUICE_FIELD_JSON},
        {"a b=c", "a b=c", "a b=c", SLUICE_FIELD_NONE}, /* no plain name in front */
        {":text", ":text", ":text", SLUICE_FIELD_NONE},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_field_source got;
        REQUIRE_OK(sluice_field_source_parse(cases[i].text, &got, NULL));
        CU_ASSERT_STRING_EQUAL(got.name, cases[i].name);
        CU_ASSERT_STRING_EQUAL(got.from, cases[i].from);
        CU_ASSERT_EQUAL(got.kind, cases[i].kind);
        CU_ASSERT_EQUAL(sluice_field_source_is_suffix(&got), cases[i].from[0] == '.');
    }
}

TEST(refuses_names_that_are_none)
{
    char longest[400], text[420];
    struct sluice_field_source got;
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    CU_ASSERT_EQUAL(sluice_field_source_parse(longest, &got, NULL), SLUICE_E_INVALID);
    longest[100] = '\0';
    CHECK_FAILS(SLUICE_E_INVALID,
                "give NAME=", sluice_field_source_parse(longest, &got, sluice_test_err()));
    snprintf(text, sizeof(text), "x=%s", longest);
    CHECK_OK(sluice_field_source_parse(text, &got, NULL));
    CU_ASSERT_EQUAL(sluice_field_source_parse("", &got, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_field_source_parse("a\tb", &got, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_field_source_parse("a\xff", &got, NULL), SLUICE_E_INVALID);
}

TEST(fields_have_the_names_and_known_types_of_their_sources)
{
    struct sluice_field_sources sources = {3,
                                           {{".txt", SLUICE_FIELD_TEXT, ""},
                                            {"y", SLUICE_FIELD_VECTOR, ""},
                                            {"y", SLUICE_FIELD_NONE, "z"}}};
    struct sluice_fields fields;
    REQUIRE_OK(sluice_field_sources_name(&sources, &fields, NULL));
    CU_ASSERT_EQUAL(fields.num, 3);
    CU_ASSERT_STRING_EQUAL(fields.of[0].name, "txt");
    CU_ASSERT_EQUAL(fields.of[0].type.kind, SLUICE_FIELD_TEXT);
    CU_ASSERT_EQUAL(fields.of[1].type.kind, SLUICE_FIELD_NONE); /* its dimension is not known */
    CU_ASSERT_STRING_EQUAL(fields.of[2].name, "z");
    sources.of[2].name[0] = '\0';
    CHECK_FAILS(SLUICE_E_INVALID, "two fields are called 'y'",
                sluice_field_sources_name(&sources, &fields, sluice_test_err()));
}

int main(void)
{
    return sluice_test_main();
}
