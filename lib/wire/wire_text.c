#include "wire/wire_internal.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

void sluice_wire_copy_utf8(const char *text, char *out, size_t capacity)
{
    size_t used = 0;
    while (text && *text) {
        const size_t len = sluice_utf8_len(text);
        const size_t take = len ? len : 1;
        if (used + take >= capacity)
            break;
        if (len)
            memcpy(out + used, text, len);
        else
            out[used] = '?';
        used += take;
        text += take;
    }
    out[used] = 0;
}

const char *sluice_wire_clean_utf8(const char *text, char **owned)
{
    if (!text)
        return "";
    if (sluice_is_utf8(text))
        return text;
    const size_t capacity = strlen(text) + 1; /* the copy has as many bytes */
    char *copy = malloc(capacity);
    if (copy) {
        sluice_wire_copy_utf8(text, copy, capacity);
        *owned = copy;
    }
    return copy;
}

sluice_status sluice_wire_copy_string(const char *text, char **out, struct sluice_err *err)
{
    char *copy = strdup(text ? text : "");
    if (!copy)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a string of a message");
    *out = copy;
    return SLUICE_OK;
}

sluice_status sluice_wire_copy_dataset_id(const char *text, char out[33], struct sluice_err *err)
{
    const size_t len = strlen(text);
    if (len != 0 && (len != 32 || strspn(text, "0123456789abcdef") != 32))
        return sluice_fail(err, SLUICE_E_CORRUPT, "a dataset id that is not 32 hex digits");
    memcpy(out, text, len + 1);
    return SLUICE_OK;
}
