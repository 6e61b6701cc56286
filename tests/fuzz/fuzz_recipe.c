/* Recipes from bytes: a file that is refused is named, and batch ops that are taken are in range.
 * They stay as they were on failure. */

#include "op/recipe.h"

#include "fuzz_file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char name[] = "recipe.json";

static void check_pipeline(const char *text, bool is_val)
{
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_recipe_parse(text, is_val, &pipeline, &err);
    FUZZ_CHECK((status == SLUICE_OK) == (pipeline != NULL));
    FUZZ_CHECK(status == SLUICE_OK || strstr(err.text, name));
    sluice_pipeline_destroy(pipeline);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[140];
    snprintf(text, sizeof(text), "@%s", fuzz_file_put(name, data, size));
    check_pipeline(text, false);
    check_pipeline(text, true);
    const struct sluice_batch_ops none = sluice_batch_ops_none();
    struct sluice_batch_ops ops = none;
    struct sluice_err err = {{0}};
    if (sluice_recipe_batch_ops(text, &ops, &err) == SLUICE_OK) {
        FUZZ_CHECK(sluice_batch_ops_check(&ops, NULL) == SLUICE_OK);
    } else {
        FUZZ_CHECK(strstr(err.text, name));
        FUZZ_CHECK(!sluice_has_batch_ops(&ops) && ops.fill == none.fill);
    }
    return 0;
}
