#include "storage_server/session/pacer.h"

#include "storage_server/session/grant.h"
#include "storage_server/session/rate_limit.h"
#include "storage_server/session/session.h"

#include <stdlib.h>

struct sluice_pacer {
    struct sluice_rate_limit *limit;
    struct sluice_session *session; /* a reference */
    struct sluice_grant *grant;     /* a reference; NULL: no token */
};

struct sluice_pacer *sluice_pacer_open(struct sluice_rate_limit *limit,
                                       struct sluice_sessions *sessions, const char *peer,
                                       struct sluice_grant *grant)
{
    struct sluice_pacer *pacer = malloc(sizeof(*pacer));
    struct sluice_session *session = pacer ? sluice_session_open(sessions, peer) : NULL;
    if (!session) {
        free(pacer);
        return NULL;
    }
    sluice_rate_limit_join(limit, &session->link);
    *pacer = (struct sluice_pacer){limit, session, sluice_grant_ref(grant)};
    return pacer;
}

void sluice_pacer_close(struct sluice_pacer *pacer)
{
    sluice_rate_limit_leave(pacer->limit, &pacer->session->link);
    sluice_session_unref(pacer->session);
    sluice_grant_unref(pacer->grant);
    free(pacer);
}

uint64_t sluice_pacer_take(struct sluice_rate_limit *limit, struct sluice_pacer *pacer,
                           size_t bytes, uint64_t now_ns)
{
    struct sluice_grant *grant = pacer ? pacer->grant : NULL;
    uint64_t wait_ns = sluice_grant_wait_ns(grant, now_ns);
    if (!wait_ns)
        wait_ns =
            sluice_rate_limit_take(limit, pacer ? &pacer->session->link : NULL, bytes, now_ns);
    if (!wait_ns)
        sluice_grant_spend(grant, bytes);
    return wait_ns;
}
