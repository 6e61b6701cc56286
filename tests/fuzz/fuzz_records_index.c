/* An index.json of shards from bytes: what it names lies beneath its folder. */

#include "datasets/shards/records_index.h"

#include "base/file.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sluice_records_index index;
    struct sluice_err err = {{0}};
    bool is_index = false;
    const sluice_status status =
        sluice_records_index_parse((const char *)data, size, &index, &is_index, &err);
    FUZZ_CHECK((status == SLUICE_OK) == !err.text[0]);
    FUZZ_CHECK(is_index || (status == SLUICE_OK && index.num == 0));
    FUZZ_CHECK(index.columns.num <= SLUICE_RECORDS_MAX_COLUMNS);
    for (size_t i = 0; i < index.num; i++) {
        const char *name = index.names[i];
        FUZZ_CHECK(name[0] && name[0] != '/' && strlen(name) < SLUICE_MAX_PATH_BYTES);
        for (const char *part = name; part; part = strchr(part, '/')) {
            part += *part == '/';
            FUZZ_CHECK(strncmp(part, "../", 3) != 0 && strcmp(part, "..") != 0);
        }
    }
    sluice_records_index_clear(&index);
    return 0;
}
