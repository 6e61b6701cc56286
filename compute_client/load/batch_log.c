#include "compute_client/load/batch_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sluice_batch_log {
    FILE *file;
    char *path;
};

static sluice_status fail(const struct sluice_batch_log *log, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_IO, "cannot write %s: %s", log->path, strerror(errno));
}

sluice_status sluice_batch_log_open(const char *path, struct sluice_batch_log **out,
                                    struct sluice_err *err)
{
    struct sluice_batch_log *log = calloc(1, sizeof(*log));
    if (log)
        log->path = strdup(path);
    if (!log || !log->path) {
        free(log);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the log of batches");
    }
    log->file = fopen(path, "we");
    sluice_status status = log->file ? SLUICE_OK : fail(log, err);
    if (status == SLUICE_OK && fputs("epoch,batch,phase,samples", log->file) == EOF)
        status = fail(log, err);
    SLUICE_EACH_RESOURCE (i, SLUICE_STALLS) {
        if (status == SLUICE_OK &&
            fprintf(log->file, ",%s_s", sluice_stall_name((enum sluice_resource)i)) < 0)
            status = fail(log, err);
    }
    if (status == SLUICE_OK && fputs(",bound_by\n", log->file) == EOF)
        status = fail(log, err);
    if (status != SLUICE_OK) {
        if (log->file)
            fclose(log->file);
        free(log->path);
        free(log);
        return status;
    }
    *out = log;
    return SLUICE_OK;
}

sluice_status sluice_batch_log_add(struct sluice_batch_log *log,
                                   const struct sluice_batch_entry *entry, struct sluice_err *err)
{
    if (!log)
        return SLUICE_OK;
    if (fprintf(log->file, "%llu,%llu,%s,%u", (unsigned long long)entry->epoch,
                (unsigned long long)entry->batch, entry->is_evaluation ? "val" : "train",
                entry->samples) < 0)
        return fail(log, err);
    SLUICE_EACH_RESOURCE (i, SLUICE_STALLS) {
        if (fprintf(log->file, ",%.6f", (double)entry->stall_ns[i] * 1e-9) < 0)
            return fail(log, err);
    }
    if (fprintf(log->file, ",%s\n", sluice_stall_name(sluice_stall_largest(entry->stall_ns))) < 0)
        return fail(log, err);
    return SLUICE_OK;
}

sluice_status sluice_batch_log_close(struct sluice_batch_log *log, struct sluice_err *err)
{
    if (!log)
        return SLUICE_OK;
    const int failed = fclose(log->file);
    const sluice_status status = failed ? fail(log, err) : SLUICE_OK;
    free(log->path);
    free(log);
    return status;
}
