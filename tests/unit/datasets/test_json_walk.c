#include "datasets/list/json_walk.h"

#include "support/test.h"

static void expect_part(struct sluice_json_walk *walk, const char *key, const char *value)
{
    struct sluice_json_part part;
    bool is_end = true;
    CU_ASSERT_FATAL(sluice_json_walk_next(walk, &part, &is_end) && !is_end);
    CU_ASSERT_EQUAL_FATAL(part.len, strlen(value));
    CU_ASSERT(memcmp(part.value, value, part.len) == 0);
    CU_ASSERT(key ? sluice_json_part_is(&part, key) : !part.key);
}

static void expect_end(struct sluice_json_walk *walk)
{
    struct sluice_json_part part;
    bool is_end = false;
    CU_ASSERT(sluice_json_walk_next(walk, &part, &is_end) && is_end);
    CU_ASSERT(sluice_json_walk_is_over(walk));
}

TEST(finds_elements_and_members)
{
    static const char array[] = " [ 1, \"a]\\\",\" ,{\"k\":[2]}, [ ] ,null\n] ";
    static const char object[] = "{\"a\" : [1, {\"b\": \"}\"}] , \"\\\"\":true}";
    struct sluice_json_walk walk;
    CU_ASSERT_FATAL(sluice_json_walk_begin(&walk, array, strlen(array), '['));
    expect_part(&walk, NULL, "1");
    expect_part(&walk, NULL, "\"a]\\\",\"");
    expect_part(&walk, NULL, "{\"k\":[2]}");
    expect_part(&walk, NULL, "[ ]");
    expect_part(&walk, NULL, "null");
    expect_end(&walk);
    CU_ASSERT_FATAL(sluice_json_walk_begin(&walk, object, strlen(object), '{'));
    expect_part(&walk, "a", "[1, {\"b\": \"}\"}]");
    expect_part(&walk, "\\\"", "true");
    expect_end(&walk);
    CU_ASSERT_FATAL(sluice_json_walk_begin(&walk, "[]", 2, '['));
    expect_end(&walk);
    CU_ASSERT(!sluice_json_walk_begin(&walk, "{}", 2, '['));
    CU_ASSERT(!sluice_json_walk_begin(&walk, "", 0, '{'));
}

/* Walks to the end or to the first error. */
static bool is_whole(const char *text, char open)
{
    struct sluice_json_walk walk;
    struct sluice_json_part part;
    bool is_end = false, is_right = sluice_json_walk_begin(&walk, text, strlen(text), open);
    while (is_right && !is_end)
        is_right = sluice_json_walk_next(&walk, &part, &is_end);
    CU_ASSERT(walk.at <= walk.end);
    return is_right && sluice_json_walk_is_over(&walk);
}

TEST(malformed_text_is_told)
{
    static const char *const arrays[] = {"[",     "[1",   "[1,",     "[1 2]", "[,1]", "[\"a]",
                                         "[\"\\", "[[1]", "[{]}, 1", "[1]]",  "[] x", "[1,,2]"};
    static const char *const objects[] = {"{1:2}", "{\"a\"}", "{\"a\":}", "{\"a\":1,", "{\"a\" 1}"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(arrays); i++)
        CU_ASSERT(!is_whole(arrays[i], '['));
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(objects); i++)
        CU_ASSERT(!is_whole(objects[i], '{'));
}

TEST(nesting_has_a_bound)
{
    char text[2 * SLUICE_JSON_WALK_DEPTH + 8] = "[";
    memset(text + 1, '[', SLUICE_JSON_WALK_DEPTH);
    memset(text + 1 + SLUICE_JSON_WALK_DEPTH, ']', SLUICE_JSON_WALK_DEPTH + 1);
    CU_ASSERT(is_whole(text, '['));
    memset(text + 1, '[', SLUICE_JSON_WALK_DEPTH + 1);
    memset(text + 2 + SLUICE_JSON_WALK_DEPTH, ']', SLUICE_JSON_WALK_DEPTH + 2);
    CU_ASSERT(!is_whole(text, '['));
}

int main(void)
{
    return sluice_test_main();
}
