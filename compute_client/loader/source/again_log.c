#include "compute_client/loader/source/again_log.h"

#include "base/log.h"
#include "compute_client/loader/tuning.h"

#include <stdio.h>

void sluice_again_note(struct sluice_again_log *again, sluice_status status, const char *text)
{
    if (again->status != SLUICE_OK)
        return;
    again->status = status;
    snprintf(again->text, sizeof(again->text), "%s", text);
}

uint64_t sluice_again_due_ns(const struct sluice_again_log *again)
{
    if (again->status == SLUICE_OK)
        return 0;
    return again->told_ns ? again->told_ns + TUNING_TELL_AGAIN_NS : 1;
}

bool sluice_again_take(struct sluice_again_log *again, size_t count, uint64_t now_ns,
                       struct sluice_again_log *line)
{
    const uint64_t due_ns = sluice_again_due_ns(again);
    if (due_ns == 0 || now_ns < due_ns)
        return false;
    *line = *again;
    again->status = SLUICE_OK;
    if (count == 0)
        return false;
    again->told_ns = now_ns;
    return true;
}

void sluice_again_tell(const struct sluice_again_log *line, const char *place, size_t count)
{
    sluice_log(SLUICE_LOG_WARN, "%s: %zu sample%s asked for again; the first failure is %s: %s",
               place, count, count == 1 ? " is" : "s are", sluice_status_name(line->status),
               line->text);
}
