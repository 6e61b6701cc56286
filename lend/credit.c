#include "lend/credit.h"

void sluice_lend_credit_init(struct sluice_lend_credit *credit, enum sluice_lend_when when,
                             double share, uint64_t now_ns)
{
    *credit = (struct sluice_lend_credit){.when = when, .share = share, .now_ns = now_ns};
    if (when == SLUICE_LEND_SHARE)
        credit->ns = SLUICE_LEND_FIRST_NS;
}

bool sluice_lend_credit_update(struct sluice_lend_credit *credit, uint64_t now_ns, uint64_t lent_ns,
                               uint64_t waited_ns)
{
    const double earned = credit->when == SLUICE_LEND_SHARE
                              ? credit->share * (double)(now_ns - credit->now_ns)
                              : (double)(waited_ns - credit->waited_ns);
    credit->ns += earned - (double)(lent_ns - credit->lent_ns);
    if (credit->ns > SLUICE_LEND_CREDIT_NS)
        credit->ns = SLUICE_LEND_CREDIT_NS;
    credit->now_ns = now_ns;
    credit->lent_ns = lent_ns;
    credit->waited_ns = waited_ns;
    return credit->when == SLUICE_LEND_ALWAYS || credit->ns > 0;
}
