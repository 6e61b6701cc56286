#include "profiler/page.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *path_of(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s", sluice_test_dir(), name);
    return path;
}

static void write_svg(const char *name)
{
    FILE *file = fopen(path_of(name), "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fprintf(file, "<svg id=\"%s\"><style>x</style><g/></svg>", name);
    fclose(file);
}

/* The page's text; freed by the caller. */
static char *close_page(struct sluice_page *page)
{
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL_FATAL(sluice_page_close(page, path_of("index.html"), &err), SLUICE_OK);
    FILE *file = fopen(path_of("index.html"), "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    char *text = calloc(1, 1 << 16);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT(fread(text, 1, (1 << 16) - 1, file) > 0);
    fclose(file);
    return text;
}

static void open_page(struct sluice_page *page, const char *title)
{
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL_FATAL(sluice_page_open(page, title, &err), SLUICE_OK);
}

static void text_from_anywhere_is_no_markup(void)
{
    static const char *const heads[] = {"<mode", "seconds", NULL};
    struct sluice_page page;
    open_page(&page, "<i>&");
    sluice_page_text(&page, "%s", "<script>1</script>");
    sluice_page_table_begin(&page, heads);
    sluice_page_row_begin(&page);
    sluice_page_text_cell(&page, "%s", "<b>");
    sluice_page_cell(&page, "%d < 2", 1);
    sluice_page_row_end(&page);
    sluice_page_table_end(&page);
    char *text = close_page(&page);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "<title>&lt;i&gt;&amp;</title>"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "&lt;script&gt;1&lt;/script&gt;"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "<th class=\"text\">mode</th><th>seconds</th>"));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text, "<tr><td class=\"text\">&lt;b&gt;</td><td>1 &lt; 2</td></tr>"));
    CU_ASSERT_PTR_NULL(strstr(text, "<script"));
    free(text);
}

static void both_layouts_of_a_figure_are_inside_with_one_style(void)
{
    struct sluice_page page;
    struct sluice_err err = {0};
    write_svg("a.svg");
    write_svg("a-narrow.svg");
    open_page(&page, "t");
    CU_ASSERT_EQUAL(sluice_page_figure(&page, sluice_test_dir(), "a", "1 < 2", &err), SLUICE_OK);
    char *text = close_page(&page);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "<div class=\"wide\"><svg id=\"a.svg\"><g/></svg></div>"));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text, "<div class=\"narrow\"><svg id=\"a-narrow.svg\"><g/></svg></div>"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "<figcaption>1 &lt; 2 "));
    CU_ASSERT_PTR_NULL(strstr(strstr(text, "<body>"), "<style>"));
    free(text);
}

static void it_is_light_or_dark_wide_or_narrow_and_alone(void)
{
    struct sluice_page page;
    open_page(&page, "t");
    char *text = close_page(&page);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "(prefers-color-scheme:dark)"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "(max-width:640px)"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "<meta name=\"viewport\""));
    CU_ASSERT_PTR_NULL(strstr(text, "http"));
    free(text);
}

static void a_figure_or_folder_that_is_missing_is_an_error(void)
{
    struct sluice_page page;
    struct sluice_err err = {0};
    open_page(&page, "t");
    CU_ASSERT_EQUAL(sluice_page_figure(&page, sluice_test_dir(), "none", "c", &err),
                    SLUICE_E_NOT_FOUND);
    err = (struct sluice_err){0};
    CU_ASSERT_NOT_EQUAL(sluice_page_close(&page, "/nonexistent/index.html", &err), SLUICE_OK);
    sluice_page_abandon(&page);
    sluice_page_abandon(&page);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(text_from_anywhere_is_no_markup),
        SLUICE_TEST(both_layouts_of_a_figure_are_inside_with_one_style),
        SLUICE_TEST(it_is_light_or_dark_wide_or_narrow_and_alone),
        SLUICE_TEST(a_figure_or_folder_that_is_missing_is_an_error),
    };
    return sluice_test_run("page", tests, SLUICE_TEST_COUNT(tests));
}
