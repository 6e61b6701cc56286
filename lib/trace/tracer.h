#ifndef SLUICE_TRACE_TRACER_H
#define SLUICE_TRACE_TRACER_H

#include "base/error.h"
#include "base/trace_context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the times of single samples to a file, as spans.  Each line is one ExportTraceService-
 * Request of OpenTelemetry's JSON
 * (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding), as its collector's
 * otlpjsonfile receiver reads it, with all spans of one sample of this program.
 *
 * A line of five spans has 2 kB and costs 50 us with its write(2); the choice whether to trace a
 * sample costs 30 ns (a shared core of an Intel Xeon).  Without a tracer, the cost is one branch in
 * the caller.
 *
 * Threads: any. */

struct sluice_tracer;

struct sluice_tracer_options {
    const char *path;    /* of the file, to which lines are appended */
    const char *service; /* "offload_train": service.name; borrowed for good */
    double sample;       /* share of samples that sluice_tracer_pick() picks, 0 to 1 */
    /* A traceparent (trace_context.h) whose children all spans are; NULL, "": each sample is a
     * trace of its own. */
    const char *parent;
    unsigned max_lines_per_s; /* more lines are dropped and counted; 0: no limit */
};

/* SLUICE_E_IO names the file, SLUICE_E_INVALID an invalid parent. */
SLUICE_MUST_USE sluice_status sluice_tracer_open(const struct sluice_tracer_options *options,
                                                 struct sluice_tracer **tracer,
                                                 struct sluice_err *err);
/* Logs the number of lines not written, if any.  NULL is allowed. */
void sluice_tracer_close(struct sluice_tracer *tracer);

/* The context of a sample's span if the sample is picked, else not traced.  A hash of the draw key
 * picks samples, so every run picks the same ones; ids differ from run to run.  `tracer` NULL:
 * picks no sample. */
struct sluice_trace_context sluice_tracer_pick(const struct sluice_tracer *tracer, uint64_t seed,
                                               uint32_t epoch, uint64_t sample_id);
/* The id of the parent of a sample's span; 0: none. */
uint64_t sluice_tracer_parent(const struct sluice_tracer *tracer);

enum sluice_attribute_type { SLUICE_ATTRIBUTE_TEXT, SLUICE_ATTRIBUTE_COUNT, SLUICE_ATTRIBUTE_REAL };
struct sluice_attribute {
    const char *name;
    enum sluice_attribute_type type;
    const char *text; /* any bytes */
    uint64_t count;
    double real; /* NAN or infinite: the attribute is left out */
};

enum sluice_span_kind { SLUICE_SPAN_INTERNAL = 1, SLUICE_SPAN_SERVER = 2, SLUICE_SPAN_CLIENT = 3 };
struct sluice_span {
    const char *name;
    enum sluice_span_kind kind;
    uint64_t id, parent;       /* parent 0: none */
    uint64_t start_ns, end_ns; /* of sluice_clock_ns() */
    const struct sluice_attribute *attributes;
    size_t num_attributes;
    const char *error; /* NULL: no error */
};

/* Writes spans of one trace as one line. */
void sluice_tracer_write(struct sluice_tracer *tracer, const struct sluice_trace_context *context,
                         const struct sluice_span *spans, size_t num_spans);

#endif
