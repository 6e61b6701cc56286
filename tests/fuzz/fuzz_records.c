/* Shards of records from bytes, with their own columns and with those of a chunk: every value lies
 * within the shard, and nothing else is asked for. */

#include "datasets/shards/records.h"

#include "fuzz.h"

static void read_record(struct sluice_records *records, uint32_t i, size_t size)
{
    struct sluice_value values[SLUICE_RECORDS_MAX_COLUMNS];
    struct sluice_err err = {{0}};
    uint64_t at = 0;
    const sluice_status status = sluice_records_find(records, i, values, &err);
    FUZZ_CHECK(status == SLUICE_OK ||
               (status == SLUICE_E_CORRUPT && strncmp(err.text, "byte ", 5) == 0));
    for (unsigned k = 0; k < records->columns.num && status == SLUICE_OK; k++) {
        const struct sluice_column *column = &records->columns.all[k];
        int64_t number;
        FUZZ_CHECK(values[k].offset >= at && values[k].offset <= size &&
                   values[k].bytes <= size - values[k].offset);
        FUZZ_CHECK(!column->bytes || values[k].bytes == column->bytes);
        at = values[k].offset + values[k].bytes;
        if (column->kind == SLUICE_COLUMN_INT &&
            sluice_records_integer(records, column, &values[k], &number, NULL) == SLUICE_OK)
            FUZZ_CHECK(values[k].bytes == column->int_bytes);
    }
}

static void read_shard(const uint8_t *data, size_t size, const struct sluice_columns *columns)
{
    struct fuzz_bytes bytes = {data, size};
    struct sluice_records records = {.read_at = fuzz_read_at, .ctx = &bytes, .size = size};
    struct sluice_err err = {{0}};
    if (columns)
        records.columns = *columns;
    if (sluice_records_open(&records, &err) != SLUICE_OK) {
        FUZZ_CHECK(strncmp(err.text, "byte ", 5) == 0 ||
                   strncmp(err.text, "rows of Arrow", 13) == 0);
        return;
    }
    FUZZ_CHECK(records.columns.num > 0 && (uint64_t)records.num * 4 <= size);
    for (uint32_t i = 0; i < records.num; i++)
        read_record(&records, i, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sluice_columns columns = {.num = 0};
    FUZZ_CHECK(sluice_columns_add(&columns, "0", "jpeg", 0) &&
               sluice_columns_add(&columns, "1", "int", 0));
    read_shard(data, size, NULL);
    read_shard(data, size, &columns);
    return 0;
}
