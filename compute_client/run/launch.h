#ifndef SLUICE_COMPUTE_CLIENT_RUN_LAUNCH_H
#define SLUICE_COMPUTE_CLIENT_RUN_LAUNCH_H

/* --gpus N: starts this program N times with the same arguments, one process for each rank, and
 * waits for all.  RANK, LOCAL_RANK, WORLD_SIZE and the variables of options.h tell each its place.
 *
 * SIGTERM, SIGINT and SIGHUP stop all ranks as they stop one process, and a second SIGTERM or
 * SIGINT kills them.  SIGUSR1 goes to all.  If a rank fails, the others are stopped, and killed
 * if they do not end soon.  If this process is killed, the ranks get a SIGTERM.
 *
 * Returns the exit code: 0, all ranks succeeded; that of the first rank that failed (128 and the
 * number of the signal that killed it); 128 and the number of the signal that stopped the run.
 *
 * Call it on the only thread, before anything else starts one. */
int sluice_launch(unsigned num_ranks, char **argv);

#endif
