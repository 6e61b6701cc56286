#include "storage_top/table.h"

#include "base/array.h"
#include "base/show.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COLUMNS 16
#define CELL_BYTES 160

/* A table while it is made: rows of cells, the first with the columns' names. */
struct grid {
    size_t num_columns, num_rows, capacity;
    size_t num_left; /* columns that are texts: to the left */
    char (*cells)[CELL_BYTES];
    bool has_failed; /* no memory */
};

static char *cell(const struct grid *grid, size_t row, size_t column)
{
    return grid->cells[row * grid->num_columns + column];
}

/* The cells of a new row, of num_columns; NULL: no memory. */
static char (*add_row(struct grid *grid))[CELL_BYTES]
{
    if (!sluice_array_reserve(&grid->cells, &grid->capacity, grid->num_rows + 1,
                              grid->num_columns * sizeof(*grid->cells))) {
        grid->has_failed = true;
        return NULL;
    }
    char(*row)[CELL_BYTES] = &grid->cells[grid->num_rows++ * grid->num_columns];
    memset(row, 0, grid->num_columns * sizeof(*row));
    return row;
}

static void begin(struct grid *grid, const char *const *names, size_t num_names, size_t num_left)
{
    *grid = (struct grid){.num_columns = num_names, .num_left = num_left};
    char(*row)[CELL_BYTES] = add_row(grid);
    for (size_t i = 0; row && i < num_names; i++)
        (void)sluice_print(row[i], CELL_BYTES, "%s", names[i]);
}

/* Characters of UTF-8. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += (*text & 0xc0) != 0x80;
    return width;
}

static bool add_line(struct top_lines *lines, const char *text, bool is_head)
{
    char **more = realloc(lines->lines, (lines->num_lines + 1) * sizeof(*more));
    if (more)
        lines->lines = more;
    bool *heads = realloc(lines->are_heads, (lines->num_lines + 1) * sizeof(*heads));
    if (heads)
        lines->are_heads = heads;
    char *copy = strdup(text);
    if (!more || !heads || !copy) {
        free(copy);
        return false;
    }
    lines->lines[lines->num_lines] = copy;
    lines->are_heads[lines->num_lines++] = is_head;
    return true;
}

static bool add_grid(struct top_lines *lines, const struct grid *grid)
{
    size_t widths[MAX_COLUMNS] = {0};
    bool is_ok = !grid->has_failed;
    for (size_t row = 0; row < grid->num_rows; row++) {
        for (size_t column = 0; column < grid->num_columns; column++) {
            const size_t width = width_of(cell(grid, row, column));
            widths[column] = width > widths[column] ? width : widths[column];
        }
    }
    for (size_t row = 0; is_ok && row < grid->num_rows; row++) {
        char line[MAX_COLUMNS * (CELL_BYTES + 2)] = "";
        size_t len = 0;
        for (size_t column = 0; column < grid->num_columns; column++) {
            const char *text = cell(grid, row, column);
            const int pad = (int)(widths[column] - width_of(text));
            const bool is_left = column < grid->num_left;
            const bool is_last = column + 1 == grid->num_columns;
            len +=
                (size_t)snprintf(line + len, sizeof(line) - len, "%*s%s%*s%s", is_left ? 0 : pad,
                                 "", text, is_left && !is_last ? pad : 0, "", is_last ? "" : "  ");
        }
        while (len > 0 && line[len - 1] == ' ')
            line[--len] = '\0';
        is_ok = add_line(lines, line, row == 0);
    }
    return is_ok;
}

/* --- cells --- */

static void put_number(char *out, double number)
{
    char text[SLUICE_SHOW_BYTES];
    (void)sluice_print(out, CELL_BYTES, "%s", sluice_show_number(number, text));
}

static void put_count(char *out, uint64_t count)
{
    (void)sluice_print(out, CELL_BYTES, "%llu", (unsigned long long)count);
}

static double mbit(double bytes_per_s)
{
    return bytes_per_s * 8e-6;
}

static uint64_t count_errors(const struct sluice_wire_stats *stats)
{
    uint64_t sum = 0;
    for (int i = 1; i < SLUICE_WIRE_NUM_STATUS; i++)
        sum += stats->errors[i];
    return sum;
}

/* The share of preprocessed JPEGs that had an index; NAN: there were none. */
static double index_share(const struct sluice_wire_stats *stats)
{
    const double hits = (double)stats->jpeg_index.hits;
    return hits / (hits + (double)stats->jpeg_index.stale + (double)stats->jpeg_index.missing);
}

static unsigned count_clients(const struct top_server *server)
{
    unsigned count = 0;
    for (size_t i = 0; i < server->num_clients; i++)
        count += server->clients[i].counts.streams > 0;
    return server->stats.server[0] ? count : server->stats.streams; /* "": a server without rows */
}

enum {
    SERVER,
    STATE,
    CORES,
    QUEUE,
    MBIT,
    SAMPLES,
    CLIENTS,
    PRICE,
    INDEX,
    MEMORY,
    ERRORS,
    REFUSED,
    AGE,
    NUM
};
static const char *const server_names[NUM] = {
    [SERVER] = "SERVER", [STATE] = "STATE",       [CORES] = "CORES",     [QUEUE] = "QUEUE",
    [MBIT] = "MBIT/S",   [SAMPLES] = "SAMPLES/S", [CLIENTS] = "CLIENTS", [PRICE] = "PRICE",
    [INDEX] = "INDEX",   [MEMORY] = "MEMORY",     [ERRORS] = "ERRORS",   [REFUSED] = "REFUSED",
    [AGE] = "AGE",
};

