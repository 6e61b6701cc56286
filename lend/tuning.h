#ifndef SLUICE_LEND_TUNING_H
#define SLUICE_LEND_TUNING_H

/* Constants of lend/, chosen and not swept.  "Half" and "twice" say what half and twice do. */

/* ms between two looks of the watchdog at the page while a borrower is connected.  Half: 200 wake-ups
 * a second; twice: points wait up to 40 ms for a bit that a dead process left. */
#define SLUICE_LEND_TICK_MS 10
/* The same while nobody is connected, as a process that was connected can still set a bit.  Half: two
 * wake-ups a second; twice: such a bit delays the owner for 2 s. */
#define SLUICE_LEND_REST_MS 1000
/* ns after which a process that waits in host memory looks again, as the one that was to wake it may
 * have died.  A waiter that has not looked for four times as long holds up nobody of lower priority.
 * Half: 40 wake-ups a second; twice: a dead waiter holds up others for 400 ms. */
#define SLUICE_LEND_LOOK_NS 50000000u
/* ms that owner and borrower wait for each other's message.  Half: a busy machine's borrowers may be
 * refused; twice: silent connections keep their places for 10 s. */
#define SLUICE_LEND_ANSWER_MS 5000
/* ns: the most credit.  Half: bursts of requests end sooner; twice: an idle time is lent long after. */
#define SLUICE_LEND_CREDIT_NS 1000000000
/* ns: the first credit of a share.  Half: the first request may wait; twice: a short run lends more. */
#define SLUICE_LEND_FIRST_NS 100000000

#endif
