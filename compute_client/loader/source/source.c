#include "compute_client/loader/source/source.h"

static void let_go(struct sluice_source_result *result)
{
    sluice_shared_message_unref(result->message);
    result->message = NULL;
    result->arrived = (struct sluice_cursor){0};
}

sluice_status sluice_source_gather(struct sluice_source_result *result,
                                   struct sluice_buf_pool *pool, struct sluice_err *err)
{
    if (!result->message)
        return SLUICE_OK;
    const size_t len = sluice_cursor_left(&result->arrived);
    const sluice_status status =
        sluice_cursor_gather(&result->arrived, len, pool, &result->sample.data, err);
    if (status == SLUICE_OK)
        let_go(result);
    return status;
}

void sluice_source_result_clear(struct sluice_source_result *result)
{
    sluice_sample_clear(&result->sample);
    let_go(result);
}
