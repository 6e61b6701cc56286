#include "profiler/figure.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What FOLDER/NAME holds; freed by the caller. */
static char *read_file(const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", sluice_test_dir(), name);
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    char *text = calloc(1, 1 << 20);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static void open_figure(struct sluice_figure *figure, const char *name, const char *title)
{
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL_FATAL(sluice_figure_open(figure, sluice_test_dir(), name, title, &err),
                          SLUICE_OK);
}

static void a_logarithmic_axis_begins_and_ends_where_it_is_told(void)
{
    static const struct {
        double low, high;
        const char *range, *tics;
    } cases[] = {
        {50, 10000, "[50:10000]", "('50' 50, '100' 100, '200' 200, '500' 500, '1000' 1000, "},
        {2, 7, "[2:7]", "('2' 2, '3' 3, '4' 4, '5' 5, '6' 6, '7' 7)"},
        {0.002, 90000, "[0.002:90000]", "('0.01' 0.01, '0.1' 0.1, '1' 1, '10' 10, '100' 100, "},
        {150.528, 150.528, "[120.4224:188.16]", "("}, /* all alike */
    };
    for (size_t i = 0; i < SLUICE_TEST_COUNT(cases); i++) {
        struct sluice_figure figure;
        open_figure(&figure, "axis", "t");
        sluice_figure_log_axis(&figure, 'x', cases[i].low, cases[i].high);
        sluice_figure_abandon(&figure);
        char *script = read_file("axis.gp"), expected[300];
        snprintf(expected, sizeof(expected), "set xrange %s\n", cases[i].range);
        CU_ASSERT_PTR_NOT_NULL(strstr(script, expected));
        snprintf(expected, sizeof(expected), "set xtics %s", cases[i].tics);
        CU_ASSERT_PTR_NOT_NULL(strstr(script, expected));
        free(script);
    }
}

static void labels_are_nothing_that_gnuplot_obeys(void)
{
    char label[40];
    sluice_figure_label(label, sizeof(label), "remote_auto (2)");
    CU_ASSERT_STRING_EQUAL(label, "remote_auto (2)");
    sluice_figure_label(label, sizeof(label), "`id`'\"\n\\$x{/b}\xc3\xbc<");
    CU_ASSERT_STRING_EQUAL(label, "?id??????x?/b????");
    sluice_figure_label(label, 4, "abcdef");
    CU_ASSERT_STRING_EQUAL(label, "abc");
}

static void draws_two_layouts_and_a_png_of_twice_the_pixels(void)
{
    struct sluice_figure figure;
    open_figure(&figure, "lines", "A title\nof `touch hacked` two lines");
    struct sluice_err err = {0};
    fprintf(figure.script, "set xrange [1:3]\n");
    fprintf(figure.plot, "plot x with lines lc rgb '#0072b2' title sprintf('narrow %%d', narrow)");
    const sluice_status status = sluice_figure_draw(&figure, &err);
    if (status == SLUICE_E_NOT_FOUND)
        sluice_test_skip("no gnuplot");
    CU_ASSERT_EQUAL_FATAL(status, SLUICE_OK);
    char *wide = read_file("lines.svg"), *narrow = read_file("lines-narrow.svg");
    CU_ASSERT_PTR_NOT_NULL(strstr(wide, "viewBox=\"0 0 860 440\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(narrow, "viewBox=\"0 0 360 420\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(wide, "narrow 0"));
    CU_ASSERT_PTR_NOT_NULL(strstr(narrow, "narrow 1"));
    CU_ASSERT_PTR_NOT_NULL(strstr(wide, "prefers-color-scheme:dark"));
    CU_ASSERT_PTR_NOT_NULL(strstr(wide, "\"#0072b2\""));
    CU_ASSERT_PTR_NULL(strstr(wide, "rgb("));
    free(wide);
    free(narrow);
    char path[4096];
    uint8_t head[24];
    snprintf(path, sizeof(path), "%s/lines.png", sluice_test_dir());
    FILE *png = fopen(path, "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(png);
    CU_ASSERT_EQUAL(fread(head, 1, sizeof(head), png), sizeof(head));
    fclose(png);
    CU_ASSERT_EQUAL(head[18] << 8 | head[19], 2 * SLUICE_FIGURE_WIDTH);
    snprintf(path, sizeof(path), "%s/hacked", sluice_test_dir());
    CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
}

static void a_folder_that_is_not_there_is_an_error(void)
{
    struct sluice_figure figure;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_figure_open(&figure, "/nonexistent", "a", "b", &err), SLUICE_E_IO);
    sluice_figure_abandon(&figure);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/nonexistent/a.gp"));
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(a_logarithmic_axis_begins_and_ends_where_it_is_told),
        SLUICE_TEST(labels_are_nothing_that_gnuplot_obeys),
        SLUICE_TEST(a_folder_that_is_not_there_is_an_error),
        SLUICE_TEST(draws_two_layouts_and_a_png_of_twice_the_pixels),
    };
    return sluice_test_run("figure", tests, SLUICE_TEST_COUNT(tests));
}
