#ifndef SLUICE_LEND_CREDIT_H
#define SLUICE_LEND_CREDIT_H

#include "lend/tuning.h"
#include "sluice/lend.h"

/* How long the owner may still lend: a token bucket of nanoseconds.  It fills with a share of the
 * time, or with the time that the owner waited for data, up to SLUICE_LEND_CREDIT_NS; what was lent
 * is taken out, also below 0.  The owner lends while there is something in it.
 *
 * Threads: one at a time. */

struct sluice_lend_credit {
    enum sluice_lend_when when;
    double share;
    double ns;
    uint64_t now_ns, lent_ns, waited_ns; /* of the last call */
};

void sluice_lend_credit_init(struct sluice_lend_credit *credit, enum sluice_lend_when when,
                             double share, uint64_t now_ns);
/* Whether to lend, by the clock and the sums until now. */
bool sluice_lend_credit_update(struct sluice_lend_credit *credit, uint64_t now_ns, uint64_t lent_ns,
                               uint64_t waited_ns);

#endif
