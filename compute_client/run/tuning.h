#ifndef SLUICE_COMPUTE_CLIENT_RUN_TUNING_H
#define SLUICE_COMPUTE_CLIENT_RUN_TUNING_H

/* The output of an epoch for a person, and its intervals.
 *
 * Chosen by looking at it, not swept: nothing of the run depends on them.  "Half" and "twice" say
 * what half and twice the value do. */

/* s: time constant of the displayed rates (EWMA): long enough that digits can be read, short enough
 * that a change shows at once.  Half: digits jump from batch to batch; twice: a stall shows late.
 */
#define TUNING_SHOW_MEMORY_S 2.5
/* s: the same for the remaining time, which should not jump.  Half: it follows every stall;
 * twice: it stays wrong for a minute after the link has changed. */
#define TUNING_SHOW_LONG_MEMORY_S 25

/* The wait for a batch is displayed if it is longer than WAIT_S seconds and than WAIT_STEPS times
 * the usual.  Half: slow steps look like trouble; twice: a hanging server is displayed later. */
#define TUNING_SHOW_LONG_WAIT_S 2
#define TUNING_SHOW_LONG_WAIT_STEPS 3

/* ns from one live line on a terminal to the next: smooth to the eye, 1 ms of CPU a second.  Half:
 * twice the CPU for what nobody sees; twice: the bar moves in jerks. */
#define TUNING_SHOW_TERMINAL_NS 100000000u
/* ns between two readings of the counters without a terminal, so that a line's rates are of the
 * last seconds, too.  Half: more wake-ups; twice: still several for each TUNING_SHOW_MEMORY_S. */
#define TUNING_SHOW_LOOK_NS 500000000u
/* ns between two lines of the log.  Half: a day's log of 35,000 lines; twice: a person who waits
 * for the next one thinks that the run hangs. */
#define TUNING_SHOW_LINE_NS 5000000000u

#endif
