#include "compute_client/loader/batch/batch.h"

#include "base/hash.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

sluice_status sluice_rows_init(struct sluice_rows *batch, unsigned capacity,
                               const struct sluice_row_layout *layout, uint8_t *pixels,
                               struct sluice_err *err)
{
    struct sluice_rows made = {
        .pixels = pixels,
        .layout = layout,
        .capacity = capacity,
        .labels = calloc(capacity, sizeof(*made.labels)),
        .ids = calloc(capacity, sizeof(*made.ids)),
        .draw_epochs = calloc(capacity, sizeof(*made.draw_epochs)),
        .status = calloc(capacity, sizeof(*made.status)),
        .hashes = calloc(capacity, sizeof(*made.hashes)),
        .from = calloc(capacity, sizeof(*made.from)),
        .images = calloc(capacity, sizeof(*made.images)),
    };
    if (!made.labels || !made.ids || !made.draw_epochs || !made.status || !made.hashes ||
        !made.from || !made.images) {
        sluice_rows_clear(&made);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a batch of %u", capacity);
    }
    *batch = made;
    return SLUICE_OK;
}

sluice_status sluice_rows_add_geometry(struct sluice_rows *batch, unsigned num_views,
                                       struct sluice_err *err)
{
    batch->geometry = calloc((size_t)batch->capacity * num_views, sizeof(*batch->geometry));
    if (!batch->geometry)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a batch of %u", batch->capacity);
    batch->num_views = num_views;
    return SLUICE_OK;
}

void sluice_rows_clear(struct sluice_rows *batch)
{
    free(batch->labels);
    free(batch->ids);
    free(batch->draw_epochs);
    free(batch->status);
    free(batch->hashes);
    free(batch->from);
    free(batch->geometry);
    free(batch->images);
    *batch = (struct sluice_rows){0};
}

static void copy_row(struct sluice_rows *batch, unsigned to, unsigned from)
{
    if (batch->has_images)
        batch->images[to] = batch->images[from];
    else if (batch->pixels)
        sluice_row_copy(batch->layout, batch->capacity, to, from, batch->pixels);
    batch->labels[to] = batch->labels[from];
    batch->ids[to] = batch->ids[from];
    batch->draw_epochs[to] = batch->draw_epochs[from];
    batch->hashes[to] = batch->hashes[from];
    for (size_t v = 0; v < batch->num_views; v++)
        batch->geometry[v * batch->capacity + to] = batch->geometry[v * batch->capacity + from];
    batch->status[to] = SLUICE_OK;
}

unsigned sluice_rows_plan(const struct sluice_rows *batch, enum sluice_on_error on_error,
                          uint32_t *from)
{
    unsigned last_good = 0, count = 0;
    while (last_good < batch->n && batch->status[last_good] != SLUICE_OK)
        last_good++;
    if (last_good == batch->n)
        return 0;
    for (unsigned row = 0; row < batch->n; row++) {
        const bool is_good = batch->status[row] == SLUICE_OK;
        if (is_good)
            last_good = row;
        if (is_good || on_error == SLUICE_ON_ERROR_SUBSTITUTE)
            from[count++] = last_good;
    }
    return count;
}

void sluice_rows_settle(struct sluice_rows *batch, enum sluice_on_error on_error)
{
    const unsigned num_real = batch->n - batch->num_padded;
    batch->n = sluice_rows_plan(batch, on_error, batch->from);
    if (on_error == SLUICE_ON_ERROR_SKIP) {
        batch->num_padded = 0;
        for (unsigned row = 0; row < batch->n; row++)
            batch->num_padded += batch->from[row] >= num_real;
    } else if (batch->num_padded > batch->n) {
        batch->num_padded = batch->n;
    }
    /* No row that is copied has been written to: a substitute's is good and stays, and one that
     * moves stands after all that were written. */
    for (unsigned row = 0; row < batch->n; row++) {
        if (batch->from[row] != row)
            copy_row(batch, row, batch->from[row]);
    }
}
