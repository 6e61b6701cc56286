#include "compute_client/run/batch_log.h"

#include "base/clock.h"
#include "base/line_writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of lines that are written together, and nanoseconds after which fewer are. */
#define MANY_BYTES 4096
#define LONG_NS 1000000000u

struct sluice_batch_log {
    struct sluice_line_writer *writer;
    uint64_t written_ns; /* or tried */
};

static void SLUICE_PRINTF(3, 4) append(char *text, size_t capacity, const char *fmt, ...)
{
    const size_t used = strlen(text);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + used, capacity - used, fmt, args);
    va_end(args);
}

sluice_status sluice_batch_log_open(const char *path, struct sluice_batch_log **out,
                                    struct sluice_err *err)
{
    struct sluice_batch_log *log = calloc(1, sizeof(*log));
    if (!log)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the log of batches");
    char header[512] = "epoch,batch,phase,samples";
    SLUICE_EACH_RESOURCE (i, SLUICE_STALLS)
        append(header, sizeof(header), ",%s_s", sluice_stall_name((enum sluice_resource)i));
    append(header, sizeof(header), ",bound_by\n");
    const sluice_status status = sluice_line_writer_open(path, -1, path, header, &log->writer, err);
    if (status != SLUICE_OK) {
        free(log);
        return status;
    }
    *out = log;
    return SLUICE_OK;
}

void sluice_batch_log_add(struct sluice_batch_log *log, const struct sluice_batch_entry *entry)
{
    if (!log)
        return;
    char line[512] = "";
    append(line, sizeof(line), "%llu,%llu,%s,%u", (unsigned long long)entry->epoch,
           (unsigned long long)entry->batch, entry->is_evaluation ? "val" : "train",
           entry->samples);
    SLUICE_EACH_RESOURCE (i, SLUICE_STALLS)
        append(line, sizeof(line), ",%.6f", (double)entry->stall_ns[i] * 1e-9);
    append(line, sizeof(line), ",%s\n", sluice_stall_name(sluice_stall_largest(entry->stall_ns)));
    sluice_line_writer_add(log->writer, line);
    const uint64_t now = sluice_clock_ns();
    const uint64_t waiting = sluice_line_writer_waiting(log->writer);
    /* Not for each line of a file that cannot be written. */
    if ((waiting >= MANY_BYTES && waiting < 2 * MANY_BYTES) || now - log->written_ns >= LONG_NS) {
        sluice_line_writer_flush(log->writer);
        log->written_ns = now;
    }
}

sluice_status sluice_batch_log_close(struct sluice_batch_log *log, struct sluice_err *err)
{
    if (!log)
        return SLUICE_OK;
    const sluice_status status = sluice_line_writer_close(log->writer, err);
    free(log);
    return status;
}
