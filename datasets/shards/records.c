#include "datasets/shards/records.h"

#include "base/c_locale.h"
#include "base/text.h"

#include <jansson.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static sluice_status corrupt(uint64_t at, const char *what, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_CORRUPT, "byte %llu: %s", (unsigned long long)at, what);
}

static uint32_t take_u32(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

static bool fits(const struct sluice_records *records, uint64_t at, uint64_t len)
{
    return at <= records->size && len <= records->size - at;
}

/* --- columns --- */

/* NumPy's names, and Python's int. */
static const struct {
    const char *encoding;
    uint8_t bytes;
    bool is_signed;
} integers[] = {
    {"int", 8, true},     {"int8", 1, true},    {"int16", 2, true},
    {"int32", 4, true},   {"int64", 8, true},   {"uint8", 1, false},
    {"uint16", 2, false}, {"uint32", 4, false}, {"uint64", 8, false},
};

bool sluice_columns_add(struct sluice_columns *columns, const char *name, const char *encoding,
                        uint32_t bytes)
{
    if (columns->num == SLUICE_RECORDS_MAX_COLUMNS)
        return false;
    struct sluice_column column = {.bytes = bytes};
    if (!sluice_print(column.name, sizeof(column.name), "%s", name) ||
        !sluice_print(column.encoding, sizeof(column.encoding), "%s", encoding))
        return false;
    if (strcmp(encoding, "jpeg") == 0 || strcmp(encoding, "png") == 0 ||
        sluice_starts_with(encoding, "image:"))
        column.kind = SLUICE_COLUMN_IMAGE;
    else if (strcmp(encoding, "bytes") == 0)
        column.kind = SLUICE_COLUMN_BYTES;
    else if (strcmp(encoding, "str") == 0)
        column.kind = SLUICE_COLUMN_TEXT;
    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++) {
        if (strcmp(encoding, integers[i].encoding) != 0)
            continue;
        column.kind = SLUICE_COLUMN_INT;
        column.int_bytes = integers[i].bytes;
        column.is_signed = integers[i].is_signed;
    }
    columns->all[columns->num++] = column;
    return true;
}

/* Reads the columns of an MDS shard's JSON; false: it is not one, or has too many columns. */
static bool take_columns(struct sluice_columns *columns, const json_t *config)
{
    const json_t *names = json_object_get(config, "column_names");
    const json_t *encodings = json_object_get(config, "column_encodings");
    const json_t *sizes = json_object_get(config, "column_sizes");
    const size_t num = json_array_size(names);
    if (num == 0 || json_array_size(encodings) != num || json_array_size(sizes) != num)
        return false;
    for (size_t i = 0; i < num; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        const char *encoding = json_string_value(json_array_get(encodings, i));
        const json_t *size = json_array_get(sizes, i);
        const json_int_t bytes = json_integer_value(size);
        if (!name || !encoding || (!json_is_integer(size) && !json_is_null(size)) || bytes < 0 ||
            bytes > UINT32_MAX || !sluice_columns_add(columns, name, encoding, (uint32_t)bytes))
            return false;
    }
    return true;
}

static sluice_status read_columns(struct sluice_records *records, uint64_t at, uint64_t end,
                                  struct sluice_err *err)
{
    if (end < at || !fits(records, at, end - at) || end - at > SLUICE_RECORDS_MAX_CONFIG)
        return corrupt(at, "no MDS shard: its columns are not here", err);
    const size_t len = (size_t)(end - at);
    char *text = malloc(len + 1);
    if (!text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the columns of a shard");
    sluice_status status = records->read_at(records->ctx, at, text, len, err);
    json_t *config =
        status == SLUICE_OK ? SLUICE_IN_C_LOCALE(json_loadb(text, len, 0, NULL)) : NULL;
    if (status == SLUICE_OK && !take_columns(&records->columns, config))
        status = corrupt(at, "no MDS shard: these are no columns, or too many", err);
    json_decref(config);
    free(text);
    return status;
}

/* --- records --- */

static uint64_t head_bytes(const struct sluice_records *records)
{
    return 4 + 4 * ((uint64_t)records->num + 1);
}

/* Offset i of num + 1. */
static sluice_status find_offset(struct sluice_records *records, uint32_t i, uint32_t *offset,
                                 struct sluice_err *err)
{
    const unsigned most = sizeof(records->window) / sizeof(records->window[0]);
    if (records->window_len == 0 || i < records->window_at ||
        i - records->window_at >= records->window_len) {
        const uint64_t left = (uint64_t)records->num + 1 - i;
        const unsigned len = left < most ? (unsigned)left : most;
        uint8_t bytes[sizeof(records->window)];
        const sluice_status status =
            records->read_at(records->ctx, 4 + 4 * (uint64_t)i, bytes, 4 * (size_t)len, err);
        if (status != SLUICE_OK)
            return status;
        for (unsigned k = 0; k < len; k++)
            records->window[k] = take_u32(bytes + 4 * (size_t)k);
        records->window_at = i;
        records->window_len = len;
    }
    *offset = records->window[i - records->window_at];
    return SLUICE_OK;
}

/* LitData since 0.2.7x keeps rows of numbers, texts and bytes in Arrow's format behind a head
 * without records. */
static sluice_status check_no_arrow(const struct sluice_records *records, struct sluice_err *err)
{
    static const char mark[8] = "LDARW01";
    char end[sizeof(mark)];
    if (records->size < head_bytes(records) + sizeof(mark))
        return SLUICE_OK;
    const sluice_status status =
        records->read_at(records->ctx, records->size - sizeof(end), end, sizeof(end), err);
    if (status == SLUICE_OK && memcmp(end, mark, sizeof(mark)) == 0)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "rows of Arrow are not read: write images as litdata.Jpeg or Image");
    return status;
}

