#include "trace/tracer.h"

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"

#include <jansson.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

/* Bytes of a text as it is written; the rest is cut. */
#define TEXT_BYTES 512

struct sluice_tracer {
    pthread_mutex_t lock;
    uint64_t second_ns; /* the one that is counted */
    unsigned lines;     /* in it */
    uint64_t dropped, failed;

    /* Constant. */
    int fd;
    char *path;
    const char *service;
    uint64_t threshold; /* of the hash; all of them: UINT64_MAX */
    bool picks_all;
    unsigned max_lines_per_s;
    struct sluice_trace_context parent; /* span 0: none */
    uint64_t run;                       /* differs from run to run */
    uint64_t to_unix_ns;                /* sluice_clock_ns() to Unix time, modulo 2^64 */
};

static uint64_t unix_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

sluice_status sluice_tracer_open(const struct sluice_tracer_options *options,
                                 struct sluice_tracer **tracer, struct sluice_err *err)
{
    struct sluice_trace_context parent = {{0}, 0};
    if (options->parent && options->parent[0] &&
        !sluice_traceparent_parse(options->parent, &parent))
        return sluice_fail(err, SLUICE_E_INVALID, "TRACEPARENT: \"%.100s\" is no traceparent",
                           options->parent);
    struct sluice_tracer *made = calloc(1, sizeof(*made));
    char *path = strdup(options->path);
    if (!made || !path) {
        free(made);
        free(path);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a tracer");
    }
    made->fd = open(options->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (made->fd < 0) {
        const int error = errno;
        free(made);
        free(path);
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", options->path, strerror(error));
    }
    pthread_mutex_init(&made->lock, NULL);
    made->path = path;
    made->service = options->service;
    made->picks_all = options->sample >= 1;
    made->threshold =
        options->sample > 0 && !made->picks_all ? (uint64_t)ldexp(options->sample, 64) : 0;
    made->max_lines_per_s = options->max_lines_per_s;
    made->parent = parent;
    if (getrandom(&made->run, sizeof(made->run), GRND_NONBLOCK) != (ssize_t)sizeof(made->run))
        made->run = unix_ns();
    made->to_unix_ns = unix_ns() - sluice_clock_ns();
    *tracer = made;
    return SLUICE_OK;
}

void sluice_tracer_close(struct sluice_tracer *tracer)
{
    if (!tracer)
        return;
    if (tracer->dropped || tracer->failed)
        sluice_log(SLUICE_LOG_WARN,
                   "%s: %llu traces above the limit of %u a second, %llu that could not be "
                   "written, are missing",
                   tracer->path, (unsigned long long)tracer->dropped, tracer->max_lines_per_s,
                   (unsigned long long)tracer->failed);
    close(tracer->fd);
    pthread_mutex_destroy(&tracer->lock);
    free(tracer->path);
    free(tracer);
}

struct sluice_trace_context sluice_tracer_pick(const struct sluice_tracer *tracer, uint64_t seed,
                                               uint32_t epoch, uint64_t sample_id)
{
    struct sluice_trace_context context = {{0}, 0};
    if (!tracer)
        return context;
    const uint64_t key[] = {seed, epoch, sample_id};
    if (!tracer->picks_all && sluice_hash64(key, sizeof(key)) >= tracer->threshold)
        return context;
    const uint64_t named[] = {seed, epoch, sample_id, tracer->run};
    const struct sluice_hash128 hash = sluice_hash128(named, sizeof(named));
    uint8_t bytes[16];
    sluice_hash128_bytes(hash, bytes);
    memcpy(context.trace, tracer->parent.trace, sizeof(context.trace));
    if (!tracer->parent.span)
        memcpy(context.trace, bytes, sizeof(context.trace));
    context.span = sluice_hash64(bytes, sizeof(bytes));
    context.trace[0] |= !(context.trace[0] | context.trace[1]); /* never 0 */
    context.span |= !context.span;
    return context;
}

uint64_t sluice_tracer_parent(const struct sluice_tracer *tracer)
{
    return tracer->parent.span;
}

/* --- lines --- */

/* Takes the value also where it fails, and fails on NULL. */
static int set(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value);
}

static json_t *hex(const char *format, uint64_t a, uint64_t b)
{
    char text[40];
    snprintf(text, sizeof(text), format, a, b);
    return json_string(text);
}

static json_t *text_json(const char *text)
{
    char clean[TEXT_BYTES];
    (void)sluice_escape_line(clean, sizeof(clean), text);
    return json_string(clean);
}

/* 64-bit integers are texts in protobuf's JSON. */
static json_t *count_json(uint64_t count)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, count);
    return json_string(text);
}

