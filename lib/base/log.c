#include "base/log.h"

#include "base/c_locale.h"
#include "base/redact.h"
#include "base/terminal.h"
#include "base/text.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT_BYTES 1024
#define LINE_BYTES (2 * TEXT_BYTES + 256)
#define STATUS_BYTES 512

/* ECMA-48: go to the first column, erase to the end of the line. */
#define ERASE_REST "\x1b[K"
#define ERASE "\r" ERASE_REST

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const level_words[] = {"error", "warning", "info", "debug"};

/* Relaxed: a flag, nothing is published through it. */
static atomic_int current_level = SLUICE_LOG_INFO;
static atomic_int current_format = SLUICE_LOG_TEXT;
static const char *_Atomic program_name;

static bool is_terminal(void)
{
    return isatty(STDERR_FILENO) == 1;
}

sluice_status sluice_log_level_parse(const char *text, enum sluice_log_level *level,
                                     struct sluice_err *err)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(level_names); i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *level = (enum sluice_log_level)i;
            return SLUICE_OK;
        }
    }
    return sluice_fail(err, SLUICE_E_INVALID, "log level '%s' is none of error, warn, info, debug",
                       text);
}

void sluice_log_set_level(enum sluice_log_level level)
{
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

bool sluice_log_is_enabled(enum sluice_log_level level)
{
    return (int)level <= atomic_load_explicit(&current_level, memory_order_relaxed);
}

void sluice_log_set_program(const char *name)
{
    atomic_store(&program_name, name);
}

void sluice_log_set_format(enum sluice_log_format format)
{
    atomic_store_explicit(&current_format, (int)format, memory_order_relaxed);
}

sluice_status sluice_log_format_parse(const char *text, enum sluice_log_format *format,
                                      struct sluice_err *err)
{
    if (strcmp(text, "text") != 0 && strcmp(text, "json") != 0)
        return sluice_fail(err, SLUICE_E_INVALID, "log format '%s' is none of text, json", text);
    *format = strcmp(text, "json") == 0 ? SLUICE_LOG_JSON : SLUICE_LOG_TEXT;
    return SLUICE_OK;
}

/* --- one line --- */

/* RFC 3339 in UTC, or the time of day where a person looks on. */
static void format_time(char out[40], bool is_for_person)
{
    struct timespec now;
    struct tm tm;
    char text[24] = "";
    clock_gettime(CLOCK_REALTIME, &now);
    if (is_for_person) {
        if (localtime_r(&now.tv_sec, &tm))
            strftime(text, sizeof(text), "%H:%M:%S", &tm);
        snprintf(out, 40, "%s", text);
        return;
    }
    if (gmtime_r(&now.tv_sec, &tm))
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, 40, "%s.%03ldZ", text, now.tv_nsec / 1000000 % 1000);
}

/* `text` as the inside of a JSON string (RFC 8259): it is one line of UTF-8 already. */
static size_t quote(char *out, size_t room, const char *text)
{
    size_t len = 0;
    for (; *text && len + 2 < room; text++) {
        if (*text == '"' || *text == '\\')
            out[len++] = '\\';
        out[len++] = *text;
    }
    out[len] = '\0';
    return len;
}

size_t sluice_log_line(char *out, size_t room, enum sluice_log_level level, const char *text)
{
    const char *program = atomic_load(&program_name);
    const bool is_json =
        atomic_load_explicit(&current_format, memory_order_relaxed) == SLUICE_LOG_JSON;
    const bool is_for_person = !is_json && is_terminal();
    char time[40], safe[TEXT_BYTES], quoted[2 * TEXT_BYTES];
    format_time(time, is_for_person);
    (void)sluice_escape_line(safe, sizeof(safe), text);
    int len;
    if (is_json) {
        quote(quoted, sizeof(quoted), safe);
        len = snprintf(out, room,
                       "{\"time\":\"%s\",\"level\":\"%s\",\"program\":\"%s\",\"message\":\"%s\"}\n",
                       time, level_words[level], program ? program : "", quoted);
    } else if (is_for_person || !program) {
        len = snprintf(out, room, "%s %s: %s\n", time, level_words[level], safe);
    } else {
        len = snprintf(out, room, "%s %s %s: %s\n", time, program, level_words[level], safe);
    }
    return len < 0 ? 0 : (size_t)len < room ? (size_t)len : room - 1;
}

