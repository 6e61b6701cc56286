#include "image/codecs/decode_budget.h"

#include "base/clock.h"

void sluice_decode_budget_start(struct sluice_decode_budget *budget, uint64_t num_pixels)
{
    const uint64_t by_pixels = num_pixels * SLUICE_DECODE_CPU_NS_PER_PIXEL;
    *budget = (struct sluice_decode_budget){
        .allowed_ns = by_pixels > SLUICE_DECODE_CPU_NS ? by_pixels : SLUICE_DECODE_CPU_NS,
    };
}

bool sluice_decode_budget_look(struct sluice_decode_budget *budget)
{
    const uint64_t now_ns = sluice_thread_cpu_ns();
    budget->unlooked = 0;
    if (budget->end_ns == 0)
        budget->end_ns = now_ns + budget->allowed_ns;
    budget->is_spent = budget->is_spent || now_ns > budget->end_ns;
    return budget->is_spent;
}

sluice_status sluice_decode_budget_fail(const struct sluice_decode_budget *budget,
                                        struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                       "took more than %.3g s of CPU time to decode, the limit for its size",
                       (double)budget->allowed_ns * 1e-9);
}

sluice_status sluice_decode_check_scans(uint64_t num_pixels, uint64_t num_scans,
                                        struct sluice_err *err)
{
    uint64_t most = SLUICE_DECODE_MAX_PIXEL_SCANS / (num_pixels ? num_pixels : 1);
    const char *why = " for its size";
    if (most < SLUICE_DECODE_MIN_SCANS)
        most = SLUICE_DECODE_MIN_SCANS;
    if (most >= SLUICE_DECODE_MAX_SCANS) {
        most = SLUICE_DECODE_MAX_SCANS;
        why = "";
    }
    if (num_scans <= most)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                       "JPEG of %llu scans, more than the limit of %llu%s",
                       (unsigned long long)num_scans, (unsigned long long)most, why);
}
