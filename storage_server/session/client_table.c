#include "storage_server/session/client_table.h"

#include "metrics/exposition.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define OTHERS CLIENT_TABLE_ROWS

void sluice_client_table_init(struct sluice_client_table *table)
{
    *table = (struct sluice_client_table){0};
    pthread_mutex_init(&table->lock, NULL);
    snprintf(table->rows[OTHERS].name, sizeof(table->rows[OTHERS].name), CLIENT_TABLE_OTHERS);
}

void sluice_client_table_clear(struct sluice_client_table *table)
{
    pthread_mutex_destroy(&table->lock);
}

/* Under the lock: the row of this client, or else the one to take; OTHERS: none. */
static size_t find_row(const struct sluice_client_table *table, const char *name,
                       const char *address)
{
    size_t oldest = OTHERS;
    for (size_t i = 0; i < OTHERS; i++) {
        const struct sluice_client_row *row = &table->rows[i];
        if (row->used && strcmp(row->name, name) == 0 && strcmp(row->address, address) == 0)
            return i;
        if (row->streams == 0 && (oldest == OTHERS || row->used < table->rows[oldest].used))
            oldest = i;
    }
    return oldest;
}

/* Under the lock. */
static void give_to_others(struct sluice_client_table *table, struct sluice_client_row *row)
{
    struct sluice_client_row *others = &table->rows[OTHERS];
    others->samples += row->samples;
    others->payload_bytes += row->payload_bytes;
    others->errors += row->errors;
    if (row->used)
        others->used = ++table->uses;
    *row = (struct sluice_client_row){0};
}

size_t sluice_client_table_join(struct sluice_client_table *table, const char *name, bool has_token,
                                const char *address)
{
    /* Made valid before they are compared: two rows never have the same labels. */
    struct sluice_client_row wanted;
    sluice_label_text(wanted.address, sizeof(wanted.address), address);
    sluice_label_text(wanted.name, sizeof(wanted.name), name && name[0] ? name : address);

    pthread_mutex_lock(&table->lock);
    const size_t found = find_row(table, wanted.name, wanted.address);
    struct sluice_client_row *row = &table->rows[found];
    const bool is_its_own =
        strcmp(row->name, wanted.name) == 0 && strcmp(row->address, wanted.address) == 0;
    if (found != OTHERS && !is_its_own) {
        give_to_others(table, row);
        memcpy(row->name, wanted.name, sizeof(row->name));
        memcpy(row->address, wanted.address, sizeof(row->address));
        row->has_token = has_token;
    }
    row->streams++;
    row->used = ++table->uses;
    pthread_mutex_unlock(&table->lock);
    return found;
}

void sluice_client_table_leave(struct sluice_client_table *table, size_t row)
{
    pthread_mutex_lock(&table->lock);
    table->rows[row].streams--;
    pthread_mutex_unlock(&table->lock);
}

void sluice_client_table_count(struct sluice_client_table *table, size_t row, uint64_t samples,
                               uint64_t payload_bytes, uint64_t errors)
{
    pthread_mutex_lock(&table->lock);
    table->rows[row].samples += samples;
    table->rows[row].payload_bytes += payload_bytes;
    table->rows[row].errors += errors;
    table->rows[row].used = ++table->uses;
    pthread_mutex_unlock(&table->lock);
}

size_t sluice_client_table_read(struct sluice_client_table *table,
                                struct sluice_client_row rows[CLIENT_TABLE_ROWS + 1])
{
    size_t count = 0;
    pthread_mutex_lock(&table->lock);
    for (size_t i = 0; i <= OTHERS; i++) {
        if (table->rows[i].used)
            rows[count++] = table->rows[i];
    }
    pthread_mutex_unlock(&table->lock);
    return count;
}
