#include "plan/sample_cost.h"

#include "base/array.h"
#include "base/c_locale.h"
#include "base/file.h"
#include "plan/csv.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZES_FILE "prep_sizes.csv"
#define TIMES_FILE "prep_times.csv"

#define SHAPE_COLUMN 3
#define MAX_COLUMNS (SLUICE_MAX_OPS + 3)

_Static_assert(MAX_COLUMNS <= SLUICE_CSV_MAX_COLUMNS, "the ops have more columns than a file may");

struct columns {
    const char *names[MAX_COLUMNS];
    size_t num;
};

static struct columns columns_of(const struct sluice_pipeline *pipeline, const char *first)
{
    struct columns columns = {.names = {"index", first}, .num = 2};
    for (unsigned op = 0; op < sluice_pipeline_num_ops(pipeline); op++)
        columns.names[columns.num++] = sluice_pipeline_op_column(pipeline, op);
    return columns;
}

/* original_shape stands between stages 1 and 2. */
static struct columns size_columns(const struct sluice_pipeline *pipeline)
{
    struct columns columns = columns_of(pipeline, "raw");
    memmove(&columns.names[SHAPE_COLUMN + 1], &columns.names[SHAPE_COLUMN],
            (columns.num - SHAPE_COLUMN) * sizeof(columns.names[0]));
    columns.names[SHAPE_COLUMN] = "original_shape";
    columns.num++;
    return columns;
}

static struct columns time_columns(const struct sluice_pipeline *pipeline)
{
    return columns_of(pipeline, "loader");
}

void sluice_cost_table_clear(struct sluice_cost_table *table)
{
    free(table->rows);
    *table = (struct sluice_cost_table){0};
}

static sluice_status check_stages(const struct sluice_pipeline *pipeline, struct sluice_err *err)
{
    if (sluice_pipeline_num_ops(pipeline) < SLUICE_MAX_STAGES)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID,
                       "a table of costs has room for pipelines of %d ops, and this one has %u",
                       SLUICE_MAX_STAGES - 1, sluice_pipeline_num_ops(pipeline));
}

sluice_status sluice_cost_table_init(struct sluice_cost_table *table,
                                     const struct sluice_pipeline *pipeline, size_t num_rows,
                                     struct sluice_err *err)
{
    const sluice_status status = check_stages(pipeline, err);
    if (status != SLUICE_OK)
        return status;
    *table = (struct sluice_cost_table){
        .rows = calloc(num_rows ? num_rows : 1, sizeof(*table->rows)),
        .num_stages = sluice_pipeline_num_ops(pipeline) + 1,
    };
    return table->rows ? SLUICE_OK
                       : sluice_fail(err, SLUICE_E_NO_MEMORY,
                                     "no memory for the costs of %zu samples", num_rows);
}

bool sluice_cost_table_is_sampled(uint64_t i, uint64_t num_rows, uint64_t num_samples)
{
    if (num_samples == 0 || num_samples >= num_rows)
        return true;
    /* The count of those taken rises at i. */
    return (i + 1) * num_samples / num_rows > i * num_samples / num_rows;
}

/* --- reading --- */

static sluice_status read_size_row(const struct sluice_csv *csv, size_t index,
                                   struct sluice_sample_cost *row, struct sluice_err *err)
{
    uint64_t given = 0;
    sluice_status status = sluice_csv_number(csv, 0, INT64_MAX, &given, err);
    if (status == SLUICE_OK && given != index)
        return sluice_csv_fail(csv, 0, "rows must count up from 0", err);
    size_t stage = 0;
    for (size_t column = 1; status == SLUICE_OK && column < csv->num_columns; column++) {
        if (column == SHAPE_COLUMN) {
            unsigned width, height;
            int used = 0;
            if (sscanf(csv->fields[column], "(%u, %u)%n", &width, &height, &used) != 2 || !used ||
                csv->fields[column][used])
                return sluice_csv_fail(csv, column, "not \"(width, height)\"", err);
            row->width = width;
            row->height = height;
        } else {
            status = sluice_csv_number(csv, column, INT64_MAX, &row->bytes[stage++], err);
        }
    }
    return status;
}

