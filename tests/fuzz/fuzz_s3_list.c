/* What a bucket answers: any bytes are a page of a list that keeps its promises, or no list; and
 * fields of any document end within their room. */

#include "store/s3_list.h"

#include "fuzz.h"

static sluice_status see(void *ctx, const struct sluice_s3_object *object, struct sluice_err *err)
{
    unsigned *num = ctx;
    FUZZ_CHECK(object->key[0] && strlen(object->key) <= SLUICE_S3_MAX_KEY);
    FUZZ_CHECK(strlen(object->etag) < 256);
    return ++*num == 5000 ? sluice_fail(err, SLUICE_E_UNSUPPORTED, "enough") : SLUICE_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned num = 0;
    struct sluice_s3_page page = {.is_truncated = false};
    struct sluice_err err = {{0}};
    const sluice_status status =
        sluice_s3_list_parse((const char *)data, size, see, &num, &page, &err);
    FUZZ_CHECK((status == SLUICE_OK) == (err.text[0] == '\0'));
    if (status == SLUICE_OK)
        FUZZ_CHECK(!page.is_truncated || page.continuation[0]);
    char first[8], second[300];
    const struct sluice_s3_field fields[] = {{"Code", first, sizeof(first)},
                                             {"SessionToken", second, sizeof(second)}};
    const sluice_status again = sluice_s3_fields_parse((const char *)data, size, fields, 2, NULL);
    FUZZ_CHECK(again == SLUICE_OK || again == SLUICE_E_CORRUPT || again == SLUICE_E_NO_MEMORY);
    FUZZ_CHECK(strlen(first) < sizeof(first) && strlen(second) < sizeof(second));
    return 0;
}
