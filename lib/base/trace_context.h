#ifndef SLUICE_BASE_TRACE_CONTEXT_H
#define SLUICE_BASE_TRACE_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A trace's id and the id of a parent span in it: W3C's Trace Context
 * (https://www.w3.org/TR/trace-context/).  Big-endian numbers, as the text has them.
 *
 * Threads: pure functions. */

struct sluice_trace_context {
    uint64_t trace[2];
    uint64_t span; /* 0: not traced */
};

/* A context on the wire: the trace id's 16 bytes and the span id's 8. */
#define SLUICE_TRACE_CONTEXT_BYTES 24
void sluice_trace_context_put(const struct sluice_trace_context *context,
                              uint8_t bytes[SLUICE_TRACE_CONTEXT_BYTES]);
/* Reads a context.  Not traced if the length is wrong or an id is 0. */
struct sluice_trace_context sluice_trace_context_get(const uint8_t *bytes, size_t len);

/* "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", also of later versions; false: invalid
 * text. */
bool sluice_traceparent_parse(const char *text, struct sluice_trace_context *context);

/* The id of a span's child number n: never 0, the same each time. */
uint64_t sluice_trace_child(const struct sluice_trace_context *parent, uint64_t n);

#endif
