/* Lists in brace notation from bytes: names are bounded, and not empty. */

#include "datasets/list/brace.h"

#include "fuzz.h"

struct seen {
    size_t num, len;
};

static sluice_status take(void *ctx, const char *name, struct sluice_err *err)
{
    struct seen *seen = ctx;
    (void)err;
    FUZZ_CHECK(name[0] != '\0' && strlen(name) <= seen->len + 16 * SLUICE_BRACE_MAX_BRACES);
    /* A few are enough. */
    return ++seen->num > 10000 ? SLUICE_E_CLOSED : SLUICE_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    struct seen seen = {.len = strlen(text)};
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_brace_expand(text, take, &seen, &err);
    FUZZ_CHECK(status == SLUICE_OK || status == SLUICE_E_INVALID || status == SLUICE_E_CLOSED);
    FUZZ_CHECK((status == SLUICE_E_INVALID) == (err.text[0] != '\0'));
    FUZZ_CHECK(status != SLUICE_OK || seen.num > 0);
    free(text);
    return 0;
}