sluice_status sluice_records_open(struct sluice_records *records, struct sluice_err *err)
{
    uint8_t bytes[4];
    uint32_t first;
    if (!fits(records, 0, sizeof(bytes)))
        return corrupt(0, "the shard is cut", err);
    sluice_status status = records->read_at(records->ctx, 0, bytes, sizeof(bytes), err);
    if (status != SLUICE_OK)
        return status;
    records->num = take_u32(bytes);
    records->window_len = 0;
    if (!fits(records, 0, head_bytes(records)))
        return corrupt(0, "no shard of records, or it is cut", err);
    status = find_offset(records, 0, &first, err);
    if (status == SLUICE_OK && records->columns.num > 0)
        return check_no_arrow(records, err);
    if (status == SLUICE_OK)
        status = read_columns(records, head_bytes(records), first, err);
    return status;
}

sluice_status sluice_records_find(struct sluice_records *records, uint32_t i,
                                  struct sluice_value values[], struct sluice_err *err)
{
    const struct sluice_columns *columns = &records->columns;
    assert(i < records->num);
    uint32_t begin, end;
    uint8_t sizes[4 * SLUICE_RECORDS_MAX_COLUMNS];
    size_t num_sizes = 0;
    /* The window begins with a record whose end is in it, too. */
    if (i + 1 >= records->window_at + records->window_len)
        records->window_len = 0;
    sluice_status status = find_offset(records, i, &begin, err);
    if (status == SLUICE_OK)
        status = find_offset(records, i + 1, &end, err);
    if (status != SLUICE_OK)
        return status;
    for (unsigned k = 0; k < columns->num; k++)
        num_sizes += columns->all[k].bytes == 0;
    if (begin < head_bytes(records) || end < begin || end > records->size ||
        end - begin < 4 * num_sizes)
        return corrupt(4 + 4 * (uint64_t)i, "no offset of a record, or the shard is cut", err);
    if (num_sizes > 0)
        status = records->read_at(records->ctx, begin, sizes, 4 * num_sizes, err);
    if (status != SLUICE_OK)
        return status;
    uint64_t at = begin + 4 * num_sizes;
    size_t size = 0;
    for (unsigned k = 0; k < columns->num; k++) {
        const uint32_t bytes =
            columns->all[k].bytes ? columns->all[k].bytes : take_u32(sizes + 4 * size++);
        if (bytes > end - at)
            return corrupt(begin, "the values are longer than their record", err);
        values[k] = (struct sluice_value){at, bytes};
        at += bytes;
    }
    return at == end ? SLUICE_OK : corrupt(begin, "the values are shorter than their record", err);
}

sluice_status sluice_records_integer(struct sluice_records *records,
                                     const struct sluice_column *column,
                                     const struct sluice_value *value, int64_t *number,
                                     struct sluice_err *err)
{
    uint8_t bytes[8];
    assert(column->kind == SLUICE_COLUMN_INT);
    if (value->bytes != column->int_bytes)
        return corrupt(value->offset, "an integer of another size than its column says", err);
    const sluice_status status =
        records->read_at(records->ctx, value->offset, bytes, (size_t)value->bytes, err);
    if (status != SLUICE_OK)
        return status;
    const unsigned last = (unsigned)value->bytes - 1;
    uint64_t bits = column->is_signed && bytes[last] & 0x80 ? UINT64_MAX : 0;
    for (unsigned i = 0; i <= last; i++)
        bits = bits << 8 | bytes[last - i];
    *number = !column->is_signed && bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    return SLUICE_OK;
}

sluice_status sluice_records_text(struct sluice_records *records, const struct sluice_value *value,
                                  char text[SLUICE_RECORDS_MAX_TEXT + 1], struct sluice_err *err)
{
    if (value->bytes == 0 || value->bytes > SLUICE_RECORDS_MAX_TEXT)
        return sluice_fail(err, SLUICE_E_INVALID, "a text of %llu bytes",
                           (unsigned long long)value->bytes);
    const sluice_status status =
        records->read_at(records->ctx, value->offset, text, (size_t)value->bytes, err);
    if (status != SLUICE_OK)
        return status;
    text[value->bytes] = '\0';
    if (strlen(text) != value->bytes || !sluice_is_utf8(text))
        return sluice_fail(err, SLUICE_E_INVALID, "a text that is no UTF-8, or has a NUL");
    return SLUICE_OK;
}
