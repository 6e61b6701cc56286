/* Lists in brace notation from bytes: names are bounded, and not empty. */

#include "datasets/list/brace.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

struct seen {
    size_t num, len;
};

static sluice_status take(void *ctx, const char *name, struct sluice_err *err)
{
    struct seen *seen = ctx;
    (void)err;
    check(name[0] != '\0' && strlen(name) <= seen->len + 16 * SLUICE_BRACE_MAX_BRACES);
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
    check(status == SLUICE_OK || status == SLUICE_E_INVALID || status == SLUICE_E_CLOSED);
    check((status == SLUICE_E_INVALID) == (err.text[0] != '\0'));
    check(status != SLUICE_OK || seen.num > 0);
    free(text);
    return 0;
}
