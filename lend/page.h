#ifndef SLUICE_LEND_PAGE_H
#define SLUICE_LEND_PAGE_H

#include "base/compiler.h"
#include "lend/tuning.h"
#include "sluice/lend.h"

#include <stdatomic.h>

/* The memory that an owner shares with its borrowers: who has the GPU, who waits for it.
 *
 *     a slot:   idle --- cannot take now ---> waits
 *                ^  \                           |
 *                |   `------- take --------.    | take
 *                |                          v   v
 *                '--- give, take_back ------- has        the generation grows by 1
 *
 * Whoever changes the state to idle clears the slot's bit of the mask.  A process can end between
 * any two writes here.  What it leaves behind delays the owner's stream at most until the watchdog
 * calls release (its socket hung up) or reconcile (each tick), and delays another borrower by a few
 * times SLUICE_LEND_LOOK_NS.
 *
 * Promise: nothing here reads or writes outside the page, whatever a borrower wrote into it.
 *
 * Threads: any, of any process; one at a time for each slot on the borrower's side, and one for
 * assign, take_back, release and reconcile. */

#define SLUICE_LEND_PAGE_MAGIC 0x31504c53u /* "SLP1" */

enum { SLUICE_LEND_SLOTS = 32, SLUICE_LEND_PAGE_BYTES = 4096 };

enum sluice_lend_admission { SLUICE_LEND_SHUT, SLUICE_LEND_OPEN, SLUICE_LEND_ENDED };

struct sluice_lend_slot {
    SLUICE_ALIGNED(64) _Atomic uint32_t state; /* generation << 2 | idle, waits or has */
    _Atomic uint32_t priority;
    _Atomic uint64_t looked_ns; /* when its borrower last tried to take */
};

/* The mask is alone in its cache line: the GPU reads it all the time while a stream waits. */
struct sluice_lend_page {
    uint32_t magic;
    _Atomic uint32_t admission;   /* enum sluice_lend_admission */
    _Atomic uint32_t changes;     /* a futex: grows with each change that somebody may wait for */
    _Atomic uint32_t num_waiting; /* for it; too large after one of them was killed */
    SLUICE_ALIGNED(64) _Atomic uint32_t mask;
    SLUICE_ALIGNED(64) _Atomic uint64_t lent_since_ns; /* while the mask is not 0 */
    _Atomic uint64_t lent_ns;                          /* before that */
    _Atomic uint64_t waits[SLUICE_LEND_WAIT_BUCKETS], waited_ns;
    struct sluice_lend_slot slots[SLUICE_LEND_SLOTS];
};

/* --- the owner --- */

/* The memory is zeroed; the admission is shut. */
void sluice_lend_page_init(struct sluice_lend_page *page);
void sluice_lend_page_admit(struct sluice_lend_page *page, enum sluice_lend_admission admission);
/* Gives the slot to another borrower; its generation. */
uint32_t sluice_lend_page_assign(struct sluice_lend_page *page, unsigned slot, uint32_t priority);
/* The slot's state if a borrower has the GPU by it, else 0: two equal ones are one request. */
uint32_t sluice_lend_page_request(const struct sluice_lend_page *page, unsigned slot);
/* Ends that request.  False: it has ended. */
bool sluice_lend_page_take_back(struct sluice_lend_page *page, unsigned slot, uint32_t request);
/* The slot's borrower is gone: idle, whatever it was, and its bit is clear.  True: it had the GPU. */
bool sluice_lend_page_release(struct sluice_lend_page *page, unsigned slot);
/* Clears bits whose slots do not have the GPU, where `suspects`, the bits of which that was so at
 * the call before, has them.  The new suspects. */
uint32_t sluice_lend_page_reconcile(struct sluice_lend_page *page, uint32_t suspects);
/* Ends all requests, and lets nobody take from now on.  What a borrower of now still writes after it
 * is cleared by the next call. */
void sluice_lend_page_end(struct sluice_lend_page *page);
/* How long the mask was not 0. */
uint64_t sluice_lend_page_lent_ns(const struct sluice_lend_page *page, uint64_t now_ns);

/* --- a borrower --- */

bool sluice_lend_page_is_valid(const struct sluice_lend_page *page);
/* Takes the GPU if the admission is open and no slot of a higher priority waits for it or has it.
 * SLUICE_E_AGAIN: not now; the slot waits.  SLUICE_E_CLOSED: the owner has ended, or gave the slot
 * to another.  `since_ns`: when the wait began. */
SLUICE_MUST_USE sluice_status sluice_lend_page_take(struct sluice_lend_page *page, unsigned slot,
                                                    uint32_t generation, uint64_t since_ns);
/* The slot does not wait any longer. */
void sluice_lend_page_leave(struct sluice_lend_page *page, unsigned slot, uint32_t generation);
/* False, and nothing is changed: it does not have the GPU in this generation. */
bool sluice_lend_page_give(struct sluice_lend_page *page, unsigned slot, uint32_t generation);

/* --- waiting in host memory --- */

/* After `seen` was read from page->changes and then nothing was found: waits for a change since, for
 * until_ns, or for SLUICE_LEND_LOOK_NS. */
void sluice_lend_page_wait(struct sluice_lend_page *page, uint32_t seen, uint64_t until_ns);

#endif
