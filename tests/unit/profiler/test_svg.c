#include "profiler/svg.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char drawn[] =
    "<?xml version=\"1.0\"?>\n<svg width=\"9\" xmlns=\"http://www.w3.org/2000/svg\">\n"
    "<title>Gnuplot</title>\n<rect fill=\"rgb(255, 255, 255)\"/>"
    "<path stroke='rgb(  0, 114, 178)'/><circle id='gpDot'/><g id=\"plot_1\"><title>a</title>"
    "<use xlink:href='#gpDot'/><path fill='url(#gpDot)'/>"
    "<text>rgb(1,2,3) id='x' #5</text></g></svg>\n";

static char *finish(const char *title)
{
    char *made = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL_FATAL(sluice_svg_finish(drawn, "loss", title, &made, &err), SLUICE_OK);
    return made;
}

static void colours_have_a_dark_one(void)
{
    char *made = finish("t");
    CU_ASSERT_PTR_NOT_NULL(strstr(made, "<rect fill=\"#ffffff\"/>"));
    CU_ASSERT_PTR_NOT_NULL(strstr(made, "<path stroke='" SLUICE_BLUE "'/>"));
    CU_ASSERT_PTR_NOT_NULL(strstr(made, "prefers-color-scheme:dark"));
    CU_ASSERT_PTR_NOT_NULL(strstr(made, "[stroke=\"" SLUICE_BLUE "\"]{stroke:#"));
    CU_ASSERT_PTR_NOT_NULL(strstr(made, "[fill=\"" SLUICE_PAPER "\"]{fill:#"));
    free(made);
}

static void ids_are_led_by_the_pictures(void)
{
    char *made = finish("t");
    CU_ASSERT_PTR_NOT_NULL(strstr(made, "id='loss-gpDot'"));
    CU_ASSERT_PTR_NOT_NULL(strstr(made, "id=\"loss-plot_1\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(made, "href='#loss-gpDot'"));
    CU_ASSERT_PTR_NOT_NULL(strstr(made, "url(#loss-gpDot)"));
    free(made);
}

static void text_stays_as_it_is(void)
{
    char *made = finish("t");
    CU_ASSERT_PTR_NOT_NULL(strstr(made, "<text>rgb(1,2,3) id='x' #5</text>"));
    CU_ASSERT_PTR_NOT_NULL(strstr(made, "<title>a</title>"));
    free(made);
}

static void the_title_is_any_text(void)
{
    char *made = finish("a </title><script>");
    CU_ASSERT_EQUAL(strncmp(made, "<svg", 4), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(made, "<title>a &lt;/title&gt;&lt;script&gt;</title>"));
    CU_ASSERT_PTR_NULL(strstr(made, "Gnuplot"));
    CU_ASSERT_PTR_NULL(strstr(made, "<script"));
    free(made);
}

static void what_is_no_svg_is_an_error(void)
{
    char *made = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_svg_finish("", "a", "b", &made, &err), SLUICE_E_CORRUPT);
    CU_ASSERT_PTR_NULL(made);
    /* What is cut short ends somewhere. */
    for (size_t len = 30; len < sizeof(drawn); len++) {
        char cut[sizeof(drawn)];
        snprintf(cut, sizeof(cut), "%.*s", (int)len, drawn);
        if (sluice_svg_finish(cut, "a", "b", &made, &err) == SLUICE_OK)
            free(made);
    }
}

static void text_becomes_no_markup(void)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"<script>alert('&')</script>", "&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;"},
        {"\"x\"\n\x1b\xff", "&quot;x&quot;\\n\\x1b\\xff"},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
    };
    for (size_t i = 0; i < SLUICE_TEST_COUNT(cases); i++) {
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);
        sluice_svg_print_text(out, cases[i].text);
        fclose(out);
        CU_ASSERT_STRING_EQUAL(text, cases[i].shown);
        free(text);
    }
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(colours_have_a_dark_one),    SLUICE_TEST(ids_are_led_by_the_pictures),
        SLUICE_TEST(text_stays_as_it_is),        SLUICE_TEST(the_title_is_any_text),
        SLUICE_TEST(what_is_no_svg_is_an_error), SLUICE_TEST(text_becomes_no_markup),
    };
    return sluice_test_run("svg", tests, SLUICE_TEST_COUNT(tests));
}
