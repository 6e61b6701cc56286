/* An index.json of shards from bytes: what it names lies beneath its folder. */

#include "datasets/shards/records_index.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sluice_records_index index;
    struct sluice_err err = {{0}};
    bool is_index = false;
    const sluice_status status =
        sluice_records_index_parse((const char *)data, size, &index, &is_index, &err);
    check((status == SLUICE_OK) == !err.text[0]);
    check(is_index || (status == SLUICE_OK && index.num == 0));
    check(index.columns.num <= SLUICE_RECORDS_MAX_COLUMNS);
    for (size_t i = 0; i < index.num; i++) {
        const char *name = index.names[i];
        check(name[0] && name[0] != '/' && strlen(name) < SLUICE_MAX_PATH_BYTES);
        for (const char *part = name; part; part = strchr(part, '/')) {
            part += *part == '/';
            check(strncmp(part, "../", 3) != 0 && strcmp(part, "..") != 0);
        }
    }
    sluice_records_index_clear(&index);
    return 0;
}
