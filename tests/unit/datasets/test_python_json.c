#include "datasets/list/python_json.h"

#include "support/test.h"

static char told[200];

static void note(void *ctx, const char *key)
{
    (void)ctx;
    strcat(told, key);
    strcat(told, ";");
}

TEST(replaces_in_place_what_jansson_refuses)
{
    static const struct {
        const char *text, *replaced, *keys;
    } cases[] = {
        {"{\"a\": 1, \"b\": \"x\"}", "{\"a\": 1, \"b\": \"x\"}", ""},
        {"{\"a\": NaN, \"b\":-Infinity}", "{\"a\": 0  , \"b\":0        }", "a;b;"},
        {"{\"a\": [1, {\"c\": Infinity}], \"b\": 2}", "{\"a\": [1, {\"c\": 0       }], \"b\": 2}",
         "a;"},
        {"{\"a\": \"NaN\", \"NaN\": 1}", "{\"a\": \"NaN\", \"NaN\": 1}", ""},
        {"{\"a\": 9223372036854775807}", "{\"a\": 9223372036854775807}", ""},
        {"{\"a\": 9223372036854775808}", "{\"a\": 0                  }", "a;"},
        {"{\"a\":-99999999999999999999,\"b\":1e400}", "{\"a\":0                    ,\"b\":1e400}",
         "a;"},
        {"{\"a\": \"\\u0000\"}", "{\"a\": \"\\ufffd\"}", "a;"},
        {"{\"a\": \"\\\\u0000\"}", "{\"a\": \"\\\\u0000\"}", ""},
        {"{\"a\": \"\\ud83d\\ude00\"}", "{\"a\": \"\\ud83d\\ude00\"}", ""},
        {"{\"a\": \"\\ud83dx\\uDE00\"}", "{\"a\": \"\\ufffdx\\ufffd\"}", "a;"},
        {"{\"\\ud83d\": 1}", "{\"\\ufffd\": 1}", "\\ufffd;"},
        {"{\"a\": \"cut \\ud8", "{\"a\": \"cut \\ud8", ""},
        {"{\"a\": \"\\", "{\"a\": \"\\", ""},
        {"NaN", "0  ", ";"},
        {"}]{\"a\":NaN", "}]{\"a\":0  ", "a;"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char text[100];
        const size_t len = strlen(cases[i].text);
        memcpy(text, cases[i].text, len + 1);
        told[0] = '\0';
        sluice_python_json_replace(text, len, note, NULL);
        if (strcmp(text, cases[i].replaced) != 0)
            printf("%s: %s\n", cases[i].text, text);
        CU_ASSERT_STRING_EQUAL(text, cases[i].replaced);
        CU_ASSERT_STRING_EQUAL(told, cases[i].keys);
    }
}

TEST(a_long_key_is_cut)
{
    char text[400];
    memset(text, 'k', sizeof(text));
    memcpy(text, "{\"", 2);
    memcpy(text + 300, "\": NaN}", 7);
    told[0] = '\0';
    sluice_python_json_replace(text, 307, note, NULL);
    CU_ASSERT_EQUAL(strlen(told), SLUICE_PYTHON_JSON_KEY); /* with the ';' */
    CU_ASSERT_EQUAL(memcmp(text + 300, "\": 0  }", 7), 0);
}