sluice_status sluice_cost_table_read_sizes(const char *path, const struct sluice_pipeline *pipeline,
                                           struct sluice_cost_table *table, struct sluice_err *err)
{
    sluice_status status = check_stages(pipeline, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_csv csv;
    const struct columns columns = size_columns(pipeline);
    struct sluice_cost_table read = {.num_stages = sluice_pipeline_num_ops(pipeline) + 1};
    size_t capacity = 0;
    status = sluice_csv_open(&csv, path, NULL, ';', columns.names, columns.num, err);
    while (status == SLUICE_OK) {
        bool is_end;
        status = sluice_csv_next(&csv, &is_end, err);
        if (status != SLUICE_OK || is_end)
            break;
        if (!sluice_array_reserve(&read.rows, &capacity, read.num_rows + 1, sizeof(*read.rows))) {
            status = sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory for %zu rows", path,
                                 read.num_rows + 1);
            break;
        }
        read.rows[read.num_rows] = (struct sluice_sample_cost){0};
        status = read_size_row(&csv, read.num_rows, &read.rows[read.num_rows], err);
        read.num_rows++;
    }
    sluice_csv_close(&csv);
    if (status == SLUICE_OK && read.num_rows == 0)
        status = sluice_fail(err, SLUICE_E_CORRUPT, "%s: no rows", path);
    if (status != SLUICE_OK) {
        sluice_cost_table_clear(&read);
        return status;
    }
    *table = read;
    return SLUICE_OK;
}

sluice_status sluice_cost_table_read_times(const char *path, const struct sluice_pipeline *pipeline,
                                           struct sluice_cost_table *table, struct sluice_err *err)
{
    struct sluice_csv csv;
    const struct columns columns = time_columns(pipeline);
    sluice_status status = sluice_csv_open(&csv, path, NULL, ',', columns.names, columns.num, err);
    size_t row = 0;
    while (status == SLUICE_OK) {
        bool is_end;
        status = sluice_csv_next(&csv, &is_end, err);
        if (status != SLUICE_OK || is_end)
            break;
        if (row == table->num_rows) {
            status =
                sluice_fail(err, SLUICE_E_CORRUPT, "%s:%zu: more rows than the %zu of " SIZES_FILE,
                            path, csv.line_number, table->num_rows);
            break;
        }
        uint64_t given = 0;
        status = sluice_csv_number(&csv, 0, INT64_MAX, &given, err);
        if (status == SLUICE_OK && given != row)
            status = sluice_csv_fail(&csv, 0, "rows must count up from 0", err);
        for (size_t k = 0; status == SLUICE_OK && k < table->num_stages; k++)
            status = sluice_csv_seconds(&csv, k + 1, &table->rows[row].op_s[k], err);
        row++;
    }
    sluice_csv_close(&csv);
    if (status == SLUICE_OK && row != table->num_rows)
        status = sluice_fail(err, SLUICE_E_CORRUPT, "%s: %zu rows, but " SIZES_FILE " has %zu",
                             path, row, table->num_rows);
    return status;
}

sluice_status sluice_cost_table_read(const char *folder, const struct sluice_pipeline *pipeline,
                                     struct sluice_cost_table *table, struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES];
    struct sluice_cost_table read = {0};
    sluice_status status = sluice_path_in(folder, SIZES_FILE, path, err);
    if (status == SLUICE_OK)
        status = sluice_cost_table_read_sizes(path, pipeline, &read, err);
    if (status == SLUICE_OK)
        status = sluice_path_in(folder, TIMES_FILE, path, err);
    if (status == SLUICE_OK && access(path, F_OK) != 0 && errno == ENOENT)
        status =
            sluice_fail(err, SLUICE_E_NOT_FOUND,
                        "%s is missing: make it by a profiling run (offload_train --profiling "
                        "--write-profile-folder), or plan with modelled times (offload_profile "
                        "plan --times-model)",
                        path);
    if (status == SLUICE_OK)
        status = sluice_cost_table_read_times(path, pipeline, &read, err);
    if (status != SLUICE_OK) {
        sluice_cost_table_clear(&read);
        return status;
    }
    *table = read;
    return SLUICE_OK;
}

/* --- modelling times --- */

/* Seconds on one core of an AMD Zen 5 at 3.5 GHz with libjpeg-turbo 2.1.5 and the scalar kernels,
 * from means over 1,000 ImageNet photographs (109,576 bytes, 0.20 megapixels each): 654 us of the
 * 931 us decode are Huffman decoding, which grows with the file; the rest grows with the pixels.
 * Resizing reads a crop of 42 % of the pixels in 459 us.  The rest is memory traffic of the
 * output. */
#define READ_S_PER_BYTE 0.2e-9
#define HUFFMAN_S_PER_BYTE (654e-6 / 109576)
#define RECONSTRUCT_S_PER_PIXEL (277e-6 / 0.20e6)
#define RESIZE_S_PER_PIXEL (459e-6 / 0.20e6)
#define FLIP_S_PER_BYTE (12e-6 / 150528)
#define TO_TENSOR_S_PER_BYTE (110e-6 / 602112)
#define NORMALIZE_S_PER_BYTE (48e-6 / 602112)

