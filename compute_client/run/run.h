#ifndef SLUICE_COMPUTE_CLIENT_RUN_RUN_H
#define SLUICE_COMPUTE_CLIENT_RUN_RUN_H

#include "compute_client/options/options_table.h"

/* The program behind the command line: connect, plan, train, evaluate, report.
 *
 * A stop (base/quit.h, which must be initialised) ends it between two batches, with a checkpoint if
 * one was asked for.  Output that cannot be written ends nothing; it is tried again.
 *
 * Returns the exit code, and has printed why: 0, all epochs are done; 1, a failure, or output that
 * is missing at the end; 128 and the number of the signal, stopped by it before the end.
 *
 * Threads: once, on the main thread. */
int sluice_run(const struct sluice_options *options, const struct sluice_loader_settings *settings);

#endif
