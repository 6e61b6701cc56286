#ifndef SLUICE_COMPUTE_CLIENT_RUN_RUN_H
#define SLUICE_COMPUTE_CLIENT_RUN_RUN_H

#include "base/error.h"
#include "compute_client/run/options.h"

/* The program behind the command line: connect, plan, train, evaluate, report.
 *
 * A stop (base/quit.h, which must be initialised) ends it between two batches,
 * with a checkpoint if one was asked for, and is a success.
 *
 * Threads: once, on the main thread. */
SLUICE_MUST_USE sluice_status sluice_run(const struct sluice_options *options,
                                         struct sluice_err *err);

#endif
