#include "plan/form_table.h"

#include "base/array.h"
#include "base/c_locale.h"
#include "base/file.h"
#include "image/codecs/coding.h"
#include "plan/csv.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LINE "# sluice forms 1"
#define MAX_SIDE 65535

enum column {
    INDEX,
    EPOCH,
    FILE_BYTES,
    WIDTH,
    HEIGHT,
    CODING,
    TOP,
    LEFT,
    CROP_HEIGHT,
    CROP_WIDTH,
    OUTPUT_SIZE,
    CHOICE,
    BYTES,
    STORAGE_S,
    COMPUTE_S,
    VIEW_PIXELS, /* where there are several views */
    NUM_COLUMNS,
};

static const char *const columns[NUM_COLUMNS] = {
    "index", "epoch",     "file_bytes",  "width",      "height",      "coding",
    "top",   "left",      "crop_height", "crop_width", "output_size", "choice",
    "bytes", "storage_s", "compute_s",   "view_pixels"};

void sluice_form_table_clear(struct sluice_form_table *table)
{
    free(table->rows);
    *table = (struct sluice_form_table){0};
}

sluice_status sluice_form_table_add(struct sluice_form_table *table,
                                    const struct sluice_form_row *row, struct sluice_err *err)
{
    if (!sluice_array_reserve(&table->rows, &table->capacity, table->num_rows + 1,
                              sizeof(*table->rows)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu rows", table->num_rows + 1);
    table->rows[table->num_rows++] = *row;
    return SLUICE_OK;
}

/* --- writing --- */

static void print_seconds(FILE *file, double seconds)
{
    if (isnan(seconds))
        fputs(";-", file);
    else
        sluice_fprintf(file, ";%.9f", seconds);
}

struct printed {
    const struct sluice_form_table *table;
    const struct sluice_choices *choices;
};

static bool has_views(const struct sluice_form_table *table)
{
    bool has = false;
    for (size_t i = 0; i < table->num_rows && !has; i++)
        has = table->rows[i].facts.view_pixels > 0;
    return has;
}

static void print_table(FILE *file, const void *ctx)
{
    const struct printed *printed = ctx;
    const struct sluice_form_table *table = printed->table;
    const bool with_views = has_views(table);
    const int num_columns = with_views ? NUM_COLUMNS : VIEW_PIXELS;
    fputs(FIRST_LINE "\n", file);
    for (int c = 0; c < num_columns; c++)
        fprintf(file, "%s%s", columns[c], c + 1 < num_columns ? ";" : "\n");
    for (size_t i = 0; i < table->num_rows; i++) {
        const struct sluice_form_row *row = &table->rows[i];
        const struct sluice_sample_facts *facts = &row->facts;
        fprintf(file, "%llu;%u;%llu;%u;%u;%s;%u;%u;%u;%u;%u;%s;%llu",
                (unsigned long long)row->index, row->epoch, (unsigned long long)facts->file_bytes,
                facts->width, facts->height, sluice_coding_name(facts->coding), facts->crop.top,
                facts->crop.left, facts->crop.height, facts->crop.width, facts->output_size,
                sluice_choice_name(printed->choices->at[row->choice]),
                (unsigned long long)row->bytes);
        print_seconds(file, row->storage_s);
        print_seconds(file, row->compute_s);
        if (with_views)
            fprintf(file, ";%llu", (unsigned long long)facts->view_pixels);
        fputc('\n', file);
    }
}

sluice_status sluice_form_table_write(const char *folder, const struct sluice_choices *choices,
                                      const struct sluice_form_table *table, struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES];
    const sluice_status status = sluice_path_in(folder, SLUICE_FORM_TABLE_FILE, path, err);
    if (status != SLUICE_OK)
        return status;
    const struct printed printed = {table, choices};
    return sluice_file_print_atomic(path, print_table, &printed, err);
}

/* --- reading --- */

static sluice_status read_u32(const struct sluice_csv *csv, enum column column, uint32_t least,
                              uint32_t most, uint32_t *value, struct sluice_err *err)
{
    uint64_t number = 0;
    const sluice_status status = sluice_csv_number(csv, column, most, &number, err);
    if (status != SLUICE_OK)
        return status;
    if (number < least)
        return sluice_csv_fail(csv, column, "too small", err);
    *value = (uint32_t)number;
    return SLUICE_OK;
}

static sluice_status read_optional_seconds(const struct sluice_csv *csv, enum column column,
                                           double *value, struct sluice_err *err)
{
    *value = NAN;
    if (strcmp(csv->fields[column], "-") == 0)
        return SLUICE_OK;
    return sluice_csv_seconds(csv, column, value, err);
}

static sluice_status read_choice(const struct sluice_csv *csv, const struct sluice_choices *choices,
                                 uint8_t *choice, struct sluice_err *err)
{
    const int found = sluice_choices_find_name(choices, csv->fields[CHOICE]);
    if (found < 0)
        return sluice_csv_fail(csv, CHOICE, "no such choice", err);
    *choice = (uint8_t)found;
    return SLUICE_OK;
}

static sluice_status read_row(const struct sluice_csv *csv, const struct sluice_choices *choices,
                              struct sluice_form_row *row, struct sluice_err *err)
{
    struct sluice_sample_facts *facts = &row->facts;
    const struct {
        enum column column;
        uint32_t *value;
        uint32_t least, most;
    } fields[] = {
        {EPOCH, &row->epoch, 0, UINT32_MAX},
        {WIDTH, &facts->width, 1, MAX_SIDE},
        {HEIGHT, &facts->height, 1, MAX_SIDE},
        {TOP, &facts->crop.top, 0, MAX_SIDE},
        {LEFT, &facts->crop.left, 0, MAX_SIDE},
        {CROP_HEIGHT, &facts->crop.height, 1, MAX_SIDE},
        {CROP_WIDTH, &facts->crop.width, 1, MAX_SIDE},
        {OUTPUT_SIZE, &facts->output_size, 0, MAX_SIDE},
    };
    sluice_status status = sluice_csv_number(csv, INDEX, INT64_MAX, &row->index, err);
    if (status == SLUICE_OK)
        status = sluice_csv_number(csv, FILE_BYTES, INT64_MAX, &facts->file_bytes, err);
    for (size_t i = 0; status == SLUICE_OK && i < SLUICE_ARRAY_LEN(fields); i++)
        status =
            read_u32(csv, fields[i].column, fields[i].least, fields[i].most, fields[i].value, err);
    if (status != SLUICE_OK)
        return status;
    if (facts->crop.top + facts->crop.height > facts->height)
        return sluice_csv_fail(csv, CROP_HEIGHT, "the crop is not within the image", err);
    if (facts->crop.left + facts->crop.width > facts->width)
        return sluice_csv_fail(csv, CROP_WIDTH, "the crop is not within the image", err);
    facts->coding = sluice_coding_parse(csv->fields[CODING]);
    status = read_choice(csv, choices, &row->choice, err);
    if (status == SLUICE_OK)
        status = sluice_csv_number(csv, BYTES, INT64_MAX, &row->bytes, err);
    if (status == SLUICE_OK)
        status = read_optional_seconds(csv, STORAGE_S, &row->storage_s, err);
    if (status == SLUICE_OK)
        status = read_optional_seconds(csv, COMPUTE_S, &row->compute_s, err);
    if (status == SLUICE_OK && csv->num_columns > VIEW_PIXELS)
        status = sluice_csv_number(csv, VIEW_PIXELS, INT64_MAX, &facts->view_pixels, err);
    return status;
}

/* With the column of views, or else without; the error is that of without. */
static sluice_status open_table(const char *path, struct sluice_csv *csv, struct sluice_err *err)
{
    if (sluice_csv_open(csv, path, FIRST_LINE, ';', columns, NUM_COLUMNS, NULL) == SLUICE_OK)
        return SLUICE_OK;
    sluice_csv_close(csv);
    return sluice_csv_open(csv, path, FIRST_LINE, ';', columns, VIEW_PIXELS, err);
}

sluice_status sluice_form_table_read(const char *folder, const struct sluice_choices *choices,
                                     struct sluice_form_table *table, struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES];
    sluice_status status = sluice_path_in(folder, SLUICE_FORM_TABLE_FILE, path, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_csv csv;
    struct sluice_form_table read = {0};
    status = open_table(path, &csv, err);
    while (status == SLUICE_OK) {
        bool is_end;
        status = sluice_csv_next(&csv, &is_end, err);
        if (status != SLUICE_OK || is_end)
            break;
        struct sluice_form_row row = {0};
        status = read_row(&csv, choices, &row, err);
        if (status == SLUICE_OK)
            status = sluice_form_table_add(&read, &row, err);
    }
    sluice_csv_close(&csv);
    if (status != SLUICE_OK) {
        sluice_form_table_clear(&read);
        return status;
    }
    *table = read;
    return SLUICE_OK;
}
