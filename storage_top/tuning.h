#ifndef SLUICE_STORAGE_TOP_TUNING_H
#define SLUICE_STORAGE_TOP_TUNING_H

/* Tuned constants of offload_top.
 *
 * Threads: constants. */

/* ms: a server that does not answer within this time is shown as away.  On two cores that a server
 * and a trainer kept busy, the start of the program, connecting and two answers took at most 0.18 s
 * in 30 runs.  Half: a server behind a slow link is shown as away more often; twice: a line is
 * frozen for longer. */
#define TUNING_ANSWER_MS 3000u

/* ms between two checks of the keyboard and the answers: 0.1% of a core with one server.  Half:
 * 0.2%; twice: keys feel slow. */
#define TUNING_LOOK_MS 100

#endif
