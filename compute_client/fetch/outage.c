#include "compute_client/fetch/outage.h"

#include "compute_client/loader/tuning.h"

bool sluice_outage_lost(struct sluice_outage *outage, uint64_t at_ns, uint64_t *untold)
{
    if (outage->since_ns == 0) {
        /* Somebody else's stream ended before the server came back, and is seen only now. */
        if (outage->num > 0 && at_ns <= outage->back_ns)
            return false;
        outage->since_ns = at_ns ? at_ns : 1;
        outage->is_told = false;
        outage->num++;
    }
    const uint64_t full_ns = outage->full_ns > at_ns ? outage->full_ns : at_ns;
    if (outage->is_told ||
        full_ns + TUNING_TELL_OUTAGE_NS > at_ns + TUNING_OUTAGES_AT_ONCE * TUNING_TELL_OUTAGE_NS)
        return false;
    outage->full_ns = full_ns + TUNING_TELL_OUTAGE_NS;
    outage->is_told = true;
    if (untold)
        *untold = outage->untold;
    outage->untold = 0;
    return true;
}

bool sluice_outage_back(struct sluice_outage *outage, uint64_t now_ns, double *away_s)
{
    if (outage->since_ns == 0)
        return false;
    *away_s = now_ns > outage->since_ns ? (double)(now_ns - outage->since_ns) * 1e-9 : 0;
    outage->since_ns = 0;
    outage->back_ns = now_ns;
    outage->untold += !outage->is_told;
    return outage->is_told;
}
