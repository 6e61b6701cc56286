#include "store/web_list.h"

#include "support/test.h"

static char told[512];

static sluice_status tell(void *ctx, const struct sluice_web_object *object, struct sluice_err *err)
{
    if (ctx)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "enough");
    snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s|%llu|%s;", object->path,
             (unsigned long long)object->bytes, object->etag);
    return SLUICE_OK;
}

static sluice_status parse(const char *text, void *ctx, struct sluice_err *err)
{
    told[0] = '\0';
    return sluice_web_list_parse(text, strlen(text), tell, ctx, err);
}

TEST(reads_paths_lengths_and_etags)
{
    CHECK_OK(
        parse("# a list\n\n  a/b c.jpg  12 \"ab-1\"\r\n\tx\t0\t-\nlast 7 W/\"e\"", NULL, NULL));
    CU_ASSERT_STRING_EQUAL(told, "a/b c.jpg|12|\"ab-1\";x|0|;last|7|W/\"e\";");
    CHECK_OK(parse("", NULL, NULL));
    CU_ASSERT_EQUAL(parse("a 1 -\n", told, NULL), SLUICE_E_UNSUPPORTED);
}

TEST(refuses_other_lines_by_number)
{
    static const char *const bad[] = {"a",
                                      "a 1",
                                      "1 -",
                                      "a x -",
                                      "a -1 -",
                                      "/a 1 -",
                                      "../a 1 -",
                                      "a/../b 1 -",
                                      "a/./b 1 -",
                                      "a//b 1 -",
                                      "a/ 1 -",
                                      ". 1 -",
                                      "a 99999999999999999999 -",
                                      "a 9223372036854775807 -",
                                      "\xff 1 -"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[128];
        struct sluice_err err = {0};
        snprintf(text, sizeof(text), "ok 1 -\n%s\n", bad[i]);
        CU_ASSERT_EQUAL(parse(text, NULL, &err), SLUICE_E_CORRUPT);
        CU_ASSERT_EQUAL(strncmp(err.text, "line 2: ", 8), 0);
    }
    static char longer[8192];
    memset(longer, 'a', sizeof(longer) - 1);
    CU_ASSERT_EQUAL(parse(longer, NULL, NULL), SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(sluice_web_list_parse("a\0b 1 -", 7, tell, NULL, NULL), SLUICE_E_CORRUPT);
}
