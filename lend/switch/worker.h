#ifndef SLUICE_LEND_SWITCH_WORKER_H
#define SLUICE_LEND_SWITCH_WORKER_H

#include "lend/switch/board.h"

/* A worker process of offload_switch, which the server starts (staff.h) as
 *
 *     offload_switch --as-worker ROLE LEND [the server's options...]
 *
 * ROLE is "inference" or "training"; LEND the socket at which the GPU is lent, "" for none.  It
 * serves orders until the server closes its socket, or the GPU fails.
 *
 * Threads: one. */

#define SWITCH_AS_WORKER "--as-worker"

/* argv as above; the exit code. */
int switch_worker_main(int argc, char **argv);

/* In the server: writes the weights of all models to the memory file that workers map.  Uses no GPU. */
SLUICE_MUST_USE sluice_status switch_load_weights(const struct switch_options *options, int fd,
                                                  struct sluice_err *err);

#endif
