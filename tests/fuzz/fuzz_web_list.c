/* The list file of a web server: any text is lines whose paths lead nowhere else, or a failure that
 * names one. */

#include "store/web_list.h"

#include "fuzz.h"

static sluice_status see(void *ctx, const struct sluice_web_object *object, struct sluice_err *err)
{
    (void)ctx, (void)err;
    FUZZ_CHECK(object->path[0] && object->path[0] != '/' && !strstr(object->path, "//"));
    FUZZ_CHECK(!strstr(object->path, "/../") && strncmp(object->path, "../", 3) != 0);
    FUZZ_CHECK(strcmp(object->etag, "-") != 0);
    return SLUICE_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sluice_err err = {{0}};
    if (sluice_web_list_parse((const char *)data, size, see, NULL, &err) != SLUICE_OK)
        FUZZ_CHECK(strncmp(err.text, "line ", 5) == 0);
    return 0;
}
