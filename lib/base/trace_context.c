#include "base/trace_context.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

static void put_u64(uint64_t value, uint8_t *bytes)
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (56 - 8 * i));
}

static uint64_t get_u64(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | bytes[i];
    return value;
}

void sluice_trace_context_put(const struct sluice_trace_context *context,
                              uint8_t bytes[SLUICE_TRACE_CONTEXT_BYTES])
{
    put_u64(context->trace[0], bytes);
    put_u64(context->trace[1], bytes + 8);
    put_u64(context->span, bytes + 16);
}

struct sluice_trace_context sluice_trace_context_get(const uint8_t *bytes, size_t len)
{
    struct sluice_trace_context context = {{0}, 0};
    if (len != SLUICE_TRACE_CONTEXT_BYTES)
        return context;
    context.trace[0] = get_u64(bytes);
    context.trace[1] = get_u64(bytes + 8);
    context.span = get_u64(bytes + 16);
    if (context.trace[0] == 0 && context.trace[1] == 0)
        context.span = 0;
    return context;
}

/* So many lower-case hex digits, and what stands behind them. */
static bool take_hex(const char **text, unsigned digits, char end, uint64_t *value)
{
    char copy[17] = "";
    if (strspn(*text, "0123456789abcdef") < digits)
        return false;
    memcpy(copy, *text, digits);
    *value = strtoull(copy, NULL, 16);
    *text += digits;
    if (!end)
        return true;
    return *(*text)++ == end;
}

bool sluice_traceparent_parse(const char *text, struct sluice_trace_context *context)
{
    struct sluice_trace_context got;
    uint64_t version, flags;
    if (!take_hex(&text, 2, '-', &version) || version == 0xff ||
        !take_hex(&text, 16, 0, &got.trace[0]) || !take_hex(&text, 16, '-', &got.trace[1]) ||
        !take_hex(&text, 16, '-', &got.span) || !take_hex(&text, 2, 0, &flags))
        return false;
    /* A later version may have more fields. */
    if (*text && (version == 0 || *text != '-'))
        return false;
    if (!got.span || (!got.trace[0] && !got.trace[1]))
        return false;
    *context = got;
    return true;
}

uint64_t sluice_trace_child(const struct sluice_trace_context *parent, uint64_t n)
{
    const uint64_t key[] = {parent->trace[0], parent->trace[1], parent->span, n};
    const uint64_t id = sluice_hash64(key, sizeof(key));
    return id ? id : 1;
}
