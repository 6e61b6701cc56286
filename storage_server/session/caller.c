#include "storage_server/session/caller.h"

#include "base/clock.h"
#include "storage_server/session/grant.h"
#include "storage_server/session/memory_budget.h"
#include "storage_server/session/rate_limit.h"
#include "storage_server/session/security.h"
#include "storage_server/session/session.h"

#include <stdlib.h>

enum sluice_rpc_code sluice_caller_admit(void *ctx, const struct sluice_rpc_caller *who,
                                         void **caller, struct sluice_err *why)
{
    const struct sluice_admission *admission = ctx;
    struct sluice_grant *grant = NULL;
    if (admission->security) {
        const enum sluice_rpc_code code =
            sluice_security_admit(admission->security, who, &grant, why);
        if (code != SLUICE_RPC_OK)
            return code;
    }
    struct sluice_caller *made = malloc(sizeof(*made));
    struct sluice_session *session =
        made ? sluice_session_open(admission->sessions, who->peer) : NULL;
    if (!session) {
        free(made);
        sluice_security_release(grant, who->peer);
        sluice_fail(why, SLUICE_E_NO_MEMORY, "no memory for a call");
        return SLUICE_RPC_RESOURCE_EXHAUSTED;
    }
    sluice_rate_limit_join(admission->link, &session->link);
    *made = (struct sluice_caller){session, grant};
    *caller = made;
    return SLUICE_RPC_OK;
}

void sluice_caller_release(void *ctx, void *caller, const char *peer)
{
    const struct sluice_admission *admission = ctx;
    struct sluice_caller *gone = caller;
    sluice_rate_limit_leave(admission->link, &gone->session->link);
    sluice_session_unref(gone->session);
    sluice_security_release(gone->grant, peer);
    free(gone);
}

bool sluice_caller_is_over(void *ctx)
{
    const struct sluice_admission *admission = ctx;
    return sluice_memory_is_beyond(admission->memory);
}

uint64_t sluice_caller_pace(void *ctx, void *caller, size_t bytes)
{
    const struct sluice_admission *admission = ctx;
    const struct sluice_caller *one = caller;
    const uint64_t now_ns = sluice_clock_ns();
    uint64_t wait_ns = sluice_grant_wait_ns(one->grant, now_ns);
    if (!wait_ns)
        wait_ns = sluice_rate_limit_take(admission->link, &one->session->link, bytes, now_ns);
    if (!wait_ns)
        sluice_grant_spend(one->grant, bytes);
    return wait_ns;
}
