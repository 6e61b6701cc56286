#include "compute_client/load/batch.h"

#include <stdlib.h>
#include <string.h>

sluice_status sluice_rows_init(struct sluice_rows *batch, unsigned capacity, size_t row_bytes,
                               uint8_t *pixels, struct sluice_err *err)
{
    struct sluice_rows made = {
        .pixels = pixels,
        .row_bytes = row_bytes,
        .capacity = capacity,
        .labels = calloc(capacity, sizeof(*made.labels)),
        .ids = calloc(capacity, sizeof(*made.ids)),
        .draw_epochs = calloc(capacity, sizeof(*made.draw_epochs)),
        .status = calloc(capacity, sizeof(*made.status)),
        .hashes = calloc(capacity, sizeof(*made.hashes)),
    };
    if (!made.labels || !made.ids || !made.draw_epochs || !made.status || !made.hashes) {
        sluice_rows_clear(&made);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a batch of %u", capacity);
    }
    *batch = made;
    return SLUICE_OK;
}

void sluice_rows_clear(struct sluice_rows *batch)
{
    free(batch->labels);
    free(batch->ids);
    free(batch->draw_epochs);
    free(batch->status);
    free(batch->hashes);
    *batch = (struct sluice_rows){0};
}

static void copy_row(struct sluice_rows *batch, unsigned to, unsigned from)
{
    memcpy(batch->pixels + to * batch->row_bytes, batch->pixels + from * batch->row_bytes,
           batch->row_bytes);
    batch->labels[to] = batch->labels[from];
    batch->ids[to] = batch->ids[from];
    batch->draw_epochs[to] = batch->draw_epochs[from];
    batch->hashes[to] = batch->hashes[from];
    batch->status[to] = SLUICE_OK;
}

void sluice_rows_settle(struct sluice_rows *batch, enum sluice_on_error on_error)
{
    unsigned first_good = 0;
    while (first_good < batch->n && batch->status[first_good] != SLUICE_OK)
        first_good++;
    if (first_good == batch->n) {
        batch->n = 0;
        return;
    }
    if (on_error == SLUICE_ON_ERROR_SUBSTITUTE) {
        for (unsigned row = 0; row < first_good; row++)
            copy_row(batch, row, first_good);
        for (unsigned row = first_good + 1; row < batch->n; row++) {
            if (batch->status[row] != SLUICE_OK)
                copy_row(batch, row, row - 1);
        }
        return;
    }
    unsigned kept = 0;
    for (unsigned row = 0; row < batch->n; row++) {
        if (batch->status[row] != SLUICE_OK)
            continue;
        if (kept != row)
            copy_row(batch, kept, row);
        kept++;
    }
    batch->n = kept;
}
