#include "rpc/grpc151/host_pauses.h"

#define PAUSE_NS 1000000000u
#define MAX_PAUSE_DOUBLINGS 6
#define FORGIVE_NS 60000000000u

bool host_pauses_has(const struct host_pauses *pauses, const struct sluice_host *host,
                     uint64_t now_ns)
{
    for (unsigned i = 0; i < HOST_PAUSES_MAX; i++) {
        const struct paused_host *paused = &pauses->hosts[i];
        if (paused->cuts == 0 || !sluice_host_is_same(&paused->host, host))
            continue;
        const unsigned doublings =
            paused->cuts - 1 < MAX_PAUSE_DOUBLINGS ? paused->cuts - 1 : MAX_PAUSE_DOUBLINGS;
        return now_ns - paused->cut_ns < (uint64_t)PAUSE_NS << doublings;
    }
    return false;
}

void host_pauses_add(struct host_pauses *pauses, const struct sluice_host *host, uint64_t now_ns)
{
    struct paused_host *place = &pauses->hosts[0];
    for (unsigned i = 0; i < HOST_PAUSES_MAX; i++) {
        struct paused_host *paused = &pauses->hosts[i];
        if (paused->cuts > 0 && sluice_host_is_same(&paused->host, host)) {
            if (now_ns - paused->cut_ns > FORGIVE_NS)
                paused->cuts = 0;
            place = paused;
            break;
        }
        if (paused->cut_ns < place->cut_ns)
            place = paused;
    }
    if (!sluice_host_is_same(&place->host, host))
        place->cuts = 0;
    place->host = *host;
    place->cuts++;
    place->cut_ns = now_ns;
}