static void put_server(struct grid *grid, const struct top_server *server)
{
    char(*row)[CELL_BYTES] = add_row(grid);
    if (!row)
        return;
    const struct sluice_wire_stats *stats = &server->stats;
    char a[SLUICE_SHOW_BYTES], b[SLUICE_SHOW_BYTES];
    (void)sluice_escape_line(row[SERVER], CELL_BYTES, server->target);
    if (server->state == TOP_OK && stats->hanging_workers)
        (void)sluice_print(row[STATE], CELL_BYTES, "%u hang", stats->hanging_workers);
    else
        (void)sluice_print(row[STATE], CELL_BYTES, "%s", top_state_name(server->state));
    if (!server->answers) {
        for (int i = CORES; i < NUM; i++)
            (void)sluice_print(row[i], CELL_BYTES, "-");
        return;
    }
    (void)sluice_print(row[CORES], CELL_BYTES, "%s/%s", sluice_show_number(server->rates.cores, a),
                       sluice_show_number(stats->prep_cores, b));
    put_count(row[QUEUE], stats->queue_depth);
    put_number(row[MBIT], mbit(server->rates.bytes_per_s));
    put_number(row[SAMPLES], server->rates.samples_per_s);
    put_count(row[CLIENTS], count_clients(server));
    put_number(row[PRICE], stats->cpu_price);
    (void)sluice_print(row[INDEX], CELL_BYTES, "%s", sluice_show_share(index_share(stats), a));
    if (stats->server[0])
        (void)sluice_print(row[MEMORY], CELL_BYTES, "%s/%s",
                           sluice_show_bytes((double)stats->memory_used, a),
                           sluice_show_bytes((double)stats->memory_limit, b));
    else
        (void)sluice_print(row[MEMORY], CELL_BYTES, "-");
    put_count(row[ERRORS], count_errors(stats));
    put_count(row[REFUSED], stats->refused_connections + stats->refused_calls);
    (void)sluice_print(row[AGE], CELL_BYTES, "%s", sluice_show_seconds(server->age_s, a));
}

static void put_client(struct grid *grid, const struct top_server *server,
                       const struct top_client *client)
{
    const struct sluice_wire_client *counts = &client->counts;
    if (!counts->streams && !(client->rates.samples_per_s > 0))
        return;
    char(*row)[CELL_BYTES] = add_row(grid);
    if (!row)
        return;
    (void)sluice_escape_line(row[0], CELL_BYTES, counts->name);
    (void)sluice_escape_line(row[1], CELL_BYTES, counts->address[0] ? counts->address : "-");
    (void)sluice_escape_line(row[2], CELL_BYTES, counts->token[0] ? counts->token : "-");
    (void)sluice_escape_line(row[3], CELL_BYTES, server->target);
    put_count(row[4], counts->streams);
    put_number(row[5], mbit(client->rates.bytes_per_s));
    put_number(row[6], client->rates.samples_per_s);
    put_count(row[7], counts->samples);
    put_count(row[8], counts->errors);
}

static bool add_clients(struct top_lines *lines, const struct top_server *servers,
                        size_t num_servers)
{
    static const char *const names[] = {"CLIENT", "ADDRESS",   "TOKEN",   "SERVER", "STREAMS",
                                        "MBIT/S", "SAMPLES/S", "SAMPLES", "ERRORS"};
    struct grid grid;
    begin(&grid, names, SLUICE_ARRAY_LEN(names), 4);
    for (size_t i = 0; i < num_servers; i++) {
        for (size_t k = 0; servers[i].state != TOP_AWAY && k < servers[i].num_clients; k++)
            put_client(&grid, &servers[i], &servers[i].clients[k]);
    }
    bool is_ok = true;
    if (grid.num_rows > 1)
        is_ok = add_line(lines, "", false) && add_grid(lines, &grid);
    is_ok &= !grid.has_failed;
    free(grid.cells);
    return is_ok;
}

static bool add_reasons(struct top_lines *lines, const struct top_server *servers,
                        size_t num_servers)
{
    bool is_ok = true, is_first = true;
    for (size_t i = 0; is_ok && i < num_servers; i++) {
        if (servers[i].state != TOP_AWAY)
            continue;
        is_ok = (!is_first || add_line(lines, "", false)) && add_line(lines, servers[i].why, false);
        is_first = false;
    }
    return is_ok;
}

sluice_status top_table_make(const struct top_server *servers, size_t num_servers,
                             struct top_lines *lines, struct sluice_err *err)
{
    *lines = (struct top_lines){0};
    struct grid grid;
    begin(&grid, server_names, NUM, 2);
    for (size_t i = 0; i < num_servers; i++)
        put_server(&grid, &servers[i]);
    const bool is_ok = add_grid(lines, &grid) && add_clients(lines, servers, num_servers) &&
                       add_reasons(lines, servers, num_servers);
    free(grid.cells);
    if (is_ok)
        return SLUICE_OK;
    top_lines_clear(lines);
    return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a table");
}

void top_lines_clear(struct top_lines *lines)
{
    for (size_t i = 0; i < lines->num_lines; i++)
        free(lines->lines[i]);
    free(lines->lines);
    free(lines->are_heads);
    *lines = (struct top_lines){0};
}
