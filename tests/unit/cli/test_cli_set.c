#include "cli/cli_set.h"

#include "support/test.h"

/* An option of each type. */
struct values {
    bool strict, verify, is_verify_given;
    const char *root, *even, *mode;
    uint64_t workers, cache;
    double ratio, link, patience, wait;
    struct sluice_option_strings hosts;
};

static struct values given;

static const char *const modes[] = {"fast", "optimal", NULL};

static sluice_status check_even(const char *text, struct sluice_err *err)
{
    return strlen(text) % 2 == 0 ? SLUICE_OK
                                 : sluice_fail(err, SLUICE_E_INVALID, "'%s' is odd", text);
}

static const struct sluice_option table[] = {
    {.name = "strict", .type = SLUICE_OPTION_FLAG, .value = &given.strict},
    {.name = "verify",
     .type = SLUICE_OPTION_FLAG,
     .value = &given.verify,
     .is_given = &given.is_verify_given},
    {.name = "root", .type = SLUICE_OPTION_STRING, .value = &given.root, .is_required = true},
    {.name = "even", .type = SLUICE_OPTION_STRING, .value = &given.even, .check = check_even},
    {.name = "crop-mode", .type = SLUICE_OPTION_CHOICE, .value = &given.mode, .choices = modes},
    {.name = "io-workers",
     .alias = "workers",
     .type = SLUICE_OPTION_UINT,
     .value = &given.workers,
     .min = 1,
     .max = 64},
    {.name = "cache", .type = SLUICE_OPTION_BYTES, .value = &given.cache},
    {.name = "ratio", .type = SLUICE_OPTION_DOUBLE, .value = &given.ratio, .min = -1, .max = 1},
    {.name = "link-limit", .type = SLUICE_OPTION_RATE, .value = &given.link},
    {.name = "patience", .type = SLUICE_OPTION_SECONDS, .value = &given.patience},
    {.name = "wait", .type = SLUICE_OPTION_MS, .value = &given.wait},
    {.name = "hosts", .type = SLUICE_OPTION_STRINGS, .value = &given.hosts},
};

static sluice_status set(struct values *values, struct sluice_cli_texts *texts, const char *key,
                         const char *value, struct sluice_err *err)
{
    return sluice_cli_set(table, SLUICE_ARRAY_LEN(table), sluice_cli_offset(&given, values), texts,
                          key, value, err);
}

static void must_set(struct values *values, struct sluice_cli_texts *texts, const char *key,
                     const char *value)
{
    struct sluice_err err = {0};
    CHECK_OK(set(values, texts, key, value, &err));
    CU_ASSERT_STRING_EQUAL(err.text, "");
}

