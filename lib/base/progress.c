#include "base/progress.h"

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/show.h"
#include "base/terminal.h"

#include <stdarg.h>
#include <stdio.h>

#define TERMINAL_INTERVAL_NS 100000000u /* ten times a second: smooth, and not worth measuring */
#define PLAIN_INTERVAL_NS 5000000000u

static size_t append(char *line, size_t size, size_t len, const char *fmt, ...) SLUICE_PRINTF(4, 5);

/* Cuts what does not fit. */
static size_t append(char *line, size_t size, size_t len, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int more = sluice_vsnprintf(line + len, size - len, fmt, args);
    va_end(args);
    len += more > 0 ? (size_t)more : 0;
    return len < size ? len : size - 1;
}

void sluice_progress_start(struct sluice_progress *progress, const char *what, uint64_t total)
{
    const uint64_t now = sluice_clock_ns();
    *progress = (struct sluice_progress){
        .what = what,
        .total = total,
        .started_ns = now,
        .last_ns = now,
        .is_terminal = sluice_log_has_terminal(),
    };
}

void sluice_progress_update(struct sluice_progress *progress, uint64_t done, const char *extra)
{
    const uint64_t now = sluice_clock_ns();
    const uint64_t interval = progress->is_terminal ? TERMINAL_INTERVAL_NS : PLAIN_INTERVAL_NS;
    if (now - progress->last_ns < interval || !sluice_log_is_enabled(SLUICE_LOG_INFO))
        return;
    progress->last_ns = now;

    const double seconds = (double)(now - progress->started_ns) / 1e9;
    const double rate = seconds > 0 ? (double)done / seconds : 0;
    char line[256];
    size_t len =
        append(line, sizeof(line), 0, "%s: %llu", progress->what, (unsigned long long)done);
    char text[SLUICE_SHOW_BYTES];
    if (progress->total) {
        len = append(line, sizeof(line), len, "/%llu (%s)", (unsigned long long)progress->total,
                     sluice_show_share((double)done / (double)progress->total, text));
    }
    len = append(line, sizeof(line), len, ", %.*f/s", rate < 10 ? 1 : 0, rate);
    if (progress->total > done && rate > 0) {
        const double left = (double)(progress->total - done) / rate;
        len = append(line, sizeof(line), len, ", %s left", sluice_show_clock(left, text));
    }
    if (extra && extra[0])
        (void)append(line, sizeof(line), len, ", %s", extra);

    if (!progress->is_terminal) {
        sluice_log(SLUICE_LOG_INFO, "%s", line);
        return;
    }
    sluice_terminal_cut(line, sluice_terminal_columns() - 1);
    sluice_log_set_status(line);
    progress->is_shown = true;
}

void sluice_progress_end(struct sluice_progress *progress, uint64_t done)
{
    if (progress->is_shown)
        sluice_log_set_status(NULL);
    progress->is_shown = false;
    const double seconds = (double)(sluice_clock_ns() - progress->started_ns) / 1e9;
    if (progress->total) {
        sluice_log(SLUICE_LOG_INFO, "%s: %llu/%llu in %.1f s", progress->what,
                   (unsigned long long)done, (unsigned long long)progress->total, seconds);
    } else {
        sluice_log(SLUICE_LOG_INFO, "%s: %llu in %.1f s", progress->what, (unsigned long long)done,
                   seconds);
    }
}
