#include "storage_server/data/subset_rows.h"

#include "base/array.h"

#include <stdlib.h>

/* Neighbouring entries of one subset, up to the next run's. */
struct run {
    size_t entry, row; /* the first; row: within the subset */
    size_t len;
};

struct runs {
    struct run *runs;
    size_t num_runs, capacity;
    size_t num_rows;
};

struct sluice_subset_rows {
    struct runs subsets[3]; /* by enum sluice_rows_of */
};

static sluice_status add_entry(struct runs *runs, size_t entry, struct sluice_err *err)
{
    struct run *last = runs->num_runs ? &runs->runs[runs->num_runs - 1] : NULL;
    if (!last || last->entry + last->len != entry) {
        if (!sluice_array_reserve(&runs->runs, &runs->capacity, runs->num_runs + 1,
                                  sizeof(*runs->runs)))
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the rows of a subset");
        last = &runs->runs[runs->num_runs++];
        *last = (struct run){.entry = entry, .row = runs->num_rows};
    }
    last->len++;
    runs->num_rows++;
    return SLUICE_OK;
}

sluice_status sluice_subset_rows_create(const struct sluice_manifest *manifest,
                                        struct sluice_subset_rows **rows, struct sluice_err *err)
{
    struct sluice_subset_rows *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the rows of a subset");
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < manifest->num_entries && status == SLUICE_OK; i++) {
        const bool is_val = sluice_manifest_at(manifest, i).subset == SLUICE_SUBSET_VAL;
        status = add_entry(&made->subsets[SLUICE_ROWS_ALL], i, err);
        if (status == SLUICE_OK)
            status =
                add_entry(&made->subsets[is_val ? SLUICE_ROWS_VAL : SLUICE_ROWS_TRAIN], i, err);
    }
    if (status != SLUICE_OK) {
        sluice_subset_rows_destroy(made);
        return status;
    }
    *rows = made;
    return SLUICE_OK;
}

void sluice_subset_rows_destroy(struct sluice_subset_rows *rows)
{
    for (size_t i = 0; rows && i < SLUICE_ARRAY_LEN(rows->subsets); i++)
        free(rows->subsets[i].runs);
    free(rows);
}

size_t sluice_subset_rows_count(const struct sluice_subset_rows *rows, enum sluice_rows_of subset)
{
    return rows->subsets[subset].num_rows;
}

size_t sluice_subset_rows_get(const struct sluice_subset_rows *rows, enum sluice_rows_of subset,
                              size_t first, size_t max, size_t *entries, size_t *num_visited)
{
    const struct runs *runs = &rows->subsets[subset];
    size_t visited = 0, count = 0;
    size_t low = 0, high = runs->num_runs; /* the run of `first` is in [low, high) */
    while (first < runs->num_rows && high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        visited++;
        if (runs->runs[middle].row <= first)
            low = middle;
        else
            high = middle;
    }
    for (size_t row = first; count < max && row < runs->num_rows; low++) {
        const struct run *run = &runs->runs[low];
        visited++;
        for (; count < max && row < run->row + run->len; row++, visited++)
            entries[count++] = run->entry + (row - run->row);
    }
    if (num_visited)
        *num_visited = visited;
    return count;
}