/* It fails, with these words, and nothing is written. */
static void must_fail(const char *key, const char *value, const char *words)
{
    struct values values, before;
    memset(&values, 0x41, sizeof(values));
    memset(&values.hosts, 0, sizeof(values.hosts));
    memcpy(&before, &values, sizeof(values));
    struct sluice_cli_texts texts = {0};
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(set(&values, &texts, key, value, &err), SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, words);
    /* To the byte: NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
    CU_ASSERT_EQUAL(memcmp(&before, &values, sizeof(values)), 0);
    CU_ASSERT_PTR_NULL(texts.first);
}

TEST(sets_options_of_every_type)
{
    struct values v = {.strict = true};
    must_set(&v, NULL, "strict", "false");
    must_set(&v, NULL, "verify", "true");
    must_set(&v, NULL, "root", "/data");
    must_set(&v, NULL, "even", "ab");
    must_set(&v, NULL, "crop-mode", "optimal");
    must_set(&v, NULL, "io-workers", "12");
    must_set(&v, NULL, "cache", "1GiB");
    must_set(&v, NULL, "ratio", "-0.5");
    must_set(&v, NULL, "link-limit", "80mbit");
    must_set(&v, NULL, "patience", "2m");
    must_set(&v, NULL, "wait", "2s");
    must_set(&v, NULL, "hosts", "a:1");
    must_set(&v, NULL, "hosts", "b:2");
    CU_ASSERT_FALSE(v.strict);
    CU_ASSERT_TRUE(v.verify);
    CU_ASSERT(v.root && strcmp(v.root, "/data") == 0);
    CU_ASSERT(v.even && strcmp(v.even, "ab") == 0);
    CU_ASSERT(v.mode && strcmp(v.mode, "optimal") == 0);
    CU_ASSERT_EQUAL(v.workers, 12);
    CU_ASSERT_EQUAL(v.cache, 1u << 30);
    CU_ASSERT_EQUAL(v.ratio, -0.5);
    CU_ASSERT_EQUAL(v.link, 10e6);
    CU_ASSERT_EQUAL(v.patience, 120);
    CU_ASSERT_EQUAL(v.wait, 2000);
    CU_ASSERT_EQUAL_FATAL(v.hosts.num_items, 2);
    CU_ASSERT(v.hosts.items[0] && strcmp(v.hosts.items[0], "a:1") == 0);
    CU_ASSERT(v.hosts.items[1] && strcmp(v.hosts.items[1], "b:2") == 0);
}

TEST(writes_to_the_given_struct_alone)
{
    struct values on_stack = {0}, *on_heap = calloc(1, sizeof(*on_heap));
    CU_ASSERT_PTR_NOT_NULL_FATAL(on_heap);
    must_set(&on_stack, NULL, "io-workers", "3");
    must_set(on_heap, NULL, "io-workers", "4");
    must_set(on_heap, NULL, "verify", "false");
    CU_ASSERT_EQUAL(on_stack.workers, 3);
    CU_ASSERT_EQUAL(on_heap->workers, 4);
    CU_ASSERT_EQUAL(given.workers, 0);
    CU_ASSERT_TRUE(on_heap->is_verify_given);
    CU_ASSERT_FALSE(on_stack.is_verify_given);
    CU_ASSERT_FALSE(given.is_verify_given);
    must_set(&given, NULL, "io-workers", "5");
    CU_ASSERT_EQUAL(given.workers, 5);
    given = (struct values){0};
    free(on_heap);
}

TEST(copies_or_borrows_text)
{
    char text[] = "/data", host[] = "a:1";
    struct values v = {0};
    must_set(&v, NULL, "root", text);
    CU_ASSERT_PTR_EQUAL(v.root, text);

    struct sluice_cli_texts texts = {0};
    must_set(&v, &texts, "root", text);
    must_set(&v, &texts, "root", text);
    must_set(&v, &texts, "hosts", host);
    memset(text, 'x', 3);
    memset(host, 'x', 3);
    CU_ASSERT(v.root && strcmp(v.root, "/data") == 0);
    CU_ASSERT(v.hosts.items[0] && strcmp(v.hosts.items[0], "a:1") == 0);

    /* Of a choice the table has the text. */
    char mode[] = "fast";
    must_set(&v, NULL, "crop-mode", mode);
    CU_ASSERT_PTR_EQUAL(v.mode, modes[0]);
    sluice_cli_texts_clear(&texts);
    CU_ASSERT_PTR_NULL(texts.first);
    sluice_cli_texts_clear(&texts);
}

TEST(the_last_value_counts_and_an_alias_is_the_same)
{
    struct values v = {0};
    must_set(&v, NULL, "io-workers", "3");
    must_set(&v, NULL, "workers", "4");
    CU_ASSERT_EQUAL(v.workers, 4);
}

TEST(refuses_unknown_keys_and_says_what_is_near)
{
    must_fail("roott", "/data", "unknown setting 'roott'; did you mean root?");
    must_fail("--root", "/data", "unknown setting '--root'; did you mean root?");
    must_fail("io_workers", "3", "unknown setting 'io_workers'; did you mean io-workers?");
    must_fail("no-strict", "true", "unknown setting 'no-strict'; set strict to false");
    must_fail("zzzzzzzzzz", "1", "unknown setting 'zzzzzzzzzz'");
    must_fail("", "1", "unknown setting ''");
    must_fail("help", "true", "unknown setting 'help'");
    must_fail(NULL, "1", "a setting has no key");
}

TEST(checks_values_as_the_command_line_does)
{
    must_fail("io-workers", "65", "io-workers: '65' is not within 1 to 64");
    must_fail("workers", "0", "workers: '0' is not within 1 to 64");
    must_fail("ratio", "2", "ratio: '2' is not within -1 to 1");
    must_fail("even", "abc", "even: 'abc' is odd");
    must_fail("crop-mode", "optimum",
              "crop-mode: 'optimum' is none of fast, optimal; did you mean optimal?");
    must_fail("strict", "yes", "strict: 'yes' is none of true, false");
    must_fail("strict", "", "strict: '' is none of true, false");
    must_fail("root", NULL, "root: it has no value");

    struct values v = {0};
    struct sluice_cli_texts texts = {0};
    struct sluice_err err = {0};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(v.hosts.items); i++)
        must_set(&v, &texts, "hosts", "a");
    CU_ASSERT_EQUAL(set(&v, &texts, "hosts", "a", &err), SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, "hosts: given more than 64 times");
    sluice_cli_texts_clear(&texts);
}
