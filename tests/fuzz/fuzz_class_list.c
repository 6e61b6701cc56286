/* Lists of classes from bytes: what is read has each name once, and is written as a list that reads
 * back the same. */

#include "datasets/list/class_list.h"

#include "base/text.h"
#include "fuzz_file.h"

static void check_written(const struct sluice_class_list *list)
{
    char written[128];
    snprintf(written, sizeof(written), "%s/written.txt", fuzz_folder);
    struct sluice_manifest_builder builder;
    struct sluice_class_list again = {0};
    FUZZ_CHECK(sluice_manifest_builder_init(&builder, NULL) == SLUICE_OK);
    FUZZ_CHECK(sluice_class_list_number(list, &builder, NULL) == SLUICE_OK);
    FUZZ_CHECK(builder.manifest->num_classes == list->num);
    FUZZ_CHECK(sluice_class_list_write(builder.manifest, written, NULL) == SLUICE_OK);
    FUZZ_CHECK(sluice_class_list_read(written, &again, NULL) == SLUICE_OK);
    FUZZ_CHECK(again.num == list->num);
    for (size_t i = 0; i < list->num; i++)
        FUZZ_CHECK(strcmp(again.names[i], list->names[i]) == 0);
    sluice_class_list_clear(&again);
    sluice_manifest_destroy(builder.manifest);
    unlink(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file_put("classes.txt", data, size);
    struct sluice_class_list list = {0};
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_class_list_read(path, &list, &err);
    if (status != SLUICE_OK) {
        FUZZ_CHECK(status == SLUICE_E_INVALID && err.text[0] && !list.names);
        return 0;
    }
    FUZZ_CHECK(list.num > 0);
    for (size_t i = 0; i < list.num; i++)
        FUZZ_CHECK(sluice_is_utf8(list.names[i]) && (list.names[i][0] || list.num == 1));
    check_written(&list);
    sluice_class_list_clear(&list);
    return 0;
}
