#include "base/log.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 1024

static const char *const level_names[] = {"error", "warn", "info", "debug"};

/* Relaxed: a flag, nothing is published through it. */
static atomic_int current_level = SLUICE_LOG_INFO;
static const char *_Atomic program_name;

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

void sluice_log(enum sluice_log_level level, const char *fmt, ...)
{
    if (!sluice_log_is_enabled(level))
        return;

    const char *program = atomic_load(&program_name);
    const char *mark = level == SLUICE_LOG_ERROR  ? "error: "
                       : level == SLUICE_LOG_WARN ? "warning: "
                                                  : "";
    char text[LINE_BYTES], line[LINE_BYTES];
    const int head =
        snprintf(text, sizeof(text), "%s%s%s", program ? program : "", program ? ": " : "", mark);
    const size_t head_len = head < 0                       ? 0
                            : (size_t)head >= sizeof(text) ? sizeof(text) - 1
                                                           : (size_t)head;
    va_list args;
    va_start(args, fmt);
    if (vsnprintf(text + head_len, sizeof(text) - head_len, fmt, args) < 0)
        text[head_len] = '\0';
    va_end(args);

    size_t len = sluice_escape_line(line, sizeof(line) - 1, text);
    line[len++] = '\n';

    /* Nothing sensible can be done about a log line that cannot be written. */
    ssize_t written = write(STDERR_FILENO, line, len);
    (void)written;
}
