#include "datasets/list/brace.h"

#include "support/test.h"

static char names[4096];
static size_t num_names;

static sluice_status take(void *ctx, const char *name, struct sluice_err *err)
{
    const size_t len = strlen(names);
    (void)ctx;
    (void)err;
    snprintf(names + len, sizeof(names) - len, "%s%s", num_names ? " " : "", name);
    num_names++;
    return SLUICE_OK;
}

static sluice_status expand(const char *list)
{
    names[0] = '\0';
    num_names = 0;
    return sluice_brace_expand(list, take, NULL, NULL);
}

TEST(names_are_those_of_bash)
{
    /* What bash 5.2 prints for: echo PATTERN. */
    static const struct {
        const char *pattern, *names;
    } known[] = {
        {"plain.tar", "plain.tar"},
        {"a-{000..003}.tar", "a-000.tar a-001.tar a-002.tar a-003.tar"},
        {"{08..11}", "08 09 10 11"},
        {"{8..11}", "8 9 10 11"},
        {"{1..010}x", "001x 002x 003x 004x 005x 006x 007x 008x 009x 010x"},
        {"{3..1}", "3 2 1"},
        {"{-02..1}", "-02 -01 000 001"},
        {"{1..10..4}", "1 5 9"},
        {"{10..1..4}", "10 6 2"},
        {"{1..5..-2}", "1 3 5"},
        {"{1..2..0}", "1 2"},
        {"{a..d}{0,1}", "a0 a1 b0 b1 c0 c1 d0 d1"},
        {"{a..e..2}", "a c e"},
        {"x{a,b,}y", "xay xby xy"},
        {"{a,b{1..3},c}.tar", "a.tar b1.tar b2.tar b3.tar c.tar"},
        {"{a,{b,{c,d}}}", "a b c d"},
        {"{a}", "{a}"},
        {"{}x", "{}x"},
        {"{a{b,c}}", "{ab} {ac}"},
        {"{1..b}", "{1..b}"},
        {"{1..2..3..4}", "{1..2..3..4}"},
        {"{..}", "{..}"},
        {"{5..5}", "5"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(known); i++) {
        CHECK_OK(expand(known[i].pattern));
        CU_ASSERT_STRING_EQUAL(names, known[i].names);
    }
}

TEST(lists_stand_between_double_colons)
{
    CHECK_OK(expand("a-{0..1}.tar::b:c.tar::d"));
    CU_ASSERT_STRING_EQUAL(names, "a-0.tar a-1.tar b:c.tar d");
}

TEST(what_is_no_list_is_refused)
{
    static const char *const wrong[] = {"",     "a::", "::a",    "{",    "}",
                                        "{a,b", "a}",  "{{a,b}", "{,a}", "{a,b::c}"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++)
        CU_ASSERT_EQUAL(expand(wrong[i]), SLUICE_E_INVALID);
}

static sluice_status count(void *ctx, const char *name, struct sluice_err *err)
{
    (void)name;
    (void)err;
    ++*(size_t *)ctx;
    return SLUICE_OK;
}

TEST(names_are_bounded)
{
    size_t num = 0;
    CHECK_OK(sluice_brace_expand("{0..1048575}", count, &num, NULL));
    CU_ASSERT_EQUAL(num, SLUICE_BRACE_MAX_NAMES);
    CHECK_FAILS(SLUICE_E_INVALID, "more than 1048576 names",
                sluice_brace_expand("{0..999999999999999999}", count, &num, sluice_test_err()));
    CU_ASSERT_EQUAL(
        expand("{,a}{,b}{,c}{,d}{,e}{,f}{,g}{,h}{,i}{,j}{,k}{,l}{,m}{,n}{,o}{,p}{,q}{,r}"
               "{,s}{,t}{,u}{,v}x"),
        SLUICE_E_INVALID);
    char many[3 * (SLUICE_BRACE_MAX_BRACES + 1) + 1] = "";
    for (size_t i = 0; i < SLUICE_BRACE_MAX_BRACES + 1; i++)
        memcpy(many + 3 * i, "{a}", 4);
    CU_ASSERT_EQUAL(expand(many), SLUICE_E_INVALID);
    static char longest[SLUICE_BRACE_MAX_BYTES + 2];
    memset(longest, 'x', sizeof(longest) - 1);
    CHECK_OK(sluice_brace_expand(longest + 1, count, &num, NULL));
    CU_ASSERT_EQUAL(sluice_brace_expand(longest, count, &num, NULL), SLUICE_E_INVALID);
}

static sluice_status stop(void *ctx, const char *name, struct sluice_err *err)
{
    (void)err;
    return strcmp(name, ctx) == 0 ? SLUICE_E_CLOSED : SLUICE_OK;
}

TEST(another_status_ends_the_list)
{
    CU_ASSERT_EQUAL(sluice_brace_expand("{a,b,c}", stop, (char[]){"b"}, NULL), SLUICE_E_CLOSED);
}
