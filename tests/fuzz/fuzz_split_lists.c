/* Lists of a split from bytes: what is read names images, and selects those and no others. */

#include "datasets/list/split_lists.h"

#include "datasets/list/class_list.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = {"a/1.jpg", "a/2 3.jpg", "b/1.png"};
    struct sluice_split_lists *lists = NULL;
    struct sluice_manifest_builder builder;
    struct sluice_err err = {{0}};
    FUZZ_CHECK(sluice_split_lists_create(&lists, NULL) == SLUICE_OK);
    FUZZ_CHECK(sluice_manifest_builder_init(&builder, NULL) == SLUICE_OK);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        const struct sluice_manifest_entry row = {.label = UINT32_MAX};
        FUZZ_CHECK(sluice_manifest_add_entry(&builder, &row, paths[i], strlen(paths[i]), NULL) ==
                   SLUICE_OK);
    }
    sluice_status status = sluice_split_lists_parse(lists, "list.txt", (const char *)data, size,
                                                    SLUICE_SUBSET_VAL, &err);
    if (status == SLUICE_OK)
        status = sluice_split_lists_select(lists, builder.manifest, "root", &err);
    if (status == SLUICE_OK) {
        sluice_split_lists_assign(lists, builder.manifest);
        FUZZ_CHECK(builder.manifest->num_entries > 0);
        for (size_t i = 0; i < builder.manifest->num_entries; i++) {
            const struct sluice_manifest_entry *entry = &builder.manifest->rows[i];
            FUZZ_CHECK(entry->subset == SLUICE_SUBSET_VAL);
            FUZZ_CHECK(sluice_split_lists_have_labels(lists) ==
                       (entry->label < SLUICE_MAX_CLASSES));
        }
    } else {
        FUZZ_CHECK(status == SLUICE_E_INVALID && strncmp(err.text, "list.txt:", 9) == 0);
    }
    sluice_manifest_destroy(builder.manifest);
    sluice_split_lists_destroy(lists);
    return 0;
}
