/* A run's log as any bytes: what is read has finite numbers and text of one line, and every
 * question about it has an answer. */

#include "base/log.h"
#include "base/text.h"
#include "profiler/runs.h"

#include "fuzz_file.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"run.jsonl", NULL};

static void remove_links(void)
{
    fuzz_remove_links(names);
}

static void check_number(double value)
{
    FUZZ_CHECK(isfinite(value) || isnan(value));
}

static void check_epoch(const struct sluice_runs *runs, size_t item)
{
    const struct sluice_run_epoch *epoch = &runs->items[item];
    const double numbers[] = {epoch->epoch,      epoch->samples, epoch->samples_per_s,
                              epoch->wire_bytes, epoch->loss,    epoch->val_loss,
                              epoch->top1,       epoch->val_top1};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(numbers); i++)
        check_number(numbers[i]);
    FUZZ_CHECK(isfinite(epoch->seconds) && epoch->seconds >= 0 && epoch->to_s >= epoch->from_s);
    for (int r = 0; r < SLUICE_RUN_STALLS; r++)
        FUZZ_CHECK(isnan(epoch->stalls[r]) || (epoch->stalls[r] >= 0 && epoch->stalls[r] <= 1));
    FUZZ_CHECK(sluice_is_utf8(epoch->mode) && !strchr(epoch->mode, '\n'));
    FUZZ_CHECK(sluice_is_utf8(epoch->choices) && !strchr(epoch->choices, '\n'));
    FUZZ_CHECK(epoch->run < runs->num_runs && epoch->file < runs->num_files);
    check_number(sluice_runs_baseline_bytes(runs, item));
    (void)sluice_runs_digest_is_equal(runs, item);
    (void)sluice_runs_is_comparable(runs, item);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0) {
        fd = fuzz_file_open(names[0]);
        atexit(remove_links);
        sluice_log_set_level(SLUICE_LOG_ERROR);
    }
    if (size > 1 << 16) /* the comparisons are of each epoch with each */
        return 0;
    fuzz_file_set(fd, data, size);
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", fuzz_folder, names[0]);
    struct sluice_runs runs = {0};
    struct sluice_err err = {0};
    const sluice_status status = sluice_runs_read(path, &runs, &err);
    FUZZ_CHECK(status == SLUICE_OK ? runs.num_items > 0 : err.text[0] && runs.num_items == 0);
    for (size_t i = 0; i < runs.num_items; i++)
        check_epoch(&runs, i);
    sluice_runs_clear(&runs);
    return 0;
}
