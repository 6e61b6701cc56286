#include "base/log.h"

#include <stdlib.h>

const char *sluice_version(void)
{
    return SLUICE_VERSION;
}

void sluice_free(void *memory)
{
    free(memory);
}

void sluice_set_log(sluice_log_fn *log, void *ctx, enum sluice_log_level least)
{
    sluice_log_set_level(least);
    sluice_log_set_sink(log, ctx);
}
