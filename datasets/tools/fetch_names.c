#include "datasets/tools/fetch_names.h"

#include "base/hash.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME_BYTES 200 /* of the 255 that Linux takes: ".part" and a hash follow */

struct row {
    uint64_t name;
    uint64_t url; /* its lowest bit: taken */
};

struct sluice_fetch_names {
    struct row *rows;
    size_t num_rows, capacity;
    bool is_sorted;
};

static uint64_t hash(const char *text)
{
    return sluice_hash64(text, strlen(text));
}

static struct row row_of(const char *name, const char *url)
{
    return (struct row){hash(name), hash(url) & ~(uint64_t)1};
}

sluice_status sluice_fetch_names_create(struct sluice_fetch_names **names, struct sluice_err *err)
{
    struct sluice_fetch_names *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the names of a list");
    *names = made;
    return SLUICE_OK;
}

void sluice_fetch_names_destroy(struct sluice_fetch_names *names)
{
    if (names)
        free(names->rows);
    free(names);
}

sluice_status sluice_fetch_names_add(struct sluice_fetch_names *names, const char *name,
                                     const char *url, struct sluice_err *err)
{
    if (names->num_rows == names->capacity) {
        const size_t capacity = names->capacity ? 2 * names->capacity : 1024;
        struct row *moved = realloc(names->rows, capacity * sizeof(*moved));
        if (!moved)
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a list of %zu files",
                               capacity);
        names->rows = moved;
        names->capacity = capacity;
    }
    names->rows[names->num_rows++] = row_of(name, url);
    names->is_sorted = false;
    return SLUICE_OK;
}

static int compare_rows(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    const uint64_t u = x->url & ~(uint64_t)1, v = y->url & ~(uint64_t)1;
    return (u > v) - (u < v);
}

/* In order, each URL once. */
static void sort(struct sluice_fetch_names *names)
{
    qsort(names->rows, names->num_rows, sizeof(*names->rows), compare_rows);
    size_t num_kept = 0;
    for (size_t i = 0; i < names->num_rows; i++) {
        if (num_kept == 0 || compare_rows(&names->rows[num_kept - 1], &names->rows[i]) != 0)
            names->rows[num_kept++] = names->rows[i];
    }
    names->num_rows = num_kept;
    names->is_sorted = true;
}

bool sluice_fetch_names_take(struct sluice_fetch_names *names, const char *name, const char *url,
                             char *out, size_t room)
{
    if (!names->is_sorted)
        sort(names);
    const struct row key = row_of(name, url);
    struct row *row =
        bsearch(&key, names->rows, names->num_rows, sizeof(*names->rows), compare_rows);
    const struct row *end = names->rows + names->num_rows;
    const bool is_shared = row && ((row > names->rows && row[-1].name == row->name) ||
                                   (row + 1 < end && row[1].name == row->name));
    if (!is_shared && strlen(name) <= MAX_NAME_BYTES) {
        snprintf(out, room, "%s", name);
    } else {
        const char *dot = strrchr(name, '.');
        const char *suffix = dot && strlen(dot) <= 8 ? dot : "";
        const size_t stem = strlen(name) - strlen(suffix);
        snprintf(out, room, "%.*s-%016llx%s", (int)(stem < MAX_NAME_BYTES ? stem : MAX_NAME_BYTES),
                 name, (unsigned long long)hash(url), suffix);
    }
    const bool is_first = row && !(row->url & 1);
    if (row)
        row->url |= 1;
    return is_first;
}
