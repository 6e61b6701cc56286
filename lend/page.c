#include "lend/page.h"

#include "base/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { IDLE, WAITS, HAS, STATE_MASK = 3 };

_Static_assert(sizeof(struct sluice_lend_page) <= SLUICE_LEND_PAGE_BYTES, "the page holds it");
_Static_assert(sizeof(_Atomic uint32_t) == 4 && ATOMIC_LLONG_LOCK_FREE == 2,
               "processes share atomics");

/* All atomics here are sequentially consistent.  Who waits reads `changes`, looks at the page, is
 * counted, and sleeps if `changes` is still the same; who changes the page does so, adds to `changes`,
 * and looks whether anybody is counted. */

static uint32_t state_of(uint32_t generation, uint32_t state)
{
    return generation << 2 | state;
}

static uint32_t next_idle(uint32_t state)
{
    return state_of((state >> 2) + 1, IDLE);
}

static void wake(struct sluice_lend_page *page)
{
    atomic_fetch_add(&page->changes, 1);
    /* Not FUTEX_PRIVATE: the waiting are in several processes. */
    if (atomic_load(&page->num_waiting) > 0)
        syscall(SYS_futex, &page->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* lent_since_ns never decreases: set_bit() raises it to the time of the first bit, clear_bits() to the end of
 * the time that it adds to lent_ns.  So no time is added twice; if a process dies in between, some is lost. */
static void set_bit(struct sluice_lend_page *page, unsigned slot, uint64_t now_ns)
{
    uint64_t since = atomic_load(&page->lent_since_ns);
    while (atomic_load(&page->mask) == 0 && since < now_ns &&
           !atomic_compare_exchange_weak(&page->lent_since_ns, &since, now_ns))
        ;
    atomic_fetch_or(&page->mask, 1u << slot);
}

static void clear_bits(struct sluice_lend_page *page, uint32_t bits)
{
    const uint64_t now = sluice_clock_ns();
    uint64_t since = atomic_load(&page->lent_since_ns);
    const uint32_t before = atomic_fetch_and(&page->mask, ~bits);
    if ((before & bits) != 0 && (before & ~bits) == 0 && now > since &&
        atomic_compare_exchange_strong(&page->lent_since_ns, &since, now))
        atomic_fetch_add(&page->lent_ns, now - since);
    wake(page);
}

void sluice_lend_page_init(struct sluice_lend_page *page)
{
    page->magic = SLUICE_LEND_PAGE_MAGIC;
}

bool sluice_lend_page_is_valid(const struct sluice_lend_page *page)
{
    return page->magic == SLUICE_LEND_PAGE_MAGIC;
}

void sluice_lend_page_admit(struct sluice_lend_page *page, enum sluice_lend_admission admission)
{
    if (atomic_exchange(&page->admission, admission) != admission)
        wake(page);
}

uint32_t sluice_lend_page_assign(struct sluice_lend_page *page, unsigned slot, uint32_t priority)
{
    /* Another generation, so that a borrower that had the slot before cannot take. */
    const uint32_t idle = next_idle(atomic_load(&page->slots[slot].state));
    atomic_store(&page->slots[slot].state, idle);
    atomic_store(&page->slots[slot].priority, priority);
    return idle >> 2;
}

uint32_t sluice_lend_page_request(const struct sluice_lend_page *page, unsigned slot)
{
    const uint32_t state = atomic_load(&page->slots[slot].state);
    return (state & STATE_MASK) == HAS ? state : 0;
}

bool sluice_lend_page_take_back(struct sluice_lend_page *page, unsigned slot, uint32_t request)
{
    if (!atomic_compare_exchange_strong(&page->slots[slot].state, &request, next_idle(request)))
        return false;
    clear_bits(page, 1u << slot);
    return true;
}

bool sluice_lend_page_release(struct sluice_lend_page *page, unsigned slot)
{
    _Atomic uint32_t *place = &page->slots[slot].state;
    uint32_t state = atomic_load(place);
    while (!atomic_compare_exchange_weak(place, &state, next_idle(state)))
        ;
    clear_bits(page, 1u << slot);
    return (state & STATE_MASK) == HAS;
}

uint32_t sluice_lend_page_reconcile(struct sluice_lend_page *page, uint32_t suspects)
{
    uint32_t found = 0;
    const uint32_t mask = atomic_load(&page->mask);
    for (unsigned slot = 0; slot < SLUICE_LEND_SLOTS; slot++)
        if ((mask & 1u << slot) && !sluice_lend_page_request(page, slot))
            found |= 1u << slot;
    const uint32_t wrong = found & suspects;
    if (wrong != 0)
        clear_bits(page, wrong);
    /* Its borrower may have taken the GPU since. */
    for (unsigned slot = 0; slot < SLUICE_LEND_SLOTS; slot++)
        if ((wrong & 1u << slot) && sluice_lend_page_request(page, slot))
            set_bit(page, slot, sluice_clock_ns());
    return found & ~wrong;
}

void sluice_lend_page_end(struct sluice_lend_page *page)
{
    sluice_lend_page_admit(page, SLUICE_LEND_ENDED);
    for (unsigned slot = 0; slot < SLUICE_LEND_SLOTS; slot++) {
        const uint32_t request = sluice_lend_page_request(page, slot);
        if (request)
            sluice_lend_page_take_back(page, slot, request);
    }
    clear_bits(page, UINT32_MAX);
}

uint64_t sluice_lend_page_lent_ns(const struct sluice_lend_page *page, uint64_t now_ns)
{
    const uint64_t before = atomic_load(&page->lent_ns), since = atomic_load(&page->lent_since_ns);
    const bool is_lent = atomic_load(&page->mask) != 0;
    return before + (is_lent && now_ns > since ? now_ns - since : 0);
}

static bool has_higher(const struct sluice_lend_page *page, unsigned slot, uint64_t now_ns)
{
    const uint32_t priority = atomic_load(&page->slots[slot].priority);
    for (unsigned i = 0; i < SLUICE_LEND_SLOTS; i++) {
        const struct sluice_lend_slot *other = &page->slots[i];
        const uint32_t state = atomic_load(&other->state) & STATE_MASK;
        if (atomic_load(&other->priority) > priority &&
            (state == HAS ||
             (state == WAITS && atomic_load(&other->looked_ns) + 4 * SLUICE_LEND_LOOK_NS > now_ns)))
            return true;
    }
    return false;
}

static void count_wait(struct sluice_lend_page *page, uint64_t ns)
{
    unsigned bucket = 0;
    while (bucket + 1 < SLUICE_LEND_WAIT_BUCKETS && ns / 1000 >> bucket != 0)
        bucket++;
    atomic_fetch_add_explicit(&page->waits[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&page->waited_ns, ns, memory_order_relaxed);
}

sluice_status sluice_lend_page_take(struct sluice_lend_page *page, unsigned slot,
                                    uint32_t generation, uint64_t since_ns)
{
    _Atomic uint32_t *place = &page->slots[slot].state;
    uint32_t state = atomic_load(place);
    if (state != state_of(generation, IDLE) && state != state_of(generation, WAITS))
        return SLUICE_E_CLOSED;
    const uint32_t admission = atomic_load(&page->admission);
    if (admission == SLUICE_LEND_ENDED)
        return SLUICE_E_CLOSED;
    const uint64_t now = sluice_clock_ns();
    atomic_store(&page->slots[slot].looked_ns, now);
    const bool may = admission == SLUICE_LEND_OPEN && !has_higher(page, slot, now);
    if (!atomic_compare_exchange_strong(place, &state, state_of(generation, may ? HAS : WAITS)))
        return SLUICE_E_CLOSED;
    if (!may)
        return SLUICE_E_AGAIN;
    set_bit(page, slot, now);
    /* The owner may have ended and cleared the mask since. */
    if (atomic_load(&page->admission) == SLUICE_LEND_ENDED) {
        sluice_lend_page_give(page, slot, generation);
        return SLUICE_E_CLOSED;
    }
    count_wait(page, now > since_ns ? now - since_ns : 0);
    return SLUICE_OK;
}

void sluice_lend_page_leave(struct sluice_lend_page *page, unsigned slot, uint32_t generation)
{
    uint32_t waits = state_of(generation, WAITS);
    if (atomic_compare_exchange_strong(&page->slots[slot].state, &waits,
                                       state_of(generation, IDLE)))
        wake(page); /* those of lower priority */
}

bool sluice_lend_page_give(struct sluice_lend_page *page, unsigned slot, uint32_t generation)
{
    return sluice_lend_page_take_back(page, slot, state_of(generation, HAS));
}

void sluice_lend_page_wait(struct sluice_lend_page *page, uint32_t seen, uint64_t until_ns)
{
    const uint64_t now = sluice_clock_ns();
    const uint64_t left = until_ns > now ? until_ns - now : 0;
    const struct timespec most =
        sluice_clock_timespec(left < SLUICE_LEND_LOOK_NS ? left : SLUICE_LEND_LOOK_NS);
    atomic_fetch_add(&page->num_waiting, 1);
    syscall(SYS_futex, &page->changes, FUTEX_WAIT, seen, &most, NULL, 0);
    atomic_fetch_sub(&page->num_waiting, 1);
}
