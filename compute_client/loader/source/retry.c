#include "compute_client/loader/source/retry.h"

#define FIRST_WAIT_NS 50000000ull
#define MAX_WAIT_NS 2000000000ull

struct sluice_retry sluice_retry_init(double patience_s, uint64_t jitter_seed)
{
    return (struct sluice_retry){
        .patience_ns = (uint64_t)(patience_s * 1e9),
        .rng = sluice_rng_init(jitter_seed, 0, 0, 0),
    };
}

bool sluice_retry_failed(struct sluice_retry *retry, uint64_t now_ns, uint64_t *wait_ns)
{
    if (retry->since_ns == 0)
        retry->since_ns = now_ns ? now_ns : 1;
    const uint64_t end_ns = retry->since_ns + retry->patience_ns;
    if (now_ns >= end_ns)
        return false;
    uint64_t range = MAX_WAIT_NS;
    if (retry->attempt < 6 && (FIRST_WAIT_NS << retry->attempt) < MAX_WAIT_NS)
        range = FIRST_WAIT_NS << retry->attempt;
    retry->attempt++;
    const uint64_t half = range / 2;
    uint64_t wait = half + (uint64_t)((double)half * sluice_rng_double(&retry->rng));
    if (wait > end_ns - now_ns)
        wait = end_ns - now_ns;
    *wait_ns = wait;
    return true;
}

void sluice_retry_succeeded(struct sluice_retry *retry)
{
    retry->since_ns = 0;
    retry->attempt = 0;
}

bool sluice_retry_is_worth(sluice_status status)
{
    switch (status) {
    case SLUICE_E_IO:
    case SLUICE_E_NO_MEMORY:
    case SLUICE_E_AGAIN:
    case SLUICE_E_CLOSED:
    case SLUICE_E_INTERNAL:
    case SLUICE_E_STALE:
        return true;
    case SLUICE_OK:
    case SLUICE_E_INVALID:
    case SLUICE_E_CORRUPT:
    case SLUICE_E_UNSUPPORTED:
    case SLUICE_E_NOT_FOUND:
        break;
    }
    return false;
}