static double model_op_s(const struct sluice_pipeline *pipeline, unsigned op,
                         const struct sluice_sample_cost *row)
{
    const double pixels = row->width ? (double)row->width * row->height : (double)row->bytes[1] / 3;
    const double bytes = (double)row->bytes[op + 1];
    switch (sluice_pipeline_op_kind(pipeline, op)) {
    case SLUICE_OP_DECODE:
        return HUFFMAN_S_PER_BYTE * (double)row->bytes[0] + RECONSTRUCT_S_PER_PIXEL * pixels;
    case SLUICE_OP_RESAMPLE:
        if (sluice_pipeline_op_resizes(pipeline, op))
            return RESIZE_S_PER_PIXEL * pixels;
        break;
    case SLUICE_OP_TENSOR:
        return TO_TENSOR_S_PER_BYTE * bytes;
    case SLUICE_OP_SCALE:
        return NORMALIZE_S_PER_BYTE * bytes;
    case SLUICE_OP_VIEWS:
        return RESIZE_S_PER_PIXEL * pixels * sluice_pipeline_num_views(pipeline);
    case SLUICE_OP_UPRIGHT:
    case SLUICE_OP_MIRROR:
    case SLUICE_OP_TABLE:
    case SLUICE_OP_PIXELS:
    case SLUICE_OP_CHOICE:
    case SLUICE_OP_BLEND:
        break;
    }
    return FLIP_S_PER_BYTE * bytes; /* copies */
}

void sluice_cost_table_model_times(struct sluice_cost_table *table,
                                   const struct sluice_pipeline *pipeline)
{
    for (size_t i = 0; i < table->num_rows; i++) {
        struct sluice_sample_cost *row = &table->rows[i];
        row->op_s[0] = READ_S_PER_BYTE * (double)row->bytes[0];
        for (unsigned stage = 1; stage < table->num_stages; stage++)
            row->op_s[stage] = model_op_s(pipeline, stage - 1, row);
    }
}

/* --- writing --- */

struct written {
    const struct sluice_cost_table *table;
    struct columns columns;
};

static void write_sizes(FILE *file, const void *ctx)
{
    const struct written *written = ctx;
    const struct sluice_cost_table *table = written->table;
    for (size_t i = 0; i < written->columns.num; i++)
        fprintf(file, "%s;", written->columns.names[i]);
    for (size_t i = 0; i < table->num_rows; i++) {
        const struct sluice_sample_cost *row = &table->rows[i];
        fprintf(file, "\n%zu;%llu;%llu;(%u, %u);", i, (unsigned long long)row->bytes[0],
                (unsigned long long)row->bytes[1], row->width, row->height);
        for (size_t k = 2; k < table->num_stages; k++)
            fprintf(file, "%llu;", (unsigned long long)row->bytes[k]);
    }
    fputc('\n', file);
}

static void write_times(FILE *file, const void *ctx)
{
    const struct written *written = ctx;
    const struct sluice_cost_table *table = written->table;
    for (size_t i = 0; i < written->columns.num; i++)
        fprintf(file, "%s%s", i ? "," : "", written->columns.names[i]);
    for (size_t i = 0; i < table->num_rows; i++) {
        fprintf(file, "\n%zu", i);
        for (size_t k = 0; k < table->num_stages; k++)
            sluice_fprintf(file, ",%.9f", table->rows[i].op_s[k]);
    }
    fputc('\n', file);
}

static sluice_status write_file(const char *folder, const char *name,
                                void (*print)(FILE *file, const void *written),
                                const struct written *written, struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES];
    const sluice_status status = sluice_path_in(folder, name, path, err);
    if (status != SLUICE_OK)
        return status;
    return sluice_file_print_atomic(path, print, written, err);
}

sluice_status sluice_cost_table_write(const char *folder, const struct sluice_pipeline *pipeline,
                                      const struct sluice_cost_table *table, struct sluice_err *err)
{
    assert(table->num_stages == sluice_pipeline_num_ops(pipeline) + 1);
    const struct written sizes = {table, size_columns(pipeline)};
    const struct written times = {table, time_columns(pipeline)};
    sluice_status status = sluice_mkdirs(folder, err);
    if (status == SLUICE_OK)
        status = write_file(folder, SIZES_FILE, write_sizes, &sizes, err);
    if (status == SLUICE_OK)
        status = write_file(folder, TIMES_FILE, write_times, &times, err);
    return status;
}
