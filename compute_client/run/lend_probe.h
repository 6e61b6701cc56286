#ifndef SLUICE_COMPUTE_CLIENT_RUN_LEND_PROBE_H
#define SLUICE_COMPUTE_CLIENT_RUN_LEND_PROBE_H

#include "base/error.h"

#include <stdint.h>

/* Whether a GPU can be lent, tried in a process of its own, as the try may hang (sluice/lend.h).
 *
 * Threads: at start, on the main thread. */

/* The hidden command: offload_train --lend-probe GPU. */
#define SLUICE_LEND_PROBE_FLAG "--lend-probe"

/* SLUICE_E_UNSUPPORTED says why not, also if no answer comes within 20 s. */
SLUICE_MUST_USE sluice_status sluice_lend_probe_apart(int gpu, struct sluice_err *err);

/* The command itself: prints "ok", or why not; returns the exit code. */
int sluice_lend_probe_main(const char *gpu);

/* Runs a program (a path) until it has printed a line, and kills it: SLUICE_OK if that is "ok", else
 * it is the error.  SLUICE_E_UNSUPPORTED, too: none within `ns`. */
SLUICE_MUST_USE sluice_status sluice_lend_probe_run(const char *const *argv, uint64_t ns,
                                                    struct sluice_err *err);

#endif
