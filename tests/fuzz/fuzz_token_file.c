/* The file of --tokens: any text is a list that keeps its promises, or a failure with words. */

#include "storage_server/session/token_file.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sluice_token_list list = {.num_entries = 0};
    struct sluice_err err = {{0}};
    if (sluice_token_list_parse((const char *)data, size, &list, &err) != SLUICE_OK) {
        FUZZ_CHECK(strncmp(err.text, "line ", 5) == 0 && !list.entries);
        return 0;
    }
    for (size_t i = 0; i < list.num_entries; i++) {
        const struct sluice_token_entry *entry = &list.entries[i];
        FUZZ_CHECK(entry->name[0] && strlen(entry->name) < sizeof(entry->name));
        FUZZ_CHECK(entry->may_train || entry->may_val);
        FUZZ_CHECK(entry->cores >= 0 && entry->bytes_per_s >= 0);
        for (size_t k = 0; k < entry->num_roots; k++)
            FUZZ_CHECK(entry->roots[k][0] == '/');
        for (size_t k = 0; k < i; k++)
            FUZZ_CHECK(strcmp(list.entries[k].name, entry->name) != 0 &&
                       memcmp(list.entries[k].hash, entry->hash, sizeof(entry->hash)) != 0);
    }
    sluice_token_list_clear(&list);
    sluice_token_list_clear(&list);
    return 0;
}
