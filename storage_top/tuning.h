#ifndef SLUICE_STORAGE_TOP_TUNING_H
#define SLUICE_STORAGE_TOP_TUNING_H

/* Tuned constants of offload_top.
 *
 * Threads: constants. */

/* ms that a server has to answer before it is shown as away.  On two cores that a server and a
 * trainer kept busy, connecting, two answers and the start of the program took 0.18 s at most of 30
 * times.  Half: a server behind a slow link is away more often; twice: a line is frozen for longer.
 */
#define TUNING_ANSWER_MS 3000u

/* ms between two looks at the keyboard and the answers: 0.1% of a core with one server.  Half:
 * twice that; twice: keys feel slow. */
#define TUNING_LOOK_MS 100

#endif
