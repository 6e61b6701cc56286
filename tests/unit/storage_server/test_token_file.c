#include "storage_server/session/token_file.h"

#include "support/capture.h"
#include "support/test.h"

#include <unistd.h>

#define A_HASH "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B_HASH "0123456789abcdefABCDEF0123456789000000000000000000000000000000ff"
#define A_LINE "{\"name\": \"a\", \"sha256\": \"" A_HASH "\"}\n"

static sluice_status parse(const char *text, struct sluice_token_list *list, struct sluice_err *err)
{
    *list = (struct sluice_token_list){.num_entries = 0};
    return sluice_token_list_parse(text, strlen(text), list, err);
}

TEST(reads_a_token_a_line)
{
    struct sluice_token_list list;
    REQUIRE_OK(parse("# who may read\n\n" A_LINE "  {\"name\": \"b.2_x-y\", \"sha256\": \"" B_HASH
                     "\", "
                     "\"roots\": [\"/data\", \"/more\"], \"subsets\": [\"val\"], \"cores\": 1.5, "
                     "\"mbit_s\": 80, \"connections\": 3}",
                     &list, NULL));
    CU_ASSERT_EQUAL_FATAL(list.num_entries, 2);
    const struct sluice_token_entry *a = &list.entries[0], *b = &list.entries[1];
    CU_ASSERT_STRING_EQUAL(a->name, "a");
    CU_ASSERT(a->may_train && a->may_val);
    CU_ASSERT(a->cores == 0 && a->bytes_per_s == 0 && a->connections == 0 && a->num_roots == 0);
    CU_ASSERT_EQUAL(a->hash[0], 0xaa);
    CU_ASSERT_STRING_EQUAL(b->name, "b.2_x-y");
    CU_ASSERT(!b->may_train && b->may_val);
    CU_ASSERT(b->cores == 1.5 && b->bytes_per_s == 1e7 && b->connections == 3);
    CU_ASSERT_EQUAL_FATAL(b->num_roots, 2);
    CU_ASSERT_STRING_EQUAL(b->roots[1], "/more");
    CU_ASSERT(b->hash[0] == 0x01 && b->hash[9] == 0xcd && b->hash[31] == 0xff);
    sluice_token_list_clear(&list);
    sluice_token_list_clear(&list);
}

TEST(an_empty_file_has_no_token)
{
    struct sluice_token_list list;
    CHECK_OK(parse("", &list, NULL));
    CU_ASSERT_EQUAL(list.num_entries, 0);
    sluice_token_list_clear(&list);
}

TEST(says_which_line_is_wrong_and_why)
{
#define WITH(rest) "{\"name\": \"b\", \"sha256\": \"" B_HASH "\", " rest "}"
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"{", "line 2: not a JSON object: "},
        {"[]", "line 2: not a JSON object"},
        {"{\"name\": \"b\"}", "line 2: both \"name\" and \"sha256\" are needed"},
        {"{\"sha256\": \"" B_HASH "\"}", "line 2: both \"name\""},
        {"{\"name\": \"\", \"sha256\": \"" B_HASH "\"}", "line 2: name: "},
        {"{\"name\": \"b c\", \"sha256\": \"" B_HASH "\"}", "line 2: name: "},
        {"{\"name\": \"b\", \"sha256\": \"12\"}", "line 2: sha256: "},
        {"{\"name\": \"b\", \"sha256\": \"x" B_HASH "\"}", "line 2: sha256: "},
        {"{\"name\": \"a\", \"sha256\": \"" B_HASH "\"}", "line 2: a second token of the name a"},
        {"{\"name\": \"b\", \"sha256\": \"" A_HASH "\"}", "line 2: b has the token of a"},
        {WITH("\"memory\": 1"), "line 2: \"memory\" is none of name, "},
        {WITH("\"Cores\": 1"), "line 2: \"Cores\" is none of name, "},
        {WITH("\"cores\": 0"), "line 2: cores: a number from 0.01 to "},
        {WITH("\"cores\": \"2\""), "line 2: cores: a number"},
        {WITH("\"mbit_s\": -1"), "line 2: mbit_s: a number"},
        {WITH("\"connections\": 1.5"), "line 2: connections: a whole number"},
        {WITH("\"connections\": 0"), "line 2: connections: a number"},
        {WITH("\"subsets\": []"), "line 2: subsets: "},
        {WITH("\"subsets\": [\"test\"]"), "line 2: subsets: "},
        {WITH("\"subsets\": \"train\""), "line 2: subsets: "},
        {WITH("\"roots\": [\"data\"]"), "line 2: roots: a folder begins with '/'"},
        {WITH("\"roots\": []"), "line 2: roots: "},
        {WITH("\"cores\": 1, \"cores\": 2"), "line 2: not a JSON object: duplicate"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char text[512];
        struct sluice_token_list list;
        struct sluice_err err = {0};
        snprintf(text, sizeof(text), A_LINE "%s\n", cases[i].line);
        CU_ASSERT_EQUAL(parse(text, &list, &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_EQUAL(strstr(err.text, cases[i].words), err.text);
        CU_ASSERT_PTR_NULL(list.entries);
    }
}

TEST(names_the_file)
{
    struct sluice_token_list list;
    struct sluice_err missing = {0}, bad = {0};
    const char *path = sluice_test_path("tokens");
    CU_ASSERT_EQUAL(sluice_token_list_read(path, &list, &missing), SLUICE_E_NOT_FOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(missing.text, path));
    sluice_test_put_text(sluice_test_dir(), "tokens", "{}");
    CU_ASSERT_EQUAL(sluice_token_list_read(path, &list, &bad), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(bad.text, path));
}

static struct sluice_test_output output;

static int print_line(void *ctx)
{
    const char *text = ctx;
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], text, strlen(text)) < 0)
        return 2;
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    struct sluice_err err = {0};
    const sluice_status status = sluice_token_print_line("dev", &err);
    if (status != SLUICE_OK)
        fputs(err.text, stderr);
    return status == SLUICE_OK ? 0 : 1;
}

TEST(prints_the_line_of_a_token_and_never_the_token)
{
    /* printf abcdefghijklmnop | sha256sum */
    CU_ASSERT_EQUAL(sluice_test_child(print_line, (char *)"abcdefghijklmnop\n", &output), 0);
    CU_ASSERT_STRING_EQUAL(
        output.out, "{\"name\": \"dev\", \"sha256\": "
                    "\"f39dac6cbaba535e2c207cd0cd8f154974223c848f727f98b3564cea569b41cf\"}\n");
    CU_ASSERT_NOT_EQUAL(sluice_test_child(print_line, (char *)"short", &output), 0);
    CU_ASSERT_PTR_NULL(strstr(output.err, "short"));
    CU_ASSERT_NOT_EQUAL(sluice_test_child(print_line, (char *)"with a blank in between", &output),
                        0);
    CU_ASSERT_PTR_NULL(strstr(output.err, "blank"));
    CU_ASSERT_STRING_EQUAL(output.out, "");
}
