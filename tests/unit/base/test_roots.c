#include "base/roots.h"

#include "support/test.h"

static struct sluice_roots parse(const char *const *texts, size_t num)
{
    struct sluice_roots roots = {.num = 0};
    struct sluice_err err = {0};
    if (sluice_roots_parse(texts, num, &roots, &err) != SLUICE_OK)
        CU_FAIL_FATAL(err.text);
    return roots;
}

TEST(a_plain_root_has_no_name)
{
    static const char *const texts[] = {
        "/data/a=b", "./a=b", "s3://bucket/a=b", "http://host/list?a=b", "a b=c", ""};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++) {
        const struct sluice_roots roots = parse(&texts[i], 1);
        const char *rest;
        CU_ASSERT_EQUAL(roots.num, 1);
        CU_ASSERT_STRING_EQUAL(roots.at[0].name, "");
        CU_ASSERT_STRING_EQUAL(roots.at[0].place, texts[i]);
        CU_ASSERT_PTR_EQUAL(sluice_roots_find(&roots, "x/y.jpg", &rest), &roots.at[0]);
        CU_ASSERT_STRING_EQUAL(rest, "x/y.jpg");
    }
}

/* '-' comes before '/', and '0' after it. */
TEST(roots_are_ordered_by_the_paths_in_them)
{
    const struct sluice_roots roots =
        parse((const char *const[]){"a0=/z", "a=/x=y", "a-b=s3://bucket", "_=relative"}, 4);
    static const char *const names[] = {"_", "a-b", "a", "a0"};
    static const char *const places[] = {"relative", "s3://bucket", "/x=y", "/z"};
    for (size_t i = 0; i < 4; i++) {
        CU_ASSERT_STRING_EQUAL(roots.at[i].name, names[i]);
        CU_ASSERT_STRING_EQUAL(roots.at[i].place, places[i]);
    }
    CU_ASSERT(strcmp("a-b/z", "a/a") < 0 && sluice_root_compare("a-b", "a") < 0);
    CU_ASSERT(strcmp("a/z", "a0/a") < 0 && sluice_root_compare("a", "a0") < 0);
    CU_ASSERT_EQUAL(sluice_root_compare("", ""), 0);
    char text[SLUICE_ROOTS_TEXT];
    sluice_roots_format(&roots, text);
    CU_ASSERT_STRING_EQUAL(text, "_=relative a-b=s3://bucket a=/x=y a0=/z");
}

TEST(finds_the_root_of_a_path)
{
    const struct sluice_roots roots = parse((const char *const[]){"a=/x", "ab=/y"}, 2);
    const char *rest = NULL;
    CU_ASSERT_STRING_EQUAL(sluice_roots_find(&roots, "ab/c/1.jpg", &rest)->place, "/y");
    CU_ASSERT_STRING_EQUAL(rest, "c/1.jpg");
    CU_ASSERT_STRING_EQUAL(sluice_roots_find(&roots, "a/1.jpg", &rest)->place, "/x");
    CU_ASSERT_PTR_NULL(sluice_roots_find(&roots, "a", &rest));
    CU_ASSERT_PTR_NULL(sluice_roots_find(&roots, "abc/1.jpg", &rest));
    CU_ASSERT_PTR_NULL(sluice_roots_find(&roots, "/a/1.jpg", &rest));
}

TEST(says_what_is_wrong)
{
    static const struct {
        const char *texts[2];
        size_t num;
        const char *words;
    } cases[] = {
        {{"a=/x", "/y"}, 2, "'/y': of several roots each has a name"},
        {{"a=/x", "b c=/y"}, 2, "'b c=/y': of several roots"},
        {{"a=/x", "=/y"}, 2, "'=/y': of several roots"},
        {{"a=/x", "a=/y"}, 2, "two roots are called a"},
        {{"a="}, 1, "nothing follows"},
        {{"abcdefghijklmnopqrstuvwxyz0123456=/x"}, 1, "at most 32"},
        {{NULL}, 0, "0 roots"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_roots roots = {.num = 77};
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_roots_parse(cases[i].texts, cases[i].num, &roots, &err),
                        SLUICE_E_INVALID);
        if (!strstr(err.text, cases[i].words))
            CU_FAIL(err.text);
        CU_ASSERT_EQUAL(roots.num, 77);
    }
}

TEST(a_long_list_is_cut)
{
    char place[400];
    memset(place, 'x', sizeof(place) - 1);
    place[sizeof(place) - 1] = '\0';
    struct sluice_roots roots = {.num = 2, .at = {{"a", place}, {"b", place}}};
    char text[SLUICE_ROOTS_TEXT];
    sluice_roots_format(&roots, text);
    CU_ASSERT_EQUAL(strlen(text), SLUICE_ROOTS_TEXT - 1);
    CU_ASSERT_STRING_EQUAL(text + SLUICE_ROOTS_TEXT - 5, "x...");
}
