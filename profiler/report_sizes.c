#include "profiler/report_internal.h"

#include "op/form.h"
#include "profiler/svg.h"

#include <math.h>
#include <stdlib.h>

/* How the sizes of all samples spread at each stage. */

static int compare_bytes(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

struct spread {
    const char *title, *colour;
    int dash;
};

/* A line of the figure, of which range becomes the least and the most; sorts `bytes`. */
static void print_spread(struct sluice_figure *figure, size_t line, const struct spread *look,
                         uint64_t *bytes, size_t num, double range_kb[2])
{
    enum { NUM_POINTS = 200 };
    if (num == 0)
        return;
    qsort(bytes, num, sizeof(*bytes), compare_bytes);
    fprintf(figure->script, "$line%zu << EOD\n", line);
    for (size_t point = 0; point <= NUM_POINTS; point++) {
        const size_t rank = (num - 1) * point / NUM_POINTS;
        fprintf(figure->script, "%.3f %.4f\n", (double)bytes[rank] / 1e3,
                (double)point / NUM_POINTS);
    }
    fprintf(figure->script, "EOD\n");
    range_kb[0] = fmin(range_kb[0], (double)bytes[0] / 1e3);
    range_kb[1] = fmax(range_kb[1], (double)bytes[num - 1] / 1e3);
    fprintf(figure->plot, "%s$line%zu using 1:2 with lines lw 2.5 dt %d lc rgb '%s' title '%s'",
            ftell(figure->plot) > 0 ? ", " : "plot ", line, look->dash, look->colour, look->title);
}

static size_t bytes_at_stage(const struct sluice_cost_table *table, unsigned stage, uint64_t *bytes)
{
    for (size_t row = 0; row < table->num_rows; row++)
        bytes[row] = table->rows[row].bytes[stage];
    return table->num_rows;
}

static size_t bytes_in_form(const struct sluice_form_table *forms,
                            const struct sluice_choices *choices, enum sluice_form form,
                            uint64_t *bytes)
{
    size_t num = 0;
    for (size_t i = 0; i < forms->num_rows; i++) {
        if (choices->at[forms->rows[i].choice].form == form)
            bytes[num++] = forms->rows[i].bytes;
    }
    return num;
}

sluice_status report_draw_sizes(const struct report_subject *subject,
                                const struct sluice_form_table *forms, struct sluice_err *err)
{
    const struct sluice_cost_table *table = &subject->profile->table;
    const struct sluice_choices *choices = &subject->profile->choices;
    struct sluice_figure figure;
    char title[100];
    snprintf(title, sizeof(title), "Bytes of a sample at each stage\n%zu samples", table->num_rows);
    sluice_status status = sluice_figure_open(&figure, subject->folder, "sizes_cdf", title, err);
    if (status != SLUICE_OK)
        return status;
    figure.narrow_height = 480;
    uint64_t *bytes = malloc((table->num_rows + forms->num_rows + 1) * sizeof(*bytes));
    if (!bytes) {
        sluice_figure_abandon(&figure);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to sort %zu sizes", table->num_rows);
    }
    double range_kb[2] = {INFINITY, 0};
    const struct {
        struct spread look;
        unsigned stage; /* with a form: not looked at */
        const char *form;
        bool is_there;
    } lines[] = {
        {{"file", SLUICE_BLUE, 1}, 0, NULL, true},
        {{"file, cut to the crop", SLUICE_BLUE, 2}, 0, "jpeg_crop", true},
        {{"rows under the crop", SLUICE_BLUE, 3}, 0, "jpeg_rows", true},
        {{"decoded", SLUICE_VERMILION, 1}, 1, NULL, true},
        {{"cropped pixels", SLUICE_GREEN, 1}, choices->u8_split, NULL, choices->u8_split > 1},
        {{"cropped, packed", SLUICE_GREEN, 2}, 0, "u8_packed", true},
        {{"float32", SLUICE_PINK, 4}, choices->num_ops, NULL, choices->num_ops > choices->u8_split},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(lines); i++) {
        if (!lines[i].is_there)
            continue;
        const size_t num =
            lines[i].form ? bytes_in_form(forms, choices, sluice_form_find(lines[i].form), bytes)
                          : bytes_at_stage(table, lines[i].stage, bytes);
        print_spread(&figure, i, &lines[i].look, bytes, num, range_kb);
    }
    free(bytes);
    sluice_figure_log_axis(&figure, 'x', fmax(range_kb[0], 1e-3), fmax(range_kb[1], 1e-3));
    fprintf(figure.script, "set xlabel 'kB per sample'\nset ylabel 'share of samples'\n"
                           "set yrange [0:1]\n");
    status = sluice_figure_draw(&figure, err);
    if (status != SLUICE_OK)
        return status;
    return sluice_page_figure(subject->page, subject->folder, "sizes_cdf",
                              "The share of samples that have at most so many bytes; dashed: forms "
                              "that only Sluice's protocol has.",
                              err);
}