static json_t *attribute_json(const struct sluice_attribute *attribute)
{
    json_t *object = json_object(), *value = json_object();
    int has_failed = 0;
    switch (attribute->type) {
    case SLUICE_ATTRIBUTE_TEXT:
        has_failed |= set(value, "stringValue", text_json(attribute->text));
        break;
    case SLUICE_ATTRIBUTE_COUNT:
        has_failed |= set(value, "intValue", count_json(attribute->count));
        break;
    case SLUICE_ATTRIBUTE_REAL:
        has_failed |= set(value, "doubleValue", json_real(attribute->real));
        break;
    }
    has_failed |= set(object, "key", json_string(attribute->name));
    has_failed |= set(object, "value", value);
    if (!has_failed)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *attributes_json(const struct sluice_attribute *attributes, size_t num_attributes)
{
    json_t *array = json_array();
    int has_failed = 0;
    for (size_t i = 0; i < num_attributes; i++) {
        if (attributes[i].type == SLUICE_ATTRIBUTE_REAL && !isfinite(attributes[i].real))
            continue;
        has_failed |= json_array_append_new(array, attribute_json(&attributes[i]));
    }
    if (!has_failed)
        return array;
    json_decref(array);
    return NULL;
}

static json_t *span_json(const struct sluice_tracer *tracer,
                         const struct sluice_trace_context *context, const struct sluice_span *span)
{
    json_t *object = json_object();
    int has_failed = set(object, "traceId",
                         hex("%016" PRIx64 "%016" PRIx64, context->trace[0], context->trace[1]));
    has_failed |= set(object, "spanId", hex("%016" PRIx64, span->id, 0));
    if (span->parent)
        has_failed |= set(object, "parentSpanId", hex("%016" PRIx64, span->parent, 0));
    has_failed |= set(object, "name", json_string(span->name));
    has_failed |= set(object, "kind", json_integer((json_int_t)span->kind));
    has_failed |= set(object, "startTimeUnixNano", count_json(span->start_ns + tracer->to_unix_ns));
    has_failed |= set(object, "endTimeUnixNano", count_json(span->end_ns + tracer->to_unix_ns));
    if (span->num_attributes)
        has_failed |=
            set(object, "attributes", attributes_json(span->attributes, span->num_attributes));
    if (span->error) {
        json_t *status = json_object();
        has_failed |= set(status, "code", json_integer(2)); /* STATUS_CODE_ERROR */
        has_failed |= set(status, "message", text_json(span->error));
        has_failed |= set(object, "status", status);
    }
    if (!has_failed)
        return object;
    json_decref(object);
    return NULL;
}

/* The line, with its newline, to be freed; NULL: no memory. */
static char *make_line(const struct sluice_tracer *tracer,
                       const struct sluice_trace_context *context, const struct sluice_span *spans,
                       size_t num_spans)
{
    const struct sluice_attribute service[] = {
        {.name = "service.name", .text = tracer->service},
        {.name = "service.version", .text = SLUICE_VERSION},
    };
    json_t *list = json_array();
    int has_failed = 0;
    for (size_t i = 0; i < num_spans; i++)
        has_failed |= json_array_append_new(list, span_json(tracer, context, &spans[i]));
    json_t *root = json_pack("{s:[{s:{s:o},s:[{s:{s:s},s:o}]}]}", "resourceSpans", "resource",
                             "attributes", attributes_json(service, SLUICE_ARRAY_LEN(service)),
                             "scopeSpans", "scope", "name", "sluice", "spans", list);
    char *text = has_failed || !root ? NULL : SLUICE_IN_C_LOCALE(json_dumps(root, JSON_COMPACT));
    json_decref(root);
    char *line = NULL;
    if (text && asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    free(text);
    return line;
}

/* Whether there is room for another line in this second. */
static bool may_write(struct sluice_tracer *tracer)
{
    const uint64_t now_ns = sluice_clock_ns();
    pthread_mutex_lock(&tracer->lock);
    if (now_ns - tracer->second_ns >= SECOND_NS) {
        tracer->second_ns = now_ns;
        tracer->lines = 0;
    }
    const bool may = !tracer->max_lines_per_s || tracer->lines < tracer->max_lines_per_s;
    tracer->lines += may;
    tracer->dropped += !may;
    pthread_mutex_unlock(&tracer->lock);
    return may;
}

void sluice_tracer_write(struct sluice_tracer *tracer, const struct sluice_trace_context *context,
                         const struct sluice_span *spans, size_t num_spans)
{
    if (!may_write(tracer))
        return;
    char *line = make_line(tracer, context, spans, num_spans);
    const size_t len = line ? strlen(line) : 0;
    /* One write, to the end of the file: lines of several threads, or programs, never mix. */
    const ssize_t written = line ? write(tracer->fd, line, len) : -1;
    free(line);
    if (written == (ssize_t)len)
        return;
    const int error = errno;
    pthread_mutex_lock(&tracer->lock);
    const bool is_first = tracer->failed++ == 0;
    pthread_mutex_unlock(&tracer->lock);
    if (is_first)
        sluice_log(SLUICE_LOG_WARN, "%s: a trace could not be written: %s", tracer->path,
                   strerror(error));
}