/* --- the status line --- */

/* Lines go above the status: erase it, write the line, write it again, in one write. */
static pthread_mutex_t status_lock = PTHREAD_MUTEX_INITIALIZER;
static char status_text[STATUS_BYTES]; /* under status_lock; "": none is shown */
/* Relaxed: a line that sees it late is overwritten by the next status. */
static atomic_bool has_status;

static void write_stderr(const char *text, size_t len)
{
    /* Nothing sensible can be done about a log line that cannot be written. */
    const ssize_t written = write(STDERR_FILENO, text, len);
    (void)written;
}

void sluice_log_set_status(const char *text)
{
    if (!sluice_terminal_can_erase() || !sluice_log_is_enabled(SLUICE_LOG_INFO))
        return;
    char out[STATUS_BYTES + sizeof(ERASE) + sizeof(ERASE_REST)];
    pthread_mutex_lock(&status_lock);
    const bool was_shown = status_text[0];
    (void)sluice_escape_line(status_text, sizeof(status_text), text ? text : "");
    atomic_store_explicit(&has_status, status_text[0] != '\0', memory_order_relaxed);
    const int len = snprintf(out, sizeof(out), "\r%s%s", status_text, ERASE_REST);
    if (status_text[0] || was_shown)
        write_stderr(out, (size_t)len);
    pthread_mutex_unlock(&status_lock);
}

bool sluice_log_has_terminal(void)
{
    return sluice_terminal_can_erase() &&
           atomic_load_explicit(&current_format, memory_order_relaxed) == SLUICE_LOG_TEXT;
}

/* Two words that are read together; whoever changes them waits for lines that are on their way. */
static pthread_rwlock_t sink_lock = PTHREAD_RWLOCK_INITIALIZER;
static sluice_log_fn *sink_fn;
static void *sink_ctx;

void sluice_log_set_sink(sluice_log_fn *sink, void *ctx)
{
    pthread_rwlock_wrlock(&sink_lock);
    sink_fn = sink;
    sink_ctx = ctx;
    pthread_rwlock_unlock(&sink_lock);
}

/* False: not found. */
static bool to_sink(enum sluice_log_level level, const char *text)
{
    pthread_rwlock_rdlock(&sink_lock);
    const bool is_taken = sink_fn != NULL;
    if (is_taken)
        sink_fn(sink_ctx, level, text);
    pthread_rwlock_unlock(&sink_lock);
    return is_taken;
}

void sluice_log(enum sluice_log_level level, const char *fmt, ...)
{
    if (!sluice_log_is_enabled(level))
        return;
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    if (sluice_vsnprintf(text, sizeof(text), fmt, args) < 0)
        text[0] = '\0';
    va_end(args);

    char safe[TEXT_BYTES];
    sluice_redact(text);
    (void)sluice_escape_line(safe, sizeof(safe), text);
    if (to_sink(level, safe))
        return;

    char out[sizeof(ERASE) + LINE_BYTES + STATUS_BYTES] = ERASE;
    const size_t head = sizeof(ERASE) - 1;
    const size_t len = sluice_log_line(out + head, LINE_BYTES, level, safe);
    if (!atomic_load_explicit(&has_status, memory_order_relaxed)) {
        write_stderr(out + head, len);
        return;
    }
    pthread_mutex_lock(&status_lock);
    const int status = snprintf(out + head + len, STATUS_BYTES, "%s", status_text);
    write_stderr(out, head + len + (size_t)status);
    pthread_mutex_unlock(&status_lock);
}
